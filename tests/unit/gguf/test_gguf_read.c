/* test_gguf_read.c — bytes spelled out by hand, read: values, arrays, errors with their place. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "gguf/gguf.h"

#include "gguf_bytes.h"

static spelled file; /* built anew by each test */

static spelled *begin(bool is_big_endian, uint32_t version, uint64_t n_tensors, uint64_t n_entries)
{
    file.n = 0;
    file.is_big_endian = is_big_endian;
    put_head(&file, version, n_tensors, n_entries);
    return &file;
}

static qn_gguf *parse_ok(void)
{
    qn_gguf *g = NULL;
    qn_error err = QN_ERROR_INIT;
    if (qn_gguf_parse(file.bytes, file.n, NULL, &g, &err) != QN_OK) {
        fail_msg("%s: %s", qn_status_name(err.status), err.message);
    }
    return g;
}

/* The file is refused with this status at this byte (-2: wherever). */
static void refused(qn_status status, int64_t offset)
{
    qn_gguf *g = NULL;
    qn_error err = QN_ERROR_INIT;
    assert_int_equal(qn_gguf_parse(file.bytes, file.n, NULL, &g, &err), status);
    assert_null(g);
    assert_true(err.message[0] != '\0');
    assert_int_equal(err.status, status);
    if (offset != -2) {
        assert_int_equal(err.offset, offset);
    }
}

static void refused_with(qn_status status, const qn_gguf_options *options)
{
    qn_gguf *g = NULL;
    qn_error err = QN_ERROR_INIT;
    assert_int_equal(qn_gguf_parse(file.bytes, file.n, options, &g, &err), status);
    assert_null(g);
}

/* --- values ------------------------------------------------------------------------------------
 */

static void put_every_value(spelled *s)
{
    put_key(s, "u8", 0), put_int(s, 200, 1);
    put_key(s, "i8", 1), put_int(s, 0x80, 1);
    put_key(s, "u16", 2), put_int(s, 0xFEDC, 2);
    put_key(s, "i16", 3), put_int(s, 0x8001, 2);
    put_key(s, "u32", 4), put_int(s, 0xFEDCBA98, 4);
    put_key(s, "i32", 5), put_int(s, 0x80000001, 4);
    put_key(s, "f32", 6), put_int(s, 0x3FC00000, 4); /* 1.5 */
    put_key(s, "bool", 7), put_int(s, 2, 1);
    put_key(s, "str", 8), put_str(s, "a\0b", 3);
    put_key(s, "u64", 10), put_int(s, 0x8000000000000000u, 8);
    put_key(s, "i64", 11), put_int(s, 0x8000000000000000u, 8);
    put_key(s, "f64", 12), put_int(s, 0xBFE0000000000000u, 8); /* -0.5 */
    put_key(s, "arr", 9), put_int(s, 3, 4), put_int(s, 2, 8), put_int(s, 0xFFFE, 2),
        put_int(s, 5, 2);
}

static void check_every_value(const qn_gguf *g)
{
    static const struct {
        qn_gguf_kind kind;
        int64_t as_int;
        double as_float;
    } expected[] = {
        {QN_GGUF_KIND_INT, 200, 0},        {QN_GGUF_KIND_INT, -128, 0},
        {QN_GGUF_KIND_INT, 0xFEDC, 0},     {QN_GGUF_KIND_INT, -32767, 0},
        {QN_GGUF_KIND_INT, 0xFEDCBA98, 0}, {QN_GGUF_KIND_INT, -2147483647, 0},
        {QN_GGUF_KIND_FLOAT, 0, 1.5},      {QN_GGUF_KIND_BOOL, 0, 0},
        {QN_GGUF_KIND_STRING, 0, 0},       {QN_GGUF_KIND_INT, 0, 0},
        {QN_GGUF_KIND_INT, INT64_MIN, 0},  {QN_GGUF_KIND_FLOAT, 0, -0.5},
        {QN_GGUF_KIND_ARRAY, 0, 0},
    };
    assert_int_equal(qn_gguf_n_entries(g), 13);
    for (int64_t i = 0; i < 13; i++) {
        qn_gguf_value value;
        const qn_status st = qn_gguf_value_at(g, i, &value, NULL);
        if (i == 9) { /* the u64 of 2^63 */
            assert_int_equal(st, QN_ERR_METADATA_VALUE_OUT_OF_RANGE);
            continue;
        }
        assert_int_equal(st, QN_OK);
        assert_int_equal(value.kind, expected[i].kind);
        if (value.kind == QN_GGUF_KIND_INT) {
            assert_true(value.as_int == expected[i].as_int);
        } else if (value.kind == QN_GGUF_KIND_FLOAT) {
            assert_true(value.as_float == expected[i].as_float);
        } else if (value.kind == QN_GGUF_KIND_BOOL) {
            assert_true(value.as_bool);
        } else if (value.kind == QN_GGUF_KIND_STRING) {
            assert_int_equal(value.as_string.n_bytes, 3);
            assert_memory_equal(value.as_string.bytes, "a\0b", 3);
        } else {
            qn_gguf_value elem;
            int16_t elems[2];
            assert_int_equal(qn_gguf_array_at(&value.as_array, 0, &elem, NULL), QN_OK);
            assert_int_equal(elem.as_int, -2);
            assert_int_equal(qn_gguf_array_copy(&value.as_array, QN_GGUF_I16, 0, 2, elems, NULL),
                             QN_OK);
            assert_int_equal(elems[0], -2);
            assert_int_equal(elems[1], 5);
        }
    }
    uint64_t u64 = 0;
    double f64 = 0;
    float f32 = 0;
    assert_int_equal(qn_gguf_get_u64(g, "u64", &u64, NULL), QN_OK);
    assert_true(u64 == 0x8000000000000000u);
    assert_int_equal(qn_gguf_get_f64(g, "f64", &f64, NULL), QN_OK);
    assert_true(f64 == -0.5);
    assert_int_equal(qn_gguf_get_f32(g, "f32", &f32, NULL), QN_OK);
    assert_true(f32 == 1.5f);
    qn_gguf_value none;
    assert_int_equal(qn_gguf_value_at(g, 13, &none, NULL), QN_ERR_INVALID_ARGUMENT);
    assert_int_equal(qn_gguf_value_at(g, -1, &none, NULL), QN_ERR_INVALID_ARGUMENT);
    assert_null(qn_gguf_entry_at(g, 13));
    assert_int_equal(qn_gguf_find_entry(g, "u64", 2), -1);
    assert_int_equal(qn_gguf_find_entry(g, "u64", -1), -1);
}

static void both_byte_orders_mean_the_same(void **state)
{
    (void)state;
    for (int is_big = 0; is_big < 2; is_big++) {
        for (uint32_t version = 2; version <= 3; version++) {
            put_every_value(begin(is_big, version, 0, 13));
            qn_gguf *g = parse_ok();
            assert_int_equal(qn_gguf_version(g), version);
            assert_int_equal(qn_gguf_is_big_endian(g), is_big);
            check_every_value(g);
            qn_gguf_close(g);
        }
    }
}

static void flags_and_kinds(void **state)
{
    (void)state;
    put_every_value(begin(false, 3, 0, 13));
    qn_gguf *g = parse_ok();
    bool flag = false;
    double number = 0;
    qn_gguf_string text;
    qn_gguf_array array;
    assert_int_equal(qn_gguf_get_flag(g, "bool", &flag, NULL), QN_OK);
    assert_true(flag);
    assert_int_equal(qn_gguf_get_flag(g, "f32", &flag, NULL), QN_ERR_METADATA_TYPE_MISMATCH);
    assert_false(flag);
    assert_int_equal(qn_gguf_get_float(g, "f64", &number, NULL), QN_OK);
    assert_true(number == -0.5);
    assert_int_equal(qn_gguf_get_float(g, "str", &number, NULL), QN_ERR_METADATA_TYPE_MISMATCH);
    assert_int_equal(qn_gguf_get_string(g, "str", &text, NULL), QN_OK);
    assert_int_equal(text.n_bytes, 3);
    assert_int_equal(qn_gguf_get_string(g, "u8", &text, NULL), QN_ERR_METADATA_TYPE_MISMATCH);
    assert_int_equal(text.n_bytes, 0);
    assert_int_equal(qn_gguf_get_array(g, "str", &array, NULL), QN_ERR_METADATA_TYPE_MISMATCH);
    assert_int_equal(qn_gguf_get_bool(g, "u8", &flag, NULL), QN_ERR_METADATA_TYPE_MISMATCH);
    assert_string_equal(qn_gguf_type_name(QN_GGUF_F64), "f64");
    assert_string_equal(qn_gguf_type_name((qn_gguf_type)13), "?");
    assert_int_equal(qn_gguf_type_bytes(QN_GGUF_STRING), 0);
    assert_int_equal(qn_gguf_type_bytes(QN_GGUF_NONE), 0);
    qn_gguf_close(g);

    qn_gguf_options options = QN_GGUF_OPTIONS_INIT;
    options.int64_only = true;
    refused_with(QN_ERR_METADATA_VALUE_OUT_OF_RANGE, &options);
}

/* --- arrays ------------------------------------------------------------------------------------
 */

static void string_arrays_are_indexed(void **state)
{
    (void)state;
    enum { N = 1000 };
    spelled *s = begin(false, 3, 0, 1);
    put_key(s, "words", 9), put_int(s, 8, 4), put_int(s, N, 8);
    for (int i = 0; i < N; i++) {
        char word[16];
        const int n = snprintf(word, sizeof word, "w%d", i * i);
        put_str(s, word, (size_t)n);
    }
    qn_gguf *g = parse_ok();
    qn_gguf_array array;
    qn_gguf_string text;
    assert_int_equal(qn_gguf_get_array(g, "words", &array, NULL), QN_OK);
    for (int i = N - 1; i >= 0; i -= 7) {
        char word[16];
        const int n = snprintf(word, sizeof word, "w%d", i * i);
        assert_int_equal(qn_gguf_array_string(&array, i, &text, NULL), QN_OK);
        assert_int_equal(text.n_bytes, n);
        assert_memory_equal(text.bytes, word, (size_t)n);
    }
    assert_int_equal(qn_gguf_array_string(&array, N, &text, NULL), QN_ERR_INVALID_ARGUMENT);
    assert_int_equal(qn_gguf_array_string(&array, -1, &text, NULL), QN_ERR_INVALID_ARGUMENT);
    int count = 0;
    qn_gguf_array_iter iter = {0, 0};
    qn_gguf_value value;
    while (qn_gguf_array_next(&array, &iter, &value)) {
        count++;
    }
    assert_int_equal(count, N);
    uint32_t numbers[1];
    assert_int_equal(qn_gguf_array_copy(&array, QN_GGUF_U32, 0, 1, numbers, NULL),
                     QN_ERR_METADATA_TYPE_MISMATCH);
    assert_int_equal(qn_gguf_array_copy(&array, QN_GGUF_STRING, 0, 1, numbers, NULL),
                     QN_ERR_METADATA_TYPE_MISMATCH);
    qn_gguf_close(g);
}

/* Arrays nested `depth` deep around one u8. */
static void put_nested(spelled *s, int depth)
{
    put_key(s, "deep", 9);
    for (int i = 1; i < depth; i++) {
        put_int(s, 9, 4), put_int(s, 1, 8);
    }
    put_int(s, 0, 4), put_int(s, 1, 8), put_int(s, 77, 1);
}

static void arrays_nest_sixteen_deep(void **state)
{
    (void)state;
    for (int is_big = 0; is_big < 2; is_big++) {
        for (int depth = 1; depth <= 16; depth++) {
            put_nested(begin(is_big, 3, 0, 1), depth);
            qn_gguf *g = parse_ok();
            qn_gguf_array array;
            assert_int_equal(qn_gguf_get_array(g, "deep", &array, NULL), QN_OK);
            qn_gguf_value value = {.kind = QN_GGUF_KIND_ARRAY};
            for (int i = 1; i < depth; i++) {
                assert_int_equal(array.elem_type, QN_GGUF_ARRAY);
                assert_int_equal(qn_gguf_array_at(&array, 0, &value, NULL), QN_OK);
                array = value.as_array;
            }
            assert_int_equal(qn_gguf_array_at(&array, 0, &value, NULL), QN_OK);
            assert_int_equal(value.as_int, 77);
            qn_gguf_close(g);
        }
        put_nested(begin(is_big, 3, 0, 1), 17);
        refused(QN_ERR_UNSUPPORTED_VALUE_TYPE, -2);
    }
}

static void wide_nests_are_walked(void **state)
{
    (void)state;
    spelled *s = begin(false, 3, 0, 2);
    put_key(s, "wide", 9), put_int(s, 9, 4), put_int(s, 40, 8);
    for (int i = 0; i < 40; i++) { /* [], ["x"], [[1], []], ... */
        if (i % 3 == 0) {
            put_int(s, 9, 4), put_int(s, 0, 8);
        } else if (i % 3 == 1) {
            put_int(s, 8, 4), put_int(s, 1, 8), put_text(s, "x");
        } else {
            put_int(s, 9, 4), put_int(s, 2, 8);
            put_int(s, 2, 4), put_int(s, 1, 8), put_int(s, (uint64_t)i, 2);
            put_int(s, 12, 4), put_int(s, 0, 8);
        }
    }
    put_key(s, "u64s", 9), put_int(s, 10, 4), put_int(s, 1, 8), put_int(s, UINT64_MAX, 8);
    qn_gguf *g = parse_ok();
    qn_gguf_array array;
    qn_gguf_value value;
    assert_int_equal(qn_gguf_get_array(g, "wide", &array, NULL), QN_OK);
    assert_int_equal(qn_gguf_array_at(&array, 38, &value, NULL), QN_OK); /* 38 % 3 == 2 */
    const qn_gguf_array inner = value.as_array;
    assert_int_equal(inner.n_elems, 2);
    assert_int_equal(qn_gguf_array_at(&inner, 0, &value, NULL), QN_OK);
    const qn_gguf_array innermost = value.as_array;
    assert_int_equal(qn_gguf_array_at(&innermost, 0, &value, NULL), QN_OK);
    assert_int_equal(value.as_int, 38);
    assert_int_equal(qn_gguf_array_at(&inner, 1, &value, NULL), QN_OK);
    assert_int_equal(value.as_array.n_elems, 0);
    /* a u64 above the signed range: refused by value, given by copy and by iteration */
    uint64_t exact = 0;
    qn_gguf_array_iter iter = {0, 0};
    assert_int_equal(qn_gguf_get_array(g, "u64s", &array, NULL), QN_OK);
    assert_int_equal(qn_gguf_array_at(&array, 0, &value, NULL), QN_ERR_METADATA_VALUE_OUT_OF_RANGE);
    assert_int_equal(qn_gguf_array_copy(&array, QN_GGUF_U64, 0, 1, &exact, NULL), QN_OK);
    assert_true(exact == UINT64_MAX);
    assert_int_equal(qn_gguf_array_copy(&array, QN_GGUF_U64, 0, 2, &exact, NULL),
                     QN_ERR_INVALID_ARGUMENT);
    assert_true(qn_gguf_array_next(&array, &iter, &value));
    assert_int_equal(value.type, QN_GGUF_U64);
    qn_gguf_close(g);

    qn_gguf_options strict = QN_GGUF_OPTIONS_INIT;
    strict.strict = true;
    refused_with(QN_ERR_STRICT, &strict);
}

/* --- errors ------------------------------------------------------------------------------------
 */

static void headers_are_refused_where_they_are_wrong(void **state)
{
    (void)state;
    begin(false, 3, 0, 0);
    for (int64_t n = 1; n < 24; n++) {
        file.n = n;
        refused(QN_ERR_END_OF_STREAM, -2);
    }
    file.n = 0;
    refused(QN_ERR_END_OF_STREAM, 0);
    begin(false, 1, 0, 0), refused(QN_ERR_UNSUPPORTED_VERSION, 4);
    begin(false, 0, 0, 0), refused(QN_ERR_UNSUPPORTED_VERSION, 4);
    begin(false, 4, 0, 0), refused(QN_ERR_UNSUPPORTED_VERSION, 4);
    begin(true, 4, 0, 0), refused(QN_ERR_UNSUPPORTED_VERSION, 4);
    begin(false, 3, 1, 0), refused(QN_ERR_INVALID_TENSOR_INFO, 8);
    begin(false, 3, 0, 1), refused(QN_ERR_INVALID_TENSOR_INFO, 16);
    begin(false, 3, UINT64_MAX, 0), refused(QN_ERR_INVALID_TENSOR_INFO, 8);
    begin(false, 3, 0, UINT64_MAX), refused(QN_ERR_INVALID_TENSOR_INFO, 16);
    begin(false, 3, 0, 0);
    file.bytes[3] = 'X';
    refused(QN_ERR_INVALID_MAGIC, 0);
    memcpy(file.bytes, "PK\x03\x04", 4);
    refused(QN_ERR_NOT_A_MODEL, 0);
}

static void entries_are_refused_where_they_are_wrong(void **state)
{
    (void)state;
    spelled *s = begin(false, 3, 0, 1);
    put_key(s, "", 4), put_int(s, 1, 4);
    refused(QN_ERR_INVALID_METADATA, 32);
    s = begin(false, 3, 0, 1);
    put_int(s, 100, 8), put_fill(s, 'k', 20);
    refused(QN_ERR_END_OF_STREAM, 24);
    s = begin(false, 3, 0, 1);
    put_text(s, "ninebytes"); /* no type */
    refused(QN_ERR_END_OF_STREAM, 41);
    s = begin(false, 3, 0, 1);
    put_key(s, "nine.byte", 13), put_int(s, 0, 8);
    refused(QN_ERR_UNSUPPORTED_VALUE_TYPE, 45);
    s = begin(false, 3, 0, 1);
    put_key(s, "nine.byte", 10), put_int(s, 0, 4);
    refused(QN_ERR_END_OF_STREAM, 45);
    s = begin(false, 3, 0, 1);
    put_key(s, "nine.byte", 8), put_int(s, 0, 4);
    refused(QN_ERR_END_OF_STREAM, 45);
    s = begin(false, 3, 0, 1);
    put_key(s, "nine.byte", 8), put_int(s, 5, 8), put_raw(s, "four", 4);
    refused(QN_ERR_END_OF_STREAM, 45);
    s = begin(false, 3, 0, 1);
    put_key(s, "nine.byte", 9), put_int(s, 4, 4), put_int(s, 2, 8), put_int(s, 0, 4);
    refused(QN_ERR_END_OF_STREAM, 57);
    s = begin(false, 3, 0, 1);
    put_key(s, "nine.byte", 9), put_int(s, 8, 4), put_int(s, 2, 8), put_int(s, 0, 8),
        put_int(s, 0, 7);
    refused(QN_ERR_END_OF_STREAM, 57);
    s = begin(false, 3, 0, 1);
    put_key(s, "nine.byte", 9), put_int(s, 8, 4), put_int(s, 2, 8), put_int(s, 4, 8),
        put_raw(s, "fourfive", 8);
    refused(QN_ERR_END_OF_STREAM, 69);
    s = begin(false, 3, 0, 1);
    put_key(s, "nine.byte", 9), put_int(s, 9, 4), put_int(s, 1, 8), put_int(s, 4, 4);
    refused(QN_ERR_END_OF_STREAM, 57);
    s = begin(false, 3, 0, 1);
    put_key(s, "nine.byte", 9), put_int(s, 9, 4), put_int(s, 1, 8), put_int(s, 4, 4),
        put_fill(s, 0, 3);
    refused(QN_ERR_END_OF_STREAM, 57);
    s = begin(false, 3, 0, 1);
    put_key(s, "nine.byte", 9), put_int(s, 99, 4), put_int(s, 0, 8);
    refused(QN_ERR_UNSUPPORTED_VALUE_TYPE, 45);
    s = begin(false, 3, 0, 2);
    put_key(s, "a", 0), put_int(s, 1, 1), put_key(s, "a", 1), put_int(s, 1, 1);
    refused(QN_ERR_DUPLICATE_METADATA_KEY, 46);
    s = begin(false, 3, 0, 1);
    put_key(s, "general.alignment", 4), put_int(s, 48, 4);
    refused(QN_ERR_INVALID_ALIGNMENT, 53);
    s = begin(false, 3, 0, 1);
    put_key(s, "general.alignment", 10), put_int(s, 32, 8);
    refused(QN_ERR_INVALID_ALIGNMENT, 53);
}

/* Twenty keys, the last one like the third: found when the queue is worked off. */
static void far_duplicates_are_found(void **state)
{
    (void)state;
    spelled *s = begin(false, 3, 0, 40);
    for (int i = 0; i < 40; i++) {
        char key[16];
        (void)snprintf(key, sizeof key, "k%d", i == 39 ? 2 : i);
        put_key(s, key, 0), put_int(s, 1, 1);
    }
    refused(QN_ERR_DUPLICATE_METADATA_KEY, -2);
    s = begin(true, 3, 40, 0);
    const int64_t ne = 8;
    for (int i = 0; i < 40; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "t%d", i == 20 ? 2 : i);
        put_info(s, name, 1, &ne, 0, (uint64_t)i * 32);
    }
    put_align(s, 32, 0), put_fill(s, 0, 40 * 32);
    refused(QN_ERR_DUPLICATE_TENSOR_NAME, -2);
}

/* One tensor "t" with these dimensions, type and offset, and 64 bytes of data. */
static spelled *one_tensor(int n_dims, const int64_t *ne, uint32_t dtype, uint64_t offset)
{
    spelled *s = begin(false, 3, 1, 0);
    put_info(s, "t", n_dims, ne, dtype, offset);
    put_align(s, 32, 0), put_fill(s, 0, 64);
    return s;
}

static void tensors_are_refused_where_they_are_wrong(void **state)
{
    (void)state;
    static const int64_t ones[9] = {1, 1, 1, 1, 1, 1, 1, 1, 1};
    one_tensor(9, ones, 0, 0), refused(QN_ERR_INVALID_TENSOR_INFO, 33);
    one_tensor(1, (int64_t[]){-1}, 0, 0), refused(QN_ERR_INVALID_TENSOR_INFO, 33);
    one_tensor(1, (int64_t[]){256}, 4, 0), refused(QN_ERR_UNSUPPORTED_DTYPE, 45);
    one_tensor(1, (int64_t[]){256}, 43, 0), refused(QN_ERR_UNSUPPORTED_DTYPE, 45);
    one_tensor(1, (int64_t[]){256}, UINT32_MAX, 0), refused(QN_ERR_UNSUPPORTED_DTYPE, 45);
    one_tensor(1, (int64_t[]){33}, 8, 0), refused(QN_ERR_INVALID_TENSOR_INFO, 41 + 4);
    one_tensor(2, (int64_t[]){1LL << 62, 4}, 24, 0), refused(QN_ERR_OVERFLOW, -2);
    one_tensor(2, (int64_t[]){1LL << 62, 4}, 0, 0), refused(QN_ERR_OVERFLOW, -2);
    one_tensor(2, (int64_t[]){1LL << 32, 1LL << 32}, 24, 0), refused(QN_ERR_OVERFLOW, -2);
    one_tensor(1, (int64_t[]){17}, 0, 0), refused(QN_ERR_INVALID_TENSOR_INFO, 128);
    one_tensor(1, (int64_t[]){16}, 0, 16), refused(QN_ERR_INVALID_TENSOR_INFO, -2);
    one_tensor(1, (int64_t[]){1}, 0, 16), refused(QN_ERR_INVALID_TENSOR_INFO, 80);
    one_tensor(1, (int64_t[]){1}, 0, UINT64_MAX - 31), refused(QN_ERR_INVALID_TENSOR_INFO, -1);
    one_tensor(1, (int64_t[]){1}, 0, INT64_MAX - 31), refused(QN_ERR_INVALID_TENSOR_INFO, -1);
    one_tensor(1, (int64_t[]){0}, 0, 96), refused(QN_ERR_INVALID_TENSOR_INFO, -2);
    /* nothing but a directory: the data section would begin past the end */
    spelled *s = begin(false, 3, 1, 0);
    put_info(s, "t", 1, (int64_t[]){0}, 0, 0);
    refused(QN_ERR_INVALID_TENSOR_INFO, -2);
    /* cut anywhere inside the directory */
    one_tensor(2, ones, 0, 0);
    for (int64_t n = 50; n < 24 + 9 + 4 + 16 + 12; n++) {
        file.n = n;
        refused(QN_ERR_END_OF_STREAM, -2);
    }
    /* empty dimensions make no bytes whatever the others are */
    one_tensor(3, (int64_t[]){1LL << 40, 1LL << 40, 0}, 0, 64);
    qn_gguf_close(parse_ok());
    one_tensor(0, NULL, 0, 32);
    qn_gguf *g = parse_ok();
    assert_int_equal(qn_gguf_tensor(g, 0)->n_bytes, 4);
    assert_null(qn_gguf_tensor(g, 1));
    assert_null(qn_gguf_tensor(g, -1));
    qn_gguf_close(g);
}

static void overlap_is_refused_and_gaps_are_not(void **state)
{
    (void)state;
    static const int64_t ne = 8; /* 32 bytes */
    static const int64_t ne2 = 16;
    const struct {
        uint64_t at[3];
        int64_t len[3];
        bool is_fine;
    } rows[] = {
        {{0, 32, 64}, {ne, ne, ne}, true},    {{64, 32, 0}, {ne, ne, ne}, true},
        {{128, 0, 64}, {ne, ne, ne}, true},   {{0, 0, 32}, {ne, ne, ne}, false},
        {{32, 0, 64}, {ne, ne2, ne}, false},  {{0, 32, 32}, {ne2, ne, ne}, false},
        {{64, 0, 32}, {ne2, ne2, ne}, false}, {{0, 32, 32}, {ne, 0, ne}, true},
        {{96, 32, 64}, {ne, ne2, 0}, true},   {{0, 64, 32}, {ne2, ne, 0}, true},
        {{0, 0, 96}, {ne2, ne2, ne2}, false},
    };
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        spelled *s = begin(false, 3, 3, 0);
        put_info(s, "a", 1, &rows[r].len[0], 0, rows[r].at[0]);
        put_info(s, "b", 1, &rows[r].len[1], 0, rows[r].at[1]);
        put_info(s, "c", 1, &rows[r].len[2], 0, rows[r].at[2]);
        put_align(s, 32, 0), put_fill(s, 0, 192);
        if (rows[r].is_fine) {
            qn_gguf_close(parse_ok());
        } else {
            refused(QN_ERR_INVALID_TENSOR_INFO, -2);
        }
    }
}

/* --- profiles ----------------------------------------------------------------------------------
 */

static void strict_is_ggmls_reader(void **state)
{
    (void)state;
    qn_gguf_options strict = QN_GGUF_OPTIONS_INIT;
    strict.strict = true;
    char name[65] = "";
    memset(name, 'n', 64);
    spelled *s = begin(false, 3, 1, 0);
    put_info(s, name, 1, (int64_t[]){8}, 0, 0);
    put_align(s, 32, 0), put_fill(s, 0, 64);
    qn_gguf_close(parse_ok());
    refused_with(QN_ERR_STRICT, &strict);
    one_tensor(5, (int64_t[]){1, 1, 1, 1, 1}, 0, 0);
    qn_gguf_close(parse_ok());
    refused_with(QN_ERR_STRICT, &strict);
    one_tensor(1, (int64_t[]){8}, 0, 32); /* a hole in front */
    qn_gguf_close(parse_ok());
    refused_with(QN_ERR_STRICT, &strict);
    one_tensor(1, (int64_t[]){INT64_MAX}, 24, 0); /* no bytes for it anyway: as any reader says */
    refused_with(QN_ERR_STRICT, &strict);
    begin(true, 3, 0, 0);
    qn_gguf_close(parse_ok());
    refused_with(QN_ERR_STRICT, &strict);
    /* names equal up to a NUL */
    s = begin(false, 3, 2, 0);
    put_str(s, "a\0x", 3), put_int(s, 1, 4), put_int(s, 8, 8), put_int(s, 0, 4), put_int(s, 0, 8);
    put_str(s, "a", 1), put_int(s, 1, 4), put_int(s, 8, 8), put_int(s, 0, 4), put_int(s, 32, 8);
    put_align(s, 32, 0), put_fill(s, 0, 64);
    qn_gguf *g = parse_ok();
    assert_int_equal(qn_gguf_find_tensor(g, "a\0x", 3), 0);
    assert_int_equal(qn_gguf_find_tensor(g, "a", 1), 1);
    assert_int_equal(qn_gguf_find_tensor(g, "a\0", 2), -1);
    qn_gguf_close(g);
    refused_with(QN_ERR_DUPLICATE_TENSOR_NAME, &strict);
    /* and looking up in a strict table takes whole names */
    one_tensor(1, (int64_t[]){8}, 0, 0);
    assert_int_equal(qn_gguf_parse(file.bytes, file.n, &strict, &g, NULL), QN_OK);
    assert_int_equal(qn_gguf_find_tensor(g, "t", 1), 0);
    assert_int_equal(qn_gguf_find_tensor(g, "t\0x", 3), -1);
    qn_gguf_close(g);
}

static void damaged_files_can_be_looked_at(void **state)
{
    (void)state;
    qn_gguf_options options = QN_GGUF_OPTIONS_INIT;
    options.keep_damaged = true;
    spelled *s = begin(false, 3, 5, 0);
    put_info(s, "good", 1, (int64_t[]){8}, 0, 0);
    put_info(s, "unknown", 1, (int64_t[]){8}, 200, 32);
    put_info(s, "crooked", 1, (int64_t[]){8}, 0, 33);
    put_info(s, "over", 1, (int64_t[]){8}, 0, 0);
    put_info(s, "cut", 1, (int64_t[]){100}, 0, 64);
    put_align(s, 32, 0), put_fill(s, 1, 128);
    refused(QN_ERR_UNSUPPORTED_DTYPE, -2);
    qn_gguf *g = NULL;
    assert_int_equal(qn_gguf_parse(s->bytes, s->n, &options, &g, NULL), QN_OK);
    assert_non_null(qn_gguf_damage(g));
    assert_int_equal(qn_gguf_damage(g)->status, QN_ERR_UNSUPPORTED_DTYPE);
    assert_int_equal(qn_gguf_damage(g)->tensor_index, 1);
    assert_non_null(qn_gguf_tensor(g, 0)->data);
    assert_int_equal(qn_gguf_tensor(g, 1)->n_bytes, -1);
    for (int64_t i = 1; i < 5; i++) {
        assert_null(qn_gguf_tensor(g, i)->data);
    }
    qn_gguf_writer *w = NULL;
    assert_int_equal(qn_gguf_writer_from(g, NULL, &w, NULL), QN_ERR_UNSUPPORTED);
    assert_null(w);
    qn_gguf_close(g);
    one_tensor(1, (int64_t[]){8}, 0, 0);
    g = parse_ok();
    assert_null(qn_gguf_damage(g));
    qn_gguf_close(g);
}

static void options_are_checked(void **state)
{
    (void)state;
    begin(false, 3, 0, 0);
    qn_gguf_options options = QN_GGUF_OPTIONS_INIT;
    options.struct_size = 2;
    refused_with(QN_ERR_INVALID_ARGUMENT, &options);
    options.struct_size = sizeof options + 1;
    refused_with(QN_ERR_INVALID_ARGUMENT, &options);
    options = (qn_gguf_options)QN_GGUF_OPTIONS_INIT;
    options.mode = (qn_gguf_mode)9;
    refused_with(QN_ERR_INVALID_ARGUMENT, &options);
    qn_gguf *g = NULL;
    assert_int_equal(qn_gguf_parse(NULL, 4, NULL, &g, NULL), QN_ERR_INVALID_ARGUMENT);
    assert_int_equal(qn_gguf_parse("", -1, NULL, &g, NULL), QN_ERR_INVALID_ARGUMENT);
    assert_int_equal(qn_gguf_parse(NULL, 0, NULL, &g, NULL), QN_ERR_END_OF_STREAM);
    assert_int_equal(qn_gguf_open(NULL, NULL, &g, NULL), QN_ERR_INVALID_ARGUMENT);
    qn_gguf_close(NULL);
}

static void the_bytes_add_up(void **state)
{
    (void)state;
    spelled *s = begin(false, 3, 2, 0);
    put_info(s, "a", 1, (int64_t[]){3}, 0, 0);
    put_info(s, "b", 1, (int64_t[]){1}, 0, 64);
    const int64_t n_header = s->n;
    put_align(s, 32, 0), put_fill(s, 0, 64 + 4 + 10);
    qn_gguf *g = parse_ok();
    const qn_gguf_shard *shard = qn_gguf_shard_at(g, 0);
    assert_int_equal(shard->n_header_bytes, n_header);
    assert_int_equal(shard->n_tensor_bytes, 16);
    assert_int_equal(shard->n_gap_bytes, 52);
    assert_int_equal(shard->n_tail_bytes, 10);
    assert_int_equal(shard->n_header_bytes + shard->n_header_padding + shard->n_tensor_bytes +
                         shard->n_gap_bytes + shard->n_tail_bytes,
                     s->n);
    assert_int_equal(qn_gguf_n_bytes(g), s->n);
    assert_int_equal(qn_gguf_n_shards(g), 1);
    assert_null(qn_gguf_shard_at(g, 1));
    assert_ptr_equal(qn_gguf_bytes(g, 0), s->bytes);
    assert_null(qn_gguf_bytes(g, 1));
    assert_int_equal(qn_gguf_alignment(g), 32);
    assert_int_equal(qn_gguf_data_offset(g), n_header + shard->n_header_padding);
    int64_t shape[2];
    assert_int_equal(qn_tensor_logical_shape(qn_gguf_tensor(g, 0), shape, NULL),
                     QN_ERR_INVALID_TENSOR_INFO);
    qn_gguf_close(g);
}

/* Eight decimal digits. */
static void put_digits(uint8_t *p, int64_t number)
{
    for (int i = 7; i >= 0; i--) {
        p[i] = (uint8_t)('0' + number % 10);
        number /= 10;
    }
}

/* More entries than SCAN_FIRST_ABOVE: checked before they are kept, same verdicts. */
static void large_headers_are_scanned_first(void **state)
{
    (void)state;
    const int64_t n_entries = 150000;
    const int64_t n_tensors = 150000;
    const size_t n_bytes = 24 + (size_t)n_entries * 24 + (size_t)n_tensors * 40 + 64;
    uint8_t *bytes = malloc(n_bytes);
    assert_non_null(bytes);
    for (int kind = 0; kind < 3; kind++) { /* fine, duplicate key, duplicate tensor */
        uint8_t *p = bytes;
        memcpy(p, "GGUF", 4), qni_store_u32le(p + 4, 3);
        qni_store_u64le(p + 8, (uint64_t)n_tensors), qni_store_u64le(p + 16, (uint64_t)n_entries);
        p += 24;
        for (int64_t i = 0; i < n_entries; i++) {
            const int64_t number = kind == 1 && i == n_entries - 1 ? 5 : i;
            qni_store_u64le(p, 8);
            put_digits(p + 8, number);
            qni_store_u32le(p + 16, 4), qni_store_u32le(p + 20, 1);
            p += 24;
        }
        for (int64_t i = 0; i < n_tensors; i++) {
            const int64_t number = kind == 2 && i == n_tensors - 1 ? 5 : i;
            qni_store_u64le(p, 8);
            put_digits(p + 8, number);
            qni_store_u32le(p + 16, 1), qni_store_u64le(p + 20, 0);
            qni_store_u32le(p + 28, 0), qni_store_u64le(p + 32, 0);
            p += 40;
        }
        memset(p, 0, 64);
        qn_gguf *g = NULL;
        qn_error err = QN_ERROR_INIT;
        const qn_status st = qn_gguf_parse(bytes, (int64_t)n_bytes, NULL, &g, &err);
        if (kind == 0) {
            assert_int_equal(st, QN_OK);
            assert_int_equal(qn_gguf_find_tensor(g, "00099999", 8), 99999);
            assert_int_equal(qn_gguf_find_entry(g, "00099998", 8), 99998);
        } else {
            assert_int_equal(st, kind == 1 ? QN_ERR_DUPLICATE_METADATA_KEY
                                           : QN_ERR_DUPLICATE_TENSOR_NAME);
        }
        qn_gguf_close(g);
    }
    free(bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_byte_orders_mean_the_same),
        cmocka_unit_test(flags_and_kinds),
        cmocka_unit_test(string_arrays_are_indexed),
        cmocka_unit_test(arrays_nest_sixteen_deep),
        cmocka_unit_test(wide_nests_are_walked),
        cmocka_unit_test(headers_are_refused_where_they_are_wrong),
        cmocka_unit_test(entries_are_refused_where_they_are_wrong),
        cmocka_unit_test(far_duplicates_are_found),
        cmocka_unit_test(tensors_are_refused_where_they_are_wrong),
        cmocka_unit_test(overlap_is_refused_and_gaps_are_not),
        cmocka_unit_test(strict_is_ggmls_reader),
        cmocka_unit_test(damaged_files_can_be_looked_at),
        cmocka_unit_test(options_are_checked),
        cmocka_unit_test(the_bytes_add_up),
        cmocka_unit_test(large_headers_are_scanned_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
