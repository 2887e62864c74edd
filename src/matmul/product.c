/* product.c — y = x * w transposed: activations first, then tiles of weight rows on the threads. */
#include <math.h>

#include "matmul/activations_internal.h"

/* So many rows of x are quantized and multiplied at once: bounds the scratch. */
#define CHUNK_COLS 512
/* So many columns (rows of x) meet a tile of weight rows at once: their activations stay in the
 * second-level cache while the tile runs over them. */
#define TILE_COLS 128
/* Weight rows are handed out in multiples of this: of the rows of every group. */
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
    uint8_t *unpacked; /* ROW_STEP rows of the file a worker */
    int64_t n_row_bytes;
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

/* Groups with a kernel of their own multiply as they are. */
static qn_status multiply_tiles(void *ctx, int64_t piece, int worker, qn_error *err)
{
    (void)worker, (void)err;
    const product_job *job = ctx;
    const qni_rows *w = job->w;
    const int64_t first = piece * job->n_piece_rows;
    const qni_dot_tile tile = {
        .w = w->bytes + first / w->layout->n_group_rows * w->stride,
        .w_stride = w->stride,
        .n_rows = qni_min_i64(job->n_piece_rows, w->n_out - first),
        .a = job->a,
        .a_stride = job->a_stride,
        .n_cols = job->n_cols,
        .n_elems = w->n_in,
        .y = job->y + first,
        .y_stride = w->n_out,
    };
    job->dot(&tile);
    return QN_OK;
}

/* Groups without a kernel of their own become rows of the file first. */
static qn_status multiply_groups(void *ctx, int64_t piece, int worker, qn_error *err)
{
    (void)err;
    const product_job *job = ctx;
    const qni_rows *w = job->w;
    const int64_t n_group = w->layout->n_group_rows;
    const int64_t last = qni_min_i64((piece + 1) * job->n_piece_rows, w->n_out);
    uint8_t *rows = job->unpacked + worker * ROW_STEP * job->n_row_bytes;
    for (int64_t first = piece * job->n_piece_rows; first < last; first += ROW_STEP) {
        const int64_t n_rows = qni_min_i64(ROW_STEP, last - first);
        for (int64_t r = 0; r < n_rows; r += n_group) {
            w->layout->unpack(w->dtype, w->bytes + (first + r) / n_group * w->stride,
                              qni_min_i64(n_group, n_rows - r), w->n_in,
                              rows + r * job->n_row_bytes, job->n_row_bytes);
        }
        const qni_dot_tile tile = {
            .w = rows,
            .w_stride = job->n_row_bytes,
            .n_rows = n_rows,
            .a = job->a,
            .a_stride = job->a_stride,
            .n_cols = job->n_cols,
            .n_elems = w->n_in,
            .y = job->y + first,
            .y_stride = w->n_out,
        };
        job->dot(&tile);
    }
    return QN_OK;
}

static qn_status run_pieces(qn_compute *compute, product_job *job, qni_work_fn piece, qn_error *err)
{
    const int64_t n_threads = qni_pool_n_threads(compute->pool);
    const int64_t n_pieces_wanted = n_threads == 1 ? 1 : n_threads * PIECES_PER_THREAD;
    const int64_t n_steps = (job->w->n_out + ROW_STEP - 1) / ROW_STEP;
    job->n_piece_rows = (n_steps + n_pieces_wanted - 1) / n_pieces_wanted * ROW_STEP;
    const int64_t n_pieces = (job->w->n_out + job->n_piece_rows - 1) / job->n_piece_rows;
    return qni_pool_run(compute->pool, n_pieces, piece, job, err);
}

/* A kernel for groups of this layout as they are; NULL: they become rows first. */
static qni_dot_fn kernel_of_groups(const qn_compute *compute, const qni_rows *w)
{
    return w->layout->layout == QN_LAYOUT_Q4_KX2MMLA
               ? qni_kernel_dot_kx2mmla(w->dtype, compute->isa)
               : NULL;
}

/* a: rows of activations as they are stored. */
static qn_status multiply(qn_compute *compute, const qni_rows *w, const uint8_t *a,
                          int64_t a_stride, int64_t n_cols, float *y, qn_error *err)
{
    product_job job = {w, qni_kernel_dot(w->dtype, compute->isa), a, a_stride, n_cols, y, 0, NULL,
                       0};
    if (!w->layout) {
        return run_pieces(compute, &job, multiply_piece, err);
    }
    const qni_dot_fn direct = kernel_of_groups(compute, w);
    if (direct) {
        job.dot = direct;
        return run_pieces(compute, &job, multiply_tiles, err);
    }
    int64_t n_bytes = 0;
    QN_TRY(qn_dtype_row_bytes(w->dtype, w->n_in, &job.n_row_bytes, err));
    QN_CHECK(qni_mul_i64(job.n_row_bytes, ROW_STEP * qni_pool_n_threads(compute->pool), &n_bytes),
             err, QN_ERR_OVERFLOW, -1, "rows of %" PRId64 " bytes", job.n_row_bytes);
    QN_TRY(qni_scratch_reserve(compute->allocator, &compute->tiles, (size_t)n_bytes, err));
    job.unpacked = compute->tiles.bytes;
    return run_pieces(compute, &job, multiply_groups, err);
}

static qn_status multiply_columns(qn_compute *compute, const qni_rows *w, const qni_quantized *a,
                                  float *y, qn_error *err)
{
    product_job job = {
        .w = w,
        .dot = qni_kernel_dot_tiles(w->dtype, compute->isa),
        .a = a->columns,
        .a_stride = a->n_rows * QNI_COLUMN_BYTES,
        .n_cols = a->n_rows,
        .y = y,
    };
    return run_pieces(compute, &job, multiply_tiles, err);
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

/* Room for the arranged activations of n_cols rows. */
static qn_status reserve_columns(qn_compute *compute, int64_t n_cols, int64_t n_in, qn_error *err)
{
    const int64_t n_pieces = (n_in - 1) / 256 + 1;
    int64_t n_bytes = 0;
    QN_CHECK(qni_mul_i64(n_cols * QNI_COLUMN_BYTES, n_pieces, &n_bytes), err, QN_ERR_OVERFLOW, -1,
             "%" PRId64 " rows of %" PRId64 " activations", n_cols, n_in);
    return qni_scratch_reserve(compute->allocator, &compute->columns, (size_t)n_bytes, err);
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
    if (w->layout && w->layout->layout == QN_LAYOUT_TILES) {
        a.arrange = qni_kernel_arrange(w->dtype, compute->isa);
    }
    if (a.arrange) {
        QN_TRY(reserve_columns(compute, n_chunk, w->n_in, err));
        a.columns = compute->columns.bytes;
    }
    for (int64_t row = 0; row < n_rows; row += n_chunk) {
        a.n_rows = qni_min_i64(n_chunk, n_rows - row);
        QN_TRY(qni_quantize_rows(compute, x + row * w->n_in, w->n_in, &a, err));
        float *to = y + row * w->n_out;
        QN_TRY(a.arrange ? multiply_columns(compute, w, &a, to, err)
                         : multiply(compute, w, a.bytes, a.stride, a.n_rows, to, err));
        spoil_rows(&a, w->n_out, y + row * w->n_out);
    }
    return QN_OK;
}

static int64_t weight_bytes(const qni_rows *w)
{
    const int64_t n_group = w->layout ? w->layout->n_group_rows : 1;
    return ((w->n_out - 1) / n_group + 1) * w->stride;
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
    QN_CHECK(!qni_overlaps(w->bytes, weight_bytes(w), y, n_y_bytes), err, QN_ERR_INVALID_ARGUMENT,
             -1, "the weights and y overlap");
    return QN_OK;
}

static qn_status multiply_rows(qn_compute *compute, const qni_rows *w, const float *x,
                               int64_t n_rows, float *y, qn_error *err)
{
    if (n_rows == 0) {
        return QN_OK;
    }
    const bool is_rounded = compute->round_bf16 && w->dtype == QN_DTYPE_BF16;
    if (is_rounded || qni_dot_activation(w->dtype) != QN_DTYPE_F32) {
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
