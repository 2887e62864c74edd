/* test_st_header.c — the rules of the format: which headers are refused, how and at which byte. */
#include "st_support.h"

#define ENTRY(dtype, shape, begin, end) \
    "{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":[" #begin "," #end "]}"
#define F32_2 ENTRY("F32", "[2]", 0, 8)

typedef struct header_case {
    const char *header;
    size_t n_data;
    qn_status status;
    int64_t offset; /* in the file: 8 more than in the header */
} header_case;

/* Rules and names of errors: the behaviour specification, section 3.3, as the hostile corpus mends
 * it. */
static const header_case cases[] = {
    {"{}", 0, QN_OK, 0},
    {"{}  \n", 0, QN_OK, 0},
    {"{\"a\":" F32_2 "}", 8, QN_OK, 0},
    {"{ \"a\" : { \"shape\" : [ 2 ] , \"data_offsets\" : [ 0 , 8 ] , \"dtype\" : \"F32\" } }", 8,
     QN_OK, 0},
    {"{\"a\":" ENTRY("F32", "[]", 0, 4) "}", 4, QN_OK, 0},
    {"{\"a\":" ENTRY("F4", "[4]", 0, 2) "}", 2, QN_OK, 0},
    {"{\"a\":" ENTRY("F6_E2M3", "[4,2]", 0, 6) "}", 6, QN_OK, 0},
    {"{\"a\":" ENTRY("F32", "[0,7]", 0, 0) "}", 0, QN_OK, 0},
    /* an empty tensor beside one that is not, its name sorting behind: upstream writes such files
     */
    {"{\"z\":" ENTRY("U64", "[0]", 0, 0) ",\"a\":" F32_2 "}", 8, QN_OK, 0},
    {"{\"a\":" F32_2 ",\"z\":" ENTRY("U8", "[0]", 8, 8) "}", 8, QN_OK, 0},
    {"{\"__metadata__\":{\"k\":\"v\",\"l\":\"\"},\"a\":" F32_2 "}", 8, QN_OK, 0},
    {"{\"a\":{\"x\":[{\"y\":1}],\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1, QN_OK,
     0},
    /* not JSON, or not the JSON that is asked for */
    {"", 0, QN_ERR_INVALID_HEADER, 8},
    {" {}", 0, QN_ERR_INVALID_HEADER, 8},
    {"[]", 0, QN_ERR_INVALID_HEADER, 8},
    {"{\"\xff\":1}", 0, QN_ERR_INVALID_HEADER, 10},
    {"{", 0, QN_ERR_INVALID_HEADER_DESERIALIZATION, 9},
    {"{} x", 0, QN_ERR_INVALID_HEADER_DESERIALIZATION, 11},
    {"{\"a\":1}", 0, QN_ERR_INVALID_HEADER_DESERIALIZATION, 13},
    {"{\"a\":" F32_2 ",}", 8, QN_ERR_INVALID_HEADER_DESERIALIZATION, 62},
    {"{\"a\":{\"shape\":[2],\"data_offsets\":[0,8]}}", 8, QN_ERR_INVALID_HEADER_DESERIALIZATION, 9},
    {"{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,8]}}", 8, QN_ERR_INVALID_HEADER_DESERIALIZATION,
     9},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2]}}", 8, QN_ERR_INVALID_HEADER_DESERIALIZATION, 9},
    {"{\"a\":{\"dtype\":7,\"shape\":[2],\"data_offsets\":[0,8]}}", 8,
     QN_ERR_INVALID_HEADER_DESERIALIZATION, 22},
    {"{\"a\":" ENTRY("F32", "2", 0, 8) "}", 8, QN_ERR_INVALID_HEADER_DESERIALIZATION, 36},
    {"{\"a\":" ENTRY("F32", "[2.0]", 0, 8) "}", 8, QN_ERR_INVALID_HEADER_DESERIALIZATION, 37},
    {"{\"a\":" ENTRY("F32", "[-0]", 0, 0) "}", 0, QN_ERR_INVALID_HEADER_DESERIALIZATION, 37},
    {"{\"a\":" ENTRY("F32", "[1e1]", 0, 40) "}", 40, QN_ERR_INVALID_HEADER_DESERIALIZATION, 37},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0]}}", 1,
     QN_ERR_INVALID_HEADER_DESERIALIZATION, 57},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1,1]}}", 1,
     QN_ERR_INVALID_HEADER_DESERIALIZATION, 59},
    {"{\"a\":{\"dtype\":\"U8\",\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1,
     QN_ERR_INVALID_HEADER_DESERIALIZATION, 27},
    {"{\"a\":{\"x\":1,\"x\":1,\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1,
     QN_ERR_INVALID_HEADER_DESERIALIZATION, 20},
    {"{\"a\":{\"x\":1,\"dtype\":\"U8\",\"\\u0078\":1,\"shape\":[1],\"data_offsets\":[0,1]}}", 1,
     QN_ERR_INVALID_HEADER_DESERIALIZATION, 33},
    /* metadata */
    {"{\"__metadata__\":[]}", 0, QN_ERR_INVALID_METADATA, 24},
    {"{\"__metadata__\":{\"a\":1}}", 0, QN_ERR_INVALID_METADATA, 29},
    {"{\"__metadata__\":{\"a\":null}}", 0, QN_ERR_INVALID_METADATA, 29},
    {"{\"__metadata__\":{\"a\":\"1\",\"a\":\"2\"}}", 0, QN_ERR_INVALID_METADATA, 33},
    {"{\"__metadata__\":{},\"__metadata__\":{}}", 0, QN_ERR_INVALID_METADATA, 27},
    {"{\"__metadata__\":{},\"__metad\\u0061ta__\":{}}", 0, QN_ERR_INVALID_METADATA, 27},
    /* types, sizes */
    {"{\"a\":" ENTRY("f32", "[2]", 0, 8) "}", 8, QN_ERR_UNSUPPORTED_DTYPE, 22},
    {"{\"a\":" ENTRY("", "[2]", 0, 8) "}", 8, QN_ERR_UNSUPPORTED_DTYPE, 22},
    {"{\"a\":" ENTRY("F32", "[18446744073709551616]", 0, 8) "}", 8, QN_ERR_VALIDATION_OVERFLOW, 37},
    {"{\"a\":" ENTRY("F32", "[18446744073709551615]", 0, 8) "}", 8, QN_ERR_VALIDATION_OVERFLOW, 37},
    {"{\"a\":" ENTRY("F32", "[4294967296,4294967296]", 0, 8) "}", 8, QN_ERR_VALIDATION_OVERFLOW,
     36},
    {"{\"a\":" ENTRY("F64", "[1152921504606846976]", 0, 8) "}", 8, QN_ERR_VALIDATION_OVERFLOW, 9},
    {"{\"a\":" ENTRY("F4", "[3]", 0, 2) "}", 2, QN_ERR_MISALIGNED_SLICE, 9},
    {"{\"a\":" ENTRY("F32", "[2]", 0, 16) "}", 16, QN_ERR_TENSOR_INVALID_INFO, 9},
    {"{\"a\":" ENTRY("F32", "[1]", 0, 0) "}", 0, QN_ERR_TENSOR_INVALID_INFO, 9},
    /* places */
    {"{\"a\":" ENTRY("F32", "[2]", 8, 0) "}", 8, QN_ERR_INVALID_OFFSET, 55},
    {"{\"a\":" ENTRY("F32", "[1]", 4, 8) "}", 8, QN_ERR_INVALID_OFFSET, 10},
    {"{\"a\":" F32_2 ",\"b\":" ENTRY("F32", "[1]", 12, 16) "}", 16, QN_ERR_INVALID_OFFSET, 63},
    {"{\"a\":" F32_2 ",\"b\":" ENTRY("F32", "[1]", 4, 8) "}", 8, QN_ERR_INVALID_OFFSET, 63},
    {"{\"a\":" F32_2 ",\"b\":" F32_2 "}", 8, QN_ERR_INVALID_OFFSET, 63},
    {"{\"a\":" F32_2 ",\"b\":" ENTRY("F32", "[0]", 4, 4) "}", 8, QN_ERR_INVALID_OFFSET, 63},
    {"{\"a\":" F32_2 ",\"a\":" ENTRY("F32", "[1]", 8, 12) "}", 12, QN_ERR_DUPLICATE_TENSOR_NAME,
     63},
    {"{\"a\":" F32_2 "}", 7, QN_ERR_METADATA_INCOMPLETE_BUFFER, 69},
    {"{\"a\":" F32_2 "}", 0, QN_ERR_METADATA_INCOMPLETE_BUFFER, 62},
    {"{\"a\":" F32_2 "}", 9, QN_ERR_METADATA_INCOMPLETE_BUFFER, 70},
    {"{}", 1, QN_ERR_METADATA_INCOMPLETE_BUFFER, 10},
};

static void checks_headers(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const header_case *c = &cases[i];
        size_t n_bytes = 0;
        uint8_t *bytes = st_build(c->header, strlen(c->header), c->n_data, &n_bytes);
        qn_safetensors *st = NULL;
        qn_error err = QN_ERROR_INIT;
        const qn_status status = qn_safetensors_parse(bytes, (int64_t)n_bytes, NULL, &st, &err);
        if (status != c->status || (status != QN_OK && err.offset != c->offset)) {
            fail_msg("%s: %s at %lld (%s), expected %s at %lld", c->header, qn_status_name(status),
                     (long long)err.offset, err.message, qn_status_name(c->status),
                     (long long)c->offset);
        }
        assert_true((st != NULL) == (status == QN_OK));
        /* an error inside a tensor's entry names the tensor */
        if (strncmp(c->header, "{\"a\":{", 6) == 0 && status == QN_ERR_VALIDATION_OVERFLOW &&
            err.offset > 20) {
            assert_non_null(strstr(err.message, "tensor \"a\""));
        }
        qn_safetensors_close(st);
        free(bytes);
    }
}

static void checks_lengths(void **state)
{
    (void)state;
    static const struct {
        uint64_t claim;
        int64_t n_bytes;
        qn_status status;
    } lengths[] = {
        {0, 0, QN_ERR_HEADER_TOO_SMALL},
        {0, 7, QN_ERR_HEADER_TOO_SMALL},
        {2, 8, QN_ERR_INVALID_HEADER_LENGTH},
        {2, 9, QN_ERR_INVALID_HEADER_LENGTH},
        {2, 10, QN_OK},
        {100000000, 10, QN_ERR_INVALID_HEADER_LENGTH},
        {100000001, 10, QN_ERR_HEADER_TOO_LARGE},
        {UINT64_C(1) << 63, 10, QN_ERR_HEADER_TOO_LARGE},
        {UINT64_MAX, 10, QN_ERR_HEADER_TOO_LARGE},
        {UINT64_MAX - 7, 10, QN_ERR_HEADER_TOO_LARGE},
    };
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        uint8_t bytes[10] = {0, 0, 0, 0, 0, 0, 0, 0, '{', '}'};
        qni_store_u64le(bytes, lengths[i].claim);
        qn_safetensors *st = NULL;
        assert_int_equal(qn_safetensors_parse(bytes, lengths[i].n_bytes, NULL, &st, NULL),
                         lengths[i].status);
        qn_safetensors_close(st);
    }
    qn_safetensors *st = NULL;
    assert_int_equal(qn_safetensors_parse(NULL, 0, NULL, &st, NULL), QN_ERR_HEADER_TOO_SMALL);
    assert_int_equal(qn_safetensors_parse(NULL, 1, NULL, &st, NULL), QN_ERR_INVALID_ARGUMENT);
    qn_safetensors_options options = QN_SAFETENSORS_OPTIONS_INIT;
    options.struct_size = 1;
    assert_int_equal(qn_safetensors_parse("", 0, &options, &st, NULL), QN_ERR_INVALID_ARGUMENT);
}

static void names_strangers(void **state)
{
    (void)state;
    static const char *const strangers[] = {
        "version https://git-lfs.github.com/spec/v1\noid sha256:0\n",
        "<!DOCTYPE html><html></html>",
        "PK\x03\x04zip archive ....",
        "{\"error\":\"Repository not found\"}",
        "GGUF\x03.....................",
    };
    for (size_t i = 0; i < sizeof strangers / sizeof strangers[0]; i++) {
        qn_safetensors *st = NULL;
        qn_error err = QN_ERROR_INIT;
        assert_int_equal(
            qn_safetensors_parse(strangers[i], (int64_t)strlen(strangers[i]), NULL, &st, &err),
            QN_ERR_NOT_A_MODEL);
        assert_non_null(strstr(err.message, "not a safetensors file but "));
    }
    const char zeros[64] = {0};
    qn_safetensors *st = NULL;
    assert_int_equal(qn_safetensors_parse(zeros, sizeof zeros, NULL, &st, NULL),
                     QN_ERR_NOT_A_MODEL);
}

static const char two_tensors[] =
    "{\"__metadata__\":{\"format\":\"pt\",\"n\\u006fte\":\"\\u00fc\"},"
    "\"w\\n\":{\"dtype\":\"I16\",\"shape\":[2,3],\"data_offsets\":[4,16]},"
    "\"bias\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4],\"extra\":1},"
    "\"fp8\":{\"dtype\":\"F8_E4M3\",\"shape\":[2],\"data_offsets\":[16,18]}}";

static int n_warnings;

static void count_warning(void *ctx, qn_log_level level, const char *message)
{
    (void)ctx;
    assert_int_equal(level, QN_LOG_WARNING);
    assert_non_null(strstr(message, "\"extra\" of tensor \"bias\""));
    n_warnings++;
}

static void hands_out(void **state)
{
    (void)state;
    size_t n_bytes = 0;
    uint8_t *bytes = st_build(two_tensors, sizeof two_tensors - 1, 18, &n_bytes);
    qn_safetensors *st = NULL;
    qn_safetensors_options options = QN_SAFETENSORS_OPTIONS_INIT;
    options.log = count_warning;
    n_warnings = 0;
    assert_int_equal(qn_safetensors_parse(bytes, (int64_t)n_bytes, &options, &st, NULL), QN_OK);
    assert_int_equal(n_warnings, 1);
    assert_int_equal(qn_safetensors_n_tensors(st), 3);
    assert_int_equal(qn_safetensors_n_shards(st), 1);
    assert_false(qn_safetensors_is_sharded(st));
    assert_int_equal(qn_safetensors_total_size(st), -1);
    const qn_safetensors_shard *shard = qn_safetensors_shard_at(st, 0);
    assert_string_equal(shard->path, "");
    assert_int_equal(shard->n_bytes, n_bytes);
    assert_int_equal(shard->n_header_bytes, 8 + sizeof two_tensors - 1);
    assert_int_equal(shard->n_data_bytes, 18);
    assert_int_equal(shard->n_tensors, 3);
    assert_null(qn_safetensors_shard_at(st, 1));
    assert_null(qn_safetensors_shard_at(st, -1));
    assert_null(qn_safetensors_damage(st, 0));

    qn_safetensors_tensor t;
    assert_true(qn_safetensors_tensor_at(st, 0, &t)); /* in the order of the data */
    assert_memory_equal(t.name, "bias", 4);
    assert_int_equal(t.rank, 0);
    assert_int_equal(t.n_elems, 1);
    assert_int_equal(qn_safetensors_get(st, "w\n", &t, NULL), QN_OK);
    assert_int_equal(t.n_name, 2);
    assert_int_equal(t.dtype, QN_SAFETENSORS_I16);
    assert_int_equal(t.rank, 2);
    assert_int_equal(t.shape[0], 2);
    assert_int_equal(t.shape[1], 3);
    assert_int_equal(t.n_elems, 6);
    assert_int_equal(t.n_bytes, 12);
    assert_int_equal(t.file_offset, shard->n_header_bytes + 4);
    assert_ptr_equal(t.data, bytes + t.file_offset);
    assert_int_equal(qn_safetensors_find(st, "w\n", 2), 1);
    assert_int_equal(qn_safetensors_find(st, "w", 1), -1);
    assert_int_equal(qn_safetensors_get(st, "nothing", &t, NULL), QN_ERR_TENSOR_NOT_FOUND);
    assert_false(qn_safetensors_tensor_at(st, 3, &t));
    assert_false(qn_safetensors_tensor_at(st, -1, &t));

    qn_tensor_info info;
    assert_int_equal(qn_safetensors_tensor_info(st, 1, &info, NULL), QN_OK);
    assert_int_equal(info.dtype, QN_DTYPE_I16);
    assert_int_equal(info.n_dims, 2);
    assert_int_equal(info.ne[0], 3); /* fastest first */
    assert_int_equal(info.ne[1], 2);
    assert_int_equal(info.ne[2], 1);
    assert_int_equal(info.n_bytes, 12);
    qn_error err = QN_ERROR_INIT;
    assert_int_equal(qn_safetensors_tensor_info(st, 2, &info, &err), QN_ERR_UNSUPPORTED_DTYPE);
    assert_int_equal(err.tensor_index, 2);
    assert_int_equal(qn_safetensors_tensor_info(st, 3, &info, NULL), QN_ERR_INVALID_ARGUMENT);

    assert_int_equal(qn_safetensors_n_entries(st), 2);
    const qn_safetensors_entry *entry = qn_safetensors_find_entry(st, "note");
    assert_non_null(entry);
    assert_memory_equal(entry->value, "\xc3\xbc", 2);
    assert_ptr_equal(entry, qn_safetensors_entry_at(st, 1));
    assert_null(qn_safetensors_entry_at(st, 2));
    assert_null(qn_safetensors_find_entry(st, "not"));

    uint8_t out[12];
    assert_int_equal(qn_safetensors_read(st, 1, 3, 9, out, NULL), QN_OK);
    assert_memory_equal(out, bytes + t.file_offset - t.file_offset + shard->n_header_bytes + 7, 9);
    assert_int_equal(qn_safetensors_read(st, 1, 12, 0, out, NULL), QN_OK);
    assert_int_equal(qn_safetensors_read(st, 1, 4, 9, out, NULL), QN_ERR_INVALID_ARGUMENT);
    assert_int_equal(qn_safetensors_read(st, 1, -1, 1, out, NULL), QN_ERR_INVALID_ARGUMENT);
    assert_int_equal(qn_safetensors_read(st, 9, 0, 1, out, NULL), QN_ERR_INVALID_ARGUMENT);
    qn_safetensors_close(st);
    qn_safetensors_close(NULL);
    free(bytes);
}

static void refuses_many_dimensions(void **state)
{
    (void)state;
    static const char header[] = "{\"a\":" ENTRY("U8", "[1,1,1,1,1,1,1,1,1]", 0, 1) "}";
    size_t n_bytes = 0;
    uint8_t *bytes = st_build(header, sizeof header - 1, 1, &n_bytes);
    qn_safetensors *st = NULL;
    qn_tensor_info info;
    assert_int_equal(qn_safetensors_parse(bytes, (int64_t)n_bytes, NULL, &st, NULL), QN_OK);
    assert_int_equal(qn_safetensors_tensor_info(st, 0, &info, NULL), QN_ERR_UNSUPPORTED_DTYPE);
    memcpy(bytes + 8 + 6 + 8, "\"I8\"", 4); /* a type that is bridged */
    qn_safetensors_close(st);
    assert_int_equal(qn_safetensors_parse(bytes, (int64_t)n_bytes, NULL, &st, NULL), QN_OK);
    assert_int_equal(qn_safetensors_tensor_info(st, 0, &info, NULL), QN_ERR_INVALID_SHAPE);
    qn_safetensors_close(st);
    free(bytes);
}

/* 0, 1, 2, ... as U8 in [2,3,4]: the value of an element is its place. */
static void slices(void **state)
{
    (void)state;
    static const char header[] =
        "{\"a\":{\"dtype\":\"U8\",\"shape\":[2,3,4],\"data_offsets\":[0,24]},"
        "\"f4\":{\"dtype\":\"F4\",\"shape\":[2],\"data_offsets\":[24,25]},"
        "\"none\":{\"dtype\":\"F32\",\"shape\":[3,0],\"data_offsets\":[25,25]},"
        "\"one\":{\"dtype\":\"I16\",\"shape\":[],\"data_offsets\":[25,27]}}";
    size_t n_bytes = 0;
    uint8_t *bytes = st_build(header, sizeof header - 1, 27, &n_bytes);
    qn_safetensors *st = NULL;
    assert_int_equal(qn_safetensors_parse(bytes, (int64_t)n_bytes, NULL, &st, NULL), QN_OK);
    uint8_t out[64];
    int64_t n = 0;
    for (int64_t code = 0; code < 3 * 3 * 4 * 4 * 5 * 5; code++) {
        int64_t c = code;
        qn_safetensors_range r[3];
        const int64_t extents[3] = {2, 3, 4};
        for (int i = 0; i < 3; i++) {
            r[i].start = c % (extents[i] + 1);
            c /= extents[i] + 1;
            r[i].end = c % (extents[i] + 1);
            c /= extents[i] + 1;
        }
        const bool is_good =
            r[0].start <= r[0].end && r[1].start <= r[1].end && r[2].start <= r[2].end;
        const qn_status status = qn_safetensors_slice_bytes(st, 0, r, 3, &n, NULL);
        assert_int_equal(status, is_good ? QN_OK : QN_ERR_INVALID_SLICE);
        if (!is_good) {
            continue;
        }
        assert_int_equal(n, (r[0].end - r[0].start) * (r[1].end - r[1].start) *
                                (r[2].end - r[2].start));
        assert_int_equal(qn_safetensors_slice(st, 0, r, 3, out, n, NULL), QN_OK);
        int64_t at = 0;
        for (int64_t i = r[0].start; i < r[0].end; i++) {
            for (int64_t j = r[1].start; j < r[1].end; j++) {
                for (int64_t k = r[2].start; k < r[2].end; k++) {
                    assert_int_equal(out[at++], i * 12 + j * 4 + k);
                }
            }
        }
    }
    const qn_safetensors_range one[1] = {{1, -1}};
    assert_int_equal(qn_safetensors_slice_bytes(st, 0, one, 1, &n, NULL), QN_OK);
    assert_int_equal(n, 12);
    assert_int_equal(qn_safetensors_slice(st, 0, one, 1, out, 11, NULL), QN_ERR_INVALID_ARGUMENT);
    assert_int_equal(qn_safetensors_slice(st, 0, NULL, 0, out, 24, NULL), QN_OK);
    assert_memory_equal(out, bytes + 8 + sizeof header - 1, 24);
    const qn_safetensors_range past[1] = {{0, 3}};
    assert_int_equal(qn_safetensors_slice_bytes(st, 0, past, 1, &n, NULL), QN_ERR_INVALID_SLICE);
    const qn_safetensors_range many[4] = {{0, -1}, {0, -1}, {0, -1}, {0, -1}};
    assert_int_equal(qn_safetensors_slice_bytes(st, 0, many, 4, &n, NULL), QN_ERR_INVALID_SLICE);
    assert_int_equal(qn_safetensors_slice_bytes(st, 1, NULL, 0, &n, NULL), QN_ERR_MISALIGNED_SLICE);
    assert_int_equal(qn_safetensors_slice_bytes(st, 2, one, 1, &n, NULL), QN_OK);
    assert_int_equal(n, 0);
    assert_int_equal(qn_safetensors_slice(st, 2, one, 1, out, 0, NULL), QN_OK);
    assert_int_equal(qn_safetensors_slice(st, 3, NULL, 0, out, 2, NULL), QN_OK);
    assert_memory_equal(out, bytes + n_bytes - 2, 2);
    assert_int_equal(qn_safetensors_slice_bytes(st, 3, one, 1, &n, NULL), QN_ERR_INVALID_SLICE);
    assert_int_equal(qn_safetensors_slice_bytes(st, 4, NULL, 0, &n, NULL), QN_ERR_INVALID_ARGUMENT);
    qn_safetensors_close(st);
    free(bytes);
}

static void survives_lack_of_memory(void **state)
{
    (void)state;
    size_t n_bytes = 0;
    uint8_t *bytes = st_build(two_tensors, sizeof two_tensors - 1, 18, &n_bytes);
    for (int n = 0;; n++) {
        st_memory memory;
        const qn_allocator allocator = st_allocator(&memory, n);
        qn_safetensors_options options = QN_SAFETENSORS_OPTIONS_INIT;
        options.allocator = &allocator;
        qn_safetensors *st = NULL;
        const qn_status status = qn_safetensors_parse(bytes, (int64_t)n_bytes, &options, &st, NULL);
        if (status == QN_OK) {
            assert_true(n >= 5);
            memory.n_left = 0; /* slices need a little */
            uint8_t out[2];
            const qn_safetensors_range r[2] = {{0, 1}, {0, 1}};
            assert_int_equal(qn_safetensors_slice(st, 1, r, 2, out, 2, NULL), QN_ERR_OUT_OF_MEMORY);
        } else {
            assert_int_equal(status, QN_ERR_OUT_OF_MEMORY);
        }
        qn_safetensors_close(st);
        assert_int_equal(memory.n_alive, 0);
        if (status == QN_OK) {
            break;
        }
    }
    free(bytes);
}

static void knows_types(void **state)
{
    (void)state;
    static const struct {
        const char *tag;
        int32_t bits;
        qn_dtype core;
    } types[QN_SAFETENSORS_DTYPE_LIMIT] = {
        {"BOOL", 8, QN_DTYPE_NONE},        {"F4", 4, QN_DTYPE_NONE},
        {"F6_E2M3", 6, QN_DTYPE_NONE},     {"F6_E3M2", 6, QN_DTYPE_NONE},
        {"U8", 8, QN_DTYPE_NONE},          {"I8", 8, QN_DTYPE_I8},
        {"F8_E5M2", 8, QN_DTYPE_NONE},     {"F8_E4M3", 8, QN_DTYPE_NONE},
        {"F8_E8M0", 8, QN_DTYPE_NONE},     {"F8_E4M3FNUZ", 8, QN_DTYPE_NONE},
        {"F8_E5M2FNUZ", 8, QN_DTYPE_NONE}, {"I16", 16, QN_DTYPE_I16},
        {"U16", 16, QN_DTYPE_NONE},        {"F16", 16, QN_DTYPE_F16},
        {"BF16", 16, QN_DTYPE_BF16},       {"I32", 32, QN_DTYPE_I32},
        {"U32", 32, QN_DTYPE_NONE},        {"F32", 32, QN_DTYPE_F32},
        {"C64", 64, QN_DTYPE_NONE},        {"F64", 64, QN_DTYPE_F64},
        {"I64", 64, QN_DTYPE_I64},         {"U64", 64, QN_DTYPE_NONE},
    };
    for (int i = 0; i < QN_SAFETENSORS_DTYPE_LIMIT; i++) {
        const qn_safetensors_dtype dtype = (qn_safetensors_dtype)i;
        assert_string_equal(qn_safetensors_dtype_tag(dtype), types[i].tag);
        assert_int_equal(qn_safetensors_dtype_bits(dtype), types[i].bits);
        assert_int_equal(qn_safetensors_dtype_from_tag(types[i].tag, (int64_t)strlen(types[i].tag)),
                         dtype);
        qn_dtype core = QN_DTYPE_F32;
        assert_int_equal(qn_safetensors_dtype_to_core(dtype, &core, NULL),
                         types[i].core == QN_DTYPE_NONE ? QN_ERR_UNSUPPORTED_DTYPE : QN_OK);
        assert_int_equal(core, types[i].core);
        if (core != QN_DTYPE_NONE) {
            qn_safetensors_dtype back = QN_SAFETENSORS_NONE;
            assert_int_equal(qn_safetensors_dtype_from_core(core, &back, NULL), QN_OK);
            assert_int_equal(back, dtype);
        }
    }
    qn_safetensors_dtype none = QN_SAFETENSORS_F32;
    assert_int_equal(qn_safetensors_dtype_from_core(QN_DTYPE_Q4_K, &none, NULL),
                     QN_ERR_UNSUPPORTED_DTYPE);
    assert_int_equal(none, QN_SAFETENSORS_NONE);
    assert_int_equal(qn_safetensors_dtype_from_core(QN_DTYPE_NONE, &none, NULL),
                     QN_ERR_UNSUPPORTED_DTYPE);
    assert_string_equal(qn_safetensors_dtype_tag((qn_safetensors_dtype)22), "?");
    assert_int_equal(qn_safetensors_dtype_bits(QN_SAFETENSORS_NONE), 0);
    assert_int_equal(qn_safetensors_dtype_from_tag("f32", 3), QN_SAFETENSORS_NONE);
    int64_t n = 0;
    const int64_t negative[1] = {-1};
    const int64_t huge[2] = {INT64_MAX, 2};
    assert_int_equal(qn_safetensors_tensor_bytes(QN_SAFETENSORS_F32, negative, 1, &n, NULL),
                     QN_ERR_INVALID_SHAPE);
    assert_int_equal(qn_safetensors_tensor_bytes(QN_SAFETENSORS_F32, huge, 2, &n, NULL),
                     QN_ERR_VALIDATION_OVERFLOW);
    assert_int_equal(qn_safetensors_tensor_bytes(QN_SAFETENSORS_F32, huge, 1, &n, NULL),
                     QN_ERR_VALIDATION_OVERFLOW);
    assert_int_equal(qn_safetensors_tensor_bytes(QN_SAFETENSORS_NONE, huge, 0, &n, NULL),
                     QN_ERR_UNSUPPORTED_DTYPE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(checks_headers),          cmocka_unit_test(checks_lengths),
        cmocka_unit_test(names_strangers),         cmocka_unit_test(hands_out),
        cmocka_unit_test(refuses_many_dimensions), cmocka_unit_test(slices),
        cmocka_unit_test(survives_lack_of_memory), cmocka_unit_test(knows_types),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
