/* json_read.c — the pull reader: structure, numbers and words. Strings are in json_string.c, names
 * that repeat in json_keys.c.
 *
 * Between calls r->pos is where a value, or in an object or array the separator before the next
 * entry, is expected. Nothing recurses: nesting is a stack of QN_JSON_MAX_DEPTH levels. */
#include <errno.h>
#include <math.h>

#include "json/json_internal.h"

#define MAX_NUMBER_TEXT 64 /* of a double that is copied on the stack; longer ones on the heap */

qn_status qni_json_fail(const qni_json *r, const char *at, const char *expected, qn_error *err)
{
    qni_name_text found;
    const int64_t offset = qni_json_offset_of(r, at);
    if (at == r->end) {
        return qni_fail(err, r->options.status, offset, "JSON: expected %s, but the text ends here",
                        expected);
    }
    const int64_t n_shown = qni_min_i64(r->end - at, 12);
    return qni_fail(err, r->options.status, offset, "JSON: expected %s, found \"%s\"", expected,
                    qni_escape_name(at, n_shown, &found));
}

qn_status qni_json_begin(qni_json *reader, const void *bytes, int64_t n_bytes,
                         const qni_json_options *options, qn_error *err)
{
    static const qni_json_options defaults;
    *reader = (qni_json){.begin = bytes, .pos = bytes, .options = options ? *options : defaults};
    reader->end = reader->begin + n_bytes;
    qni_json_options *o = &reader->options;
    o->status = o->status != QN_OK ? o->status : QN_ERR_INVALID_JSON;
    o->status_utf8 = o->status_utf8 != QN_OK ? o->status_utf8 : o->status;
    o->status_repeated = o->status_repeated != QN_OK ? o->status_repeated : o->status;
    o->status_overflow = o->status_overflow != QN_OK ? o->status_overflow : QN_ERR_OVERFLOW;
    reader->arena.allocator = o->allocator;
    qni_buffer_init(&reader->keys, o->allocator, SIZE_MAX / 2);
    reader->levels = qni_alloc(o->allocator, QN_JSON_MAX_DEPTH * sizeof *reader->levels);
    if (!reader->levels) {
        return qni_fail_memory(err, QN_JSON_MAX_DEPTH * sizeof *reader->levels);
    }
    size_t bad_at = 0;
    QN_CHECK(qni_utf8_is_valid(bytes, (size_t)n_bytes, &bad_at), err, o->status_utf8,
             o->file_offset + (int64_t)bad_at, "JSON: the text is not UTF-8 at this byte");
    return QN_OK;
}

void qni_json_end(qni_json *reader)
{
    if (!reader->levels) {
        return;
    }
    for (int i = 0; i < reader->depth; i++) {
        if (reader->levels[i].has_map) {
            qni_strmap_free(&reader->levels[i].map);
        }
    }
    qni_free(reader->options.allocator, reader->levels, QN_JSON_MAX_DEPTH * sizeof *reader->levels);
    reader->levels = NULL;
    qni_buffer_free(&reader->keys);
    qni_arena_free(&reader->arena);
}

qni_arena qni_json_take_arena(qni_json *reader)
{
    const qni_arena arena = reader->arena;
    reader->arena.chunks = NULL;
    return arena;
}

int64_t qni_json_offset(qni_json *reader)
{
    qni_json_skip_space(reader);
    return qni_json_offset_of(reader, reader->pos);
}

bool qni_json_text_is(qni_json_text text, const char *word)
{
    const size_t n = strlen(word);
    return (size_t)text.n_bytes == n && memcmp(text.bytes, word, n) == 0;
}

/* --- structure -------------------------------------------------------------------------------- */

/* The next byte that is no white space, or NUL at the end. A NUL of the text itself is no token
 * either, so the two need not be told apart. */
QNI_INLINE char next_char(qni_json *r)
{
    qni_json_skip_space(r);
    return r->pos < r->end ? *r->pos : '\0';
}

qn_status qni_json_peek(qni_json *reader, qni_json_kind *out_kind, qn_error *err)
{
    switch (next_char(reader)) {
    case '{':
        *out_kind = QNI_JSON_OBJECT;
        return QN_OK;
    case '[':
        *out_kind = QNI_JSON_ARRAY;
        return QN_OK;
    case '"':
        *out_kind = QNI_JSON_STRING;
        return QN_OK;
    case 't':
        *out_kind = QNI_JSON_TRUE;
        return QN_OK;
    case 'f':
        *out_kind = QNI_JSON_FALSE;
        return QN_OK;
    case 'n':
        *out_kind = QNI_JSON_NULL;
        return QN_OK;
    default:
        break;
    }
    const char c = next_char(reader);
    if (c == '-' || (c >= '0' && c <= '9')) {
        *out_kind = QNI_JSON_NUMBER;
        return QN_OK;
    }
    return qni_json_fail(reader, reader->pos, "a value", err);
}

qn_status qni_json_enter_slow(qni_json *reader, bool is_object, bool is_checked, qn_error *err)
{
    if (next_char(reader) != (is_object ? '{' : '[')) {
        return qni_json_fail(reader, reader->pos, is_object ? "an object" : "an array", err);
    }
    QN_CHECK(reader->depth < QN_JSON_MAX_DEPTH, err, reader->options.status,
             qni_json_offset_of(reader, reader->pos), "JSON: nested deeper than %d levels",
             QN_JSON_MAX_DEPTH);
    return qni_json_enter(reader, is_object, is_checked, err);
}

static void leave(qni_json *r)
{
    if (r->levels[r->depth - 1].n_keys > 0) {
        qni_json_forget_keys(r);
    }
    qni_json_leave(r);
}

/* Before an entry of the innermost level: its separator is read, or its end. */
QNI_INLINE qn_status next_entry(qni_json *r, char closing, const char *expected,
                                bool *out_has_entry, qn_error *err)
{
    const char c = next_char(r);
    *out_has_entry = c != closing;
    if (c == closing) {
        leave(r);
        return QN_OK;
    }
    if (!r->is_first) {
        if (QNI_UNLIKELY(c != ',')) {
            return qni_json_fail(r, r->pos, expected, err);
        }
        r->pos++;
    }
    r->is_first = false;
    return QN_OK;
}

qn_status qni_json_next_item_slow(qni_json *reader, bool *out_has_item, qn_error *err)
{
    return next_entry(reader, ']', "a comma or ] after an array item", out_has_item, err);
}

qn_status qni_json_next_key_slow(qni_json *reader, qni_json_text *out_key, bool *out_has_key,
                                 qn_error *err)
{
    QN_TRY(next_entry(reader, '}', "a comma or } after an object member", out_has_key, err));
    if (!*out_has_key) {
        return QN_OK;
    }
    if (QNI_UNLIKELY(next_char(reader) != '"')) {
        return qni_json_fail(reader, reader->pos, "a name in quotes", err);
    }
    QN_TRY(qni_json_take_string(reader, out_key, err));
    if (QNI_UNLIKELY(next_char(reader) != ':')) {
        return qni_json_fail(reader, reader->pos, "a colon after a name", err);
    }
    reader->pos++;
    if (reader->levels[reader->depth - 1].is_checked) {
        return qni_json_watch_key(reader, out_key, err);
    }
    return QN_OK;
}

qn_status qni_json_finish(qni_json *reader, qn_error *err)
{
    qni_json_skip_space(reader);
    if (reader->pos != reader->end) {
        return qni_json_fail(reader, reader->pos, "nothing after the document", err);
    }
    return QN_OK;
}

/* --- values ----------------------------------------------------------------------------------- */

qn_status qni_json_string_slow(qni_json *reader, qni_json_text *out_text, qn_error *err)
{
    if (QNI_UNLIKELY(next_char(reader) != '"')) {
        return qni_json_fail(reader, reader->pos, "a string", err);
    }
    return qni_json_take_string(reader, out_text, err);
}

QNI_INLINE bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static const char *skip_digits(const char *p, const char *end)
{
    while (p < end && is_digit(*p)) {
        p++;
    }
    return p;
}

qn_status qni_json_scan_number(const qni_json *r, const char **out_end, bool *out_is_whole,
                               qn_error *err)
{
    const char *p = r->pos;
    if (p < r->end && *p == '-') {
        p++;
    }
    const char *first = p;
    p = skip_digits(p, r->end);
    if (p == first) {
        return qni_json_fail(r, p, "a digit", err);
    }
    if (*first == '0' && p - first > 1) {
        return qni_json_fail(r, first, "no leading zero", err);
    }
    *out_is_whole = true;
    if (p < r->end && *p == '.') {
        const char *fraction = ++p;
        p = skip_digits(p, r->end);
        if (p == fraction) {
            return qni_json_fail(r, p, "a digit after the point", err);
        }
        *out_is_whole = false;
    }
    if (p < r->end && (*p == 'e' || *p == 'E')) {
        p++;
        if (p < r->end && (*p == '+' || *p == '-')) {
            p++;
        }
        const char *exponent = p;
        p = skip_digits(p, r->end);
        if (p == exponent) {
            return qni_json_fail(r, p, "a digit in the exponent", err);
        }
        *out_is_whole = false;
    }
    *out_end = p;
    return QN_OK;
}

static qn_status fail_overflow(const qni_json *r, const char *kind, qn_error *err)
{
    return qni_fail(err, r->options.status_overflow, qni_json_offset_of(r, r->pos),
                    "JSON: the number does not fit in %s", kind);
}

/* The magnitude of the whole number at r->pos, and the byte after it. */
static qn_status scan_whole(const qni_json *r, bool may_be_negative, const char *kind,
                            uint64_t *out_magnitude, const char **out_end, qn_error *err)
{
    bool is_whole = false;
    if (QNI_UNLIKELY(r->pos == r->end || (*r->pos != '-' && !is_digit(*r->pos)))) {
        return qni_json_fail(r, r->pos, "a whole number", err);
    }
    QN_TRY(qni_json_scan_number(r, out_end, &is_whole, err));
    const char *p = r->pos;
    const bool is_negative = *p == '-';
    if (!is_whole || (is_negative && (!may_be_negative || p[1] == '0'))) {
        return qni_json_fail(r, r->pos,
                             may_be_negative ? "a whole number" : "a whole number from 0 up", err);
    }
    uint64_t value = 0;
    for (p += is_negative; p < *out_end; p++) {
        if (__builtin_mul_overflow(value, UINT64_C(10), &value) ||
            __builtin_add_overflow(value, (uint64_t)(*p - '0'), &value)) {
            return fail_overflow(r, kind, err);
        }
    }
    *out_magnitude = value;
    return QN_OK;
}

qn_status qni_json_u64_slow(qni_json *reader, uint64_t *out_value, qn_error *err)
{
    *out_value = 0;
    qni_json_skip_space(reader);
    const char *number_end = NULL;
    QN_TRY(scan_whole(reader, false, "64 bits", out_value, &number_end, err));
    reader->pos = number_end;
    return QN_OK;
}

qn_status qni_json_i64(qni_json *reader, int64_t *out_value, qn_error *err)
{
    *out_value = 0;
    qni_json_skip_space(reader);
    const char *number_end = NULL;
    uint64_t magnitude = 0;
    QN_TRY(scan_whole(reader, true, "63 bits and a sign", &magnitude, &number_end, err));
    const bool is_negative = *reader->pos == '-';
    if (magnitude > (uint64_t)INT64_MAX + is_negative) {
        return fail_overflow(reader, "63 bits and a sign", err);
    }
    *out_value = is_negative ? -(int64_t)(magnitude - 1) - 1 : (int64_t)magnitude;
    reader->pos = number_end;
    return QN_OK;
}

qn_status qni_json_f64(qni_json *reader, double *out_value, qn_error *err)
{
    *out_value = 0;
    const char c = next_char(reader);
    if (c != '-' && !is_digit(c)) {
        return qni_json_fail(reader, reader->pos, "a number", err);
    }
    const char *number_end = NULL;
    bool is_whole = false;
    QN_TRY(qni_json_scan_number(reader, &number_end, &is_whole, err));
    const size_t n_text = (size_t)(number_end - reader->pos);
    char short_text[MAX_NUMBER_TEXT];
    char *text =
        n_text < sizeof short_text ? short_text : qni_alloc(reader->options.allocator, n_text + 1);
    if (!text) {
        return qni_fail_memory(err, n_text + 1);
    }
    memcpy(text, reader->pos, n_text);
    text[n_text] = '\0';
    const bool is_finite = qni_parse_f64(text, out_value) && isfinite(*out_value);
    if (text != short_text) {
        qni_free(reader->options.allocator, text, n_text + 1);
    }
    if (!is_finite) {
        *out_value = 0;
        return fail_overflow(reader, "a double", err);
    }
    reader->pos = number_end;
    return QN_OK;
}

static bool take_word(qni_json *r, const char *word)
{
    const size_t n = strlen(word);
    if ((size_t)(r->end - r->pos) < n || memcmp(r->pos, word, n) != 0) {
        return false;
    }
    r->pos += n;
    return true;
}

qn_status qni_json_bool(qni_json *reader, bool *out_value, qn_error *err)
{
    qni_json_skip_space(reader);
    *out_value = false;
    if (take_word(reader, "true")) {
        *out_value = true;
        return QN_OK;
    }
    if (take_word(reader, "false")) {
        return QN_OK;
    }
    return qni_json_fail(reader, reader->pos, "true or false", err);
}

qn_status qni_json_null(qni_json *reader, qn_error *err)
{
    qni_json_skip_space(reader);
    if (!take_word(reader, "null")) {
        return qni_json_fail(reader, reader->pos, "null", err);
    }
    return QN_OK;
}

/* --- skipping --------------------------------------------------------------------------------- */

static qn_status skip_scalar(qni_json *r, qni_json_kind kind, qn_error *err)
{
    qni_json_text text;
    bool flag = false;
    switch (kind) {
    case QNI_JSON_STRING:
        return qni_json_string(r, &text, err);
    case QNI_JSON_NUMBER: {
        const char *number_end = NULL;
        QN_TRY(qni_json_scan_number(r, &number_end, &flag, err));
        r->pos = number_end;
        return QN_OK;
    }
    case QNI_JSON_NULL:
        return qni_json_null(r, err);
    default:
        return qni_json_bool(r, &flag, err);
    }
}

/* Read one value, or only enter it when it is an object or array. */
static qn_status begin_skip(qni_json *r, qn_error *err)
{
    qni_json_kind kind = QNI_JSON_NULL;
    QN_TRY(qni_json_peek(r, &kind, err));
    if (kind == QNI_JSON_OBJECT) {
        return qni_json_enter_object(r, QNI_JSON_UNIQUE, err);
    }
    if (kind == QNI_JSON_ARRAY) {
        return qni_json_enter_array(r, err);
    }
    return skip_scalar(r, kind, err);
}

qn_status qni_json_skip(qni_json *reader, qn_error *err)
{
    const int outer_depth = reader->depth;
    QN_TRY(begin_skip(reader, err));
    while (reader->depth > outer_depth) {
        bool has_entry = false;
        qni_json_text key;
        if (reader->levels[reader->depth - 1].is_object) {
            QN_TRY(qni_json_next_key(reader, &key, &has_entry, err));
        } else {
            QN_TRY(qni_json_next_item(reader, &has_entry, err));
        }
        if (has_entry) {
            QN_TRY(begin_skip(reader, err));
        }
    }
    return QN_OK;
}
