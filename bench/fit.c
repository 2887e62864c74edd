/* fit.c — fits of ternary planes, every kernel of this machine against the scalar referee, one
 * thread.
 *
 *     build/bench/fit
 *
 * Gaussian weights. The blocks are compared before anything is timed; processor time, best of five,
 * the kernels in turn. Prints millions of weights a second and the factor. */
#include <math.h>
#include <stdio.h>

#include "kernels/kernels.h"

enum { GROUP = 256, N_GROUPS = 512, N_ROUNDS = 5 };

typedef struct planes {
    qni_block_tq2_0 blocks[3][N_GROUPS];
    qni_ternary_stats stats[N_GROUPS];
} planes;

static float weights[N_GROUPS * GROUP];

/* A sum of twelve uniform numbers: near enough to a gaussian. */
static void fill(void)
{
    uint64_t state = 1;
    for (int i = 0; i < N_GROUPS * GROUP; i++) {
        double sum = -6.0;
        for (int k = 0; k < 12; k++) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            sum += (double)(state >> 33) * 0x1p-31;
        }
        weights[i] = (float)(0.02 * sum);
    }
}

static double fit_seconds(qni_fit_fn fit, int n_planes, bool is_tied, planes *out)
{
    void *const to[3] = {out->blocks[0], out->blocks[1], out->blocks[2]};
    const double start = qni_thread_cpu_seconds();
    fit(weights, N_GROUPS, n_planes, is_tied, to, out->stats);
    return qni_thread_cpu_seconds() - start;
}

static int compare(const qni_kernel_row *row, int n_planes, bool is_tied)
{
    static planes want, got;
    const qni_fit_fn referee = qni_kernel_fit(QN_DTYPE_TQ2_0, QN_ISA_SCALAR);
    double best_referee = HUGE_VAL, best = HUGE_VAL;
    for (int i = 0; i < N_ROUNDS; i++) {
        best_referee = fmin(best_referee, fit_seconds(referee, n_planes, is_tied, &want));
        best = fmin(best, fit_seconds(row->kernel.fit, n_planes, is_tied, &got));
    }
    for (int p = 0; p < n_planes; p++) {
        if (memcmp(want.blocks[p], got.blocks[p], sizeof want.blocks[p]) != 0) {
            printf("%s: plane %d differs from the referee's\n", row->symbol, p);
            return 1;
        }
    }
    const double n = (double)N_GROUPS * GROUP * 1e-6;
    printf("%d planes%s  %-24s %8.2f M weights/s  scalar %6.2f  %5.1f x\n", n_planes,
           is_tied ? ", tied" : "      ", row->symbol, n / best, n / best_referee,
           best_referee / best);
    return 0;
}

int main(void)
{
    int status = 0;
    const qni_kernel_row *row = NULL;
    fill();
    for (int i = 0; (row = qni_kernel_row_at(i)) != NULL; i++) {
        if (row->operation != QNI_OP_fit || row->isa == QN_ISA_SCALAR ||
            !qn_isa_is_available(row->isa)) {
            continue;
        }
        for (int n_planes = 1; n_planes <= 3; n_planes++) {
            status |= compare(row, n_planes, false);
            status |= n_planes > 1 ? compare(row, n_planes, true) : 0;
        }
    }
    return status;
}
