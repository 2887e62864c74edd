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

static qn_status add_tensors(qn_model *model, const qn_safetensors *st, qn_error *err)
{
    for (int64_t i = 0; i < qn_safetensors_n_tensors(st); i++) {
        qn_tensor_info info;
        QN_TRY(qn_safetensors_tensor_info(st, i, &info, err));
        QN_TRY(qni_source_add_tensor(model, &info, err));
    }
    return QN_OK;
}

static qn_status fill(qn_model *model, const qn_safetensors *st, qn_error *err)
{
    QN_TRY(
        qni_source_reserve(model, qn_safetensors_n_shards(st), qn_safetensors_n_tensors(st), err));
    QN_TRY(add_files(model, st, err));
    return add_tensors(model, st, err);
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
    const qn_status status = fill(model, st, err);
    qn_safetensors_close(st);
    if (status != QN_OK || options->metadata_from == NULL) {
        return status;
    }
    qn_gguf_options gguf_options = QN_GGUF_OPTIONS_INIT;
    gguf_options.allocator = options->allocator;
    return qn_gguf_open(options->metadata_from, &gguf_options, &model->metadata, err);
}
