/* test_json_read.c — the reader: what it accepts, and at which byte it refuses the rest. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "json/json.h"

static qn_status skip_all(const char *text, size_t n_text, qn_error *err)
{
    qni_json r;
    qn_status st = qni_json_begin(&r, text, (int64_t)n_text, NULL, err);
    if (st == QN_OK) {
        st = qni_json_skip(&r, err);
    }
    if (st == QN_OK) {
        st = qni_json_finish(&r, err);
    }
    qni_json_end(&r);
    return st;
}

static const char *const good_texts[] = {
    "{}",
    "[]",
    " [ ] ",
    "null",
    "true",
    "false",
    "0",
    "-0",
    "-1.5e+10",
    "1E5",
    "1e-5",
    "0.25",
    "\"\"",
    "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u0041\"",
    "\"\\ud83e\\uDD99\"",
    "\"\\u0000\"",
    "\"\x7f \xd0\xb2\"",
    "{\"a\":{\"a\":1},\"b\":[{\"a\":1},{\"a\":2}]}",
    "[1,2,3,[4,[5]],{}]",
    "\n\t\r {\"x\"\n:\t1 }\r\n",
    "18446744073709551616",
};

static void accepts(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof good_texts / sizeof good_texts[0]; i++) {
        qn_error err = QN_ERROR_INIT;
        const qn_status st = skip_all(good_texts[i], strlen(good_texts[i]), &err);
        if (st != QN_OK) {
            fail_msg("%s: %s at %lld", good_texts[i], err.message, (long long)err.offset);
        }
    }
}

typedef struct bad_case {
    const char *text;
    int64_t offset;
} bad_case;

/* The byte is the first one that no JSON text could have there; of a name that repeats, its quote;
 * of a bad escape, its backslash. */
static const bad_case bad_cases[] = {
    {"", 0},
    {"  ", 2},
    {"{", 1},
    {"[", 1},
    {"[1", 2},
    {"[1,", 3},
    {"[1,]", 3},
    {"[,1]", 1},
    {"[1 2]", 3},
    {"{\"a\"}", 4},
    {"{\"a\":}", 5},
    {"{\"a\":1,}", 7},
    {"{\"a\":1 \"b\":2}", 7},
    {"{a:1}", 1},
    {"{1:1}", 1},
    {"{\"a\" 1}", 5},
    {"{\"a\":1]", 6},
    {"[1}", 2},
    {"]", 0},
    {"nul", 0},
    {"True", 0},
    {"nulll", 4},
    {"{} {}", 3},
    {"{}x", 2},
    {"\"abc", 4},
    {"\"a\nb\"", 2},
    {"\"\\", 2},
    {"\"\\x\"", 1},
    {"\"\\u12", 5},
    {"\"\\u12g4\"", 1},
    {"\"\\ud800\"", 1},
    {"\"\\ud800\\n\"", 1},
    {"\"\\ud800\\u0041\"", 1},
    {"\"\\udc00\"", 1},
    {"01", 0},
    {"-01", 1},
    {"+1", 0},
    {"-", 1},
    {"-a", 1},
    {"1.", 2},
    {"1.e5", 2},
    {".5", 0},
    {"1e", 2},
    {"1e+", 3},
    {"0x10", 1},
    {"NaN", 0},
    {"Infinity", 0},
    {"// c\n1", 0},
    {"{\"a\":1,\"a\":2}", 7},
    {"{\"a\":1,\"\\u0061\":2}", 7},
    {"{\"x\":{\"b\":[],\"b\":0}}", 13},
    {"[{\"k\":1},{\"k\":1,\"k\":1}]", 16},
    {"\xef\xbb\xbf{}", 0},
    {"\"\xff\"", 1},
    {"\"\xc0\x80\"", 1},
    {"\"ok\xed\xa0\x80\"", 3},
    {"\"\xf4\x90\x80\x80\"", 1},
};

static void refuses(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bad_cases / sizeof bad_cases[0]; i++) {
        const bad_case *c = &bad_cases[i];
        qn_error err = QN_ERROR_INIT;
        const qn_status st = skip_all(c->text, strlen(c->text), &err);
        if (st != QN_ERR_INVALID_JSON || err.offset != c->offset || err.message[0] == '\0') {
            fail_msg("%s: status %d at %lld, expected %lld (%s)", c->text, (int)st,
                     (long long)err.offset, (long long)c->offset, err.message);
        }
        assert_int_equal(skip_all(c->text, strlen(c->text), NULL), QN_ERR_INVALID_JSON);
    }
    qn_error err = QN_ERROR_INIT;
    assert_int_equal(skip_all("[\0]", 3, &err), QN_ERR_INVALID_JSON); /* NUL is no white space */
    assert_int_equal(err.offset, 1);
    assert_int_equal(skip_all("{}\0", 3, &err), QN_ERR_INVALID_JSON);
    assert_int_equal(err.offset, 2);
    assert_int_equal(skip_all("\"a\0b\"", 5, &err), QN_ERR_INVALID_JSON);
    assert_int_equal(err.offset, 2);
}

static void bounds_nesting(void **state)
{
    (void)state;
    static char text[100001];
    memset(text, '[', QN_JSON_MAX_DEPTH);
    memset(text + QN_JSON_MAX_DEPTH, ']', QN_JSON_MAX_DEPTH);
    assert_int_equal(skip_all(text, (size_t)2 * QN_JSON_MAX_DEPTH, NULL), QN_OK);
    memset(text, '[', 100000);
    qn_error err = QN_ERROR_INIT;
    assert_int_equal(skip_all(text, 100000, &err), QN_ERR_INVALID_JSON);
    assert_int_equal(err.offset, QN_JSON_MAX_DEPTH);
    for (size_t i = 0; i + 5 <= 100000; i += 5) {
        memcpy(text + i, "{\"a\":", 5);
    }
    assert_int_equal(skip_all(text, 100000, &err), QN_ERR_INVALID_JSON);
    assert_int_equal(err.offset, 5 * QN_JSON_MAX_DEPTH);
}

/* Many names: the hash map takes over, and still sees the repeat, also in an inner object. */
static void finds_repeats_among_many(void **state)
{
    (void)state;
    static char text[65536];
    for (int n = 1; n <= 3000; n += n < 20 ? 1 : 977) {
        size_t len = 0;
        len += (size_t)snprintf(text + len, sizeof text - len, "{\"o\":{");
        for (int i = 0; i < n; i++) {
            len += (size_t)snprintf(text + len, sizeof text - len, "\"k%d\":{\"x\":0},", i);
        }
        const int64_t repeat_at = (int64_t)len;
        (void)snprintf(text + len, sizeof text - len, "\"k%d\":0}}", n / 2);
        qn_error err = QN_ERROR_INIT;
        assert_int_equal(skip_all(text, strlen(text), &err), QN_ERR_INVALID_JSON);
        assert_int_equal(err.offset, repeat_at);
        (void)snprintf(text + len, sizeof text - len, "\"k%d\":0},\"k0\":1}", n);
        assert_int_equal(skip_all(text, strlen(text), &err), QN_OK);
    }
}

typedef struct number_case {
    const char *text;
    qn_status u64_status;
    uint64_t u64;
    qn_status i64_status;
    int64_t i64;
} number_case;

#define BAD QN_ERR_INVALID_JSON
#define BIG QN_ERR_OVERFLOW

/* Rows of the table of JSON libraries in the project's notes, and the edges of both types. */
static const number_case number_cases[] = {
    {"0", QN_OK, 0, QN_OK, 0},
    {"7 ", QN_OK, 7, QN_OK, 7},
    {"9007199254740993", QN_OK, 9007199254740993, QN_OK, 9007199254740993},
    {"9223372036854775807", QN_OK, 9223372036854775807u, QN_OK, INT64_MAX},
    {"9223372036854775808", QN_OK, 9223372036854775808u, BIG, 0},
    {"18446744073709551615", QN_OK, UINT64_MAX, BIG, 0},
    {"18446744073709551616", BIG, 0, BIG, 0},
    {"99999999999999999999999999", BIG, 0, BIG, 0},
    {"-1", BAD, 0, QN_OK, -1},
    {"-9223372036854775808", BAD, 0, QN_OK, INT64_MIN},
    {"-9223372036854775809", BAD, 0, BIG, 0},
    {"-0", BAD, 0, BAD, 0},
    {"1e2", BAD, 0, BAD, 0},
    {"1.0", BAD, 0, BAD, 0},
    {"01", BAD, 0, BAD, 0},
    {"00", BAD, 0, BAD, 0},
    {"\"1\"", BAD, 0, BAD, 0},
    {"null", BAD, 0, BAD, 0},
    {"", BAD, 0, BAD, 0},
    {"[1]", BAD, 0, BAD, 0},
};

static void reads_whole_numbers(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof number_cases / sizeof number_cases[0]; i++) {
        const number_case *c = &number_cases[i];
        char in_array[64];
        (void)snprintf(in_array, sizeof in_array, "[%s]", c->text);
        for (int wrapped = 0; wrapped < 2; wrapped++) {
            const char *text = wrapped ? in_array : c->text;
            qni_json r;
            bool has_item = false;
            uint64_t u = 99;
            int64_t n = 99;
            assert_int_equal(qni_json_begin(&r, text, (int64_t)strlen(text), NULL, NULL), QN_OK);
            if (wrapped) {
                assert_int_equal(qni_json_enter_array(&r, NULL), QN_OK);
                assert_int_equal(qni_json_next_item(&r, &has_item, NULL), QN_OK);
            }
            if (!wrapped || has_item) {
                const char *pos = r.pos;
                assert_int_equal(qni_json_u64(&r, &u, NULL), c->u64_status);
                assert_true(u == c->u64);
                r.pos = pos;
                assert_int_equal(qni_json_i64(&r, &n, NULL), c->i64_status);
                assert_true(n == c->i64);
            }
            qni_json_end(&r);
        }
    }
}

static void reads_doubles(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        qn_status status;
        double value;
    } cases[] = {
        {"0", QN_OK, 0},
        {"-2.5e-1", QN_OK, -0.25},
        {"16", QN_OK, 16},
        {"0.1000000000000000055511151231257827021181583404541015625000000000000000001", QN_OK, 0.1},
        {"1e400", QN_ERR_OVERFLOW, 0},
        {"true", QN_ERR_INVALID_JSON, 0},
        {"1.", QN_ERR_INVALID_JSON, 0},
        {"", QN_ERR_INVALID_JSON, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        qni_json r;
        double value = 99;
        assert_int_equal(
            qni_json_begin(&r, cases[i].text, (int64_t)strlen(cases[i].text), NULL, NULL), QN_OK);
        assert_int_equal(qni_json_f64(&r, &value, NULL), cases[i].status);
        assert_true(value == cases[i].value);
        qni_json_end(&r);
    }
}

/* The walk that json.h shows, with every kind of value and an escaped name. */
static void walks_a_document(void **state)
{
    (void)state;
    static const char text[] = " {\"na\\u006de\": \"a\\tb\", \"list\": [1, true, null],"
                               " \"other\": {\"x\": [1.5]}, \"f\": false} ";
    const qni_json_options options = {.file_offset = 8};
    qni_json r;
    qni_json_text key;
    qni_json_text name;
    qni_json_kind kind = QNI_JSON_NULL;
    bool has = false;
    bool flag = false;
    uint64_t one = 0;
    assert_int_equal(qni_json_begin(&r, text, (int64_t)sizeof text - 1, &options, NULL), QN_OK);
    assert_int_equal(qni_json_offset(&r), 9);
    assert_int_equal(qni_json_enter_object(&r, QNI_JSON_UNIQUE, NULL), QN_OK);
    assert_int_equal(qni_json_next_key(&r, &key, &has, NULL), QN_OK);
    assert_true(has && qni_json_text_is(key, "name"));
    assert_false(qni_json_text_is(key, "nam"));
    assert_int_equal(key.offset, 10);
    assert_int_equal(qni_json_string(&r, &name, NULL), QN_OK);
    assert_true(qni_json_text_is(name, "a\tb"));
    assert_int_equal(qni_json_next_key(&r, &key, &has, NULL), QN_OK);
    assert_int_equal(qni_json_peek(&r, &kind, NULL), QN_OK);
    assert_int_equal(kind, QNI_JSON_ARRAY);
    assert_int_equal(qni_json_enter_array(&r, NULL), QN_OK);
    assert_int_equal(qni_json_next_item(&r, &has, NULL), QN_OK);
    assert_int_equal(qni_json_u64(&r, &one, NULL), QN_OK);
    assert_int_equal(one, 1);
    assert_int_equal(qni_json_next_item(&r, &has, NULL), QN_OK);
    assert_int_equal(qni_json_bool(&r, &flag, NULL), QN_OK);
    assert_true(flag);
    assert_int_equal(qni_json_next_item(&r, &has, NULL), QN_OK);
    assert_int_equal(qni_json_null(&r, NULL), QN_OK);
    assert_int_equal(qni_json_next_item(&r, &has, NULL), QN_OK);
    assert_false(has);
    assert_int_equal(qni_json_next_key(&r, &key, &has, NULL), QN_OK);
    assert_int_equal(qni_json_skip(&r, NULL), QN_OK);
    assert_int_equal(qni_json_next_key(&r, &key, &has, NULL), QN_OK);
    assert_true(has && qni_json_text_is(key, "f"));
    assert_int_equal(qni_json_bool(&r, &flag, NULL), QN_OK);
    assert_false(flag);
    assert_int_equal(qni_json_next_key(&r, &key, &has, NULL), QN_OK);
    assert_false(has);
    assert_int_equal(qni_json_finish(&r, NULL), QN_OK);
    qni_json_end(&r);
}

/* Asking for another kind than what is there is an error of the caller's status at its byte. */
static void reports_wrong_kinds(void **state)
{
    (void)state;
    const qni_json_options options = {.file_offset = 100,
                                      .status = QN_ERR_INVALID_INDEX,
                                      .status_overflow = QN_ERR_VALIDATION_OVERFLOW};
    qni_json r;
    qni_json_text text;
    double d = 0;
    uint64_t u = 0;
    int64_t n = 0;
    bool flag = false;
    qn_error err = QN_ERROR_INIT;
    assert_int_equal(qni_json_begin(&r, " @", 2, &options, NULL), QN_OK);
    assert_int_equal(qni_json_enter_object(&r, QNI_JSON_UNIQUE, &err), QN_ERR_INVALID_INDEX);
    assert_int_equal(err.offset, 101);
    assert_int_equal(qni_json_enter_array(&r, &err), QN_ERR_INVALID_INDEX);
    assert_int_equal(qni_json_string(&r, &text, &err), QN_ERR_INVALID_INDEX);
    assert_int_equal(qni_json_u64(&r, &u, &err), QN_ERR_INVALID_INDEX);
    assert_int_equal(qni_json_i64(&r, &n, &err), QN_ERR_INVALID_INDEX);
    assert_int_equal(qni_json_f64(&r, &d, &err), QN_ERR_INVALID_INDEX);
    assert_int_equal(qni_json_bool(&r, &flag, &err), QN_ERR_INVALID_INDEX);
    assert_int_equal(qni_json_null(&r, &err), QN_ERR_INVALID_INDEX);
    assert_int_equal(err.offset, 101);
    qni_json_end(&r);
    qni_json_end(&r); /* twice is fine */
    assert_int_equal(qni_json_begin(&r, "99999999999999999999", 20, &options, NULL), QN_OK);
    assert_int_equal(qni_json_u64(&r, &u, &err), QN_ERR_VALIDATION_OVERFLOW);
    qni_json_end(&r);
}

/* Fails the n-th allocation. */
static void *counted_alloc(void *ctx, size_t n_bytes, size_t alignment)
{
    int *left = ctx;
    (void)alignment;
    return (*left)-- > 0 ? malloc(n_bytes) : NULL;
}

static void counted_free(void *ctx, void *ptr, size_t n_bytes, size_t alignment)
{
    (void)ctx;
    (void)n_bytes;
    (void)alignment;
    free(ptr);
}

static void survives_lack_of_memory(void **state)
{
    (void)state;
    static const char text[] =
        "{\"a\\n\":1,\"b\":1,\"c\":1,\"d\":1,\"e\":1,\"f\":1,\"g\":1,\"h\":1,"
        "\"i\":\"\\u0041\",\"j\":1}";
    for (int n = 0; n < 100; n++) {
        int left = n;
        const qn_allocator allocator = {&left, counted_alloc, counted_free};
        const qni_json_options options = {.allocator = &allocator};
        qni_json r;
        qn_status st = qni_json_begin(&r, text, (int64_t)sizeof text - 1, &options, NULL);
        if (st == QN_OK) {
            st = qni_json_skip(&r, NULL);
        }
        qni_json_end(&r);
        if (st == QN_OK) {
            assert_true(n >= 4); /* levels, names, escaped text, map */
            return;
        }
        assert_int_equal(st, QN_ERR_OUT_OF_MEMORY);
    }
    fail_msg("never enough memory");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(accepts),
        cmocka_unit_test(refuses),
        cmocka_unit_test(bounds_nesting),
        cmocka_unit_test(finds_repeats_among_many),
        cmocka_unit_test(reads_whole_numbers),
        cmocka_unit_test(reads_doubles),
        cmocka_unit_test(walks_a_document),
        cmocka_unit_test(reports_wrong_kinds),
        cmocka_unit_test(survives_lack_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
