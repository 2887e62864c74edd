/* imatrix_internal.h — looking importance entries up. */
#ifndef QNI_IMATRIX_INTERNAL_H
#define QNI_IMATRIX_INTERNAL_H

#include "model/model.h"

/* The values of the entry with this name, NULL if there is none. */
const float *qni_imatrix_find(const qn_imatrix *imatrix, const char *name, int64_t n_name,
                              int64_t *out_n_values);

#endif
