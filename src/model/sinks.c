/* sinks.c — where a chunk's output bytes go: to their place in a file, and to callbacks in order.
 */
#include "model/stream_internal.h"

const uint8_t *qni_chunk_output(const qni_chunk *chunk, int32_t k, int64_t *out_offset,
                                int64_t *out_n_bytes)
{
    const qni_geometry *geometry = chunk->geometry;
    if (chunk->item->recipe->is_verbatim) {
        *out_offset = chunk->first_unit * geometry->unit_in_bytes;
        *out_n_bytes = chunk->n_in_bytes;
        return chunk->in;
    }
    *out_offset = chunk->first_unit * geometry->unit_out_bytes[k];
    *out_n_bytes = chunk->n_units * geometry->unit_out_bytes[k];
    return chunk->out[k];
}

qn_status qni_sink_write(qn_run *run, const qni_chunk *chunk, int64_t *out_n_bytes, qn_error *err)
{
    *out_n_bytes = 0;
    for (int32_t k = 0; k < chunk->item->n_outputs && run->n_outputs > 0; k++) {
        const qn_tensor_info *tensor = &run->plan->tensors[chunk->item->first_output + k];
        int64_t offset, n_bytes;
        const uint8_t *bytes = qni_chunk_output(chunk, k, &offset, &n_bytes);
        const qni_file *file = &run->outputs[tensor->shard].file;
        QN_TRY(qni_file_pwrite(file, bytes, (size_t)n_bytes, tensor->file_offset + offset, err));
        qni_cache_after_write(run, tensor->shard, tensor->file_offset + offset, n_bytes);
        *out_n_bytes += n_bytes;
    }
    return QN_OK;
}

/* --- callbacks, in order ---------------------------------------------------------------------- */

static void hand_out(qn_run *run, const void *bytes, int64_t n_bytes)
{
    if (n_bytes > 0 && run->options.on_output_bytes != NULL) {
        run->options.on_output_bytes(run->options.bytes_ctx, run->digested_file, bytes,
                                     (size_t)n_bytes);
    }
    run->digested_to += n_bytes;
}

static void hand_out_zeros(qn_run *run, int64_t up_to)
{
    static const uint8_t zeros[4096];
    while (run->digested_to < up_to) {
        hand_out(run, zeros, qni_min_i64(up_to - run->digested_to, (int64_t)sizeof zeros));
    }
}

static void begin_file(qn_run *run)
{
    const qni_plan_file *file = &run->plan->files[run->digested_file];
    if (run->digested_to == 0) {
        hand_out(run, file->header, file->n_header_bytes);
    }
}

void qni_sink_digest_up_to(qn_run *run, const qni_item *item)
{
    const qn_plan *plan = run->plan;
    const qn_tensor_info *tensor = item != NULL ? qni_plan_target(plan, item) : NULL;
    const int32_t file = tensor != NULL ? tensor->shard : plan->n_files;
    if (plan->n_files == 0 || (item != NULL && tensor == NULL)) {
        return;
    }
    for (; run->digested_file < file; run->digested_file++) {
        begin_file(run);
        hand_out_zeros(run, plan->files[run->digested_file].n_bytes);
        run->digested_to = 0;
    }
    if (tensor != NULL) {
        begin_file(run);
        hand_out_zeros(run, tensor->file_offset);
    }
}

void qni_sink_digest(qn_run *run, const qni_chunk *chunk)
{
    const qn_run_options *options = &run->options;
    if (chunk->first_unit == 0) {
        qni_sink_digest_up_to(run, chunk->item);
    }
    int64_t offset, n_bytes;
    const uint8_t *bytes = qni_chunk_output(chunk, 0, &offset, &n_bytes);
    if (options->on_item_bytes != NULL) {
        options->on_item_bytes(options->bytes_ctx, chunk->item - run->plan->items, bytes,
                               (size_t)n_bytes);
    }
    if (run->plan->n_files > 0) {
        hand_out(run, bytes, n_bytes);
    }
}
