/* vec_avx2_internal.h — sixteen lanes of f32 or i32 on AVX2: two 256-bit registers.
 *
 * The same names and meanings as vec_avx512_internal.h and vec_neon_internal.h; simd/ is written in
 * them and compiled once for each. Every operation rounds each lane as the C operator does, and
 * nothing is fused but by vf_fused(). Two registers a vector are also what hides the latency of an
 * addition.
 *
 *   vf  16 floats        vi  16 int32        vm  16 truth values
 *
 * vf_min(a, b) is a < b ? a : b and vf_max(a, b) is a > b ? a : b, also for NaN: b comes out. */
#ifndef QNI_VEC_AVX2_INTERNAL_H
#define QNI_VEC_AVX2_INTERNAL_H

#include <immintrin.h>

#include "kernels/x86/vec_bytes_internal.h"

#define VEC_NAME(base) base##_avx2

enum {
    VL = 16,
    VEC_SPREAD = 1 /* vectors by six columns that sums fill the registers with */
};

typedef struct vf {
    __m256 a;
    __m256 b;
} vf;

typedef struct vi {
    __m256i a;
    __m256i b;
} vi;

typedef struct vm {
    __m256 a;
    __m256 b;
} vm;

/* clang-format off */
#define VEC_F1(name, op) \
    QNI_INLINE vf name(vf x) { return (vf){op(x.a), op(x.b)}; }
#define VEC_F2(name, op) \
    QNI_INLINE vf name(vf x, vf y) { return (vf){op(x.a, y.a), op(x.b, y.b)}; }
#define VEC_I2(name, op) \
    QNI_INLINE vi name(vi x, vi y) { return (vi){op(x.a, y.a), op(x.b, y.b)}; }
#define VEC_CMP(name, predicate) \
    QNI_INLINE vm name(vf x, vf y) \
    { return (vm){_mm256_cmp_ps(x.a, y.a, predicate), _mm256_cmp_ps(x.b, y.b, predicate)}; }

VEC_F2(vf_add, _mm256_add_ps)
VEC_F2(vf_sub, _mm256_sub_ps)
VEC_F2(vf_mul, _mm256_mul_ps)
VEC_F2(vf_div, _mm256_div_ps)
VEC_F2(vf_min, _mm256_min_ps)
VEC_F2(vf_max, _mm256_max_ps)
VEC_F1(vf_sqrt, _mm256_sqrt_ps)

VEC_CMP(vf_lt, _CMP_LT_OQ)
VEC_CMP(vf_le, _CMP_LE_OQ)
VEC_CMP(vf_gt, _CMP_GT_OQ)
VEC_CMP(vf_ge, _CMP_GE_OQ)
VEC_CMP(vf_eq, _CMP_EQ_OQ)

VEC_I2(vi_add, _mm256_add_epi32)
VEC_I2(vi_sub, _mm256_sub_epi32)
VEC_I2(vi_min, _mm256_min_epi32)
VEC_I2(vi_max, _mm256_max_epi32)
VEC_I2(vi_and, _mm256_and_si256)
VEC_I2(vi_or, _mm256_or_si256)
VEC_I2(vi_mul, _mm256_mullo_epi32)
/* clang-format on */

#undef VEC_F1
#undef VEC_F2
#undef VEC_I2
#undef VEC_CMP

/* Asks for the cache line `ahead` bytes after p, wherever that is. */
QNI_INLINE void vec_prefetch(const void *p, int64_t ahead)
{
    _mm_prefetch(qni_line_ahead(p, ahead), _MM_HINT_T1);
}

QNI_INLINE vf vf_set(float v)
{
    return (vf){_mm256_set1_ps(v), _mm256_set1_ps(v)};
}

/* x * y + z, rounded once: only where no other kernel's bits are to be met. */
QNI_INLINE vf vf_fused(vf x, vf y, vf z)
{
    return (vf){_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b)};
}

QNI_INLINE vf vf_load(const float *p)
{
    return (vf){_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)};
}

QNI_INLINE void vf_store(float *p, vf x)
{
    _mm256_storeu_ps(p, x.a);
    _mm256_storeu_ps(p + 8, x.b);
}

QNI_INLINE vi vi_set(int32_t v)
{
    return (vi){_mm256_set1_epi32(v), _mm256_set1_epi32(v)};
}

QNI_INLINE vi vi_load(const int32_t *p)
{
    return (vi){_mm256_loadu_si256((const __m256i *)(const void *)p),
                _mm256_loadu_si256((const __m256i *)(const void *)(p + 8))};
}

QNI_INLINE void vi_store(int32_t *p, vi x)
{
    _mm256_storeu_si256((__m256i *)(void *)p, x.a);
    _mm256_storeu_si256((__m256i *)(void *)(p + 8), x.b);
}

QNI_INLINE vi vi_bits(vf x)
{
    return (vi){_mm256_castps_si256(x.a), _mm256_castps_si256(x.b)};
}

QNI_INLINE vf vf_bits(vi x)
{
    return (vf){_mm256_castsi256_ps(x.a), _mm256_castsi256_ps(x.b)};
}

QNI_INLINE vf vf_abs(vf x)
{
    const __m256 mask = _mm256_castsi256_ps(_mm256_set1_epi32(0x7fffffff));
    return (vf){_mm256_and_ps(x.a, mask), _mm256_and_ps(x.b, mask)};
}

QNI_INLINE vf vf_neg(vf x)
{
    const __m256 sign = _mm256_set1_ps(-0.0f);
    return (vf){_mm256_xor_ps(x.a, sign), _mm256_xor_ps(x.b, sign)};
}

/* a where m holds, else b. */
QNI_INLINE vf vf_pick(vm m, vf a, vf b)
{
    return (vf){_mm256_blendv_ps(b.a, a.a, m.a), _mm256_blendv_ps(b.b, a.b, m.b)};
}

QNI_INLINE vi vi_pick(vm m, vi a, vi b)
{
    return vi_bits(vf_pick(m, vf_bits(a), vf_bits(b)));
}

QNI_INLINE vm vm_and(vm x, vm y)
{
    return (vm){_mm256_and_ps(x.a, y.a), _mm256_and_ps(x.b, y.b)};
}

QNI_INLINE vm vm_or(vm x, vm y)
{
    return (vm){_mm256_or_ps(x.a, y.a), _mm256_or_ps(x.b, y.b)};
}

/* x and not y. */
QNI_INLINE vm vm_but(vm x, vm y)
{
    return (vm){_mm256_andnot_ps(y.a, x.a), _mm256_andnot_ps(y.b, x.b)};
}

/* Lane i as bit i. */
QNI_INLINE uint32_t vm_bits(vm x)
{
    return (uint32_t)_mm256_movemask_ps(x.a) | (uint32_t)_mm256_movemask_ps(x.b) << 8;
}

QNI_INLINE bool vm_any(vm x)
{
    return _mm256_movemask_ps(_mm256_or_ps(x.a, x.b)) != 0;
}

QNI_INLINE bool vm_all(vm x)
{
    return _mm256_movemask_ps(_mm256_and_ps(x.a, x.b)) == 0xff;
}

QNI_INLINE vm vi_eq(vi x, vi y)
{
    return (vm){_mm256_castsi256_ps(_mm256_cmpeq_epi32(x.a, y.a)),
                _mm256_castsi256_ps(_mm256_cmpeq_epi32(x.b, y.b))};
}

QNI_INLINE vm vi_gt(vi x, vi y)
{
    return (vm){_mm256_castsi256_ps(_mm256_cmpgt_epi32(x.a, y.a)),
                _mm256_castsi256_ps(_mm256_cmpgt_epi32(x.b, y.b))};
}

/* Logical shifts by a constant. */
#define vi_shr(x, n) ((vi){_mm256_srli_epi32((x).a, n), _mm256_srli_epi32((x).b, n)})
#define vi_shl(x, n) ((vi){_mm256_slli_epi32((x).a, n), _mm256_slli_epi32((x).b, n)})

QNI_INLINE vf vf_from_vi(vi x)
{
    return (vf){_mm256_cvtepi32_ps(x.a), _mm256_cvtepi32_ps(x.b)};
}

/* Truncation; -2^31 for what does not fit. */
QNI_INLINE vi vi_trunc(vf x)
{
    return (vi){_mm256_cvttps_epi32(x.a), _mm256_cvttps_epi32(x.b)};
}

/* x + 1 where m holds. */
QNI_INLINE vi vi_count(vi x, vm m)
{
    return (vi){_mm256_sub_epi32(x.a, _mm256_castps_si256(m.a)),
                _mm256_sub_epi32(x.b, _mm256_castps_si256(m.b))};
}

/* The low byte of each lane. */
QNI_INLINE void vi_store_u8(uint8_t *p, vi x)
{
    const __m256i low = _mm256_set1_epi32(0xff);
    const __m256i words =
        _mm256_packus_epi32(_mm256_and_si256(x.a, low), _mm256_and_si256(x.b, low));
    const __m256i sorted = _mm256_permute4x64_epi64(words, 0xd8);
    const __m128i bytes =
        _mm_packus_epi16(_mm256_castsi256_si128(sorted), _mm256_extracti128_si256(sorted, 1));
    _mm_storeu_si128((__m128i *)(void *)p, bytes);
}

/* 32 lanes in -128..127. */
QNI_INLINE void vi_store_i8x2(int8_t *p, vi x, vi y)
{
    const __m256i xy =
        _mm256_packs_epi16(_mm256_packs_epi32(x.a, x.b), _mm256_packs_epi32(y.a, y.b));
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    _mm256_storeu_si256((__m256i *)(void *)p, _mm256_permutevar8x32_epi32(xy, order));
}

/* 16 bytes, zero-extended. Two loads that widen spare the shuffle. */
QNI_INLINE vi vi_load_u8(const uint8_t *p)
{
    return (vi){_mm256_cvtepu8_epi32(vb_load8(p)), _mm256_cvtepu8_epi32(vb_load8(p + 8))};
}

QNI_INLINE vi vi_load_i8(const int8_t *p)
{
    return (vi){_mm256_cvtepi8_epi32(vb_load8(p)), _mm256_cvtepi8_epi32(vb_load8(p + 8))};
}

QNI_INLINE vi vi_load_u16(const uint8_t *p)
{
    return (vi){_mm256_cvtepu16_epi32(vb_load(p)), _mm256_cvtepu16_epi32(vb_load(p + 16))};
}

QNI_INLINE vi vi_from_u8(vb x)
{
    return (vi){_mm256_cvtepu8_epi32(x), _mm256_cvtepu8_epi32(_mm_unpackhi_epi64(x, x))};
}

QNI_INLINE vi vi_from_i8(vb x)
{
    return (vi){_mm256_cvtepi8_epi32(x), _mm256_cvtepi8_epi32(_mm_unpackhi_epi64(x, x))};
}

/* Lane i: the word shifted right by 2 i. */
QNI_INLINE vi vi_unpack2(uint32_t word)
{
    const __m256i all = _mm256_set1_epi32((int32_t)word);
    return (vi){_mm256_srlv_epi32(all, _mm256_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14)),
                _mm256_srlv_epi32(all, _mm256_setr_epi32(16, 18, 20, 22, 24, 26, 28, 30))};
}

/* Lane i: the first word shifted right by 4 i; from lane 8 on the second one likewise. */
QNI_INLINE vi vi_unpack4(uint32_t first, uint32_t second)
{
    const __m256i by = _mm256_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28);
    return (vi){_mm256_srlv_epi32(_mm256_set1_epi32((int32_t)first), by),
                _mm256_srlv_epi32(_mm256_set1_epi32((int32_t)second), by)};
}

/* Lane i: one of the four entries of the table that stand in its own group of four lanes, by the
 * low two bits of x. */
QNI_INLINE vf vf_look4(vf table, vi x)
{
    return (vf){_mm256_permutevar_ps(table.a, x.a), _mm256_permutevar_ps(table.b, x.b)};
}

/* One of eight entries, which the table holds twice, by the low three bits of x. */
QNI_INLINE vf vf_look8(vf table, vi x)
{
    return (vf){_mm256_permutevar8x32_ps(table.a, x.a), _mm256_permutevar8x32_ps(table.b, x.b)};
}

/* The sign of lane i turned where bit i is set, of the low sixteen. */
QNI_INLINE vf vf_flip(vf x, uint32_t bits)
{
    const __m256i all = _mm256_set1_epi32((int32_t)bits);
    const __m256i a = _mm256_sllv_epi32(all, _mm256_setr_epi32(31, 30, 29, 28, 27, 26, 25, 24));
    const __m256i b = _mm256_sllv_epi32(all, _mm256_setr_epi32(23, 22, 21, 20, 19, 18, 17, 16));
    const __m256 sign = _mm256_set1_ps(-0.0f);
    return (vf){_mm256_xor_ps(x.a, _mm256_and_ps(_mm256_castsi256_ps(a), sign)),
                _mm256_xor_ps(x.b, _mm256_and_ps(_mm256_castsi256_ps(b), sign))};
}

/* vec_f16() in all lanes. */
QNI_INLINE vf vf_set_f16(const uint8_t *field)
{
    const __m256 all =
        _mm256_broadcastss_ps(_mm_cvtph_ps(_mm_cvtsi32_si128(qni_load_u16le(field))));
    return (vf){all, all};
}

QNI_INLINE int32_t vi_reduce_max(vi x)
{
    const __m256i half = _mm256_max_epi32(x.a, x.b);
    __m128i max = _mm_max_epi32(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
    max = _mm_max_epi32(max, _mm_shuffle_epi32(max, 0x4e));
    max = _mm_max_epi32(max, _mm_shuffle_epi32(max, 0xb1));
    return _mm_cvtsi128_si32(max);
}

QNI_INLINE int32_t vi_reduce_add(vi x)
{
    const __m256i half = _mm256_add_epi32(x.a, x.b);
    __m128i sum = _mm_add_epi32(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
    sum = _mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0x4e));
    sum = _mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0xb1));
    return _mm_cvtsi128_si32(sum);
}

/* Smallest and largest lane of numbers without NaN; of zeros either sign may come out. */
QNI_INLINE float vf_reduce_min(vf x)
{
    const __m256 half = _mm256_min_ps(x.a, x.b);
    __m128 min = _mm_min_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
    min = _mm_min_ps(min, _mm_movehl_ps(min, min));
    min = _mm_min_ss(min, _mm_shuffle_ps(min, min, 1));
    return _mm_cvtss_f32(min);
}

QNI_INLINE float vf_reduce_max(vf x)
{
    const __m256 half = _mm256_max_ps(x.a, x.b);
    __m128 max = _mm_max_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
    max = _mm_max_ps(max, _mm_movehl_ps(max, max));
    max = _mm_max_ss(max, _mm_shuffle_ps(max, max, 1));
    return _mm_cvtss_f32(max);
}

/* 16 binary16 values; a NaN keeps a payload, unlike qni_f16_from_f32(). */
QNI_INLINE void vf_store_f16(uint16_t *p, vf x)
{
    _mm_storeu_si128((__m128i *)(void *)p, _mm256_cvtps_ph(x.a, _MM_FROUND_TO_NEAREST_INT));
    _mm_storeu_si128((__m128i *)(void *)(p + 8), _mm256_cvtps_ph(x.b, _MM_FROUND_TO_NEAREST_INT));
}

QNI_INLINE vf vf_load_f16(const uint16_t *p)
{
    return (vf){_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)p)),
                _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)(p + 8)))};
}

/* The low 16 bits of each lane. */
QNI_INLINE void vi_store_u16(uint16_t *p, vi x)
{
    const __m256i low = _mm256_set1_epi32(0xffff);
    const __m256i words =
        _mm256_packus_epi32(_mm256_and_si256(x.a, low), _mm256_and_si256(x.b, low));
    _mm256_storeu_si256((__m256i *)(void *)p, _mm256_permute4x64_epi64(words, 0xd8));
}

/* 8 columns of 8 rows, turned: out[16 * i + r] = row r's value i. */
QNI_INLINE void vec_turn8(const float *const *rows, int64_t at, float *out)
{
    __m256 r[8];
    for (int i = 0; i < 8; i++) {
        r[i] = _mm256_loadu_ps(rows[i] + at);
    }
    __m256 t[8];
    for (int i = 0; i < 8; i += 2) {
        t[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
        t[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
    }
    for (int i = 0; i < 8; i += 4) {
        r[i] = _mm256_shuffle_ps(t[i], t[i + 2], 0x44);
        r[i + 1] = _mm256_shuffle_ps(t[i], t[i + 2], 0xee);
        r[i + 2] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0x44);
        r[i + 3] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0xee);
    }
    for (int i = 0; i < 4; i++) {
        _mm256_storeu_ps(out + VL * i, _mm256_permute2f128_ps(r[i], r[i + 4], 0x20));
        _mm256_storeu_ps(out + VL * (i + 4), _mm256_permute2f128_ps(r[i], r[i + 4], 0x31));
    }
}

/* Sixteen arrays side by side: out[16 * i + lane] = rows[lane][at + i], n a multiple of 16. */
QNI_INLINE void vec_transpose(const float *const *rows, int64_t at, int n, float *out)
{
    for (int i = 0; i < n; i += 8) {
        vec_turn8(rows, at + i, out + VL * i);
        vec_turn8(rows + 8, at + i, out + VL * i + 8);
    }
}

/* The iq4 table, looked up: the place of v among the code values, 0..15 (half-way goes up), for
 * |v| < 2^29. Decision points are multiples of 1/2, so the place depends on
 * w = floor(2 v) only. Bins of 32 in w: `base` counts the points at or below a bin's start, `first`
 * and `second` are the points inside it (relative, one too low for a comparison by >; 127: none).
 */
QNI_INLINE __m256i vec_iq4_codes16(vf x)
{
    const __m256i base = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(0, 1, 1, 2, 3, 4, 5, 7, 8, 9, 11, 12, 13, 14, 14, 15));
    const __m256i first = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(24, 127, 4, 11, 13, 11, 6, 22, 13, 5, 26, 25, 29, 127, 9, 127));
    const __m256i second = _mm256_broadcastsi128_si256(_mm_setr_epi8(
        127, 127, 127, 127, 127, 127, 127, 127, 127, 30, 127, 127, 127, 127, 127, 127));
    const __m256i zero_high = _mm256_set1_epi16((short)0x8000); /* the upper byte looks up 0 */
    const __m256i wa = _mm256_cvtps_epi32(_mm256_floor_ps(_mm256_add_ps(x.a, x.a)));
    const __m256i wb = _mm256_cvtps_epi32(_mm256_floor_ps(_mm256_add_ps(x.b, x.b)));
    __m256i w = _mm256_packs_epi32(wa, wb); /* words; lanes 0-3, 8-11, 4-7, 12-15 */
    w = _mm256_min_epi16(_mm256_max_epi16(w, _mm256_set1_epi16(-256)), _mm256_set1_epi16(255));
    w = _mm256_add_epi16(w, _mm256_set1_epi16(256));
    const __m256i bin = _mm256_or_si256(_mm256_srli_epi16(w, 5), zero_high);
    const __m256i rest = _mm256_and_si256(w, _mm256_set1_epi16(31));
    __m256i code = _mm256_shuffle_epi8(base, bin);
    code = _mm256_sub_epi16(code, _mm256_cmpgt_epi16(rest, _mm256_shuffle_epi8(first, bin)));
    return _mm256_sub_epi16(code, _mm256_cmpgt_epi16(rest, _mm256_shuffle_epi8(second, bin)));
}

/* Codes of any v; NaN gives 15. */
QNI_INLINE vi vi_iq4_codes(vf x)
{
    const __m256i code = vec_iq4_codes16(vf_max(vf_min(x, vf_set(200.0f)), vf_set(-200.0f)));
    const __m256i zero = _mm256_setzero_si256();
    return (vi){_mm256_unpacklo_epi16(code, zero), _mm256_unpackhi_epi16(code, zero)};
}

/* The code values themselves, for |v| < 2^29. */
QNI_INLINE vf vf_iq4_values(vf x)
{
    const __m256i values = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113));
    const __m256i code = vec_iq4_codes16(x);
    /* The value goes to the upper byte of its word, so that one shift extends the sign. */
    const __m256i index = _mm256_or_si256(_mm256_slli_epi16(code, 8), _mm256_set1_epi16(0x0080));
    const __m256i value = _mm256_srai_epi16(_mm256_shuffle_epi8(values, index), 8);
    const __m256i sign = _mm256_srai_epi16(value, 15);
    return (vf){_mm256_cvtepi32_ps(_mm256_unpacklo_epi16(value, sign)),
                _mm256_cvtepi32_ps(_mm256_unpackhi_epi16(value, sign))};
}

#endif
