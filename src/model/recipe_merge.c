/* recipe_merge.c — decode rows, merge adapters into them, encode.
 *
 * Of each element, in f32, every operation rounded on its own and never fused:
 *
 *     acc = 0;  for k = 0 ... r - 1:  acc = acc + B[o][k] * A[k][i];  w = w + scale * acc
 *
 * Lanes of vectors lie along i and rows are independent, so the bits do not depend on instruction
 * set, threads or chunks. A row whose row of B is zero keeps its bits. DoRA then scales the row by
 * its magnitude over its norm, the norm summed in double in eight lanes whatever the machine.
 *
 * Experts whose B are woven into one another are read many at a time, see adapter_matrix.c.
 *
 * A worker keeps A as a panel of rows from chunk to chunk; a longer A goes through the panel in
 * pieces of rows, which the order of k allows. The panel's stride is padded, so that the rows of
 * one column do not fall into one set of the cache. */
#include <math.h>

#include "codec/codec.h"
#include "model/adapter_internal.h"
#include "model/recipe_internal.h"

/* A panel that stays in the second or third cache beside its rows; of a 7B model at rank 64 A fits.
 */
#define PANEL_BYTES (INT64_C(4) << 20)

enum { LANES = 8, LINE_FLOATS = 16 };

/* What a worker keeps. */
typedef struct kept {
    qni_matrix_room room;
    int64_t edit; /* whose A the panel holds, -1: none */
    int64_t first_k;
} kept;

/* What a chunk leaves for the report, one a row. */
typedef struct row_note {
    double delta2;
    double weight2;
    double is_touched; /* 1 or 0: its bytes are not the input's */
} row_note;

/* Where the pieces of a chunk's scratch and of the kept memory are. */
typedef struct merge_space {
    int64_t row_len;
    int64_t max_rank;
    int64_t panel_stride;
    int64_t panel_rows;
    float *rows; /* n_units x row_len each */
    float *sums;
    float *b; /* n_units x max_rank */
    row_note *notes;
    kept *kept;
    float *panel;
    float *was;   /* one row of the base */
    float *woven; /* of experts */
    int64_t n_woven;
} merge_space;

/* --- space ------------------------------------------------------------------------------------ */

static int64_t max_rank_of(const qni_edits *edits)
{
    int64_t rank = 2;
    for (int64_t i = 0; i < edits->n; i++) {
        rank = qni_max_i64(rank, edits->list[i].rank);
    }
    return rank + rank % 2; /* even, so that what follows is aligned for doubles */
}

/* A row of floats whose length is an odd number of cache lines. */
static int64_t padded(int64_t n)
{
    const int64_t n_lines = (n + LINE_FLOATS - 1) / LINE_FLOATS;
    return (n_lines + 1 - n_lines % 2) * LINE_FLOATS;
}

static int64_t panel_rows_of(int64_t rank, int64_t stride)
{
    const int64_t n_fit = PANEL_BYTES / 4 / stride; /* floats */
    return qni_max_i64(1, qni_min_i64(rank, n_fit));
}

/* Of two adapters with such experts the one would drive out what was read of the other. */
static int64_t woven_floats_of(const qni_edits *edits)
{
    int64_t n = 0;
    for (int64_t i = 0; i < edits->n; i++) {
        const qni_edit *edit = &edits->list[i];
        n = qni_max_i64(n, qni_matrix_woven_floats(&edit->a));
        n = qni_max_i64(n, qni_matrix_woven_floats(&edit->b));
        if (edit->adapter != edits->list[0].adapter) {
            return 0;
        }
    }
    return n;
}

static int64_t kept_floats(const qni_item *item)
{
    const int64_t row_len = item->inputs[0].tensor->ne[0];
    const int64_t stride = padded(row_len);
    return panel_rows_of(max_rank_of(item->edits), stride) * stride + row_len +
           woven_floats_of(item->edits);
}

static qn_status measure(const qn_plan *plan, const qni_item *item, bool keeps_rows,
                         qni_geometry *out_geometry, qn_error *err)
{
    (void)keeps_rows; /* they always stay */
    QN_TRY(qni_measure_rows(item, out_geometry, err));
    const int64_t row_len = item->inputs[0].tensor->ne[0];
    const int64_t rank = max_rank_of(item->edits);
    QN_CHECK(row_len <= INT64_MAX / 64 && rank <= INT64_MAX / 64, err, QN_ERR_OVERFLOW, -1,
             "a row of %" PRId64 " elements is too long", row_len);
    out_geometry->unit_scratch_bytes =
        (2 * row_len + rank) * (int64_t)sizeof(float) + (int64_t)sizeof(row_note);
    out_geometry->kept_bytes = (int64_t)sizeof(kept) + LINE_FLOATS * (int64_t)sizeof(float) +
                               kept_floats(item) * (int64_t)sizeof(float);
    return qn_dtype_row_bytes(qni_plan_target(plan, item)->dtype, row_len,
                              &out_geometry->unit_out_bytes[0], err);
}

static merge_space space_of(const qni_chunk *chunk)
{
    const qni_edits *edits = chunk->item->edits;
    merge_space space = {.row_len = chunk->item->inputs[0].tensor->ne[0],
                         .max_rank = max_rank_of(edits),
                         .kept = chunk->kept};
    const int64_t n = chunk->n_units;
    space.rows = chunk->scratch;
    space.sums = space.rows + n * space.row_len;
    space.b = space.sums + n * space.row_len;
    void *notes_at = space.b + n * space.max_rank;
    space.notes = notes_at;
    space.panel_stride = padded(space.row_len);
    space.panel_rows = panel_rows_of(space.max_rank, space.panel_stride);
    void *panel_at = (uint8_t *)chunk->kept + (sizeof(kept) + 63) / 64 * 64;
    space.panel = panel_at;
    space.was = space.panel + space.panel_rows * space.panel_stride;
    space.woven = space.was + space.row_len;
    space.n_woven = woven_floats_of(edits);
    return space;
}

/* --- pairs ------------------------------------------------------------------------------------ */

/* Rows of one edit inside a chunk: `at` in the chunk, `first` in the edit. */
typedef struct span {
    int64_t at;
    int64_t first;
    int64_t n;
} span;

static span overlap(const qni_chunk *chunk, const qni_edit *edit)
{
    const int64_t from = qni_max_i64(chunk->first_unit, edit->first_row);
    const int64_t to =
        qni_min_i64(chunk->first_unit + chunk->n_units, edit->first_row + edit->n_rows);
    return (span){from - chunk->first_unit, from - edit->first_row, qni_max_i64(0, to - from)};
}

static qn_status load_panel(const merge_space *space, const qni_edits *edits, int64_t index,
                            int64_t first_k, int64_t n_k, qn_error *err)
{
    kept *k = space->kept;
    if (k->edit == index && k->first_k == first_k) {
        return QN_OK;
    }
    k->edit = -1;
    QN_TRY(qni_matrix_read(&edits->list[index].a, first_k, n_k, &k->room, space->panel,
                           space->panel_stride, err));
    k->edit = index;
    k->first_k = first_k;
    return QN_OK;
}

/* sums = B A for the rows of a span. */
static qn_status multiply(const qni_chunk *chunk, const merge_space *space, int64_t index,
                          const span *rows, qn_error *err)
{
    const qni_edits *edits = chunk->item->edits;
    const qni_edit *edit = &edits->list[index];
    float *sums = space->sums + rows->at * space->row_len;
    memset(sums, 0, (size_t)(rows->n * space->row_len) * sizeof *sums);
    QN_TRY(qni_matrix_read(&edit->b, rows->first, rows->n, &space->kept->room, space->b, edit->rank,
                           err));
    for (int64_t k = 0; k < edit->rank; k += space->panel_rows) {
        const int64_t n_k = qni_min_i64(space->panel_rows, edit->rank - k);
        QN_TRY(load_panel(space, edits, index, k, n_k, err));
        const qni_spread_tile tile = {.w = space->panel,
                                      .w_stride = space->panel_stride,
                                      .n_rows = n_k,
                                      .s = space->b + k,
                                      .s_stride = edit->rank,
                                      .n_cols = rows->n,
                                      .n_elems = space->row_len,
                                      .y = sums,
                                      .y_stride = space->row_len};
        qni_kernel_lora(QN_DTYPE_F32, chunk->isa)(&tile);
    }
    return QN_OK;
}

static bool is_zero(const float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        if (x[i] != 0.0f) {
            return false;
        }
    }
    return true;
}

static void add_scaled(float *w, const float *sum, float scale, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        w[i] = w[i] + scale * sum[i];
    }
}

/* Lanes are added in one order. */
static double total(const double lanes[LANES])
{
    return ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) +
           ((lanes[4] + lanes[5]) + (lanes[6] + lanes[7]));
}

static double sum_squares(const float *x, int64_t n)
{
    double lanes[LANES] = {0};
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        for (int64_t l = 0; l < LANES; l++) {
            const double v = (double)x[i + l];
            lanes[l] += v * v;
        }
    }
    for (; i < n; i++) {
        lanes[i % LANES] += (double)x[i] * (double)x[i];
    }
    return total(lanes);
}

static double sum_difference_squares(const float *x, const float *y, int64_t n)
{
    double lanes[LANES] = {0};
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        for (int64_t l = 0; l < LANES; l++) {
            const double v = (double)x[i + l] - (double)y[i + l];
            lanes[l] += v * v;
        }
    }
    for (; i < n; i++) {
        const double v = (double)x[i] - (double)y[i];
        lanes[i % LANES] += v * v;
    }
    return total(lanes);
}

static qn_status scale_to_magnitude(const merge_space *space, const qni_edit *edit, int64_t row,
                                    float *w, qn_error *err)
{
    float magnitude;
    QN_TRY(qni_matrix_read(&edit->magnitude, row, 1, &space->kept->room, &magnitude, 1, err));
    const double norm = sqrt(sum_squares(w, space->row_len));
    QN_CHECK(norm > 0, err, QN_ERR_INVALID_ADAPTER, -1,
             "row %" PRId64 " is zero and cannot be scaled to a magnitude (DoRA)", row);
    const double factor = (double)magnitude / norm;
    for (int64_t i = 0; i < space->row_len; i++) {
        w[i] = (float)((double)w[i] * factor);
    }
    return QN_OK;
}

static qn_status merge_pair(const qni_chunk *chunk, const merge_space *space, int64_t index,
                            const span *rows, qn_error *err)
{
    const qni_edit *edit = &chunk->item->edits->list[index];
    QN_TRY(multiply(chunk, space, index, rows, err));
    for (int64_t i = 0; i < rows->n; i++) {
        float *w = space->rows + (rows->at + i) * space->row_len;
        const bool has_delta = !is_zero(space->b + i * edit->rank, edit->rank);
        if (has_delta) {
            add_scaled(w, space->sums + (rows->at + i) * space->row_len, edit->scale,
                       space->row_len);
        }
        if (edit->magnitude.tensor != NULL) {
            QN_TRY(scale_to_magnitude(space, edit, rows->first + i, w, err));
        }
        if (has_delta || edit->magnitude.tensor != NULL) {
            space->notes[rows->at + i].is_touched = 1;
        }
    }
    return QN_OK;
}

/* --- whole tensors and vectors ---------------------------------------------------------------- */

static qn_status replace_rows(const merge_space *space, const qni_edit *edit, const span *rows,
                              qn_error *err)
{
    float *w = space->rows + rows->at * space->row_len;
    QN_TRY(qni_matrix_read(&edit->b, rows->first, rows->n, &space->kept->room, w, space->row_len,
                           err));
    for (int64_t i = 0; i < rows->n; i++) {
        space->notes[rows->at + i].is_touched = 1;
    }
    return QN_OK;
}

/* The tensor is one row, the adapter's vector a column. */
static qn_status edit_vector(const merge_space *space, const qni_edit *edit, qn_error *err)
{
    float *w = space->rows + edit->first_row;
    float *value = space->sums + edit->first_row;
    QN_TRY(qni_matrix_read(&edit->b, 0, edit->n_rows, &space->kept->room, value, 1, err));
    for (int64_t i = 0; i < edit->n_rows; i++) {
        w[i] = edit->kind == QNI_PART_ADD ? w[i] + edit->scale * value[i]
               : edit->adds_one           ? value[i] + 1.0f
                                          : value[i];
    }
    space->notes[0].is_touched = 1;
    return QN_OK;
}

/* --- the recipe ------------------------------------------------------------------------------- */

static qn_status apply(const qni_chunk *chunk, const merge_space *space, qn_error *err)
{
    const qni_edits *edits = chunk->item->edits;
    for (int64_t i = 0; i < edits->n; i++) {
        const qni_edit *edit = &edits->list[i];
        if (edit->is_vector) {
            QN_TRY(edit_vector(space, edit, err));
            continue;
        }
        const span rows = overlap(chunk, edit);
        if (rows.n == 0) {
            continue;
        }
        QN_TRY(edit->kind == QNI_PART_PAIR ? merge_pair(chunk, space, i, &rows, err)
                                           : replace_rows(space, edit, &rows, err));
    }
    return QN_OK;
}

static qn_status take_notes(const qni_chunk *chunk, const merge_space *space, qn_error *err)
{
    const qn_tensor_info *source = chunk->item->inputs[0].tensor;
    const int64_t n_blocks = space->row_len / qn_dtype_block_elems(source->dtype);
    for (int64_t i = 0; i < chunk->n_units; i++) {
        const float *w = space->rows + i * space->row_len;
        row_note *note = &space->notes[i];
        if (note->is_touched == 0) {
            note->weight2 = sum_squares(w, space->row_len);
            continue;
        }
        QN_TRY(qn_decode_isa(source->dtype, chunk->isa,
                             chunk->in + i * chunk->geometry->unit_in_bytes, n_blocks, space->was,
                             err));
        note->weight2 = sum_squares(space->was, space->row_len);
        note->delta2 = sum_difference_squares(w, space->was, space->row_len);
    }
    return QN_OK;
}

/* Rows that nothing has touched keep their bytes where the type is kept: quantized ones would not
 * come out as they went in. */
static void keep_untouched(const qni_chunk *chunk, const merge_space *space)
{
    const qn_tensor_info *target = qni_plan_target(chunk->plan, chunk->item);
    const int64_t n_bytes = chunk->geometry->unit_in_bytes;
    for (int64_t i = 0; i < chunk->n_units; i++) {
        if (space->notes[i].is_touched == 0 &&
            target->dtype == chunk->item->inputs[0].tensor->dtype) {
            memcpy(chunk->out[0] + i * n_bytes, chunk->in + i * n_bytes, (size_t)n_bytes);
        }
    }
}

/* The input was finite, so it is the sum that is not. */
static qn_status explain(qn_status st, qn_error *err)
{
    if (err != NULL && (st == QN_ERR_NON_FINITE_VALUE || st == QN_ERR_SCALE_OVERFLOW)) {
        const qn_error found = *err;
        (void)qni_fail(err, st, found.offset,
                       "%.560s; merged with the adapter it leaves the range of its type: choose a "
                       "wider one, or a smaller --scale",
                       found.message);
    }
    return st;
}

static qn_status run(const qni_chunk *chunk, qn_error *err)
{
    const merge_space space = space_of(chunk);
    if (chunk->is_kept_fresh) {
        qni_matrix_room *room = &space.kept->room;
        space.kept->edit = -1;
        room->woven = space.n_woven > 0 ? space.woven : NULL;
        room->n_woven_max = space.n_woven;
        room->woven_tensor = NULL;
    }
    memset(space.notes, 0, (size_t)chunk->n_units * sizeof *space.notes);
    QN_TRY(qni_decode_rows(chunk, err));
    QN_TRY(apply(chunk, &space, err));
    QN_TRY(take_notes(chunk, &space, err));
    QN_TRY(explain(qni_encode_rows_of(chunk, err), err));
    keep_untouched(chunk, &space);
    return QN_OK;
}

static void add_notes(const qni_chunk *chunk, qni_item_notes *sums)
{
    const merge_space space = space_of(chunk);
    for (int64_t i = 0; i < chunk->n_units; i++) {
        sums->delta2 += space.notes[i].delta2;
        sums->weight2 += space.notes[i].weight2;
    }
    sums->n_rows += chunk->n_units;
}

const qni_recipe qni_recipe_merge = {QN_RECIPE_MERGE, "merge", false, measure, run, add_notes};
