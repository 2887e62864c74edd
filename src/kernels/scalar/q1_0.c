/* q1_0.c — one sign bit a weight and one scale for 128.
 *
 *   byte 0  1  2                 18
 *       [ d ][ 16 bytes of bits  ]      (16 + 128) / 128 = 1.125 bits a weight
 *
 * Bit i mod 8 of byte 2 + i / 8 belongs to element i: y = d if it is set, else -d. The scale is the
 * mean magnitude; a weight that is not below zero (-0 too) gets a set bit. */
#include "kernels/numeric_internal.h"

enum { N = 128 };

static qni_encode_result encode_block(const float *x, qni_block_q1_0 *block)
{
    float sum = 0.0f;
    for (int i = 0; i < N; i++) { /* in order: a sum of partial sums rounds differently */
        sum += fabsf(x[i]);
    }
    for (int byte = 0; byte < N / 8; byte++) {
        uint32_t bits = 0;
        for (int k = 0; k < 8; k++) {
            bits |= (uint32_t)(x[8 * byte + k] >= 0.0f) << k;
        }
        block->bits[byte] = (uint8_t)bits;
    }
    return qni_store_scale(block->d, sum / 128.0f);
}

QNI_PROTO_encode(qni_encode_q1_0_scalar)
{
    (void)weights, (void)tables;
    qni_block_q1_0 *block = out;
    qni_encode_result result = QNI_ENCODE_OK;
    for (int64_t i = 0; i < n_rows * (row_len / N); i++, block++, x += N) {
        result = qni_worse(result, encode_block(x, block));
    }
    return result;
}

QNI_PROTO_decode(qni_decode_q1_0_scalar)
{
    const qni_block_q1_0 *block = blocks;
    for (int64_t b = 0; b < n_blocks; b++, block++, out += N) {
        const float d = qni_load_scale(block->d);
        for (int i = 0; i < N; i++) {
            out[i] = block->bits[i / 8] >> (i % 8) & 1 ? d : -d;
        }
    }
}
