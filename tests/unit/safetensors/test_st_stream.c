/* test_st_stream.c — frames off a stream: exactly one each, a byte at a time, and liars. */
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include "st_support.h"

static qn_status read_fd(void *ctx, void *out, size_t n_bytes, size_t *out_n_read, qn_error *err)
{
    const ssize_t n = read(*(const int *)ctx, out, n_bytes);
    *out_n_read = n > 0 ? (size_t)n : 0;
    return n < 0 ? qni_fail(err, QN_ERR_IO, -1, "read failed") : QN_OK;
}

#define LONG_FRAME                                                     \
    "{\"z\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0]}," \
    "\"b\":{\"dtype\":\"I16\",\"shape\":[70000],\"data_offsets\":[0,140000]}}"

static const char frame_headers[3][160] = {
    "{\"a\":{\"dtype\":\"U8\",\"shape\":[5],\"data_offsets\":[0,5]}}",
    "{}",
    LONG_FRAME,
};
static const size_t frame_data[3] = {5, 0, 140000};

/* The child writes three frames and a tail, byte by byte. */
static void write_bytes_apart(int fd)
{
    for (int i = 0; i < 3; i++) {
        size_t n_bytes = 0;
        uint8_t *bytes =
            st_build(frame_headers[i], strlen(frame_headers[i]), frame_data[i], &n_bytes);
        for (size_t k = 0; k < n_bytes; k++) {
            if (write(fd, bytes + k, 1) != 1) {
                _exit(1);
            }
        }
        free(bytes);
    }
    _exit(write(fd, "tail", 4) == 4 ? 0 : 1);
}

static void reads_frames_from_a_pipe(void **state)
{
    (void)state;
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        (void)close(ends[0]);
        write_bytes_apart(ends[1]);
    }
    (void)close(ends[1]);
    for (int i = 0; i < 3; i++) {
        qn_safetensors *st = NULL;
        qn_error err = QN_ERROR_INIT;
        if (qn_safetensors_read_prefix(read_fd, &ends[0], NULL, &st, &err) != QN_OK) {
            fail_msg("frame %d: %s", i, err.message);
        }
        const qn_safetensors_shard *shard = qn_safetensors_shard_at(st, 0);
        assert_int_equal(shard->n_bytes, 8 + strlen(frame_headers[i]) + frame_data[i]);
        qn_safetensors_tensor t;
        if (frame_data[i] > 0) {
            assert_true(qn_safetensors_tensor_at(st, qn_safetensors_n_tensors(st) - 1, &t));
            assert_int_equal(t.n_bytes, frame_data[i]);
            for (int64_t k = 0; k < t.n_bytes; k++) {
                assert_int_equal(((const uint8_t *)t.data)[k], (uint8_t)k);
            }
        }
        qn_safetensors_close(st);
    }
    char rest[8] = "";
    size_t n_rest = 0;
    size_t n_read = 1;
    while (n_read > 0 && n_rest < sizeof rest) {
        assert_int_equal(read_fd(&ends[0], rest + n_rest, sizeof rest - n_rest, &n_read, NULL),
                         QN_OK);
        n_rest += n_read;
    }
    assert_int_equal(n_rest, 4);
    assert_memory_equal(rest, "tail", 4);
    (void)close(ends[0]);
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

typedef struct memory_stream {
    const uint8_t *bytes;
    size_t n_bytes;
    size_t n_read;
    size_t n_most; /* bytes a call */
    bool does_lie; /* says that it read more than was asked for */
} memory_stream;

static qn_status read_memory(void *ctx, void *out, size_t n_bytes, size_t *out_n_read,
                             qn_error *err)
{
    memory_stream *s = ctx;
    (void)err;
    size_t n = s->n_bytes - s->n_read;
    n = n < n_bytes ? n : n_bytes;
    n = n < s->n_most ? n : s->n_most;
    memcpy(out, s->bytes + s->n_read, n);
    s->n_read += n;
    *out_n_read = s->does_lie ? n_bytes + 1 : n;
    return QN_OK;
}

/* Frames that claim a terabyte: an error, and no request for memory beyond what arrived. */
static void refuses_claims_without_memory(void **state)
{
    (void)state;
    static const struct {
        const char *header;
        size_t n_data;
        qn_status status;
    } claims[] = {
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1099511627776],\"data_offsets\":[0,1099511627776]}}",
         100, QN_ERR_END_OF_STREAM},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[9223372036854775807],\"data_offsets\":[0,"
         "9223372036854775807]}}",
         100, QN_ERR_VALIDATION_OVERFLOW},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1152921504606846975],\"data_offsets\":[0,"
         "1152921504606846975]}}",
         100, QN_ERR_END_OF_STREAM},
    };
    for (size_t i = 0; i < sizeof claims / sizeof claims[0]; i++) {
        size_t n_bytes = 0;
        uint8_t *bytes =
            st_build(claims[i].header, strlen(claims[i].header), claims[i].n_data, &n_bytes);
        st_memory memory;
        const qn_allocator allocator = st_allocator(&memory, -1);
        qn_safetensors_options options = QN_SAFETENSORS_OPTIONS_INIT;
        options.allocator = &allocator;
        memory_stream stream = {bytes, n_bytes, 0, SIZE_MAX, false};
        qn_safetensors *st = NULL;
        qn_error err = QN_ERROR_INIT;
        assert_int_equal(qn_safetensors_read_prefix(read_memory, &stream, &options, &st, &err),
                         claims[i].status);
        assert_null(st);
        assert_true(memory.n_largest <= 128 * 1024);
        assert_int_equal(memory.n_alive, 0);
        free(bytes);
    }
    /* a header of 100 MB that never comes */
    uint8_t length[8];
    qni_store_u64le(length, 100000000);
    st_memory memory;
    const qn_allocator allocator = st_allocator(&memory, -1);
    qn_safetensors_options options = QN_SAFETENSORS_OPTIONS_INIT;
    options.allocator = &allocator;
    memory_stream stream = {length, 8, 0, SIZE_MAX, false};
    qn_safetensors *st = NULL;
    assert_int_equal(qn_safetensors_read_prefix(read_memory, &stream, &options, &st, NULL),
                     QN_ERR_END_OF_STREAM);
    assert_true(memory.n_largest <= 128 * 1024);
}

/* A stream that ends after each possible byte. */
static void reports_every_cut(void **state)
{
    (void)state;
    size_t n_bytes = 0;
    uint8_t *bytes = st_build(frame_headers[0], strlen(frame_headers[0]), 5, &n_bytes);
    for (size_t n = 0; n <= n_bytes; n++) {
        memory_stream stream = {bytes, n, 0, 3, false};
        qn_safetensors *st = NULL;
        qn_error err = QN_ERROR_INIT;
        const qn_status status = qn_safetensors_read_prefix(read_memory, &stream, NULL, &st, &err);
        if (n == n_bytes) {
            assert_int_equal(status, QN_OK);
            qn_safetensors_close(st);
        } else {
            assert_int_equal(status, QN_ERR_END_OF_STREAM);
            assert_int_equal(err.offset, n);
        }
        assert_int_equal(stream.n_read, n);
    }
    memory_stream liar = {bytes, n_bytes, 0, 3, true};
    qn_safetensors *st = NULL;
    assert_int_equal(qn_safetensors_read_prefix(read_memory, &liar, NULL, &st, NULL),
                     QN_ERR_INVALID_ARGUMENT);
    assert_int_equal(qn_safetensors_read_prefix(NULL, NULL, NULL, &st, NULL),
                     QN_ERR_INVALID_ARGUMENT);
    int closed = -1;
    assert_int_equal(qn_safetensors_read_prefix(read_fd, &closed, NULL, &st, NULL), QN_ERR_IO);
    free(bytes);
}

/* A header that is wrong is refused before any data are waited for. */
static void refuses_bad_frames(void **state)
{
    (void)state;
    static const char hole[] = "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]}}";
    size_t n_bytes = 0;
    uint8_t *bytes = st_build(hole, sizeof hole - 1, 2, &n_bytes);
    memory_stream stream = {bytes, n_bytes, 0, SIZE_MAX, false};
    qn_safetensors *st = NULL;
    assert_int_equal(qn_safetensors_read_prefix(read_memory, &stream, NULL, &st, NULL),
                     QN_ERR_INVALID_OFFSET);
    assert_int_equal(stream.n_read, n_bytes - 2);
    qni_store_u64le(bytes, 100000001);
    stream = (memory_stream){bytes, n_bytes, 0, SIZE_MAX, false};
    assert_int_equal(qn_safetensors_read_prefix(read_memory, &stream, NULL, &st, NULL),
                     QN_ERR_HEADER_TOO_LARGE);
    assert_int_equal(stream.n_read, 8);
    free(bytes);
}

static void survives_lack_of_memory(void **state)
{
    (void)state;
    size_t n_bytes = 0;
    uint8_t *bytes = st_build(frame_headers[2], strlen(frame_headers[2]), frame_data[2], &n_bytes);
    qn_status status = QN_ERR_OUT_OF_MEMORY;
    for (int n = 0; status != QN_OK; n++) {
        st_memory memory;
        const qn_allocator allocator = st_allocator(&memory, n);
        qn_safetensors_options options = QN_SAFETENSORS_OPTIONS_INIT;
        options.allocator = &allocator;
        memory_stream stream = {bytes, n_bytes, 0, SIZE_MAX, false};
        qn_safetensors *st = NULL;
        status = qn_safetensors_read_prefix(read_memory, &stream, &options, &st, NULL);
        assert_true(status == QN_OK || status == QN_ERR_OUT_OF_MEMORY);
        qn_safetensors_close(st);
        assert_int_equal(memory.n_alive, 0);
    }
    free(bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_frames_from_a_pipe), cmocka_unit_test(refuses_claims_without_memory),
        cmocka_unit_test(reports_every_cut),        cmocka_unit_test(refuses_bad_frames),
        cmocka_unit_test(survives_lack_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
