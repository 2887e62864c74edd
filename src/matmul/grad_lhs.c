/* grad_lhs.c — dx = dy * w: weights widened to f32 in tiles that fit a cache, one tile a worker at
 * a time. Threads share the columns of dx, so each element is summed by one of them, in order. */
#include "matmul/compute_internal.h"

/* A tile of widened weights. Its rows lie apart by an odd number of cache lines: a strip of all of
 * them then spreads over the first-level cache instead of meeting in a few of its sets. */
#define TILE_ROWS   128
#define TILE_ELEMS  256
#define TILE_STRIDE (TILE_ELEMS + 16)
/* Rows of dy that meet a tile at once. Their part is copied together: rows of dy lie apart by what
 * is often a power of two. */
#define GROUP_COLS 256

#define CACHE_LINE 64

/* Rows that are asked for before they are widened: a piece of a row is too short for the processor
 * to see where the next one begins. */
#define ROWS_AHEAD 16

/* What a worker keeps: 264 KiB of weights and dy. */
typedef struct grad_scratch {
    float widened[TILE_ROWS * TILE_STRIDE];
    float dy[GROUP_COLS * TILE_ROWS];
} grad_scratch;

typedef struct grad_job {
    const qni_rows *w;
    qni_decode_fn decode;
    qni_spread_fn spread;
    const float *dy;
    int64_t n_cols; /* rows of dy */
    float *dx;
    grad_scratch *scratch; /* one a worker */
} grad_job;

static void prefetch(const uint8_t *bytes, int64_t n)
{
    for (int64_t i = 0; i < n; i += CACHE_LINE) {
        QNI_PREFETCH_READ(bytes + i);
    }
}

/* Columns [first, first + n) of the weight rows [row, row + n_rows), widened. */
static void widen_tile(const grad_job *job, int64_t row, int64_t n_rows, int64_t first, int64_t n,
                       float *tile)
{
    const qni_rows *w = job->w;
    const int64_t n_elems = qn_dtype_block_elems(w->dtype);
    const uint8_t *from =
        w->bytes + row * w->stride + first / n_elems * qn_dtype_block_bytes(w->dtype);
    const int64_t n_bytes = n / n_elems * qn_dtype_block_bytes(w->dtype);
    for (int64_t r = 0; r < n_rows; r++, from += w->stride) {
        if (row + r + ROWS_AHEAD < w->n_out) {
            prefetch(from + ROWS_AHEAD * w->stride, n_bytes);
        }
        job->decode(from, n / n_elems, tile + r * TILE_STRIDE);
    }
}

/* The tile, onto all rows of dx, a group at a time. */
static void spread_tile(const grad_job *job, int64_t row, qni_spread_tile *tile, float *dy,
                        float *dx)
{
    const int64_t n_out = job->w->n_out;
    for (int64_t col = 0; col < job->n_cols; col += GROUP_COLS) {
        tile->n_cols = qni_min_i64(GROUP_COLS, job->n_cols - col);
        for (int64_t c = 0; c < tile->n_cols; c++) {
            memcpy(dy + c * TILE_ROWS, job->dy + (col + c) * n_out + row,
                   (size_t)tile->n_rows * sizeof *dy);
        }
        tile->y = dx + col * tile->y_stride;
        job->spread(tile);
    }
}

static qn_status grad_piece(void *ctx, int64_t piece, int worker, qn_error *err)
{
    (void)err;
    const grad_job *job = ctx;
    const qni_rows *w = job->w;
    const int64_t first = piece * TILE_ELEMS;
    const int64_t n = qni_min_i64(TILE_ELEMS, w->n_in - first);
    grad_scratch *scratch = job->scratch + worker;
    qni_spread_tile tile = {
        .w = scratch->widened,
        .w_stride = TILE_STRIDE,
        .s = scratch->dy,
        .s_stride = TILE_ROWS,
        .n_elems = n,
        .y_stride = w->n_in,
    };
    for (int64_t c = 0; c < job->n_cols; c++) {
        memset(job->dx + c * w->n_in + first, 0, (size_t)n * sizeof(float));
    }
    for (int64_t row = 0; row < w->n_out; row += TILE_ROWS) {
        tile.n_rows = qni_min_i64(TILE_ROWS, w->n_out - row);
        widen_tile(job, row, tile.n_rows, first, n, scratch->widened);
        spread_tile(job, row, &tile, scratch->dy, job->dx + first);
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
    const size_t n_workers = (size_t)qni_pool_n_threads(compute->pool);
    QN_TRY(qni_scratch_reserve(compute->allocator, &compute->tiles,
                               n_workers * sizeof(grad_scratch), err));
    grad_job job = {
        .w = &rows,
        .decode = qni_kernel_decode(rows.dtype, compute->isa),
        .spread = qni_kernel_spread(QN_DTYPE_F32, compute->isa),
        .dy = dy,
        .n_cols = n_rows,
        .dx = dx,
        .scratch = compute->tiles.bytes,
    };
    const int64_t n_pieces = (rows.n_in + TILE_ELEMS - 1) / TILE_ELEMS;
    return qni_pool_run(compute->pool, n_pieces, grad_piece, &job, err);
}
