/* test_plan_read.c — plans that only look: the bytes of the file, in order, whatever the threads;
 * values checked or not; tensors picked by number. */
#include "model_fixture.h"

static const fixture_tensor tensors[] = {
    {"a.weight", QN_DTYPE_F16, {576, 150, 1, 1}, 2},
    {"b.weight", QN_DTYPE_F32, {256, 33, 1, 1}, 2},
    {"c.weight", QN_DTYPE_F32, {7, 1, 1, 1}, 1},
};
enum { N_TENSORS = sizeof tensors / sizeof tensors[0] };

/* All bytes handed out, one item after the other. */
typedef struct collected {
    uint8_t *bytes;
    size_t n_bytes;
    int64_t last_item;
} collected;

static void collect(void *ctx, int64_t item, const void *bytes, size_t n_bytes)
{
    collected *to = ctx;
    assert_true(item >= to->last_item);
    to->last_item = item;
    to->bytes = realloc(to->bytes, to->n_bytes + n_bytes);
    assert_non_null(to->bytes);
    memcpy(to->bytes + to->n_bytes, bytes, n_bytes);
    to->n_bytes += n_bytes;
}

static qn_status run_read(const qn_model *model, const int64_t *picks, int64_t n_picks,
                          bool do_validate, int n_threads, collected *out, qn_error *err)
{
    qn_plan *plan = NULL;
    qn_run_options options = QN_RUN_OPTIONS_INIT;
    options.n_threads = n_threads;
    options.memory_bytes = 256 << 10;
    options.on_item_bytes = collect;
    options.bytes_ctx = out;
    *out = (collected){NULL, 0, 0};
    assert_int_equal(qn_plan_read(model, picks, n_picks, do_validate, NULL, &plan, err), QN_OK);
    assert_int_equal(qn_plan_n_outputs(plan), 0);
    const qn_status st = qn_plan_run(plan, NULL, &options, NULL, err);
    qn_plan_free(plan);
    return st;
}

/* The bytes of a tensor as the file has them. */
static void assert_tensor(const char *path, const qn_tensor_info *info, const uint8_t *bytes)
{
    int64_t n_file;
    uint8_t *file = read_file(path, &n_file);
    assert_true(info->file_offset + info->n_bytes <= n_file);
    assert_memory_equal(bytes, file + info->file_offset, (size_t)info->n_bytes);
    qni_free(NULL, file, (size_t)n_file);
}

static void hands_out_the_bytes_of_the_file(void **state)
{
    (void)state;
    static const int64_t picks[] = {2, 0};
    static const int threads[] = {1, 3};
    char folder[PATH_BYTES], path[PATH_BYTES];
    new_folder(folder);
    write_model(in_folder(folder, "in.gguf", path), tensors, N_TENSORS, -1, -1);
    qn_model *model = open_model(path);
    for (int t = 0; t < 2; t++) {
        collected all, some;
        assert_int_equal(run_read(model, NULL, 0, true, threads[t], &all, NULL), QN_OK);
        size_t at = 0;
        for (int64_t i = 0; i < N_TENSORS; i++) {
            assert_tensor(path, qn_model_tensor(model, i), all.bytes + at);
            at += (size_t)qn_model_tensor(model, i)->n_bytes;
        }
        assert_int_equal(at, all.n_bytes);
        assert_int_equal(run_read(model, picks, 2, false, threads[t], &some, NULL), QN_OK);
        assert_tensor(path, qn_model_tensor(model, 2), some.bytes);
        assert_tensor(path, qn_model_tensor(model, 0),
                      some.bytes + qn_model_tensor(model, 2)->n_bytes);
        free(all.bytes);
        free(some.bytes);
    }
    qn_model_close(model);
    remove_folder(folder);
}

static void checks_values_only_when_asked(void **state)
{
    (void)state;
    char folder[PATH_BYTES], path[PATH_BYTES];
    qn_error err = QN_ERROR_INIT;
    collected out;
    new_folder(folder);
    write_model(in_folder(folder, "in.gguf", path), tensors, N_TENSORS, 1, 300);
    qn_model *model = open_model(path);
    assert_int_equal(run_read(model, NULL, 0, false, 2, &out, &err), QN_OK);
    free(out.bytes);
    assert_int_equal(run_read(model, NULL, 0, true, 2, &out, &err), QN_ERR_NON_FINITE_VALUE);
    free(out.bytes);
    assert_int_equal(err.tensor_index, 1);
    /* element 300 of rows of 256 */
    assert_non_null(strstr(err.message, "b.weight: row 1, column 44"));
    qn_model_close(model);
    remove_folder(folder);
}

static void refuses_tensors_that_are_not_there(void **state)
{
    (void)state;
    static const int64_t picks[] = {0, N_TENSORS};
    static const int64_t negative[] = {-1};
    char folder[PATH_BYTES], path[PATH_BYTES];
    qn_plan *plan = NULL;
    new_folder(folder);
    write_model(in_folder(folder, "in.gguf", path), tensors, N_TENSORS, -1, -1);
    qn_model *model = open_model(path);
    assert_int_equal(qn_plan_read(model, picks, 2, false, NULL, &plan, NULL),
                     QN_ERR_INVALID_ARGUMENT);
    assert_null(plan);
    assert_int_equal(qn_plan_read(model, negative, 1, false, NULL, &plan, NULL),
                     QN_ERR_INVALID_ARGUMENT);
    qn_model_close(model);
    remove_folder(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hands_out_the_bytes_of_the_file),
        cmocka_unit_test(checks_values_only_when_asked),
        cmocka_unit_test(refuses_tensors_that_are_not_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
