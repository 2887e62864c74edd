/* recipe_planes.c — decode a tensor's rows and fit ternary planes to them (PTQTP). */
#include "codec/codec.h"
#include "kernels/kernels.h"
#include "model/recipe_internal.h"

enum { GROUP = 256 };

static int64_t groups_of_row(const qni_item *item)
{
    return item->inputs[0].tensor->ne[0] / GROUP;
}

static qn_status measure(const qn_plan *plan, const qni_item *item, bool keeps_rows,
                         qni_geometry *out_geometry, qn_error *err)
{
    (void)plan;
    (void)keeps_rows; /* they always stay */
    QN_TRY(qni_measure_rows(item, out_geometry, err));
    const int64_t row_len = item->inputs[0].tensor->ne[0];
    for (int32_t k = 0; k < item->n_outputs; k++) {
        QN_TRY(qn_dtype_row_bytes(QN_DTYPE_TQ2_0, row_len, &out_geometry->unit_out_bytes[k], err));
    }
    /* behind all rows of a chunk lie the results of their groups */
    int64_t n_stats_bytes;
    QN_CHECK(qni_mul_i64(groups_of_row(item), (int64_t)sizeof(qni_ternary_stats), &n_stats_bytes) &&
                 qni_add_i64(out_geometry->unit_scratch_bytes, n_stats_bytes,
                             &out_geometry->unit_scratch_bytes),
             err, QN_ERR_OVERFLOW, -1, "a row of %" PRId64 " elements is too long", row_len);
    return QN_OK;
}

/* Where run() leaves the results of the groups. A row is a multiple of 1 KiB of floats, so they are
 * aligned. */
static qni_ternary_stats *stats_of(const qni_chunk *chunk)
{
    void *at = chunk->scratch + chunk->n_units * chunk->item->inputs[0].tensor->ne[0];
    return at;
}

static qn_status run(const qni_chunk *chunk, qn_error *err)
{
    const qni_item *item = chunk->item;
    const qn_tensor_info *source = item->inputs[0].tensor;
    QN_TRY(qni_decode_rows(chunk, err));
    const int64_t n_elems = chunk->n_units * source->ne[0];
    const int64_t bad = qn_find_non_finite(chunk->scratch, n_elems);
    QN_CHECK(bad < 0, err, QN_ERR_NON_FINITE_VALUE, -1,
             "row %" PRId64 ", column %" PRId64 " is NaN or infinite; the input is damaged",
             chunk->first_unit + bad / source->ne[0], bad % source->ne[0]);
    void *const planes[3] = {chunk->out[0], chunk->out[1], chunk->out[2]};
    qni_kernel_fit(QN_DTYPE_TQ2_0, chunk->isa)(chunk->scratch, n_elems / GROUP, item->n_outputs,
                                               item->is_tied, planes, stats_of(chunk));
    return QN_OK;
}

static void add_notes(const qni_chunk *chunk, qni_item_notes *notes)
{
    qn_item_planes *sums = &notes->planes;
    const int64_t n_groups = chunk->n_units * groups_of_row(chunk->item);
    const qni_ternary_stats *stats = stats_of(chunk);
    sums->n_planes = chunk->item->n_outputs;
    sums->n_groups += n_groups;
    for (int64_t g = 0; g < n_groups; g++) {
        sums->n_iterations += stats[g].n_iterations;
        sums->n_unsettled += !stats[g].is_settled;
        for (int p = 0; p < QN_MAX_PLANES; p++) {
            sums->n_zeros[p] += stats[g].n_zeros[p];
        }
    }
}

const qni_recipe qni_recipe_planes = {
    QN_RECIPE_PLANES, "planes", false, measure, run, add_notes,
};
