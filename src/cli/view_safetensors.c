/* view_safetensors.c — a safetensors file or sharded model as `inspect` shows it. */
#include "cli/view.h"

#include "quench/safetensors.h"

static void tensor_at(const model_view *view, int64_t index, view_tensor *out_tensor)
{
    qn_safetensors_tensor tensor;

    memset(out_tensor, 0, sizeof *out_tensor);
    if (!qn_safetensors_tensor_at(view->source, index, &tensor)) {
        return;
    }
    out_tensor->name = tensor.name;
    out_tensor->n_name = tensor.n_name;
    out_tensor->type = qn_safetensors_dtype_tag(tensor.dtype);
    out_tensor->n_dims = tensor.rank;
    out_tensor->shape = tensor.shape;
    out_tensor->n_elems = tensor.n_elems;
    out_tensor->n_bytes = tensor.n_bytes;
    out_tensor->file_offset = tensor.file_offset;
    out_tensor->file = tensor.shard;
}

static void entry_at(const model_view *view, int64_t index, int64_t n_max, cli_text *key,
                     cli_text *type, cli_text *value)
{
    const qn_safetensors_entry *entry = qn_safetensors_entry_at(view->source, index);

    cli_text_escape(key, entry->key, entry->n_key, n_max);
    cli_text_printf(type, "string");
    cli_text_escape(value, entry->value, entry->n_value, n_max);
}

static void entry_json(const model_view *view, int64_t index, int64_t n_max, qn_json_writer *json)
{
    const qn_safetensors_entry *entry = qn_safetensors_entry_at(view->source, index);

    (void)n_max;
    qn_json_key(json, "key");
    qn_json_string_bytes(json, entry->key, (size_t)entry->n_key);
    qn_json_member_string(json, "type", "string");
    qn_json_key(json, "value");
    qn_json_string_bytes(json, entry->value, (size_t)entry->n_value);
}

static void close_safetensors(model_view *view)
{
    qn_safetensors_close(view->source);
}

static void take_files(model_view *view)
{
    view->n_files = qn_safetensors_n_shards(view->source);
    view->files = cli_alloc((size_t)view->n_files, sizeof *view->files);
    for (int32_t i = 0; i < (int32_t)view->n_files; i++) {
        const qn_safetensors_shard *shard = qn_safetensors_shard_at(view->source, i);
        view->files[i] = (view_file){
            .path = shard->path,
            .n_header_bytes = shard->n_header_bytes,
            .n_tensor_bytes = shard->n_data_bytes,
            .n_tensors = shard->n_tensors,
            .n_file_bytes = view_file_size(shard->path),
        };
    }
}

static void take_warning(void *ctx, qn_log_level level, const char *message)
{
    if (level == QN_LOG_WARNING) {
        (void)view_add_warning(ctx, message);
    }
}

qn_status view_open_safetensors(const char *path, const view_options *options, model_view *out_view,
                                qn_error *err)
{
    qn_safetensors_options st_options = QN_SAFETENSORS_OPTIONS_INIT;
    qn_safetensors *st = NULL;

    (void)options;
    st_options.log = take_warning;
    st_options.log_ctx = out_view;
    const qn_status status = qn_safetensors_open(path, &st_options, &st, err);
    if (status != QN_OK) {
        return status;
    }
    out_view->format = "safetensors";
    out_view->source = st;
    out_view->close = close_safetensors;
    out_view->tensor = tensor_at;
    out_view->entry = entry_at;
    out_view->entry_json = entry_json;
    out_view->n_tensors = qn_safetensors_n_tensors(st);
    out_view->n_entries = qn_safetensors_n_entries(st);
    cli_text_printf(&out_view->layout, "%s",
                    qn_safetensors_is_sharded(st) ? "safetensors, sharded" : "safetensors");
    take_files(out_view);
    return QN_OK;
}
