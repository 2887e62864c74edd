/* pack.c — packed weights, and the copies that a handle keeps of weights that stay. */
#include "matmul/compute_internal.h"

#define ROW_ALIGNMENT 64

static const qni_layout_row layouts[] = {
#define QN_LAYOUT(symbol, name, n_rows, prefix) \
    {QN_LAYOUT_##symbol, n_rows, prefix##_fits, prefix##_bytes, prefix##_pack, prefix##_unpack},
#include "kernels/layouts.def"
#undef QN_LAYOUT
};

/* NULL: not one of this version. */
static const qni_layout_row *find_layout(qn_layout layout)
{
    for (size_t i = 0; i < sizeof layouts / sizeof layouts[0]; i++) {
        if (layouts[i].layout == layout) {
            return &layouts[i];
        }
    }
    return NULL;
}

/* Tiles where there are kernels for them, else rows. The kernels of bf16 tiles round activations.
 */
static qn_layout default_layout(const qn_compute *compute, qn_dtype dtype)
{
    if (dtype == QN_DTYPE_BF16 && !compute->round_bf16) {
        return QN_LAYOUT_ROWS;
    }
    return qni_kernel_dot_tiles(dtype, compute->isa) ? QN_LAYOUT_TILES : QN_LAYOUT_ROWS;
}

/* --- packing -------------------------------------------------------------------------------------
 */

typedef struct pack_job {
    const qni_rows *from;
    qn_packed *to;
} pack_job;

static qn_status pack_row(void *ctx, int64_t row, int worker, qn_error *err)
{
    (void)worker, (void)err;
    const pack_job *job = ctx;
    const qni_rows *from = job->from;
    uint8_t *to = job->to->bytes + row * job->to->rows.stride;
    memcpy(to, from->bytes + row * from->stride, (size_t)from->stride);
    memset(to + from->stride, 0, (size_t)(job->to->rows.stride - from->stride));
    return QN_OK;
}

static qn_status pack_group(void *ctx, int64_t group, int worker, qn_error *err)
{
    (void)worker, (void)err;
    const pack_job *job = ctx;
    const qni_rows *from = job->from;
    const qni_rows *to = &job->to->rows;
    const int64_t first = group * to->layout->n_group_rows;
    const int64_t n_rows = qni_min_i64(to->layout->n_group_rows, from->n_out - first);
    to->layout->pack(from->dtype, from->bytes + first * from->stride, from->stride, n_rows,
                     from->n_in, job->to->bytes + group * to->stride);
    return QN_OK;
}

/* Bytes from row to row, or group to group, how many of them, and all together. */
static qn_status packed_bytes(const qni_rows *rows, const qni_layout_row *layout,
                              int64_t *out_stride, int64_t *out_n, int64_t *out_n_bytes,
                              qn_error *err)
{
    *out_n = rows->n_out;
    if (layout) {
        *out_n = (rows->n_out - 1) / layout->n_group_rows + 1;
        *out_stride = layout->n_group_bytes(rows->dtype, rows->n_in);
    } else {
        QN_CHECK(qni_align_up_i64(rows->stride, ROW_ALIGNMENT, out_stride), err, QN_ERR_OVERFLOW,
                 -1, "rows of %" PRId64 " bytes do not fit", rows->stride);
    }
    QN_CHECK(qni_mul_i64(*out_n, *out_stride, out_n_bytes), err, QN_ERR_OVERFLOW, -1,
             "%" PRId64 " groups of %" PRId64 " bytes do not fit", *out_n, *out_stride);
    return QN_OK;
}

static qn_status pack_rows(qn_compute *compute, const qni_rows *rows, const qni_layout_row *layout,
                           qn_packed **out_packed, qn_error *err)
{
    const double start = qni_clock_seconds();
    qn_packed *packed = qni_alloc_zeroed(compute->allocator, sizeof *packed);
    if (!packed) {
        return qni_fail_memory(err, sizeof *packed);
    }
    qn_status st = QN_OK;
    int64_t n = 0;
    packed->allocator = compute->allocator;
    packed->rows = *rows;
    packed->rows.layout = layout;
    QN_TRY_GOTO(packed_bytes(rows, layout, &packed->rows.stride, &n, &packed->n_bytes, err));
    packed->bytes = qni_alloc_large(packed->allocator, (size_t)packed->n_bytes, ROW_ALIGNMENT);
    if (!packed->bytes) {
        st = qni_fail_memory(err, (size_t)packed->n_bytes);
        goto done;
    }
    packed->rows.bytes = packed->bytes;
    pack_job job = {rows, packed};
    QN_TRY_GOTO(qni_pool_run(compute->pool, n, layout ? pack_group : pack_row, &job, err));
    packed->seconds = qni_clock_seconds() - start;
    *out_packed = packed;
    return QN_OK;
done:
    qn_packed_free(packed);
    return st;
}

qn_status qn_pack(qn_compute *compute, const qn_rhs *w, qn_layout layout, qn_packed **out_packed,
                  qn_error *err)
{
    qni_rows rows;
    *out_packed = NULL;
    QN_CHECK(compute, err, QN_ERR_INVALID_ARGUMENT, -1, "no compute handle was given");
    QN_TRY(qni_check_rhs(w, &rows, err));
    if (layout == QN_LAYOUT_DEFAULT) {
        layout = default_layout(compute, w->dtype);
    }
    const qni_layout_row *row = find_layout(layout);
    QN_CHECK(row || layout == QN_LAYOUT_ROWS, err, QN_ERR_UNSUPPORTED, -1,
             "layout %d is not one of this version", (int)layout);
    QN_CHECK(!row || row->fits(w->dtype), err, QN_ERR_UNSUPPORTED, -1,
             "%s weights do not fit layout %d: use QN_LAYOUT_DEFAULT", qn_dtype_name(w->dtype),
             (int)layout);
    return pack_rows(compute, &rows, row, out_packed, err);
}

void qn_packed_free(qn_packed *packed)
{
    if (!packed) {
        return;
    }
    if (packed->bytes) {
        qni_free_aligned(packed->allocator, packed->bytes, (size_t)packed->n_bytes, ROW_ALIGNMENT);
    }
    qni_free(packed->allocator, packed, sizeof *packed);
}

int64_t qn_packed_bytes(const qn_packed *packed)
{
    return packed->n_bytes;
}

double qn_packed_seconds(const qn_packed *packed)
{
    return packed->seconds;
}

qn_layout qn_packed_layout(const qn_packed *packed)
{
    return packed->rows.layout ? packed->rows.layout->layout : QN_LAYOUT_ROWS;
}

qn_rhs qn_packed_shape(const qn_packed *packed)
{
    return (qn_rhs){
        .dtype = packed->rows.dtype, .n_out = packed->rows.n_out, .n_in = packed->rows.n_in};
}

/* --- copies of weights that stay -----------------------------------------------------------------
 */

static bool is_same(const qn_rhs *a, const qn_rhs *b)
{
    return a->data == b->data && a->dtype == b->dtype && a->n_out == b->n_out && a->n_in == b->n_in;
}

qn_status qni_cache_find(qn_compute *compute, const qn_rhs *w, const qni_rows *rows,
                         const qn_packed **out_packed, qn_error *err)
{
    *out_packed = NULL;
    if (w->lifetime != QN_RHS_STABLE_PROCESS || compute->n_cache_bytes == 0) {
        return QN_OK;
    }
    for (qni_cached *entry = compute->cached; entry; entry = entry->next) {
        if (is_same(&entry->key, w)) {
            *out_packed = entry->packed;
            return QN_OK;
        }
    }
    const qni_layout_row *layout = find_layout(default_layout(compute, w->dtype));
    int64_t stride = 0;
    int64_t n = 0;
    int64_t n_bytes = 0;
    QN_TRY(packed_bytes(rows, layout, &stride, &n, &n_bytes, err));
    if (n_bytes > compute->n_cache_bytes - compute->n_cached_bytes) {
        return QN_OK;
    }
    qni_cached *entry = qni_alloc_zeroed(compute->allocator, sizeof *entry);
    if (!entry) {
        return qni_fail_memory(err, sizeof *entry);
    }
    const qn_status st = pack_rows(compute, rows, layout, &entry->packed, err);
    if (st != QN_OK) {
        qni_free(compute->allocator, entry, sizeof *entry);
        return st;
    }
    entry->key = *w;
    entry->next = compute->cached;
    compute->cached = entry;
    compute->n_cached_bytes += n_bytes;
    compute->cache_seconds += entry->packed->seconds;
    *out_packed = entry->packed;
    return QN_OK;
}

void qn_compute_drop_cache(qn_compute *compute)
{
    while (compute->cached) {
        qni_cached *entry = compute->cached;
        compute->cached = entry->next;
        qn_packed_free(entry->packed);
        qni_free(compute->allocator, entry, sizeof *entry);
    }
    compute->n_cached_bytes = 0;
}

int64_t qn_compute_cache_bytes(const qn_compute *compute)
{
    return compute->n_cached_bytes;
}

double qn_compute_cache_seconds(const qn_compute *compute)
{
    return compute->cache_seconds;
}
