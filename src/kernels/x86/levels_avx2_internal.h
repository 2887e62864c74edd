/* levels_avx2_internal.h — levels of 32 values on their way into blocks of q4, q5 and q8. After
 * vec_avx2_internal.h. */
#ifndef QNI_LEVELS_AVX2_INTERNAL_H
#define QNI_LEVELS_AVX2_INTERNAL_H

/* 32 levels as bytes, in order, from 0 to `most`. */
QNI_INLINE __m256i level_bytes(vi low, vi high, int most)
{
    const __m256i bytes =
        _mm256_packus_epi16(_mm256_packs_epi32(low.a, low.b), _mm256_packs_epi32(high.a, high.b));
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    return _mm256_min_epu8(_mm256_permutevar8x32_epi32(bytes, order), _mm256_set1_epi8((char)most));
}

/* The first sixteen bytes, and the others in their upper nibbles. */
QNI_INLINE void store_nibbles(__m256i bytes, uint8_t *qs)
{
    const __m128i upper = _mm_slli_epi16(_mm256_extracti128_si256(bytes, 1), 4);
    _mm_storeu_si128((__m128i *)(void *)qs, _mm_or_si128(_mm256_castsi256_si128(bytes), upper));
}

QNI_INLINE void put_nibbles(vi low, vi high, uint8_t *qs)
{
    store_nibbles(level_bytes(low, high, 15), qs);
}

QNI_INLINE void put_fifths(vi low, vi high, uint8_t *qh, uint8_t *qs)
{
    const __m256i bytes = level_bytes(low, high, 31);
    qni_store_u32le(qh, (uint32_t)_mm256_movemask_epi8(_mm256_slli_epi16(bytes, 3)));
    store_nibbles(_mm256_and_si256(bytes, _mm256_set1_epi8(15)), qs);
}

/* Rounding half away from zero is done on whole halves, h = trunc(2 v), in 16 bits: vpmulhrsw gives
 * floor(h * f + 1/2), and with f = 1/2 + 2^-15 an odd h, which lies half-way, goes away from zero
 * on either side, while an even one, |h| <= 254, stays where it is. */
#define ROUNDED_TIMES 2.0f

QNI_INLINE __m256i round_halves(vf x, vf inverse)
{
    const vi halves = vi_trunc(vf_mul(x, inverse));
    return _mm256_mulhrs_epi16(_mm256_packs_epi32(halves.a, halves.b),
                               _mm256_set1_epi16((1 << 14) + 1));
}

/* 32 values times `inverse`, which has been multiplied by ROUNDED_TIMES, rounded. The bytes are
 * returned in the order that packing left them in. */
QNI_INLINE __m256i put_rounded_values(vf low, vf high, float inverse, int8_t *to)
{
    const vf inv = vf_set(inverse);
    const __m256i bytes = _mm256_packs_epi16(round_halves(low, inv), round_halves(high, inv));
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    _mm256_storeu_si256((__m256i *)(void *)to, _mm256_permutevar8x32_epi32(bytes, order));
    return bytes;
}

#endif
