/* dot_format_avx2_internal.h — what the integer products on AVX2 of rows as they are have to know
 * of a format, and what both engines share.
 *
 * What is left to floats is one step of STEP elements, of integers that are exact:
 *
 *   y += (scale * da) * float(integer sum)  [ - (dmin * da) * float(sum of minima) | + m * sa ]
 *
 * in ascending order, each product and sum rounded once. Every shape does exactly that, so an
 * output has the same bits in any tile. */
#ifndef QNI_DOT_FORMAT_AVX2_INTERNAL_H
#define QNI_DOT_FORMAT_AVX2_INTERNAL_H

#include "kernels/x86/decode_avx2_internal.h"
#include "kernels/x86/sum_lanes_avx2_internal.h"
#include "kernels/x86/tile_avx2_internal.h"

#include "kernels/simd/tiles_internal.h"

enum {
    CHUNK = 256, /* elements handled at once */
    FEW_COLS = 3 /* up to here a transposition does not pay */
};

typedef enum dot_offset { DOT_PLAIN, DOT_MINIMA, DOT_SUMS } dot_offset;

/* What a block says besides its codes. */
typedef struct block_head {
    float scale[4]; /* of each step in the block */
    float offset;   /* dmin, or m */
    QNI_ALIGNED(32) int16_t factor[16];
    QNI_ALIGNED(32) int16_t minima[16]; /* of each 16 elements */
    QNI_ALIGNED(32) uint16_t index[64]; /* of points (codebook types) */
    QNI_ALIGNED(32) uint8_t octet[32];  /* what eight elements share: signs, or a shift */
} block_head;

typedef void (*dot_begin_fn)(const void *block, block_head *head);
typedef __m256i (*dot_bytes_fn)(const void *block, const block_head *head, int j);
typedef __m256 (*dot_scales_fn)(__m256i words);

/* A format: all members are constants where the engine is inlined. */
typedef struct dot_format {
    dot_begin_fn begin;
    dot_bytes_fn bytes;   /* codes of elements 32 j .. 32 j + 31 of the block, plus tile.bias */
    dot_bytes_fn signs;   /* or their magnitudes, and -1 where they are negative; or NULL */
    dot_scales_fn scales; /* of blocks from their first four bytes; NULL for super-blocks */
    bool has_points;      /* of a codebook */
    bool has_factors;     /* the codes of 16 elements are to be multiplied by head.factor */
    int n_elems;          /* of a block */
    int n_bytes;
    int step;
    dot_offset offset;
    int act_elems; /* 32 or 256: of an activation block */
    int act_bytes;
    int act_codes_at;           /* where its levels begin */
    const tile_micro_fn *micro; /* for staged tiles (simd/tiles_internal.h); or NULL: */
    tile_type tile;             /* what they hold */
} dot_format;

/* Kernels of tiles_avx2.c. */
#define TILE_SHAPE(name) extern const tile_micro_fn qni_micro_##name##_avx2[4];
TILE_SHAPE(k32_min)
TILE_SHAPE(k32_min16)
TILE_SHAPE(k16_min)
TILE_SHAPE(k16)
TILE_SHAPE(k)
TILE_SHAPE(b32)
TILE_SHAPE(b32_sum)
TILE_SHAPE(b32_sum16)
TILE_SHAPE(s32)
TILE_SHAPE(sk)
#undef TILE_SHAPE

QNI_INLINE __m256i load_i16(const int16_t *p)
{
    return _mm256_load_si256((const __m256i *)(const void *)p);
}

QNI_INLINE void store_i16(int16_t *p, __m256i v)
{
    _mm256_store_si256((__m256i *)(void *)p, v);
}

/* Eight integers as 16-bit ones, each twice. */
QNI_INLINE __m256i twice_i16(__m256i v)
{
    return _mm256_blend_epi16(v, _mm256_slli_epi32(v, 16), 0xaa);
}

#endif
