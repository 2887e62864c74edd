/* q2_0.c — four levels and one scale for 64.
 *
 *   byte 0  1  2                 18
 *       [ d ][ 16 bytes          ]      (16 + 64 * 2) / 64 = 2.25 bits a weight
 *
 * Byte 2 + k holds elements 4k .. 4k+3, the first in its low bits. y = (level - 1) * d, so -d, 0,
 * d, and 2d, which the encoder never uses because d is the largest magnitude. */
#include "kernels/numeric_internal.h"

enum { N = 64 };

static qni_encode_result encode_block(const float *x, qni_block_q2_0 *block)
{
    const float d = qni_absmax(x, N).mag;
    const float inv = d > 0.0f ? 1.0f / d : 0.0f;
    for (int byte = 0; byte < N / 4; byte++) {
        uint32_t bits = 0;
        for (int k = 0; k < 4; k++) {
            /* A block of subnormals can give an infinite product, whose conversion is -2^31. */
            const int32_t t = qni_trunc_i32(roundf(x[4 * byte + k] * inv));
            bits |= (uint32_t)(qni_clamp_i32(t, -1, 2) + 1) << (2 * k);
        }
        block->qs[byte] = (uint8_t)bits;
    }
    return qni_store_scale(block->d, d);
}

QNI_PROTO_encode(qni_encode_q2_0_scalar)
{
    (void)weights, (void)tables;
    qni_block_q2_0 *block = out;
    qni_encode_result result = QNI_ENCODE_OK;
    for (int64_t i = 0; i < n_rows * (row_len / N); i++, block++, x += N) {
        result = qni_worse(result, encode_block(x, block));
    }
    return result;
}

QNI_PROTO_decode(qni_decode_q2_0_scalar)
{
    const qni_block_q2_0 *block = blocks;
    for (int64_t b = 0; b < n_blocks; b++, block++, out += N) {
        const float d = qni_load_scale(block->d);
        for (int i = 0; i < N; i++) {
            const int32_t level = block->qs[i / 4] >> (2 * (i % 4)) & 3;
            out[i] = (float)(level - 1) * d;
        }
    }
}
