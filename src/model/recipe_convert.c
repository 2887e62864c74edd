/* recipe_convert.c — decode a tensor's rows, encode them in another type. */
#include "codec/codec.h"
#include "model/recipe_internal.h"

qn_status qni_measure_rows(const qni_item *item, qni_geometry *out_geometry, qn_error *err)
{
    const qn_tensor_info *source = item->inputs[0].tensor;
    int64_t n_rows = 1;
    for (int32_t d = 1; d < source->n_dims; d++) {
        QN_CHECK(qni_mul_i64(n_rows, source->ne[d], &n_rows), err, QN_ERR_OVERFLOW, -1,
                 "the number of rows does not fit in 63 bits");
    }
    *out_geometry = (qni_geometry){.n_units = source->ne[0] == 0 ? 0 : n_rows};
    QN_TRY(qn_dtype_row_bytes(source->dtype, source->ne[0], &out_geometry->unit_in_bytes, err));
    QN_CHECK(qni_mul_i64(source->ne[0], (int64_t)sizeof(float), &out_geometry->unit_scratch_bytes),
             err, QN_ERR_OVERFLOW, -1, "a row of %" PRId64 " elements is too long", source->ne[0]);
    return QN_OK;
}

/* Rows are decoded and encoded in pieces of about this many bytes of floats. Measured on F16 ->
 * Q8_0 and Q4_0: 8 to 64 KiB are equal within 5 %, 32 KiB is the best by a little. */
#define PIECE_BYTES (INT64_C(32) << 10)

static int64_t piece_rows(int64_t row_len)
{
    return qni_max_i64(1, PIECE_BYTES / (int64_t)sizeof(float) / qni_max_i64(1, row_len));
}

/* What to do about values that no type can hold. */
static qn_status advise(qn_status st, qn_error *err)
{
    if (err != NULL && (st == QN_ERR_NON_FINITE_VALUE || st == QN_ERR_INVALID_BLOCK)) {
        const qn_error found = *err;
        (void)qni_fail(err, st, found.offset,
                       "%.600s; the input is damaged: nothing good can be made of it",
                       found.message);
    }
    return st;
}

/* Are the source's values themselves what the encoder will check? Then they need no check before.
 */
static bool is_checked_by_encoder(qn_dtype dtype)
{
    return dtype == QN_DTYPE_F32 || dtype == QN_DTYPE_F16 || dtype == QN_DTYPE_BF16;
}

/* Part of a chunk: rows that are decoded and encoded together. */
typedef struct row_span {
    int64_t first; /* within the chunk */
    int64_t n_rows;
} row_span;

static qn_status validate_span(const qni_chunk *chunk, row_span span, qn_error *err)
{
    const qn_tensor_info *source = chunk->item->inputs[0].tensor;
    const int64_t n_row_bytes = chunk->geometry->unit_in_bytes;
    return advise(qn_validate_rows(source->dtype, chunk->in + span.first * n_row_bytes,
                                   span.n_rows * n_row_bytes, source->ne[0],
                                   chunk->first_unit + span.first, err),
                  err);
}

static qn_status decode_span(const qni_chunk *chunk, row_span span, float *out, qn_error *err)
{
    const qn_tensor_info *source = chunk->item->inputs[0].tensor;
    const int64_t n_row_bytes = chunk->geometry->unit_in_bytes;
    return qn_decode_isa(source->dtype, chunk->isa, chunk->in + span.first * n_row_bytes,
                         span.n_rows * n_row_bytes / qn_dtype_block_bytes(source->dtype), out, err);
}

qn_status qni_decode_rows(const qni_chunk *chunk, qn_error *err)
{
    const row_span all = {0, chunk->n_units};
    QN_TRY(validate_span(chunk, all, err));
    return decode_span(chunk, all, chunk->scratch, err);
}

static qn_status measure(const qn_plan *plan, const qni_item *item, bool keeps_rows,
                         qni_geometry *out_geometry, qn_error *err)
{
    QN_TRY(qni_measure_rows(item, out_geometry, err));
    out_geometry->n_scratch_units = keeps_rows ? 0 : piece_rows(item->inputs[0].tensor->ne[0]);
    return qn_dtype_row_bytes(qni_plan_target(plan, item)->dtype, item->inputs[0].tensor->ne[0],
                              &out_geometry->unit_out_bytes[0], err);
}

/* Rows that share their importance weights: up to the end of the expert they lie in. */
static int64_t rows_with_same_weights(const qni_item *item, bool is_weighted, int64_t row,
                                      int64_t n_rows)
{
    const int64_t n_expert_rows = item->inputs[0].tensor->ne[1];
    return !is_weighted ? n_rows : qni_min_i64(n_rows, n_expert_rows - row % n_expert_rows);
}

static const float *weights_of(const qni_item *item, bool is_weighted, int64_t row)
{
    const qn_tensor_info *source = item->inputs[0].tensor;
    return !is_weighted ? NULL : item->weights + row / source->ne[1] * source->ne[0];
}

static qn_status encode_span(const qni_chunk *chunk, qn_dtype dtype, row_span span,
                             const float *rows, qn_error *err)
{
    const qni_item *item = chunk->item;
    const int64_t row_len = item->inputs[0].tensor->ne[0];
    const int64_t n_row_bytes = chunk->geometry->unit_out_bytes[0];
    const int64_t row = chunk->first_unit + span.first;
    const bool is_weighted = qni_item_encodes_with_weights(item, dtype);
    qn_encode_options options = QN_ENCODE_OPTIONS_INIT;
    options.isa = chunk->isa;
    options.first_row = row;
    return qn_encode_rows(dtype, rows, span.n_rows, row_len, weights_of(item, is_weighted, row),
                          &options, chunk->out[0] + span.first * n_row_bytes,
                          span.n_rows * n_row_bytes, err);
}

/* Without floats in between: false if this pair of types has no such way, if the floats are wanted
 * later, or if a value is one that may have to be refused. */
static bool convert_directly(const qni_chunk *chunk, qn_dtype dtype, row_span span)
{
    const qni_item *item = chunk->item;
    const qn_tensor_info *source = item->inputs[0].tensor;
    return chunk->geometry->n_scratch_units > 0 && !qni_item_encodes_with_weights(item, dtype) &&
           qni_encode_plain(source->dtype, dtype, chunk->isa,
                            chunk->in + span.first * chunk->geometry->unit_in_bytes,
                            span.n_rows * source->ne[0],
                            chunk->out[0] + span.first * chunk->geometry->unit_out_bytes[0]);
}

static qn_status convert_span(const qni_chunk *chunk, qn_dtype dtype, row_span span, qn_error *err)
{
    if (convert_directly(chunk, dtype, span)) {
        return QN_OK;
    }
    const bool is_checked_later = is_checked_by_encoder(chunk->item->inputs[0].tensor->dtype);
    if (!is_checked_later) {
        QN_TRY(validate_span(chunk, span, err));
    }
    float *rows = chunk->scratch;
    if (chunk->geometry->n_scratch_units == 0) { /* all stay */
        rows += span.first * chunk->item->inputs[0].tensor->ne[0];
    }
    QN_TRY(decode_span(chunk, span, rows, err));
    const qn_status st = encode_span(chunk, dtype, span, rows, err);
    if (st == QN_ERR_NON_FINITE_VALUE && is_checked_later) {
        QN_TRY(validate_span(chunk, span, err)); /* says which value of the input it is */
    }
    return st;
}

/* Decode and encode go hand in hand, a piece at a time, so that the encoder finds the floats in the
 * cache; unless they are wanted later, all pieces go through one place. */
static qn_status run(const qni_chunk *chunk, qn_error *err)
{
    const qni_item *item = chunk->item;
    const qn_dtype dtype = qni_plan_target(chunk->plan, item)->dtype;
    const bool is_weighted = qni_item_encodes_with_weights(item, dtype);
    const int64_t n_piece_rows = piece_rows(item->inputs[0].tensor->ne[0]);
    for (row_span span = {0, 0}; span.first < chunk->n_units; span.first += span.n_rows) {
        const int64_t n_left = qni_min_i64(n_piece_rows, chunk->n_units - span.first);
        span.n_rows =
            rows_with_same_weights(item, is_weighted, chunk->first_unit + span.first, n_left);
        QN_TRY(convert_span(chunk, dtype, span, err));
    }
    return QN_OK;
}

qn_status qni_encode_rows_of(const qni_chunk *chunk, qn_error *err)
{
    const qni_item *item = chunk->item;
    const qn_dtype dtype = qni_plan_target(chunk->plan, item)->dtype;
    const bool is_weighted = qni_item_encodes_with_weights(item, dtype);
    for (row_span span = {0, 0}; span.first < chunk->n_units; span.first += span.n_rows) {
        span.n_rows = rows_with_same_weights(item, is_weighted, chunk->first_unit + span.first,
                                             chunk->n_units - span.first);
        const float *rows = chunk->scratch + span.first * item->inputs[0].tensor->ne[0];
        QN_TRY(encode_span(chunk, dtype, span, rows, err));
    }
    return QN_OK;
}

const qni_recipe qni_recipe_convert = {QN_RECIPE_CONVERT, "convert", false, measure, run, NULL};
