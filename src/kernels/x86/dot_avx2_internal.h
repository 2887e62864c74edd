/* dot_avx2_internal.h — the integer products on AVX2 of rows as they are: which engine does a
 * format's columns, and the functions of a format. */
#ifndef QNI_DOT_AVX2_INTERNAL_H
#define QNI_DOT_AVX2_INTERNAL_H

#include "kernels/x86/dot_bytes_avx2_internal.h"

QNI_INLINE void dot_avx2(const dot_format *f, const qni_dot_tile *tile)
{
    if (tile->n_cols <= FEW_COLS && f->micro) {
        dot_few_bytes(f, tile);
    } else if (tile->n_cols <= FEW_COLS) {
        dot_few(f, tile);
    } else if (f->micro) {
        dot_staged(f, tile);
    } else {
        dot_many(f, tile);
    }
}

/* ACT is q8_0, q8_1 or q8_k; the last two, with commas, are the micro-tiles and what they get. */
#define DOT_AVX2_OF(name, bytes_fn, load_fn, has_factors, n_elems, step, offset, ACT, micro, ...) \
    QNI_PROTO_dot(qni_dot_##name##_avx2)                                                          \
    {                                                                                             \
        const dot_format f = {begin_##name,                                                       \
                              bytes_fn,                                                           \
                              load_fn,                                                            \
                              has_factors,                                                        \
                              n_elems,                                                            \
                              sizeof(qni_block_##name),                                           \
                              step,                                                               \
                              DOT_##offset,                                                       \
                              (int)(sizeof((qni_block_##ACT *)0)->qs),                            \
                              sizeof(qni_block_##ACT),                                            \
                              (int)offsetof(qni_block_##ACT, qs),                                 \
                              micro,                                                              \
                              {__VA_ARGS__}};                                                     \
        dot_avx2(&f, tile);                                                                       \
    }

/* Codes as words, made row by row. */
#define DOT_AVX2(name, bytes_fn, load_fn, has_factors, n_elems, step, offset, ACT)            \
    DOT_AVX2_OF(name, bytes_fn, load_fn, has_factors, n_elems, step, offset, ACT, NULL, 0, 0, \
                NULL, 0, false, 0, 0, 0, TILE_PLAIN)

/* Codes as bytes that tiles take: plus a bias they are not negative (or is_signed). */
#define DOT_AVX2_STAGED(name, bytes_fn, n_elems, step, offset, ACT, shape, bias, is_signed, \
                        n_sum_elems, n_factor_elems)                                        \
    DOT_AVX2_OF(name, bytes_fn, NULL, (n_factor_elems) != 0, n_elems, step, offset, ACT,    \
                qni_micro_##shape##_avx2, 8, 0, NULL, bias, is_signed, n_sum_elems,         \
                n_factor_elems, step, TILE_##offset)

#endif
