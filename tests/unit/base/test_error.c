/* test_error.c — statuses, error filling, escaping of untrusted bytes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>

#include "base/base.h"

static void names_are_the_seeds(void **state)
{
    (void)state;
    assert_string_equal(qn_status_name(QN_ERR_INVALID_TENSOR_INFO), "InvalidTensorInfo");
    assert_string_equal(qn_status_name(QN_OK), "Ok");
    assert_string_equal(qn_status_name((qn_status)99999), "Unknown");
    assert_int_equal(qn_status_exit_code(QN_ERR_INVALID_ARGUMENT), 2);
    assert_int_equal(qn_status_exit_code(QN_ERR_INVALID_MAGIC), 1);
    assert_int_equal(qn_status_exit_code(QN_OK), 0);
}

static qn_status fails_at(int64_t value, qn_error *err)
{
    QN_CHECK(value < 5, err, QN_ERR_INVALID_SHAPE, 77, "value %" PRId64 " is too large", value);
    return QN_OK;
}

static qn_status passes_up(int64_t value, qn_error *err)
{
    QN_TRY(fails_at(value, err));
    return QN_OK;
}

static void check_fills_and_forwards(void **state)
{
    (void)state;
    qn_error err = QN_ERROR_INIT;
    assert_int_equal(passes_up(1, &err), QN_OK);
    assert_int_equal(err.status, QN_OK);
    assert_int_equal(passes_up(9, &err), QN_ERR_INVALID_SHAPE);
    assert_int_equal(err.offset, 77);
    assert_int_equal(err.tensor_index, -1);
    assert_string_equal(err.message, "value 9 is too large");
    assert_int_equal(passes_up(9, NULL), QN_ERR_INVALID_SHAPE);
}

static void path_is_set_once(void **state)
{
    (void)state;
    qn_error err = QN_ERROR_INIT;
    qn_status st = qni_fail(&err, QN_ERR_IO, -1, "x");
    assert_int_equal(qni_fail_path(&err, st, "inner"), QN_ERR_IO);
    (void)qni_fail_path(&err, st, "outer");
    assert_string_equal(err.path, "inner");
}

static void errno_decides_the_status(void **state)
{
    (void)state;
    qn_error err = QN_ERROR_INIT;
    assert_int_equal(qni_fail_errno(&err, ENOSPC, "f", "cannot write"), QN_ERR_NO_SPACE);
    assert_int_equal(err.sys_errno, ENOSPC);
    assert_string_equal(err.message, "cannot write: No space left on device");
    assert_int_equal(qni_fail_errno(&err, EISDIR, "f", "x"), QN_ERR_IS_DIR);
    assert_int_equal(qni_fail_errno(&err, ENOMEM, "f", "x"), QN_ERR_OUT_OF_MEMORY);
    assert_int_equal(qni_fail_errno(&err, EACCES, "f", "x"), QN_ERR_IO);
}

typedef struct escape_case {
    const char *bytes;
    int64_t n_bytes;
    const char *text;
} escape_case;

static void escapes_what_a_terminal_would_obey(void **state)
{
    (void)state;
    static const escape_case cases[] = {
        {"blk.0.attn_q.weight", 19, "blk.0.attn_q.weight"},
        {"a\nb\t\"c\\", 7, "a\\nb\\t\\\"c\\\\"},
        {"\x1b[2J", 4, "\\x1b[2J"},
        {"a\0b", 3, "a\\x00b"},
        {"\xff\xfe", 2, "\\xff\\xfe"},
        {"\xc3\xa9\xe6\x97\xa5\xf0\x9f\x99\x82", 9, "\xc3\xa9\xe6\x97\xa5\xf0\x9f\x99\x82"},
        {"\xc2\x9b"
         "31m",
         5, "\\xc2\\x9b31m"}, /* C1 control sequence introducer */
        {"\xe2\x80\xae"
         "fdp",
         6, "\\xe2\\x80\\xaefdp"},     /* right-to-left override */
        {"\xe6\x97", 2, "\\xe6\\x97"}, /* cut short */
        {"", 0, ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        qni_name_text out;
        assert_string_equal(qni_escape_name(cases[i].bytes, cases[i].n_bytes, &out), cases[i].text);
    }
}

static void long_names_are_cut_inside_the_buffer(void **state)
{
    (void)state;
    char bytes[400];
    memset(bytes, 1, sizeof bytes);
    for (size_t n_out = 8; n_out < 64; n_out++) {
        char out[64];
        memset(out, 'Z', sizeof out);
        qni_escape(bytes, (int64_t)sizeof bytes, out, n_out);
        assert_true(strlen(out) < n_out);
        assert_string_equal(out + strlen(out) - 3, "...");
        for (size_t i = n_out; i < sizeof out; i++) {
            assert_int_equal(out[i], 'Z');
        }
    }
    char exact[9];
    assert_string_equal(qni_escape("12345678", 8, exact, sizeof exact), "12345678");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_the_seeds),
        cmocka_unit_test(check_fills_and_forwards),
        cmocka_unit_test(path_is_set_once),
        cmocka_unit_test(errno_decides_the_status),
        cmocka_unit_test(escapes_what_a_terminal_would_obey),
        cmocka_unit_test(long_names_are_cut_inside_the_buffer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
