/* q5_0.c — 32 five-bit levels around zero and one scale.
 *
 *   byte 0  1  2           6                 22
 *       [ d ][ high bits   ][ 16 bytes       ]      (16 + 32 + 32 * 4) / 32 = 5.5 bits a weight
 *
 * The low four bits of the levels are nibbles as in q4_0; bit i of the little-endian word is the
 * fifth bit of level i. y = (level - 16) * d, with a signed scale as in q4_0. */
#include "kernels/search_internal.h"

enum { N = 32 };

static qni_encode_result encode_plain(const float *x, qni_block_q5_0 *block)
{
    const float d = qni_absmax(x, N).value / -16.0f;
    const float inv = d != 0.0f ? 1.0f / d : 0.0f;
    uint8_t levels[N];
    for (int i = 0; i < N; i++) {
        levels[i] = (uint8_t)qni_min_i32(31, qni_trunc_i8(x[i] * inv + 16.5f));
    }
    qni_pack_fifth_bits(levels, block->qh, block->qs);
    return qni_store_scale(block->d, d);
}

static qni_encode_result encode_weighted(const float *x, const float *importance, float sigma2,
                                         qni_block_q5_0 *block)
{
    float w[N];
    uint8_t levels[N];
    qni_weigh(x, importance, sigma2, N, w);
    const float d = qni_search_symmetric(N, 16, x, w, levels);
    qni_pack_fifth_bits(levels, block->qh, block->qs);
    return qni_store_scale(block->d, d);
}

QNI_PROTO_encode(qni_encode_q5_0_scalar)
{
    (void)tables;
    qni_block_q5_0 *block = out;
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

QNI_PROTO_decode(qni_decode_q5_0_scalar)
{
    const qni_block_q5_0 *block = blocks;
    for (int64_t b = 0; b < n_blocks; b++, block++, out += N) {
        const float d = qni_load_scale(block->d);
        uint8_t levels[N];
        qni_unpack_fifth_bits(block->qh, block->qs, levels);
        for (int i = 0; i < N; i++) {
            out[i] = (float)((int32_t)levels[i] - 16) * d;
        }
    }
}
