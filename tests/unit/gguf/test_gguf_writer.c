/* test_gguf_writer.c — what is written, read back; bytes against the ones spelled out here. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "gguf/gguf.h"

static qn_gguf_writer *new_writer(void)
{
    qn_gguf_writer *writer = NULL;
    assert_int_equal(qn_gguf_writer_new(NULL, &writer, NULL), QN_OK);
    return writer;
}

/* A writer with one value of every type and three tensors. */
static qn_gguf_writer *full_writer(const float *a, const float *b)
{
    static const int16_t numbers[] = {-3, 0, 7};
    static const bool flags[] = {true, false};
    static const qn_gguf_string words[] = {{"one", 3}, {"", 0}, {"tw\0o", 4}};
    qn_gguf_writer *w = new_writer();
    assert_int_equal(qn_gguf_writer_set_string(w, "general.architecture", "llama", 5, NULL), QN_OK);
    assert_int_equal(qn_gguf_writer_set_u8(w, "t.u8", 255, NULL), QN_OK);
    assert_int_equal(qn_gguf_writer_set_i8(w, "t.i8", -128, NULL), QN_OK);
    assert_int_equal(qn_gguf_writer_set_u16(w, "t.u16", 65535, NULL), QN_OK);
    assert_int_equal(qn_gguf_writer_set_i16(w, "t.i16", -32768, NULL), QN_OK);
    assert_int_equal(qn_gguf_writer_set_u32(w, "t.u32", UINT32_MAX, NULL), QN_OK);
    assert_int_equal(qn_gguf_writer_set_i32(w, "t.i32", INT32_MIN, NULL), QN_OK);
    assert_int_equal(qn_gguf_writer_set_u64(w, "t.u64", UINT64_MAX, NULL), QN_OK);
    assert_int_equal(qn_gguf_writer_set_i64(w, "t.i64", INT64_MIN, NULL), QN_OK);
    assert_int_equal(qn_gguf_writer_set_f32(w, "t.f32", 0.5f, NULL), QN_OK);
    assert_int_equal(qn_gguf_writer_set_f64(w, "t.f64", -0.25, NULL), QN_OK);
    assert_int_equal(qn_gguf_writer_set_bool(w, "t.bool", true, NULL), QN_OK);
    assert_int_equal(qn_gguf_writer_set_array(w, "t.i16s", QN_GGUF_I16, numbers, 3, NULL), QN_OK);
    assert_int_equal(qn_gguf_writer_set_array(w, "t.bools", QN_GGUF_BOOL, flags, 2, NULL), QN_OK);
    assert_int_equal(qn_gguf_writer_set_array(w, "t.none", QN_GGUF_F64, NULL, 0, NULL), QN_OK);
    assert_int_equal(qn_gguf_writer_set_strings(w, "t.strs", words, 3, NULL), QN_OK);
    const int64_t ne_a[] = {3, 2};
    const int64_t ne_b[] = {5};
    const int64_t ne_c[] = {4, 0};
    assert_int_equal(qn_gguf_writer_add(w, "a", 1, QN_DTYPE_F32, ne_a, 2, a, 24, NULL), QN_OK);
    assert_int_equal(qn_gguf_writer_add(w, "c", 1, QN_DTYPE_F16, ne_c, 2, NULL, 0, NULL), QN_OK);
    assert_int_equal(qn_gguf_writer_add(w, "b.bias", 6, QN_DTYPE_F32, ne_b, 1, b, 20, NULL), QN_OK);
    return w;
}

static const float data_a[] = {1, 2, 3, 4, 5, 6};
static const float data_b[] = {7, 8, 9, 10, 11};

static void the_smallest_file_has_these_bytes(void **state)
{
    (void)state;
    static const uint8_t
        expected[] = {'G', 'G', 'U', 'F', 3, 0, 0, 0, /* magic, version */
                      1,   0,   0,   0,   0, 0, 0, 0, 1,   0,   0, 0, 0, 0, 0,    0,    /* counts */
                      2,   0,   0,   0,   0, 0, 0, 0, 'k', '1', 2, 0, 0, 0, 0x34, 0x12, /* k1 = u16
                                                                                           0x1234 */
                      1,   0,   0,   0,   0, 0, 0, 0, 't', 1,   0, 0, 0, 3, 0,    0,    0,
                      0,   0,   0,   0,                               /* t, one dimension, 3 */
                      24,  0,   0,   0,   0, 0, 0, 0, 0,   0,   0, 0, /* i8, offset 0 */
                      0,   0,   0,   0,   0, 0, 0, 0, 0,   0,   0, 0, 0, 0, 0,    0,    0,
                      0,   0,   0,   0,   0, 0, /* to byte 96 */
                      5,   6,   7,   0,   0, 0, 0, 0, 0,   0,   0, 0, 0, 0, 0,    0,    0,
                      0,   0,   0,   0,   0, 0, 0, 0, 0,   0,   0, 0, 0, 0, 0};
    qn_gguf_writer *w = new_writer();
    const int64_t ne = 3;
    const int8_t data[] = {5, 6, 7};
    assert_int_equal(qn_gguf_writer_set_u16(w, "k1", 0x1234, NULL), QN_OK);
    assert_int_equal(qn_gguf_writer_add(w, "t", 1, QN_DTYPE_I8, &ne, 1, data, 3, NULL), QN_OK);
    const void *bytes = NULL;
    int64_t n = 0;
    assert_int_equal(qn_gguf_writer_finish(w, &bytes, &n, NULL), QN_OK);
    assert_int_equal(n, sizeof expected);
    assert_memory_equal(bytes, expected, sizeof expected);
    qn_gguf_writer_free(w);
}

static void every_type_reads_back(void **state)
{
    (void)state;
    qn_gguf_writer *w = full_writer(data_a, data_b);
    const void *bytes = NULL;
    int64_t n = 0;
    assert_int_equal(qn_gguf_writer_finish(w, &bytes, &n, NULL), QN_OK);
    qn_gguf *g = NULL;
    qn_gguf_options strict = QN_GGUF_OPTIONS_INIT;
    strict.strict = true;
    assert_int_equal(qn_gguf_parse(bytes, n, &strict, &g, NULL), QN_OK);
    uint8_t u8 = 0;
    int8_t i8 = 0;
    uint16_t u16 = 0;
    int16_t i16 = 0;
    uint32_t u32 = 0;
    int32_t i32 = 0;
    uint64_t u64 = 0;
    int64_t i64 = 0;
    float f32 = 0;
    double f64 = 0;
    bool flag = false;
    assert_int_equal(qn_gguf_get_u8(g, "t.u8", &u8, NULL), QN_OK);
    assert_int_equal(u8, 255);
    assert_int_equal(qn_gguf_get_i8(g, "t.i8", &i8, NULL), QN_OK);
    assert_int_equal(i8, -128);
    assert_int_equal(qn_gguf_get_u16(g, "t.u16", &u16, NULL), QN_OK);
    assert_int_equal(u16, 65535);
    assert_int_equal(qn_gguf_get_i16(g, "t.i16", &i16, NULL), QN_OK);
    assert_int_equal(i16, -32768);
    assert_int_equal(qn_gguf_get_u32(g, "t.u32", &u32, NULL), QN_OK);
    assert_true(u32 == UINT32_MAX);
    assert_int_equal(qn_gguf_get_i32(g, "t.i32", &i32, NULL), QN_OK);
    assert_true(i32 == INT32_MIN);
    assert_int_equal(qn_gguf_get_u64(g, "t.u64", &u64, NULL), QN_OK);
    assert_true(u64 == UINT64_MAX);
    assert_int_equal(qn_gguf_get_i64(g, "t.i64", &i64, NULL), QN_OK);
    assert_true(i64 == INT64_MIN);
    assert_int_equal(qn_gguf_get_f32(g, "t.f32", &f32, NULL), QN_OK);
    assert_true(f32 == 0.5f);
    assert_int_equal(qn_gguf_get_f64(g, "t.f64", &f64, NULL), QN_OK);
    assert_true(f64 == -0.25);
    assert_int_equal(qn_gguf_get_bool(g, "t.bool", &flag, NULL), QN_OK);
    assert_true(flag);
    /* widened */
    assert_int_equal(qn_gguf_get_int(g, "t.u64", &i64, NULL), QN_ERR_METADATA_VALUE_OUT_OF_RANGE);
    assert_int_equal(qn_gguf_get_int(g, "t.i16", &i64, NULL), QN_OK);
    assert_int_equal(i64, -32768);
    assert_int_equal(qn_gguf_get_float(g, "t.u8", &f64, NULL), QN_OK);
    assert_true(f64 == 255);
    assert_int_equal(qn_gguf_get_flag(g, "t.u8", &flag, NULL), QN_OK);
    assert_true(flag);
    /* refused */
    assert_int_equal(qn_gguf_get_u16(g, "t.u8", &u16, NULL), QN_ERR_METADATA_TYPE_MISMATCH);
    assert_int_equal(qn_gguf_get_int(g, "t.f32", &i64, NULL), QN_ERR_METADATA_TYPE_MISMATCH);
    assert_int_equal(qn_gguf_get_int(g, "t.nope", &i64, NULL), QN_ERR_KEY_NOT_FOUND);

    qn_gguf_array array;
    int16_t numbers[3];
    uint8_t flags[2];
    assert_int_equal(qn_gguf_get_array(g, "t.i16s", &array, NULL), QN_OK);
    assert_int_equal(qn_gguf_array_copy(&array, QN_GGUF_I16, 0, 3, numbers, NULL), QN_OK);
    assert_int_equal(numbers[0], -3);
    assert_int_equal(numbers[2], 7);
    assert_int_equal(qn_gguf_get_array(g, "t.bools", &array, NULL), QN_OK);
    assert_int_equal(qn_gguf_array_copy(&array, QN_GGUF_BOOL, 0, 2, flags, NULL), QN_OK);
    assert_int_equal(flags[0], 1);
    assert_int_equal(flags[1], 0);
    assert_int_equal(qn_gguf_get_array(g, "t.none", &array, NULL), QN_OK);
    assert_int_equal(array.elem_type, QN_GGUF_F64);
    assert_int_equal(array.n_elems, 0);
    qn_gguf_string word;
    assert_int_equal(qn_gguf_get_array(g, "t.strs", &array, NULL), QN_OK);
    assert_int_equal(qn_gguf_array_string(&array, 2, &word, NULL), QN_OK);
    assert_int_equal(word.n_bytes, 4);
    assert_memory_equal(word.bytes, "tw\0o", 4);

    const qn_tensor_info *info = NULL;
    int64_t shape[2];
    assert_int_equal(qn_gguf_n_tensors(g), 3);
    assert_int_equal(qn_gguf_get_tensor(g, "a", &info, NULL), QN_OK);
    assert_int_equal(qn_tensor_logical_shape(info, shape, NULL), QN_OK);
    assert_int_equal(shape[0], 2);
    assert_int_equal(shape[1], 3);
    assert_memory_equal(info->data, data_a, sizeof data_a);
    assert_int_equal(qn_gguf_get_tensor(g, "b.bias", &info, NULL), QN_OK);
    assert_memory_equal(info->data, data_b, sizeof data_b);
    assert_int_equal(qn_gguf_get_tensor(g, "c", &info, NULL), QN_OK);
    assert_int_equal(info->n_bytes, 0);
    assert_int_equal(qn_gguf_get_tensor(g, "d", &info, NULL), QN_ERR_TENSOR_NOT_FOUND);
    qn_gguf_close(g);
    qn_gguf_writer_free(w);
}

/* The bytes of a finished writer, for comparing. */
static void check_same(qn_gguf_writer *w, const void *bytes, int64_t n)
{
    const void *again = NULL;
    int64_t n_again = 0;
    qn_error err = QN_ERROR_INIT;
    if (qn_gguf_writer_finish(w, &again, &n_again, &err) != QN_OK) {
        fail_msg("%s", err.message);
    }
    assert_int_equal(n_again, n);
    assert_memory_equal(again, bytes, (size_t)n);
    qn_gguf_writer_free(w);
}

static void both_layouts_repeat_a_canonical_file(void **state)
{
    (void)state;
    qn_gguf_writer *w = full_writer(data_a, data_b);
    const void *bytes = NULL;
    int64_t n = 0;
    assert_int_equal(qn_gguf_writer_finish(w, &bytes, &n, NULL), QN_OK);
    qn_gguf *g = NULL;
    assert_int_equal(qn_gguf_parse(bytes, n, NULL, &g, NULL), QN_OK);
    qn_gguf_writer *again = NULL;
    assert_int_equal(qn_gguf_writer_from(g, NULL, &again, NULL), QN_OK);
    check_same(again, bytes, n);
    qn_gguf_writer_options options = QN_GGUF_WRITER_OPTIONS_INIT;
    options.layout = QN_GGUF_LOSSLESS;
    assert_int_equal(qn_gguf_writer_from(g, &options, &again, NULL), QN_OK);
    check_same(again, bytes, n);
    qn_gguf_close(g);
    qn_gguf_writer_free(w);
}

/* --- stream and positions ----------------------------------------------------------------------
 */

typedef struct memory {
    uint8_t bytes[4096];
    size_t n;
    int n_fail_at; /* fails at this call, from 1; 0: never */
    int n_calls;
} memory;

static qn_status to_memory(void *ctx, const void *bytes, size_t n_bytes, qn_error *err)
{
    memory *m = ctx;
    if (++m->n_calls == m->n_fail_at) {
        return qni_fail(err, QN_ERR_NO_SPACE, -1, "full");
    }
    assert_true(m->n + n_bytes <= sizeof m->bytes);
    memcpy(m->bytes + m->n, bytes, n_bytes);
    m->n += n_bytes;
    return QN_OK;
}

static void three_forms_give_the_same_bytes(void **state)
{
    (void)state;
    qn_gguf_writer *w = full_writer(data_a, data_b);
    const void *bytes = NULL;
    int64_t n = 0;
    assert_int_equal(qn_gguf_writer_finish(w, &bytes, &n, NULL), QN_OK);

    static memory m;
    m = (memory){.n = 0};
    qn_gguf_stream *s = NULL;
    assert_int_equal(qn_gguf_stream_begin(w, to_memory, &m, &s, NULL), QN_OK);
    assert_int_equal(qn_gguf_stream_next(s), 0);
    assert_int_equal(qn_gguf_stream_write_part(s, data_a, 10, NULL), QN_OK);
    assert_int_equal(qn_gguf_stream_write_part(s, (const uint8_t *)data_a + 10, 14, NULL), QN_OK);
    assert_int_equal(qn_gguf_stream_write(s, NULL, 0, NULL), QN_OK);
    assert_int_equal(qn_gguf_stream_next(s), 2);
    assert_int_equal(qn_gguf_stream_write(s, data_b, 20, NULL), QN_OK);
    assert_int_equal(qn_gguf_stream_next(s), -1);
    assert_int_equal(qn_gguf_stream_finish(s, NULL), QN_OK);
    assert_int_equal(qn_gguf_stream_finish(s, NULL), QN_ERR_INVALID_STATE);
    qn_gguf_stream_free(s);
    assert_int_equal(m.n, n);
    assert_memory_equal(m.bytes, bytes, (size_t)n);

    qn_gguf_file_plan plan;
    assert_int_equal(qn_gguf_writer_layout(w, &plan, NULL), QN_OK);
    assert_int_equal(plan.n_file_bytes, n);
    memset(m.bytes, 0, sizeof m.bytes);
    memcpy(m.bytes, plan.header, (size_t)plan.n_header_bytes);
    qn_tensor_info info;
    for (int64_t i = 0; qn_gguf_writer_tensor(w, i, &info); i++) {
        memcpy(m.bytes + info.file_offset, info.data, (size_t)info.n_bytes);
    }
    assert_memory_equal(m.bytes, bytes, (size_t)n);
    qn_gguf_writer_free(w);
}

static void a_stream_keeps_its_order(void **state)
{
    (void)state;
    qn_gguf_writer *w = full_writer(data_a, data_b);
    static memory m;
    m = (memory){.n = 0};
    qn_gguf_stream *s = NULL;
    qn_gguf_stream *other = NULL;
    assert_int_equal(qn_gguf_stream_begin(w, to_memory, &m, &s, NULL), QN_OK);
    assert_int_equal(qn_gguf_stream_begin(w, to_memory, &m, &other, NULL), QN_ERR_INVALID_STATE);
    assert_int_equal(qn_gguf_writer_set_u8(w, "late", 1, NULL), QN_ERR_INVALID_STATE);
    assert_int_equal(qn_gguf_stream_write(s, data_a, 23, NULL), QN_ERR_INVALID_TENSOR_INFO);
    assert_int_equal(qn_gguf_stream_write_part(s, data_a, 25, NULL), QN_ERR_INVALID_TENSOR_INFO);
    assert_int_equal(qn_gguf_stream_next(s), 0);
    assert_int_equal(qn_gguf_stream_finish(s, NULL), QN_ERR_TENSOR_DATA_MISSING);
    assert_int_equal(qn_gguf_stream_write_part(s, data_a, 4, NULL), QN_OK);
    assert_int_equal(qn_gguf_stream_write(s, data_a, 24, NULL), QN_ERR_INVALID_STATE);
    assert_int_equal(qn_gguf_stream_write_part(s, data_a + 1, 20, NULL), QN_OK);
    assert_int_equal(qn_gguf_stream_write(s, NULL, 0, NULL), QN_OK);
    assert_int_equal(qn_gguf_stream_write(s, data_b, 20, NULL), QN_OK);
    assert_int_equal(qn_gguf_stream_write(s, data_b, 20, NULL), QN_ERR_TENSOR_DATA_MISSING);
    assert_int_equal(qn_gguf_stream_finish(s, NULL), QN_OK);
    assert_int_equal(qn_gguf_stream_write(s, data_b, 20, NULL), QN_ERR_INVALID_STATE);
    qn_gguf_stream_free(s);
    qn_gguf_stream_free(NULL);

    for (int n_fail = 1; n_fail <= 4; n_fail++) {
        m = (memory){.n_fail_at = n_fail};
        qn_status st = qn_gguf_stream_begin(w, to_memory, &m, &s, NULL);
        if (st != QN_OK) {
            assert_int_equal(n_fail, 1);
            assert_int_equal(st, QN_ERR_NO_SPACE);
            continue;
        }
        st = qn_gguf_stream_write(s, data_a, 24, NULL);
        st = st == QN_OK ? qn_gguf_stream_write(s, NULL, 0, NULL) : st;
        st = st == QN_OK ? qn_gguf_stream_write(s, data_b, 20, NULL) : st;
        assert_int_equal(st, QN_ERR_NO_SPACE);
        assert_int_equal(qn_gguf_stream_write(s, data_b, 20, NULL), QN_ERR_INVALID_STATE);
        assert_int_equal(qn_gguf_stream_finish(s, NULL), QN_ERR_INVALID_STATE);
        qn_gguf_stream_free(s);
    }
    qn_gguf_writer_free(w);
}

/* --- changing ----------------------------------------------------------------------------------
 */

static const char *key_at(const qn_gguf *g, int64_t i, int64_t *n)
{
    const qn_gguf_entry *entry = qn_gguf_entry_at(g, i);
    *n = entry->n_key;
    return entry->key;
}

static void check_keys(qn_gguf_writer *w, const char *const *keys, int64_t n_keys)
{
    const void *bytes = NULL;
    int64_t n = 0;
    qn_gguf *g = NULL;
    assert_int_equal(qn_gguf_writer_finish(w, &bytes, &n, NULL), QN_OK);
    assert_int_equal(qn_gguf_parse(bytes, n, NULL, &g, NULL), QN_OK);
    assert_int_equal(qn_gguf_n_entries(g), n_keys);
    assert_int_equal(qn_gguf_writer_n_entries(w), n_keys);
    for (int64_t i = 0; i < n_keys; i++) {
        int64_t n_key = 0;
        const char *key = key_at(g, i, &n_key);
        assert_int_equal(n_key, strlen(keys[i]));
        assert_memory_equal(key, keys[i], (size_t)n_key);
    }
    qn_gguf_close(g);
}

static void keys_keep_their_places(void **state)
{
    (void)state;
    qn_gguf_writer *w = new_writer();
    assert_int_equal(qn_gguf_writer_set_u8(w, "a", 1, NULL), QN_OK);
    assert_int_equal(qn_gguf_writer_set_u8(w, "b", 2, NULL), QN_OK);
    assert_int_equal(qn_gguf_writer_set_u8(w, "c", 3, NULL), QN_OK);
    assert_int_equal(qn_gguf_writer_set_string(w, "a", "new", 3, NULL), QN_OK);
    check_keys(w, (const char *[]){"a", "b", "c"}, 3);
    assert_int_equal(qn_gguf_writer_remove(w, "b", NULL), QN_OK);
    assert_false(qn_gguf_writer_has(w, "b"));
    assert_int_equal(qn_gguf_writer_remove(w, "b", NULL), QN_ERR_KEY_NOT_FOUND);
    check_keys(w, (const char *[]){"a", "c"}, 2);
    assert_int_equal(qn_gguf_writer_set_u8(w, "b", 2, NULL), QN_OK);
    check_keys(w, (const char *[]){"a", "c", "b"}, 3);
    assert_int_equal(qn_gguf_writer_rename(w, "a", "c", NULL), QN_ERR_DUPLICATE_METADATA_KEY);
    assert_int_equal(qn_gguf_writer_rename(w, "a", "", NULL), QN_ERR_INVALID_METADATA);
    assert_int_equal(qn_gguf_writer_rename(w, "nope", "x", NULL), QN_ERR_KEY_NOT_FOUND);
    assert_int_equal(qn_gguf_writer_rename(w, "a", "z", NULL), QN_OK);
    assert_int_equal(qn_gguf_writer_set_u8(w, "a", 9, NULL), QN_OK);
    check_keys(w, (const char *[]){"z", "c", "b", "a"}, 4);
    assert_int_equal(qn_gguf_writer_set_u8(w, "", 9, NULL), QN_ERR_INVALID_METADATA);
    assert_int_equal(qn_gguf_writer_set_string(w, "", "", 0, NULL), QN_ERR_INVALID_METADATA);
    qn_gguf_writer_free(w);
}

static void tensors_come_and_go(void **state)
{
    (void)state;
    qn_gguf_writer *w = full_writer(data_a, data_b);
    assert_int_equal(qn_gguf_writer_remove_tensor(w, "c", 1, NULL), QN_OK);
    assert_int_equal(qn_gguf_writer_remove_tensor(w, "c", 1, NULL), QN_ERR_TENSOR_NOT_FOUND);
    assert_int_equal(qn_gguf_writer_rename_tensor(w, "a", 1, "b.bias", 6, NULL),
                     QN_ERR_DUPLICATE_TENSOR_NAME);
    assert_int_equal(qn_gguf_writer_rename_tensor(w, "a", 1, "", 0, NULL),
                     QN_ERR_INVALID_TENSOR_INFO);
    assert_int_equal(qn_gguf_writer_rename_tensor(w, "a", 1, "new", 3, NULL), QN_OK);
    assert_int_equal(qn_gguf_writer_rename_tensor(w, "a", 1, "newer", 5, NULL),
                     QN_ERR_TENSOR_NOT_FOUND);
    const int64_t ne = 6;
    assert_int_equal(qn_gguf_writer_add(w, "a", 1, QN_DTYPE_F32, &ne, 1, data_a, 24, NULL), QN_OK);
    assert_int_equal(qn_gguf_writer_n_tensors(w), 3);
    const void *bytes = NULL;
    int64_t n = 0;
    qn_gguf *g = NULL;
    assert_int_equal(qn_gguf_writer_finish(w, &bytes, &n, NULL), QN_OK);
    assert_int_equal(qn_gguf_parse(bytes, n, NULL, &g, NULL), QN_OK);
    assert_int_equal(qn_gguf_find_tensor(g, "new", 3), 0);
    assert_int_equal(qn_gguf_find_tensor(g, "b.bias", 6), 1);
    assert_int_equal(qn_gguf_find_tensor(g, "a", 1), 2);
    qn_gguf_close(g);
    qn_gguf_writer_free(w);
}

static void what_cannot_be_written_is_refused(void **state)
{
    (void)state;
    qn_gguf_writer *w = new_writer();
    const int64_t ne[9] = {1, 1, 1, 1, 1, 1, 1, 1, 1};
    const int64_t odd[2] = {33, 2};
    const int64_t huge[2] = {INT64_MAX, 2};
    char name[65];
    memset(name, 'n', sizeof name);
    assert_int_equal(qn_gguf_writer_declare(w, "", 0, QN_DTYPE_F32, ne, 1, NULL),
                     QN_ERR_INVALID_TENSOR_INFO);
    assert_int_equal(qn_gguf_writer_declare(w, "x", 1, QN_DTYPE_F32, ne, 9, NULL),
                     QN_ERR_INVALID_TENSOR_INFO);
    assert_int_equal(qn_gguf_writer_declare(w, "x", 1, QN_DTYPE_F32, ne, -1, NULL),
                     QN_ERR_INVALID_TENSOR_INFO);
    assert_int_equal(qn_gguf_writer_declare(w, "x", 1, QN_DTYPE_F32, ne, 5, NULL), QN_ERR_STRICT);
    assert_int_equal(qn_gguf_writer_declare(w, name, 64, QN_DTYPE_F32, ne, 1, NULL), QN_ERR_STRICT);
    assert_int_equal(qn_gguf_writer_declare(w, "a\0b", 3, QN_DTYPE_F32, ne, 1, NULL),
                     QN_ERR_STRICT);
    assert_int_equal(qn_gguf_writer_declare(w, "x", 1, QN_DTYPE_Q8_0, odd, 2, NULL),
                     QN_ERR_INVALID_SHAPE);
    assert_int_equal(qn_gguf_writer_declare(w, "x", 1, (qn_dtype)4, odd, 2, NULL),
                     QN_ERR_UNSUPPORTED_DTYPE);
    assert_int_equal(qn_gguf_writer_declare(w, "x", 1, QN_DTYPE_F32, huge, 2, NULL),
                     QN_ERR_OVERFLOW);
    assert_int_equal(qn_gguf_writer_add(w, "x", 1, QN_DTYPE_F32, ne, 1, data_a, 3, NULL),
                     QN_ERR_INVALID_TENSOR_INFO);
    assert_int_equal(qn_gguf_writer_declare(w, "x", 1, QN_DTYPE_F32, ne, 4, NULL), QN_OK);
    assert_int_equal(qn_gguf_writer_declare(w, "x", 1, QN_DTYPE_F32, ne, 4, NULL),
                     QN_ERR_DUPLICATE_TENSOR_NAME);
    const void *bytes = NULL;
    int64_t n = 0;
    assert_int_equal(qn_gguf_writer_finish(w, &bytes, &n, NULL), QN_ERR_TENSOR_DATA_MISSING);
    assert_int_equal(qn_gguf_writer_finish_path(w, "never-there.gguf", NULL),
                     QN_ERR_TENSOR_DATA_MISSING);

    assert_int_equal(qn_gguf_writer_set_u64(w, "general.alignment", 64, NULL),
                     QN_ERR_INVALID_ALIGNMENT);
    assert_int_equal(qn_gguf_writer_set_u32(w, "general.alignment", 48, NULL),
                     QN_ERR_INVALID_ALIGNMENT);
    assert_int_equal(qn_gguf_writer_set_u32(w, "general.alignment", 1u << 21, NULL),
                     QN_ERR_INVALID_ALIGNMENT);
    assert_false(qn_gguf_writer_has(w, "general.alignment"));
    static const uint8_t nested[] = {9, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0,
                                     0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
    assert_int_equal(qn_gguf_writer_set_raw(w, "n", 1, QN_GGUF_ARRAY, nested, 24, NULL),
                     QN_ERR_STRICT);
    assert_int_equal(qn_gguf_writer_set_raw(w, "n", 1, QN_GGUF_ARRAY, nested, 23, NULL),
                     QN_ERR_END_OF_STREAM);
    assert_int_equal(qn_gguf_writer_set_raw(w, "n", 1, QN_GGUF_U32, nested, 5, NULL),
                     QN_ERR_INVALID_METADATA);
    assert_int_equal(qn_gguf_writer_set_raw(w, "n", 1, (qn_gguf_type)13, nested, 5, NULL),
                     QN_ERR_UNSUPPORTED_VALUE_TYPE);
    assert_int_equal(qn_gguf_writer_set_array(w, "n", QN_GGUF_STRING, nested, 1, NULL),
                     QN_ERR_INVALID_ARGUMENT);
    assert_int_equal(qn_gguf_writer_set_string(w, "n", "x", -1, NULL), QN_ERR_INVALID_ARGUMENT);
    assert_int_equal(qn_gguf_writer_set_array(w, "n", QN_GGUF_U8, NULL, 1, NULL),
                     QN_ERR_INVALID_ARGUMENT);
    assert_int_equal(qn_gguf_writer_add(w, "null", 4, QN_DTYPE_F32, ne, 1, NULL, 4, NULL),
                     QN_ERR_INVALID_ARGUMENT);
    assert_int_equal(qn_gguf_writer_n_entries(w), 0);
    qn_gguf_writer_free(w);

    qn_gguf_writer_options options = QN_GGUF_WRITER_OPTIONS_INIT;
    options.version = 2;
    assert_int_equal(qn_gguf_writer_new(&options, &w, NULL), QN_ERR_INVALID_ARGUMENT);
    options.version = 0;
    options.is_big_endian = true;
    assert_int_equal(qn_gguf_writer_new(&options, &w, NULL), QN_ERR_INVALID_ARGUMENT);
    options.layout = (qn_gguf_layout)7;
    assert_int_equal(qn_gguf_writer_new(&options, &w, NULL), QN_ERR_INVALID_ARGUMENT);
    options.struct_size = 1;
    assert_int_equal(qn_gguf_writer_new(&options, &w, NULL), QN_ERR_INVALID_ARGUMENT);
    assert_null(w);
}

static void alignment_moves_the_data(void **state)
{
    (void)state;
    qn_gguf_writer *w = full_writer(data_a, data_b);
    qn_gguf_file_plan plan;
    qn_tensor_info info;
    assert_int_equal(qn_gguf_writer_set_u32(w, "general.alignment", 128, NULL), QN_OK);
    assert_int_equal(qn_gguf_writer_layout(w, &plan, NULL), QN_OK);
    assert_int_equal(plan.n_header_bytes % 128, 0);
    assert_true(qn_gguf_writer_tensor(w, 2, &info));
    assert_int_equal(info.file_offset, plan.n_header_bytes + 128);
    assert_int_equal(plan.n_file_bytes, plan.n_header_bytes + 256);
    assert_int_equal(qn_gguf_writer_remove(w, "general.alignment", NULL), QN_OK);
    assert_int_equal(qn_gguf_writer_layout(w, &plan, NULL), QN_OK);
    assert_true(qn_gguf_writer_tensor(w, 2, &info));
    assert_int_equal(info.file_offset, plan.n_header_bytes + 32);
    assert_false(qn_gguf_writer_tensor(w, 3, &info));
    qn_gguf_writer_free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_smallest_file_has_these_bytes),
        cmocka_unit_test(every_type_reads_back),
        cmocka_unit_test(both_layouts_repeat_a_canonical_file),
        cmocka_unit_test(three_forms_give_the_same_bytes),
        cmocka_unit_test(a_stream_keeps_its_order),
        cmocka_unit_test(keys_keep_their_places),
        cmocka_unit_test(tensors_come_and_go),
        cmocka_unit_test(what_cannot_be_written_is_refused),
        cmocka_unit_test(alignment_moves_the_data),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
