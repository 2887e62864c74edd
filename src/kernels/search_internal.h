/* search_internal.h — the searches for a scale that several formats share.
 *
 * Each takes n values and gives n integer levels and a scale. The order of every operation is part
 * of the contract: files must come out equal to the last bit. Where a search runs candidates that
 * do not depend on each other, the text says so; that is what a vector kernel may spread over
 * lanes. */
#ifndef QNI_SEARCH_INTERNAL_H
#define QNI_SEARCH_INTERNAL_H

#include "kernels/numeric_internal.h"

/* No sub-block is longer. */
#define QNI_SEARCH_MAX 32

/* Below this a block counts as all zeros. */
#define QNI_TINY 1e-15f

/* Symmetric: x ~ scale * (level - m), levels 0..2m-1. w == NULL weighs with x * x.
 * Candidates are independent but for the running best; ties keep the earlier one. */
float qni_search_symmetric(int n, int m, const float *x, const float *w, uint8_t *levels);

/* Symmetric without importance for q3_K: a start as above, then up to five passes that move one
 * level at a time. Serial in i. */
float qni_search_greedy(int n, int m, const float *x, uint8_t *levels);

/* What differs between the users of the affine search. */
typedef struct qni_affine_params {
    int n;       /* values */
    int m;       /* highest level */
    float first; /* of the candidates: (first + step * k + m) / (hi - lo) */
    float step;
    int n_steps;       /* candidates k = 0..n_steps */
    bool use_absolute; /* absolute instead of squared error */
} qni_affine_params;

/* Affine: x ~ scale * level - *out_offset, levels 0..m, offset >= 0. Candidates are NOT
 * independent: an accepted one moves the minimum that all later ones start from. */
float qni_search_affine(const qni_affine_params *params, const float *x, const float *w,
                        uint8_t *levels, float *out_offset);

/* Non-negative values without an offset: x ~ scale * level. A level above m or below 0 wraps in 8
 * bits as the reference's does. */
float qni_search_positive(int n, int m, const float *x, const float *w, uint8_t *levels);

/* The second pass of the K types: levels again, under the scales as they are stored. True
 * divisions. A scale of 0 keeps the levels of the search. */
QNI_INLINE void qni_requantize_affine(const float *x, int n, int m, float scale, float offset,
                                      uint8_t *levels)
{
    for (int i = 0; scale != 0.0f && i < n; i++) {
        levels[i] = (uint8_t)qni_clamp_i32(qni_nearest((x[i] + offset) / scale), 0, m);
    }
}

QNI_INLINE void qni_requantize_symmetric(const float *x, int n, int m, float scale, uint8_t *levels)
{
    for (int i = 0; scale != 0.0f && i < n; i++) {
        levels[i] = (uint8_t)(qni_clamp_i32(qni_nearest(x[i] / scale), -m, m - 1) + m);
    }
}

/* One block of a 32-element format: x, its importance or NULL, the row's mean square (0 without
 * importance), the block's bytes. */
typedef qni_encode_result (*qni_block_32_fn)(const float *x, const float *importance, float sigma2,
                                             void *block);

/* Rows of such blocks. */
QNI_INLINE qni_encode_result qni_encode_rows_of_32(qni_block_32_fn encode, int64_t n_block_bytes,
                                                   const float *x, int64_t n_rows, int64_t row_len,
                                                   const float *weights, void *out)
{
    uint8_t *block = out;
    qni_encode_result result = QNI_ENCODE_OK;
    for (int64_t row = 0; row < n_rows; row++, x += row_len) {
        const float sigma2 = weights ? qni_sum_squares(x, row_len) / (float)row_len : 0.0f;
        for (int64_t i = 0; i < row_len; i += 32, block += n_block_bytes) {
            const float *importance = weights ? weights + i : NULL;
            result = qni_worse(result, encode(x + i, importance, sigma2, block));
        }
    }
    return result;
}

#endif
