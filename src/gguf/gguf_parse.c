/* gguf_parse.c — bytes to a table of contents: header, metadata, directory, in one pass.
 *
 * Every count and length is compared with the bytes that are left before it is used. A header that
 * announces very many entries is walked once without keeping anything but a table of names, so that
 * a hostile one is refused before memory of several times its size is spent on it. */
#include "gguf/gguf_internal.h"
#include "quench/probe.h"

/* More entries than this are checked before anything is allocated for them. */
#define SCAN_FIRST_ABOVE ((uint64_t)1 << 18)
/* The least an entry takes: key length, one byte, type, one byte; and a directory entry: name
 * length, number of dimensions, type, offset. */
#define MIN_ENTRY_BYTES 14
#define MIN_INFO_BYTES  24

typedef struct parse {
    const qn_gguf_options *options;
    const qn_allocator *allocator;
    qni_gguf_part *part;
    const uint8_t *base;
    const uint8_t *p; /* reading position */
    const uint8_t *end;
    bool is_big_endian;
    bool is_fill; /* false: check only */
    uint64_t max_string;
    uint64_t n_entries;
    uint64_t n_tensors;
    int64_t alignment;
    qni_gguf_names names; /* of the section being read */
    qn_error *damage;
    qn_error *err;
} parse;

static int64_t offset_of(const parse *ps, const uint8_t *p)
{
    return p - ps->base;
}

/* --- header ------------------------------------------------------------------------------------
 */

static qn_status fail_foreign(const parse *ps)
{
    const int64_t n_bytes = ps->end - ps->base;
    QN_CHECK(n_bytes > 0, ps->err, QN_ERR_END_OF_STREAM, 0,
             "the file is empty; download or export it again");
    QN_CHECK(n_bytes >= 4 || memcmp(ps->base, QNI_GGUF_MAGIC, (size_t)n_bytes) != 0, ps->err,
             QN_ERR_END_OF_STREAM, 0, "the file ends inside the magic bytes, after %" PRId64,
             n_bytes);
    const qn_file_kind kind = qn_probe(ps->base, (size_t)qni_min_i64(n_bytes, QN_PROBE_BYTES));
    QN_CHECK(kind == QN_FILE_UNKNOWN, ps->err, QN_ERR_NOT_A_MODEL, 0, "not GGUF but %s",
             qn_file_kind_text(kind));
    qni_name_text text;
    return qni_fail(ps->err, QN_ERR_INVALID_MAGIC, 0,
                    "the file begins with \"%s\", not with \"GGUF\": it is no GGUF file",
                    qni_escape_name((const char *)ps->base, qni_min_i64(n_bytes, 4), &text));
}

static qn_status read_version(parse *ps)
{
    uint32_t version = qni_load_u32le(ps->p);
    ps->is_big_endian = (version & 0xFFFF) == 0 && version != 0;
    if (ps->is_big_endian) {
        version = qni_load_u32(ps->p, true);
    }
    QN_CHECK(version != 1, ps->err, QN_ERR_UNSUPPORTED_VERSION, 4,
             "GGUF version 1 is not supported (its lengths are 32 bits wide): convert the model "
             "again");
    QN_CHECK(version == 2 || version == 3, ps->err, QN_ERR_UNSUPPORTED_VERSION, 4,
             "GGUF version %" PRIu32 "; versions 2 and 3 are known", qni_load_u32le(ps->p));
    QN_CHECK(!ps->options->strict || !ps->is_big_endian, ps->err, QN_ERR_STRICT, 4,
             "the file is big-endian; ggml refuses that on a little-endian machine");
    ps->part->shard.version = version;
    ps->part->shard.is_big_endian = ps->is_big_endian;
    ps->p += 4;
    return QN_OK;
}

static qn_status read_header(parse *ps)
{
    if (ps->end - ps->p < 4 || memcmp(ps->p, QNI_GGUF_MAGIC, 4) != 0) {
        return fail_foreign(ps);
    }
    QN_CHECK(ps->end - ps->p >= 8, ps->err, QN_ERR_END_OF_STREAM, offset_of(ps, ps->end),
             "the file ends inside the version number");
    ps->p += 4;
    QN_TRY(read_version(ps));
    QN_CHECK(ps->end - ps->p >= 16, ps->err, QN_ERR_END_OF_STREAM, offset_of(ps, ps->end),
             "the file ends inside the header of %d bytes", QNI_GGUF_HEADER_BYTES);
    ps->n_tensors = qni_load_u64(ps->p, ps->is_big_endian);
    ps->n_entries = qni_load_u64(ps->p + 8, ps->is_big_endian);
    ps->p += 16;
    const uint64_t left = (uint64_t)(ps->end - ps->p);
    QN_CHECK(ps->n_entries <= left / MIN_ENTRY_BYTES, ps->err, QN_ERR_INVALID_TENSOR_INFO, 16,
             "the header announces %" PRIu64 " metadata entries, for which %" PRIu64
             " bytes are not enough; the file is cut short or damaged",
             ps->n_entries, left);
    QN_CHECK(ps->n_tensors <= left / MIN_INFO_BYTES, ps->err, QN_ERR_INVALID_TENSOR_INFO, 8,
             "the header announces %" PRIu64 " tensors, for which %" PRIu64
             " bytes are not enough; the file is cut short or damaged",
             ps->n_tensors, left);
    return QN_OK;
}

/* --- names -------------------------------------------------------------------------------------
 */

static qn_status begin_names(parse *ps, uint64_t n, bool cut_at_nul, const void *items,
                             size_t stride)
{
    qni_gguf_names *names = &ps->names;
    QN_TRY(qni_names_init(names, ps->allocator, (int64_t)n, ps->err));
    names->cut_at_nul = cut_at_nul;
    names->items = items;
    names->stride = stride;
    if (ps->is_fill) {
        return QN_OK;
    }
    names->is_file = true;
    names->is_big_endian = ps->is_big_endian;
    names->items = ps->base;
    names->positions = qni_alloc_array(ps->allocator, (int64_t)n, sizeof *names->positions);
    if (!names->positions) {
        return qni_fail_memory(ps->err, n * sizeof *names->positions);
    }
    return QN_OK;
}

static void drop_names(parse *ps, uint64_t n)
{
    qni_free(ps->allocator, ps->names.positions, n * sizeof *ps->names.positions);
    qni_names_free(&ps->names);
}

QNI_COLD static qn_status fail_duplicate_key(const parse *ps, const char *bytes, int64_t n_bytes,
                                             const int64_t pair[2])
{
    qni_name_text text;
    return qni_fail(ps->err, QN_ERR_DUPLICATE_METADATA_KEY, offset_of(ps, (const uint8_t *)bytes),
                    "metadata entries %" PRId64 " and %" PRId64 " have the same key \"%s\"",
                    pair[0], pair[1], qni_escape_name(bytes, n_bytes, &text));
}

QNI_COLD static qn_status fail_duplicate_tensor(const parse *ps, const char *bytes, int64_t n_bytes,
                                                const int64_t pair[2])
{
    qni_name_text text;
    const qn_status st =
        qni_fail(ps->err, QN_ERR_DUPLICATE_TENSOR_NAME, offset_of(ps, (const uint8_t *)bytes),
                 "tensors %" PRId64 " and %" PRId64 " have the same name \"%s\"%s", pair[0],
                 pair[1], qni_escape_name(bytes, n_bytes, &text),
                 ps->options->strict ? " (strict: up to the first NUL)" : "");
    return qni_fail_tensor(ps->err, st, pair[1]);
}

/* The name of item `index` of the section being read, which is queued or in the table. */
static qni_gguf_name queued_name(const parse *ps, int64_t index)
{
    qni_gguf_name name;
    if (ps->names.is_file) {
        const uint8_t *p = ps->base + ps->names.positions[index];
        name.bytes = (const char *)p;
        name.n_bytes = (int64_t)qni_load_u64(p - 8, ps->is_big_endian);
    } else {
        memcpy(&name, ps->names.items + (size_t)index * ps->names.stride, sizeof name);
    }
    return name;
}

QNI_INLINE bool add_name(parse *ps, bool is_fill, const uint8_t *bytes, int64_t n_bytes,
                         int64_t index, int64_t out_pair[2])
{
    if (!is_fill) {
        ps->names.positions[index] = offset_of(ps, bytes);
    }
    return qni_names_add(&ps->names, (const char *)bytes, n_bytes, index, out_pair);
}

/* --- metadata ----------------------------------------------------------------------------------
 */

/* Only a u32 counts: other readers refuse the rest. Checked on the stored value, before anything
 * widens it. */
static qn_status read_alignment(parse *ps, uint32_t type, const uint8_t *value)
{
    QN_CHECK(type == QN_GGUF_U32, ps->err, QN_ERR_INVALID_ALIGNMENT, offset_of(ps, value),
             "general.alignment has type %s; it must be u32",
             qn_gguf_type_name((qn_gguf_type)type));
    const uint32_t alignment = qni_load_u32(value, ps->is_big_endian);
    QN_CHECK(alignment != 0 && (alignment & (alignment - 1)) == 0, ps->err,
             QN_ERR_INVALID_ALIGNMENT, offset_of(ps, value),
             "general.alignment is %" PRIu32 "; it must be a power of two", alignment);
    ps->alignment = alignment;
    return QN_OK;
}

QNI_COLD static qn_status fail_value(const parse *ps, const qni_gguf_stop *stop, const uint8_t *key,
                                     int64_t n_key)
{
    qni_name_text text;
    char what[QNI_NAME_MAX + 32];
    (void)snprintf(what, sizeof what, "metadata key \"%s\"",
                   qni_escape_name((const char *)key, n_key, &text));
    return qni_gguf_fail_stop(stop, ps->base, what, ps->err);
}

/* What only some files are asked for: the array rules of ggml, the integers of the seed. */
static qn_status check_profile(const parse *ps, const qn_gguf_entry *entry)
{
    if (ps->options->strict && entry->type == QN_GGUF_ARRAY) {
        QN_CHECK(entry->elem_type != QN_GGUF_ARRAY, ps->err, QN_ERR_STRICT, entry->file_offset,
                 "an array of arrays; ggml refuses those");
        QN_CHECK((uint64_t)entry->n_elems <= QNI_GGML_MAX_ARRAY, ps->err, QN_ERR_STRICT,
                 entry->file_offset,
                 "an array of %" PRId64 " elements; ggml takes at most %" PRIu64, entry->n_elems,
                 QNI_GGML_MAX_ARRAY);
    }
    if (ps->options->int64_only && entry->type == QN_GGUF_U64) {
        const uint64_t value = qni_load_u64(entry->bytes, ps->is_big_endian);
        QN_CHECK(value <= INT64_MAX, ps->err, QN_ERR_METADATA_VALUE_OUT_OF_RANGE,
                 entry->file_offset, "a u64 of %" PRIu64 " does not fit in 63 bits", value);
    }
    return QN_OK;
}

/* Read the key at ps->p: *out_key, *out_n_key, ps->p after it. */
QNI_INLINE qn_status read_name(parse *ps, bool is_big_endian, const char *what, int64_t index,
                               const uint8_t **out_bytes, int64_t *out_n_bytes)
{
    const uint64_t left = (uint64_t)(ps->end - ps->p);
    QN_CHECK(left >= 8, ps->err, QN_ERR_END_OF_STREAM, offset_of(ps, ps->end),
             "the file ends where %s %" PRId64 " should be; it is cut short", what, index);
    const uint64_t n_bytes = qni_load_u64(ps->p, is_big_endian);
    QN_CHECK(n_bytes <= left - 8, ps->err, QN_ERR_END_OF_STREAM, offset_of(ps, ps->p),
             "%s %" PRId64 " has a name of %" PRIu64 " bytes where %" PRIu64
             " are left; the file is cut short or damaged",
             what, index, n_bytes, left - 8);
    QN_CHECK(n_bytes <= ps->max_string, ps->err, QN_ERR_STRICT, offset_of(ps, ps->p),
             "%s %" PRId64 " has a name of %" PRIu64 " bytes; ggml takes at most %" PRIu64, what,
             index, n_bytes, ps->max_string);
    *out_bytes = ps->p + 8;
    *out_n_bytes = (int64_t)n_bytes;
    ps->p += 8 + n_bytes;
    return QN_OK;
}

QNI_INLINE qn_status read_entry(parse *ps, bool is_fill, bool is_big_endian, int64_t index)
{
    const uint8_t *key = NULL;
    int64_t n_key = 0;
    QN_TRY(read_name(ps, is_big_endian, "metadata entry", index, &key, &n_key));
    QN_CHECK(n_key > 0, ps->err, QN_ERR_INVALID_METADATA, offset_of(ps, key),
             "metadata entry %" PRId64 " has an empty key", index);
    QN_CHECK(ps->end - ps->p >= 4, ps->err, QN_ERR_END_OF_STREAM, offset_of(ps, ps->end),
             "the file ends inside metadata entry %" PRId64 "; it is cut short", index);
    const uint32_t type = qni_load_u32(ps->p, is_big_endian);
    const uint8_t *value = ps->p + 4;
    qni_gguf_stop stop;
    const uint8_t *after =
        qni_gguf_walk_value(value, ps->end, type, is_big_endian, ps->max_string, &stop);
    if (!after) {
        return fail_value(ps, &stop, key, n_key);
    }
    ps->p = after;
    if (n_key == sizeof QNI_GGUF_KEY_ALIGNMENT - 1 &&
        memcmp(key, QNI_GGUF_KEY_ALIGNMENT, (size_t)n_key) == 0) {
        QN_TRY(read_alignment(ps, type, value));
    }
    qn_gguf_entry entry = {.key = (const char *)key,
                           .n_key = n_key,
                           .type = (qn_gguf_type)type,
                           .elem_type = QN_GGUF_NONE,
                           .n_elems = 1,
                           .bytes = value,
                           .n_bytes = after - value,
                           .file_offset = offset_of(ps, value)};
    if (type == QN_GGUF_ARRAY) {
        entry.elem_type = (qn_gguf_type)qni_load_u32(value, is_big_endian);
        entry.n_elems = (int64_t)qni_load_u64(value + 4, is_big_endian);
    }
    QN_TRY(check_profile(ps, &entry));
    if (is_fill) {
        qni_gguf_item *item = &ps->part->items[index];
        item->entry = entry;
        item->slot.allocator = ps->allocator;
        atomic_init(&item->slot.index, NULL);
    }
    int64_t pair[2];
    if (!add_name(ps, is_fill, key, n_key, index, pair)) {
        const qni_gguf_name name = queued_name(ps, pair[1]);
        return fail_duplicate_key(ps, name.bytes, name.n_bytes, pair);
    }
    return QN_OK;
}

QNI_INLINE qn_status entries_loop(parse *ps, bool is_fill, bool is_big_endian)
{
    for (uint64_t i = 0; i < ps->n_entries; i++) {
        QN_TRY(read_entry(ps, is_fill, is_big_endian, (int64_t)i));
    }
    int64_t pair[2];
    if (!qni_names_flush(&ps->names, pair)) {
        const qni_gguf_name name = queued_name(ps, pair[1]);
        return fail_duplicate_key(ps, name.bytes, name.n_bytes, pair);
    }
    return QN_OK;
}

static qn_status read_entries(parse *ps)
{
    if (ps->is_fill) {
        return ps->is_big_endian ? entries_loop(ps, true, true) : entries_loop(ps, true, false);
    }
    return ps->is_big_endian ? entries_loop(ps, false, true) : entries_loop(ps, false, false);
}

/* --- directory ---------------------------------------------------------------------------------
 */

/* Report a fault of one tensor; with keep_damaged it is noted, and parsing goes on. */
QNI_COLD static qn_status tensor_fault(const parse *ps, const qn_tensor_info *info, int64_t index,
                                       qn_status status, int64_t offset, const char *what)
{
    qni_name_text text;
    qn_error local = QN_ERROR_INIT;
    qn_status st = qni_fail(&local, status, offset, "tensor \"%s\" %s",
                            qni_escape_name(info->name, info->n_name, &text), what);
    st = qni_fail_tensor(&local, st, index);
    if (ps->err) {
        *ps->err = local;
    }
    return qni_gguf_forgive(st, ps->options, ps->damage, &local);
}

/* The sizes that ggml refuses although they fit, and the wrapping products that it lets through:
 * only the former are a matter of strictness, the latter are refused for everyone. */
static bool is_refused_by_ggml(const int64_t *ne, int32_t n_dims)
{
    int64_t d[4] = {1, 1, 1, 1};
    uint64_t product = 1;
    for (int32_t i = 0; i < n_dims; i++) {
        d[i] = ne[i];
        product *= (uint64_t)ne[i];
    }
    return product > 0 && product <= INT64_MAX &&
           (INT64_MAX / d[1] <= d[0] || INT64_MAX / d[2] <= d[0] * d[1] ||
            INT64_MAX / d[3] <= d[0] * d[1] * d[2]);
}

/* Explain what make_size() refused. */
QNI_COLD static qn_status fail_size(const parse *ps, qn_tensor_info *info, int64_t index,
                                    int64_t type_offset)
{
    char what[256];
    const int32_t type = (int32_t)info->dtype;
    info->n_bytes = -1;
    if (!qn_dtype_is_valid(info->dtype)) {
        if (qn_dtype_is_removed(info->dtype)) {
            (void)snprintf(what, sizeof what,
                           "has type %" PRId32
                           " (%s), which was removed from the format: convert the model again",
                           type, qn_dtype_name(info->dtype));
        } else {
            (void)snprintf(what, sizeof what,
                           "has type %" PRIu32 ", which is not known; the last one is %d",
                           (uint32_t)type, QN_DTYPE_LIMIT - 1);
        }
        return tensor_fault(ps, info, index, QN_ERR_UNSUPPORTED_DTYPE, type_offset, what);
    }
    const int64_t block = qn_dtype_block_elems(info->dtype);
    if (info->ne[0] % block != 0) {
        (void)snprintf(what, sizeof what,
                       "has rows of %" PRId64 " elements, no multiple of the %" PRId64
                       " of a %s block",
                       info->ne[0], block, qn_dtype_name(info->dtype));
        return tensor_fault(ps, info, index, QN_ERR_INVALID_TENSOR_INFO, type_offset, what);
    }
    return tensor_fault(ps, info, index, QN_ERR_OVERFLOW, type_offset,
                        "has dimensions whose product does not fit in 63 bits of bytes");
}

/* info->n_bytes from type and dimensions; false if there is no such size. */
QNI_INLINE bool make_size(qn_tensor_info *info)
{
    const qni_dtype_row *row = qni_dtype_row_of(info->dtype);
    if (!row || row->block_elems == 0) {
        return false;
    }
    /* blocks hold a power of two of elements: asserted where the table is */
    if ((info->ne[0] & (row->block_elems - 1)) != 0) {
        return false;
    }
    bool is_empty = false;
    bool is_whole = true;
    int64_t n_bytes = info->ne[0] / row->block_elems;
    is_whole &= qni_mul_i64(n_bytes, row->block_bytes, &n_bytes);
    for (int32_t i = 0; i < info->n_dims; i++) {
        is_empty |= info->ne[i] == 0;
        if (i > 0) {
            is_whole &= qni_mul_i64(n_bytes, info->ne[i], &n_bytes);
        }
    }
    info->n_bytes = is_empty ? 0 : n_bytes;
    return is_empty || is_whole;
}

static qn_status check_info_strict(const parse *ps, const qn_tensor_info *info, int64_t index,
                                   int64_t offset)
{
    char what[128];
    if (info->n_name > QNI_GGML_MAX_NAME) {
        (void)snprintf(what, sizeof what, "has a name of %" PRId64 " bytes; ggml takes at most %d",
                       info->n_name, QNI_GGML_MAX_NAME);
        return tensor_fault(ps, info, index, QN_ERR_STRICT, offset, what);
    }
    if (info->n_dims > QNI_GGML_MAX_DIMS) {
        (void)snprintf(what, sizeof what, "has %" PRId32 " dimensions; ggml takes at most %d",
                       info->n_dims, QNI_GGML_MAX_DIMS);
        return tensor_fault(ps, info, index, QN_ERR_STRICT, offset, what);
    }
    if (is_refused_by_ggml(info->ne, info->n_dims)) {
        return tensor_fault(ps, info, index, QN_ERR_STRICT, offset,
                            "has more elements than ggml takes");
    }
    return QN_OK;
}

QNI_COLD static qn_status fail_dims(const parse *ps, const uint8_t *name, int64_t n_name,
                                    int64_t index, uint32_t n_dims, int64_t bad_dim)
{
    qni_name_text text;
    (void)qni_escape_name((const char *)name, n_name, &text);
    qn_status st = QN_OK;
    if (bad_dim < 0) {
        st = qni_fail(ps->err, QN_ERR_INVALID_TENSOR_INFO, offset_of(ps, name + n_name),
                      "tensor \"%s\" has %" PRIu32 " dimensions; at most %d are possible",
                      text.text, n_dims, QN_MAX_DIMS);
    } else {
        st = qni_fail(ps->err, QN_ERR_INVALID_TENSOR_INFO, offset_of(ps, name + n_name),
                      "dimension %" PRId64 " of tensor \"%s\" is 2^63 or more", bad_dim, text.text);
    }
    return qni_fail_tensor(ps->err, st, index);
}

/* One directory entry; offsets stay relative to the data section until placed. */
QNI_INLINE qn_status read_info(parse *ps, bool is_fill, bool is_big_endian, int64_t index)
{
    const uint8_t *name = NULL;
    int64_t n_name = 0;
    QN_TRY(read_name(ps, is_big_endian, "tensor", index, &name, &n_name));
    QN_CHECK(ps->end - ps->p >= 4, ps->err, QN_ERR_END_OF_STREAM, offset_of(ps, ps->end),
             "the file ends inside the entry of tensor %" PRId64 "; it is cut short", index);
    const uint32_t n_dims = qni_load_u32(ps->p, is_big_endian);
    if (QNI_UNLIKELY(n_dims > QN_MAX_DIMS)) {
        return fail_dims(ps, name, n_name, index, n_dims, -1);
    }
    const uint8_t *dims = ps->p + 4;
    QN_CHECK(ps->end - dims >= (ptrdiff_t)(n_dims * 8 + 12), ps->err, QN_ERR_END_OF_STREAM,
             offset_of(ps, ps->end),
             "the file ends inside the entry of tensor %" PRId64 "; it is cut short", index);
    qn_tensor_info scratch;
    qn_tensor_info *info = is_fill ? &ps->part->tensors[index] : &scratch;
    info->name = (const char *)name;
    info->n_name = n_name;
    info->n_dims = (int32_t)n_dims;
    for (uint32_t i = 0; i < QN_MAX_DIMS; i++) {
        info->ne[i] = 1;
    }
    for (uint32_t i = 0; i < n_dims; i++) {
        const uint64_t ne = qni_load_u64(dims + i * 8, is_big_endian);
        if (QNI_UNLIKELY(ne > INT64_MAX)) {
            return fail_dims(ps, name, n_name, index, n_dims, i);
        }
        info->ne[i] = (int64_t)ne;
    }
    const uint8_t *type = dims + n_dims * 8;
    info->dtype = (qn_dtype)(int32_t)qni_load_u32(type, is_big_endian);
    info->shard = 0;
    info->data = NULL;
    info->is_opaque = false;
    /* an offset of 2^63 or more lies outside every file: placing will say so */
    const uint64_t offset = qni_load_u64(type + 4, is_big_endian);
    info->file_offset = offset <= INT64_MAX ? (int64_t)offset : INT64_MAX;
    ps->p = type + 12;
    if (QNI_UNLIKELY(!make_size(info))) {
        QN_TRY(fail_size(ps, info, index, offset_of(ps, type)));
    }
    if (ps->options->strict) {
        QN_TRY(check_info_strict(ps, info, index, offset_of(ps, name)));
    }
    int64_t pair[2];
    if (!add_name(ps, is_fill, name, n_name, index, pair)) {
        const qni_gguf_name twice = queued_name(ps, pair[1]);
        return fail_duplicate_tensor(ps, twice.bytes, twice.n_bytes, pair);
    }
    return QN_OK;
}

QNI_INLINE qn_status infos_loop(parse *ps, bool is_fill, bool is_big_endian)
{
    for (uint64_t i = 0; i < ps->n_tensors; i++) {
        QN_TRY(read_info(ps, is_fill, is_big_endian, (int64_t)i));
    }
    int64_t pair[2];
    if (!qni_names_flush(&ps->names, pair)) {
        const qni_gguf_name twice = queued_name(ps, pair[1]);
        return fail_duplicate_tensor(ps, twice.bytes, twice.n_bytes, pair);
    }
    return QN_OK;
}

static qn_status read_infos(parse *ps)
{
    if (ps->is_fill) {
        return ps->is_big_endian ? infos_loop(ps, true, true) : infos_loop(ps, true, false);
    }
    return ps->is_big_endian ? infos_loop(ps, false, true) : infos_loop(ps, false, false);
}

/* --- all of it ---------------------------------------------------------------------------------
 */

/* Walk metadata and directory from ps->p, keeping nothing. */
static qn_status scan_all(parse *ps)
{
    const uint8_t *start = ps->p;
    ps->is_fill = false;
    qn_status st = begin_names(ps, ps->n_entries, false, NULL, 0);
    st = st == QN_OK ? read_entries(ps) : st;
    drop_names(ps, ps->n_entries);
    QN_TRY(st);
    st = begin_names(ps, ps->n_tensors, ps->options->strict, NULL, 0);
    st = st == QN_OK ? read_infos(ps) : st;
    drop_names(ps, ps->n_tensors);
    QN_TRY(st);
    ps->p = start;
    return QN_OK;
}

static qn_status fill_all(parse *ps)
{
    qni_gguf_part *part = ps->part;
    ps->is_fill = true;
    part->items = qni_alloc_array(ps->allocator, (int64_t)ps->n_entries, sizeof *part->items);
    if (!part->items) {
        return qni_fail_memory(ps->err, ps->n_entries * sizeof *part->items);
    }
    /* counted as soon as they are allocated, so that clearing frees the right size; an entry that
     * was not reached has no index to free */
    part->shard.n_entries = (int64_t)ps->n_entries;
    for (uint64_t i = 0; i < ps->n_entries; i++) {
        atomic_init(&part->items[i].slot.index, NULL);
    }
    QN_TRY(begin_names(ps, ps->n_entries, false, part->items, sizeof *part->items));
    qn_status st = read_entries(ps);
    part->keys = ps->names;
    QN_TRY(st);

    part->tensors = qni_alloc_array(ps->allocator, (int64_t)ps->n_tensors, sizeof *part->tensors);
    if (!part->tensors) {
        return qni_fail_memory(ps->err, ps->n_tensors * sizeof *part->tensors);
    }
    part->shard.n_tensors = (int64_t)ps->n_tensors;
    QN_TRY(
        begin_names(ps, ps->n_tensors, ps->options->strict, part->tensors, sizeof *part->tensors));
    st = read_infos(ps);
    part->names = ps->names;
    return st;
}

static qn_status parse_all(parse *ps)
{
    QN_TRY(read_header(ps));
    if (ps->n_entries + ps->n_tensors > SCAN_FIRST_ABOVE) {
        QN_TRY(scan_all(ps));
    }
    QN_TRY(fill_all(ps));
    qn_gguf_shard *shard = &ps->part->shard;
    shard->alignment = ps->alignment;
    shard->n_header_bytes = offset_of(ps, ps->p);
    QN_CHECK(qni_align_up_i64(shard->n_header_bytes, ps->alignment, &shard->data_offset), ps->err,
             QN_ERR_OVERFLOW, -1, "the data section would begin past 2^63 bytes");
    return qni_gguf_place_tensors(ps->part, ps->options, ps->damage, ps->err);
}

qn_status qni_gguf_parse_part(qni_gguf_part *part, const qn_gguf_options *options, qn_error *damage,
                              qn_error *err)
{
    parse ps = {.options = options,
                .allocator = options->allocator,
                .part = part,
                .base = part->bytes,
                .p = part->bytes,
                .end = part->bytes ? part->bytes + part->shard.n_bytes : NULL,
                .max_string = options->strict ? QNI_GGML_MAX_STRING : UINT64_MAX,
                .alignment = QNI_GGUF_DEFAULT_ALIGNMENT,
                .damage = damage,
                .err = err};
    const qn_status st = parse_all(&ps);
    if (st != QN_OK) {
        qni_gguf_part_clear(part, options->allocator);
    }
    return st;
}

void qni_gguf_part_clear(qni_gguf_part *part, const qn_allocator *allocator)
{
    for (int64_t i = 0; part->items && i < part->shard.n_entries; i++) {
        qni_gguf_index_free(&part->items[i].slot);
    }
    qni_free(allocator, part->items, (size_t)part->shard.n_entries * sizeof *part->items);
    qni_free(allocator, part->tensors, (size_t)part->shard.n_tensors * sizeof *part->tensors);
    qni_names_free(&part->keys);
    qni_names_free(&part->names);
    part->items = NULL;
    part->tensors = NULL;
}
