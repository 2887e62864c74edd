/* tensor.h — a quantized tensor as a constant: blocks, a shape, and what can be done with them.
 *
 * A tensor has 1 to QN_MAX_DIMS dimensions; ne[0] counts elements and is a whole number of blocks.
 * Weights are of two dimensions: ne[0] inputs, ne[1] outputs; row r of blocks is output column r.
 * There is no float arithmetic on it, and it never requires a gradient. Const use: any thread. */
#ifndef QUENCH_TENSOR_H
#define QUENCH_TENSOR_H

#include "quench/dtype.h"
#include "quench/matmul.h"
#include "quench/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct qn_tensor qn_tensor;

/** Copy blocks. The caller owns *out_tensor: qn_tensor_free().
 *
 * @param dtype       any valid type
 * @param ne          n_dims dimensions, each > 0; ne[0] a whole number of blocks
 * @param n_dims      1..QN_MAX_DIMS
 * @param blocks      n_bytes bytes, no alignment needed; borrowed
 * @param n_bytes     exactly qn_dtype_tensor_bytes()
 * @param allocator   NULL: malloc; must outlive the tensor
 * @param out_tensor  NULL on failure
 * @param err         filled on failure; may be NULL
 * @return QN_OK; QN_ERR_UNSUPPORTED_DTYPE; QN_ERR_INVALID_SHAPE; QN_ERR_INVALID_DATA_LENGTH;
 *         QN_ERR_INVALID_ARGUMENT; QN_ERR_OVERFLOW; QN_ERR_OUT_OF_MEMORY */
QN_API QN_NODISCARD qn_status qn_tensor_from_blocks(qn_dtype dtype, const int64_t *ne,
                                                    int32_t n_dims, const void *blocks,
                                                    int64_t n_bytes, const qn_allocator *allocator,
                                                    qn_tensor **out_tensor, qn_error *err);

/** The same without a copy: keeps `blocks` until qn_tensor_free(). The way of mapped files. */
QN_API QN_NODISCARD qn_status qn_tensor_from_borrowed_blocks(qn_dtype dtype, const int64_t *ne,
                                                             int32_t n_dims, const void *blocks,
                                                             int64_t n_bytes,
                                                             const qn_allocator *allocator,
                                                             qn_tensor **out_tensor, qn_error *err);

/** From a table of contents: borrows info->data, which must be there (a mapped file); its file must
 * stay open until qn_tensor_free(). `info` itself is not needed afterwards.
 * @return as qn_tensor_from_blocks(); QN_ERR_TENSOR_DATA_MISSING */
QN_API QN_NODISCARD qn_status qn_tensor_from_info(const qn_tensor_info *info,
                                                  const qn_allocator *allocator,
                                                  qn_tensor **out_tensor, qn_error *err);

/** NULL does nothing. */
QN_API void qn_tensor_free(qn_tensor *tensor);

/** Type, shape, size and data; no name, file_offset -1. Borrowed from the tensor. */
QN_API qn_tensor_info qn_tensor_describe(const qn_tensor *tensor);

/** True if the blocks are the caller's. */
QN_API bool qn_tensor_is_borrowed(const qn_tensor *tensor);

/** Always false: weights get no gradient. */
QN_API bool qn_tensor_requires_grad(const qn_tensor *tensor);

/** A tensor that owns a copy of the blocks, still quantized.
 * @return QN_OK; QN_ERR_OUT_OF_MEMORY */
QN_API QN_NODISCARD qn_status qn_tensor_materialize(const qn_tensor *tensor,
                                                    const qn_allocator *allocator,
                                                    qn_tensor **out_tensor, qn_error *err);

/** Widen everything.
 * @param out      fills n_elems floats, ne[0] fastest
 * @param n_elems  exactly the number of elements
 * @return QN_OK; QN_ERR_INVALID_DATA_LENGTH; QN_ERR_INVALID_ARGUMENT */
QN_API QN_NODISCARD qn_status qn_tensor_to_f32(const qn_tensor *tensor, float *out, int64_t n_elems,
                                               qn_error *err);

/** Widen only the rows asked for: the embedding look-up.
 * @param tensor   of two dimensions
 * @param picks    n_picks > 0 row numbers in any order; repeats allowed
 * @param out      fills n_picks * ne[0] floats
 * @param n_elems  exactly so many
 * @return QN_OK; QN_ERR_INVALID_SHAPE (no picks, or other than two dimensions);
 *         QN_ERR_INVALID_ARGUMENT (a pick that is no row); QN_ERR_INVALID_DATA_LENGTH */
QN_API QN_NODISCARD qn_status qn_tensor_get_rows(const qn_tensor *tensor, const int64_t *picks,
                                                 int64_t n_picks, float *out, int64_t n_elems,
                                                 qn_error *err);

/** Rows of several tensors under each other, in a tensor that owns them.
 * @param tensors    n_tensors > 0 of two dimensions, the same type and ne[0]
 * @return QN_OK; QN_ERR_INVALID_SHAPE; QN_ERR_SHAPE_MISMATCH; QN_ERR_TYPE_MISMATCH;
 *         QN_ERR_OVERFLOW; QN_ERR_OUT_OF_MEMORY */
QN_API QN_NODISCARD qn_status qn_tensor_concat_rows(const qn_tensor *const *tensors,
                                                    int32_t n_tensors,
                                                    const qn_allocator *allocator,
                                                    qn_tensor **out_tensor, qn_error *err);

/** f32 activations where they lie: any number of leading axes, flattened into rows. Plain values.
 */
typedef struct qn_lhs {
    const float *data;
    int64_t n_rows;     /* product of the leading axes */
    int64_t row_len;    /* the axis that is contracted */
    bool requires_grad; /* a gradient will be asked for: qn_tensor_dot_packed() then refuses */
} qn_lhs;

/** x * w transposed: see qn_matmul().
 * @param lifetime  what is promised about the blocks of w
 * @param y         fills n_y = x->n_rows * ne[1] floats
 * @return as qn_matmul(); QN_ERR_SHAPE_MISMATCH (x->row_len is not ne[0]);
 *         QN_ERR_INVALID_SHAPE (w has other than two dimensions) */
QN_API QN_NODISCARD qn_status qn_tensor_dot(qn_compute *compute, const qn_lhs *x,
                                            const qn_tensor *w, qn_rhs_lifetime lifetime, float *y,
                                            int64_t n_y, qn_error *err);

/** Pack the blocks for many products: see qn_pack(). The tensor is not needed afterwards. */
QN_API QN_NODISCARD qn_status qn_tensor_pack_rhs(qn_compute *compute, const qn_tensor *w,
                                                 qn_layout layout, qn_packed **out_packed,
                                                 qn_error *err);

/** The same product as qn_tensor_dot() with packed weights.
 * @return as there; QN_ERR_GRADIENT_QUANTIZED_MATMUL_UNSUPPORTED if x requires a gradient: use
 *         qn_tensor_dot() and qn_tensor_grad_lhs() with the tensor itself */
QN_API QN_NODISCARD qn_status qn_tensor_dot_packed(qn_compute *compute, const qn_lhs *x,
                                                   const qn_packed *w, float *y, int64_t n_y,
                                                   qn_error *err);

/** Gradient of qn_tensor_dot() with respect to x: see qn_matmul_grad().
 * @param dy  n rows of ne[1] elements
 * @param dx  fills n_dx = dy->n_rows * ne[0] floats */
QN_API QN_NODISCARD qn_status qn_tensor_grad_lhs(qn_compute *compute, const qn_lhs *dy,
                                                 const qn_tensor *w, float *dx, int64_t n_dx,
                                                 qn_error *err);

#ifdef __cplusplus
}
#endif

#endif
