/* floats.c — the plain types: one element a block, stored as they are.
 *
 * f32, f16 and bf16 are encoded; integers and f64 are only read (to the nearest f32), because a
 * file that holds them means their exact values. */
#include "kernels/numeric_internal.h"

/* |x| as an integer is below that of infinity exactly for finite values. The loop has no exit, so
 * that compilers make vector code of it. */
QNI_PROTO_finite(qni_finite_f32_scalar)
{
    uint32_t bad = 0;
    for (int64_t i = 0; i < n; i++) {
        bad |= (qni_f32_bits(x[i]) & QNI_F32_ABS_MASK) >= QNI_F32_INF;
    }
    return bad == 0;
}

QNI_PROTO_encode(qni_encode_f32_scalar)
{
    (void)weights, (void)tables;
    uint8_t *bytes = out;
    for (int64_t i = 0; i < n_rows * row_len; i++) {
        qni_store_f32le(bytes + 4 * i, x[i]);
    }
    return QNI_ENCODE_OK;
}

QNI_PROTO_decode(qni_decode_f32_scalar)
{
    const uint8_t *bytes = blocks;
    for (int64_t i = 0; i < n_blocks; i++) {
        out[i] = qni_load_f32le(bytes + 4 * i);
    }
}

QNI_PROTO_encode(qni_encode_f16_scalar)
{
    (void)weights, (void)tables;
    uint8_t *bytes = out;
    bool is_finite = true;
    for (int64_t i = 0; i < n_rows * row_len; i++) {
        const uint16_t h = qni_f16_from_f32(x[i]);
        is_finite &= qni_f16_is_finite(h);
        qni_store_u16le(bytes + 2 * i, h);
    }
    return is_finite ? QNI_ENCODE_OK : QNI_ENCODE_OVERFLOW;
}

QNI_PROTO_decode(qni_decode_f16_scalar)
{
    const uint8_t *bytes = blocks;
    for (int64_t i = 0; i < n_blocks; i++) {
        out[i] = qni_f16_to_f32(qni_load_u16le(bytes + 2 * i));
    }
}

QNI_PROTO_encode(qni_encode_bf16_scalar)
{
    (void)weights, (void)tables;
    uint8_t *bytes = out;
    bool is_finite = true;
    for (int64_t i = 0; i < n_rows * row_len; i++) {
        const uint16_t h = qni_bf16_from_f32(x[i]);
        is_finite &= qni_bf16_is_finite(h);
        qni_store_u16le(bytes + 2 * i, h);
    }
    return is_finite ? QNI_ENCODE_OK : QNI_ENCODE_OVERFLOW;
}

QNI_PROTO_decode(qni_decode_bf16_scalar)
{
    const uint8_t *bytes = blocks;
    for (int64_t i = 0; i < n_blocks; i++) {
        out[i] = qni_bf16_to_f32(qni_load_u16le(bytes + 2 * i));
    }
}

QNI_PROTO_decode(qni_decode_f64_scalar)
{
    const uint8_t *bytes = blocks;
    for (int64_t i = 0; i < n_blocks; i++) {
        const uint64_t bits = qni_load_u64le(bytes + 8 * i);
        double v;
        memcpy(&v, &bits, sizeof v);
        out[i] = (float)v;
    }
}

QNI_PROTO_decode(qni_decode_i8_scalar)
{
    const int8_t *bytes = blocks;
    for (int64_t i = 0; i < n_blocks; i++) {
        out[i] = (float)bytes[i];
    }
}

QNI_PROTO_decode(qni_decode_i16_scalar)
{
    const uint8_t *bytes = blocks;
    for (int64_t i = 0; i < n_blocks; i++) {
        out[i] = (float)(int16_t)qni_load_u16le(bytes + 2 * i);
    }
}

QNI_PROTO_decode(qni_decode_i32_scalar)
{
    const uint8_t *bytes = blocks;
    for (int64_t i = 0; i < n_blocks; i++) {
        out[i] = (float)(int32_t)qni_load_u32le(bytes + 4 * i);
    }
}

QNI_PROTO_decode(qni_decode_i64_scalar)
{
    const uint8_t *bytes = blocks;
    for (int64_t i = 0; i < n_blocks; i++) {
        out[i] = (float)(int64_t)qni_load_u64le(bytes + 8 * i);
    }
}
