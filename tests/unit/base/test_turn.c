/* test_turn.c — results handed in in order by threads that finish in any order. */
#include <setjmp.h>
#include <stdarg.h>

#include "base/base.h"

#include <cmocka.h>

enum { N_PIECES = 2000 };

typedef struct handed_in {
    qni_turn *turn;
    int64_t order[N_PIECES];
    int64_t n;
    int64_t failing_piece;
} handed_in;

static qn_status hand_in(void *ctx, int64_t piece, int worker, qn_error *err)
{
    handed_in *h = ctx;
    (void)worker;
    if (piece == h->failing_piece) {
        qni_turn_stop(h->turn, piece);
        return qni_fail(err, QN_ERR_IO, -1, "piece %" PRId64, piece);
    }
    volatile double sink = 0;
    for (int64_t i = 0; i < piece * 7919 % 500; i++) {
        sink = sink + 1;
    }
    if (!qni_turn_wait(h->turn, piece)) {
        return QN_ERR_CANCELLED;
    }
    h->order[h->n++] = piece;
    qni_turn_pass(h->turn);
    return QN_OK;
}

static void run_with(int n_threads, int64_t failing_piece, handed_in *h)
{
    qni_pool *pool;
    qn_error err = QN_ERROR_INIT;
    assert_int_equal(qni_pool_new(n_threads, NULL, &pool, &err), QN_OK);
    assert_int_equal(qni_turn_new(NULL, &h->turn, &err), QN_OK);
    qni_turn_reset(h->turn, 0);
    h->n = 0;
    h->failing_piece = failing_piece;
    const qn_status st = qni_pool_run(pool, N_PIECES, hand_in, h, &err);
    assert_int_equal(st, failing_piece < 0 ? QN_OK : QN_ERR_IO);
    qni_turn_free(h->turn);
    qni_pool_free(pool);
}

static void in_order(void **state)
{
    (void)state;
    static handed_in h;
    static const int threads[] = {1, 2, 5};
    for (size_t t = 0; t < sizeof threads / sizeof threads[0]; t++) {
        run_with(threads[t], -1, &h);
        assert_int_equal(h.n, N_PIECES);
        for (int64_t i = 0; i < N_PIECES; i++) {
            assert_int_equal(h.order[i], i);
        }
    }
}

/* What came before the failure is handed in, what comes after is not, and nobody hangs. */
static void a_failure_lets_all_go(void **state)
{
    (void)state;
    static handed_in h;
    for (int repeat = 0; repeat < 20; repeat++) {
        run_with(5, 100, &h);
        assert_int_equal(h.n, 100);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_order),
        cmocka_unit_test(a_failure_lets_all_go),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
