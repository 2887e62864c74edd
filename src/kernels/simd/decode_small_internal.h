/* decode_small_internal.h — blocks of 32 to 128 elements, the 16-bit floats, and q8_K.
 * Layouts: scalar/<format>.c. Compiled once for each instruction set. */
#include "kernels/fp4_internal.h"
#include "kernels/simd/decode_lanes_internal.h"

/* --- 16-bit floats ------------------------------------------------------------------------------
 */

QNI_INLINE void decode_f16(const void *blocks, int64_t n_blocks, sink out)
{
    const uint8_t *bytes = blocks;
    int64_t i = 0;
    for (; i + VL <= n_blocks; i += VL) {
        put(skip(out, i), 0, vf_load_f16((const uint16_t *)(const void *)(bytes + 2 * i)));
    }
    for (; i < n_blocks; i++) {
        put_one(out, i, vec_f16(bytes + 2 * i));
    }
}
DEFINE_DECODERS(f16)

QNI_INLINE void decode_bf16(const void *blocks, int64_t n_blocks, sink out)
{
    const uint8_t *bytes = blocks;
    int64_t i = 0;
    for (; i + VL <= n_blocks; i += VL) {
        put(skip(out, i), 0, vf_bits(vi_shl(vi_load_u16(bytes + 2 * i), 16)));
    }
    for (; i < n_blocks; i++) {
        put_one(out, i, qni_bf16_to_f32(qni_load_u16le(bytes + 2 * i)));
    }
}
DEFINE_DECODERS(bf16)

/* --- one and two bits ---------------------------------------------------------------------------
 */

/* The sign of d is changed where the bit is 0, as a negation changes it: also of a NaN. */
QNI_INLINE void decode_q1_0(const void *blocks, int64_t n_blocks, sink out)
{
    const qni_block_q1_0 *block = blocks;
    for (int64_t b = 0; b < n_blocks; b++, block++, out = skip(out, 128)) {
        const vf minus_d = vf_neg(vf_set_f16(block->d));
        for (int i = 0; i < 8; i++) {
            put(out, VL * i, vf_flip(minus_d, qni_load_u16le(block->bits + 2 * i)));
        }
    }
}
DEFINE_DECODERS(q1_0)

QNI_INLINE void decode_q2_0(const void *blocks, int64_t n_blocks, sink out)
{
    const vf levels = levels_from_minus_1();
    const qni_block_q2_0 *block = blocks;
    for (int64_t b = 0; b < n_blocks; b++, block++, out = skip(out, 64)) {
        const vf values = vf_mul(levels, vf_set_f16(block->d));
        for (int i = 0; i < 4; i++) {
            put(out, VL * i, vf_look4(values, vi_unpack2(qni_load_u32le(block->qs + 4 * i))));
        }
    }
}
DEFINE_DECODERS(q2_0)

/* --- four and five bits -------------------------------------------------------------------------
 */

QNI_INLINE void decode_q4_0(const void *blocks, int64_t n_blocks, sink out)
{
    const qni_block_q4_0 *block = blocks;
    for (int64_t b = 0; b < n_blocks; b++, block++, out = skip(out, 32)) {
        const vf d = vf_set_f16(block->d);
        const vb bytes = vb_load(block->qs);
        put_bytes(out, 0, vb_sub(low_nibbles(bytes), vb_set(8)), d);
        put_bytes(out, VL, vb_sub(high_nibbles(bytes), vb_set(8)), d);
    }
}
DEFINE_DECODERS(q4_0)

/* q * d + m, rounded twice. */
QNI_INLINE void put_affine(sink out, int i, vb q, vf d, vf m)
{
    put(out, i, vf_add(scaled(vi_from_u8(q), d), m));
}

QNI_INLINE void decode_q4_1(const void *blocks, int64_t n_blocks, sink out)
{
    const qni_block_q4_1 *block = blocks;
    for (int64_t b = 0; b < n_blocks; b++, block++, out = skip(out, 32)) {
        if (both_unbounded(block->d)) {
            put_by_referee(out, qni_decode_q4_1_scalar, block, 32);
            continue;
        }
        const vf d = vf_set_f16(block->d);
        const vf m = vf_set_f16(block->m);
        const vb bytes = vb_load(block->qs);
        put_affine(out, 0, low_nibbles(bytes), d, m);
        put_affine(out, VL, high_nibbles(bytes), d, m);
    }
}
DEFINE_DECODERS(q4_1)

/* The fifth bit lowers a level by 16 where it is 0: it is the sign. */
QNI_INLINE void decode_q5_0(const void *blocks, int64_t n_blocks, sink out)
{
    const vb above = vb_set(0xf0);
    const qni_block_q5_0 *block = blocks;
    for (int64_t b = 0; b < n_blocks; b++, block++, out = skip(out, 32)) {
        const vf d = vf_set_f16(block->d);
        const uint32_t high = qni_load_u32le(block->qh);
        const vb bytes = vb_load(block->qs);
        put_bytes(out, 0, vb_or(low_nibbles(bytes), vb_but(above, vb_bits(high, 0))), d);
        put_bytes(out, VL, vb_or(high_nibbles(bytes), vb_but(above, vb_bits(high, 1))), d);
    }
}
DEFINE_DECODERS(q5_0)

QNI_INLINE void decode_q5_1(const void *blocks, int64_t n_blocks, sink out)
{
    const qni_block_q5_1 *block = blocks;
    for (int64_t b = 0; b < n_blocks; b++, block++, out = skip(out, 32)) {
        if (both_unbounded(block->d)) {
            put_by_referee(out, qni_decode_q5_1_scalar, block, 32);
            continue;
        }
        const vf d = vf_set_f16(block->d);
        const vf m = vf_set_f16(block->m);
        const uint32_t high = qni_load_u32le(block->qh);
        const vb bytes = vb_load(block->qs);
        const vb first = vb_and(vb_bits(high, 0), vb_set(16));
        const vb second = vb_and(vb_bits(high, 1), vb_set(16));
        put_affine(out, 0, vb_or(low_nibbles(bytes), first), d, m);
        put_affine(out, VL, vb_or(high_nibbles(bytes), second), d, m);
    }
}
DEFINE_DECODERS(q5_1)

/* --- eight bits ---------------------------------------------------------------------------------
 */

QNI_INLINE void put_signed(sink out, const int8_t *qs, int n, vf d)
{
    for (int i = 0; i < n; i += VL) {
        put(out, i, scaled(vi_load_i8(qs + i), d));
    }
}

QNI_INLINE void decode_q8_0(const void *blocks, int64_t n_blocks, sink out)
{
    const qni_block_q8_0 *block = blocks;
    for (int64_t b = 0; b < n_blocks; b++, block++, out = skip(out, 32)) {
        put_signed(out, block->qs, 32, vf_set_f16(block->d));
    }
}
DEFINE_DECODERS(q8_0)

QNI_INLINE void decode_q8_1(const void *blocks, int64_t n_blocks, sink out)
{
    const qni_block_q8_1 *block = blocks;
    for (int64_t b = 0; b < n_blocks; b++, block++, out = skip(out, 32)) {
        put_signed(out, block->qs, 32, vf_set_f16(block->d));
    }
}
DEFINE_DECODERS(q8_1)

QNI_INLINE void decode_q8_k(const void *blocks, int64_t n_blocks, sink out)
{
    const qni_block_q8_k *block = blocks;
    for (int64_t b = 0; b < n_blocks; b++, block++, out = skip(out, QNI_SUPER)) {
        const vf d = vf_bits(vi_set((int32_t)qni_load_u32le(block->d)));
        put_signed(out, block->qs, QNI_SUPER, d);
    }
}
DEFINE_DECODERS(q8_k)

/* --- four bits by table -------------------------------------------------------------------------
 */

QNI_INLINE void decode_iq4_nl(const void *blocks, int64_t n_blocks, sink out)
{
    const vb levels = iq4_levels();
    const qni_block_iq4_nl *block = blocks;
    for (int64_t b = 0; b < n_blocks; b++, block++, out = skip(out, 32)) {
        const vf d = vf_set_f16(block->d);
        const vb bytes = vb_load(block->qs);
        put_bytes(out, 0, vb_look(levels, low_nibbles(bytes)), d);
        put_bytes(out, VL, vb_look(levels, high_nibbles(bytes)), d);
    }
}
DEFINE_DECODERS(iq4_nl)

/* Twice the E2M1 values; code 8 is +0. */
QNI_INLINE vb fp4_levels(void)
{
    static const int8_t levels[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
    return vb_load(levels);
}

QNI_INLINE void decode_mxfp4(const void *blocks, int64_t n_blocks, sink out)
{
    const vb levels = fp4_levels();
    const qni_block_mxfp4 *block = blocks;
    for (int64_t b = 0; b < n_blocks; b++, block++, out = skip(out, 32)) {
        const vf d = vf_set(qni_half_e8m0(block->e));
        const vb bytes = vb_load(block->qs);
        put_bytes(out, 0, vb_look(levels, low_nibbles(bytes)), d);
        put_bytes(out, VL, vb_look(levels, high_nibbles(bytes)), d);
    }
}
DEFINE_DECODERS(mxfp4)

/* qni_half_e4m3() without a branch. */
QNI_INLINE float half_e4m3(uint32_t scale)
{
    const uint32_t magnitude = scale & 0x7f;
    const float small = (float)(int32_t)(magnitude & 7) * 0x1p-10f; /* exponent 0 */
    const float large = qni_f32_from_bits((119u << 23) + (magnitude << 20));
    const float half = magnitude < 8 ? small : large;
    return scale == 0x7f ? 0.0f : half;
}

/* Each group of 16 elements is a nibble split of 8 bytes. */
QNI_INLINE void decode_nvfp4(const void *blocks, int64_t n_blocks, sink out)
{
    const vb levels = fp4_levels();
    const qni_block_nvfp4 *block = blocks;
    for (int64_t b = 0; b < n_blocks; b++, block++, out = skip(out, 64)) {
        for (int g = 0; g < 4; g++) {
            const vb q = vb_look(levels, split_nibbles(block->qs + 8 * g));
            put_bytes(out, VL * g, q, vf_set(half_e4m3(block->scales[g])));
        }
    }
}
DEFINE_DECODERS(nvfp4)
