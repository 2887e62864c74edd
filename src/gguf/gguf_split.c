/* gguf_split.c — models in several files: finding the shards by name, checking that they belong
 * together, merging their tables. llama.cpp's rules, stricter where it looks away. */
#include "gguf/gguf_internal.h"

/* --- one part ----------------------------------------------------------------------------------
 */

/* Bytes of the file: mapped, or read where mapping fails or is not wanted. */
static qn_status load_bytes(qni_gguf_part *part, const qn_gguf_options *options, qn_error *err)
{
    if (options->mode != QN_GGUF_HEAP) {
        qni_map map = {NULL, 0};
        const qn_status st = qni_map_open(part->path, &map, err);
        if (st == QN_OK) {
            part->bytes = map.bytes;
            part->shard.n_bytes = map.n_bytes;
            part->backing = QNI_BACKING_MAPPED;
            return QN_OK;
        }
        /* a file that cannot be opened cannot be read either: the same error comes again */
        if (options->mode == QN_GGUF_MAP || st != QN_ERR_IO) {
            return st;
        }
    }
    uint8_t *bytes = NULL;
    QN_TRY(qni_file_read_all(part->path, options->allocator, INT64_MAX, &bytes,
                             &part->shard.n_bytes, err));
    part->bytes = bytes;
    part->backing = QNI_BACKING_OWNED;
    return QN_OK;
}

static qn_status open_part(qni_gguf_part *part, const char *path, const qn_gguf_options *options,
                           qn_error *damage, qn_error *err)
{
    part->n_path = strlen(path) + 1;
    part->path = qni_alloc(options->allocator, part->n_path);
    if (!part->path) {
        return qni_fail_memory(err, part->n_path);
    }
    memcpy(part->path, path, part->n_path);
    part->shard.path = part->path;
    qn_status st = load_bytes(part, options, err);
    st = st == QN_OK ? qni_gguf_parse_part(part, options, damage, err) : st;
    return qni_fail_path(err, st, path);
}

/* --- the set -----------------------------------------------------------------------------------
 */

/* A split key of a part: the type llama.cpp writes and demands; *out_value -1 if it is not there.
 */
static qn_status split_value(const qni_gguf_part *part, const char *key, int64_t *out_value,
                             qn_error *err)
{
    *out_value = -1;
    const int64_t index = qni_gguf_part_find(part, key);
    if (index < 0) {
        return QN_OK;
    }
    const qn_gguf_entry *entry = &part->items[index].entry;
    const qn_gguf_type type =
        strcmp(key, QNI_GGUF_KEY_SPLIT_TENSORS) == 0 ? QN_GGUF_I32 : QN_GGUF_U16;
    QN_CHECK(entry->type == type, err, QN_ERR_INVALID_SPLIT, entry->file_offset,
             "%s has type %s; it must be %s", key, qn_gguf_type_name(entry->type),
             qn_gguf_type_name(type));
    qn_gguf_value value;
    qni_gguf_decode(type, entry->bytes, part->shard.is_big_endian, &value);
    *out_value = value.as_int;
    return QN_OK;
}

/* Shards that were joined byte for byte begin with the first one; behind another they are a tail
 * like any other. */
static qn_status check_not_joined(const qni_gguf_part *part, int64_t count, qn_error *err)
{
    int64_t number = -1;
    QN_TRY(split_value(part, QNI_GGUF_KEY_SPLIT_NO, &number, err));
    const uint8_t *tail = part->bytes + part->shard.n_bytes - part->shard.n_tail_bytes;
    const bool has_magic = part->shard.n_tail_bytes >= 4 && memcmp(tail, QNI_GGUF_MAGIC, 4) == 0;
    QN_CHECK(!has_magic || number > 0, err, QN_ERR_INVALID_SPLIT, tail - part->bytes,
             "the first of %" PRId64
             " shards with another GGUF file after it: shards were joined byte for byte; cut them "
             "apart again and use quench join",
             count);
    return QN_OK;
}

/* How many shards the named file says there are: 1 if it is whole. */
static qn_status shard_count(const qni_gguf_part *part, int64_t *out_count, qn_error *err)
{
    int64_t count = -1;
    *out_count = 1;
    QN_TRY(split_value(part, QNI_GGUF_KEY_SPLIT_COUNT, &count, err));
    if (count <= 1) {
        return QN_OK;
    }
    int64_t named = 0;
    const bool is_named = qn_gguf_parse_shard_path(part->path, NULL, NULL, &named);
    QN_TRY(check_not_joined(part, count, err));
    QN_CHECK(is_named, err, QN_ERR_INVALID_SPLIT, -1,
             "one shard of %" PRId64 ", but its name does not end in -00001-of-%05" PRId64
             ".gguf or the like, so the others cannot be found: give all shards their names back",
             count, count);
    QN_CHECK(named == count, err, QN_ERR_INVALID_SPLIT, -1,
             "the file name says that there are %" PRId64 " shards, split.count says %" PRId64,
             named, count);
    *out_count = count;
    return QN_OK;
}

/* What every shard must say about itself. */
static qn_status check_shard(const qni_gguf_part *part, int64_t index, int64_t count,
                             bool is_big_endian, qn_error *err)
{
    int64_t number = -1;
    int64_t its_count = -1;
    QN_TRY(split_value(part, QNI_GGUF_KEY_SPLIT_NO, &number, err));
    QN_TRY(split_value(part, QNI_GGUF_KEY_SPLIT_COUNT, &its_count, err));
    QN_CHECK(number >= 0, err, QN_ERR_INVALID_SPLIT, -1,
             "shard %" PRId64 " of %" PRId64 " has no split.no", index + 1, count);
    QN_CHECK(number == index, err, QN_ERR_INVALID_SPLIT, -1,
             "the file name says shard %" PRId64 " of %" PRId64 ", split.no says %" PRId64
             " (from 0): shards were renamed or mixed up",
             index + 1, count, number);
    QN_CHECK(its_count == count, err, QN_ERR_INVALID_SPLIT, -1,
             "split.count is %" PRId64 " in this shard and %" PRId64 " in the others", its_count,
             count);
    QN_CHECK(part->shard.is_big_endian == is_big_endian, err, QN_ERR_INVALID_SPLIT, 4,
             "this shard has another byte order than the others");
    return check_not_joined(part, count, err);
}

/* The sum of the shards' tensors is what the metadata announce. */
static qn_status check_total(const qn_gguf *gguf, qn_error *err)
{
    int64_t n_tensors = 0;
    for (int64_t i = 0; i < gguf->n_parts; i++) {
        n_tensors += gguf->parts[i].shard.n_tensors;
    }
    for (int64_t i = 0; i < gguf->n_parts; i++) {
        const qni_gguf_part *part = &gguf->parts[i];
        int64_t total = -1;
        qn_status st = split_value(part, QNI_GGUF_KEY_SPLIT_TENSORS, &total, err);
        if (st == QN_OK && total < 0 && i == 0) {
            st = qni_fail(err, QN_ERR_INVALID_SPLIT, -1,
                          "the first of %" PRId64 " shards has no split.tensors.count",
                          gguf->n_parts);
        }
        if (st == QN_OK && total >= 0 && total != n_tensors) {
            st = qni_fail(err, QN_ERR_INVALID_SPLIT, -1,
                          "the %" PRId64 " shards hold %" PRId64
                          " tensors, split.tensors.count says %" PRId64,
                          gguf->n_parts, n_tensors, total);
        }
        if (st != QN_OK) {
            return qni_fail_path(err, st, part->path);
        }
    }
    return QN_OK;
}

/* Open all shards but number `named`, which is open already. */
static qn_status open_others(qn_gguf *gguf, int64_t named, int64_t n_prefix, qn_error *err)
{
    const char *prefix = gguf->parts[named].path;
    const size_t n_path = gguf->parts[named].n_path;
    char *path = qni_alloc(gguf->allocator, n_path);
    if (!path) {
        return qni_fail_memory(err, n_path);
    }
    qn_status st = QN_OK;
    for (int64_t i = 0; st == QN_OK && i < gguf->n_parts; i++) {
        qni_gguf_part *part = &gguf->parts[i];
        if (i != named) {
            st = qn_gguf_shard_path(prefix, n_prefix, i, gguf->n_parts, path, n_path, err);
            if (st == QN_OK && !qni_file_exists(path)) {
                st = qni_fail(err, QN_ERR_INVALID_SPLIT, -1,
                              "shard %" PRId64 " of %" PRId64
                              " is missing; it should lie beside the others",
                              i + 1, gguf->n_parts);
                st = qni_fail_path(err, st, path);
                break;
            }
            st = st == QN_OK ? open_part(part, path, &gguf->options, &gguf->damage, err) : st;
        }
        if (st == QN_OK) {
            st = check_shard(part, i, gguf->n_parts, gguf->parts[named].shard.is_big_endian, err);
            st = qni_fail_path(err, st, part->path);
        }
    }
    qni_free(gguf->allocator, path, n_path);
    return st;
}

qn_status qni_gguf_open_parts(qn_gguf *gguf, const char *path, qn_error *err)
{
    qni_gguf_part *parts = qni_alloc_zeroed(gguf->allocator, sizeof *parts);
    if (!parts) {
        return qni_fail_memory(err, sizeof *parts);
    }
    gguf->parts = parts;
    gguf->n_parts = 1;
    QN_TRY(open_part(&parts[0], path, &gguf->options, &gguf->damage, err));
    int64_t count = 1;
    if (!gguf->options.single_shard) {
        QN_TRY(shard_count(&parts[0], &count, err));
    }
    if (count == 1) {
        return QN_OK;
    }
    int64_t n_prefix = 0;
    int64_t named = 0;
    (void)qn_gguf_parse_shard_path(path, &n_prefix, &named, NULL);
    qni_gguf_part *all = qni_alloc_zeroed(gguf->allocator, (size_t)count * sizeof *all);
    if (!all) {
        return qni_fail_memory(err, (size_t)count * sizeof *all);
    }
    all[named] = parts[0];
    qni_free(gguf->allocator, parts, sizeof *parts);
    gguf->parts = all;
    gguf->n_parts = count;
    QN_TRY(open_others(gguf, named, n_prefix, err));
    return check_total(gguf, err);
}

/* --- merging -----------------------------------------------------------------------------------
 */

static void take_table(qn_gguf *gguf, qni_gguf_part *part)
{
    gguf->tensors = part->tensors;
    gguf->n_tensors = part->shard.n_tensors;
    gguf->names = part->names;
    part->tensors = NULL;
    part->names = (qni_gguf_names){0};
}

QNI_COLD static qn_status fail_twice(const qn_gguf *gguf, const int64_t pair[2], qn_error *err)
{
    const qn_tensor_info *info = &gguf->tensors[pair[1]];
    const int32_t other = gguf->tensors[pair[0]].shard;
    qni_name_text text;
    qn_status st =
        qni_fail(err, QN_ERR_DUPLICATE_TENSOR_NAME, -1,
                 "tensor \"%s\" is in shard %" PRId32 " and in shard %" PRId32,
                 qni_escape_name(info->name, info->n_name, &text), other + 1, info->shard + 1);
    st = qni_fail_tensor(err, st, pair[1]);
    return qni_fail_path(err, st, gguf->parts[info->shard].path);
}

/* The parts' tables one after the other, under one table of names. */
static qn_status concatenate(qn_gguf *gguf, qn_error *err)
{
    int64_t n = 0;
    for (int64_t i = 0; i < gguf->n_parts; i++) {
        gguf->parts[i].shard.first_tensor = n;
        n += gguf->parts[i].shard.n_tensors;
    }
    gguf->tensors = qni_alloc_array(gguf->allocator, n, sizeof *gguf->tensors);
    if (!gguf->tensors) {
        return qni_fail_memory(err, (size_t)n * sizeof *gguf->tensors);
    }
    gguf->n_tensors = n;
    QN_TRY(qni_names_init(&gguf->names, gguf->allocator, n, err));
    gguf->names.items = (const uint8_t *)gguf->tensors;
    gguf->names.stride = sizeof *gguf->tensors;
    gguf->names.cut_at_nul = gguf->options.strict;
    int64_t at = 0;
    int64_t pair[2];
    for (int64_t i = 0; i < gguf->n_parts; i++) {
        const qni_gguf_part *part = &gguf->parts[i];
        for (int64_t k = 0; k < part->shard.n_tensors; k++) {
            qn_tensor_info *info = &gguf->tensors[at];
            *info = part->tensors[k];
            info->shard = (int32_t)i;
            if (!qni_names_add(&gguf->names, info->name, info->n_name, at, pair)) {
                return fail_twice(gguf, pair, err);
            }
            at++;
        }
    }
    return qni_names_flush(&gguf->names, pair) ? QN_OK : fail_twice(gguf, pair, err);
}

qn_status qni_gguf_merge(qn_gguf *gguf, qn_error *err)
{
    if (gguf->n_parts == 1) {
        take_table(gguf, &gguf->parts[0]);
        return QN_OK;
    }
    QN_TRY(concatenate(gguf, err));
    for (int64_t i = 0; i < gguf->n_parts; i++) {
        qni_gguf_part *part = &gguf->parts[i];
        qni_free(gguf->allocator, part->tensors,
                 (size_t)part->shard.n_tensors * sizeof *part->tensors);
        part->tensors = NULL;
        qni_names_free(&part->names);
    }
    return QN_OK;
}
