/* decode_k_avx2.c — super-blocks of 256 elements without a codebook: K, ternary and iq4_xs.
 * Layouts: scalar/<format>.c. */
#include "kernels/x86/decode_avx2_internal.h"

/* --- two and three bits: all values of a sub-block fit one register, a permute looks them up ----
 */

/* Sixteen bytes as floats times d. */
QNI_INLINE void scale_16_bytes(__m128i bytes, __m256 d, float *out)
{
    put_16(out, bytes, d);
}

/* value = (d * sc) * q - dmin * mn, for q = 0..3 in both halves of the register. */
QNI_INLINE __m256 q2_k_values(float scale, float minimum)
{
    const __m256 levels = _mm256_setr_ps(0, 1, 2, 3, 0, 1, 2, 3);
    return _mm256_sub_ps(_mm256_mul_ps(_mm256_set1_ps(scale), levels), _mm256_set1_ps(minimum));
}

/* 32 bytes in lanes of 8; bits above those looked up do not matter. */
typedef struct lanes_32 {
    __m256i v[4];
} lanes_32;

QNI_INLINE lanes_32 widen_32(const uint8_t *p)
{
    return (lanes_32){{widen_u8(p), widen_u8(p + 8), widen_u8(p + 16), widen_u8(p + 24)}};
}

QNI_INLINE void shift_right(lanes_32 *x, int n_bits)
{
    for (int i = 0; i < 4; i++) {
        x->v[i] = _mm256_srli_epi32(x->v[i], n_bits);
    }
}

/* 32 elements of one plane; `first` holds the values of the first 16, `second` of the others. */
QNI_INLINE void put_plane(float *out, const lanes_32 *q, __m256 first, __m256 second)
{
    _mm256_storeu_ps(out, _mm256_permutevar_ps(first, q->v[0]));
    _mm256_storeu_ps(out + 8, _mm256_permutevar_ps(first, q->v[1]));
    _mm256_storeu_ps(out + 16, _mm256_permutevar_ps(second, q->v[2]));
    _mm256_storeu_ps(out + 24, _mm256_permutevar_ps(second, q->v[3]));
}

QNI_INLINE void decode_q2_k(const qni_block_q2_k *block, float *out)
{
    const __m128i scales = load_16(block->scales);
    const __m128i nibble = _mm_set1_epi8(15);
    float scale[16];
    float minimum[16];
    scale_16_bytes(_mm_and_si128(scales, nibble), scale_x8(block->d), scale);
    scale_16_bytes(_mm_and_si128(_mm_srli_epi16(scales, 4), nibble), scale_x8(block->dmin),
                   minimum);
    for (int half = 0; half < 2; half++) {
        lanes_32 q = widen_32(block->qs + 32 * half);
        for (int plane = 0; plane < 4; plane++) {
            const int j = 8 * half + 2 * plane;
            put_plane(out + 16 * j, &q, q2_k_values(scale[j], minimum[j]),
                      q2_k_values(scale[j + 1], minimum[j + 1]));
            shift_right(&q, 2);
        }
    }
}

QNI_PROTO_decode(qni_decode_q2_k_avx2)
{
    const qni_block_q2_k *block = blocks;
    for (int64_t b = 0; b < n_blocks; b++, block++, out += QNI_SUPER) {
        if (both_unbounded(block->d)) {
            qni_decode_q2_k_scalar(block, 1, out);
            continue;
        }
        decode_q2_k(block, out);
    }
}

QNI_PROTO_decode(qni_decode_tq2_0_avx2)
{
    const __m256 levels = _mm256_setr_ps(-1, 0, 1, 2, -1, 0, 1, 2);
    const qni_block_tq2_0 *block = blocks;
    for (int64_t b = 0; b < n_blocks; b++, block++, out += QNI_SUPER) {
        const __m256 values = _mm256_mul_ps(levels, scale_x8(block->d));
        for (int half = 0; half < 2; half++) {
            lanes_32 q = widen_32(block->qs + 32 * half);
            for (int plane = 0; plane < 4; plane++) {
                put_plane(out + 128 * half + 32 * plane, &q, values, values);
                shift_right(&q, 2);
            }
        }
    }
}

/* Index = two low bits, and the high bit as bit 2; its value is index - 4. */
QNI_INLINE void put_8_q3(float *out, __m256i low, __m256i high, __m256 values)
{
    const __m256i index = _mm256_or_si256(_mm256_and_si256(low, _mm256_set1_epi32(3)),
                                          _mm256_and_si256(high, _mm256_set1_epi32(4)));
    _mm256_storeu_ps(out, _mm256_permutevar8x32_ps(values, index));
}

QNI_PROTO_decode(qni_decode_q3_k_avx2)
{
    const __m256 levels = _mm256_setr_ps(-4, -3, -2, -1, 0, 1, 2, 3);
    const qni_block_q3_k *block = blocks;
    for (int64_t b = 0; b < n_blocks; b++, block++) {
        float scale[16];
        scale_16_bytes(q3_k_scales(block->scales), scale_x8(block->d), scale);
        lanes_32 high = widen_32(block->hmask);
        for (int i = 0; i < 4; i++) {
            high.v[i] = _mm256_slli_epi32(high.v[i], 2);
        }
        for (int half = 0; half < 2; half++) {
            lanes_32 low = widen_32(block->qs + 32 * half);
            for (int plane = 0; plane < 4; plane++, out += 32) {
                const int j = 8 * half + 2 * plane;
                const __m256 first = _mm256_mul_ps(_mm256_set1_ps(scale[j]), levels);
                const __m256 second = _mm256_mul_ps(_mm256_set1_ps(scale[j + 1]), levels);
                put_8_q3(out, low.v[0], high.v[0], first);
                put_8_q3(out + 8, low.v[1], high.v[1], first);
                put_8_q3(out + 16, low.v[2], high.v[2], second);
                put_8_q3(out + 24, low.v[3], high.v[3], second);
                shift_right(&low, 2);
                shift_right(&high, 1);
            }
        }
    }
}

/* --- four and five bits with minima -------------------------------------------------------------
 */

/* The eight scales and eight minima of q4_K and q5_K, times d and dmin. */
typedef struct scales_45 {
    float scale[8];
    float minimum[8];
} scales_45;

QNI_INLINE void unpack_scales_45(const uint8_t *packed, __m256 d, __m256 dmin, scales_45 *out)
{
    const codes_45 codes = unpack_codes_45(packed);
    const __m128i sc = _mm_cvtsi64_si128((int64_t)codes.scales);
    const __m128i mn = _mm_cvtsi64_si128((int64_t)codes.minima);
    put_8(out->scale, _mm256_cvtepu8_epi32(sc), d);
    put_8(out->minimum, _mm256_cvtepu8_epi32(mn), dmin);
}

QNI_PROTO_decode(qni_decode_q4_k_avx2)
{
    const __m256i nibble = _mm256_set1_epi32(15);
    const qni_block_q4_k *block = blocks;
    for (int64_t b = 0; b < n_blocks; b++, block++, out += QNI_SUPER) {
        if (both_unbounded(block->d)) {
            qni_decode_q4_k_scalar(block, 1, out);
            continue;
        }
        scales_45 s;
        unpack_scales_45(block->scales, scale_x8(block->d), scale_x8(block->dmin), &s);
        for (int j = 0; j < 8; j += 2) {
            const __m256 d0 = _mm256_set1_ps(s.scale[j]);
            const __m256 m0 = _mm256_set1_ps(s.minimum[j]);
            const __m256 d1 = _mm256_set1_ps(s.scale[j + 1]);
            const __m256 m1 = _mm256_set1_ps(s.minimum[j + 1]);
            float *pair = out + 32 * j;
            for (int i = 0; i < 32; i += 8) {
                const __m256i q = widen_u8(block->qs + 16 * j + i);
                put_8_minus(pair + i, _mm256_and_si256(q, nibble), d0, m0);
                put_8_minus(pair + 32 + i, _mm256_srli_epi32(q, 4), d1, m1);
            }
        }
    }
}

/* The fifth bits of a pair of sub-blocks are bits j and j + 1 of 32 bytes: `high` holds them moved
 * up by four, and goes down by two a pair. */
QNI_PROTO_decode(qni_decode_q5_k_avx2)
{
    const __m256i nibble = _mm256_set1_epi32(15);
    const __m256i sixteen = _mm256_set1_epi32(16);
    const qni_block_q5_k *block = blocks;
    for (int64_t b = 0; b < n_blocks; b++, block++, out += QNI_SUPER) {
        if (both_unbounded(block->d)) {
            qni_decode_q5_k_scalar(block, 1, out);
            continue;
        }
        scales_45 s;
        unpack_scales_45(block->scales, scale_x8(block->d), scale_x8(block->dmin), &s);
        lanes_32 high = widen_32(block->qh);
        for (int i = 0; i < 4; i++) {
            high.v[i] = _mm256_slli_epi32(high.v[i], 4);
        }
        for (int j = 0; j < 8; j += 2) {
            const __m256 d0 = _mm256_set1_ps(s.scale[j]);
            const __m256 m0 = _mm256_set1_ps(s.minimum[j]);
            const __m256 d1 = _mm256_set1_ps(s.scale[j + 1]);
            const __m256 m1 = _mm256_set1_ps(s.minimum[j + 1]);
            float *pair = out + 32 * j;
            for (int i = 0; i < 4; i++) {
                const __m256i q = widen_u8(block->qs + 16 * j + 8 * i);
                const __m256i h0 = _mm256_and_si256(high.v[i], sixteen);
                const __m256i h1 = _mm256_and_si256(_mm256_srli_epi32(high.v[i], 1), sixteen);
                put_8_minus(pair + 8 * i, _mm256_or_si256(_mm256_and_si256(q, nibble), h0), d0, m0);
                put_8_minus(pair + 32 + 8 * i, _mm256_or_si256(_mm256_srli_epi32(q, 4), h1), d1,
                            m1);
            }
            shift_right(&high, 2);
        }
    }
}

/* --- six bits ------------------------------------------------------------------------------------
 */

/* 32 elements: a nibble of `low`, the bits 4-5 of `high`, minus 32; a scale for each 16. */
QNI_INLINE void put_32_q6(float *out, __m256i low, __m256i high, const float *scale)
{
    const __m256i q6 = _mm256_or_si256(_mm256_and_si256(low, _mm256_set1_epi8(15)),
                                       _mm256_and_si256(high, _mm256_set1_epi8(0x30)));
    const __m256i q = _mm256_sub_epi8(q6, _mm256_set1_epi8(32));
    put_16(out, _mm256_castsi256_si128(q), _mm256_set1_ps(scale[0]));
    put_16(out + 16, _mm256_extracti128_si256(q, 1), _mm256_set1_ps(scale[1]));
}

QNI_PROTO_decode(qni_decode_q6_k_avx2)
{
    const qni_block_q6_k *block = blocks;
    for (int64_t b = 0; b < n_blocks; b++, block++) {
        float scale[16];
        scale_16_bytes(load_16(block->scales), scale_x8(block->d), scale);
        for (int half = 0; half < 2; half++, out += 128) {
            const __m256i a = load_32(block->ql + 64 * half);
            const __m256i c = load_32(block->ql + 64 * half + 32);
            const __m256i h = load_32(block->qh + 32 * half);
            const float *s = scale + 8 * half;
            put_32_q6(out, a, _mm256_slli_epi16(h, 4), s);
            put_32_q6(out + 32, c, _mm256_slli_epi16(h, 2), s + 2);
            put_32_q6(out + 64, _mm256_srli_epi16(a, 4), h, s + 4);
            put_32_q6(out + 96, _mm256_srli_epi16(c, 4), _mm256_srli_epi16(h, 2), s + 6);
        }
    }
}

/* --- ternary in base 3 ---------------------------------------------------------------------------
 */

/* The leading trit of each byte, minus 1: the byte is the fraction v / 256, so 0 below 86, 1 below
 * 171, else 2. */
QNI_INLINE __m256i leading_trit(__m256i v)
{
    const __m256i is_1 = _mm256_cmpeq_epi8(_mm256_max_epu8(v, _mm256_set1_epi8(86)), v);
    const __m256i is_2 = _mm256_cmpeq_epi8(_mm256_max_epu8(v, _mm256_set1_epi8((char)171)), v);
    return _mm256_sub_epi8(_mm256_set1_epi8(-1), _mm256_add_epi8(is_1, is_2));
}

QNI_INLINE __m256i times_3(__m256i v)
{
    return _mm256_add_epi8(_mm256_add_epi8(v, v), v);
}

QNI_PROTO_decode(qni_decode_tq1_0_avx2)
{
    const qni_block_tq1_0 *block = blocks;
    for (int64_t b = 0; b < n_blocks; b++, block++) {
        const __m256 d = scale_x8(block->d);
        __m256i v = load_32(block->qs);
        for (int trit = 0; trit < 5; trit++, out += 32) {
            put_32(out, leading_trit(v), d);
            v = times_3(v);
        }
        v = _mm256_castsi128_si256(load_16(block->qs + 32));
        for (int trit = 0; trit < 5; trit++, out += 16) {
            put_16(out, _mm256_castsi256_si128(leading_trit(v)), d);
            v = times_3(v);
        }
        /* four bytes, four trits: the four states side by side */
        const __m128i v0 = load_4(block->qh);
        const __m128i v1 = _mm_add_epi8(_mm_add_epi8(v0, v0), v0);
        const __m128i v01 = _mm_unpacklo_epi32(v0, v1);
        const __m128i v23 = _mm256_castsi256_si128(times_3(times_3(_mm256_castsi128_si256(v01))));
        v = _mm256_castsi128_si256(_mm_unpacklo_epi64(v01, v23));
        put_16(out, _mm256_castsi256_si128(leading_trit(v)), d);
        out += 16;
    }
}

/* --- iq4_xs: the steps of iq4_nl with a six-bit scale for each 32
 * ---------------------------------
 */

QNI_PROTO_decode(qni_decode_iq4_xs_avx2)
{
    const __m128i levels = iq4_levels();
    const qni_block_iq4_xs *block = blocks;
    for (int64_t b = 0; b < n_blocks; b++, block++, out += QNI_SUPER) {
        float scale[8];
        put_8(scale, iq4_xs_factors(block), scale_x8(block->d));
        for (int j = 0; j < 8; j++) {
            put_32(out + 32 * j, look_up(levels, split_nibbles(block->qs + 16 * j)),
                   _mm256_set1_ps(scale[j]));
        }
    }
}
