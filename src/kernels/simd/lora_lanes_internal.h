/* lora_lanes_internal.h — the product of a low-rank update with sixteen elements of a row in a
 * vector: include after a vec_*_internal.h.
 *
 * Lanes lie along k, so each lane does what the scalar referee does, in the same order of r: a
 * product, then a sum, never fused. Sums of a few rows stay in registers over all of r. */
#ifndef QNI_VL_INTERNAL_H
#define QNI_VL_INTERNAL_H

#include "kernels/kernels.h"

enum { LORA_COLS = 4 };

/* n_cols (a constant, at most LORA_COLS) rows of y, VL elements from k on. */
QNI_INLINE void lora_micro(const qni_spread_tile *tile, int64_t col, int n_cols, int64_t k)
{
    vf sum[LORA_COLS];
    const float *s = tile->s + col * tile->s_stride;
    float *y = tile->y + col * tile->y_stride + k;
    const float *w = tile->w + k;
    for (int c = 0; c < n_cols; c++) {
        sum[c] = vf_load(y + c * tile->y_stride);
    }
    for (int64_t r = 0; r < tile->n_rows; r++) {
        const vf row = vf_load(w + r * tile->w_stride);
        for (int c = 0; c < n_cols; c++) {
            sum[c] = vf_add(sum[c], vf_mul(vf_set(s[c * tile->s_stride + r]), row));
        }
    }
    for (int c = 0; c < n_cols; c++) {
        vf_store(y + c * tile->y_stride, sum[c]);
    }
}

QNI_PROTO_lora(VEC_NAME(qni_lora_f32))
{
    int64_t k = 0;
    for (; k + VL <= tile->n_elems; k += VL) {
        int64_t col = 0;
        for (; col + LORA_COLS <= tile->n_cols; col += LORA_COLS) {
            lora_micro(tile, col, LORA_COLS, k);
        }
        for (; col + 2 <= tile->n_cols; col += 2) {
            lora_micro(tile, col, 2, k);
        }
        for (; col < tile->n_cols; col++) {
            lora_micro(tile, col, 1, k);
        }
    }
    if (k < tile->n_elems) { /* elements that fill no vector */
        qni_spread_tile rest = *tile;
        rest.w += k;
        rest.y += k;
        rest.n_elems -= k;
        qni_lora_f32_scalar(&rest);
    }
}

#endif
