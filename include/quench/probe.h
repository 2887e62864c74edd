/* probe.h — what a file is, told from its first bytes and never from its name. */
#ifndef QUENCH_PROBE_H
#define QUENCH_PROBE_H

#include "quench/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/** What the first bytes of a file say that it is. */
typedef enum qn_file_kind {
    QN_FILE_UNKNOWN = 0,     /* nothing that is known here */
    QN_FILE_EMPTY = 1,       /* no bytes at all */
    QN_FILE_ZEROS = 2,       /* zero bytes only: a download that reserved its space */
    QN_FILE_GGUF = 3,        /* either byte order */
    QN_FILE_SAFETENSORS = 4, /* a header length, then { */
    QN_FILE_JSON = 5,        /* an object: a shard index, a configuration, an error message */
    QN_FILE_GGML_OLD = 6,    /* GGML, GGMF, GGJT, GGLA: before GGUF */
    QN_FILE_LFS_POINTER = 7, /* a Git LFS pointer */
    QN_FILE_HTML = 8,        /* or XML */
    QN_FILE_ZIP = 9,         /* PyTorch files and .npz are ZIP archives */
    QN_FILE_PICKLE = 10,     /* of Python */
    QN_FILE_COMPRESSED = 11, /* gzip, bzip2, xz, zstd, lz4, 7z */
    QN_FILE_TAR = 12,
    QN_FILE_NPY = 13,
    QN_FILE_HDF5 = 14,
    QN_FILE_PROGRAM = 15 /* ELF, a script */
} qn_file_kind;

/* With this many first bytes the answer is as good as it gets. */
#define QN_PROBE_BYTES 512

/** Tell a file from its first `n_bytes` bytes (fewer only if the file is shorter than
 * QN_PROBE_BYTES). A guess for dispatch and for messages: a reader still checks everything.
 * Threads: any thread; so for both functions. Since 0.1. */
QN_API qn_file_kind qn_probe(const void *bytes, size_t n_bytes);

/** What it is and what to do, for the middle of a message: "a Git LFS pointer, not the file itself:
 * fetch it with `git lfs pull`". Never NULL. Static storage. */
QN_API const char *qn_file_kind_text(qn_file_kind kind);

#ifdef __cplusplus
}
#endif

#endif
