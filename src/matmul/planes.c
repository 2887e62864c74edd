/* planes.c — products with weights that are a sum of planes. */
#include "matmul/matmul.h"

static qn_status check_planes(const qn_rhs *planes, int32_t n_planes, const float *scratch,
                              qn_error *err)
{
    QN_CHECK(n_planes >= 1, err, QN_ERR_INVALID_PLANE_SET, -1, "a weight of %d planes",
             (int)n_planes);
    QN_CHECK(n_planes == 1 || scratch != NULL, err, QN_ERR_INVALID_ARGUMENT, -1,
             "several planes need scratch of the output's size");
    for (int32_t p = 1; p < n_planes; p++) {
        QN_CHECK(planes[p].n_in == planes[0].n_in && planes[p].n_out == planes[0].n_out, err,
                 QN_ERR_SHAPE_MISMATCH, -1,
                 "plane %d is %" PRId64 " x %" PRId64 ", plane 0 is %" PRId64 " x %" PRId64, (int)p,
                 planes[p].n_in, planes[p].n_out, planes[0].n_in, planes[0].n_out);
    }
    return QN_OK;
}

qn_status qn_matmul_planes(qn_compute *compute, const qn_rhs *planes, int32_t n_planes,
                           const float *x, int64_t n_rows, float *scratch, float *y, qn_error *err)
{
    QN_TRY(check_planes(planes, n_planes, scratch, err));
    QN_TRY(qn_matmul(compute, &planes[0], x, n_rows, y, err));
    for (int32_t p = 1; p < n_planes; p++) {
        QN_TRY(qn_matmul(compute, &planes[p], x, n_rows, scratch, err));
        for (int64_t i = 0; i < n_rows * planes[0].n_out; i++) {
            y[i] += scratch[i];
        }
    }
    return QN_OK;
}
