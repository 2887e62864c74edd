/* test_resume.c — a run that was stopped goes on from its journal, and only where it may. */
#include <fcntl.h>

#include "model_fixture.h"

static const fixture_tensor tensors[] = {
    {"output_norm.weight", QN_DTYPE_F32, {256, 1, 1, 1}, 1},
    {"output.weight", QN_DTYPE_F16, {256, 700, 1, 1}, 2},
    {"blk.0.attn_q.weight", QN_DTYPE_F32, {256, 333, 1, 1}, 2},
    {"blk.0.attn_k.weight", QN_DTYPE_F16, {576, 100, 1, 1}, 2},
    {"blk.0.attn_norm.weight", QN_DTYPE_F32, {20000, 1, 1, 1}, 1},
    {"blk.1.ffn_down_exps.weight", QN_DTYPE_F16, {512, 31, 5, 1}, 3},
};
enum { N_TENSORS = sizeof tensors / sizeof tensors[0] };

typedef struct place {
    char folder[PATH_BYTES];
    char in[PATH_BYTES];
    char out[PATH_BYTES];
    char whole[PATH_BYTES];
    char part[PATH_BYTES];
    char journal[PATH_BYTES];
    qn_model *model;
    qn_plan *plan;
} place;

static void enter(place *p)
{
    new_folder(p->folder);
    in_folder(p->folder, "in.gguf", p->in);
    in_folder(p->folder, "out.gguf", p->out);
    in_folder(p->folder, "whole.gguf", p->whole);
    in_folder(p->folder, "out.gguf.quench-part", p->part);
    in_folder(p->folder, "out.gguf.quench-journal", p->journal);
    write_model(p->in, tensors, N_TENSORS, -1, -1);
    p->model = open_model(p->in);
    p->plan = plan_preset(p->model, "Q4_K_M", NULL);
    assert_int_equal(qn_plan_run(p->plan, p->whole, NULL, NULL, NULL), QN_OK);
}

static void leave(place *p)
{
    qn_plan_free(p->plan);
    qn_model_close(p->model);
    remove_folder(p->folder);
}

static bool stop_after(void *ctx, int64_t done, int64_t total)
{
    int *n_left = ctx;
    (void)done;
    (void)total;
    return --*n_left >= 0;
}

static qn_status run_resumable(const qn_plan *plan, const char *out, int n_calls, int n_threads,
                               qn_run_stats *stats, qn_error *err)
{
    qn_run_options options = QN_RUN_OPTIONS_INIT;
    options.do_resume = true;
    options.n_threads = n_threads;
    options.memory_bytes = n_threads * 32 << 10;
    options.progress = n_calls >= 0 ? stop_after : NULL;
    options.progress_ctx = &n_calls;
    return qn_plan_run(plan, out, &options, stats, err);
}

static void stopped_anywhere(void **state)
{
    (void)state;
    place p;
    enter(&p);
    qn_run_stats all, rest;
    assert_int_equal(run_resumable(p.plan, p.out, -1, 1, &all, NULL), QN_OK);
    assert_int_equal(count_files(p.folder), 3);
    int n_stopped = 0;
    int n_shorter = 0;
    for (int n_calls = 0; n_calls < all.n_chunks + 9; n_calls += 1 + n_calls / 8) {
        (void)unlink(p.out);
        /* one thread: its progress is told after every chunk, so it stops where it should */
        const qn_status st = run_resumable(p.plan, p.out, n_calls, 1, NULL, NULL);
        if (st == QN_ERR_CANCELLED) {
            n_stopped++;
            assert_int_equal(access(p.out, F_OK), -1);
            assert_int_equal(access(p.part, F_OK), 0);
            assert_int_equal(run_resumable(p.plan, p.out, -1, 3 - n_calls % 3, &rest, NULL), QN_OK);
            n_shorter += rest.n_bytes_read < all.n_bytes_read;
        } else {
            assert_int_equal(st, QN_OK);
        }
        assert_same_files(p.out, p.whole);
        assert_int_equal(count_files(p.folder), 3);
    }
    assert_true(n_stopped > 8);
    assert_true(n_shorter > 5);
    leave(&p);
}

/* Stop a run in the middle. */
static void stop(place *p)
{
    (void)unlink(p->out);
    assert_int_equal(run_resumable(p->plan, p->out, 30, 1, NULL, NULL), QN_ERR_CANCELLED);
    assert_int_equal(access(p->journal, F_OK), 0);
}

static void overwrite(const char *path, off_t at, const char *text)
{
    const int fd = open(path, O_WRONLY);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, text, strlen(text), at), (ssize_t)strlen(text));
    assert_int_equal(close(fd), 0);
}

static void other_options_are_refused(void **state)
{
    (void)state;
    place p;
    enter(&p);
    stop(&p);
    qn_plan *other = plan_preset(p.model, "Q8_0", NULL);
    qn_error err = QN_ERROR_INIT;
    assert_int_equal(run_resumable(other, p.out, -1, 1, NULL, &err), QN_ERR_STALE_JOURNAL);
    assert_non_null(strstr(err.message, "other options"));
    qn_plan_free(other);
    /* the refusal has not spoilt what was there */
    assert_int_equal(run_resumable(p.plan, p.out, -1, 1, NULL, NULL), QN_OK);
    assert_same_files(p.out, p.whole);
    leave(&p);
}

static void a_changed_input_is_refused(void **state)
{
    (void)state;
    place p;
    enter(&p);
    stop(&p);
    const struct timespec times[2] = {{1000000000, 5}, {1000000000, 5}};
    assert_int_equal(utimensat(AT_FDCWD, p.in, times, 0), 0);
    qn_error err = QN_ERROR_INIT;
    assert_int_equal(run_resumable(p.plan, p.out, -1, 1, NULL, &err), QN_ERR_STALE_JOURNAL);
    assert_non_null(strstr(err.message, "input has changed"));
    leave(&p);
}

static void a_damaged_journal_is_refused(void **state)
{
    (void)state;
    place p;
    enter(&p);
    stop(&p);
    overwrite(p.journal, 3, "?");
    qn_error err = QN_ERROR_INIT;
    assert_int_equal(run_resumable(p.plan, p.out, -1, 1, NULL, &err), QN_ERR_STALE_JOURNAL);
    leave(&p);
}

/* Bytes that did not reach the disk, a line that was cut: made again. */
static void lost_bytes_are_made_again(void **state)
{
    (void)state;
    place p;
    enter(&p);
    stop(&p);
    qn_plan_item item;
    assert_true(qn_plan_item_at(p.plan, 0, &item));
    overwrite(p.part, (off_t)item.target->file_offset + 100, "lost");
    assert_int_equal(run_resumable(p.plan, p.out, -1, 2, NULL, NULL), QN_OK);
    assert_same_files(p.out, p.whole);
    stop(&p);
    struct stat info;
    assert_int_equal(stat(p.journal, &info), 0);
    assert_int_equal(truncate(p.journal, info.st_size - 7), 0);
    assert_int_equal(run_resumable(p.plan, p.out, -1, 2, NULL, NULL), QN_OK);
    assert_same_files(p.out, p.whole);
    stop(&p);
    assert_int_equal(truncate(p.part, 3000), 0);
    assert_int_equal(run_resumable(p.plan, p.out, -1, 2, NULL, NULL), QN_OK);
    assert_same_files(p.out, p.whole);
    stop(&p);
    assert_int_equal(unlink(p.part), 0);
    assert_int_equal(run_resumable(p.plan, p.out, -1, 2, NULL, NULL), QN_OK);
    assert_same_files(p.out, p.whole);
    assert_int_equal(count_files(p.folder), 3);
    leave(&p);
}

static void bad_data_keeps_nothing(void **state)
{
    (void)state;
    place p;
    enter(&p);
    qn_plan_free(p.plan);
    qn_model_close(p.model);
    write_model(p.in, tensors, N_TENSORS, 2, 7);
    p.model = open_model(p.in);
    p.plan = plan_preset(p.model, "Q4_K_M", NULL);
    assert_int_equal(run_resumable(p.plan, p.out, -1, 1, NULL, NULL), QN_ERR_NON_FINITE_VALUE);
    assert_int_equal(count_files(p.folder), 2);
    leave(&p);
}

/* A digest of a resumed run covers what the first run has written, too. */
static void count_bytes(void *ctx, int32_t output, const void *bytes, size_t n_bytes)
{
    uint64_t *hash = ctx;
    (void)output;
    for (size_t i = 0; i < n_bytes; i++) {
        *hash = (*hash ^ ((const uint8_t *)bytes)[i]) * 0x100000001b3u;
    }
}

static void a_digest_covers_the_resumed_part(void **state)
{
    (void)state;
    place p;
    enter(&p);
    stop(&p);
    uint64_t resumed = 7;
    uint64_t expected = 7;
    qn_run_options options = QN_RUN_OPTIONS_INIT;
    options.do_resume = true;
    options.n_threads = 2;
    options.on_output_bytes = count_bytes;
    options.bytes_ctx = &resumed;
    qn_run_stats stats;
    assert_int_equal(qn_plan_run(p.plan, p.out, &options, &stats, NULL), QN_OK);
    int64_t n_bytes;
    uint8_t *bytes = read_file(p.whole, &n_bytes);
    count_bytes(&expected, 0, bytes, (size_t)n_bytes);
    assert_true(resumed == expected);
    qni_free(NULL, bytes, (size_t)n_bytes);
    leave(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stopped_anywhere),
        cmocka_unit_test(other_options_are_refused),
        cmocka_unit_test(a_changed_input_is_refused),
        cmocka_unit_test(a_damaged_journal_is_refused),
        cmocka_unit_test(lost_bytes_are_made_again),
        cmocka_unit_test(bad_data_keeps_nothing),
        cmocka_unit_test(a_digest_covers_the_resumed_part),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
