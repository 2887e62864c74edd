/* encode_q8_avx2.c — q8_0, q8_1 and q8_K on AVX2. */
#include "kernels/x86/vec_avx2_internal.h"

/* The greatest lane of two vectors, twice in each half. */
QNI_INLINE __m256i max_of_2(__m256i a, __m256i b)
{
    return _mm256_max_epi32(_mm256_unpacklo_epi32(a, b), _mm256_unpackhi_epi32(a, b));
}

QNI_INLINE __m256i max_of_4(const __m256i *v)
{
    const __m256i a = max_of_2(v[0], v[1]);
    const __m256i b = max_of_2(v[2], v[3]);
    return _mm256_max_epi32(_mm256_unpacklo_epi64(a, b), _mm256_unpackhi_epi64(a, b));
}

/* Lane i: the greatest lane of v[i]. */
QNI_INLINE __m256i max_of_8(const __m256i *v)
{
    const __m256i a = max_of_4(v);
    const __m256i b = max_of_4(v + 4);
    return _mm256_max_epi32(_mm256_permute2x128_si256(a, b, 0x20),
                            _mm256_permute2x128_si256(a, b, 0x31));
}

QNI_INLINE vi vi_reduce_max_x16(const vi *v)
{
    __m256i half[VL];
    for (int i = 0; i < VL; i++) {
        half[i] = _mm256_max_epi32(v[i].a, v[i].b);
    }
    return (vi){max_of_8(half), max_of_8(half + 8)};
}

/* The same with sums. */
QNI_INLINE __m256i sum_of_2(__m256i a, __m256i b)
{
    return _mm256_add_epi32(_mm256_unpacklo_epi32(a, b), _mm256_unpackhi_epi32(a, b));
}

QNI_INLINE __m256i sum_of_4(const __m256i *v)
{
    const __m256i a = sum_of_2(v[0], v[1]);
    const __m256i b = sum_of_2(v[2], v[3]);
    return _mm256_add_epi32(_mm256_unpacklo_epi64(a, b), _mm256_unpackhi_epi64(a, b));
}

QNI_INLINE __m256i sum_of_8(const __m256i *v)
{
    const __m256i a = sum_of_4(v);
    const __m256i b = sum_of_4(v + 4);
    return _mm256_add_epi32(_mm256_permute2x128_si256(a, b, 0x20),
                            _mm256_permute2x128_si256(a, b, 0x31));
}

QNI_INLINE vi vi_reduce_add_x16(const vi *v)
{
    __m256i half[VL];
    for (int i = 0; i < VL; i++) {
        half[i] = _mm256_add_epi32(v[i].a, v[i].b);
    }
    return (vi){sum_of_8(half), sum_of_8(half + 8)};
}

QNI_INLINE vi vi_max_unsigned(vi x, vi y)
{
    return (vi){_mm256_max_epu32(x.a, y.a), _mm256_max_epu32(x.b, y.b)};
}

QNI_INLINE uint32_t vi_reduce_max_unsigned(vi x)
{
    const __m256i half = _mm256_max_epu32(x.a, x.b);
    __m128i max = _mm_max_epu32(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
    max = _mm_max_epu32(max, _mm_shuffle_epi32(max, 0x4e));
    max = _mm_max_epu32(max, _mm_shuffle_epi32(max, 0xb1));
    return (uint32_t)_mm_cvtsi128_si32(max);
}

/* To the nearest, half to even. */
QNI_INLINE vi vi_nearest(vf x)
{
    return (vi){_mm256_cvtps_epi32(x.a), _mm256_cvtps_epi32(x.b)};
}

#include "kernels/simd/encode_q8_internal.h"
