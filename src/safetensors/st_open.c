/* st_open.c — where the bytes of a file come from: memory, a map, a file read in part, a stream. */
#include "quench/probe.h"
#include "safetensors/safetensors_internal.h"

/* The first piece that is taken off a stream, whatever the frame claims. */
#define FIRST_PIECE_BYTES ((int64_t)64 * 1024)

/* What is read of a file at first: most headers are shorter. */
#define HEADER_PIECE_BYTES ((int64_t)16 * 1024)

/* --- the handle ------------------------------------------------------------------------------- */

qn_status qni_st_new(const qn_safetensors_options *options, int32_t n_files,
                     qn_safetensors **out_st, qn_error *err)
{
    static const qn_safetensors_options defaults = QN_SAFETENSORS_OPTIONS_INIT;
    *out_st = NULL;
    options = options ? options : &defaults;
    QN_CHECK(options->struct_size == sizeof *options, err, QN_ERR_INVALID_ARGUMENT, -1,
             "struct_size of the options is not that of this library: initialise them with "
             "QN_SAFETENSORS_OPTIONS_INIT");
    const qn_allocator *allocator = options->allocator;
    qn_safetensors *st = qni_alloc_zeroed(allocator, sizeof *st);
    st_file *files = st ? qni_alloc_zeroed(allocator, (size_t)n_files * sizeof *st->files) : NULL;
    if (!files) {
        qni_free(allocator, st, sizeof *st);
        return qni_fail_memory(err, (size_t)n_files * sizeof *st->files);
    }
    st->options = *options;
    st->allocator = allocator;
    st->files = files;
    st->n_files = n_files;
    st->total_size = -1;
    qni_buffer_init(&st->damages, allocator, ST_MAX_DAMAGES * sizeof(qn_error));
    for (int32_t i = 0; i < n_files; i++) {
        st_file *file = &st->files[i];
        file->file = (qni_file)QNI_FILE_CLOSED;
        file->arena.allocator = allocator;
        file->shard.path = "";
        file->shard.n_bytes = -1;
    }
    *out_st = st;
    return QN_OK;
}

static void free_file(const qn_allocator *allocator, st_file *file)
{
    qni_free(allocator, file->path, file->path ? strlen(file->path) + 1 : 0);
    qni_free(allocator, file->owned, (size_t)file->n_owned);
    qni_free(allocator, file->owned_data, (size_t)file->n_owned_data);
    qni_map_close(&file->map);
    qni_file_close(&file->file);
    qni_free(allocator, file->entries, (size_t)file->n_entries_max * sizeof *file->entries);
    qni_free(allocator, file->dims, (size_t)file->n_dims_max * sizeof *file->dims);
    qni_free(allocator, file->metadata, (size_t)file->n_metadata_max * sizeof *file->metadata);
    qni_arena_free(&file->arena);
    qni_st_free_names(file, allocator);
}

void qn_safetensors_close(qn_safetensors *st)
{
    if (!st) {
        return;
    }
    const qn_allocator *allocator = st->allocator;
    for (int32_t i = 0; i < st->n_files; i++) {
        free_file(allocator, &st->files[i]);
    }
    qni_free(allocator, st->files, (size_t)st->n_files * sizeof *st->files);
    qni_free(allocator, st->refs, (size_t)st->n_refs_max * sizeof *st->refs);
    qni_strmap_free(&st->names);
    qni_buffer_free(&st->damages);
    qni_free(allocator, st, sizeof *st);
}

void qni_st_warn(const qn_safetensors *st, const char *fmt, ...)
{
    if (!st->options.log) {
        return;
    }
    char message[768];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(message, sizeof message, fmt, args);
    va_end(args);
    st->options.log(st->options.log_ctx, QN_LOG_WARNING, message);
}

qn_status qni_st_damage(qn_safetensors *st, const qn_error *failure, qn_error *err)
{
    if (st->options.keep_damaged && st->damages.n_bytes < st->damages.n_max) {
        return qni_buffer_append(&st->damages, failure, sizeof *failure, err);
    }
    if (err) {
        *err = *failure;
    }
    return failure->status;
}

qn_status qni_st_grow(const qn_allocator *allocator, void **array, size_t elem_bytes, int64_t n,
                      int64_t *n_max, qn_error *err)
{
    int64_t n_new = 0;
    size_t n_bytes = 0;
    QN_CHECK(qni_mul_i64(qni_max_i64(n, 16), 2, &n_new) &&
                 qni_mul_size((size_t)n_new, elem_bytes, &n_bytes),
             err, QN_ERR_OVERFLOW, -1, "too many entries in one header");
    void *grown = qni_realloc(allocator, *array, (size_t)*n_max * elem_bytes, n_bytes);
    if (!grown) {
        return qni_fail_memory(err, n_bytes);
    }
    *array = grown;
    *n_max = n_new;
    return QN_OK;
}

/* --- bytes in memory -------------------------------------------------------------------------- */

/* Replace the failure to read a length by what the bytes are instead, where that is known. */
static qn_status name_stranger(qn_status status, const uint8_t *bytes, int64_t n_bytes,
                               bool *out_is_json, qn_error *err)
{
    const size_t n = (size_t)qni_min_i64(n_bytes, QN_PROBE_BYTES);
    const qn_file_kind kind = qn_probe(bytes, n);
    *out_is_json = kind == QN_FILE_JSON;
    if (kind == QN_FILE_UNKNOWN || kind == QN_FILE_EMPTY || kind == QN_FILE_SAFETENSORS ||
        (kind == QN_FILE_ZEROS && n_bytes <= ST_LENGTH_BYTES)) {
        return status;
    }
    return qni_fail(err, QN_ERR_NOT_A_MODEL, 0, "not a safetensors file but %s",
                    qn_file_kind_text(kind));
}

/* The whole file is in memory: find its parts and parse. */
static qn_status parse_whole(qn_safetensors *st, st_file *file, const uint8_t *bytes,
                             int64_t n_bytes, bool *out_is_json, qn_error *err)
{
    int64_t n_header = 0;
    *out_is_json = false;
    file->shard.n_bytes = n_bytes;
    qn_status code = qni_st_check_length(bytes, n_bytes, n_bytes, &n_header, err);
    if (code == QN_OK) {
        file->header = bytes + ST_LENGTH_BYTES;
        file->n_header = n_header;
        file->shard.n_header_bytes = ST_LENGTH_BYTES + n_header;
        file->data = file->header + n_header;
        file->n_data_present = n_bytes - file->shard.n_header_bytes;
        code = qni_st_parse_header(st, file, err);
    }
    if (code == QN_ERR_HEADER_TOO_LARGE || code == QN_ERR_INVALID_HEADER_LENGTH ||
        code == QN_ERR_INVALID_HEADER) {
        code = name_stranger(code, bytes, n_bytes, out_is_json, err);
    }
    return code;
}

static const uint8_t nothing[1];

qn_status qn_safetensors_parse(const void *bytes, int64_t n_bytes,
                               const qn_safetensors_options *options, qn_safetensors **out_st,
                               qn_error *err)
{
    *out_st = NULL;
    QN_CHECK(n_bytes >= 0 && (bytes || n_bytes == 0), err, QN_ERR_INVALID_ARGUMENT, -1,
             "bytes to parse must be given");
    qn_safetensors *st = NULL;
    bool is_json = false;
    QN_TRY(qni_st_new(options, 1, &st, err));
    const qn_status code =
        parse_whole(st, &st->files[0], bytes ? bytes : nothing, n_bytes, &is_json, err);
    if (code != QN_OK) {
        qn_safetensors_close(st);
        return code;
    }
    *out_st = st;
    return QN_OK;
}

qn_status qn_safetensors_parse_owned(void *bytes, int64_t n_bytes,
                                     const qn_safetensors_options *options, qn_safetensors **out_st,
                                     qn_error *err)
{
    QN_TRY(qn_safetensors_parse(bytes, n_bytes, options, out_st, err));
    (*out_st)->files[0].owned = bytes;
    (*out_st)->files[0].n_owned = n_bytes;
    return QN_OK;
}

/* --- files ------------------------------------------------------------------------------------ */

static qn_status open_heap(qn_safetensors *st, st_file *file, const char *path, bool *out_is_json,
                           qn_error *err)
{
    QN_TRY(qni_file_read_all(path, st->allocator, INT64_MAX, &file->owned, &file->n_owned, err));
    return parse_whole(st, file, file->owned, file->n_owned, out_is_json, err);
}

/* The header's length, and the header itself if it is short: reading it is cheaper than the page
 * faults of a map, and the only way for a file that is not mapped. */
static qn_status read_first_piece(qn_safetensors *st, st_file *file, bool *out_is_json,
                                  qn_error *err)
{
    const int64_t n_total = file->file.n_bytes;
    int64_t n_header = 0;
    file->shard.n_bytes = n_total;
    file->n_owned = qni_min_i64(n_total, HEADER_PIECE_BYTES);
    file->owned = qni_alloc(st->allocator, (size_t)file->n_owned);
    if (!file->owned) {
        return qni_fail_memory(err, (size_t)file->n_owned);
    }
    QN_TRY(qni_file_pread(&file->file, file->owned, (size_t)file->n_owned, 0, err));
    qn_status code = qni_st_check_length(file->owned, file->n_owned, n_total, &n_header, err);
    if (code == QN_ERR_HEADER_TOO_LARGE || code == QN_ERR_INVALID_HEADER_LENGTH) {
        code = name_stranger(code, file->owned, file->n_owned, out_is_json, err);
    }
    QN_TRY(code);
    file->n_header = n_header;
    file->shard.n_header_bytes = ST_LENGTH_BYTES + n_header;
    file->n_data_present = n_total - file->shard.n_header_bytes;
    return QN_OK;
}

/* A header that is longer than the first piece, into a block of its own. */
static qn_status read_long_header(qn_safetensors *st, st_file *file, qn_error *err)
{
    uint8_t *block = qni_alloc(st->allocator, (size_t)file->shard.n_header_bytes);
    if (!block) {
        return qni_fail_memory(err, (size_t)file->shard.n_header_bytes);
    }
    const int64_t n_have = file->n_owned;
    memcpy(block, file->owned, (size_t)n_have);
    qni_free(st->allocator, file->owned, (size_t)n_have);
    file->owned = block;
    file->n_owned = file->shard.n_header_bytes;
    return qni_file_pread(&file->file, block + n_have, (size_t)(file->n_owned - n_have), n_have,
                          err);
}

static qn_status open_header(qn_safetensors *st, st_file *file, const char *path, st_source source,
                             bool *out_is_json, qn_error *err)
{
    QN_TRY(qni_file_open(path, &file->file, err));
    QN_TRY(read_first_piece(st, file, out_is_json, err));
    const bool is_long = file->shard.n_header_bytes > file->n_owned;
    if (source == ST_MAP) {
        QN_TRY(qni_map_of_file(&file->file, &file->map, err));
        qni_file_close(&file->file);
        file->data = file->map.bytes + file->shard.n_header_bytes;
    } else if (is_long) {
        QN_TRY(read_long_header(st, file, err));
    }
    file->header = (is_long && source == ST_MAP ? file->map.bytes : file->owned) + ST_LENGTH_BYTES;
    const qn_status code = qni_st_parse_header(st, file, err);
    return code == QN_ERR_INVALID_HEADER
               ? name_stranger(code, file->header - ST_LENGTH_BYTES, file->shard.n_header_bytes,
                               out_is_json, err)
               : code;
}

qn_status qni_st_open_file(qn_safetensors *st, st_file *file, const char *path, st_source source,
                           bool *out_is_json, qn_error *err)
{
    const size_t n_path = strlen(path) + 1;
    *out_is_json = false;
    file->path = qni_alloc(st->allocator, n_path);
    if (!file->path) {
        return qni_fail_memory(err, n_path);
    }
    memcpy(file->path, path, n_path);
    file->shard.path = file->path;
    const qn_status code = source == ST_HEAP
                               ? open_heap(st, file, path, out_is_json, err)
                               : open_header(st, file, path, source, out_is_json, err);
    return code == QN_OK ? QN_OK : qni_fail_path(err, code, path);
}

static qn_status open_path(const char *path, const qn_safetensors_options *options,
                           st_source source, qn_safetensors **out_st, qn_error *err)
{
    *out_st = NULL;
    qn_safetensors *st = NULL;
    bool is_json = false;
    QN_TRY(qni_st_new(options, 1, &st, err));
    const qn_status code = qni_st_open_file(st, &st->files[0], path, source, &is_json, err);
    if (code == QN_OK) {
        *out_st = st;
        return QN_OK;
    }
    qn_safetensors_close(st);
    return is_json ? qni_st_open_index(path, options, source, out_st, err) : code;
}

qn_status qn_safetensors_open(const char *path, const qn_safetensors_options *options,
                              qn_safetensors **out_st, qn_error *err)
{
    return open_path(path, options, ST_HEADER, out_st, err);
}

qn_status qn_safetensors_load(const char *path, const qn_safetensors_options *options,
                              qn_safetensors **out_st, qn_error *err)
{
    return open_path(path, options, ST_HEAP, out_st, err);
}

qn_status qn_safetensors_load_mmap(const char *path, const qn_safetensors_options *options,
                                   qn_safetensors **out_st, qn_error *err)
{
    return open_path(path, options, ST_MAP, out_st, err);
}

/* --- streams ---------------------------------------------------------------------------------- */

typedef struct stream {
    qn_read_fn read;
    void *ctx;
    int64_t offset; /* in the frame */
} stream;

/* All n_bytes, or an error. */
static qn_status read_exactly(stream *s, uint8_t *out, int64_t n_bytes, const char *what,
                              qn_error *err)
{
    while (n_bytes > 0) {
        size_t n_read = 0;
        QN_TRY(s->read(s->ctx, out, (size_t)n_bytes, &n_read, err));
        QN_CHECK(n_read <= (size_t)n_bytes, err, QN_ERR_INVALID_ARGUMENT, s->offset,
                 "the stream gave %zu bytes where %" PRId64 " were asked for", n_read, n_bytes);
        QN_CHECK(n_read > 0, err, QN_ERR_END_OF_STREAM, s->offset,
                 "the stream ends %" PRId64
                 " bytes before the end of the %s of a safetensors frame",
                 n_bytes, what);
        out += n_read;
        n_bytes -= (int64_t)n_read;
        s->offset += (int64_t)n_read;
    }
    return QN_OK;
}

/* n_bytes into a block that grows as they arrive: the last growth makes it exactly as large. */
static qn_status read_growing(const qn_safetensors *st, stream *s, int64_t n_bytes,
                              const char *what, uint8_t **out_block, int64_t *out_n_block,
                              qn_error *err)
{
    int64_t n_have = 0;
    while (n_have < n_bytes || !*out_block) {
        const int64_t n_want = qni_min_i64(n_bytes, n_have == 0 ? FIRST_PIECE_BYTES : n_have * 2);
        uint8_t *block =
            qni_realloc(st->allocator, *out_block, (size_t)*out_n_block, (size_t)n_want);
        if (!block) {
            return qni_fail_memory(err, (size_t)n_want);
        }
        *out_block = block;
        *out_n_block = n_want;
        QN_TRY(read_exactly(s, block + n_have, n_want - n_have, what, err));
        n_have = n_want;
    }
    return QN_OK;
}

static qn_status read_frame(qn_safetensors *st, stream *s, qn_error *err)
{
    st_file *file = &st->files[0];
    uint8_t length[ST_LENGTH_BYTES];
    QN_TRY(read_exactly(s, length, ST_LENGTH_BYTES, "header length", err));
    QN_TRY(qni_st_check_length(length, ST_LENGTH_BYTES, -1, &file->n_header, err));
    QN_TRY(read_growing(st, s, file->n_header, "header", &file->owned, &file->n_owned, err));
    file->header = file->owned;
    file->shard.n_header_bytes = ST_LENGTH_BYTES + file->n_header;
    file->n_data_present = -1;
    QN_TRY(qni_st_parse_header(st, file, err));
    const int64_t n_data = file->shard.n_data_bytes;
    QN_CHECK(qni_add_i64(file->shard.n_header_bytes, n_data, &file->shard.n_bytes), err,
             QN_ERR_VALIDATION_OVERFLOW, 0, "the frame is larger than 2^63 bytes");
    QN_TRY(read_growing(st, s, n_data, "data", &file->owned_data, &file->n_owned_data, err));
    file->data = file->owned_data;
    file->n_data_present = n_data;
    return QN_OK;
}

qn_status qn_safetensors_read_prefix(qn_read_fn read, void *read_ctx,
                                     const qn_safetensors_options *options, qn_safetensors **out_st,
                                     qn_error *err)
{
    *out_st = NULL;
    QN_CHECK(read, err, QN_ERR_INVALID_ARGUMENT, -1, "a stream to read from must be given");
    qn_safetensors *st = NULL;
    stream s = {read, read_ctx, 0};
    QN_TRY(qni_st_new(options, 1, &st, err));
    const qn_status code = read_frame(st, &s, err);
    if (code != QN_OK) {
        qn_safetensors_close(st);
        return code;
    }
    *out_st = st;
    return QN_OK;
}
