/* safetensors.h — read and write safetensors: a header of names, types, shapes and places, then
 * data.
 *
 * Reading: qn_safetensors_open() looks at the headers only, qn_safetensors_load() brings the files
 * into memory, qn_safetensors_load_mmap() maps them, and each takes the index of a sharded model as
 * well; qn_safetensors_parse() borrows bytes, qn_safetensors_read_prefix() takes one frame off a
 * stream. Everything is checked before the first tensor is handed out.
 * Writing: qn_safetensors_writer_new(), add tensors, then one of four forms with equal bytes: to
 * memory, to a sink, to a file that replaces the old one, or as a stream for data that are not in
 * memory. The writer sorts: do not rely on the order in which tensors were added.
 *
 * `shape` is outermost dimension first, as the format stores it: the reverse of `ne` everywhere
 * else. Names and metadata are UTF-8 with a length; they may hold any character, NUL included. */
#ifndef QUENCH_SAFETENSORS_H
#define QUENCH_SAFETENSORS_H

#include "quench/dtype.h"

#ifdef __cplusplus
extern "C" {
#endif

/* --- types ------------------------------------------------------------------------------------ */

/** The format's element types. The value is the rank that the writer sorts by, downwards. */
typedef enum qn_safetensors_dtype {
    QN_SAFETENSORS_NONE = -1,
    QN_SAFETENSORS_BOOL = 0,
    QN_SAFETENSORS_F4 = 1,      /* two in a byte */
    QN_SAFETENSORS_F6_E2M3 = 2, /* four in three bytes */
    QN_SAFETENSORS_F6_E3M2 = 3,
    QN_SAFETENSORS_U8 = 4,
    QN_SAFETENSORS_I8 = 5,
    QN_SAFETENSORS_F8_E5M2 = 6,
    QN_SAFETENSORS_F8_E4M3 = 7,
    QN_SAFETENSORS_F8_E8M0 = 8,
    QN_SAFETENSORS_F8_E4M3FNUZ = 9,
    QN_SAFETENSORS_F8_E5M2FNUZ = 10,
    QN_SAFETENSORS_I16 = 11,
    QN_SAFETENSORS_U16 = 12,
    QN_SAFETENSORS_F16 = 13,
    QN_SAFETENSORS_BF16 = 14,
    QN_SAFETENSORS_I32 = 15,
    QN_SAFETENSORS_U32 = 16,
    QN_SAFETENSORS_F32 = 17,
    QN_SAFETENSORS_C64 = 18, /* two f32 */
    QN_SAFETENSORS_F64 = 19,
    QN_SAFETENSORS_I64 = 20,
    QN_SAFETENSORS_U64 = 21
} qn_safetensors_dtype;

#define QN_SAFETENSORS_DTYPE_LIMIT 22

/* A header may be this long, read or written. */
#define QN_SAFETENSORS_MAX_HEADER_BYTES 100000000

/** The tag in the file ("F32"); "?" for a value that is none. Static storage.
 * Threads: any thread; so for this group. Since 0.1. */
QN_API const char *qn_safetensors_dtype_tag(qn_safetensors_dtype dtype);
/** The type with this tag of n_tag bytes, compared with case; QN_SAFETENSORS_NONE if none. */
QN_API qn_safetensors_dtype qn_safetensors_dtype_from_tag(const char *tag, int64_t n_tag);
/** Bits of one element: 4, 6, 8, 16, 32 or 64; 0 for a value that is no type. */
QN_API int32_t qn_safetensors_dtype_bits(qn_safetensors_dtype dtype);
/** The counterpart among the tensor types that GGUF has: F32, F16, BF16, F64, I8, I16, I32, I64.
 * @return QN_OK; QN_ERR_UNSUPPORTED_DTYPE for all others, *out_dtype is then QN_DTYPE_NONE. */
QN_API QN_NODISCARD qn_status qn_safetensors_dtype_to_core(qn_safetensors_dtype dtype,
                                                           qn_dtype *out_dtype, qn_error *err);
/** The other way. Block formats have no counterpart: QN_ERR_UNSUPPORTED_DTYPE. */
QN_API QN_NODISCARD qn_status qn_safetensors_dtype_from_core(qn_dtype dtype,
                                                             qn_safetensors_dtype *out_dtype,
                                                             qn_error *err);
/** Bytes of a tensor: no dimensions make one element, a dimension of 0 makes no bytes.
 * @return QN_OK; QN_ERR_UNSUPPORTED_DTYPE; QN_ERR_INVALID_SHAPE (negative dimension);
 *         QN_ERR_VALIDATION_OVERFLOW; QN_ERR_MISALIGNED_SLICE (no whole number of bytes). */
QN_API QN_NODISCARD qn_status qn_safetensors_tensor_bytes(qn_safetensors_dtype dtype,
                                                          const int64_t *shape, int32_t rank,
                                                          int64_t *out_n_bytes, qn_error *err);

/* --- opening ---------------------------------------------------------------------------------- */

/** An open file or sharded model: immutable, readable from any number of threads at once. */
typedef struct qn_safetensors qn_safetensors;

typedef struct qn_safetensors_options {
    size_t struct_size;
    const qn_allocator *allocator; /* NULL: malloc; kept, must outlive the handle */
    qn_log_fn log; /* warnings: what others would refuse or read differently; may be NULL */
    void *log_ctx;
    bool keep_damaged; /* missing shards, cut data and bytes left over are no failure: they are
                        * listed, see qn_safetensors_damage(); for looking, not for using */
} qn_safetensors_options;
#define QN_SAFETENSORS_OPTIONS_INIT                             \
    {                                                           \
        sizeof(qn_safetensors_options), NULL, NULL, NULL, false \
    }

/** Open a file or index for its headers; owns copies of them and keeps the files open.
 *
 * Data are read with qn_safetensors_read(); `data` of the tensors is NULL.
 * @param path     a safetensors file, or the index (JSON with a `weight_map`) of a sharded model:
 *                 told apart by content; shards are looked for beside their index
 * @param options  NULL for the defaults
 * @param out_st   owned; close with qn_safetensors_close(); NULL on failure
 * @return QN_OK; QN_ERR_IO, QN_ERR_IS_DIR, QN_ERR_OUT_OF_MEMORY; QN_ERR_NOT_A_MODEL (it is
 *         something else, which the message names); QN_ERR_HEADER_TOO_SMALL;
 *         QN_ERR_HEADER_TOO_LARGE; QN_ERR_INVALID_HEADER_LENGTH; QN_ERR_INVALID_HEADER;
 *         QN_ERR_INVALID_HEADER_DESERIALIZATION; QN_ERR_INVALID_METADATA;
 *         QN_ERR_UNSUPPORTED_DTYPE; QN_ERR_VALIDATION_OVERFLOW; QN_ERR_INVALID_OFFSET;
 *         QN_ERR_MISALIGNED_SLICE; QN_ERR_TENSOR_INVALID_INFO; QN_ERR_METADATA_INCOMPLETE_BUFFER
 *         (cut short, or bytes after the last tensor); QN_ERR_DUPLICATE_TENSOR_NAME;
 *         QN_ERR_INVALID_INDEX (also: a shard that is not there)
 *
 * Takes time in proportion to the headers, not to the files. Threads: any thread. Since 0.1. */
QN_API QN_NODISCARD qn_status qn_safetensors_open(const char *path,
                                                  const qn_safetensors_options *options,
                                                  qn_safetensors **out_st, qn_error *err);

/** The same; owns all bytes of the file or files, read into memory. Since 0.1. */
QN_API QN_NODISCARD qn_status qn_safetensors_load(const char *path,
                                                  const qn_safetensors_options *options,
                                                  qn_safetensors **out_st, qn_error *err);

/** The same; maps the file or files, which must not shrink until the handle is closed. Since 0.1.
 */
QN_API QN_NODISCARD qn_status qn_safetensors_load_mmap(const char *path,
                                                       const qn_safetensors_options *options,
                                                       qn_safetensors **out_st, qn_error *err);

/** Parse bytes; borrows them: they must stay as they are until qn_safetensors_close().
 * @param bytes    n_bytes bytes of one file; no alignment needed
 * @return as qn_safetensors_open(). Threads: any thread. Since 0.1. */
QN_API QN_NODISCARD qn_status qn_safetensors_parse(const void *bytes, int64_t n_bytes,
                                                   const qn_safetensors_options *options,
                                                   qn_safetensors **out_st, qn_error *err);

/** Parse bytes and own them; takes them: on failure they are still yours.
 * @param bytes    from options->allocator with exactly n_bytes and the alignment of max_align_t
 *                 (from malloc when the allocator is NULL)
 * @return as qn_safetensors_open(). Threads: any thread. Since 0.1. */
QN_API QN_NODISCARD qn_status qn_safetensors_parse_owned(void *bytes, int64_t n_bytes,
                                                         const qn_safetensors_options *options,
                                                         qn_safetensors **out_st, qn_error *err);

/** Read exactly one frame off a stream and own it; the next byte of the stream is the caller's.
 *
 * Memory grows with what has arrived, never with what the header claims.
 * @param read     never asked for more than what is left of the frame
 * @return as qn_safetensors_open(); QN_ERR_END_OF_STREAM (the stream ends inside the frame; at its
 *         very beginning with offset 0); what `read` returns. Bytes that were read before a failure
 *         are gone. Threads: one at a time for the stream. Since 0.1. */
QN_API QN_NODISCARD qn_status qn_safetensors_read_prefix(qn_read_fn read, void *read_ctx,
                                                         const qn_safetensors_options *options,
                                                         qn_safetensors **out_st, qn_error *err);

/** Close and free; everything borrowed from it dies. NULL is allowed. Threads: once. Since 0.1. */
QN_API void qn_safetensors_close(qn_safetensors *st);

/** With `keep_damaged`: what would have failed the open, number `index` from 0; NULL past the last.
 * Borrowed. Threads: any thread. Since 0.1. */
QN_API const qn_error *qn_safetensors_damage(const qn_safetensors *st, int64_t index);

/* --- the files -------------------------------------------------------------------------------- */

/** One file of the model. Borrowed; dies with its handle.
 * n_header_bytes + n_data_bytes = n_bytes, unless the file is damaged. */
typedef struct qn_safetensors_shard {
    const char *path;       /* as opened; NUL-terminated; "" for bytes in memory and streams */
    int64_t n_bytes;        /* of the whole file; -1 if it is missing */
    int64_t n_header_bytes; /* with the 8 bytes of its length: where the data begin */
    int64_t n_data_bytes;   /* of all tensors, as the header says */
    int64_t n_tensors;      /* in this file, those that the index does not list too */
} qn_safetensors_shard;

/** Number of files, at least 1. Threads: any thread; so for this group. Since 0.1. */
QN_API int32_t qn_safetensors_n_shards(const qn_safetensors *st);
/** One file, from 0, in the order of the index; NULL past the last. */
QN_API const qn_safetensors_shard *qn_safetensors_shard_at(const qn_safetensors *st, int32_t index);
/** True if it was opened through an index. */
QN_API bool qn_safetensors_is_sharded(const qn_safetensors *st);
/** `metadata.total_size` of the index; -1 if it has none. */
QN_API int64_t qn_safetensors_total_size(const qn_safetensors *st);

/* --- tensors ---------------------------------------------------------------------------------- */

/** One tensor. Everything in it is borrowed from the handle. */
typedef struct qn_safetensors_tensor {
    const char *name; /* n_name bytes, not NUL-terminated; UTF-8; may be empty */
    int64_t n_name;
    qn_safetensors_dtype dtype;
    int32_t rank;
    const int64_t *shape; /* rank dimensions, outermost first */
    int64_t n_elems;
    int64_t n_bytes;
    int64_t file_offset; /* of its first byte in its file; any alignment */
    int32_t shard;
    const void *data; /* NULL if it is not in memory or not mapped; any alignment */
} qn_safetensors_tensor;

/** Number of tensors. Threads: any thread; so for this group. Since 0.1. */
QN_API int64_t qn_safetensors_n_tensors(const qn_safetensors *st);
/** Tensor number `index`, in the order of the data (of an index: in its order); false past the
 * last. */
QN_API bool qn_safetensors_tensor_at(const qn_safetensors *st, int64_t index,
                                     qn_safetensors_tensor *out_tensor);
/** Index of the tensor with this name of n_name bytes, or -1; O(1). */
QN_API int64_t qn_safetensors_find(const qn_safetensors *st, const char *name, int64_t n_name);
/** The tensor with this NUL-terminated name.
 * @return QN_OK; QN_ERR_TENSOR_NOT_FOUND. */
QN_API QN_NODISCARD qn_status qn_safetensors_get(const qn_safetensors *st, const char *name,
                                                 qn_safetensors_tensor *out_tensor, qn_error *err);
/** A tensor as the rest of the library sees it: the dimensions turned round, the type bridged. Its
 * name has no NUL after it.
 * @return QN_OK; QN_ERR_INVALID_ARGUMENT (no such tensor); QN_ERR_UNSUPPORTED_DTYPE;
 *         QN_ERR_INVALID_SHAPE (more than QN_MAX_DIMS dimensions). */
QN_API QN_NODISCARD qn_status qn_safetensors_tensor_info(const qn_safetensors *st, int64_t index,
                                                         qn_tensor_info *out_info, qn_error *err);
/** Copy bytes of one tensor's data out, from memory or with pread.
 * @param byte_offset first byte, counted from the tensor's own first one
 * @param out         fills n_bytes bytes
 * @return QN_OK; QN_ERR_INVALID_ARGUMENT (outside the tensor); QN_ERR_FILE_CHANGED; QN_ERR_IO;
 *         QN_ERR_METADATA_INCOMPLETE_BUFFER (damaged and not there). */
QN_API QN_NODISCARD qn_status qn_safetensors_read(const qn_safetensors *st, int64_t index,
                                                  int64_t byte_offset, size_t n_bytes, void *out,
                                                  qn_error *err);

/** Part of one dimension: elements start ... end - 1. */
typedef struct qn_safetensors_range {
    int64_t start;
    int64_t end; /* -1: to the end of the dimension */
} qn_safetensors_range;
/** Bytes that a slice takes.
 * @param ranges  one for each leading dimension; dimensions without one are taken whole
 * @return QN_OK; QN_ERR_INVALID_SLICE (more ranges than dimensions, or outside them);
 *         QN_ERR_MISALIGNED_SLICE (elements of less than a byte); QN_ERR_INVALID_ARGUMENT. */
QN_API QN_NODISCARD qn_status qn_safetensors_slice_bytes(const qn_safetensors *st, int64_t index,
                                                         const qn_safetensors_range *ranges,
                                                         int32_t n_ranges, int64_t *out_n_bytes,
                                                         qn_error *err);
/** Copy a slice out: contiguous, last dimension fastest.
 * @param out     fills n_out bytes, exactly what qn_safetensors_slice_bytes() says
 * @return as qn_safetensors_slice_bytes() and qn_safetensors_read(). */
QN_API QN_NODISCARD qn_status qn_safetensors_slice(const qn_safetensors *st, int64_t index,
                                                   const qn_safetensors_range *ranges,
                                                   int32_t n_ranges, void *out, int64_t n_out,
                                                   qn_error *err);

/* --- metadata --------------------------------------------------------------------------------- */

/** One entry of `__metadata__` (of the first shard). Borrowed; UTF-8, not NUL-terminated. */
typedef struct qn_safetensors_entry {
    const char *key;
    int64_t n_key;
    const char *value;
    int64_t n_value;
} qn_safetensors_entry;

/** Number of entries. Threads: any thread; so for this group. Since 0.1. */
QN_API int64_t qn_safetensors_n_entries(const qn_safetensors *st);
/** Entry number `index` in file order; NULL past the last. */
QN_API const qn_safetensors_entry *qn_safetensors_entry_at(const qn_safetensors *st, int64_t index);
/** The entry with this NUL-terminated key; NULL if there is none. */
QN_API const qn_safetensors_entry *qn_safetensors_find_entry(const qn_safetensors *st,
                                                             const char *key);

/* --- writing ---------------------------------------------------------------------------------- */

/** A file to be: metadata and tensors, in any order. Threads: one at a time. */
typedef struct qn_safetensors_writer qn_safetensors_writer;

/** @param out_writer owned; free with qn_safetensors_writer_free(); NULL on failure
 * @return QN_OK; QN_ERR_OUT_OF_MEMORY. Since 0.1. */
QN_API QN_NODISCARD qn_status qn_safetensors_writer_new(const qn_allocator *allocator,
                                                        qn_safetensors_writer **out_writer,
                                                        qn_error *err);
/** Free it; NULL is allowed. A stream that is open on it must be freed first. */
QN_API void qn_safetensors_writer_free(qn_safetensors_writer *writer);

/** Add an entry of `__metadata__`; entries are written in the order of adding. Copies both.
 * @return QN_OK; QN_ERR_INVALID_TENSOR_NAME (the key is empty or not UTF-8);
 *         QN_ERR_INVALID_METADATA (the value is not UTF-8, or the key is there already);
 *         QN_ERR_INVALID_STATE (a stream is open); QN_ERR_OUT_OF_MEMORY. Since 0.1. */
QN_API QN_NODISCARD qn_status qn_safetensors_writer_add_entry(qn_safetensors_writer *writer,
                                                              const char *key, int64_t n_key,
                                                              const char *value, int64_t n_value,
                                                              qn_error *err);

/** Declare a tensor whose data will be streamed. Copies name and shape.
 * @return QN_OK; QN_ERR_INVALID_TENSOR_NAME (empty, not UTF-8, or `__metadata__`);
 *         QN_ERR_DUPLICATE_TENSOR_NAME; what qn_safetensors_tensor_bytes() returns;
 *         QN_ERR_INVALID_STATE; QN_ERR_OUT_OF_MEMORY. Since 0.1. */
QN_API QN_NODISCARD qn_status qn_safetensors_writer_declare(qn_safetensors_writer *writer,
                                                            const char *name, int64_t n_name,
                                                            qn_safetensors_dtype dtype,
                                                            const int64_t *shape, int32_t rank,
                                                            qn_error *err);
/** Declare one with its data; keeps `data` until the writer is freed.
 * Also QN_ERR_TENSOR_INVALID_INFO when n_bytes is not what type and shape make. Since 0.1. */
QN_API QN_NODISCARD qn_status qn_safetensors_writer_add(
    qn_safetensors_writer *writer, const char *name, int64_t n_name, qn_safetensors_dtype dtype,
    const int64_t *shape, int32_t rank, const void *data, int64_t n_bytes, qn_error *err);

/** Everything about the file to be, before any data. */
typedef struct qn_safetensors_file_plan {
    const void *header;     /* length, JSON and padding; borrowed until the writer changes */
    int64_t n_header_bytes; /* = where the data begin, a multiple of 8 */
    int64_t n_file_bytes;
    int64_t n_tensors;
} qn_safetensors_file_plan;
/** Lay the file out: types in descending order, then names in ascending order of their bytes.
 * @return QN_OK; QN_ERR_HEADER_TOO_LARGE; QN_ERR_VALIDATION_OVERFLOW; QN_ERR_OUT_OF_MEMORY.
 * Since 0.1. */
QN_API QN_NODISCARD qn_status qn_safetensors_writer_layout(qn_safetensors_writer *writer,
                                                           qn_safetensors_file_plan *out_plan,
                                                           qn_error *err);
/** After the layout: the tensor that is number `position` in the file; false past the last.
 * @param out_tensor  fills; file_offset is that of the file to be, data as given; may be NULL
 * @param out_added   which one it was in the order of adding, from 0; may be NULL */
QN_API bool qn_safetensors_writer_tensor_at(const qn_safetensors_writer *writer, int64_t position,
                                            qn_safetensors_tensor *out_tensor, int64_t *out_added);

/** Write it all to a sink.
 * @return as the layout; QN_ERR_TENSOR_DATA_MISSING (a tensor was declared without data); what
 *         `write` returns. May be repeated. Since 0.1. */
QN_API QN_NODISCARD qn_status qn_safetensors_writer_serialize(qn_safetensors_writer *writer,
                                                              qn_write_fn write, void *write_ctx,
                                                              qn_error *err);
/** Write it all to memory; *out_bytes is borrowed until the writer changes or is freed.
 * @return as qn_safetensors_writer_serialize(). Since 0.1. */
QN_API QN_NODISCARD qn_status qn_safetensors_writer_finish(qn_safetensors_writer *writer,
                                                           const void **out_bytes,
                                                           int64_t *out_n_bytes, qn_error *err);
/** Write it all to a file that appears under its name only when it is whole and synced; a process
 * that is killed leaves what was there before.
 * @return as qn_safetensors_writer_serialize(); QN_ERR_IO, QN_ERR_NO_SPACE. Since 0.1. */
QN_API QN_NODISCARD qn_status qn_safetensors_writer_save_atomic(qn_safetensors_writer *writer,
                                                                const char *path, qn_error *err);

/** Data given piece by piece, in the order of the file. Threads: one at a time. */
typedef struct qn_safetensors_stream qn_safetensors_stream;
/** Write the header now, the data as they come; the writer cannot change until the stream is freed.
 * @param out_stream owned; free with qn_safetensors_stream_free(); NULL on failure
 * @return as the layout; QN_ERR_INVALID_STATE (a stream is open); what `write` returns. Since
 * 0.1.*/
QN_API QN_NODISCARD qn_status qn_safetensors_stream_begin(qn_safetensors_writer *writer,
                                                          qn_write_fn write, void *write_ctx,
                                                          qn_safetensors_stream **out_stream,
                                                          qn_error *err);
/** The same to a file that appears under its name when the stream is finished. Since 0.1. */
QN_API QN_NODISCARD qn_status qn_safetensors_stream_begin_path(qn_safetensors_writer *writer,
                                                               const char *path,
                                                               qn_safetensors_stream **out_stream,
                                                               qn_error *err);
/** Position (see qn_safetensors_writer_tensor_at) of the tensor whose data come next; -1 when all
 * are there. Since 0.1. */
QN_API int64_t qn_safetensors_stream_next(const qn_safetensors_stream *stream);
/** Any part of the data, in order: may end inside a tensor or go on into the next ones.
 * @return QN_OK; QN_ERR_TENSOR_INVALID_INFO (more than all tensors take: nothing is written);
 *         QN_ERR_INVALID_STATE (finished, or failed before); what the sink returns. Since 0.1. */
QN_API QN_NODISCARD qn_status qn_safetensors_stream_write(qn_safetensors_stream *stream,
                                                          const void *bytes, int64_t n_bytes,
                                                          qn_error *err);
/** End it: all data must be there. A file is synced and put under its name.
 * @return QN_OK; QN_ERR_TENSOR_DATA_MISSING (names the tensor); QN_ERR_INVALID_STATE; QN_ERR_IO.
 * Since 0.1. */
QN_API QN_NODISCARD qn_status qn_safetensors_stream_finish(qn_safetensors_stream *stream,
                                                           qn_error *err);
/** Free it; an unfinished file is removed. NULL is allowed. Since 0.1. */
QN_API void qn_safetensors_stream_free(qn_safetensors_stream *stream);

#ifdef __cplusplus
}
#endif

#endif
