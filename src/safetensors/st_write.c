/* st_write.c — what a file will hold, and its header, byte for byte as the official package writes
 * it: metadata first, then tensors by type (largest rank first) and name; no white space but the
 * blanks at the end that make the data begin at a multiple of 8. */
#include "safetensors/st_write_internal.h"

#define ALIGNMENT 8

qn_status qn_safetensors_writer_new(const qn_allocator *allocator,
                                    qn_safetensors_writer **out_writer, qn_error *err)
{
    *out_writer = NULL;
    qn_safetensors_writer *w = qni_alloc_zeroed(allocator, sizeof *w);
    if (!w) {
        return qni_fail_memory(err, sizeof *w);
    }
    w->allocator = allocator;
    w->arena.allocator = allocator;
    qni_strmap_init(&w->names, allocator);
    qni_strmap_init(&w->keys, allocator);
    qni_buffer_init(&w->header, allocator, ST_LENGTH_BYTES + QN_SAFETENSORS_MAX_HEADER_BYTES);
    *out_writer = w;
    return QN_OK;
}

void qn_safetensors_writer_free(qn_safetensors_writer *writer)
{
    if (!writer) {
        return;
    }
    const qn_allocator *allocator = writer->allocator;
    qni_free(allocator, writer->items, (size_t)writer->n_items_max * sizeof *writer->items);
    qni_free(allocator, writer->entries, (size_t)writer->n_entries_max * sizeof *writer->entries);
    qni_free(allocator, writer->finished, (size_t)writer->n_finished);
    qni_strmap_free(&writer->names);
    qni_strmap_free(&writer->keys);
    qni_buffer_free(&writer->header);
    qni_arena_free(&writer->arena);
    qni_free(allocator, writer, sizeof *writer);
}

static qn_status check_no_stream(const qn_safetensors_writer *w, qn_error *err)
{
    QN_CHECK(w->n_streams == 0, err, QN_ERR_INVALID_STATE, -1,
             "a stream is open on this writer: free it first");
    return QN_OK;
}

/* The order of adding again, so that more can be added and laid out anew. */
static int compare_added(const void *left, const void *right)
{
    const st_item *a = left;
    const st_item *b = right;
    return (a->added > b->added) - (a->added < b->added);
}

static void undo_layout(qn_safetensors_writer *w)
{
    if (w->is_laid_out && w->n_items > 1) {
        qsort(w->items, (size_t)w->n_items, sizeof *w->items, compare_added);
    }
    w->is_laid_out = false;
}

static qn_status copy_text(qn_safetensors_writer *w, const char *bytes, int64_t n_bytes,
                           const char **out_copy, qn_error *err)
{
    *out_copy = qni_arena_copy(&w->arena, bytes, (size_t)n_bytes);
    return *out_copy ? QN_OK : qni_fail_memory(err, (size_t)n_bytes + 1);
}

/* --- metadata --------------------------------------------------------------------------------- */

qn_status qn_safetensors_writer_add_entry(qn_safetensors_writer *writer, const char *key,
                                          int64_t n_key, const char *value, int64_t n_value,
                                          qn_error *err)
{
    qni_name_text text;
    QN_TRY(check_no_stream(writer, err));
    QN_CHECK(n_key > 0 && qni_utf8_is_valid(key, (size_t)n_key, NULL), err,
             QN_ERR_INVALID_TENSOR_NAME, -1, "metadata key \"%s\" is empty or not UTF-8",
             qni_escape_name(key, n_key, &text));
    QN_CHECK(n_value >= 0 && qni_utf8_is_valid(value, (size_t)n_value, NULL), err,
             QN_ERR_INVALID_METADATA, -1, "the value of metadata key \"%s\" is not UTF-8",
             qni_escape_name(key, n_key, &text));
    QN_CHECK(qni_strmap_find(&writer->keys, key, n_key) < 0, err, QN_ERR_INVALID_METADATA, -1,
             "metadata key \"%s\" is there already", qni_escape_name(key, n_key, &text));
    if (writer->n_entries == writer->n_entries_max) {
        void *entries = writer->entries;
        QN_TRY(qni_st_grow(writer->allocator, &entries, sizeof *writer->entries, writer->n_entries,
                           &writer->n_entries_max, err));
        writer->entries = entries;
    }
    qn_safetensors_entry *entry = &writer->entries[writer->n_entries];
    *entry = (qn_safetensors_entry){.n_key = n_key, .n_value = n_value};
    QN_TRY(copy_text(writer, key, n_key, &entry->key, err));
    QN_TRY(copy_text(writer, value, n_value, &entry->value, err));
    int64_t existing = -1;
    QN_TRY(qni_strmap_add(&writer->keys, entry->key, n_key, writer->n_entries, &existing, err));
    writer->n_entries++;
    undo_layout(writer);
    return QN_OK;
}

/* --- tensors ---------------------------------------------------------------------------------- */

static qn_status check_name(const qn_safetensors_writer *w, const char *name, int64_t n_name,
                            qn_error *err)
{
    qni_name_text text;
    QN_CHECK(n_name > 0, err, QN_ERR_INVALID_TENSOR_NAME, -1, "a tensor's name is empty");
    QN_CHECK(qni_utf8_is_valid(name, (size_t)n_name, NULL), err, QN_ERR_INVALID_TENSOR_NAME, -1,
             "tensor name \"%s\" is not UTF-8", qni_escape_name(name, n_name, &text));
    QN_CHECK(n_name != ST_N_METADATA_KEY || memcmp(name, ST_METADATA_KEY, ST_N_METADATA_KEY) != 0,
             err, QN_ERR_INVALID_TENSOR_NAME, -1,
             "no tensor may be named " ST_METADATA_KEY
             ": safetensors keeps that name for metadata");
    QN_CHECK(qni_strmap_find(&w->names, name, n_name) < 0, err, QN_ERR_DUPLICATE_TENSOR_NAME, -1,
             "tensor \"%s\" is there already", qni_escape_name(name, n_name, &text));
    return QN_OK;
}

static qn_status append_item(qn_safetensors_writer *w, const char *name, const int64_t *shape,
                             st_item item, qn_error *err)
{
    if (w->n_items == w->n_items_max) {
        void *items = w->items;
        QN_TRY(
            qni_st_grow(w->allocator, &items, sizeof *w->items, w->n_items, &w->n_items_max, err));
        w->items = items;
    }
    QN_TRY(copy_text(w, name, item.n_name, &item.name, err));
    const size_t n_shape = (size_t)item.rank * sizeof *shape;
    item.shape = (const int64_t *)(const void *)qni_arena_copy(
        &w->arena, item.rank > 0 ? shape : (const void *)"", n_shape);
    if (!item.shape) {
        return qni_fail_memory(err, n_shape);
    }
    int64_t existing = -1;
    QN_TRY(qni_strmap_add(&w->names, item.name, item.n_name, w->n_items, &existing, err));
    undo_layout(w);
    item.added = w->n_items;
    w->items[w->n_items++] = item;
    return QN_OK;
}

static qn_status add_item(qn_safetensors_writer *w, const char *name, int64_t n_name,
                          qn_safetensors_dtype dtype, const int64_t *shape, int32_t rank,
                          bool has_data, const void *data, int64_t n_bytes, qn_error *err)
{
    qni_name_text text;
    QN_TRY(check_no_stream(w, err));
    QN_TRY(check_name(w, name, n_name, err));
    QN_CHECK(rank >= 0, err, QN_ERR_INVALID_SHAPE, -1, "tensor \"%s\" has a negative rank",
             qni_escape_name(name, n_name, &text));
    st_item item = {.n_name = n_name, .dtype = dtype, .rank = rank, .has_data = has_data};
    QN_TRY(qn_safetensors_tensor_bytes(dtype, shape, rank, &item.n_bytes, err));
    item.n_elems = 1;
    for (int32_t i = 0; i < rank; i++) {
        item.n_elems *= shape[i]; /* checked just now, with the bits of an element */
    }
    QN_CHECK(!has_data || n_bytes == item.n_bytes, err, QN_ERR_TENSOR_INVALID_INFO, -1,
             "tensor \"%s\": shape and dtype %s need %" PRId64 " bytes, %" PRId64 " were given",
             qni_escape_name(name, n_name, &text), qn_safetensors_dtype_tag(dtype), item.n_bytes,
             n_bytes);
    item.data = data;
    return append_item(w, name, shape, item, err);
}

qn_status qn_safetensors_writer_declare(qn_safetensors_writer *writer, const char *name,
                                        int64_t n_name, qn_safetensors_dtype dtype,
                                        const int64_t *shape, int32_t rank, qn_error *err)
{
    return add_item(writer, name, n_name, dtype, shape, rank, false, NULL, 0, err);
}

qn_status qn_safetensors_writer_add(qn_safetensors_writer *writer, const char *name, int64_t n_name,
                                    qn_safetensors_dtype dtype, const int64_t *shape, int32_t rank,
                                    const void *data, int64_t n_bytes, qn_error *err)
{
    return add_item(writer, name, n_name, dtype, shape, rank, true, data, n_bytes, err);
}

/* --- layout ----------------------------------------------------------------------------------- */

static int compare_items(const void *left, const void *right)
{
    const st_item *a = left;
    const st_item *b = right;
    if (a->dtype != b->dtype) {
        return a->dtype > b->dtype ? -1 : 1;
    }
    const int64_t n = qni_min_i64(a->n_name, b->n_name);
    const int order = memcmp(a->name, b->name, (size_t)n);
    return order != 0 ? order : (a->n_name > b->n_name) - (a->n_name < b->n_name);
}

static qn_status place_items(qn_safetensors_writer *w, qn_error *err)
{
    w->n_data_bytes = 0;
    for (int64_t i = 0; i < w->n_items; i++) {
        w->items[i].begin = w->n_data_bytes;
        QN_CHECK(qni_add_i64(w->n_data_bytes, w->items[i].n_bytes, &w->n_data_bytes), err,
                 QN_ERR_VALIDATION_OVERFLOW, -1, "the data of all tensors are larger than 2^63");
    }
    return QN_OK;
}

static qn_status append_header(void *ctx, const void *bytes, size_t n_bytes, qn_error *err)
{
    qni_buffer *header = ctx;
    QN_CHECK(
        n_bytes <= header->n_max - header->n_bytes, err, QN_ERR_HEADER_TOO_LARGE, -1,
        "the header would be longer than %d bytes, which no reader accepts: divide the tensors "
        "among several files",
        QN_SAFETENSORS_MAX_HEADER_BYTES);
    return qni_buffer_append(header, bytes, n_bytes, err);
}

static void write_item(qn_json_writer *json, const st_item *item)
{
    qn_json_key_bytes(json, item->name, (size_t)item->n_name);
    qn_json_begin_object(json);
    qn_json_member_string(json, "dtype", qn_safetensors_dtype_tag(item->dtype));
    qn_json_key(json, "shape");
    qn_json_begin_array(json);
    for (int32_t i = 0; i < item->rank; i++) {
        qn_json_i64(json, item->shape[i]);
    }
    qn_json_end_array(json);
    qn_json_key(json, "data_offsets");
    qn_json_begin_array(json);
    qn_json_i64(json, item->begin);
    qn_json_i64(json, item->begin + item->n_bytes);
    qn_json_end_array(json);
    qn_json_end_object(json);
}

static void write_members(const qn_safetensors_writer *w, qn_json_writer *json)
{
    qn_json_begin_object(json);
    if (w->n_entries > 0) {
        qn_json_key(json, ST_METADATA_KEY);
        qn_json_begin_object(json);
        for (int64_t i = 0; i < w->n_entries; i++) {
            const qn_safetensors_entry *entry = &w->entries[i];
            qn_json_key_bytes(json, entry->key, (size_t)entry->n_key);
            qn_json_string_bytes(json, entry->value, (size_t)entry->n_value);
        }
        qn_json_end_object(json);
    }
    for (int64_t i = 0; i < w->n_items; i++) {
        write_item(json, &w->items[i]);
    }
    qn_json_end_object(json);
}

static qn_status write_header(qn_safetensors_writer *w, qn_error *err)
{
    static const char blanks[ALIGNMENT] = {' ', ' ', ' ', ' ', ' ', ' ', ' ', ' '};
    qn_json_writer *json = NULL;
    w->header.n_bytes = 0;
    QN_TRY(qni_buffer_append_zeros(&w->header, ST_LENGTH_BYTES, err));
    QN_TRY(qn_json_writer_new(append_header, &w->header, 0, w->allocator, &json, err));
    write_members(w, json);
    const qn_status st = qn_json_finish(json, err);
    qn_json_writer_free(json);
    QN_TRY(st);
    const size_t n_over = w->header.n_bytes % ALIGNMENT;
    QN_TRY(append_header(&w->header, blanks, n_over == 0 ? 0 : ALIGNMENT - n_over, err));
    qni_store_u64le(w->header.bytes, w->header.n_bytes - ST_LENGTH_BYTES);
    return QN_OK;
}

qn_status qn_safetensors_writer_layout(qn_safetensors_writer *writer,
                                       qn_safetensors_file_plan *out_plan, qn_error *err)
{
    *out_plan = (qn_safetensors_file_plan){.header = NULL};
    if (!writer->is_laid_out) {
        if (writer->n_items > 1) {
            qsort(writer->items, (size_t)writer->n_items, sizeof *writer->items, compare_items);
        }
        writer->is_laid_out = true; /* sorted: what follows may fail and be tried again */
        const qn_status st = place_items(writer, err);
        const qn_status written = st == QN_OK ? write_header(writer, err) : st;
        if (written != QN_OK) {
            undo_layout(writer);
            return written;
        }
    }
    int64_t n_file_bytes = 0;
    QN_CHECK(qni_add_i64((int64_t)writer->header.n_bytes, writer->n_data_bytes, &n_file_bytes), err,
             QN_ERR_VALIDATION_OVERFLOW, -1, "the file is larger than 2^63 bytes");
    *out_plan = (qn_safetensors_file_plan){.header = writer->header.bytes,
                                           .n_header_bytes = (int64_t)writer->header.n_bytes,
                                           .n_file_bytes = n_file_bytes,
                                           .n_tensors = writer->n_items};
    return QN_OK;
}

bool qn_safetensors_writer_tensor_at(const qn_safetensors_writer *writer, int64_t position,
                                     qn_safetensors_tensor *out_tensor, int64_t *out_added)
{
    if (!writer->is_laid_out || position < 0 || position >= writer->n_items) {
        return false;
    }
    const st_item *item = &writer->items[position];
    if (out_tensor) {
        *out_tensor = (qn_safetensors_tensor){
            .name = item->name,
            .n_name = item->n_name,
            .dtype = item->dtype,
            .rank = item->rank,
            .shape = item->shape,
            .n_elems = item->n_elems,
            .n_bytes = item->n_bytes,
            .file_offset = (int64_t)writer->header.n_bytes + item->begin,
            .shard = 0,
            .data = item->data,
        };
    }
    if (out_added) {
        *out_added = item->added;
    }
    return true;
}
