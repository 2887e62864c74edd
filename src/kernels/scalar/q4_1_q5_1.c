/* q4_1_q5_1.c — 32 levels above a minimum.
 *
 *   q4_1   byte 0  1  2  3  4                 20
 *              [ d ][ m ][ 16 bytes           ]      (16 + 16 + 32 * 4) / 32 = 5 bits a weight
 *
 *   q5_1   byte 0  1  2  3  4           8                 24
 *              [ d ][ m ][ high bits    ][ 16 bytes       ]      (16 + 16 + 32 + 32 * 4) / 32 = 6
 * bits
 *
 * Levels as in q4_0 and q5_0. y = level * d + m: the product is rounded before the sum. */
#include <float.h>

#include "kernels/search_internal.h"

enum { N = 32 };

static const qni_affine_params search_q4_1 = {N, 15, -0.9f, 0.05f, 36, false};
static const qni_affine_params search_q5_1 = {N, 31, -0.9f, 0.05f, 36, false};

typedef struct affine_scale {
    float d;
    float m;
} affine_scale;

/* Levels that may lie above the highest one: what is stored of them is up to the format. */
QNI_INLINE affine_scale fit_plain(int highest, const float *x, uint8_t *levels)
{
    float lo = FLT_MAX;
    float hi = -FLT_MAX;
    for (int i = 0; i < N; i++) {
        lo = x[i] < lo ? x[i] : lo;
        hi = x[i] > hi ? x[i] : hi;
    }
    const float d = (hi - lo) / (float)highest;
    const float inv = d != 0.0f ? 1.0f / d : 0.0f;
    for (int i = 0; i < N; i++) {
        levels[i] = (uint8_t)qni_trunc_i8((x[i] - lo) * inv + 0.5f);
    }
    return (affine_scale){d, lo};
}

static affine_scale fit_weighted(const qni_affine_params *search, const float *x,
                                 const float *importance, float sigma2, uint8_t *levels)
{
    float w[N];
    float offset;
    qni_weigh(x, importance, sigma2, N, w);
    const float d = qni_search_affine(search, x, w, levels, &offset);
    return (affine_scale){d, -offset};
}

static qni_encode_result store_scale(uint8_t *d, uint8_t *m, affine_scale scale)
{
    return qni_worse(qni_store_scale(d, scale.d), qni_store_scale(m, scale.m));
}

QNI_INLINE void spread(const uint8_t *levels, float d, float m, float *out)
{
    for (int i = 0; i < N; i++) {
        out[i] = (float)levels[i] * d + m;
    }
}

static qni_encode_result encode_q4_1(const float *x, const float *importance, float sigma2,
                                     void *out)
{
    qni_block_q4_1 *block = out;
    uint8_t levels[N];
    affine_scale scale;
    if (importance) {
        scale = fit_weighted(&search_q4_1, x, importance, sigma2, levels);
    } else {
        scale = fit_plain(15, x, levels);
        for (int i = 0; i < N; i++) {
            levels[i] = (uint8_t)qni_min_i32(15, (int8_t)levels[i]);
        }
    }
    qni_pack_nibbles(levels, N, block->qs);
    return store_scale(block->d, block->m, scale);
}

/* No upper limit here: only the low five bits are stored. */
static qni_encode_result encode_q5_1(const float *x, const float *importance, float sigma2,
                                     void *out)
{
    qni_block_q5_1 *block = out;
    uint8_t levels[N];
    const affine_scale scale = importance
                                   ? fit_weighted(&search_q5_1, x, importance, sigma2, levels)
                                   : fit_plain(31, x, levels);
    qni_pack_fifth_bits(levels, block->qh, block->qs);
    return store_scale(block->d, block->m, scale);
}

QNI_PROTO_encode(qni_encode_q4_1_scalar)
{
    (void)tables;
    return qni_encode_rows_of_32(encode_q4_1, sizeof(qni_block_q4_1), x, n_rows, row_len, weights,
                                 out);
}

QNI_PROTO_encode(qni_encode_q5_1_scalar)
{
    (void)tables;
    return qni_encode_rows_of_32(encode_q5_1, sizeof(qni_block_q5_1), x, n_rows, row_len, weights,
                                 out);
}

QNI_PROTO_decode(qni_decode_q4_1_scalar)
{
    const qni_block_q4_1 *block = blocks;
    for (int64_t b = 0; b < n_blocks; b++, block++, out += N) {
        uint8_t levels[N];
        qni_unpack_nibbles(block->qs, N, levels);
        spread(levels, qni_load_scale(block->d), qni_load_scale(block->m), out);
    }
}

QNI_PROTO_decode(qni_decode_q5_1_scalar)
{
    const qni_block_q5_1 *block = blocks;
    for (int64_t b = 0; b < n_blocks; b++, block++, out += N) {
        uint8_t levels[N];
        qni_unpack_fifth_bits(block->qh, block->qs, levels);
        spread(levels, qni_load_scale(block->d), qni_load_scale(block->m), out);
    }
}
