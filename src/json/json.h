/* json/json.h — JSON text: a pull reader that builds no tree, and the writer of quench/json.h.
 *
 * Knows RFC 8259 and nothing about models. Start reading at json_read.c.
 *
 * The reader goes over the text once. The caller asks for what it expects and gets it or an error
 * with the byte where the text was different:
 *
 *     QN_TRY_GOTO(qni_json_enter_object(&r, QNI_JSON_UNIQUE, err));
 *     for (;;) {
 *         QN_TRY_GOTO(qni_json_next_key(&r, &key, &has_key, err));
 *         if (!has_key) break;                       the object is closed
 *         if (qni_json_text_is(key, "step")) {
 *             QN_TRY_GOTO(qni_json_u64(&r, &step, err));
 *         } else {
 *             QN_TRY_GOTO(qni_json_skip(&r, err));
 *         }
 *     }
 *     QN_TRY_GOTO(qni_json_finish(&r, err));
 */
#ifndef QNI_JSON_H
#define QNI_JSON_H

#include "base/base.h"
#include "quench/json.h"

/* A string of the text after its escapes are undone. */
typedef struct qni_json_text {
    const char *bytes; /* borrowed: from the text, or from the reader until qni_json_end() */
    int64_t n_bytes;
    int64_t offset; /* of its opening quote in the file */
} qni_json_text;

typedef enum qni_json_kind {
    QNI_JSON_OBJECT,
    QNI_JSON_ARRAY,
    QNI_JSON_STRING,
    QNI_JSON_NUMBER,
    QNI_JSON_TRUE,
    QNI_JSON_FALSE,
    QNI_JSON_NULL
} qni_json_kind;

/* Who makes sure that no name stands in an object twice. */
typedef enum qni_json_unique {
    QNI_JSON_UNIQUE,     /* the reader: a second one is an error at its byte */
    QNI_JSON_NOT_CHECKED /* the caller, which keeps an index of its own */
} qni_json_unique;

typedef struct qni_json_options {
    int64_t file_offset;       /* where the text begins in its file, for the offsets of errors */
    qn_status status;          /* of every error of form or kind; QN_OK means QN_ERR_INVALID_JSON */
    qn_status status_utf8;     /* of text that is not UTF-8; QN_OK means the same as `status` */
    qn_status status_overflow; /* of a whole number that does not fit; QN_OK: QN_ERR_OVERFLOW */
    qn_status status_repeated; /* of a name that repeats; QN_OK means the same as `status` */
    const qn_allocator *allocator;
} qni_json_options;

/* One level of nesting. */
typedef struct qni_json_level {
    bool is_object;
    bool is_checked; /* the reader watches for names that repeat */
    int32_t n_keys;  /* names seen, while they are few enough to compare one by one */
    int64_t first_key;
    bool has_map;
    qni_strmap map; /* all names, once they are many */
} qni_json_level;

typedef struct qni_json {
    const char *begin;
    const char *pos;
    const char *end;
    qni_json_options options;
    int depth;
    bool is_first;          /* nothing was read in the innermost level yet */
    bool is_checked;        /* names of the innermost level are watched, or it is no object */
    qni_json_level *levels; /* QN_JSON_MAX_DEPTH of them */
    qni_buffer keys;        /* of qni_json_text: the names of all open, checked, small objects */
    qni_arena arena;        /* strings that had escapes */
} qni_json;

/* Begin to read. The whole text is checked to be UTF-8. Keeps `bytes` until qni_json_end(), which
 * must be called also when this failed. `options` NULL: all zero. */
QN_NODISCARD qn_status qni_json_begin(qni_json *reader, const void *bytes, int64_t n_bytes,
                                      const qni_json_options *options, qn_error *err);
void qni_json_end(qni_json *reader);

/* What the next value is, without reading it. */
QN_NODISCARD qn_status qni_json_peek(qni_json *reader, qni_json_kind *out_kind, qn_error *err);

/* Objects: enter, then next_key and a value in turn, until *out_has_key is false: it is closed. */
QNI_INLINE qn_status qni_json_enter_object(qni_json *reader, qni_json_unique unique, qn_error *err);
QNI_INLINE qn_status qni_json_next_key(qni_json *reader, qni_json_text *out_key, bool *out_has_key,
                                       qn_error *err);

/* Where the caller keeps track itself but for some names (unknown ones): watch such a name. */
QN_NODISCARD qn_status qni_json_watch_key(qni_json *reader, const qni_json_text *key,
                                          qn_error *err);

/* Arrays: enter, then next_item and a value in turn, until *out_has_item is false: it is closed. */
QNI_INLINE qn_status qni_json_enter_array(qni_json *reader, qn_error *err);
QNI_INLINE qn_status qni_json_next_item(qni_json *reader, bool *out_has_item, qn_error *err);

/* Values of one kind; anything else is an error. u64 and i64 take whole numbers only, as digits:
 * no fraction, no exponent, no "-0"; u64 no sign. f64 takes every number, correctly rounded; one
 * beyond the range of double is an error. */
QNI_INLINE qn_status qni_json_string(qni_json *reader, qni_json_text *out_text, qn_error *err);
QNI_INLINE qn_status qni_json_u64(qni_json *reader, uint64_t *out_value, qn_error *err);
QN_NODISCARD qn_status qni_json_i64(qni_json *reader, int64_t *out_value, qn_error *err);
QN_NODISCARD qn_status qni_json_f64(qni_json *reader, double *out_value, qn_error *err);
QN_NODISCARD qn_status qni_json_bool(qni_json *reader, bool *out_value, qn_error *err);
QN_NODISCARD qn_status qni_json_null(qni_json *reader, qn_error *err);

/* Pass over one value of any kind; it is checked like any other, its names for repeats too. */
QN_NODISCARD qn_status qni_json_skip(qni_json *reader, qn_error *err);

/* The document is over: only white space may follow. */
QN_NODISCARD qn_status qni_json_finish(qni_json *reader, qn_error *err);

/* Where the texts are that had escapes: the caller's to free from now on. What borrows from the
 * text itself is as before. */
qni_arena qni_json_take_arena(qni_json *reader);

/* Offset in the file of the next byte that is no white space. */
int64_t qni_json_offset(qni_json *reader);

/* True if the text is exactly this NUL-terminated word. */
bool qni_json_text_is(qni_json_text text, const char *word);

/* The shortest decimal that reads back as the same finite double: plain ("0.001", "16"), or with an
 * exponent for what is very large or small if that is allowed. Returns the length. */
#define QNI_JSON_F64_MAX 352
int qni_json_format_f64(double value, bool allow_exponent, char out[QNI_JSON_F64_MAX]);

#include "json/json_hot_internal.h"

#endif
