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

qn_status qni_decode_rows(const qni_chunk *chunk, qn_error *err)
{
    const qn_tensor_info *source = chunk->item->inputs[0].tensor;
    QN_TRY(advise(qn_validate_rows(source->dtype, chunk->in, chunk->n_in_bytes, source->ne[0],
                                   chunk->first_unit, err),
                  err));
    return qn_decode_isa(source->dtype, chunk->isa, chunk->in,
                         chunk->n_in_bytes / qn_dtype_block_bytes(source->dtype), chunk->scratch,
                         err);
}

static qn_status measure(const qn_plan *plan, const qni_item *item, qni_geometry *out_geometry,
                         qn_error *err)
{
    QN_TRY(qni_measure_rows(item, out_geometry, err));
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

static qn_status encode(const qni_chunk *chunk, qn_dtype dtype, qn_error *err)
{
    const qni_item *item = chunk->item;
    const int64_t row_len = item->inputs[0].tensor->ne[0];
    const bool is_weighted = qni_item_encodes_with_weights(item, dtype);
    qn_encode_options options = QN_ENCODE_OPTIONS_INIT;
    options.isa = chunk->isa;
    int64_t n_row_bytes;
    QN_TRY(qn_dtype_row_bytes(dtype, row_len, &n_row_bytes, err));
    for (int64_t done = 0; done < chunk->n_units;) {
        const int64_t row = chunk->first_unit + done;
        const int64_t n_rows =
            rows_with_same_weights(item, is_weighted, row, chunk->n_units - done);
        options.first_row = row;
        QN_TRY(qn_encode_rows(dtype, chunk->scratch + done * row_len, n_rows, row_len,
                              weights_of(item, is_weighted, row), &options,
                              chunk->out[0] + done * n_row_bytes, n_rows * n_row_bytes, err));
        done += n_rows;
    }
    return QN_OK;
}

static qn_status run(const qni_chunk *chunk, qn_error *err)
{
    QN_TRY(qni_decode_rows(chunk, err));
    return encode(chunk, qni_plan_target(chunk->plan, chunk->item)->dtype, err);
}

const qni_recipe qni_recipe_convert = {QN_RECIPE_CONVERT, "convert", false, measure, run, NULL};
