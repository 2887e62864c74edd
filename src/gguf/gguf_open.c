/* gguf_open.c — handles: opening, closing, looking at files and tensors, pages. */
#include "gguf/gguf_internal.h"

qn_status qni_gguf_read_options(const qn_gguf_options *given, qn_gguf_options *out_options,
                                qn_error *err)
{
    *out_options = (qn_gguf_options)QN_GGUF_OPTIONS_INIT;
    if (!given) {
        return QN_OK;
    }
    QN_CHECK(given->struct_size >= sizeof given->struct_size && given->struct_size <= sizeof *given,
             err, QN_ERR_INVALID_ARGUMENT, -1,
             "qn_gguf_options has struct_size %zu; start from QN_GGUF_OPTIONS_INIT",
             given->struct_size);
    memcpy(out_options, given, given->struct_size);
    QN_CHECK((int)given->mode >= QN_GGUF_AUTO && (int)given->mode <= QN_GGUF_HEAP, err,
             QN_ERR_INVALID_ARGUMENT, -1, "there is no open mode %d", (int)given->mode);
    return QN_OK;
}

/* A handle with room for n parts, all empty. */
static qn_status new_handle(const qn_gguf_options *given, qn_gguf **out_gguf, qn_error *err)
{
    qn_gguf_options options;
    QN_TRY(qni_gguf_read_options(given, &options, err));
    qn_gguf *gguf = qni_alloc_zeroed(options.allocator, sizeof *gguf);
    if (!gguf) {
        return qni_fail_memory(err, sizeof *gguf);
    }
    gguf->allocator = options.allocator;
    gguf->options = options;
    gguf->damage = (qn_error)QN_ERROR_INIT;
    *out_gguf = gguf;
    return QN_OK;
}

static void close_part(qni_gguf_part *part, const qn_allocator *allocator)
{
    qni_gguf_part_clear(part, allocator);
    if (part->backing == QNI_BACKING_MAPPED) {
        qni_map map = {part->bytes, part->shard.n_bytes};
        qni_map_close(&map);
    } else if (part->backing == QNI_BACKING_OWNED) {
        /* what we allocated ourselves or took over: its bytes are not const */
        uint8_t *owned = (uint8_t *)(uintptr_t)part->bytes;
        qni_free(allocator, owned, (size_t)part->shard.n_bytes);
    }
    qni_free(allocator, part->path, part->n_path);
}

void qn_gguf_close(qn_gguf *gguf)
{
    if (!gguf) {
        return;
    }
    for (int64_t i = 0; i < gguf->n_parts; i++) {
        close_part(&gguf->parts[i], gguf->allocator);
    }
    qni_free(gguf->allocator, gguf->parts, (size_t)gguf->n_parts * sizeof *gguf->parts);
    qni_free(gguf->allocator, gguf->tensors, (size_t)gguf->n_tensors * sizeof *gguf->tensors);
    qni_names_free(&gguf->names);
    qni_free(gguf->allocator, gguf, sizeof *gguf);
}

/* Warnings go to the log as soon as the file is open. */
static qn_status log_warnings(const qn_gguf *gguf, qn_error *err)
{
    if (!gguf->options.log) {
        return QN_OK;
    }
    qn_gguf_report *report = NULL;
    QN_TRY(qn_gguf_lint(gguf, false, &report, err));
    for (int64_t i = 0; i < qn_gguf_report_n(report); i++) {
        gguf->options.log(gguf->options.log_ctx, QN_LOG_WARNING,
                          qn_gguf_report_at(report, i)->message);
    }
    qn_gguf_report_free(report);
    return QN_OK;
}

/* Parse bytes that are there already. */
static qn_status parse_bytes(const void *bytes, int64_t n_bytes, const qn_gguf_options *options,
                             qni_gguf_backing backing, qn_gguf **out_gguf, qn_error *err)
{
    *out_gguf = NULL;
    QN_CHECK(n_bytes >= 0 && (bytes || n_bytes == 0), err, QN_ERR_INVALID_ARGUMENT, -1,
             "no bytes to parse");
    qn_gguf *gguf = NULL;
    QN_TRY(new_handle(options, &gguf, err));
    qn_status st = QN_OK;
    gguf->parts = qni_alloc_zeroed(gguf->allocator, sizeof *gguf->parts);
    if (!gguf->parts) {
        st = qni_fail_memory(err, sizeof *gguf->parts);
        goto done;
    }
    gguf->n_parts = 1;
    qni_gguf_part *part = &gguf->parts[0];
    part->shard.path = "";
    part->shard.n_bytes = n_bytes;
    part->bytes = bytes;
    part->backing = QNI_BACKING_BORROWED;
    QN_TRY_GOTO(qni_gguf_parse_part(part, &gguf->options, &gguf->damage, err));
    QN_TRY_GOTO(qni_gguf_merge(gguf, err));
    QN_TRY_GOTO(log_warnings(gguf, err));
    part->backing = backing; /* taken only now: a failure leaves the bytes with the caller */
    *out_gguf = gguf;
    return QN_OK;
done:
    qn_gguf_close(gguf);
    return st;
}

qn_status qn_gguf_parse(const void *bytes, int64_t n_bytes, const qn_gguf_options *options,
                        qn_gguf **out_gguf, qn_error *err)
{
    return parse_bytes(bytes, n_bytes, options, QNI_BACKING_BORROWED, out_gguf, err);
}

qn_status qn_gguf_parse_owned(void *bytes, int64_t n_bytes, const qn_gguf_options *options,
                              qn_gguf **out_gguf, qn_error *err)
{
    return parse_bytes(bytes, n_bytes, options, QNI_BACKING_OWNED, out_gguf, err);
}

qn_status qn_gguf_open(const char *path, const qn_gguf_options *options, qn_gguf **out_gguf,
                       qn_error *err)
{
    *out_gguf = NULL;
    QN_CHECK(path, err, QN_ERR_INVALID_ARGUMENT, -1, "no path to open");
    qn_gguf *gguf = NULL;
    QN_TRY(new_handle(options, &gguf, err));
    qn_status st = QN_OK;
    QN_TRY_GOTO(qni_gguf_open_parts(gguf, path, err));
    QN_TRY_GOTO(qni_gguf_merge(gguf, err));
    QN_TRY_GOTO(log_warnings(gguf, err));
    *out_gguf = gguf;
    return QN_OK;
done:
    qn_gguf_close(gguf);
    return qni_fail_path(err, st, path);
}

const qn_error *qn_gguf_damage(const qn_gguf *gguf)
{
    return gguf->damage.status != QN_OK ? &gguf->damage : NULL;
}

/* --- the file ----------------------------------------------------------------------------------
 */

int64_t qn_gguf_n_shards(const qn_gguf *gguf)
{
    return gguf->n_parts;
}

const qn_gguf_shard *qn_gguf_shard_at(const qn_gguf *gguf, int64_t index)
{
    return index >= 0 && index < gguf->n_parts ? &gguf->parts[index].shard : NULL;
}

uint32_t qn_gguf_version(const qn_gguf *gguf)
{
    return gguf->parts[0].shard.version;
}

int64_t qn_gguf_alignment(const qn_gguf *gguf)
{
    return gguf->parts[0].shard.alignment;
}

int64_t qn_gguf_data_offset(const qn_gguf *gguf)
{
    return gguf->parts[0].shard.data_offset;
}

bool qn_gguf_is_big_endian(const qn_gguf *gguf)
{
    return gguf->parts[0].shard.is_big_endian;
}

int64_t qn_gguf_n_bytes(const qn_gguf *gguf)
{
    int64_t n_bytes = 0;
    for (int64_t i = 0; i < gguf->n_parts; i++) {
        /* sizes of files that exist: their sum cannot pass 2^63 */
        n_bytes += gguf->parts[i].shard.n_bytes;
    }
    return n_bytes;
}

const void *qn_gguf_bytes(const qn_gguf *gguf, int64_t shard)
{
    return shard >= 0 && shard < gguf->n_parts ? gguf->parts[shard].bytes : NULL;
}

/* --- tensors -----------------------------------------------------------------------------------
 */

int64_t qn_gguf_n_tensors(const qn_gguf *gguf)
{
    return gguf->n_tensors;
}

const qn_tensor_info *qn_gguf_tensor(const qn_gguf *gguf, int64_t index)
{
    return index >= 0 && index < gguf->n_tensors ? &gguf->tensors[index] : NULL;
}

int64_t qn_gguf_find_tensor(const qn_gguf *gguf, const char *name, int64_t n_name)
{
    return qni_names_find(&gguf->names, name, n_name);
}

qn_status qn_gguf_get_tensor(const qn_gguf *gguf, const char *name, const qn_tensor_info **out_info,
                             qn_error *err)
{
    *out_info = NULL;
    const int64_t n_name = (int64_t)strlen(name);
    const int64_t index = qn_gguf_find_tensor(gguf, name, n_name);
    qni_name_text text;
    QN_CHECK(index >= 0, err, QN_ERR_TENSOR_NOT_FOUND, -1, "there is no tensor \"%s\"",
             qni_escape_name(name, n_name, &text));
    *out_info = &gguf->tensors[index];
    return QN_OK;
}

qn_status qn_tensor_logical_shape(const qn_tensor_info *info, int64_t out_shape[2], qn_error *err)
{
    out_shape[0] = out_shape[1] = 0;
    qni_name_text text;
    QN_CHECK(info->n_dims == 2, err, QN_ERR_INVALID_TENSOR_INFO, -1,
             "tensor \"%s\" has %" PRId32 " dimensions; a matrix has 2",
             qni_escape_name(info->name, info->n_name, &text), info->n_dims);
    out_shape[0] = info->ne[1];
    out_shape[1] = info->ne[0];
    return QN_OK;
}

/* --- pages -------------------------------------------------------------------------------------
 */

/* True if all the bytes lie in one of the handle's mappings. */
static bool is_mapped(const qn_gguf *gguf, const void *bytes, int64_t n_bytes)
{
    const uintptr_t at = (uintptr_t)bytes;
    for (int64_t i = 0; bytes && n_bytes > 0 && i < gguf->n_parts; i++) {
        const qni_gguf_part *part = &gguf->parts[i];
        const uintptr_t start = (uintptr_t)part->bytes;
        if (part->backing == QNI_BACKING_MAPPED && at >= start &&
            at - start <= (uintptr_t)part->shard.n_bytes &&
            n_bytes <= part->shard.n_bytes - (int64_t)(at - start)) {
            return true;
        }
    }
    return false;
}

void qn_gguf_prefetch(const qn_gguf *gguf, const void *bytes, int64_t n_bytes)
{
    if (is_mapped(gguf, bytes, n_bytes)) {
        qni_map_prefetch(bytes, n_bytes);
    }
}

void qn_gguf_release(const qn_gguf *gguf, const void *bytes, int64_t n_bytes)
{
    if (is_mapped(gguf, bytes, n_bytes)) {
        qni_map_release(bytes, n_bytes);
    }
}

bool qn_gguf_take_mapping(qn_gguf *gguf, qn_gguf_mapping *out_mapping)
{
    *out_mapping = (qn_gguf_mapping){NULL, 0};
    qni_gguf_part *part = &gguf->parts[0];
    if (gguf->n_parts != 1 || part->backing != QNI_BACKING_MAPPED) {
        return false;
    }
    *out_mapping = (qn_gguf_mapping){part->bytes, part->shard.n_bytes};
    part->backing = QNI_BACKING_NONE;
    part->bytes = NULL;
    return true;
}

void qn_gguf_mapping_close(qn_gguf_mapping *mapping)
{
    qni_map map = {mapping->bytes, mapping->n_bytes};
    qni_map_close(&map);
    *mapping = (qn_gguf_mapping){NULL, 0};
}
