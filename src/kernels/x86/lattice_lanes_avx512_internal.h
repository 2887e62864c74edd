/* lattice_lanes_avx512_internal.h — sixteen candidates of a lattice search in a register.
 *
 * The names and meanings are those of lattice_lanes_avx2_internal.h, which explains them. */
#ifndef QNI_LATTICE_LANES_AVX512_INTERNAL_H
#define QNI_LATTICE_LANES_AVX512_INTERNAL_H

#include "kernels/x86/lattice_avx2_internal.h"

#define LATTICE_NAME(base) base##_avx512

enum { CL = 16 };

typedef __m512 vc;
typedef __m512i vci;

QNI_INLINE vc vc_set(float v)
{
    return _mm512_set1_ps(v);
}

QNI_INLINE vc vc_load(const float *p)
{
    return _mm512_loadu_ps(p);
}

QNI_INLINE void vc_store(float *p, vc x)
{
    _mm512_storeu_ps(p, x);
}

QNI_INLINE vci vci_set(int32_t v)
{
    return _mm512_set1_epi32(v);
}

QNI_INLINE vci vci_load(const uint32_t *p)
{
    return _mm512_loadu_si512(p);
}

QNI_INLINE void vci_store(uint32_t *p, vci x)
{
    _mm512_storeu_si512(p, x);
}

/* A bit for each of the first n lanes. */
QNI_INLINE __mmask16 first_of_16(int32_t n)
{
    return (__mmask16)(n >= CL ? 0xffffu : n > 0 ? (1u << n) - 1 : 0u);
}

QNI_INLINE void vci_store_first(uint32_t *p, int32_t n, vci x)
{
    _mm512_mask_storeu_epi32(p, first_of_16(n), x);
}

QNI_INLINE vc vc_add(vc x, vc y)
{
    return _mm512_add_ps(x, y);
}

QNI_INLINE vc vc_sub(vc x, vc y)
{
    return _mm512_sub_ps(x, y);
}

QNI_INLINE vc vc_mul(vc x, vc y)
{
    return _mm512_mul_ps(x, y);
}

QNI_INLINE vc vc_div(vc x, vc y)
{
    return _mm512_div_ps(x, y);
}

QNI_INLINE vc vc_min(vc x, vc y)
{
    return _mm512_min_ps(x, y);
}

QNI_INLINE vc vc_max(vc x, vc y)
{
    return _mm512_max_ps(x, y);
}

QNI_INLINE vc vc_fma(vc x, vc y, vc z)
{
    return _mm512_fmadd_ps(x, y, z);
}

QNI_INLINE vc vc_round(vc x)
{
    return _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

QNI_INLINE vci vci_round(vc x)
{
    return _mm512_cvtps_epi32(x);
}

QNI_INLINE vci vci_add(vci x, vci y)
{
    return _mm512_add_epi32(x, y);
}

QNI_INLINE vci vci_next_levels(int32_t n_dims, vci packed)
{
    return n_dims == 8 ? _mm512_srli_epi32(packed, 2) : _mm512_srli_epi32(packed, 4);
}

QNI_INLINE vc vc_numbers(void)
{
    return _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
}

QNI_INLINE uint32_t vc_at_least(vc x, vc y)
{
    return _mm512_cmp_ps_mask(x, y, _CMP_GE_OQ);
}

QNI_INLINE uint32_t vc_not_above(vc x, vc y)
{
    return _mm512_cmp_ps_mask(x, y, _CMP_NGT_UQ);
}

QNI_INLINE uint32_t vci_equals_next(vci x, vci next)
{
    return _mm512_cmpeq_epi32_mask(x, _mm512_alignr_epi32(next, x, 1));
}

QNI_INLINE vci vci_pick_below(vc x, vc y, vci a, vci b)
{
    return _mm512_mask_blend_epi32(_mm512_cmp_ps_mask(x, y, _CMP_LT_OQ), b, a);
}

QNI_INLINE vc vc_keep_positive(vc x, vc y, int32_t n)
{
    const __mmask16 kept =
        _mm512_mask_cmp_ps_mask(first_of_16(n), y, _mm512_setzero_ps(), _CMP_GT_OQ);
    return _mm512_maskz_mov_ps(kept, x);
}

QNI_INLINE vc vc_reciprocal(vc x)
{
    return _mm512_rcp14_ps(x);
}

QNI_INLINE vci vci_count_above(vci count, vci x, vci y)
{
    return _mm512_mask_add_epi32(count, _mm512_cmpgt_epi32_mask(x, y), count, vci_set(1));
}

QNI_INLINE vci vci_count_not_below(vci count, vci x, vci y)
{
    return _mm512_mask_add_epi32(count, _mm512_cmpge_epi32_mask(x, y), count, vci_set(1));
}

QNI_INLINE vci vci_count_equal_behind(vci count, vci x, vci y, int32_t j)
{
    const __mmask16 is_behind = (__mmask16)(0xfffeu << j & 0xffffu);
    return _mm512_mask_add_epi32(count, _mm512_mask_cmpeq_epi32_mask(is_behind, x, y), count,
                                 vci_set(1));
}

QNI_INLINE float vc_reduce_max(vc x)
{
    return _mm512_reduce_max_ps(x);
}

QNI_INLINE vc vc_table(__m256 eight)
{
    return _mm512_broadcast_f32x8(eight);
}

QNI_INLINE vc vc_look(int32_t n_dims, vc table, vci packed)
{
    return n_dims == 8 ? _mm512_permutevar_ps(table, packed) : _mm512_permutexvar_ps(packed, table);
}

QNI_INLINE vci vci_points(const uint16_t *list, int32_t n, vci index)
{
    if (n <= LANES) {
        return _mm512_permutexvar_epi32(index, _mm512_castsi256_si512(load_points(list)));
    }
    return _mm512_and_si512(_mm512_i32gather_epi32(index, list, 2), _mm512_set1_epi32(0xffff));
}

#endif
