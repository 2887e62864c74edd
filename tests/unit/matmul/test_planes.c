/* test_planes.c — products with sums of ternary planes against binary64 products of the sum. */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "kernels/kernels.h"
#include "matmul/matmul.h"
#include "support/inputs.h"

enum { N_IN = 512, N_OUT = 5, N_ROWS = 3, N_GROUPS = N_IN * N_OUT / 256 };

typedef struct fitted {
    qni_block_tq2_0 blocks[3][N_GROUPS];
    qn_rhs planes[3];
} fitted;

static void fit(const float *w, int n_planes, fitted *out)
{
    qni_ternary_stats stats[N_GROUPS];
    void *planes[3] = {out->blocks[0], out->blocks[1], out->blocks[2]};
    qni_kernel_fit(QN_DTYPE_TQ2_0, QN_ISA_BEST)(w, N_GROUPS, n_planes, false, planes, stats);
    for (int p = 0; p < n_planes; p++) {
        out->planes[p] =
            (qn_rhs){QN_DTYPE_TQ2_0,  N_OUT, N_IN, out->blocks[p], (int64_t)sizeof out->blocks[p],
                     QN_RHS_TRANSIENT};
    }
}

static void sums_of_planes_multiply(void **state)
{
    (void)state;
    static float w[N_OUT * N_IN], x[N_ROWS * N_IN], wide[N_OUT * N_IN], one[N_OUT * N_IN];
    static fitted planes;
    test_rng rng = {11};
    test_fill(&rng, TEST_GAUSSIAN, w, N_OUT * N_IN);
    test_fill(&rng, TEST_GAUSSIAN, x, N_ROWS * N_IN);
    qn_compute *compute = NULL;
    assert_int_equal(qn_compute_new(NULL, &compute, NULL), QN_OK);
    for (int n_planes = 1; n_planes <= 3; n_planes++) {
        float y[N_ROWS * N_OUT], scratch[N_ROWS * N_OUT];
        fit(w, n_planes, &planes);
        memset(wide, 0, sizeof wide);
        for (int p = 0; p < n_planes; p++) {
            assert_int_equal(qn_decode(QN_DTYPE_TQ2_0, planes.blocks[p], N_GROUPS, one, NULL),
                             QN_OK);
            for (int i = 0; i < N_OUT * N_IN; i++) {
                wide[i] += one[i];
            }
        }
        assert_int_equal(
            qn_matmul_planes(compute, planes.planes, n_planes, x, N_ROWS, scratch, y, NULL), QN_OK);
        double error = 0.0, size = 0.0;
        for (int m = 0; m < N_ROWS; m++) {
            for (int n = 0; n < N_OUT; n++) {
                double want = 0.0;
                for (int k = 0; k < N_IN; k++) {
                    want += (double)x[m * N_IN + k] * (double)wide[n * N_IN + k];
                }
                const double d = (double)y[m * N_OUT + n] - want;
                error += d * d;
                size += want * want;
            }
        }
        assert_true(sqrt(error / size) < 0.02); /* what activations of 8 bits lose */
    }
    qn_compute_free(compute);
}

static void planes_must_fit_together(void **state)
{
    (void)state;
    static float x[N_IN], y[N_OUT], scratch[N_OUT], w[N_OUT * N_IN];
    static fitted planes;
    qn_compute *compute = NULL;
    assert_int_equal(qn_compute_new(NULL, &compute, NULL), QN_OK);
    fit(w, 2, &planes);
    assert_int_equal(qn_matmul_planes(compute, planes.planes, 0, x, 1, scratch, y, NULL),
                     QN_ERR_INVALID_PLANE_SET);
    assert_int_equal(qn_matmul_planes(compute, planes.planes, 2, x, 1, NULL, y, NULL),
                     QN_ERR_INVALID_ARGUMENT);
    planes.planes[1].n_out = 4;
    assert_int_equal(qn_matmul_planes(compute, planes.planes, 2, x, 1, scratch, y, NULL),
                     QN_ERR_SHAPE_MISMATCH);
    qn_compute_free(compute);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_of_planes_multiply),
        cmocka_unit_test(planes_must_fit_together),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
