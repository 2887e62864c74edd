/* test_matmul.c — products through the public API: every type, shapes, threads, lifetimes, the
 * gradient, and what is refused. */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>

#include "matmul/matmul.h"

#include <cmocka.h>

#include "support/inputs.h"

/* Fewer rows of weights where every instruction is emulated. */
#if defined(QNT_EMULATED)
enum { N_FEW = 7, N_GRADIENT = 9, N_LARGE = 1376 };
#else
enum { N_FEW = 37, N_GRADIENT = 150, N_LARGE = 11008 };
#endif

static test_rng rng = {0x13198a2e03707344u};

static qn_compute *new_compute(int n_threads, int64_t n_cache_bytes, const qn_allocator *allocator)
{
    qn_compute_options options = QN_COMPUTE_OPTIONS_INIT;
    options.n_threads = n_threads;
    options.n_cache_bytes = n_cache_bytes;
    options.allocator = allocator;
    qn_compute *compute = NULL;
    qn_error err = QN_ERROR_INIT;
    if (qn_compute_new(&options, &compute, &err) != QN_OK) {
        fail_msg("%s", err.message);
    }
    return compute;
}

static float *new_floats(int64_t n)
{
    float *x = malloc((size_t)n * sizeof *x);
    assert_non_null(x);
    test_fill(&rng, TEST_GAUSSIAN, x, n);
    return x;
}

/* Random weights of a type; the caller frees data. */
static qn_rhs new_weights(qn_dtype dtype, int64_t n_out, int64_t n_in)
{
    qn_rhs w = {.dtype = dtype, .n_out = n_out, .n_in = n_in};
    float *x = new_floats(n_out * n_in);
    float *ones = malloc((size_t)n_in * sizeof *ones);
    assert_non_null(ones);
    for (int64_t i = 0; i < n_in; i++) {
        ones[i] = 1.0f;
    }
    const int64_t ne[2] = {n_in, n_out};
    assert_int_equal(qn_dtype_tensor_bytes(dtype, ne, 2, &w.n_bytes, NULL), QN_OK);
    void *data = malloc((size_t)w.n_bytes);
    assert_non_null(data);
    const float *weights = qn_dtype_weights_use(dtype) == QN_WEIGHTS_REQUIRED ? ones : NULL;
    assert_int_equal(qn_encode_rows(dtype, x, n_out, n_in, weights, NULL, data, w.n_bytes, NULL),
                     QN_OK);
    w.data = data;
    free(x);
    free(ones);
    return w;
}

static void free_weights(const qn_rhs *w)
{
    void *data;
    memcpy(&data, &w->data, sizeof data);
    free(data);
}

static float *widen(const qn_rhs *w)
{
    float *out = new_floats(w->n_out * w->n_in);
    const int64_t n_blocks = w->n_bytes / qn_dtype_block_bytes(w->dtype);
    assert_int_equal(qn_decode(w->dtype, w->data, n_blocks, out, NULL), QN_OK);
    return out;
}

/* y against binary64 products of the widened weights and the activations as they were given: the
 * root of the mean square must be within what quantizing activations to 8 bits loses. */
static void expect_near(const qn_rhs *w, const float *x, int64_t n_rows, const float *y)
{
    float *wide = widen(w);
    double error = 0.0;
    double scale = 0.0;
    for (int64_t m = 0; m < n_rows; m++) {
        for (int64_t n = 0; n < w->n_out; n++) {
            double sum = 0.0;
            for (int64_t k = 0; k < w->n_in; k++) {
                sum += (double)x[m * w->n_in + k] * (double)wide[n * w->n_in + k];
            }
            const double off = (double)y[m * w->n_out + n] - sum;
            error += off * off;
            scale += sum * sum;
        }
    }
    if (!(error <= 1e-3 * scale)) {
        fail_msg("%s: M = %" PRId64 ", N = %" PRId64 ", K = %" PRId64 ": relative error %.3g",
                 qn_dtype_name(w->dtype), n_rows, w->n_out, w->n_in, sqrt(error / scale));
    }
    free(wide);
}

static void every_type_multiplies(void **state)
{
    (void)state;
    qn_compute *compute = new_compute(3, 0, NULL);
    int n_types = 0;
    for (int id = 0; id < QN_DTYPE_LIMIT; id++) {
        if (qn_activation_dtype((qn_dtype)id) == QN_DTYPE_NONE) {
            continue;
        }
        n_types++;
        static const int64_t row_counts[] = {1, 2, 5, 17, 66};
        const qn_rhs w = new_weights((qn_dtype)id, N_FEW, 512);
        for (size_t i = 0; i < sizeof row_counts / sizeof row_counts[0]; i++) {
            const int64_t n_rows = row_counts[i];
            float *x = new_floats(n_rows * w.n_in);
            float *y = new_floats(n_rows * w.n_out);
            qn_error err = QN_ERROR_INIT;
            if (qn_matmul(compute, &w, x, n_rows, y, &err) != QN_OK) {
                fail_msg("%s", err.message);
            }
            expect_near(&w, x, n_rows, y);
            free(x);
            free(y);
        }
        free_weights(&w);
    }
    assert_int_equal(n_types, 28);
    qn_compute_free(compute);
}

/* Bits depend neither on threads, nor on other rows of x, nor on the packed form. */
static void results_depend_on_operands_only(void **state)
{
    (void)state;
    static const qn_dtype dtypes[] = {QN_DTYPE_Q4_K, QN_DTYPE_Q8_0, QN_DTYPE_Q4_1, QN_DTYPE_F16,
                                      QN_DTYPE_IQ2_S};
    enum { M = 70, N = 129, K = 768 };
    for (size_t i = 0; i < sizeof dtypes / sizeof dtypes[0]; i++) {
        const qn_rhs w = new_weights(dtypes[i], N, K);
        float *x = new_floats(M * K);
        float *want = new_floats(M * N);
        float *got = new_floats(M * N);
        qn_compute *one = new_compute(1, 0, NULL);
        assert_int_equal(qn_matmul(one, &w, x, M, want, NULL), QN_OK);
        for (int n_threads = 2; n_threads <= 5; n_threads++) {
            qn_compute *many = new_compute(n_threads, 0, NULL);
            assert_int_equal(qn_matmul(many, &w, x, M, got, NULL), QN_OK);
            assert_memory_equal(want, got, M * N * sizeof *got);
            qn_compute_free(many);
        }
        for (int64_t m = 0; m < M; m++) {
            assert_int_equal(qn_matmul(one, &w, x + m * K, 1, got + m * N, NULL), QN_OK);
        }
        assert_memory_equal(want, got, M * N * sizeof *got);
        qn_packed *packed = NULL;
        assert_int_equal(qn_pack(one, &w, QN_LAYOUT_DEFAULT, &packed, NULL), QN_OK);
        assert_true(qn_packed_layout(packed) != QN_LAYOUT_DEFAULT);
        assert_true(qn_packed_bytes(packed) >= w.n_bytes);
        assert_true(qn_packed_seconds(packed) > 0.0 && qn_packed_seconds(packed) < 60.0);
        assert_int_equal(qn_packed_shape(packed).n_in, K);
        memset(got, 0, M * N * sizeof *got);
        assert_int_equal(qn_matmul_packed(one, packed, x, M, got, NULL), QN_OK);
        expect_near(&w, x, M, got);
        qn_packed_free(packed);
        qn_compute_free(one);
        free_weights(&w);
        free(x);
        free(want);
        free(got);
    }
}

/* Activations rounded to bf16 on request, the same bits as if the caller had done it; tiles of bf16
 * weights give the bytes back and multiply with and without the request. */
static void bf16_activations_are_rounded_on_request(void **state)
{
    (void)state;
    enum { M = 19, N = 37, K = 301 };
    const qn_rhs w = new_weights(QN_DTYPE_BF16, N, K);
    float *x = new_floats(M * K);
    float *rounded = new_floats(M * K);
    float *want = new_floats(M * N);
    float *got = new_floats(M * N);
    for (int i = 0; i < M * K; i++) {
        uint32_t bits = qni_f32_bits(x[i]);
        bits += 0x7fff + (bits >> 16 & 1); /* to nearest, ties to even */
        rounded[i] = qni_f32_from_bits(bits & 0xffff0000u);
    }
    qn_compute_options options = QN_COMPUTE_OPTIONS_INIT;
    options.n_threads = 2;
    qn_compute *exact = NULL;
    qn_compute *rounding = NULL;
    assert_int_equal(qn_compute_new(&options, &exact, NULL), QN_OK);
    options.round_bf16 = true;
    assert_int_equal(qn_compute_new(&options, &rounding, NULL), QN_OK);
    assert_int_equal(qn_matmul(exact, &w, rounded, M, want, NULL), QN_OK);
    assert_int_equal(qn_matmul(rounding, &w, x, M, got, NULL), QN_OK);
    assert_memory_equal(want, got, M * N * sizeof *got);
    qn_packed *tiles = NULL;
    assert_int_equal(qn_pack(exact, &w, QN_LAYOUT_TILES, &tiles, NULL), QN_OK);
    assert_int_equal(qn_matmul_packed(exact, tiles, rounded, M, got, NULL), QN_OK);
    assert_memory_equal(want, got, M * N * sizeof *got);
    assert_int_equal(qn_matmul_packed(rounding, tiles, x, M, got, NULL), QN_OK);
    for (int i = 0; i < M * N; i++) { /* another order of sums where there is a kernel of tiles */
        assert_true(fabsf(got[i] - want[i]) <= 1e-4f * (1.0f + fabsf(want[i])));
    }
    x[3 * K + 7] = NAN;
    assert_int_equal(qn_matmul_packed(rounding, tiles, x, M, got, NULL), QN_OK);
    assert_true(isnan(got[3 * N]) && isnan(got[3 * N + N - 1]) && !isnan(got[2 * N]));
    qn_packed_free(tiles);
    qn_compute_free(exact);
    qn_compute_free(rounding);
    free_weights(&w);
    free(x);
    free(rounded);
    free(want);
    free(got);
}

/* More rows than are quantized at once. */
static void many_rows_go_in_chunks(void **state)
{
    (void)state;
    enum { M = 2100, N = 5, K = 64 };
    const qn_rhs w = new_weights(QN_DTYPE_Q8_0, N, K);
    float *x = new_floats(M * K);
    float *y = new_floats(M * N);
    qn_compute *compute = new_compute(2, 0, NULL);
    assert_int_equal(qn_matmul(compute, &w, x, M, y, NULL), QN_OK);
    expect_near(&w, x, M, y);
    qn_compute_free(compute);
    free_weights(&w);
    free(x);
    free(y);
}

static void non_finite_rows_stay_apart(void **state)
{
    (void)state;
    enum { M = 4, N = 3, K = 256 };
    const qn_rhs w = new_weights(QN_DTYPE_Q4_K, N, K);
    float *x = new_floats(M * K);
    float y[M * N];
    float clean[M * N];
    qn_compute *compute = new_compute(1, 0, NULL);
    assert_int_equal(qn_matmul(compute, &w, x, M, clean, NULL), QN_OK);
    x[1 * K + 200] = NAN;
    x[2 * K] = -INFINITY;
    assert_int_equal(qn_matmul(compute, &w, x, M, y, NULL), QN_OK);
    for (int n = 0; n < N; n++) {
        assert_true(isnan(y[N + n]) && isnan(y[2 * N + n]));
        assert_true(y[n] == clean[n] && y[3 * N + n] == clean[3 * N + n]);
    }
    uint8_t blocks[M * 292];
    qn_error err = QN_ERROR_INIT;
    assert_int_equal(
        qn_quantize_activations(compute, QN_DTYPE_Q4_K, x, M, K, blocks, sizeof blocks, &err),
        QN_ERR_NON_FINITE_VALUE);
    assert_string_equal(err.message, "row 1, column 200 is not finite");
    assert_int_equal(qn_quantize_activations(compute, QN_DTYPE_Q4_K, x, 1, K, blocks, 292, &err),
                     QN_OK);
    uint8_t direct[292];
    assert_int_equal(qn_encode_rows(QN_DTYPE_Q8_K, x, 1, K, NULL, NULL, direct, 292, NULL), QN_OK);
    assert_memory_equal(blocks, direct, 292);
    qn_compute_free(compute);
    free_weights(&w);
    free(x);
}

/* --- lifetimes -----------------------------------------------------------------------------------
 */

/* Storage that is used again for other weights at the same address. */
static void recycled_storage_is_never_stale(void **state)
{
    (void)state;
    enum { N = 9, K = 256 };
    qn_rhs first = new_weights(QN_DTYPE_Q6_K, N, K);
    const qn_rhs second = new_weights(QN_DTYPE_Q6_K, N, K);
    void *storage;
    memcpy(&storage, &first.data, sizeof storage);
    float *x = new_floats(K);
    float y_first[N];
    float y_second[N];
    float y[N];
    qn_compute *compute = new_compute(1, 1 << 20, NULL);
    assert_int_equal(qn_matmul(compute, &first, x, 1, y_first, NULL), QN_OK);
    assert_int_equal(qn_matmul(compute, &second, x, 1, y_second, NULL), QN_OK);
    assert_int_equal(qn_compute_cache_bytes(compute), 0); /* transient: nothing is kept */

    memcpy(storage, second.data, (size_t)second.n_bytes);
    assert_int_equal(qn_matmul(compute, &first, x, 1, y, NULL), QN_OK);
    assert_memory_equal(y, y_second, sizeof y);

    first.lifetime = QN_RHS_STABLE_PROCESS;
    assert_int_equal(qn_matmul(compute, &first, x, 1, y, NULL), QN_OK);
    assert_memory_equal(y, y_second, sizeof y);
    assert_true(qn_compute_cache_bytes(compute) >= second.n_bytes);
    memset(storage, 0, (size_t)second.n_bytes); /* the promise is broken: the copy answers */
    assert_int_equal(qn_matmul(compute, &first, x, 1, y, NULL), QN_OK);
    assert_memory_equal(y, y_second, sizeof y);

    first.lifetime = QN_RHS_TRANSIENT; /* which never asks for a copy */
    assert_int_equal(qn_matmul(compute, &first, x, 1, y, NULL), QN_OK);
    for (int n = 0; n < N; n++) {
        assert_true(y[n] == 0.0f);
    }
    first.lifetime = QN_RHS_STABLE_PROCESS;
    qn_compute_drop_cache(compute);
    assert_int_equal(qn_compute_cache_bytes(compute), 0);
    assert_int_equal(qn_matmul(compute, &first, x, 1, y, NULL), QN_OK);
    for (int n = 0; n < N; n++) {
        assert_true(y[n] == 0.0f);
    }
    qn_compute_free(compute);
    free_weights(&first);
    free_weights(&second);
    free(x);
}

static void copies_keep_to_the_budget(void **state)
{
    (void)state;
    enum { N = 9, K = 256 };
    qn_rhs w[4];
    float *x = new_floats(K);
    float y[N];
    qn_compute *compute = new_compute(1, 2 * 9 * 256 + 100, NULL); /* rows of 210 bytes take 256 */
    for (int i = 0; i < 4; i++) {
        w[i] = new_weights(QN_DTYPE_Q6_K, N, K);
        w[i].lifetime = QN_RHS_STABLE_PROCESS;
        assert_int_equal(qn_matmul(compute, &w[i], x, 1, y, NULL), QN_OK);
        expect_near(&w[i], x, 1, y);
        assert_true(qn_compute_cache_bytes(compute) <= 2 * 9 * 256 + 100);
    }
    assert_true(qn_compute_cache_bytes(compute) > 0);
    const double seconds = qn_compute_cache_seconds(compute);
    assert_true(seconds > 0.0 && seconds < 60.0);
    qn_compute_drop_cache(compute); /* what it cost stays */
    assert_true(qn_compute_cache_seconds(compute) == seconds);
    qn_compute_free(compute);
    for (int i = 0; i < 4; i++) {
        free_weights(&w[i]);
    }
    free(x);
}

/* --- the gradient --------------------------------------------------------------------------------
 */

/* The loss sum(dy * y) is linear in x, so its finite difference along k is exact but for rounding.
 */
static void gradients_are_those_of_the_widened_product(void **state)
{
    (void)state;
    enum { M = 3, N = N_GRADIENT, K = 512 };
    qn_compute *compute = new_compute(2, 0, NULL);
    for (int id = 0; id < QN_DTYPE_LIMIT; id++) {
        if (qn_activation_dtype((qn_dtype)id) == QN_DTYPE_NONE) {
            continue;
        }
        const qn_rhs w = new_weights((qn_dtype)id, N, K);
        float *wide = widen(&w);
        float *x = new_floats(M * K);
        float *dy = new_floats(M * N);
        float *dx = new_floats(M * K);
        assert_int_equal(qn_matmul_grad(compute, &w, dy, M, dx, NULL), QN_OK);
        for (int round = 0; round < 200; round++) {
            const int64_t m = test_below(&rng, M);
            const int64_t k = test_below(&rng, K);
            const double step = 0.5;
            double up = 0.0;
            double down = 0.0;
            double size = 0.0;
            for (int64_t n = 0; n < N; n++) {
                const double s = (double)dy[m * N + n];
                const double weight = (double)wide[n * K + k];
                up += s * (((double)x[m * K + k] + step) * weight);
                down += s * (((double)x[m * K + k] - step) * weight);
                size += fabs(s * weight);
            }
            const double slope = (up - down) / (2 * step);
            if (!(fabs(slope - (double)dx[m * K + k]) <= 1e-3 * fabs(slope) + 1e-6 * size)) {
                fail_msg("%s: slope %.9g, gradient %.9g", qn_dtype_name(w.dtype), slope,
                         (double)dx[m * K + k]);
            }
        }
        free_weights(&w);
        free(wide);
        free(x);
        free(dy);
        free(dx);
    }
    qn_compute_free(compute);
}

/* More rows of dy, and of weights, than are taken at once; a row of dx has the same bits alone. */
static void gradients_depend_on_operands_only(void **state)
{
    (void)state;
    enum { M = 261, N = 131, K = 301 };
    const qn_rhs w = new_weights(QN_DTYPE_BF16, N, K);
    float *dy = new_floats(M * N);
    float *together = new_floats(M * K);
    float *alone = new_floats(M * K);
    for (int n_threads = 1; n_threads <= 3; n_threads++) {
        qn_compute *compute = new_compute(n_threads, 0, NULL);
        assert_int_equal(qn_matmul_grad(compute, &w, dy, M, together, NULL), QN_OK);
        for (int64_t m = 0; n_threads == 1 && m < M; m++) {
            assert_int_equal(qn_matmul_grad(compute, &w, dy + m * N, 1, alone + m * K, NULL),
                             QN_OK);
        }
        assert_memory_equal(together, alone, (size_t)(M * K) * sizeof *alone);
        qn_compute_free(compute);
    }
    free_weights(&w);
    free(dy);
    free(together);
    free(alone);
}

/* An allocator that counts. */
typedef struct meter {
    atomic_llong now;
    atomic_llong peak;
} meter;

static void *meter_alloc(void *ctx, size_t n_bytes, size_t alignment)
{
    meter *m = ctx;
    const long long now = atomic_fetch_add(&m->now, (long long)n_bytes) + (long long)n_bytes;
    if (now > atomic_load(&m->peak)) {
        atomic_store(&m->peak, now);
    }
    void *p = NULL;
    return posix_memalign(&p, alignment < sizeof p ? sizeof p : alignment, n_bytes) ? NULL : p;
}

static void meter_free(void *ctx, void *p, size_t n_bytes, size_t alignment)
{
    meter *m = ctx;
    (void)alignment;
    atomic_fetch_sub(&m->now, (long long)n_bytes);
    free(p);
}

static void gradients_need_little_memory(void **state)
{
    (void)state;
    enum { N = N_LARGE, K = 4096, M = 2, N_THREADS = 2 };
    meter m = {0};
    const qn_allocator allocator = {&m, meter_alloc, meter_free};
    qn_rhs w = {.dtype = QN_DTYPE_Q4_0, .n_out = N, .n_in = K, .n_bytes = (int64_t)N * K / 32 * 18};
    uint8_t *blocks = calloc(1, (size_t)w.n_bytes);
    assert_non_null(blocks);
    for (int64_t i = 0; i < w.n_bytes; i += 18) { /* scale 1, all levels 0: every weight is -8 */
        blocks[i + 1] = 0x3c;
    }
    w.data = blocks;
    float *dy = new_floats(M * N);
    float *dx = new_floats(M * K);
    qn_compute *compute = new_compute(N_THREADS, 0, &allocator);
    assert_int_equal(qn_matmul_grad(compute, &w, dy, M, dx, NULL), QN_OK);
    double sum = 0.0;
    for (int64_t n = 0; n < N; n++) {
        sum += -8.0 * (double)dy[n];
    }
    assert_true(fabs((double)dx[0] - sum) < 1.0 && dx[0] == dx[K - 1]);
    printf("peak of the handle: %lld KiB for %d threads\n", atomic_load(&m.peak) / 1024, N_THREADS);
    assert_true(atomic_load(&m.peak) <= N_THREADS * 8ll << 20);
    qn_compute_free(compute);
    assert_int_equal(atomic_load(&m.now), 0);
    free(blocks);
    free(dy);
    free(dx);
}

/* --- threads -------------------------------------------------------------------------------------
 */

enum { SHARED_THREADS = 8, SHARED_N = 33, SHARED_K = 512, SHARED_M = 4 };

typedef struct shared_job {
    const qn_rhs *w;
    const float *x;
    const float *want;
    bool is_equal;
} shared_job;

static void *use_shared(void *arg)
{
    shared_job *job = arg;
    float y[SHARED_M * SHARED_N];
    qn_compute_options options = QN_COMPUTE_OPTIONS_INIT;
    options.n_threads = 2;
    qn_compute *compute = NULL;
    job->is_equal = qn_compute_new(&options, &compute, NULL) == QN_OK;
    for (int i = 0; i < 20 && job->is_equal; i++) {
        job->is_equal = qn_matmul(compute, job->w, job->x, SHARED_M, y, NULL) == QN_OK &&
                        memcmp(y, job->want, sizeof y) == 0;
    }
    qn_compute_free(compute);
    return NULL;
}

static void threads_share_a_weight(void **state)
{
    (void)state;
    const qn_rhs w = new_weights(QN_DTYPE_Q5_K, SHARED_N, SHARED_K);
    float *x = new_floats(SHARED_M * SHARED_K);
    float want[SHARED_M * SHARED_N];
    qn_compute *compute = new_compute(1, 0, NULL);
    assert_int_equal(qn_matmul(compute, &w, x, SHARED_M, want, NULL), QN_OK);
    qn_compute_free(compute);
    pthread_t threads[SHARED_THREADS];
    shared_job jobs[SHARED_THREADS];
    for (int i = 0; i < SHARED_THREADS; i++) {
        jobs[i] = (shared_job){&w, x, want, false};
        assert_int_equal(pthread_create(&threads[i], NULL, use_shared, &jobs[i]), 0);
    }
    for (int i = 0; i < SHARED_THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_true(jobs[i].is_equal);
    }
    free_weights(&w);
    free(x);
}

/* --- what is refused -----------------------------------------------------------------------------
 */

static void bad_operands_are_refused(void **state)
{
    (void)state;
    enum { N = 4, K = 256 };
    qn_compute *compute = new_compute(1, 0, NULL);
    const qn_rhs good = new_weights(QN_DTYPE_Q4_K, N, K);
    float *x = new_floats(K);
    float y[N];
    const struct {
        const char *what;
        qn_rhs w;
        const float *x;
        int64_t n_rows;
        float *y;
        qn_status want;
    } cases[] = {
        {"fine", good, x, 1, y, QN_OK},
        {"no rows", good, NULL, 0, NULL, QN_OK},
        {"removed type", {(qn_dtype)4, N, K, good.data, 0, 0}, x, 1, y, QN_ERR_UNSUPPORTED_DTYPE},
        {"integers", {QN_DTYPE_I8, N, K, good.data, N * K, 0}, x, 1, y, QN_ERR_UNSUPPORTED_DTYPE},
        {"q8_K", {QN_DTYPE_Q8_K, N, K, good.data, N * 292, 0}, x, 1, y, QN_ERR_UNSUPPORTED_DTYPE},
        {"row length",
         {QN_DTYPE_Q4_K, N, 255, good.data, good.n_bytes, 0},
         x,
         1,
         y,
         QN_ERR_INVALID_SHAPE},
        {"empty", {QN_DTYPE_Q4_K, 0, K, good.data, 0, 0}, x, 1, y, QN_ERR_INVALID_SHAPE},
        {"bytes",
         {QN_DTYPE_Q4_K, N, K, good.data, good.n_bytes - 1, 0},
         x,
         1,
         y,
         QN_ERR_INVALID_DATA_LENGTH},
        {"huge",
         {QN_DTYPE_Q4_K, INT64_MAX / 8, 1 << 20, good.data, 0, 0},
         x,
         1,
         y,
         QN_ERR_OVERFLOW},
        {"no weights",
         {QN_DTYPE_Q4_K, N, K, NULL, good.n_bytes, 0},
         x,
         1,
         y,
         QN_ERR_INVALID_ARGUMENT},
        {"no x", good, NULL, 1, y, QN_ERR_INVALID_ARGUMENT},
        {"no y", good, x, 1, NULL, QN_ERR_INVALID_ARGUMENT},
        {"negative rows", good, x, -1, y, QN_ERR_INVALID_SHAPE},
        {"huge rows", good, x, INT64_MAX / 512, y, QN_ERR_OVERFLOW},
        {"y is x", good, x, 1, x + K - 1, QN_ERR_INVALID_ARGUMENT},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        qn_error err = QN_ERROR_INIT;
        const qn_status st =
            qn_matmul(compute, &cases[i].w, cases[i].x, cases[i].n_rows, cases[i].y, &err);
        if (st != cases[i].want) {
            fail_msg("%s: %s instead of %s (%s)", cases[i].what, qn_status_name(st),
                     qn_status_name(cases[i].want), err.message);
        }
    }
    float *inside_weights;
    memcpy(&inside_weights, &good.data, sizeof inside_weights);
    assert_int_equal(qn_matmul(compute, &good, x, 1, inside_weights, NULL),
                     QN_ERR_INVALID_ARGUMENT);
    assert_int_equal(qn_matmul_grad(compute, &good, y, 1, y, NULL), QN_ERR_INVALID_ARGUMENT);
    assert_int_equal(qn_matmul(NULL, &good, x, 1, y, NULL), QN_ERR_INVALID_ARGUMENT);
    qn_packed *packed = NULL;
    assert_int_equal(qn_pack(compute, &good, (qn_layout)99, &packed, NULL), QN_ERR_UNSUPPORTED);
    assert_null(packed);
    qn_compute_free(compute);
    free_weights(&good);
    free(x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type_multiplies),
        cmocka_unit_test(results_depend_on_operands_only),
        cmocka_unit_test(bf16_activations_are_rounded_on_request),
        cmocka_unit_test(many_rows_go_in_chunks),
        cmocka_unit_test(non_finite_rows_stay_apart),
        cmocka_unit_test(recycled_storage_is_never_stale),
        cmocka_unit_test(copies_keep_to_the_budget),
        cmocka_unit_test(gradients_are_those_of_the_widened_product),
        cmocka_unit_test(gradients_depend_on_operands_only),
        cmocka_unit_test(gradients_need_little_memory),
        cmocka_unit_test(threads_share_a_weight),
        cmocka_unit_test(bad_operands_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
