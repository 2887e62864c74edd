/* dtype.c — look-ups in dtypes.def and sizes computed from it. */
#include "dtype/dtype.h"

#define QN_DTYPE_ROW(id, sym, name_, elems, bytes, quantized, weights_, partner_) \
    [id] = {name_, elems, bytes, quantized, false, QN_WEIGHTS_##weights_, QN_DTYPE_##partner_},
#define QN_DTYPE_REMOVED(id, name_) \
    [id] = {name_, 0, 0, false, true, QN_WEIGHTS_NONE, QN_DTYPE_NONE},
static const qni_dtype_row dtype_rows[QN_DTYPE_LIMIT] = {
#include "dtype/dtypes.def"
};
#undef QN_DTYPE_ROW
#undef QN_DTYPE_REMOVED

#define QN_DTYPE_ROW(id, sym, name_, elems, bytes, quantized, weights_, partner_)  \
    static_assert(QN_DTYPE_##sym == (id), "enum and dtypes.def disagree: " name_); \
    static_assert(((elems) & ((elems)-1)) == 0, "blocks hold a power of two: " name_);
#define QN_DTYPE_REMOVED(id, name_)
#include "dtype/dtypes.def"
#undef QN_DTYPE_ROW
#undef QN_DTYPE_REMOVED

const qni_dtype_row *qni_dtype_row_of(qn_dtype dtype)
{
    if ((int)dtype < 0 || (int)dtype >= QN_DTYPE_LIMIT || !dtype_rows[dtype].name) {
        return NULL;
    }
    return &dtype_rows[dtype];
}

bool qn_dtype_is_valid(qn_dtype dtype)
{
    return qn_dtype_block_elems(dtype) > 0;
}

bool qn_dtype_is_removed(qn_dtype dtype)
{
    const qni_dtype_row *row = qni_dtype_row_of(dtype);
    return row && row->is_removed;
}

const char *qn_dtype_name(qn_dtype dtype)
{
    const qni_dtype_row *row = qni_dtype_row_of(dtype);
    return row ? row->name : "?";
}

qn_dtype qn_dtype_from_name(const char *name)
{
    for (int id = 0; name && id < QN_DTYPE_LIMIT; id++) {
        if (dtype_rows[id].block_elems > 0 && qni_equal_nocase(dtype_rows[id].name, name)) {
            return (qn_dtype)id;
        }
    }
    return QN_DTYPE_NONE;
}

int64_t qn_dtype_block_elems(qn_dtype dtype)
{
    const qni_dtype_row *row = qni_dtype_row_of(dtype);
    return row ? row->block_elems : 0;
}

int64_t qn_dtype_block_bytes(qn_dtype dtype)
{
    const qni_dtype_row *row = qni_dtype_row_of(dtype);
    return row ? row->block_bytes : 0;
}

bool qn_dtype_is_quantized(qn_dtype dtype)
{
    const qni_dtype_row *row = qni_dtype_row_of(dtype);
    return row && row->is_quantized;
}

qn_weights_use qn_dtype_weights_use(qn_dtype dtype)
{
    const qni_dtype_row *row = qni_dtype_row_of(dtype);
    return row ? row->weights : QN_WEIGHTS_NONE;
}

qn_dtype qn_dtype_partner(qn_dtype dtype)
{
    const qni_dtype_row *row = qni_dtype_row_of(dtype);
    return row ? row->partner : QN_DTYPE_NONE;
}

qn_status qn_dtype_row_bytes(qn_dtype dtype, int64_t n_elems, int64_t *out_n_bytes, qn_error *err)
{
    *out_n_bytes = 0;
    const qni_dtype_row *row = qni_dtype_row_of(dtype);
    QN_CHECK(row && row->block_elems > 0, err, QN_ERR_UNSUPPORTED_DTYPE, -1,
             "tensor type %d (%s) %s", (int)dtype, qn_dtype_name(dtype),
             row ? "was removed from ggml: convert the model again from its original"
                 : "is not known");
    QN_CHECK(n_elems >= 0 && n_elems % row->block_elems == 0, err, QN_ERR_INVALID_SHAPE, -1,
             "rows of %" PRId64 " elements are no whole number of %s blocks of %" PRId64, n_elems,
             row->name, row->block_elems);
    int64_t n_bytes = 0;
    QN_CHECK(qni_mul_i64(n_elems / row->block_elems, row->block_bytes, &n_bytes), err,
             QN_ERR_OVERFLOW, -1, "rows of %" PRId64 " %s elements do not fit in 63 bits of bytes",
             n_elems, row->name);
    *out_n_bytes = n_bytes;
    return QN_OK;
}

qn_status qn_dtype_tensor_bytes(qn_dtype dtype, const int64_t *ne, int32_t n_dims,
                                int64_t *out_n_bytes, qn_error *err)
{
    *out_n_bytes = 0;
    QN_CHECK(n_dims >= 0 && n_dims <= QN_MAX_DIMS, err, QN_ERR_INVALID_SHAPE, -1,
             "%d dimensions; at most %d are possible", (int)n_dims, QN_MAX_DIMS);
    bool is_empty = false;
    for (int32_t i = 0; i < n_dims; i++) {
        QN_CHECK(ne[i] >= 0, err, QN_ERR_INVALID_SHAPE, -1, "dimension %d is negative: %" PRId64,
                 (int)i, ne[i]);
        is_empty |= ne[i] == 0;
    }
    const int64_t block = qn_dtype_block_elems(dtype);
    int64_t row_len = n_dims > 0 ? ne[0] : 1;
    if (is_empty && block > 0) {
        row_len %= block; /* rows must be whole, but no product of them can be too large */
    }
    int64_t n_bytes = 0;
    QN_TRY(qn_dtype_row_bytes(dtype, row_len, &n_bytes, err));
    if (is_empty) {
        return QN_OK;
    }
    for (int32_t i = 1; i < n_dims; i++) {
        QN_CHECK(qni_mul_i64(n_bytes, ne[i], &n_bytes), err, QN_ERR_OVERFLOW, -1,
                 "the product of the dimensions does not fit in 63 bits of bytes");
    }
    *out_n_bytes = n_bytes;
    return QN_OK;
}
