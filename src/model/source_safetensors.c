/* source_safetensors.c — a safetensors file or a sharded index as a source. Its tensors keep their
 * names; model metadata, which the format does not have, may come from a GGUF. */
#include "model/source_internal.h"
#include "quench/safetensors.h"

static qn_status add_files(qn_model *model, const qn_safetensors *st, qn_error *err)
{
    for (int32_t i = 0; i < qn_safetensors_n_shards(st); i++) {
        const qn_safetensors_shard *shard = qn_safetensors_shard_at(st, i);
        QN_TRY(qni_source_add_file(model, shard->path, shard->n_header_bytes, false, err));
    }
    return QN_OK;
}

/* A tensor of a type that we do not have, as a row of bytes; one of too many dimensions, as a row.
 */
static void make_opaque(const qn_safetensors *st, int64_t index, qn_tensor_info *out_info)
{
    qn_safetensors_tensor tensor;
    qn_dtype dtype;
    (void)qn_safetensors_tensor_at(st, index, &tensor);
    const bool has_type = qn_safetensors_dtype_to_core(tensor.dtype, &dtype, NULL) == QN_OK;
    *out_info = (qn_tensor_info){.name = tensor.name,
                                 .n_name = tensor.n_name,
                                 .dtype = has_type ? dtype : QN_DTYPE_I8,
                                 .n_dims = 1,
                                 .ne = {has_type ? tensor.n_elems : tensor.n_bytes, 1, 1, 1},
                                 .n_bytes = tensor.n_bytes,
                                 .file_offset = tensor.file_offset,
                                 .shard = tensor.shard,
                                 .is_opaque = true};
}

static qn_status get_info(const qn_safetensors *st, int64_t index, bool takes_opaque,
                          qn_tensor_info *out_info, qn_error *err)
{
    const qn_status status = qn_safetensors_tensor_info(st, index, out_info, err);
    if (status == QN_OK) {
        return QN_OK;
    }
    if (takes_opaque && (status == QN_ERR_UNSUPPORTED_DTYPE || status == QN_ERR_INVALID_SHAPE)) {
        make_opaque(st, index, out_info);
        return QN_OK;
    }
    qn_safetensors_tensor tensor;
    if (err != NULL && qn_safetensors_tensor_at(st, index, &tensor)) {
        const qn_error found = *err;
        qni_name_text text;
        (void)qni_fail(err, status, -1, "tensor %s: %.600s",
                       qni_escape_name(tensor.name, tensor.n_name, &text), found.message);
    }
    return status;
}

static qn_status add_tensors(qn_model *model, const qn_safetensors *st, bool takes_opaque,
                             qn_error *err)
{
    for (int64_t i = 0; i < qn_safetensors_n_tensors(st); i++) {
        qn_tensor_info info;
        QN_TRY(get_info(st, i, takes_opaque, &info, err));
        QN_TRY(qni_source_add_tensor(model, &info, err));
    }
    return QN_OK;
}

static qn_status fill(qn_model *model, const qn_safetensors *st, bool takes_opaque, qn_error *err)
{
    QN_TRY(
        qni_source_reserve(model, qn_safetensors_n_shards(st), qn_safetensors_n_tensors(st), err));
    QN_TRY(add_files(model, st, err));
    return add_tensors(model, st, takes_opaque, err);
}

qn_status qni_source_open_safetensors(qn_model *model, const char *path,
                                      const qn_model_options *options, qn_error *err)
{
    qn_safetensors_options st_options = QN_SAFETENSORS_OPTIONS_INIT;
    st_options.allocator = options->allocator;
    st_options.log = options->log;
    st_options.log_ctx = options->log_ctx;
    qn_safetensors *st;
    QN_TRY(qn_safetensors_open(path, &st_options, &st, err));
    const qn_status status = fill(model, st, options->takes_opaque, err);
    qn_safetensors_close(st);
    if (status != QN_OK) {
        return qni_fail_path(err, status, path);
    }
    if (options->metadata_from == NULL) {
        return QN_OK;
    }
    qn_gguf_options gguf_options = QN_GGUF_OPTIONS_INIT;
    gguf_options.allocator = options->allocator;
    return qn_gguf_open(options->metadata_from, &gguf_options, &model->metadata, err);
}
