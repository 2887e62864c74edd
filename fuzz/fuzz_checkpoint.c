/* fuzz_checkpoint.c — any bytes as an optimizer frame and as trainer_state.json: what is accepted
 * is written again and reads the same; memory follows what has arrived. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "quench/checkpoint.h"

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
} stream;

static qn_status read_some(void *ctx, void *out, size_t n_bytes, size_t *out_n_read, qn_error *err)
{
    stream *s = ctx;
    (void)err;
    *out_n_read = n_bytes < s->n_left ? n_bytes : s->n_left;
    memcpy(out, s->bytes, *out_n_read);
    s->bytes += *out_n_read;
    s->n_left -= *out_n_read;
    return QN_OK;
}

typedef struct sink {
    uint8_t *bytes;
    size_t n_bytes;
    size_t n_max;
} sink;

static qn_status put(void *ctx, const void *bytes, size_t n_bytes, qn_error *err)
{
    sink *s = ctx;
    (void)err;
    require(n_bytes <= s->n_max - s->n_bytes, "no longer than what was read");
    memcpy(s->bytes + s->n_bytes, bytes, n_bytes);
    s->n_bytes += n_bytes;
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

/* The second writing equals the first: a frame may come in a higher version than it needs. */
static void check_optimizer(const uint8_t *bytes, size_t n_bytes)
{
    const qn_allocator allocator = {NULL, bounded_alloc, bounded_free};
    qn_optimizer *o = NULL;
    stream s = {bytes, n_bytes};
    n_allowed = 64 * n_bytes + 256 * 1024;
    if (qn_optimizer_read(read_some, &s, &allocator, &o, NULL) != QN_OK) {
        return;
    }
    sink first = {malloc(n_bytes), 0, n_bytes};
    sink second = {malloc(n_bytes), 0, n_bytes};
    require(qn_optimizer_write(o, put, &first, NULL) == QN_OK, "written");
    qn_optimizer_free(o);
    s = (stream){first.bytes, first.n_bytes};
    require(qn_optimizer_read(read_some, &s, NULL, &o, NULL) == QN_OK && s.n_left == 0,
            "read back");
    require(qn_optimizer_write(o, put, &second, NULL) == QN_OK, "written again");
    require(first.n_bytes == second.n_bytes &&
                memcmp(first.bytes, second.bytes, first.n_bytes) == 0,
            "the same");
    qn_optimizer_free(o);
    free(first.bytes);
    free(second.bytes);
}

static void check_state(const uint8_t *bytes, size_t n_bytes)
{
    static uint8_t room[65536];
    qn_trainer_state state;
    qn_trainer_state back;
    if (qn_trainer_state_parse(bytes, n_bytes, &state, NULL) != QN_OK) {
        return;
    }
    sink s = {room, 0, sizeof room};
    require(qn_trainer_state_write(&state, put, &s, NULL) == QN_OK, "written");
    require(qn_trainer_state_parse(room, s.n_bytes, &back, NULL) == QN_OK, "read back");
    require(back.step == state.step && back.seed == state.seed, "the same");
    for (int i = 0; i < QN_TRAINER_FIELD_LIMIT; i++) {
        require(back.fields[i].is_set == state.fields[i].is_set &&
                    back.fields[i].u == state.fields[i].u && back.fields[i].f == state.fields[i].f,
                "the same fields");
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes)
{
    check_optimizer(bytes, n_bytes);
    check_state(bytes, n_bytes);
    return 0;
}
