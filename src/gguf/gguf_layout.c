/* gguf_layout.c — from a table of contents to byte positions: every offset of the file is known
 * before the first byte of data. Also: a writer made from an open file, whose layout it repeats. */
#include "gguf/gguf_writer_internal.h"

/* --- taking out what was removed ----------------------------------------------------------------
 */

static void compact_entries(qn_gguf_writer *writer)
{
    int64_t n = 0;
    for (int64_t i = 0; i < writer->entries.n; i++) {
        qni_gguf_wentry *entry = qni_wentry_at(writer, i);
        if (entry->is_dead) {
            continue;
        }
        const int64_t id = qni_strmap_find(&writer->keys.map, entry->key, entry->n_key);
        ((int64_t *)writer->keys.of_id.items)[id] = n;
        *qni_wentry_at(writer, n++) = *entry;
    }
    writer->entries.n = n;
}

static void compact_tensors(qn_gguf_writer *writer)
{
    int64_t n = 0;
    for (int64_t i = 0; i < writer->tensors.n; i++) {
        qni_gguf_wtensor *tensor = qni_wtensor_at(writer, i);
        if (tensor->is_dead) {
            continue;
        }
        const int64_t id =
            qni_strmap_find(&writer->names.map, tensor->info.name, tensor->info.n_name);
        ((int64_t *)writer->names.of_id.items)[id] = n;
        *qni_wtensor_at(writer, n++) = *tensor;
    }
    writer->tensors.n = n;
}

/* --- the header --------------------------------------------------------------------------------
 */

typedef struct pen {
    uint8_t *p;
    bool swap; /* the file's byte order is not the machine's */
} pen;

static void put_u32(pen *to, uint32_t value)
{
    qni_copy_elems(to->p, &value, 1, 4, to->swap);
    to->p += 4;
}

static void put_u64(pen *to, uint64_t value)
{
    qni_copy_elems(to->p, &value, 1, 8, to->swap);
    to->p += 8;
}

static void put_bytes(pen *to, const void *bytes, int64_t n_bytes)
{
    if (n_bytes > 0) {
        memcpy(to->p, bytes, (size_t)n_bytes);
    }
    to->p += n_bytes;
}

static qn_status header_bytes(const qn_gguf_writer *writer, int64_t *out_n_bytes, qn_error *err)
{
    int64_t n = QNI_GGUF_HEADER_BYTES;
    bool is_whole = true;
    for (int64_t i = 0; i < writer->entries.n; i++) {
        const qni_gguf_wentry *entry = qni_wentry_at(writer, i);
        is_whole &= qni_add_i64(n, 12 + entry->n_key, &n) && qni_add_i64(n, entry->n_value, &n);
    }
    for (int64_t i = 0; i < writer->tensors.n; i++) {
        const qn_tensor_info *info = &qni_wtensor_at(writer, i)->info;
        is_whole &= qni_add_i64(n, 24 + info->n_name + 8 * info->n_dims, &n);
    }
    QN_CHECK(is_whole, err, QN_ERR_OVERFLOW, -1, "the header does not fit in 63 bits of bytes");
    *out_n_bytes = n;
    return QN_OK;
}

static void put_header(const qn_gguf_writer *writer, int64_t data_offset, pen *to)
{
    put_bytes(to, QNI_GGUF_MAGIC, 4);
    put_u32(to, writer->version);
    put_u64(to, (uint64_t)writer->tensors.n);
    put_u64(to, (uint64_t)writer->entries.n);
    for (int64_t i = 0; i < writer->entries.n; i++) {
        const qni_gguf_wentry *entry = qni_wentry_at(writer, i);
        put_u64(to, (uint64_t)entry->n_key);
        put_bytes(to, entry->key, entry->n_key);
        put_u32(to, (uint32_t)entry->type);
        put_bytes(to, entry->value, entry->n_value);
    }
    for (int64_t i = 0; i < writer->tensors.n; i++) {
        const qn_tensor_info *info = &qni_wtensor_at(writer, i)->info;
        put_u64(to, (uint64_t)info->n_name);
        put_bytes(to, info->name, info->n_name);
        put_u32(to, (uint32_t)info->n_dims);
        for (int32_t d = 0; d < info->n_dims; d++) {
            put_u64(to, (uint64_t)info->ne[d]);
        }
        put_u32(to, (uint32_t)info->dtype);
        put_u64(to, (uint64_t)(info->file_offset - data_offset));
    }
}

/* --- places ------------------------------------------------------------------------------------
 */

/* Give every tensor its place; *out_data_bytes from the data section to the end of the file. */
static qn_status place_tensors(qn_gguf_writer *writer, int64_t data_offset, int64_t *out_data_bytes,
                               qn_error *err)
{
    int64_t next = qni_max_i64(writer->source_data_bytes, 0);
    bool is_whole = qni_align_up_i64(next, writer->alignment, &next);
    int64_t end = qni_max_i64(writer->source_data_bytes, 0);
    for (int64_t i = 0; i < writer->tensors.n; i++) {
        qni_gguf_wtensor *tensor = qni_wtensor_at(writer, i);
        const bool is_given = tensor->given_offset >= 0;
        const int64_t at = is_given ? tensor->given_offset : next;
        int64_t after = 0;
        int64_t padded = 0;
        is_whole &= qni_add_i64(at, tensor->info.n_bytes, &after) &&
                    qni_align_up_i64(after, writer->alignment, &padded) &&
                    qni_add_i64(data_offset, at, &tensor->info.file_offset);
        QN_CHECK(is_whole, err, QN_ERR_OVERFLOW, -1,
                 "the tensors together do not fit in 63 bits of bytes");
        next = is_given ? next : padded;
        end = qni_max_i64(end, is_given ? after : padded);
    }
    *out_data_bytes = end;
    return QN_OK;
}

/* Tensors in file order: the directory's, unless offsets were given. Merge sort, bottom up. */
static qn_status sort_order(qn_gguf_writer *writer, qn_error *err)
{
    const int64_t n = writer->tensors.n;
    qni_free(writer->allocator, writer->order, (size_t)writer->n_order * sizeof *writer->order);
    writer->n_order = 0;
    writer->order = qni_alloc_array(writer->allocator, n, sizeof *writer->order);
    if (!writer->order) {
        return qni_fail_memory(err, (size_t)n * sizeof *writer->order);
    }
    writer->n_order = n;
    bool is_sorted = true;
    for (int64_t i = 0; i < n; i++) {
        writer->order[i] = i;
        is_sorted &= i == 0 || qni_wtensor_at(writer, i)->info.file_offset >=
                                   qni_wtensor_at(writer, i - 1)->info.file_offset;
    }
    if (is_sorted) {
        return QN_OK;
    }
    int64_t *scratch = qni_alloc_array(writer->allocator, n, sizeof *scratch);
    if (!scratch) {
        return qni_fail_memory(err, (size_t)n * sizeof *scratch);
    }
    int64_t *from = writer->order;
    int64_t *to = scratch;
    for (int64_t width = 1; width < n; width *= 2) {
        for (int64_t low = 0; low < n; low += 2 * width) {
            const int64_t mid = qni_min_i64(low + width, n);
            const int64_t high = qni_min_i64(low + 2 * width, n);
            int64_t a = low;
            int64_t b = mid;
            for (int64_t k = low; k < high; k++) {
                const bool take_a =
                    a < mid && (b >= high || qni_wtensor_at(writer, from[a])->info.file_offset <=
                                                 qni_wtensor_at(writer, from[b])->info.file_offset);
                to[k] = take_a ? from[a++] : from[b++];
            }
        }
        int64_t *other = from;
        from = to;
        to = other;
    }
    writer->order = from;
    qni_free(writer->allocator, to, (size_t)n * sizeof *to);
    return QN_OK;
}

qn_status qni_writer_layout(qn_gguf_writer *writer, qn_error *err)
{
    if (writer->is_laid_out) {
        return QN_OK;
    }
    compact_entries(writer);
    compact_tensors(writer);
    int64_t n_header = 0;
    int64_t data_offset = 0;
    QN_TRY(header_bytes(writer, &n_header, err));
    QN_CHECK(qni_align_up_i64(n_header, writer->alignment, &data_offset), err, QN_ERR_OVERFLOW, -1,
             "the header does not fit in 63 bits of bytes");
    /* a source without tensors may end before its data section would begin */
    const bool is_short = writer->source_data_bytes == 0 && writer->tensors.n == 0;
    const int64_t n_padding = is_short ? writer->n_source_padding : data_offset - n_header;
    int64_t n_data = 0;
    QN_TRY(place_tensors(writer, data_offset, &n_data, err));
    int64_t n_file = n_header + n_padding;
    QN_CHECK(qni_add_i64(n_file, n_data, &n_file), err, QN_ERR_OVERFLOW, -1,
             "the file does not fit in 63 bits of bytes");
    QN_TRY(sort_order(writer, err));
    writer->header.n_bytes = 0;
    QN_TRY(qni_buffer_append_zeros(&writer->header, (size_t)(n_header + n_padding), err));
    pen to = {writer->header.bytes, writer->is_big_endian == qni_host_is_little_endian()};
    put_header(writer, data_offset, &to);
    if (n_padding > 0 && n_padding == writer->n_source_padding) {
        memcpy(to.p, writer->source_padding, (size_t)n_padding);
    }
    writer->n_file_bytes = n_file;
    writer->is_laid_out = true;
    return QN_OK;
}

qn_status qn_gguf_writer_layout(qn_gguf_writer *writer, qn_gguf_file_plan *out_plan, qn_error *err)
{
    *out_plan = (qn_gguf_file_plan){0};
    QN_TRY(qni_writer_layout(writer, err));
    *out_plan = (qn_gguf_file_plan){.header = writer->header.bytes,
                                    .n_header_bytes = (int64_t)writer->header.n_bytes,
                                    .n_file_bytes = writer->n_file_bytes,
                                    .n_tensors = writer->tensors.n};
    return QN_OK;
}

bool qn_gguf_writer_tensor(const qn_gguf_writer *writer, int64_t index, qn_tensor_info *out_info)
{
    if (!writer->is_laid_out || index < 0 || index >= writer->tensors.n) {
        return false;
    }
    *out_info = qni_wtensor_at(writer, index)->info;
    return true;
}

bool qn_gguf_writer_extra(const qn_gguf_writer *writer, int64_t index, int64_t *out_file_offset,
                          const void **out_bytes, int64_t *out_n_bytes)
{
    if (!writer->is_laid_out || index < 0 || index >= writer->extras.n) {
        return false;
    }
    const qni_gguf_extra *extra = qni_extra_at(writer, index);
    *out_file_offset = (int64_t)writer->header.n_bytes + extra->offset;
    *out_bytes = extra->bytes;
    *out_n_bytes = extra->n_bytes;
    return true;
}

/* --- from an open file -------------------------------------------------------------------------
 */

static bool is_zero(const uint8_t *bytes, int64_t n_bytes)
{
    for (int64_t i = 0; i < n_bytes; i++) {
        if (bytes[i] != 0) {
            return false;
        }
    }
    return true;
}

/* Remember source bytes [start, end) of the file, unless they are zero. */
static qn_status add_extra(qn_gguf_writer *writer, const qni_gguf_part *part, int64_t start,
                           int64_t end, qn_error *err)
{
    if (start >= end || is_zero(part->bytes + start, end - start)) {
        return QN_OK;
    }
    qni_gguf_extra *extra = qni_list_add(&writer->extras, sizeof *extra, writer->allocator);
    if (!extra) {
        return qni_fail_memory(err, sizeof *extra);
    }
    *extra = (qni_gguf_extra){start - part->shard.data_offset, part->bytes + start, end - start};
    return QN_OK;
}

/* What lies between the tensors and behind them. The writer has been laid out, so that its order
 * is known, and places are those of the source. */
static qn_status keep_gaps(qn_gguf_writer *writer, const qni_gguf_part *part, qn_error *err)
{
    int64_t at = qni_min_i64(part->shard.data_offset, part->shard.n_bytes);
    for (int64_t i = 0; i < writer->n_order; i++) {
        const qni_gguf_wtensor *tensor = qni_wtensor_at(writer, writer->order[i]);
        const int64_t start = part->shard.data_offset + tensor->given_offset;
        if (tensor->info.n_bytes > 0) {
            QN_TRY(add_extra(writer, part, at, start, err));
            at = start + tensor->info.n_bytes;
        }
    }
    return add_extra(writer, part, at, part->shard.n_bytes, err);
}

static qn_status take_tensors(qn_gguf_writer *writer, const qn_gguf *gguf, qn_error *err)
{
    const bool is_lossless = writer->layout == QN_GGUF_LOSSLESS;
    for (int64_t i = 0; i < gguf->n_tensors; i++) {
        qni_gguf_wtensor tensor = {.info = gguf->tensors[i], .given_offset = -1};
        const qn_gguf_shard *shard = &gguf->parts[tensor.info.shard].shard;
        qni_name_text text;
        QN_CHECK(tensor.info.data, err, QN_ERR_UNSUPPORTED, -1,
                 "tensor \"%s\" of the source has no data to copy",
                 qni_escape_name(tensor.info.name, tensor.info.n_name, &text));
        if (is_lossless) {
            tensor.given_offset = tensor.info.file_offset - shard->data_offset;
        } else if (shard->is_big_endian) {
            tensor.swap_data = true;
            uint8_t nothing = 0;
            QN_TRY(qn_gguf_swap_data(tensor.info.dtype, &nothing, &nothing, 0, err));
        }
        tensor.info.shard = 0;
        QN_TRY(qni_writer_put_tensor(writer, &tensor, err));
    }
    return QN_OK;
}

static qn_status take_all(qn_gguf_writer *writer, const qn_gguf *gguf, qn_error *err)
{
    static const char *const split_keys[] = {QNI_GGUF_KEY_SPLIT_NO, QNI_GGUF_KEY_SPLIT_COUNT,
                                             QNI_GGUF_KEY_SPLIT_TENSORS};
    const int64_t n_skip = gguf->n_parts > 1 ? 3 : 0;
    QN_TRY(qn_gguf_writer_copy_all(writer, gguf, split_keys, n_skip, err));
    QN_TRY(take_tensors(writer, gguf, err));
    if (writer->layout != QN_GGUF_LOSSLESS) {
        return QN_OK;
    }
    const qni_gguf_part *part = &gguf->parts[0];
    writer->source_padding = part->bytes + part->shard.n_header_bytes;
    writer->n_source_padding = part->shard.n_header_padding;
    writer->source_data_bytes = qni_max_i64(part->shard.n_bytes - part->shard.data_offset, 0);
    QN_TRY(qni_writer_layout(writer, err));
    QN_TRY(keep_gaps(writer, part, err));
    return QN_OK;
}

qn_status qn_gguf_writer_from(const qn_gguf *gguf, const qn_gguf_writer_options *options,
                              qn_gguf_writer **out_writer, qn_error *err)
{
    *out_writer = NULL;
    qn_gguf_writer_options opts = QN_GGUF_WRITER_OPTIONS_INIT;
    if (options) {
        opts.layout = options->layout;
        opts.allocator = options->allocator;
    }
    const bool is_lossless = opts.layout == QN_GGUF_LOSSLESS;
    QN_CHECK(!is_lossless || gguf->n_parts == 1, err, QN_ERR_UNSUPPORTED, -1,
             "a split model has no one file to repeat: open a shard by itself (single_shard)");
    if (is_lossless) {
        opts.version = qn_gguf_version(gguf);
        opts.is_big_endian = qn_gguf_is_big_endian(gguf);
    }
    qn_gguf_writer *writer = NULL;
    QN_TRY(qn_gguf_writer_new(&opts, &writer, err));
    const qn_status st = take_all(writer, gguf, err);
    if (st != QN_OK) {
        qn_gguf_writer_free(writer);
        return st;
    }
    *out_writer = writer;
    return QN_OK;
}
