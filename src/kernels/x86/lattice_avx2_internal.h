/* lattice_avx2_internal.h — small pieces that the encoders of the lattice types share: eight lanes,
 * on AVX2 and on AVX-512. */
#ifndef QNI_LATTICE_AVX2_INTERNAL_H
#define QNI_LATTICE_AVX2_INTERNAL_H

#include <immintrin.h>

#include "kernels/lattice_search_internal.h"

/* qni_lattice_search() with eight lanes. */
bool qni_lattice_search_avx2(const struct qni_lattice *tables, const qni_lattice_form *form,
                             const qni_lattice_front *front, int32_t sub, float range,
                             qni_lattice_fit *fit);

/* The same with sixteen candidates at a time, where there is AVX-512. */
bool qni_lattice_search_avx512(const struct qni_lattice *tables, const qni_lattice_form *form,
                               const qni_lattice_front *front, int32_t sub, float range,
                               qni_lattice_fit *fit);

/* qni_lattice_prepare() and qni_lattice_start() with eight lanes. */
void qni_lattice_prepare_avx2(const float *x, const float *importance, float sigma2,
                              float plain_sigma2, bool is_even, qni_lattice_front *front);
void qni_lattice_start_avx2(const qni_lattice_front *front, qni_lattice_fit *fits);

enum {
    LANES = 8,
    MAX_EXACT = 292 / 8 + 1 /* vectors of the longest list */
};

QNI_INLINE uint32_t first_bit(uint32_t bits)
{
    return (uint32_t)__builtin_ctz(bits);
}

/* 63 for no bits at all. */
QNI_INLINE uint32_t first_of_64(uint64_t bits)
{
    return (uint32_t)__builtin_ctzll(bits | UINT64_C(1) << 63);
}

/* The smallest and the largest of eight, in all lanes. Order does not matter: no NaN comes here. */
QNI_INLINE __m256 min_all(__m256 v)
{
    v = _mm256_min_ps(v, _mm256_permute2f128_ps(v, v, 1));
    v = _mm256_min_ps(v, _mm256_permute_ps(v, 0x4e));
    return _mm256_min_ps(v, _mm256_permute_ps(v, 0xb1));
}

QNI_INLINE __m256 max_all(__m256 v)
{
    v = _mm256_max_ps(v, _mm256_permute2f128_ps(v, v, 1));
    v = _mm256_max_ps(v, _mm256_permute_ps(v, 0x4e));
    return _mm256_max_ps(v, _mm256_permute_ps(v, 0xb1));
}

QNI_INLINE __m256 magnitude_of(__m256 v)
{
    return _mm256_and_ps(v, _mm256_castsi256_ps(_mm256_set1_epi32(0x7fffffff)));
}

/* qni_nearest() in lanes, its accidents included. */
QNI_INLINE __m256i nearest_8(__m256 v)
{
    const __m256i bits = _mm256_castps_si256(_mm256_add_ps(v, _mm256_set1_ps(12582912.0f)));
    return _mm256_sub_epi32(_mm256_and_si256(bits, _mm256_set1_epi32(0x007fffff)),
                            _mm256_set1_epi32(0x00400000));
}

/* All bits in the first n of eight 32-bit lanes. */
QNI_INLINE __m256i first_lanes(int32_t n)
{
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

/* Of eight packed points: table entries of the levels in dimension k. */
QNI_INLINE __m256 look_up(int32_t n_dims, __m256 table, __m256i packed, int32_t k)
{
    const __m256i level = _mm256_srli_epi32(packed, 16 / n_dims * k);
    return n_dims == 8 ? _mm256_permutevar_ps(table, level)
                       : _mm256_permutevar8x32_ps(table, level);
}

QNI_INLINE __m256i load_points(const uint16_t *list)
{
    return _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(const void *)list));
}

/* The nearest listed point in the referee's order of operations: (w * e) * e with
 * e = scale * value - x, added in order of dimensions; of equals the first. `values`: of the
 * levels, four twice in eight dimensions, eight in four. All distances must be finite. */
QNI_INLINE uint32_t nearest_of_list(int32_t n_dims, __m256 values, const float *x, const float *w,
                                    float scale, const uint16_t *list, int32_t n)
{
    __m256 term[8];
    const __m256 sv = _mm256_mul_ps(_mm256_set1_ps(scale), values);
    for (int32_t k = 0; k < n_dims; k++) {
        const __m256 e = _mm256_sub_ps(sv, _mm256_set1_ps(x[k]));
        term[k] = _mm256_mul_ps(_mm256_mul_ps(_mm256_set1_ps(w[k]), e), e);
    }
    __m256 distance[MAX_EXACT];
    __m256 least = _mm256_set1_ps(INFINITY);
    const int32_t n_vectors = (n + LANES - 1) / LANES;
    for (int32_t j = 0; j < n_vectors; j++) {
        const __m256i packed = load_points(list + LANES * j);
        __m256 d = look_up(n_dims, term[0], packed, 0);
        for (int32_t k = 1; k < n_dims; k++) {
            d = _mm256_add_ps(d, look_up(n_dims, term[k], packed, k));
        }
        distance[j] = d;
        least = _mm256_min_ps(least, d);
    }
    least = min_all(least);
    for (int32_t j = 0;; j++) {
        const uint32_t hit =
            (uint32_t)_mm256_movemask_ps(_mm256_cmp_ps(distance[j], least, _CMP_EQ_OQ));
        if (hit || j >= n_vectors - 1) {
            return list[LANES * j + (int32_t)first_bit(hit | 0x80u)];
        }
    }
}

#endif
