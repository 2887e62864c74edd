/* gguf_shards.c — writing a model as several files, by gguf-split's rules and names. */
#include "gguf/gguf_writer_internal.h"

struct qn_gguf_split {
    const qn_allocator *allocator;
    int64_t n;
    qn_gguf_writer **writers;
};

/* --- dividing ----------------------------------------------------------------------------------
 */

/* Does a new shard begin before tensor `index`, with n_bytes in the present one (-1: no tensor)? */
static bool begins_shard(const qn_gguf_split_options *options, int64_t index, int64_t n_bytes,
                         int64_t n_padded)
{
    if (n_bytes < 0) {
        return false; /* a shard gets at least one tensor, however large */
    }
    const bool is_full = options->max_tensors > 0 && index % options->max_tensors == 0;
    return is_full || (options->max_bytes > 0 && n_padded > options->max_bytes - n_bytes);
}

/* The shard of each tensor, in *out_shard_of; the number of shards. */
static int64_t divide(const qn_gguf_writer *writer, const qn_gguf_split_options *options,
                      int64_t *out_shard_of)
{
    int64_t shard = options->is_first_empty ? 1 : 0;
    int64_t n_bytes = -1;
    int64_t index = 0;
    for (int64_t i = 0; i < writer->tensors.n; i++) {
        const qni_gguf_wtensor *tensor = qni_wtensor_at(writer, i);
        if (tensor->is_dead) {
            out_shard_of[i] = -1;
            continue;
        }
        int64_t n_padded = 0;
        if (!qni_align_up_i64(tensor->info.n_bytes, writer->alignment, &n_padded)) {
            n_padded = INT64_MAX; /* laying the shard out will refuse it */
        }
        if (begins_shard(options, index, n_bytes, n_padded)) {
            shard++;
            n_bytes = -1;
        }
        out_shard_of[i] = shard;
        n_bytes = qni_max_i64(n_bytes, 0);
        n_bytes = n_padded > INT64_MAX - n_bytes ? INT64_MAX : n_bytes + n_padded;
        index++;
    }
    return index > 0 ? shard + 1 : 1;
}

/* --- the writers -------------------------------------------------------------------------------
 */

static bool is_split_key(const qni_gguf_wentry *entry)
{
    static const char *const keys[] = {QNI_GGUF_KEY_SPLIT_NO, QNI_GGUF_KEY_SPLIT_COUNT,
                                       QNI_GGUF_KEY_SPLIT_TENSORS};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        if (entry->n_key == (int64_t)strlen(keys[i]) &&
            memcmp(entry->key, keys[i], (size_t)entry->n_key) == 0) {
            return true;
        }
    }
    return false;
}

static qn_status copy_entries(qn_gguf_writer *to, const qn_gguf_writer *from, qn_error *err)
{
    for (int64_t i = 0; i < from->entries.n; i++) {
        const qni_gguf_wentry *entry = qni_wentry_at(from, i);
        if (!entry->is_dead && !is_split_key(entry)) {
            QN_TRY(qni_writer_set_value(to, entry->key, entry->n_key, entry->type, entry->value,
                                        entry->n_value, from->is_big_endian, err));
        }
    }
    return QN_OK;
}

static qn_status set_split_keys(qn_gguf_writer *writer, int64_t index, int64_t count, int64_t total,
                                bool is_count_before_total, qn_error *err)
{
    QN_TRY(qn_gguf_writer_set_u16(writer, QNI_GGUF_KEY_SPLIT_NO, (uint16_t)index, err));
    if (is_count_before_total) {
        QN_TRY(qn_gguf_writer_set_u16(writer, QNI_GGUF_KEY_SPLIT_COUNT, (uint16_t)count, err));
    }
    QN_TRY(qn_gguf_writer_set_i32(writer, QNI_GGUF_KEY_SPLIT_TENSORS, (int32_t)total, err));
    if (!is_count_before_total) {
        QN_TRY(qn_gguf_writer_set_u16(writer, QNI_GGUF_KEY_SPLIT_COUNT, (uint16_t)count, err));
    }
    return QN_OK;
}

static qn_status make_writer(const qn_gguf_writer *from, int64_t index, qn_gguf_split *split,
                             bool is_count_before_total, qn_error *err)
{
    qn_gguf_writer_options options = QN_GGUF_WRITER_OPTIONS_INIT;
    options.layout = from->layout;
    options.version = from->version;
    options.is_big_endian = from->is_big_endian;
    options.allocator = from->allocator;
    QN_TRY(qn_gguf_writer_new(&options, &split->writers[index], err));
    qn_gguf_writer *writer = split->writers[index];
    if (index == 0) {
        QN_TRY(copy_entries(writer, from, err));
    }
    return set_split_keys(writer, index, split->n, from->n_live_tensors, is_count_before_total,
                          err);
}

static qn_status deal_tensors(const qn_gguf_writer *from, qn_gguf_split *split,
                              const int64_t *shard_of, qn_error *err)
{
    for (int64_t i = 0; i < from->tensors.n; i++) {
        if (shard_of[i] >= 0) {
            qni_gguf_wtensor tensor = *qni_wtensor_at(from, i);
            tensor.given_offset = -1;
            QN_TRY(qni_writer_put_tensor(split->writers[shard_of[i]], &tensor, err));
        }
    }
    return QN_OK;
}

static qn_status read_options(const qn_gguf_split_options *given, qn_gguf_split_options *out,
                              qn_error *err)
{
    *out = (qn_gguf_split_options)QN_GGUF_SPLIT_OPTIONS_INIT;
    if (!given) {
        return QN_OK;
    }
    QN_CHECK(given->struct_size >= sizeof given->struct_size && given->struct_size <= sizeof *given,
             err, QN_ERR_INVALID_ARGUMENT, -1,
             "qn_gguf_split_options has struct_size %zu; start from QN_GGUF_SPLIT_OPTIONS_INIT",
             given->struct_size);
    memcpy(out, given, given->struct_size);
    QN_CHECK(out->max_tensors >= 0 && out->max_bytes >= 0, err, QN_ERR_INVALID_ARGUMENT, -1,
             "limits of a shard cannot be negative");
    return QN_OK;
}

static qn_status fill_split(qn_gguf_split *split, const qn_gguf_writer *writer,
                            const qn_gguf_split_options *options, const int64_t *shard_of,
                            qn_error *err)
{
    QN_CHECK(split->n <= QNI_MAX_SHARDS, err, QN_ERR_INVALID_SPLIT, -1,
             "%" PRId64 " shards; at most %d can be counted: raise the limit", split->n,
             QNI_MAX_SHARDS);
    QN_CHECK(writer->n_live_tensors <= INT32_MAX, err, QN_ERR_INVALID_SPLIT, -1,
             "%" PRId64 " tensors are more than split.tensors.count can hold",
             writer->n_live_tensors);
    split->writers = qni_alloc_zeroed(split->allocator, (size_t)split->n * sizeof *split->writers);
    if (!split->writers) {
        return qni_fail_memory(err, (size_t)split->n * sizeof *split->writers);
    }
    for (int64_t i = 0; i < split->n; i++) {
        QN_TRY(make_writer(writer, i, split, options->is_count_before_total, err));
    }
    return deal_tensors(writer, split, shard_of, err);
}

qn_status qn_gguf_split_new(const qn_gguf_writer *writer, const qn_gguf_split_options *options,
                            qn_gguf_split **out_split, qn_error *err)
{
    *out_split = NULL;
    qn_gguf_split_options opts;
    QN_TRY(read_options(options, &opts, err));
    const int64_t n = writer->tensors.n;
    int64_t *shard_of = qni_alloc_array(writer->allocator, n, sizeof *shard_of);
    qn_gguf_split *split = qni_alloc_zeroed(writer->allocator, sizeof *split);
    qn_status st = QN_OK;
    if (!shard_of || !split) {
        st = qni_fail_memory(err, (size_t)n * sizeof *shard_of);
        goto done;
    }
    split->allocator = writer->allocator;
    split->n = divide(writer, &opts, shard_of);
    QN_TRY_GOTO(fill_split(split, writer, &opts, shard_of, err));
    *out_split = split;
    split = NULL;
done:
    qni_free(writer->allocator, shard_of, (size_t)n * sizeof *shard_of);
    qn_gguf_split_free(split);
    return st;
}

int64_t qn_gguf_split_n(const qn_gguf_split *split)
{
    return split->n;
}

qn_gguf_writer *qn_gguf_split_writer(qn_gguf_split *split, int64_t index)
{
    return index >= 0 && index < split->n ? split->writers[index] : NULL;
}

void qn_gguf_split_free(qn_gguf_split *split)
{
    if (!split) {
        return;
    }
    for (int64_t i = 0; split->writers && i < split->n; i++) {
        qn_gguf_writer_free(split->writers[i]);
    }
    qni_free(split->allocator, split->writers, (size_t)split->n * sizeof *split->writers);
    qni_free(split->allocator, split, sizeof *split);
}

/* --- writing -----------------------------------------------------------------------------------
 */

/* Write and sync one shard under its temporary name. */
static qn_status write_shard(qn_gguf_split *split, int64_t index, const char *path,
                             qni_output *output, qn_error *err)
{
    QN_TRY(qni_output_begin(path, split->allocator, output, err));
    QN_TRY(qni_writer_write_output(split->writers[index], output, err));
    return qni_output_sync(output, err);
}

qn_status qn_gguf_split_finish_paths(qn_gguf_split *split, const char *prefix, qn_error *err)
{
    const size_t n_path = strlen(prefix) + QNI_N_SUFFIX_CHARS + 1;
    char *path = qni_alloc(split->allocator, n_path);
    qni_output *outputs = qni_alloc_array(split->allocator, split->n, sizeof *outputs);
    qn_status st = QN_OK;
    int64_t n_begun = 0;
    if (!path || !outputs) {
        st = qni_fail_memory(err, n_path);
        goto done;
    }
    for (; n_begun < split->n; n_begun++) {
        outputs[n_begun] = (qni_output)QNI_OUTPUT_CLOSED;
        QN_TRY_GOTO(qn_gguf_shard_path(prefix, (int64_t)strlen(prefix), n_begun, split->n, path,
                                       n_path, err));
        st = write_shard(split, n_begun, path, &outputs[n_begun], err);
        if (st != QN_OK) {
            st = qni_fail_path(err, st, path);
            n_begun++;
            goto done;
        }
    }
    QN_TRY_GOTO(qni_outputs_commit(outputs, split->n, err));
done:
    for (int64_t i = 0; outputs && i < n_begun; i++) {
        qni_output_abort(&outputs[i]); /* does nothing to one that was committed */
    }
    qni_free(split->allocator, outputs, (size_t)split->n * sizeof *outputs);
    qni_free(split->allocator, path, n_path);
    return st;
}
