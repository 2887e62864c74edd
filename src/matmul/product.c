/* product.c — y = x * w transposed: activations first, then tiles of weight rows on the threads. */
#include <math.h>

#include "matmul/activations_internal.h"

/* So many rows of x are quantized and multiplied at once: bounds the scratch. */
#define CHUNK_COLS 1024
/* So many columns (rows of x) meet a tile of weight rows at once: their activations stay in the
 * second-level cache while the tile runs over them. */
#define TILE_COLS 128
/* Weight rows are handed out in multiples of this. */
#define ROW_STEP 16
/* Pieces a thread, so that a slow one does not hold up the others. */
#define PIECES_PER_THREAD 4

typedef struct product_job {
    const qni_rows *w;
    qni_dot_fn dot;
    const uint8_t *a;
    int64_t a_stride;
    int64_t n_cols;
    float *y;
    int64_t n_piece_rows;
} product_job;

static qn_status multiply_piece(void *ctx, int64_t piece, int worker, qn_error *err)
{
    (void)worker, (void)err;
    const product_job *job = ctx;
    const qni_rows *w = job->w;
    const int64_t first = piece * job->n_piece_rows;
    qni_dot_tile tile = {
        .w = w->bytes + first * w->stride,
        .w_stride = w->stride,
        .n_rows = qni_min_i64(job->n_piece_rows, w->n_out - first),
        .a_stride = job->a_stride,
        .n_elems = w->n_in,
        .y_stride = w->n_out,
    };
    for (int64_t col = 0; col < job->n_cols; col += TILE_COLS) {
        tile.a = job->a + col * job->a_stride;
        tile.n_cols = qni_min_i64(TILE_COLS, job->n_cols - col);
        tile.y = job->y + col * w->n_out + first;
        job->dot(&tile);
    }
    return QN_OK;
}

static qn_status multiply(qn_compute *compute, const qni_rows *w, const uint8_t *a,
                          int64_t a_stride, int64_t n_cols, float *y, qn_error *err)
{
    product_job job = {w, qni_kernel_dot(w->dtype, compute->isa), a, a_stride, n_cols, y, 0};
    const int64_t n_threads = qni_pool_n_threads(compute->pool);
    const int64_t n_pieces_wanted = n_threads == 1 ? 1 : n_threads * PIECES_PER_THREAD;
    const int64_t n_steps = (w->n_out + ROW_STEP - 1) / ROW_STEP;
    job.n_piece_rows = (n_steps + n_pieces_wanted - 1) / n_pieces_wanted * ROW_STEP;
    const int64_t n_pieces = (w->n_out + job.n_piece_rows - 1) / job.n_piece_rows;
    return qni_pool_run(compute->pool, n_pieces, multiply_piece, &job, err);
}

/* Rows of x that held a NaN or an infinity. */
static void spoil_rows(const qni_quantized *a, int64_t n_out, float *y)
{
    for (int64_t row = 0; row < a->n_rows; row++) {
        for (int64_t n = 0; a->is_bad[row] && n < n_out; n++) {
            y[row * n_out + n] = NAN;
        }
    }
}

static qn_status multiply_quantized(qn_compute *compute, const qni_rows *w, const float *x,
                                    int64_t n_rows, float *y, qn_error *err)
{
    qni_quantized a = {.dtype = qni_dot_activation(w->dtype)};
    QN_TRY(qn_dtype_row_bytes(a.dtype, w->n_in, &a.stride, err));
    const int64_t n_chunk = qni_min_i64(CHUNK_COLS, n_rows);
    int64_t n_bytes = 0;
    QN_CHECK(qni_mul_i64(n_chunk, a.stride, &n_bytes) && qni_add_i64(n_bytes, n_chunk, &n_bytes),
             err, QN_ERR_OVERFLOW, -1, "%" PRId64 " rows of %" PRId64 " bytes", n_chunk, a.stride);
    QN_TRY(qni_scratch_reserve(compute->allocator, &compute->activations, (size_t)n_bytes, err));
    a.bytes = compute->activations.bytes;
    a.is_bad = a.bytes + n_chunk * a.stride;
    for (int64_t row = 0; row < n_rows; row += n_chunk) {
        a.n_rows = qni_min_i64(n_chunk, n_rows - row);
        QN_TRY(qni_quantize_rows(compute, x + row * w->n_in, w->n_in, &a, err));
        QN_TRY(multiply(compute, w, a.bytes, a.stride, a.n_rows, y + row * w->n_out, err));
        spoil_rows(&a, w->n_out, y + row * w->n_out);
    }
    return QN_OK;
}

static qn_status check_operands(const qn_compute *compute, const qni_rows *w, const float *x,
                                int64_t n_rows, const float *y, qn_error *err)
{
    int64_t n_x_bytes = 0;
    int64_t n_y_bytes = 0;
    QN_CHECK(compute, err, QN_ERR_INVALID_ARGUMENT, -1, "no compute handle was given");
    QN_TRY(qni_check_floats(x, "x", n_rows, w->n_in, &n_x_bytes, err));
    QN_TRY(qni_check_floats(y, "y", n_rows, w->n_out, &n_y_bytes, err));
    QN_CHECK(!qni_overlaps(x, n_x_bytes, y, n_y_bytes), err, QN_ERR_INVALID_ARGUMENT, -1,
             "x and y overlap");
    QN_CHECK(!qni_overlaps(w->bytes, w->n_out * w->stride, y, n_y_bytes), err,
             QN_ERR_INVALID_ARGUMENT, -1, "the weights and y overlap");
    return QN_OK;
}

static qn_status multiply_rows(qn_compute *compute, const qni_rows *w, const float *x,
                               int64_t n_rows, float *y, qn_error *err)
{
    if (n_rows == 0) {
        return QN_OK;
    }
    if (qni_dot_activation(w->dtype) != QN_DTYPE_F32) {
        return multiply_quantized(compute, w, x, n_rows, y, err);
    }
    return multiply(compute, w, (const uint8_t *)x, w->n_in * (int64_t)sizeof(float), n_rows, y,
                    err);
}

qn_status qn_matmul(qn_compute *compute, const qn_rhs *w, const float *x, int64_t n_rows, float *y,
                    qn_error *err)
{
    qni_rows rows;
    const qn_packed *packed = NULL;
    QN_TRY(qni_check_rhs(w, &rows, err));
    QN_TRY(check_operands(compute, &rows, x, n_rows, y, err));
    QN_TRY(qni_cache_find(compute, w, &rows, &packed, err));
    return multiply_rows(compute, packed ? &packed->rows : &rows, x, n_rows, y, err);
}

qn_status qn_matmul_packed(qn_compute *compute, const qn_packed *w, const float *x, int64_t n_rows,
                           float *y, qn_error *err)
{
    QN_CHECK(w, err, QN_ERR_INVALID_ARGUMENT, -1, "no weights were given");
    QN_TRY(check_operands(compute, &w->rows, x, n_rows, y, err));
    return multiply_rows(compute, &w->rows, x, n_rows, y, err);
}
