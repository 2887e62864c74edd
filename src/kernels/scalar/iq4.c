/* iq4.c — four-bit codes into a table of 16 uneven values: iq4_nl, and iq4_xs with super-blocks.
 *
 *   iq4_nl   byte 0  2                 18
 *                [ d ][ 16 bytes       ]      (16 + 32 * 4) / 32 = 4.5 bits a weight
 *   iq4_xs   byte 0  2          4             8                    136
 *                [ d ][ upper 16 ][ lower, 4  ][ 128 bytes          ]
 *                          (16 + 16 + 4 * 8 + 256 * 4) / 256 = 4.25
 *
 * iq4_nl: nibbles as in q4_0, y = d * V[code].
 * iq4_xs: eight sub-blocks of 32, each a nibble split of 16 bytes. ls of sub-block b: low four bits
 * in nibble b mod 2 of byte 4 + b / 2, upper two at bit 2b of the word.   y = (d * (ls - 32)) *
 * V[code]. */
#include "kernels/search_internal.h"

enum { SUB = 32, N_SUBS = QNI_SUPER / SUB };

static const int8_t values[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                  1,    13,   25,  38,  53,  69,  89,  113};

/* The code of the nearest value; half-way goes up; NaN gives 15. */
static uint8_t nearest_code(float x)
{
    if (x <= (float)values[0]) {
        return 0;
    }
    if (!(x < (float)values[15])) {
        return 15;
    }
    int above = 1;
    while (x >= (float)values[above]) {
        above++;
    }
    const float up = (float)values[above] - x;
    const float down = x - (float)values[above - 1];
    return (uint8_t)(down < up ? above - 1 : above);
}

typedef struct fit_sums {
    float xq;
    float qq;
} fit_sums;

static fit_sums sum_codes(const float *x, const float *w, float inv)
{
    fit_sums sum = {0.0f, 0.0f};
    for (int i = 0; i < SUB; i++) {
        const float q = (float)values[nearest_code(inv * x[i])];
        sum.xq += w[i] * q * x[i];
        sum.qq += w[i] * q * q;
    }
    return sum;
}

/* The best scale of 32 values; 0 when there is nothing to scale. The first candidate puts the value
 * of largest magnitude on the lowest table value, the others on either side of it. */
static float search(const float *x, const float *w)
{
    const qni_extreme extreme = qni_absmax(x, SUB);
    if (extreme.mag < QNI_TINY) {
        return 0.0f;
    }
    float scale = -extreme.value / (float)values[0];
    fit_sums sum = sum_codes(x, w, 1.0f / scale);
    scale = sum.qq > 0.0f ? sum.xq / sum.qq : 0.0f;
    float best = scale * sum.xq;
    for (int k = -7; k <= 7; k++) {
        sum = sum_codes(x, w, ((float)k + (float)values[0]) / extreme.value);
        if (sum.qq > 0.0f && sum.xq * sum.xq > best * sum.qq) {
            scale = sum.xq / sum.qq;
            best = scale * sum.xq;
        }
    }
    return scale;
}

/* The search under importance, or x * x without it. */
static float search_scale(const float *x, const float *importance, float sigma2)
{
    float w[SUB];
    if (importance) {
        qni_weigh(x, importance, sigma2, SUB, w);
    } else {
        for (int i = 0; i < SUB; i++) {
            w[i] = x[i] * x[i];
        }
    }
    return search(x, w);
}

static void encode_codes(const float *x, float inv, uint8_t *qs)
{
    uint8_t codes[SUB];
    for (int i = 0; i < SUB; i++) {
        codes[i] = nearest_code(inv * x[i]);
    }
    qni_pack_nibbles(codes, SUB, qs);
}

static void decode_codes(const uint8_t *qs, float scale, float *out)
{
    uint8_t codes[SUB];
    qni_unpack_nibbles(qs, SUB, codes);
    for (int i = 0; i < SUB; i++) {
        out[i] = scale * (float)values[codes[i]];
    }
}

/* --- iq4_nl ------------------------------------------------------------------------------------
 */

static qni_encode_result encode_nl(const float *x, const float *importance, qni_block_iq4_nl *block)
{
    const float sigma2 = qni_sum_squares(x, SUB) * (2.0f / (float)SUB);
    const float d = search_scale(x, importance, sigma2);
    encode_codes(x, d != 0.0f ? 1.0f / d : 0.0f, block->qs); /* under the unrounded scale */
    return qni_store_scale(block->d, d);
}

QNI_PROTO_encode(qni_encode_iq4_nl_scalar)
{
    (void)tables;
    qni_block_iq4_nl *block = out;
    qni_encode_result result = QNI_ENCODE_OK;
    for (int64_t row = 0; row < n_rows; row++, x += row_len) {
        for (int64_t i = 0; i < row_len; i += SUB, block++) {
            result = qni_worse(result, encode_nl(x + i, weights ? weights + i : NULL, block));
        }
    }
    return result;
}

QNI_PROTO_decode(qni_decode_iq4_nl_scalar)
{
    const qni_block_iq4_nl *block = blocks;
    for (int64_t b = 0; b < n_blocks; b++, block++, out += SUB) {
        decode_codes(block->qs, qni_load_scale(block->d), out);
    }
}

/* --- iq4_xs ------------------------------------------------------------------------------------
 */

static qni_encode_result encode_xs(const float *x, const float *importance, qni_block_iq4_xs *block)
{
    const float sigma2 = qni_sum_squares(x, QNI_SUPER) * (2.0f / (float)QNI_SUPER);
    float scales[N_SUBS];
    for (int b = 0; b < N_SUBS; b++) {
        scales[b] = search_scale(x + SUB * b, importance ? importance + SUB * b : NULL, sigma2);
    }
    const float d = -qni_absmax(scales, N_SUBS).value / 32.0f;
    const float inv = d != 0.0f ? 1.0f / d : 0.0f;
    uint32_t upper = 0;
    memset(block->scales_l, 0, sizeof block->scales_l);
    for (int b = 0; b < N_SUBS; b++) {
        const int32_t level = qni_clamp_i32(qni_nearest(inv * scales[b]), -32, 31);
        const float scale = d * (float)level; /* unrounded d */
        encode_codes(x + SUB * b, scale != 0.0f ? 1.0f / scale : 0.0f, block->qs + 16 * b);
        const uint32_t code = (uint32_t)(level + 32);
        block->scales_l[b / 2] = (uint8_t)(block->scales_l[b / 2] | (code & 15) << (4 * (b % 2)));
        upper |= code >> 4 << (2 * b);
    }
    qni_store_u16le(block->scales_h, (uint16_t)upper);
    return qni_store_scale(block->d, d);
}

QNI_PROTO_encode(qni_encode_iq4_xs_scalar)
{
    (void)tables;
    qni_block_iq4_xs *block = out;
    qni_encode_result result = QNI_ENCODE_OK;
    for (int64_t row = 0; row < n_rows; row++, x += row_len) {
        for (int64_t i = 0; i < row_len; i += QNI_SUPER, block++) {
            result = qni_worse(result, encode_xs(x + i, weights ? weights + i : NULL, block));
        }
    }
    return result;
}

QNI_PROTO_decode(qni_decode_iq4_xs_scalar)
{
    const qni_block_iq4_xs *block = blocks;
    for (int64_t n = 0; n < n_blocks; n++, block++, out += QNI_SUPER) {
        const float d = qni_load_scale(block->d);
        const int32_t upper = qni_load_u16le(block->scales_h);
        for (int b = 0; b < N_SUBS; b++) {
            const int32_t low = block->scales_l[b / 2] >> (4 * (b % 2)) & 15;
            const int32_t code = low | (upper >> (2 * b) & 3) << 4;
            decode_codes(block->qs + 16 * b, d * (float)(code - 32), out + SUB * b);
        }
    }
}
