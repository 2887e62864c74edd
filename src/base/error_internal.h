/* error_internal.h — how failures are reported: one macro checks, one forwards.
 *
 * Both return at once, for functions that hold nothing. A function that holds something uses the
 * _GOTO forms: they set `st` and jump to the single `done:` that cleans up. */
#ifndef QNI_ERROR_INTERNAL_H
#define QNI_ERROR_INTERNAL_H

#include <inttypes.h>
#include <stdarg.h>

#include "base/compiler_internal.h"
#include "quench/status.h"

/* Fill *err (NULL allowed) and return `status`, never QN_OK. `offset`: byte in the file, or -1. */
qn_status qni_fail(qn_error *err, qn_status status, int64_t offset, const char *fmt, ...)
    QNI_PRINTF(4, 5) QNI_COLD;

/* The same for a failed system call: appends the text of `sys_errno`; the status is
 * QN_ERR_OUT_OF_MEMORY for ENOMEM, QN_ERR_IS_DIR for EISDIR, QN_ERR_NO_SPACE for ENOSPC and EDQUOT,
 * else QN_ERR_IO. */
qn_status qni_fail_errno(qn_error *err, int sys_errno, const char *path, const char *fmt, ...)
    QNI_PRINTF(4, 5) QNI_COLD;

/* No memory for `n_bytes`. */
qn_status qni_fail_memory(qn_error *err, size_t n_bytes) QNI_COLD;

/* The analyzer looks into one file at a time: it is told here that these three never return QN_OK,
 * or it would follow each failure as if it were none, to the outputs that were not made. */
#if defined(__clang_analyzer__)
#define qni_fail(err, status, ...) \
    ((void)qni_fail((err), (status), __VA_ARGS__), (status) != QN_OK ? (status) : QN_ERR_IO)
#define qni_fail_errno(...)  ((void)qni_fail_errno(__VA_ARGS__), QN_ERR_IO)
#define qni_fail_memory(...) ((void)qni_fail_memory(__VA_ARGS__), QN_ERR_OUT_OF_MEMORY)
#endif

/* Name the file of an error that is being passed up, unless it names one already. Returns
 * err->status' counterpart `status` unchanged, so that it can end a function. */
qn_status qni_fail_path(qn_error *err, qn_status status, const char *path) QNI_COLD;

/* Same for the tensor index. */
qn_status qni_fail_tensor(qn_error *err, qn_status status, int64_t tensor_index) QNI_COLD;

/* Untrusted bytes as text for a message: printable ASCII and valid UTF-8 stay, the rest becomes
 * \n, \t, \xNN and so on; quotes and backslashes are escaped; cut with "..." when too long.
 * `out` gets at most QNI_NAME_MAX bytes with the final NUL; returns out. */
#define QNI_NAME_MAX 160
typedef struct qni_name_text {
    char text[QNI_NAME_MAX];
} qni_name_text;
const char *qni_escape_name(const char *bytes, int64_t n_bytes, qni_name_text *out);

/* The general form of it: escape into `out` of `n_out` bytes (>= 8). */
const char *qni_escape(const char *bytes, int64_t n_bytes, char *out, size_t n_out);

#define QN_CHECK(cond, err, status, offset, ...)                     \
    do {                                                             \
        if (QNI_UNLIKELY(!(cond))) {                                 \
            return qni_fail((err), (status), (offset), __VA_ARGS__); \
        }                                                            \
    } while (0)

#define QN_TRY(expr)                                 \
    do {                                             \
        const qn_status qni_try_status = (expr);     \
        if (QNI_UNLIKELY(qni_try_status != QN_OK)) { \
            return qni_try_status;                   \
        }                                            \
    } while (0)

#define QN_CHECK_GOTO(cond, err, status, offset, ...)              \
    do {                                                           \
        if (QNI_UNLIKELY(!(cond))) {                               \
            st = qni_fail((err), (status), (offset), __VA_ARGS__); \
            goto done;                                             \
        }                                                          \
    } while (0)

#define QN_TRY_GOTO(expr)                \
    do {                                 \
        st = (expr);                     \
        if (QNI_UNLIKELY(st != QN_OK)) { \
            goto done;                   \
        }                                \
    } while (0)

#endif
