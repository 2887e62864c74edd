/* q4_0.c — 32 four-bit levels around zero and one scale.
 *
 *   byte 0  1  2                 18
 *       [ d ][ 16 bytes          ]      (16 + 32 * 4) / 32 = 4.5 bits a weight
 *
 * Byte 2 + j holds level j in its low nibble and level j + 16 in its high nibble.
 * y = (level - 8) * d. The scale is signed: the value of largest magnitude gets level 0, so that
 * the range -8..7 is used fully. */
#include "kernels/search_internal.h"

enum { N = 32 };

static qni_encode_result encode_plain(const float *x, qni_block_q4_0 *block)
{
    const float d = qni_absmax(x, N).value / -8.0f;
    const float inv = d != 0.0f ? 1.0f / d : 0.0f;
    uint8_t levels[N];
    for (int i = 0; i < N; i++) {
        levels[i] = (uint8_t)qni_min_i32(15, qni_trunc_i8(x[i] * inv + 8.5f));
    }
    qni_pack_nibbles(levels, N, block->qs);
    return qni_store_scale(block->d, d);
}

static qni_encode_result encode_weighted(const float *x, const float *importance, float sigma2,
                                         qni_block_q4_0 *block)
{
    float w[N];
    uint8_t levels[N];
    qni_weigh(x, importance, sigma2, N, w);
    const float d = qni_search_symmetric(N, 8, x, w, levels);
    qni_pack_nibbles(levels, N, block->qs);
    return qni_store_scale(block->d, d);
}

QNI_PROTO_encode(qni_encode_q4_0_scalar)
{
    (void)tables;
    qni_block_q4_0 *block = out;
    qni_encode_result result = QNI_ENCODE_OK;
    for (int64_t row = 0; row < n_rows; row++, x += row_len) {
        const float sigma2 = weights ? qni_sum_squares(x, row_len) / (float)row_len : 0.0f;
        for (int64_t i = 0; i < row_len; i += N, block++) {
            result = qni_worse(result, weights ? encode_weighted(x + i, weights + i, sigma2, block)
                                               : encode_plain(x + i, block));
        }
    }
    return result;
}

QNI_PROTO_decode(qni_decode_q4_0_scalar)
{
    const qni_block_q4_0 *block = blocks;
    for (int64_t b = 0; b < n_blocks; b++, block++, out += N) {
        const float d = qni_load_scale(block->d);
        uint8_t levels[N];
        qni_unpack_nibbles(block->qs, N, levels);
        for (int i = 0; i < N; i++) {
            out[i] = (float)((int32_t)levels[i] - 8) * d;
        }
    }
}
