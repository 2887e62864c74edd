/* test_dtype.c — the table of types against ggml's own answers (ids, names, sizes as measured from
 * ggml 0.23.0 and written down in docs of the format). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "dtype/dtype.h"

typedef struct fact {
    int id;
    const char *name;
    int64_t elems;
    int64_t bytes;
} fact;

static const fact facts[] = {
    {0, "f32", 1, 4},         {1, "f16", 1, 2},         {2, "q4_0", 32, 18},
    {3, "q4_1", 32, 20},      {6, "q5_0", 32, 22},      {7, "q5_1", 32, 24},
    {8, "q8_0", 32, 34},      {9, "q8_1", 32, 36},      {10, "q2_K", 256, 84},
    {11, "q3_K", 256, 110},   {12, "q4_K", 256, 144},   {13, "q5_K", 256, 176},
    {14, "q6_K", 256, 210},   {15, "q8_K", 256, 292},   {16, "iq2_xxs", 256, 66},
    {17, "iq2_xs", 256, 74},  {18, "iq3_xxs", 256, 98}, {19, "iq1_s", 256, 50},
    {20, "iq4_nl", 32, 18},   {21, "iq3_s", 256, 110},  {22, "iq2_s", 256, 82},
    {23, "iq4_xs", 256, 136}, {24, "i8", 1, 1},         {25, "i16", 1, 2},
    {26, "i32", 1, 4},        {27, "i64", 1, 8},        {28, "f64", 1, 8},
    {29, "iq1_m", 256, 56},   {30, "bf16", 1, 2},       {34, "tq1_0", 256, 54},
    {35, "tq2_0", 256, 66},   {39, "mxfp4", 32, 17},    {40, "nvfp4", 64, 36},
    {41, "q1_0", 128, 18},    {42, "q2_0", 64, 18},
};

static void the_table_is_ggmls(void **state)
{
    (void)state;
    int n_valid = 0;
    for (int id = -5; id < 100; id++) {
        n_valid += qn_dtype_is_valid((qn_dtype)id);
    }
    assert_int_equal(n_valid, sizeof facts / sizeof facts[0]);
    for (size_t i = 0; i < sizeof facts / sizeof facts[0]; i++) {
        const qn_dtype dtype = (qn_dtype)facts[i].id;
        assert_string_equal(qn_dtype_name(dtype), facts[i].name);
        assert_int_equal(qn_dtype_block_elems(dtype), facts[i].elems);
        assert_int_equal(qn_dtype_block_bytes(dtype), facts[i].bytes);
        assert_int_equal(qn_dtype_from_name(facts[i].name), dtype);
    }
    assert_int_equal(qn_dtype_from_name("Q4_k"), QN_DTYPE_Q4_K);
    assert_int_equal(qn_dtype_from_name("q4_2"), QN_DTYPE_NONE);
    assert_int_equal(qn_dtype_from_name(NULL), QN_DTYPE_NONE);
}

static void removed_ids_are_named_and_refused(void **state)
{
    (void)state;
    static const int removed[] = {4, 5, 31, 32, 33, 36, 37, 38};
    for (size_t i = 0; i < sizeof removed / sizeof removed[0]; i++) {
        const qn_dtype dtype = (qn_dtype)removed[i];
        assert_true(qn_dtype_is_removed(dtype));
        assert_false(qn_dtype_is_valid(dtype));
        int64_t n = 0;
        qn_error err = QN_ERROR_INIT;
        assert_int_equal(qn_dtype_row_bytes(dtype, 32, &n, &err), QN_ERR_UNSUPPORTED_DTYPE);
        assert_non_null(strstr(err.message, "removed"));
    }
    int64_t n = 0;
    assert_int_equal(qn_dtype_row_bytes((qn_dtype)43, 32, &n, NULL), QN_ERR_UNSUPPORTED_DTYPE);
    assert_int_equal(qn_dtype_row_bytes((qn_dtype)-7, 32, &n, NULL), QN_ERR_UNSUPPORTED_DTYPE);
    assert_string_equal(qn_dtype_name((qn_dtype)43), "?");
}

static void sizes_are_checked(void **state)
{
    (void)state;
    int64_t n = -1;
    assert_int_equal(qn_dtype_row_bytes(QN_DTYPE_Q4_K, 512, &n, NULL), QN_OK);
    assert_int_equal(n, 288);
    assert_int_equal(qn_dtype_row_bytes(QN_DTYPE_Q4_K, 500, &n, NULL), QN_ERR_INVALID_SHAPE);
    assert_int_equal(n, 0);
    assert_int_equal(qn_dtype_row_bytes(QN_DTYPE_F64, INT64_MAX, &n, NULL), QN_ERR_OVERFLOW);
    const int64_t ne[] = {256, 3, 0};
    assert_int_equal(qn_dtype_tensor_bytes(QN_DTYPE_Q6_K, ne, 2, &n, NULL), QN_OK);
    assert_int_equal(n, 630);
    assert_int_equal(qn_dtype_tensor_bytes(QN_DTYPE_Q6_K, ne, 3, &n, NULL), QN_OK);
    assert_int_equal(n, 0);
    assert_int_equal(qn_dtype_tensor_bytes(QN_DTYPE_F32, ne, 0, &n, NULL), QN_OK);
    assert_int_equal(n, 4);
    const int64_t wraps[] = {INT64_C(1) << 32, INT64_C(1) << 32};
    assert_int_equal(qn_dtype_tensor_bytes(QN_DTYPE_Q4_1, ne, 0, &n, NULL), QN_ERR_INVALID_SHAPE);
    assert_int_equal(qn_dtype_tensor_bytes(QN_DTYPE_I8, wraps, 2, &n, NULL), QN_ERR_OVERFLOW);
    const int64_t negative[] = {32, -1};
    assert_int_equal(qn_dtype_tensor_bytes(QN_DTYPE_I8, negative, 2, &n, NULL),
                     QN_ERR_INVALID_SHAPE);
    assert_int_equal(qn_dtype_tensor_bytes(QN_DTYPE_I8, ne, 9, &n, NULL), QN_ERR_INVALID_SHAPE);
}

static void quantized_is_as_ggml_says(void **state)
{
    (void)state;
    static const int plain[] = {0, 1, 24, 25, 26, 27, 28, 30};
    for (size_t i = 0; i < sizeof facts / sizeof facts[0]; i++) {
        bool is_plain = false;
        for (size_t k = 0; k < sizeof plain / sizeof plain[0]; k++) {
            is_plain |= facts[i].id == plain[k];
        }
        assert_true(qn_dtype_is_quantized((qn_dtype)facts[i].id) == !is_plain);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_table_is_ggmls),
        cmocka_unit_test(removed_ids_are_named_and_refused),
        cmocka_unit_test(sizes_are_checked),
        cmocka_unit_test(quantized_is_as_ggml_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
