/* decode_lanes_internal.h — what the decoders share: where elements go, scales, unpacking.
 *
 * A decoder does the referee's operations on each element, in its order, sixteen elements at a
 * time; it reads no byte outside its blocks. Each is written once and made into three kernels: to
 * f32, and to f16 or bf16, where an element is rounded on its way out. Compiled for each
 * instruction set: included after a vec_*_internal.h header. */
#ifndef QNI_DECODE_LANES_INTERNAL_H
#define QNI_DECODE_LANES_INTERNAL_H

#include "kernels/numeric_internal.h"

/* --- where elements go --------------------------------------------------------------------------
 */

typedef enum sink_format {
    SINK_F32,
    SINK_F16,
    SINK_BF16,
} sink_format;

/* `format` is a constant wherever a sink is used: no branch is left of it. */
typedef struct sink {
    uint8_t *at;
    sink_format format;
} sink;

QNI_INLINE sink skip(sink out, int64_t n_elems)
{
    return (sink){out.at + (out.format == SINK_F32 ? 4 : 2) * n_elems, out.format};
}

/* As qni_f16_from_f32(): every NaN becomes the quiet one with its sign. */
QNI_INLINE void put_f16(uint8_t *to, vf v)
{
    const vi quiet = vi_or(vi_and(vi_bits(v), vi_set(INT32_MIN)), vi_set(0x7fc00000));
    vf_store_f16((uint16_t *)(void *)to, vf_pick(vf_eq(v, v), v, vf_bits(quiet)));
}

/* As qni_bf16_from_f32(). */
QNI_INLINE void put_bf16(uint8_t *to, vf v)
{
    const vi bits = vi_bits(v);
    const vi is_odd = vi_and(vi_shr(bits, 16), vi_set(1));
    const vi rounded = vi_add(vi_add(bits, vi_set(0x7fff)), is_odd);
    const vi quiet = vi_or(bits, vi_set(0x00400000));
    const vi kept = vi_pick(vf_eq(v, v), rounded, quiet);
    vi_store_u16((uint16_t *)(void *)to, vi_shr(kept, 16));
}

/* Sixteen elements, the first of them number `i`. */
QNI_INLINE void put(sink out, int i, vf v)
{
    switch (out.format) {
    case SINK_F16:
        put_f16(out.at + 2 * i, v);
        return;
    case SINK_BF16:
        put_bf16(out.at + 2 * i, v);
        return;
    default:
        vf_store((float *)(void *)out.at + i, v);
        return;
    }
}

QNI_INLINE void put_one(sink out, int64_t i, float v)
{
    switch (out.format) {
    case SINK_F16:
        qni_store_u16le(out.at + 2 * i, qni_f16_from_f32(v));
        return;
    case SINK_BF16:
        qni_store_u16le(out.at + 2 * i, qni_bf16_from_f32(v));
        return;
    default:
        ((float *)(void *)out.at)[i] = v;
        return;
    }
}

/* A block of n elements with something in it that only the referee gets right. */
static QNI_COLD void put_by_referee(sink out, qni_decode_fn referee, const void *block, int n)
{
    float values[QNI_SUPER];
    referee(block, 1, values);
    for (int i = 0; i < n; i += VL) {
        put(out, i, vf_load(values + i));
    }
}

/* The three kernels of decode_NAME(). */
#define DEFINE_DECODERS(name)                                              \
    QNI_PROTO_decode(VEC_NAME(qni_decode_##name))                          \
    {                                                                      \
        decode_##name(blocks, n_blocks, (sink){(uint8_t *)out, SINK_F32}); \
    }                                                                      \
    QNI_PROTO_decode_f16(VEC_NAME(qni_decode_f16_##name))                  \
    {                                                                      \
        decode_##name(blocks, n_blocks, (sink){out, SINK_F16});            \
    }                                                                      \
    QNI_PROTO_decode_bf16(VEC_NAME(qni_decode_bf16_##name))                \
    {                                                                      \
        decode_##name(blocks, n_blocks, (sink){out, SINK_BF16});           \
    }

/* --- scaled integers ----------------------------------------------------------------------------
 */

/* q * scale */
QNI_INLINE vf scaled(vi q, vf scale)
{
    return vf_mul(vf_from_vi(q), scale);
}

/* Signed bytes times a scale. */
QNI_INLINE void put_bytes(sink out, int i, vb q, vf scale)
{
    put(out, i, scaled(vi_from_i8(q), scale));
}

/* Two f16 fields side by side, neither of them finite: a sum of two NaNs keeps the payload of the
 * one that the compiler put first, so such a block goes to the referee. */
QNI_INLINE bool both_unbounded(const uint8_t *fields)
{
    return QNI_UNLIKELY((qni_load_u32le(fields) & 0x7c007c00u) == 0x7c007c00u);
}

QNI_INLINE bool is_unbounded(const uint8_t *field)
{
    return QNI_UNLIKELY(!qni_f16_is_finite(qni_load_u16le(field)));
}

/* Two-bit levels from -1 on, once for each four lanes: all that q2_0 and tq2_0 can hold. */
QNI_INLINE vf levels_from_minus_1(void)
{
    static const float levels[VL] = {-1, 0, 1, 2, -1, 0, 1, 2, -1, 0, 1, 2, -1, 0, 1, 2};
    return vf_load(levels);
}

/* --- nibbles ------------------------------------------------------------------------------------
 */

QNI_INLINE vb low_nibbles(vb bytes)
{
    return vb_and(bytes, vb_set(15));
}

QNI_INLINE vb high_nibbles(vb bytes)
{
    return vb_and(vb_shr(bytes, 4), vb_set(15));
}

/* Eight bytes: their low nibbles, then their high ones. */
QNI_INLINE vb split_nibbles(const uint8_t *p)
{
    const vb bytes = vb_load8(p);
    return vb_and(vb_join(bytes, vb_shr(bytes, 4)), vb_set(15));
}

/* Eight bytes: the low and the high nibble of each. */
QNI_INLINE vb nibbles_in_order(const uint8_t *p)
{
    const vb bytes = vb_load8(p);
    return vb_and(vb_zip(bytes, vb_shr(bytes, 4)), vb_set(15));
}

/* Steps of iq4_nl and iq4_xs. */
QNI_INLINE vb iq4_levels(void)
{
    static const int8_t levels[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                      1,    13,   25,  38,  53,  69,  89,  113};
    return vb_load(levels);
}

#endif
