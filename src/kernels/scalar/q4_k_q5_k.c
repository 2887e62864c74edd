/* q4_k_q5_k.c — 8 sub-blocks of 32 four-bit levels (q4_K) or five-bit levels (q5_K), each with a
 * 6-bit scale and a 6-bit minimum.
 *
 *   q4_K   byte 0  2     4           16                   144
 *              [ d ][ dmin ][ 12, codes ][ 128 bytes      ]
 *                          (16 + 16 + 12 * 8 + 256 * 4) / 256 = 4.5 bits a weight
 *   q5_K   byte 0  2     4           16               48                   176
 *              [ d ][ dmin ][ 12, codes ][ 32 bytes, fifth ][ 128 bytes    ]
 *                          (16 + 16 + 12 * 8 + 32 * 8 + 256 * 4) / 256 = 5.5
 *
 * Levels: each 32 bytes hold 64, the first 32 in the low nibbles. The fifth bit of element i of
 * q5_K is bit i / 32 of byte i mod 32.    y = (d * sc) * level - dmin * mn.
 *
 * The 12 code bytes T, with sc and mn of six bits:
 *   T[0..3]   sc 0..3, and in their top two bits the upper two of sc 4..7
 *   T[4..7]   mn 0..3, and in their top two bits the upper two of mn 4..7
 *   T[8..11]  low four bits of sc 4..7 (low nibble) and of mn 4..7 (high nibble) */
#include "kernels/k_pack_internal.h"
#include "kernels/search_internal.h"

enum { N = QNI_SUPER, SUB = 32, N_SUBS = N / SUB };

static const qni_affine_params plain_search_4 = {SUB, 15, -1.0f, 0.1f, 20, false};
static const qni_affine_params plain_search_5 = {SUB, 31, -0.5f, 0.1f, 15, false};
static const qni_affine_params weighted_search_4 = {SUB, 15, -0.9f, 0.05f, 36, false};
static const qni_affine_params weighted_search_5 = {SUB, 31, -0.9f, 0.05f, 36, false};

/* The part that both formats share: everything but the packing of the levels. */
typedef struct encoded {
    uint8_t levels[N];
    uint8_t codes[12];
    float d;
    float dmin;
} encoded;

/* Eight values to 6-bit codes under a common scale, which is returned. */
static float fit_plain(const float *values, uint8_t *codes)
{
    const float max = qni_positive_max(values, N_SUBS);
    const float inv = max > 0.0f ? 63.0f / max : 0.0f;
    for (int j = 0; j < N_SUBS; j++) {
        codes[j] = (uint8_t)qni_min_i32(63, (uint8_t)qni_nearest(inv * values[j]));
    }
    return max / 63.0f;
}

static void encode_plain(const float *x, const qni_affine_params *search, encoded *out)
{
    float scales[N_SUBS];
    float offsets[N_SUBS];
    for (int j = 0; j < N_SUBS; j++) {
        const float *sub = x + SUB * j;
        const float rms = sqrtf(qni_sum_squares(sub, SUB) / (float)SUB);
        float w[SUB];
        for (int i = 0; i < SUB; i++) {
            w[i] = rms + fabsf(sub[i]);
        }
        scales[j] = qni_search_affine(search, sub, w, out->levels + SUB * j, &offsets[j]);
    }
    uint8_t sc[N_SUBS];
    uint8_t mn[N_SUBS];
    out->d = fit_plain(scales, sc);
    out->dmin = fit_plain(offsets, mn);
    qni_pack_k_codes(sc, mn, out->codes);
}

static void encode_weighted(const float *x, const float *importance,
                            const qni_affine_params *search, encoded *out)
{
    const float sigma2 = 2.0f * qni_sum_squares(x, N) / (float)N;
    float scales[N_SUBS];
    float offsets[N_SUBS];
    float sums[N_SUBS];
    for (int j = 0; j < N_SUBS; j++) {
        float w[SUB];
        qni_weigh(x + SUB * j, importance + SUB * j, sigma2, SUB, w);
        sums[j] = qni_sum(w, SUB);
        scales[j] = qni_search_affine(search, x + SUB * j, w, out->levels + SUB * j, &offsets[j]);
    }
    uint8_t sc[N_SUBS];
    uint8_t mn[N_SUBS];
    out->d = qni_search_positive(N_SUBS, 63, scales, sums, sc);
    out->dmin = qni_search_positive(N_SUBS, 63, offsets, sums, mn);
    for (int j = 0; search->m == 31 && j < N_SUBS; j++) { /* q5_K only */
        sc[j] = (uint8_t)qni_min_i32(63, sc[j]);
        mn[j] = (uint8_t)qni_min_i32(63, mn[j]);
    }
    qni_pack_k_codes(sc, mn, out->codes);
}

/* Levels again, under the scales as they are stored. */
static void requantize(const float *x, int m, float d, float dmin, encoded *out)
{
    for (int j = 0; j < N_SUBS; j++) {
        qni_requantize_affine(x + SUB * j, SUB, m, d * (float)qni_k_scale_code(out->codes, j),
                              dmin * (float)qni_k_offset_code(out->codes, j),
                              out->levels + SUB * j);
    }
}

static qni_encode_result encode_q4_k(const float *x, const float *importance, qni_block_q4_k *block)
{
    encoded e;
    if (importance) {
        encode_weighted(x, importance, &weighted_search_4, &e);
    } else {
        encode_plain(x, &plain_search_4, &e);
    }
    const qni_encode_result result =
        qni_worse(qni_store_scale(block->d, e.d), qni_store_scale(block->dmin, e.dmin));
    memcpy(block->scales, e.codes, sizeof e.codes);
    requantize(x, 15, qni_load_scale(block->d), qni_load_scale(block->dmin), &e);
    qni_pack_q4_k_levels(e.levels, block);
    return result;
}

static qni_encode_result encode_q5_k(const float *x, const float *importance, qni_block_q5_k *block)
{
    encoded e;
    if (importance) {
        encode_weighted(x, importance, &weighted_search_5, &e);
    } else {
        encode_plain(x, &plain_search_5, &e);
    }
    const qni_encode_result result =
        qni_worse(qni_store_scale(block->d, e.d), qni_store_scale(block->dmin, e.dmin));
    memcpy(block->scales, e.codes, sizeof e.codes);
    requantize(x, 31, qni_load_scale(block->d), qni_load_scale(block->dmin), &e);
    qni_pack_q5_k_levels(e.levels, block);
    return result;
}

QNI_PROTO_encode(qni_encode_q4_k_scalar)
{
    (void)tables;
    qni_block_q4_k *block = out;
    qni_encode_result result = QNI_ENCODE_OK;
    for (int64_t row = 0; row < n_rows; row++, x += row_len) {
        for (int64_t i = 0; i < row_len; i += N, block++) {
            result = qni_worse(result, encode_q4_k(x + i, weights ? weights + i : NULL, block));
        }
    }
    return result;
}

QNI_PROTO_encode(qni_encode_q5_k_scalar)
{
    (void)tables;
    qni_block_q5_k *block = out;
    qni_encode_result result = QNI_ENCODE_OK;
    for (int64_t row = 0; row < n_rows; row++, x += row_len) {
        for (int64_t i = 0; i < row_len; i += N, block++) {
            result = qni_worse(result, encode_q5_k(x + i, weights ? weights + i : NULL, block));
        }
    }
    return result;
}

/* Sub-block by sub-block: levels under their scale and minimum. */
static void decode_levels(const uint8_t *levels, const uint8_t *codes, float d, float dmin,
                          float *out)
{
    for (int j = 0; j < N_SUBS; j++) {
        const float scale = d * (float)qni_k_scale_code(codes, j);
        const float offset = dmin * (float)qni_k_offset_code(codes, j);
        for (int i = SUB * j; i < SUB * (j + 1); i++) {
            out[i] = scale * (float)levels[i] - offset;
        }
    }
}

QNI_PROTO_decode(qni_decode_q4_k_scalar)
{
    const qni_block_q4_k *block = blocks;
    for (int64_t b = 0; b < n_blocks; b++, block++, out += N) {
        uint8_t levels[N];
        for (int group = 0; group < N / 64; group++) {
            qni_unpack_nibbles(block->qs + 32 * group, 64, levels + 64 * group);
        }
        decode_levels(levels, block->scales, qni_load_scale(block->d), qni_load_scale(block->dmin),
                      out);
    }
}

QNI_PROTO_decode(qni_decode_q5_k_scalar)
{
    const qni_block_q5_k *block = blocks;
    for (int64_t b = 0; b < n_blocks; b++, block++, out += N) {
        uint8_t levels[N];
        for (int group = 0; group < N / 64; group++) {
            qni_unpack_nibbles(block->qs + 32 * group, 64, levels + 64 * group);
        }
        for (int i = 0; i < N; i++) {
            levels[i] = (uint8_t)(levels[i] | (block->qh[i % 32] >> (i / 32) & 1) << 4);
        }
        decode_levels(levels, block->scales, qni_load_scale(block->d), qni_load_scale(block->dmin),
                      out);
    }
}
