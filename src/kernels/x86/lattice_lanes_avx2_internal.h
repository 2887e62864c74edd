/* lattice_lanes_avx2_internal.h — eight candidates of a lattice search in a register.
 *
 * What the search does along its candidates is written in these names and compiled for each width;
 * lattice_lanes_avx512_internal.h has sixteen. Along the points of a list it is eight everywhere.
 */
#ifndef QNI_LATTICE_LANES_AVX2_INTERNAL_H
#define QNI_LATTICE_LANES_AVX2_INTERNAL_H

#include "kernels/x86/lattice_avx2_internal.h"

#define LATTICE_NAME(base) base##_avx2

enum { CL = 8 }; /* candidates a vector */

typedef __m256 vc;
typedef __m256i vci;

QNI_INLINE vc vc_set(float v)
{
    return _mm256_set1_ps(v);
}

QNI_INLINE vc vc_load(const float *p)
{
    return _mm256_loadu_ps(p);
}

QNI_INLINE void vc_store(float *p, vc x)
{
    _mm256_storeu_ps(p, x);
}

QNI_INLINE vci vci_set(int32_t v)
{
    return _mm256_set1_epi32(v);
}

QNI_INLINE vci vci_load(const uint32_t *p)
{
    return _mm256_loadu_si256((const __m256i *)(const void *)p);
}

QNI_INLINE void vci_store(uint32_t *p, vci x)
{
    _mm256_storeu_si256((__m256i *)(void *)p, x);
}

/* The first n lanes; none if n <= 0. */
QNI_INLINE void vci_store_first(uint32_t *p, int32_t n, vci x)
{
    _mm256_maskstore_epi32((int *)(void *)p, first_lanes(n), x);
}

QNI_INLINE vc vc_add(vc x, vc y)
{
    return _mm256_add_ps(x, y);
}

QNI_INLINE vc vc_sub(vc x, vc y)
{
    return _mm256_sub_ps(x, y);
}

QNI_INLINE vc vc_mul(vc x, vc y)
{
    return _mm256_mul_ps(x, y);
}

QNI_INLINE vc vc_div(vc x, vc y)
{
    return _mm256_div_ps(x, y);
}

/* x < y ? x : y and x > y ? x : y, as the instruction has it. */
QNI_INLINE vc vc_min(vc x, vc y)
{
    return _mm256_min_ps(x, y);
}

QNI_INLINE vc vc_max(vc x, vc y)
{
    return _mm256_max_ps(x, y);
}

/* x * y + z, rounded once. */
QNI_INLINE vc vc_fma(vc x, vc y, vc z)
{
    return _mm256_fmadd_ps(x, y, z);
}

QNI_INLINE vc vc_round(vc x)
{
    return _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

QNI_INLINE vci vci_round(vc x)
{
    return _mm256_cvtps_epi32(x);
}

QNI_INLINE vci vci_add(vci x, vci y)
{
    return _mm256_add_epi32(x, y);
}

/* The next dimension's levels to the bottom. */
QNI_INLINE vci vci_next_levels(int32_t n_dims, vci packed)
{
    return n_dims == 8 ? _mm256_srli_epi32(packed, 2) : _mm256_srli_epi32(packed, 4);
}

/* 0, 1, 2, ... */
QNI_INLINE vc vc_numbers(void)
{
    return _mm256_setr_ps(0, 1, 2, 3, 4, 5, 6, 7);
}

/* Bit i: x is at least y in lane i. */
QNI_INLINE uint32_t vc_at_least(vc x, vc y)
{
    return (uint32_t)_mm256_movemask_ps(_mm256_cmp_ps(x, y, _CMP_GE_OQ));
}

/* Bit i: not x > y in lane i. */
QNI_INLINE uint32_t vc_not_above(vc x, vc y)
{
    return (uint32_t)_mm256_movemask_ps(_mm256_cmp_ps(x, y, _CMP_NGT_UQ));
}

/* Bit i: lane i equals the one after it; behind the last lane of x comes the first of `next`. */
QNI_INLINE uint32_t vci_equals_next(vci x, vci next)
{
    const vci after = _mm256_permutevar8x32_epi32(_mm256_blend_epi32(x, next, 1),
                                                  _mm256_setr_epi32(1, 2, 3, 4, 5, 6, 7, 0));
    return (uint32_t)_mm256_movemask_ps(_mm256_castsi256_ps(_mm256_cmpeq_epi32(x, after)));
}

/* a where x < y, else b. */
QNI_INLINE vci vci_pick_below(vc x, vc y, vci a, vci b)
{
    return _mm256_blendv_epi8(b, a, _mm256_castps_si256(_mm256_cmp_ps(x, y, _CMP_LT_OQ)));
}

/* x in those of the first n lanes in which y > 0, else +0. */
QNI_INLINE vc vc_keep_positive(vc x, vc y, int32_t n)
{
    const __m256 is_positive = _mm256_cmp_ps(y, _mm256_setzero_ps(), _CMP_GT_OQ);
    return _mm256_and_ps(x, _mm256_and_ps(is_positive, _mm256_castsi256_ps(first_lanes(n))));
}

/* 1 / x within 3.7e-4 of it. */
QNI_INLINE vc vc_reciprocal(vc x)
{
    return _mm256_rcp_ps(x);
}

/* count + 1 where x > y, where x >= y, and where x == y in lanes behind number j. */
QNI_INLINE vci vci_count_above(vci count, vci x, vci y)
{
    return _mm256_sub_epi32(count, _mm256_cmpgt_epi32(x, y));
}

QNI_INLINE vci vci_count_not_below(vci count, vci x, vci y)
{
    return _mm256_add_epi32(_mm256_add_epi32(count, _mm256_cmpgt_epi32(y, x)), vci_set(1));
}

QNI_INLINE vci vci_count_equal_behind(vci count, vci x, vci y, int32_t j)
{
    const vci is_behind = _mm256_cmpgt_epi32(_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), vci_set(j));
    return _mm256_sub_epi32(count, _mm256_and_si256(_mm256_cmpeq_epi32(x, y), is_behind));
}

QNI_INLINE float vc_reduce_max(vc x)
{
    return _mm256_cvtss_f32(max_all(x));
}

/* A table of eight floats, for vc_look(). */
QNI_INLINE vc vc_table(__m256 eight)
{
    return eight;
}

/* Entries for the levels at the bottom of packed points: two bits in eight dimensions (the table
 * holds its four entries twice), three bits in four. */
QNI_INLINE vc vc_look(int32_t n_dims, vc table, vci packed)
{
    return look_up(n_dims, table, packed, 0);
}

/* Of up to 64 listed points, those with the numbers `index`. */
QNI_INLINE vci vci_points(const uint16_t *list, int32_t n, vci index)
{
    if (n <= LANES) {
        return _mm256_permutevar8x32_epi32(load_points(list), index);
    }
    /* reads two bytes behind each entry: the next one, or the padding behind all lists */
    return _mm256_and_si256(_mm256_i32gather_epi32((const int *)(const void *)list, index, 2),
                            _mm256_set1_epi32(0xffff));
}

#endif
