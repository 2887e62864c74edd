/* gguf_emit.c — the buffered forms: a whole file to memory or to a path, through the stream. */
#include "gguf/gguf_writer_internal.h"

#define SWAP_CHUNK_BYTES  ((int64_t)64 * 1024)
#define PATH_BUFFER_BYTES ((size_t)256 * 1024)

/* Data in the other byte order, swapped in chunks of whole blocks. */
static qn_status write_swapped(qn_gguf_stream *stream, const qn_tensor_info *info,
                               const qn_allocator *allocator, qn_error *err)
{
    const int64_t n_block = qn_dtype_block_bytes(info->dtype);
    const int64_t n_chunk = SWAP_CHUNK_BYTES / n_block * n_block;
    uint8_t *chunk = qni_alloc(allocator, (size_t)n_chunk);
    if (!chunk) {
        return qni_fail_memory(err, (size_t)n_chunk);
    }
    const uint8_t *data = info->data;
    qn_status st = QN_OK;
    int64_t done = 0;
    do { /* once even for an empty tensor: the stream counts it */
        const int64_t n_now = qni_min_i64(info->n_bytes - done, n_chunk);
        st = qn_gguf_swap_data(info->dtype, data + done, chunk, n_now, err);
        st = st == QN_OK ? qn_gguf_stream_write_part(stream, chunk, n_now, err) : st;
        done += n_now;
    } while (st == QN_OK && done < info->n_bytes);
    qni_free(allocator, chunk, (size_t)n_chunk);
    return st;
}

static qn_status check_all_data(const qn_gguf_writer *writer, qn_error *err)
{
    for (int64_t i = 0; i < writer->tensors.n; i++) {
        const qn_tensor_info *info = &qni_wtensor_at(writer, i)->info;
        qni_name_text text;
        if (!info->data && info->n_bytes > 0) {
            const qn_status st = qni_fail(err, QN_ERR_TENSOR_DATA_MISSING, -1,
                                          "tensor \"%s\" was declared without data",
                                          qni_escape_name(info->name, info->n_name, &text));
            return qni_fail_tensor(err, st, i);
        }
    }
    return QN_OK;
}

static qn_status write_all(qn_gguf_writer *writer, qn_gguf_write_fn write, void *ctx, qn_error *err)
{
    qn_gguf_stream *stream = NULL;
    QN_TRY(qn_gguf_stream_begin(writer, write, ctx, &stream, err));
    qn_status st = QN_OK;
    int64_t index = -1;
    while (st == QN_OK && (index = qn_gguf_stream_next(stream)) >= 0) {
        const qni_gguf_wtensor *tensor = qni_wtensor_at(writer, index);
        st = tensor->swap_data
                 ? write_swapped(stream, &tensor->info, writer->allocator, err)
                 : qn_gguf_stream_write(stream, tensor->info.data, tensor->info.n_bytes, err);
    }
    st = st == QN_OK ? qn_gguf_stream_finish(stream, err) : st;
    qn_gguf_stream_free(stream);
    return st;
}

/* --- to memory ---------------------------------------------------------------------------------
 */

static qn_status write_to_memory(void *ctx, const void *bytes, size_t n_bytes, qn_error *err)
{
    (void)err;
    uint8_t **at = ctx;
    memcpy(*at, bytes, n_bytes);
    *at += n_bytes;
    return QN_OK;
}

qn_status qn_gguf_writer_finish(qn_gguf_writer *writer, const void **out_bytes,
                                int64_t *out_n_bytes, qn_error *err)
{
    *out_bytes = NULL;
    *out_n_bytes = 0;
    QN_TRY(qni_writer_layout(writer, err));
    QN_TRY(check_all_data(writer, err));
    qni_free(writer->allocator, writer->image, (size_t)writer->n_image);
    writer->image = NULL;
    writer->n_image = 0;
    QN_CHECK((uint64_t)writer->n_file_bytes <= SIZE_MAX, err, QN_ERR_OUT_OF_MEMORY, -1,
             "a file of %" PRId64 " bytes does not fit in memory", writer->n_file_bytes);
    writer->image = qni_alloc(writer->allocator, (size_t)writer->n_file_bytes);
    if (!writer->image) {
        return qni_fail_memory(err, (size_t)writer->n_file_bytes);
    }
    writer->n_image = writer->n_file_bytes;
    uint8_t *at = writer->image;
    QN_TRY(write_all(writer, write_to_memory, &at, err));
    *out_bytes = writer->image;
    *out_n_bytes = writer->n_image;
    return QN_OK;
}

/* --- to a path ---------------------------------------------------------------------------------
 */

/* Small pieces gather, large ones go straight through. */
typedef struct path_sink {
    qni_output *output;
    uint8_t *buffer;
    size_t n_buffered;
    int64_t pos; /* of the file, buffered bytes not counted */
} path_sink;

static qn_status flush_sink(path_sink *sink, qn_error *err)
{
    QN_TRY(qni_file_pwrite(&sink->output->file, sink->buffer, sink->n_buffered, sink->pos, err));
    sink->pos += (int64_t)sink->n_buffered;
    sink->n_buffered = 0;
    return QN_OK;
}

static qn_status write_to_path(void *ctx, const void *bytes, size_t n_bytes, qn_error *err)
{
    path_sink *sink = ctx;
    if (n_bytes > PATH_BUFFER_BYTES - sink->n_buffered) {
        QN_TRY(flush_sink(sink, err));
    }
    if (n_bytes > PATH_BUFFER_BYTES) {
        QN_TRY(qni_file_pwrite(&sink->output->file, bytes, n_bytes, sink->pos, err));
        sink->pos += (int64_t)n_bytes;
        return QN_OK;
    }
    memcpy(sink->buffer + sink->n_buffered, bytes, n_bytes);
    sink->n_buffered += n_bytes;
    return QN_OK;
}

qn_status qni_writer_write_output(qn_gguf_writer *writer, qni_output *output, qn_error *err)
{
    path_sink sink = {output, qni_alloc(writer->allocator, PATH_BUFFER_BYTES), 0, 0};
    if (!sink.buffer) {
        return qni_fail_memory(err, PATH_BUFFER_BYTES);
    }
    qn_status st = write_all(writer, write_to_path, &sink, err);
    st = st == QN_OK ? flush_sink(&sink, err) : st;
    qni_free(writer->allocator, sink.buffer, PATH_BUFFER_BYTES);
    return st;
}

qn_status qn_gguf_writer_finish_path(qn_gguf_writer *writer, const char *path, qn_error *err)
{
    QN_TRY(qni_writer_layout(writer, err));
    QN_TRY(check_all_data(writer, err));
    qni_output output;
    QN_TRY(qni_output_begin(path, writer->allocator, &output, err));
    const qn_status st = qni_writer_write_output(writer, &output, err);
    if (st != QN_OK) {
        qni_output_abort(&output);
        return qni_fail_path(err, st, path);
    }
    return qni_output_commit(&output, err);
}
