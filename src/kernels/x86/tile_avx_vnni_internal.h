/* tile_avx_vnni_internal.h — the primitives of products over tiles on AVX-VNNI: vpdpbusd adds four
 * products to a 32-bit lane. Names and meanings are those of tile_avx2_internal.h. */
#ifndef QNI_TILE_AVX_VNNI_INTERNAL_H
#define QNI_TILE_AVX_VNNI_INTERNAL_H

#include "kernels/x86/tile_ymm_internal.h"

#define TILE_NAME(base) base##_avx_vnni

#define TILE_HAS_WORDS 0

enum { TILE_SUM_BITS = 32, TILE_SIGNED_BIAS = 128 /* codes with a sign become unsigned */ };

QNI_INLINE tile_w tile_flip(tile_w w)
{
    const __m256i top = _mm256_set1_epi8(-128);
    return (tile_w){_mm256_xor_si256(w.a, top), _mm256_xor_si256(w.b, top)};
}

QNI_INLINE tile_s tile_add(tile_s s, tile_w w, const int8_t *levels)
{
    const __m256i four = broadcast_4(levels);
    s.a = _mm256_dpbusd_avx_epi32(s.a, w.a, four);
    KEEP_SUM(s.a);
    s.b = _mm256_dpbusd_avx_epi32(s.b, w.b, four);
    KEEP_SUM(s.b);
    return s;
}

QNI_INLINE tile_s tile_first(tile_w w, const int8_t *levels)
{
    return tile_add((tile_s){_mm256_setzero_si256(), _mm256_setzero_si256()}, w, levels);
}

/* -bias times the sums of 32 levels; in units of 16 or 32 elements. */
QNI_INLINE void tile_put_starts(const int8_t *levels, int bias, int n_unit, int32_t *out)
{
    int32_t sum[2] = {0, 0};
    for (int i = 0; i < 32; i++) {
        sum[i / 16] += levels[i];
    }
    if (n_unit == 16) {
        out[0] = -bias * sum[0];
        out[1] = -bias * sum[1];
    } else {
        out[0] = -bias * (sum[0] + sum[1]);
    }
}

QNI_INLINE tile_i tile_scale(tile_i sum, tile_s s, const int32_t *factor)
{
    const tile_i f = tile_lanes(factor);
    sum.a = _mm256_add_epi32(sum.a, _mm256_mullo_epi32(s.a, f.a));
    sum.b = _mm256_add_epi32(sum.b, _mm256_mullo_epi32(s.b, f.b));
    return sum;
}

QNI_INLINE tile_i tile_whole(tile_i sum, tile_s s)
{
    sum.a = _mm256_add_epi32(sum.a, s.a);
    sum.b = _mm256_add_epi32(sum.b, s.b);
    return sum;
}

/* Signed bytes as factors. */
QNI_INLINE void rows_put_factors(row_bytes v, int32_t *out)
{
    _mm256_store_si256((__m256i *)(void *)out, _mm256_cvtepi8_epi32(v));
    _mm256_store_si256((__m256i *)(void *)(out + 8),
                       _mm256_cvtepi8_epi32(_mm_unpackhi_epi64(v, v)));
}

#endif
