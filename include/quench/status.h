/* status.h — results, errors, memory and callbacks that every part of the API shares.
 *
 * Every function that can fail returns a qn_status and takes a `qn_error *` last; NULL is allowed
 * there. The error is caller-owned and fixed in size, so running out of memory can be reported.
 * It is written only on failure.
 *
 * Ownership words used in all doc comments: owns (you free it with the named function), borrowed
 * (valid until the named handle is closed), fills (your buffer), takes (ours after success, still
 * yours after failure), keeps (you must keep it alive until the named call).
 * Thread words: any thread (const use of an open handle), one at a time (per handle), once. */
#ifndef QUENCH_STATUS_H
#define QUENCH_STATUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "quench/version.h"

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define QN_API       __attribute__((visibility("default")))
#define QN_NODISCARD __attribute__((warn_unused_result))
#else
#define QN_API
#define QN_NODISCARD
#endif

/* The numeric values are part of the ABI: they never change, and new ones are only added.
 * What each one means, and the exit status of the command, stands in src/base/status.def. */
typedef enum qn_status {
    QN_OK = 0,

    /* the caller, the machine, the operating system */
    QN_ERR_INVALID_ARGUMENT = 1,
    QN_ERR_OUT_OF_MEMORY = 2,
    QN_ERR_IO = 3,
    QN_ERR_CANCELLED = 4,
    QN_ERR_INVALID_STATE = 5,
    QN_ERR_OVERFLOW = 6,
    QN_ERR_END_OF_STREAM = 7,
    QN_ERR_IS_DIR = 8,
    QN_ERR_SAME_FILE = 9,
    QN_ERR_UNSUPPORTED = 10,
    QN_ERR_MEMORY_BUDGET = 11,
    QN_ERR_FILE_CHANGED = 12,
    QN_ERR_NOT_A_MODEL = 13,
    QN_ERR_NO_SPACE = 14,
    QN_ERR_FILE_IN_USE = 15,
    QN_ERR_PATCH_PENDING = 16,
    QN_ERR_NO_ROOM = 17,

    /* dtypes and codecs */
    QN_ERR_UNSUPPORTED_DTYPE = 100,
    QN_ERR_INVALID_SHAPE = 101,
    QN_ERR_INVALID_DATA_LENGTH = 102,
    QN_ERR_NON_FINITE_VALUE = 103,
    QN_ERR_ENCODER_UNAVAILABLE = 104,
    QN_ERR_DECODER_UNAVAILABLE = 105,
    QN_ERR_MISSING_WEIGHTS = 106,
    QN_ERR_SCALE_OVERFLOW = 107,
    QN_ERR_ENCODE_FAILED = 108,
    QN_ERR_UNKNOWN_ISA = 109,
    QN_ERR_INVALID_BLOCK = 110,

    /* GGUF */
    QN_ERR_INVALID_MAGIC = 200,
    QN_ERR_UNSUPPORTED_VERSION = 201,
    QN_ERR_UNSUPPORTED_VALUE_TYPE = 202,
    QN_ERR_INVALID_TENSOR_INFO = 203,
    QN_ERR_TENSOR_NOT_FOUND = 204,
    QN_ERR_DUPLICATE_TENSOR_NAME = 205,
    QN_ERR_DUPLICATE_METADATA_KEY = 206,
    QN_ERR_KEY_NOT_FOUND = 207,
    QN_ERR_INVALID_ALIGNMENT = 208,
    QN_ERR_TENSOR_DATA_MISSING = 209,
    QN_ERR_METADATA_VALUE_OUT_OF_RANGE = 210,
    QN_ERR_METADATA_TYPE_MISMATCH = 211,
    QN_ERR_INVALID_METADATA = 212,
    QN_ERR_INVALID_SPLIT = 213,
    QN_ERR_STRICT = 214,

    /* JSON and safetensors */
    QN_ERR_INVALID_JSON = 300,
    QN_ERR_HEADER_TOO_SMALL = 301,
    QN_ERR_HEADER_TOO_LARGE = 302,
    QN_ERR_INVALID_HEADER_LENGTH = 303,
    QN_ERR_INVALID_HEADER = 304,
    QN_ERR_INVALID_HEADER_DESERIALIZATION = 305,
    QN_ERR_INVALID_TENSOR_NAME = 306,
    QN_ERR_VALIDATION_OVERFLOW = 307,
    QN_ERR_INVALID_OFFSET = 308,
    QN_ERR_MISALIGNED_SLICE = 309,
    QN_ERR_TENSOR_INVALID_INFO = 310,
    QN_ERR_METADATA_INCOMPLETE_BUFFER = 311,
    QN_ERR_INVALID_SLICE = 312,
    QN_ERR_INVALID_INDEX = 313,

    /* products */
    QN_ERR_GRADIENT_QUANTIZED_MATMUL_UNSUPPORTED = 400,
    QN_ERR_INVALID_QUANTIZED_LENGTH = 401,
    QN_ERR_SHAPE_MISMATCH = 402,
    QN_ERR_TYPE_MISMATCH = 403,

    /* plans: policies, matrices, recipes, adapters */
    QN_ERR_INVALID_IMATRIX = 500,
    QN_ERR_INVALID_PATTERN = 501,
    QN_ERR_UNMATCHED_PATTERN = 502,
    QN_ERR_INVALID_RECIPE = 503,
    QN_ERR_REQUANTIZE_REFUSED = 504,
    QN_ERR_UNKNOWN_PRESET = 505,
    QN_ERR_NO_FALLBACK = 506,
    QN_ERR_STALE_JOURNAL = 507,
    QN_ERR_INVALID_ADAPTER = 508,
    QN_ERR_UNSUPPORTED_ADAPTER = 509,
    QN_ERR_INVALID_PLANE_COUNT = 510,
    QN_ERR_INVALID_PLANE_SET = 511,
    QN_ERR_LIMIT_EXCEEDED = 512,

    /* checkpoints */
    QN_ERR_INVALID_TRAINER_STATE = 600,
    QN_ERR_UNSUPPORTED_TRAINER_STATE_VERSION = 601,
    QN_ERR_CHECKPOINT_INVALID_NAME = 602,
    QN_ERR_CHECKPOINT_DUPLICATE_NAME = 603,
    QN_ERR_CHECKPOINT_UNKNOWN_NAME = 604,
    QN_ERR_CHECKPOINT_MISSING_ENTRY = 605,
    QN_ERR_CHECKPOINT_SHAPE_MISMATCH = 606,
    QN_ERR_CHECKPOINT_DTYPE_MISMATCH = 607,
    QN_ERR_CHECKPOINT_UNSUPPORTED_DTYPE = 608,
    QN_ERR_CHECKPOINT_MAGIC_MISMATCH = 609,
    QN_ERR_CHECKPOINT_CONFIG_MISMATCH = 610,
    QN_ERR_CHECKPOINT_TOO_MANY_ENTRIES = 611
} qn_status;

/** What went wrong, where, and what to do about it. Text from files is already escaped in it. */
typedef struct qn_error {
    qn_status status;     /* QN_OK until a call fails */
    int sys_errno;        /* errno of the failed system call, or 0 */
    int64_t offset;       /* byte offset in the file, or -1 */
    int64_t tensor_index; /* index of the tensor concerned, or -1 */
    char path[512];       /* file concerned, cut if longer; "" if none */
    char message[768];    /* what was found, what was expected, what to do; one line */
} qn_error;

/* A qn_error before use. */
#define QN_ERROR_INIT            \
    {                            \
        QN_OK, 0, -1, -1, "", "" \
    }

/** The seed's name of a status without the QN_ERR_ prefix, in its spelling ("InvalidTensorInfo").
 * Never NULL; "Unknown" for a value that is none. Static storage. Threads: any thread. */
QN_API const char *qn_status_name(qn_status status);

/** One sentence on when a status occurs. Never NULL. Static storage. Threads: any thread. */
QN_API const char *qn_status_text(qn_status status);

/** The exit status that the command uses for it: 0 done, 1 failed, 2 bad usage. */
QN_API int qn_status_exit_code(qn_status status);

/** The version of the library at run time, "MAJOR.MINOR.PATCH". Static storage. */
QN_API const char *qn_version(void);

/** Where memory comes from. `free` gets back the size and alignment that `alloc` was given.
 * A NULL `qn_allocator *` anywhere in the API means malloc and free. Both functions may be called
 * from several threads at once. `alloc` returns NULL when it has no memory. */
typedef struct qn_allocator {
    void *ctx;
    void *(*alloc)(void *ctx, size_t n_bytes, size_t alignment);
    void (*free)(void *ctx, void *ptr, size_t n_bytes, size_t alignment);
} qn_allocator;

/** Progress of a long job: `done` of `total` in units that the caller documents.
 * Called from one thread at a time, in order. Return false to cancel: the job then fails with
 * QN_ERR_CANCELLED and leaves nothing behind. */
typedef bool (*qn_progress_fn)(void *ctx, int64_t done, int64_t total);

typedef enum qn_log_level { QN_LOG_DEBUG = 0, QN_LOG_INFO = 1, QN_LOG_WARNING = 2 } qn_log_level;

/** A message for people: one line, no final newline, untrusted text already escaped.
 * Called from one thread at a time. */
typedef void (*qn_log_fn)(void *ctx, qn_log_level level, const char *message);

/** A sink for bytes that come in order: takes all n_bytes or fails, filling `err` (may be NULL).
 * Called from one thread at a time. */
typedef qn_status (*qn_write_fn)(void *ctx, const void *bytes, size_t n_bytes, qn_error *err);

/** A stream of bytes: puts up to n_bytes (at least 1) into `out` and their number into *out_n_read,
 * 0 at the end of the stream; or fails, filling `err` (may be NULL). Called from one thread at a
 * time. */
typedef qn_status (*qn_read_fn)(void *ctx, void *out, size_t n_bytes, size_t *out_n_read,
                                qn_error *err);

#ifdef __cplusplus
}
#endif

#endif
