/* encode.c — rows of f32 to blocks. */
#include <math.h>

#include "codec/codec.h"

/* Rows are checked and encoded in pieces of about this many values: a piece is still in the
 * second-level cache when the encoder reads it, and encoders that take sixteen blocks or rows side
 * by side find that many. */
#define PIECE_ELEMS ((int64_t)(QNI_ENCODE_PIECE_BYTES / sizeof(float)))

/* One call, checked. */
typedef struct encode_job {
    qn_dtype dtype;
    int64_t row_len;
    int64_t n_row_bytes;
    const float *weights;
    const struct qni_lattice *tables;
    qni_encode_fn kernel;
    qn_encode_options options;
} encode_job;

qn_status qni_codec_check_dtype(qn_dtype dtype, qn_error *err)
{
    int64_t n_bytes;
    return qn_dtype_row_bytes(dtype, 0, &n_bytes, err);
}

bool qn_has_encoder(qn_dtype dtype)
{
    return qni_kernel_encode(dtype, QN_ISA_SCALAR) != NULL;
}

static const char *text_of(float v)
{
    return isnan(v) ? "NaN" : v > 0.0f ? "inf" : "-inf";
}

/* Callers compiled against an older, shorter struct leave the newer fields at their defaults. */
static qn_status read_options(const qn_encode_options *options, qn_encode_options *out,
                              qn_error *err)
{
    *out = (qn_encode_options)QN_ENCODE_OPTIONS_INIT;
    if (!options) {
        return QN_OK;
    }
    QN_CHECK(options->struct_size >= offsetof(qn_encode_options, out_overflowed), err,
             QN_ERR_INVALID_ARGUMENT, -1,
             "encode options of %zu bytes: start from QN_ENCODE_OPTIONS_INIT",
             options->struct_size);
    memcpy(out, options, options->struct_size < sizeof *out ? options->struct_size : sizeof *out);
    out->struct_size = sizeof *out;
    return QN_OK;
}

static qn_status check_weights(const encode_job *job, qn_error *err)
{
    if (!job->weights) {
        QN_CHECK(qn_dtype_weights_use(job->dtype) != QN_WEIGHTS_REQUIRED, err,
                 QN_ERR_MISSING_WEIGHTS, -1,
                 "%s cannot be encoded without importance weights: give an importance matrix",
                 qn_dtype_name(job->dtype));
        return QN_OK;
    }
    const int64_t bad = qn_find_non_finite(job->weights, job->row_len);
    QN_CHECK(bad < 0, err, QN_ERR_NON_FINITE_VALUE, -1,
             "the importance weight of column %" PRId64 " is %s: weights must be finite", bad,
             text_of(job->weights[bad]));
    return QN_OK;
}

static qn_status prepare(encode_job *job, const qn_encode_options *options, qn_error *err)
{
    QN_TRY(read_options(options, &job->options, err));
    QN_TRY(qn_dtype_row_bytes(job->dtype, job->row_len, &job->n_row_bytes, err));
    job->kernel = qni_kernel_encode(job->dtype, job->options.isa);
    QN_CHECK(job->kernel, err, QN_ERR_ENCODER_UNAVAILABLE, -1,
             "%s has no encoder: choose a float or block type", qn_dtype_name(job->dtype));
    QN_TRY(check_weights(job, err));
    return qni_codec_tables(job->dtype, &job->tables, err);
}

/* Which row of a piece gave the result: only asked when something went wrong. */
static int64_t find_row(const encode_job *job, const float *x, int64_t n_rows, uint8_t *out,
                        qni_encode_result result)
{
    for (int64_t row = 0; row < n_rows; row++) {
        if (job->kernel(x + row * job->row_len, 1, job->row_len, job->weights, job->tables,
                        out + row * job->n_row_bytes) >= result) {
            return row;
        }
    }
    return 0;
}

static qn_status report(const encode_job *job, int64_t row, qni_encode_result result, qn_error *err)
{
    if (result == QNI_ENCODE_ABORT) {
        return qni_fail(err, QN_ERR_ENCODE_FAILED, -1,
                        "row %" PRId64 " cannot be encoded as %s: its values or weights are beyond "
                        "what the search can hold; choose another type for this tensor",
                        row, qn_dtype_name(job->dtype));
    }
    return qni_fail(err, QN_ERR_SCALE_OVERFLOW, -1,
                    "row %" PRId64 " holds values too large or too small for %s: a stored scale is "
                    "not finite; choose a type with a wider range or allow the overflow",
                    row, qn_dtype_name(job->dtype));
}

static qn_status encode_piece(const encode_job *job, const float *x, int64_t first_row,
                              int64_t n_rows, uint8_t *out, qn_error *err)
{
    const int64_t bad = qn_find_non_finite(x, n_rows * job->row_len);
    QN_CHECK(bad < 0, err, QN_ERR_NON_FINITE_VALUE, -1,
             "row %" PRId64 ", column %" PRId64 " is %s: only finite values can be encoded",
             first_row + bad / job->row_len, bad % job->row_len, text_of(x[bad]));
    const qni_encode_result result =
        job->kernel(x, n_rows, job->row_len, job->weights, job->tables, out);
    if (QNI_LIKELY(result == QNI_ENCODE_OK)) {
        return QN_OK;
    }
    if (result == QNI_ENCODE_OVERFLOW && job->options.allow_overflow) {
        if (job->options.out_overflowed) {
            *job->options.out_overflowed = true;
        }
        return QN_OK;
    }
    return report(job, first_row + find_row(job, x, n_rows, out, result), result, err);
}

qn_status qn_encode_rows(qn_dtype dtype, const float *x, int64_t n_rows, int64_t row_len,
                         const float *weights, const qn_encode_options *options, void *out,
                         int64_t n_out_bytes, qn_error *err)
{
    encode_job job = {.dtype = dtype, .row_len = row_len, .weights = weights};
    QN_TRY(prepare(&job, options, err));
    int64_t n_bytes = 0;
    int64_t n_elems = 0;
    QN_CHECK(n_rows >= 0, err, QN_ERR_INVALID_SHAPE, -1, "%" PRId64 " rows", n_rows);
    QN_CHECK(qni_mul_i64(n_rows, job.n_row_bytes, &n_bytes) &&
                 qni_mul_i64(n_rows, row_len, &n_elems),
             err, QN_ERR_OVERFLOW, -1,
             "%" PRId64 " rows of %" PRId64 " elements do not fit in 63 bits", n_rows, row_len);
    QN_CHECK(n_out_bytes == n_bytes, err, QN_ERR_INVALID_DATA_LENGTH, -1,
             "room for %" PRId64 " bytes, but %" PRId64 " rows of %" PRId64
             " %s elements take %" PRId64,
             n_out_bytes, n_rows, row_len, qn_dtype_name(dtype), n_bytes);
    if (n_elems == 0) {
        return QN_OK;
    }
    QN_CHECK(x && out, err, QN_ERR_INVALID_ARGUMENT, -1, "no buffer was given");
    const int64_t n_piece_rows = qni_max_i64(1, PIECE_ELEMS / row_len);
    for (int64_t row = 0; row < n_rows; row += n_piece_rows) {
        const int64_t n_here = qni_min_i64(n_piece_rows, n_rows - row);
        QN_TRY(encode_piece(&job, x + row * row_len, job.options.first_row + row, n_here,
                            (uint8_t *)out + row * job.n_row_bytes, err));
    }
    return QN_OK;
}

bool qni_encode_plain(qn_dtype from, qn_dtype dtype, qn_isa isa, const void *x, int64_t n_elems,
                      void *out)
{
    const qni_encode_16_fn kernel = from == QN_DTYPE_F16 ? qni_kernel_encode_from_f16(dtype, isa)
                                    : from == QN_DTYPE_BF16
                                        ? qni_kernel_encode_from_bf16(dtype, isa)
                                        : NULL;
    return kernel && kernel(x, n_elems / qn_dtype_block_elems(dtype), out);
}

bool qn_kernel_at(int index, qn_kernel_info *out_info)
{
    const qni_kernel_row *row = qni_kernel_row_at(index);
    if (!row) {
        return false;
    }
    *out_info = (qn_kernel_info){
        .operation = row->operation_name,
        .dtype = row->dtype,
        .isa = row->isa,
        .symbol = row->symbol,
        .is_available = qn_isa_is_available(row->isa),
        .is_chosen = qni_kernel_is_chosen(row),
    };
    return true;
}
