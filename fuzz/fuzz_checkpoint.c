/* fuzz_checkpoint.c — any bytes as an optimizer frame and as trainer_state.json: what is accepted
 * is written again and reads the same; memory follows what has arrived. */
#include "fuzz.h"

#include "quench/checkpoint.h"

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

/* The second writing equals the first: a frame may come in a higher version than it needs. */
static void check_optimizer(const uint8_t *bytes, size_t n_bytes)
{
    size_t n_allowed = 64 * n_bytes + 256 * 1024;
    const qn_allocator allocator = bounded_allocator(&n_allowed);
    qn_optimizer *o = NULL;
    stream s = {bytes, n_bytes, 0};
    if (qn_optimizer_read(read_some, &s, &allocator, &o, NULL) != QN_OK) {
        return;
    }
    sink first = {malloc(n_bytes), 0, n_bytes};
    sink second = {malloc(n_bytes), 0, n_bytes};
    require(qn_optimizer_write(o, put, &first, NULL) == QN_OK, "written");
    qn_optimizer_free(o);
    s = (stream){first.bytes, first.n_bytes, 0};
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
