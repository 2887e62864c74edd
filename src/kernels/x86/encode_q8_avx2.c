/* encode_q8_avx2.c — q8_0, q8_1 and q8_K on AVX2. */
#include "kernels/x86/vec_avx2_internal.h"

#include "kernels/x86/levels_avx2_internal.h"
#include "kernels/x86/sum_lanes_avx2_internal.h"

typedef __m256i vi_part;

QNI_INLINE vi_part vi_max_part(vi x)
{
    return _mm256_max_epi32(x.a, x.b);
}

QNI_INLINE vi_part vi_add_part(vi x)
{
    return _mm256_add_epi32(x.a, x.b);
}

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

QNI_INLINE vi vi_max_of_parts(const vi_part *parts)
{
    return (vi){max_of_8(parts), max_of_8(parts + 8)};
}

QNI_INLINE vi vi_add_of_parts(const vi_part *parts)
{
    return (vi){sum_lanes_x8(parts), sum_lanes_x8(parts + 8)};
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

typedef __m256i level_part; /* four sums of eight levels, each 128 too high */

QNI_INLINE level_part put_rounded(const float *x, float inverse, int8_t *to)
{
    const __m256i bytes = put_rounded_values(vf_load(x), vf_load(x + VL), inverse, to);
    const __m256i above = _mm256_xor_si256(bytes, _mm256_set1_epi8((char)0x80));
    return _mm256_sad_epu8(above, _mm256_setzero_si256());
}

/* Lane i, and lane i + 4: half of the sum of part i. */
QNI_INLINE __m256i half_sums_of_4(const level_part *parts)
{
    const __m256i a = _mm256_packus_epi32(parts[0], parts[1]);
    const __m256i b = _mm256_packus_epi32(parts[2], parts[3]);
    return _mm256_madd_epi16(_mm256_packus_epi32(a, b), _mm256_set1_epi16(1));
}

QNI_INLINE __m256i sums_of_8(const level_part *parts)
{
    const __m256i a = half_sums_of_4(parts);
    const __m256i b = half_sums_of_4(parts + 4);
    const __m256i sums = _mm256_add_epi32(_mm256_permute2x128_si256(a, b, 0x20),
                                          _mm256_permute2x128_si256(a, b, 0x31));
    return _mm256_sub_epi32(sums, _mm256_set1_epi32(32 * 128));
}

QNI_INLINE vi sums_of_levels(const level_part *parts)
{
    return (vi){sums_of_8(parts), sums_of_8(parts + 8)};
}

#include "kernels/simd/encode_q8_internal.h"
