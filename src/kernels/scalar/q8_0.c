/* q8_0.c — 32 signed bytes and one scale; the same with a sum of the quants is q8_1.
 *
 *   q8_0   byte 0  1  2                              34
 *               [ d ][ 32 x i8                       ]   (16 + 32 * 8) / 32 = 8.5 bits a weight
 *   q8_1   byte 0  1  2  3  4                        36
 *               [ d ][ s ][ 32 x i8                  ]   (16 + 16 + 32 * 8) / 32 = 9
 *
 * y = q * d. s = d * sum(q), with d before it is rounded to f16: what a product with a format that
 * has a minimum needs. Both divide by the largest magnitude, so quants lie in -127..127. */
#include "kernels/numeric_internal.h"

enum { N = 32 };

/* Fills qs; returns the unrounded scale. A block of subnormals has 1 / d = infinity: its products
 * are infinite or NaN, and the conversion's low byte is then 0. */
static float quantize(const float *x, int8_t *qs)
{
    float mag = 0.0f;
    for (int i = 0; i < N; i++) {
        mag = qni_max_f32(mag, fabsf(x[i]));
    }
    const float d = mag / 127.0f;
    const float inv = d != 0.0f ? 1.0f / d : 0.0f;
    for (int i = 0; i < N; i++) {
        qs[i] = (int8_t)qni_trunc_i8(roundf(x[i] * inv)); /* half away from zero */
    }
    return d;
}

QNI_PROTO_encode(qni_encode_q8_0_scalar)
{
    (void)weights, (void)tables;
    qni_block_q8_0 *block = out;
    qni_encode_result result = QNI_ENCODE_OK;
    for (int64_t i = 0; i < n_rows * (row_len / N); i++, block++, x += N) {
        const float d = quantize(x, block->qs);
        result = qni_worse(result, qni_store_scale(block->d, d));
    }
    return result;
}

QNI_PROTO_decode(qni_decode_q8_0_scalar)
{
    const qni_block_q8_0 *block = blocks;
    for (int64_t b = 0; b < n_blocks; b++, block++, out += N) {
        const float d = qni_load_scale(block->d);
        for (int i = 0; i < N; i++) {
            out[i] = (float)block->qs[i] * d;
        }
    }
}

QNI_PROTO_encode(qni_encode_q8_1_scalar)
{
    (void)weights, (void)tables;
    qni_block_q8_1 *block = out;
    qni_encode_result result = QNI_ENCODE_OK;
    for (int64_t i = 0; i < n_rows * (row_len / N); i++, block++, x += N) {
        const float d = quantize(x, block->qs);
        int32_t sum = 0;
        for (int k = 0; k < N; k++) {
            sum += block->qs[k];
        }
        result = qni_worse(result, qni_store_scale(block->d, d));
        result = qni_worse(result, qni_store_scale(block->s, (float)sum * d));
    }
    return result;
}

QNI_PROTO_decode(qni_decode_q8_1_scalar)
{
    const qni_block_q8_1 *block = blocks;
    for (int64_t b = 0; b < n_blocks; b++, block++, out += N) {
        const float d = qni_load_scale(block->d);
        for (int i = 0; i < N; i++) {
            out[i] = (float)block->qs[i] * d;
        }
    }
}
