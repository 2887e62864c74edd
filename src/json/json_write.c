/* json_write.c — the writer: a state of open objects and arrays, and a buffer before the sink. */
#include "json/json.h"

#define BUFFER_BYTES 8192
#define MAX_INDENT   16

typedef enum level_state {
    IN_ARRAY,
    WANTS_KEY,  /* in an object, before a name */
    WANTS_VALUE /* in an object, after a name */
} level_state;

struct qn_json_writer {
    qn_write_fn write;
    void *write_ctx;
    const qn_allocator *allocator;
    int indent;
    int depth;
    bool has_value; /* something was written at the outermost level */
    qn_error failure;
    size_t n_buffered;
    uint8_t state[QN_JSON_MAX_DEPTH];
    bool is_empty[QN_JSON_MAX_DEPTH];
    char buffer[BUFFER_BYTES];
};

qn_status qn_json_writer_new(qn_write_fn write, void *write_ctx, int indent,
                             const qn_allocator *allocator, qn_json_writer **out_writer,
                             qn_error *err)
{
    *out_writer = NULL;
    QN_CHECK(write && indent >= 0 && indent <= MAX_INDENT, err, QN_ERR_INVALID_ARGUMENT, -1,
             "a JSON writer needs a sink and an indentation from 0 to %d", MAX_INDENT);
    qn_json_writer *writer = qni_alloc_zeroed(allocator, sizeof *writer);
    if (!writer) {
        return qni_fail_memory(err, sizeof *writer);
    }
    writer->write = write;
    writer->write_ctx = write_ctx;
    writer->indent = indent;
    writer->allocator = allocator;
    writer->failure = (qn_error)QN_ERROR_INIT;
    *out_writer = writer;
    return QN_OK;
}

void qn_json_writer_free(qn_json_writer *writer)
{
    if (writer) {
        qni_free(writer->allocator, writer, sizeof *writer);
    }
}

static bool has_failed(const qn_json_writer *w)
{
    return w->failure.status != QN_OK;
}

static void fail_order(qn_json_writer *w, const char *what)
{
    if (!has_failed(w)) {
        w->failure.status = qni_fail(&w->failure, QN_ERR_INVALID_STATE, -1,
                                     "JSON was written out of order: %s", what);
    }
}

static void flush(qn_json_writer *w)
{
    if (!has_failed(w) && w->n_buffered > 0) {
        const qn_status st = w->write(w->write_ctx, w->buffer, w->n_buffered, &w->failure);
        w->failure.status = st;
    }
    w->n_buffered = 0;
}

static void put(qn_json_writer *w, const char *bytes, size_t n_bytes)
{
    while (n_bytes > 0) {
        if (w->n_buffered == BUFFER_BYTES) {
            flush(w);
        }
        const size_t room = BUFFER_BYTES - w->n_buffered;
        const size_t n = n_bytes < room ? n_bytes : room;
        memcpy(w->buffer + w->n_buffered, bytes, n);
        w->n_buffered += n;
        bytes += n;
        n_bytes -= n;
    }
}

static void put_char(qn_json_writer *w, char c)
{
    put(w, &c, 1);
}

static void put_line(qn_json_writer *w)
{
    static const char spaces[] = "                "; /* MAX_INDENT of them */
    if (w->indent > 0) {
        put_char(w, '\n');
        for (int i = 0; i < w->depth; i++) {
            put(w, spaces, (size_t)w->indent);
        }
    }
}

/* Comma and line before the next member or item of the innermost level. */
static void put_separator(qn_json_writer *w)
{
    bool *is_empty = &w->is_empty[w->depth - 1];
    if (!*is_empty) {
        put_char(w, ',');
    }
    *is_empty = false;
    put_line(w);
}

/* Everything that stands before a value; false if no value may stand here. */
static bool begin_value(qn_json_writer *w)
{
    if (has_failed(w)) {
        return false;
    }
    if (w->depth == 0) {
        if (w->has_value) {
            fail_order(w, "a second value after the document");
            return false;
        }
        w->has_value = true;
        return true;
    }
    uint8_t *state = &w->state[w->depth - 1];
    switch ((level_state)*state) {
    case IN_ARRAY:
        put_separator(w);
        return true;
    case WANTS_VALUE:
        *state = WANTS_KEY;
        return true;
    case WANTS_KEY:
        break;
    }
    fail_order(w, "a value where a name belongs");
    return false;
}

static void begin_level(qn_json_writer *w, char bracket, level_state state)
{
    if (!begin_value(w)) {
        return;
    }
    if (w->depth == QN_JSON_MAX_DEPTH) {
        fail_order(w, "nested too deep");
        return;
    }
    put_char(w, bracket);
    w->state[w->depth] = (uint8_t)state;
    w->is_empty[w->depth] = true;
    w->depth++;
}

static void end_level(qn_json_writer *w, char bracket, level_state state)
{
    if (has_failed(w)) {
        return;
    }
    if (w->depth == 0 || w->state[w->depth - 1] != (uint8_t)state) {
        fail_order(w, "closing what is not open, or a name without its value");
        return;
    }
    w->depth--;
    if (!w->is_empty[w->depth]) {
        put_line(w);
    }
    put_char(w, bracket);
}

void qn_json_begin_object(qn_json_writer *writer)
{
    begin_level(writer, '{', WANTS_KEY);
}

void qn_json_end_object(qn_json_writer *writer)
{
    end_level(writer, '}', WANTS_KEY);
}

void qn_json_begin_array(qn_json_writer *writer)
{
    begin_level(writer, '[', IN_ARRAY);
}

void qn_json_end_array(qn_json_writer *writer)
{
    end_level(writer, ']', IN_ARRAY);
}

/* The letter after the backslash of a short escape, or 0. */
static char short_escape(unsigned char c)
{
    switch (c) {
    case '"':
    case '\\':
        return (char)c;
    case '\b':
        return 'b';
    case '\f':
        return 'f';
    case '\n':
        return 'n';
    case '\r':
        return 'r';
    case '\t':
        return 't';
    default:
        return 0;
    }
}

static void put_escape(qn_json_writer *w, unsigned char c)
{
    static const char hex[] = "0123456789abcdef";
    const char letter = short_escape(c);
    if (letter) {
        const char text[2] = {'\\', letter};
        put(w, text, sizeof text);
    } else {
        const char text[6] = {'\\', 'u', '0', '0', hex[c >> 4], hex[c & 15]};
        put(w, text, sizeof text);
    }
}

/* Valid UTF-8 between quotes, escaped where JSON asks for it and nowhere else. */
static void put_utf8(qn_json_writer *w, const char *bytes, size_t n_bytes)
{
    size_t begin = 0;
    for (size_t i = 0; i < n_bytes; i++) {
        const unsigned char c = (unsigned char)bytes[i];
        if (QNI_UNLIKELY(c < 0x20 || c == '"' || c == '\\')) {
            put(w, bytes + begin, i - begin);
            put_escape(w, c);
            begin = i + 1;
        }
    }
    put(w, bytes + begin, n_bytes - begin);
}

static void put_string(qn_json_writer *w, const char *bytes, size_t n_bytes)
{
    static const char replacement[] = "\xEF\xBF\xBD"; /* U+FFFD */
    put_char(w, '"');
    size_t n_good = 0;
    while (!qni_utf8_is_valid(bytes, n_bytes, &n_good)) {
        put_utf8(w, bytes, n_good);
        put(w, replacement, 3);
        bytes += n_good + 1;
        n_bytes -= n_good + 1;
    }
    put_utf8(w, bytes, n_bytes);
    put_char(w, '"');
}

void qn_json_key_bytes(qn_json_writer *writer, const void *name, size_t n_bytes)
{
    if (has_failed(writer)) {
        return;
    }
    if (writer->depth == 0 || writer->state[writer->depth - 1] != WANTS_KEY) {
        fail_order(writer, "a name where a value belongs");
        return;
    }
    put_separator(writer);
    put_string(writer, name, n_bytes);
    put(writer, ": ", writer->indent > 0 ? 2 : 1);
    writer->state[writer->depth - 1] = WANTS_VALUE;
}

void qn_json_key(qn_json_writer *writer, const char *name)
{
    qn_json_key_bytes(writer, name, strlen(name));
}

void qn_json_string_bytes(qn_json_writer *writer, const void *bytes, size_t n_bytes)
{
    if (!bytes) {
        qn_json_null(writer);
    } else if (begin_value(writer)) {
        put_string(writer, bytes, n_bytes);
    }
}

void qn_json_string(qn_json_writer *writer, const char *text)
{
    qn_json_string_bytes(writer, text, text ? strlen(text) : 0);
}

static void put_word(qn_json_writer *w, const char *word)
{
    if (begin_value(w)) {
        put(w, word, strlen(word));
    }
}

void qn_json_i64(qn_json_writer *writer, int64_t value)
{
    char text[24];
    (void)snprintf(text, sizeof text, "%" PRId64, value);
    put_word(writer, text);
}

void qn_json_u64(qn_json_writer *writer, uint64_t value)
{
    char text[24];
    (void)snprintf(text, sizeof text, "%" PRIu64, value);
    put_word(writer, text);
}

void qn_json_f64(qn_json_writer *writer, double value)
{
    char text[QNI_JSON_F64_MAX];
    if (!(value - value == 0)) { /* NaN or infinite */
        qn_json_null(writer);
        return;
    }
    (void)qni_json_format_f64(value, true, text);
    put_word(writer, text);
}

void qn_json_bool(qn_json_writer *writer, bool value)
{
    put_word(writer, value ? "true" : "false");
}

void qn_json_null(qn_json_writer *writer)
{
    put_word(writer, "null");
}

void qn_json_member_string(qn_json_writer *writer, const char *name, const char *text)
{
    qn_json_key(writer, name);
    qn_json_string(writer, text);
}

void qn_json_member_i64(qn_json_writer *writer, const char *name, int64_t value)
{
    qn_json_key(writer, name);
    qn_json_i64(writer, value);
}

void qn_json_member_u64(qn_json_writer *writer, const char *name, uint64_t value)
{
    qn_json_key(writer, name);
    qn_json_u64(writer, value);
}

void qn_json_member_f64(qn_json_writer *writer, const char *name, double value)
{
    qn_json_key(writer, name);
    qn_json_f64(writer, value);
}

void qn_json_member_bool(qn_json_writer *writer, const char *name, bool value)
{
    qn_json_key(writer, name);
    qn_json_bool(writer, value);
}

qn_status qn_json_finish(qn_json_writer *writer, qn_error *err)
{
    if (!has_failed(writer) && (writer->depth > 0 || !writer->has_value)) {
        fail_order(writer, writer->has_value ? "the document ends inside an object or array"
                                             : "the document is empty");
    }
    flush(writer);
    if (has_failed(writer) && err) {
        *err = writer->failure;
    }
    return writer->failure.status;
}
