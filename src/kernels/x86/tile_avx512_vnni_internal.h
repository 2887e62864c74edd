/* tile_avx512_vnni_internal.h — the primitives of products over tiles on AVX-512 with VNNI: 16 rows
 * are one register, and vpdpbusd adds four products to a 32-bit lane, with the levels broadcast
 * from memory. Names and meanings are those of tile_avx2_internal.h. */
#ifndef QNI_TILE_AVX512_VNNI_INTERNAL_H
#define QNI_TILE_AVX512_VNNI_INTERNAL_H

#include <immintrin.h>

#include "kernels/tile_internal.h"

#define TILE_NAME(base) base##_avx512_vnni

#define TILE_HAS_WORDS 0
#define TILE_WIDEST    8

enum {
    TILE_SUM_BITS = 32,
    TILE_SIGNED_BIAS = 128, /* codes with a sign become unsigned */
    TILE_COLS = TILE_WIDEST,
    TILE_WIDTHS = 4 /* 1, 2, 4 and 8 columns */
};

typedef __m512i tile_w;
typedef __m512i tile_s;
typedef __m512i tile_i;
typedef __m512 tile_f;

#ifndef KEEP_SUM
#define KEEP_SUM(v) __asm__("" : "+v"(v))
#endif

QNI_INLINE tile_w tile_load(const uint8_t *p)
{
    return _mm512_load_si512(p);
}

QNI_INLINE void tile_store(uint8_t *p, tile_w w)
{
    _mm512_store_si512(p, w);
}

/* Compilers do not agree on the type of this count. */
#if defined(__clang__)
#define SHIFT_16(n) ((unsigned)(n))
#else
#define SHIFT_16(n) (n)
#endif

QNI_INLINE tile_w tile_shift(tile_w w, int n)
{
    if (n > 0) {
        return _mm512_slli_epi16(w, SHIFT_16(n));
    }
    return n == 0 ? w : _mm512_srli_epi16(w, SHIFT_16(-n));
}

QNI_INLINE tile_w tile_mask(tile_w w, int byte)
{
    return _mm512_and_si512(w, _mm512_set1_epi8((char)byte));
}

QNI_INLINE tile_w tile_or(tile_w v, tile_w w)
{
    return _mm512_or_si512(v, w);
}

QNI_INLINE tile_w tile_flip(tile_w w)
{
    return _mm512_xor_si512(w, _mm512_set1_epi8(-128));
}

QNI_INLINE tile_w tile_look_up(const int8_t *table, tile_w w)
{
    const __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)table);
    return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(bytes), w);
}

QNI_INLINE __m512i broadcast_4(const void *p)
{
    int32_t four;
    memcpy(&four, p, sizeof four);
    return _mm512_set1_epi32(four);
}

QNI_INLINE tile_s tile_start(const void *p)
{
    return broadcast_4(p);
}

QNI_INLINE tile_s tile_add(tile_s s, tile_w w, const int8_t *levels)
{
    s = _mm512_dpbusd_epi32(s, w, broadcast_4(levels));
    KEEP_SUM(s);
    return s;
}

QNI_INLINE tile_s tile_first(tile_w w, const int8_t *levels)
{
    return tile_add(_mm512_setzero_si512(), w, levels);
}

/* -bias times the sums of 32 levels; in units of 16 or 32 elements. */
QNI_INLINE void tile_put_starts(const int8_t *levels, int bias, int n_unit, int32_t *out)
{
    int32_t sum[2] = {0, 0};
    for (int i = 0; i < 32; i++) {
        sum[i / 16] += levels[i];
    }
    if (n_unit == 16) {
        out[0] = -bias * sum[0];
        out[1] = -bias * sum[1];
    } else {
        out[0] = -bias * (sum[0] + sum[1]);
    }
}

QNI_INLINE tile_i tile_zero(void)
{
    return _mm512_setzero_si512();
}

QNI_INLINE tile_i tile_scale(tile_i sum, tile_s s, const int32_t *factor)
{
    return _mm512_add_epi32(sum, _mm512_mullo_epi32(s, _mm512_load_si512(factor)));
}

QNI_INLINE tile_i tile_whole(tile_i sum, tile_s s)
{
    return _mm512_add_epi32(sum, s);
}

QNI_INLINE tile_i tile_pairs(tile_i sum, const int32_t *pairs, const void *p)
{
    return _mm512_dpwssd_epi32(sum, _mm512_load_si512(pairs), broadcast_4(p));
}

QNI_INLINE tile_f tile_float(tile_i v)
{
    return _mm512_cvtepi32_ps(v);
}

QNI_INLINE tile_f tile_set(float v)
{
    return _mm512_set1_ps(v);
}

QNI_INLINE tile_f tile_floats(const float *p)
{
    return _mm512_load_ps(p);
}

QNI_INLINE void tile_put(float *p, tile_f v)
{
    _mm512_store_ps(p, v);
}

QNI_INLINE tile_f tile_mul(tile_f x, tile_f y)
{
    return _mm512_mul_ps(x, y);
}

QNI_INLINE tile_f tile_plus(tile_f x, tile_f y)
{
    return _mm512_add_ps(x, y);
}

QNI_INLINE tile_f tile_minus(tile_f x, tile_f y)
{
    return _mm512_sub_ps(x, y);
}

typedef __m128i row_bytes;

QNI_INLINE row_bytes rows_load(const uint8_t *p)
{
    return _mm_load_si128((const __m128i *)(const void *)p);
}

QNI_INLINE row_bytes rows_shift(row_bytes v, int n)
{
    return n > 0 ? _mm_slli_epi16(v, n) : _mm_srli_epi16(v, -n);
}

QNI_INLINE row_bytes rows_mask(row_bytes v, int byte)
{
    return _mm_and_si128(v, _mm_set1_epi8((char)byte));
}

QNI_INLINE row_bytes rows_or(row_bytes v, row_bytes w)
{
    return _mm_or_si128(v, w);
}

QNI_INLINE row_bytes rows_minus(row_bytes v, int byte)
{
    return _mm_sub_epi8(v, _mm_set1_epi8((char)byte));
}

QNI_INLINE tile_f rows_halves(const uint8_t *p)
{
    return _mm512_cvtph_ps(_mm256_load_si256((const __m256i *)(const void *)p));
}

QNI_INLINE tile_f rows_e8m0(row_bytes v)
{
    const __m512i e = _mm512_cvtepu8_epi32(v);
    const __m512i normal = _mm512_slli_epi32(_mm512_sub_epi32(e, _mm512_set1_epi32(1)), 23);
    const __m512i subnormal = _mm512_sllv_epi32(_mm512_set1_epi32(0x00200000), e);
    const __mmask16 is_normal = _mm512_cmpgt_epi32_mask(e, _mm512_set1_epi32(1));
    return _mm512_castsi512_ps(_mm512_mask_blend_epi32(is_normal, subnormal, normal));
}

QNI_INLINE tile_i rows_u16(const uint8_t *p)
{
    return _mm512_cvtepu16_epi32(_mm256_load_si256((const __m256i *)(const void *)p));
}

QNI_INLINE row_bytes rows_narrow(tile_i v)
{
    return _mm512_cvtepi32_epi8(v);
}

QNI_INLINE tile_i lanes_shift(tile_i v, int n)
{
    return _mm512_srli_epi32(v, (unsigned)n);
}

QNI_INLINE tile_i lanes_mask(tile_i v, int mask)
{
    return _mm512_and_si512(v, _mm512_set1_epi32(mask));
}

QNI_INLINE void rows_put_factors(row_bytes v, int32_t *out)
{
    _mm512_store_si512(out, _mm512_cvtepi8_epi32(v));
}

QNI_INLINE void rows_put_pairs(row_bytes even, row_bytes odd, int32_t *out)
{
    const __m512i low = _mm512_cvtepu8_epi32(even);
    const __m512i high = _mm512_slli_epi32(_mm512_cvtepu8_epi32(odd), 16);
    _mm512_store_si512(out, _mm512_or_si512(low, high));
}

QNI_INLINE float tile_half(const uint8_t *field)
{
    return _cvtsh_ss(qni_load_u16le(field));
}

/* The cache line `ahead` bytes after p, wherever that is. */
QNI_INLINE void tile_prefetch(const void *p, int64_t ahead)
{
    _mm_prefetch(qni_line_ahead(p, ahead), _MM_HINT_T0);
}

#endif
