/* imatrix_internal.h — looking importance entries up. */
#ifndef QNI_IMATRIX_INTERNAL_H
#define QNI_IMATRIX_INTERNAL_H

#include "model/model.h"

/* The values of the entry with this name, NULL if there is none. */
const float *qni_imatrix_find(const qn_imatrix *imatrix, const char *name, int64_t n_name,
                              int64_t *out_n_values);

/* The importance weights of a tensor, n = ne0 for each of its matrices; NULL where there are none
 * (no matrix, no entry, or an embedding whose entry has another size, as upstream lets it). */
QN_NODISCARD qn_status qni_imatrix_weights(const qn_imatrix *imatrix, const qn_tensor_info *tensor,
                                           const float **out_weights, int64_t *out_n,
                                           qn_error *err);

#endif
