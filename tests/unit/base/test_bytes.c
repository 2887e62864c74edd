/* test_bytes.c — checked arithmetic, loads, cursor, numbers and UTF-8. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>

#include "base/base.h"

static void checked_arithmetic(void **state)
{
    (void)state;
    int64_t r = 0;
    assert_true(qni_add_i64(INT64_MAX - 1, 1, &r) && r == INT64_MAX);
    assert_false(qni_add_i64(INT64_MAX, 1, &r));
    assert_false(qni_mul_i64(INT64_C(1) << 32, INT64_C(1) << 31, &r));
    assert_true(qni_mul_i64(INT64_C(1) << 31, INT64_C(1) << 31, &r));
    assert_true(qni_align_up_i64(33, 32, &r) && r == 64);
    assert_true(qni_align_up_i64(64, 32, &r) && r == 64);
    assert_true(qni_align_up_i64(0, 4096, &r) && r == 0);
    assert_false(qni_align_up_i64(INT64_MAX - 3, 32, &r));
}

static void loads_and_stores_at_odd_addresses(void **state)
{
    (void)state;
    uint8_t bytes[17] = {0};
    qni_store_u64le(bytes + 1, UINT64_C(0x1122334455667788));
    assert_int_equal(bytes[1], 0x88);
    assert_int_equal(bytes[8], 0x11);
    assert_true(qni_load_u64le(bytes + 1) == UINT64_C(0x1122334455667788));
    assert_int_equal(qni_load_u32le(bytes + 3), 0x33445566);
    assert_int_equal(qni_load_u16le(bytes + 7), 0x1122);
    qni_store_f32le(bytes + 5, -0.0f);
    assert_int_equal(qni_load_u32le(bytes + 5), 0x80000000u);
}

static void cursor_stops_at_the_end(void **state)
{
    (void)state;
    const uint8_t bytes[] = {1, 0, 0, 0, 0, 0, 0, 2};
    qni_cursor cur = {bytes, sizeof bytes, 0, false};
    uint32_t v = 0;
    uint64_t w = 0;
    qn_error err = QN_ERROR_INIT;
    assert_int_equal(qni_cursor_u32(&cur, &v, "count", &err), QN_OK);
    assert_int_equal(v, 1);
    assert_int_equal(qni_cursor_u64(&cur, &w, "length", &err), QN_ERR_END_OF_STREAM);
    assert_int_equal(err.offset, 4);
    assert_non_null(strstr(err.message, "length"));
    cur.is_big_endian = true;
    assert_int_equal(qni_cursor_u32(&cur, &v, "count", &err), QN_OK);
    assert_int_equal(v, 2);
    const uint8_t *p = NULL;
    assert_int_equal(qni_cursor_take(&cur, 0, &p, "nothing", &err), QN_OK);
    assert_int_equal(qni_cursor_take(&cur, -1, &p, "negative", &err), QN_ERR_END_OF_STREAM);
    assert_int_equal(qni_cursor_take(&cur, INT64_MAX, &p, "huge", &err), QN_ERR_END_OF_STREAM);
}

static void whole_numbers_only(void **state)
{
    (void)state;
    int64_t v = 0;
    assert_true(qni_parse_i64("-9223372036854775808", &v) && v == INT64_MIN);
    assert_true(qni_parse_i64("9223372036854775807", &v) && v == INT64_MAX);
    assert_true(qni_parse_i64("+12", &v) && v == 12);
    static const char *const bad[] = {
        "",     "-",  "+", "12x", " 1", "1 ", "9223372036854775808", "-9223372036854775809",
        "0x10", "1e3"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_false(qni_parse_i64(bad[i], &v));
    }
    double d = 0;
    assert_true(qni_parse_f64("-1.5e3", &d) && d == -1500.0);
    assert_true(qni_parse_f64("1e-320", &d) && d > 0);
    static const char *const bad_floats[] = {"", "nan", "inf", "1e999", "1.5x", " 1", "1,5", "-"};
    for (size_t i = 0; i < sizeof bad_floats / sizeof bad_floats[0]; i++) {
        assert_false(qni_parse_f64(bad_floats[i], &d));
    }
    assert_true(qni_parse_size("64MiB", &v) && v == 64 << 20);
    assert_true(qni_parse_size("8m", &v) && v == 8 << 20);
    assert_true(qni_parse_size("12345", &v) && v == 12345);
    assert_true(qni_parse_size("2G", &v) && v == INT64_C(2) << 30);
    static const char *const bad_sizes[] = {"", "M", "-1", "1MB", "99999999999999T", "1.5G"};
    for (size_t i = 0; i < sizeof bad_sizes / sizeof bad_sizes[0]; i++) {
        assert_false(qni_parse_size(bad_sizes[i], &v));
    }
}

/* Encode a code point by the definition of UTF-8 (RFC 3629), as the referee. */
static size_t put_utf8(uint32_t code, uint8_t out[4])
{
    if (code < 0x80) {
        out[0] = (uint8_t)code;
        return 1;
    }
    const size_t len = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (size_t i = len - 1; i > 0; i--) {
        out[i] = (uint8_t)(0x80 | (code & 0x3F));
        code >>= 6;
    }
    out[0] = (uint8_t)((0xF00u >> len & 0xFF) | code);
    return len;
}

static void every_code_point_and_nothing_else_is_utf8(void **state)
{
    (void)state;
    for (uint32_t code = 0; code < 0x110000; code++) {
        uint8_t bytes[4];
        const size_t n = put_utf8(code, bytes);
        const bool is_surrogate = code >= 0xD800 && code < 0xE000;
        assert_true(qni_utf8_is_valid(bytes, n, NULL) == !is_surrogate);
        if (n > 1) {
            assert_false(qni_utf8_is_valid(bytes, n - 1, NULL));
        }
    }
    static const char *const bad[] = {
        "\xc0\x80",         "\xc1\xbf",         "\xe0\x80\x80", "\xf0\x80\x80\x80",
        "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\x80",         "\xfe"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_false(qni_utf8_is_valid(bad[i], strlen(bad[i]), NULL));
    }
    size_t at = 0;
    assert_false(qni_utf8_is_valid("0123456789\xff", 11, &at));
    assert_int_equal(at, 10);
    assert_true(qni_utf8_is_valid("", 0, NULL));
}

static void case_is_ascii_only(void **state)
{
    (void)state;
    assert_true(qni_equal_nocase("Q4_K", "q4_k"));
    assert_false(qni_equal_nocase("Q4_K", "q4_k_m"));
    assert_false(qni_equal_nocase("\xc3\x84", "\xc3\xa4"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(checked_arithmetic),
        cmocka_unit_test(loads_and_stores_at_odd_addresses),
        cmocka_unit_test(cursor_stops_at_the_end),
        cmocka_unit_test(whole_numbers_only),
        cmocka_unit_test(every_code_point_and_nothing_else_is_utf8),
        cmocka_unit_test(case_is_ascii_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
