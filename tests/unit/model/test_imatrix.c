/* test_imatrix.c — importance matrices: both forms, what they are normalised to, what is refused.
 * Expectations: gguf-format notes on upstream's loader, worked out by hand. */
#include <math.h>

#include "model_fixture.h"

/* --- .dat, spelled byte by byte ------------------------------------------------------------------
 */

typedef struct bytes {
    uint8_t at[4096];
    size_t n;
} bytes;

static void put_i32(bytes *b, int32_t value)
{
    qni_store_u32le(b->at + b->n, (uint32_t)value);
    b->n += 4;
}

static void put_f32(bytes *b, float value)
{
    qni_store_f32le(b->at + b->n, value);
    b->n += 4;
}

static void put_text(bytes *b, const char *text)
{
    put_i32(b, (int32_t)strlen(text));
    memcpy(b->at + b->n, text, strlen(text));
    b->n += strlen(text);
}

static void put_entry(bytes *b, const char *name, int32_t n_calls, float first, float second)
{
    put_text(b, name);
    put_i32(b, n_calls);
    put_i32(b, 2);
    put_f32(b, first);
    put_f32(b, second);
}

static const float *values_of(const qn_imatrix *m, const char *name, int64_t *out_n)
{
    const char *entry;
    int64_t n_entry;
    const float *values;
    for (int64_t i = 0; qn_imatrix_entry(m, i, &entry, &n_entry, &values, out_n); i++) {
        if (strcmp(entry, name) == 0) {
            return values;
        }
    }
    return NULL;
}

static void dat_form(void **state)
{
    (void)state;
    bytes b = {.n = 0};
    put_i32(&b, 3);
    put_entry(&b, "b.weight", 4, 8.0f, 2.0f);
    put_entry(&b, "a.weight", 0, 8.0f, 2.0f);
    put_entry(&b, "b.weight", 2, 8.0f, 3.0f); /* the later one counts */
    put_i32(&b, 7);
    put_text(&b, "text.txt");
    qn_imatrix *m;
    assert_int_equal(qn_imatrix_parse(b.at, b.n, NULL, &m, NULL), QN_OK);
    assert_false(qn_imatrix_is_gguf(m));
    assert_int_equal(qn_imatrix_n_entries(m), 2);
    assert_int_equal(qn_imatrix_n_chunks(m), 7);
    assert_string_equal(qn_imatrix_dataset(m), "text.txt");
    int64_t n;
    const float *values = values_of(m, "b.weight", &n);
    assert_int_equal(n, 2);
    assert_true(values[0] == 4.0f && values[1] == 1.5f);
    values = values_of(m, "a.weight", &n);
    assert_true(values[0] == 8.0f && values[1] == 2.0f);
    qn_imatrix_free(m);
}

/* Every cut of a good file is refused, but for those where the trailer may be missing. */
static void broken_dat(void **state)
{
    (void)state;
    bytes b = {.n = 0};
    put_i32(&b, 2);
    put_entry(&b, "a.weight", 1, 8.0f, 2.0f);
    put_entry(&b, "b.weight", 1, 8.0f, 2.0f);
    const size_t n_entries = b.n;
    put_i32(&b, 7);
    put_text(&b, "text");
    for (size_t n = 0; n <= b.n; n++) {
        qn_imatrix *m;
        const qn_status st = qn_imatrix_parse(b.at, n, NULL, &m, NULL);
        const bool may_end = n == n_entries || n == n_entries + 4 || n == b.n;
        assert_int_equal(st, may_end ? QN_OK : QN_ERR_INVALID_IMATRIX);
        assert_int_equal(m != NULL, may_end);
        qn_imatrix_free(m);
    }
}

/* A cut inside an entry is told by the entry's number or name and the byte of the field. */
static void cuts_are_placed(void **state)
{
    (void)state;
    static const struct {
        size_t n_bytes; /* of the file; an entry takes 28, the first begins at byte 4 */
        int64_t offset;
        const char *words[3];
    } cases[] = {
        {3, 0, {"number of entries", "3 of 4 bytes", "cut"}},
        {4 + 28 + 2, 32, {"entry 2 of 2", "2 of the 4 bytes of its name's length", "byte 32"}},
        {4 + 28 + 4 + 5, 32, {"entry 2 of 2", "name of 8 bytes", "byte 32"}},
        {4 + 28 + 12, 44, {"entry 2 of 2, b.weight", "number of calls", "byte 44"}},
        {4 + 28 + 16 + 3,
         48,
         {"entry 2 of 2, b.weight", "3 of the 4 bytes of its number of values", "byte 48"}},
        {4 + 28 + 20 + 7, 32, {"entry b.weight", "2 values", "7 bytes"}},
        {4 + 56 + 1, 60, {"number of chunks", "1 of 4 bytes", "cut"}},
        {4 + 56 + 4 + 2, 64, {"length of the data set's name", "2 of 4 bytes", "cut"}},
        {4 + 56 + 8 + 3, 68, {"name of the data set", "3 of 4 bytes", "cut"}},
    };
    bytes b = {.n = 0};
    put_i32(&b, 2);
    put_entry(&b, "a.weight", 1, 8.0f, 2.0f);
    put_entry(&b, "b.weight", 1, 8.0f, 2.0f);
    put_i32(&b, 7);
    put_text(&b, "text");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        qn_imatrix *m;
        qn_error err = QN_ERROR_INIT;
        assert_int_equal(qn_imatrix_parse(b.at, cases[i].n_bytes, NULL, &m, &err),
                         QN_ERR_INVALID_IMATRIX);
        assert_int_equal(err.offset, cases[i].offset);
        for (int w = 0; w < 3; w++) {
            if (strstr(err.message, cases[i].words[w]) == NULL) {
                fail_msg("case %zu: %s", i, err.message);
            }
        }
    }
}

typedef struct bad_dat {
    int32_t n_entries, n_name, n_calls, n_values;
} bad_dat;

static void hostile_dat(void **state)
{
    (void)state;
    static const bad_dat cases[] = {
        {0, 1, 1, 1},         {-1, 1, 1, 1},        {INT32_MAX, 1, 1, 1}, {1, 0, 1, 1},
        {1, -5, 1, 1},        {1, INT32_MAX, 1, 1}, {1, 1, 1, 0},         {1, 1, 1, -1},
        {1, 1, 1, INT32_MAX}, {2, 1, 1, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        bytes b = {.n = 0};
        put_i32(&b, cases[i].n_entries);
        put_i32(&b, cases[i].n_name);
        b.at[b.n++] = 'a';
        put_i32(&b, cases[i].n_calls);
        put_i32(&b, cases[i].n_values);
        put_f32(&b, 1);
        qn_imatrix *m;
        qn_error err = QN_ERROR_INIT;
        assert_int_not_equal(qn_imatrix_parse(b.at, b.n, NULL, &m, &err), QN_OK);
        assert_null(m);
        assert_true(strlen(err.message) > 10);
    }
}

static void not_finite(void **state)
{
    (void)state;
    static const float bad[] = {INFINITY, -INFINITY, NAN};
    for (int i = 0; i < 3; i++) {
        bytes b = {.n = 0};
        put_i32(&b, 1);
        put_entry(&b, "a.weight", 1, 8.0f, bad[i]);
        qn_imatrix *m;
        qn_error err = QN_ERROR_INIT;
        assert_int_equal(qn_imatrix_parse(b.at, b.n, NULL, &m, &err), QN_ERR_INVALID_IMATRIX);
        assert_non_null(strstr(err.message, "a.weight"));
        assert_non_null(strstr(err.message, "value 1"));
    }
}

/* --- GGUF ----------------------------------------------------------------------------------------
 */

enum gguf_fault {
    GOOD,
    NO_COUNTS,
    NO_SUMS,
    COUNTS_F16,
    NO_CHUNK_COUNT,
    CHUNK_COUNT_I32,
    NO_DATASETS,
    NOTHING,
    N_FAULTS
};

static const char *const fault_words[N_FAULTS] = {
    NULL, "a.weight", "a.weight", "f16", "chunk_count", "chunk_count", "datasets", "no importance"};

static void add_values(qn_gguf_writer *writer, const char *name, qn_dtype dtype, int64_t ne0,
                       int64_t ne1, const void *values)
{
    const int64_t ne[] = {ne0, ne1};
    assert_int_equal(qn_gguf_writer_add(writer, name, (int64_t)strlen(name), dtype, ne, 2, values,
                                        ne0 * ne1 * qn_dtype_block_bytes(dtype), NULL),
                     QN_OK);
}

static qn_status parse_faulty(int fault, qn_imatrix **out, qn_error *err)
{
    float sums[] = {10, 20, 30, 40, 50, 60};
    float counts[] = {2.5f, 0};
    static const uint8_t counts_f16[] = {0, 0x40, 0, 0}; /* 2 and 0 */
    to_file_order(sums, 6);
    to_file_order(counts, 2);
    const qn_gguf_string datasets[] = {{"one.txt", 7}, {"two.txt", 7}};
    qn_gguf_writer *writer;
    assert_int_equal(qn_gguf_writer_new(NULL, &writer, NULL), QN_OK);
    if (fault != NO_DATASETS) {
        assert_int_equal(qn_gguf_writer_set_strings(writer, "imatrix.datasets", datasets, 2, NULL),
                         QN_OK);
    }
    if (fault == CHUNK_COUNT_I32) {
        assert_int_equal(qn_gguf_writer_set_i32(writer, "imatrix.chunk_count", 9, NULL), QN_OK);
    } else if (fault != NO_CHUNK_COUNT) {
        assert_int_equal(qn_gguf_writer_set_u32(writer, "imatrix.chunk_count", 9, NULL), QN_OK);
    }
    assert_int_equal(qn_gguf_writer_set_u32(writer, "imatrix.chunk_size", 512, NULL), QN_OK);
    if (fault != NO_SUMS && fault != NOTHING) {
        add_values(writer, "a.weight.in_sum2", QN_DTYPE_F32, 3, 2, sums);
    }
    if (fault == COUNTS_F16) {
        add_values(writer, "a.weight.counts", QN_DTYPE_F16, 1, 2, counts_f16);
    } else if (fault != NO_COUNTS && fault != NOTHING) {
        add_values(writer, "a.weight.counts", QN_DTYPE_F32, 1, 2, counts);
    }
    add_values(writer, "something.else", QN_DTYPE_F32, 3, 2, sums);
    const void *bytes_out;
    int64_t n_bytes;
    assert_int_equal(qn_gguf_writer_finish(writer, &bytes_out, &n_bytes, NULL), QN_OK);
    const qn_status st = qn_imatrix_parse(bytes_out, (size_t)n_bytes, NULL, out, err);
    qn_gguf_writer_free(writer);
    return st;
}

static void gguf_form(void **state)
{
    (void)state;
    qn_imatrix *m;
    assert_int_equal(parse_faulty(GOOD, &m, NULL), QN_OK);
    assert_true(qn_imatrix_is_gguf(m));
    assert_int_equal(qn_imatrix_n_entries(m), 1);
    assert_int_equal(qn_imatrix_n_chunks(m), 9);
    assert_string_equal(qn_imatrix_dataset(m), "one.txt");
    int64_t n;
    const float *values = values_of(m, "a.weight", &n);
    assert_int_equal(n, 6);
    /* 2.5 rounds away from zero, to 3; the expert without tokens gets ones */
    static const float expected[] = {10.0f / 3.0f, 20.0f / 3.0f, 10, 1, 1, 1};
    assert_memory_equal(values, expected, sizeof expected);
    qn_imatrix_free(m);
}

static void broken_gguf(void **state)
{
    (void)state;
    for (int fault = GOOD + 1; fault < N_FAULTS; fault++) {
        qn_imatrix *m;
        qn_error err = QN_ERROR_INIT;
        assert_int_equal(parse_faulty(fault, &m, &err), QN_ERR_INVALID_IMATRIX);
        assert_null(m);
        if (strstr(err.message, fault_words[fault]) == NULL) {
            fail_msg("fault %d: %s", fault, err.message);
        }
    }
    qn_imatrix *m;
    assert_int_not_equal(qn_imatrix_parse("GGUF\3\0\0\0", 8, NULL, &m, NULL), QN_OK);
    assert_null(m);
}

/* --- filters
 * -------------------------------------------------------------------------------------- */

static void filters(void **state)
{
    (void)state;
    bytes b = {.n = 0};
    put_i32(&b, 3);
    put_entry(&b, "blk.0.attn_q.weight", 1, 8.0f, 2.0f);
    put_entry(&b, "blk.0.ffn_up.weight", 1, 8.0f, 2.0f);
    put_entry(&b, "blk.1.ffn_up.weight", 1, 8.0f, 2.0f);
    static const char *const include[] = {"attn", "blk.1"};
    static const char *const exclude[] = {"ffn_up"};
    qn_imatrix *m;
    int64_t n;
    assert_int_equal(qn_imatrix_parse(b.at, b.n, NULL, &m, NULL), QN_OK);
    assert_int_equal(qn_imatrix_filter(m, include, 2, exclude, 1, NULL), QN_ERR_INVALID_ARGUMENT);
    assert_int_equal(qn_imatrix_filter(m, include, 2, NULL, 0, NULL), QN_OK);
    assert_int_equal(qn_imatrix_n_entries(m), 2);
    assert_null(values_of(m, "blk.0.ffn_up.weight", &n));
    assert_int_equal(qn_imatrix_filter(m, NULL, 0, exclude, 1, NULL), QN_OK);
    assert_int_equal(qn_imatrix_n_entries(m), 1);
    assert_non_null(values_of(m, "blk.0.attn_q.weight", &n));
    qn_imatrix_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dat_form),        cmocka_unit_test(broken_dat),
        cmocka_unit_test(cuts_are_placed), cmocka_unit_test(hostile_dat),
        cmocka_unit_test(not_finite),      cmocka_unit_test(gguf_form),
        cmocka_unit_test(broken_gguf),     cmocka_unit_test(filters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
