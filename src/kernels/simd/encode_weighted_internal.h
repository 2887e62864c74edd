/* encode_weighted_internal.h — q4_0, q4_1, q5_0, q5_1 under importance weights, sixteen blocks at a
 * time, one a lane. Without weights these types have encoders of their own.
 *
 * The variance that the weights need is that of the whole row, a sum in element order: sixteen rows
 * are summed side by side. Compiled once for each instruction set. */
#ifndef QNI_ENCODE_WEIGHTED_INTERNAL_H
#define QNI_ENCODE_WEIGHTED_INTERNAL_H

#include "kernels/simd/batch_lanes_internal.h"
#include "kernels/simd/search_lanes_internal.h"

enum { BLOCK = 32 };

/* Sums of squares of n_rows <= VL rows. */
static vf row_sums(const float *x, int64_t n_rows, int64_t row_len)
{
    const float *rows[VL];
    for (int lane = 0; lane < VL; lane++) {
        rows[lane] = lane < n_rows ? x + lane * row_len : x;
    }
    float turned[VL * BLOCK];
    vf sum = vf_set(0.0f);
    for (int64_t i = 0; i < row_len; i += BLOCK) {
        vec_transpose(rows, i, BLOCK, turned);
        for (int k = 0; k < BLOCK; k++) {
            const vf v = vf_load(turned + VL * k);
            sum = vf_add(sum, vf_mul(v, v));
        }
    }
    return sum;
}

/* A batch, turned: values and the weights made of them. */
typedef struct weighted_lanes {
    float x[VL * BLOCK];
    float w[VL * BLOCK];
    float sigma2[VL]; /* of the block in each lane */
} weighted_lanes;

/* Encodes one batch. */
typedef qni_encode_result (*weighted_batch_fn)(const lane_batch *batch, const weighted_lanes *lanes,
                                               uint8_t *out);

/* Up to sixteen rows. False if the rows are not finite: then the referee must do them. */
QNI_INLINE bool weighted_rows(weighted_batch_fn encode, size_t block_bytes, const float *x,
                              int64_t n_rows, int64_t row_len, const float *weights, uint8_t *out,
                              qni_encode_result *result)
{
    float sigma2[VL + 1] = {0}; /* one more: the row counter may end past the last row */
    const vf sums = row_sums(x, n_rows, row_len);
    vf_store(sigma2, vf_div(sums, vf_set((float)row_len)));
    const int64_t row_blocks = row_len / BLOCK;
    const int64_t n_blocks = n_rows * row_blocks;
    weighted_lanes lanes;
    int64_t row = 0;
    int64_t column = 0;
    for (int64_t i = 0; i < n_blocks; i += VL) {
        const lane_batch batch = batch_at(x, weights, BLOCK, i, n_blocks, row_blocks);
        for (int lane = 0; lane < VL; lane++) {
            lanes.sigma2[lane] = sigma2[row];
            if (lane < batch.n && ++column == row_blocks) {
                column = 0;
                row++;
            }
        }
        vec_transpose(batch.x, 0, BLOCK, lanes.x);
        if (QNI_UNLIKELY(!lanes_are_finite(lanes.x, BLOCK))) {
            return false;
        }
        vec_transpose(batch.importance, 0, BLOCK, lanes.w);
        lanes_weigh(lanes.x, vf_load(lanes.sigma2), BLOCK, lanes.w);
        *result = qni_worse(*result, encode(&batch, &lanes, out + (size_t)i * block_bytes));
    }
    return true;
}

QNI_INLINE qni_encode_result weighted_encode(weighted_batch_fn encode, qni_encode_fn referee,
                                             size_t block_bytes, const float *x, int64_t n_rows,
                                             int64_t row_len, const float *weights, uint8_t *out)
{
    const size_t row_bytes = (size_t)(row_len / BLOCK) * block_bytes;
    qni_encode_result result = QNI_ENCODE_OK;
    for (int64_t row = 0; row_len > 0 && row < n_rows; row += VL) {
        const int64_t n = n_rows - row < VL ? n_rows - row : VL;
        const float *rows = x + row * row_len;
        uint8_t *to = out + (size_t)row * row_bytes;
        if (!weighted_rows(encode, block_bytes, rows, n, row_len, weights, to, &result)) {
            result = qni_worse(result, referee(rows, n, row_len, weights, NULL, to));
        }
    }
    return result;
}

/* --- the types ----------------------------------------------------------------------------------
 */

/* Levels 0..2m-1 of a symmetric search, turned, as bytes a block: levels[BLOCK * lane + i]. */
QNI_INLINE void turn_levels(const int32_t *turned, uint8_t *levels)
{
    for (int lane = 0; lane < VL; lane++) {
        for (int i = 0; i < BLOCK; i++) {
            levels[BLOCK * lane + i] = (uint8_t)turned[VL * i + lane];
        }
    }
}

QNI_INLINE vf symmetric_levels(const weighted_lanes *lanes, int m, uint8_t *levels)
{
    const lane_symmetric found = lanes_search_symmetric(BLOCK, m, lanes->x, lanes->w);
    int32_t turned[VL * BLOCK];
    for (int i = 0; i < BLOCK; i++) {
        vi_store(turned + VL * i, lanes_symmetric_level(&found, vf_load(lanes->x + VL * i), m));
    }
    turn_levels(turned, levels);
    return found.scale;
}

QNI_INLINE lane_affine affine_levels(const weighted_lanes *lanes, int m, uint8_t *levels)
{
    const qni_affine_params params = {BLOCK, m, -0.9f, 0.05f, 36, false};
    const lane_affine found = lanes_search_affine(params, lanes->x, lanes->w);
    int32_t turned[VL * BLOCK];
    for (int i = 0; i < BLOCK; i++) {
        vi_store(turned + VL * i, lanes_affine_level(&found, vf_load(lanes->x + VL * i), m));
    }
    turn_levels(turned, levels);
    return found;
}

static qni_encode_result q4_0_weighted(const lane_batch *batch, const weighted_lanes *lanes,
                                       uint8_t *out)
{
    qni_block_q4_0 *block = (qni_block_q4_0 *)(void *)out;
    uint8_t levels[VL * BLOCK];
    float d[VL];
    vf_store(d, symmetric_levels(lanes, 8, levels));
    qni_encode_result result = QNI_ENCODE_OK;
    for (int b = 0; b < batch->n; b++) {
        qni_pack_nibbles(levels + BLOCK * b, BLOCK, block[b].qs);
        result = qni_worse(result, qni_store_scale(block[b].d, d[b]));
    }
    return result;
}

static qni_encode_result q5_0_weighted(const lane_batch *batch, const weighted_lanes *lanes,
                                       uint8_t *out)
{
    qni_block_q5_0 *block = (qni_block_q5_0 *)(void *)out;
    uint8_t levels[VL * BLOCK];
    float d[VL];
    vf_store(d, symmetric_levels(lanes, 16, levels));
    qni_encode_result result = QNI_ENCODE_OK;
    for (int b = 0; b < batch->n; b++) {
        qni_pack_fifth_bits(levels + BLOCK * b, block[b].qh, block[b].qs);
        result = qni_worse(result, qni_store_scale(block[b].d, d[b]));
    }
    return result;
}

static qni_encode_result q4_1_weighted(const lane_batch *batch, const weighted_lanes *lanes,
                                       uint8_t *out)
{
    qni_block_q4_1 *block = (qni_block_q4_1 *)(void *)out;
    uint8_t levels[VL * BLOCK];
    float d[VL];
    float m[VL];
    const lane_affine found = affine_levels(lanes, 15, levels);
    vf_store(d, found.scale);
    vf_store(m, found.lo);
    qni_encode_result result = QNI_ENCODE_OK;
    for (int b = 0; b < batch->n; b++) {
        qni_pack_nibbles(levels + BLOCK * b, BLOCK, block[b].qs);
        result = qni_worse(result, qni_store_scale(block[b].d, d[b]));
        result = qni_worse(result, qni_store_scale(block[b].m, m[b]));
    }
    return result;
}

static qni_encode_result q5_1_weighted(const lane_batch *batch, const weighted_lanes *lanes,
                                       uint8_t *out)
{
    qni_block_q5_1 *block = (qni_block_q5_1 *)(void *)out;
    uint8_t levels[VL * BLOCK];
    float d[VL];
    float m[VL];
    const lane_affine found = affine_levels(lanes, 31, levels);
    vf_store(d, found.scale);
    vf_store(m, found.lo);
    qni_encode_result result = QNI_ENCODE_OK;
    for (int b = 0; b < batch->n; b++) {
        qni_pack_fifth_bits(levels + BLOCK * b, block[b].qh, block[b].qs);
        result = qni_worse(result, qni_store_scale(block[b].d, d[b]));
        result = qni_worse(result, qni_store_scale(block[b].m, m[b]));
    }
    return result;
}

#endif
