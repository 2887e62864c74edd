/* parity_matmul.c GGML_PROVIDER LIBRARY_FOLDER — products against ggml_mul_mat of the pinned
 * package, through the benchmarks' wrapper of it.
 *
 * Both quantize the activations to the same type, so they agree far better than either agrees with
 * the unquantized product; ggml rounds Q8_0 activations from x * (127 / max) where the file encoder
 * (and quench) multiply by 1 / d, so single levels may differ by one. The bound is what one level
 * in 127 of every activation could make, in the mean. Exit status 77: no library, skipped. */
#include <dlfcn.h>

#include "provider.h"
#include "quench/quench.h"
#include "support/inputs.h"

enum { MAX_M = 512, MAX_N = 67, MAX_K = 1024 };

static test_rng rng = {0xa4093822299f31d0u};
static float x[MAX_M * MAX_K];
static float w[MAX_N * MAX_K];
static float y[MAX_M * MAX_N];
static uint8_t blocks[MAX_N * MAX_K * 4];
static float ones[MAX_K];

static void must(qn_status st, const qn_error *err)
{
    if (st != QN_OK) {
        fprintf(stderr, "quench: %s\n", err->message);
        exit(1);
    }
}

/* Root of the mean square difference, relative to that of the products. */
static double distance(const float *a, const float *b, int64_t n)
{
    double error = 0.0;
    double scale = 0.0;
    for (int64_t i = 0; i < n; i++) {
        error += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
        scale += (double)b[i] * (double)b[i];
    }
    return sqrt(error / (scale + 1e-30));
}

static double compare(const bench_provider *peer, qn_compute *compute, qn_dtype dtype, int64_t m,
                      int64_t n, int64_t k)
{
    qn_error err = QN_ERROR_INIT;
    qn_rhs rhs = {.dtype = dtype, .n_out = n, .n_in = k, .data = blocks};
    const int64_t ne[2] = {k, n};
    const float *weights = qn_dtype_weights_use(dtype) == QN_WEIGHTS_REQUIRED ? ones : NULL;
    must(qn_dtype_tensor_bytes(dtype, ne, 2, &rhs.n_bytes, &err), &err);
    test_fill(&rng, TEST_GAUSSIAN, x, m * k);
    test_fill(&rng, TEST_GAUSSIAN, w, n * k);
    must(qn_encode_rows(dtype, w, n, k, weights, NULL, blocks, rhs.n_bytes, &err), &err);
    void *handle = peer->mm_new((int)dtype, blocks, n, k, m, 0, 1, 1);
    if (!handle) {
        return -1.0;
    }
    peer->mm_set_x(handle, x);
    (void)peer->mm_run(handle, 0);
    must(qn_matmul(compute, &rhs, x, m, y, &err), &err);
    const double off = distance(y, peer->mm_y(handle, 0), m * n);
    peer->mm_free(handle);
    return off;
}

int main(int argc, char **argv)
{
    static const int64_t ms[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 17, 33, 64, 512};
    void *library = argc == 3 ? dlopen(argv[1], RTLD_NOW) : NULL;
    bench_provider_get_fn get = NULL;
    if (library) {
        void *symbol = dlsym(library, "bench_provider_get");
        memcpy(&get, &symbol, sizeof get);
    }
    const bench_provider *peer = get ? get(argv[2]) : NULL;
    if (!peer) {
        printf("skipped: no peer library; scripts/setup.sh test fetches it\n");
        return 77;
    }
    qn_error err = QN_ERROR_INIT;
    qn_compute *compute = NULL;
    must(qn_compute_new(NULL, &compute, &err), &err);
    for (int i = 0; i < MAX_K; i++) {
        ones[i] = 1.0f;
    }
    int n_failures = 0;
    int n_types = 0;
    for (int id = 0; id < QN_DTYPE_LIMIT; id++) {
        if (qn_activation_dtype((qn_dtype)id) == QN_DTYPE_NONE) {
            continue;
        }
        double worst = 0.0;
        int n_cases = 0;
        for (size_t i = 0; i < sizeof ms / sizeof ms[0]; i++) {
            const int64_t n = 2 * test_below(&rng, MAX_N / 2) + 1; /* odd */
            const int64_t k = 256 * (1 + test_below(&rng, MAX_K / 256));
            const double off = compare(peer, compute, (qn_dtype)id, ms[i], n, k);
            n_cases += off >= 0.0;
            worst = off > worst ? off : worst;
        }
        /* f16 and bf16: ggml rounds the activations to the same type, quench does not */
        const double bound = id == QN_DTYPE_BF16 ? 4e-3 : 1e-3;
        const bool is_near = n_cases > 0 && worst <= bound;
        printf("%-8s %2d products, largest distance %.2e%s\n", qn_dtype_name((qn_dtype)id), n_cases,
               worst, is_near ? "" : "  TOO FAR");
        n_failures += !is_near;
        n_types++;
    }
    qn_compute_free(compute);
    printf("%d types, %d failures\n", n_types, n_failures);
    return n_failures == 0 ? 0 : 1;
}
