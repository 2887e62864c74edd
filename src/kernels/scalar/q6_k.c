/* q6_k.c — 16 sub-blocks of 16 six-bit levels around zero, each with an 8-bit scale.
 *
 *   byte 0                       128                 192               208  210
 *       [ 128 bytes, low nibbles ][ 64 bytes, upper 2 ][ 16 x i8, scales ][ d ]
 *                          (128 * 8 + 64 * 8 + 16 * 8 + 16) / 256 = 6.5625 bits a weight
 *
 * Each half of 128 elements, in groups g = 0..3 of 32: the low nibble of group g, element l, is in
 * byte 32 * (g mod 2) + l of the half's 64, low for g < 2 and high for g >= 2; the upper two bits
 * are a plane as in tq2_0.    y = (d * sc) * (level - 32). */
#include "kernels/k_pack_internal.h"
#include "kernels/search_internal.h"

enum { N = QNI_SUPER, SUB = 16, N_SUBS = N / SUB };

static void unpack_levels(const qni_block_q6_k *block, uint8_t *levels)
{
    uint8_t upper[N];
    qni_unpack_planes(block->qh, upper);
    for (int half = 0; half < 2; half++) {
        qni_unpack_nibbles(block->ql + 64 * half, 128, levels + 128 * half);
    }
    for (int i = 0; i < N; i++) {
        levels[i] = (uint8_t)(levels[i] | upper[i] << 4);
    }
}

/* Here importance weighs as it is, without the variance that other formats add. */
static qni_encode_result encode_block(const float *x, const float *importance,
                                      qni_block_q6_k *block)
{
    uint8_t levels[N];
    float scales[N_SUBS];
    for (int j = 0; j < N_SUBS; j++) {
        scales[j] = qni_search_symmetric(
            SUB, 32, x + SUB * j, importance ? importance + SUB * j : NULL, levels + SUB * j);
    }
    const qni_extreme extreme = qni_absmax(scales, N_SUBS);
    if (extreme.mag < QNI_TINY) {
        memset(block, 0, sizeof *block);
        return QNI_ENCODE_OK;
    }
    const float inv = -128.0f / extreme.value; /* so the largest scale gets -128 */
    const qni_encode_result result = qni_store_scale(block->d, 1.0f / inv);
    const float d = qni_load_scale(block->d);
    for (int j = 0; j < N_SUBS; j++) {
        block->scales[j] = (int8_t)qni_min_i32(127, qni_nearest(inv * scales[j]));
        qni_requantize_symmetric(x + SUB * j, SUB, 32, d * (float)block->scales[j],
                                 levels + SUB * j);
    }
    qni_pack_q6_k_levels(levels, block);
    return result;
}

QNI_PROTO_encode(qni_encode_q6_k_scalar)
{
    (void)tables;
    qni_block_q6_k *block = out;
    qni_encode_result result = QNI_ENCODE_OK;
    for (int64_t row = 0; row < n_rows; row++, x += row_len) {
        for (int64_t i = 0; i < row_len; i += N, block++) {
            result = qni_worse(result, encode_block(x + i, weights ? weights + i : NULL, block));
        }
    }
    return result;
}

QNI_PROTO_decode(qni_decode_q6_k_scalar)
{
    const qni_block_q6_k *block = blocks;
    for (int64_t b = 0; b < n_blocks; b++, block++, out += N) {
        const float d = qni_load_scale(block->d);
        uint8_t levels[N];
        unpack_levels(block, levels);
        for (int i = 0; i < N; i++) {
            const int8_t scale = block->scales[i / SUB];
            out[i] = d * (float)scale * (float)((int32_t)levels[i] - 32);
        }
    }
}
