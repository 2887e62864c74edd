/* sum_lanes_avx2_internal.h — eight vectors of integers to one of their sums. */
#ifndef QNI_SUM_LANES_AVX2_INTERNAL_H
#define QNI_SUM_LANES_AVX2_INTERNAL_H

#include <immintrin.h>

#include "base/base.h"

/* Lanes of eight vectors added up: lane i is the sum of v[i]. Three simple instructions a pair:
 * vphaddd is four. */
QNI_INLINE __m256i sum_lanes_x8(const __m256i *v)
{
    __m256i two[4], four[2];
    for (int i = 0; i < 4; i++) {
        two[i] = _mm256_add_epi32(_mm256_unpacklo_epi32(v[2 * i], v[2 * i + 1]),
                                  _mm256_unpackhi_epi32(v[2 * i], v[2 * i + 1]));
    }
    for (int i = 0; i < 2; i++) {
        four[i] = _mm256_add_epi32(_mm256_unpacklo_epi64(two[2 * i], two[2 * i + 1]),
                                   _mm256_unpackhi_epi64(two[2 * i], two[2 * i + 1]));
    }
    return _mm256_add_epi32(_mm256_permute2x128_si256(four[0], four[1], 0x20),
                            _mm256_permute2x128_si256(four[0], four[1], 0x31));
}

#endif
