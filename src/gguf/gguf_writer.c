/* gguf_writer.c — what a file to be holds: metadata and tensors, set, copied, replaced, removed. */
#include "gguf/gguf_writer_internal.h"

/* general.alignment above this is refused on writing: padding would dwarf the data. */
#define MAX_WRITE_ALIGNMENT ((uint32_t)1 << 20)

/* --- lists and ids -----------------------------------------------------------------------------
 */

void *qni_list_add(qni_gguf_list *list, size_t item_bytes, const qn_allocator *allocator)
{
    if (list->n == list->n_capacity) {
        const int64_t n_new = list->n_capacity > 0 ? list->n_capacity * 2 : 16;
        void *grown = qni_realloc(allocator, list->items, (size_t)list->n_capacity * item_bytes,
                                  (size_t)n_new * item_bytes);
        if (!grown) {
            return NULL;
        }
        list->items = grown;
        list->n_capacity = n_new;
    }
    return (uint8_t *)list->items + (size_t)list->n++ * item_bytes;
}

void qni_list_free(qni_gguf_list *list, size_t item_bytes, const qn_allocator *allocator)
{
    qni_free(allocator, list->items, (size_t)list->n_capacity * item_bytes);
    *list = (qni_gguf_list){NULL, 0, 0};
}

/* Where the item of a name is noted; NULL if the name was never there. */
static int64_t *find_id(const qni_gguf_ids *ids, const char *name, int64_t n_name)
{
    const int64_t id = qni_strmap_find(&ids->map, name, n_name);
    return id >= 0 ? (int64_t *)ids->of_id.items + id : NULL;
}

/* Note item `index` under a name that has none. `name` is in the arena. */
static qn_status set_id(qni_gguf_ids *ids, const char *name, int64_t n_name, int64_t index,
                        const qn_allocator *allocator, qn_error *err)
{
    int64_t *known = find_id(ids, name, n_name);
    if (known) {
        *known = index;
        return QN_OK;
    }
    int64_t *fresh = qni_list_add(&ids->of_id, sizeof *fresh, allocator);
    if (!fresh) {
        return qni_fail_memory(err, sizeof *fresh);
    }
    *fresh = index;
    int64_t existing = -1;
    const qn_status st = qni_strmap_add(&ids->map, name, n_name, ids->of_id.n - 1, &existing, err);
    ids->of_id.n -= st != QN_OK;
    return st;
}

static int64_t item_of(const qni_gguf_ids *ids, const char *name, int64_t n_name)
{
    const int64_t *known = find_id(ids, name, n_name);
    return known ? *known : -1;
}

/* --- life --------------------------------------------------------------------------------------
 */

static qn_status read_options(const qn_gguf_writer_options *given, qn_gguf_writer_options *out,
                              qn_error *err)
{
    *out = (qn_gguf_writer_options)QN_GGUF_WRITER_OPTIONS_INIT;
    if (given) {
        QN_CHECK(given->struct_size >= sizeof given->struct_size &&
                     given->struct_size <= sizeof *given,
                 err, QN_ERR_INVALID_ARGUMENT, -1,
                 "qn_gguf_writer_options has struct_size %zu; start from "
                 "QN_GGUF_WRITER_OPTIONS_INIT",
                 given->struct_size);
        memcpy(out, given, given->struct_size);
    }
    const bool is_lossless = out->layout == QN_GGUF_LOSSLESS;
    QN_CHECK(is_lossless || out->layout == QN_GGUF_CANONICAL, err, QN_ERR_INVALID_ARGUMENT, -1,
             "there is no layout %d", (int)out->layout);
    out->version = out->version == 0 ? 3 : out->version;
    QN_CHECK(out->version == 3 || (is_lossless && out->version == 2), err, QN_ERR_INVALID_ARGUMENT,
             -1, "GGUF version %" PRIu32 " cannot be written in this layout", out->version);
    QN_CHECK(is_lossless || !out->is_big_endian, err, QN_ERR_INVALID_ARGUMENT, -1,
             "the canonical layout is little-endian");
    return QN_OK;
}

qn_status qn_gguf_writer_new(const qn_gguf_writer_options *options, qn_gguf_writer **out_writer,
                             qn_error *err)
{
    *out_writer = NULL;
    qn_gguf_writer_options opts;
    QN_TRY(read_options(options, &opts, err));
    qn_gguf_writer *writer = qni_alloc_zeroed(opts.allocator, sizeof *writer);
    if (!writer) {
        return qni_fail_memory(err, sizeof *writer);
    }
    writer->allocator = opts.allocator;
    writer->layout = opts.layout;
    writer->version = opts.version;
    writer->is_big_endian = opts.is_big_endian;
    writer->alignment = QNI_GGUF_DEFAULT_ALIGNMENT;
    writer->arena.allocator = opts.allocator;
    writer->source_data_bytes = -1;
    qni_strmap_init(&writer->keys.map, opts.allocator);
    qni_strmap_init(&writer->names.map, opts.allocator);
    qni_buffer_init(&writer->header, opts.allocator, SIZE_MAX);
    *out_writer = writer;
    return QN_OK;
}

void qn_gguf_writer_free(qn_gguf_writer *writer)
{
    if (!writer) {
        return;
    }
    const qn_allocator *allocator = writer->allocator;
    qni_strmap_free(&writer->keys.map);
    qni_strmap_free(&writer->names.map);
    qni_list_free(&writer->keys.of_id, sizeof(int64_t), allocator);
    qni_list_free(&writer->names.of_id, sizeof(int64_t), allocator);
    qni_list_free(&writer->entries, sizeof(qni_gguf_wentry), allocator);
    qni_list_free(&writer->tensors, sizeof(qni_gguf_wtensor), allocator);
    qni_list_free(&writer->extras, sizeof(qni_gguf_extra), allocator);
    qni_free(allocator, writer->order, (size_t)writer->n_order * sizeof *writer->order);
    qni_free(allocator, writer->image, (size_t)writer->n_image);
    qni_buffer_free(&writer->header);
    qni_arena_free(&writer->arena);
    qni_free(allocator, writer, sizeof *writer);
}

static qn_status check_open(qn_gguf_writer *writer, qn_error *err)
{
    QN_CHECK(writer->n_streams == 0, err, QN_ERR_INVALID_STATE, -1,
             "the writer cannot change while a stream of it is open");
    writer->is_laid_out = false;
    return QN_OK;
}

/* --- metadata ----------------------------------------------------------------------------------
 */

static qn_status check_alignment(const qn_gguf_writer *writer, qn_gguf_type type,
                                 const uint8_t *value, bool is_big_endian, uint32_t *out_alignment,
                                 qn_error *err)
{
    QN_CHECK(type == QN_GGUF_U32, err, QN_ERR_INVALID_ALIGNMENT, -1,
             "general.alignment must be a u32, not %s", qn_gguf_type_name(type));
    const uint32_t alignment = qni_load_u32(value, is_big_endian);
    QN_CHECK(alignment != 0 && (alignment & (alignment - 1)) == 0 &&
                 (alignment <= MAX_WRITE_ALIGNMENT || writer->layout == QN_GGUF_LOSSLESS),
             err, QN_ERR_INVALID_ALIGNMENT, -1,
             "general.alignment is %" PRIu32 "; it must be a power of two up to %" PRIu32,
             alignment, MAX_WRITE_ALIGNMENT);
    *out_alignment = alignment;
    return QN_OK;
}

/* The value is one whole value of the type, and one that ggml reads if the layout is canonical. */
static qn_status check_value(const qn_gguf_writer *writer, const char *key, int64_t n_key,
                             qn_gguf_type type, const uint8_t *value, int64_t n_value,
                             bool is_big_endian, qn_error *err)
{
    const bool is_strict = writer->layout == QN_GGUF_CANONICAL;
    qni_name_text text;
    char what[QNI_NAME_MAX + 32];
    (void)snprintf(what, sizeof what, "metadata key \"%s\"", qni_escape_name(key, n_key, &text));
    const uint8_t *end = value + n_value;
    qni_gguf_stop stop;
    const uint8_t *after = qni_gguf_walk_value(value, end, (uint32_t)type, is_big_endian,
                                               is_strict ? QNI_GGML_MAX_STRING : UINT64_MAX, &stop);
    if (!after) {
        return qni_gguf_fail_stop(&stop, value, what, err);
    }
    QN_CHECK(after == end, err, QN_ERR_INVALID_METADATA, -1,
             "%s: %" PRId64 " bytes follow the value", what, (int64_t)(end - after));
    if (is_strict && type == QN_GGUF_ARRAY) {
        QN_CHECK(qni_load_u32(value, is_big_endian) != QN_GGUF_ARRAY, err, QN_ERR_STRICT, -1,
                 "%s: an array of arrays, which ggml refuses", what);
        QN_CHECK(qni_load_u64(value + 4, is_big_endian) <= QNI_GGML_MAX_ARRAY, err, QN_ERR_STRICT,
                 -1, "%s: an array of more elements than ggml takes", what);
    }
    return QN_OK;
}

/* The entry of a key, made at the end if there is none. */
static qn_status entry_for(qn_gguf_writer *writer, const char *key, int64_t n_key,
                           qni_gguf_wentry **out_entry, qn_error *err)
{
    const int64_t index = item_of(&writer->keys, key, n_key);
    if (index >= 0) {
        *out_entry = qni_wentry_at(writer, index);
        return QN_OK;
    }
    const char *copy = qni_arena_copy(&writer->arena, key, (size_t)n_key);
    if (!copy) {
        return qni_fail_memory(err, (size_t)n_key);
    }
    qni_gguf_wentry *entry = qni_list_add(&writer->entries, sizeof *entry, writer->allocator);
    if (!entry) {
        return qni_fail_memory(err, sizeof *entry);
    }
    /* dead until the value is there */
    *entry = (qni_gguf_wentry){.key = copy, .n_key = n_key, .is_dead = true};
    QN_TRY(set_id(&writer->keys, copy, n_key, writer->entries.n - 1, writer->allocator, err));
    *out_entry = entry;
    return QN_OK;
}

static bool is_key(const char *key, int64_t n_key, const char *other)
{
    return n_key == (int64_t)strlen(other) && memcmp(key, other, (size_t)n_key) == 0;
}

/* Put a value that has been checked and lies in the arena. */
static qn_status put_value(qn_gguf_writer *writer, const char *key, int64_t n_key,
                           qn_gguf_type type, const uint8_t *value, int64_t n_value, qn_error *err)
{
    uint32_t alignment = 0;
    if (is_key(key, n_key, QNI_GGUF_KEY_ALIGNMENT)) {
        QN_TRY(check_alignment(writer, type, value, writer->is_big_endian, &alignment, err));
    }
    qni_gguf_wentry *entry = NULL;
    QN_TRY(entry_for(writer, key, n_key, &entry, err));
    writer->n_live_entries += entry->is_dead;
    entry->is_dead = false;
    entry->type = type;
    entry->value = value;
    entry->n_value = n_value;
    writer->alignment = alignment != 0 ? alignment : writer->alignment;
    return QN_OK;
}

qn_status qni_writer_set_value(qn_gguf_writer *writer, const char *key, int64_t n_key,
                               qn_gguf_type type, const uint8_t *value, int64_t n_value,
                               bool is_big_endian, qn_error *err)
{
    QN_TRY(check_open(writer, err));
    QN_CHECK(n_key > 0, err, QN_ERR_INVALID_METADATA, -1, "a metadata key cannot be empty");
    QN_CHECK(n_value >= 0, err, QN_ERR_INVALID_ARGUMENT, -1, "a value of %" PRId64 " bytes",
             n_value);
    QN_TRY(check_value(writer, key, n_key, type, value, n_value, is_big_endian, err));
    uint8_t *copy = qni_arena_alloc(&writer->arena, (size_t)n_value);
    if (!copy) {
        return qni_fail_memory(err, (size_t)n_value);
    }
    if (is_big_endian != writer->is_big_endian) {
        qni_gguf_swap_value(type, value, n_value, is_big_endian, copy);
    } else {
        memcpy(copy, value, (size_t)n_value);
    }
    return put_value(writer, key, n_key, type, copy, n_value, err);
}

qn_status qn_gguf_writer_set_raw(qn_gguf_writer *writer, const char *key, int64_t n_key,
                                 qn_gguf_type type, const void *bytes, int64_t n_bytes,
                                 qn_error *err)
{
    return qni_writer_set_value(writer, key, n_key, type, bytes, n_bytes, writer->is_big_endian,
                                err);
}

/* A scalar in the machine's byte order. */
static qn_status set_scalar(qn_gguf_writer *writer, const char *key, qn_gguf_type type,
                            const void *value, qn_error *err)
{
    return qni_writer_set_value(writer, key, (int64_t)strlen(key), type, value,
                                qn_gguf_type_bytes(type), !qni_host_is_little_endian(), err);
}

#define SCALAR_SETTER(name, c_type, TYPE)                                                      \
    qn_status qn_gguf_writer_set_##name(qn_gguf_writer *writer, const char *key, c_type value, \
                                        qn_error *err)                                         \
    {                                                                                          \
        return set_scalar(writer, key, QN_GGUF_##TYPE, &value, err);                           \
    }
SCALAR_SETTER(u8, uint8_t, U8)
SCALAR_SETTER(i8, int8_t, I8)
SCALAR_SETTER(u16, uint16_t, U16)
SCALAR_SETTER(i16, int16_t, I16)
SCALAR_SETTER(u32, uint32_t, U32)
SCALAR_SETTER(i32, int32_t, I32)
SCALAR_SETTER(u64, uint64_t, U64)
SCALAR_SETTER(i64, int64_t, I64)
SCALAR_SETTER(f32, float, F32)
SCALAR_SETTER(f64, double, F64)

qn_status qn_gguf_writer_set_bool(qn_gguf_writer *writer, const char *key, bool value,
                                  qn_error *err)
{
    const uint8_t byte = value;
    return set_scalar(writer, key, QN_GGUF_BOOL, &byte, err);
}

static void store_u32(const qn_gguf_writer *writer, uint8_t *p, uint32_t value)
{
    const uint32_t host = value;
    qni_copy_elems(p, &host, 1, 4, writer->is_big_endian == qni_host_is_little_endian());
}

static void store_u64(const qn_gguf_writer *writer, uint8_t *p, uint64_t value)
{
    const uint64_t host = value;
    qni_copy_elems(p, &host, 1, 8, writer->is_big_endian == qni_host_is_little_endian());
}

/* Room in the arena for a value of n_bytes, for one that will be put under `key`. */
static qn_status begin_value(qn_gguf_writer *writer, const char *key, int64_t n_bytes,
                             uint8_t **out_value, qn_error *err)
{
    QN_TRY(check_open(writer, err));
    QN_CHECK(key[0] != '\0', err, QN_ERR_INVALID_METADATA, -1, "a metadata key cannot be empty");
    *out_value = qni_arena_alloc(&writer->arena, (size_t)n_bytes);
    return *out_value ? QN_OK : qni_fail_memory(err, (size_t)n_bytes);
}

static qn_status check_length(const qn_gguf_writer *writer, int64_t n, uint64_t limit,
                              const char *what, qn_error *err)
{
    QN_CHECK(n >= 0 && n <= INT64_MAX / 16, err, QN_ERR_INVALID_ARGUMENT, -1,
             "a length of %" PRId64, n);
    QN_CHECK(writer->layout == QN_GGUF_LOSSLESS || (uint64_t)n <= limit, err, QN_ERR_STRICT, -1,
             "%s of %" PRId64 "; ggml takes at most %" PRIu64, what, n, limit);
    return QN_OK;
}

qn_status qn_gguf_writer_set_string(qn_gguf_writer *writer, const char *key, const char *bytes,
                                    int64_t n_bytes, qn_error *err)
{
    uint8_t *value = NULL;
    QN_TRY(check_length(writer, n_bytes, QNI_GGML_MAX_STRING, "a string", err));
    QN_TRY(begin_value(writer, key, 8 + n_bytes, &value, err));
    store_u64(writer, value, (uint64_t)n_bytes);
    if (n_bytes > 0) {
        memcpy(value + 8, bytes, (size_t)n_bytes);
    }
    return put_value(writer, key, (int64_t)strlen(key), QN_GGUF_STRING, value, 8 + n_bytes, err);
}

qn_status qn_gguf_writer_set_array(qn_gguf_writer *writer, const char *key, qn_gguf_type elem_type,
                                   const void *elems, int64_t n, qn_error *err)
{
    const int64_t n_elem = qn_gguf_type_bytes(elem_type);
    QN_CHECK(n_elem > 0, err, QN_ERR_INVALID_ARGUMENT, -1, "%s is no scalar type",
             qn_gguf_type_name(elem_type));
    QN_TRY(check_length(writer, n, QNI_GGML_MAX_ARRAY, "an array", err));
    QN_CHECK(elems || n == 0, err, QN_ERR_INVALID_ARGUMENT, -1, "no elements to set");
    uint8_t *value = NULL;
    const int64_t n_value = 12 + n * n_elem;
    QN_TRY(begin_value(writer, key, n_value, &value, err));
    store_u32(writer, value, (uint32_t)elem_type);
    store_u64(writer, value + 4, (uint64_t)n);
    qni_copy_elems(value + 12, elems, n, n_elem,
                   writer->is_big_endian == qni_host_is_little_endian());
    for (int64_t i = 0; elem_type == QN_GGUF_BOOL && i < n; i++) {
        value[12 + i] = value[12 + i] != 0;
    }
    return put_value(writer, key, (int64_t)strlen(key), QN_GGUF_ARRAY, value, n_value, err);
}

qn_status qn_gguf_writer_set_strings(qn_gguf_writer *writer, const char *key,
                                     const qn_gguf_string *strings, int64_t n, qn_error *err)
{
    QN_TRY(check_length(writer, n, QNI_GGML_MAX_ARRAY, "an array", err));
    int64_t n_value = 12 + 8 * n;
    for (int64_t i = 0; i < n; i++) {
        QN_TRY(check_length(writer, strings[i].n_bytes, QNI_GGML_MAX_STRING, "a string", err));
        QN_CHECK(qni_add_i64(n_value, strings[i].n_bytes, &n_value), err, QN_ERR_OVERFLOW, -1,
                 "an array of strings does not fit in 63 bits of bytes");
    }
    uint8_t *value = NULL;
    QN_TRY(begin_value(writer, key, n_value, &value, err));
    store_u32(writer, value, QN_GGUF_STRING);
    store_u64(writer, value + 4, (uint64_t)n);
    uint8_t *p = value + 12;
    for (int64_t i = 0; i < n; i++) {
        store_u64(writer, p, (uint64_t)strings[i].n_bytes);
        if (strings[i].n_bytes > 0) {
            memcpy(p + 8, strings[i].bytes, (size_t)strings[i].n_bytes);
        }
        p += 8 + strings[i].n_bytes;
    }
    return put_value(writer, key, (int64_t)strlen(key), QN_GGUF_ARRAY, value, n_value, err);
}

/* --- copying metadata --------------------------------------------------------------------------
 */

static qn_status check_source(const qn_gguf *gguf, qn_error *err)
{
    QN_CHECK(gguf->parts[0].bytes || gguf->parts[0].shard.n_bytes == 0, err, QN_ERR_UNSUPPORTED, -1,
             "the file's mapping was taken away: copy from its raw bytes instead");
    return QN_OK;
}

static qn_status copy_entry(qn_gguf_writer *writer, const qn_gguf *gguf, int64_t index,
                            qn_error *err)
{
    const qn_gguf_entry *entry = qn_gguf_entry_at(gguf, index);
    return qni_writer_set_value(writer, entry->key, entry->n_key, entry->type, entry->bytes,
                                entry->n_bytes, qn_gguf_is_big_endian(gguf), err);
}

qn_status qn_gguf_writer_copy(qn_gguf_writer *writer, const qn_gguf *gguf, const char *key,
                              qn_error *err)
{
    QN_TRY(check_source(gguf, err));
    const int64_t n_key = (int64_t)strlen(key);
    const int64_t index = qn_gguf_find_entry(gguf, key, n_key);
    qni_name_text text;
    QN_CHECK(index >= 0, err, QN_ERR_KEY_NOT_FOUND, -1,
             "the source has no metadata key \"%s\" to copy", qni_escape_name(key, n_key, &text));
    return copy_entry(writer, gguf, index, err);
}

static bool is_skipped(const qn_gguf_entry *entry, const char *const *skip, int64_t n_skip)
{
    for (int64_t i = 0; i < n_skip; i++) {
        if (is_key(entry->key, entry->n_key, skip[i])) {
            return true;
        }
    }
    return false;
}

qn_status qn_gguf_writer_copy_all(qn_gguf_writer *writer, const qn_gguf *gguf,
                                  const char *const *skip, int64_t n_skip, qn_error *err)
{
    QN_TRY(check_source(gguf, err));
    for (int64_t i = 0; i < qn_gguf_n_entries(gguf); i++) {
        if (!is_skipped(qn_gguf_entry_at(gguf, i), skip, n_skip)) {
            QN_TRY(copy_entry(writer, gguf, i, err));
        }
    }
    return QN_OK;
}

qn_status qn_gguf_writer_copy_all_raw(qn_gguf_writer *writer, const void *bytes, int64_t n_bytes,
                                      const char *const *skip, int64_t n_skip, qn_error *err)
{
    qn_gguf_options options = QN_GGUF_OPTIONS_INIT;
    options.allocator = writer->allocator;
    options.keep_damaged = true; /* only the metadata matter */
    qn_gguf *gguf = NULL;
    QN_TRY(qn_gguf_parse(bytes, n_bytes, &options, &gguf, err));
    const qn_status st = qn_gguf_writer_copy_all(writer, gguf, skip, n_skip, err);
    qn_gguf_close(gguf);
    return st;
}

/* --- removing and renaming ---------------------------------------------------------------------
 */

static qn_status find_entry(const qn_gguf_writer *writer, const char *key, int64_t *out_index,
                            qn_error *err)
{
    const int64_t n_key = (int64_t)strlen(key);
    *out_index = item_of(&writer->keys, key, n_key);
    qni_name_text text;
    QN_CHECK(*out_index >= 0 && !qni_wentry_at(writer, *out_index)->is_dead, err,
             QN_ERR_KEY_NOT_FOUND, -1, "there is no metadata key \"%s\"",
             qni_escape_name(key, n_key, &text));
    return QN_OK;
}

qn_status qn_gguf_writer_remove(qn_gguf_writer *writer, const char *key, qn_error *err)
{
    int64_t index = -1;
    QN_TRY(check_open(writer, err));
    QN_TRY(find_entry(writer, key, &index, err));
    qni_wentry_at(writer, index)->is_dead = true;
    *find_id(&writer->keys, key, (int64_t)strlen(key)) = -1;
    writer->n_live_entries--;
    if (strcmp(key, QNI_GGUF_KEY_ALIGNMENT) == 0) {
        writer->alignment = QNI_GGUF_DEFAULT_ALIGNMENT;
    }
    return QN_OK;
}

qn_status qn_gguf_writer_rename(qn_gguf_writer *writer, const char *key, const char *new_key,
                                qn_error *err)
{
    int64_t index = -1;
    QN_TRY(check_open(writer, err));
    QN_TRY(find_entry(writer, key, &index, err));
    const int64_t n_new = (int64_t)strlen(new_key);
    QN_CHECK(n_new > 0, err, QN_ERR_INVALID_METADATA, -1, "a metadata key cannot be empty");
    qni_name_text text;
    QN_CHECK(!qn_gguf_writer_has(writer, new_key), err, QN_ERR_DUPLICATE_METADATA_KEY, -1,
             "there is a metadata key \"%s\" already", qni_escape_name(new_key, n_new, &text));
    QN_CHECK(
        strcmp(new_key, QNI_GGUF_KEY_ALIGNMENT) != 0 && strcmp(key, QNI_GGUF_KEY_ALIGNMENT) != 0,
        err, QN_ERR_INVALID_ALIGNMENT, -1, "general.alignment cannot be renamed: set or remove it");
    const char *copy = qni_arena_copy(&writer->arena, new_key, (size_t)n_new);
    if (!copy) {
        return qni_fail_memory(err, (size_t)n_new);
    }
    QN_TRY(set_id(&writer->keys, copy, n_new, index, writer->allocator, err));
    *find_id(&writer->keys, key, (int64_t)strlen(key)) = -1;
    qni_wentry_at(writer, index)->key = copy;
    qni_wentry_at(writer, index)->n_key = n_new;
    return QN_OK;
}

bool qn_gguf_writer_has(const qn_gguf_writer *writer, const char *key)
{
    int64_t index = -1;
    return find_entry(writer, key, &index, NULL) == QN_OK;
}

int64_t qn_gguf_writer_n_entries(const qn_gguf_writer *writer)
{
    return writer->n_live_entries;
}

/* --- tensors -----------------------------------------------------------------------------------
 */

static qn_status check_tensor(const qn_gguf_writer *writer, const qn_tensor_info *info,
                              const char *shown, int64_t *out_n_bytes, qn_error *err)
{
    const bool is_strict = writer->layout == QN_GGUF_CANONICAL;
    QN_CHECK(info->n_name > 0 || !is_strict, err, QN_ERR_INVALID_TENSOR_INFO, -1,
             "a tensor name cannot be empty");
    QN_CHECK(info->n_dims >= 0 && info->n_dims <= QN_MAX_DIMS, err, QN_ERR_INVALID_TENSOR_INFO, -1,
             "tensor \"%s\" has %" PRId32 " dimensions; at most %d are possible", shown,
             info->n_dims, QN_MAX_DIMS);
    QN_CHECK(!is_strict || info->n_name <= QNI_GGML_MAX_NAME, err, QN_ERR_STRICT, -1,
             "tensor name \"%s\" has %" PRId64 " bytes; ggml takes at most %d", shown, info->n_name,
             QNI_GGML_MAX_NAME);
    QN_CHECK(!is_strict || info->n_name == 0 || !memchr(info->name, 0, (size_t)info->n_name), err,
             QN_ERR_STRICT, -1, "tensor name \"%s\" has a NUL inside; ggml would cut it there",
             shown);
    QN_CHECK(!is_strict || info->n_dims <= QNI_GGML_MAX_DIMS, err, QN_ERR_STRICT, -1,
             "tensor \"%s\" has %" PRId32 " dimensions; ggml takes at most %d", shown, info->n_dims,
             QNI_GGML_MAX_DIMS);
    return qn_dtype_tensor_bytes(info->dtype, info->ne, info->n_dims, out_n_bytes, err);
}

qn_status qni_writer_put_tensor(qn_gguf_writer *writer, const qni_gguf_wtensor *tensor,
                                qn_error *err)
{
    QN_TRY(check_open(writer, err));
    const qn_tensor_info *info = &tensor->info;
    qni_name_text text;
    (void)qni_escape_name(info->name, info->n_name, &text);
    int64_t n_bytes = 0;
    QN_TRY(check_tensor(writer, info, text.text, &n_bytes, err));
    QN_CHECK(!info->data || info->n_bytes == n_bytes, err, QN_ERR_INVALID_TENSOR_INFO, -1,
             "tensor \"%s\" takes %" PRId64 " bytes; %" PRId64 " were given", text.text, n_bytes,
             info->n_bytes);
    QN_CHECK(item_of(&writer->names, info->name, info->n_name) < 0, err,
             QN_ERR_DUPLICATE_TENSOR_NAME, -1, "there is a tensor \"%s\" already", text.text);
    const char *copy = qni_arena_copy(&writer->arena, info->name, (size_t)info->n_name);
    if (!copy) {
        return qni_fail_memory(err, (size_t)info->n_name);
    }
    qni_gguf_wtensor *fresh = qni_list_add(&writer->tensors, sizeof *fresh, writer->allocator);
    if (!fresh) {
        return qni_fail_memory(err, sizeof *fresh);
    }
    *fresh = *tensor;
    fresh->info.name = copy;
    fresh->info.n_bytes = n_bytes;
    fresh->info.file_offset = -1;
    fresh->is_dead = true; /* until the name is known */
    QN_TRY(
        set_id(&writer->names, copy, info->n_name, writer->tensors.n - 1, writer->allocator, err));
    fresh->is_dead = false;
    writer->n_live_tensors++;
    return QN_OK;
}

static qn_status add_tensor(qn_gguf_writer *writer, const char *name, int64_t n_name,
                            qn_dtype dtype, const int64_t *ne, int32_t n_dims, const void *data,
                            int64_t n_bytes, qn_error *err)
{
    qni_gguf_wtensor tensor = {.given_offset = -1};
    tensor.info.name = name;
    tensor.info.n_name = n_name;
    tensor.info.dtype = dtype;
    tensor.info.n_dims = n_dims;
    tensor.info.data = data;
    tensor.info.n_bytes = n_bytes;
    for (int32_t i = 0; i < QN_MAX_DIMS; i++) {
        tensor.info.ne[i] = i < n_dims ? ne[i] : 1;
    }
    return qni_writer_put_tensor(writer, &tensor, err);
}

qn_status qn_gguf_writer_declare(qn_gguf_writer *writer, const char *name, int64_t n_name,
                                 qn_dtype dtype, const int64_t *ne, int32_t n_dims, qn_error *err)
{
    return add_tensor(writer, name, n_name, dtype, ne, n_dims, NULL, 0, err);
}

qn_status qn_gguf_writer_add(qn_gguf_writer *writer, const char *name, int64_t n_name,
                             qn_dtype dtype, const int64_t *ne, int32_t n_dims, const void *data,
                             int64_t n_bytes, qn_error *err)
{
    QN_CHECK(data || n_bytes == 0, err, QN_ERR_INVALID_ARGUMENT, -1, "no data to add");
    /* no bytes need no place: data without elements may be NULL */
    return add_tensor(writer, name, n_name, dtype, ne, n_dims, data ? data : "", n_bytes, err);
}

static qn_status find_tensor(const qn_gguf_writer *writer, const char *name, int64_t n_name,
                             int64_t *out_index, qn_error *err)
{
    *out_index = item_of(&writer->names, name, n_name);
    qni_name_text text;
    QN_CHECK(*out_index >= 0 && !qni_wtensor_at(writer, *out_index)->is_dead, err,
             QN_ERR_TENSOR_NOT_FOUND, -1, "there is no tensor \"%s\"",
             qni_escape_name(name, n_name, &text));
    return QN_OK;
}

qn_status qn_gguf_writer_remove_tensor(qn_gguf_writer *writer, const char *name, int64_t n_name,
                                       qn_error *err)
{
    int64_t index = -1;
    QN_TRY(check_open(writer, err));
    QN_TRY(find_tensor(writer, name, n_name, &index, err));
    qni_wtensor_at(writer, index)->is_dead = true;
    *find_id(&writer->names, name, n_name) = -1;
    writer->n_live_tensors--;
    return QN_OK;
}

qn_status qn_gguf_writer_rename_tensor(qn_gguf_writer *writer, const char *name, int64_t n_name,
                                       const char *new_name, int64_t n_new_name, qn_error *err)
{
    int64_t index = -1;
    QN_TRY(check_open(writer, err));
    QN_TRY(find_tensor(writer, name, n_name, &index, err));
    qn_tensor_info renamed = qni_wtensor_at(writer, index)->info;
    renamed.name = new_name;
    renamed.n_name = n_new_name;
    qni_name_text text;
    (void)qni_escape_name(new_name, n_new_name, &text);
    int64_t n_bytes = 0;
    QN_TRY(check_tensor(writer, &renamed, text.text, &n_bytes, err));
    QN_CHECK(item_of(&writer->names, new_name, n_new_name) < 0, err, QN_ERR_DUPLICATE_TENSOR_NAME,
             -1, "there is a tensor \"%s\" already", text.text);
    const char *copy = qni_arena_copy(&writer->arena, new_name, (size_t)n_new_name);
    if (!copy) {
        return qni_fail_memory(err, (size_t)n_new_name);
    }
    QN_TRY(set_id(&writer->names, copy, n_new_name, index, writer->allocator, err));
    *find_id(&writer->names, name, n_name) = -1;
    qni_wtensor_at(writer, index)->info.name = copy;
    qni_wtensor_at(writer, index)->info.n_name = n_new_name;
    return QN_OK;
}

int64_t qn_gguf_writer_n_tensors(const qn_gguf_writer *writer)
{
    return writer->n_live_tensors;
}
