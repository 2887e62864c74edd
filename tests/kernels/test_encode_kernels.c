/* Every encoder of kernels.def that this machine can run against the scalar referee: all bytes,
 * over megabytes of many kinds of rows, with and without importance weights; few blocks at any
 * address; nothing outside the buffers. Arguments: names of types, to check only those; -n
 * MEGABYTES. */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include "kernels/kernels.h"

#include <cmocka.h>

#include "support/inputs.h"

enum { ROW = 2048, N_ROWS = 8, N_ELEMS = ROW * N_ROWS, MAX_WANTED = 40 };

/* xorshift64*; a run prints its seed with each failure. */
static const uint64_t seed = 0x9e3779b97f4a7c15u;
static uint64_t state;

static const char *wanted[MAX_WANTED];
static int n_wanted;
static int n_megabytes = 4; /* of floats, for each encoder and kind of weights together */

static uint64_t next_random(void)
{
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return state * 0x2545f4914f6cdd1du;
}

/* In [0, 1). */
static float uniform(void)
{
    return (float)(next_random() >> 40) * 0x1p-24f;
}

static float gaussian(void)
{
    float sum = -6.0f;
    for (int i = 0; i < 12; i++) {
        sum += uniform();
    }
    return sum;
}

/* --- kinds of values ----------------------------------------------------------------------------
 */

typedef float (*value_fn)(int64_t i);

static float v_gaussian(int64_t i)
{
    (void)i;
    return 0.02f * gaussian();
}

static float v_outliers(int64_t i)
{
    (void)i;
    return gaussian() * (uniform() < 0.02f ? 40.0f : 1.0f);
}

static float v_sparse(int64_t i)
{
    (void)i;
    return uniform() < 0.9f ? (uniform() < 0.5f ? 0.0f : -0.0f) : gaussian();
}

/* Many ties and equal magnitudes of both signs. */
static float v_sixteenths(int64_t i)
{
    (void)i;
    return (float)(int)(next_random() % 129) / 16.0f - 4.0f;
}

/* Scales of one for 127 levels a side: every value half-way between two levels, or next to it. */
static float v_half_levels(int64_t i)
{
    const float v = (float)(int)(next_random() % 509) / 2.0f - 127.0f;
    if (i % 32 == 0) {
        return v < 0.0f ? -127.0f : 127.0f;
    }
    return next_random() % 4 != 0 ? v : nextafterf(v, 0.0f);
}

static float v_three_values(int64_t i)
{
    (void)i;
    return (float)(int)(next_random() % 3) - 1.0f;
}

static float v_negative(int64_t i)
{
    (void)i;
    return -fabsf(gaussian()) - 0.5f;
}

static float v_positive(int64_t i)
{
    (void)i;
    return 3.0f + uniform();
}

/* Runs of equal values, of zeros and of ones that differ in the last bit. */
static float v_runs(int64_t i)
{
    const int kind = (int)((uint64_t)(i / 64) * 0x9e3779b97f4a7c15u >> 61);
    return kind == 0   ? 0.0f
           : kind == 1 ? -0.0f
           : kind < 5  ? (float)kind - 3.5f
                       : 1.0f + (float)(next_random() % 3) * 0x1p-23f;
}

/* Any exponent within 2^-40 .. 2^40. */
static float v_exponents(int64_t i)
{
    (void)i;
    return ldexpf(gaussian(), (int)(next_random() % 80) - 40);
}

/* Every super-block of another size: subnormal, about 1e-15, up to overflowing squares. */
static float v_sizes(int64_t i)
{
    const int exponent = (int)((uint64_t)(i / 32) * 0x9e3779b97f4a7c15u >> 33) % 270 - 145;
    return ldexpf(gaussian(), exponent);
}

static float v_tiny(int64_t i)
{
    (void)i;
    return ldexpf(gaussian(), -49);
}

static float v_subnormal(int64_t i)
{
    (void)i;
    return qni_f32_from_bits((uint32_t)(next_random() & 0x8000ffffu));
}

/* f16 scales that become subnormal or 0. */
static float v_small_scales(int64_t i)
{
    return gaussian() * ldexpf(1.0f, -14 - (int)(i / 256 % 16));
}

static float v_any_finite(int64_t i)
{
    (void)i;
    for (;;) {
        const float v = qni_f32_from_bits((uint32_t)next_random());
        if (qni_f32_is_finite(v)) {
            return v;
        }
    }
}

/* Now and then something that is not finite. */
static float v_poisoned(int64_t i)
{
    (void)i;
    const float poison[] = {NAN, -NAN, INFINITY, -INFINITY};
    return next_random() % 300 == 0 ? poison[next_random() % 4] : gaussian();
}

static const struct kind {
    const char *name;
    value_fn value;
} kinds[] = {
    {"gaussian", v_gaussian},
    {"outliers", v_outliers},
    {"sparse", v_sparse},
    {"sixteenths", v_sixteenths},
    {"half levels", v_half_levels},
    {"three values", v_three_values},
    {"negative", v_negative},
    {"positive", v_positive},
    {"runs", v_runs},
    {"exponents", v_exponents},
    {"sizes", v_sizes},
    {"tiny", v_tiny},
    {"subnormal", v_subnormal},
    {"small scales", v_small_scales},
    {"any finite", v_any_finite},
    {"poisoned", v_poisoned},
};
enum { N_KINDS = sizeof kinds / sizeof kinds[0] };

/* --- kinds of weights ---------------------------------------------------------------------------
 */

enum { NO_WEIGHTS, SQUARES, ZEROS_AND_MILLIONS, ALL_ZERO, MOSTLY_ZERO, TINY, N_WEIGHTS };
static const char *const weight_names[] = {"no weights",   "squares",     "0 and 1e6",
                                           "zero weights", "mostly zero", "tiny weights"};

static float weight(int kind)
{
    const float g = gaussian();
    switch (kind) {
    case SQUARES:
        return g * g + 1e-3f;
    case ZEROS_AND_MILLIONS:
        return uniform() < 0.3f ? 0.0f : uniform() < 0.1f ? 1e6f : g * g;
    case ALL_ZERO:
        return 0.0f;
    case MOSTLY_ZERO:
        return uniform() < 0.95f ? 0.0f : 1.0f;
    default:
        return g * g * 1e-30f;
    }
}

/* --- the comparison -----------------------------------------------------------------------------
 */

typedef struct subject {
    const qni_kernel_row *row;
    qni_encode_fn referee;
    int64_t n_elems;
    int64_t n_bytes;
    const struct qni_lattice *tables;
} subject;

typedef struct workspace {
    float *x;
    float *weights;
    uint8_t *want;
    uint8_t *got;
    void *tables;
} workspace;

static void expect_equal(const subject *s, qni_encode_result want_result,
                         qni_encode_result got_result, const uint8_t *want, const uint8_t *got,
                         int64_t n_blocks, const char *values, const char *weights)
{
    if (want_result == QNI_ENCODE_ABORT && got_result == QNI_ENCODE_ABORT) {
        return;
    }
    const int64_t n = n_blocks * s->n_bytes;
    for (int64_t i = 0; i < n; i++) {
        if (want[i] != got[i]) {
            fail_msg("%s, %s, %s: byte %" PRId64 " of block %" PRId64 " is %02x, the referee gives "
                     "%02x (seed %" PRIx64 ")",
                     s->row->symbol, values, weights, i % s->n_bytes, i / s->n_bytes, got[i],
                     want[i], seed);
        }
    }
    if (want_result != got_result) {
        fail_msg("%s, %s, %s: result %d, the referee gives %d", s->row->symbol, values, weights,
                 (int)got_result, (int)want_result);
    }
}

static bool takes(const subject *s, int weights)
{
    const qn_weights_use use = qn_dtype_weights_use(s->row->dtype);
    return weights == NO_WEIGHTS ? use != QN_WEIGHTS_REQUIRED
                                 : use == QN_WEIGHTS_OPTIONAL || use == QN_WEIGHTS_REQUIRED;
}

static void compare(const subject *s, const workspace *w, int64_t n_rows, int64_t row_len,
                    const char *values, int weights)
{
    const int64_t n_blocks = n_rows * row_len / s->n_elems;
    const float *use = weights == NO_WEIGHTS ? NULL : w->weights;
    memset(w->want, 0xa5, (size_t)(n_blocks * s->n_bytes));
    memset(w->got, 0x5a, (size_t)(n_blocks * s->n_bytes));
    const qni_encode_result want = s->referee(w->x, n_rows, row_len, use, s->tables, w->want);
    const qni_encode_result got =
        s->row->kernel.encode(w->x, n_rows, row_len, use, s->tables, w->got);
    expect_equal(s, want, got, w->want, w->got, n_blocks, values, weight_names[weights]);
}

/* Lattice encoders may abort on rows that are not finite, and say so for the whole call. */
static bool is_refused(const subject *s, int kind)
{
    return qni_lattice_bytes(s->row->dtype) && kinds[kind].value == v_poisoned;
}

static void megabytes(const subject *s, const workspace *w)
{
    int n_sets = 0;
    for (int weights = 0; weights < N_WEIGHTS; weights++) {
        n_sets += takes(s, weights) ? N_KINDS : 0;
    }
    const int64_t per_set = (int64_t)n_megabytes * 1000000 / 4 / N_ELEMS / n_sets + 1;
    for (int weights = 0; weights < N_WEIGHTS; weights++) {
        for (int kind = 0; takes(s, weights) && kind < N_KINDS; kind++) {
            for (int64_t set = 0; !is_refused(s, kind) && set < per_set; set++) {
                for (int64_t i = 0; i < N_ELEMS; i++) {
                    w->x[i] = kinds[kind].value(i);
                }
                for (int64_t i = 0; i < ROW; i++) {
                    w->weights[i] = weight(weights);
                }
                compare(s, w, N_ROWS, ROW, kinds[kind].name, weights);
            }
        }
    }
}

/* Few blocks, as one row and as many, input and output at every address that a type may have. */
static void few_blocks(const subject *s, const workspace *w)
{
    static const int sizes[] = {0, 1, 2, 3, 15, 16, 17, 31, 33};
    for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++) {
        for (int shift = 0; shift < 16; shift += 5) {
            workspace at = {w->x + shift, w->weights + shift / 2, w->want + shift, w->got + shift,
                            NULL};
            const int64_t n = sizes[k];
            for (int64_t i = 0; i < n * s->n_elems; i++) {
                at.x[i] = gaussian();
                at.weights[i] = weight(SQUARES);
            }
            for (int weights = NO_WEIGHTS; weights <= SQUARES; weights++) {
                if (!takes(s, weights)) {
                    continue;
                }
                at.got[n * s->n_bytes] = 77;
                compare(s, &at, 1, n * s->n_elems, "one row", weights);
                compare(s, &at, n, s->n_elems, "one block a row", weights);
                if (n % 3 == 0) {
                    compare(s, &at, n / 3, 3 * s->n_elems, "three blocks a row", weights);
                }
                assert_int_equal(at.got[n * s->n_bytes], 77);
            }
        }
    }
}

/* Neither a byte outside the input is read nor one outside the output written. */
static void guard_pages(const subject *s, const workspace *w)
{
    static const int sizes[] = {1, 2, 15, 16, 17, 31, 33};
    for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++) {
        const int64_t n = sizes[k];
        const size_t n_in = (size_t)(n * s->n_elems) * sizeof(float);
        const size_t n_out = (size_t)(n * s->n_bytes);
        test_guarded in = test_guarded_new(n_in);
        test_guarded weights = test_guarded_new(n_in);
        test_guarded out = test_guarded_new(n_out);
        for (int at_end = 0; at_end < 2; at_end++) {
            workspace at = *w;
            at.x = (float *)(void *)(at_end ? in.end - n_in : in.first);
            at.weights = (float *)(void *)(at_end ? weights.end - n_in : weights.first);
            at.got = at_end ? out.end - n_out : out.first;
            for (int64_t i = 0; i < n * s->n_elems; i++) {
                at.x[i] = gaussian();
                at.weights[i] = weight(SQUARES);
            }
            for (int kind = NO_WEIGHTS; kind <= SQUARES; kind++) {
                if (takes(s, kind)) {
                    compare(s, &at, 1, n * s->n_elems, "guard pages", kind);
                }
            }
        }
        test_guarded_free(&in);
        test_guarded_free(&weights);
        test_guarded_free(&out);
    }
}

/* One value of n that is not finite, or none; the array ends at a guard page. */
static void finite_at(const qni_kernel_row *row, const test_guarded *g, int64_t n)
{
    static const uint32_t poison[] = {0x7f800000u, 0xff800000u, 0x7fc00000u, 0xff800001u};
    float *x = (float *)(void *)(g->end - (size_t)n * sizeof(float));
    for (int64_t i = 0; i < n; i++) {
        x[i] = i % 3 == 0 ? -3.4028234e38f : gaussian();
    }
    assert_true(row->kernel.finite(x, n));
    for (int64_t i = 0; i < n; i++) {
        const float kept = x[i];
        x[i] = qni_f32_from_bits(poison[i % 4]);
        assert_false(row->kernel.finite(x, n));
        x[i] = kept;
    }
}

static void test_finite(void **unused)
{
    (void)unused;
    test_guarded g = test_guarded_new(100 * sizeof(float));
    for (int i = 0; qni_kernel_row_at(i); i++) {
        const qni_kernel_row *row = qni_kernel_row_at(i);
        if (row->operation != QNI_OP_finite || !qn_isa_is_available(row->isa)) {
            continue;
        }
        for (int64_t n = 0; n < 100; n++) {
            finite_at(row, &g, n);
        }
    }
    test_guarded_free(&g);
}

/* --- which encoders -----------------------------------------------------------------------------
 */

static bool is_wanted(qn_dtype dtype)
{
    for (int i = 0; i < n_wanted; i++) {
        if (strcmp(wanted[i], qn_dtype_name(dtype)) == 0) {
            return true;
        }
    }
    return n_wanted == 0;
}

typedef void (*check_fn)(const subject *s, const workspace *w);

static void check_row(const qni_kernel_row *row, check_fn check, workspace *w)
{
    const size_t n_table_bytes = qni_lattice_bytes(row->dtype);
    subject s = {row, qni_kernel_encode(row->dtype, QN_ISA_SCALAR),
                 qn_dtype_block_elems(row->dtype), qn_dtype_block_bytes(row->dtype), NULL};
    assert_non_null(s.referee);
    w->tables = n_table_bytes ? malloc(n_table_bytes) : NULL;
    if (n_table_bytes) {
        assert_non_null(w->tables);
        s.tables = qni_lattice_build(row->dtype, w->tables);
    }
    check(&s, w);
    free(w->tables);
}

static void for_each_encoder(check_fn check)
{
    workspace w = {malloc((N_ELEMS + 64) * sizeof(float)), malloc((N_ELEMS + 64) * sizeof(float)),
                   malloc(N_ELEMS * 4 + 64), malloc(N_ELEMS * 4 + 64), NULL};
    assert_true(w.x && w.weights && w.want && w.got);
    state = seed;
    int n_checked = 0;
    for (int i = 0; qni_kernel_row_at(i); i++) {
        const qni_kernel_row *row = qni_kernel_row_at(i);
        if (row->operation != QNI_OP_encode || row->isa == QN_ISA_SCALAR ||
            !is_wanted(row->dtype)) {
            continue;
        }
        if (!qn_isa_is_available(row->isa)) {
            printf("skipped: %s, this machine has no %s\n", row->symbol, qn_isa_name(row->isa));
            continue;
        }
        check_row(row, check, &w);
        n_checked++;
    }
    printf("%d encoders checked\n", n_checked);
    free(w.x);
    free(w.weights);
    free(w.want);
    free(w.got);
}

static void test_megabytes(void **unused)
{
    (void)unused;
    for_each_encoder(megabytes);
}

static void test_few_blocks(void **unused)
{
    (void)unused;
    for_each_encoder(few_blocks);
}

static void test_guard_pages(void **unused)
{
    (void)unused;
    for_each_encoder(guard_pages);
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc && n_wanted < MAX_WANTED; i++) {
        if (strcmp(argv[i], "-n") == 0 && i + 1 < argc) {
            n_megabytes = (int)strtol(argv[++i], NULL, 10);
        } else {
            wanted[n_wanted++] = argv[i];
        }
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_finite),
        cmocka_unit_test(test_few_blocks),
        cmocka_unit_test(test_guard_pages),
        cmocka_unit_test(test_megabytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
