/* decode_avx2_internal.h — what the AVX2 decoders share: from small integers to scaled floats.
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

/* 32 bits to 32 bytes: 0xff where the bit is set. */
QNI_INLINE __m256i spread_bits(uint32_t bits)
{
    const __m256i which_byte =
        _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303);
    const __m256i which_bit = _mm256_set1_epi64x((int64_t)0x8040201008040201);
    const __m256i bytes = _mm256_shuffle_epi8(_mm256_set1_epi32((int32_t)bits), which_byte);
    return _mm256_cmpeq_epi8(_mm256_and_si256(bytes, which_bit), which_bit);
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

#endif
