/* q3_k.c — 16 sub-blocks of 16 three-bit levels around zero, each with a 6-bit scale.
 *
 *   byte 0               32                       96            108  110
 *       [ 32 bytes, high ][ 64 bytes, four planes ][ 12, scales ][ d ]
 *                          (32 * 8 + 64 * 8 + 12 * 8 + 16) / 256 = 3.4375 bits a weight
 *
 * The third bit of element i is bit i / 32 of byte i mod 32; planes as in tq2_0.
 * Scale of sub-block j: low four bits in byte 96 + j mod 8, low nibble for j < 8, else high; upper
 * two bits at 2 * (j / 4) of byte 104 + j mod 4.    y = (d * (sc - 32)) * (level - 4). */
#include "kernels/k_pack_internal.h"
#include "kernels/search_internal.h"

enum { N = QNI_SUPER, SUB = 16, N_SUBS = N / SUB };

/* Returns the scale of the scales; fills levels 0..7 and the packed codes. With nothing to scale
 * the codes are 0, which means -32, and d is 0. */
static float search_plain(const float *x, uint8_t *levels, uint8_t *packed)
{
    float scales[N_SUBS];
    for (int j = 0; j < N_SUBS; j++) {
        scales[j] = qni_search_greedy(SUB, 4, x + SUB * j, levels + SUB * j);
    }
    const float max = qni_absmax(scales, N_SUBS).value;
    if (max == 0.0f) {
        memset(packed, 0, 12);
        return 0.0f;
    }
    const float inv = -32.0f / max;
    uint8_t codes[N_SUBS];
    for (int j = 0; j < N_SUBS; j++) {
        const int8_t code = (int8_t)qni_nearest(inv * scales[j]);
        codes[j] = (uint8_t)(qni_clamp_i32(code, -32, 31) + 32);
    }
    qni_pack_q3_k_codes(codes, packed);
    return 1.0f / inv;
}

static float search_weighted(const float *x, const float *importance, uint8_t *levels,
                             uint8_t *packed)
{
    const float sigma2 = 2.0f * qni_sum_squares(x, N) / (float)N;
    float scales[N_SUBS];
    float sums[N_SUBS];
    for (int j = 0; j < N_SUBS; j++) {
        float w[SUB];
        qni_weigh(x + SUB * j, importance + SUB * j, sigma2, SUB, w);
        sums[j] = qni_sum(w, SUB);
        scales[j] = qni_search_symmetric(SUB, 4, x + SUB * j, w, levels + SUB * j);
    }
    uint8_t codes[N_SUBS];
    const float d = qni_search_symmetric(N_SUBS, 32, scales, sums, codes);
    qni_pack_q3_k_codes(codes, packed);
    return d;
}

static qni_encode_result encode_block(const float *x, const float *importance,
                                      qni_block_q3_k *block)
{
    uint8_t levels[N];
    const float d = importance ? search_weighted(x, importance, levels, block->scales)
                               : search_plain(x, levels, block->scales);
    const qni_encode_result result = qni_store_scale(block->d, d);
    const float stored = qni_load_scale(block->d);
    for (int j = 0; j < N_SUBS; j++) {
        const float scale = stored * (float)(qni_q3_k_code(block->scales, j) - 32);
        qni_requantize_symmetric(x + SUB * j, SUB, 4, scale, levels + SUB * j);
    }
    qni_pack_q3_k_levels(levels, block);
    return result;
}

QNI_PROTO_encode(qni_encode_q3_k_scalar)
{
    (void)tables;
    qni_block_q3_k *block = out;
    qni_encode_result result = QNI_ENCODE_OK;
    for (int64_t row = 0; row < n_rows; row++, x += row_len) {
        for (int64_t i = 0; i < row_len; i += N, block++) {
            result = qni_worse(result, encode_block(x + i, weights ? weights + i : NULL, block));
        }
    }
    return result;
}

QNI_PROTO_decode(qni_decode_q3_k_scalar)
{
    const qni_block_q3_k *block = blocks;
    for (int64_t b = 0; b < n_blocks; b++, block++, out += N) {
        const float d = qni_load_scale(block->d);
        uint8_t levels[N];
        qni_unpack_planes(block->qs, levels);
        for (int i = 0; i < N; i++) {
            const float scale = d * (float)(qni_q3_k_code(block->scales, i / SUB) - 32);
            const int32_t high = block->hmask[i % 32] >> (i / 32) & 1;
            out[i] = scale * (float)(levels[i] + 4 * high - 4);
        }
    }
}
