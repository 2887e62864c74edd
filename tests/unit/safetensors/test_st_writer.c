/* test_st_writer.c — the writer: the official package's bytes, what is refused, every form equal,
 * and a destination that is old or new at every moment. */
#include <dirent.h>
#include <signal.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "st_support.h"

#define N_KILLS 200

static qn_safetensors_writer *new_writer(void)
{
    qn_safetensors_writer *w = NULL;
    assert_int_equal(qn_safetensors_writer_new(NULL, &w, NULL), QN_OK);
    return w;
}

static void add_bytes(qn_safetensors_writer *w, const char *name, const void *data, int64_t n_bytes)
{
    assert_int_equal(qn_safetensors_writer_add(w, name, (int64_t)strlen(name), QN_SAFETENSORS_U8,
                                               &n_bytes, 1, data, n_bytes, NULL),
                     QN_OK);
}

/* Everything of a file again, tensors in the reverse order. */
static qn_safetensors_writer *copy_of(const qn_safetensors *st)
{
    qn_safetensors_writer *w = new_writer();
    for (int64_t i = 0; i < qn_safetensors_n_entries(st); i++) {
        const qn_safetensors_entry *e = qn_safetensors_entry_at(st, i);
        assert_int_equal(
            qn_safetensors_writer_add_entry(w, e->key, e->n_key, e->value, e->n_value, NULL),
            QN_OK);
    }
    for (int64_t i = qn_safetensors_n_tensors(st) - 1; i >= 0; i--) {
        qn_safetensors_tensor t;
        assert_true(qn_safetensors_tensor_at(st, i, &t));
        assert_int_equal(qn_safetensors_writer_add(w, t.name, t.n_name, t.dtype, t.shape, t.rank,
                                                   t.data, t.n_bytes, NULL),
                         QN_OK);
    }
    return w;
}

static const char *const goldens[] = {"empty", "metadata-only", "every-type",
                                      "order", "empty-tensors", "names"};

static void equals_the_official_package(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof goldens / sizeof goldens[0]; i++) {
        char path[512];
        (void)snprintf(path, sizeof path, "%s/%s.safetensors", QN_ST_GOLDENS, goldens[i]);
        qn_safetensors *st = NULL;
        qn_error err = QN_ERROR_INIT;
        if (qn_safetensors_load(path, NULL, &st, &err) != QN_OK) {
            fail_msg("%s: %s", path, err.message);
        }
        uint8_t *golden = NULL;
        int64_t n_golden = 0;
        assert_int_equal(qni_file_read_all(path, NULL, 1 << 20, &golden, &n_golden, NULL), QN_OK);
        qn_safetensors_writer *w = copy_of(st);
        const void *bytes = NULL;
        int64_t n_bytes = 0;
        assert_int_equal(qn_safetensors_writer_finish(w, &bytes, &n_bytes, NULL), QN_OK);
        assert_int_equal(n_bytes, n_golden);
        assert_memory_equal(bytes, golden, (size_t)n_bytes);
        qn_safetensors_writer_free(w);
        qn_safetensors_close(st);
        qni_free(NULL, golden, (size_t)n_golden);
    }
}

/* The reference's golden: no tensors make {} and six blanks. */
static void writes_nothing(void **state)
{
    (void)state;
    qn_safetensors_writer *w = new_writer();
    qn_safetensors_file_plan plan;
    assert_false(qn_safetensors_writer_tensor_at(w, 0, NULL, NULL));
    assert_int_equal(qn_safetensors_writer_layout(w, &plan, NULL), QN_OK);
    assert_int_equal(plan.n_file_bytes, 16);
    assert_memory_equal(plan.header, "\x08\0\0\0\0\0\0\0{}      ", 16);
    qn_safetensors_writer_free(w);
    qn_safetensors_writer_free(NULL);
}

static void refuses_bad_input(void **state)
{
    (void)state;
    qn_safetensors_writer *w = new_writer();
    const int64_t two[1] = {2};
    const int64_t negative[1] = {-2};
    const int64_t huge[2] = {INT64_C(1) << 32, INT64_C(1) << 32};
    const int64_t three[1] = {3};
    static const struct {
        const char *name;
        int64_t n_name;
        qn_status status;
    } names[] = {
        {"", 0, QN_ERR_INVALID_TENSOR_NAME},
        {"\xff", 1, QN_ERR_INVALID_TENSOR_NAME},
        {"__metadata__", 12, QN_ERR_INVALID_TENSOR_NAME},
        {"__metadata_", 11, QN_OK},
        {"a", 1, QN_OK},
        {"a", 1, QN_ERR_DUPLICATE_TENSOR_NAME},
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        assert_int_equal(qn_safetensors_writer_add(w, names[i].name, names[i].n_name,
                                                   QN_SAFETENSORS_U8, two, 1, "xy", 2, NULL),
                         names[i].status);
    }
    const qn_safetensors_dtype f32 = QN_SAFETENSORS_F32;
    assert_int_equal(qn_safetensors_writer_add(w, "b", 1, f32, two, 1, "1234567", 7, NULL),
                     QN_ERR_TENSOR_INVALID_INFO);
    assert_int_equal(qn_safetensors_writer_declare(w, "b", 1, f32, negative, 1, NULL),
                     QN_ERR_INVALID_SHAPE);
    assert_int_equal(qn_safetensors_writer_declare(w, "b", 1, f32, two, -1, NULL),
                     QN_ERR_INVALID_SHAPE);
    assert_int_equal(qn_safetensors_writer_declare(w, "b", 1, f32, huge, 2, NULL),
                     QN_ERR_VALIDATION_OVERFLOW);
    assert_int_equal(qn_safetensors_writer_declare(w, "b", 1, QN_SAFETENSORS_F4, three, 1, NULL),
                     QN_ERR_MISALIGNED_SLICE);
    assert_int_equal(qn_safetensors_writer_declare(w, "b", 1, QN_SAFETENSORS_NONE, two, 1, NULL),
                     QN_ERR_UNSUPPORTED_DTYPE);
    assert_int_equal(qn_safetensors_writer_add_entry(w, "", 0, "v", 1, NULL),
                     QN_ERR_INVALID_TENSOR_NAME);
    assert_int_equal(qn_safetensors_writer_add_entry(w, "\xc0", 1, "v", 1, NULL),
                     QN_ERR_INVALID_TENSOR_NAME);
    assert_int_equal(qn_safetensors_writer_add_entry(w, "k", 1, "\xed\xa0\x80", 3, NULL),
                     QN_ERR_INVALID_METADATA);
    assert_int_equal(qn_safetensors_writer_add_entry(w, "k", 1, "", 0, NULL), QN_OK);
    assert_int_equal(qn_safetensors_writer_add_entry(w, "k", 1, "2", 1, NULL),
                     QN_ERR_INVALID_METADATA);
    /* Two that fit alone, not together; neither drives an allocation. */
    const int64_t half[1] = {INT64_C(1) << 59};
    qn_safetensors_file_plan plan;
    for (int i = 0; i < 16; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "h%d", i);
        assert_int_equal(qn_safetensors_writer_declare(w, name, (int64_t)strlen(name),
                                                       QN_SAFETENSORS_U8, half, 1, NULL),
                         QN_OK);
    }
    assert_int_equal(qn_safetensors_writer_layout(w, &plan, NULL), QN_ERR_VALIDATION_OVERFLOW);
    const void *bytes = NULL;
    int64_t n_bytes = 0;
    assert_int_equal(qn_safetensors_writer_finish(w, &bytes, &n_bytes, NULL),
                     QN_ERR_TENSOR_DATA_MISSING);
    assert_int_equal(qn_safetensors_writer_save_atomic(w, "never.safetensors", NULL),
                     QN_ERR_TENSOR_DATA_MISSING);
    assert_int_not_equal(access("never.safetensors", F_OK), 0);
    qn_safetensors_writer_free(w);
}

/* The header's limit: 100,000,000 bytes are written and read back, one more name is refused. */
static void keeps_the_header_limit(void **state)
{
    (void)state;
    char *value = malloc(100000000);
    assert_non_null(value);
    memset(value, 'x', 100000000);
    for (int is_over = 0; is_over < 2; is_over++) {
        qn_safetensors_writer *w = new_writer();
        /* {"__metadata__":{"k":"<value>"}} takes 25 bytes more than the value */
        const int64_t n = 100000000 - 25 + is_over;
        assert_int_equal(qn_safetensors_writer_add_entry(w, "k", 1, value, n, NULL), QN_OK);
        qn_safetensors_file_plan plan;
        const qn_status status = qn_safetensors_writer_layout(w, &plan, NULL);
        assert_int_equal(status, is_over ? QN_ERR_HEADER_TOO_LARGE : QN_OK);
        if (status == QN_OK) {
            assert_int_equal(plan.n_file_bytes, 100000008);
            qn_safetensors *st = NULL;
            assert_int_equal(qn_safetensors_parse(plan.header, plan.n_file_bytes, NULL, &st, NULL),
                             QN_OK);
            assert_int_equal(qn_safetensors_find_entry(st, "k")->n_value, n);
            qn_safetensors_close(st);
        }
        qn_safetensors_writer_free(w);
    }
    free(value);
}

typedef struct sink {
    uint8_t bytes[4096];
    size_t n_bytes;
    size_t n_max;
} sink;

static qn_status put(void *ctx, const void *bytes, size_t n_bytes, qn_error *err)
{
    sink *s = ctx;
    if (s->n_bytes + n_bytes > s->n_max) {
        return qni_fail(err, QN_ERR_NO_SPACE, -1, "full");
    }
    memcpy(s->bytes + s->n_bytes, bytes, n_bytes);
    s->n_bytes += n_bytes;
    return QN_OK;
}

static void every_form_is_equal(void **state)
{
    (void)state;
    static sink s;
    qn_safetensors_writer *w = new_writer();
    add_bytes(w, "c", "12345", 5);
    add_bytes(w, "a", "", 0);
    add_bytes(w, "b", "678", 3);
    const void *expected = NULL;
    int64_t n_expected = 0;
    assert_int_equal(qn_safetensors_writer_finish(w, &expected, &n_expected, NULL), QN_OK);
    s = (sink){.n_max = sizeof s.bytes};
    assert_int_equal(qn_safetensors_writer_serialize(w, put, &s, NULL), QN_OK);
    assert_int_equal(s.n_bytes, n_expected);
    assert_memory_equal(s.bytes, expected, s.n_bytes);

    assert_int_equal(qn_safetensors_writer_save_atomic(w, "form.safetensors", NULL), QN_OK);
    uint8_t *file = NULL;
    int64_t n_file = 0;
    assert_int_equal(qni_file_read_all("form.safetensors", NULL, 4096, &file, &n_file, NULL),
                     QN_OK);
    assert_int_equal(n_file, n_expected);
    assert_memory_equal(file, expected, (size_t)n_file);
    qni_free(NULL, file, (size_t)n_file);

    /* positions, and data in pieces that cross tensors */
    qn_safetensors_tensor t;
    int64_t added = -1;
    assert_true(qn_safetensors_writer_tensor_at(w, 0, &t, &added));
    assert_int_equal(added, 1);
    assert_memory_equal(t.name, "a", 1);
    assert_true(qn_safetensors_writer_tensor_at(w, 2, &t, &added));
    assert_int_equal(added, 0);
    assert_int_equal(t.file_offset, n_expected - 5);
    assert_false(qn_safetensors_writer_tensor_at(w, 3, &t, &added));
    qn_safetensors_stream *stream = NULL;
    s = (sink){.n_max = sizeof s.bytes};
    assert_int_equal(qn_safetensors_stream_begin(w, put, &s, &stream, NULL), QN_OK);
    assert_int_equal(qn_safetensors_stream_next(stream), 1); /* "a" has no data */
    qn_safetensors_stream *second = NULL;
    assert_int_equal(qn_safetensors_stream_begin(w, put, &s, &second, NULL), QN_ERR_INVALID_STATE);
    assert_int_equal(qn_safetensors_writer_add_entry(w, "k", 1, "v", 1, NULL),
                     QN_ERR_INVALID_STATE);
    assert_int_equal(qn_safetensors_stream_write(stream, "6781", 4, NULL), QN_OK);
    assert_int_equal(qn_safetensors_stream_next(stream), 2);
    qn_error err = QN_ERROR_INIT;
    assert_int_equal(qn_safetensors_stream_finish(stream, &err), QN_ERR_TENSOR_DATA_MISSING);
    assert_non_null(strstr(err.message, "\"c\""));
    assert_int_equal(qn_safetensors_stream_write(stream, "23456", 5, NULL),
                     QN_ERR_TENSOR_INVALID_INFO);
    assert_int_equal(qn_safetensors_stream_write(stream, "2345", 4, NULL), QN_OK);
    assert_int_equal(qn_safetensors_stream_next(stream), -1);
    assert_int_equal(qn_safetensors_stream_finish(stream, NULL), QN_OK);
    assert_int_equal(qn_safetensors_stream_finish(stream, NULL), QN_ERR_INVALID_STATE);
    assert_int_equal(qn_safetensors_stream_write(stream, "", 0, NULL), QN_ERR_INVALID_STATE);
    qn_safetensors_stream_free(stream);
    qn_safetensors_stream_free(NULL);
    assert_int_equal(s.n_bytes, n_expected);
    assert_memory_equal(s.bytes, expected, s.n_bytes);

    /* more may be added afterwards */
    assert_int_equal(qn_safetensors_writer_add_entry(w, "k", 1, "v", 1, NULL), QN_OK);
    add_bytes(w, "d", "z", 1);
    assert_int_equal(qn_safetensors_writer_finish(w, &expected, &n_expected, NULL), QN_OK);
    qn_safetensors *st = NULL;
    assert_int_equal(qn_safetensors_parse(expected, n_expected, NULL, &st, NULL), QN_OK);
    assert_int_equal(qn_safetensors_n_tensors(st), 4);
    qn_safetensors_close(st);
    qn_safetensors_writer_free(w);
    (void)unlink("form.safetensors");
}

static void reports_failing_sinks(void **state)
{
    (void)state;
    static sink s;
    qn_safetensors_writer *w = new_writer();
    add_bytes(w, "c", "12345", 5);
    qn_safetensors_file_plan plan;
    assert_int_equal(qn_safetensors_writer_layout(w, &plan, NULL), QN_OK);
    s = (sink){.n_max = 10};
    assert_int_equal(qn_safetensors_writer_serialize(w, put, &s, NULL), QN_ERR_NO_SPACE);
    qn_safetensors_stream *stream = NULL;
    s = (sink){.n_max = (size_t)plan.n_header_bytes + 2};
    assert_int_equal(qn_safetensors_stream_begin(w, put, &s, &stream, NULL), QN_OK);
    assert_int_equal(qn_safetensors_stream_write(stream, "12345", 5, NULL), QN_ERR_NO_SPACE);
    assert_int_equal(qn_safetensors_stream_write(stream, "1", 1, NULL), QN_ERR_INVALID_STATE);
    qn_safetensors_stream_free(stream);
    assert_int_equal(qn_safetensors_stream_begin(w, NULL, NULL, &stream, NULL),
                     QN_ERR_INVALID_ARGUMENT);
    assert_int_equal(qn_safetensors_writer_save_atomic(w, "no/such/folder/x.safetensors", NULL),
                     QN_ERR_IO);
    qn_safetensors_writer_free(w);
}

static void survives_lack_of_memory(void **state)
{
    (void)state;
    qn_status status = QN_ERR_OUT_OF_MEMORY;
    for (int n = 0; status != QN_OK; n++) {
        st_memory memory;
        const qn_allocator allocator = st_allocator(&memory, n);
        qn_safetensors_writer *w = NULL;
        const int64_t two[1] = {2};
        const void *bytes = NULL;
        int64_t n_bytes = 0;
        status = qn_safetensors_writer_new(&allocator, &w, NULL);
        if (status == QN_OK) {
            status = qn_safetensors_writer_add_entry(w, "k", 1, "v", 1, NULL);
        }
        if (status == QN_OK) {
            status = qn_safetensors_writer_add(w, "t", 1, QN_SAFETENSORS_U8, two, 1, "ab", 2, NULL);
        }
        if (status == QN_OK) {
            status = qn_safetensors_writer_finish(w, &bytes, &n_bytes, NULL);
        }
        if (status == QN_OK) {
            status = qn_safetensors_writer_save_atomic(w, "memory.safetensors", NULL);
        }
        assert_true(status == QN_OK || status == QN_ERR_OUT_OF_MEMORY);
        qn_safetensors_writer_free(w);
        assert_int_equal(memory.n_alive, 0);
    }
    (void)unlink("memory.safetensors");
}

/* --- kill ------------------------------------------------------------------------------------- */

#define N_BLOCK (2 * 1024 * 1024)

/* Save both contents in turn, beginning with number `first`, until killed. */
static void save_for_ever(const uint8_t *data_a, const uint8_t *data_b, int first)
{
    qn_safetensors_writer *writers[2] = {NULL, NULL};
    const int64_t shape[1] = {N_BLOCK};
    for (int i = 0; i < 2; i++) {
        if (qn_safetensors_writer_new(NULL, &writers[i], NULL) != QN_OK ||
            qn_safetensors_writer_add(writers[i], "t", 1, QN_SAFETENSORS_U8, shape, 1,
                                      i == 0 ? data_a : data_b, N_BLOCK, NULL) != QN_OK) {
            _exit(1);
        }
    }
    for (int i = first;; i++) {
        if (qn_safetensors_writer_save_atomic(writers[i % 2], "kill/t.safetensors", NULL) !=
            QN_OK) {
            _exit(1);
        }
    }
}

static void remove_leftovers(int *out_n)
{
    DIR *folder = opendir("kill");
    assert_non_null(folder);
    for (struct dirent *e = readdir(folder); e; e = readdir(folder)) {
        if (strstr(e->d_name, ".tmp")) {
            char path[512];
            (void)snprintf(path, sizeof path, "kill/%s", e->d_name);
            assert_int_equal(unlink(path), 0);
            (*out_n)++;
        }
    }
    (void)closedir(folder);
}

static void is_old_or_new_after_kill(void **state)
{
    (void)state;
    uint8_t *data_a = malloc(N_BLOCK);
    uint8_t *data_b = malloc(N_BLOCK);
    assert_true(data_a && data_b);
    memset(data_a, 'A', N_BLOCK);
    memset(data_b, 'B', N_BLOCK);
    (void)system("rm -rf kill && mkdir kill");
    int n_old = 0;
    int n_new = 0;
    int n_midway = 0;
    uint64_t random = 12345;
    for (int i = 0; i < N_KILLS; i++) {
        const pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            save_for_ever(data_a, data_b, i);
        }
        random = random * 6364136223846793005u + 1442695040888963407u;
        const struct timespec pause = {0, (long)(random >> 33) % 40000000};
        (void)nanosleep(&pause, NULL);
        assert_int_equal(kill(child, SIGKILL), 0);
        int status = 0;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status));
        remove_leftovers(&n_midway);
        qn_safetensors *st = NULL;
        const qn_status code = qn_safetensors_load_mmap("kill/t.safetensors", NULL, &st, NULL);
        if (access("kill/t.safetensors", F_OK) != 0) {
            continue; /* killed before the first one was there */
        }
        assert_int_equal(code, QN_OK);
        qn_safetensors_tensor t;
        assert_int_equal(qn_safetensors_get(st, "t", &t, NULL), QN_OK);
        const bool is_a = memcmp(t.data, data_a, N_BLOCK) == 0;
        assert_true(is_a || memcmp(t.data, data_b, N_BLOCK) == 0);
        n_old += is_a;
        n_new += !is_a;
        qn_safetensors_close(st);
    }
    print_message("%d kills: %d found A, %d found B, %d in the middle of a save\n", N_KILLS, n_old,
                  n_new, n_midway);
    assert_true(n_old > 0 && n_new > 0 && n_midway > 0);
    free(data_a);
    free(data_b);
    (void)system("rm -rf kill");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equals_the_official_package), cmocka_unit_test(writes_nothing),
        cmocka_unit_test(refuses_bad_input),           cmocka_unit_test(keeps_the_header_limit),
        cmocka_unit_test(every_form_is_equal),         cmocka_unit_test(reports_failing_sinks),
        cmocka_unit_test(survives_lack_of_memory),     cmocka_unit_test(is_old_or_new_after_kill),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
