/* vec_avx512_internal.h — sixteen lanes of f32 or i32 on AVX-512: one register.
 *
 * The names and meanings are those of vec_avx2_internal.h, which explains them; truth values are
 * mask registers here. */
#ifndef QNI_VEC_AVX512_INTERNAL_H
#define QNI_VEC_AVX512_INTERNAL_H

#include <immintrin.h>

#include "kernels/x86/vec_bytes_internal.h"

#define VEC_NAME(base) base##_avx512

enum { VL = 16, VEC_SPREAD = 4 };

typedef __m512 vf;
typedef __m512i vi;
typedef __mmask16 vm;

/* clang-format off */
#define VEC_F2(name, op) QNI_INLINE vf name(vf x, vf y) { return op(x, y); }
#define VEC_I2(name, op) QNI_INLINE vi name(vi x, vi y) { return op(x, y); }
#define VEC_CMP(name, predicate) \
    QNI_INLINE vm name(vf x, vf y) { return _mm512_cmp_ps_mask(x, y, predicate); }

VEC_F2(vf_add, _mm512_add_ps)
VEC_F2(vf_sub, _mm512_sub_ps)
VEC_F2(vf_mul, _mm512_mul_ps)
VEC_F2(vf_div, _mm512_div_ps)
VEC_F2(vf_min, _mm512_min_ps)
VEC_F2(vf_max, _mm512_max_ps)

VEC_CMP(vf_lt, _CMP_LT_OQ)
VEC_CMP(vf_le, _CMP_LE_OQ)
VEC_CMP(vf_gt, _CMP_GT_OQ)
VEC_CMP(vf_ge, _CMP_GE_OQ)
VEC_CMP(vf_eq, _CMP_EQ_OQ)

VEC_I2(vi_add, _mm512_add_epi32)
VEC_I2(vi_sub, _mm512_sub_epi32)
VEC_I2(vi_min, _mm512_min_epi32)
VEC_I2(vi_max, _mm512_max_epi32)
VEC_I2(vi_and, _mm512_and_si512)
VEC_I2(vi_or, _mm512_or_si512)
VEC_I2(vi_mul, _mm512_mullo_epi32)
/* clang-format on */

#undef VEC_F2
#undef VEC_I2
#undef VEC_CMP

QNI_INLINE vf vf_sqrt(vf x)
{
    return _mm512_sqrt_ps(x);
}

/* Asks for the cache line `ahead` bytes after p, wherever that is. */
QNI_INLINE void vec_prefetch(const void *p, int64_t ahead)
{
    _mm_prefetch(qni_line_ahead(p, ahead), _MM_HINT_T1);
}

QNI_INLINE vf vf_set(float v)
{
    return _mm512_set1_ps(v);
}

QNI_INLINE vf vf_fused(vf x, vf y, vf z)
{
    return _mm512_fmadd_ps(x, y, z);
}

QNI_INLINE vf vf_load(const float *p)
{
    return _mm512_loadu_ps(p);
}

QNI_INLINE void vf_store(float *p, vf x)
{
    _mm512_storeu_ps(p, x);
}

QNI_INLINE vi vi_set(int32_t v)
{
    return _mm512_set1_epi32(v);
}

QNI_INLINE vi vi_load(const int32_t *p)
{
    return _mm512_loadu_si512(p);
}

QNI_INLINE void vi_store(int32_t *p, vi x)
{
    _mm512_storeu_si512(p, x);
}

QNI_INLINE vi vi_bits(vf x)
{
    return _mm512_castps_si512(x);
}

QNI_INLINE vf vf_bits(vi x)
{
    return _mm512_castsi512_ps(x);
}

QNI_INLINE vf vf_abs(vf x)
{
    return vf_bits(vi_and(vi_bits(x), vi_set(0x7fffffff)));
}

QNI_INLINE vf vf_neg(vf x)
{
    return vf_bits(_mm512_xor_si512(vi_bits(x), vi_set(INT32_MIN)));
}

QNI_INLINE vf vf_pick(vm m, vf a, vf b)
{
    return _mm512_mask_blend_ps(m, b, a);
}

QNI_INLINE vi vi_pick(vm m, vi a, vi b)
{
    return _mm512_mask_blend_epi32(m, b, a);
}

QNI_INLINE vm vm_and(vm x, vm y)
{
    return (vm)(x & y);
}

QNI_INLINE vm vm_or(vm x, vm y)
{
    return (vm)(x | y);
}

QNI_INLINE vm vm_but(vm x, vm y)
{
    return (vm)(x & ~(uint32_t)y);
}

QNI_INLINE uint32_t vm_bits(vm x)
{
    return x;
}

QNI_INLINE bool vm_any(vm x)
{
    return x != 0;
}

QNI_INLINE bool vm_all(vm x)
{
    return x == 0xffff;
}

QNI_INLINE vm vi_eq(vi x, vi y)
{
    return _mm512_cmpeq_epi32_mask(x, y);
}

QNI_INLINE vm vi_gt(vi x, vi y)
{
    return _mm512_cmpgt_epi32_mask(x, y);
}

#define vi_shr(x, n) _mm512_srli_epi32(x, n)
#define vi_shl(x, n) _mm512_slli_epi32(x, n)

QNI_INLINE vf vf_from_vi(vi x)
{
    return _mm512_cvtepi32_ps(x);
}

QNI_INLINE vi vi_trunc(vf x)
{
    return _mm512_cvttps_epi32(x);
}

QNI_INLINE vi vi_count(vi x, vm m)
{
    return _mm512_mask_add_epi32(x, m, x, vi_set(1));
}

QNI_INLINE void vi_store_u8(uint8_t *p, vi x)
{
    _mm_storeu_si128((__m128i *)(void *)p, _mm512_cvtepi32_epi8(x));
}

QNI_INLINE void vi_store_i8x2(int8_t *p, vi x, vi y)
{
    _mm_storeu_si128((__m128i *)(void *)p, _mm512_cvtepi32_epi8(x));
    _mm_storeu_si128((__m128i *)(void *)(p + VL), _mm512_cvtepi32_epi8(y));
}

QNI_INLINE vi vi_load_u8(const uint8_t *p)
{
    return _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)p));
}

QNI_INLINE vi vi_load_i8(const int8_t *p)
{
    return _mm512_cvtepi8_epi32(vb_load(p));
}

QNI_INLINE vi vi_load_u16(const uint8_t *p)
{
    return _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(const void *)p));
}

QNI_INLINE vi vi_from_u8(vb x)
{
    return _mm512_cvtepu8_epi32(x);
}

QNI_INLINE vi vi_from_i8(vb x)
{
    return _mm512_cvtepi8_epi32(x);
}

QNI_INLINE vi vi_unpack2(uint32_t word)
{
    const vi by = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    return _mm512_srlv_epi32(vi_set((int32_t)word), by);
}

QNI_INLINE vi vi_unpack4(uint32_t first, uint32_t second)
{
    const vi by = _mm512_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28, 0, 4, 8, 12, 16, 20, 24, 28);
    return _mm512_srlv_epi32(
        _mm512_mask_set1_epi32(vi_set((int32_t)first), 0xff00, (int32_t)second), by);
}

QNI_INLINE vf vf_look4(vf table, vi x)
{
    return _mm512_permutevar_ps(table, x);
}

QNI_INLINE vf vf_look8(vf table, vi x)
{
    return _mm512_permutexvar_ps(x, table);
}

QNI_INLINE vf vf_flip(vf x, uint32_t bits)
{
    return vf_bits(_mm512_mask_xor_epi32(vi_bits(x), (vm)bits, vi_bits(x), vi_set(INT32_MIN)));
}

QNI_INLINE vf vf_set_f16(const uint8_t *field)
{
    return _mm512_broadcastss_ps(_mm_cvtph_ps(_mm_cvtsi32_si128(qni_load_u16le(field))));
}

QNI_INLINE void vi_store_u16(uint16_t *p, vi x)
{
    _mm256_storeu_si256((__m256i *)(void *)p, _mm512_cvtepi32_epi16(x));
}

QNI_INLINE int32_t vi_reduce_max(vi x)
{
    return _mm512_reduce_max_epi32(x);
}

QNI_INLINE int32_t vi_reduce_add(vi x)
{
    return _mm512_reduce_add_epi32(x);
}

QNI_INLINE float vf_reduce_min(vf x)
{
    return _mm512_reduce_min_ps(x);
}

QNI_INLINE float vf_reduce_max(vf x)
{
    return _mm512_reduce_max_ps(x);
}

QNI_INLINE void vf_store_f16(uint16_t *p, vf x)
{
    _mm256_storeu_si256((__m256i *)(void *)p, _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
}

QNI_INLINE vf vf_load_f16(const uint16_t *p)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)p));
}

/* 16 columns of 16 rows, turned. First within the 128-bit quarters, four rows together; then the
 * quarters of four such groups change places. */
QNI_INLINE void vec_turn16(const float *const *rows, int64_t at, float *out)
{
    __m512 q[16]; /* q[4 g + c]: quarter k holds column 4 k + c of rows 4 g .. 4 g + 3 */
    for (int g = 0; g < 16; g += 4) {
        const __m512 r0 = _mm512_loadu_ps(rows[g] + at);
        const __m512 r1 = _mm512_loadu_ps(rows[g + 1] + at);
        const __m512 r2 = _mm512_loadu_ps(rows[g + 2] + at);
        const __m512 r3 = _mm512_loadu_ps(rows[g + 3] + at);
        const __m512 low01 = _mm512_unpacklo_ps(r0, r1);
        const __m512 high01 = _mm512_unpackhi_ps(r0, r1);
        const __m512 low23 = _mm512_unpacklo_ps(r2, r3);
        const __m512 high23 = _mm512_unpackhi_ps(r2, r3);
        q[g] = _mm512_shuffle_ps(low01, low23, 0x44);
        q[g + 1] = _mm512_shuffle_ps(low01, low23, 0xee);
        q[g + 2] = _mm512_shuffle_ps(high01, high23, 0x44);
        q[g + 3] = _mm512_shuffle_ps(high01, high23, 0xee);
    }
    for (int c = 0; c < 4; c++) {
        const __m512 even_low = _mm512_shuffle_f32x4(q[c], q[4 + c], 0x88);
        const __m512 odd_low = _mm512_shuffle_f32x4(q[c], q[4 + c], 0xdd);
        const __m512 even_high = _mm512_shuffle_f32x4(q[8 + c], q[12 + c], 0x88);
        const __m512 odd_high = _mm512_shuffle_f32x4(q[8 + c], q[12 + c], 0xdd);
        _mm512_storeu_ps(out + VL * c, _mm512_shuffle_f32x4(even_low, even_high, 0x88));
        _mm512_storeu_ps(out + VL * (4 + c), _mm512_shuffle_f32x4(odd_low, odd_high, 0x88));
        _mm512_storeu_ps(out + VL * (8 + c), _mm512_shuffle_f32x4(even_low, even_high, 0xdd));
        _mm512_storeu_ps(out + VL * (12 + c), _mm512_shuffle_f32x4(odd_low, odd_high, 0xdd));
    }
}

QNI_INLINE void vec_transpose(const float *const *rows, int64_t at, int n, float *out)
{
    for (int i = 0; i < n; i += 16) {
        vec_turn16(rows, at + i, out + VL * i);
    }
}

/* Places among the iq4 code values, for |x| < 2^29. Decision points are multiples of 1/2, so the
 * place depends on w = floor(2 x) only. A bin of 16 in w + 256 holds at most one of them: `base`
 * counts the points at or below its start, `point` is the one inside it (1000: none). */
QNI_INLINE vi vec_iq4_places(vf x)
{
    const vi base_low = _mm512_setr_epi32(0, 0, 1, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 7, 7);
    const vi base_high =
        _mm512_setr_epi32(8, 9, 9, 10, 11, 11, 12, 12, 13, 13, 14, 14, 14, 15, 15, 15);
    const vi point_low = _mm512_setr_epi32(1000, 25, 1000, 1000, 69, 1000, 108, 1000, 142, 1000,
                                           172, 1000, 199, 1000, 1000, 247);
    const vi point_high = _mm512_setr_epi32(270, 1000, 294, 319, 1000, 347, 1000, 378, 1000, 414,
                                            1000, 1000, 458, 1000, 1000, 1000);
    const vf floored =
        _mm512_roundscale_ps(vf_add(x, x), _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
    const vi w = vi_add(_mm512_cvtps_epi32(floored), vi_set(256));
    const vi kept = vi_max(vi_min(w, vi_set(511)), vi_set(0));
    const vi bin = vi_shr(kept, 4);
    const vi base = _mm512_permutex2var_epi32(base_low, bin, base_high);
    const vi point = _mm512_permutex2var_epi32(point_low, bin, point_high);
    return vi_count(base, _mm512_cmpge_epi32_mask(kept, point));
}

QNI_INLINE vi vi_iq4_codes(vf x)
{
    return vec_iq4_places(vf_max(vf_min(x, vf_set(200.0f)), vf_set(-200.0f)));
}

QNI_INLINE vf vf_iq4_values(vf x)
{
    const vf values =
        _mm512_setr_ps(-127.0f, -104.0f, -83.0f, -65.0f, -49.0f, -35.0f, -22.0f, -10.0f, 1.0f,
                       13.0f, 25.0f, 38.0f, 53.0f, 69.0f, 89.0f, 113.0f);
    return _mm512_permutexvar_ps(vec_iq4_places(x), values);
}

#endif
