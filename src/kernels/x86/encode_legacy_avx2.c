/* encode_legacy_avx2.c — encoders of q4_0, q4_1, q5_0 and q5_1 on AVX2. */
#include "kernels/x86/vec_avx2_internal.h"

typedef __m256 vf_part;

/* The greatest or least lanes of eight vectors: lane i is that of v[i]. */
#define EXTREME_OF_8(name, op)                                                               \
    QNI_INLINE vf_part vf_##name##_part(vf x)                                                \
    {                                                                                        \
        return op(x.a, x.b);                                                                 \
    }                                                                                        \
    QNI_INLINE __m256 name##_of_4(const __m256 *v)                                           \
    {                                                                                        \
        const __m256 a = op(_mm256_unpacklo_ps(v[0], v[1]), _mm256_unpackhi_ps(v[0], v[1])); \
        const __m256 b = op(_mm256_unpacklo_ps(v[2], v[3]), _mm256_unpackhi_ps(v[2], v[3])); \
        return op(_mm256_shuffle_ps(a, b, 0x44), _mm256_shuffle_ps(a, b, 0xee));             \
    }                                                                                        \
    QNI_INLINE __m256 name##_of_8(const __m256 *v)                                           \
    {                                                                                        \
        const __m256 a = name##_of_4(v);                                                     \
        const __m256 b = name##_of_4(v + 4);                                                 \
        return op(_mm256_permute2f128_ps(a, b, 0x20), _mm256_permute2f128_ps(a, b, 0x31));   \
    }                                                                                        \
    QNI_INLINE vf vf_##name##_of_parts(const vf_part *parts)                                 \
    {                                                                                        \
        return (vf){name##_of_8(parts), name##_of_8(parts + 8)};                             \
    }

EXTREME_OF_8(max, _mm256_max_ps)
EXTREME_OF_8(min, _mm256_min_ps)

/* 32 levels as bytes, in order. */
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

#include "kernels/simd/encode_legacy_internal.h"
