/* test_constant.c — the quantized tensor: containers, look-up, products, what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include "tensor/tensor.h"

#include <cmocka.h>

/* q8_0 blocks that mean something: row r, element k is (r + 1) * (k % 7 - 3), scale 1. */
enum { ROWS = 5, COLS = 64, ROW_BYTES = COLS / 32 * 34 };

static void fill_blocks(uint8_t *blocks)
{
    for (int r = 0; r < ROWS; r++) {
        for (int k = 0; k < COLS; k++) {
            qni_block_q8_0 *block = (qni_block_q8_0 *)(blocks + r * ROW_BYTES) + k / 32;
            qni_store_u16le(block->d, 0x3c00);
            block->qs[k % 32] = (int8_t)((r + 1) * (k % 7 - 3));
        }
    }
}

static float element(int64_t r, int64_t k)
{
    return (float)((r + 1) * (k % 7 - 3));
}

static uint8_t blocks[ROWS * ROW_BYTES];
static const int64_t shape[2] = {COLS, ROWS};

static qn_tensor *new_borrowed(void)
{
    qn_tensor *t = NULL;
    fill_blocks(blocks);
    assert_int_equal(qn_tensor_from_borrowed_blocks(QN_DTYPE_Q8_0, shape, 2, blocks, sizeof blocks,
                                                    NULL, &t, NULL),
                     QN_OK);
    return t;
}

static void expect_values(const qn_tensor *t)
{
    float out[ROWS * COLS];
    assert_int_equal(qn_tensor_to_f32(t, out, ROWS * COLS, NULL), QN_OK);
    for (int r = 0; r < ROWS; r++) {
        for (int k = 0; k < COLS; k++) {
            assert_true(out[r * COLS + k] == element(r, k));
        }
    }
}

static void containers_own_or_borrow(void **state)
{
    (void)state;
    qn_tensor *borrowed = new_borrowed();
    qn_tensor *copied = NULL;
    qn_tensor *materialized = NULL;
    qn_tensor *from_info = NULL;
    assert_int_equal(
        qn_tensor_from_blocks(QN_DTYPE_Q8_0, shape, 2, blocks, sizeof blocks, NULL, &copied, NULL),
        QN_OK);
    assert_int_equal(qn_tensor_materialize(borrowed, NULL, &materialized, NULL), QN_OK);
    const qn_tensor_info info = qn_tensor_describe(borrowed);
    assert_ptr_equal(info.data, blocks);
    assert_int_equal(info.ne[0], COLS);
    assert_int_equal(info.ne[1], ROWS);
    assert_int_equal(info.ne[2], 1);
    assert_int_equal(qn_tensor_from_info(&info, NULL, &from_info, NULL), QN_OK);
    assert_true(qn_tensor_is_borrowed(borrowed) && qn_tensor_is_borrowed(from_info));
    assert_false(qn_tensor_is_borrowed(copied) || qn_tensor_is_borrowed(materialized));
    assert_false(qn_tensor_requires_grad(borrowed));
    expect_values(borrowed);
    expect_values(from_info);
    memset(blocks, 0, sizeof blocks); /* copies do not see it */
    expect_values(copied);
    expect_values(materialized);
    qn_tensor_free(borrowed);
    qn_tensor_free(copied);
    qn_tensor_free(materialized);
    qn_tensor_free(from_info);
    qn_tensor_free(NULL);
}

static void rows_are_looked_up(void **state)
{
    (void)state;
    qn_tensor *t = new_borrowed();
    const int64_t picks[] = {4, 0, 4, 2};
    float out[4 * COLS];
    assert_int_equal(qn_tensor_get_rows(t, picks, 4, out, 4 * COLS, NULL), QN_OK);
    for (int i = 0; i < 4; i++) {
        for (int k = 0; k < COLS; k++) {
            assert_true(out[i * COLS + k] == element(picks[i], k));
        }
    }
    const int64_t bad[] = {0, ROWS};
    const int64_t negative[] = {-1};
    assert_int_equal(qn_tensor_get_rows(t, bad, 2, out, 2 * COLS, NULL), QN_ERR_INVALID_ARGUMENT);
    assert_int_equal(qn_tensor_get_rows(t, negative, 1, out, COLS, NULL), QN_ERR_INVALID_ARGUMENT);
    assert_int_equal(qn_tensor_get_rows(t, picks, 0, out, 0, NULL), QN_ERR_INVALID_SHAPE);
    assert_int_equal(qn_tensor_get_rows(t, picks, 4, out, 3 * COLS, NULL),
                     QN_ERR_INVALID_DATA_LENGTH);
    qn_tensor_free(t);
}

static void rows_are_stacked(void **state)
{
    (void)state;
    qn_tensor *t = new_borrowed();
    qn_tensor *both = NULL;
    const qn_tensor *parts[] = {t, t};
    float out[2 * ROWS * COLS];
    assert_int_equal(qn_tensor_concat_rows(parts, 2, NULL, &both, NULL), QN_OK);
    assert_int_equal(qn_tensor_describe(both).ne[1], 2 * ROWS);
    assert_false(qn_tensor_is_borrowed(both));
    assert_int_equal(qn_tensor_to_f32(both, out, 2 * ROWS * COLS, NULL), QN_OK);
    assert_true(out[(ROWS + 2) * COLS + 5] == element(2, 5));

    qn_tensor *narrow = NULL;
    qn_tensor *other = NULL;
    const int64_t ne[2] = {32, 2};
    const uint8_t zeros[2 * 34] = {0};
    assert_int_equal(qn_tensor_from_blocks(QN_DTYPE_Q8_0, ne, 2, zeros, 68, NULL, &narrow, NULL),
                     QN_OK);
    assert_int_equal(qn_tensor_from_blocks(QN_DTYPE_Q4_0, ne, 2, zeros, 36, NULL, &other, NULL),
                     QN_OK);
    const qn_tensor *bad_shape[] = {t, narrow};
    const qn_tensor *bad_type[] = {t, other};
    qn_tensor *none = NULL;
    assert_int_equal(qn_tensor_concat_rows(bad_shape, 2, NULL, &none, NULL), QN_ERR_SHAPE_MISMATCH);
    assert_int_equal(qn_tensor_concat_rows(bad_type, 2, NULL, &none, NULL), QN_ERR_TYPE_MISMATCH);
    assert_int_equal(qn_tensor_concat_rows(bad_type, 0, NULL, &none, NULL),
                     QN_ERR_INVALID_ARGUMENT);
    assert_null(none);
    qn_tensor_free(t);
    qn_tensor_free(both);
    qn_tensor_free(narrow);
    qn_tensor_free(other);
}

/* Activations of integers up to 127 with a 127 in each block are quantized without loss, so the
 * products are exact integers. */
static void products_are_exact_where_they_can_be(void **state)
{
    (void)state;
    qn_tensor *w = new_borrowed();
    qn_compute *compute = NULL;
    qn_packed *packed = NULL;
    float x[2 * COLS];
    float y[2 * ROWS];
    float y_packed[2 * ROWS];
    for (int i = 0; i < 2 * COLS; i++) {
        x[i] = i % 32 == 0 ? 127.0f : (float)(i % 11 - 5);
    }
    assert_int_equal(qn_compute_new(NULL, &compute, NULL), QN_OK);
    const qn_lhs lhs = {x, 2, COLS, false};
    assert_int_equal(qn_tensor_dot(compute, &lhs, w, QN_RHS_TRANSIENT, y, 2 * ROWS, NULL), QN_OK);
    for (int m = 0; m < 2; m++) {
        for (int r = 0; r < ROWS; r++) {
            float sum = 0.0f;
            for (int k = 0; k < COLS; k++) {
                sum += x[m * COLS + k] * element(r, k);
            }
            assert_true(y[m * ROWS + r] == sum);
        }
    }
    assert_int_equal(qn_tensor_pack_rhs(compute, w, QN_LAYOUT_DEFAULT, &packed, NULL), QN_OK);
    assert_int_equal(qn_tensor_dot_packed(compute, &lhs, packed, y_packed, 2 * ROWS, NULL), QN_OK);
    assert_memory_equal(y, y_packed, sizeof y);

    qn_error err = QN_ERROR_INIT;
    const qn_lhs wrong = {x, 1, COLS - 32, false};
    const qn_lhs with_grad = {x, 2, COLS, true};
    assert_int_equal(qn_tensor_dot(compute, &wrong, w, QN_RHS_TRANSIENT, y, ROWS, &err),
                     QN_ERR_SHAPE_MISMATCH);
    assert_string_equal(err.message, "rows of 32 elements meet an axis of 64");
    assert_int_equal(qn_tensor_dot_packed(compute, &wrong, packed, y, ROWS, &err),
                     QN_ERR_SHAPE_MISMATCH);
    assert_int_equal(qn_tensor_dot(compute, &lhs, w, QN_RHS_TRANSIENT, y, ROWS, &err),
                     QN_ERR_INVALID_DATA_LENGTH);
    assert_int_equal(qn_tensor_dot_packed(compute, &with_grad, packed, y, 2 * ROWS, &err),
                     QN_ERR_GRADIENT_QUANTIZED_MATMUL_UNSUPPORTED);
    assert_int_equal(qn_tensor_dot(compute, &with_grad, w, QN_RHS_TRANSIENT, y, 2 * ROWS, &err),
                     QN_OK);

    float dy[ROWS] = {1, 0, -2, 0, 0};
    float dx[COLS];
    const qn_lhs upstream = {dy, 1, ROWS, false};
    assert_int_equal(qn_tensor_grad_lhs(compute, &upstream, w, dx, COLS, NULL), QN_OK);
    for (int k = 0; k < COLS; k++) {
        assert_true(dx[k] == element(0, k) - 2.0f * element(2, k));
    }
    assert_int_equal(qn_tensor_grad_lhs(compute, &lhs, w, dx, COLS, NULL), QN_ERR_SHAPE_MISMATCH);
    qn_packed_free(packed);
    qn_compute_free(compute);
    qn_tensor_free(w);
}

static void bad_tensors_are_refused(void **state)
{
    (void)state;
    const uint8_t some[512] = {0};
    const struct {
        const char *what;
        int dtype;
        int64_t ne[3];
        int32_t n_dims;
        const void *data;
        int64_t n_bytes;
        qn_status want;
    } cases[] = {
        {"part of a block", QN_DTYPE_Q8_0, {33, 1, 1}, 2, some, 34, QN_ERR_INVALID_SHAPE},
        {"zero rows", QN_DTYPE_Q8_0, {32, 0, 1}, 2, some, 0, QN_ERR_INVALID_SHAPE},
        {"no dimensions", QN_DTYPE_Q8_0, {32, 1, 1}, 0, some, 34, QN_ERR_INVALID_SHAPE},
        {"too many", QN_DTYPE_Q8_0, {32, 1, 1}, QN_MAX_DIMS + 1, some, 34, QN_ERR_INVALID_SHAPE},
        {"length", QN_DTYPE_Q8_0, {32, 2, 1}, 2, some, 67, QN_ERR_INVALID_DATA_LENGTH},
        {"removed", 31, {32, 2, 1}, 2, some, 68, QN_ERR_UNSUPPORTED_DTYPE},
        {"no data", QN_DTYPE_Q8_0, {32, 2, 1}, 2, NULL, 68, QN_ERR_INVALID_ARGUMENT},
        {"huge", QN_DTYPE_Q8_0, {INT64_MAX / 32 * 32, 4, 1}, 2, some, 68, QN_ERR_OVERFLOW},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        qn_tensor *t = NULL;
        qn_status st =
            qn_tensor_from_borrowed_blocks((qn_dtype)cases[i].dtype, cases[i].ne, cases[i].n_dims,
                                           cases[i].data, cases[i].n_bytes, NULL, &t, NULL);
        if (st != cases[i].want || t) {
            fail_msg("%s: %s", cases[i].what, qn_status_name(st));
        }
        st = qn_tensor_from_blocks((qn_dtype)cases[i].dtype, cases[i].ne, cases[i].n_dims,
                                   cases[i].data, cases[i].n_bytes, NULL, &t, NULL);
        assert_int_equal(st, cases[i].want);
    }
    qn_tensor_info info = {.dtype = QN_DTYPE_Q8_0, .n_dims = 1, .ne = {32}, .n_bytes = 34};
    qn_tensor *t = NULL;
    assert_int_equal(qn_tensor_from_info(&info, NULL, &t, NULL), QN_ERR_TENSOR_DATA_MISSING);

    info.data = some; /* one dimension: no product, no rows */
    float y[32];
    qn_compute *compute = NULL;
    const qn_lhs x = {y, 1, 32, false};
    assert_int_equal(qn_tensor_from_info(&info, NULL, &t, NULL), QN_OK);
    assert_int_equal(qn_compute_new(NULL, &compute, NULL), QN_OK);
    assert_int_equal(qn_tensor_dot(compute, &x, t, QN_RHS_TRANSIENT, y, 1, NULL),
                     QN_ERR_INVALID_SHAPE);
    assert_int_equal(qn_tensor_get_rows(t, (const int64_t[]){0}, 1, y, 32, NULL),
                     QN_ERR_INVALID_SHAPE);
    assert_int_equal(qn_tensor_to_f32(t, y, 31, NULL), QN_ERR_INVALID_DATA_LENGTH);
    qn_compute_free(compute);
    qn_tensor_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(containers_own_or_borrow),
        cmocka_unit_test(rows_are_looked_up),
        cmocka_unit_test(rows_are_stacked),
        cmocka_unit_test(products_are_exact_where_they_can_be),
        cmocka_unit_test(bad_tensors_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
