/* super_rows_internal.h — the rows of a codebook format: super-block after super-block, with the
 * steps of an instruction set. */
#ifndef QNI_SUPER_ROWS_INTERNAL_H
#define QNI_SUPER_ROWS_INTERNAL_H

#include "kernels/numeric_internal.h"

/* From encode_<name>(steps, tables, x, importance, block) make two encoders of rows:
 * qni_encode_<name>_by(), declared by `prototype`, which takes the steps, and the scalar kernel,
 * which uses `scalar_steps`. */
#define QNI_DEFINE_SUPER_ROWS(name, prototype, scalar_steps)                                   \
    prototype(qni_encode_##name##_by)                                                          \
    {                                                                                          \
        qni_block_##name *block = out;                                                         \
        qni_encode_result result = QNI_ENCODE_OK;                                              \
        for (int64_t row = 0; row < n_rows; row++, x += row_len) {                             \
            for (int64_t i = 0; i < row_len; i += QNI_SUPER, block++) {                        \
                const float *importance = weights ? weights + i : NULL;                        \
                result =                                                                       \
                    qni_worse(result, encode_##name(steps, tables, x + i, importance, block)); \
            }                                                                                  \
        }                                                                                      \
        return result;                                                                         \
    }                                                                                          \
    QNI_PROTO_encode(qni_encode_##name##_scalar)                                               \
    {                                                                                          \
        return qni_encode_##name##_by(scalar_steps, x, n_rows, row_len, weights, tables, out); \
    }

#endif
