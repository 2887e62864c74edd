/* compute.c — the handle: threads, scratch, the checks that every product starts with. */
#include "matmul/compute_internal.h"

#define CACHE_LINE 64

static qn_status read_options(const qn_compute_options *options, qn_compute_options *out,
                              qn_error *err)
{
    *out = (qn_compute_options)QN_COMPUTE_OPTIONS_INIT;
    if (options) {
        QN_CHECK(options->struct_size >= offsetof(qn_compute_options, isa), err,
                 QN_ERR_INVALID_ARGUMENT, -1,
                 "compute options of %zu bytes: start from QN_COMPUTE_OPTIONS_INIT",
                 options->struct_size);
        memcpy(out, options,
               options->struct_size < sizeof *out ? options->struct_size : sizeof *out);
    }
    QN_CHECK(out->n_threads >= 0, err, QN_ERR_INVALID_ARGUMENT, -1, "%" PRId32 " threads",
             out->n_threads);
    QN_CHECK(out->n_cache_bytes >= 0, err, QN_ERR_INVALID_ARGUMENT, -1,
             "a cache of %" PRId64 " bytes", out->n_cache_bytes);
    return QN_OK;
}

qn_status qn_compute_new(const qn_compute_options *options, qn_compute **out_compute, qn_error *err)
{
    qn_compute_options read;
    *out_compute = NULL;
    QN_TRY(read_options(options, &read, err));
    qn_compute *compute = qni_alloc_zeroed(read.allocator, sizeof *compute);
    if (!compute) {
        return qni_fail_memory(err, sizeof *compute);
    }
    compute->allocator = read.allocator;
    compute->isa = read.isa;
    compute->round_bf16 = read.round_bf16;
    compute->n_cache_bytes = read.n_cache_bytes;
    const qn_status st = qni_pool_new(read.n_threads, read.allocator, &compute->pool, err);
    if (st != QN_OK) {
        qni_free(read.allocator, compute, sizeof *compute);
        return st;
    }
    *out_compute = compute;
    return QN_OK;
}

void qn_compute_free(qn_compute *compute)
{
    if (!compute) {
        return;
    }
    qn_compute_drop_cache(compute);
    qni_pool_free(compute->pool);
    qni_scratch_free(compute->allocator, &compute->activations);
    qni_scratch_free(compute->allocator, &compute->columns);
    qni_scratch_free(compute->allocator, &compute->tiles);
    qni_free(compute->allocator, compute, sizeof *compute);
}

qn_status qni_scratch_reserve(const qn_allocator *allocator, qni_scratch *scratch, size_t n_bytes,
                              qn_error *err)
{
    if (n_bytes <= scratch->n_bytes) {
        return QN_OK;
    }
    qni_scratch_free(allocator, scratch);
    scratch->bytes = qni_alloc_aligned(allocator, n_bytes, CACHE_LINE);
    if (!scratch->bytes) {
        return qni_fail_memory(err, n_bytes);
    }
    scratch->n_bytes = n_bytes;
    return QN_OK;
}

void qni_scratch_free(const qn_allocator *allocator, qni_scratch *scratch)
{
    if (scratch->bytes) {
        qni_free_aligned(allocator, scratch->bytes, scratch->n_bytes, CACHE_LINE);
    }
    *scratch = (qni_scratch){NULL, 0};
}

qn_dtype qn_activation_dtype(qn_dtype weights)
{
    return qni_dot_activation(weights);
}

qn_status qni_check_rhs(const qn_rhs *w, qni_rows *out_rows, qn_error *err)
{
    int64_t n_row_bytes = 0;
    int64_t n_bytes = 0;
    QN_CHECK(w, err, QN_ERR_INVALID_ARGUMENT, -1, "no weights were given");
    QN_TRY(qn_dtype_row_bytes(w->dtype, w->n_in, &n_row_bytes, err));
    QN_CHECK(qni_dot_activation(w->dtype) != QN_DTYPE_NONE, err, QN_ERR_UNSUPPORTED_DTYPE, -1,
             "%s weights have no product: decode them first", qn_dtype_name(w->dtype));
    QN_CHECK(w->n_out > 0 && w->n_in > 0, err, QN_ERR_INVALID_SHAPE, -1,
             "weights of %" PRId64 " rows of %" PRId64 " elements", w->n_out, w->n_in);
    QN_CHECK(qni_mul_i64(w->n_out, n_row_bytes, &n_bytes), err, QN_ERR_OVERFLOW, -1,
             "%" PRId64 " rows of %" PRId64 " bytes do not fit in 63 bits", w->n_out, n_row_bytes);
    QN_CHECK(w->n_bytes == n_bytes, err, QN_ERR_INVALID_DATA_LENGTH, -1,
             "%" PRId64 " bytes of weights, but %" PRId64 " rows of %" PRId64
             " %s elements take %" PRId64,
             w->n_bytes, w->n_out, w->n_in, qn_dtype_name(w->dtype), n_bytes);
    QN_CHECK(w->data, err, QN_ERR_INVALID_ARGUMENT, -1, "the weights have no bytes");
    *out_rows = (qni_rows){w->dtype, w->n_out, w->n_in, w->data, n_row_bytes, NULL};
    return QN_OK;
}

qn_status qni_check_floats(const void *buffer, const char *what, int64_t n_rows, int64_t row_len,
                           int64_t *out_n_bytes, qn_error *err)
{
    QN_CHECK(n_rows >= 0 && row_len >= 0, err, QN_ERR_INVALID_SHAPE, -1,
             "%s of %" PRId64 " rows of %" PRId64 " elements", what, n_rows, row_len);
    QN_CHECK(qni_mul_i64(n_rows, row_len, out_n_bytes) &&
                 qni_mul_i64(*out_n_bytes, (int64_t)sizeof(float), out_n_bytes),
             err, QN_ERR_OVERFLOW, -1,
             "%s of %" PRId64 " rows of %" PRId64 " floats does not fit in 63 bits", what, n_rows,
             row_len);
    QN_CHECK(*out_n_bytes == 0 || buffer, err, QN_ERR_INVALID_ARGUMENT, -1, "%s has no buffer",
             what);
    return QN_OK;
}

bool qni_overlaps(const void *a, int64_t n_a, const void *b, int64_t n_b)
{
    const uintptr_t first_a = (uintptr_t)a;
    const uintptr_t first_b = (uintptr_t)b;
    if (n_a <= 0 || n_b <= 0) {
        return false;
    }
    return first_a < first_b ? first_b - first_a < (uint64_t)n_a
                             : first_a - first_b < (uint64_t)n_b;
}
