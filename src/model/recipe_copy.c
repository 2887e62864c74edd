/* recipe_copy.c — the bytes of the input, validated as upstream does when it reads them. */
#include "codec/codec.h"
#include "model/recipe_internal.h"

/* Copies are cut without regard to rows, so that one enormous row is no problem: about this many
 * bytes, a whole number of blocks. */
#define UNIT_BYTES 16384

static int64_t unit_bytes_of(const qn_tensor_info *tensor)
{
    const int64_t block = qn_dtype_block_bytes(tensor->dtype);
    const int64_t n_bytes = qni_max_i64(1, UNIT_BYTES / block) * block;
    return tensor->n_bytes > 0 ? qni_min_i64(n_bytes, tensor->n_bytes) : n_bytes;
}

static qn_status measure(const qn_plan *plan, const qni_item *item, bool keeps_rows,
                         qni_geometry *out_geometry, qn_error *err)
{
    (void)plan;
    (void)keeps_rows;
    (void)err;
    const qn_tensor_info *tensor = item->inputs[0].tensor;
    const int64_t unit = unit_bytes_of(tensor);
    *out_geometry = (qni_geometry){
        .n_units = tensor->n_bytes / unit + (tensor->n_bytes % unit != 0), .unit_in_bytes = unit};
    return QN_OK;
}

/* Where in the tensor a bad block lies: asked only when there is one. */
static qn_status find_bad(const qni_chunk *chunk, const qn_tensor_info *tensor, qn_error *err)
{
    const int64_t n_block_bytes = qn_dtype_block_bytes(tensor->dtype);
    const int64_t n_blocks = chunk->n_in_bytes / n_block_bytes;
    for (int64_t i = 0; i < n_blocks; i++) {
        const qn_status st = qn_validate_rows(tensor->dtype, chunk->in + i * n_block_bytes,
                                              n_block_bytes, 0, 0, NULL);
        if (st == QN_OK) {
            continue;
        }
        const int64_t block = chunk->first_unit * (unit_bytes_of(tensor) / n_block_bytes) + i;
        const int64_t elem = block * qn_dtype_block_elems(tensor->dtype);
        return qni_fail(err, st, tensor->file_offset + block * n_block_bytes,
                        "row %" PRId64 ", %s %" PRId64 " (%s) %s; the input is damaged: nothing "
                        "good can be made of it",
                        elem / tensor->ne[0], n_block_bytes > 8 ? "the block at column" : "column",
                        elem % tensor->ne[0], qn_dtype_name(tensor->dtype),
                        st == QN_ERR_INVALID_BLOCK ? "has a scale that is NaN or infinite"
                                                   : "is NaN or infinite");
    }
    return QN_OK;
}

static qn_status run(const qni_chunk *chunk, qn_error *err)
{
    const qn_tensor_info *tensor = chunk->item->inputs[0].tensor;
    const qn_status st = qn_validate_rows(tensor->dtype, chunk->in, chunk->n_in_bytes, 0, 0, err);
    if (st == QN_ERR_NON_FINITE_VALUE || st == QN_ERR_INVALID_BLOCK) {
        return find_bad(chunk, tensor, err);
    }
    return st;
}

const qni_recipe qni_recipe_copy = {QN_RECIPE_COPY, "copy", true, measure, run, NULL};

/* --- the same without a look at the values ---------------------------------------------------- */

static qn_status run_unchecked(const qni_chunk *chunk, qn_error *err)
{
    (void)chunk;
    (void)err;
    return QN_OK;
}

const qni_recipe qni_recipe_read = {QN_RECIPE_COPY, "read", true, measure, run_unchecked, NULL};
