/* q2_k.c — 16 sub-blocks of 16 two-bit levels, each with a 4-bit scale and a 4-bit minimum.
 *
 *   byte 0                16                       80   82     84
 *       [ 16 x (sc | mn)  ][ 64 bytes, four planes ][ d ][ dmin ]
 *                          (16 * 8 + 256 * 2 + 16 + 16) / 256 = 2.625 bits a weight
 *
 * Byte j: scale of sub-block j in the low nibble, minimum in the high one. Planes as in tq2_0.
 * y = (d * sc) * level - dmin * mn. */
#include "kernels/search_internal.h"

enum { N = QNI_SUPER, SUB = 16, N_SUBS = N / SUB };

static const qni_affine_params plain_search = {SUB, 3, -0.5f, 0.1f, 15, true};
static const qni_affine_params weighted_search = {SUB, 3, -0.9f, 0.05f, 36, false};

/* What the searches of the sub-blocks found. */
typedef struct found {
    float scales[N_SUBS];
    float offsets[N_SUBS];
    float weights[N_SUBS]; /* sums of the importance weights */
    uint8_t levels[N];
} found;

static void search_plain(const float *x, found *out)
{
    for (int j = 0; j < N_SUBS; j++) {
        float w[SUB];
        for (int i = 0; i < SUB; i++) {
            w[i] = fabsf(x[SUB * j + i]);
        }
        out->scales[j] = qni_search_affine(&plain_search, x + SUB * j, w, out->levels + SUB * j,
                                           &out->offsets[j]);
    }
}

static void search_weighted(const float *x, const float *importance, found *out)
{
    const float sigma2 = qni_sum_squares(x, N) / (float)N;
    for (int j = 0; j < N_SUBS; j++) {
        float w[SUB];
        qni_weigh(x + SUB * j, importance + SUB * j, sigma2, SUB, w);
        out->weights[j] = qni_sum(w, SUB);
        out->scales[j] = qni_search_affine(&weighted_search, x + SUB * j, w, out->levels + SUB * j,
                                           &out->offsets[j]);
    }
}

/* 16 values >= 0 to 4-bit codes under a common scale, or-ed into bytes at `shift`. A negative value
 * wraps in 8 bits. */
static float fit_plain(const float *values, int shift, uint8_t *bytes)
{
    const float max = qni_positive_max(values, N_SUBS);
    if (!(max > 0.0f)) {
        return 0.0f;
    }
    const float inv = 15.0f / max;
    for (int j = 0; j < N_SUBS; j++) {
        bytes[j] = (uint8_t)(bytes[j] | (uint32_t)qni_nearest(inv * values[j]) << shift);
    }
    return max / 15.0f;
}

static float fit_weighted(const float *values, const float *w, int shift, uint8_t *bytes)
{
    uint8_t codes[N_SUBS];
    const float scale = qni_search_positive(N_SUBS, 15, values, w, codes);
    for (int j = 0; j < N_SUBS; j++) {
        bytes[j] = (uint8_t)(bytes[j] | codes[j] << shift);
    }
    return scale;
}

/* Levels again, under the scales as they are stored. */
static void requantize(const float *x, const qni_block_q2_k *block, uint8_t *levels)
{
    const float d = qni_load_scale(block->d);
    const float dmin = qni_load_scale(block->dmin);
    for (int j = 0; j < N_SUBS; j++) {
        qni_requantize_affine(x + SUB * j, SUB, 3, d * (float)(block->scales[j] & 15),
                              dmin * (float)(block->scales[j] >> 4), levels + SUB * j);
    }
}

static qni_encode_result encode_block(const float *x, const float *importance,
                                      qni_block_q2_k *block)
{
    found best;
    float d, dmin;
    memset(block->scales, 0, sizeof block->scales);
    if (importance) {
        search_weighted(x, importance, &best);
        d = fit_weighted(best.scales, best.weights, 0, block->scales);
        dmin = fit_weighted(best.offsets, best.weights, 4, block->scales);
    } else {
        search_plain(x, &best);
        d = fit_plain(best.scales, 0, block->scales);
        dmin = fit_plain(best.offsets, 4, block->scales);
    }
    const qni_encode_result result =
        qni_worse(qni_store_scale(block->d, d), qni_store_scale(block->dmin, dmin));
    requantize(x, block, best.levels);
    qni_pack_planes(best.levels, block->qs);
    return result;
}

QNI_PROTO_encode(qni_encode_q2_k_scalar)
{
    (void)tables;
    qni_block_q2_k *block = out;
    qni_encode_result result = QNI_ENCODE_OK;
    for (int64_t row = 0; row < n_rows; row++, x += row_len) {
        for (int64_t i = 0; i < row_len; i += N, block++) {
            result = qni_worse(result, encode_block(x + i, weights ? weights + i : NULL, block));
        }
    }
    return result;
}

QNI_PROTO_decode(qni_decode_q2_k_scalar)
{
    const qni_block_q2_k *block = blocks;
    for (int64_t b = 0; b < n_blocks; b++, block++, out += N) {
        const float d = qni_load_scale(block->d);
        const float dmin = qni_load_scale(block->dmin);
        uint8_t levels[N];
        qni_unpack_planes(block->qs, levels);
        for (int i = 0; i < N; i++) {
            const uint8_t code = block->scales[i / SUB];
            const float scale = d * (float)(code & 15);
            const float offset = dmin * (float)(code >> 4);
            out[i] = scale * (float)levels[i] - offset;
        }
    }
}
