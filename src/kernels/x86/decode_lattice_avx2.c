/* decode_lattice_avx2.c — the codebook types: iq1_*, iq2_*, iq3_*.
 * Layouts: scalar/iq1.c, iq2.c, iq3.c; packed points: lattice_internal.h.
 *
 * A packed point holds the level of each element in two or four bits. All products of a scale with
 * the levels fit one register, so an octet is: point to all lanes, shift each lane's level to the
 * bottom, permute. Signs are then put in by exclusive or; that is the referee's result except for a
 * NaN, so a block whose scale is not finite goes to the referee. */
#include "kernels/lattice_internal.h"
#include "kernels/x86/decode_avx2_internal.h"

enum { N_OCTETS = QNI_SUPER / 8 };

QNI_INLINE bool is_unbounded(const uint8_t *field)
{
    return QNI_UNLIKELY(!qni_f16_is_finite(qni_load_u16le(field)));
}

/* The levels of one point of eight dimensions, each at the bottom of its lane. */
QNI_INLINE __m256i spread_point_8(uint16_t point)
{
    const __m256i to_bottom = _mm256_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14);
    return _mm256_srlv_epi32(_mm256_set1_epi32(point), to_bottom);
}

/* The levels of two points of four dimensions. */
QNI_INLINE __m256i spread_points_4(uint16_t first, uint16_t second)
{
    const __m256i to_bottom = _mm256_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28);
    const uint32_t both = first | (uint32_t)second << 16;
    return _mm256_srlv_epi32(_mm256_set1_epi32((int32_t)both), to_bottom);
}

/* Bit k of the mask becomes the sign of lane k; bits above 7 are ignored. */
QNI_INLINE __m256 signs_of(uint32_t mask)
{
    const __m256i to_sign = _mm256_setr_epi32(31, 30, 29, 28, 27, 26, 25, 24);
    const __m256i bits = _mm256_sllv_epi32(_mm256_set1_epi32((int32_t)mask), to_sign);
    return _mm256_and_ps(_mm256_castsi256_ps(bits), _mm256_set1_ps(-0.0f));
}

/* The sign masks of the four 7-bit selectors in the low 28 bits, one a byte: bit 7 makes the number
 * of ones even. */
QNI_INLINE uint32_t even_signs_x4(uint32_t selectors)
{
    const uint32_t s = (selectors & 0x7fu) | (selectors & 0x3f80u) << 1 |
                       (selectors & 0x1fc000u) << 2 | (selectors & 0xfe00000u) << 3;
    uint32_t parity = s ^ (s >> 4 & 0x0f0f0f0fu);
    parity ^= parity >> 2;
    parity ^= parity >> 1;
    return s | (parity & 0x01010101u) << 7;
}

/* Sixteen nibbles of eight bytes as bytes, in order. */
QNI_INLINE __m128i nibbles_16(const uint8_t *p)
{
    const __m128i bytes = load_8(p);
    const __m128i pairs = _mm_unpacklo_epi8(bytes, _mm_srli_epi16(bytes, 4));
    return _mm_and_si128(pairs, _mm_set1_epi8(15));
}

/* ((d * (0.5 + code)) * factor) for eight codes. */
QNI_INLINE __m256 half_step_scales(__m256i codes, __m256 d, float factor)
{
    const __m256 steps = _mm256_add_ps(_mm256_set1_ps(0.5f), _mm256_cvtepi32_ps(codes));
    return _mm256_mul_ps(_mm256_mul_ps(d, steps), _mm256_set1_ps(factor));
}

/* d * (2 * code + 1) for eight codes. */
QNI_INLINE __m256 odd_scales(__m256i codes, __m256 d)
{
    const __m256i odd = _mm256_add_epi32(_mm256_add_epi32(codes, codes), _mm256_set1_epi32(1));
    return _mm256_mul_ps(d, _mm256_cvtepi32_ps(odd));
}

/* --- iq2 -----------------------------------------------------------------------------------------
 */

QNI_INLINE __m256 iq2_values(float scale)
{
    const __m256 levels = _mm256_setr_ps(8, 25, 43, 0, 8, 25, 43, 0);
    return _mm256_mul_ps(_mm256_set1_ps(scale), levels);
}

QNI_INLINE void put_octet(float *out, uint16_t point, __m256 values, uint32_t signs)
{
    const __m256 y = _mm256_permutevar_ps(values, spread_point_8(point));
    _mm256_storeu_ps(out, _mm256_xor_ps(y, signs_of(signs)));
}

QNI_PROTO_decode(qni_decode_iq2_xxs_avx2)
{
    const qni_block_iq2_xxs *block = blocks;
    for (int64_t b = 0; b < n_blocks; b++, block++, out += QNI_SUPER) {
        if (is_unbounded(block->d)) {
            qni_decode_iq2_xxs_scalar(block, 1, out);
            continue;
        }
        const float d = scale_of(block->d);
        for (int g = 0; g < 8; g++) {
            const uint8_t *group = block->qs + 8 * g;
            const uint32_t word = qni_load_u32le(group + 4);
            const uint32_t signs = even_signs_x4(word);
            const __m256 values = iq2_values(d * (0.5f + (float)(int32_t)(word >> 28)) * 0.25f);
            for (int o = 0; o < 4; o++) {
                put_octet(out + 32 * g + 8 * o, qni_points_iq2xxs[group[o]], values,
                          signs >> (8 * o));
            }
        }
    }
}

/* The 16 scales of iq2_xs and iq2_s. */
QNI_INLINE void iq2_scales(const uint8_t *nibbles, __m256 d, float *out)
{
    const __m128i codes = nibbles_16(nibbles);
    const __m256i lo = _mm256_cvtepu8_epi32(codes);
    const __m256i hi = _mm256_cvtepu8_epi32(_mm_unpackhi_epi64(codes, codes));
    _mm256_storeu_ps(out, half_step_scales(lo, d, 0.25f));
    _mm256_storeu_ps(out + 8, half_step_scales(hi, d, 0.25f));
}

QNI_PROTO_decode(qni_decode_iq2_xs_avx2)
{
    const qni_block_iq2_xs *block = blocks;
    for (int64_t b = 0; b < n_blocks; b++, block++, out += QNI_SUPER) {
        if (is_unbounded(block->d)) {
            qni_decode_iq2_xs_scalar(block, 1, out);
            continue;
        }
        float scale[16];
        iq2_scales(block->scales, scale_x8(block->d), scale);
        for (int o = 0; o < N_OCTETS; o += 4) {
            const uint64_t q = qni_load_u64le(block->qs + 2 * o);
            const uint64_t selectors = (q >> 9 & 0x7fu) | (q >> 18 & 0x3f80u) |
                                       (q >> 27 & 0x1fc000u) | (q >> 36 & 0xfe00000u);
            const uint32_t signs = even_signs_x4((uint32_t)selectors);
            const __m256 first = iq2_values(scale[o / 2]);
            const __m256 second = iq2_values(scale[o / 2 + 1]);
            float *y = out + 8 * o;
            put_octet(y, qni_points_iq2xs[q & 511u], first, signs);
            put_octet(y + 8, qni_points_iq2xs[q >> 16 & 511u], first, signs >> 8);
            put_octet(y + 16, qni_points_iq2xs[q >> 32 & 511u], second, signs >> 16);
            put_octet(y + 24, qni_points_iq2xs[q >> 48 & 511u], second, signs >> 24);
        }
    }
}

QNI_PROTO_decode(qni_decode_iq2_s_avx2)
{
    const qni_block_iq2_s *block = blocks;
    for (int64_t b = 0; b < n_blocks; b++, block++, out += QNI_SUPER) {
        if (is_unbounded(block->d)) {
            qni_decode_iq2_s_scalar(block, 1, out);
            continue;
        }
        float scale[16];
        iq2_scales(block->scales, scale_x8(block->d), scale);
        for (int o = 0; o < N_OCTETS; o++) {
            const uint32_t high = (uint32_t)block->qh[o / 4] << (8 - 2 * (o % 4)) & 0x300u;
            put_octet(out + 8 * o, qni_points_iq2s[block->qs[o] | high], iq2_values(scale[o / 2]),
                      block->signs[o]);
        }
    }
}

/* --- iq3 -----------------------------------------------------------------------------------------
 */

QNI_INLINE void put_two_quads(float *out, __m256i levels, __m256 values, uint32_t signs)
{
    const __m256 y = _mm256_permutevar8x32_ps(values, levels);
    _mm256_storeu_ps(out, _mm256_xor_ps(y, signs_of(signs)));
}

QNI_PROTO_decode(qni_decode_iq3_xxs_avx2)
{
    const __m256 levels = _mm256_setr_ps(4, 12, 20, 28, 36, 44, 52, 62);
    const qni_block_iq3_xxs *block = blocks;
    for (int64_t b = 0; b < n_blocks; b++, block++, out += QNI_SUPER) {
        if (is_unbounded(block->d)) {
            qni_decode_iq3_xxs_scalar(block, 1, out);
            continue;
        }
        const float d = scale_of(block->d);
        for (int g = 0; g < 8; g++) {
            const uint8_t *qs = block->qs + 8 * g;
            const uint32_t word = qni_load_u32le(block->signs + 4 * g);
            const uint32_t signs = even_signs_x4(word);
            const float scale = d * (0.5f + (float)(int32_t)(word >> 28)) * 0.5f;
            const __m256 values = _mm256_mul_ps(_mm256_set1_ps(scale), levels);
            for (int o = 0; o < 4; o++) {
                const __m256i q =
                    spread_points_4(qni_points_iq3xxs[qs[2 * o]], qni_points_iq3xxs[qs[2 * o + 1]]);
                put_two_quads(out + 32 * g + 8 * o, q, values, signs >> (8 * o));
            }
        }
    }
}

QNI_PROTO_decode(qni_decode_iq3_s_avx2)
{
    const __m256 levels = _mm256_setr_ps(1, 3, 5, 7, 9, 11, 13, 15);
    const __m256i to_nibble = _mm256_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28);
    const qni_block_iq3_s *block = blocks;
    for (int64_t b = 0; b < n_blocks; b++, block++, out += QNI_SUPER) {
        if (is_unbounded(block->d)) {
            qni_decode_iq3_s_scalar(block, 1, out);
            continue;
        }
        float scale[8];
        const __m256i nibbles =
            _mm256_srlv_epi32(_mm256_set1_epi32((int32_t)qni_load_u32le(block->scales)), to_nibble);
        _mm256_storeu_ps(scale, odd_scales(_mm256_and_si256(nibbles, _mm256_set1_epi32(15)),
                                           scale_x8(block->d)));
        for (int o = 0; o < N_OCTETS; o++) {
            const uint32_t high = (uint32_t)block->qh[o / 4] << 8 >> (2 * (o % 4));
            const uint32_t first = block->qs[2 * o] | (high & 0x100u);
            const uint32_t second = block->qs[2 * o + 1] | (high >> 1 & 0x100u);
            const __m256i q = spread_points_4(qni_points_iq3s[first], qni_points_iq3s[second]);
            const __m256 values = _mm256_mul_ps(_mm256_set1_ps(scale[o / 4]), levels);
            put_two_quads(out + 8 * o, q, values, block->signs[o]);
        }
    }
}

/* --- iq1 -----------------------------------------------------------------------------------------
 */

/* scale * (level + shift), levels -1, 0, 1. */
QNI_INLINE __m256 iq1_values(float scale, bool is_down)
{
    const __m256 up = _mm256_setr_ps(-0.875f, 0.125f, 1.125f, 0, -0.875f, 0.125f, 1.125f, 0);
    const __m256 down = _mm256_setr_ps(-1.125f, -0.125f, 0.875f, 0, -1.125f, -0.125f, 0.875f, 0);
    return _mm256_mul_ps(_mm256_set1_ps(scale), is_down ? down : up);
}

QNI_INLINE void put_octet_iq1(float *out, uint32_t index, __m256 values)
{
    _mm256_storeu_ps(out, _mm256_permutevar_ps(values, spread_point_8(qni_points_iq1s[index])));
}

QNI_PROTO_decode(qni_decode_iq1_s_avx2)
{
    const qni_block_iq1_s *block = blocks;
    for (int64_t b = 0; b < n_blocks; b++, block++, out += QNI_SUPER) {
        const float d = scale_of(block->d);
        for (int g = 0; g < 8; g++) {
            const uint32_t h = qni_load_u16le(block->qh + 2 * g);
            const float scale = d * (float)(2 * (int32_t)(h >> 12 & 7u) + 1);
            const __m256 values = iq1_values(scale, h >> 15);
            for (int o = 0; o < 4; o++) {
                const uint32_t high = (h >> (3 * o) & 7u) << 8;
                put_octet_iq1(out + 32 * g + 8 * o, block->qs[4 * g + o] | high, values);
            }
        }
    }
}

QNI_PROTO_decode(qni_decode_iq1_m_avx2)
{
    const qni_block_iq1_m *block = blocks;
    for (int64_t b = 0; b < n_blocks; b++, block++, out += QNI_SUPER) {
        const uint64_t words = qni_load_u64le(block->scales);
        const float d = iq1_m_scale(words);
        for (int j = 0; j < 16; j++) {
            const uint32_t code = (uint32_t)(words >> (16 * (j / 4) + 3 * (j % 4))) & 7u;
            const float scale = d * (float)(2 * (int32_t)code + 1);
            const uint32_t h = block->qh[j];
            float *y = out + 16 * j;
            put_octet_iq1(y, block->qs[2 * j] | (h << 8 & 0x700u), iq1_values(scale, h >> 3 & 1u));
            put_octet_iq1(y + 8, block->qs[2 * j + 1] | (h << 4 & 0x700u),
                          iq1_values(scale, h >> 7));
        }
    }
}
