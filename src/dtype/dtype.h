/* dtype/dtype.h — the registry of tensor types. Knows sizes, names and layouts of blocks; knows no
 * file and no arithmetic on values. Start reading at dtypes.def. */
#ifndef QNI_DTYPE_H
#define QNI_DTYPE_H

#include "base/base.h"
#include "dtype/blocks_internal.h"
#include "quench/dtype.h"

/* Everything the table says about one type. */
typedef struct qni_dtype_row {
    const char *name;
    int64_t block_elems; /* 0: this id is not valid */
    int64_t block_bytes;
    bool is_quantized;
    bool is_removed;
    qn_weights_use weights;
    qn_dtype partner;
} qni_dtype_row;

/* The row of an id, or NULL when it is neither valid nor removed. */
const qni_dtype_row *qni_dtype_row_of(qn_dtype dtype);

#endif
