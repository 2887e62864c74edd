/* decode_avx2_internal.h — what the AVX2 decoders and products share: unpacking, scales,
 * small integers to scaled floats.
 *
 * Every decoder does the referee's operations on each element, in its order, eight elements at a
 * time. Nothing here reads a byte outside the block. */
#ifndef QNI_DECODE_AVX2_INTERNAL_H
#define QNI_DECODE_AVX2_INTERNAL_H

#include <immintrin.h>

#include "kernels/kernels.h"

QNI_INLINE __m128i load_4(const void *p)
{
    return _mm_cvtsi32_si128((int32_t)qni_load_u32le(p));
}

QNI_INLINE __m128i load_8(const void *p)
{
    return _mm_loadl_epi64(p);
}

QNI_INLINE __m128i load_16(const void *p)
{
    return _mm_loadu_si128(p);
}

QNI_INLINE __m256i load_32(const void *p)
{
    return _mm256_loadu_si256(p);
}

/* Eight bytes as eight 32-bit integers. */
QNI_INLINE __m256i widen_u8(const void *p)
{
    return _mm256_cvtepu8_epi32(load_8(p));
}

/* An f16 field: exact, subnormals kept, a signalling NaN made quiet with its payload. */
QNI_INLINE float scale_of(const uint8_t *field)
{
    return _cvtsh_ss(qni_load_u16le(field));
}

QNI_INLINE __m256 scale_x8(const uint8_t *field)
{
    return _mm256_broadcastss_ps(_mm_cvtph_ps(_mm_cvtsi32_si128(qni_load_u16le(field))));
}

/* Two f16 fields side by side, neither of them finite: a sum of two NaNs keeps the payload of the
 * one that the compiler put first, so such a block goes to the referee. */
QNI_INLINE bool both_unbounded(const uint8_t *fields)
{
    return QNI_UNLIKELY((qni_load_u32le(fields) & 0x7c007c00u) == 0x7c007c00u);
}

QNI_INLINE void put_8(float *out, __m256i q, __m256 scale)
{
    _mm256_storeu_ps(out, _mm256_mul_ps(_mm256_cvtepi32_ps(q), scale));
}

/* Signed bytes times a scale. */
QNI_INLINE void put_16(float *out, __m128i q, __m256 scale)
{
    put_8(out, _mm256_cvtepi8_epi32(q), scale);
    put_8(out + 8, _mm256_cvtepi8_epi32(_mm_unpackhi_epi64(q, q)), scale);
}

QNI_INLINE void put_32(float *out, __m256i q, __m256 scale)
{
    put_16(out, _mm256_castsi256_si128(q), scale);
    put_16(out + 16, _mm256_extracti128_si256(q, 1), scale);
}

/* q * scale + offset, rounded twice. */
QNI_INLINE void put_8_affine(float *out, __m256i q, __m256 scale, __m256 offset)
{
    const __m256 product = _mm256_mul_ps(_mm256_cvtepi32_ps(q), scale);
    _mm256_storeu_ps(out, _mm256_add_ps(product, offset));
}

/* q * scale - minimum, rounded twice. */
QNI_INLINE void put_8_minus(float *out, __m256i q, __m256 scale, __m256 minimum)
{
    const __m256 product = _mm256_mul_ps(_mm256_cvtepi32_ps(q), scale);
    _mm256_storeu_ps(out, _mm256_sub_ps(product, minimum));
}

/* 16 bytes to 32 nibbles: the low ones, then the high ones. */
QNI_INLINE __m256i split_nibbles(const uint8_t *qs)
{
    const __m128i bytes = load_16(qs);
    const __m256i both =
        _mm256_inserti128_si256(_mm256_castsi128_si256(bytes), _mm_srli_epi16(bytes, 4), 1);
    return _mm256_and_si256(both, _mm256_set1_epi8(15));
}

/* Four bytes, each eight times. */
QNI_INLINE __m256i each_8_times(uint32_t bytes)
{
    const __m256i which_byte =
        _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303);
    return _mm256_shuffle_epi8(_mm256_set1_epi32((int32_t)bytes), which_byte);
}

/* 32 bits to 32 bytes: 0xff where the bit is set. */
QNI_INLINE __m256i spread_bits(uint32_t bits)
{
    const __m256i which_bit = _mm256_set1_epi64x((int64_t)0x8040201008040201);
    const __m256i bytes = each_8_times(bits);
    return _mm256_cmpeq_epi8(_mm256_and_si256(bytes, which_bit), which_bit);
}

/* Levels of two bits, 32 in the first eight bytes, to the bytes of a table of four. A level is
 * looked up where it lies: at bits 0 or 2, after the upper two of a byte have come down. */
#define PAIR_TABLE(a, b, c, d) _mm_setr_epi8(a, b, c, d, b, 0, 0, 0, c, 0, 0, 0, d, 0, 0, 0)

QNI_INLINE __m256i look_up_pairs(__m128i table, __m128i levels)
{
    const __m256i four_times = _mm256_setr_epi64x(0x0101010100000000, 0x0303030302020202,
                                                  0x0505050504040404, 0x0707070706060606);
    const __m256i bytes = _mm256_shuffle_epi8(_mm256_broadcastq_epi64(levels), four_times);
    const __m256i down = _mm256_blend_epi16(bytes, _mm256_srli_epi16(bytes, 4), 0xaa);
    const __m256i at = _mm256_and_si256(down, _mm256_set1_epi16(0x0c03));
    return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(table), at);
}

/* A table of 16 signed bytes, looked up with 32 nibbles. */
QNI_INLINE __m256i look_up(__m128i table, __m256i nibbles)
{
    return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(table), nibbles);
}

/* Steps of iq4_nl and iq4_xs. */
QNI_INLINE __m128i iq4_levels(void)
{
    return _mm_setr_epi8(-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113);
}

QNI_INLINE __m256i join_fifth_bits(const uint8_t *qs, const uint8_t *qh)
{
    const __m256i high = _mm256_and_si256(spread_bits(qni_load_u32le(qh)), _mm256_set1_epi8(16));
    return _mm256_or_si256(split_nibbles(qs), high);
}

/* Twice the E2M1 values; code 8 is +0. */
QNI_INLINE __m128i fp4_levels(void)
{
    return _mm_setr_epi8(0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12);
}

/* Half of an E8M0 scale, 2^(e - 128): below e = 2 subnormal. */
QNI_INLINE float half_e8m0(uint32_t e)
{
    return qni_f32_from_bits(e < 2 ? 0x00200000u << e : (e - 1) << 23);
}

/* Half the unsigned E4M3 values of eight bytes, exactly: exponent and mantissa become those of an
 * f16 that is 2^7 times too small (subnormals fit the same rule); 0x7f counts as 0. */
QNI_INLINE __m256 ue4m3_halves(__m128i eight)
{
    const __m128i x = _mm_and_si128(_mm_cvtepu8_epi16(eight), _mm_set1_epi16(0x7f));
    const __m128i is_nan = _mm_cmpeq_epi16(x, _mm_set1_epi16(0x7f));
    const __m128i bits = _mm_andnot_si128(is_nan, _mm_slli_epi16(x, 7));
    return _mm256_mul_ps(_mm256_cvtph_ps(bits), _mm256_set1_ps(0x1p7f));
}

/* The 16 six-bit scales minus 32: low four bits are two nibbles a byte, the upper two are four
 * planes of the last four bytes. */
QNI_INLINE __m128i q3_k_scales(const uint8_t *packed)
{
    const __m128i low8 = load_8(packed);
    const __m128i low =
        _mm_and_si128(_mm_unpacklo_epi64(low8, _mm_srli_epi16(low8, 4)), _mm_set1_epi8(15));
    const uint32_t planes = qni_load_u32le(packed + 8);
    const __m128i high =
        _mm_and_si128(_mm_setr_epi32((int32_t)(planes << 4), (int32_t)(planes << 2),
                                     (int32_t)planes, (int32_t)(planes >> 2)),
                      _mm_set1_epi8(0x30));
    return _mm_sub_epi8(_mm_or_si128(low, high), _mm_set1_epi8(32));
}

/* The eight six-bit scales and minima of q4_K and q5_K, a byte each. */
typedef struct codes_45 {
    uint64_t scales;
    uint64_t minima;
} codes_45;

QNI_INLINE codes_45 unpack_codes_45(const uint8_t *packed)
{
    const uint32_t a = qni_load_u32le(packed);
    const uint32_t b = qni_load_u32le(packed + 4);
    const uint32_t c = qni_load_u32le(packed + 8);
    const uint32_t sc_hi = (c & 0x0f0f0f0fu) | (a >> 2 & 0x30303030u);
    const uint32_t mn_hi = (c >> 4 & 0x0f0f0f0fu) | (b >> 2 & 0x30303030u);
    return (codes_45){(uint64_t)sc_hi << 32 | (a & 0x3f3f3f3fu),
                      (uint64_t)mn_hi << 32 | (b & 0x3f3f3f3fu)};
}

/* The eight factors of iq4_xs: six-bit codes minus 32. */
QNI_INLINE __m256i iq4_xs_factors(const qni_block_iq4_xs *block)
{
    const __m256i by_4 = _mm256_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28);
    const __m256i by_2 = _mm256_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14);
    const int32_t low_word = (int32_t)qni_load_u32le(block->scales_l);
    const __m256i low = _mm256_srlv_epi32(_mm256_set1_epi32(low_word), by_4);
    const __m256i high =
        _mm256_srlv_epi32(_mm256_set1_epi32(qni_load_u16le(block->scales_h)), by_2);
    const __m256i code =
        _mm256_or_si256(_mm256_and_si256(low, _mm256_set1_epi32(15)),
                        _mm256_slli_epi32(_mm256_and_si256(high, _mm256_set1_epi32(3)), 4));
    return _mm256_sub_epi32(code, _mm256_set1_epi32(32));
}

/* The scale of iq1_m is spread over the top nibbles of four words. */
QNI_INLINE float iq1_m_scale(uint64_t words)
{
    const uint64_t bits = (words >> 12 & 0xfu) | (words >> 24 & 0xf0u) | (words >> 36 & 0xf00u) |
                          (words >> 48 & 0xf000u);
    return _cvtsh_ss((uint16_t)bits);
}

#endif
