/* 05_quantized_layer.c MODEL.gguf — an embedding look-up and one feed-forward layer straight from a
 * mapped file, weights never widened.
 *
 * It prints how far the layer's output is from the same layer computed with widened weights: about
 * one percent, which is what quantizing activations to eight bits costs. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "quench/quench.h"

enum { N_TOKENS = 4 };

static void must(qn_status st, const qn_error *err)
{
    if (st != QN_OK) {
        fprintf(stderr, "05_quantized_layer: %s\n", err->message);
        exit(1);
    }
}

static float *floats(int64_t n)
{
    float *x = malloc((size_t)n * sizeof *x);
    if (!x) {
        fprintf(stderr, "05_quantized_layer: no memory\n");
        exit(1);
    }
    return x;
}

/* A tensor of the file: its blocks are borrowed from the map. */
static qn_tensor *borrow(const qn_gguf *model, const char *name)
{
    qn_error err = QN_ERROR_INIT;
    const qn_tensor_info *info = NULL;
    qn_tensor *tensor = NULL;
    must(qn_gguf_get_tensor(model, name, &info, &err), &err);
    must(qn_tensor_from_info(info, NULL, &tensor, &err), &err);
    return tensor;
}

/* A weight matrix in both forms. */
typedef struct matrix {
    int64_t n_in;
    int64_t n_out;
    qn_packed *packed;
    float *wide;
} matrix;

static matrix load(const qn_gguf *model, qn_compute *compute, const char *name)
{
    qn_error err = QN_ERROR_INIT;
    qn_tensor *tensor = borrow(model, name);
    const qn_tensor_info info = qn_tensor_describe(tensor);
    matrix m = {info.ne[0], info.ne[1], NULL, floats(info.ne[0] * info.ne[1])};
    must(qn_tensor_pack_rhs(compute, tensor, QN_LAYOUT_DEFAULT, &m.packed, &err), &err);
    must(qn_tensor_to_f32(tensor, m.wide, m.n_in * m.n_out, &err), &err);
    printf("%-24s %s, %d in, %d out\n", name, qn_dtype_name(info.dtype), (int)m.n_in, (int)m.n_out);
    qn_tensor_free(tensor);
    return m;
}

static void multiply(qn_compute *compute, const matrix *m, const float *x, float *y)
{
    qn_error err = QN_ERROR_INIT;
    const qn_lhs lhs = {x, N_TOKENS, m->n_in, false};
    must(qn_tensor_dot_packed(compute, &lhs, m->packed, y, N_TOKENS * m->n_out, &err), &err);
}

static void multiply_wide(const matrix *m, const float *x, float *y)
{
    for (int64_t t = 0; t < N_TOKENS; t++) {
        for (int64_t n = 0; n < m->n_out; n++) {
            double sum = 0.0;
            for (int64_t k = 0; k < m->n_in; k++) {
                sum += (double)x[t * m->n_in + k] * (double)m->wide[n * m->n_in + k];
            }
            y[t * m->n_out + n] = (float)sum;
        }
    }
}

static void normalize(float *x, const float *weight, int64_t n)
{
    for (int64_t t = 0; t < N_TOKENS; t++, x += n) {
        float sum = 0.0f;
        for (int64_t k = 0; k < n; k++) {
            sum += x[k] * x[k];
        }
        const float scale = 1.0f / sqrtf(sum / (float)n + 1e-5f);
        for (int64_t k = 0; k < n; k++) {
            x[k] *= scale * weight[k];
        }
    }
}

/* gate = silu(gate) * up */
static void activate(float *gate, const float *up, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        gate[i] = gate[i] / (1.0f + expf(-gate[i])) * up[i];
    }
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: 05_quantized_layer MODEL.gguf\n");
        return 2;
    }
    FILE *file = fopen(argv[1], "rb");
    if (!file) {
        printf("skipped: there is no %s; scripts/setup.sh demo fetches it\n", argv[1]);
        return 77;
    }
    (void)fclose(file);
    qn_error err = QN_ERROR_INIT;
    qn_gguf *model = NULL;
    qn_compute *compute = NULL;
    must(qn_gguf_open(argv[1], NULL, &model, &err), &err);
    must(qn_compute_new(NULL, &compute, &err), &err);

    /* only the rows of these tokens are widened; the table of the whole vocabulary stays as it is
     */
    const int64_t tokens[N_TOKENS] = {1, 28, 7042, 28};
    qn_tensor *table = borrow(model, "token_embd.weight");
    const int64_t n_embd = qn_tensor_describe(table).ne[0];
    float *x = floats(N_TOKENS * n_embd);
    must(qn_tensor_get_rows(table, tokens, N_TOKENS, x, N_TOKENS * n_embd, &err), &err);

    qn_tensor *norm = borrow(model, "blk.0.ffn_norm.weight");
    float *norm_weight = floats(n_embd);
    must(qn_tensor_to_f32(norm, norm_weight, n_embd, &err), &err);
    normalize(x, norm_weight, n_embd);

    const matrix gate = load(model, compute, "blk.0.ffn_gate.weight");
    const matrix up = load(model, compute, "blk.0.ffn_up.weight");
    const matrix down = load(model, compute, "blk.0.ffn_down.weight");
    float *a = floats(N_TOKENS * gate.n_out);
    float *b = floats(N_TOKENS * up.n_out);
    float *y = floats(N_TOKENS * down.n_out);
    float *want = floats(N_TOKENS * down.n_out);
    multiply(compute, &gate, x, a);
    multiply(compute, &up, x, b);
    activate(a, b, N_TOKENS * gate.n_out);
    multiply(compute, &down, a, y);

    multiply_wide(&gate, x, a);
    multiply_wide(&up, x, b);
    activate(a, b, N_TOKENS * gate.n_out);
    multiply_wide(&down, a, want);
    double error = 0.0;
    double scale = 0.0;
    for (int64_t i = 0; i < N_TOKENS * down.n_out; i++) {
        error += ((double)y[i] - (double)want[i]) * ((double)y[i] - (double)want[i]);
        scale += (double)want[i] * (double)want[i];
    }
    const double relative = sqrt(error / scale);
    printf("first outputs: %.5f %.5f %.5f\n", (double)y[0], (double)y[1], (double)y[2]);
    printf("distance from the widened layer: %.2f %%\n", 100.0 * relative);

    const matrix *all[] = {&gate, &up, &down};
    for (int i = 0; i < 3; i++) {
        qn_packed_free(all[i]->packed);
        free(all[i]->wide);
    }
    free(x), free(norm_weight), free(a), free(b), free(y), free(want);
    qn_tensor_free(table);
    qn_tensor_free(norm);
    qn_compute_free(compute);
    qn_gguf_close(model);
    return relative < 0.03 ? 0 : 1;
}
