/* q4_0_q5_0.c — 32 levels around zero and one scale.
 *
 *   q4_0   byte 0  1  2                 18
 *              [ d ][ 16 bytes          ]      (16 + 32 * 4) / 32 = 4.5 bits a weight
 *
 *   q5_0   byte 0  1  2           6                 22
 *              [ d ][ high bits   ][ 16 bytes       ]      (16 + 32 + 32 * 4) / 32 = 5.5 bits a
 * weight
 *
 * Byte j of the sixteen holds the low four bits of level j in its low nibble and those of level
 * j + 16 in its high nibble; bit i of the little-endian word of q5_0 is the fifth bit of level i.
 * y = (level - m) * d with m = 8 or 16. The scale is signed: the value of largest magnitude gets
 * level 0, so that the range -m..m-1 is used fully. */
#include "kernels/search_internal.h"

enum { N = 32 };

/* The levels of x and their scale. */
QNI_INLINE float fit(int m, const float *x, const float *importance, float sigma2, uint8_t *levels)
{
    if (importance) {
        float w[N];
        qni_weigh(x, importance, sigma2, N, w);
        return qni_search_symmetric(N, m, x, w, levels);
    }
    const float d = qni_absmax(x, N).value / (float)-m;
    const float inv = d != 0.0f ? 1.0f / d : 0.0f;
    const float middle = (float)m + 0.5f;
    for (int i = 0; i < N; i++) {
        levels[i] = (uint8_t)qni_min_i32(2 * m - 1, qni_trunc_i8(x[i] * inv + middle));
    }
    return d;
}

QNI_INLINE void spread(int m, const uint8_t *levels, float d, float *out)
{
    for (int i = 0; i < N; i++) {
        out[i] = (float)((int32_t)levels[i] - m) * d;
    }
}

static qni_encode_result encode_q4_0(const float *x, const float *importance, float sigma2,
                                     void *out)
{
    qni_block_q4_0 *block = out;
    uint8_t levels[N];
    const float d = fit(8, x, importance, sigma2, levels);
    qni_pack_nibbles(levels, N, block->qs);
    return qni_store_scale(block->d, d);
}

static qni_encode_result encode_q5_0(const float *x, const float *importance, float sigma2,
                                     void *out)
{
    qni_block_q5_0 *block = out;
    uint8_t levels[N];
    const float d = fit(16, x, importance, sigma2, levels);
    qni_pack_fifth_bits(levels, block->qh, block->qs);
    return qni_store_scale(block->d, d);
}

QNI_PROTO_encode(qni_encode_q4_0_scalar)
{
    (void)tables;
    return qni_encode_rows_of_32(encode_q4_0, sizeof(qni_block_q4_0), x, n_rows, row_len, weights,
                                 out);
}

QNI_PROTO_encode(qni_encode_q5_0_scalar)
{
    (void)tables;
    return qni_encode_rows_of_32(encode_q5_0, sizeof(qni_block_q5_0), x, n_rows, row_len, weights,
                                 out);
}

QNI_PROTO_decode(qni_decode_q4_0_scalar)
{
    const qni_block_q4_0 *block = blocks;
    for (int64_t b = 0; b < n_blocks; b++, block++, out += N) {
        uint8_t levels[N];
        qni_unpack_nibbles(block->qs, N, levels);
        spread(8, levels, qni_load_scale(block->d), out);
    }
}

QNI_PROTO_decode(qni_decode_q5_0_scalar)
{
    const qni_block_q5_0 *block = blocks;
    for (int64_t b = 0; b < n_blocks; b++, block++, out += N) {
        uint8_t levels[N];
        qni_unpack_fifth_bits(block->qh, block->qs, levels);
        spread(16, levels, qni_load_scale(block->d), out);
    }
}
