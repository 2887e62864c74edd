/* constant_internal.h — the object itself. */
#ifndef QNI_CONSTANT_INTERNAL_H
#define QNI_CONSTANT_INTERNAL_H

#include "tensor/tensor.h"

struct qn_tensor {
    const qn_allocator *allocator;
    qn_tensor_info info; /* data: the blocks */
    uint8_t *owned;      /* the same, if the tensor owns them; else NULL */
};

/* Of two dimensions. */
QN_NODISCARD qn_status qni_check_matrix(const qn_tensor *tensor, qn_error *err);

#endif
