/* q8_k.c — the activations of the super-block formats: 256 signed bytes, sums, an f32 scale.
 *
 *   byte 0        4                    260                292
 *       [ d f32   ][ 256 x i8          ][ 16 x i16 sums    ]
 *                                       (32 + 256 * 8 + 16 * 16) / 256 = 9.125 bits a weight
 *
 * y = d * q. Sum j is that of quants 16j .. 16j+15. The value of largest magnitude gets -127. */
#include "kernels/numeric_internal.h"

enum { N = QNI_SUPER };

/* A block of zeros is all zero bytes; the reference leaves its sums unwritten. */
static qni_encode_result encode_block(const float *x, qni_block_q8_k *block)
{
    const qni_extreme extreme = qni_absmax(x, N);
    if (extreme.mag == 0.0f) {
        memset(block, 0, sizeof *block);
        return QNI_ENCODE_OK;
    }
    const float inv = -127.0f / extreme.value;
    for (int i = 0; i < N; i++) {
        block->qs[i] = (int8_t)qni_min_i32(127, qni_nearest(inv * x[i]));
    }
    for (int j = 0; j < N / 16; j++) {
        int32_t sum = 0;
        for (int k = 0; k < 16; k++) {
            sum += block->qs[16 * j + k];
        }
        qni_store_u16le(block->bsums + 2 * j, (uint16_t)sum);
    }
    const float d = 1.0f / inv;
    qni_store_f32le(block->d, d);
    return qni_f32_is_finite(d) ? QNI_ENCODE_OK : QNI_ENCODE_OVERFLOW;
}

QNI_PROTO_encode(qni_encode_q8_k_scalar)
{
    (void)weights, (void)tables;
    qni_block_q8_k *block = out;
    qni_encode_result result = QNI_ENCODE_OK;
    for (int64_t i = 0; i < n_rows * (row_len / N); i++, block++, x += N) {
        result = qni_worse(result, encode_block(x, block));
    }
    return result;
}

QNI_PROTO_decode(qni_decode_q8_k_scalar)
{
    const qni_block_q8_k *block = blocks;
    for (int64_t b = 0; b < n_blocks; b++, block++, out += N) {
        const float d = qni_load_f32le(block->d);
        for (int i = 0; i < N; i++) {
            out[i] = d * (float)block->qs[i];
        }
    }
}
