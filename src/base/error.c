/* error.c — filling a qn_error, status names, and escaping of untrusted bytes. */
#include <errno.h>

#include "base/base.h"

/* what the analyzer is told of them, not they themselves */
#undef qni_fail
#undef qni_fail_errno
#undef qni_fail_memory

typedef struct status_row {
    qn_status status;
    int exit_code;
    const char *name;
    const char *text;
} status_row;

#define QN_STATUS(value, sym, name, exit_code, text) {QN_##sym, exit_code, name, text},
static const status_row status_rows[] = {
#include "base/status.def"
};
#undef QN_STATUS

#define QN_STATUS(value, sym, name, exit_code, text) \
    static_assert(QN_##sym == (value), "enum and status.def disagree: " name);
#include "base/status.def"
#undef QN_STATUS

static const status_row *find_status(qn_status status)
{
    for (size_t i = 0; i < sizeof status_rows / sizeof status_rows[0]; i++) {
        if (status_rows[i].status == status) {
            return &status_rows[i];
        }
    }
    return NULL;
}

const char *qn_status_name(qn_status status)
{
    const status_row *row = find_status(status);
    return row ? row->name : "Unknown";
}

const char *qn_status_text(qn_status status)
{
    const status_row *row = find_status(status);
    return row ? row->text : "no such status";
}

int qn_status_exit_code(qn_status status)
{
    const status_row *row = find_status(status);
    return row ? row->exit_code : 1;
}

const char *qn_version(void)
{
    return QN_VERSION_STRING;
}

static void start_error(qn_error *err, qn_status status, int64_t offset)
{
    err->status = status;
    err->sys_errno = 0;
    err->offset = offset;
    err->tensor_index = -1;
    err->path[0] = '\0';
    err->message[0] = '\0';
}

qn_status qni_fail(qn_error *err, qn_status status, int64_t offset, const char *fmt, ...)
{
    if (err) {
        start_error(err, status, offset);
        va_list args;
        va_start(args, fmt);
        (void)vsnprintf(err->message, sizeof err->message, fmt, args);
        va_end(args);
    }
    return status;
}

static qn_status status_of_errno(int sys_errno)
{
    switch (sys_errno) {
    case ENOMEM:
        return QN_ERR_OUT_OF_MEMORY;
    case EISDIR:
        return QN_ERR_IS_DIR;
    case ENOSPC:
    case EDQUOT:
        return QN_ERR_NO_SPACE;
    default:
        return QN_ERR_IO;
    }
}

qn_status qni_fail_errno(qn_error *err, int sys_errno, const char *path, const char *fmt, ...)
{
    const qn_status status = status_of_errno(sys_errno);
    if (err) {
        start_error(err, status, -1);
        err->sys_errno = sys_errno;
        va_list args;
        va_start(args, fmt);
        int n = vsnprintf(err->message, sizeof err->message, fmt, args);
        va_end(args);
        if (n >= 0 && (size_t)n < sizeof err->message) {
            char reason[96];
            qni_errno_text(sys_errno, reason, sizeof reason);
            (void)snprintf(err->message + n, sizeof err->message - (size_t)n, ": %s", reason);
        }
        if (path) {
            qni_escape(path, (int64_t)strlen(path), err->path, sizeof err->path);
        }
    }
    return status;
}

qn_status qni_fail_memory(qn_error *err, size_t n_bytes)
{
    return qni_fail(err, QN_ERR_OUT_OF_MEMORY, -1, "no memory for %zu bytes", n_bytes);
}

qn_status qni_fail_path(qn_error *err, qn_status status, const char *path)
{
    if (err && status != QN_OK && err->path[0] == '\0' && path) {
        qni_escape(path, (int64_t)strlen(path), err->path, sizeof err->path);
    }
    return status;
}

qn_status qni_fail_tensor(qn_error *err, qn_status status, int64_t tensor_index)
{
    if (err && status != QN_OK && err->tensor_index < 0) {
        err->tensor_index = tensor_index;
    }
    return status;
}

/* Length of the valid UTF-8 sequence at p (1..4), 0 if there is none. Control characters, C1
 * controls and bidirectional overrides count as none: they must not reach a terminal. */
static size_t printable_utf8(const uint8_t *p, size_t n)
{
    if (p[0] < 0x20 || p[0] == 0x7F) {
        return 0;
    }
    if (p[0] < 0x80) {
        return 1;
    }
    const size_t len = p[0] >= 0xF0 ? 4 : p[0] >= 0xE0 ? 3 : 2;
    if (len > n || !qni_utf8_is_valid(p, len, NULL)) {
        return 0;
    }
    uint32_t code = p[0] & (0x7Fu >> len);
    for (size_t i = 1; i < len; i++) {
        code = code << 6 | (p[i] & 0x3Fu);
    }
    const bool is_control = code < 0xA0 || (code >= 0x200E && code <= 0x200F) ||
                            (code >= 0x2028 && code <= 0x202E) ||
                            (code >= 0x2066 && code <= 0x2069) || code == 0xFEFF;
    return is_control ? 0 : len;
}

/* The escaped form of the character at p: its length in `out` (<= 8), bytes used in *out_used. */
static size_t escape_one(const uint8_t *p, size_t n, char out[8], size_t *out_used)
{
    static const char hex[] = "0123456789abcdef";
    *out_used = 1;
    const char *shortcut = p[0] == '\n'   ? "\\n"
                           : p[0] == '\r' ? "\\r"
                           : p[0] == '\t' ? "\\t"
                           : p[0] == '"'  ? "\\\""
                           : p[0] == '\\' ? "\\\\"
                                          : NULL;
    if (shortcut) {
        memcpy(out, shortcut, 2);
        return 2;
    }
    const size_t len = printable_utf8(p, n);
    if (len > 0) {
        memcpy(out, p, len);
        *out_used = len;
        return len;
    }
    out[0] = '\\';
    out[1] = 'x';
    out[2] = hex[p[0] >> 4];
    out[3] = hex[p[0] & 15];
    return 4;
}

const char *qni_escape(const char *bytes, int64_t n_bytes, char *out, size_t n_out)
{
    const uint8_t *p = (const uint8_t *)bytes;
    size_t left = (size_t)n_bytes;
    size_t n = 0;
    size_t n_safe = 0; /* the last end of a piece after which "..." still fits */
    while (left > 0) {
        char piece[8];
        size_t used = 0;
        const size_t len = escape_one(p, left, piece, &used);
        if (n + len + 1 > n_out) {
            memcpy(out + n_safe, "...", 3);
            n = n_safe + 3;
            break;
        }
        memcpy(out + n, piece, len);
        n += len;
        n_safe = n + 4 <= n_out ? n : n_safe;
        p += used;
        left -= used;
    }
    out[n] = '\0';
    return out;
}

const char *qni_escape_name(const char *bytes, int64_t n_bytes, qni_name_text *out)
{
    return qni_escape(bytes, n_bytes, out->text, sizeof out->text);
}
