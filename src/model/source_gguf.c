/* source_gguf.c — GGUF, one file or split, as a source. */
#include "model/source_internal.h"

static qn_status add_files(qn_model *model, qn_error *err)
{
    const qn_gguf *gguf = model->metadata;
    for (int64_t i = 0; i < qn_gguf_n_shards(gguf); i++) {
        const qn_gguf_shard *shard = qn_gguf_shard_at(gguf, i);
        QN_TRY(
            qni_source_add_file(model, shard->path, shard->data_offset, shard->is_big_endian, err));
    }
    return QN_OK;
}

static qn_status add_tensors(qn_model *model, qn_error *err)
{
    const qn_gguf *gguf = model->metadata;
    for (int64_t i = 0; i < qn_gguf_n_tensors(gguf); i++) {
        QN_TRY(qni_source_add_tensor(model, qn_gguf_tensor(gguf, i), err));
    }
    return QN_OK;
}

qn_status qni_source_open_gguf(qn_model *model, const char *path, const qn_model_options *options,
                               qn_error *err)
{
    qn_gguf_options gguf_options = QN_GGUF_OPTIONS_INIT;
    gguf_options.strict = options->is_strict;
    gguf_options.single_shard = options->is_single_file;
    gguf_options.allocator = options->allocator;
    gguf_options.log = options->log;
    gguf_options.log_ctx = options->log_ctx;
    QN_TRY(qn_gguf_open(path, &gguf_options, &model->metadata, err));
    QN_TRY(qni_source_reserve(model, qn_gguf_n_shards(model->metadata),
                              qn_gguf_n_tensors(model->metadata), err));
    QN_TRY(add_files(model, err));
    return add_tensors(model, err);
}
