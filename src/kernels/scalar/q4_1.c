/* q4_1.c — 32 four-bit levels above a minimum.
 *
 *   byte 0  1  2  3  4                 20
 *       [ d ][ m ][ 16 bytes           ]      (16 + 16 + 32 * 4) / 32 = 5 bits a weight
 *
 * Nibbles as in q4_0. y = level * d + m: the product is rounded before the sum. */
#include <float.h>

#include "kernels/search_internal.h"

enum { N = 32 };

static const qni_affine_params weighted_search = {N, 15, -0.9f, 0.05f, 36, false};

static qni_encode_result store_scales(qni_block_q4_1 *block, float d, float m)
{
    return qni_worse(qni_store_scale(block->d, d), qni_store_scale(block->m, m));
}

static qni_encode_result encode_plain(const float *x, qni_block_q4_1 *block)
{
    float lo = FLT_MAX;
    float hi = -FLT_MAX;
    for (int i = 0; i < N; i++) {
        lo = x[i] < lo ? x[i] : lo;
        hi = x[i] > hi ? x[i] : hi;
    }
    const float d = (hi - lo) / 15.0f;
    const float inv = d != 0.0f ? 1.0f / d : 0.0f;
    uint8_t levels[N];
    for (int i = 0; i < N; i++) {
        levels[i] = (uint8_t)qni_min_i32(15, qni_trunc_i8((x[i] - lo) * inv + 0.5f));
    }
    qni_pack_nibbles(levels, N, block->qs);
    return store_scales(block, d, lo);
}

static qni_encode_result encode_weighted(const float *x, const float *importance, float sigma2,
                                         qni_block_q4_1 *block)
{
    float w[N];
    uint8_t levels[N];
    float offset;
    qni_weigh(x, importance, sigma2, N, w);
    const float d = qni_search_affine(&weighted_search, x, w, levels, &offset);
    qni_pack_nibbles(levels, N, block->qs);
    return store_scales(block, d, -offset);
}

QNI_PROTO_encode(qni_encode_q4_1_scalar)
{
    (void)tables;
    qni_block_q4_1 *block = out;
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

QNI_PROTO_decode(qni_decode_q4_1_scalar)
{
    const qni_block_q4_1 *block = blocks;
    for (int64_t b = 0; b < n_blocks; b++, block++, out += N) {
        const float d = qni_load_scale(block->d);
        const float m = qni_load_scale(block->m);
        uint8_t levels[N];
        qni_unpack_nibbles(block->qs, N, levels);
        for (int i = 0; i < N; i++) {
            out[i] = (float)levels[i] * d + m;
        }
    }
}
