/* st_index.c — sharded models: {"metadata": {"total_size": N}, "weight_map": {"tensor": "shard"}}.
 *
 * Shards lie beside their index and are opened in the order in which it first names them; tensors
 * keep the index's order. A shard is a plain file name: no folder, nothing upwards. */
#include <errno.h>

#include "safetensors/safetensors_internal.h"

#define MAX_INDEX_BYTES 100000000

typedef struct index_item {
    qni_json_text tensor;
    int64_t shard;
} index_item;

/* An index as text: items and the shards that they name. */
typedef struct index_table {
    const qn_allocator *allocator;
    index_item *items;
    int64_t n_items;
    int64_t n_items_max;
    qni_json_text *shards;
    int64_t n_shards;
    int64_t n_shards_max;
    qni_strmap shard_numbers;
    int64_t total_size;
    bool has_map;
} index_table;

static bool is_shard_name(const qni_json_text *name)
{
    const char *b = name->bytes;
    for (int64_t i = 0; i < name->n_bytes; i++) {
        if (b[i] == '/' || b[i] == '\\' || b[i] == '\0' ||
            (b[i] == '.' && i + 1 < name->n_bytes && b[i + 1] == '.')) {
            return false;
        }
    }
    return name->n_bytes > 0;
}

static qn_status add_shard(index_table *table, const qni_json_text *name, int64_t *out_number,
                           qn_error *err)
{
    qni_name_text text;
    QN_CHECK(is_shard_name(name), err, QN_ERR_INVALID_INDEX, name->offset,
             "\"%s\" is no name for a shard: it must be a file beside the index",
             qni_escape_name(name->bytes, name->n_bytes, &text));
    int64_t existing = -1;
    QN_TRY(qni_strmap_add(&table->shard_numbers, name->bytes, name->n_bytes, table->n_shards,
                          &existing, err));
    *out_number = existing >= 0 ? existing : table->n_shards;
    if (existing >= 0) {
        return QN_OK;
    }
    if (table->n_shards == table->n_shards_max) {
        void *shards = table->shards;
        QN_TRY(qni_st_grow(table->allocator, &shards, sizeof *table->shards, table->n_shards,
                           &table->n_shards_max, err));
        table->shards = shards;
    }
    table->shards[table->n_shards++] = *name;
    return QN_OK;
}

static qn_status parse_map(index_table *table, qni_json *json, qn_error *err)
{
    table->has_map = true;
    QN_TRY(qni_json_enter_object(json, QNI_JSON_UNIQUE, err));
    for (;;) {
        index_item item;
        qni_json_text shard;
        bool has_key = false;
        QN_TRY(qni_json_next_key(json, &item.tensor, &has_key, err));
        if (!has_key) {
            return QN_OK;
        }
        QN_TRY(qni_json_string(json, &shard, err));
        QN_TRY(add_shard(table, &shard, &item.shard, err));
        if (table->n_items == table->n_items_max) {
            void *items = table->items;
            QN_TRY(qni_st_grow(table->allocator, &items, sizeof *table->items, table->n_items,
                               &table->n_items_max, err));
            table->items = items;
        }
        table->items[table->n_items++] = item;
    }
}

/* Only `total_size` is looked at, and only when it is a whole number; never relied upon. */
static qn_status parse_metadata(index_table *table, qni_json *json, qn_error *err)
{
    qni_json_kind kind = QNI_JSON_NULL;
    QN_TRY(qni_json_peek(json, &kind, err));
    if (kind != QNI_JSON_OBJECT) {
        return qni_json_skip(json, err);
    }
    QN_TRY(qni_json_enter_object(json, QNI_JSON_UNIQUE, err));
    for (;;) {
        qni_json_text key;
        bool has_key = false;
        QN_TRY(qni_json_next_key(json, &key, &has_key, err));
        if (!has_key) {
            return QN_OK;
        }
        const char *at = json->pos;
        uint64_t size = 0;
        const bool is_size = qni_json_text_is(key, "total_size") &&
                             qni_json_u64(json, &size, NULL) == QN_OK && size <= INT64_MAX;
        if (is_size) {
            table->total_size = (int64_t)size;
        } else {
            json->pos = at;
            QN_TRY(qni_json_skip(json, err));
        }
    }
}

static qn_status parse_index(index_table *table, qni_json *json, qn_error *err)
{
    QN_TRY(qni_json_enter_object(json, QNI_JSON_UNIQUE, err));
    for (;;) {
        qni_json_text key;
        bool has_key = false;
        QN_TRY(qni_json_next_key(json, &key, &has_key, err));
        if (!has_key) {
            break;
        }
        if (qni_json_text_is(key, "weight_map")) {
            QN_TRY(parse_map(table, json, err));
        } else if (qni_json_text_is(key, "metadata")) {
            QN_TRY(parse_metadata(table, json, err));
        } else {
            QN_TRY(qni_json_skip(json, err));
        }
    }
    QN_TRY(qni_json_finish(json, err));
    QN_CHECK(table->has_map && table->n_items > 0, err, QN_ERR_INVALID_INDEX, 0,
             "JSON, but no index of a sharded model: it has no weight_map with tensors in it");
    QN_CHECK(table->n_shards <= INT32_MAX && table->n_items <= UINT32_MAX, err,
             QN_ERR_INVALID_INDEX, 0, "the index names too many shards");
    return QN_OK;
}

static void free_table(index_table *table)
{
    qni_free(table->allocator, table->items, (size_t)table->n_items_max * sizeof *table->items);
    qni_free(table->allocator, table->shards, (size_t)table->n_shards_max * sizeof *table->shards);
    qni_strmap_free(&table->shard_numbers);
}

/* --- shards ----------------------------------------------------------------------------------- */

/* The shard's path: the index's folder and the shard's name. */
static char *shard_path(const qn_allocator *allocator, const char *index_path,
                        const qni_json_text *name, size_t *out_n_path)
{
    const char *slash = strrchr(index_path, '/');
    const size_t n_folder = slash ? (size_t)(slash - index_path) + 1 : 0;
    *out_n_path = n_folder + (size_t)name->n_bytes + 1;
    char *path = qni_alloc(allocator, *out_n_path);
    if (path) {
        memcpy(path, index_path, n_folder);
        memcpy(path + n_folder, name->bytes, (size_t)name->n_bytes);
        path[*out_n_path - 1] = '\0';
    }
    return path;
}

static qn_status open_shard(qn_safetensors *st, int32_t number, const char *index_path,
                            const qni_json_text *name, st_source source, qn_error *err)
{
    size_t n_path = 0;
    char *path = shard_path(st->allocator, index_path, name, &n_path);
    if (!path) {
        return qni_fail_memory(err, n_path);
    }
    bool is_json = false;
    qn_error failure = QN_ERROR_INIT;
    st_file *file = &st->files[number];
    qn_status code = qni_st_open_file(st, file, path, source, &is_json, &failure);
    if (code == QN_ERR_IO && failure.sys_errno == ENOENT) {
        qni_name_text text;
        (void)qni_fail(&failure, QN_ERR_IO, -1,
                       "shard %d of %d, \"%s\", is missing; download it too", (int)number + 1,
                       (int)st->n_files, qni_escape_name(name->bytes, name->n_bytes, &text));
        failure.sys_errno = ENOENT;
        (void)qni_fail_path(&failure, code, path);
    }
    qni_free(st->allocator, path, n_path);
    if (code == QN_OK) {
        return QN_OK;
    }
    file->n_entries = 0; /* nothing of a header that failed is handed out */
    file->n_metadata = 0;
    if (code == QN_ERR_OUT_OF_MEMORY) {
        if (err) {
            *err = failure;
        }
        return code;
    }
    return qni_st_damage(st, &failure, err);
}

static qn_status add_ref(qn_safetensors *st, const index_item *item, qn_error *err)
{
    const int32_t number = (int32_t)item->shard;
    const st_file *file = &st->files[number];
    const int64_t index = qni_st_find_name(file, item->tensor.bytes, item->tensor.n_bytes);
    if (index < 0 || index >= file->n_entries) {
        if (file->n_entries == 0 && st->damages.n_bytes > 0) {
            return QN_OK; /* its shard is known to be damaged */
        }
        qni_name_text name;
        qn_error failure = QN_ERROR_INIT;
        (void)qni_fail(&failure, QN_ERR_INVALID_INDEX, item->tensor.offset,
                       "the index says that tensor \"%s\" is in this shard, but it is not",
                       qni_escape_name(item->tensor.bytes, item->tensor.n_bytes, &name));
        (void)qni_fail_path(&failure, QN_ERR_INVALID_INDEX, file->path);
        return qni_st_damage(st, &failure, err);
    }
    const st_entry *entry = &file->entries[index];
    int64_t existing = -1;
    QN_TRY(qni_strmap_add(&st->names, entry->name, (int64_t)entry->n_name, st->n_refs, &existing,
                          err)); /* the index's names are unique: JSON was checked */
    st->refs[st->n_refs++] = (st_ref){number, (uint32_t)index};
    return QN_OK;
}

/* What the index leaves out of its shards, and a total that is another. */
static qn_status warn_about_rest(const qn_safetensors *st, qn_error *err)
{
    int64_t *n_listed = qni_alloc_zeroed(st->allocator, (size_t)st->n_files * sizeof *n_listed);
    if (!n_listed) {
        return qni_fail_memory(err, (size_t)st->n_files * sizeof *n_listed);
    }
    int64_t n_bytes = 0;
    for (int64_t i = 0; i < st->n_refs; i++) {
        const st_file *file = &st->files[st->refs[i].file];
        n_listed[st->refs[i].file]++;
        (void)qni_add_i64(n_bytes, file->entries[st->refs[i].entry].n_bytes, &n_bytes);
    }
    for (int32_t i = 0; i < st->n_files; i++) {
        const int64_t n_more = st->files[i].n_entries - n_listed[i];
        if (n_more > 0) {
            qni_name_text path;
            const char *name = st->files[i].shard.path;
            qni_st_warn(st, "shard %s holds %" PRId64 " tensors that the index does not list",
                        qni_escape_name(name, (int64_t)strlen(name), &path), n_more);
        }
    }
    if (st->total_size >= 0 && st->damages.n_bytes == 0 && st->total_size != n_bytes) {
        qni_st_warn(st,
                    "total_size of the index is %" PRId64 ", its tensors take %" PRId64 " bytes",
                    st->total_size, n_bytes);
    }
    qni_free(st->allocator, n_listed, (size_t)st->n_files * sizeof *n_listed);
    return QN_OK;
}

static qn_status open_shards(qn_safetensors *st, const index_table *table, const char *path,
                             st_source source, qn_error *err)
{
    st->is_sharded = true;
    st->total_size = table->total_size;
    qni_strmap_init(&st->names, st->allocator);
    for (int32_t i = 0; i < st->n_files; i++) {
        QN_TRY(open_shard(st, i, path, &table->shards[i], source, err));
    }
    st->n_refs_max = table->n_items;
    st->refs = qni_alloc_array(st->allocator, table->n_items, sizeof *st->refs);
    if (!st->refs) {
        return qni_fail_memory(err, (size_t)table->n_items * sizeof *st->refs);
    }
    QN_TRY(qni_strmap_reserve(&st->names, table->n_items, err));
    for (int64_t i = 0; i < table->n_items; i++) {
        QN_TRY(add_ref(st, &table->items[i], err));
    }
    return warn_about_rest(st, err);
}

static qn_status open_text(const uint8_t *text, int64_t n_text, const char *path,
                           const qn_safetensors_options *options, st_source source,
                           qn_safetensors **out_st, qn_error *err)
{
    const qn_allocator *allocator = options ? options->allocator : NULL;
    const qni_json_options json_options = {.status = QN_ERR_INVALID_INDEX, .allocator = allocator};
    index_table table = {.allocator = allocator, .total_size = -1};
    qni_strmap_init(&table.shard_numbers, allocator);
    qn_safetensors *st = NULL;
    qni_json json;
    qn_status code = qni_json_begin(&json, text, n_text, &json_options, err);
    if (code == QN_OK) {
        code = parse_index(&table, &json, err);
    }
    if (code != QN_OK) {
        (void)qni_fail_path(err, code, path);
    } else {
        code = qni_st_new(options, (int32_t)table.n_shards, &st, err);
    }
    if (code == QN_OK) {
        code = open_shards(st, &table, path, source, err);
    }
    qni_json_end(&json);
    free_table(&table);
    if (code != QN_OK) {
        qn_safetensors_close(st);
        return code;
    }
    *out_st = st;
    return QN_OK;
}

qn_status qni_st_open_index(const char *path, const qn_safetensors_options *options,
                            st_source source, qn_safetensors **out_st, qn_error *err)
{
    const qn_allocator *allocator = options ? options->allocator : NULL;
    uint8_t *text = NULL;
    int64_t n_text = 0;
    qn_error failure = QN_ERROR_INIT;
    qn_status code = qni_file_read_all(path, allocator, MAX_INDEX_BYTES, &text, &n_text, &failure);
    if (code != QN_OK) {
        if (err) {
            *err = failure;
        }
        return code;
    }
    code = open_text(text, n_text, path, options, source, out_st, err);
    qni_free(allocator, text, (size_t)n_text);
    return code;
}
