/* activations.c — rows of x to the type that the weights want. */
#include "matmul/activations_internal.h"

/* Pieces of about this many values: enough to be worth handing out. */
#define PIECE_ELEMS (64 * 1024)

typedef struct quantize_job {
    const qni_quantized *to;
    const float *x;
    int64_t row_len;
    qni_encode_fn encode;
    int64_t n_piece_rows;
} quantize_job;

/* NaN and infinities stay what they are. */
static void round_row(const float *x, int64_t row_len, uint8_t *out)
{
    for (int64_t i = 0; i < row_len; i++) {
        const float rounded = qni_bf16_to_f32(qni_bf16_from_f32(x[i]));
        memcpy(out + i * (int64_t)sizeof rounded, &rounded, sizeof rounded);
    }
}

static void quantize_row(const quantize_job *job, int64_t row, uint8_t *out)
{
    const qni_quantized *to = job->to;
    const float *x = job->x + row * job->row_len;
    if (to->dtype == QN_DTYPE_F32) {
        to->is_bad[row] = false;
        round_row(x, job->row_len, out);
        return;
    }
    to->is_bad[row] = qn_find_non_finite(x, job->row_len) >= 0;
    if (to->is_bad[row]) {
        memset(out, 0, (size_t)to->stride);
    } else {
        (void)job->encode(x, 1, job->row_len, NULL, NULL, out);
    }
}

static qn_status quantize_piece(void *ctx, int64_t piece, int worker, qn_error *err)
{
    (void)worker, (void)err;
    const quantize_job *job = ctx;
    const qni_quantized *to = job->to;
    const int64_t first = piece * job->n_piece_rows;
    const int64_t last = qni_min_i64(first + job->n_piece_rows, to->n_rows);
    for (int64_t row = first; row < last; row++) {
        uint8_t *out = to->bytes + row * to->stride;
        quantize_row(job, row, out);
        if (to->arrange) {
            to->arrange(out, job->row_len, to->columns + row * QNI_COLUMN_BYTES,
                        to->n_rows * QNI_COLUMN_BYTES);
        }
    }
    return QN_OK;
}

qn_status qni_quantize_rows(qn_compute *compute, const float *x, int64_t row_len,
                            const qni_quantized *to, qn_error *err)
{
    quantize_job job = {to, x, row_len, qni_kernel_encode(to->dtype, compute->isa), 1};
    job.n_piece_rows = qni_max_i64(1, PIECE_ELEMS / row_len);
    const int64_t n_pieces = (to->n_rows + job.n_piece_rows - 1) / job.n_piece_rows;
    return qni_pool_run(compute->pool, n_pieces, quantize_piece, &job, err);
}

qn_status qn_quantize_activations(qn_compute *compute, qn_dtype weights, const float *x,
                                  int64_t n_rows, int64_t row_len, void *out, int64_t n_out_bytes,
                                  qn_error *err)
{
    int64_t n_x_bytes = 0;
    int64_t n_bytes = 0;
    qni_quantized to = {.dtype = qni_dot_activation(weights), .n_rows = n_rows, .bytes = out};
    QN_CHECK(compute, err, QN_ERR_INVALID_ARGUMENT, -1, "no compute handle was given");
    QN_TRY(qn_dtype_row_bytes(weights, row_len, &to.stride, err));
    QN_CHECK(to.dtype != QN_DTYPE_NONE && to.dtype != QN_DTYPE_F32, err, QN_ERR_UNSUPPORTED_DTYPE,
             -1, "activations are not quantized for %s weights", qn_dtype_name(weights));
    QN_TRY(qni_check_floats(x, "x", n_rows, row_len, &n_x_bytes, err));
    QN_TRY(qn_dtype_row_bytes(to.dtype, row_len, &to.stride, err));
    QN_CHECK(qni_mul_i64(n_rows, to.stride, &n_bytes), err, QN_ERR_OVERFLOW, -1,
             "%" PRId64 " rows of %" PRId64 " bytes do not fit in 63 bits", n_rows, to.stride);
    QN_CHECK(n_out_bytes == n_bytes, err, QN_ERR_INVALID_DATA_LENGTH, -1,
             "room for %" PRId64 " bytes, but the rows take %" PRId64, n_out_bytes, n_bytes);
    if (n_x_bytes == 0) {
        return QN_OK;
    }
    QN_CHECK(out, err, QN_ERR_INVALID_ARGUMENT, -1, "no buffer was given");
    QN_CHECK(!qni_overlaps(x, n_x_bytes, out, n_bytes), err, QN_ERR_INVALID_ARGUMENT, -1,
             "the activations and their blocks overlap");
    QN_TRY(qni_scratch_reserve(compute->allocator, &compute->activations, (size_t)n_rows, err));
    to.is_bad = compute->activations.bytes;
    QN_TRY(qni_quantize_rows(compute, x, row_len, &to, err));
    for (int64_t row = 0; row < n_rows; row++) {
        QN_CHECK(!to.is_bad[row], err, QN_ERR_NON_FINITE_VALUE, -1,
                 "row %" PRId64 ", column %" PRId64 " is not finite", row,
                 qn_find_non_finite(x + row * row_len, row_len));
    }
    return QN_OK;
}
