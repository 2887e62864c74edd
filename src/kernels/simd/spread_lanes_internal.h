/* spread_lanes_internal.h — the product that gives gradients, with sixteen elements of a row in a
 * vector: include after a vec_*_internal.h.
 *
 * Lanes lie along k; every sum is one chain of fused multiply-adds in the order of r, which makes
 * an output the same in any tile. SPREAD_COLS columns by VEC_SPREAD vectors stay in registers over
 * all of r: enough chains to hide the latency of a multiply-add. A strip of VEC_SPREAD vectors of
 * every row of w stays in the first-level cache while all columns pass it. */
#ifndef QNI_SPREAD_LANES_INTERNAL_H
#define QNI_SPREAD_LANES_INTERNAL_H

#include <math.h>

#include "kernels/kernels.h"

enum { SPREAD_COLS = 6 };

/* n_cols and n_vectors are constants where this is inlined. */
QNI_INLINE void spread_micro(const qni_spread_tile *tile, int64_t col, int n_cols, int64_t k,
                             int n_vectors)
{
    vf sum[SPREAD_COLS][VEC_SPREAD];
    const float *s = tile->s + col * tile->s_stride;
    float *y = tile->y + col * tile->y_stride + k;
    const float *w = tile->w + k;
    QNI_UNROLL for (int c = 0; c < n_cols; c++)
    {
        QNI_UNROLL for (int v = 0; v < n_vectors; v++)
        {
            const float *at = y + c * tile->y_stride + VL * v;
            sum[c][v] = vf_load(at);
            vec_prefetch(at, n_cols * tile->y_stride * (int64_t)sizeof *at);
        }
    }
    for (int64_t r = 0; r < tile->n_rows; r++, w += tile->w_stride) {
        vf row[VEC_SPREAD];
        QNI_UNROLL for (int v = 0; v < n_vectors; v++)
        {
            row[v] = vf_load(w + VL * v);
        }
        QNI_UNROLL for (int c = 0; c < n_cols; c++)
        {
            const vf factor = vf_set(s[c * tile->s_stride + r]);
            QNI_UNROLL for (int v = 0; v < n_vectors; v++)
            {
                sum[c][v] = vf_fused(factor, row[v], sum[c][v]);
            }
        }
    }
    QNI_UNROLL for (int c = 0; c < n_cols; c++)
    {
        QNI_UNROLL for (int v = 0; v < n_vectors; v++)
        {
            vf_store(y + c * tile->y_stride + VL * v, sum[c][v]);
        }
    }
}

/* Columns in as few groups as registers allow, of equal width or one less: a last group of one or
 * two columns would have too few chains. */
QNI_INLINE void spread_strip(const qni_spread_tile *tile, int64_t k, int n_vectors)
{
    int64_t n_groups = (tile->n_cols + SPREAD_COLS - 1) / SPREAD_COLS;
    for (int64_t col = 0, n = 0; col < tile->n_cols; col += n, n_groups--) {
        n = (tile->n_cols - col + n_groups - 1) / n_groups;
        switch (n) {
        case 1:
            spread_micro(tile, col, 1, k, n_vectors);
            break;
        case 2:
            spread_micro(tile, col, 2, k, n_vectors);
            break;
        case 3:
            spread_micro(tile, col, 3, k, n_vectors);
            break;
        case 4:
            spread_micro(tile, col, 4, k, n_vectors);
            break;
        case 5:
            spread_micro(tile, col, 5, k, n_vectors);
            break;
        default:
            spread_micro(tile, col, 6, k, n_vectors);
            break;
        }
    }
}

/* The elements of a row that fill no vector. */
QNI_INLINE void spread_rest(const qni_spread_tile *tile, int64_t from)
{
    for (int64_t c = 0; c < tile->n_cols && from < tile->n_elems; c++) {
        float *y = tile->y + c * tile->y_stride;
        for (int64_t r = 0; r < tile->n_rows; r++) {
            const float s = tile->s[c * tile->s_stride + r];
            const float *w = tile->w + r * tile->w_stride;
            for (int64_t k = from; k < tile->n_elems; k++) {
                y[k] = fmaf(s, w[k], y[k]);
            }
        }
    }
}

QNI_PROTO_spread(VEC_NAME(qni_spread_f32))
{
    int64_t k = 0;
    for (; k + VL * VEC_SPREAD <= tile->n_elems; k += VL * VEC_SPREAD) {
        spread_strip(tile, k, VEC_SPREAD);
    }
    for (; k + VL <= tile->n_elems; k += VL) {
        spread_strip(tile, k, 1);
    }
    spread_rest(tile, k);
}

#endif
