/* test_source.c — any container gives the same view: the same tensors as GGUF, as safetensors and
 * behind an index make the same quantized file; what is no model is said to be what it is. */
#include "model_fixture.h"
#include "quench/safetensors.h"

static const fixture_tensor tensors[] = {
    {"output.weight", QN_DTYPE_F16, {256, 70, 1, 1}, 2},
    {"blk.0.attn_q.weight", QN_DTYPE_F32, {256, 33, 1, 1}, 2},
    {"blk.0.attn_norm.weight", QN_DTYPE_F32, {256, 1, 1, 1}, 1},
    {"blk.1.ffn_down_exps.weight", QN_DTYPE_F16, {512, 31, 3, 1}, 3},
};
enum { N_TENSORS = sizeof tensors / sizeof tensors[0] };

/* Tensors first .. first + n - 1 with the values that write_model() gives them. */
static void write_safetensors(const char *path, int first, int n)
{
    qn_safetensors_writer *writer;
    void *data[N_TENSORS] = {NULL};
    assert_int_equal(qn_safetensors_writer_new(NULL, &writer, NULL), QN_OK);
    for (int i = first; i < first + n; i++) {
        const fixture_tensor *t = &tensors[i];
        const int64_t n_elems = elems_of(t);
        int64_t shape[4];
        qn_safetensors_dtype dtype;
        for (int32_t d = 0; d < t->n_dims; d++) {
            shape[d] = t->ne[t->n_dims - 1 - d];
        }
        data[i] = fixture_values(t, n_elems, (uint64_t)i + 1, -1);
        assert_int_equal(qn_safetensors_dtype_from_core(t->dtype, &dtype, NULL), QN_OK);
        assert_int_equal(qn_safetensors_writer_add(writer, t->name, (int64_t)strlen(t->name), dtype,
                                                   shape, t->n_dims, data[i],
                                                   n_elems * qn_dtype_block_bytes(t->dtype), NULL),
                         QN_OK);
    }
    assert_int_equal(qn_safetensors_writer_save_atomic(writer, path, NULL), QN_OK);
    qn_safetensors_writer_free(writer);
    for (int i = 0; i < N_TENSORS; i++) {
        free(data[i]);
    }
}

static void write_text(const char *path, const char *text)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fputs(text, file) >= 0, 1);
    assert_int_equal(fclose(file), 0);
}

static void quantize(const char *in, const char *metadata_from, const char *out)
{
    qn_model_options options = QN_MODEL_OPTIONS_INIT;
    options.metadata_from = metadata_from;
    qn_model *model;
    qn_error err = QN_ERROR_INIT;
    if (qn_model_open(in, &options, &model, &err) != QN_OK) {
        fail_msg("%s: %s", in, err.message);
    }
    qn_plan *plan = plan_preset(model, "Q4_K_M", NULL);
    if (qn_plan_run(plan, out, NULL, NULL, &err) != QN_OK) {
        fail_msg("%s: %s", in, err.message);
    }
    qn_plan_free(plan);
    qn_model_close(model);
}

static void safetensors_make_the_same_file(void **state)
{
    (void)state;
    char folder[PATH_BYTES], gguf[PATH_BYTES], single[PATH_BYTES], index[PATH_BYTES];
    char part[PATH_BYTES], first[PATH_BYTES], out[PATH_BYTES];
    new_folder(folder);
    write_model(in_folder(folder, "in.gguf", gguf), tensors, N_TENSORS, -1, -1);
    quantize(gguf, NULL, in_folder(folder, "first.gguf", first));

    write_safetensors(in_folder(folder, "in.safetensors", single), 0, N_TENSORS);
    in_folder(folder, "out.gguf", out);
    quantize(single, gguf, out);
    assert_same_files(first, out);

    write_safetensors(in_folder(folder, "part-1.safetensors", part), 0, 2);
    write_safetensors(in_folder(folder, "part-2.safetensors", part), 2, N_TENSORS - 2);
    write_text(in_folder(folder, "model.safetensors.index.json", index),
               "{\"weight_map\": {\"output.weight\": \"part-1.safetensors\","
               "\"blk.0.attn_q.weight\": \"part-1.safetensors\","
               "\"blk.0.attn_norm.weight\": \"part-2.safetensors\","
               "\"blk.1.ffn_down_exps.weight\": \"part-2.safetensors\"}}");
    quantize(index, gguf, out);
    assert_same_files(first, out);
    remove_folder(folder);
}

static void without_metadata(void **state)
{
    (void)state;
    char folder[PATH_BYTES], path[PATH_BYTES];
    new_folder(folder);
    write_safetensors(in_folder(folder, "in.safetensors", path), 0, 2);
    qn_model *model = open_model(path);
    assert_null(qn_model_metadata(model));
    assert_int_equal(qn_model_container(model), QN_CONTAINER_SAFETENSORS);
    qn_quantize_options options = QN_QUANTIZE_OPTIONS_INIT;
    options.preset = 7;
    qn_plan *plan;
    qn_error err = QN_ERROR_INIT;
    assert_int_equal(qn_plan_quantize(model, &options, &plan, &err), QN_ERR_INVALID_METADATA);
    assert_non_null(strstr(err.message, "metadata"));
    qn_model_close(model);
    remove_folder(folder);
}

static void reading_stays_inside(void **state)
{
    (void)state;
    char folder[PATH_BYTES], path[PATH_BYTES];
    new_folder(folder);
    write_model(in_folder(folder, "in.gguf", path), tensors, N_TENSORS, -1, -1);
    qn_model *model = open_model(path);
    const int64_t at = qn_model_find(model, "blk.0.attn_norm.weight", 22);
    assert_int_equal(at, 2);
    assert_int_equal(qn_model_find(model, "nothing", 7), -1);
    uint8_t bytes[1024];
    assert_int_equal(qn_model_read(model, at, 0, 1024, bytes, NULL), QN_OK);
    assert_int_equal(qn_model_read(model, at, 1, 1024, bytes, NULL), QN_ERR_INVALID_ARGUMENT);
    assert_int_equal(qn_model_read(model, at, -1, 4, bytes, NULL), QN_ERR_INVALID_ARGUMENT);
    assert_int_equal(qn_model_read(model, at, INT64_MAX, 4, bytes, NULL), QN_ERR_INVALID_ARGUMENT);
    assert_int_equal(qn_model_read(model, 99, 0, 4, bytes, NULL), QN_ERR_INVALID_ARGUMENT);
    assert_null(qn_model_tensor(model, -1));
    assert_null(qn_model_shard_path(model, 1));
    assert_int_equal(qn_model_shard_bytes(model, 1), -1);
    qn_model_close(model);
    remove_folder(folder);
}

typedef struct no_model {
    const char *text; /* NULL: no file at all */
    qn_status expected;
    const char *word;
} no_model;

static void what_is_no_model(void **state)
{
    (void)state;
    static const no_model cases[] = {
        {NULL, QN_ERR_IO, "No such file"},
        {"", QN_ERR_NOT_A_MODEL, "empty"},
        {"some text\n", QN_ERR_NOT_A_MODEL, "GGUF"},
        {"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", QN_ERR_NOT_A_MODEL, "LFS"},
        {"<!DOCTYPE html><html></html>", QN_ERR_NOT_A_MODEL, "HTML"},
        {"PK\3\4", QN_ERR_NOT_A_MODEL, "ZIP"},
    };
    char folder[PATH_BYTES], path[PATH_BYTES];
    new_folder(folder);
    in_folder(folder, "in.gguf", path);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        if (cases[i].text != NULL) {
            write_text(path, cases[i].text);
        }
        qn_model *model;
        qn_error err = QN_ERROR_INIT;
        assert_int_equal(qn_model_open(path, NULL, &model, &err), cases[i].expected);
        assert_null(model);
        assert_string_equal(err.path, path);
        if (strstr(err.message, cases[i].word) == NULL) {
            fail_msg("case %zu: %s", i, err.message);
        }
    }
    qn_model *model;
    assert_int_equal(qn_model_open(folder, NULL, &model, NULL), QN_ERR_IS_DIR);
    remove_folder(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(safetensors_make_the_same_file),
        cmocka_unit_test(without_metadata),
        cmocka_unit_test(reading_stays_inside),
        cmocka_unit_test(what_is_no_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
