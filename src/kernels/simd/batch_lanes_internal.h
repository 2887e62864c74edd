/* batch_lanes_internal.h — sixteen blocks taken together, one a lane.
 *
 * Blocks lie one after the other in memory whatever the row length, so a batch may span rows; only
 * the importance weights start again with each row. A last batch of fewer blocks repeats its first
 * one in the lanes that are left, and writes nothing for them. */
#ifndef QNI_BATCH_LANES_INTERNAL_H
#define QNI_BATCH_LANES_INTERNAL_H

#include "kernels/search_internal.h"

/* The n floats that lie one piece after x. */
QNI_INLINE void prefetch_next_piece(const float *x, int n)
{
    for (int64_t at = 0; at < (int64_t)sizeof(float) * n; at += 64) {
        vec_prefetch(x, (int64_t)QNI_ENCODE_PIECE_BYTES + at);
    }
}

/* Binary16 fields of numbers that are not NaN, and whether one is infinite. */
QNI_INLINE qni_encode_result store_halves(uint16_t *halves, vf v)
{
    vf_store_f16(halves, v);
    return vm_any(vf_ge(vf_abs(v), vf_set(65520.0f))) ? QNI_ENCODE_OVERFLOW : QNI_ENCODE_OK;
}

/* 1 / d, and 0 for d = 0. */
QNI_INLINE vf reciprocal(vf d)
{
    return vf_pick(vf_eq(d, vf_set(0.0f)), vf_set(0.0f), vf_div(vf_set(1.0f), d));
}

typedef struct lane_batch {
    const float *x[VL];
    const float *importance[VL]; /* of the blocks; garbage without weights */
    int64_t first;               /* number of the first block */
    int n;                       /* blocks, 1..VL */
    bool is_weighted;
} lane_batch;

/* Blocks first .. first + VL - 1 of n_blocks, n_elems elements each, row_blocks a row. */
QNI_INLINE lane_batch batch_at(const float *x, const float *weights, int n_elems, int64_t first,
                               int64_t n_blocks, int64_t row_blocks)
{
    lane_batch batch;
    batch.first = first;
    batch.n = n_blocks - first < VL ? (int)(n_blocks - first) : VL;
    batch.is_weighted = weights != NULL;
    int64_t column = first % row_blocks;
    for (int lane = 0; lane < VL; lane++) {
        const bool is_used = lane < batch.n;
        batch.x[lane] = is_used ? x + (first + lane) * n_elems : batch.x[0];
        batch.importance[lane] = NULL;
        if (weights) {
            batch.importance[lane] = is_used ? weights + column * n_elems : batch.importance[0];
            column = column + 1 == row_blocks ? 0 : column + 1;
        }
    }
    return batch;
}

/* False if one of n vectors holds an infinity or a NaN. */
QNI_INLINE bool lanes_are_finite(const float *x, int n)
{
    vi max = vi_set(0);
    for (int i = 0; i < n; i++) {
        max = vi_max(max, vi_and(vi_bits(vf_load(x + VL * i)), vi_set((int32_t)QNI_F32_ABS_MASK)));
    }
    return vi_reduce_max(max) < (int32_t)QNI_F32_INF;
}

/* A batch that lanes do not handle (NaN or infinity in it), left to the referee block by block. */
QNI_INLINE qni_encode_result batch_by_referee(const lane_batch *batch, qni_encode_fn referee,
                                              int n_elems, size_t block_bytes, uint8_t *out)
{
    qni_encode_result result = QNI_ENCODE_OK;
    for (int b = 0; b < batch->n; b++) {
        const float *importance = batch->is_weighted ? batch->importance[b] : NULL;
        result = qni_worse(result, referee(batch->x[b], 1, n_elems, importance, NULL,
                                           out + (size_t)b * block_bytes));
    }
    return result;
}

#endif
