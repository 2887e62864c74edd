/* encode_legacy_avx2.c — encoders of q4_0, q4_1, q5_0 and q5_1 on AVX2. */
#include "kernels/x86/vec_avx2_internal.h"

#include "kernels/x86/levels_avx2_internal.h"

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

#include "kernels/simd/encode_legacy_internal.h"
