/* test_json_write.c — the writer: layout, escapes, numbers, mistakes in the order, failing sinks.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "json/json.h"

typedef struct sink {
    char text[65536];
    size_t n_text;
    size_t n_max; /* fail beyond */
} sink;

static qn_status put(void *ctx, const void *bytes, size_t n_bytes, qn_error *err)
{
    sink *s = ctx;
    if (s->n_text + n_bytes > s->n_max) {
        return qni_fail(err, QN_ERR_NO_SPACE, -1, "the sink is full");
    }
    memcpy(s->text + s->n_text, bytes, n_bytes);
    s->n_text += n_bytes;
    s->text[s->n_text] = '\0';
    return QN_OK;
}

static qn_json_writer *new_writer(sink *s, int indent)
{
    qn_json_writer *w = NULL;
    *s = (sink){.n_max = sizeof s->text - 1};
    assert_int_equal(qn_json_writer_new(put, s, indent, NULL, &w, NULL), QN_OK);
    return w;
}

static void assert_text(qn_json_writer *w, const sink *s, const char *expected)
{
    qn_error err = QN_ERROR_INIT;
    assert_int_equal(qn_json_finish(w, &err), QN_OK);
    assert_string_equal(s->text, expected);
    qn_json_writer_free(w);
}

static void write_sample(qn_json_writer *w)
{
    qn_json_begin_object(w);
    qn_json_member_string(w, "name", "a");
    qn_json_key(w, "list");
    qn_json_begin_array(w);
    qn_json_i64(w, INT64_MIN);
    qn_json_u64(w, UINT64_MAX);
    qn_json_begin_object(w);
    qn_json_end_object(w);
    qn_json_begin_array(w);
    qn_json_end_array(w);
    qn_json_null(w);
    qn_json_string(w, NULL);
    qn_json_end_array(w);
    qn_json_member_bool(w, "yes", true);
    qn_json_member_bool(w, "no", false);
    qn_json_member_i64(w, "i", -1);
    qn_json_member_u64(w, "u", 1);
    qn_json_member_f64(w, "f", 0.5);
    qn_json_end_object(w);
}

static void writes_compact(void **state)
{
    (void)state;
    static sink s;
    qn_json_writer *w = new_writer(&s, 0);
    write_sample(w);
    assert_text(w, &s,
                "{\"name\":\"a\",\"list\":[-9223372036854775808,18446744073709551615,{},[],null,"
                "null],\"yes\":true,\"no\":false,\"i\":-1,\"u\":1,\"f\":0.5}");
}

static void writes_indented(void **state)
{
    (void)state;
    static sink s;
    qn_json_writer *w = new_writer(&s, 2);
    write_sample(w);
    assert_text(w, &s,
                "{\n  \"name\": \"a\",\n  \"list\": [\n    -9223372036854775808,\n"
                "    18446744073709551615,\n    {},\n    [],\n    null,\n    null\n  ],\n"
                "  \"yes\": true,\n  \"no\": false,\n  \"i\": -1,\n  \"u\": 1,\n  \"f\": 0.5\n}");
}

typedef struct string_case {
    const char *bytes;
    size_t n_bytes;
    const char *expected;
} string_case;

/* As serde_json writes them, which is what the official safetensors package does. */
static const string_case string_cases[] = {
    {"", 0, "\"\""},
    {"plain", 5, "\"plain\""},
    {"\"\\/", 3, "\"\\\"\\\\/\""},
    {"\b\f\n\r\t", 5, "\"\\b\\f\\n\\r\\t\""},
    {"\0\x01\x1f\x7f", 4, "\"\\u0000\\u0001\\u001f\x7f\""},
    {"\xd0\xb2\xf0\x9f\xa6\x99", 6, "\"\xd0\xb2\xf0\x9f\xa6\x99\""},
    {"a\xff\xc3", 3, "\"a\xef\xbf\xbd\xef\xbf\xbd\""},
    {"\xed\xa0\x80z", 4, "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbdz\""},
};

static void escapes_strings(void **state)
{
    (void)state;
    static sink s;
    for (size_t i = 0; i < sizeof string_cases / sizeof string_cases[0]; i++) {
        const string_case *c = &string_cases[i];
        qn_json_writer *w = new_writer(&s, 0);
        qn_json_string_bytes(w, c->bytes, c->n_bytes);
        assert_text(w, &s, c->expected);
        w = new_writer(&s, 0);
        qn_json_begin_object(w);
        qn_json_key_bytes(w, c->bytes, c->n_bytes);
        qn_json_null(w);
        qn_json_end_object(w);
        char expected[64];
        (void)snprintf(expected, sizeof expected, "{%s:null}", c->expected);
        assert_text(w, &s, expected);
    }
}

typedef struct number_case {
    double value;
    const char *short_form;
    const char *plain_form; /* NULL: the same */
} number_case;

/* Shortest digits as Python's repr() gives them; the layout is ours. */
static const number_case number_cases[] = {
    {0.0, "0", NULL},
    {-0.0, "-0", NULL},
    {1.0, "1", NULL},
    {16.0, "16", NULL},
    {-2.5, "-2.5", NULL},
    {0.001, "0.001", NULL},
    {0.00001, "0.00001", NULL},
    {0.0000012, "1.2e-6", "0.0000012"},
    {0.1, "0.1", NULL},
    {(double)0.1f, "0.10000000149011612", NULL},
    {1.0 / 3.0, "0.3333333333333333", NULL},
    {12345678901234567.0, "12345678901234568", NULL},
    {1e16, "10000000000000000", NULL},
    {1e17, "1e17", "100000000000000000"},
    {1.5e300, "1.5e300", NULL},
    {1.7976931348623157e308, "1.7976931348623157e308", NULL},
    {5e-324, "5e-324", NULL},
    {123.456, "123.456", NULL},
};

static void writes_doubles(void **state)
{
    (void)state;
    char text[QNI_JSON_F64_MAX];
    for (size_t i = 0; i < sizeof number_cases / sizeof number_cases[0]; i++) {
        const number_case *c = &number_cases[i];
        assert_int_equal(qni_json_format_f64(c->value, true, text), strlen(c->short_form));
        assert_string_equal(text, c->short_form);
        const int n = qni_json_format_f64(c->value, false, text);
        assert_int_equal(n, strlen(text));
        assert_null(strchr(text, 'e'));
        assert_true(strtod(text, NULL) == c->value);
        if (c->plain_form) {
            assert_string_equal(text, c->plain_form);
        }
    }
    static sink s;
    qn_json_writer *w = new_writer(&s, 0);
    qn_json_begin_array(w);
    qn_json_f64(w, strtod("nan", NULL));
    qn_json_f64(w, strtod("-inf", NULL));
    qn_json_end_array(w);
    assert_text(w, &s, "[null,null]");
}

static void assert_refused(qn_json_writer *w)
{
    qn_error err = QN_ERROR_INIT;
    assert_int_equal(qn_json_finish(w, &err), QN_ERR_INVALID_STATE);
    assert_int_equal(err.status, QN_ERR_INVALID_STATE);
    assert_true(err.message[0] != '\0');
    qn_json_writer_free(w);
}

static void refuses_wrong_order(void **state)
{
    (void)state;
    static sink s;
    qn_json_writer *w = new_writer(&s, 0);
    assert_refused(w); /* nothing written */
    w = new_writer(&s, 0);
    qn_json_begin_array(w);
    assert_refused(w); /* open */
    w = new_writer(&s, 0);
    qn_json_begin_object(w);
    qn_json_null(w); /* a value without a name */
    qn_json_end_object(w);
    assert_refused(w);
    w = new_writer(&s, 0);
    qn_json_begin_object(w);
    qn_json_key(w, "a");
    qn_json_key(w, "b");
    assert_refused(w);
    w = new_writer(&s, 0);
    qn_json_begin_object(w);
    qn_json_key(w, "a");
    qn_json_end_object(w);
    assert_refused(w);
    w = new_writer(&s, 0);
    qn_json_begin_array(w);
    qn_json_end_object(w);
    assert_refused(w);
    w = new_writer(&s, 0);
    qn_json_end_array(w);
    assert_refused(w);
    w = new_writer(&s, 0);
    qn_json_key(w, "a");
    assert_refused(w);
    w = new_writer(&s, 0);
    qn_json_null(w);
    qn_json_null(w); /* two documents */
    assert_refused(w);
    w = new_writer(&s, 0);
    for (int i = 0; i <= QN_JSON_MAX_DEPTH; i++) {
        qn_json_begin_array(w);
    }
    assert_refused(w);
}

static void reports_sink_failures(void **state)
{
    (void)state;
    static sink s;
    qn_json_writer *w = new_writer(&s, 0);
    s.n_max = 10000;
    qn_json_begin_array(w);
    for (int i = 0; i < 5000; i++) {
        qn_json_string(w, "text");
    }
    qn_json_end_array(w);
    qn_error err = QN_ERROR_INIT;
    assert_int_equal(qn_json_finish(w, &err), QN_ERR_NO_SPACE);
    assert_string_equal(err.message, "the sink is full");
    assert_int_equal(qn_json_finish(w, NULL), QN_ERR_NO_SPACE);
    qn_json_writer_free(w);
    qn_json_writer_free(NULL);
}

static void *no_memory(void *ctx, size_t n_bytes, size_t alignment)
{
    (void)ctx;
    (void)n_bytes;
    (void)alignment;
    return NULL;
}

static void refuses_bad_arguments(void **state)
{
    (void)state;
    static sink s;
    qn_json_writer *w = NULL;
    assert_int_equal(qn_json_writer_new(NULL, NULL, 0, NULL, &w, NULL), QN_ERR_INVALID_ARGUMENT);
    assert_int_equal(qn_json_writer_new(put, &s, -1, NULL, &w, NULL), QN_ERR_INVALID_ARGUMENT);
    assert_int_equal(qn_json_writer_new(put, &s, 17, NULL, &w, NULL), QN_ERR_INVALID_ARGUMENT);
    const qn_allocator none = {NULL, no_memory, NULL};
    assert_int_equal(qn_json_writer_new(put, &s, 0, &none, &w, NULL), QN_ERR_OUT_OF_MEMORY);
    assert_null(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(writes_compact),        cmocka_unit_test(writes_indented),
        cmocka_unit_test(escapes_strings),       cmocka_unit_test(writes_doubles),
        cmocka_unit_test(refuses_wrong_order),   cmocka_unit_test(reports_sink_failures),
        cmocka_unit_test(refuses_bad_arguments),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
