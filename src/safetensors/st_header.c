/* st_header.c — the rules of the format, applied to one header before anything is handed out:
 *
 *     u64 length of the header, at most 100,000,000
 *     header: one JSON object, UTF-8, first byte {, white space at the end allowed
 *         "__metadata__": {"key": "value", ...}                       at most once
 *         "name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [begin, end]}
 *     data: the tensors, sorted by offset, cover it from its first byte to its last
 *
 * Tensors are sorted by (begin, end, name): one without bytes may stand at the edge of a neighbour.
 */
#include "safetensors/safetensors_internal.h"

/* {"":{"dtype":"U8","shape":[],"data_offsets":[0,0]}: no entry is shorter. */
#define MIN_ENTRY_TEXT 49

enum { HAS_DTYPE = 1, HAS_SHAPE = 2, HAS_OFFSETS = 4, HAS_ALL = 7 };

/* What parsing one header needs besides the file. */
typedef struct parse_state {
    qn_safetensors *st;
    st_file *file;
    qni_json json;
    int32_t last_dtype; /* neighbours mostly have the same type */
    size_t n_last_tag;
    const char *last_tag;
    int64_t n_unknown_fields;
    bool has_metadata;
    qni_name_text unknown_field;  /* the first one */
    qni_name_text unknown_holder; /* and its tensor */
} parse_state;

qn_status qni_st_check_length(const uint8_t *bytes, int64_t n_bytes, int64_t n_total,
                              int64_t *out_n_header, qn_error *err)
{
    *out_n_header = 0;
    QN_CHECK(n_bytes >= ST_LENGTH_BYTES, err, QN_ERR_HEADER_TOO_SMALL, n_bytes,
             "%" PRId64
             " bytes are too few for a safetensors file: it begins with 8 bytes of header "
             "length; download it again",
             n_bytes);
    const uint64_t n_header = qni_load_u64le(bytes);
    QN_CHECK(n_header <= QN_SAFETENSORS_MAX_HEADER_BYTES, err, QN_ERR_HEADER_TOO_LARGE, 0,
             "not a safetensors file, or a damaged one: it begins with a header length of %" PRIu64
             ", the limit is %d",
             n_header, QN_SAFETENSORS_MAX_HEADER_BYTES);
    QN_CHECK(n_total < 0 || (int64_t)n_header <= n_total - ST_LENGTH_BYTES, err,
             QN_ERR_INVALID_HEADER_LENGTH, 0,
             "the header takes %" PRIu64 " bytes, but the file ends %" PRId64
             " bytes after its length; download it again",
             n_header, n_total - ST_LENGTH_BYTES);
    *out_n_header = (int64_t)n_header;
    return QN_OK;
}

static int64_t offset_of(const parse_state *p, const char *at)
{
    return p->json.options.file_offset + (at - p->json.begin);
}

/* --- one tensor ------------------------------------------------------------------------------- */

static const char *entry_name(const st_entry *entry, qni_name_text *out)
{
    return qni_escape_name(entry->name, (int64_t)entry->n_name, out);
}

static void remember_dtype(parse_state *p, int32_t dtype)
{
    p->last_dtype = dtype;
    p->last_tag = qn_safetensors_dtype_tag((qn_safetensors_dtype)dtype);
    p->n_last_tag = strlen(p->last_tag);
}

static qn_status parse_dtype(parse_state *p, st_entry *entry, qn_error *err)
{
    qni_json_text tag;
    QN_TRY(qni_json_string(&p->json, &tag, err));
    if (QNI_LIKELY((size_t)tag.n_bytes == p->n_last_tag &&
                   memcmp(tag.bytes, p->last_tag, p->n_last_tag) == 0)) {
        entry->dtype = p->last_dtype;
        return QN_OK;
    }
    entry->dtype = (int32_t)qn_safetensors_dtype_from_tag(tag.bytes, tag.n_bytes);
    if (entry->dtype == QN_SAFETENSORS_NONE) {
        qni_name_text text;
        qni_name_text name;
        return qni_fail(err, QN_ERR_UNSUPPORTED_DTYPE, tag.offset,
                        "tensor \"%s\" has the unknown dtype \"%s\"", entry_name(entry, &name),
                        qni_escape_name(tag.bytes, tag.n_bytes, &text));
    }
    remember_dtype(p, entry->dtype);
    return QN_OK;
}

static qn_status parse_size(parse_state *p, const char *what, int64_t *out_value, qn_error *err)
{
    uint64_t value = 0;
    const char *at = p->json.pos;
    QN_TRY(qni_json_u64(&p->json, &value, err));
    QN_CHECK(value <= INT64_MAX, err, QN_ERR_VALIDATION_OVERFLOW, offset_of(p, at),
             "JSON: %s %" PRIu64 " does not fit in 63 bits", what, value);
    *out_value = (int64_t)value;
    return QN_OK;
}

static qn_status parse_shape(parse_state *p, st_entry *entry, int64_t *out_n_elems, qn_error *err)
{
    st_file *file = p->file;
    entry->first_dim = (uint32_t)file->n_dims;
    int64_t n_elems = 1;
    bool has_item = false;
    const char *at = p->json.pos;
    QN_TRY(qni_json_enter_array(&p->json, err));
    for (;;) {
        QN_TRY(qni_json_next_item(&p->json, &has_item, err));
        if (!has_item) {
            break;
        }
        if (file->n_dims == file->n_dims_max) {
            void *dims = file->dims;
            QN_TRY(qni_st_grow(p->st->allocator, &dims, sizeof *file->dims, file->n_dims,
                               &file->n_dims_max, err));
            file->dims = dims;
        }
        int64_t dim = 0;
        QN_TRY(parse_size(p, "dimension", &dim, err));
        file->dims[file->n_dims++] = dim;
        qni_name_text name;
        QN_CHECK(qni_mul_i64(n_elems, dim, &n_elems), err, QN_ERR_VALIDATION_OVERFLOW,
                 offset_of(p, at), "the dimensions of tensor \"%s\" make more than 2^63 elements",
                 entry_name(entry, &name));
    }
    entry->rank = (uint32_t)(file->n_dims - entry->first_dim);
    *out_n_elems = n_elems;
    return QN_OK;
}

static qn_status fail_offsets(parse_state *p, const st_entry *entry, qn_error *err)
{
    qni_name_text name;
    return qni_fail(err, QN_ERR_INVALID_HEADER_DESERIALIZATION, qni_json_offset(&p->json),
                    "data_offsets of tensor \"%s\" must be exactly two whole numbers",
                    entry_name(entry, &name));
}

static qn_status parse_offsets(parse_state *p, st_entry *entry, qn_error *err)
{
    bool has_item = false;
    int64_t offsets[2] = {0, 0};
    const char *at = p->json.pos;
    QN_TRY(qni_json_enter_array(&p->json, err));
    for (int i = 0; i < 2; i++) {
        QN_TRY(qni_json_next_item(&p->json, &has_item, err));
        if (!has_item) {
            return fail_offsets(p, entry, err);
        }
        QN_TRY(parse_size(p, "offset", &offsets[i], err));
    }
    QN_TRY(qni_json_next_item(&p->json, &has_item, err));
    if (has_item) {
        return fail_offsets(p, entry, err);
    }
    qni_name_text name;
    QN_CHECK(offsets[1] >= offsets[0], err, QN_ERR_INVALID_OFFSET, offset_of(p, at),
             "the data of tensor \"%s\" end (%" PRId64 ") before they begin (%" PRId64 ")",
             entry_name(entry, &name), offsets[1], offsets[0]);
    entry->begin = offsets[0];
    entry->n_bytes = offsets[1] - offsets[0];
    return QN_OK;
}

/* A field that the format does not define: passed over, but it may not stand there twice. */
static qn_status parse_unknown(parse_state *p, const st_entry *entry, const qni_json_text *key,
                               qn_error *err)
{
    if (p->n_unknown_fields++ == 0) {
        (void)qni_escape_name(key->bytes, key->n_bytes, &p->unknown_field);
        (void)entry_name(entry, &p->unknown_holder);
    }
    QN_TRY(qni_json_watch_key(&p->json, key, err));
    return qni_json_skip(&p->json, err);
}

/* Type, shape and byte range agree. */
static qn_status check_size(const st_entry *entry, int64_t n_elems, int64_t offset, qn_error *err)
{
    qni_name_text name;
    int64_t n_bits = 0;
    const char *tag = qn_safetensors_dtype_tag((qn_safetensors_dtype)entry->dtype);
    const int32_t bits = qn_safetensors_dtype_bits((qn_safetensors_dtype)entry->dtype);
    QN_CHECK(qni_mul_i64(n_elems, bits, &n_bits), err, QN_ERR_VALIDATION_OVERFLOW, offset,
             "tensor \"%s\" of %" PRId64 " %s elements is larger than 2^63 bits",
             entry_name(entry, &name), n_elems, tag);
    QN_CHECK(n_bits % 8 == 0, err, QN_ERR_MISALIGNED_SLICE, offset,
             "tensor \"%s\": %" PRId64 " elements of %s do not fill whole bytes",
             entry_name(entry, &name), n_elems, tag);
    QN_CHECK(n_bits / 8 == entry->n_bytes, err, QN_ERR_TENSOR_INVALID_INFO, offset,
             "tensor \"%s\": shape and dtype %s need %" PRId64 " bytes, data_offsets give %" PRId64,
             entry_name(entry, &name), tag, n_bits / 8, entry->n_bytes);
    return QN_OK;
}

static int field_of(const qni_json_text *key)
{
    if (key->n_bytes == 5) {
        return memcmp(key->bytes, "dtype", 5) == 0   ? HAS_DTYPE
               : memcmp(key->bytes, "shape", 5) == 0 ? HAS_SHAPE
                                                     : 0;
    }
    return key->n_bytes == 12 && memcmp(key->bytes, "data_offsets", 12) == 0 ? HAS_OFFSETS : 0;
}

static const char *missing_field(int fields)
{
    return !(fields & HAS_DTYPE) ? "dtype" : !(fields & HAS_SHAPE) ? "shape" : "data_offsets";
}

static qn_status parse_fields(parse_state *p, st_entry *entry, int *out_fields,
                              int64_t *out_n_elems, qn_error *err)
{
    QN_TRY(qni_json_enter_object(&p->json, QNI_JSON_NOT_CHECKED, err));
    for (;;) {
        qni_json_text key;
        bool has_key = false;
        QN_TRY(qni_json_next_key(&p->json, &key, &has_key, err));
        if (!has_key) {
            return QN_OK;
        }
        const int field = field_of(&key);
        qni_name_text name;
        QN_CHECK((*out_fields & field) == 0, err, QN_ERR_INVALID_HEADER_DESERIALIZATION, key.offset,
                 "tensor \"%s\" has its %.*s twice", entry_name(entry, &name), (int)key.n_bytes,
                 key.bytes);
        *out_fields |= field;
        switch (field) {
        case HAS_DTYPE:
            QN_TRY(parse_dtype(p, entry, err));
            break;
        case HAS_SHAPE:
            QN_TRY(parse_shape(p, entry, out_n_elems, err));
            break;
        case HAS_OFFSETS:
            QN_TRY(parse_offsets(p, entry, err));
            break;
        default:
            QN_TRY(parse_unknown(p, entry, &key, err));
            break;
        }
    }
}

/* What the JSON reader says knows the byte; this adds the tensor. */
static qn_status name_holder(const st_entry *entry, qn_status status, qn_error *err)
{
    char said[sizeof err->message];
    qni_name_text name;
    if (err && strncmp(err->message, "JSON: ", 6) == 0) {
        memcpy(said, err->message + 6, sizeof said - 6);
        (void)snprintf(err->message, sizeof err->message, "tensor \"%s\": %.500s",
                       entry_name(entry, &name), said);
    }
    return status;
}

static qn_status parse_entry(parse_state *p, const qni_json_text *key, qn_error *err)
{
    st_file *file = p->file;
    if (file->n_entries == file->n_entries_max) {
        void *entries = file->entries;
        QN_TRY(qni_st_grow(p->st->allocator, &entries, sizeof *file->entries, file->n_entries,
                           &file->n_entries_max, err));
        file->entries = entries;
    }
    st_entry *entry = &file->entries[file->n_entries];
    *entry = (st_entry){.name = key->bytes, .n_name = (uint32_t)key->n_bytes};
    int fields = 0;
    int64_t n_elems = 0;
    const qn_status st = parse_fields(p, entry, &fields, &n_elems, err);
    if (QNI_UNLIKELY(st != QN_OK)) {
        return name_holder(entry, st, err);
    }
    qni_name_text name;
    QN_CHECK(fields == HAS_ALL, err, QN_ERR_INVALID_HEADER_DESERIALIZATION, key->offset,
             "tensor \"%s\" has no %s", entry_name(entry, &name), missing_field(fields));
    QN_TRY(check_size(entry, n_elems, key->offset, err));
    file->n_entries++;
    return QN_OK;
}

/* --- metadata --------------------------------------------------------------------------------- */

static qn_status expect_kind(parse_state *p, qni_json_kind expected, const char *what,
                             qn_error *err)
{
    qni_json_kind kind = QNI_JSON_NULL;
    const int64_t offset = qni_json_offset(&p->json);
    QN_TRY(qni_json_peek(&p->json, &kind, err));
    QN_CHECK(kind == expected, err, QN_ERR_INVALID_METADATA, offset,
             ST_METADATA_KEY " must be an object of strings: %s", what);
    return QN_OK;
}

static qn_status parse_metadata(parse_state *p, const qni_json_text *key, qn_error *err)
{
    st_file *file = p->file;
    QN_CHECK(!p->has_metadata, err, QN_ERR_INVALID_METADATA, key->offset,
             ST_METADATA_KEY " is given twice; readers differ on which one counts");
    p->has_metadata = true;
    QN_TRY(expect_kind(p, QNI_JSON_OBJECT, "it is no object", err));
    QN_TRY(qni_json_enter_object(&p->json, QNI_JSON_UNIQUE, err));
    for (;;) {
        qni_json_text name;
        qni_json_text value;
        bool has_key = false;
        QN_TRY(qni_json_next_key(&p->json, &name, &has_key, err));
        if (!has_key) {
            return QN_OK;
        }
        QN_TRY(expect_kind(p, QNI_JSON_STRING, "a value is no string", err));
        QN_TRY(qni_json_string(&p->json, &value, err));
        if (file->n_metadata == file->n_metadata_max) {
            void *metadata = file->metadata;
            QN_TRY(qni_st_grow(p->st->allocator, &metadata, sizeof *file->metadata,
                               file->n_metadata, &file->n_metadata_max, err));
            file->metadata = metadata;
        }
        file->metadata[file->n_metadata++] =
            (qn_safetensors_entry){name.bytes, name.n_bytes, value.bytes, value.n_bytes};
    }
}

static bool is_metadata(const qni_json_text *key)
{
    return key->n_bytes == ST_N_METADATA_KEY &&
           memcmp(key->bytes, ST_METADATA_KEY, ST_N_METADATA_KEY) == 0;
}

static qn_status parse_members(parse_state *p, qn_error *err)
{
    qni_json *json = &p->json;
    QN_TRY(qni_json_enter_object(json, QNI_JSON_NOT_CHECKED, err));
    for (;;) {
        qni_json_text key;
        bool has_key = false;
        QN_TRY(qni_json_next_key(json, &key, &has_key, err));
        if (!has_key) {
            return qni_json_finish(json, err);
        }
        if (QNI_UNLIKELY(is_metadata(&key))) {
            json->options.status_repeated = QN_ERR_INVALID_METADATA;
            QN_TRY(parse_metadata(p, &key, err));
            json->options.status_repeated = json->options.status;
        } else {
            QN_TRY(parse_entry(p, &key, err));
        }
    }
}

/* --- the table of contents as a whole --------------------------------------------------------- */

static int compare_names(const st_entry *a, const st_entry *b)
{
    const uint32_t n = a->n_name < b->n_name ? a->n_name : b->n_name;
    const int order = memcmp(a->name, b->name, n);
    return order != 0 ? order : (a->n_name > b->n_name) - (a->n_name < b->n_name);
}

static int compare_entries(const void *left, const void *right)
{
    const st_entry *a = left;
    const st_entry *b = right;
    if (a->begin != b->begin) {
        return a->begin < b->begin ? -1 : 1;
    }
    if (a->n_bytes != b->n_bytes) { /* same begin: the same as comparing ends */
        return a->n_bytes < b->n_bytes ? -1 : 1;
    }
    return compare_names(a, b);
}

static void sort_entries(st_file *file)
{
    for (int64_t i = 1; i < file->n_entries; i++) {
        if (compare_entries(&file->entries[i - 1], &file->entries[i]) > 0) {
            qsort(file->entries, (size_t)file->n_entries, sizeof *file->entries, compare_entries);
            return;
        }
    }
}

/* Offset of a name in the file, if it stands there as it is. */
static int64_t name_offset(const st_file *file, const st_entry *entry)
{
    const uintptr_t at = (uintptr_t)entry->name;
    const uintptr_t begin = (uintptr_t)file->header;
    const bool is_inside = at >= begin && at - begin < (uintptr_t)file->n_header;
    return is_inside ? (int64_t)(at - begin) + ST_LENGTH_BYTES : -1;
}

static qn_status index_names(const qn_safetensors *st, st_file *file, qn_error *err)
{
    int64_t repeated = -1;
    QN_TRY(qni_st_index_names(file, st->allocator, &repeated, err));
    if (repeated >= 0) {
        const st_entry *entry = &file->entries[repeated];
        qni_name_text name;
        return qni_fail(err, QN_ERR_DUPLICATE_TENSOR_NAME, name_offset(file, entry),
                        "tensor \"%s\" is listed twice; readers differ on which one counts",
                        entry_name(entry, &name));
    }
    return QN_OK;
}

static qn_status fail_gap(const st_file *file, int64_t index, int64_t expected, qn_error *err)
{
    const st_entry *entry = &file->entries[index];
    qni_name_text name;
    qni_name_text before;
    const int64_t offset = name_offset(file, entry);
    const int64_t difference = entry->begin - expected;
    if (index == 0) {
        return qni_fail(err, QN_ERR_INVALID_OFFSET, offset,
                        "%" PRId64 " bytes before the first tensor, \"%s\", belong to none",
                        difference, entry_name(entry, &name));
    }
    (void)entry_name(&file->entries[index - 1], &before);
    if (difference > 0) {
        return qni_fail(err, QN_ERR_INVALID_OFFSET, offset,
                        "%" PRId64 " bytes between tensors \"%s\" and \"%s\" belong to none",
                        difference, before.text, entry_name(entry, &name));
    }
    return qni_fail(err, QN_ERR_INVALID_OFFSET, offset,
                    "tensor \"%s\" begins %" PRId64 " bytes before tensor \"%s\" ends: data of two "
                    "tensors may not overlap",
                    entry_name(entry, &name), -difference, before.text);
}

static qn_status check_coverage(st_file *file, qn_error *err)
{
    int64_t end = 0;
    for (int64_t i = 0; i < file->n_entries; i++) {
        if (QNI_UNLIKELY(file->entries[i].begin != end)) {
            return fail_gap(file, i, end, err);
        }
        end += file->entries[i].n_bytes; /* = the end that was read: cannot overflow */
    }
    file->shard.n_data_bytes = end;
    return QN_OK;
}

/* The first tensor whose data end past `n_present`. */
static const st_entry *first_cut(const st_file *file, int64_t n_present)
{
    for (int64_t i = 0; i < file->n_entries; i++) {
        if (file->entries[i].begin + file->entries[i].n_bytes > n_present) {
            return &file->entries[i];
        }
    }
    return NULL;
}

static void describe_cut(const st_file *file, qn_error *out)
{
    const int64_t n_present = file->n_data_present;
    const int64_t data_at = file->shard.n_header_bytes;
    const st_entry *cut = first_cut(file, n_present);
    qni_name_text name;
    (void)qni_fail(out, QN_ERR_METADATA_INCOMPLETE_BUFFER, data_at + n_present,
                   "the file ends at byte %" PRId64 ", in the data of tensor \"%s\": bytes %" PRId64
                   " to %" PRId64 " are missing (%" PRId64 " of them); download it again",
                   data_at + n_present, cut ? entry_name(cut, &name) : "?", data_at + n_present,
                   data_at + file->shard.n_data_bytes - 1, file->shard.n_data_bytes - n_present);
}

static void describe_excess(const st_file *file, qn_error *out)
{
    const int64_t end = file->shard.n_header_bytes + file->shard.n_data_bytes;
    (void)qni_fail(out, QN_ERR_METADATA_INCOMPLETE_BUFFER, end,
                   "%" PRId64
                   " bytes after the last tensor belong to none: a safetensors file ends "
                   "with its data",
                   file->n_data_present - file->shard.n_data_bytes);
}

/* The data section is as long as the header says. */
static qn_status check_data_length(qn_safetensors *st, const st_file *file, qn_error *err)
{
    if (file->n_data_present < 0 || file->n_data_present == file->shard.n_data_bytes) {
        return QN_OK;
    }
    qn_error failure = QN_ERROR_INIT;
    if (file->n_data_present < file->shard.n_data_bytes) {
        describe_cut(file, &failure);
    } else {
        describe_excess(file, &failure);
    }
    if (file->path) {
        (void)qni_fail_path(&failure, failure.status, file->path);
    }
    return qni_st_damage(st, &failure, err);
}

static void warn_unknown_fields(const parse_state *p)
{
    if (p->n_unknown_fields > 0) {
        qni_st_warn(p->st,
                    "%" PRId64
                    " fields of tensors are not known here and were passed over; the first "
                    "is \"%s\" of tensor \"%s\"",
                    p->n_unknown_fields, p->unknown_field.text, p->unknown_holder.text);
    }
}

qn_status qni_st_parse_header(qn_safetensors *st, st_file *file, qn_error *err)
{
    qn_status st_code = QN_OK;
    const qni_json_options options = {.file_offset = ST_LENGTH_BYTES,
                                      .status = QN_ERR_INVALID_HEADER_DESERIALIZATION,
                                      .status_utf8 = QN_ERR_INVALID_HEADER,
                                      .status_overflow = QN_ERR_VALIDATION_OVERFLOW,
                                      .allocator = st->allocator};
    parse_state p = {.st = st, .file = file};
    remember_dtype(&p, QN_SAFETENSORS_F32);
    st_code = qni_json_begin(&p.json, file->header, file->n_header, &options, err);
    if (st_code == QN_OK && (file->n_header == 0 || file->header[0] != '{')) {
        st_code = qni_fail(err, QN_ERR_INVALID_HEADER, ST_LENGTH_BYTES,
                           "the header %s, but must begin with {",
                           file->n_header == 0 ? "is empty" : "begins with another character");
    }
    if (st_code == QN_OK) {
        const int64_t n_most = file->n_header / MIN_ENTRY_TEXT + 1;
        file->n_entries_max = n_most;
        file->entries = qni_alloc_array(st->allocator, n_most, sizeof *file->entries);
        st_code = file->entries ? parse_members(&p, err)
                                : qni_fail_memory(err, (size_t)n_most * sizeof *file->entries);
    }
    file->arena = qni_json_take_arena(&p.json);
    qni_json_end(&p.json);
    QN_TRY(st_code);
    warn_unknown_fields(&p);
    sort_entries(file);
    QN_TRY(index_names(st, file, err));
    QN_TRY(check_coverage(file, err));
    file->shard.n_tensors = file->n_entries;
    return check_data_length(st, file, err);
}
