/* test_stream.c — the executor: the same bytes whatever the threads and the memory, nothing left
 * behind by a run that fails, states in their order. */
#include "model_fixture.h"

/* Rows that divide into large blocks and rows that do not; more rows than a chunk holds; a vector.
 */
static const fixture_tensor tensors[] = {
    {"output_norm.weight", QN_DTYPE_F32, {256, 1, 1, 1}, 1},
    {"token_embd.weight", QN_DTYPE_F16, {576, 1500, 1, 1}, 2},
    {"output.weight", QN_DTYPE_F16, {256, 700, 1, 1}, 2},
    {"blk.0.attn_norm.weight", QN_DTYPE_F32, {256, 1, 1, 1}, 1},
    {"blk.0.attn_q.weight", QN_DTYPE_F32, {256, 333, 1, 1}, 2},
    {"blk.0.ffn_down_exps.weight", QN_DTYPE_F16, {512, 31, 5, 1}, 3},
    {"blk.1.ffn_up.weight", QN_DTYPE_F16, {4096, 64, 1, 1}, 2},
};
enum { N_TENSORS = sizeof tensors / sizeof tensors[0], ATTN_Q = 4 };

typedef struct place {
    char folder[PATH_BYTES];
    char in[PATH_BYTES];
    char out[PATH_BYTES];
    qn_model *model;
} place;

static void enter(place *p, int bad_tensor, int64_t bad_at)
{
    new_folder(p->folder);
    in_folder(p->folder, "in.gguf", p->in);
    in_folder(p->folder, "out.gguf", p->out);
    write_model(p->in, tensors, N_TENSORS, bad_tensor, bad_at);
    p->model = open_model(p->in);
}

static void leave(place *p)
{
    qn_model_close(p->model);
    remove_folder(p->folder);
}

static qn_status run_plan(const qn_plan *plan, const char *out, int n_threads, int64_t n_memory,
                          qn_error *err)
{
    qn_run_options options = QN_RUN_OPTIONS_INIT;
    options.n_threads = n_threads;
    options.memory_bytes = n_memory;
    options.no_sync = true;
    return qn_plan_run(plan, out, &options, NULL, err);
}

static void must_run(const qn_plan *plan, const char *out, int n_threads, int64_t n_memory)
{
    qn_error err = QN_ERROR_INIT;
    if (run_plan(plan, out, n_threads, n_memory, &err) != QN_OK) {
        fail_msg("%d threads, %" PRId64 " bytes: %s", n_threads, n_memory, err.message);
    }
}

static void same_bytes_for_threads_and_memory(void **state)
{
    (void)state;
    static const char *const presets[] = {"Q8_0", "Q4_K_M", "Q4_0", "F32", "COPY"};
    static const int threads[] = {1, 2, 3, 8};
    /* from one row of the longest tensor at a time to everything at once */
    static const int64_t memory[] = {64 << 10, 300000, 8 << 20, 1 << 30};
    place p;
    enter(&p, -1, -1);
    for (size_t k = 0; k < sizeof presets / sizeof presets[0]; k++) {
        qn_plan *plan = plan_preset(p.model, presets[k], NULL);
        char first[PATH_BYTES];
        must_run(plan, in_folder(p.folder, "first.gguf", first), 1, 0);
        for (size_t t = 0; t < 4; t++) {
            for (size_t m = 0; m < 4; m++) {
                must_run(plan, p.out, threads[t], memory[m]);
                assert_same_files(first, p.out);
            }
        }
        qn_plan_free(plan);
    }
    leave(&p);
}

static void the_plan_knows_every_byte(void **state)
{
    (void)state;
    place p;
    enter(&p, -1, -1);
    qn_plan *plan = plan_preset(p.model, "Q4_K_M", NULL);
    must_run(plan, p.out, 2, 0);
    int64_t n_bytes, n_header;
    uint8_t *bytes = read_file(p.out, &n_bytes);
    qn_plan_output output;
    assert_true(qn_plan_output_at(plan, 0, &output));
    assert_int_equal(output.n_bytes, n_bytes);
    const void *header = qn_plan_output_header(plan, 0, &n_header);
    assert_memory_equal(header, bytes, (size_t)n_header);
    qn_gguf *gguf;
    assert_int_equal(qn_gguf_open(p.out, NULL, &gguf, NULL), QN_OK);
    qn_plan_item item;
    for (int64_t i = 0; qn_plan_item_at(plan, i, &item); i++) {
        const qn_tensor_info *t = qn_gguf_tensor(gguf, i);
        assert_int_equal(t->n_name, item.target->n_name);
        assert_memory_equal(t->name, item.target->name, (size_t)t->n_name);
        assert_int_equal(t->dtype, item.target->dtype);
        assert_int_equal(t->file_offset, item.target->file_offset);
        assert_non_null(item.rule);
    }
    qn_gguf_close(gguf);
    qni_free(NULL, bytes, (size_t)n_bytes);
    qn_plan_free(plan);
    leave(&p);
}

/* --- failures ----------------------------------------------------------------------------------
 */

static void a_bad_value_leaves_nothing(void **state)
{
    (void)state;
    static const char *const presets[] = {"Q8_0", "COPY", "F16"};
    for (size_t k = 0; k < sizeof presets / sizeof presets[0]; k++) {
        place p;
        enter(&p, ATTN_Q, 256 * 300 + 17); /* row 300, column 17 */
        qn_plan *plan = plan_preset(p.model, presets[k], NULL);
        for (int n_threads = 1; n_threads <= 5; n_threads += 2) {
            qn_error err = QN_ERROR_INIT;
            assert_int_equal(run_plan(plan, p.out, n_threads, 0, &err), QN_ERR_NON_FINITE_VALUE);
            assert_non_null(strstr(err.message, "blk.0.attn_q.weight"));
            assert_non_null(strstr(err.message, "300"));
            assert_non_null(strstr(err.message, "17"));
            assert_string_equal(err.path, p.in);
            assert_int_equal(count_files(p.folder), 1);
        }
        qn_plan_free(plan);
        leave(&p);
    }
}

static void a_value_too_large_is_refused(void **state)
{
    (void)state;
    place p;
    new_folder(p.folder);
    in_folder(p.folder, "in.gguf", p.in);
    in_folder(p.folder, "out.gguf", p.out);
    float x[256 * 2] = {0};
    x[256 + 3] = 7e4f; /* finite, but not in f16 */
    to_file_order(x, 256 * 2);
    qn_gguf_writer *writer;
    const int64_t ne[] = {256, 2};
    assert_int_equal(qn_gguf_writer_new(NULL, &writer, NULL), QN_OK);
    assert_int_equal(qn_gguf_writer_set_string(writer, "general.architecture", "llama", 5, NULL),
                     QN_OK);
    assert_int_equal(
        qn_gguf_writer_add(writer, "a.weight", 8, QN_DTYPE_F32, ne, 2, x, sizeof x, NULL), QN_OK);
    assert_int_equal(qn_gguf_writer_finish_path(writer, p.in, NULL), QN_OK);
    qn_gguf_writer_free(writer);
    p.model = open_model(p.in);
    qn_plan *plan = plan_preset(p.model, "F16", NULL);
    qn_error err = QN_ERROR_INIT;
    assert_int_equal(run_plan(plan, p.out, 1, 0, &err), QN_ERR_SCALE_OVERFLOW);
    assert_non_null(strstr(err.message, "a.weight"));
    assert_int_equal(count_files(p.folder), 1);
    qn_plan_free(plan);
    leave(&p);
}

static void the_output_is_never_the_input(void **state)
{
    (void)state;
    place p;
    enter(&p, -1, -1);
    qn_plan *plan = plan_preset(p.model, "Q8_0", NULL);
    char path[PATH_BYTES], soft[PATH_BYTES], hard[PATH_BYTES];
    (void)snprintf(path, sizeof path, "./%.400s/../%.64s/in.gguf", p.folder, p.folder);
    assert_int_equal(symlink("in.gguf", in_folder(p.folder, "soft.gguf", soft)), 0);
    assert_int_equal(link(p.in, in_folder(p.folder, "hard.gguf", hard)), 0);
    const char *const names[] = {p.in, path, soft, hard};
    int64_t n_before, n_after;
    uint8_t *before = read_file(p.in, &n_before);
    for (int i = 0; i < 4; i++) {
        qn_error err = QN_ERROR_INIT;
        assert_int_equal(run_plan(plan, names[i], 1, 0, &err), QN_ERR_SAME_FILE);
    }
    uint8_t *after = read_file(p.in, &n_after);
    assert_int_equal(n_before, n_after);
    assert_memory_equal(before, after, (size_t)n_before);
    qni_free(NULL, before, (size_t)n_before);
    qni_free(NULL, after, (size_t)n_after);
    qn_plan_free(plan);
    leave(&p);
}

static void too_little_memory_names_the_row(void **state)
{
    (void)state;
    place p;
    enter(&p, -1, -1);
    qn_plan *plan = plan_preset(p.model, "Q8_0", NULL);
    qn_error err = QN_ERROR_INIT;
    assert_int_equal(run_plan(plan, p.out, 1, 20000, &err), QN_ERR_MEMORY_BUDGET);
    assert_non_null(strstr(err.message, "blk.1.ffn_up.weight"));
    assert_int_equal(count_files(p.folder), 1);
    qn_plan_free(plan);
    leave(&p);
}

typedef struct watcher {
    const char *path; /* to be cut to nothing, or NULL: cancel */
    int n_calls;
    int64_t last;
} watcher;

static bool interfere(void *ctx, int64_t done, int64_t total)
{
    watcher *w = ctx;
    assert_true(done >= w->last && done <= total);
    w->last = done;
    if (++w->n_calls == 2 && w->path != NULL) {
        assert_int_equal(truncate(w->path, 1000), 0);
    }
    return w->path != NULL || w->n_calls < 3;
}

static qn_status run_watched(const qn_plan *plan, const char *out, watcher *w, qn_error *err)
{
    qn_run_options options = QN_RUN_OPTIONS_INIT;
    options.n_threads = 1; /* so that progress is told after every chunk */
    options.memory_bytes = 128 << 10;
    options.progress = interfere;
    options.progress_ctx = w;
    return qn_plan_run(plan, out, &options, NULL, err);
}

static void a_shrinking_input_is_an_error(void **state)
{
    (void)state;
    place p;
    enter(&p, -1, -1);
    qn_plan *plan = plan_preset(p.model, "Q8_0", NULL);
    watcher w = {p.in, 0, 0};
    qn_error err = QN_ERROR_INIT;
    assert_int_equal(run_watched(plan, p.out, &w, &err), QN_ERR_FILE_CHANGED);
    assert_int_equal(count_files(p.folder), 1);
    qn_plan_free(plan);
    leave(&p);
}

static void cancelling_leaves_nothing(void **state)
{
    (void)state;
    place p;
    enter(&p, -1, -1);
    qn_plan *plan = plan_preset(p.model, "Q8_0", NULL);
    watcher w = {NULL, 0, 0};
    qn_error err = QN_ERROR_INIT;
    assert_int_equal(run_watched(plan, p.out, &w, &err), QN_ERR_CANCELLED);
    assert_int_equal(count_files(p.folder), 1);
    qn_plan_free(plan);
    leave(&p);
}

static void a_failure_keeps_the_old_output(void **state)
{
    (void)state;
    place p;
    enter(&p, ATTN_Q, 5);
    FILE *old = fopen(p.out, "wb");
    assert_non_null(old);
    assert_int_equal(fwrite("old", 1, 3, old), 3);
    assert_int_equal(fclose(old), 0);
    qn_plan *plan = plan_preset(p.model, "Q8_0", NULL);
    assert_int_equal(run_plan(plan, p.out, 2, 0, NULL), QN_ERR_NON_FINITE_VALUE);
    int64_t n_bytes;
    uint8_t *bytes = read_file(p.out, &n_bytes);
    assert_int_equal(n_bytes, 3);
    assert_memory_equal(bytes, "old", 3);
    qni_free(NULL, bytes, 3);
    assert_int_equal(count_files(p.folder), 2);
    qn_plan_free(plan);
    leave(&p);
}

static void paths_that_cannot_be_written(void **state)
{
    (void)state;
    place p;
    enter(&p, -1, -1);
    qn_plan *plan = plan_preset(p.model, "Q8_0", NULL);
    char path[PATH_BYTES];
    assert_int_equal(run_plan(plan, in_folder(p.folder, "none/out.gguf", path), 1, 0, NULL),
                     QN_ERR_IO);
    assert_int_equal(run_plan(plan, p.folder, 1, 0, NULL), QN_ERR_IS_DIR);
    assert_int_equal(run_plan(plan, NULL, 1, 0, NULL), QN_ERR_INVALID_ARGUMENT);
    assert_int_equal(count_files(p.folder), 1);
    qn_plan_free(plan);
    leave(&p);
}

/* --- steps -------------------------------------------------------------------------------------
 */

static void steps_in_any_order(void **state)
{
    (void)state;
    place p;
    enter(&p, -1, -1);
    qn_plan *plan = plan_preset(p.model, "Q4_K_M", NULL);
    char whole[PATH_BYTES];
    must_run(plan, in_folder(p.folder, "whole.gguf", whole), 1, 0);
    qn_run_options options = QN_RUN_OPTIONS_INIT;
    options.n_threads = 2;
    qn_run *run;
    assert_int_equal(qn_run_begin(plan, p.out, &options, &run, NULL), QN_OK);
    assert_int_equal(qn_run_range(run, 4, 3, NULL), QN_OK);
    assert_int_equal(qn_run_commit(run, NULL), QN_ERR_INVALID_STATE);
    assert_int_equal(qn_run_range(run, 0, 4, NULL), QN_OK);
    assert_int_equal(qn_run_range(run, 2, 1, NULL), QN_ERR_INVALID_STATE);
    assert_int_equal(qn_run_range(run, 0, 8, NULL), QN_ERR_INVALID_ARGUMENT);
    assert_int_equal(access(p.out, F_OK), -1);
    assert_int_equal(qn_run_commit(run, NULL), QN_OK);
    assert_int_equal(qn_run_commit(run, NULL), QN_ERR_INVALID_STATE);
    qn_run_free(run);
    assert_same_files(whole, p.out);
    qn_plan_free(plan);
    leave(&p);
}

static void checking_writes_nothing(void **state)
{
    (void)state;
    place p;
    enter(&p, ATTN_Q, 5);
    qn_plan *plan = plan_preset(p.model, "Q8_0", NULL);
    qn_run_options options = QN_RUN_OPTIONS_INIT;
    options.is_check_only = true;
    assert_int_equal(qn_plan_run(plan, NULL, &options, NULL, NULL), QN_ERR_NON_FINITE_VALUE);
    assert_int_equal(qn_plan_run(plan, p.out, &options, NULL, NULL), QN_ERR_NON_FINITE_VALUE);
    assert_int_equal(count_files(p.folder), 1);
    qn_plan_free(plan);
    leave(&p);
}

/* --- order: digests and reports -----------------------------------------------------------------
 */

typedef struct collected {
    uint8_t *bytes;
    int64_t n_bytes;
    int64_t n_max;
    int64_t n_item_bytes;
} collected;

static void collect(void *ctx, int32_t output, const void *bytes, size_t n_bytes)
{
    collected *c = ctx;
    assert_int_equal(output, 0);
    assert_true(c->n_bytes + (int64_t)n_bytes <= c->n_max);
    memcpy(c->bytes + c->n_bytes, bytes, n_bytes);
    c->n_bytes += (int64_t)n_bytes;
}

static void count_item(void *ctx, int64_t item, const void *bytes, size_t n_bytes)
{
    collected *c = ctx;
    (void)item;
    (void)bytes;
    c->n_item_bytes += (int64_t)n_bytes;
}

static void output_bytes_come_in_order(void **state)
{
    (void)state;
    place p;
    enter(&p, -1, -1);
    qn_plan *plan = plan_preset(p.model, "Q4_K_M", NULL);
    qn_plan_output output;
    qn_plan_totals totals;
    assert_true(qn_plan_output_at(plan, 0, &output));
    qn_plan_totals_of(plan, &totals);
    for (int n_threads = 1; n_threads <= 5; n_threads += 2) {
        collected c = {.bytes = malloc((size_t)output.n_bytes), .n_max = output.n_bytes};
        assert_non_null(c.bytes);
        qn_run_options options = QN_RUN_OPTIONS_INIT;
        options.n_threads = n_threads;
        options.memory_bytes = 256 << 10;
        options.on_output_bytes = collect;
        options.on_item_bytes = count_item;
        options.bytes_ctx = &c;
        assert_int_equal(qn_plan_run(plan, p.out, &options, NULL, NULL), QN_OK);
        int64_t n_bytes;
        uint8_t *bytes = read_file(p.out, &n_bytes);
        assert_int_equal(c.n_bytes, n_bytes);
        assert_memory_equal(c.bytes, bytes, (size_t)n_bytes);
        assert_int_equal(c.n_item_bytes, totals.n_target_bytes);
        qni_free(NULL, bytes, (size_t)n_bytes);
        free(c.bytes);
    }
    qn_plan_free(plan);
    leave(&p);
}

static void run_for_errors(const qn_plan *plan, const char *out, int n_threads, int64_t n_memory,
                           qn_item_errors *errors)
{
    qn_run_options options = QN_RUN_OPTIONS_INIT;
    options.n_threads = n_threads;
    options.memory_bytes = n_memory;
    options.want_errors = true;
    qn_run *run;
    assert_int_equal(qn_run_begin(plan, out, &options, &run, NULL), QN_OK);
    assert_int_equal(qn_run_range(run, 0, qn_plan_n_items(plan), NULL), QN_OK);
    assert_int_equal(qn_run_commit(run, NULL), QN_OK);
    for (int64_t i = 0; i < qn_plan_n_items(plan); i++) {
        assert_true(qn_run_item_errors(run, i, &errors[i]));
    }
    qn_run_free(run);
}

/* Only that the figures do not depend on threads and chunks; their values: tests/parity. */
static void errors_do_not_depend_on_threads(void **state)
{
    (void)state;
    place p;
    enter(&p, -1, -1);
    qn_plan *plan = plan_preset(p.model, "Q4_K_M", NULL);
    qn_item_errors first[N_TENSORS], other[N_TENSORS];
    run_for_errors(plan, p.out, 1, 0, first);
    for (int n_threads = 2; n_threads <= 8; n_threads += 3) {
        run_for_errors(plan, p.out, n_threads, n_threads == 5 ? 300000 : 8 << 20, other);
        assert_memory_equal(first, other, sizeof first);
    }
    for (int i = 0; i < N_TENSORS; i++) {
        qn_plan_item item;
        assert_true(qn_plan_item_at(plan, i, &item));
        const bool is_copy = item.recipe == QN_RECIPE_COPY;
        assert_int_equal(first[i].rmse == 0, is_copy);
        assert_true(first[i].cosine > 0.99 && first[i].cosine <= 1.0 + 1e-12);
        assert_int_equal(first[i].n_elems * (int64_t)sizeof(float) > 0, true);
    }
    qn_plan_free(plan);
    leave(&p);
}

/* --- several files ------------------------------------------------------------------------------
 */

static void shards_load_as_one_model(void **state)
{
    (void)state;
    place p;
    enter(&p, -1, -1);
    qn_quantize_options options = QN_QUANTIZE_OPTIONS_INIT;
    options.split_max_tensors = 3;
    qn_plan *plan = plan_preset(p.model, "Q8_0", &options);
    assert_int_equal(qn_plan_n_outputs(plan), 3);
    must_run(plan, p.out, 2, 0);
    char path[PATH_BYTES], single[PATH_BYTES];
    assert_int_equal(qn_plan_output_path(plan, 0, p.out, path, sizeof path, NULL), QN_OK);
    assert_non_null(strstr(path, "out-00001-of-00003.gguf"));
    qn_plan_free(plan);

    qn_plan *whole = plan_preset(p.model, "Q8_0", NULL);
    must_run(whole, in_folder(p.folder, "whole.gguf", single), 1, 0);
    qn_plan_free(whole);
    qn_model *split = open_model(path);
    assert_int_equal(qn_model_n_shards(split), 3);
    qn_plan *joined = plan_preset(split, "COPY", NULL);
    must_run(joined, p.out, 1, 0);
    assert_same_files(single, p.out);
    qn_plan_free(joined);
    qn_model_close(split);
    leave(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_bytes_for_threads_and_memory),
        cmocka_unit_test(the_plan_knows_every_byte),
        cmocka_unit_test(a_bad_value_leaves_nothing),
        cmocka_unit_test(a_value_too_large_is_refused),
        cmocka_unit_test(the_output_is_never_the_input),
        cmocka_unit_test(too_little_memory_names_the_row),
        cmocka_unit_test(a_shrinking_input_is_an_error),
        cmocka_unit_test(cancelling_leaves_nothing),
        cmocka_unit_test(a_failure_keeps_the_old_output),
        cmocka_unit_test(paths_that_cannot_be_written),
        cmocka_unit_test(steps_in_any_order),
        cmocka_unit_test(checking_writes_nothing),
        cmocka_unit_test(output_bytes_come_in_order),
        cmocka_unit_test(errors_do_not_depend_on_threads),
        cmocka_unit_test(shards_load_as_one_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
