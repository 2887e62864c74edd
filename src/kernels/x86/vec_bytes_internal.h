/* vec_bytes_internal.h — sixteen bytes in one 128-bit register: what block formats are unpacked
 * with, for AVX2 and AVX-512 alike. */
#ifndef QNI_VEC_BYTES_INTERNAL_H
#define QNI_VEC_BYTES_INTERNAL_H

#include <immintrin.h>

#include "kernels/numeric_internal.h"

typedef __m128i vb;

QNI_INLINE vb vb_load(const void *p)
{
    return _mm_loadu_si128(p);
}

/* Eight bytes; the others are 0. */
QNI_INLINE vb vb_load8(const void *p)
{
    return _mm_loadl_epi64(p);
}

QNI_INLINE vb vb_set(int32_t v)
{
    return _mm_set1_epi8((char)v);
}

/* Four little-endian words. */
QNI_INLINE vb vb_words(uint32_t a, uint32_t b, uint32_t c, uint32_t d)
{
    return _mm_setr_epi32((int32_t)a, (int32_t)b, (int32_t)c, (int32_t)d);
}

QNI_INLINE vb vb_and(vb x, vb y)
{
    return _mm_and_si128(x, y);
}

QNI_INLINE vb vb_or(vb x, vb y)
{
    return _mm_or_si128(x, y);
}

/* x and not y. */
QNI_INLINE vb vb_but(vb x, vb y)
{
    return _mm_andnot_si128(y, x);
}

QNI_INLINE vb vb_add(vb x, vb y)
{
    return _mm_add_epi8(x, y);
}

QNI_INLINE vb vb_sub(vb x, vb y)
{
    return _mm_sub_epi8(x, y);
}

/* Shifts by a constant. Bits may come in from the neighbour: mask what is kept. */
#define vb_shr(x, n) _mm_srli_epi16(x, n)
#define vb_shl(x, n) _mm_slli_epi16(x, n)

/* The first eight bytes of x, then those of y. */
QNI_INLINE vb vb_join(vb x, vb y)
{
    return _mm_unpacklo_epi64(x, y);
}

/* The first eight bytes of x and of y in turn. */
QNI_INLINE vb vb_zip(vb x, vb y)
{
    return _mm_unpacklo_epi8(x, y);
}

/* All bits of the bytes that are at least v. */
QNI_INLINE vb vb_at_least(vb x, int32_t v)
{
    return _mm_cmpeq_epi8(_mm_max_epu8(x, vb_set(v)), x);
}

/* Entries 0..15 of a table. */
QNI_INLINE vb vb_look(vb table, vb x)
{
    return _mm_shuffle_epi8(table, x);
}

/* All bits of byte i where bit i of a half of the word (0: the low one) is set. */
QNI_INLINE vb vb_bits(uint32_t bits, int half)
{
    const vb which_byte = _mm_add_epi8(_mm_set_epi64x(0x0101010101010101, 0), vb_set(2 * half));
    const vb which_bit = _mm_set1_epi64x((int64_t)0x8040201008040201);
    const vb bytes = _mm_shuffle_epi8(_mm_cvtsi32_si128((int32_t)bits), which_byte);
    return _mm_cmpeq_epi8(_mm_and_si128(bytes, which_bit), which_bit);
}

/* An f16 field: exact, subnormals kept, a signalling NaN made quiet with its payload. */
QNI_INLINE float vec_f16(const uint8_t *field)
{
    return _cvtsh_ss(qni_load_u16le(field));
}

#endif
