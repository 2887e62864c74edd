/* Product kernels: integer parts against 64-bit sums over what the decoders give, float parts
 * against binary64, and every instruction set against the scalar referee. */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include "codec/codec.h"

#include <cmocka.h>

#include "support/inputs.h"

enum { MAX_ELEMS = 2048, MAX_ROWS = 19, MAX_COLS = 70 };

static const uint64_t seed = 0x243f6a8885a308d3u;
static test_rng rng;

static void fill_random(void *bytes, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        ((uint8_t *)bytes)[i] = (uint8_t)test_next(&rng);
    }
}

/* --- integers ------------------------------------------------------------------------------------
 */

static void set_f16(uint8_t *block, size_t at, uint16_t bits)
{
    qni_store_u16le(block + at, bits);
}

/* Scales that make all products integers or eighths of them. */
static void set_unit_scales(qn_dtype dtype, uint8_t *block)
{
    const uint16_t one = 0x3c00;
    switch (dtype) {
    case QN_DTYPE_Q2_K:
        set_f16(block, offsetof(qni_block_q2_k, d), one);
        set_f16(block, offsetof(qni_block_q2_k, dmin), one);
        break;
    case QN_DTYPE_Q3_K:
        set_f16(block, offsetof(qni_block_q3_k, d), one);
        break;
    case QN_DTYPE_Q6_K:
        set_f16(block, offsetof(qni_block_q6_k, d), one);
        break;
    case QN_DTYPE_TQ1_0:
        set_f16(block, offsetof(qni_block_tq1_0, d), one);
        break;
    case QN_DTYPE_TQ2_0:
        set_f16(block, offsetof(qni_block_tq2_0, d), one);
        break;
    case QN_DTYPE_MXFP4:
        block[0] = 128;
        break;
    case QN_DTYPE_NVFP4: /* 1, 2, 0.5, 16 */
        memcpy(block, (const uint8_t[]){0x40, 0x48, 0x38, 0x60}, 4);
        break;
    case QN_DTYPE_IQ1_M:
        for (size_t w = 0; w < 4; w++) {
            uint8_t *word = block + offsetof(qni_block_iq1_m, scales) + 2 * w;
            const uint32_t low = qni_load_u16le(word) & 0x0fffu;
            qni_store_u16le(word, (uint16_t)(low | (one >> (4 * w) & 15u) << 12));
        }
        break;
    case QN_DTYPE_Q4_1:
    case QN_DTYPE_Q5_1:
    case QN_DTYPE_Q4_K:
    case QN_DTYPE_Q5_K:
        set_f16(block, 2, one);
        set_f16(block, 0, one);
        break;
    default:
        set_f16(block, 0, one);
        break;
    }
}

static int64_t sum_16(const int8_t *q)
{
    int64_t sum = 0;
    for (int i = 0; i < 16; i++) {
        sum += q[i];
    }
    return sum;
}

/* One block of activations with scale 1 and levels -127..127; the levels go to `levels`. */
static void unit_activations(qn_dtype dtype, uint8_t *block, int8_t *levels)
{
    const int64_t n = qn_dtype_block_elems(dtype);
    for (int64_t i = 0; i < n; i++) {
        levels[i] = (int8_t)(test_below(&rng, 255) - 127);
    }
    if (dtype == QN_DTYPE_Q8_K) {
        qni_block_q8_k *b = (qni_block_q8_k *)block;
        qni_store_f32le(b->d, 1.0f);
        memcpy(b->qs, levels, 256);
        for (int j = 0; j < 16; j++) {
            qni_store_u16le(b->bsums + 2 * j, (uint16_t)sum_16(levels + 16 * j));
        }
        return;
    }
    set_f16(block, 0, 0x3c00);
    if (dtype == QN_DTYPE_Q8_1) { /* sums up to 2048 are exact in f16 */
        int64_t sum = sum_16(levels) + sum_16(levels + 16);
        for (int i = 0; sum > 2048 || sum < -2048; i++) {
            sum -= levels[i];
            levels[i] = 0;
        }
        set_f16(block, 2, qni_f16_from_f32((float)sum));
        memcpy(block + 4, levels, 32);
        return;
    }
    memcpy(block + 2, levels, 32);
}

/* One row, one block: the product is one exact integer (or eighths). */
static void check_integers(const qni_kernel_row *row)
{
    const qn_dtype partner = qni_dot_activation(row->dtype);
    if (partner == QN_DTYPE_F32) {
        return;
    }
    const int64_t n = qn_dtype_block_elems(row->dtype);
    const int64_t n_act = qn_dtype_block_elems(partner);
    uint8_t w[300];
    uint8_t a[8 * 300];
    int8_t levels[QNI_SUPER];
    float decoded[QNI_SUPER];
    for (int round = 0; round < 3000; round++) {
        fill_random(w, qn_dtype_block_bytes(row->dtype));
        set_unit_scales(row->dtype, w);
        for (int64_t i = 0; i < n / n_act; i++) {
            unit_activations(partner, a + i * qn_dtype_block_bytes(partner), levels + i * n_act);
        }
        assert_int_equal(qn_decode_isa(row->dtype, QN_ISA_SCALAR, w, 1, decoded, NULL), QN_OK);
        int64_t eighths = 0;
        for (int64_t i = 0; i < n; i++) {
            const int64_t code = (int64_t)(decoded[i] * 8.0f);
            assert_true((float)code == decoded[i] * 8.0f);
            eighths += code * levels[i];
        }
        float y = -1.0f;
        const qni_dot_tile tile = {w, 0, 1, a, 0, 1, n, &y, 1};
        row->kernel.dot(&tile);
        if (y != (float)((double)eighths / 8.0)) {
            fail_msg("%s: %.9g instead of %.9g (seed %" PRIx64 ", round %d)", row->symbol,
                     (double)y, (double)eighths / 8.0, seed, round);
        }
    }
}

/* --- floats --------------------------------------------------------------------------------------
 */

typedef struct workspace {
    float *x;      /* MAX_COLS rows */
    float *w;      /* MAX_ROWS rows */
    uint8_t *a;    /* quantized x */
    uint8_t *wq;   /* quantized w */
    float *x_back; /* what a and wq mean */
    float *w_back;
    float *y;
    test_guarded guarded_w;
    test_guarded guarded_a;
} workspace;

static void quantize(qn_dtype dtype, const float *x, int64_t n_rows, int64_t n, uint8_t *out,
                     float *back)
{
    static float ones[MAX_ELEMS];
    for (int i = 0; i < MAX_ELEMS; i++) {
        ones[i] = 1.0f;
    }
    int64_t n_bytes = 0;
    assert_int_equal(qn_dtype_row_bytes(dtype, n, &n_bytes, NULL), QN_OK);
    const float *weights = qn_dtype_weights_use(dtype) == QN_WEIGHTS_REQUIRED ? ones : NULL;
    assert_int_equal(
        qn_encode_rows(dtype, x, n_rows, n, weights, NULL, out, n_rows * n_bytes, NULL), QN_OK);
    assert_int_equal(qn_decode(dtype, out, n_rows * n / qn_dtype_block_elems(dtype), back, NULL),
                     QN_OK);
}

/* The sum that q8_1 stores is rounded to f16: what a minimum meets. */
static double stored_sum_error(qn_dtype dtype, const workspace *ws, int64_t r, int64_t c, int64_t n)
{
    if (dtype != QN_DTYPE_Q4_1 && dtype != QN_DTYPE_Q5_1) {
        return 0.0;
    }
    const int64_t n_w = qn_dtype_block_bytes(dtype);
    double error = 0.0;
    for (int64_t b = 0; b < n / 32; b++) {
        const qni_block_q8_1 *a = (const qni_block_q8_1 *)(ws->a + (c * n / 32 + b) * 36);
        const double m =
            (double)qni_f16_to_f32(qni_load_u16le(ws->wq + (r * n / 32 + b) * n_w + 2));
        double sum = 0.0;
        for (int i = 0; i < 32; i++) {
            sum += (double)ws->x_back[c * n + 32 * b + i];
        }
        error += m * ((double)qni_f16_to_f32(qni_load_u16le(a->s)) - sum);
    }
    return error;
}

static void expect_product(const qni_kernel_row *row, const workspace *ws, int64_t r, int64_t c,
                           int64_t n, float y)
{
    double sum = stored_sum_error(row->dtype, ws, r, c, n);
    double magnitude = 0.0;
    for (int64_t k = 0; k < n; k++) {
        const double term = (double)ws->w_back[r * n + k] * (double)ws->x_back[c * n + k];
        sum += term;
        magnitude += fabs(term);
    }
    /* types with minima subtract two larger sums than their difference */
    const double bound = 4e-6 * magnitude + 1e-30;
    if (!(fabs((double)y - sum) <= bound)) {
        fail_msg("%s: row %" PRId64 ", column %" PRId64 " of %" PRId64
                 " elements is %.9g instead of %.9g, off by %.2e of the terms (seed %" PRIx64 ")",
                 row->symbol, r, c, n, (double)y, sum, fabs((double)y - sum) / magnitude, seed);
    }
}

static void check_shape(const qni_kernel_row *row, const workspace *ws, int64_t n_rows,
                        int64_t n_cols, int64_t n)
{
    const qn_dtype partner = qni_dot_activation(row->dtype);
    test_fill(&rng, TEST_GAUSSIAN, ws->x, n_cols * n);
    test_fill(&rng, TEST_GAUSSIAN, ws->w, n_rows * n);
    quantize(row->dtype, ws->w, n_rows, n, ws->wq, ws->w_back);
    quantize(partner, ws->x, n_cols, n, ws->a, ws->x_back);
    int64_t n_w = 0;
    int64_t n_a = 0;
    assert_int_equal(qn_dtype_row_bytes(row->dtype, n, &n_w, NULL), QN_OK);
    assert_int_equal(qn_dtype_row_bytes(partner, n, &n_a, NULL), QN_OK);
    /* the last bytes of both operands lie before pages that cannot be touched */
    uint8_t *w = ws->guarded_w.end - n_rows * n_w;
    uint8_t *a = ws->guarded_a.end - n_cols * n_a;
    memcpy(w, ws->wq, (size_t)(n_rows * n_w));
    memcpy(a, ws->a, (size_t)(n_cols * n_a));
    for (int64_t i = 0; i < n_cols * (n_rows + 3); i++) {
        ws->y[i] = 4321.0f;
    }
    const qni_dot_tile tile = {w, n_w, n_rows, a, n_a, n_cols, n, ws->y, n_rows + 3};
    row->kernel.dot(&tile);
    for (int64_t c = 0; c < n_cols; c++) {
        for (int64_t r = 0; r < n_rows; r++) {
            expect_product(row, ws, r, c, n, ws->y[c * tile.y_stride + r]);
        }
        for (int64_t r = n_rows; r < tile.y_stride; r++) {
            assert_true(ws->y[c * tile.y_stride + r] == 4321.0f);
        }
    }
    /* the same bits in a tile of one */
    const int64_t r = test_below(&rng, n_rows);
    const int64_t c = test_below(&rng, n_cols);
    float y = 0.0f;
    const qni_dot_tile one = {w + r * n_w, n_w, 1, a + c * n_a, n_a, 1, n, &y, 1};
    row->kernel.dot(&one);
    assert_int_equal(qni_f32_bits(y), qni_f32_bits(ws->y[c * tile.y_stride + r]));
}

static void check_floats(const qni_kernel_row *row, const workspace *ws)
{
    static const int64_t col_counts[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 17, 33, 64, 65};
    static const int64_t row_counts[] = {1, 2, 3, 4, 5, 7, 8, 9, 16, 17};
    const int64_t n_block = qn_dtype_block_elems(row->dtype);
    for (size_t i = 0; i < sizeof col_counts / sizeof col_counts[0]; i++) {
        const int64_t n = n_block * (1 + test_below(&rng, 1 + 512 / n_block));
        check_shape(row, ws, 1 + test_below(&rng, 9), col_counts[i], n);
    }
    for (size_t i = 0; i < sizeof row_counts / sizeof row_counts[0]; i++) {
        const int64_t n = n_block * (1 + test_below(&rng, 1 + 1024 / n_block));
        check_shape(row, ws, row_counts[i], 1 + (int64_t)(i % 5), n);
    }
}

/* --- all of them ---------------------------------------------------------------------------------
 */

static bool is_checked(const qni_kernel_row *row)
{
    if (row->operation != QNI_OP_dot) {
        return false;
    }
    if (row->isa != QN_ISA_SCALAR && !qn_isa_is_available(row->isa)) {
        printf("skipped: %s, this machine has no %s\n", row->symbol, qn_isa_name(row->isa));
        return false;
    }
    return true;
}

static void integers_are_exact(void **unused)
{
    (void)unused;
    int n_checked = 0;
    rng.state = seed;
    for (int i = 0; qni_kernel_row_at(i); i++) {
        if (is_checked(qni_kernel_row_at(i))) {
            check_integers(qni_kernel_row_at(i));
            n_checked++;
        }
    }
    printf("%d products checked\n", n_checked);
    assert_true(n_checked >= 28);
}

static void sums_are_close_and_tiles_do_not_matter(void **unused)
{
    (void)unused;
    rng.state = seed + 1;
    const size_t n_x = (size_t)MAX_COLS * MAX_ELEMS;
    const size_t n_w = (size_t)MAX_ROWS * MAX_ELEMS;
    workspace ws = {
        .x = malloc(4 * n_x),
        .w = malloc(4 * n_w),
        .a = malloc(4 * n_x),
        .wq = malloc(4 * n_w),
        .x_back = malloc(4 * n_x),
        .w_back = malloc(4 * n_w),
        .y = malloc(4 * (size_t)MAX_COLS * (MAX_ROWS + 3)),
        .guarded_w = test_guarded_new(4 * n_w),
        .guarded_a = test_guarded_new(4 * n_x),
    };
    assert_true(ws.x && ws.w && ws.a && ws.wq && ws.x_back && ws.w_back && ws.y);
    for (int i = 0; qni_kernel_row_at(i); i++) {
        if (is_checked(qni_kernel_row_at(i))) {
            check_floats(qni_kernel_row_at(i), &ws);
        }
    }
    free(ws.x);
    free(ws.w);
    free(ws.a);
    free(ws.wq);
    free(ws.x_back);
    free(ws.w_back);
    free(ws.y);
    test_guarded_free(&ws.guarded_w);
    test_guarded_free(&ws.guarded_a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(integers_are_exact),
        cmocka_unit_test(sums_are_close_and_tiles_do_not_matter),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
