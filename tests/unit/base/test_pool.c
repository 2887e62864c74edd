/* test_pool.c — the thread pool. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdatomic.h>
#include <time.h>

#include "base/base.h"

enum { N_PIECES = 5000 };

typedef struct job {
    _Atomic int seen[N_PIECES];
    int64_t fail_at; /* pieces >= this fail */
    int64_t cancel_at;
    qni_pool *pool;
    int n_threads;
} job;

static qn_status do_piece(void *ctx, int64_t piece, int worker, qn_error *err)
{
    job *j = ctx;
    assert_true(worker >= 0 && worker < j->n_threads);
    atomic_fetch_add(&j->seen[piece], 1);
    if (piece == j->cancel_at) {
        qni_pool_cancel(j->pool);
    }
    QN_CHECK(piece < j->fail_at, err, QN_ERR_NON_FINITE_VALUE, piece, "piece %" PRId64, piece);
    return QN_OK;
}

static void with_pool(int n_threads, int64_t fail_at, int64_t cancel_at, qn_status expected)
{
    static job j;
    memset(&j, 0, sizeof j);
    j.fail_at = fail_at;
    j.cancel_at = cancel_at;
    j.n_threads = n_threads;
    assert_int_equal(qni_pool_new(n_threads, NULL, &j.pool, NULL), QN_OK);
    assert_int_equal(qni_pool_n_threads(j.pool), n_threads);
    qn_error err = QN_ERROR_INIT;
    assert_int_equal(qni_pool_run(j.pool, N_PIECES, do_piece, &j, &err), expected);
    if (expected == QN_ERR_NON_FINITE_VALUE) {
        assert_int_equal(err.offset, fail_at); /* the lowest, whatever the threads did */
    }
    for (int i = 0; i < N_PIECES; i++) {
        const int n = atomic_load(&j.seen[i]);
        assert_true(expected == QN_OK ? n == 1 : n <= 1);
    }
    /* the pool is whole after a failure */
    j.fail_at = N_PIECES;
    j.cancel_at = -1;
    assert_int_equal(qni_pool_run(j.pool, N_PIECES, do_piece, &j, &err), QN_OK);
    assert_int_equal(qni_pool_run(j.pool, 0, do_piece, &j, &err), QN_OK);
    qni_pool_free(j.pool);
}

static void runs_every_piece_once(void **state)
{
    (void)state;
    for (int n = 1; n <= 8; n++) {
        with_pool(n, N_PIECES, -1, QN_OK);
    }
}

static void reports_the_first_failure(void **state)
{
    (void)state;
    for (int n = 1; n <= 8; n++) {
        with_pool(n, 777, -1, QN_ERR_NON_FINITE_VALUE);
    }
}

static qn_status count_piece(void *ctx, int64_t piece, int worker, qn_error *err)
{
    (void)worker;
    (void)err;
    atomic_fetch_add((_Atomic int64_t *)ctx, piece + 1);
    return QN_OK;
}

/* Runs that are over before all threads have come, one upon the other; now and then a pause in
 * which the threads go to sleep. */
static void runs_short_ones_one_upon_the_other(void **state)
{
    (void)state;
    const struct timespec pause = {0, 1000000};
    for (int n_threads = 1; n_threads <= 8; n_threads *= 2) {
        qni_pool *pool;
        assert_int_equal(qni_pool_new(n_threads, NULL, &pool, NULL), QN_OK);
        for (int run = 0; run < 5000; run++) {
            const int64_t n_pieces = run % 7;
            _Atomic int64_t sum = 0; /* on the stack: who comes late must not touch it */
            assert_int_equal(qni_pool_run(pool, n_pieces, count_piece, &sum, NULL), QN_OK);
            assert_int_equal(atomic_load(&sum), n_pieces * (n_pieces + 1) / 2);
            if (run % 500 == 0) {
                (void)nanosleep(&pause, NULL);
            }
        }
        qni_pool_free(pool);
    }
}

static void cancels(void **state)
{
    (void)state;
    with_pool(1, N_PIECES, 10, QN_ERR_CANCELLED);
    with_pool(4, N_PIECES, 10, QN_ERR_CANCELLED);
}

static void refuses_nonsense(void **state)
{
    (void)state;
    qni_pool *pool = NULL;
    assert_int_equal(qni_pool_new(-1, NULL, &pool, NULL), QN_ERR_INVALID_ARGUMENT);
    assert_int_equal(qni_pool_new(1 << 20, NULL, &pool, NULL), QN_ERR_INVALID_ARGUMENT);
    assert_int_equal(qni_pool_new(0, NULL, &pool, NULL), QN_OK);
    assert_int_equal(qni_pool_n_threads(pool), qni_cpu_count());
    qni_pool_free(pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(runs_every_piece_once),
        cmocka_unit_test(reports_the_first_failure),
        cmocka_unit_test(runs_short_ones_one_upon_the_other),
        cmocka_unit_test(cancels),
        cmocka_unit_test(refuses_nonsense),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
