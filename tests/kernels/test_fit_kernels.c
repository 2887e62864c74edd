/* test_fit_kernels.c — the fit of ternary planes: every kernel against the scalar referee, and the
 * referee against weights whose planes are known. */
#define _DEFAULT_SOURCE 1 /* MAP_ANONYMOUS */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "kernels/kernels.h"
#include "support/inputs.h"

enum { G = 256, N_GROUPS_MAX = 300 };

typedef struct fit_result {
    uint8_t planes[3][N_GROUPS_MAX * sizeof(qni_block_tq2_0)];
    qni_ternary_stats stats[N_GROUPS_MAX];
} fit_result;

static void run_fit(qni_fit_fn fit, const float *x, int64_t n_groups, int n_planes, bool is_tied,
                    fit_result *out)
{
    memset(out, 0, sizeof *out);
    void *planes[3] = {out->planes[0], out->planes[1], out->planes[2]};
    fit(x, n_groups, n_planes, is_tied, planes, out->stats);
}

static void same_stats(const qni_ternary_stats *a, const qni_ternary_stats *b)
{
    assert_memory_equal(&a->sum_error2, &b->sum_error2, sizeof a->sum_error2);
    assert_memory_equal(&a->sum_weight2, &b->sum_weight2, sizeof a->sum_weight2);
    assert_int_equal(a->n_iterations, b->n_iterations);
    assert_int_equal(a->is_settled, b->is_settled);
    for (int p = 0; p < 3; p++) {
        assert_int_equal(a->n_zeros[p], b->n_zeros[p]);
    }
}

static void check_case(const qni_kernel_row *row, const test_guarded *buffer, int64_t n_groups,
                       int n_planes, bool is_tied)
{
    static fit_result want;
    static fit_result got;
    const float *x = (const float *)(buffer->end - (size_t)n_groups * G * sizeof(float));
    run_fit(qni_kernel_fit(QN_DTYPE_TQ2_0, QN_ISA_SCALAR), x, n_groups, n_planes, is_tied, &want);
    run_fit(row->kernel.fit, x, n_groups, n_planes, is_tied, &got);
    for (int p = 0; p < 3; p++) {
        assert_memory_equal(want.planes[p], got.planes[p], sizeof want.planes[p]);
    }
    for (int64_t g = 0; g < n_groups; g++) {
        same_stats(&want.stats[g], &got.stats[g]);
    }
}

static void every_kernel_equals_the_referee(void **state)
{
    (void)state;
    static const int64_t counts[] = {1, 2, 7, 8, 9, 31, 256, 257, N_GROUPS_MAX};
    test_guarded buffer = test_guarded_new(N_GROUPS_MAX * G * sizeof(float));
    test_rng rng = {20260101};
    int n_checked = 0;
    const qni_kernel_row *row = NULL;
    for (int i = 0; (row = qni_kernel_row_at(i)) != NULL; i++) {
        if (row->operation != QNI_OP_fit || !qn_isa_is_available(row->isa)) {
            continue;
        }
        for (int d = 0; d < TEST_N_DISTRIBUTIONS; d++) {
            const int64_t n_groups = counts[d % (int)(sizeof counts / sizeof counts[0])];
            float *x = (float *)(buffer.end - (size_t)n_groups * G * sizeof(float));
            test_fill(&rng, (test_distribution)d, x, n_groups * G);
            for (int n_planes = 1; n_planes <= 3; n_planes++) {
                check_case(row, &buffer, n_groups, n_planes, false);
                if (n_planes > 1) {
                    check_case(row, &buffer, n_groups, n_planes, true);
                }
            }
        }
        n_checked++;
    }
    assert_true(n_checked > 0);
    test_guarded_free(&buffer);
}

/* Weights that are sums of two tied planes come back exactly, plane by plane: 3 s t0 + s t1 has one
 * balanced-ternary form, and the largest weight, 4 s, makes s one of the steps tried. */
static void planes_that_exist_are_found(void **state)
{
    (void)state;
    static fit_result got;
    test_rng rng = {7};
    float x[G] = {0.5f};
    int n_zeros[2] = {0, 0};
    for (int i = 1; i < G; i++) {
        const int t0 = (int)test_below(&rng, 3) - 1;
        const int t1 = (int)test_below(&rng, 3) - 1;
        x[i] = 0.375f * (float)t0 + 0.125f * (float)t1;
        n_zeros[0] += t0 == 0;
        n_zeros[1] += t1 == 0;
    }
    run_fit(qni_kernel_fit(QN_DTYPE_TQ2_0, QN_ISA_SCALAR), x, 1, 2, true, &got);
    assert_true(got.stats[0].sum_error2 == 0.0);
    assert_int_equal(got.stats[0].n_zeros[0], n_zeros[0]);
    assert_int_equal(got.stats[0].n_zeros[1], n_zeros[1]);
    const qni_block_tq2_0 *coarse = (const qni_block_tq2_0 *)got.planes[0];
    const qni_block_tq2_0 *fine = (const qni_block_tq2_0 *)got.planes[1];
    assert_int_equal(qni_load_u16le(coarse->d), 0x3600); /* 0.375 */
    assert_int_equal(qni_load_u16le(fine->d), 0x3000);   /* 0.125 */
    assert_int_equal(coarse->qs[0] & 3, 2);              /* x[0] = 0.5: both trits +1 */
    assert_int_equal(fine->qs[0] & 3, 2);
}

static void zeros_settle_at_once(void **state)
{
    (void)state;
    static fit_result got;
    static const float zeros[G];
    for (int tied = 0; tied < 2; tied++) {
        run_fit(qni_kernel_fit(QN_DTYPE_TQ2_0, QN_ISA_SCALAR), zeros, 1, 2, tied != 0, &got);
        assert_true(got.stats[0].sum_error2 == 0.0 && got.stats[0].sum_weight2 == 0.0);
        assert_int_equal(got.stats[0].n_zeros[0], G);
        const uint8_t *block = got.planes[0];
        for (int i = 0; i < 64; i++) {
            assert_int_equal(block[i], 0x55); /* level 1 is a zero trit */
        }
        assert_int_equal(block[64] | block[65], 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kernel_equals_the_referee),
        cmocka_unit_test(planes_that_exist_are_found),
        cmocka_unit_test(zeros_settle_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
