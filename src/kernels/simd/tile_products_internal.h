/* tile_products_internal.h — the products over tiles, type by type: what tiles_internal.h has to
 * know of each. Compiled once for each instruction set. */
#include "kernels/simd/tiles_internal.h"

static const int8_t iq4_table[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                     1,    13,   25,  38,  53,  69,  89,  113};
/* Twice the E2M1 values, and 12. */
static const int8_t fp4_table[16] = {12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0};

/* --- micro-tiles of staged chunks, by shape ------------------------------------------------------
 */

/* clang-format off */
/*                       low high table bias signed sum factor step offset */
#define SHAPE_k32_min   { 8, 0, NULL, 0, false, 32, 32, 256, TILE_MINIMA}
#define SHAPE_k32_min16 { 8, 0, NULL, 0, false, 16, 32, 256, TILE_MINIMA}
#define SHAPE_k16_min   { 8, 0, NULL, 0, false, 16, 16, 256, TILE_MINIMA}
#define SHAPE_k16       { 8, 0, NULL, 1, false, 16, 16, 256, TILE_PLAIN}
#define SHAPE_k         { 8, 0, NULL, 1, false, 32,  0, 256, TILE_PLAIN}
#define SHAPE_b32       { 8, 0, NULL, 1, false, 32,  0,  32, TILE_PLAIN}
#define SHAPE_b32_sum   { 8, 0, NULL, 0, false, 32,  0,  32, TILE_SUMS}
#define SHAPE_b32_sum16 { 8, 0, NULL, 0, false, 16,  0,  32, TILE_SUMS}
#if TILE_HAS_WORDS
#define SHAPE_s32       {16, 0, NULL, 0, true,  32,  0,  32, TILE_PLAIN}
#define SHAPE_sk        {16, 0, NULL, 0, true,  32,  0, 256, TILE_PLAIN}
#else
#define SHAPE_s32       { 8, 0, NULL, TILE_SIGNED_BIAS, false, 32,  0,  32, TILE_PLAIN}
#define SHAPE_sk        { 8, 0, NULL, TILE_SIGNED_BIAS, false, 32, 32, 256, TILE_PLAIN}
#endif
/* clang-format on */

#if TILE_WIDEST == 8
#define TILE_MICRO_8(shape) TILE_MICRO_OF(shape, 8)
#define MICRO_8(shape)      micro_##shape##_8
#else
#define TILE_MICRO_8(shape)
#define MICRO_8(shape) NULL
#endif

#define TILE_MICRO(shape)                                                                        \
    TILE_MICRO_OF(shape, 1)                                                                      \
    TILE_MICRO_OF(shape, 2)                                                                      \
    TILE_MICRO_OF(shape, 4)                                                                      \
    TILE_MICRO_8(shape)                                                                          \
    const tile_micro_fn TILE_NAME(qni_micro_##shape)[4] = {micro_##shape##_1, micro_##shape##_2, \
                                                           micro_##shape##_4, MICRO_8(shape)};
TILE_MICRO(k32_min)
TILE_MICRO(k32_min16)
TILE_MICRO(k16_min)
TILE_MICRO(k16)
TILE_MICRO(k)
TILE_MICRO(b32)
TILE_MICRO(b32_sum)
TILE_MICRO(b32_sum16)
TILE_MICRO(s32)
TILE_MICRO(sk)

/* --- types ---------------------------------------------------------------------------------------
 */

/* activations: q8 (q8_0 or q8_1) or q8_k. */
#define TILES(name, symbol, type, heads, shape, activations)                        \
    QNI_PROTO_dot_tiles(TILE_NAME(qni_dot_tiles_##name))                            \
    {                                                                               \
        const tile_kernel k = {type, QN_DTYPE_##symbol, BLOCK_##activations, heads, \
                               TILE_NAME(qni_micro_##shape)};                       \
        multiply_tiles(&k, tile);                                                   \
    }                                                                               \
    QNI_PROTO_arrange(TILE_NAME(qni_arrange_##name))                                \
    {                                                                               \
        const tile_type f = type;                                                   \
        arrange_##activations(&f, a, n_elems, out, stride);                         \
    }
#define BLOCK_q8   TILE_SUB
#define BLOCK_q8_k TILE_CHUNK
#define TYPE(...)   \
    {               \
        __VA_ARGS__ \
    }

/* clang-format off */
/*                       low high table bias signed sum factor step offset */
TILES(q4_0,   Q4_0,   TYPE(4, 0, NULL,       8, false, 32,  0,  32, TILE_PLAIN),  heads_halves, b32,       q8)
TILES(q4_1,   Q4_1,   TYPE(4, 0, NULL,       0, false, 32,  0,  32, TILE_SUMS),   heads_affine, b32_sum,   q8)
TILES(q5_0,   Q5_0,   TYPE(4, 1, NULL,      16, false, 32,  0,  32, TILE_PLAIN),  heads_halves, b32,       q8)
TILES(q5_1,   Q5_1,   TYPE(4, 1, NULL,       0, false, 16,  0,  32, TILE_SUMS),   heads_affine, b32_sum16, q8)
TILES(q8_0,   Q8_0,   TYPE(8, 0, NULL,       0, true,  32,  0,  32, TILE_PLAIN),  heads_halves, s32,       q8)
TILES(iq4_nl, IQ4_NL, TYPE(4, 0, iq4_table,  0, true,  32,  0,  32, TILE_PLAIN),  heads_halves, s32,       q8)
TILES(mxfp4,  MXFP4,  TYPE(4, 0, fp4_table, 12, false, 32,  0,  32, TILE_PLAIN),  heads_mxfp4,  b32,       q8)
TILES(q2_k,   Q2_K,   TYPE(2, 0, NULL,       0, false, 16, 16, 256, TILE_MINIMA), heads_q2_k,   k16_min,   q8_k)
TILES(q3_k,   Q3_K,   TYPE(2, 1, NULL,       4, false, 16, 16, 256, TILE_PLAIN),  heads_q3_k,   k16,       q8_k)
TILES(q4_k,   Q4_K,   TYPE(4, 0, NULL,       0, false, 32, 32, 256, TILE_MINIMA), heads_q45_k,  k32_min,   q8_k)
TILES(q5_k,   Q5_K,   TYPE(4, 1, NULL,       0, false, 16, 32, 256, TILE_MINIMA), heads_q45_k,  k32_min16, q8_k)
TILES(q6_k,   Q6_K,   TYPE(4, 2, NULL,      32, false, 16, 16, 256, TILE_PLAIN),  heads_q6_k,   k16,       q8_k)
TILES(iq4_xs, IQ4_XS, TYPE(4, 0, iq4_table,  0, true,  32, 32, 256, TILE_PLAIN),  heads_iq4_xs, sk,        q8_k)
TILES(tq2_0,  TQ2_0,  TYPE(2, 0, NULL,       1, false, 32,  0, 256, TILE_PLAIN),  heads_tq2_0,  k,         q8_k)
/* clang-format on */
