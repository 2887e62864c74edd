/* fuzz.h — what the targets share: their entry, the statement of what must hold, an input as a
 * stream, an allocator that refuses what no input of that size needs, files in a folder of their
 * own. */
#ifndef FUZZ_H
#define FUZZ_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "quench/status.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes);

static inline void require(bool condition, const char *what)
{
    if (!condition) {
        (void)fprintf(stderr, "violated: %s\n", what);
        abort();
    }
}

/* So that all bytes are read. */
static inline uint64_t sum_of(const void *bytes, int64_t n)
{
    const uint8_t *p = bytes;
    uint64_t sum = 0;
    for (int64_t i = 0; i < n; i++) {
        sum += p[i];
    }
    return sum;
}

/* --- streams ---------------------------------------------------------------------------------- */

typedef struct stream {
    const uint8_t *bytes;
    size_t n_left;
    size_t n_most; /* that one call gives; 0: any number */
} stream;

static inline qn_status read_some(void *ctx, void *out, size_t n_bytes, size_t *out_n_read,
                                  qn_error *err)
{
    stream *s = ctx;
    size_t n = n_bytes < s->n_left ? n_bytes : s->n_left;
    (void)err;
    n = s->n_most > 0 && s->n_most < n ? s->n_most : n;
    memcpy(out, s->bytes, n);
    s->bytes += n;
    s->n_left -= n;
    *out_n_read = n;
    return QN_OK;
}

/* --- memory ----------------------------------------------------------------------------------- */

/* The context of a bounded allocator is the size_t that no single allocation may be above. */
static inline void *bounded_alloc(void *ctx, size_t n_bytes, size_t alignment)
{
    const size_t *n_allowed = ctx;
    (void)alignment;
    require(n_bytes <= *n_allowed, "no allocation beyond a small multiple of what is there");
    return malloc(n_bytes);
}

static inline void bounded_free(void *ctx, void *ptr, size_t n_bytes, size_t alignment)
{
    (void)ctx;
    (void)n_bytes;
    (void)alignment;
    free(ptr);
}

static inline qn_allocator bounded_allocator(size_t *n_allowed)
{
    return (qn_allocator){n_allowed, bounded_alloc, bounded_free};
}

/* --- files ------------------------------------------------------------------------------------ */

enum { FUZZ_FOLDER_BYTES = 64 };

static inline void make_folder(char out[FUZZ_FOLDER_BYTES])
{
    (void)snprintf(out, FUZZ_FOLDER_BYTES, "%s/quench-fuzz-XXXXXX",
                   access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    require(mkdtemp(out) != NULL, "folder");
}

static inline void write_file(const char *path, const void *bytes, size_t n_bytes)
{
    FILE *file = fopen(path, "wb");
    require(file && fwrite(bytes, 1, n_bytes, file) == n_bytes && fclose(file) == 0, "file");
}

#endif
