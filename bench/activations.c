/* activations.c — kernels that quantize activations, alone: every one of this machine, one thread,
 * 16 KiB of gaussian f32 in cache.
 *
 *     build/bench/activations
 *
 * The blocks are compared with the referee's before anything is timed; processor time, best of the
 * repetitions. Prints GB of f32 a second. What products pay is more: the check for finite values
 * (codecs act). */
#include <math.h>
#include <stdio.h>

#include "kernels/kernels.h"

enum { N = 4096, N_ROUNDS = 400, N_CALLS = 40 };

static float values[N];
static uint8_t want[4 * N];
static uint8_t got[4 * N];

/* A sum of twelve uniform numbers: near enough to a gaussian. */
static void fill(void)
{
    uint64_t state = 1;
    for (int i = 0; i < N; i++) {
        double sum = -6.0;
        for (int k = 0; k < 12; k++) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            sum += (double)(state >> 33) * 0x1p-31;
        }
        values[i] = (float)sum;
    }
}

static double encode_seconds(qni_encode_fn encode)
{
    const double start = qni_thread_cpu_seconds();
    for (int i = 0; i < N_CALLS; i++) {
        encode(values, 1, N, NULL, NULL, got);
    }
    return (qni_thread_cpu_seconds() - start) / N_CALLS;
}

static int measure(const qni_kernel_row *row)
{
    double best = HUGE_VAL;
    qni_kernel_encode(row->dtype, QN_ISA_SCALAR)(values, 1, N, NULL, NULL, want);
    for (int i = 0; i < N_ROUNDS; i++) {
        best = fmin(best, encode_seconds(row->kernel.encode));
    }
    if (memcmp(want, got, sizeof want) != 0) {
        printf("%s: blocks differ from the referee's\n", row->symbol);
        return 1;
    }
    printf("%-28s %6.1f GB/s\n", row->symbol, sizeof values * 1e-9 / best);
    return 0;
}

int main(void)
{
    int status = 0;
    const qni_kernel_row *row = NULL;
    fill();
    for (int i = 0; (row = qni_kernel_row_at(i)) != NULL; i++) {
        const bool is_activation = row->dtype == QN_DTYPE_Q8_0 || row->dtype == QN_DTYPE_Q8_1 ||
                                   row->dtype == QN_DTYPE_Q8_K;
        if (row->operation == QNI_OP_encode && is_activation && row->isa != QN_ISA_SCALAR &&
            qn_isa_is_available(row->isa)) {
            status |= measure(row);
        }
    }
    return status;
}
