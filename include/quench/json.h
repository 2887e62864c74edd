/* json.h — a writer of JSON text: what the command's reports and the library's own files use.
 *
 * Call the functions in document order; the writer puts commas, indentation and escapes. It keeps
 * the first failure (a sink that failed, a value where a name belongs) and ignores what follows, so
 * that only qn_json_finish() has to be checked. A mistake in the order is QN_ERR_INVALID_STATE. */
#ifndef QUENCH_JSON_H
#define QUENCH_JSON_H

#include "quench/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A writer. Threads: one at a time. */
typedef struct qn_json_writer qn_json_writer;

/* How deep objects and arrays may be nested. */
#define QN_JSON_MAX_DEPTH 128

/** Start a document that goes to `write`.
 *
 * @param write      gets the text in pieces, in order; must take all of each piece
 * @param write_ctx  handed to `write`; keeps until qn_json_writer_free()
 * @param indent     spaces per level, 0..16; 0 puts everything on one line without spaces
 * @param allocator  where memory comes from; NULL means malloc; keeps until qn_json_writer_free()
 * @param out_writer owns: free with qn_json_writer_free(); NULL on failure
 * @param err        filled on failure; may be NULL
 * @return QN_OK; QN_ERR_INVALID_ARGUMENT; QN_ERR_OUT_OF_MEMORY. Since 0.1. */
QN_API QN_NODISCARD qn_status qn_json_writer_new(qn_write_fn write, void *write_ctx, int indent,
                                                 const qn_allocator *allocator,
                                                 qn_json_writer **out_writer, qn_error *err);

/** End the document: everything is handed to the sink.
 *
 * @param writer  a writer whose document is complete
 * @param err     filled on failure; may be NULL
 * @return QN_OK; the first failure of any call before; QN_ERR_INVALID_STATE if something is open or
 *         nothing was written. The writer must still be freed. Since 0.1. */
QN_API QN_NODISCARD qn_status qn_json_finish(qn_json_writer *writer, qn_error *err);

/** Free a writer, finished or not; text not yet handed to the sink is dropped. NULL is allowed. */
QN_API void qn_json_writer_free(qn_json_writer *writer);

/** Open and close an object or array. */
QN_API void qn_json_begin_object(qn_json_writer *writer);
QN_API void qn_json_end_object(qn_json_writer *writer);
QN_API void qn_json_begin_array(qn_json_writer *writer);
QN_API void qn_json_end_array(qn_json_writer *writer);

/** The name of the next member of the open object; NUL-terminated, or `n_bytes` bytes of anything.
 * Names are not checked for being unique. */
QN_API void qn_json_key(qn_json_writer *writer, const char *name);
QN_API void qn_json_key_bytes(qn_json_writer *writer, const void *name, size_t n_bytes);

/** A string: NUL-terminated, or `n_bytes` bytes of anything. What is not UTF-8 is written as one
 * U+FFFD for each bad byte, so that the text is always valid JSON. NULL is written as null. */
QN_API void qn_json_string(qn_json_writer *writer, const char *text);
QN_API void qn_json_string_bytes(qn_json_writer *writer, const void *bytes, size_t n_bytes);

/** Numbers, exact. A double is written with the fewest digits that read back as the same double;
 * NaN and infinities, which JSON does not have, are written as null. */
QN_API void qn_json_i64(qn_json_writer *writer, int64_t value);
QN_API void qn_json_u64(qn_json_writer *writer, uint64_t value);
QN_API void qn_json_f64(qn_json_writer *writer, double value);

/** true or false; null. */
QN_API void qn_json_bool(qn_json_writer *writer, bool value);
QN_API void qn_json_null(qn_json_writer *writer);

/** A member of the open object in one call: qn_json_key(), then the value. */
QN_API void qn_json_member_string(qn_json_writer *writer, const char *name, const char *text);
QN_API void qn_json_member_i64(qn_json_writer *writer, const char *name, int64_t value);
QN_API void qn_json_member_u64(qn_json_writer *writer, const char *name, uint64_t value);
QN_API void qn_json_member_f64(qn_json_writer *writer, const char *name, double value);
QN_API void qn_json_member_bool(qn_json_writer *writer, const char *name, bool value);

#ifdef __cplusplus
}
#endif

#endif
