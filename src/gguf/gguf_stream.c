/* gguf_stream.c — writing a laid-out file in one pass, tensor by tensor. */
#include "gguf/gguf_writer_internal.h"

/* macOS fails writes of 2 GiB and more. */
#define MAX_WRITE_BYTES ((int64_t)1 << 30)
#define ZEROS_BYTES     4096

typedef enum stream_state { STREAM_OPEN, STREAM_FINISHED, STREAM_BROKEN } stream_state;

struct qn_gguf_stream {
    qn_gguf_writer *writer;
    qn_gguf_write_fn write;
    void *ctx;
    stream_state state;
    int64_t pos;     /* bytes written */
    int64_t next;    /* place in writer->order of the tensor under way */
    int64_t n_given; /* bytes of it that have come */
    int64_t next_extra;
};

/* All bytes go through here, so that `pos` and the state are right. */
static qn_status put(qn_gguf_stream *stream, const void *bytes, int64_t n_bytes, qn_error *err)
{
    const uint8_t *p = bytes;
    while (n_bytes > 0) {
        const int64_t n_now = qni_min_i64(n_bytes, MAX_WRITE_BYTES);
        const qn_status st = stream->write(stream->ctx, p, (size_t)n_now, err);
        if (st != QN_OK) {
            stream->state = STREAM_BROKEN;
            return st;
        }
        stream->pos += n_now;
        p += n_now;
        n_bytes -= n_now;
    }
    return QN_OK;
}

static qn_status put_zeros(qn_gguf_stream *stream, int64_t n_bytes, qn_error *err)
{
    static const uint8_t zeros[ZEROS_BYTES] = {0};
    while (n_bytes > 0) {
        const int64_t n_now = qni_min_i64(n_bytes, ZEROS_BYTES);
        QN_TRY(put(stream, zeros, n_now, err));
        n_bytes -= n_now;
    }
    return QN_OK;
}

/* Everything that is no tensor up to byte `end`: zeros, and what the source had there. Stretches
 * of a source that something else now lies on are passed over. */
static qn_status put_gap(qn_gguf_stream *stream, int64_t end, qn_error *err)
{
    int64_t offset = 0;
    const void *bytes = NULL;
    int64_t n_bytes = 0;
    while (qn_gguf_writer_extra(stream->writer, stream->next_extra, &offset, &bytes, &n_bytes) &&
           offset < end) {
        stream->next_extra++;
        if (offset >= stream->pos && offset + n_bytes <= end) {
            QN_TRY(put_zeros(stream, offset - stream->pos, err));
            QN_TRY(put(stream, bytes, n_bytes, err));
        }
    }
    return put_zeros(stream, end - stream->pos, err);
}

qn_status qn_gguf_stream_begin(qn_gguf_writer *writer, qn_gguf_write_fn write, void *ctx,
                               qn_gguf_stream **out_stream, qn_error *err)
{
    *out_stream = NULL;
    QN_CHECK(writer->n_streams == 0, err, QN_ERR_INVALID_STATE, -1,
             "a stream of this writer is open already");
    QN_TRY(qni_writer_layout(writer, err));
    qn_gguf_stream *stream = qni_alloc_zeroed(writer->allocator, sizeof *stream);
    if (!stream) {
        return qni_fail_memory(err, sizeof *stream);
    }
    stream->writer = writer;
    stream->write = write;
    stream->ctx = ctx;
    const qn_status st = put(stream, writer->header.bytes, (int64_t)writer->header.n_bytes, err);
    if (st != QN_OK) {
        qni_free(writer->allocator, stream, sizeof *stream);
        return st;
    }
    writer->n_streams++;
    *out_stream = stream;
    return QN_OK;
}

int64_t qn_gguf_stream_next(const qn_gguf_stream *stream)
{
    const qn_gguf_writer *writer = stream->writer;
    return stream->next < writer->n_order ? writer->order[stream->next] : -1;
}

static const qn_tensor_info *next_info(const qn_gguf_stream *stream)
{
    const int64_t index = qn_gguf_stream_next(stream);
    return index >= 0 ? &qni_wtensor_at(stream->writer, index)->info : NULL;
}

/* Bytes may come: the stream is whole and a tensor is expected. */
static qn_status check_expecting(const qn_gguf_stream *stream, qn_error *err)
{
    QN_CHECK(stream->state == STREAM_OPEN, err, QN_ERR_INVALID_STATE, -1, "the stream %s",
             stream->state == STREAM_FINISHED ? "is finished" : "failed before and cannot go on");
    QN_CHECK(stream->next < stream->writer->n_order, err, QN_ERR_TENSOR_DATA_MISSING, -1,
             "data for one more tensor than the %" PRId64 " that were declared",
             stream->writer->n_order);
    return QN_OK;
}

qn_status qn_gguf_stream_write_part(qn_gguf_stream *stream, const void *data, int64_t n_bytes,
                                    qn_error *err)
{
    QN_TRY(check_expecting(stream, err));
    const qn_tensor_info *info = next_info(stream);
    qni_name_text text;
    QN_CHECK(
        n_bytes >= 0 && n_bytes <= info->n_bytes - stream->n_given, err, QN_ERR_INVALID_TENSOR_INFO,
        -1, "tensor \"%s\" takes %" PRId64 " more bytes; %" PRId64 " were given",
        qni_escape_name(info->name, info->n_name, &text), info->n_bytes - stream->n_given, n_bytes);
    if (stream->n_given == 0 && info->n_bytes > 0) {
        QN_TRY(put_gap(stream, info->file_offset, err));
    }
    QN_TRY(put(stream, data, n_bytes, err));
    stream->n_given += n_bytes;
    if (stream->n_given == info->n_bytes) {
        stream->next++;
        stream->n_given = 0;
    }
    return QN_OK;
}

qn_status qn_gguf_stream_write(qn_gguf_stream *stream, const void *data, int64_t n_bytes,
                               qn_error *err)
{
    QN_TRY(check_expecting(stream, err));
    const qn_tensor_info *info = next_info(stream);
    qni_name_text text;
    QN_CHECK(stream->n_given == 0, err, QN_ERR_INVALID_STATE, -1,
             "tensor \"%s\" has begun in parts and must end so",
             qni_escape_name(info->name, info->n_name, &text));
    QN_CHECK(n_bytes == info->n_bytes, err, QN_ERR_INVALID_TENSOR_INFO, -1,
             "tensor \"%s\" takes %" PRId64 " bytes; %" PRId64 " were given",
             qni_escape_name(info->name, info->n_name, &text), info->n_bytes, n_bytes);
    return qn_gguf_stream_write_part(stream, data, n_bytes, err);
}

qn_status qn_gguf_stream_finish(qn_gguf_stream *stream, qn_error *err)
{
    QN_CHECK(stream->state == STREAM_OPEN, err, QN_ERR_INVALID_STATE, -1, "the stream %s",
             stream->state == STREAM_FINISHED ? "is finished already"
                                              : "failed before and cannot be finished");
    const qn_tensor_info *info = next_info(stream);
    qni_name_text text;
    QN_CHECK(!info, err, QN_ERR_TENSOR_DATA_MISSING, -1,
             "data of tensor \"%s\" and of %" PRId64 " after it are missing",
             qni_escape_name(info->name, info->n_name, &text),
             stream->writer->n_order - stream->next - 1);
    QN_TRY(put_gap(stream, stream->writer->n_file_bytes, err));
    stream->state = STREAM_FINISHED;
    return QN_OK;
}

void qn_gguf_stream_free(qn_gguf_stream *stream)
{
    if (!stream) {
        return;
    }
    qn_gguf_writer *writer = stream->writer;
    writer->n_streams--;
    qni_free(writer->allocator, stream, sizeof *stream);
}
