/* grad_lhs.c — dx = dy * w: weights widened to f32 in tiles that fit a cache, one tile a worker at
 * a time. Threads share the columns of dx, so each element is summed by one of them, in order. */
#include "matmul/compute_internal.h"

/* A tile of widened weights: at most 64 rows of 512 columns, 128 KiB. */
#define TILE_ROWS  64
#define TILE_ELEMS 512

typedef struct grad_job {
    const qni_rows *w;
    qni_decode_fn decode;
    qni_spread_fn spread;
    const float *dy;
    int64_t n_cols; /* rows of dy */
    float *dx;
    float *tiles; /* TILE_ROWS * TILE_ELEMS floats a worker */
} grad_job;

/* Columns [first, first + n) of the weight rows [row, row + n_rows), widened. */
static void widen_tile(const grad_job *job, int64_t row, int64_t n_rows, int64_t first, int64_t n,
                       float *tile)
{
    const qni_rows *w = job->w;
    const int64_t n_elems = qn_dtype_block_elems(w->dtype);
    const int64_t at = first / n_elems * qn_dtype_block_bytes(w->dtype);
    for (int64_t r = 0; r < n_rows; r++) {
        job->decode(w->bytes + (row + r) * w->stride + at, n / n_elems, tile + r * TILE_ELEMS);
    }
}

static qn_status grad_piece(void *ctx, int64_t piece, int worker, qn_error *err)
{
    (void)err;
    const grad_job *job = ctx;
    const qni_rows *w = job->w;
    const int64_t first = piece * TILE_ELEMS;
    const int64_t n = qni_min_i64(TILE_ELEMS, w->n_in - first);
    float *widened = job->tiles + (int64_t)worker * TILE_ROWS * TILE_ELEMS;
    for (int64_t c = 0; c < job->n_cols; c++) {
        memset(job->dx + c * w->n_in + first, 0, (size_t)n * sizeof(float));
    }
    for (int64_t row = 0; row < w->n_out; row += TILE_ROWS) {
        const int64_t n_rows = qni_min_i64(TILE_ROWS, w->n_out - row);
        widen_tile(job, row, n_rows, first, n, widened);
        const qni_spread_tile tile = {
            .w = widened,
            .w_stride = TILE_ELEMS,
            .n_rows = n_rows,
            .s = job->dy + row,
            .s_stride = w->n_out,
            .n_cols = job->n_cols,
            .n_elems = n,
            .y = job->dx + first,
            .y_stride = w->n_in,
        };
        job->spread(&tile);
    }
    return QN_OK;
}

qn_status qn_matmul_grad(qn_compute *compute, const qn_rhs *w, const float *dy, int64_t n_rows,
                         float *dx, qn_error *err)
{
    qni_rows rows;
    int64_t n_dy_bytes = 0;
    int64_t n_dx_bytes = 0;
    QN_CHECK(compute, err, QN_ERR_INVALID_ARGUMENT, -1, "no compute handle was given");
    QN_TRY(qni_check_rhs(w, &rows, err));
    QN_TRY(qni_check_floats(dy, "dy", n_rows, rows.n_out, &n_dy_bytes, err));
    QN_TRY(qni_check_floats(dx, "dx", n_rows, rows.n_in, &n_dx_bytes, err));
    QN_CHECK(!qni_overlaps(dy, n_dy_bytes, dx, n_dx_bytes), err, QN_ERR_INVALID_ARGUMENT, -1,
             "dy and dx overlap");
    QN_CHECK(!qni_overlaps(rows.bytes, w->n_bytes, dx, n_dx_bytes), err, QN_ERR_INVALID_ARGUMENT,
             -1, "the weights and dx overlap");
    if (n_rows == 0) {
        return QN_OK;
    }
    const size_t n_tile_bytes = TILE_ROWS * TILE_ELEMS * sizeof(float);
    const size_t n_workers = (size_t)qni_pool_n_threads(compute->pool);
    QN_TRY(qni_scratch_reserve(compute->allocator, &compute->tiles, n_workers * n_tile_bytes, err));
    grad_job job = {
        .w = &rows,
        .decode = qni_kernel_decode(rows.dtype, compute->isa),
        .spread = qni_kernel_spread(QN_DTYPE_F32, compute->isa),
        .dy = dy,
        .n_cols = n_rows,
        .dx = dx,
        .tiles = compute->tiles.bytes,
    };
    const int64_t n_pieces = (rows.n_in + TILE_ELEMS - 1) / TILE_ELEMS;
    return qni_pool_run(compute->pool, n_pieces, grad_piece, &job, err);
}
