/* tile_avx2_internal.h — the primitives of products over tiles on AVX2.
 *
 * Products of unsigned codes with signed levels are summed in 16 bits (vpmaddubsw, vpaddw): two
 * instructions for 32 products. TILE_SUM_BITS tells simd/tiles_internal.h that a format has to say
 * for how many elements such a sum cannot overflow. */
#ifndef QNI_TILE_AVX2_INTERNAL_H
#define QNI_TILE_AVX2_INTERNAL_H

#include "kernels/x86/tile_ymm_internal.h"

#define TILE_NAME(base) base##_avx2

/* Codes of 8 bits with a sign (q8_0, iq4) go as words: their products fill 16 bits. */
#define TILE_HAS_WORDS 1

enum { TILE_SUM_BITS = 16, TILE_SIGNED_BIAS = 0 };

/* Codes with a sign as unsigned ones: not here, where words do it. */
QNI_INLINE tile_w tile_flip(tile_w w)
{
    return w;
}

QNI_INLINE tile_s tile_first(tile_w w, const int8_t *levels)
{
    const __m256i four = broadcast_4(levels);
    return (tile_s){_mm256_maddubs_epi16(w.a, four), _mm256_maddubs_epi16(w.b, four)};
}

QNI_INLINE tile_s tile_add(tile_s s, tile_w w, const int8_t *levels)
{
    const __m256i four = broadcast_4(levels);
    s.a = _mm256_add_epi16(s.a, _mm256_maddubs_epi16(w.a, four));
    KEEP_SUM(s.a);
    s.b = _mm256_add_epi16(s.b, _mm256_maddubs_epi16(w.b, four));
    KEEP_SUM(s.b);
    return s;
}

/* -bias times the sums of the even and odd pairs of 32 levels; in units of 16 or 32 elements. */
QNI_INLINE void tile_put_starts(const int8_t *levels, int bias, int n_unit, int32_t *out)
{
    const __m256i v = _mm256_loadu_si256((const __m256i *)(const void *)levels);
    const __m256i pairs = _mm256_maddubs_epi16(_mm256_set1_epi8(1), v);
    const __m256i two = _mm256_add_epi16(pairs, _mm256_shuffle_epi32(pairs, 0x4e));
    const __m256i four = _mm256_add_epi16(two, _mm256_shuffle_epi32(two, 0xb1));
    const __m256i start = _mm256_mullo_epi16(four, _mm256_set1_epi16((int16_t)-bias));
    const __m128i first = _mm256_castsi256_si128(start);
    const __m128i second = _mm256_extracti128_si256(start, 1);
    if (n_unit == 16) {
        out[0] = _mm_cvtsi128_si32(first);
        out[1] = _mm_cvtsi128_si32(second);
    } else {
        out[0] = _mm_cvtsi128_si32(_mm_add_epi16(first, second));
    }
}

/* sum + s * factor; a factor lies in both halves of its lane. */
QNI_INLINE tile_i tile_scale(tile_i sum, tile_s s, const int32_t *factor)
{
    const tile_i f = tile_lanes(factor);
    sum.a = _mm256_add_epi32(sum.a, _mm256_madd_epi16(s.a, f.a));
    sum.b = _mm256_add_epi32(sum.b, _mm256_madd_epi16(s.b, f.b));
    return sum;
}

QNI_INLINE tile_i tile_whole(tile_i sum, tile_s s)
{
    const __m256i ones = _mm256_set1_epi16(1);
    sum.a = _mm256_add_epi32(sum.a, _mm256_madd_epi16(s.a, ones));
    sum.b = _mm256_add_epi32(sum.b, _mm256_madd_epi16(s.b, ones));
    return sum;
}

/* Signed bytes as factors: in both halves of each lane. */
QNI_INLINE void rows_put_factors(row_bytes v, int32_t *out)
{
    _mm256_store_si256((__m256i *)(void *)out, _mm256_cvtepi8_epi16(_mm_unpacklo_epi8(v, v)));
    _mm256_store_si256((__m256i *)(void *)(out + 8), _mm256_cvtepi8_epi16(_mm_unpackhi_epi8(v, v)));
}

/* --- codes of 8 bits with a sign -----------------------------------------------------------------
 */

QNI_INLINE tile_i tile_ones(void)
{
    return (tile_i){_mm256_set1_epi16(1), _mm256_set1_epi16(1)};
}

/* sum + factor times the products of four codes with four levels, which are words: magnitudes of
 * the codes by levels that have taken their signs. Two products, 2 * 127 * 127, fit 16 bits. */
QNI_INLINE tile_i tile_add_signed(tile_i sum, tile_w w, const int16_t *levels, tile_i factor)
{
    int64_t words;
    memcpy(&words, levels, sizeof words);
    const __m256i wide = _mm256_set1_epi64x(words);
    const __m256i four = _mm256_packs_epi16(wide, wide);
    const __m256i a = _mm256_maddubs_epi16(_mm256_abs_epi8(w.a), _mm256_sign_epi8(four, w.a));
    const __m256i b = _mm256_maddubs_epi16(_mm256_abs_epi8(w.b), _mm256_sign_epi8(four, w.b));
    sum.a = _mm256_add_epi32(sum.a, _mm256_madd_epi16(a, factor.a));
    KEEP_SUM(sum.a);
    sum.b = _mm256_add_epi32(sum.b, _mm256_madd_epi16(b, factor.b));
    KEEP_SUM(sum.b);
    return sum;
}

/* --- words: two elements of 16 rows
 * ----------------------------------------------------------------
 */

/* The first or the second two of four signed codes. */
QNI_INLINE tile_w tile_widen(tile_w w, int which)
{
    const __m256i order =
        which == 0 ? _mm256_setr_epi8(-1, 0, -1, 1, -1, 4, -1, 5, -1, 8, -1, 9, -1, 12, -1, 13, -1,
                                      0, -1, 1, -1, 4, -1, 5, -1, 8, -1, 9, -1, 12, -1, 13)
                   : _mm256_setr_epi8(-1, 2, -1, 3, -1, 6, -1, 7, -1, 10, -1, 11, -1, 14, -1, 15,
                                      -1, 2, -1, 3, -1, 6, -1, 7, -1, 10, -1, 11, -1, 14, -1, 15);
    return (tile_w){_mm256_srai_epi16(_mm256_shuffle_epi8(w.a, order), 8),
                    _mm256_srai_epi16(_mm256_shuffle_epi8(w.b, order), 8)};
}

QNI_INLINE tile_w tile_times(tile_w w, const int32_t *factor)
{
    const tile_i f = tile_lanes(factor);
    return (tile_w){_mm256_mullo_epi16(w.a, f.a), _mm256_mullo_epi16(w.b, f.b)};
}

QNI_INLINE tile_i tile_add_words(tile_i sum, tile_w w, const int16_t *levels)
{
    const __m256i two = broadcast_4(levels);
    sum.a = _mm256_add_epi32(sum.a, _mm256_madd_epi16(w.a, two));
    KEEP_SUM(sum.a);
    sum.b = _mm256_add_epi32(sum.b, _mm256_madd_epi16(w.b, two));
    KEEP_SUM(sum.b);
    return sum;
}

#endif
