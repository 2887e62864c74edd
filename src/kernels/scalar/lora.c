/* lora.c — the product of a low-rank update: the referee. Compiled without contraction, like all
 * numeric files, so a product and a sum are two roundings. */
#include "kernels/kernels.h"

QNI_PROTO_lora(qni_lora_f32_scalar)
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
