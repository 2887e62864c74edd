/* activations_internal.h — rows of x as products take them: quantized, or rounded to bf16. */
#ifndef QNI_ACTIVATIONS_INTERNAL_H
#define QNI_ACTIVATIONS_INTERNAL_H

#include "matmul/compute_internal.h"

typedef struct qni_quantized {
    qn_dtype dtype; /* F32: floats with the values of bf16 numbers */
    int64_t n_rows;
    int64_t stride; /* bytes of a row */
    uint8_t *bytes;
    uint8_t *is_bad;        /* n_rows flags: the row holds a NaN or an infinity; its blocks are 0 */
    qni_arrange_fn arrange; /* for tiles; or NULL */
    uint8_t *columns;       /* arranged: of each 256 elements in turn, all rows */
} qni_quantized;

/* n_rows > 0 rows of row_len > 0 values. */
QN_NODISCARD qn_status qni_quantize_rows(qn_compute *compute, const float *x, int64_t row_len,
                                         const qni_quantized *to, qn_error *err);

#endif
