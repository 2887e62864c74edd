/* edit.c — qn_plan_edit(): a model's keys and names changed, its tensors copied. */
#include "model/edit_internal.h"
#include "model/plan_internal.h"
#include "model/recipe_internal.h"
#include "model/shards_internal.h"

typedef struct edited_tensor {
    const qn_tensor_info *source; /* NULL: removed */
    const char *name;
    int64_t n_name;
} edited_tensor;

typedef struct edit_job {
    const qn_model *model;
    const qn_edit_options *options;
    qni_arena arena;
    edited_tensor *tensors; /* one for each of the model */
    int64_t n_left;
    int32_t n_files;
} edit_job;

/* --- tensors ---------------------------------------------------------------------------------- */

static edited_tensor *find_tensor(const edit_job *job, const char *name)
{
    const int64_t n_name = (int64_t)strlen(name);
    for (int64_t i = 0; i < job->model->n_tensors; i++) {
        edited_tensor *tensor = &job->tensors[i];
        if (tensor->source != NULL && tensor->n_name == n_name &&
            memcmp(tensor->name, name, (size_t)n_name) == 0) {
            return tensor;
        }
    }
    return NULL;
}

static qn_status edit_tensor(edit_job *job, const qn_edit *edit, qn_error *err)
{
    edited_tensor *tensor = find_tensor(job, edit->name);
    QN_CHECK(tensor != NULL, err, QN_ERR_TENSOR_NOT_FOUND, -1,
             "there is no such tensor; quench inspect lists them");
    if (edit->kind == QN_EDIT_REMOVE_TENSOR) {
        tensor->source = NULL;
        job->n_left--;
        return QN_OK;
    }
    const size_t n_name = strlen(edit->new_name);
    QN_TRY(qni_edit_check_name(edit->new_name, err));
    const edited_tensor *other = find_tensor(job, edit->new_name);
    QN_CHECK(other == NULL || other == tensor, err, QN_ERR_DUPLICATE_TENSOR_NAME, -1,
             "another tensor has the new name already; rename or remove that one first");
    tensor->name = qni_arena_copy(&job->arena, edit->new_name, n_name);
    tensor->n_name = (int64_t)n_name;
    return tensor->name != NULL ? QN_OK : qni_fail_memory(err, n_name);
}

static qn_status edit_tensors(edit_job *job, qn_error *err)
{
    const int64_t n = job->model->n_tensors;
    const size_t n_bytes = (size_t)n * sizeof *job->tensors; /* each has 24 bytes in the file */
    job->tensors = qni_arena_alloc(&job->arena, n_bytes);
    if (job->tensors == NULL) {
        return qni_fail_memory(err, n_bytes);
    }
    for (int64_t i = 0; i < n; i++) {
        const qn_tensor_info *source = &job->model->tensors[i];
        job->tensors[i] = (edited_tensor){source, source->name, source->n_name};
        if (job->options->keep_split) {
            job->n_files = (int32_t)qni_max_i64(job->n_files, source->shard + 1);
        }
    }
    job->n_left = n;
    for (int64_t i = 0; i < job->options->n_edits; i++) {
        const qn_edit *edit = &job->options->edits[i];
        if (edit->kind >= QN_EDIT_REMOVE_TENSOR) {
            QN_TRY(qni_edit_blame(edit, edit_tensor(job, edit, err), err));
        }
    }
    return QN_OK;
}

/* --- files and items -------------------------------------------------------------------------- */

static int32_t file_of(const edit_job *job, const edited_tensor *tensor)
{
    return job->options->keep_split ? tensor->source->shard : 0;
}

static qn_status lay_out(const void *ctx, int32_t file, qn_gguf_writer *writer, qn_error *err)
{
    const edit_job *job = ctx;
    if (file == 0) {
        const qn_gguf *gguf = job->model->metadata;
        QN_TRY(qni_edit_copy_keys(gguf, job->options, writer, err));
        QN_TRY(qni_edit_keys(gguf, job->options, writer, err));
        if (job->options->reserve > 0) {
            QN_TRY(
                qni_edit_set_reserve(writer, job->options->reserve, job->options->allocator, err));
        }
    }
    if (job->n_files > 1) {
        QN_TRY(qni_set_split_keys(writer, file, job->n_files, job->n_left, err));
    }
    for (int64_t i = 0; i < job->model->n_tensors; i++) {
        const edited_tensor *tensor = &job->tensors[i];
        if (tensor->source != NULL && file_of(job, tensor) == file) {
            QN_TRY(qn_gguf_writer_declare(writer, tensor->name, tensor->n_name,
                                          tensor->source->dtype, tensor->source->ne,
                                          tensor->source->n_dims, err));
        }
    }
    return QN_OK;
}

/* Tensors lie file by file, and in each in the model's order. */
static qn_status fill_plan(const edit_job *job, qn_plan *plan, qn_error *err)
{
    plan->naming = job->options->keep_split ? QNI_NAMING_SHARDS : QNI_NAMING_SINGLE;
    QN_TRY(qni_plan_lay_out(plan, job->n_files, lay_out, job, err));
    for (int64_t i = 0; i < job->model->n_tensors; i++) {
        const qn_tensor_info *source = job->tensors[i].source;
        qni_item *item;
        if (source != NULL) {
            QN_TRY(qni_plan_add_item(plan, &qni_recipe_read, job->model, source, 1, &item, err));
            item->rule = source->name == job->tensors[i].name ? "as it was" : "renamed";
            item->wanted = source->dtype;
        }
    }
    return QN_OK;
}

static qn_status make_plan(edit_job *job, qn_plan **out_plan, qn_error *err)
{
    QN_TRY(edit_tensors(job, err));
    QN_TRY(qni_plan_new(job->model, job->options->allocator, job->n_left, job->n_left, job->n_files,
                        out_plan, err));
    qn_status st = fill_plan(job, *out_plan, err);
    if (st == QN_OK) {
        int64_t n_header;
        const void *header = qn_plan_output_header(*out_plan, 0, &n_header);
        st = qni_edit_lint(job->model->metadata, header, n_header, job->options, err);
    }
    if (st != QN_OK) {
        qn_plan_free(*out_plan);
        *out_plan = NULL;
    }
    return st;
}

qn_status qn_plan_edit(const qn_model *model, const qn_edit_options *options, qn_plan **out_plan,
                       qn_error *err)
{
    *out_plan = NULL;
    qn_edit_options checked;
    QN_TRY(qni_edit_read_options(options, &checked, err));
    QN_CHECK(model->metadata != NULL && model->container == QN_CONTAINER_GGUF &&
                 model->edits == NULL,
             err, QN_ERR_INVALID_ARGUMENT, -1,
             "only GGUF models are edited; use quench quantize with --metadata-from to make one");
    edit_job job = {.model = model, .options = &checked, .n_files = 1};
    job.arena.allocator = checked.allocator;
    const qn_status st = make_plan(&job, out_plan, err);
    qni_arena_free(&job.arena);
    return st;
}
