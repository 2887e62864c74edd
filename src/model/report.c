/* report.c — how far the new values are from the old ones: sums in double precision, row by row,
 * added in row order, so that no figure depends on threads or chunks. */
#include <math.h>

#include "codec/codec.h"
#include "model/adapter_internal.h"
#include "model/stream_internal.h"

/* Sums over elements, of one row or of a tensor. x: old, y: new, w: importance. */
struct qni_error_sums {
    int64_t n_elems;
    double xx;
    double yy;
    double xy;
    double dd; /* (y - x)^2 */
    double w_xx;
    double w_dd;
    double max; /* |y - x| */
};

static qn_status new_notes(qn_run *run, qn_error *err)
{
    const size_t n_bytes = (size_t)run->plan->n_items * sizeof *run->notes;
    run->notes = qni_alloc_zeroed(run->allocator, n_bytes);
    return run->notes != NULL ? QN_OK : qni_fail_memory(err, n_bytes);
}

qn_status qni_report_new(qn_run *run, qn_error *err)
{
    if (run->options.want_errors || qni_report_has_merge(run->plan)) {
        QN_TRY(new_notes(run, err));
    }
    if (!run->options.want_errors) {
        return QN_OK;
    }
    const size_t n_bytes = (size_t)run->plan->n_items * sizeof *run->errors;
    run->errors = qni_alloc_zeroed(run->allocator, n_bytes);
    return run->errors != NULL ? QN_OK : qni_fail_memory(err, n_bytes);
}

bool qni_report_has_merge(const qn_plan *plan)
{
    for (int64_t i = 0; i < plan->n_items; i++) {
        if (plan->items[i].edits != NULL) {
            return true;
        }
    }
    return false;
}

void qni_report_free(qn_run *run)
{
    qni_free(run->allocator, run->notes, (size_t)run->plan->n_items * sizeof *run->notes);
    qni_free(run->allocator, run->errors, (size_t)run->plan->n_items * sizeof *run->errors);
}

static bool is_measured(const qn_run *run, const qni_item *item)
{
    return run->errors != NULL && !item->recipe->is_verbatim && item->n_outputs > 0;
}

int64_t qni_report_bytes(const qn_run *run, const qni_item *item, int64_t n_units)
{
    if (!is_measured(run, item)) {
        return 0;
    }
    /* the decoded rows (of a sum of planes: one more copy) and the sums of each; 64 for their
     * alignment */
    int64_t n_bytes;
    const int64_t n_copies = item->n_outputs > 1 ? 2 : 1;
    const int64_t per_unit = item->inputs[0].tensor->ne[0] * n_copies * (int64_t)sizeof(float) +
                             (int64_t)sizeof(qni_error_sums);
    return qni_mul_i64(n_units, per_unit, &n_bytes) ? n_bytes + 64 : INT64_MAX / 2;
}

static qni_error_sums row_sums(const float *x, const float *y, const float *w, int64_t n)
{
    qni_error_sums sum = {.n_elems = n};
    for (int64_t i = 0; i < n; i++) {
        const double old_value = (double)x[i];
        const double new_value = (double)y[i];
        const double difference = new_value - old_value;
        const double weight = w != NULL ? (double)w[i] : 1.0;
        sum.xx += old_value * old_value;
        sum.yy += new_value * new_value;
        sum.xy += old_value * new_value;
        sum.dd += difference * difference;
        sum.w_xx += weight * old_value * old_value;
        sum.w_dd += weight * difference * difference;
        sum.max = fmax(sum.max, fabs(difference));
    }
    return sum;
}

static void add_sums(qni_error_sums *to, const qni_error_sums *one)
{
    to->n_elems += one->n_elems;
    to->xx += one->xx;
    to->yy += one->yy;
    to->xy += one->xy;
    to->dd += one->dd;
    to->w_xx += one->w_xx;
    to->w_dd += one->w_dd;
    to->max = fmax(to->max, one->max);
}

/* What a reader will see of a chunk's rows: the sum of the item's outputs, in their order. `more`
 * is room for another copy of the rows, used when there are several. */
static qn_status decode_outputs(const qni_chunk *chunk, float *rows, float *more, qn_error *err)
{
    const int64_t n_elems = chunk->n_units * chunk->item->inputs[0].tensor->ne[0];
    for (int32_t k = 0; k < chunk->item->n_outputs; k++) {
        const qn_dtype dtype = chunk->plan->tensors[chunk->item->first_output + k].dtype;
        int64_t offset, n_bytes;
        const uint8_t *bytes = qni_chunk_output(chunk, k, &offset, &n_bytes);
        QN_TRY(qn_decode_isa(dtype, chunk->isa, bytes, n_bytes / qn_dtype_block_bytes(dtype),
                             k == 0 ? rows : more, err));
        for (int64_t i = 0; k > 0 && i < n_elems; i++) {
            rows[i] += more[i];
        }
    }
    return QN_OK;
}

/* The rows' sums lie first in `rest`, the decoded rows after them. */
qn_status qni_report_measure(const qn_run *run, const qni_chunk *chunk, uint8_t *rest,
                             qn_error *err)
{
    const qni_item *item = chunk->item;
    if (!is_measured(run, item)) {
        return QN_OK;
    }
    const qn_tensor_info *source = item->inputs[0].tensor;
    const int64_t row_len = source->ne[0];
    const int64_t n_sums = (chunk->n_units * (int64_t)sizeof(qni_error_sums) + 63) / 64 * 64;
    void *sums_at = rest;
    void *rows_at = rest + n_sums;
    qni_error_sums *sums = sums_at;
    float *rows = rows_at;
    QN_TRY(decode_outputs(chunk, rows, rows + chunk->n_units * row_len, err));
    for (int64_t i = 0; i < chunk->n_units; i++) {
        const int64_t expert = (chunk->first_unit + i) / source->ne[1];
        const float *w = item->weights != NULL ? item->weights + expert * row_len : NULL;
        sums[i] = row_sums(chunk->scratch + i * row_len, rows + i * row_len, w, row_len);
    }
    return QN_OK;
}

void qni_report_add(qn_run *run, const qni_chunk *chunk, const uint8_t *rest)
{
    const qni_task *task = &run->tasks[chunk->item - run->plan->items];
    if (run->notes != NULL && !task->was_done && chunk->item->recipe->add_notes != NULL) {
        chunk->item->recipe->add_notes(chunk, &run->notes[chunk->item - run->plan->items]);
    }
    if (run->errors == NULL) {
        return;
    }
    qni_error_sums *to = &run->errors[chunk->item - run->plan->items];
    if (!is_measured(run, chunk->item)) {
        const qn_tensor_info *source = chunk->item->inputs[0].tensor;
        to->n_elems += chunk->n_in_bytes / qn_dtype_block_bytes(source->dtype) *
                       qn_dtype_block_elems(source->dtype);
        return;
    }
    for (int64_t i = 0; i < chunk->n_units; i++) {
        qni_error_sums one;
        memcpy(&one, rest + (size_t)i * sizeof one, sizeof one);
        add_sums(to, &one);
    }
}

static double ratio(double part, double whole)
{
    return part == 0 ? 0 : sqrt(part / whole);
}

bool qn_run_item_errors(const qn_run *run, int64_t item, qn_item_errors *out_errors)
{
    if (run->errors == NULL || item < 0 || item >= run->plan->n_items ||
        !run->tasks[item].is_done) {
        return false;
    }
    const qni_error_sums *sum = &run->errors[item];
    const bool is_same = sum->dd == 0;
    *out_errors = (qn_item_errors){
        .n_elems = sum->n_elems,
        .rmse = is_same ? 0 : sqrt(sum->dd / (double)sum->n_elems),
        .relative_error = ratio(sum->dd, sum->xx),
        .weighted_error = ratio(sum->w_dd, sum->w_xx),
        .max_error = sum->max,
        .cosine = is_same ? 1 : sum->xy / sqrt(sum->xx * sum->yy),
    };
    return true;
}

bool qn_run_item_planes(const qn_run *run, int64_t item, qn_item_planes *out_planes)
{
    if (run->notes == NULL || item < 0 || item >= run->plan->n_items || !run->tasks[item].is_done ||
        run->notes[item].planes.n_planes == 0) {
        return false;
    }
    *out_planes = run->notes[item].planes;
    return true;
}

bool qn_run_item_merge(const qn_run *run, int64_t item, qn_item_merge *out_merge)
{
    if (run->notes == NULL || item < 0 || item >= run->plan->n_items || !run->tasks[item].is_done ||
        run->plan->items[item].edits == NULL) {
        return false;
    }
    const qni_item_notes *notes = &run->notes[item];
    *out_merge = (qn_item_merge){sqrt(notes->delta2), sqrt(notes->weight2)};
    return notes->n_rows == run->tasks[item].geometry.n_units;
}
