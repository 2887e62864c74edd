/* test_gguf_threads.c — eight threads read one open file: look-ups, arrays whose index is made by
 * whoever comes first, warnings. Meant for ThreadSanitizer; right results are checked as well. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>

#include "gguf/gguf.h"

#define N_THREADS 8
#define N_WORDS   5000
#define N_TENSORS 200

static qn_gguf *gguf;

static int check_words(const char *key, uint64_t seed)
{
    qn_gguf_array array;
    qn_gguf_string word;
    int n_bad = qn_gguf_get_array(gguf, key, &array, NULL) != QN_OK;
    for (int i = 0; i < 500 && n_bad == 0; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        const int64_t index = (int64_t)(seed >> 33) % N_WORDS;
        char expected[16];
        const int n = snprintf(expected, sizeof expected, "w%d", (int)index);
        n_bad += qn_gguf_array_string(&array, index, &word, NULL) != QN_OK || word.n_bytes != n ||
                 memcmp(word.bytes, expected, (size_t)n) != 0;
    }
    return n_bad;
}

static void *read_all(void *ctx)
{
    const uint64_t seed = (uint64_t)(uintptr_t)ctx;
    int64_t n_bad = check_words("words", seed) + check_words("more", seed + 1);
    for (int i = 0; i < N_TENSORS; i++) {
        char name[16];
        const int n = snprintf(name, sizeof name, "t%d", i);
        n_bad += qn_gguf_find_tensor(gguf, name, n) != i;
        n_bad += qn_gguf_tensor(gguf, i)->n_bytes != 32;
        qn_gguf_prefetch(gguf, qn_gguf_tensor(gguf, i)->data, 32);
    }
    qn_gguf_report *report = NULL;
    n_bad += qn_gguf_lint(gguf, true, &report, NULL) != QN_OK;
    n_bad += qn_gguf_report_n(report) != 1; /* no architecture */
    qn_gguf_report_free(report);
    return (void *)(uintptr_t)n_bad;
}

static void write_file(void)
{
    static char texts[N_WORDS][16];
    static qn_gguf_string words[N_WORDS];
    static const float data[8] = {0};
    qn_gguf_writer *w = NULL;
    for (int i = 0; i < N_WORDS; i++) {
        words[i].bytes = texts[i];
        words[i].n_bytes = snprintf(texts[i], sizeof texts[i], "w%d", i);
    }
    const int64_t ne = 8;
    assert_int_equal(qn_gguf_writer_new(NULL, &w, NULL), QN_OK);
    assert_int_equal(qn_gguf_writer_set_strings(w, "words", words, N_WORDS, NULL), QN_OK);
    assert_int_equal(qn_gguf_writer_set_strings(w, "more", words, N_WORDS, NULL), QN_OK);
    for (int i = 0; i < N_TENSORS; i++) {
        char name[16];
        const int n = snprintf(name, sizeof name, "t%d", i);
        assert_int_equal(qn_gguf_writer_add(w, name, n, QN_DTYPE_F32, &ne, 1, data, 32, NULL),
                         QN_OK);
    }
    assert_int_equal(qn_gguf_writer_finish_path(w, "threads.gguf", NULL), QN_OK);
    qn_gguf_writer_free(w);
}

static void eight_threads_read_one_file(void **state)
{
    (void)state;
    write_file();
    for (int round = 0; round < 4; round++) {
        pthread_t threads[N_THREADS];
        assert_int_equal(qn_gguf_open("threads.gguf", NULL, &gguf, NULL), QN_OK);
        for (uintptr_t i = 0; i < N_THREADS; i++) {
            assert_int_equal(pthread_create(&threads[i], NULL, read_all, (void *)(i + 1)), 0);
        }
        for (int i = 0; i < N_THREADS; i++) {
            void *n_bad = NULL;
            assert_int_equal(pthread_join(threads[i], &n_bad), 0);
            assert_null(n_bad);
        }
        qn_gguf_close(gguf);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(eight_threads_read_one_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
