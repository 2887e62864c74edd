/* json_string.c — strings: found without copying when they have no escape, else undone into the
 * reader's arena. The text is known to be UTF-8 here. */
#include "json/json_internal.h"

/* Four hexadecimal digits, or -1. */
static int32_t hex4(const char *p, const char *end)
{
    int32_t value = 0;
    if (end - p < 4) {
        return -1;
    }
    for (int i = 0; i < 4; i++) {
        const char c = p[i];
        const int digit = c >= '0' && c <= '9'   ? c - '0'
                          : c >= 'a' && c <= 'f' ? c - 'a' + 10
                          : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                                 : -1;
        if (digit < 0) {
            return -1;
        }
        value = value * 16 + digit;
    }
    return value;
}

static bool is_high_surrogate(int32_t unit)
{
    return unit >= 0xD800 && unit <= 0xDBFF;
}

static bool is_low_surrogate(int32_t unit)
{
    return unit >= 0xDC00 && unit <= 0xDFFF;
}

static char *put_utf8(char *out, int32_t c)
{
    if (c < 0x80) {
        *out++ = (char)c;
        return out;
    }
    if (c < 0x800) {
        *out++ = (char)(0xC0 | c >> 6);
    } else if (c < 0x10000) {
        *out++ = (char)(0xE0 | c >> 12);
        *out++ = (char)(0x80 | (c >> 6 & 0x3F));
    } else {
        *out++ = (char)(0xF0 | c >> 18);
        *out++ = (char)(0x80 | (c >> 12 & 0x3F));
        *out++ = (char)(0x80 | (c >> 6 & 0x3F));
    }
    *out++ = (char)(0x80 | (c & 0x3F));
    return out;
}

/* A \u escape; *p is on its `u`, and behind the escape afterwards. */
static qn_status undo_unicode(const qni_json *r, const char **p, char **out, qn_error *err)
{
    const char *escape = *p - 1;
    int32_t c = hex4(*p + 1, r->end);
    if (c < 0) {
        return qni_json_fail(r, escape, "four hexadecimal digits after \\u", err);
    }
    *p += 5;
    if (is_high_surrogate(c)) {
        const bool has_next = r->end - *p >= 2 && (*p)[0] == '\\' && (*p)[1] == 'u';
        const int32_t low = has_next ? hex4(*p + 2, r->end) : -1;
        if (!is_low_surrogate(low)) {
            return qni_json_fail(r, escape, "a low surrogate after a high one", err);
        }
        c = 0x10000 + ((c - 0xD800) << 10) + (low - 0xDC00);
        *p += 6;
    } else if (is_low_surrogate(c)) {
        return qni_json_fail(r, escape, "no low surrogate without a high one before it", err);
    }
    *out = put_utf8(*out, c);
    return QN_OK;
}

/* An escape; *p is behind its backslash, and behind the escape afterwards. */
static qn_status undo_escape(const qni_json *r, const char **p, char **out, qn_error *err)
{
    static const char names[] = "\"\\/bfnrt";
    static const char values[] = "\"\\/\b\f\n\r\t";
    if (*p == r->end) {
        return qni_json_fail(r, *p, "the rest of an escape", err);
    }
    if (**p == 'u') {
        return undo_unicode(r, p, out, err);
    }
    const char *name = memchr(names, **p, sizeof names - 1);
    if (!name) {
        return qni_json_fail(r, *p - 1, "an escape that JSON knows", err);
    }
    *(*out)++ = values[name - names];
    (*p)++;
    return QN_OK;
}

/* Find the closing quote without undoing anything. */
static qn_status find_end(const qni_json *r, const char *p, const char **out_quote, qn_error *err)
{
    for (;;) {
        p = qni_json_find_special(p, r->end);
        if (p == r->end) {
            return qni_json_fail(r, p, "the closing quote of a string", err);
        }
        if (*p == '"') {
            *out_quote = p;
            return QN_OK;
        }
        if (*p != '\\') {
            return qni_json_fail(r, p, "no bare control character in a string", err);
        }
        if (r->end - p < 2) {
            return qni_json_fail(r, r->end, "the rest of an escape", err);
        }
        p += 2;
    }
}

/* The slow way, for strings with escapes. `first` is the first backslash. */
static qn_status take_escaped(qni_json *r, const char *first, qni_json_text *out_text,
                              qn_error *err)
{
    const char *begin = r->pos + 1;
    const char *quote = NULL;
    QN_TRY(find_end(r, first, &quote, err));
    char *copy = qni_arena_alloc(&r->arena, (size_t)(quote - begin) + 1); /* escapes only shrink */
    if (!copy) {
        return qni_fail_memory(err, (size_t)(quote - begin) + 1);
    }
    char *out = copy;
    const char *p = begin;
    while (p < quote) {
        const char *special = qni_json_find_special(p, quote);
        memcpy(out, p, (size_t)(special - p));
        out += special - p;
        p = special;
        if (p < quote) {
            p++;
            QN_TRY(undo_escape(r, &p, &out, err));
        }
    }
    *out = '\0';
    out_text->bytes = copy;
    out_text->n_bytes = out - copy;
    r->pos = quote + 1;
    return QN_OK;
}

qn_status qni_json_take_string(qni_json *r, qni_json_text *out_text, qn_error *err)
{
    const char *begin = r->pos + 1;
    out_text->offset = qni_json_offset_of(r, r->pos);
    const char *p = qni_json_find_special(begin, r->end);
    if (QNI_LIKELY(p < r->end && *p == '"')) {
        out_text->bytes = begin;
        out_text->n_bytes = p - begin;
        r->pos = p + 1;
        return QN_OK;
    }
    if (p == r->end) {
        return qni_json_fail(r, p, "the closing quote of a string", err);
    }
    if (*p != '\\') {
        return qni_json_fail(r, p, "no bare control character in a string", err);
    }
    return take_escaped(r, p, out_text, err);
}
