/* test_encode.c — what qn_encode_rows() refuses and how it says so; zero blocks and overflow. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "quench/quench.h"

enum { ROW_LEN = 512, N_ROWS = 3, N_BYTES_MAX = 4 * ROW_LEN * N_ROWS };

static float x[ROW_LEN * N_ROWS];
static float weights[ROW_LEN];
static uint8_t out[N_BYTES_MAX];

static int64_t n_bytes_of(qn_dtype dtype)
{
    int64_t n_bytes = 0;
    assert_int_equal(qn_dtype_row_bytes(dtype, ROW_LEN, &n_bytes, NULL), QN_OK);
    return n_bytes * N_ROWS;
}

static int set_up(void **state)
{
    (void)state;
    for (int i = 0; i < ROW_LEN * N_ROWS; i++) {
        x[i] = (float)(i * 37 % 101 - 50) / 64.0f;
    }
    for (int i = 0; i < ROW_LEN; i++) {
        weights[i] = 1.0f + (float)(i % 7);
    }
    return 0;
}

static qn_status encode(qn_dtype dtype, const float *w, const qn_encode_options *options,
                        qn_error *err)
{
    return qn_encode_rows(dtype, x, N_ROWS, ROW_LEN, w, options, out, n_bytes_of(dtype), err);
}

/* NaN and both infinities, at the edges of rows and pieces, in every type. */
static void names_the_non_finite_value(void **state)
{
    (void)state;
    static const struct {
        int row, column;
        float value;
        const char *text;
    } cases[] = {
        {0, 0, (float)NAN, "row 0, column 0 is NaN"},
        {1, 511, (float)INFINITY, "row 1, column 511 is inf"},
        {2, 3, (float)-INFINITY, "row 2, column 3 is -inf"},
    };
    for (int id = 0; id < QN_DTYPE_LIMIT; id++) {
        const qn_dtype dtype = (qn_dtype)id;
        for (size_t k = 0; qn_has_encoder(dtype) && k < 3; k++) {
            float *cell = &x[cases[k].row * ROW_LEN + cases[k].column];
            const float kept = *cell;
            *cell = cases[k].value;
            qn_error err = QN_ERROR_INIT;
            assert_int_equal(encode(dtype, weights, NULL, &err), QN_ERR_NON_FINITE_VALUE);
            assert_int_equal(err.status, QN_ERR_NON_FINITE_VALUE);
            assert_non_null(strstr(err.message, cases[k].text));
            *cell = kept;
        }
    }
}

static void counts_rows_from_the_one_given(void **state)
{
    (void)state;
    qn_encode_options options = QN_ENCODE_OPTIONS_INIT;
    options.first_row = 1000;
    x[ROW_LEN + 5] = (float)NAN;
    qn_error err = QN_ERROR_INIT;
    assert_int_equal(encode(QN_DTYPE_Q4_K, NULL, &options, &err), QN_ERR_NON_FINITE_VALUE);
    assert_non_null(strstr(err.message, "row 1001, column 5"));
    x[ROW_LEN + 5] = 0.0f;
}

static void names_the_non_finite_weight(void **state)
{
    (void)state;
    weights[77] = (float)INFINITY;
    qn_error err = QN_ERROR_INIT;
    assert_int_equal(encode(QN_DTYPE_Q4_K, weights, NULL, &err), QN_ERR_NON_FINITE_VALUE);
    assert_non_null(strstr(err.message, "column 77 is inf"));
    weights[77] = 1.0f;
}

static void asks_for_required_weights(void **state)
{
    (void)state;
    static const qn_dtype required[] = {QN_DTYPE_IQ1_S, QN_DTYPE_IQ2_XXS, QN_DTYPE_IQ2_XS};
    for (size_t i = 0; i < 3; i++) {
        qn_error err = QN_ERROR_INIT;
        assert_int_equal(encode(required[i], NULL, NULL, &err), QN_ERR_MISSING_WEIGHTS);
        assert_non_null(strstr(err.message, "importance"));
        assert_int_equal(encode(required[i], weights, NULL, NULL), QN_OK);
    }
}

static void has_no_encoder_for_exact_types(void **state)
{
    (void)state;
    static const qn_dtype none[] = {QN_DTYPE_I8, QN_DTYPE_I16, QN_DTYPE_I32, QN_DTYPE_I64,
                                    QN_DTYPE_F64};
    static uint8_t room[8 * ROW_LEN * N_ROWS];
    for (size_t i = 0; i < 5; i++) {
        assert_false(qn_has_encoder(none[i]));
        assert_true(qn_has_decoder(none[i]));
        assert_int_equal(qn_encode_rows(none[i], x, N_ROWS, ROW_LEN, NULL, NULL, room,
                                        n_bytes_of(none[i]), NULL),
                         QN_ERR_ENCODER_UNAVAILABLE);
    }
    static const int removed[] = {-1, 4, 5, 31, 32, 33, 36, 37, 38, 43, 1 << 20};
    for (size_t i = 0; i < sizeof removed / sizeof removed[0]; i++) {
        assert_int_equal(
            qn_encode_rows((qn_dtype)removed[i], x, 1, ROW_LEN, NULL, NULL, out, 100, NULL),
            QN_ERR_UNSUPPORTED_DTYPE);
        assert_false(qn_has_encoder((qn_dtype)removed[i]));
        assert_false(qn_has_decoder((qn_dtype)removed[i]));
    }
}

static void checks_shapes_and_lengths(void **state)
{
    (void)state;
    static const struct {
        qn_dtype dtype;
        int64_t n_rows, row_len, n_out_bytes;
        qn_status status;
    } cases[] = {
        {QN_DTYPE_Q4_K, 1, 255, 144, QN_ERR_INVALID_SHAPE},
        {QN_DTYPE_Q8_0, 1, 33, 34, QN_ERR_INVALID_SHAPE},
        {QN_DTYPE_Q8_0, 1, -32, 34, QN_ERR_INVALID_SHAPE},
        {QN_DTYPE_Q8_0, -1, 32, -34, QN_ERR_INVALID_SHAPE},
        {QN_DTYPE_Q8_0, 1, 32, 33, QN_ERR_INVALID_DATA_LENGTH},
        {QN_DTYPE_Q8_0, 1, 32, 35, QN_ERR_INVALID_DATA_LENGTH},
        {QN_DTYPE_Q8_0, INT64_MAX / 32, 64, 0, QN_ERR_OVERFLOW},
        {QN_DTYPE_Q8_0, 0, 32, 0, QN_OK},
        {QN_DTYPE_Q8_0, 5, 0, 0, QN_OK},
        {QN_DTYPE_Q8_0, 2, 32, 68, QN_OK},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(qn_encode_rows(cases[i].dtype, x, cases[i].n_rows, cases[i].row_len, NULL,
                                        NULL, out, cases[i].n_out_bytes, NULL),
                         cases[i].status);
    }
    assert_int_equal(qn_encode_rows(QN_DTYPE_Q8_0, NULL, 1, 32, NULL, NULL, out, 34, NULL),
                     QN_ERR_INVALID_ARGUMENT);
}

/* 65520 is where a binary16 scale becomes infinite; encoders.md section 9. */
static void reports_overflowing_scales(void **state)
{
    (void)state;
    static const struct {
        qn_dtype dtype;
        float fits, overflows;
    } cases[] = {
        {QN_DTYPE_F16, 65519.0f, 65520.0f},
        {QN_DTYPE_BF16, 0x1.fep127f, 0x1.fffffep127f},
        {QN_DTYPE_Q8_0, 127.0f * 65519.0f, 127.0f * 65520.0f},
        {QN_DTYPE_Q4_0, 8.0f * 65519.0f, 8.0f * 65520.0f},
        {QN_DTYPE_Q2_0, 65519.0f, 65520.0f},
        {QN_DTYPE_TQ1_0, 65519.0f, 65520.0f},
        {QN_DTYPE_TQ2_0, 65519.0f, 65520.0f},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const float kept = x[ROW_LEN];
        x[ROW_LEN] = cases[i].fits;
        assert_int_equal(encode(cases[i].dtype, NULL, NULL, NULL), QN_OK);
        x[ROW_LEN] = cases[i].overflows;
        qn_error err = QN_ERROR_INIT;
        assert_int_equal(encode(cases[i].dtype, NULL, NULL, &err), QN_ERR_SCALE_OVERFLOW);
        assert_non_null(strstr(err.message, "row 1 "));
        bool overflowed = false;
        qn_encode_options options = QN_ENCODE_OPTIONS_INIT;
        options.allow_overflow = true;
        options.out_overflowed = &overflowed;
        assert_int_equal(encode(cases[i].dtype, NULL, &options, NULL), QN_OK);
        assert_true(overflowed);
        /* ggml's row validator refuses exactly these rows. */
        assert_int_not_equal(
            qn_validate_rows(cases[i].dtype, out, n_bytes_of(cases[i].dtype), ROW_LEN, 0, &err),
            QN_OK);
        assert_non_null(strstr(err.message, "row 1,"));
        x[ROW_LEN] = kept;
    }
}

/* Where x * x overflows, ggml's lattice encoders abort the process. */
static void fails_where_the_reference_aborts(void **state)
{
    (void)state;
    for (int i = 2 * ROW_LEN; i < 3 * ROW_LEN; i++) {
        x[i] *= 1e25f;
    }
    qn_error err = QN_ERROR_INIT;
    assert_int_equal(encode(QN_DTYPE_IQ2_S, NULL, NULL, &err), QN_ERR_ENCODE_FAILED);
    assert_non_null(strstr(err.message, "row 2 "));
    (void)set_up(NULL);
}

/* All-zero blocks; encoders.md section 12. */
static void writes_zero_blocks_as_ggml_does(void **state)
{
    (void)state;
    static const struct {
        qn_dtype dtype;
        int n;
        uint8_t first[4];
    } cases[] = {
        {QN_DTYPE_Q4_0, 3, {0x00, 0x80, 0x88}},
        {QN_DTYPE_Q5_0, 3, {0x00, 0x80, 0xff}},
        {QN_DTYPE_Q1_0, 3, {0x00, 0x00, 0xff}},
        {QN_DTYPE_Q2_0, 3, {0x00, 0x00, 0x55}},
        {QN_DTYPE_TQ1_0, 1, {0x80}},
        {QN_DTYPE_TQ2_0, 1, {0x55}},
        {QN_DTYPE_IQ4_NL, 3, {0x00, 0x00, 0x88}},
        {QN_DTYPE_IQ4_XS, 4, {0x00, 0x80, 0xaa, 0xaa}},
        {QN_DTYPE_Q6_K, 4, {0, 0, 0, 0}},
        {QN_DTYPE_MXFP4, 2, {0, 0}},
    };
    static const float zeros[256];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int64_t n_bytes = 0;
        assert_int_equal(qn_dtype_row_bytes(cases[i].dtype, 256, &n_bytes, NULL), QN_OK);
        assert_int_equal(
            qn_encode_rows(cases[i].dtype, zeros, 1, 256, NULL, NULL, out, n_bytes, NULL), QN_OK);
        assert_memory_equal(out, cases[i].first, (size_t)cases[i].n);
    }
}

static void takes_shorter_options(void **state)
{
    (void)state;
    qn_encode_options options = QN_ENCODE_OPTIONS_INIT;
    options.struct_size = offsetof(qn_encode_options, first_row);
    options.first_row = 7; /* beyond what the caller says it has */
    x[0] = (float)NAN;
    qn_error err = QN_ERROR_INIT;
    assert_int_equal(encode(QN_DTYPE_Q8_0, NULL, &options, &err), QN_ERR_NON_FINITE_VALUE);
    assert_non_null(strstr(err.message, "row 0,"));
    (void)set_up(NULL);
    options.struct_size = 1;
    assert_int_equal(encode(QN_DTYPE_Q8_0, NULL, &options, NULL), QN_ERR_INVALID_ARGUMENT);
}

static void lists_kernels(void **state)
{
    (void)state;
    qn_kernel_info info;
    int n_chosen[QN_DTYPE_LIMIT] = {0};
    int n = 0;
    for (; qn_kernel_at(n, &info); n++) {
        assert_true(qn_dtype_is_valid(info.dtype));
        assert_non_null(strstr(info.symbol, info.operation));
        assert_true(!info.is_chosen || info.is_available);
        n_chosen[info.dtype] += info.is_chosen && strcmp(info.operation, "encode") == 0;
    }
    assert_false(qn_kernel_at(-1, &info));
    assert_true(n > 50);
    for (int id = 0; id < QN_DTYPE_LIMIT; id++) {
        assert_int_equal(n_chosen[id], qn_has_encoder((qn_dtype)id));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_the_non_finite_value),
        cmocka_unit_test(counts_rows_from_the_one_given),
        cmocka_unit_test(names_the_non_finite_weight),
        cmocka_unit_test(asks_for_required_weights),
        cmocka_unit_test(has_no_encoder_for_exact_types),
        cmocka_unit_test(checks_shapes_and_lengths),
        cmocka_unit_test(reports_overflowing_scales),
        cmocka_unit_test(fails_where_the_reference_aborts),
        cmocka_unit_test(writes_zero_blocks_as_ggml_does),
        cmocka_unit_test(takes_shorter_options),
        cmocka_unit_test(lists_kernels),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
