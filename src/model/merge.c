/* merge.c — qn_merge_open(): the parts of all adapters matched with a model's tensors, and the
 * merged model, a source that shares the base's files. */
#include <math.h>

#include "model/adapter_internal.h"

#define RECORD_KEY "quench.merged_adapters"
#define EMBEDDING  "token_embd.weight"
#define OUTPUT     "output.weight"

/* --- the merged model ------------------------------------------------------------------------- */

static int64_t find(const qn_merge *merge, const char *name)
{
    return qn_model_find(&merge->model, name, (int64_t)strlen(name));
}

static qn_status add_tensor(qn_merge *merge, const qn_tensor_info *info, qn_error *err)
{
    qn_model *model = &merge->model;
    int64_t existing;
    model->tensors[model->n_tensors] = *info;
    QN_TRY(qni_strmap_add(&model->by_name, info->name, info->n_name, model->n_tensors, &existing,
                          err));
    model->n_tensors++;
    return QN_OK;
}

/* Room for one tensor more than the base has: an output.weight of its own. */
static qn_status copy_model(qn_merge *merge, qn_error *err)
{
    const qn_model *base = merge->base;
    qn_model *model = &merge->model;
    const int64_t n = base->n_tensors + 1;
    *model = (qn_model){.allocator = merge->allocator,
                        .container = base->container,
                        .files = base->files,
                        .n_files = base->n_files,
                        .metadata = base->metadata};
    model->arena.allocator = merge->allocator;
    qni_strmap_init(&model->by_name, merge->allocator);
    model->tensors = qni_arena_alloc(&merge->arena, (size_t)n * sizeof *model->tensors);
    merge->edits = qni_arena_alloc(&merge->arena, (size_t)n * sizeof *merge->edits);
    merge->changed = qni_arena_alloc(&merge->arena, (size_t)n * sizeof *merge->changed);
    if (model->tensors == NULL || merge->edits == NULL || merge->changed == NULL) {
        return qni_fail_memory(err, (size_t)n * sizeof *model->tensors);
    }
    memset(merge->edits, 0, (size_t)n * sizeof *merge->edits);
    model->edits = merge->edits;
    QN_TRY(qni_strmap_reserve(&model->by_name, n, err));
    for (int64_t i = 0; i < base->n_tensors; i++) {
        QN_TRY(add_tensor(merge, &base->tensors[i], err));
    }
    return QN_OK;
}

static bool is_tied(const qn_merge *merge)
{
    return find(merge, OUTPUT) < 0 && find(merge, EMBEDDING) >= 0;
}

static qn_status append(qn_merge *merge, int64_t index, const qni_edit *edit, qn_error *err)
{
    qni_edits *edits = &merge->edits[index];
    if (edits->n == edits->n_max) {
        const int64_t n_max = edits->n_max > 0 ? 2 * edits->n_max : 1;
        qni_edit *list = qni_arena_alloc(&merge->arena, (size_t)n_max * sizeof *list);
        if (list == NULL) {
            return qni_fail_memory(err, (size_t)n_max * sizeof *list);
        }
        if (edits->n > 0) {
            memcpy(list, edits->list, (size_t)edits->n * sizeof *list);
        }
        edits->list = list;
        edits->n_max = n_max;
    }
    edits->list[edits->n++] = *edit;
    return QN_OK;
}

/* Give the model an output.weight: the rows of token_embd.weight as they are, with what adapters
 * before this one have made of both. */
static qn_status untie(qn_merge *merge, const char *what, qn_error *err)
{
    QN_CHECK(qni_may_untie(&merge->facts), err, QN_ERR_UNSUPPORTED_ADAPTER, -1,
             "the model uses token_embd.weight for its output too, and %s; architecture %s cannot "
             "have an output.weight of its own, so this cannot be merged exactly",
             what, merge->facts.architecture);
    QN_CHECK(merge->options.do_untie, err, QN_ERR_UNSUPPORTED_ADAPTER, -1,
             "the model uses token_embd.weight for its output too (tied), and %s; with --untie it "
             "gets an output.weight of its own, and the merge is exact",
             what);
    const int64_t embedding = find(merge, EMBEDDING);
    const int64_t output = merge->model.n_tensors;
    qn_tensor_info info = merge->model.tensors[embedding];
    info.name = OUTPUT;
    info.n_name = (int64_t)strlen(OUTPUT);
    merge->edits[output].is_new = true;
    QN_TRY(add_tensor(merge, &info, err));
    for (int64_t i = 0; i < merge->edits[embedding].n; i++) {
        qni_edit edit = merge->edits[embedding].list[i];
        edit.is_repeat = true;
        QN_TRY(append(merge, output, &edit, err));
    }
    return QN_OK;
}

/* --- matching --------------------------------------------------------------------------------- */

static qn_status find_target(qn_merge *merge, const qni_part *part, int64_t *out_index,
                             qn_error *err)
{
    const bool was_tied = is_tied(merge);
    qni_name_text text;
    if (was_tied && strcmp(part->target, OUTPUT) == 0) {
        QN_TRY(untie(merge, "the adapter changes the output alone", err));
    } else if (was_tied && strcmp(part->target, EMBEDDING) == 0) {
        /* models without any output, such as bert, have nothing that would be changed by it */
        if (strcmp(merge->facts.architecture, "bert") != 0 && !merge->is_tied_on_purpose) {
            QN_TRY(untie(merge, "the adapter changes the embedding alone", err));
        }
    }
    *out_index = find(merge, part->target);
    QN_CHECK(*out_index >= 0, err, QN_ERR_INVALID_ADAPTER, -1, "the model has no tensor %s; %s",
             qni_escape_name(part->target, (int64_t)strlen(part->target), &text),
             qni_ends_with(part->target, ".bias")
                 ? "a bias can only be merged where the model has one"
                 : "the adapter belongs to another model");
    return QN_OK;
}

static qn_status check_type(const qn_merge *merge, const qn_tensor_info *tensor, qn_error *err)
{
    switch (tensor->dtype) {
    case QN_DTYPE_F32:
    case QN_DTYPE_F16:
    case QN_DTYPE_BF16:
        return QN_OK;
    default:
        break;
    }
    QN_CHECK(qn_dtype_is_quantized(tensor->dtype), err, QN_ERR_INVALID_ADAPTER, -1,
             "%s is %s in the model: no weights that could be adapted", tensor->name,
             qn_dtype_name(tensor->dtype));
    QN_CHECK(merge->options.allow_requantize, err, QN_ERR_REQUANTIZE_REFUSED, -1,
             "%s is %s in the model: merging would quantize it a second time; merge into the float "
             "model and quantize in the same pass, or allow it with --allow-requantize",
             tensor->name, qn_dtype_name(tensor->dtype));
    return QN_OK;
}

/* NVFP4 and its kin keep a factor of the whole tensor beside it: "blk.0.ffn_up.scale". */
static qn_status check_companion(const qn_merge *merge, const qn_tensor_info *tensor, qn_error *err)
{
    char name[256];
    const size_t n = (size_t)tensor->n_name;
    if (!qni_ends_with(tensor->name, ".weight") || n + 1 > sizeof name) {
        return QN_OK;
    }
    (void)snprintf(name, sizeof name, "%.*s.scale", (int)(n - 7), tensor->name);
    QN_CHECK(find(merge, name) < 0, err, QN_ERR_UNSUPPORTED_ADAPTER, -1,
             "%s has a scale of its own in the tensor %s; merge into the float model", tensor->name,
             name);
    return QN_OK;
}

static qn_status check_columns(const qni_part *part, const qn_tensor_info *tensor, int64_t n_cols,
                               const char *what, qn_error *err)
{
    QN_CHECK(n_cols == tensor->ne[0], err, QN_ERR_INVALID_ADAPTER, -1,
             "%s has %" PRId64 " columns, but %s in the model has rows of %" PRId64
             "; the adapter belongs to another model",
             what, n_cols, part->target, tensor->ne[0]);
    return QN_OK;
}

static qn_status check_rows(const qni_part *part, int64_t n_target, int64_t *out_n_rows,
                            qn_error *err)
{
    const int64_t n = part->b.n_rows;
    *out_n_rows = n;
    if (part->may_be_longer && n > n_target) {
        *out_n_rows = n_target;
        return QN_OK;
    }
    if (part->is_window && n <= n_target - part->first_row) {
        return QN_OK;
    }
    QN_CHECK(n == n_target, err, QN_ERR_INVALID_ADAPTER, -1,
             "it has %" PRId64 " rows, but %s in the model has %" PRId64 "%s", n, part->target,
             n_target,
             part->kind == QNI_PART_REPLACE && n > n_target
                 ? "; for more tokens the model would need another tokenizer"
                 : "; the adapter belongs to another model");
    return QN_OK;
}

/* A one-dimensional tensor is one row to the executor. */
static qn_status match_vector(const qni_part *part, const qn_tensor_info *tensor, qni_edit *edit,
                              qn_error *err)
{
    QN_CHECK(part->kind != QNI_PART_PAIR, err, QN_ERR_INVALID_ADAPTER, -1,
             "%s is a vector in the model and cannot take a pair", part->target);
    QN_CHECK(part->b.n_cols == 1, err, QN_ERR_INVALID_ADAPTER, -1,
             "%s is a vector in the model, but the adapter has a matrix", part->target);
    QN_TRY(check_rows(part, tensor->ne[0], &edit->n_rows, err));
    edit->is_vector = true;
    edit->first_row = part->first_row; /* a column */
    return QN_OK;
}

static qn_status match_matrix(const qni_part *part, const qn_tensor_info *tensor, qni_edit *edit,
                              qn_error *err)
{
    QN_CHECK(part->kind != QNI_PART_ADD, err, QN_ERR_INVALID_ADAPTER, -1,
             "%s is no vector in the model", part->target);
    QN_CHECK(tensor->n_dims == (part->slice >= 0 ? 3 : 2), err, QN_ERR_INVALID_ADAPTER, -1,
             "%s has %d dimensions in the model; %s", part->target, (int)tensor->n_dims,
             part->slice >= 0 ? "the adapter has pairs for a stack of experts"
                              : "the adapter has a pair for a matrix");
    QN_CHECK(part->slice < tensor->ne[2], err, QN_ERR_INVALID_ADAPTER, -1,
             "there is no expert %d in the model, only %" PRId64, (int)part->slice, tensor->ne[2]);
    QN_TRY(check_columns(part, tensor,
                         part->kind == QNI_PART_PAIR ? part->a.n_cols : part->b.n_cols,
                         part->kind == QNI_PART_PAIR ? "A" : "it", err));
    QN_TRY(check_rows(part, tensor->ne[1], &edit->n_rows, err));
    const int64_t slice = part->slice >= 0 ? part->slice : 0;
    edit->first_row = slice * tensor->ne[1] + part->first_row;
    return QN_OK;
}

static qn_status set_scale(const qn_merge *merge, const qni_part *part, qni_edit *edit,
                           qn_error *err)
{
    const double scale = part->kind == QNI_PART_REPLACE ? 1 : part->scale * merge->options.strength;
    edit->scale = (float)scale;
    edit->own_scale = (float)part->scale;
    QN_CHECK(isfinite(edit->scale), err, QN_ERR_INVALID_ADAPTER, -1,
             "the scale, %g, is not a number that can be used", scale);
    return QN_OK;
}

/* Weights are floats, in a GGUF also blocks. */
static qn_status check_source(const qni_matrix *m, qn_error *err)
{
    if (m->tensor == NULL || qn_dtype_is_quantized(m->tensor->dtype)) {
        return QN_OK;
    }
    switch (m->tensor->dtype) {
    case QN_DTYPE_F32:
    case QN_DTYPE_F16:
    case QN_DTYPE_BF16:
    case QN_DTYPE_F64:
        return QN_OK;
    default:
        return qni_fail(err, QN_ERR_INVALID_ADAPTER, -1,
                        "%s is of type %s; an adapter's weights are floats", m->tensor->name,
                        qn_dtype_name(m->tensor->dtype));
    }
}

static qn_status match_part(qn_merge *merge, const qni_part *part, qn_error *err)
{
    int64_t index;
    QN_TRY(check_source(&part->a, err));
    QN_TRY(check_source(&part->b, err));
    QN_TRY(check_source(&part->magnitude, err));
    QN_TRY(find_target(merge, part, &index, err));
    const qn_tensor_info *tensor = &merge->model.tensors[index];
    qni_edit edit = {.kind = part->kind,
                     .key = part->key,
                     .a = part->a,
                     .b = part->b,
                     .magnitude = part->magnitude,
                     .rank = part->kind == QNI_PART_PAIR ? part->a.n_rows : 0,
                     .adds_one = part->adds_one,
                     .adapter = merge->n_adapters};
    QN_TRY(tensor->n_dims == 1 ? match_vector(part, tensor, &edit, err)
                               : match_matrix(part, tensor, &edit, err));
    QN_TRY(check_type(merge, tensor, err));
    QN_TRY(check_companion(merge, tensor, err));
    QN_TRY(set_scale(merge, part, &edit, err));
    return append(merge, index, &edit, err);
}

static qn_status match_parts(qn_merge *merge, const qni_adapter_job *job, qn_error *err)
{
    for (int64_t i = 0; i < job->n_parts; i++) {
        const qni_part *part = &job->parts[i];
        const qn_status st = match_part(merge, part, err);
        if (st != QN_OK) {
            return qni_adapter_blame(job, part->key, st, err);
        }
        job->adapter->n_pairs += part->kind == QNI_PART_PAIR;
        job->adapter->n_replaced += part->kind == QNI_PART_REPLACE;
    }
    QN_CHECK(job->n_parts > 0, err, QN_ERR_INVALID_ADAPTER, -1,
             "the adapter holds nothing that could be merged");
    return QN_OK;
}

/* --- twins ------------------------------------------------------------------------------------ */

static int64_t find_part(const qni_adapter_job *job, const char *target)
{
    for (int64_t i = 0; i < job->n_parts; i++) {
        if (strcmp(job->parts[i].target, target) == 0) {
            return i;
        }
    }
    return -1;
}

typedef struct twin_room {
    qni_matrix_room room;
    float one[QNI_MATRIX_PIECE];
    float other[QNI_MATRIX_PIECE];
} twin_room;

static qn_status is_same_matrix(const qni_matrix *a, const qni_matrix *b, twin_room *room,
                                bool *out, qn_error *err)
{
    *out = (a->tensor == NULL) == (b->tensor == NULL) && a->n_rows == b->n_rows &&
           a->n_cols == b->n_cols && a->n_cols <= QNI_MATRIX_PIECE;
    const int64_t n_block = QNI_MATRIX_PIECE / qni_max_i64(1, a->n_cols);
    for (int64_t row = 0; row < a->n_rows && a->tensor != NULL && *out; row += n_block) {
        const int64_t now = qni_min_i64(n_block, a->n_rows - row);
        QN_TRY(qni_matrix_read(a, row, now, &room->room, room->one, a->n_cols, err));
        QN_TRY(qni_matrix_read(b, row, now, &room->room, room->other, a->n_cols, err));
        *out = memcmp(room->one, room->other, (size_t)(now * a->n_cols) * sizeof(float)) == 0;
    }
    return QN_OK;
}

static qn_status are_twins(const qn_merge *merge, const qni_part *one, const qni_part *other,
                           bool *out, qn_error *err)
{
    *out = one->kind == other->kind && one->scale == other->scale &&
           one->magnitude.tensor == NULL && other->magnitude.tensor == NULL;
    if (!*out) {
        return QN_OK;
    }
    twin_room *room = qni_alloc_zeroed(merge->allocator, sizeof *room);
    if (room == NULL) {
        return qni_fail_memory(err, sizeof *room);
    }
    qn_status st = is_same_matrix(&one->a, &other->a, room, out, err);
    if (st == QN_OK && *out) {
        st = is_same_matrix(&one->b, &other->b, room, out, err);
    }
    qni_free(merge->allocator, room, sizeof *room);
    return st;
}

/* On a tied model PEFT may save one change under both names (ensure_weight_tying, or a tied module
 * in modules_to_save): then the tensor that serves as both is changed once, and exactly. */
static qn_status drop_twin(qn_merge *merge, qni_adapter_job *job, qn_error *err)
{
    const int64_t embedding = find_part(job, EMBEDDING);
    const int64_t output = find_part(job, OUTPUT);
    bool is_twin = false;
    merge->is_tied_on_purpose = false;
    if (!is_tied(merge) || embedding < 0 || output < 0) {
        return QN_OK;
    }
    QN_TRY(are_twins(merge, &job->parts[embedding], &job->parts[output], &is_twin, err));
    if (is_twin) {
        job->parts[output] = job->parts[--job->n_parts];
        merge->is_tied_on_purpose = true;
    }
    return QN_OK;
}

/* --- overlaps --------------------------------------------------------------------------------- */

static int compare_rows(const void *a, const void *b)
{
    const qni_edit *const *x = a;
    const qni_edit *const *y = b;
    const int64_t first[] = {(*x)->first_row, (*y)->first_row};
    return first[0] != first[1] ? (first[0] > first[1]) - (first[0] < first[1])
                                : (*x > *y) - (*x < *y);
}

/* The edits that one adapter makes to a tensor are the last ones of its list. */
static qn_status check_tensor(const qn_merge *merge, int64_t index, int64_t first,
                              const qni_edit **sorted, qn_error *err)
{
    const qni_edits *edits = &merge->edits[index];
    int64_t n = 0;
    for (int64_t i = first; i < edits->n; i++) {
        sorted[n++] = &edits->list[i];
    }
    qsort(sorted, (size_t)n, sizeof *sorted, compare_rows);
    for (int64_t i = 1; i < n; i++) {
        const char *before = sorted[i - 1]->key;
        const char *key = sorted[i]->key;
        qni_name_text one, other;
        QN_CHECK(
            sorted[i - 1]->first_row + sorted[i - 1]->n_rows <= sorted[i]->first_row, err,
            QN_ERR_INVALID_ADAPTER, -1,
            "tensor %s: it changes the same rows of %s as %s; the adapter says one thing twice",
            qni_escape_name(key, (int64_t)strlen(key), &one), merge->model.tensors[index].name,
            qni_escape_name(before, (int64_t)strlen(before), &other));
    }
    return QN_OK;
}

/* First edit of the adapter that was read last, in the list of one tensor. */
static int64_t first_of_last(const qn_merge *merge, const qni_edits *edits)
{
    int64_t first = edits->n;
    while (first > 0 && edits->list[first - 1].adapter == merge->n_adapters) {
        first--;
    }
    return first;
}

/* An adapter may say one thing of a row once. */
static qn_status check_overlaps(const qn_merge *merge, qn_error *err)
{
    int64_t n_max = 0;
    for (int64_t i = 0; i < merge->model.n_tensors; i++) {
        n_max = qni_max_i64(n_max, merge->edits[i].n);
    }
    const qni_edit **sorted = qni_alloc_array(merge->allocator, n_max, sizeof *sorted);
    qn_status st = sorted != NULL ? QN_OK : qni_fail_memory(err, (size_t)n_max * sizeof *sorted);
    for (int64_t i = 0; i < merge->model.n_tensors && st == QN_OK; i++) {
        st = check_tensor(merge, i, first_of_last(merge, &merge->edits[i]), sorted, err);
    }
    qni_free(merge->allocator, sorted, (size_t)n_max * sizeof *sorted);
    return st;
}

static qn_status read_adapter(qn_merge *merge, const char *path, qn_error *err)
{
    qni_adapter_job job = {.base = merge->base,
                           .facts = &merge->facts,
                           .options = &merge->options,
                           .arena = &merge->arena,
                           .adapter = &merge->adapters[merge->n_adapters]};
    qn_status st = qni_adapter_read(&job, path, err);
    if (st == QN_OK) {
        st = drop_twin(merge, &job, err);
    }
    if (st == QN_OK) {
        st = match_parts(merge, &job, err);
    }
    if (st == QN_OK) {
        st = check_overlaps(merge, err);
    }
    qni_free(merge->allocator, job.parts, (size_t)job.n_parts_max * sizeof *job.parts);
    merge->n_adapters++; /* from now on closed with the merge */
    return st == QN_OK ? QN_OK : qni_fail_path(err, st, path);
}

/* --- what changes ----------------------------------------------------------------------------- */

static void drop_zeros(qn_merge *merge, qni_edits *edits)
{
    int64_t n = 0;
    for (int64_t i = 0; i < edits->n; i++) {
        if (edits->list[i].is_zero) {
            merge->adapters[edits->list[i].adapter].n_zero += !edits->list[i].is_repeat;
        } else {
            edits->list[n++] = edits->list[i];
        }
    }
    edits->n = n;
}

static void warn(const qn_merge *merge, const char *message)
{
    if (merge->options.log != NULL) {
        merge->options.log(merge->options.log_ctx, QN_LOG_WARNING, message);
    }
}

static void list_changes(qn_merge *merge)
{
    for (int64_t i = 0; i < merge->model.n_tensors; i++) {
        drop_zeros(merge, &merge->edits[i]);
        if (merge->edits[i].n > 0) {
            merge->changed[merge->n_changed++] = i;
        }
    }
    if (merge->n_changed == 0) {
        warn(merge,
             "nothing changes: all products of the adapters are zero, as before any training");
    }
}

/* --- the record ------------------------------------------------------------------------------- */

static bool base_has_record(const qn_merge *merge, const char *record)
{
    qn_gguf_array array;
    qn_gguf_string text;
    /* up to the strength: the same adapter at another one is still the same adapter */
    const size_t n = strcspn(record, " ");
    if (qn_gguf_get_array(merge->base->metadata, RECORD_KEY, &array, NULL) != QN_OK) {
        return false;
    }
    for (int64_t i = 0; i < array.n_elems; i++) {
        if (qn_gguf_array_string(&array, i, &text, NULL) == QN_OK && (size_t)text.n_bytes >= n &&
            memcmp(text.bytes, record, n) == 0) {
            return true;
        }
    }
    return false;
}

static qn_status make_records(qn_merge *merge, qn_error *err)
{
    for (int32_t i = 0; i < merge->n_adapters; i++) {
        qni_adapter *adapter = &merge->adapters[i];
        adapter->record = qni_arena_printf(&merge->arena, "xxh3:%016" PRIx64 " strength %g",
                                           adapter->digest, merge->options.strength);
        if (adapter->record == NULL) {
            return qni_fail_memory(err, 64);
        }
        adapter->was_merged = base_has_record(merge, adapter->record);
        if (adapter->was_merged) {
            char line[640];
            qni_name_text text;
            (void)snprintf(line, sizeof line,
                           "%s: this adapter has been merged into the model already, as its "
                           "metadata say; now it is merged once more",
                           qni_escape_name(adapter->path, (int64_t)strlen(adapter->path), &text));
            warn(merge, line);
        }
    }
    return QN_OK;
}

static qn_status set_record(const qn_merge *merge, qn_gguf_writer *writer, qn_error *err)
{
    const qn_gguf *base = merge->base->metadata;
    qn_gguf_array array = {.n_elems = 0};
    const qn_status st = qn_gguf_get_array(base, RECORD_KEY, &array, NULL);
    const int64_t n_old = st == QN_OK && array.elem_type == QN_GGUF_STRING ? array.n_elems : 0;
    const int64_t n = n_old + merge->n_adapters;
    qn_gguf_string *texts = qni_alloc_array(merge->allocator, n, sizeof *texts);
    if (texts == NULL) {
        return qni_fail_memory(err, (size_t)n * sizeof *texts);
    }
    qn_status set = QN_OK;
    for (int64_t i = 0; i < n_old && set == QN_OK; i++) {
        set = qn_gguf_array_string(&array, i, &texts[i], err);
    }
    for (int32_t i = 0; i < merge->n_adapters; i++) {
        const char *record = merge->adapters[i].record;
        texts[n_old + i] = (qn_gguf_string){record, (int64_t)strlen(record)};
    }
    if (set == QN_OK) {
        set = qn_gguf_writer_set_strings(writer, RECORD_KEY, texts, n, err);
    }
    qni_free(merge->allocator, texts, (size_t)n * sizeof *texts);
    return set;
}

/* The writer's bytes as an open file of their own. */
static qn_status open_bytes(qn_merge *merge, qn_gguf_writer *writer, qn_error *err)
{
    const void *bytes;
    int64_t n_bytes;
    QN_TRY(qn_gguf_writer_finish(writer, &bytes, &n_bytes, err));
    void *copy = qni_alloc(merge->allocator, (size_t)n_bytes);
    if (copy == NULL) {
        return qni_fail_memory(err, (size_t)n_bytes);
    }
    memcpy(copy, bytes, (size_t)n_bytes);
    qn_gguf_options options = QN_GGUF_OPTIONS_INIT;
    options.allocator = merge->allocator;
    qn_gguf *metadata;
    const qn_status st = qn_gguf_parse_owned(copy, n_bytes, &options, &metadata, err);
    if (st != QN_OK) {
        qni_free(merge->allocator, copy, (size_t)n_bytes);
        return st;
    }
    merge->model.metadata = metadata;
    return QN_OK;
}

static qn_status add_record(qn_merge *merge, qn_error *err)
{
    qn_gguf_writer_options options = QN_GGUF_WRITER_OPTIONS_INIT;
    options.allocator = merge->allocator;
    qn_gguf_writer *writer;
    QN_TRY(qn_gguf_writer_new(&options, &writer, err));
    qn_status st = qn_gguf_writer_copy_all(writer, merge->base->metadata, NULL, 0, err);
    if (st == QN_OK) {
        st = set_record(merge, writer, err);
    }
    if (st == QN_OK) {
        st = open_bytes(merge, writer, err);
    }
    qn_gguf_writer_free(writer);
    return st;
}

/* --- files that are read ---------------------------------------------------------------------- */

static qn_status note_others(qn_merge *merge, qn_error *err)
{
    qn_model *model = &merge->model;
    int64_t n = merge->base->n_others;
    for (int32_t i = 0; i < merge->n_adapters; i++) {
        n += merge->adapters[i].file->n_files + 2;
    }
    model->others = qni_arena_alloc(&merge->arena, (size_t)n * sizeof *model->others);
    if (model->others == NULL) {
        return qni_fail_memory(err, (size_t)n * sizeof *model->others);
    }
    for (int32_t i = 0; i < merge->base->n_others; i++) {
        model->others[model->n_others++] = merge->base->others[i];
    }
    for (int32_t i = 0; i < merge->n_adapters; i++) {
        const qni_adapter *adapter = &merge->adapters[i];
        for (int32_t f = 0; f < adapter->file->n_files; f++) {
            model->others[model->n_others++] = adapter->file->files[f].path;
        }
        model->others[model->n_others++] = adapter->config_path; /* there or not */
        model->others[model->n_others++] = adapter->state_path;
    }
    return QN_OK;
}

/* --- opening ---------------------------------------------------------------------------------- */

static qn_status fill(qn_merge *merge, const char *const *paths, int32_t n_paths, qn_error *err)
{
    QN_TRY(qni_base_facts_of(merge->base, &merge->arena, &merge->facts, err));
    QN_TRY(copy_model(merge, err));
    merge->adapters = qni_arena_alloc(&merge->arena, (size_t)n_paths * sizeof *merge->adapters);
    if (merge->adapters == NULL) {
        return qni_fail_memory(err, (size_t)n_paths * sizeof *merge->adapters);
    }
    memset(merge->adapters, 0, (size_t)n_paths * sizeof *merge->adapters);
    for (int32_t i = 0; i < n_paths; i++) {
        QN_TRY(read_adapter(merge, paths[i], err));
    }
    QN_TRY(note_others(merge, err));
    QN_TRY(qni_merge_scan(merge, err));
    list_changes(merge);
    QN_TRY(make_records(merge, err));
    return merge->options.no_record ? QN_OK : add_record(merge, err);
}

static qn_status read_options(const qn_merge_options *options, qn_merge_options *out, qn_error *err)
{
    *out = (qn_merge_options)QN_MERGE_OPTIONS_INIT;
    if (options == NULL) {
        return QN_OK;
    }
    QN_CHECK(options->struct_size > 0 && options->struct_size <= sizeof *out, err,
             QN_ERR_INVALID_ARGUMENT, -1, "start the options from QN_MERGE_OPTIONS_INIT");
    memcpy(out, options, options->struct_size);
    QN_CHECK(isfinite(out->strength) && (!out->has_alpha || isfinite(out->alpha)), err,
             QN_ERR_INVALID_ARGUMENT, -1, "alpha and strength must be finite numbers");
    return QN_OK;
}

qn_status qn_merge_open(const qn_model *base, const char *const *paths, int32_t n_paths,
                        const qn_merge_options *options, qn_merge **out_merge, qn_error *err)
{
    *out_merge = NULL;
    qn_merge_options checked;
    QN_TRY(read_options(options, &checked, err));
    QN_CHECK(base->container == QN_CONTAINER_GGUF && base->edits == NULL, err,
             QN_ERR_INVALID_ARGUMENT, -1,
             "adapters are merged into GGUF models, all of them at once");
    QN_CHECK(n_paths > 0, err, QN_ERR_INVALID_ARGUMENT, -1, "there is no adapter to merge");
    qn_merge *merge = qni_alloc_zeroed(checked.allocator, sizeof *merge);
    if (merge == NULL) {
        return qni_fail_memory(err, sizeof *merge);
    }
    merge->allocator = checked.allocator;
    merge->arena.allocator = checked.allocator;
    merge->options = checked;
    merge->base = base;
    const qn_status st = fill(merge, paths, n_paths, err);
    if (st != QN_OK) {
        qn_merge_close(merge);
        return st;
    }
    *out_merge = merge;
    return QN_OK;
}

void qn_merge_close(qn_merge *merge)
{
    if (merge == NULL) {
        return;
    }
    for (int32_t i = 0; i < merge->n_adapters; i++) {
        qn_model_close(merge->adapters[i].file);
    }
    if (merge->model.metadata != merge->base->metadata) {
        qn_gguf_close(merge->model.metadata);
    }
    qni_strmap_free(&merge->model.by_name);
    qni_arena_free(&merge->arena);
    qni_free(merge->allocator, merge, sizeof *merge);
}

/* --- looking ---------------------------------------------------------------------------------- */

const qn_model *qn_merge_model(const qn_merge *merge)
{
    return &merge->model;
}

bool qn_merge_adapter_at(const qn_merge *merge, int64_t index, qn_adapter_info *out_info)
{
    if (index < 0 || index >= merge->n_adapters) {
        return false;
    }
    const qni_adapter *adapter = &merge->adapters[index];
    *out_info = (qn_adapter_info){.path = adapter->path,
                                  .form = adapter->form,
                                  .record = adapter->record,
                                  .was_merged = adapter->was_merged,
                                  .n_tensors = adapter->file->n_tensors,
                                  .n_pairs = adapter->n_pairs,
                                  .n_replaced = adapter->n_replaced,
                                  .n_zero = adapter->n_zero,
                                  .n_copies = adapter->n_copies,
                                  .scale_source = adapter->scale_source,
                                  .trained_on = adapter->config.base_name};
    return true;
}

bool qn_merge_tensor_at(const qn_merge *merge, int64_t index, qn_merged_tensor *out_tensor)
{
    if (index < 0 || index >= merge->n_changed) {
        return false;
    }
    const qni_edits *edits = &merge->edits[merge->changed[index]];
    *out_tensor = (qn_merged_tensor){.tensor = &merge->model.tensors[merge->changed[index]],
                                     .scale = 1,
                                     .n_edits = edits->n,
                                     .is_new = edits->is_new};
    for (int64_t i = edits->n - 1; i >= 0; i--) {
        const qni_edit *edit = &edits->list[i];
        out_tensor->is_replaced |= edit->kind == QNI_PART_REPLACE;
        out_tensor->is_dora |= edit->magnitude.tensor != NULL;
        if (edit->kind == QNI_PART_PAIR) {
            out_tensor->rank = edit->rank;
            out_tensor->scale = edit->scale;
        }
    }
    return true;
}
