/* fuzz_safetensors_prefix.c — any bytes as a stream of frames, delivered in pieces of the size that
 * the first byte says: every frame takes exactly its bytes, and memory follows what has arrived. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "quench/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes);

static void require(bool condition, const char *what)
{
    if (!condition) {
        (void)fprintf(stderr, "violated: %s\n", what);
        abort();
    }
}

typedef struct stream {
    const uint8_t *bytes;
    size_t n_left;
    size_t n_most;
} stream;

static qn_status read_some(void *ctx, void *out, size_t n_bytes, size_t *out_n_read, qn_error *err)
{
    stream *s = ctx;
    (void)err;
    size_t n = n_bytes < s->n_left ? n_bytes : s->n_left;
    n = n < s->n_most ? n : s->n_most;
    memcpy(out, s->bytes, n);
    s->bytes += n;
    s->n_left -= n;
    *out_n_read = n;
    return QN_OK;
}

static size_t n_allowed;

static void *bounded_alloc(void *ctx, size_t n_bytes, size_t alignment)
{
    (void)ctx;
    (void)alignment;
    require(n_bytes <= n_allowed, "no allocation beyond what has arrived");
    return malloc(n_bytes);
}

static void bounded_free(void *ctx, void *ptr, size_t n_bytes, size_t alignment)
{
    (void)ctx;
    (void)n_bytes;
    (void)alignment;
    free(ptr);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes)
{
    if (n_bytes < 1) {
        return 0;
    }
    const qn_allocator allocator = {NULL, bounded_alloc, bounded_free};
    qn_safetensors_options options = QN_SAFETENSORS_OPTIONS_INIT;
    options.allocator = &allocator;
    n_allowed = 4 * n_bytes + 256 * 1024;
    stream s = {bytes + 1, n_bytes - 1, (size_t)bytes[0] + 1};
    qn_status status = QN_OK;
    while (status == QN_OK) {
        qn_safetensors *st = NULL;
        const size_t n_before = s.n_left;
        status = qn_safetensors_read_prefix(read_some, &s, &options, &st, NULL);
        if (status == QN_OK) {
            const qn_safetensors_shard *shard = qn_safetensors_shard_at(st, 0);
            require((int64_t)(n_before - s.n_left) == shard->n_bytes, "exactly one frame");
        }
        qn_safetensors_close(st);
    }
    return 0;
}
