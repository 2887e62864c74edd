/* test_files.c — reading, mapping, and replacing files whole. */
#define FOLDER "test_files.XXXXXX"
#include "files_fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

static void put(const char *path, const char *text)
{
    put_bytes(path, text, strlen(text));
}

static void holds(const char *path, const char *text)
{
    holds_bytes(path, text, strlen(text));
}

static int count_files(void)
{
    char command[64];
    (void)snprintf(command, sizeof command, "ls %s | wc -l", folder);
    FILE *p = popen(command, "r");
    int n = -1;
    assert_int_equal(fscanf(p, "%d", &n), 1);
    (void)pclose(p);
    return n;
}

static void opens_only_regular_files(void **state)
{
    (void)state;
    qni_file file;
    qn_error err = QN_ERROR_INIT;
    assert_int_equal(qni_file_open(at("absent"), &file, &err), QN_ERR_IO);
    assert_int_equal(err.sys_errno, ENOENT);
    assert_non_null(strstr(err.path, "absent"));
    assert_int_equal(qni_file_open(folder, &file, &err), QN_ERR_IS_DIR);
    assert_int_equal(mkfifo(at("fifo"), 0600), 0);
    assert_int_equal(qni_file_open(at("fifo"), &file, &err), QN_ERR_IS_DIR);
    assert_int_equal(unlink(at("fifo")), 0);
    qni_map map;
    assert_int_equal(qni_map_open(folder, &map, &err), QN_ERR_IS_DIR);
}

static void reads_at_offsets_and_notices_the_end(void **state)
{
    (void)state;
    put(at("ten"), "0123456789");
    qni_file file;
    qn_error err = QN_ERROR_INIT;
    assert_int_equal(qni_file_open(at("ten"), &file, &err), QN_OK);
    assert_int_equal(file.n_bytes, 10);
    char four[4];
    assert_int_equal(qni_file_pread(&file, four, 4, 3, &err), QN_OK);
    assert_memory_equal(four, "3456", 4);
    assert_int_equal(qni_file_pread(&file, four, 4, 10, &err), QN_ERR_END_OF_STREAM);
    assert_int_equal(truncate(at("ten"), 5), 0);
    assert_int_equal(qni_file_pread(&file, four, 4, 3, &err), QN_ERR_FILE_CHANGED);
    assert_int_equal(err.offset, 5);
    qni_file_close(&file);
    uint8_t *bytes = NULL;
    int64_t n = 0;
    assert_int_equal(qni_file_read_all(at("ten"), NULL, 4, &bytes, &n, &err), QN_ERR_OVERFLOW);
    assert_null(bytes);
    assert_int_equal(qni_file_read_all(at("ten"), NULL, 5, &bytes, &n, &err), QN_OK);
    assert_int_equal(n, 5);
    qni_free(NULL, bytes, 5);
}

static void maps(void **state)
{
    (void)state;
    qni_map map;
    put(at("empty"), "");
    assert_int_equal(qni_map_open(at("empty"), &map, NULL), QN_OK);
    assert_null(map.bytes);
    assert_int_equal(map.n_bytes, 0);
    qni_map_close(&map);
    put(at("mapped"), "GGUF");
    assert_int_equal(qni_map_open(at("mapped"), &map, NULL), QN_OK);
    assert_memory_equal(map.bytes, "GGUF", 4);
    qni_map_prefetch(map.bytes, map.n_bytes);
    qni_map_release(map.bytes, map.n_bytes);
    assert_memory_equal(map.bytes, "GGUF", 4);
    qni_map_close(&map);
}

static void replaces_whole_or_not_at_all(void **state)
{
    (void)state;
    const int n_before = count_files();
    put(at("out"), "old");
    qni_output out;
    assert_int_equal(qni_output_begin(at("out"), NULL, &out, NULL), QN_OK);
    assert_int_equal(qni_file_pwrite(&out.file, "new!", 4, 0, NULL), QN_OK);
    holds(at("out"), "old");
    qni_output_abort(&out);
    holds(at("out"), "old");
    assert_int_equal(count_files(), n_before + 1);

    assert_int_equal(qni_output_begin(at("out"), NULL, &out, NULL), QN_OK);
    assert_int_equal(qni_output_preallocate(&out, 4, NULL), QN_OK);
    assert_int_equal(qni_file_pwrite(&out.file, "w!", 2, 2, NULL), QN_OK);
    assert_int_equal(qni_file_pwrite(&out.file, "ne", 2, 0, NULL), QN_OK);
    assert_int_equal(qni_output_commit(&out, NULL), QN_OK);
    holds(at("out"), "new!");
    assert_int_equal(count_files(), n_before + 1);
    qni_output_abort(&out); /* after commit: nothing */
    holds(at("out"), "new!");
}

static void keeps_permissions_and_follows_links(void **state)
{
    (void)state;
    put(at("target"), "old");
    assert_int_equal(chmod(at("target"), 0640), 0);
    assert_int_equal(symlink("target", at("link")), 0);
    qni_output out;
    assert_int_equal(qni_output_begin(at("link"), NULL, &out, NULL), QN_OK);
    assert_int_equal(qni_file_pwrite(&out.file, "new", 3, 0, NULL), QN_OK);
    assert_int_equal(qni_output_commit(&out, NULL), QN_OK);
    holds(at("target"), "new");
    struct stat info;
    assert_int_equal(lstat(at("link"), &info), 0);
    assert_true(S_ISLNK(info.st_mode));
    assert_int_equal(stat(at("target"), &info), 0);
    assert_int_equal(info.st_mode & 0777, 0640);
}

static void refuses_bad_destinations(void **state)
{
    (void)state;
    qni_output out;
    qn_error err = QN_ERROR_INIT;
    assert_int_equal(qni_output_begin(folder, NULL, &out, &err), QN_ERR_IS_DIR);
    assert_int_equal(qni_output_begin(at("no-folder/out"), NULL, &out, &err), QN_ERR_IO);
    assert_int_equal(err.sys_errno, ENOENT);
    assert_int_equal(qni_output_begin("/dev/null", NULL, &out, &err), QN_ERR_IS_DIR);
}

static void resumes_its_own_file_and_no_link(void **state)
{
    (void)state;
    qni_output out;
    bool existed = true;
    assert_int_equal(qni_output_resume(at("r"), at("r.part"), NULL, &out, &existed, NULL), QN_OK);
    assert_false(existed);
    assert_int_equal(qni_file_pwrite(&out.file, "half", 4, 0, NULL), QN_OK);
    qni_output_keep(&out);
    assert_false(qni_file_exists(at("r")));
    assert_int_equal(qni_output_resume(at("r"), at("r.part"), NULL, &out, &existed, NULL), QN_OK);
    assert_true(existed);
    assert_int_equal(qni_file_pwrite(&out.file, " done", 5, 4, NULL), QN_OK);
    assert_int_equal(qni_output_commit(&out, NULL), QN_OK);
    holds(at("r"), "half done");
    put(at("victim"), "precious");
    assert_int_equal(symlink("victim", at("planted")), 0);
    assert_int_equal(qni_output_resume(at("r"), at("planted"), NULL, &out, &existed, NULL),
                     QN_ERR_IO);
    holds(at("victim"), "precious");
}

static void knows_one_file_by_all_its_names(void **state)
{
    (void)state;
    put(at("a"), "a");
    put(at("b"), "a");
    assert_int_equal(link(at("a"), at("hard")), 0);
    assert_int_equal(symlink("a", at("soft")), 0);
    assert_true(qni_file_is_same(at("a"), at("hard")));
    assert_true(qni_file_is_same(at("a"), at("soft")));
    assert_true(qni_file_is_same(at("a"), at("./a")));
    assert_false(qni_file_is_same(at("a"), at("b")));
    assert_false(qni_file_is_same(at("a"), at("absent")));
    assert_true(qni_file_free_space(at("a")) > 0);
}

static void copies_ranges(void **state)
{
    (void)state;
    put(at("from"), "0123456789");
    qni_file from;
    assert_int_equal(qni_file_open(at("from"), &from, NULL), QN_OK);
    qni_output out;
    assert_int_equal(qni_output_begin(at("to"), NULL, &out, NULL), QN_OK);
    int64_t n = 0;
    assert_int_equal(qni_file_copy_range(&from, 2, &out.file, 0, 5, &n, NULL), QN_OK);
    if (n < 5) { /* the file system cannot: the caller's part */
        assert_int_equal(qni_file_pwrite(&out.file, "23456" + n, (size_t)(5 - n), n, NULL), QN_OK);
    }
    assert_int_equal(qni_output_commit(&out, NULL), QN_OK);
    holds(at("to"), "23456");
    qni_file_close(&from);
}

/* An allocator that fails once, at a given call. */
typedef struct failing {
    int64_t n_left;
} failing;

static void *failing_alloc(void *ctx, size_t n_bytes, size_t alignment)
{
    failing *f = ctx;
    (void)alignment;
    return --f->n_left == 0 ? NULL : malloc(n_bytes);
}

static void failing_free(void *ctx, void *ptr, size_t n_bytes, size_t alignment)
{
    (void)ctx;
    (void)n_bytes;
    (void)alignment;
    free(ptr);
}

static void no_memory_leaves_no_file(void **state)
{
    (void)state;
    const int n_before = count_files();
    qn_status st = QN_ERR_OUT_OF_MEMORY;
    int64_t n = 0;
    while (st != QN_OK) {
        failing f = {++n};
        const qn_allocator allocator = {&f, failing_alloc, failing_free};
        qni_output out;
        st = qni_output_begin(at("hungry"), &allocator, &out, NULL);
        if (st == QN_OK) {
            f.n_left = INT64_MAX;
            qni_output_abort(&out);
        } else {
            assert_int_equal(st, QN_ERR_OUT_OF_MEMORY);
        }
        assert_int_equal(count_files(), n_before);
    }
    assert_true(n > 3); /* some failed */
}

/* Two files over two old ones. `is_blocked`: the second cannot be renamed into its place. */
static qn_status replace_two(bool is_blocked)
{
    qni_output outs[2] = {QNI_OUTPUT_CLOSED, QNI_OUTPUT_CLOSED};
    assert_int_equal(qni_output_begin(at("one"), NULL, &outs[0], NULL), QN_OK);
    assert_int_equal(qni_output_begin(at("two"), NULL, &outs[1], NULL), QN_OK);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(qni_file_pwrite(&outs[i].file, "new", 3, 0, NULL), QN_OK);
        assert_int_equal(qni_output_sync(&outs[i], NULL), QN_OK);
    }
    if (is_blocked) {
        assert_int_equal(unlink(at("two")), 0);
        assert_int_equal(mkdir(at("two"), 0777), 0);
    }
    const qn_status st = qni_outputs_commit(outs, 2, NULL);
    qni_output_abort(&outs[0]);
    qni_output_abort(&outs[1]);
    return st;
}

static void files_of_one_model_never_mix(void **state)
{
    (void)state;
    put(at("one"), "old");
    put(at("two"), "old");
    assert_int_equal(replace_two(false), QN_OK);
    holds(at("one"), "new");
    holds(at("two"), "new");
    const int n_before = count_files();
    assert_int_not_equal(replace_two(true), QN_OK);
    holds(at("one"), "new"); /* what was there before */
    assert_int_equal(rmdir(at("two")), 0);
    assert_int_equal(count_files(), n_before - 1); /* nothing under another name */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(opens_only_regular_files),
        cmocka_unit_test(reads_at_offsets_and_notices_the_end),
        cmocka_unit_test(maps),
        cmocka_unit_test(replaces_whole_or_not_at_all),
        cmocka_unit_test(keeps_permissions_and_follows_links),
        cmocka_unit_test(refuses_bad_destinations),
        cmocka_unit_test(resumes_its_own_file_and_no_link),
        cmocka_unit_test(knows_one_file_by_all_its_names),
        cmocka_unit_test(copies_ranges),
        cmocka_unit_test(no_memory_leaves_no_file),
        cmocka_unit_test(files_of_one_model_never_mix),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
