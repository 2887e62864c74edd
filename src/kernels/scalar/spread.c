/* spread.c — the product that gives gradients, on widened weights: the referee. */
#include "kernels/kernels.h"

QNI_PROTO_spread(qni_spread_f32_scalar)
{
    for (int64_t c = 0; c < tile->n_cols; c++) {
        float *y = tile->y + c * tile->y_stride;
        for (int64_t r = 0; r < tile->n_rows; r++) {
            const float s = tile->s[c * tile->s_stride + r];
            const float *w = tile->w + r * tile->w_stride;
            for (int64_t k = 0; k < tile->n_elems; k++) {
                y[k] += s * w[k];
            }
        }
    }
}
