/* test_decode.c — decoding to f32, f16, bf16; rows picked by number; integers and f64. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "quench/quench.h"

enum { ROW_LEN = 512, N_ROWS = 5 };

static float x[ROW_LEN * N_ROWS];
static uint8_t blocks[4 * ROW_LEN * N_ROWS];

static int64_t encode(qn_dtype dtype)
{
    int64_t n_bytes = 0;
    assert_int_equal(qn_dtype_row_bytes(dtype, ROW_LEN, &n_bytes, NULL), QN_OK);
    assert_int_equal(
        qn_encode_rows(dtype, x, N_ROWS, ROW_LEN, NULL, NULL, blocks, n_bytes * N_ROWS, NULL),
        QN_OK);
    return n_bytes;
}

static int set_up(void **state)
{
    (void)state;
    for (int i = 0; i < ROW_LEN * N_ROWS; i++) {
        x[i] = (float)(i * 71 % 1009 - 504) / 37.0f;
    }
    return 0;
}

/* Within half a step, and 127 steps' share of the scale's own rounding to eleven bits. */
static void comes_back_within_half_a_step(void **state)
{
    (void)state;
    static float back[ROW_LEN * N_ROWS];
    (void)encode(QN_DTYPE_Q8_0);
    assert_int_equal(qn_decode(QN_DTYPE_Q8_0, blocks, ROW_LEN * N_ROWS / 32, back, NULL), QN_OK);
    for (int i = 0; i < ROW_LEN * N_ROWS; i++) {
        const float step = (504.0f / 37.0f) / 127.0f;
        assert_true(fabsf(back[i] - x[i]) <= (0.5f + 127.0f * 0x1p-11f) * step);
    }
}

static void refuses_what_is_no_type(void **state)
{
    (void)state;
    float out[1];
    qn_error err = QN_ERROR_INIT;
    assert_int_equal(qn_decode((qn_dtype)4, blocks, 1, out, &err), QN_ERR_UNSUPPORTED_DTYPE);
    assert_non_null(strstr(err.message, "q4_2"));
    assert_int_equal(qn_decode((qn_dtype)43, blocks, 1, out, NULL), QN_ERR_UNSUPPORTED_DTYPE);
    assert_int_equal(qn_decode(QN_DTYPE_NONE, blocks, 1, out, NULL), QN_ERR_UNSUPPORTED_DTYPE);
    assert_int_equal(qn_decode(QN_DTYPE_F32, blocks, -1, out, NULL), QN_ERR_INVALID_ARGUMENT);
    assert_int_equal(qn_decode(QN_DTYPE_F32, NULL, 1, out, NULL), QN_ERR_INVALID_ARGUMENT);
    assert_int_equal(qn_decode(QN_DTYPE_F32, NULL, 0, NULL, NULL), QN_OK);
}

static void reads_integers_and_doubles(void **state)
{
    (void)state;
    static const uint8_t bytes[] = {0xff, 0x80, 0xfe, 0xff, 0xff, 0xff, 0xff, 0x7f};
    float out[8];
    assert_int_equal(qn_decode(QN_DTYPE_I8, bytes, 2, out, NULL), QN_OK);
    assert_true(out[0] == -1.0f && out[1] == -128.0f);
    assert_int_equal(qn_decode(QN_DTYPE_I16, bytes + 2, 1, out, NULL), QN_OK);
    assert_true(out[0] == -2.0f);
    assert_int_equal(qn_decode(QN_DTYPE_I32, bytes + 2, 1, out, NULL), QN_OK);
    assert_true(out[0] == -2.0f);
    assert_int_equal(qn_decode(QN_DTYPE_I64, bytes, 1, out, NULL), QN_OK);
    assert_true(out[0] == 0x1p63f);
    static const uint8_t third[] = {0x55, 0x55, 0x55, 0x55, 0x55, 0x55, 0xd5, 0x3f};
    assert_int_equal(qn_decode(QN_DTYPE_F64, third, 1, out, NULL), QN_OK);
    assert_true(out[0] == 1.0f / 3.0f);
}

/* f16 and bf16 are the f32 decoding, rounded: for lengths that fill pieces and that do not. */
static void rounds_to_sixteen_bits(void **state)
{
    (void)state;
    static float wide[ROW_LEN * N_ROWS];
    static uint8_t got[2 * ROW_LEN * N_ROWS], want[2 * ROW_LEN * N_ROWS];
    static const qn_dtype dtypes[] = {QN_DTYPE_Q4_K, QN_DTYPE_Q8_0, QN_DTYPE_F32, QN_DTYPE_NVFP4};
    for (size_t t = 0; t < 4; t++) {
        const int64_t n_blocks = ROW_LEN * N_ROWS / qn_dtype_block_elems(dtypes[t]);
        (void)encode(dtypes[t]);
        for (int64_t n = n_blocks > 9 ? n_blocks - 9 : 1; n <= n_blocks; n++) {
            const int64_t n_elems = n * qn_dtype_block_elems(dtypes[t]);
            assert_int_equal(qn_decode(dtypes[t], blocks, n, wide, NULL), QN_OK);
            assert_int_equal(
                qn_encode_rows(QN_DTYPE_F16, wide, 1, n_elems, NULL, NULL, want, 2 * n_elems, NULL),
                QN_OK);
            assert_int_equal(qn_decode_f16(dtypes[t], QN_ISA_BEST, blocks, n, got, NULL), QN_OK);
            assert_memory_equal(got, want, (size_t)(2 * n_elems));
            assert_int_equal(qn_encode_rows(QN_DTYPE_BF16, wide, 1, n_elems, NULL, NULL, want,
                                            2 * n_elems, NULL),
                             QN_OK);
            assert_int_equal(qn_decode_bf16(dtypes[t], QN_ISA_SCALAR, blocks, n, got, NULL), QN_OK);
            assert_memory_equal(got, want, (size_t)(2 * n_elems));
        }
    }
}

static void picks_rows(void **state)
{
    (void)state;
    static float all[ROW_LEN * N_ROWS], got[ROW_LEN * 4];
    static const int64_t picks[] = {4, 0, 4, 2};
    const int64_t n_row_bytes = encode(QN_DTYPE_Q6_K);
    const int64_t n_bytes = n_row_bytes * N_ROWS;
    assert_int_equal(qn_decode(QN_DTYPE_Q6_K, blocks, ROW_LEN * N_ROWS / 256, all, NULL), QN_OK);
    assert_int_equal(qn_get_rows(QN_DTYPE_Q6_K, blocks, n_bytes, ROW_LEN, picks, 4, got, NULL),
                     QN_OK);
    for (int i = 0; i < 4; i++) {
        assert_memory_equal(got + i * ROW_LEN, all + picks[i] * ROW_LEN, 4 * ROW_LEN);
    }
    static const int64_t bad[] = {0, 5, -1, INT64_MIN, INT64_MAX};
    for (int i = 1; i < 5; i++) {
        qn_error err = QN_ERROR_INIT;
        assert_int_equal(
            qn_get_rows(QN_DTYPE_Q6_K, blocks, n_bytes, ROW_LEN, bad + i, 1, got, &err),
            QN_ERR_INVALID_ARGUMENT);
        assert_non_null(strstr(err.message, "5 rows"));
    }
    assert_int_equal(qn_get_rows(QN_DTYPE_Q6_K, blocks, n_bytes - 1, ROW_LEN, picks, 4, got, NULL),
                     QN_ERR_INVALID_DATA_LENGTH);
    assert_int_equal(qn_get_rows(QN_DTYPE_Q6_K, blocks, n_bytes, 255, picks, 4, got, NULL),
                     QN_ERR_INVALID_SHAPE);
    assert_int_equal(qn_get_rows(QN_DTYPE_Q6_K, NULL, 0, ROW_LEN, NULL, 0, NULL, NULL), QN_OK);
}

static void finds_the_first_non_finite_value(void **state)
{
    (void)state;
    static float values[10000];
    assert_int_equal(qn_find_non_finite(values, 10000), -1);
    assert_int_equal(qn_find_non_finite(values, 0), -1);
    static const int at[] = {9999, 4096, 4095, 1, 0};
    for (size_t i = 0; i < 5; i++) {
        values[at[i]] = i % 2 ? (float)NAN : (float)-INFINITY;
        assert_int_equal(qn_find_non_finite(values, 10000), at[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(comes_back_within_half_a_step),
        cmocka_unit_test(refuses_what_is_no_type),
        cmocka_unit_test(reads_integers_and_doubles),
        cmocka_unit_test(rounds_to_sixteen_bits),
        cmocka_unit_test(picks_rows),
        cmocka_unit_test(finds_the_first_non_finite_value),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
