/* st_stream.c — a laid-out file on its way out: to a sink, to memory, or to a path that changes
 * only when all of it is there. Every form goes through the same stream. */
#include "safetensors/st_write_internal.h"

/* Small tensors are put together to pieces of this size before they go to a file. */
#define FILE_BUFFER_BYTES ((size_t)1024 * 1024)

struct qn_safetensors_stream {
    qn_safetensors_writer *writer;
    qn_write_fn write;
    void *write_ctx;
    qni_output output; /* of the form with a path */
    uint8_t *buffer;
    size_t n_buffered;
    int64_t file_offset; /* of the first byte that was not handed to the file */
    int64_t position;    /* tensor that comes next */
    int64_t n_done;      /* bytes of data taken */
    bool is_over;        /* finished, or failed */
};

/* --- sinks ------------------------------------------------------------------------------------ */

static qn_status flush_file(qn_safetensors_stream *s, qn_error *err)
{
    QN_TRY(qni_file_pwrite(&s->output.file, s->buffer, s->n_buffered, s->file_offset, err));
    s->file_offset += (int64_t)s->n_buffered;
    s->n_buffered = 0;
    return QN_OK;
}

static qn_status put_in_file(qn_safetensors_stream *s, const uint8_t *bytes, size_t n_bytes,
                             qn_error *err)
{
    if (n_bytes > FILE_BUFFER_BYTES - s->n_buffered) {
        QN_TRY(flush_file(s, err));
    }
    if (n_bytes >= FILE_BUFFER_BYTES) {
        QN_TRY(qni_file_pwrite(&s->output.file, bytes, n_bytes, s->file_offset, err));
        s->file_offset += (int64_t)n_bytes;
        return QN_OK;
    }
    memcpy(s->buffer + s->n_buffered, bytes, n_bytes);
    s->n_buffered += n_bytes;
    return QN_OK;
}

static qn_status put(qn_safetensors_stream *s, const void *bytes, size_t n_bytes, qn_error *err)
{
    if (n_bytes == 0) {
        return QN_OK;
    }
    return s->write ? s->write(s->write_ctx, bytes, n_bytes, err)
                    : put_in_file(s, bytes, n_bytes, err);
}

/* --- the stream ------------------------------------------------------------------------------- */

/* Past tensors that are complete, also those without bytes. */
static void advance(qn_safetensors_stream *s)
{
    const qn_safetensors_writer *w = s->writer;
    while (s->position < w->n_items &&
           s->n_done >= w->items[s->position].begin + w->items[s->position].n_bytes) {
        s->position++;
    }
}

static qn_status new_stream(qn_safetensors_writer *writer, qn_safetensors_stream **out_stream,
                            qn_error *err)
{
    *out_stream = NULL;
    QN_CHECK(writer->n_streams == 0, err, QN_ERR_INVALID_STATE, -1,
             "a stream is open on this writer: free it first");
    qn_safetensors_stream *s = qni_alloc_zeroed(writer->allocator, sizeof *s);
    if (!s) {
        return qni_fail_memory(err, sizeof *s);
    }
    s->writer = writer;
    s->output = (qni_output)QNI_OUTPUT_CLOSED;
    writer->n_streams++;
    *out_stream = s;
    return QN_OK;
}

/* The header goes out; on failure the stream is freed. */
static qn_status start(qn_safetensors_stream *s, const qn_safetensors_file_plan *plan,
                       qn_safetensors_stream **out_stream, qn_error *err)
{
    const qn_status st = put(s, plan->header, (size_t)plan->n_header_bytes, err);
    if (st != QN_OK) {
        qn_safetensors_stream_free(s);
        return st;
    }
    advance(s);
    *out_stream = s;
    return QN_OK;
}

qn_status qn_safetensors_stream_begin(qn_safetensors_writer *writer, qn_write_fn write,
                                      void *write_ctx, qn_safetensors_stream **out_stream,
                                      qn_error *err)
{
    qn_safetensors_file_plan plan;
    qn_safetensors_stream *s = NULL;
    *out_stream = NULL;
    QN_CHECK(write, err, QN_ERR_INVALID_ARGUMENT, -1, "a sink to write to must be given");
    QN_TRY(qn_safetensors_writer_layout(writer, &plan, err));
    QN_TRY(new_stream(writer, &s, err));
    s->write = write;
    s->write_ctx = write_ctx;
    return start(s, &plan, out_stream, err);
}

qn_status qn_safetensors_stream_begin_path(qn_safetensors_writer *writer, const char *path,
                                           qn_safetensors_stream **out_stream, qn_error *err)
{
    qn_safetensors_file_plan plan;
    qn_safetensors_stream *s = NULL;
    *out_stream = NULL;
    QN_TRY(qn_safetensors_writer_layout(writer, &plan, err));
    QN_TRY(new_stream(writer, &s, err));
    s->buffer = qni_alloc(writer->allocator, FILE_BUFFER_BYTES);
    qn_status st = s->buffer ? qni_output_begin(path, writer->allocator, &s->output, err)
                             : qni_fail_memory(err, FILE_BUFFER_BYTES);
    if (st == QN_OK) {
        st = qni_output_preallocate(&s->output, plan.n_file_bytes, err);
    }
    if (st != QN_OK) {
        qn_safetensors_stream_free(s);
        return st;
    }
    return start(s, &plan, out_stream, err);
}

int64_t qn_safetensors_stream_next(const qn_safetensors_stream *stream)
{
    return stream->position < stream->writer->n_items ? stream->position : -1;
}

static qn_status check_open(const qn_safetensors_stream *s, qn_error *err)
{
    QN_CHECK(!s->is_over, err, QN_ERR_INVALID_STATE, -1,
             "the stream is finished, or a write failed before: only free is left");
    return QN_OK;
}

qn_status qn_safetensors_stream_write(qn_safetensors_stream *stream, const void *bytes,
                                      int64_t n_bytes, qn_error *err)
{
    QN_TRY(check_open(stream, err));
    const int64_t n_left = stream->writer->n_data_bytes - stream->n_done;
    QN_CHECK(n_bytes >= 0 && n_bytes <= n_left, err, QN_ERR_TENSOR_INVALID_INFO, -1,
             "%" PRId64 " bytes of data were given, all tensors together lack only %" PRId64,
             n_bytes, n_left);
    const qn_status st = put(stream, bytes, (size_t)n_bytes, err);
    if (st != QN_OK) {
        stream->is_over = true;
        return st;
    }
    stream->n_done += n_bytes;
    advance(stream);
    return QN_OK;
}

qn_status qn_safetensors_stream_finish(qn_safetensors_stream *stream, qn_error *err)
{
    QN_TRY(check_open(stream, err));
    const qn_safetensors_writer *w = stream->writer;
    if (stream->position < w->n_items) {
        const st_item *item = &w->items[stream->position];
        qni_name_text name;
        return qni_fail(err, QN_ERR_TENSOR_DATA_MISSING, -1,
                        "data of tensor \"%s\" are missing: %" PRId64 " bytes",
                        qni_escape_name(item->name, item->n_name, &name),
                        item->begin + item->n_bytes - stream->n_done);
    }
    stream->is_over = true;
    if (stream->write) {
        return QN_OK;
    }
    QN_TRY(flush_file(stream, err));
    return qni_output_commit(&stream->output, err);
}

void qn_safetensors_stream_free(qn_safetensors_stream *stream)
{
    if (!stream) {
        return;
    }
    const qn_allocator *allocator = stream->writer->allocator;
    qni_output_abort(&stream->output); /* nothing to do once committed */
    qni_free(allocator, stream->buffer, FILE_BUFFER_BYTES);
    stream->writer->n_streams--;
    qni_free(allocator, stream, sizeof *stream);
}

/* --- data that are all in memory -------------------------------------------------------------- */

static qn_status check_all_data(const qn_safetensors_writer *w, qn_error *err)
{
    for (int64_t i = 0; i < w->n_items; i++) {
        qni_name_text name;
        QN_CHECK(w->items[i].has_data, err, QN_ERR_TENSOR_DATA_MISSING, -1,
                 "tensor \"%s\" was declared without data: use the stream",
                 qni_escape_name(w->items[i].name, w->items[i].n_name, &name));
    }
    return QN_OK;
}

static qn_status write_all(qn_safetensors_stream *s, qn_error *err)
{
    const qn_safetensors_writer *w = s->writer;
    for (int64_t i = 0; i < w->n_items; i++) {
        QN_TRY(qn_safetensors_stream_write(s, w->items[i].data, w->items[i].n_bytes, err));
    }
    return qn_safetensors_stream_finish(s, err);
}

qn_status qn_safetensors_writer_serialize(qn_safetensors_writer *writer, qn_write_fn write,
                                          void *write_ctx, qn_error *err)
{
    qn_safetensors_stream *s = NULL;
    QN_TRY(check_all_data(writer, err));
    QN_TRY(qn_safetensors_stream_begin(writer, write, write_ctx, &s, err));
    const qn_status st = write_all(s, err);
    qn_safetensors_stream_free(s);
    return st;
}

qn_status qn_safetensors_writer_save_atomic(qn_safetensors_writer *writer, const char *path,
                                            qn_error *err)
{
    qn_safetensors_stream *s = NULL;
    QN_TRY(check_all_data(writer, err));
    QN_TRY(qn_safetensors_stream_begin_path(writer, path, &s, err));
    const qn_status st = write_all(s, err);
    qn_safetensors_stream_free(s);
    return st;
}

/* A block that was made as large as the file. */
typedef struct memory_sink {
    uint8_t *bytes;
    size_t n_done;
} memory_sink;

static qn_status put_in_memory(void *ctx, const void *bytes, size_t n_bytes, qn_error *err)
{
    memory_sink *sink = ctx;
    (void)err;
    memcpy(sink->bytes + sink->n_done, bytes, n_bytes);
    sink->n_done += n_bytes;
    return QN_OK;
}

qn_status qn_safetensors_writer_finish(qn_safetensors_writer *writer, const void **out_bytes,
                                       int64_t *out_n_bytes, qn_error *err)
{
    qn_safetensors_file_plan plan;
    *out_bytes = NULL;
    *out_n_bytes = 0;
    QN_TRY(check_all_data(writer, err)); /* before anything as large as was declared is allocated */
    QN_TRY(qn_safetensors_writer_layout(writer, &plan, err));
    qni_free(writer->allocator, writer->finished, (size_t)writer->n_finished);
    writer->n_finished = 0;
    writer->finished = (uint64_t)plan.n_file_bytes <= SIZE_MAX
                           ? qni_alloc(writer->allocator, (size_t)plan.n_file_bytes)
                           : NULL;
    if (!writer->finished) {
        return qni_fail_memory(err, (size_t)plan.n_file_bytes);
    }
    writer->n_finished = plan.n_file_bytes;
    memory_sink sink = {writer->finished, 0};
    QN_TRY(qn_safetensors_writer_serialize(writer, put_in_memory, &sink, err));
    *out_bytes = writer->finished;
    *out_n_bytes = plan.n_file_bytes;
    return QN_OK;
}
