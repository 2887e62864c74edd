/* dot_avx2_internal.h — the integer products on AVX2 of rows as they are: which engine does a
 * format's columns, and the functions of a format. */
#ifndef QNI_DOT_AVX2_INTERNAL_H
#define QNI_DOT_AVX2_INTERNAL_H

#include "kernels/x86/dot_bytes_avx2_internal.h"

QNI_INLINE void dot_avx2(const dot_format *f, const qni_dot_tile *tile)
{
    if (tile->n_cols <= FEW_COLS) {
        dot_few_bytes(f, tile);
    } else {
        dot_staged(f, tile);
    }
}

/* ACT is q8_0, q8_1 or q8_k. Codes plus the bias are not negative (or is_signed). */
#define DOT_AVX2_OF(name, signs_fn, scales_fn, has_points, n_elems, step, offset, ACT, shape, \
                    bias, is_signed, n_sum_elems, n_factor_elems)                             \
    QNI_PROTO_dot(qni_dot_##name##_avx2)                                                      \
    {                                                                                         \
        const dot_format f = {                                                                \
            begin_##name,                                                                     \
            bytes_##name,                                                                     \
            signs_fn,                                                                         \
            scales_fn,                                                                        \
            has_points,                                                                       \
            (n_factor_elems) != 0,                                                            \
            n_elems,                                                                          \
            sizeof(qni_block_##name),                                                         \
            step,                                                                             \
            DOT_##offset,                                                                     \
            (int)(sizeof((qni_block_##ACT *)0)->qs),                                          \
            sizeof(qni_block_##ACT),                                                          \
            (int)offsetof(qni_block_##ACT, qs),                                               \
            qni_micro_##shape##_avx2,                                                         \
            {8, 0, NULL, bias, is_signed, n_sum_elems, n_factor_elems, step, TILE_##offset}}; \
        dot_avx2(&f, tile);                                                                   \
    }

/* Blocks of up to 128 elements, steps of 32. */
#define DOT_SMALL(name, scales_fn, n_elems, offset, ACT, shape, bias, is_signed, n_sum_elems)   \
    DOT_AVX2_OF(name, NULL, scales_fn, false, n_elems, 32, offset, ACT, shape, bias, is_signed, \
                n_sum_elems, 0)

/* Super-blocks, each one step with activations of q8_K. */
#define DOT_SUPER(name, offset, shape, bias, is_signed, n_sum_elems, n_factor_elems)         \
    DOT_AVX2_OF(name, NULL, NULL, false, CHUNK, CHUNK, offset, q8_k, shape, bias, is_signed, \
                n_sum_elems, n_factor_elems)

/* The same with points of a codebook; signs_fn: where they are apart, or NULL. */
#define DOT_POINTS(name, signs_fn, shape, bias, is_signed, n_sum_elems, n_factor_elems)        \
    DOT_AVX2_OF(name, signs_fn, NULL, true, CHUNK, CHUNK, PLAIN, q8_k, shape, bias, is_signed, \
                n_sum_elems, n_factor_elems)

#endif
