/* decode_k_internal.h — super-blocks of 256 elements without a codebook: K, ternary and iq4_xs.
 * Layouts: scalar/<format>.c. Compiled once for each instruction set. */
#include "kernels/simd/decode_lanes_internal.h"

/* --- two and three bits: all values of a sub-block fit one register, a look-up picks them -------
 */

static const float levels_2_bits[VL] = {0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3};
static const float levels_3_bits[VL] = {-4, -3, -2, -1, 0, 1, 2, 3, -4, -3, -2, -1, 0, 1, 2, 3};

QNI_INLINE void decode_q2_k(const void *blocks, int64_t n_blocks, sink out)
{
    const vf levels = vf_load(levels_2_bits);
    const qni_block_q2_k *block = blocks;
    for (int64_t b = 0; b < n_blocks; b++, block++, out = skip(out, QNI_SUPER)) {
        if (both_unbounded(block->d)) {
            put_by_referee(out, qni_decode_q2_k_scalar, block, QNI_SUPER);
            continue;
        }
        const vb codes = vb_load(block->scales);
        float scale[16];
        float minimum[16];
        vf_store(scale, scaled(vi_from_u8(low_nibbles(codes)), vf_set_f16(block->d)));
        vf_store(minimum, scaled(vi_from_u8(high_nibbles(codes)), vf_set_f16(block->dmin)));
        for (int half = 0; half < 2; half++) {
            vi first = vi_load_u8(block->qs + 32 * half);
            vi second = vi_load_u8(block->qs + 32 * half + VL);
            for (int j = 8 * half; j < 8 * half + 8; j += 2) {
                /* (d * sc) * q - dmin * mn, for q = 0..3 */
                const vf values = vf_sub(vf_mul(vf_set(scale[j]), levels), vf_set(minimum[j]));
                const vf next =
                    vf_sub(vf_mul(vf_set(scale[j + 1]), levels), vf_set(minimum[j + 1]));
                put(out, VL * j, vf_look4(values, first));
                put(out, VL * (j + 1), vf_look4(next, second));
                first = vi_shr(first, 2);
                second = vi_shr(second, 2);
            }
        }
    }
}
DEFINE_DECODERS(q2_k)

QNI_INLINE void decode_tq2_0(const void *blocks, int64_t n_blocks, sink out)
{
    const vf levels = levels_from_minus_1();
    const qni_block_tq2_0 *block = blocks;
    for (int64_t b = 0; b < n_blocks; b++, block++, out = skip(out, QNI_SUPER)) {
        const vf values = vf_mul(levels, vf_set_f16(block->d));
        for (int half = 0; half < 2; half++) {
            vi first = vi_load_u8(block->qs + 32 * half);
            vi second = vi_load_u8(block->qs + 32 * half + VL);
            for (int j = 8 * half; j < 8 * half + 8; j += 2) {
                put(out, VL * j, vf_look4(values, first));
                put(out, VL * (j + 1), vf_look4(values, second));
                first = vi_shr(first, 2);
                second = vi_shr(second, 2);
            }
        }
    }
}
DEFINE_DECODERS(tq2_0)

/* The 16 six-bit scales minus 32: low four bits are two nibbles a byte, the upper two are four
 * planes of the last four bytes. */
QNI_INLINE vb q3_k_scales(const uint8_t *packed)
{
    const uint32_t planes = qni_load_u32le(packed + 8);
    const vb high = vb_and(vb_words(planes << 4, planes << 2, planes, planes >> 2), vb_set(0x30));
    return vb_sub(vb_or(split_nibbles(packed), high), vb_set(32));
}

/* Two low bits, and the high one as bit 2: its value is that number minus 4. */
QNI_INLINE vf q3_k_values(vi low, vi high, vf values)
{
    return vf_look8(values, vi_or(vi_and(low, vi_set(3)), vi_and(high, vi_set(4))));
}

QNI_INLINE void decode_q3_k(const void *blocks, int64_t n_blocks, sink out)
{
    const vf levels = vf_load(levels_3_bits);
    const qni_block_q3_k *block = blocks;
    for (int64_t b = 0; b < n_blocks; b++, block++, out = skip(out, QNI_SUPER)) {
        float scale[16];
        vf_store(scale, scaled(vi_from_i8(q3_k_scales(block->scales)), vf_set_f16(block->d)));
        vi high0 = vi_shl(vi_load_u8(block->hmask), 2);
        vi high1 = vi_shl(vi_load_u8(block->hmask + VL), 2);
        for (int half = 0; half < 2; half++) {
            vi low0 = vi_load_u8(block->qs + 32 * half);
            vi low1 = vi_load_u8(block->qs + 32 * half + VL);
            for (int j = 8 * half; j < 8 * half + 8; j += 2) {
                const vf first = vf_mul(vf_set(scale[j]), levels);
                const vf second = vf_mul(vf_set(scale[j + 1]), levels);
                put(out, VL * j, q3_k_values(low0, high0, first));
                put(out, VL * (j + 1), q3_k_values(low1, high1, second));
                low0 = vi_shr(low0, 2);
                low1 = vi_shr(low1, 2);
                high0 = vi_shr(high0, 1);
                high1 = vi_shr(high1, 1);
            }
        }
    }
}
DEFINE_DECODERS(q3_k)

/* --- four and five bits with minima -------------------------------------------------------------
 */

/* The eight scales and eight minima of q4_K and q5_K, times d and dmin: scale[0..7] and
 * minimum[8..15]. */
typedef struct scales_45 {
    float scale[VL];
    float minimum[VL];
} scales_45;

QNI_INLINE void unpack_scales_45(const uint8_t *packed, vf d, vf dmin, scales_45 *out)
{
    const uint32_t a = qni_load_u32le(packed);
    const uint32_t b = qni_load_u32le(packed + 4);
    const uint32_t c = qni_load_u32le(packed + 8);
    const vf codes = vf_from_vi(
        vi_from_u8(vb_words(a & 0x3f3f3f3fu, (c & 0x0f0f0f0fu) | (a >> 2 & 0x30303030u),
                            b & 0x3f3f3f3fu, (c >> 4 & 0x0f0f0f0fu) | (b >> 2 & 0x30303030u))));
    vf_store(out->scale, vf_mul(codes, d));
    vf_store(out->minimum, vf_mul(codes, dmin));
}

/* q * scale - minimum, rounded twice. */
QNI_INLINE void put_minus(sink out, int i, vi q, vf scale, vf minimum)
{
    put(out, i, vf_sub(scaled(q, scale), minimum));
}

QNI_INLINE void decode_q4_k(const void *blocks, int64_t n_blocks, sink out)
{
    const qni_block_q4_k *block = blocks;
    for (int64_t b = 0; b < n_blocks; b++, block++, out = skip(out, QNI_SUPER)) {
        if (both_unbounded(block->d)) {
            put_by_referee(out, qni_decode_q4_k_scalar, block, QNI_SUPER);
            continue;
        }
        scales_45 s;
        unpack_scales_45(block->scales, vf_set_f16(block->d), vf_set_f16(block->dmin), &s);
        for (int j = 0; j < 8; j += 2) {
            const vf d0 = vf_set(s.scale[j]);
            const vf m0 = vf_set(s.minimum[8 + j]);
            const vf d1 = vf_set(s.scale[j + 1]);
            const vf m1 = vf_set(s.minimum[8 + j + 1]);
            for (int i = 0; i < 32; i += VL) {
                const vi q = vi_load_u8(block->qs + 16 * j + i);
                put_minus(out, 32 * j + i, vi_and(q, vi_set(15)), d0, m0);
                put_minus(out, 32 * j + 32 + i, vi_shr(q, 4), d1, m1);
            }
        }
    }
}
DEFINE_DECODERS(q4_k)

/* The fifth bits of a pair of sub-blocks are bits j and j + 1 of 32 bytes: `high` holds them moved
 * up by four, and goes down by two a pair. */
QNI_INLINE void decode_q5_k(const void *blocks, int64_t n_blocks, sink out)
{
    const vi nibble = vi_set(15);
    const vi sixteen = vi_set(16);
    const qni_block_q5_k *block = blocks;
    for (int64_t b = 0; b < n_blocks; b++, block++, out = skip(out, QNI_SUPER)) {
        if (both_unbounded(block->d)) {
            put_by_referee(out, qni_decode_q5_k_scalar, block, QNI_SUPER);
            continue;
        }
        scales_45 s;
        unpack_scales_45(block->scales, vf_set_f16(block->d), vf_set_f16(block->dmin), &s);
        vi high[2] = {vi_shl(vi_load_u8(block->qh), 4), vi_shl(vi_load_u8(block->qh + VL), 4)};
        for (int j = 0; j < 8; j += 2) {
            const vf d0 = vf_set(s.scale[j]);
            const vf m0 = vf_set(s.minimum[8 + j]);
            const vf d1 = vf_set(s.scale[j + 1]);
            const vf m1 = vf_set(s.minimum[8 + j + 1]);
            for (int i = 0; i < 2; i++) {
                const vi q = vi_load_u8(block->qs + 16 * j + VL * i);
                const vi h0 = vi_and(high[i], sixteen);
                const vi h1 = vi_and(vi_shr(high[i], 1), sixteen);
                put_minus(out, 32 * j + VL * i, vi_or(vi_and(q, nibble), h0), d0, m0);
                put_minus(out, 32 * j + 32 + VL * i, vi_or(vi_shr(q, 4), h1), d1, m1);
                high[i] = vi_shr(high[i], 2);
            }
        }
    }
}
DEFINE_DECODERS(q5_k)

/* --- six bits -----------------------------------------------------------------------------------
 */

/* Sixteen elements: a nibble of `low`, the bits 4-5 of `high`, minus 32. */
QNI_INLINE void put_q6(sink out, int i, vb low, vb high, float scale)
{
    const vb q = vb_or(low_nibbles(low), vb_and(high, vb_set(0x30)));
    put_bytes(out, i, vb_sub(q, vb_set(32)), vf_set(scale));
}

QNI_INLINE void decode_q6_k(const void *blocks, int64_t n_blocks, sink out)
{
    const qni_block_q6_k *block = blocks;
    for (int64_t b = 0; b < n_blocks; b++, block++, out = skip(out, QNI_SUPER)) {
        float scales[16];
        vf_store(scales, scaled(vi_load_i8(block->scales), vf_set_f16(block->d)));
        for (int part = 0; part < 4; part++) { /* a half's first or last 16 of each 32 */
            const int half = part / 2;
            const int i = 128 * half + VL * (part % 2);
            const uint8_t *ql = block->ql + 64 * half + VL * (part % 2);
            const float *s = scales + 8 * half + part % 2;
            const vb first = vb_load(ql);
            const vb second = vb_load(ql + 32);
            const vb high = vb_load(block->qh + 32 * half + VL * (part % 2));
            put_q6(out, i, first, vb_shl(high, 4), s[0]);
            put_q6(out, i + 32, second, vb_shl(high, 2), s[2]);
            put_q6(out, i + 64, vb_shr(first, 4), high, s[4]);
            put_q6(out, i + 96, vb_shr(second, 4), vb_shr(high, 2), s[6]);
        }
    }
}
DEFINE_DECODERS(q6_k)

/* --- ternary in base 3 --------------------------------------------------------------------------
 */

/* The leading trit of each byte, minus 1: the byte is the fraction v / 256, so 0 below 86, 1 below
 * 171, else 2. */
QNI_INLINE vb leading_trit(vb v)
{
    return vb_sub(vb_set(-1), vb_add(vb_at_least(v, 86), vb_at_least(v, 171)));
}

QNI_INLINE vb times_3(vb v)
{
    return vb_add(vb_add(v, v), v);
}

/* Four bytes, four trits: the four states side by side, times 1, 3, 9 and 27. */
QNI_INLINE vb four_states(const uint8_t *bytes)
{
    const uint32_t word = qni_load_u32le(bytes);
    const uint32_t all = ~0u;
    vb v = vb_words(word, word, word, word);
    v = vb_add(v, vb_and(vb_add(v, v), vb_words(0, all, all, all)));
    v = vb_add(v, vb_and(vb_add(v, v), vb_words(0, 0, all, all)));
    return vb_add(v, vb_and(vb_add(v, v), vb_words(0, 0, 0, all)));
}

QNI_INLINE void decode_tq1_0(const void *blocks, int64_t n_blocks, sink out)
{
    const qni_block_tq1_0 *block = blocks;
    for (int64_t b = 0; b < n_blocks; b++, block++, out = skip(out, QNI_SUPER)) {
        const vf d = vf_set_f16(block->d);
        vb first = vb_load(block->qs);
        vb second = vb_load(block->qs + VL);
        vb third = vb_load(block->qs + 2 * VL);
        for (int trit = 0; trit < 5; trit++) {
            put_bytes(out, 32 * trit, leading_trit(first), d);
            put_bytes(out, 32 * trit + VL, leading_trit(second), d);
            put_bytes(out, 160 + VL * trit, leading_trit(third), d);
            first = times_3(first);
            second = times_3(second);
            third = times_3(third);
        }
        put_bytes(out, 240, leading_trit(four_states(block->qh)), d);
    }
}
DEFINE_DECODERS(tq1_0)

/* --- iq4_xs: the steps of iq4_nl with a six-bit scale for each 32 -------------------------------
 */

QNI_INLINE void decode_iq4_xs(const void *blocks, int64_t n_blocks, sink out)
{
    const vb levels = iq4_levels();
    const qni_block_iq4_xs *block = blocks;
    for (int64_t b = 0; b < n_blocks; b++, block++, out = skip(out, QNI_SUPER)) {
        const vi low = vi_and(vi_unpack4(qni_load_u32le(block->scales_l), 0), vi_set(15));
        const vi high = vi_and(vi_unpack2(qni_load_u16le(block->scales_h)), vi_set(3));
        const vi factors = vi_sub(vi_or(low, vi_shl(high, 4)), vi_set(32));
        float scale[VL]; /* the first eight count */
        vf_store(scale, scaled(factors, vf_set_f16(block->d)));
        for (int j = 0; j < 8; j++) {
            const vb bytes = vb_load(block->qs + 16 * j);
            const vf d = vf_set(scale[j]);
            put_bytes(out, 32 * j, vb_look(levels, low_nibbles(bytes)), d);
            put_bytes(out, 32 * j + VL, vb_look(levels, high_nibbles(bytes)), d);
        }
    }
}
DEFINE_DECODERS(iq4_xs)
