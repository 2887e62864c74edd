/* 06_train_adapter.c — a small low-rank adapter trained in front of a frozen q4_K layer: the
 * forward pass multiplies by the quantized weights, the backward pass asks them for the gradient of
 * their input. Weights never change and never get a gradient. It prints a loss that falls. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "quench/quench.h"

enum { BATCH = 32, N_IN = 256, N_OUT = 64, RANK = 4, STEPS = 60 };

static const float learning_rate = 0.05f;

static void must(qn_status st, const qn_error *err)
{
    if (st != QN_OK) {
        fprintf(stderr, "06_train_adapter: %s\n", err->message);
        exit(1);
    }
}

/* Roughly normal, from a small generator: the same everywhere. */
static float noise(void)
{
    static uint32_t state = 12345;
    float sum = -6.0f;
    for (int i = 0; i < 12; i++) {
        state = state * 1664525u + 1013904223u;
        sum += (float)(state >> 8) * 0x1p-24f;
    }
    return sum;
}

static void fill(float *x, int n, float scale)
{
    for (int i = 0; i < n; i++) {
        x[i] = scale * noise();
    }
}

/* h = x + (x down) up; the middle is kept for the gradient. */
static void adapt(const float *x, const float *down, const float *up, float *middle, float *h)
{
    for (int m = 0; m < BATCH; m++) {
        for (int r = 0; r < RANK; r++) {
            float sum = 0.0f;
            for (int k = 0; k < N_IN; k++) {
                sum += x[m * N_IN + k] * down[k * RANK + r];
            }
            middle[m * RANK + r] = sum;
        }
        for (int k = 0; k < N_IN; k++) {
            float sum = x[m * N_IN + k];
            for (int r = 0; r < RANK; r++) {
                sum += middle[m * RANK + r] * up[r * N_IN + k];
            }
            h[m * N_IN + k] = sum;
        }
    }
}

/* One step down the gradient of the adapter, given that of h. */
static void learn(const float *x, const float *middle, const float *dh, float *down, float *up)
{
    static float d_down[N_IN * RANK];
    static float d_up[RANK * N_IN];
    for (int i = 0; i < N_IN * RANK; i++) {
        d_down[i] = 0.0f;
        d_up[i] = 0.0f;
    }
    for (int m = 0; m < BATCH; m++) {
        for (int r = 0; r < RANK; r++) {
            float d_middle = 0.0f;
            for (int k = 0; k < N_IN; k++) {
                d_middle += dh[m * N_IN + k] * up[r * N_IN + k];
                d_up[r * N_IN + k] += middle[m * RANK + r] * dh[m * N_IN + k];
            }
            for (int k = 0; k < N_IN; k++) {
                d_down[k * RANK + r] += x[m * N_IN + k] * d_middle;
            }
        }
    }
    for (int i = 0; i < N_IN * RANK; i++) {
        down[i] -= learning_rate * d_down[i];
        up[i] -= learning_rate * d_up[i];
    }
}

static qn_tensor *frozen_layer(void)
{
    static float w[N_OUT * N_IN];
    static uint8_t blocks[N_OUT * N_IN / 256 * 144];
    qn_error err = QN_ERROR_INIT;
    qn_tensor *tensor = NULL;
    const int64_t ne[2] = {N_IN, N_OUT};
    fill(w, N_OUT * N_IN, 0.06f);
    must(qn_encode_rows(QN_DTYPE_Q4_K, w, N_OUT, N_IN, NULL, NULL, blocks, sizeof blocks, &err),
         &err);
    must(qn_tensor_from_borrowed_blocks(QN_DTYPE_Q4_K, ne, 2, blocks, sizeof blocks, NULL, &tensor,
                                        &err),
         &err);
    return tensor;
}

int main(void)
{
    static float x[BATCH * N_IN], h[BATCH * N_IN], dh[BATCH * N_IN], middle[BATCH * RANK];
    static float y[BATCH * N_OUT], target[BATCH * N_OUT], dy[BATCH * N_OUT];
    static float down[N_IN * RANK], up[RANK * N_IN];
    qn_error err = QN_ERROR_INIT;
    qn_compute *compute = NULL;
    qn_tensor *layer = frozen_layer();
    must(qn_compute_new(NULL, &compute, &err), &err);
    const qn_lhs lhs = {h, BATCH, N_IN, true};
    const qn_lhs upstream = {dy, BATCH, N_OUT, false};

    /* what is to be learnt: the same layer behind another adapter */
    fill(x, BATCH * N_IN, 1.0f);
    fill(down, N_IN * RANK, 0.06f);
    fill(up, RANK * N_IN, 0.5f);
    adapt(x, down, up, middle, h);
    must(qn_tensor_dot(compute, &lhs, layer, QN_RHS_TRANSIENT, target, BATCH * N_OUT, &err), &err);

    fill(down, N_IN * RANK, 0.06f);
    fill(up, RANK * N_IN, 0.0f);
    float first = 0.0f;
    float loss = 0.0f;
    for (int step = 0; step < STEPS; step++) {
        adapt(x, down, up, middle, h);
        must(qn_tensor_dot(compute, &lhs, layer, QN_RHS_TRANSIENT, y, BATCH * N_OUT, &err), &err);
        loss = 0.0f;
        for (int i = 0; i < BATCH * N_OUT; i++) {
            const float off = y[i] - target[i];
            loss += off * off / (2.0f * BATCH);
            dy[i] = off / BATCH;
        }
        first = step == 0 ? loss : first;
        if (step % 10 == 0 || step == STEPS - 1) {
            printf("step %2d  loss %.4f\n", step, (double)loss);
        }
        must(qn_tensor_grad_lhs(compute, &upstream, layer, dh, BATCH * N_IN, &err), &err);
        learn(x, middle, dh, down, up);
    }
    printf("the loss fell to %.1f %% of its start\n", 100.0 * (double)(loss / first));
    qn_compute_free(compute);
    qn_tensor_free(layer);
    return loss < 0.5f * first ? 0 : 1;
}
