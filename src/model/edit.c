/* edit.c — qn_plan_edit(): a model's keys and names changed, its tensors copied. */
#include "model/edit_internal.h"
#include "model/plan_internal.h"
#include "model/recipe_internal.h"
#include "model/shards_internal.h"

/* ggml keeps names of tensors in 64 bytes, with a NUL. */
#define MAX_TENSOR_NAME 63

static const char *const split_keys[] = {"split.no", "split.count", "split.tensors.count"};
enum { N_SPLIT_KEYS = 3 };

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

static qn_status blame_edit(const qn_edit *edit, qn_status st, qn_error *err)
{
    if (err != NULL && st != QN_OK) {
        const qn_error found = *err;
        qni_name_text text;
        (void)qni_fail(
            err, st, -1, "%s %s: %.600s", edit->kind >= QN_EDIT_REMOVE_TENSOR ? "tensor" : "key",
            qni_escape_name(edit->name, (int64_t)strlen(edit->name), &text), found.message);
    }
    return st;
}

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
    QN_CHECK(n_name > 0 && n_name <= MAX_TENSOR_NAME, err, QN_ERR_INVALID_ARGUMENT, -1,
             "its new name has %zu bytes; ggml takes 1 to %d", n_name, MAX_TENSOR_NAME);
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
            QN_TRY(blame_edit(edit, edit_tensor(job, edit, err), err));
        }
    }
    return QN_OK;
}

/* --- keys ------------------------------------------------------------------------------------- */

/* The type that a key has before edit number `before`. */
static bool find_type(const edit_job *job, const char *key, int64_t before, qn_gguf_type *out_type,
                      qn_gguf_type *out_elem_type)
{
    for (int64_t i = before; i-- > 0;) {
        const qn_edit *edit = &job->options->edits[i];
        if (edit->kind == QN_EDIT_RENAME && strcmp(edit->new_name, key) == 0) {
            key = edit->name;
        } else if (edit->kind == QN_EDIT_SET && edit->type != QN_GGUF_NONE &&
                   strcmp(edit->name, key) == 0) {
            *out_type = edit->type;
            *out_elem_type = edit->elem_type;
            return true;
        }
    }
    const qn_gguf *gguf = job->model->metadata;
    const qn_gguf_entry *entry =
        qn_gguf_entry_at(gguf, qn_gguf_find_entry(gguf, key, (int64_t)strlen(key)));
    if (entry != NULL) {
        *out_type = entry->type;
        *out_elem_type = entry->elem_type;
    }
    return entry != NULL;
}

static qn_status set_key(const edit_job *job, int64_t index, qn_gguf_writer *writer, qn_error *err)
{
    const qn_edit *edit = &job->options->edits[index];
    qn_gguf_type type = edit->type;
    qn_gguf_type elem_type = edit->elem_type;
    if (type == QN_GGUF_NONE) {
        QN_CHECK(qn_gguf_writer_has(writer, edit->name) &&
                     find_type(job, edit->name, index, &type, &elem_type),
                 err, QN_ERR_KEY_NOT_FOUND, -1,
                 "it is new; say which type it is to have: KEY=TYPE:VALUE");
    }
    return qni_edit_set_value(edit, type, elem_type, job->options->allocator, writer, err);
}

static qn_status edit_key(const edit_job *job, int64_t index, qn_gguf_writer *writer, qn_error *err)
{
    const qn_edit *edit = &job->options->edits[index];
    for (int i = 0; i < N_SPLIT_KEYS; i++) {
        QN_CHECK(strcmp(edit->name, split_keys[i]) != 0 &&
                     (edit->kind != QN_EDIT_RENAME || strcmp(edit->new_name, split_keys[i]) != 0),
                 err, QN_ERR_INVALID_ARGUMENT, -1,
                 "%s says which part of a split model a file is, and is written for each output",
                 split_keys[i]);
    }
    if (edit->kind == QN_EDIT_SET) {
        return set_key(job, index, writer, err);
    }
    QN_CHECK(qn_gguf_writer_has(writer, edit->name), err, QN_ERR_KEY_NOT_FOUND, -1,
             "there is no such key; quench inspect lists them");
    return edit->kind == QN_EDIT_REMOVE
               ? qn_gguf_writer_remove(writer, edit->name, err)
               : qn_gguf_writer_rename(writer, edit->name, edit->new_name, err);
}

static void warn(const edit_job *job, const char *message)
{
    if (job->options->log != NULL) {
        job->options->log(job->options->log_ctx, QN_LOG_WARNING, message);
    }
}

/* What a look at the finished header does not tell. */
static void warn_of_edit(const edit_job *job, int64_t index)
{
    const qn_edit *edit = &job->options->edits[index];
    qn_gguf_type type, elem_type;
    if (edit->kind != QN_EDIT_SET) {
        return;
    }
    if (edit->type != QN_GGUF_NONE && find_type(job, edit->name, index, &type, &elem_type) &&
        (type != edit->type || (type == QN_GGUF_ARRAY && elem_type != edit->elem_type))) {
        qni_name_text name;
        char text[QNI_NAME_MAX + 64];
        (void)snprintf(text, sizeof text, "key %s had another type: %s",
                       qni_escape_name(edit->name, (int64_t)strlen(edit->name), &name),
                       qn_gguf_type_name(type));
        warn(job, text);
    }
    if (strcmp(edit->name, "general.architecture") == 0) {
        warn(job, "general.architecture is set: loaders read the keys that begin with its value, "
                  "which are not renamed");
    } else if (strcmp(edit->name, "general.alignment") == 0) {
        warn(job, "general.alignment is set: all tensors move");
    }
}

static qn_status set_metadata(const edit_job *job, qn_gguf_writer *writer, qn_error *err)
{
    QN_TRY(qn_gguf_writer_copy_all(writer, job->model->metadata, split_keys, N_SPLIT_KEYS, err));
    for (int64_t i = 0; i < job->options->n_edits; i++) {
        const qn_edit *edit = &job->options->edits[i];
        if (edit->kind < QN_EDIT_REMOVE_TENSOR) {
            QN_TRY(blame_edit(edit, edit_key(job, i, writer, err), err));
            warn_of_edit(job, i);
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
        QN_TRY(set_metadata(job, writer, err));
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
    QN_TRY(qni_plan_new(job->options->allocator, job->n_left, job->n_left, job->n_files, out_plan,
                        err));
    qn_status st = fill_plan(job, *out_plan, err);
    if (st == QN_OK) {
        st = qni_edit_lint(job->model->metadata, *out_plan, job->options, err);
    }
    if (st != QN_OK) {
        qn_plan_free(*out_plan);
        *out_plan = NULL;
    }
    return st;
}

static qn_status check_edit(const qn_edit *edit, qn_error *err)
{
    const bool is_rename = edit->kind == QN_EDIT_RENAME || edit->kind == QN_EDIT_RENAME_TENSOR;
    QN_CHECK(edit->kind >= QN_EDIT_SET && edit->kind <= QN_EDIT_RENAME_TENSOR &&
                 edit->name != NULL && (!is_rename || edit->new_name != NULL) &&
                 (edit->kind != QN_EDIT_SET || (edit->text != NULL && edit->n_text >= 0)),
             err, QN_ERR_INVALID_ARGUMENT, -1, "an edit lacks its name or its value");
    QN_CHECK(edit->name[0] != '\0' && (!is_rename || edit->new_name[0] != '\0'), err,
             QN_ERR_INVALID_ARGUMENT, -1, "an edit's name is empty");
    return QN_OK;
}

static qn_status read_options(const qn_edit_options *options, qn_edit_options *out, qn_error *err)
{
    *out = (qn_edit_options)QN_EDIT_OPTIONS_INIT;
    QN_CHECK(options != NULL && options->struct_size > 0 && options->struct_size <= sizeof *out,
             err, QN_ERR_INVALID_ARGUMENT, -1, "start the options from QN_EDIT_OPTIONS_INIT");
    memcpy(out, options, options->struct_size);
    QN_CHECK(out->n_edits >= 0 && (out->n_edits == 0 || out->edits != NULL), err,
             QN_ERR_INVALID_ARGUMENT, -1, "the list of edits is missing");
    for (int64_t i = 0; i < out->n_edits; i++) {
        QN_TRY(check_edit(&out->edits[i], err));
    }
    return QN_OK;
}

qn_status qn_plan_edit(const qn_model *model, const qn_edit_options *options, qn_plan **out_plan,
                       qn_error *err)
{
    *out_plan = NULL;
    qn_edit_options checked;
    QN_TRY(read_options(options, &checked, err));
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
