/* test_gguf_faults.c — every allocation of a whole life of reader and writer fails once: the right
 * status, nothing leaked, nothing half done. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "gguf/gguf.h"

#include "gguf_bytes.h"

typedef struct counter {
    int64_t n_calls;
    int64_t n_fail_at; /* fails this call and all after it; 0: never */
    int64_t n_live_bytes;
} counter;

static void *count_alloc(void *ctx, size_t n_bytes, size_t alignment)
{
    counter *c = ctx;
    (void)alignment;
    if (++c->n_calls >= c->n_fail_at && c->n_fail_at > 0) {
        return NULL;
    }
    c->n_live_bytes += (int64_t)n_bytes;
    return malloc(n_bytes);
}

static void count_free(void *ctx, void *ptr, size_t n_bytes, size_t alignment)
{
    counter *c = ctx;
    (void)alignment;
    c->n_live_bytes -= (int64_t)n_bytes;
    free(ptr);
}

static spelled file;

/* Out-of-order tensors, so that the overlap check needs memory; a string array to index. */
static void spell_file(void)
{
    spelled *s = &file;
    s->n = 0;
    put_head(s, 3, 3, 3);
    put_key(s, "general.architecture", 8), put_text(s, "llama");
    put_key(s, "words", 9), put_int(s, 8, 4), put_int(s, 40, 8);
    for (int i = 0; i < 40; i++) {
        put_text(s, "w");
    }
    put_str(s, "\xff", 1), put_int(s, 7, 4), put_int(s, 2, 1);
    put_info(s, "a", 1, (int64_t[]){8}, 0, 64), put_info(s, "b\xff", 1, (int64_t[]){8}, 0, 0);
    put_info(s, "c", 1, (int64_t[]){8}, 0, 32);
    put_align(s, 32, 0), put_fill(s, 1, 96), put_raw(s, "tail", 4);
}

static qn_status lint(const qn_gguf *g, qn_error *err)
{
    qn_gguf_report *report = NULL;
    const qn_status st = qn_gguf_lint(g, true, &report, err);
    qn_gguf_report_free(report);
    return st;
}

static qn_status rewrite(const qn_gguf *g, const qn_allocator *allocator, qn_gguf_layout layout,
                         qn_error *err)
{
    qn_gguf_writer_options options = QN_GGUF_WRITER_OPTIONS_INIT;
    options.allocator = allocator;
    options.layout = layout;
    qn_gguf_writer *w = NULL;
    qn_gguf_split *split = NULL;
    const int64_t ne = 1;
    static const float one = 1;
    const qn_gguf_string word = {"w", 1};
    const void *bytes = NULL;
    int64_t n = 0;
    qn_status st = qn_gguf_writer_from(g, &options, &w, err);
    st = st ? st : qn_gguf_writer_set_strings(w, "more", &word, 1, err);
    st = st ? st : qn_gguf_writer_rename(w, "more", "most", err);
    st = st ? st : qn_gguf_writer_rename_tensor(w, "a", 1, "z", 1, err);
    st = st ? st : qn_gguf_writer_remove(w, "words", err);
    st = st ? st : qn_gguf_writer_copy(w, g, "words", err);
    for (int i = 0; st == QN_OK && i < 40; i++) { /* lists grow */
        char name[16];
        const int n_name = snprintf(name, sizeof name, "t%d", i);
        st = qn_gguf_writer_set_u8(w, name, 1, err);
        st = st ? st
                : qn_gguf_writer_add(w, name, n_name, QN_DTYPE_F32, &ne, 1, &one, sizeof one, err);
    }
    st = st ? st : qn_gguf_writer_finish(w, &bytes, &n, err);
    st = st ? st : qn_gguf_writer_finish_path(w, "faults.gguf", err);
    qn_gguf_split_options how = QN_GGUF_SPLIT_OPTIONS_INIT;
    how.max_tensors = 20;
    st = st ? st : qn_gguf_split_new(w, &how, &split, err);
    st = st ? st : qn_gguf_split_finish_paths(split, "faults", err);
    qn_gguf_split_free(split);
    qn_gguf_writer_free(w);
    return st;
}

/* The shards in one canonical file. */
static qn_status merge(const qn_gguf *g, const qn_allocator *allocator, qn_error *err)
{
    qn_gguf_writer_options options = QN_GGUF_WRITER_OPTIONS_INIT;
    options.allocator = allocator;
    qn_gguf_writer *w = NULL;
    const void *bytes = NULL;
    int64_t n = 0;
    qn_status st = qn_gguf_writer_from(g, &options, &w, err);
    st = st ? st : qn_gguf_writer_finish(w, &bytes, &n, err);
    qn_gguf_writer_free(w);
    return st;
}

/* One whole life, from bytes; the memory of all of it comes from the allocator. */
static qn_status live(const qn_allocator *allocator, qn_error *err)
{
    qn_gguf_options options = QN_GGUF_OPTIONS_INIT;
    options.allocator = allocator;
    qn_gguf *g = NULL;
    qn_gguf *from_disk = NULL;
    qn_gguf_array array;
    qn_gguf_string text;
    qn_status st = qn_gguf_parse(file.bytes, file.n, &options, &g, err);
    st = st ? st : lint(g, err);
    st = st ? st : qn_gguf_get_array(g, "words", &array, err);
    /* no memory for the index is no failure: the array is walked */
    st = st ? st : qn_gguf_array_string(&array, 39, &text, err);
    st = st ? st : rewrite(g, allocator, QN_GGUF_LOSSLESS, err);
    options.mode = QN_GGUF_HEAP;
    st = st ? st : qn_gguf_open("faults-00001-of-00003.gguf", &options, &from_disk, err);
    st = st ? st : merge(from_disk, allocator, err);
    qn_gguf_close(from_disk);
    qn_gguf_close(g);
    return st;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    spell_file();
    counter c = {0, 0, 0};
    const qn_allocator allocator = {&c, count_alloc, count_free};
    qn_error err = QN_ERROR_INIT;
    const qn_status st = live(&allocator, &err);
    if (st != QN_OK) {
        fail_msg("%s: %s", qn_status_name(st), err.message);
    }
    assert_int_equal(c.n_live_bytes, 0);
    const int64_t n_calls = c.n_calls;
    assert_true(n_calls > 100);
    for (int64_t n = 1; n <= n_calls; n++) {
        c = (counter){0, n, 0};
        assert_int_equal(live(&allocator, &err), QN_ERR_OUT_OF_MEMORY);
        assert_int_equal(c.n_live_bytes, 0);
    }
}

/* A writer that ran out of memory once goes on working when there is some again. */
static void a_writer_survives_a_failed_call(void **state)
{
    (void)state;
    spell_file();
    for (int64_t n_fail = 1; n_fail < 12; n_fail++) {
        counter c = {0, 0, 0};
        const qn_allocator allocator = {&c, count_alloc, count_free};
        qn_gguf_writer_options options = QN_GGUF_WRITER_OPTIONS_INIT;
        options.allocator = &allocator;
        qn_gguf_writer *w = NULL;
        static const float one = 1;
        const int64_t ne = 1;
        assert_int_equal(qn_gguf_writer_new(&options, &w, NULL), QN_OK);
        c.n_fail_at = c.n_calls + n_fail;
        qn_status st = QN_OK;
        int n_done = 0;
        for (; n_done < 40 && st == QN_OK; n_done++) {
            char name[16];
            const int n_name = snprintf(name, sizeof name, "n%d", n_done);
            st = qn_gguf_writer_set_u8(w, name, 1, NULL);
            st = st ? st
                    : qn_gguf_writer_add(w, name, n_name, QN_DTYPE_F32, &ne, 1, &one, sizeof one,
                                         NULL);
        }
        c.n_fail_at = 0;
        char name[16];
        const int n_name = snprintf(name, sizeof name, "n%d", n_done > 0 ? n_done - 1 : 0);
        if (st != QN_OK) { /* the call that failed, again */
            assert_int_equal(qn_gguf_writer_set_u8(w, name, 1, NULL), QN_OK);
            assert_int_equal(
                qn_gguf_writer_add(w, name, n_name, QN_DTYPE_F32, &ne, 1, &one, sizeof one, NULL),
                QN_OK);
        }
        const void *bytes = NULL;
        int64_t n = 0;
        qn_gguf *g = NULL;
        assert_int_equal(qn_gguf_writer_finish(w, &bytes, &n, NULL), QN_OK);
        assert_int_equal(qn_gguf_parse(bytes, n, NULL, &g, NULL), QN_OK);
        assert_int_equal(qn_gguf_n_tensors(g), n_done);
        assert_int_equal(qn_gguf_n_entries(g), n_done);
        qn_gguf_close(g);
        qn_gguf_writer_free(w);
        assert_int_equal(c.n_live_bytes, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(a_writer_survives_a_failed_call),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
