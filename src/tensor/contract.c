/* contract.c — products of activations with tensors, packed weights and the gradient. */
#include "tensor/constant_internal.h"

static qn_status weights_of(const qn_tensor *w, qn_rhs_lifetime lifetime, qn_rhs *out_rhs,
                            qn_error *err)
{
    QN_TRY(qni_check_matrix(w, err));
    const qn_tensor_info *info = &w->info;
    *out_rhs = (qn_rhs){info->dtype, info->ne[1], info->ne[0], info->data, info->n_bytes, lifetime};
    return QN_OK;
}

/* The contracted axes agree, and the result has exactly the room it needs. */
static qn_status check_contract(const qn_lhs *x, int64_t n_in, int64_t n_out, int64_t n_result,
                                qn_error *err)
{
    int64_t n_expected = 0;
    QN_CHECK(x, err, QN_ERR_INVALID_ARGUMENT, -1, "no activations were given");
    QN_CHECK(x->row_len == n_in, err, QN_ERR_SHAPE_MISMATCH, -1,
             "rows of %" PRId64 " elements meet an axis of %" PRId64, x->row_len, n_in);
    QN_CHECK(x->n_rows >= 0 && qni_mul_i64(x->n_rows, n_out, &n_expected), err,
             QN_ERR_INVALID_SHAPE, -1, "%" PRId64 " rows", x->n_rows);
    QN_CHECK(n_result == n_expected, err, QN_ERR_INVALID_DATA_LENGTH, -1,
             "room for %" PRId64 " elements, but the product has %" PRId64, n_result, n_expected);
    return QN_OK;
}

qn_status qn_tensor_dot(qn_compute *compute, const qn_lhs *x, const qn_tensor *w,
                        qn_rhs_lifetime lifetime, float *y, int64_t n_y, qn_error *err)
{
    qn_rhs rhs;
    QN_TRY(weights_of(w, lifetime, &rhs, err));
    QN_TRY(check_contract(x, rhs.n_in, rhs.n_out, n_y, err));
    return qn_matmul(compute, &rhs, x->data, x->n_rows, y, err);
}

qn_status qn_tensor_pack_rhs(qn_compute *compute, const qn_tensor *w, qn_layout layout,
                             qn_packed **out_packed, qn_error *err)
{
    qn_rhs rhs;
    *out_packed = NULL;
    QN_TRY(weights_of(w, QN_RHS_TRANSIENT, &rhs, err));
    return qn_pack(compute, &rhs, layout, out_packed, err);
}

qn_status qn_tensor_dot_packed(qn_compute *compute, const qn_lhs *x, const qn_packed *w, float *y,
                               int64_t n_y, qn_error *err)
{
    QN_CHECK(w, err, QN_ERR_INVALID_ARGUMENT, -1, "no weights were given");
    const qn_rhs shape = qn_packed_shape(w);
    QN_TRY(check_contract(x, shape.n_in, shape.n_out, n_y, err));
    QN_CHECK(!x->requires_grad, err, QN_ERR_GRADIENT_QUANTIZED_MATMUL_UNSUPPORTED, -1,
             "packed weights give no gradient: use the tensor itself");
    return qn_matmul_packed(compute, w, x->data, x->n_rows, y, err);
}

qn_status qn_tensor_grad_lhs(qn_compute *compute, const qn_lhs *dy, const qn_tensor *w, float *dx,
                             int64_t n_dx, qn_error *err)
{
    qn_rhs rhs;
    QN_TRY(weights_of(w, QN_RHS_TRANSIENT, &rhs, err));
    QN_TRY(check_contract(dy, rhs.n_out, rhs.n_in, n_dx, err));
    return qn_matmul_grad(compute, &rhs, dy->data, dy->n_rows, dx, err);
}
