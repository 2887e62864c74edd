/* shards.c — cutting a plan into several output files, and the keys that tie them together. */
#include "model/shards_internal.h"

#define MAX_SHARDS 65535 /* split.count is a u16 */

qn_status qni_shard_next(qni_shard_cutter *cutter, int64_t n_bytes, int64_t n_tensors,
                         int32_t *out_file, qn_error *err)
{
    const int64_t max_bytes = cutter->max_bytes > 0 ? cutter->max_bytes : INT64_MAX;
    const int64_t max_tensors = cutter->max_tensors > 0 ? cutter->max_tensors : INT64_MAX;
    *out_file = 0;
    if (cutter->n_tensors > 0 &&
        (n_tensors > max_tensors - cutter->n_tensors || n_bytes > max_bytes - cutter->n_bytes)) {
        cutter->file++;
        cutter->n_bytes = 0;
        cutter->n_tensors = 0;
    }
    QN_CHECK(cutter->file < MAX_SHARDS, err, QN_ERR_INVALID_SPLIT, -1,
             "more than %d output files; allow larger ones", MAX_SHARDS);
    cutter->n_bytes += n_bytes;
    cutter->n_tensors += n_tensors;
    *out_file = cutter->file;
    return QN_OK;
}

qn_status qni_make_last(qn_gguf_writer *writer, const char *key, qn_error *err)
{
    return qn_gguf_writer_has(writer, key) ? qn_gguf_writer_remove(writer, key, err) : QN_OK;
}

qn_status qni_set_split_keys(qn_gguf_writer *writer, int32_t file, int32_t n_files,
                             int64_t n_tensors, qn_error *err)
{
    QN_TRY(qni_make_last(writer, "split.no", err));
    QN_TRY(qn_gguf_writer_set_u16(writer, "split.no", (uint16_t)file, err));
    QN_TRY(qni_make_last(writer, "split.count", err));
    QN_TRY(qn_gguf_writer_set_u16(writer, "split.count", (uint16_t)n_files, err));
    QN_TRY(qni_make_last(writer, "split.tensors.count", err));
    return qn_gguf_writer_set_i32(writer, "split.tensors.count", (int32_t)n_tensors, err);
}
