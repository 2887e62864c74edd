/* test_st_files.c — files and sharded models: three ways to open, what is missing or cut, and
 * looking at damaged ones. */
#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include "st_support.h"

typedef qn_status (*open_fn)(const char *path, const qn_safetensors_options *options,
                             qn_safetensors **out_st, qn_error *err);
static const open_fn openers[] = {qn_safetensors_open, qn_safetensors_load,
                                  qn_safetensors_load_mmap};
#define N_OPENERS 3

static void write_file(const char *path, const void *bytes, size_t n_bytes)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, n_bytes, file), n_bytes);
    assert_int_equal(fclose(file), 0);
}

/* One file of a single tensor `name` of n_data bytes 0, 1, 2, ..., cut to n_cut bytes less. */
static void write_shard(const char *path, const char *name, size_t n_data, size_t n_cut)
{
    char header[256];
    (void)snprintf(header, sizeof header,
                   "{\"%s\":{\"dtype\":\"U8\",\"shape\":[%zu],\"data_offsets\":[0,%zu]}}", name,
                   n_data, n_data);
    size_t n_bytes = 0;
    uint8_t *bytes = st_build(header, strlen(header), n_data, &n_bytes);
    write_file(path, bytes, n_bytes - n_cut);
    free(bytes);
}

static void write_text(const char *path, const char *text)
{
    write_file(path, text, strlen(text));
}

static void opens_three_ways(void **state)
{
    (void)state;
    write_shard("one.safetensors", "t", 1000, 0);
    for (int i = 0; i < N_OPENERS; i++) {
        qn_safetensors *st = NULL;
        assert_int_equal(openers[i]("one.safetensors", NULL, &st, NULL), QN_OK);
        qn_safetensors_tensor t;
        assert_int_equal(qn_safetensors_get(st, "t", &t, NULL), QN_OK);
        assert_true((t.data == NULL) == (i == 0));
        uint8_t out[16];
        assert_int_equal(qn_safetensors_read(st, 0, 300, sizeof out, out, NULL), QN_OK);
        for (int k = 0; k < 16; k++) {
            assert_int_equal(out[k], (uint8_t)(300 + k));
        }
        assert_string_equal(qn_safetensors_shard_at(st, 0)->path, "one.safetensors");
        qn_safetensors_close(st);
    }
    /* a file that is cut while it is open */
    qn_safetensors *st = NULL;
    uint8_t out[1000];
    assert_int_equal(qn_safetensors_open("one.safetensors", NULL, &st, NULL), QN_OK);
    assert_int_equal(truncate("one.safetensors", 100), 0);
    assert_int_equal(qn_safetensors_read(st, 0, 0, 1000, out, NULL), QN_ERR_FILE_CHANGED);
    qn_safetensors_close(st);
    (void)unlink("one.safetensors");
}

/* A header that is longer than what is read at first. */
static void opens_long_headers(void **state)
{
    (void)state;
    enum { N = 2000 };
    char *header = malloc(N * 100);
    assert_non_null(header);
    size_t n = 0;
    for (int i = 0; i < N; i++) {
        n += (size_t)snprintf(header + n, 100,
                              "%c\"layer.%d.weight\":{\"dtype\":\"U8\",\"shape\":[1],"
                              "\"data_offsets\":[%d,%d]}",
                              i == 0 ? '{' : ',', i, i, i + 1);
    }
    header[n++] = '}';
    size_t n_bytes = 0;
    uint8_t *bytes = st_build(header, n, N, &n_bytes);
    write_file("long.safetensors", bytes, n_bytes);
    for (int i = 0; i < N_OPENERS; i++) {
        qn_safetensors *st = NULL;
        assert_int_equal(openers[i]("long.safetensors", NULL, &st, NULL), QN_OK);
        assert_int_equal(qn_safetensors_n_tensors(st), N);
        const int64_t index = qn_safetensors_find(st, "layer.1234.weight", 17);
        assert_int_equal(index, 1234);
        uint8_t out = 0;
        assert_int_equal(qn_safetensors_read(st, index, 0, 1, &out, NULL), QN_OK);
        assert_int_equal(out, (uint8_t)1234);
        qn_safetensors_close(st);
    }
    bytes[8 + n - 2] = '?'; /* the last bracket but one */
    write_file("long.safetensors", bytes, n_bytes);
    for (int i = 0; i < N_OPENERS; i++) {
        qn_safetensors *st = NULL;
        qn_error err = QN_ERROR_INIT;
        assert_int_equal(openers[i]("long.safetensors", NULL, &st, &err),
                         QN_ERR_INVALID_HEADER_DESERIALIZATION);
        assert_int_equal(err.offset, 8 + n - 2);
        assert_string_equal(err.path, "long.safetensors");
        assert_null(st);
    }
    free(bytes);
    free(header);
    (void)unlink("long.safetensors");
}

static void refuses_other_things(void **state)
{
    (void)state;
    (void)mkdir("folder.safetensors", 0777);
    write_text("lfs.safetensors",
               "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n");
    write_text("empty.safetensors", "");
    write_text("error.safetensors", "{\"error\":\"Repository not found\"}");
    write_file("array.safetensors", "\x08\0\0\0\0\0\0\0[1,2,3,]", 16);
    for (int i = 0; i < N_OPENERS; i++) {
        qn_safetensors *st = NULL;
        qn_error err = QN_ERROR_INIT;
        assert_int_equal(openers[i]("none.safetensors", NULL, &st, &err), QN_ERR_IO);
        assert_int_equal(err.sys_errno, ENOENT);
        assert_int_equal(openers[i]("folder.safetensors", NULL, &st, &err), QN_ERR_IS_DIR);
        assert_int_equal(openers[i]("lfs.safetensors", NULL, &st, &err), QN_ERR_NOT_A_MODEL);
        assert_non_null(strstr(err.message, "Git LFS pointer"));
        assert_string_equal(err.path, "lfs.safetensors");
        assert_int_equal(openers[i]("empty.safetensors", NULL, &st, &err), QN_ERR_HEADER_TOO_SMALL);
        assert_int_equal(openers[i]("error.safetensors", NULL, &st, &err), QN_ERR_INVALID_INDEX);
        assert_int_equal(openers[i]("array.safetensors", NULL, &st, &err), QN_ERR_INVALID_HEADER);
        assert_null(st);
    }
    (void)rmdir("folder.safetensors");
    (void)unlink("lfs.safetensors");
    (void)unlink("empty.safetensors");
    (void)unlink("error.safetensors");
    (void)unlink("array.safetensors");
}

/* --- shards ----------------------------------------------------------------------------------- */

static int n_warnings;
static char last_warning[768];

static void count_warning(void *ctx, qn_log_level level, const char *message)
{
    (void)ctx;
    (void)level;
    n_warnings++;
    (void)snprintf(last_warning, sizeof last_warning, "%s", message);
}

static void write_model(size_t n_cut)
{
    (void)mkdir("model", 0777);
    write_shard("model/m-1.safetensors", "a", 10, 0);
    write_shard("model/m-2.safetensors", "b", 20, n_cut);
    write_text("model/m.safetensors.index.json",
               "{\"metadata\":{\"total_size\":30,\"other\":1.5},"
               "\"weight_map\":{\"b\":\"m-2.safetensors\",\"a\":\"m-1.safetensors\"},\"x\":[]}\n");
}

static void remove_model(void)
{
    (void)unlink("model/m-1.safetensors");
    (void)unlink("model/m-2.safetensors");
    (void)unlink("model/m.safetensors.index.json");
    (void)rmdir("model");
}

static void opens_shards(void **state)
{
    (void)state;
    write_model(0);
    for (int i = 0; i < N_OPENERS; i++) {
        qn_safetensors *st = NULL;
        qn_safetensors_options options = QN_SAFETENSORS_OPTIONS_INIT;
        options.log = count_warning;
        n_warnings = 0;
        qn_error err = QN_ERROR_INIT;
        if (openers[i]("model/m.safetensors.index.json", &options, &st, &err) != QN_OK) {
            fail_msg("%s", err.message);
        }
        assert_int_equal(n_warnings, 0);
        assert_true(qn_safetensors_is_sharded(st));
        assert_int_equal(qn_safetensors_total_size(st), 30);
        assert_int_equal(qn_safetensors_n_shards(st), 2);
        assert_string_equal(qn_safetensors_shard_at(st, 0)->path, "model/m-2.safetensors");
        assert_int_equal(qn_safetensors_n_tensors(st), 2);
        qn_safetensors_tensor t;
        assert_true(qn_safetensors_tensor_at(st, 0, &t)); /* the index's order */
        assert_memory_equal(t.name, "b", 1);
        assert_int_equal(t.shard, 0);
        assert_int_equal(qn_safetensors_find(st, "a", 1), 1);
        assert_int_equal(qn_safetensors_find(st, "c", 1), -1);
        uint8_t out[10];
        assert_int_equal(qn_safetensors_read(st, 1, 0, 10, out, NULL), QN_OK);
        assert_int_equal(out[9], 9);
        qn_tensor_info info;
        assert_int_equal(qn_safetensors_tensor_info(st, 0, &info, NULL), QN_ERR_UNSUPPORTED_DTYPE);
        qn_safetensors_close(st);
    }
    remove_model();
}

typedef struct index_case {
    const char *text;
    qn_status status;
    int64_t offset;
} index_case;

static const index_case index_cases[] = {
    {"{", QN_ERR_HEADER_TOO_SMALL, 1},
    {"{\"weight_map\":{\"a\"", QN_ERR_INVALID_INDEX, 18},
    {"{\"weights\":{}}", QN_ERR_INVALID_INDEX, 0},
    {"{\"weight_map\":{}}", QN_ERR_INVALID_INDEX, 0},
    {"{\"weight_map\":[]}", QN_ERR_INVALID_INDEX, 14},
    {"{\"weight_map\":{\"a\":1}}", QN_ERR_INVALID_INDEX, 19},
    {"{\"weight_map\":{\"a\":\"\"}}", QN_ERR_INVALID_INDEX, 19},
    {"{\"weight_map\":{\"a\":\"../m-1.safetensors\"}}", QN_ERR_INVALID_INDEX, 19},
    {"{\"weight_map\":{\"a\":\"/etc/passwd\"}}", QN_ERR_INVALID_INDEX, 19},
    {"{\"weight_map\":{\"a\":\"x\\\\y\"}}", QN_ERR_INVALID_INDEX, 19},
    {"{\"weight_map\":{\"a\":\"x\\u0000\"}}", QN_ERR_INVALID_INDEX, 19},
    {"{\"weight_map\":{\"a\":\"m-1.safetensors\",\"a\":\"m-1.safetensors\"}}", QN_ERR_INVALID_INDEX,
     37},
    {"{\"weight_map\":{\"b\":\"m-1.safetensors\"}}", QN_ERR_INVALID_INDEX, 15},
    {"{\"weight_map\":{\"a\":\"m-1.safetensors\"},\"weight_map\":{}}", QN_ERR_INVALID_INDEX, 38},
    {"{\"weight_map\":{\"a\":\"m-9.safetensors\"}}", QN_ERR_IO, -1},
    {"{\"weight_map\":{\"a\":\".\"}}", QN_ERR_IS_DIR, -1},
    {"{\"metadata\":7,\"weight_map\":{\"a\":\"m-1.safetensors\"}}", QN_OK, 0},
    {"{\"metadata\":{\"total_size\":10.0},\"weight_map\":{\"a\":\"m-1.safetensors\"}}", QN_OK, 0},
    {"{\"metadata\":{\"total_size\":-1},\"weight_map\":{\"a\":\"m-1.safetensors\"}}", QN_OK, 0},
};

static void checks_indices(void **state)
{
    (void)state;
    write_model(0);
    for (size_t i = 0; i < sizeof index_cases / sizeof index_cases[0]; i++) {
        const index_case *c = &index_cases[i];
        write_text("model/m.safetensors.index.json", c->text);
        qn_safetensors *st = NULL;
        qn_error err = QN_ERROR_INIT;
        const qn_status status =
            qn_safetensors_open("model/m.safetensors.index.json", NULL, &st, &err);
        if (status != c->status || (status != QN_OK && err.offset != c->offset)) {
            fail_msg("%s: %s at %lld (%s)", c->text, qn_status_name(status), (long long)err.offset,
                     err.message);
        }
        if (status == QN_OK) {
            assert_int_equal(qn_safetensors_total_size(st), -1);
        }
        qn_safetensors_close(st);
    }
    remove_model();
}

static void warns_about_the_rest(void **state)
{
    (void)state;
    write_model(0);
    qn_safetensors_options options = QN_SAFETENSORS_OPTIONS_INIT;
    options.log = count_warning;
    qn_safetensors *st = NULL;
    static const char header[] = "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
                                 "\"c\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]}}";
    size_t n_bytes = 0;
    uint8_t *bytes = st_build(header, sizeof header - 1, 2, &n_bytes);
    write_file("model/m-1.safetensors", bytes, n_bytes);
    free(bytes);
    write_text("model/m.safetensors.index.json",
               "{\"metadata\":{\"total_size\":2},\"weight_map\":{\"a\":\"m-1.safetensors\"}}");
    n_warnings = 0;
    assert_int_equal(qn_safetensors_open("model/m.safetensors.index.json", &options, &st, NULL),
                     QN_OK);
    assert_int_equal(n_warnings, 2); /* c is not listed; the total is another */
    assert_non_null(strstr(last_warning, "total_size"));
    assert_int_equal(qn_safetensors_n_tensors(st), 1);
    assert_int_equal(qn_safetensors_find(st, "c", 1), -1);
    qn_safetensors_close(st);
    remove_model();
}

static void names_missing_and_short_shards(void **state)
{
    (void)state;
    for (int i = 0; i < N_OPENERS; i++) {
        qn_safetensors *st = NULL;
        qn_error err = QN_ERROR_INIT;
        write_model(7);
        assert_int_equal(openers[i]("model/m.safetensors.index.json", NULL, &st, &err),
                         QN_ERR_METADATA_INCOMPLETE_BUFFER);
        assert_string_equal(err.path, "model/m-2.safetensors");
        assert_non_null(strstr(err.message, "(7 of them)"));
        assert_int_equal(unlink("model/m-2.safetensors"), 0);
        assert_int_equal(openers[i]("model/m.safetensors.index.json", NULL, &st, &err), QN_ERR_IO);
        assert_string_equal(err.path, "model/m-2.safetensors");
        assert_non_null(strstr(err.message, "shard 1 of 2"));
        assert_int_equal(err.sys_errno, ENOENT);
    }
    remove_model();
}

static void looks_at_damaged_models(void **state)
{
    (void)state;
    qn_safetensors_options options = QN_SAFETENSORS_OPTIONS_INIT;
    options.keep_damaged = true;
    for (int i = 0; i < N_OPENERS; i++) {
        qn_safetensors *st = NULL;
        write_model(7);
        assert_int_equal(openers[i]("model/m.safetensors.index.json", &options, &st, NULL), QN_OK);
        assert_int_equal(qn_safetensors_n_tensors(st), 2);
        assert_non_null(qn_safetensors_damage(st, 0));
        assert_null(qn_safetensors_damage(st, 1));
        qn_safetensors_tensor t;
        assert_int_equal(qn_safetensors_get(st, "b", &t, NULL), QN_OK);
        assert_null(t.data);
        uint8_t out[20];
        assert_int_equal(qn_safetensors_read(st, 0, 0, 13, out, NULL), QN_OK);
        assert_int_equal(qn_safetensors_read(st, 0, 0, 14, out, NULL),
                         QN_ERR_METADATA_INCOMPLETE_BUFFER);
        qn_safetensors_close(st);
        assert_int_equal(unlink("model/m-2.safetensors"), 0);
        assert_int_equal(openers[i]("model/m.safetensors.index.json", &options, &st, NULL), QN_OK);
        assert_int_equal(qn_safetensors_n_tensors(st), 1);
        assert_int_equal(qn_safetensors_damage(st, 0)->sys_errno, ENOENT);
        assert_null(qn_safetensors_damage(st, 1));
        assert_int_equal(qn_safetensors_shard_at(st, 0)->n_bytes, -1);
        assert_int_equal(qn_safetensors_find(st, "a", 1), 0);
        qn_safetensors_close(st);
        /* one shard's header is broken: its tensors are gone, the others are there */
        write_text("model/m-2.safetensors", "\x02");
        assert_int_equal(openers[i]("model/m.safetensors.index.json", &options, &st, NULL), QN_OK);
        assert_int_equal(qn_safetensors_damage(st, 0)->status, QN_ERR_HEADER_TOO_SMALL);
        assert_int_equal(qn_safetensors_n_tensors(st), 1);
        qn_safetensors_close(st);
    }
    remove_model();
    write_shard("cut.safetensors", "t", 100, 1);
    qn_safetensors *st = NULL;
    assert_int_equal(qn_safetensors_open("cut.safetensors", &options, &st, NULL), QN_OK);
    assert_int_equal(qn_safetensors_damage(st, 0)->status, QN_ERR_METADATA_INCOMPLETE_BUFFER);
    qn_safetensors_close(st);
    (void)unlink("cut.safetensors");
}

static void survives_lack_of_memory(void **state)
{
    (void)state;
    write_model(0);
    for (int i = 0; i < N_OPENERS; i++) {
        qn_status status = QN_ERR_OUT_OF_MEMORY;
        for (int n = 0; status != QN_OK; n++) {
            st_memory memory;
            const qn_allocator allocator = st_allocator(&memory, n);
            qn_safetensors_options options = QN_SAFETENSORS_OPTIONS_INIT;
            options.allocator = &allocator;
            qn_safetensors *st = NULL;
            status = openers[i]("model/m.safetensors.index.json", &options, &st, NULL);
            assert_true(status == QN_OK || status == QN_ERR_OUT_OF_MEMORY);
            qn_safetensors_close(st);
            assert_int_equal(memory.n_alive, 0);
        }
    }
    remove_model();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(opens_three_ways),
        cmocka_unit_test(opens_long_headers),
        cmocka_unit_test(refuses_other_things),
        cmocka_unit_test(opens_shards),
        cmocka_unit_test(checks_indices),
        cmocka_unit_test(warns_about_the_rest),
        cmocka_unit_test(names_missing_and_short_shards),
        cmocka_unit_test(looks_at_damaged_models),
        cmocka_unit_test(survives_lack_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
