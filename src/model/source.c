/* source.c — qn_model: open by content, look tensors up, read their bytes. */
#include "model/source_internal.h"

/* --- building, for containers ----------------------------------------------------------------- */

qn_status qni_source_reserve(qn_model *model, int64_t n_files, int64_t n_tensors, qn_error *err)
{
    QN_CHECK(n_files <= INT32_MAX, err, QN_ERR_INVALID_SPLIT, -1, "%" PRId64 " files are too many",
             n_files);
    int64_t n_bytes_files, n_bytes_tensors;
    QN_CHECK(qni_mul_i64(n_files, (int64_t)sizeof(qni_source_file), &n_bytes_files) &&
                 qni_mul_i64(n_tensors, (int64_t)sizeof(qn_tensor_info), &n_bytes_tensors),
             err, QN_ERR_OVERFLOW, -1, "%" PRId64 " tensors are too many", n_tensors);
    model->files = qni_arena_alloc(&model->arena, (size_t)n_bytes_files);
    model->tensors = qni_arena_alloc(&model->arena, (size_t)n_bytes_tensors);
    if (model->files == NULL || model->tensors == NULL) {
        return qni_fail_memory(err, (size_t)n_bytes_tensors);
    }
    return qni_strmap_reserve(&model->by_name, n_tensors, err);
}

qn_status qni_source_add_file(qn_model *model, const char *path, int64_t n_header_bytes,
                              bool is_big_endian, qn_error *err)
{
    qni_source_file *file = &model->files[model->n_files];
    *file = (qni_source_file){QNI_FILE_CLOSED, NULL, is_big_endian, n_header_bytes};
    file->path = qni_arena_copy(&model->arena, path, strlen(path));
    if (file->path == NULL) {
        return qni_fail_memory(err, strlen(path));
    }
    QN_TRY(qni_file_open(path, &file->file, err));
    model->n_files++;
    return QN_OK;
}

qn_status qni_source_add_tensor(qn_model *model, const qn_tensor_info *info, qn_error *err)
{
    qn_tensor_info *tensor = &model->tensors[model->n_tensors];
    *tensor = *info;
    tensor->data = NULL;
    tensor->name = qni_arena_copy(&model->arena, info->name, (size_t)info->n_name);
    if (tensor->name == NULL) {
        return qni_fail_memory(err, (size_t)info->n_name);
    }
    int64_t existing;
    QN_TRY(qni_strmap_add(&model->by_name, tensor->name, tensor->n_name, model->n_tensors,
                          &existing, err));
    qni_name_text text;
    QN_CHECK(existing < 0, err, QN_ERR_DUPLICATE_TENSOR_NAME, -1,
             "tensor %s occurs twice in the model's files",
             qni_escape_name(info->name, info->n_name, &text));
    const qni_source_file *file = &model->files[tensor->shard];
    int64_t end;
    const bool is_inside = tensor->file_offset >= 0 &&
                           qni_add_i64(tensor->file_offset, tensor->n_bytes, &end) &&
                           end <= file->file.n_bytes;
    if (!is_inside) {
        return qni_fail_path(err,
                             qni_fail(err, QN_ERR_FILE_CHANGED, tensor->file_offset,
                                      "tensor %s no longer lies inside the file; it was changed "
                                      "while it was being opened",
                                      qni_escape_name(info->name, info->n_name, &text)),
                             file->path);
    }
    model->n_tensors++;
    return QN_OK;
}

/* --- opening ---------------------------------------------------------------------------------- */

static qn_status read_beginning(const char *path, uint8_t *bytes, int64_t *out_n, qn_error *err)
{
    qni_file file = QNI_FILE_CLOSED;
    QN_TRY(qni_file_open(path, &file, err));
    *out_n = qni_min_i64(file.n_bytes, QN_PROBE_BYTES);
    const qn_status st = qni_file_pread(&file, bytes, (size_t)*out_n, 0, err);
    qni_file_close(&file);
    return st;
}

static const qni_container *container_of(qn_file_kind kind)
{
    for (int i = 0; qni_container_at(i) != NULL; i++) {
        if (qni_container_at(i)->kind == kind) {
            return qni_container_at(i);
        }
    }
    return NULL;
}

/* The path as it was given may be an index; metadata may come from elsewhere. */
static qn_status note_others(qn_model *model, const char *path, const qn_model_options *options,
                             qn_error *err)
{
    const char *const paths[] = {path, options->metadata_from};
    model->others = qni_arena_alloc(&model->arena, sizeof paths);
    if (model->others == NULL) {
        return qni_fail_memory(err, sizeof paths);
    }
    for (size_t i = 0; i < sizeof paths / sizeof paths[0] && paths[i] != NULL; i++) {
        const char *copy = qni_arena_copy(&model->arena, paths[i], strlen(paths[i]));
        if (copy == NULL) {
            return qni_fail_memory(err, strlen(paths[i]));
        }
        model->others[model->n_others++] = copy;
    }
    return QN_OK;
}

static qn_status open_into(qn_model *model, const char *path, const qn_model_options *options,
                           qn_error *err)
{
    uint8_t bytes[QN_PROBE_BYTES] = {0};
    int64_t n_bytes;
    QN_TRY(read_beginning(path, bytes, &n_bytes, err));
    const qn_file_kind kind = qn_probe(bytes, (size_t)n_bytes);
    const qni_container *container = container_of(kind);
    if (container == NULL) {
        const qn_status st =
            qni_fail(err, QN_ERR_NOT_A_MODEL, 0,
                     "this is %s; a GGUF or safetensors file is expected", qn_file_kind_text(kind));
        return qni_fail_path(err, st, path);
    }
    model->container = container->id;
    QN_TRY(note_others(model, path, options, err));
    return container->open(model, path, options, err);
}

qn_status qn_model_open(const char *path, const qn_model_options *options, qn_model **out_model,
                        qn_error *err)
{
    static const qn_model_options defaults = QN_MODEL_OPTIONS_INIT;
    *out_model = NULL;
    QN_CHECK(path != NULL, err, QN_ERR_INVALID_ARGUMENT, -1, "the path of the model is missing");
    options = options != NULL ? options : &defaults;
    qn_model *model = qni_alloc_zeroed(options->allocator, sizeof *model);
    if (model == NULL) {
        return qni_fail_memory(err, sizeof *model);
    }
    model->allocator = options->allocator;
    model->arena.allocator = options->allocator;
    qni_strmap_init(&model->by_name, options->allocator);
    const qn_status st = open_into(model, path, options, err);
    if (st != QN_OK) {
        qn_model_close(model);
        return st;
    }
    *out_model = model;
    return QN_OK;
}

void qn_model_close(qn_model *model)
{
    if (model == NULL) {
        return;
    }
    for (int32_t i = 0; i < model->n_files; i++) {
        qni_file_close(&model->files[i].file);
    }
    qn_gguf_close(model->metadata);
    qni_strmap_free(&model->by_name);
    qni_arena_free(&model->arena);
    qni_free(model->allocator, model, sizeof *model);
}

/* --- looking ---------------------------------------------------------------------------------- */

qn_container qn_model_container(const qn_model *model)
{
    return model->container;
}

int32_t qn_model_n_shards(const qn_model *model)
{
    return model->n_files;
}

const char *qn_model_shard_path(const qn_model *model, int32_t shard)
{
    return shard >= 0 && shard < model->n_files ? model->files[shard].path : NULL;
}

const char *qn_model_input_path(const qn_model *model, int32_t index)
{
    if (index < 0 || index < model->n_files) {
        return qn_model_shard_path(model, index);
    }
    return index - model->n_files < model->n_others ? model->others[index - model->n_files] : NULL;
}

int64_t qn_model_shard_bytes(const qn_model *model, int32_t shard)
{
    return shard >= 0 && shard < model->n_files ? model->files[shard].file.n_bytes : -1;
}

int64_t qn_model_n_tensors(const qn_model *model)
{
    return model->n_tensors;
}

const qn_tensor_info *qn_model_tensor(const qn_model *model, int64_t index)
{
    return index >= 0 && index < model->n_tensors ? &model->tensors[index] : NULL;
}

int64_t qn_model_find(const qn_model *model, const char *name, int64_t n_name)
{
    return qni_strmap_find(&model->by_name, name, n_name);
}

const struct qn_gguf *qn_model_metadata(const qn_model *model)
{
    return model->metadata;
}

/* --- reading ---------------------------------------------------------------------------------- */

qn_status qni_source_read(const qn_model *model, const qn_tensor_info *tensor, int64_t byte_offset,
                          size_t n_bytes, void *out, qn_error *err)
{
    const qni_source_file *file = &model->files[tensor->shard];
    QN_TRY(qni_file_pread(&file->file, out, n_bytes, tensor->file_offset + byte_offset, err));
    if (!file->is_big_endian) {
        return QN_OK;
    }
    return qn_gguf_swap_data(tensor->dtype, out, out, (int64_t)n_bytes, err);
}

qn_status qn_model_read(const qn_model *model, int64_t tensor, int64_t byte_offset, size_t n_bytes,
                        void *out, qn_error *err)
{
    const qn_tensor_info *info = qn_model_tensor(model, tensor);
    int64_t end;
    QN_CHECK(info != NULL && byte_offset >= 0 && n_bytes <= INT64_MAX &&
                 qni_add_i64(byte_offset, (int64_t)n_bytes, &end) && end <= info->n_bytes,
             err, QN_ERR_INVALID_ARGUMENT, -1, "the bytes asked for lie outside the tensor");
    const int64_t block = qn_dtype_block_bytes(info->dtype);
    QN_CHECK(!model->files[info->shard].is_big_endian ||
                 (byte_offset % block == 0 && (int64_t)n_bytes % block == 0),
             err, QN_ERR_INVALID_ARGUMENT, -1,
             "of a big-endian file only whole blocks can be read");
    return qni_source_read(model, info, byte_offset, n_bytes, out, err);
}
