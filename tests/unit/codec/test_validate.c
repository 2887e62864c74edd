/* test_validate.c — each field that the row validator looks at, and none that it does not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "quench/quench.h"

/* Offsets of the f16 fields; block-formats.md sections 4 to 8. */
typedef struct field {
    qn_dtype dtype;
    int offset;
    const char *name;
} field;

static const field fields[] = {
    {QN_DTYPE_Q1_0, 0, "d"},    {QN_DTYPE_Q2_0, 0, "d"},     {QN_DTYPE_Q4_0, 0, "d"},
    {QN_DTYPE_Q4_1, 0, "d"},    {QN_DTYPE_Q4_1, 2, "m"},     {QN_DTYPE_Q5_0, 0, "d"},
    {QN_DTYPE_Q5_1, 0, "d"},    {QN_DTYPE_Q5_1, 2, "m"},     {QN_DTYPE_Q8_0, 0, "d"},
    {QN_DTYPE_Q2_K, 80, "d"},   {QN_DTYPE_Q2_K, 82, "dmin"}, {QN_DTYPE_Q3_K, 108, "d"},
    {QN_DTYPE_Q4_K, 0, "d"},    {QN_DTYPE_Q4_K, 2, "dmin"},  {QN_DTYPE_Q5_K, 0, "d"},
    {QN_DTYPE_Q5_K, 2, "dmin"}, {QN_DTYPE_Q6_K, 208, "d"},   {QN_DTYPE_TQ1_0, 52, "d"},
    {QN_DTYPE_TQ2_0, 64, "d"},  {QN_DTYPE_IQ1_S, 0, "d"},    {QN_DTYPE_IQ2_XXS, 0, "d"},
    {QN_DTYPE_IQ2_XS, 0, "d"},  {QN_DTYPE_IQ2_S, 0, "d"},    {QN_DTYPE_IQ3_XXS, 0, "d"},
    {QN_DTYPE_IQ3_S, 0, "d"},   {QN_DTYPE_IQ4_NL, 0, "d"},   {QN_DTYPE_IQ4_XS, 0, "d"},
};

enum { N_BLOCKS = 6 };
static uint8_t bytes[300 * N_BLOCKS];

static qn_status validate(qn_dtype dtype, qn_error *err)
{
    return qn_validate_rows(dtype, bytes, N_BLOCKS * qn_dtype_block_bytes(dtype),
                            2 * qn_dtype_block_elems(dtype), 10, err);
}

static void looks_at_each_scale(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        const qn_dtype dtype = fields[i].dtype;
        memset(bytes, 0x7b, sizeof bytes); /* 0x7b7b is the finite binary16 61280 */
        assert_int_equal(validate(dtype, NULL), QN_OK);
        uint8_t *at = bytes + 3 * qn_dtype_block_bytes(dtype) + fields[i].offset;
        static const uint8_t bad[][2] = {{0x00, 0x7c}, {0x00, 0xfc}, {0x01, 0x7c}, {0xff, 0xff}};
        for (size_t k = 0; k < 4; k++) {
            memcpy(at, bad[k], 2);
            qn_error err = QN_ERROR_INIT;
            char text[64];
            (void)snprintf(text, sizeof text, "element %d: its %s is NaN or infinite",
                           (int)qn_dtype_block_elems(dtype), fields[i].name);
            assert_int_equal(validate(dtype, &err), QN_ERR_INVALID_BLOCK);
            assert_non_null(strstr(err.message, "row 11,"));
            assert_non_null(strstr(err.message, text));
        }
    }
}

static void looks_at_the_special_scales(void **state)
{
    (void)state;
    memset(bytes, 0x7b, sizeof bytes);
    bytes[2 * 17] = 255; /* mxfp4's exponent */
    assert_int_equal(validate(QN_DTYPE_MXFP4, NULL), QN_ERR_INVALID_BLOCK);
    bytes[2 * 17] = 254;
    assert_int_equal(validate(QN_DTYPE_MXFP4, NULL), QN_OK);

    memset(bytes, 0x7b, sizeof bytes);
    bytes[292 + 2] = 0x80, bytes[292 + 3] = 0x7f; /* q8_K's f32 */
    assert_int_equal(validate(QN_DTYPE_Q8_K, NULL), QN_ERR_INVALID_BLOCK);

    memset(bytes, 0x00,
           sizeof bytes); /* iq1_m: exponent bits in the top nibbles of words 2 and 3 */
    bytes[56 + 48 + 5] = 0xc0, bytes[56 + 48 + 7] = 0x70;
    assert_int_equal(validate(QN_DTYPE_IQ1_M, NULL), QN_ERR_INVALID_BLOCK);
    bytes[56 + 48 + 5] = 0xb0;
    assert_int_equal(validate(QN_DTYPE_IQ1_M, NULL), QN_OK);

    memset(bytes, 0xff, sizeof bytes); /* nothing is checked here */
    assert_int_equal(validate(QN_DTYPE_NVFP4, NULL), QN_OK);
    assert_int_equal(validate(QN_DTYPE_I64, NULL), QN_OK);
    assert_int_equal(validate(QN_DTYPE_Q8_1, NULL), QN_ERR_UNSUPPORTED_DTYPE);
    assert_int_equal(qn_validate_rows((qn_dtype)36, bytes, 0, 0, 0, NULL),
                     QN_ERR_UNSUPPORTED_DTYPE);
}

static void looks_at_each_float(void **state)
{
    (void)state;
    static uint8_t floats[8 * 10000];
    static const struct {
        qn_dtype dtype;
        uint8_t bad[8];
    } cases[] = {
        {QN_DTYPE_F16, {0x01, 0xfc}},
        {QN_DTYPE_BF16, {0x80, 0x7f}},
        {QN_DTYPE_F32, {0x00, 0x00, 0x80, 0xff}},
        {QN_DTYPE_F64, {0, 0, 0, 0, 0, 0, 0xf0, 0x47}}, /* 2^128: finite, but not as f32 */
    };
    for (size_t i = 0; i < 4; i++) {
        const int64_t n_bytes = qn_dtype_block_bytes(cases[i].dtype);
        static const int at[] = {0, 4095, 4096, 9999};
        for (size_t k = 0; k < 4; k++) {
            memset(floats, 0x11, sizeof floats);
            assert_int_equal(
                qn_validate_rows(cases[i].dtype, floats, 10000 * n_bytes, 100, 0, NULL), QN_OK);
            memcpy(floats + at[k] * n_bytes, cases[i].bad, (size_t)n_bytes);
            qn_error err = QN_ERROR_INIT;
            char text[64];
            (void)snprintf(text, sizeof text, "row %d, element %d of", at[k] / 100, at[k] % 100);
            assert_int_equal(
                qn_validate_rows(cases[i].dtype, floats, 10000 * n_bytes, 100, 0, &err),
                QN_ERR_NON_FINITE_VALUE);
            assert_non_null(strstr(err.message, text));
        }
    }
}

static void wants_whole_rows(void **state)
{
    (void)state;
    memset(bytes, 0, sizeof bytes);
    assert_int_equal(qn_validate_rows(QN_DTYPE_Q8_0, bytes, 34 * 3, 64, 0, NULL),
                     QN_ERR_INVALID_DATA_LENGTH);
    assert_int_equal(qn_validate_rows(QN_DTYPE_Q8_0, bytes, 34 * 3, 0, 0, NULL), QN_OK);
    assert_int_equal(qn_validate_rows(QN_DTYPE_Q8_0, bytes, 35, 0, 0, NULL),
                     QN_ERR_INVALID_DATA_LENGTH);
    assert_int_equal(qn_validate_rows(QN_DTYPE_Q8_0, bytes, 34, 31, 0, NULL), QN_ERR_INVALID_SHAPE);
    assert_int_equal(qn_validate_rows(QN_DTYPE_Q8_0, bytes, -34, 0, 0, NULL),
                     QN_ERR_INVALID_DATA_LENGTH);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(looks_at_each_scale),
        cmocka_unit_test(looks_at_the_special_scales),
        cmocka_unit_test(looks_at_each_float),
        cmocka_unit_test(wants_whole_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
