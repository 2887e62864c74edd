/* immintrin.h — the AVX-512 instructions that the kernels use, in plain C, lane by lane.
 *
 * For checks on machines without AVX-512: the sources of its kernels are compiled with this folder
 * before the system's and run on AVX2. What is checked so is their logic, not the instructions;
 * scripts/emulate.sh and machines that have them do that. Semantics: Intel SDM volume 2. */
#ifndef QNT_PLAIN_AVX512_H
#define QNT_PLAIN_AVX512_H

#include_next <immintrin.h>

#include <math.h>
#include <stdint.h>
#include <string.h>

/* clang-format off */
#define PLAIN static inline __attribute__((always_inline, unused))
#define LANES_16 for (int i = 0; i < 16; i++)
/* Ints as an array of lanes: the intrinsics' type is one of eight 64-bit integers. */
typedef struct plain_ints { int32_t v[16]; } plain_ints;

PLAIN plain_ints plain_of(__m512i x) { plain_ints r; memcpy(&r, &x, 64); return r; }
PLAIN __m512i plain_to(plain_ints x) { __m512i r; memcpy(&r, &x, 64); return r; }

#define PLAIN_F2(name, expression) \
    PLAIN __m512 name(__m512 a, __m512 b) \
    { __m512 r; LANES_16 { r[i] = (expression); } return r; }
#define PLAIN_I2(name, expression) \
    PLAIN __m512i name(__m512i x, __m512i y) \
    { plain_ints a = plain_of(x), b = plain_of(y), r; LANES_16 { r.v[i] = (int32_t)(expression); } return plain_to(r); }
#define A_ (uint32_t)a.v[i]
#define B_ (uint32_t)b.v[i]

PLAIN_F2(plain_add_ps, a[i] + b[i])
PLAIN_F2(plain_sub_ps, a[i] - b[i])
PLAIN_F2(plain_mul_ps, a[i] * b[i])
PLAIN_F2(plain_div_ps, a[i] / b[i])
PLAIN_F2(plain_min_ps, a[i] < b[i] ? a[i] : b[i])
PLAIN_F2(plain_max_ps, a[i] > b[i] ? a[i] : b[i])
PLAIN_F2(plain_unpacklo_ps, i % 2 ? b[i / 4 * 4 + i % 4 / 2] : a[i / 4 * 4 + i % 4 / 2])
PLAIN_F2(plain_unpackhi_ps, i % 2 ? b[i / 4 * 4 + 2 + i % 4 / 2] : a[i / 4 * 4 + 2 + i % 4 / 2])
PLAIN_I2(plain_add_epi32, A_ + B_)
PLAIN_I2(plain_sub_epi32, A_ - B_)
PLAIN_I2(plain_mullo_epi32, A_ * B_)
PLAIN_I2(plain_and_si512, A_ & B_)
PLAIN_I2(plain_or_si512, A_ | B_)
PLAIN_I2(plain_xor_si512, A_ ^ B_)
PLAIN_I2(plain_min_epi32, a.v[i] < b.v[i] ? a.v[i] : b.v[i])
PLAIN_I2(plain_max_epi32, a.v[i] > b.v[i] ? a.v[i] : b.v[i])
PLAIN_I2(plain_srlv_epi32, B_ > 31 ? 0 : A_ >> B_)
PLAIN_I2(plain_sllv_epi32, B_ > 31 ? 0 : A_ << B_)
PLAIN_I2(plain_permutexvar_epi32, b.v[a.v[i] & 15]) /* the index comes first */

PLAIN __m512 plain_loadu_ps(const void *p) { __m512 r; memcpy(&r, p, 64); return r; }
PLAIN __m512i plain_loadu_si512(const void *p) { __m512i r; memcpy(&r, p, 64); return r; }
PLAIN void plain_storeu_ps(void *p, __m512 x) { memcpy(p, &x, 64); }
PLAIN void plain_storeu_si512(void *p, __m512i x) { memcpy(p, &x, 64); }
PLAIN __m512 plain_set1_ps(float v) { __m512 r; LANES_16 { r[i] = v; } return r; }
PLAIN __m512i plain_set1_epi32(int32_t v) { plain_ints r; LANES_16 { r.v[i] = v; } return plain_to(r); }
#define plain_setr_ps(...) plain_loadu_ps((const float[16]){__VA_ARGS__})
#define plain_setr_epi32(...) plain_loadu_si512((const int32_t[16]){__VA_ARGS__})
PLAIN __m512 plain_broadcastss_ps(__m128 x) { return plain_set1_ps(x[0]); }
PLAIN __m512 plain_broadcast_f32x8(__m256 x) { __m512 r; LANES_16 { r[i] = x[i % 8]; } return r; }
PLAIN __m512i plain_cast(__m512 x) { __m512i r; memcpy(&r, &x, 64); return r; }
PLAIN __m512 plain_uncast(__m512i x) { __m512 r; memcpy(&r, &x, 64); return r; }
PLAIN __m512i plain_castsi256(__m256i x) { __m512i r = plain_set1_epi32(0x5a5a5a5a); memcpy(&r, &x, 32); return r; }

PLAIN __m512 plain_sqrt_ps(__m512 x) { __m512 r; LANES_16 { r[i] = _mm_cvtss_f32(_mm_sqrt_ss(_mm_set_ss(x[i]))); } return r; }
PLAIN __m512 plain_fmadd_ps(__m512 a, __m512 b, __m512 c) { __m512 r; LANES_16 { r[i] = fmaf(a[i], b[i], c[i]); } return r; }
/* Bytes and words. Calls: kernels over tiles are unrolled, and loops in them would take minutes to compile. */
#define PLAIN_CALL static __attribute__((noinline, unused))
typedef struct plain_bytes { uint8_t v[64]; } plain_bytes;
typedef struct plain_words { uint16_t v[32]; } plain_words;
PLAIN plain_bytes plain_bytes_of(__m512i x) { plain_bytes r; memcpy(&r, &x, 64); return r; }
PLAIN plain_words plain_words_of(__m512i x) { plain_words r; memcpy(&r, &x, 64); return r; }
PLAIN __m512i plain_set1_epi8(char v) { __m512i r; memset(&r, v, 64); return r; }
PLAIN __m512i plain_broadcast_i32x4(__m128i x) { __m512i r; for (int i = 0; i < 4; i++) { memcpy((char *)&r + 16 * i, &x, 16); } return r; }
PLAIN_CALL __m512i plain_slli_epi16(__m512i x, int n) { plain_words a = plain_words_of(x); __m512i r; for (int i = 0; i < 32; i++) { a.v[i] = (uint16_t)(n > 15 ? 0 : a.v[i] << n); } memcpy(&r, &a, 64); return r; }
PLAIN_CALL __m512i plain_srli_epi16(__m512i x, int n) { plain_words a = plain_words_of(x); __m512i r; for (int i = 0; i < 32; i++) { a.v[i] = (uint16_t)(n > 15 ? 0 : a.v[i] >> n); } memcpy(&r, &a, 64); return r; }
PLAIN_CALL __m512i plain_shuffle_epi8(__m512i t, __m512i x)
{
    const plain_bytes a = plain_bytes_of(t), b = plain_bytes_of(x);
    plain_bytes r;
    __m512i out;
    for (int i = 0; i < 64; i++) { r.v[i] = b.v[i] & 128 ? 0 : a.v[i / 16 * 16 + (b.v[i] & 15)]; }
    memcpy(&out, &r, 64);
    return out;
}
/* Four products of a byte without a sign and one with, onto a lane; they wrap, not saturate. */
PLAIN_CALL __m512i plain_dpbusd_epi32(__m512i c, __m512i x, __m512i y)
{
    const plain_bytes a = plain_bytes_of(x), b = plain_bytes_of(y);
    plain_ints r = plain_of(c);
    LANES_16 { for (int k = 4 * i; k < 4 * i + 4; k++) { r.v[i] = (int32_t)((uint32_t)r.v[i] + (uint32_t)(a.v[k] * (int8_t)b.v[k])); } }
    return plain_to(r);
}
/* Two products of words with signs. */
PLAIN_CALL __m512i plain_dpwssd_epi32(__m512i c, __m512i x, __m512i y)
{
    const plain_words a = plain_words_of(x), b = plain_words_of(y);
    plain_ints r = plain_of(c);
    LANES_16 { for (int k = 2 * i; k < 2 * i + 2; k++) { r.v[i] = (int32_t)((uint32_t)r.v[i] + (uint32_t)((int16_t)a.v[k] * (int16_t)b.v[k])); } }
    return plain_to(r);
}
/* Both products fused with the sum, the odd ones first; subnormal numbers are not taken for zeros here. */
PLAIN float plain_bf16(__m512bh x, int i) { uint16_t h; uint32_t bits; float f; memcpy(&h, (const char *)&x + 2 * i, 2); bits = (uint32_t)h << 16; memcpy(&f, &bits, 4); return f; }
PLAIN __m512 plain_dpbf16_ps(__m512 c, __m512bh a, __m512bh b)
{
    __m512 r;
    LANES_16 {
        const float odd = fmaf(plain_bf16(a, 2 * i + 1), plain_bf16(b, 2 * i + 1), c[i]);
        r[i] = fmaf(plain_bf16(a, 2 * i), plain_bf16(b, 2 * i), odd);
    }
    return r;
}
/* To nearest even or down, whole numbers. */
PLAIN __m512 plain_roundscale_ps(__m512 x, int how) { __m512 r; LANES_16 { r[i] = (how & 3) == 1 ? floorf(x[i]) : nearbyintf(x[i]); } return r; }
/* Off by nearly as much as the instruction may be. */
PLAIN __m512 plain_rcp14_ps(__m512 x)
{
    __m512 r;
    LANES_16 { float v = 1.0f / x[i]; uint32_t bits; memcpy(&bits, &v, 4); bits &= 0xfffffe00u; memcpy(&v, &bits, 4); r[i] = v; }
    return r;
}

PLAIN __m512 plain_cvtepi32_ps(__m512i x) { plain_ints a = plain_of(x); __m512 r; LANES_16 { r[i] = (float)a.v[i]; } return r; }
PLAIN __m512i plain_cvtps_epi32(__m512 x) { plain_ints r; LANES_16 { r.v[i] = _mm_cvtss_si32(_mm_set_ss(x[i])); } return plain_to(r); }
PLAIN __m512i plain_cvttps_epi32(__m512 x) { plain_ints r; LANES_16 { r.v[i] = _mm_cvttss_si32(_mm_set_ss(x[i])); } return plain_to(r); }
PLAIN __m512i plain_cvtepu8_epi32(__m128i x) { uint8_t b[16]; plain_ints r; memcpy(b, &x, 16); LANES_16 { r.v[i] = b[i]; } return plain_to(r); }
PLAIN __m512i plain_cvtepi8_epi32(__m128i x) { int8_t b[16]; plain_ints r; memcpy(b, &x, 16); LANES_16 { r.v[i] = b[i]; } return plain_to(r); }
PLAIN __m512i plain_cvtepu16_epi32(__m256i x) { uint16_t b[16]; plain_ints r; memcpy(b, &x, 32); LANES_16 { r.v[i] = b[i]; } return plain_to(r); }
PLAIN __m128i plain_cvtepi32_epi8(__m512i x) { plain_ints a = plain_of(x); uint8_t b[16]; __m128i r; LANES_16 { b[i] = (uint8_t)a.v[i]; } memcpy(&r, b, 16); return r; }
PLAIN __m256i plain_cvtepi32_epi16(__m512i x) { plain_ints a = plain_of(x); uint16_t b[16]; __m256i r; LANES_16 { b[i] = (uint16_t)a.v[i]; } memcpy(&r, b, 32); return r; }
PLAIN __m512 plain_cvtph_ps(__m256i x)
{
    __m512 r;
    LANES_16 { uint16_t h; memcpy(&h, (const char *)&x + 2 * i, 2); r[i] = _cvtsh_ss(h); }
    return r;
}
PLAIN __m256i plain_cvtps_ph(__m512 x, int how)
{
    __m256i r;
    (void)how;
    LANES_16 { const uint16_t h = _cvtss_sh(x[i], _MM_FROUND_TO_NEAREST_INT); memcpy((char *)&r + 2 * i, &h, 2); }
    return r;
}

PLAIN __m512i plain_srli_epi32(__m512i x, unsigned n) { plain_ints a = plain_of(x), r; LANES_16 { r.v[i] = (int32_t)(n > 31 ? 0 : A_ >> n); } return plain_to(r); }
PLAIN __m512i plain_slli_epi32(__m512i x, unsigned n) { plain_ints a = plain_of(x), r; LANES_16 { r.v[i] = (int32_t)(n > 31 ? 0 : A_ << n); } return plain_to(r); }
PLAIN __m512 plain_permutexvar_ps(__m512i x, __m512 t) { plain_ints a = plain_of(x); __m512 r; LANES_16 { r[i] = t[a.v[i] & 15]; } return r; }
PLAIN __m512 plain_permutevar_ps(__m512 t, __m512i x) { plain_ints a = plain_of(x); __m512 r; LANES_16 { r[i] = t[i / 4 * 4 + (a.v[i] & 3)]; } return r; }
PLAIN __m512i plain_permutex2var_epi32(__m512i x, __m512i index, __m512i y)
{
    plain_ints a = plain_of(x), b = plain_of(y), n = plain_of(index), r;
    LANES_16 { r.v[i] = n.v[i] & 16 ? b.v[n.v[i] & 15] : a.v[n.v[i] & 15]; }
    return plain_to(r);
}
PLAIN __m512i plain_alignr_epi32(__m512i high, __m512i low, int n)
{
    plain_ints a = plain_of(high), b = plain_of(low), r;
    LANES_16 { r.v[i] = i + n < 16 ? b.v[(i + n) & 15] : a.v[(i + n) & 15]; }
    return plain_to(r);
}
PLAIN __m512 plain_shuffle_ps(__m512 a, __m512 b, int how)
{
    __m512 r;
    LANES_16 { const int from = i / 4 * 4 + (how >> (2 * (i % 4)) & 3); r[i] = i % 4 < 2 ? a[from] : b[from]; }
    return r;
}
PLAIN __m512 plain_shuffle_f32x4(__m512 a, __m512 b, int how)
{
    __m512 r;
    LANES_16 { const int from = (how >> (2 * (i / 4)) & 3) * 4 + i % 4; r[i] = i < 8 ? a[from] : b[from]; }
    return r;
}
PLAIN __m512i plain_i32gather_epi32(__m512i index, const void *base, int scale)
{
    plain_ints a = plain_of(index), r;
    LANES_16 { memcpy(&r.v[i], (const char *)base + (int64_t)a.v[i] * scale, 4); }
    return plain_to(r);
}

PLAIN int plain_compare(float a, float b, int predicate)
{
    switch (predicate) {
    case _CMP_EQ_OQ: return a == b;
    case _CMP_LT_OQ: return a < b;
    case _CMP_LE_OQ: return a <= b;
    case _CMP_GE_OQ: return a >= b;
    case _CMP_GT_OQ: return a > b;
    case _CMP_NGT_UQ: return !(a > b);
    default: __builtin_trap();
    }
}
PLAIN __mmask16 plain_cmp_ps_mask(__m512 a, __m512 b, int predicate) { uint32_t m = 0; LANES_16 { m |= (uint32_t)plain_compare(a[i], b[i], predicate) << i; } return (__mmask16)m; }
PLAIN __mmask16 plain_mask_cmp_ps_mask(__mmask16 k, __m512 a, __m512 b, int predicate) { return (__mmask16)(k & plain_cmp_ps_mask(a, b, predicate)); }
#define PLAIN_CMP(name, op) \
    PLAIN __mmask16 name(__m512i x, __m512i y) \
    { plain_ints a = plain_of(x), b = plain_of(y); uint32_t m = 0; LANES_16 { m |= (uint32_t)(a.v[i] op b.v[i]) << i; } return (__mmask16)m; }
PLAIN_CMP(plain_cmpeq_epi32_mask, ==)
PLAIN_CMP(plain_cmpge_epi32_mask, >=)
PLAIN_CMP(plain_cmpgt_epi32_mask, >)
PLAIN __mmask16 plain_mask_cmpeq_epi32_mask(__mmask16 k, __m512i x, __m512i y) { return (__mmask16)(k & plain_cmpeq_epi32_mask(x, y)); }
PLAIN __m512i plain_mask_blend_epi32(__mmask16 k, __m512i x, __m512i y) { plain_ints a = plain_of(x), b = plain_of(y), r; LANES_16 { r.v[i] = k >> i & 1 ? b.v[i] : a.v[i]; } return plain_to(r); }
PLAIN __m512 plain_mask_blend_ps(__mmask16 k, __m512 a, __m512 b) { return plain_uncast(plain_mask_blend_epi32(k, plain_cast(a), plain_cast(b))); }
PLAIN __m512 plain_maskz_mov_ps(__mmask16 k, __m512 a) { return plain_mask_blend_ps(k, plain_set1_ps(0), a); }
PLAIN __m512i plain_mask_set1_epi32(__m512i src, __mmask16 k, int32_t v) { return plain_mask_blend_epi32(k, src, plain_set1_epi32(v)); }
PLAIN __m512i plain_mask_add_epi32(__m512i src, __mmask16 k, __m512i a, __m512i b) { return plain_mask_blend_epi32(k, src, plain_add_epi32(a, b)); }
PLAIN __m512i plain_mask_xor_epi32(__m512i src, __mmask16 k, __m512i a, __m512i b) { return plain_mask_blend_epi32(k, src, plain_xor_si512(a, b)); }
PLAIN void plain_mask_storeu_epi32(void *p, __mmask16 k, __m512i x)
{
    plain_ints a = plain_of(x);
    LANES_16 { if (k >> i & 1) { memcpy((char *)p + 4 * i, &a.v[i], 4); } }
}

#define PLAIN_REDUCE(name, vector, scalar, first, expression) \
    PLAIN scalar name(vector x) { scalar r = first; for (int i = 1; i < 16; i++) { r = (expression); } return r; }
PLAIN_REDUCE(plain_reduce_max_ps, __m512, float, x[0], x[i] > r ? x[i] : r)
PLAIN_REDUCE(plain_reduce_min_ps, __m512, float, x[0], x[i] < r ? x[i] : r)
PLAIN_REDUCE(plain_reduce_max_epi32, __m512i, int32_t, plain_of(x).v[0], plain_of(x).v[i] > r ? plain_of(x).v[i] : r)
PLAIN_REDUCE(plain_reduce_add_epi32, __m512i, int32_t, plain_of(x).v[0], (int32_t)((uint32_t)r + (uint32_t)plain_of(x).v[i]))

#undef A_
#undef B_
#undef PLAIN
#undef PLAIN_CALL
#undef LANES_16

#define _mm512_castps_si512(x) plain_cast(x)
#define _mm512_castsi512_ps(x) plain_uncast(x)
#define _mm512_castsi256_si512(x) plain_castsi256(x)
#undef _mm512_setr_ps
#undef _mm512_setr_epi32
#undef _mm512_setzero_ps
#define _mm512_setzero_ps() plain_set1_ps(0)
#undef _mm512_add_epi32
#define _mm512_add_epi32 plain_add_epi32
#undef _mm512_add_ps
#define _mm512_add_ps plain_add_ps
#undef _mm512_alignr_epi32
#define _mm512_alignr_epi32 plain_alignr_epi32
#undef _mm512_and_si512
#define _mm512_and_si512 plain_and_si512
#undef _mm512_broadcast_f32x8
#define _mm512_broadcast_f32x8 plain_broadcast_f32x8
#undef _mm512_broadcastss_ps
#define _mm512_broadcastss_ps plain_broadcastss_ps
#undef _mm512_cmp_ps_mask
#define _mm512_cmp_ps_mask plain_cmp_ps_mask
#undef _mm512_cmpeq_epi32_mask
#define _mm512_cmpeq_epi32_mask plain_cmpeq_epi32_mask
#undef _mm512_cmpge_epi32_mask
#define _mm512_cmpge_epi32_mask plain_cmpge_epi32_mask
#undef _mm512_cmpgt_epi32_mask
#define _mm512_cmpgt_epi32_mask plain_cmpgt_epi32_mask
#undef _mm512_cvtepi32_epi16
#define _mm512_cvtepi32_epi16 plain_cvtepi32_epi16
#undef _mm512_cvtepi32_epi8
#define _mm512_cvtepi32_epi8 plain_cvtepi32_epi8
#undef _mm512_cvtepi32_ps
#define _mm512_cvtepi32_ps plain_cvtepi32_ps
#undef _mm512_cvtepi8_epi32
#define _mm512_cvtepi8_epi32 plain_cvtepi8_epi32
#undef _mm512_cvtepu16_epi32
#define _mm512_cvtepu16_epi32 plain_cvtepu16_epi32
#undef _mm512_cvtepu8_epi32
#define _mm512_cvtepu8_epi32 plain_cvtepu8_epi32
#undef _mm512_cvtph_ps
#define _mm512_cvtph_ps plain_cvtph_ps
#undef _mm512_cvtps_epi32
#define _mm512_cvtps_epi32 plain_cvtps_epi32
#undef _mm512_cvtps_ph
#define _mm512_cvtps_ph plain_cvtps_ph
#undef _mm512_cvttps_epi32
#define _mm512_cvttps_epi32 plain_cvttps_epi32
#undef _mm512_div_ps
#define _mm512_div_ps plain_div_ps
#undef _mm512_broadcast_i32x4
#define _mm512_broadcast_i32x4 plain_broadcast_i32x4
#undef _mm512_dpbusd_epi32
#define _mm512_dpbusd_epi32 plain_dpbusd_epi32
#undef _mm512_dpwssd_epi32
#define _mm512_dpwssd_epi32 plain_dpwssd_epi32
#undef _mm512_load_ps
#define _mm512_load_ps plain_loadu_ps
#undef _mm512_load_si512
#define _mm512_load_si512 plain_loadu_si512
#undef _mm512_set1_epi8
#define _mm512_set1_epi8 plain_set1_epi8
#undef _mm512_setzero_si512
#define _mm512_setzero_si512() plain_set1_epi32(0)
#undef _mm512_shuffle_epi8
#define _mm512_shuffle_epi8 plain_shuffle_epi8
#undef _mm512_slli_epi16
#define _mm512_slli_epi16 plain_slli_epi16
#undef _mm512_sllv_epi32
#define _mm512_sllv_epi32 plain_sllv_epi32
#undef _mm512_srli_epi16
#define _mm512_srli_epi16 plain_srli_epi16
#undef _mm512_store_ps
#define _mm512_store_ps plain_storeu_ps
#undef _mm512_store_si512
#define _mm512_store_si512 plain_storeu_si512
/* No register holds 64 bytes here. */
#define KEEP_SUM(v) (void)0
#undef _mm512_dpbf16_ps
#define _mm512_dpbf16_ps plain_dpbf16_ps
#undef _mm512_fmadd_ps
#define _mm512_fmadd_ps plain_fmadd_ps
#undef _mm512_i32gather_epi32
#define _mm512_i32gather_epi32 plain_i32gather_epi32
#undef _mm512_loadu_ps
#define _mm512_loadu_ps plain_loadu_ps
#undef _mm512_loadu_si512
#define _mm512_loadu_si512 plain_loadu_si512
#undef _mm512_mask_add_epi32
#define _mm512_mask_add_epi32 plain_mask_add_epi32
#undef _mm512_mask_blend_epi32
#define _mm512_mask_blend_epi32 plain_mask_blend_epi32
#undef _mm512_mask_blend_ps
#define _mm512_mask_blend_ps plain_mask_blend_ps
#undef _mm512_mask_cmp_ps_mask
#define _mm512_mask_cmp_ps_mask plain_mask_cmp_ps_mask
#undef _mm512_mask_cmpeq_epi32_mask
#define _mm512_mask_cmpeq_epi32_mask plain_mask_cmpeq_epi32_mask
#undef _mm512_mask_set1_epi32
#define _mm512_mask_set1_epi32 plain_mask_set1_epi32
#undef _mm512_mask_storeu_epi32
#define _mm512_mask_storeu_epi32 plain_mask_storeu_epi32
#undef _mm512_mask_xor_epi32
#define _mm512_mask_xor_epi32 plain_mask_xor_epi32
#undef _mm512_maskz_mov_ps
#define _mm512_maskz_mov_ps plain_maskz_mov_ps
#undef _mm512_max_epi32
#define _mm512_max_epi32 plain_max_epi32
#undef _mm512_max_ps
#define _mm512_max_ps plain_max_ps
#undef _mm512_min_epi32
#define _mm512_min_epi32 plain_min_epi32
#undef _mm512_min_ps
#define _mm512_min_ps plain_min_ps
#undef _mm512_mul_ps
#define _mm512_mul_ps plain_mul_ps
#undef _mm512_mullo_epi32
#define _mm512_mullo_epi32 plain_mullo_epi32
#undef _mm512_or_si512
#define _mm512_or_si512 plain_or_si512
#undef _mm512_permutevar_ps
#define _mm512_permutevar_ps plain_permutevar_ps
#undef _mm512_permutex2var_epi32
#define _mm512_permutex2var_epi32 plain_permutex2var_epi32
#undef _mm512_permutexvar_epi32
#define _mm512_permutexvar_epi32 plain_permutexvar_epi32
#undef _mm512_permutexvar_ps
#define _mm512_permutexvar_ps plain_permutexvar_ps
#undef _mm512_rcp14_ps
#define _mm512_rcp14_ps plain_rcp14_ps
#undef _mm512_reduce_add_epi32
#define _mm512_reduce_add_epi32 plain_reduce_add_epi32
#undef _mm512_reduce_max_epi32
#define _mm512_reduce_max_epi32 plain_reduce_max_epi32
#undef _mm512_reduce_max_ps
#define _mm512_reduce_max_ps plain_reduce_max_ps
#undef _mm512_reduce_min_ps
#define _mm512_reduce_min_ps plain_reduce_min_ps
#undef _mm512_roundscale_ps
#define _mm512_roundscale_ps plain_roundscale_ps
#undef _mm512_set1_epi32
#define _mm512_set1_epi32 plain_set1_epi32
#undef _mm512_set1_ps
#define _mm512_set1_ps plain_set1_ps
#undef _mm512_setr_epi32
#define _mm512_setr_epi32 plain_setr_epi32
#undef _mm512_setr_ps
#define _mm512_setr_ps plain_setr_ps
#undef _mm512_shuffle_f32x4
#define _mm512_shuffle_f32x4 plain_shuffle_f32x4
#undef _mm512_shuffle_ps
#define _mm512_shuffle_ps plain_shuffle_ps
#undef _mm512_slli_epi32
#define _mm512_slli_epi32 plain_slli_epi32
#undef _mm512_sqrt_ps
#define _mm512_sqrt_ps plain_sqrt_ps
#undef _mm512_srli_epi32
#define _mm512_srli_epi32 plain_srli_epi32
#undef _mm512_srlv_epi32
#define _mm512_srlv_epi32 plain_srlv_epi32
#undef _mm512_storeu_ps
#define _mm512_storeu_ps plain_storeu_ps
#undef _mm512_storeu_si512
#define _mm512_storeu_si512 plain_storeu_si512
#undef _mm512_sub_epi32
#define _mm512_sub_epi32 plain_sub_epi32
#undef _mm512_sub_ps
#define _mm512_sub_ps plain_sub_ps
#undef _mm512_unpackhi_ps
#define _mm512_unpackhi_ps plain_unpackhi_ps
#undef _mm512_unpacklo_ps
#define _mm512_unpacklo_ps plain_unpacklo_ps
#undef _mm512_xor_si512
#define _mm512_xor_si512 plain_xor_si512
/* clang-format on */

#endif
