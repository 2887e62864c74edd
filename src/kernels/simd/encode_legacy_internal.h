/* encode_legacy_internal.h — q4_0, q4_1, q5_0, q5_1: 32 elements a block, sixteen blocks at a time.
 *
 * Three steps: the extremes of each block; in lanes, one a block, the scales and their reciprocals;
 * element by element the levels. A NaN never wins a maximum and its level is the low byte of -2^31,
 * as in the referee, without further care; what needs care is left to the referee, block by block.
 * Compiled once for each instruction set; the referees are scalar/q4_0_q5_0.c and its neighbours.
 */
#include <float.h>

#include "kernels/simd/encode_weighted_internal.h"

/* One field of a group of blocks, a block a lane. */
typedef struct legacy_group {
    float lo[VL];  /* least value */
    float hi[VL];  /* greatest value */
    float inv[VL]; /* 1 / scale, or 0 */
    uint16_t d16[VL];
    uint16_t m16[VL];
} legacy_group;

/* 1 / d, and 0 for d = 0. */
QNI_INLINE vf reciprocal(vf d)
{
    return vf_pick(vf_eq(d, vf_set(0.0f)), vf_set(0.0f), vf_div(vf_set(1.0f), d));
}

/* The first of 32 values with magnitude `mag`. */
static float first_of_magnitude(const float *x, float mag)
{
    int i = 0;
    while (i < BLOCK - 1 && fabsf(x[i]) != mag) {
        i++;
    }
    return x[i];
}

/* The value of largest magnitude with its sign, of equal ones the first. */
QNI_INLINE float block_extreme(const float *x)
{
    const vf zero = vf_set(0.0f);
    const vf a = vf_load(x);
    const vf b = vf_load(x + VL);
    const float hi = vf_reduce_max(vf_max(b, vf_max(a, zero)));
    const float lo = vf_reduce_min(vf_min(b, vf_min(a, zero)));
    if (hi == -lo) {
        return hi == 0.0f ? 0.0f : first_of_magnitude(x, hi);
    }
    return hi > -lo ? hi : lo;
}

/* --- q4_0, q5_0 ---------------------------------------------------------------------------------
 */

/* Scales of up to sixteen blocks, d = extreme / -m. */
QNI_INLINE qni_encode_result symmetric_scales(const float *x, int n, float m, legacy_group *group)
{
    for (int b = 0; b < VL; b++) {
        group->hi[b] = b < n ? block_extreme(x + BLOCK * b) : 0.0f;
    }
    const vf d = vf_div(vf_load(group->hi), vf_set(-m));
    vf_store(group->inv, reciprocal(d));
    return store_halves(group->d16, d);
}

QNI_INLINE vi symmetric_level(const float *x, vf inv, int m)
{
    const vf v = vf_add(vf_mul(vf_load(x), inv), vf_set((float)m + 0.5f));
    return vi_min(vi_trunc(v), vi_set(2 * m - 1));
}

static qni_encode_result q4_0_group(const float *x, int n, qni_block_q4_0 *block)
{
    legacy_group group;
    const qni_encode_result result = symmetric_scales(x, n, 8.0f, &group);
    for (int b = 0; b < n; b++, x += BLOCK, block++) {
        const vf inv = vf_set(group.inv[b]);
        const vi low = symmetric_level(x, inv, 8);
        const vi high = symmetric_level(x + VL, inv, 8);
        qni_store_u16le(block->d, group.d16[b]);
        vi_store_u8(block->qs, vi_or(low, vi_shl(high, 4)));
    }
    return result;
}

/* Nibbles and fifth bits of 32 levels; of a level that is not 0..31 (-2^31) the low five bits. */
QNI_INLINE void store_fifth_bits(vi low, vi high, uint8_t *qh, uint8_t *qs)
{
    const vi fifth = vi_set(16);
    const vi nibble = vi_set(15);
    const uint32_t bits = vm_bits(vi_eq(vi_and(low, fifth), fifth)) |
                          vm_bits(vi_eq(vi_and(high, fifth), fifth)) << 16;
    qni_store_u32le(qh, bits);
    const vi top = vi_and(high, nibble);
    vi_store_u8(qs, vi_or(vi_and(low, nibble), vi_shl(top, 4)));
}

static qni_encode_result q5_0_group(const float *x, int n, qni_block_q5_0 *block)
{
    legacy_group group;
    const qni_encode_result result = symmetric_scales(x, n, 16.0f, &group);
    for (int b = 0; b < n; b++, x += BLOCK, block++) {
        const vf inv = vf_set(group.inv[b]);
        qni_store_u16le(block->d, group.d16[b]);
        store_fifth_bits(symmetric_level(x, inv, 16), symmetric_level(x + VL, inv, 16), block->qh,
                         block->qs);
    }
    return result;
}

/* --- q4_1, q5_1 ---------------------------------------------------------------------------------
 */

/* Minimum and maximum. Of zeros of both signs the first is the minimum, and its sign is stored. */
QNI_INLINE void block_range(const float *x, float *lo, float *hi)
{
    const vf a = vf_load(x);
    const vf b = vf_load(x + VL);
    *hi = vf_reduce_max(vf_max(b, vf_max(a, vf_set(-FLT_MAX)))) + 0.0f; /* never -0: hi - lo = +0 */
    *lo = vf_reduce_min(vf_min(b, vf_min(a, vf_set(FLT_MAX))));
    if (*lo == 0.0f) {
        *lo = first_of_magnitude(x, 0.0f);
    }
}

QNI_INLINE qni_encode_result affine_scales(const float *x, int n, float m, legacy_group *group)
{
    for (int b = 0; b < VL; b++) {
        group->lo[b] = 0.0f;
        group->hi[b] = 0.0f;
        if (b < n) {
            block_range(x + BLOCK * b, &group->lo[b], &group->hi[b]);
        }
    }
    const vf lo = vf_load(group->lo);
    const vf hi = vf_load(group->hi);
    const vf d = vf_div(vf_sub(hi, lo), vf_set(m));
    vf_store(group->inv, reciprocal(d));
    return qni_worse(store_halves(group->d16, d), store_halves(group->m16, lo));
}

QNI_INLINE vi affine_levels_of(const float *x, vf lo, vf inv)
{
    const vf v = vf_mul(vf_sub(vf_load(x), lo), inv);
    return vi_trunc(vf_add(v, vf_set(0.5f)));
}

static qni_encode_result q4_1_group(const float *x, int n, qni_block_q4_1 *block)
{
    legacy_group group;
    const qni_encode_result result = affine_scales(x, n, 15.0f, &group);
    for (int b = 0; b < n; b++, x += BLOCK, block++) {
        const vf inv = vf_set(group.inv[b]);
        const vf lo = vf_set(group.lo[b]);
        const vi low = vi_min(affine_levels_of(x, lo, inv), vi_set(15));
        const vi high = vi_min(affine_levels_of(x + VL, lo, inv), vi_set(15));
        qni_store_u16le(block->d, group.d16[b]);
        qni_store_u16le(block->m, group.m16[b]);
        vi_store_u8(block->qs, vi_or(low, vi_shl(high, 4)));
    }
    return result;
}

static qni_encode_result q5_1_group(const float *x, int n, qni_block_q5_1 *block)
{
    legacy_group group;
    const qni_encode_result result = affine_scales(x, n, 31.0f, &group);
    for (int b = 0; b < n; b++, x += BLOCK, block++) {
        const vf inv = vf_set(group.inv[b]);
        const vf lo = vf_set(group.lo[b]);
        qni_store_u16le(block->d, group.d16[b]);
        qni_store_u16le(block->m, group.m16[b]);
        store_fifth_bits(affine_levels_of(x, lo, inv), affine_levels_of(x + VL, lo, inv), block->qh,
                         block->qs);
    }
    return result;
}

/* --- entry points -------------------------------------------------------------------------------
 */

/* Defines the encoder of a type with importance weights, and of one without. */
#define ENCODE_WEIGHTED(type)                                                                     \
    QNI_PROTO_encode(VEC_NAME(qni_encode_##type))                                                 \
    {                                                                                             \
        (void)tables;                                                                             \
        qni_block_##type *block = out;                                                            \
        if (weights) {                                                                            \
            return weighted_encode(type##_weighted, qni_encode_##type##_scalar, sizeof *block, x, \
                                   n_rows, row_len, weights, out);                                \
        }                                                                                         \
        return type##_groups(x, n_rows * (row_len / BLOCK), block);                               \
    }

#define ENCODE_GROUPS(type)                                                        \
    static qni_encode_result type##_groups(const float *x, int64_t n_blocks,       \
                                           qni_block_##type *block)                \
    {                                                                              \
        qni_encode_result result = QNI_ENCODE_OK;                                  \
        for (int64_t i = 0; i < n_blocks; i += VL) {                               \
            const int n = n_blocks - i < VL ? (int)(n_blocks - i) : VL;            \
            prefetch_next_piece(x + BLOCK * i, BLOCK * n);                         \
            result = qni_worse(result, type##_group(x + BLOCK * i, n, block + i)); \
        }                                                                          \
        return result;                                                             \
    }

ENCODE_GROUPS(q4_0)
ENCODE_GROUPS(q4_1)
ENCODE_GROUPS(q5_0)
ENCODE_GROUPS(q5_1)
ENCODE_WEIGHTED(q4_0)
ENCODE_WEIGHTED(q4_1)
ENCODE_WEIGHTED(q5_0)
ENCODE_WEIGHTED(q5_1)
