/* test_cold_tables.c — eight threads encode lattice types whose search tables nobody has built yet:
 * all get the bytes that one thread gets afterwards. Run under ThreadSanitizer by `make test-full`.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "quench/quench.h"

enum { N_THREADS = 8, N_TYPES = 7, ROW_LEN = 512, N_BYTES = 1024 };

static const qn_dtype dtypes[N_TYPES] = {
    QN_DTYPE_IQ1_S, QN_DTYPE_IQ1_M,   QN_DTYPE_IQ2_XXS, QN_DTYPE_IQ2_XS,
    QN_DTYPE_IQ2_S, QN_DTYPE_IQ3_XXS, QN_DTYPE_IQ3_S,
};

static float x[ROW_LEN], weights[ROW_LEN];
static uint8_t outs[N_THREADS + 1][N_TYPES][N_BYTES];
static qn_status statuses[N_THREADS + 1][N_TYPES];
static pthread_barrier_t start;

static void encode_all(int slot)
{
    for (int t = 0; t < N_TYPES; t++) { /* every thread begins with another type */
        const int type = (t + slot) % N_TYPES;
        int64_t n_bytes = 0;
        statuses[slot][type] = qn_dtype_row_bytes(dtypes[type], ROW_LEN, &n_bytes, NULL);
        if (statuses[slot][type] == QN_OK) {
            statuses[slot][type] = qn_encode_rows(dtypes[type], x, 1, ROW_LEN, weights, NULL,
                                                  outs[slot][type], n_bytes, NULL);
        }
    }
}

static void *run(void *arg)
{
    const int slot = *(const int *)arg;
    (void)pthread_barrier_wait(&start);
    encode_all(slot);
    return NULL;
}

static void cold_tables_are_safe(void **state)
{
    (void)state;
    for (int i = 0; i < ROW_LEN; i++) {
        x[i] = (float)((i * 7919 + 13) % 1024 - 512) / 700.0f;
        weights[i] = 0.1f + (float)(i * 31 % 17);
    }
    pthread_t threads[N_THREADS];
    int slots[N_THREADS];
    assert_int_equal(pthread_barrier_init(&start, NULL, N_THREADS), 0);
    for (int i = 0; i < N_THREADS; i++) {
        slots[i] = i;
        assert_int_equal(pthread_create(&threads[i], NULL, run, &slots[i]), 0);
    }
    for (int i = 0; i < N_THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    (void)pthread_barrier_destroy(&start);
    encode_all(N_THREADS);
    for (int i = 0; i <= N_THREADS; i++) {
        for (int t = 0; t < N_TYPES; t++) {
            assert_int_equal(statuses[i][t], QN_OK);
            assert_memory_equal(outs[i][t], outs[N_THREADS][t], N_BYTES);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(cold_tables_are_safe)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
