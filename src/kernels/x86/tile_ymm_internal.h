/* tile_ymm_internal.h — what products over tiles on AVX2 and on AVX-VNNI share: 16 rows are two
 * registers. The primitives of sums are in tile_avx2_internal.h and tile_avx_vnni_internal.h. */
#ifndef QNI_TILE_YMM_INTERNAL_H
#define QNI_TILE_YMM_INTERNAL_H

#include <immintrin.h>

#include "kernels/tile_internal.h"

#define TILE_WIDEST 4 /* columns of a micro-tile: eight sums in registers */

enum { TILE_COLS = TILE_WIDEST, TILE_WIDTHS = 3 /* 1, 2 and 4 columns */ };

/* Four codes of 16 rows. */
typedef struct tile_w {
    __m256i a;
    __m256i b;
} tile_w;

/* Sums of 16 rows: of pairs of elements, in 16 bits; and whole, in 32. */
typedef struct tile_s {
    __m256i a;
    __m256i b;
} tile_s;

typedef struct tile_i {
    __m256i a;
    __m256i b;
} tile_i;

typedef struct tile_f {
    __m256 a;
    __m256 b;
} tile_f;

/* Hides how a sum came about: GCC would turn chains of additions into trees, and spill. */
#define KEEP_SUM(v) __asm__("" : "+x"(v))

/* --- codes ---------------------------------------------------------------------------------------
 */

QNI_INLINE tile_w tile_load(const uint8_t *p)
{
    return (tile_w){_mm256_load_si256((const __m256i *)(const void *)p),
                    _mm256_load_si256((const __m256i *)(const void *)(p + 32))};
}

QNI_INLINE void tile_store(uint8_t *p, tile_w w)
{
    _mm256_store_si256((__m256i *)(void *)p, w.a);
    _mm256_store_si256((__m256i *)(void *)(p + 32), w.b);
}

/* Up by n bits, or down; bits cross from byte to byte and are to be masked. */
QNI_INLINE tile_w tile_shift(tile_w w, int n)
{
    if (n > 0) {
        return (tile_w){_mm256_slli_epi16(w.a, n), _mm256_slli_epi16(w.b, n)};
    }
    return n == 0 ? w : (tile_w){_mm256_srli_epi16(w.a, -n), _mm256_srli_epi16(w.b, -n)};
}

QNI_INLINE tile_w tile_mask(tile_w w, int byte)
{
    const __m256i mask = _mm256_set1_epi8((char)byte);
    return (tile_w){_mm256_and_si256(w.a, mask), _mm256_and_si256(w.b, mask)};
}

QNI_INLINE tile_w tile_or(tile_w v, tile_w w)
{
    return (tile_w){_mm256_or_si256(v.a, w.a), _mm256_or_si256(v.b, w.b)};
}

/* Codes 0..15 to the bytes of a table. */
QNI_INLINE tile_w tile_look_up(const int8_t *table, tile_w w)
{
    const __m256i bytes =
        _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)(const void *)table));
    return (tile_w){_mm256_shuffle_epi8(bytes, w.a), _mm256_shuffle_epi8(bytes, w.b)};
}

/* --- integers ------------------------------------------------------------------------------------
 */

/* Four bytes in all lanes: a load, no more. */
QNI_INLINE __m256i broadcast_4(const void *p)
{
    int32_t four;
    memcpy(&four, p, sizeof four);
    return _mm256_set1_epi32(four);
}

/* A sum that starts at the lane at p. */
QNI_INLINE tile_s tile_start(const void *p)
{
    const __m256i start = broadcast_4(p);
    return (tile_s){start, start};
}

QNI_INLINE tile_i tile_zero(void)
{
    return (tile_i){_mm256_setzero_si256(), _mm256_setzero_si256()};
}

QNI_INLINE tile_i tile_lanes(const int32_t *p)
{
    return (tile_i){_mm256_load_si256((const __m256i *)(const void *)p),
                    _mm256_load_si256((const __m256i *)(const void *)(p + 8))};
}

/* sum + the products of two 16-bit numbers of each row with the two at p. */
QNI_INLINE tile_i tile_pairs(tile_i sum, const int32_t *pairs, const void *p)
{
    const tile_i w = tile_lanes(pairs);
    const __m256i two = broadcast_4(p);
    sum.a = _mm256_add_epi32(sum.a, _mm256_madd_epi16(w.a, two));
    sum.b = _mm256_add_epi32(sum.b, _mm256_madd_epi16(w.b, two));
    return sum;
}

/* --- floats --------------------------------------------------------------------------------------
 */

QNI_INLINE tile_f tile_float(tile_i v)
{
    return (tile_f){_mm256_cvtepi32_ps(v.a), _mm256_cvtepi32_ps(v.b)};
}

QNI_INLINE tile_f tile_set(float v)
{
    return (tile_f){_mm256_set1_ps(v), _mm256_set1_ps(v)};
}

QNI_INLINE tile_f tile_floats(const float *p)
{
    return (tile_f){_mm256_load_ps(p), _mm256_load_ps(p + 8)};
}

QNI_INLINE void tile_put(float *p, tile_f v)
{
    _mm256_store_ps(p, v.a);
    _mm256_store_ps(p + 8, v.b);
}

QNI_INLINE tile_f tile_mul(tile_f x, tile_f y)
{
    return (tile_f){_mm256_mul_ps(x.a, y.a), _mm256_mul_ps(x.b, y.b)};
}

QNI_INLINE tile_f tile_plus(tile_f x, tile_f y)
{
    return (tile_f){_mm256_add_ps(x.a, y.a), _mm256_add_ps(x.b, y.b)};
}

QNI_INLINE tile_f tile_minus(tile_f x, tile_f y)
{
    return (tile_f){_mm256_sub_ps(x.a, y.a), _mm256_sub_ps(x.b, y.b)};
}

/* --- fields of 16 rows ---------------------------------------------------------------------------
 */

typedef __m128i row_bytes;

QNI_INLINE row_bytes rows_load(const uint8_t *p)
{
    return _mm_load_si128((const __m128i *)(const void *)p);
}

/* Logical shifts of bytes by a constant; what is left is to be masked. */
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

/* f16 fields as floats. */
QNI_INLINE tile_f rows_halves(const uint8_t *p)
{
    return (tile_f){_mm256_cvtph_ps(rows_load(p)), _mm256_cvtph_ps(rows_load(p + 16))};
}

/* E8M0 scales, halved: 2^(e - 128), below e = 2 subnormal. */
QNI_INLINE __m256 half_e8m0_lanes(__m256i e)
{
    const __m256i normal = _mm256_slli_epi32(_mm256_sub_epi32(e, _mm256_set1_epi32(1)), 23);
    const __m256i subnormal = _mm256_sllv_epi32(_mm256_set1_epi32(0x00200000), e);
    const __m256i is_normal = _mm256_cmpgt_epi32(e, _mm256_set1_epi32(1));
    return _mm256_castsi256_ps(_mm256_blendv_epi8(subnormal, normal, is_normal));
}

QNI_INLINE tile_f rows_e8m0(row_bytes v)
{
    return (tile_f){half_e8m0_lanes(_mm256_cvtepu8_epi32(v)),
                    half_e8m0_lanes(_mm256_cvtepu8_epi32(_mm_unpackhi_epi64(v, v)))};
}

/* 16-bit fields in 32-bit lanes. */
QNI_INLINE tile_i rows_u16(const uint8_t *p)
{
    return (tile_i){_mm256_cvtepu16_epi32(rows_load(p)), _mm256_cvtepu16_epi32(rows_load(p + 16))};
}

QNI_INLINE row_bytes rows_narrow(tile_i v)
{
    const __m256i words = _mm256_packs_epi32(v.a, v.b);
    const __m256i sorted = _mm256_permute4x64_epi64(words, 0xd8);
    return _mm_packs_epi16(_mm256_castsi256_si128(sorted), _mm256_extracti128_si256(sorted, 1));
}

QNI_INLINE tile_i lanes_shift(tile_i v, int n)
{
    return (tile_i){_mm256_srli_epi32(v.a, n), _mm256_srli_epi32(v.b, n)};
}

QNI_INLINE tile_i lanes_mask(tile_i v, int mask)
{
    const __m256i m = _mm256_set1_epi32(mask);
    return (tile_i){_mm256_and_si256(v.a, m), _mm256_and_si256(v.b, m)};
}

/* Unsigned bytes of two steps as pairs. */
QNI_INLINE void rows_put_pairs(row_bytes even, row_bytes odd, int32_t *out)
{
    const __m256i a = _mm256_cvtepu8_epi16(_mm_unpacklo_epi8(even, odd));
    const __m256i b = _mm256_cvtepu8_epi16(_mm_unpackhi_epi8(even, odd));
    _mm256_store_si256((__m256i *)(void *)out, a);
    _mm256_store_si256((__m256i *)(void *)(out + 8), b);
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
