/* gguf.h — read and write GGUF: metadata, a table of contents, tensor bytes.
 *
 * Reading: qn_gguf_open() a path (any shard of a split model), or parse bytes in memory; then look
 * tensors up (qn_gguf_find_tensor) and metadata (qn_gguf_get_u32, qn_gguf_get_int, ...). Nothing is
 * copied: names, strings and tensor data are borrowed from the file and die with the handle.
 * Writing: qn_gguf_writer_new() or qn_gguf_writer_from(), set metadata, add or declare tensors,
 * then one of three forms with equal bytes: finish (to memory or a path), stream, or positional
 * (ask for the header bytes and the place of each tensor, and write yourself).
 *
 * Names and strings are bytes with a length, not C strings: no NUL follows them, any byte may be in
 * them. ne[0] is the fastest-varying dimension: a logical [out, in] matrix has ne = {in, out}. */
#ifndef QUENCH_GGUF_H
#define QUENCH_GGUF_H

#include "quench/dtype.h"

#ifdef __cplusplus
extern "C" {
#endif

/* --- value types ------------------------------------------------------------------------------ */

/** The thirteen types that a stored value can have, by their number in the file. */
typedef enum qn_gguf_type {
    QN_GGUF_NONE = -1,
    QN_GGUF_U8 = 0,
    QN_GGUF_I8 = 1,
    QN_GGUF_U16 = 2,
    QN_GGUF_I16 = 3,
    QN_GGUF_U32 = 4,
    QN_GGUF_I32 = 5,
    QN_GGUF_F32 = 6,
    QN_GGUF_BOOL = 7,
    QN_GGUF_STRING = 8,
    QN_GGUF_ARRAY = 9,
    QN_GGUF_U64 = 10,
    QN_GGUF_I64 = 11,
    QN_GGUF_F64 = 12
} qn_gguf_type;

#define QN_GGUF_TYPE_LIMIT 13

/* Arrays may hold arrays; a flat array has depth 1, and this is the most. */
#define QN_GGUF_MAX_DEPTH 16

/** "u8" ... "f64", "bool", "string", "array"; "?" for any other value. Static storage.
 * Threads: any thread. Since 0.1. */
QN_API const char *qn_gguf_type_name(qn_gguf_type type);

/** Bytes of one stored scalar; 0 for strings, arrays and values that are no type.
 * Threads: any thread. Since 0.1. */
QN_API int64_t qn_gguf_type_bytes(qn_gguf_type type);

/** Bytes of a string value; not NUL-terminated. */
typedef struct qn_gguf_string {
    const char *bytes;
    int64_t n_bytes;
} qn_gguf_string;

/** An array as it lies in the file, undecoded. Borrowed; dies with its handle. */
typedef struct qn_gguf_array {
    qn_gguf_type elem_type;
    bool is_big_endian;
    int64_t n_elems;
    const void *bytes; /* the first element, as stored; no alignment */
    int64_t n_bytes;   /* of all elements */
    void *index;       /* private: where the library keeps its positions, or NULL */
} qn_gguf_array;

/** The five kinds that the thirteen types fall into. */
typedef enum qn_gguf_kind {
    QN_GGUF_KIND_INT = 0,
    QN_GGUF_KIND_FLOAT = 1,
    QN_GGUF_KIND_BOOL = 2,
    QN_GGUF_KIND_STRING = 3,
    QN_GGUF_KIND_ARRAY = 4
} qn_gguf_kind;

/** A value widened to its kind; `type` says what is stored. */
typedef struct qn_gguf_value {
    qn_gguf_kind kind;
    qn_gguf_type type;
    union {
        int64_t as_int;
        double as_float;
        bool as_bool;
        qn_gguf_string as_string;
        qn_gguf_array as_array;
    };
} qn_gguf_value;

/** One metadata entry as stored. Borrowed; dies with its handle. */
typedef struct qn_gguf_entry {
    const char *key; /* n_key bytes, not NUL-terminated; any bytes */
    int64_t n_key;
    qn_gguf_type type;
    qn_gguf_type elem_type; /* of an array's elements, else QN_GGUF_NONE */
    int64_t n_elems;        /* elements of an array, else 1 */
    const void *bytes;      /* the raw value after its type code (of an array: with its header) */
    int64_t n_bytes;
    int64_t file_offset; /* of those bytes */
} qn_gguf_entry;

/* --- opening ---------------------------------------------------------------------------------- */

/** An open file or split model: immutable, readable from any number of threads at once. */
typedef struct qn_gguf qn_gguf;

typedef enum qn_gguf_mode {
    QN_GGUF_AUTO = 0, /* map it, or read it where the file system cannot map */
    QN_GGUF_MAP = 1,  /* map it; the file must not shrink while it is open */
    QN_GGUF_HEAP = 2  /* read all of it into memory */
} qn_gguf_mode;

typedef struct qn_gguf_options {
    size_t struct_size;
    qn_gguf_mode mode;
    bool strict;       /* exactly what ggml's reader accepts, without its overflow mistakes */
    bool int64_only;   /* a scalar u64 of 2^63 or more fails the whole parse */
    bool single_shard; /* of a split model only the named file, unmerged */
    bool keep_damaged; /* tensors that are cut, of an unknown type or misplaced are no failure: the
                        * rest is listed, see qn_gguf_damage(); for looking, not for using */
    const qn_allocator *allocator; /* NULL: malloc; kept, must outlive the handle */
    qn_log_fn log; /* gets each warning of qn_gguf_lint() when opening; may be NULL */
    void *log_ctx;
} qn_gguf_options;
#define QN_GGUF_OPTIONS_INIT                                                \
    {                                                                       \
        sizeof(qn_gguf_options), QN_GGUF_AUTO, 0, 0, 0, 0, NULL, NULL, NULL \
    }

/** Open a file; owns what it maps or reads until qn_gguf_close().
 *
 * When its metadata say that it is one shard of several, all of them are found by name beside it,
 * checked against `split.no`, `split.count` and `split.tensors.count`, and merged:
 * metadata of the first shard, tensors of all in shard order.
 *
 * @param path     any shard of a split model will do
 * @param options  NULL for the defaults
 * @param out_gguf owned; close with qn_gguf_close(); NULL on failure
 * @return QN_OK; QN_ERR_IO, QN_ERR_IS_DIR, QN_ERR_OUT_OF_MEMORY; QN_ERR_NOT_A_MODEL (it is
 *         something else, which the message names), QN_ERR_INVALID_MAGIC,
 *         QN_ERR_UNSUPPORTED_VERSION; QN_ERR_END_OF_STREAM (cut inside the header);
 *         QN_ERR_INVALID_TENSOR_INFO (cut inside the data, or an impossible entry);
 *         QN_ERR_UNSUPPORTED_DTYPE; QN_ERR_OVERFLOW; QN_ERR_INVALID_METADATA;
 *         QN_ERR_UNSUPPORTED_VALUE_TYPE; QN_ERR_DUPLICATE_METADATA_KEY;
 *         QN_ERR_DUPLICATE_TENSOR_NAME; QN_ERR_INVALID_ALIGNMENT; QN_ERR_INVALID_SPLIT;
 *         QN_ERR_STRICT (refused by `strict` only); QN_ERR_METADATA_VALUE_OUT_OF_RANGE
 *         (`int64_only`)
 *
 * Takes time in proportion to the header, not to the file. Threads: any thread. Since 0.1. */
QN_API QN_NODISCARD qn_status qn_gguf_open(const char *path, const qn_gguf_options *options,
                                           qn_gguf **out_gguf, qn_error *err);

/** Parse bytes; borrows them: they must stay as they are until qn_gguf_close().
 *
 * One shard of a split model is taken for itself, as with `single_shard`.
 * @param bytes    n_bytes bytes; no alignment needed; kept until qn_gguf_close()
 * @param n_bytes  >= 0
 * @param options  `mode` is not used; NULL for the defaults
 * @param out_gguf owned; close with qn_gguf_close(); NULL on failure
 * @return as qn_gguf_open(). Threads: any thread. Since 0.1. */
QN_API QN_NODISCARD qn_status qn_gguf_parse(const void *bytes, int64_t n_bytes,
                                            const qn_gguf_options *options, qn_gguf **out_gguf,
                                            qn_error *err);

/** Parse bytes and own them; takes them: on failure they are still yours.
 *
 * @param bytes    from options->allocator with exactly n_bytes and the alignment of max_align_t
 *                 (from malloc when the allocator is NULL)
 * @param n_bytes  >= 0
 * @param options  as for qn_gguf_parse()
 * @param out_gguf owned; close with qn_gguf_close(), which frees the bytes too; NULL on failure
 * @return as qn_gguf_open(). Threads: any thread. Since 0.1. */
QN_API QN_NODISCARD qn_status qn_gguf_parse_owned(void *bytes, int64_t n_bytes,
                                                  const qn_gguf_options *options,
                                                  qn_gguf **out_gguf, qn_error *err);

/** Close and free; everything borrowed from it dies. NULL is allowed. Threads: once. Since 0.1. */
QN_API void qn_gguf_close(qn_gguf *gguf);

/** With `keep_damaged`: the first thing that would have failed the open, else NULL. Borrowed.
 * A damaged tensor has `data` NULL and, if its size cannot be known, `n_bytes` -1.
 * Threads: any thread. Since 0.1. */
QN_API const qn_error *qn_gguf_damage(const qn_gguf *gguf);

/* --- the file --------------------------------------------------------------------------------- */

/** One file of the model. Borrowed; dies with its handle.
 * n_header_bytes + n_header_padding + n_tensor_bytes + n_gap_bytes + n_tail_bytes = n_bytes. */
typedef struct qn_gguf_shard {
    const char *path; /* as opened; NUL-terminated; "" for bytes in memory */
    int64_t n_bytes;  /* of the whole file */
    uint32_t version;
    bool is_big_endian;
    int64_t alignment;
    int64_t data_offset;  /* where the data section begins (past the end if there is none) */
    int64_t first_tensor; /* its tensors: first_tensor ... first_tensor + n_tensors - 1 */
    int64_t n_tensors;
    int64_t n_entries;        /* metadata entries of this file */
    int64_t n_header_bytes;   /* up to the end of the directory */
    int64_t n_header_padding; /* from there to the data section, or to the end of the file */
    int64_t n_tensor_bytes;   /* of all tensors, unpadded */
    int64_t n_gap_bytes;      /* padding and gaps between tensors */
    int64_t n_tail_bytes;     /* after the last tensor: padding and whatever follows */
} qn_gguf_shard;

/** Number of files, at least 1. Threads: any thread; so for all functions of this group.
 * Since 0.1. */
QN_API int64_t qn_gguf_n_shards(const qn_gguf *gguf);
/** One file, from 0; NULL past the last. Since 0.1. */
QN_API const qn_gguf_shard *qn_gguf_shard_at(const qn_gguf *gguf, int64_t index);
/** 2 or 3, of the first file. Since 0.1. */
QN_API uint32_t qn_gguf_version(const qn_gguf *gguf);
/** `general.alignment` of the first file, or 32. Since 0.1. */
QN_API int64_t qn_gguf_alignment(const qn_gguf *gguf);
/** Where the data section of the first file begins. Since 0.1. */
QN_API int64_t qn_gguf_data_offset(const qn_gguf *gguf);
/** True when the integers and floats of the file are big-endian, tensor data too; getters swap,
 * tensor data come as stored (see qn_gguf_swap_data). Since 0.1. */
QN_API bool qn_gguf_is_big_endian(const qn_gguf *gguf);
/** Bytes of all files together. Since 0.1. */
QN_API int64_t qn_gguf_n_bytes(const qn_gguf *gguf);
/** All bytes of one file as mapped, read or given; NULL past the last shard or after
 * qn_gguf_take_mapping(). Borrowed. Since 0.1. */
QN_API const void *qn_gguf_bytes(const qn_gguf *gguf, int64_t shard);

/* --- tensors ---------------------------------------------------------------------------------- */

/** Number of tensors in all shards. Threads: any thread; so for this group. Since 0.1. */
QN_API int64_t qn_gguf_n_tensors(const qn_gguf *gguf);
/** Tensor number `index` in the order of the directory; NULL if there is none. Borrowed.
 * Since 0.1. */
QN_API const qn_tensor_info *qn_gguf_tensor(const qn_gguf *gguf, int64_t index);
/** Index of the tensor with this name of n_name bytes, or -1; O(1). Since 0.1. */
QN_API int64_t qn_gguf_find_tensor(const qn_gguf *gguf, const char *name, int64_t n_name);
/** The tensor with this NUL-terminated name.
 * @return QN_OK; QN_ERR_TENSOR_NOT_FOUND. *out_info is borrowed, NULL on failure. Since 0.1. */
QN_API QN_NODISCARD qn_status qn_gguf_get_tensor(const qn_gguf *gguf, const char *name,
                                                 const qn_tensor_info **out_info, qn_error *err);
/** Rows and columns of a matrix as mathematics writes them: [out, in] = {ne[1], ne[0]}.
 * @return QN_OK; QN_ERR_INVALID_TENSOR_INFO unless there are exactly two dimensions. Since 0.1. */
QN_API QN_NODISCARD qn_status qn_tensor_logical_shape(const qn_tensor_info *info,
                                                      int64_t out_shape[2], qn_error *err);

/** Swap the byte order of tensor data: plain types, q4_0, q8_0, q4_K, q6_K, mxfp4 and nvfp4.
 * @param dtype    their type
 * @param in       n_bytes bytes, a whole number of blocks
 * @param out      fills n_bytes bytes; may be `in`
 * @param n_bytes  >= 0
 * @param err      filled on failure; may be NULL
 * @return QN_OK; QN_ERR_UNSUPPORTED_DTYPE (no agreed foreign order); QN_ERR_INVALID_DATA_LENGTH.
 * Threads: any thread. Since 0.1. */
QN_API QN_NODISCARD qn_status qn_gguf_swap_data(qn_dtype dtype, const void *in, void *out,
                                                int64_t n_bytes, qn_error *err);

/* --- pages ------------------------------------------------------------------------------------ */

/** Tell the system that these bytes of a mapped file will be read soon. Does nothing for bytes
 * that are not in one of the handle's mappings. Threads: any thread. Since 0.1. */
QN_API void qn_gguf_prefetch(const qn_gguf *gguf, const void *bytes, int64_t n_bytes);
/** Tell the system that they are not needed for now: clean pages go, and come back from the file
 * when touched. Does nothing for bytes that are not in one of the handle's mappings, so memory
 * that is not a file cannot lose its contents. Threads: any thread. Since 0.1. */
QN_API void qn_gguf_release(const qn_gguf *gguf, const void *bytes, int64_t n_bytes);

/** A mapping that was moved out of its handle. */
typedef struct qn_gguf_mapping {
    const void *bytes; /* NULL: nothing was taken */
    int64_t n_bytes;
} qn_gguf_mapping;
/** Move the mapping out: it then outlives qn_gguf_close(), and so does everything borrowed from it
 * except the qn_tensor_info and qn_gguf_entry structs themselves. Gives nothing (false) when the
 * file was not mapped, is split, or was taken already. Owned; free with qn_gguf_mapping_close().
 * Threads: once. Since 0.1. */
QN_API bool qn_gguf_take_mapping(qn_gguf *gguf, qn_gguf_mapping *out_mapping);
/** Unmap. Threads: once. Since 0.1. */
QN_API void qn_gguf_mapping_close(qn_gguf_mapping *mapping);

/* --- metadata --------------------------------------------------------------------------------- */

/** Number of metadata entries (of the first shard). Threads: any thread; so for this group.
 * Since 0.1. */
QN_API int64_t qn_gguf_n_entries(const qn_gguf *gguf);
/** Entry number `index` in file order; NULL if there is none. Borrowed. Since 0.1. */
QN_API const qn_gguf_entry *qn_gguf_entry_at(const qn_gguf *gguf, int64_t index);
/** Index of the entry with this key of n_key bytes, or -1; O(1). Since 0.1. */
QN_API int64_t qn_gguf_find_entry(const qn_gguf *gguf, const char *key, int64_t n_key);
/** True if a key is there. Since 0.1. */
QN_API bool qn_gguf_has(const qn_gguf *gguf, const char *key);

/** The value of entry number `index`, widened to its kind.
 * @return QN_OK; QN_ERR_INVALID_ARGUMENT (no such entry); QN_ERR_METADATA_VALUE_OUT_OF_RANGE (a u64
 *         of 2^63 or more: qn_gguf_get_u64() gives it). Since 0.1. */
QN_API QN_NODISCARD qn_status qn_gguf_value_at(const qn_gguf *gguf, int64_t index,
                                               qn_gguf_value *out_value, qn_error *err);

/* Widened getters, by NUL-terminated key. All return QN_OK; QN_ERR_KEY_NOT_FOUND;
 * QN_ERR_METADATA_TYPE_MISMATCH; or QN_ERR_METADATA_VALUE_OUT_OF_RANGE. Outputs are 0, false, empty
 * on failure. */
/** Any integer type. Since 0.1. */
QN_API QN_NODISCARD qn_status qn_gguf_get_int(const qn_gguf *gguf, const char *key,
                                              int64_t *out_value, qn_error *err);
/** Any float or integer type. Since 0.1. */
QN_API QN_NODISCARD qn_status qn_gguf_get_float(const qn_gguf *gguf, const char *key,
                                                double *out_value, qn_error *err);
/** bool, or any integer type (true unless 0). Since 0.1. */
QN_API QN_NODISCARD qn_status qn_gguf_get_flag(const qn_gguf *gguf, const char *key,
                                               bool *out_value, qn_error *err);
/** string. Since 0.1. */
QN_API QN_NODISCARD qn_status qn_gguf_get_string(const qn_gguf *gguf, const char *key,
                                                 qn_gguf_string *out_value, qn_error *err);
/** array. Since 0.1. */
QN_API QN_NODISCARD qn_status qn_gguf_get_array(const qn_gguf *gguf, const char *key,
                                                qn_gguf_array *out_array, qn_error *err);

/* Exact getters: the stored type must be the one in the name. Same results. Since 0.1. */
QN_API QN_NODISCARD qn_status qn_gguf_get_u8(const qn_gguf *gguf, const char *key,
                                             uint8_t *out_value, qn_error *err);
QN_API QN_NODISCARD qn_status qn_gguf_get_i8(const qn_gguf *gguf, const char *key,
                                             int8_t *out_value, qn_error *err);
QN_API QN_NODISCARD qn_status qn_gguf_get_u16(const qn_gguf *gguf, const char *key,
                                              uint16_t *out_value, qn_error *err);
QN_API QN_NODISCARD qn_status qn_gguf_get_i16(const qn_gguf *gguf, const char *key,
                                              int16_t *out_value, qn_error *err);
QN_API QN_NODISCARD qn_status qn_gguf_get_u32(const qn_gguf *gguf, const char *key,
                                              uint32_t *out_value, qn_error *err);
QN_API QN_NODISCARD qn_status qn_gguf_get_i32(const qn_gguf *gguf, const char *key,
                                              int32_t *out_value, qn_error *err);
QN_API QN_NODISCARD qn_status qn_gguf_get_u64(const qn_gguf *gguf, const char *key,
                                              uint64_t *out_value, qn_error *err);
QN_API QN_NODISCARD qn_status qn_gguf_get_i64(const qn_gguf *gguf, const char *key,
                                              int64_t *out_value, qn_error *err);
QN_API QN_NODISCARD qn_status qn_gguf_get_f32(const qn_gguf *gguf, const char *key,
                                              float *out_value, qn_error *err);
QN_API QN_NODISCARD qn_status qn_gguf_get_f64(const qn_gguf *gguf, const char *key,
                                              double *out_value, qn_error *err);
QN_API QN_NODISCARD qn_status qn_gguf_get_bool(const qn_gguf *gguf, const char *key,
                                               bool *out_value, qn_error *err);

/* --- arrays ----------------------------------------------------------------------------------- */

/** Element number `index`, widened to its kind. Threads: any thread.
 *
 * Strings and arrays inside an array have no fixed size: the first random access to such an array
 * of the metadata builds a sparse index of positions, kept by the handle; an array inside an array
 * has none and is walked from its beginning. Loops should use qn_gguf_array_next().
 * @return QN_OK; QN_ERR_INVALID_ARGUMENT (no such element); QN_ERR_METADATA_VALUE_OUT_OF_RANGE (a
 * u64 of 2^63 or more: copy it with qn_gguf_array_copy()). Since 0.1. */
QN_API QN_NODISCARD qn_status qn_gguf_array_at(const qn_gguf_array *array, int64_t index,
                                               qn_gguf_value *out_value, qn_error *err);

/** String number `index` of an array of strings.
 * @return as qn_gguf_array_at(); QN_ERR_METADATA_TYPE_MISMATCH. Threads: any thread. Since 0.1. */
QN_API QN_NODISCARD qn_status qn_gguf_array_string(const qn_gguf_array *array, int64_t index,
                                                   qn_gguf_string *out_string, qn_error *err);

/** A position in an array: start from {0}. */
typedef struct qn_gguf_array_iter {
    int64_t index; /* of the next element */
    int64_t pos;   /* private: its byte */
} qn_gguf_array_iter;
/** The next element; false after the last. A u64 of 2^63 or more comes as its two's complement:
 * `type` says that it is a u64. Threads: one at a time per iterator. Since 0.1. */
QN_API bool qn_gguf_array_next(const qn_gguf_array *array, qn_gguf_array_iter *iter,
                               qn_gguf_value *out_value);

/** Copy scalars in the machine's byte order, exactly as stored.
 *
 * @param array  an array of scalars
 * @param type   its element type, as a check
 * @param first  first element
 * @param n      how many
 * @param out    fills n elements of that type (bool: one byte, 0 or 1)
 * @param err    filled on failure; may be NULL
 * @return QN_OK; QN_ERR_METADATA_TYPE_MISMATCH; QN_ERR_INVALID_ARGUMENT (not all there).
 * Threads: any thread. Since 0.1. */
QN_API QN_NODISCARD qn_status qn_gguf_array_copy(const qn_gguf_array *array, qn_gguf_type type,
                                                 int64_t first, int64_t n, void *out,
                                                 qn_error *err);

/* --- warnings --------------------------------------------------------------------------------- */

/* Readers that would refuse a file, as bits. */
#define QN_GGUF_READER_GGML      1u /* ggml's reader, so llama.cpp */
#define QN_GGUF_READER_GGML_DATA 2u /* ggml when asked for the data too (imatrix, gguf-hash) */
#define QN_GGUF_READER_GGUF_PY   4u /* the official Python package */
#define QN_GGUF_READER_LLAMA     8u /* llama.cpp's model loader, on top of ggml's reader */

/** What one warning is about; the values never change. */
typedef enum qn_gguf_warning_code {
    QN_GGUF_WARN_BIG_ENDIAN = 1,
    QN_GGUF_WARN_NO_ARCHITECTURE = 2,
    QN_GGUF_WARN_KEY_LENGTH = 3, /* over 65535 bytes */
    QN_GGUF_WARN_KEY_TEXT = 4,   /* not UTF-8, or a NUL inside */
    QN_GGUF_WARN_NESTED_ARRAY = 5,
    QN_GGUF_WARN_STRING_LENGTH = 6, /* string or array longer than ggml takes */
    QN_GGUF_WARN_BOOL_BYTE = 7,     /* neither 0 nor 1 */
    QN_GGUF_WARN_ALIGNMENT = 8,     /* not a multiple of 8 */
    QN_GGUF_WARN_NAME_LENGTH = 9,   /* tensor name over 63 bytes */
    QN_GGUF_WARN_NAME_TEXT = 10,    /* not UTF-8, or a NUL inside */
    QN_GGUF_WARN_NAME_EMPTY = 11,
    QN_GGUF_WARN_NAME_PREFIX = 12,    /* two names equal up to a NUL */
    QN_GGUF_WARN_DIMS = 13,           /* more than 4 */
    QN_GGUF_WARN_DTYPE = 14,          /* a type that a reader does not know */
    QN_GGUF_WARN_LAYOUT = 15,         /* gaps, or an order unlike the directory's */
    QN_GGUF_WARN_PADDING_VALUE = 16,  /* padding that is not zero */
    QN_GGUF_WARN_FINAL_PADDING = 17,  /* missing after the last tensor */
    QN_GGUF_WARN_TRAILING = 18,       /* bytes after the last tensor and its padding */
    QN_GGUF_WARN_METADATA_KIND = 19,  /* a well-known key of the wrong type or length */
    QN_GGUF_WARN_METADATA_VALUE = 20, /* a well-known key whose value cannot be right */
    QN_GGUF_WARN_SPLIT = 21,          /* one shard taken for itself, or leftover split keys */
    QN_GGUF_WARN_VALUE_TEXT = 22,     /* a string value that is not UTF-8 */
    QN_GGUF_WARN_EXTENSION = 23       /* the file name says another format */
} qn_gguf_warning_code;

/** One kind of oddity. Borrowed; dies with its report. */
typedef struct qn_gguf_warning {
    qn_gguf_warning_code code;
    uint32_t readers; /* QN_GGUF_READER_ bits: who would refuse the file for it */
    int64_t n_found;  /* how often it occurs; `offset` and `message` are of the first */
    int64_t offset;   /* byte in its file, or -1 */
    int64_t shard;
    const char *message; /* one line, NUL-terminated, escaped; names the readers */
} qn_gguf_warning;

typedef struct qn_gguf_report qn_gguf_report;

/** Look for everything that is accepted but worth a warning: at most one warning of each kind and
 * shard.
 * @param gguf   the file
 * @param is_deep look at all padding bytes too, which reads pages all over the file
 * @param out_report owned; free with qn_gguf_report_free(); NULL on failure
 * @param err    filled on failure; may be NULL
 * @return QN_OK; QN_ERR_OUT_OF_MEMORY. Threads: any thread. Since 0.1. */
QN_API QN_NODISCARD qn_status qn_gguf_lint(const qn_gguf *gguf, bool is_deep,
                                           qn_gguf_report **out_report, qn_error *err);
/** Number of warnings. Threads: any thread. Since 0.1. */
QN_API int64_t qn_gguf_report_n(const qn_gguf_report *report);
/** One of them, NULL past the last. Threads: any thread. Since 0.1. */
QN_API const qn_gguf_warning *qn_gguf_report_at(const qn_gguf_report *report, int64_t index);
/** Free it; NULL is allowed. Threads: once. Since 0.1. */
QN_API void qn_gguf_report_free(qn_gguf_report *report);

/* --- shard names ------------------------------------------------------------------------------ */

/** Split "dir/name-00002-of-00005.gguf" into prefix length, number from 0 (1) and count (5).
 * @return false if the name has not that form, the number is not 1...count, or count is above
 *         65535. Outputs may be NULL. Threads: any thread. Since 0.1. */
QN_API bool qn_gguf_parse_shard_path(const char *path, int64_t *out_n_prefix, int64_t *out_index,
                                     int64_t *out_count);
/** Write "PREFIX-%05d-of-%05d.gguf" with index + 1 and count into `out` of n_out bytes.
 * @return QN_OK; QN_ERR_INVALID_ARGUMENT (numbers out of range, or too long). Since 0.1. */
QN_API QN_NODISCARD qn_status qn_gguf_shard_path(const char *prefix, int64_t n_prefix,
                                                 int64_t index, int64_t count, char *out,
                                                 size_t n_out, qn_error *err);

/* --- writing ---------------------------------------------------------------------------------- */

/** A table of contents in the making. One at a time per handle. */
typedef struct qn_gguf_writer qn_gguf_writer;

typedef enum qn_gguf_layout {
    /* version 3, little-endian, tensors in order without holes, everything ggml's strict reader
     * accepts and nothing else (QN_ERR_STRICT) */
    QN_GGUF_CANONICAL = 0,
    /* version, byte order, offsets, gaps and padding as given; all that quench's reader accepts */
    QN_GGUF_LOSSLESS = 1
} qn_gguf_layout;

typedef struct qn_gguf_writer_options {
    size_t struct_size;
    qn_gguf_layout layout;
    uint32_t version;              /* lossless: 2 or 3; 0 means 3 */
    bool is_big_endian;            /* lossless */
    const qn_allocator *allocator; /* NULL: malloc; kept, must outlive the handle */
} qn_gguf_writer_options;
#define QN_GGUF_WRITER_OPTIONS_INIT                                   \
    {                                                                 \
        sizeof(qn_gguf_writer_options), QN_GGUF_CANONICAL, 0, 0, NULL \
    }

/** A writer with nothing in it; owned, free with qn_gguf_writer_free().
 * @return QN_OK; QN_ERR_OUT_OF_MEMORY; QN_ERR_INVALID_ARGUMENT (options). Since 0.1. */
QN_API QN_NODISCARD qn_status qn_gguf_writer_new(const qn_gguf_writer_options *options,
                                                 qn_gguf_writer **out_writer, qn_error *err);
/** A writer with all metadata and tensors of `gguf`; keeps it: open until the last finish.
 *
 * Lossless gives the file's own bytes back (of one file: a split model is refused), canonical the
 * same contents in ggml's layout (split keys left out, big-endian data swapped).
 * @param gguf     source of metadata and data
 * @param options  layout and allocator; version and byte order are taken from the source
 * @return QN_OK; QN_ERR_STRICT (canonical: ggml would refuse what the file holds);
 *         QN_ERR_UNSUPPORTED (lossless of a split model; data taken away);
 *         QN_ERR_UNSUPPORTED_DTYPE (foreign byte order without a rule);
 *         QN_ERR_OUT_OF_MEMORY. Since 0.1. */
QN_API QN_NODISCARD qn_status qn_gguf_writer_from(const qn_gguf *gguf,
                                                  const qn_gguf_writer_options *options,
                                                  qn_gguf_writer **out_writer, qn_error *err);
/** Free it; NULL is allowed. Since 0.1. */
QN_API void qn_gguf_writer_free(qn_gguf_writer *writer);

/* Metadata. Keys are NUL-terminated; values are copied. Setting a key that is there replaces type
 * and value in its place; to move it to the end, remove it first. `general.alignment`, however it
 * comes, must be a u32 power of two up to 2^20, and sets the alignment.
 * All return QN_OK; QN_ERR_INVALID_METADATA (empty key); QN_ERR_INVALID_ALIGNMENT; QN_ERR_STRICT
 * (canonical: what ggml refuses); QN_ERR_INVALID_STATE (a stream is open); QN_ERR_OUT_OF_MEMORY.
 * Since 0.1. */
QN_API QN_NODISCARD qn_status qn_gguf_writer_set_u8(qn_gguf_writer *writer, const char *key,
                                                    uint8_t value, qn_error *err);
QN_API QN_NODISCARD qn_status qn_gguf_writer_set_i8(qn_gguf_writer *writer, const char *key,
                                                    int8_t value, qn_error *err);
QN_API QN_NODISCARD qn_status qn_gguf_writer_set_u16(qn_gguf_writer *writer, const char *key,
                                                     uint16_t value, qn_error *err);
QN_API QN_NODISCARD qn_status qn_gguf_writer_set_i16(qn_gguf_writer *writer, const char *key,
                                                     int16_t value, qn_error *err);
QN_API QN_NODISCARD qn_status qn_gguf_writer_set_u32(qn_gguf_writer *writer, const char *key,
                                                     uint32_t value, qn_error *err);
QN_API QN_NODISCARD qn_status qn_gguf_writer_set_i32(qn_gguf_writer *writer, const char *key,
                                                     int32_t value, qn_error *err);
QN_API QN_NODISCARD qn_status qn_gguf_writer_set_u64(qn_gguf_writer *writer, const char *key,
                                                     uint64_t value, qn_error *err);
QN_API QN_NODISCARD qn_status qn_gguf_writer_set_i64(qn_gguf_writer *writer, const char *key,
                                                     int64_t value, qn_error *err);
QN_API QN_NODISCARD qn_status qn_gguf_writer_set_f32(qn_gguf_writer *writer, const char *key,
                                                     float value, qn_error *err);
QN_API QN_NODISCARD qn_status qn_gguf_writer_set_f64(qn_gguf_writer *writer, const char *key,
                                                     double value, qn_error *err);
QN_API QN_NODISCARD qn_status qn_gguf_writer_set_bool(qn_gguf_writer *writer, const char *key,
                                                      bool value, qn_error *err);
QN_API QN_NODISCARD qn_status qn_gguf_writer_set_string(qn_gguf_writer *writer, const char *key,
                                                        const char *bytes, int64_t n_bytes,
                                                        qn_error *err);
/** An array of n scalars in the machine's byte order (bool: one byte each, non-zero is true). */
QN_API QN_NODISCARD qn_status qn_gguf_writer_set_array(qn_gguf_writer *writer, const char *key,
                                                       qn_gguf_type elem_type, const void *elems,
                                                       int64_t n, qn_error *err);
/** An array of n strings. */
QN_API QN_NODISCARD qn_status qn_gguf_writer_set_strings(qn_gguf_writer *writer, const char *key,
                                                         const qn_gguf_string *strings, int64_t n,
                                                         qn_error *err);
/** A value as its bytes lie in a file of the writer's byte order, after its type code: checked to
 * be one whole value of that type. The key is n_key bytes. Also QN_ERR_UNSUPPORTED_VALUE_TYPE,
 * QN_ERR_END_OF_STREAM. */
QN_API QN_NODISCARD qn_status qn_gguf_writer_set_raw(qn_gguf_writer *writer, const char *key,
                                                     int64_t n_key, qn_gguf_type type,
                                                     const void *bytes, int64_t n_bytes,
                                                     qn_error *err);
/** Copy one entry byte for byte (swapped if the byte orders differ). Also QN_ERR_KEY_NOT_FOUND;
 * QN_ERR_UNSUPPORTED after qn_gguf_take_mapping(): use the raw form then. */
QN_API QN_NODISCARD qn_status qn_gguf_writer_copy(qn_gguf_writer *writer, const qn_gguf *gguf,
                                                  const char *key, qn_error *err);
/** Copy all entries in their order, except n_skip keys. Same results. */
QN_API QN_NODISCARD qn_status qn_gguf_writer_copy_all(qn_gguf_writer *writer, const qn_gguf *gguf,
                                                      const char *const *skip, int64_t n_skip,
                                                      qn_error *err);
/** The same from the raw bytes of a GGUF file (a mapping that was taken); only its metadata are
 * looked at. Also what qn_gguf_parse() returns for them. */
QN_API QN_NODISCARD qn_status qn_gguf_writer_copy_all_raw(qn_gguf_writer *writer, const void *bytes,
                                                          int64_t n_bytes, const char *const *skip,
                                                          int64_t n_skip, qn_error *err);
/** Remove a key. Also QN_ERR_KEY_NOT_FOUND. */
QN_API QN_NODISCARD qn_status qn_gguf_writer_remove(qn_gguf_writer *writer, const char *key,
                                                    qn_error *err);
/** Give an entry another key, in its place. Also QN_ERR_KEY_NOT_FOUND,
 * QN_ERR_DUPLICATE_METADATA_KEY. */
QN_API QN_NODISCARD qn_status qn_gguf_writer_rename(qn_gguf_writer *writer, const char *key,
                                                    const char *new_key, qn_error *err);
/** True if the key is set. */
QN_API bool qn_gguf_writer_has(const qn_gguf_writer *writer, const char *key);
/** Number of entries that are set. */
QN_API int64_t qn_gguf_writer_n_entries(const qn_gguf_writer *writer);

/** Declare a tensor: name (n_name bytes, copied), type and ne (fastest first, kept as given).
 * @return QN_OK; QN_ERR_INVALID_TENSOR_INFO (empty name, impossible n_dims),
 * QN_ERR_UNSUPPORTED_DTYPE, QN_ERR_INVALID_SHAPE, QN_ERR_OVERFLOW, QN_ERR_DUPLICATE_TENSOR_NAME,
 * QN_ERR_STRICT, QN_ERR_INVALID_STATE, QN_ERR_OUT_OF_MEMORY. Since 0.1. */
QN_API QN_NODISCARD qn_status qn_gguf_writer_declare(qn_gguf_writer *writer, const char *name,
                                                     int64_t n_name, qn_dtype dtype,
                                                     const int64_t *ne, int32_t n_dims,
                                                     qn_error *err);
/** Declare one with its data; keeps `data` (n_bytes exactly) until the last finish.
 * Also QN_ERR_INVALID_TENSOR_INFO for a wrong length. Since 0.1. */
QN_API QN_NODISCARD qn_status qn_gguf_writer_add(qn_gguf_writer *writer, const char *name,
                                                 int64_t n_name, qn_dtype dtype, const int64_t *ne,
                                                 int32_t n_dims, const void *data, int64_t n_bytes,
                                                 qn_error *err);
/** Remove a declared tensor. Also QN_ERR_TENSOR_NOT_FOUND. Since 0.1. */
QN_API QN_NODISCARD qn_status qn_gguf_writer_remove_tensor(qn_gguf_writer *writer, const char *name,
                                                           int64_t n_name, qn_error *err);
/** Give a tensor another name, in its place. Also QN_ERR_TENSOR_NOT_FOUND,
 * QN_ERR_DUPLICATE_TENSOR_NAME. Since 0.1. */
QN_API QN_NODISCARD qn_status qn_gguf_writer_rename_tensor(qn_gguf_writer *writer, const char *name,
                                                           int64_t n_name, const char *new_name,
                                                           int64_t n_new_name, qn_error *err);
/** Number of tensors. Since 0.1. */
QN_API int64_t qn_gguf_writer_n_tensors(const qn_gguf_writer *writer);

/** The positional form: everything about the file to be, before any data. */
typedef struct qn_gguf_file_plan {
    const void *header;     /* the bytes up to the data section, padding included; borrowed until
                             * the writer changes or is freed */
    int64_t n_header_bytes; /* = where the data section begins */
    int64_t n_file_bytes;
    int64_t n_tensors;
} qn_gguf_file_plan;
/** Lay the file out. All of it that is neither header nor tensor is zero, but for what
 * qn_gguf_writer_extra() gives.
 * @return QN_OK; QN_ERR_OVERFLOW; QN_ERR_OUT_OF_MEMORY. Since 0.1. */
QN_API QN_NODISCARD qn_status qn_gguf_writer_layout(qn_gguf_writer *writer,
                                                    qn_gguf_file_plan *out_plan, qn_error *err);
/** After qn_gguf_writer_layout(): tensor number `index`, its file_offset in the file to be, `data`
 * where they were given (as they were given). False if there is none.
 * Since 0.1. */
QN_API bool qn_gguf_writer_tensor(const qn_gguf_writer *writer, int64_t index,
                                  qn_tensor_info *out_info);
/** Lossless layout: bytes to write besides header and tensors (gaps that are not zero, a tail), one
 * stretch for each index from 0. False past the last. Borrowed from the source. Since 0.1. */
QN_API bool qn_gguf_writer_extra(const qn_gguf_writer *writer, int64_t index,
                                 int64_t *out_file_offset, const void **out_bytes,
                                 int64_t *out_n_bytes);

/** Write it all to memory; *out_bytes is borrowed until the writer is freed or finished again.
 * @return QN_OK; QN_ERR_TENSOR_DATA_MISSING (a tensor was declared without data);
 *         QN_ERR_OVERFLOW; QN_ERR_OUT_OF_MEMORY. May be repeated. Since 0.1. */
QN_API QN_NODISCARD qn_status qn_gguf_writer_finish(qn_gguf_writer *writer, const void **out_bytes,
                                                    int64_t *out_n_bytes, qn_error *err);
/** Write it all to a file that appears under its name only when it is whole and synced.
 * @return as qn_gguf_writer_finish(); QN_ERR_IO, QN_ERR_NO_SPACE. Since 0.1. */
QN_API QN_NODISCARD qn_status qn_gguf_writer_finish_path(qn_gguf_writer *writer, const char *path,
                                                         qn_error *err);

/** Where a stream puts its bytes: all n_bytes of them, in order; not QN_OK stops everything. */
typedef qn_status (*qn_gguf_write_fn)(void *ctx, const void *bytes, size_t n_bytes, qn_error *err);

/** Data given tensor by tensor, in the order of the file. One at a time. */
typedef struct qn_gguf_stream qn_gguf_stream;
/** Write the header now, the data as they come; the writer cannot change until the stream is freed.
 * @param write  gets the bytes; never more than 1 GiB at once
 * @return QN_OK; QN_ERR_INVALID_STATE (a stream is open), and what layout and `write` return.
 * Owned: free with qn_gguf_stream_free(). Since 0.1. */
QN_API QN_NODISCARD qn_status qn_gguf_stream_begin(qn_gguf_writer *writer, qn_gguf_write_fn write,
                                                   void *ctx, qn_gguf_stream **out_stream,
                                                   qn_error *err);
/** The writer's index of the tensor whose data are expected next; -1 when all are there.
 * Since 0.1. */
QN_API int64_t qn_gguf_stream_next(const qn_gguf_stream *stream);
/** The whole data of the next tensor. A wrong length is QN_ERR_INVALID_TENSOR_INFO and changes
 * nothing; too many tensors are QN_ERR_TENSOR_DATA_MISSING; after a failed write every call is
 * QN_ERR_INVALID_STATE. The bytes are not kept. Since 0.1. */
QN_API QN_NODISCARD qn_status qn_gguf_stream_write(qn_gguf_stream *stream, const void *data,
                                                   int64_t n_bytes, qn_error *err);
/** Any part of the next tensor's data, in order; same results. Since 0.1. */
QN_API QN_NODISCARD qn_status qn_gguf_stream_write_part(qn_gguf_stream *stream, const void *data,
                                                        int64_t n_bytes, qn_error *err);
/** Write what follows the last tensor. QN_ERR_TENSOR_DATA_MISSING when data are missing (names the
 * tensor), QN_ERR_INVALID_STATE when called again. Since 0.1. */
QN_API QN_NODISCARD qn_status qn_gguf_stream_finish(qn_gguf_stream *stream, qn_error *err);
/** Free it, finished or not. Since 0.1. */
QN_API void qn_gguf_stream_free(qn_gguf_stream *stream);

/* --- writing shards --------------------------------------------------------------------------- */

typedef struct qn_gguf_split_options {
    size_t struct_size;
    int64_t max_tensors;        /* a new shard at every multiple of this index; 0: no such limit */
    int64_t max_bytes;          /* a new shard before the padded sum of data passes this; 0: none */
    bool is_first_empty;        /* the first shard has metadata only */
    bool is_count_before_total; /* key order no, count, tensors.count (llama-quantize, gguf-py)
                                 * instead of no, tensors.count, count (gguf-split) */
} qn_gguf_split_options;
#define QN_GGUF_SPLIT_OPTIONS_INIT                \
    {                                             \
        sizeof(qn_gguf_split_options), 0, 0, 0, 0 \
    }

/** One writer for each shard of a model. */
typedef struct qn_gguf_split qn_gguf_split;
/** Divide a writer's tensors among shards, as gguf-split does; a tensor above max_bytes gets a
 * shard of its own. All metadata go to the first, the three split keys to each. Keeps tensor data
 * as the writer does; the writer itself is not needed afterwards.
 * @return QN_OK; QN_ERR_INVALID_ARGUMENT; QN_ERR_INVALID_SPLIT (more than 65535 shards);
 *         QN_ERR_OUT_OF_MEMORY. Owned: free with qn_gguf_split_free(). Since 0.1. */
QN_API QN_NODISCARD qn_status qn_gguf_split_new(const qn_gguf_writer *writer,
                                                const qn_gguf_split_options *options,
                                                qn_gguf_split **out_split, qn_error *err);
/** Number of shards, at least 1. Since 0.1. */
QN_API int64_t qn_gguf_split_n(const qn_gguf_split *split);
/** The writer of one shard, borrowed; NULL past the last. Since 0.1. */
QN_API qn_gguf_writer *qn_gguf_split_writer(qn_gguf_split *split, int64_t index);
/** Write all shards as PREFIX-00001-of-N.gguf ...: all under temporary names first, then renamed,
 * the first shard last, so that nothing loads half.
 * @return as qn_gguf_writer_finish_path(). Since 0.1. */
QN_API QN_NODISCARD qn_status qn_gguf_split_finish_paths(qn_gguf_split *split, const char *prefix,
                                                         qn_error *err);
/** Free it and its writers; NULL is allowed. Since 0.1. */
QN_API void qn_gguf_split_free(qn_gguf_split *split);

#ifdef __cplusplus
}
#endif

#endif
