/* plan.c — building plans and looking at them. */
#include "model/adapter_internal.h"
#include "model/plan_internal.h"
#include "model/recipe_internal.h"

/* --- building --------------------------------------------------------------------------------- */

static void *array_in(qn_plan *plan, int64_t n, size_t elem_bytes)
{
    int64_t n_bytes;
    if (!qni_mul_i64(n, (int64_t)elem_bytes, &n_bytes)) {
        return NULL;
    }
    void *array = qni_arena_alloc(&plan->arena, (size_t)n_bytes);
    if (array != NULL) {
        memset(array, 0, (size_t)n_bytes);
    }
    return array;
}

qn_status qni_plan_new(const qn_model *model, const qn_allocator *allocator, int64_t n_items,
                       int64_t n_tensors, int32_t n_files, qn_plan **out_plan, qn_error *err)
{
    *out_plan = NULL;
    qn_plan *plan = qni_alloc_zeroed(allocator, sizeof *plan);
    if (plan == NULL) {
        return qni_fail_memory(err, sizeof *plan);
    }
    plan->model = model;
    plan->allocator = allocator;
    plan->arena.allocator = allocator;
    plan->items = array_in(plan, n_items, sizeof *plan->items);
    plan->tensors = array_in(plan, n_tensors, sizeof *plan->tensors);
    plan->files = array_in(plan, n_files, sizeof *plan->files);
    plan->n_items_max = n_items;
    plan->n_tensors_max = n_tensors;
    plan->n_files_max = n_files;
    if (plan->items == NULL || plan->tensors == NULL || plan->files == NULL) {
        qn_plan_free(plan);
        return qni_fail_memory(err, (size_t)n_items * sizeof *plan->items);
    }
    *out_plan = plan;
    return QN_OK;
}

void qn_plan_free(qn_plan *plan)
{
    if (plan == NULL) {
        return;
    }
    qni_arena_free(&plan->arena);
    qni_free(plan->allocator, plan, sizeof *plan);
}

qn_status qni_plan_add_tensor(qn_plan *plan, const qn_tensor_info *info, qn_error *err)
{
    QN_CHECK(plan->n_tensors < plan->n_tensors_max, err, QN_ERR_INVALID_STATE, -1,
             "the plan has no room for another tensor");
    qn_tensor_info *tensor = &plan->tensors[plan->n_tensors];
    *tensor = *info;
    tensor->data = NULL;
    tensor->name = qni_arena_copy(&plan->arena, info->name, (size_t)info->n_name);
    if (tensor->name == NULL) {
        return qni_fail_memory(err, (size_t)info->n_name);
    }
    plan->n_tensors++;
    return QN_OK;
}

qn_status qni_plan_add_file(qn_plan *plan, qn_gguf_writer *writer, qn_error *err)
{
    QN_CHECK(plan->n_files < plan->n_files_max, err, QN_ERR_INVALID_STATE, -1,
             "the plan has no room for another file");
    qn_gguf_file_plan layout;
    QN_TRY(qn_gguf_writer_layout(writer, &layout, err));
    qni_plan_file *file = &plan->files[plan->n_files];
    file->header =
        (uint8_t *)qni_arena_copy(&plan->arena, layout.header, (size_t)layout.n_header_bytes);
    if (file->header == NULL) {
        return qni_fail_memory(err, (size_t)layout.n_header_bytes);
    }
    file->n_header_bytes = layout.n_header_bytes;
    file->n_bytes = layout.n_file_bytes;
    file->first_tensor = plan->n_tensors;
    file->n_tensors = layout.n_tensors;
    for (int64_t i = 0; i < layout.n_tensors; i++) {
        qn_tensor_info info;
        QN_CHECK(qn_gguf_writer_tensor(writer, i, &info), err, QN_ERR_INVALID_STATE, -1,
                 "the writer lost tensor %" PRId64, i);
        info.shard = plan->n_files;
        QN_TRY(qni_plan_add_tensor(plan, &info, err));
    }
    plan->n_files++;
    return QN_OK;
}

qn_status qni_plan_lay_out(qn_plan *plan, int32_t n_files, qni_lay_out_fn lay_out, const void *job,
                           qn_error *err)
{
    qn_gguf_writer_options options = QN_GGUF_WRITER_OPTIONS_INIT;
    options.allocator = plan->allocator;
    for (int32_t file = 0; file < n_files; file++) {
        qn_gguf_writer *writer;
        QN_TRY(qn_gguf_writer_new(&options, &writer, err));
        qn_status st = lay_out(job, file, writer, err);
        if (st == QN_OK) {
            st = qni_plan_add_file(plan, writer, err);
        }
        qn_gguf_writer_free(writer);
        QN_TRY(st);
    }
    return QN_OK;
}

bool qni_tensor_is_edited(const qn_model *model, const qn_tensor_info *tensor)
{
    return model->edits != NULL && model->edits[tensor - model->tensors].n > 0;
}

static qn_status take_edits(qni_item *item, qn_error *err)
{
    const qni_plan_input *input = &item->inputs[0];
    if (!qni_tensor_is_edited(input->model, input->tensor)) {
        return QN_OK;
    }
    QN_CHECK(item->recipe == &qni_recipe_copy || item->recipe == &qni_recipe_convert, err,
             QN_ERR_UNSUPPORTED, -1,
             "a merged model can be exported or quantized, nothing else; write it to a file first");
    item->edits = &input->model->edits[input->tensor - input->model->tensors];
    item->recipe = &qni_recipe_merge;
    return QN_OK;
}

qn_status qni_plan_add_item(qn_plan *plan, const qni_recipe *recipe, const qn_model *model,
                            const qn_tensor_info *input, int32_t n_outputs, qni_item **out_item,
                            qn_error *err)
{
    QN_CHECK(plan->n_items < plan->n_items_max, err, QN_ERR_INVALID_STATE, -1,
             "the plan has no room for another item");
    const qni_item *before = plan->n_items > 0 ? &plan->items[plan->n_items - 1] : NULL;
    qni_item *item = &plan->items[plan->n_items];
    item->inputs = array_in(plan, 1, sizeof *item->inputs);
    if (item->inputs == NULL) {
        return qni_fail_memory(err, sizeof *item->inputs);
    }
    item->recipe = recipe;
    item->inputs[0] = (qni_plan_input){model, input};
    item->n_inputs = 1;
    item->n_outputs = n_outputs;
    item->first_output = before != NULL ? before->first_output + before->n_outputs : 0;
    item->wanted = QN_DTYPE_NONE;
    QN_CHECK(item->first_output + n_outputs <= plan->n_tensors, err, QN_ERR_INVALID_STATE, -1,
             "the item's output tensors are not in the plan");
    QN_TRY(take_edits(item, err));
    plan->n_items++;
    *out_item = item;
    return QN_OK;
}

const qn_tensor_info *qni_plan_target(const qn_plan *plan, const qni_item *item)
{
    return item->n_outputs > 0 ? &plan->tensors[item->first_output] : NULL;
}

qn_status qni_item_blame(const qni_item *item, qn_status st, qn_error *err)
{
    if (err == NULL) {
        return st;
    }
    const qni_plan_input *input = &item->inputs[0];
    const qn_error found = *err;
    qni_name_text text;
    (void)qni_fail(err, st, found.offset, "tensor %s: %.600s",
                   qni_escape_name(input->tensor->name, input->tensor->n_name, &text),
                   found.message);
    err->sys_errno = found.sys_errno;
    memcpy(err->path, found.path, sizeof err->path);
    (void)qni_fail_tensor(err, st, input->tensor - input->model->tensors);
    return qni_fail_path(err, st, input->model->files[input->tensor->shard].path);
}

bool qni_item_encodes_with_weights(const qni_item *item, qn_dtype dtype)
{
    const qn_weights_use use = qn_dtype_weights_use(dtype);
    return item->weights != NULL && (use == QN_WEIGHTS_OPTIONAL || use == QN_WEIGHTS_REQUIRED);
}

/* --- looking ---------------------------------------------------------------------------------- */

int64_t qn_plan_n_items(const qn_plan *plan)
{
    return plan->n_items;
}

bool qn_plan_item_at(const qn_plan *plan, int64_t index, qn_plan_item *out_item)
{
    if (index < 0 || index >= plan->n_items) {
        return false;
    }
    const qni_item *item = &plan->items[index];
    const qn_tensor_info *target = qni_plan_target(plan, item);
    *out_item = (qn_plan_item){
        .source = item->inputs[0].tensor,
        .target = target,
        .recipe = item->recipe->kind,
        .rule = item->rule,
        .is_fallback = item->is_fallback,
        .wanted = item->wanted,
        .has_weights = target != NULL && qni_item_encodes_with_weights(item, target->dtype),
        .lacks_weights = item->lacks_weights,
        .n_targets = item->n_outputs,
    };
    return true;
}

int32_t qn_plan_n_outputs(const qn_plan *plan)
{
    return plan->n_files;
}

bool qn_plan_output_at(const qn_plan *plan, int32_t index, qn_plan_output *out_output)
{
    if (index < 0 || index >= plan->n_files) {
        return false;
    }
    const qni_plan_file *file = &plan->files[index];
    *out_output = (qn_plan_output){file->n_tensors, file->n_header_bytes, file->n_bytes};
    return true;
}

const void *qn_plan_output_header(const qn_plan *plan, int32_t index, int64_t *out_n_bytes)
{
    *out_n_bytes = 0;
    if (index < 0 || index >= plan->n_files) {
        return NULL;
    }
    *out_n_bytes = plan->files[index].n_header_bytes;
    return plan->files[index].header;
}

qn_status qn_plan_output_path(const qn_plan *plan, int32_t index, const char *out_path, char *out,
                              size_t n_out, qn_error *err)
{
    QN_CHECK(out_path != NULL && index >= 0 && index < plan->n_files, err, QN_ERR_INVALID_ARGUMENT,
             -1, "the plan has %d output files: there is no number %d", (int)plan->n_files,
             (int)index);
    size_t n_path = strlen(out_path);
    if (plan->naming == QNI_NAMING_SHARDS) {
        n_path -= n_path >= 5 && strcmp(out_path + n_path - 5, ".gguf") == 0 ? 5 : 0;
        return qn_gguf_shard_path(out_path, (int64_t)n_path, index, plan->n_files, out, n_out, err);
    }
    QN_CHECK(n_path < n_out, err, QN_ERR_INVALID_ARGUMENT, -1,
             "the output's path is too long: %zu bytes", n_path);
    memcpy(out, out_path, n_path + 1);
    return QN_OK;
}

void qn_plan_totals_of(const qn_plan *plan, qn_plan_totals *out_totals)
{
    qn_plan_totals sum = {0};
    for (int64_t i = 0; i < plan->n_items; i++) {
        const qni_item *item = &plan->items[i];
        const qn_tensor_info *source = item->inputs[0].tensor;
        int64_t n_elems = 1;
        for (int32_t d = 0; d < source->n_dims; d++) {
            n_elems *= source->ne[d]; /* checked when the source was opened */
        }
        sum.n_elems += n_elems;
        sum.n_source_bytes += source->n_bytes;
        for (int32_t k = 0; k < item->n_outputs; k++) {
            sum.n_target_bytes += plan->tensors[item->first_output + k].n_bytes;
        }
        sum.n_fallbacks += item->is_fallback;
        sum.n_missing_weights += item->lacks_weights;
    }
    for (int32_t i = 0; i < plan->n_files; i++) {
        sum.n_output_bytes += plan->files[i].n_bytes;
    }
    *out_totals = sum;
}
