/* test_gguf_scale.c — cost is part of the contract: opening is linear in the number of entries, and
 * a header hostile by design is refused within 20 times the time of reading its bytes and 3 times
 * its size in memory (the bytes themselves counted as one).
 * argument: megabytes of the hostile headers (16 if none). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "gguf/gguf.h"

#define N_ROUNDS 5

static int64_t n_hostile_bytes = (int64_t)16 << 20;

/* --- measuring ---------------------------------------------------------------------------------
 */

typedef struct peak {
    int64_t n_live;
    int64_t n_most;
} peak;

static void *peak_alloc(void *ctx, size_t n_bytes, size_t alignment)
{
    peak *p = ctx;
    (void)alignment;
    p->n_live += (int64_t)n_bytes;
    p->n_most = qni_max_i64(p->n_most, p->n_live);
    return malloc(n_bytes);
}

static void peak_free(void *ctx, void *ptr, size_t n_bytes, size_t alignment)
{
    peak *p = ctx;
    (void)alignment;
    p->n_live -= (int64_t)n_bytes;
    free(ptr);
}

/* Processor seconds of one parse, the best of a few; the status; the most memory. */
static double parse_seconds(const uint8_t *bytes, int64_t n_bytes, qn_status expected,
                            int64_t *out_n_most)
{
    double best = 1e9;
    for (int i = 0; i < N_ROUNDS; i++) {
        peak p = {0, 0};
        const qn_allocator allocator = {&p, peak_alloc, peak_free};
        qn_gguf_options options = QN_GGUF_OPTIONS_INIT;
        options.allocator = &allocator;
        qn_gguf *g = NULL;
        qn_error err = QN_ERROR_INIT;
        const double start = qni_thread_cpu_seconds();
        const qn_status st = qn_gguf_parse(bytes, n_bytes, &options, &g, &err);
        const double seconds = qni_thread_cpu_seconds() - start;
        if (st != expected) {
            fail_msg("%s: %s", qn_status_name(st), err.message);
        }
        best = seconds < best ? seconds : best;
        *out_n_most = p.n_most;
        qn_gguf_close(g);
    }
    return best;
}

/* --- files -------------------------------------------------------------------------------------
 */

static uint8_t *put_header(uint8_t *p, uint64_t n_tensors, uint64_t n_entries)
{
    memcpy(p, "GGUF", 4);
    qni_store_u32le(p + 4, 3);
    qni_store_u64le(p + 8, n_tensors);
    qni_store_u64le(p + 16, n_entries);
    return p + 24;
}

/* A name of n characters that is different for each number. */
static uint8_t *put_name(uint8_t *p, int64_t number, int n)
{
    qni_store_u64le(p, (uint64_t)n);
    p += 8;
    for (int i = 0; i < n; i++) {
        p[i] = (uint8_t)('!' + number % 90);
        number /= 90;
    }
    return p + n;
}

static uint8_t *put_entries(uint8_t *p, int64_t n, int n_name)
{
    for (int64_t i = 0; i < n; i++) {
        p = put_name(p, i, n_name);
        qni_store_u32le(p, 0);
        p[4] = 1;
        p += 5;
    }
    return p;
}

/* Tensors without elements: no data are needed. */
static uint8_t *put_tensors(uint8_t *p, int64_t n, int n_name)
{
    for (int64_t i = 0; i < n; i++) {
        p = put_name(p, i, n_name);
        qni_store_u32le(p, 1);
        qni_store_u64le(p + 4, 0);
        qni_store_u32le(p + 12, 0);
        qni_store_u64le(p + 16, 0);
        p += 24;
    }
    return p;
}

static uint8_t *room(int64_t n_bytes)
{
    uint8_t *bytes = calloc(1, (size_t)n_bytes + 256);
    assert_non_null(bytes);
    return bytes;
}

/* --- linear ------------------------------------------------------------------------------------
 */

static void opening_is_linear(void **state)
{
    (void)state;
    for (int what = 0; what < 2; what++) {
        double first = 0;
        double last = 0;
        for (int64_t n = 25000; n <= 200000; n *= 2) {
            uint8_t *bytes = room(24 + n * (what ? 40 : 24));
            uint8_t *p = put_header(bytes, what ? (uint64_t)n : 0, what ? 0 : (uint64_t)n);
            p = what ? put_tensors(p, n, 8) : put_entries(p, n, 8);
            int64_t n_most = 0;
            const double seconds = parse_seconds(bytes, p - bytes + 64, QN_OK, &n_most);
            print_message("%s: %" PRId64 " in %.2f ms, %.1f ns each\n",
                          what ? "tensors" : "metadata keys", n, seconds * 1e3,
                          seconds * 1e9 / (double)n);
            first = first == 0 ? seconds : first;
            last = seconds;
            free(bytes);
        }
        /* eight times as many: 8 times as long and cache misses; quadratic would be 64 times */
        assert_true(last < 30 * first);
    }
}

/* --- hostile -----------------------------------------------------------------------------------
 */

/* Processor seconds of reading the bytes from a file, warm, as a program would. */
static double read_seconds(const uint8_t *bytes, int64_t n_bytes)
{
    FILE *out = fopen("scale.bin", "wb");
    assert_non_null(out);
    assert_int_equal(fwrite(bytes, 1, (size_t)n_bytes, out), n_bytes);
    assert_int_equal(fclose(out), 0);
    double best = 1e9;
    for (int i = 0; i < N_ROUNDS; i++) {
        uint8_t *read = NULL;
        int64_t n = 0;
        const double start = qni_thread_cpu_seconds();
        assert_int_equal(qni_file_read_all("scale.bin", NULL, INT64_MAX, &read, &n, NULL), QN_OK);
        const double seconds = qni_thread_cpu_seconds() - start;
        best = seconds < best ? seconds : best;
        qni_free(NULL, read, (size_t)n);
    }
    (void)remove("scale.bin");
    return best;
}

static void check_hostile(const char *what, const uint8_t *bytes, int64_t n_bytes,
                          qn_status expected)
{
    int64_t n_most = 0;
    const double reading = read_seconds(bytes, n_bytes);
    const double seconds = parse_seconds(bytes, n_bytes, expected, &n_most);
    print_message("%s, %" PRId64 " MB: %.1f ms, %.1f times reading; memory %.2f times its size\n",
                  what, n_bytes >> 20, seconds * 1e3, seconds / reading,
                  1 + (double)n_most / (double)n_bytes);
    assert_true(n_most <= 2 * n_bytes);
    assert_true(seconds <= 20 * reading);
}

static void hostile_headers_are_refused_cheaply(void **state)
{
    (void)state;
    const int64_t n_bytes = n_hostile_bytes;
    uint8_t *bytes = room(n_bytes);
    /* very many tiny entries, the last one a repetition */
    int64_t n = (n_bytes - 64) / 17;
    uint8_t *p = put_header(bytes, 0, (uint64_t)n + 1);
    p = put_entries(p, n, 4);
    p = put_entries(p, 1, 4);
    check_hostile("tiny metadata, a key twice", bytes, p - bytes, QN_ERR_DUPLICATE_METADATA_KEY);
    /* the same with tensors */
    n = (n_bytes - 64) / 36;
    p = put_header(bytes, (uint64_t)n + 1, 0);
    p = put_tensors(p, n, 4);
    p = put_tensors(p, 1, 4);
    check_hostile("tiny tensors, a name twice", bytes, p - bytes, QN_ERR_DUPLICATE_TENSOR_NAME);
    /* arrays of arrays, wide and as deep as allowed, then one too deep */
    p = put_header(bytes, 0, 2);
    p = put_name(p, 1, 4);
    qni_store_u32le(p, QN_GGUF_ARRAY);
    n = (n_bytes - 1024) / 12;
    qni_store_u32le(p + 4, QN_GGUF_ARRAY), qni_store_u64le(p + 8, (uint64_t)n);
    p += 16;
    for (int64_t i = 0; i < n; i++) {
        qni_store_u32le(p, 0), qni_store_u64le(p + 4, 0);
        p += 12;
    }
    p = put_name(p, 2, 4);
    qni_store_u32le(p, QN_GGUF_ARRAY);
    p += 4;
    for (int i = 0; i < 17; i++) {
        qni_store_u32le(p, QN_GGUF_ARRAY), qni_store_u64le(p + 4, 1);
        p += 12;
    }
    check_hostile("nested arrays, one too deep", bytes, p - bytes, QN_ERR_UNSUPPORTED_VALUE_TYPE);
    /* strings without bytes, the last one too long */
    p = put_header(bytes, 0, 1);
    p = put_name(p, 1, 4);
    n = (n_bytes - 1024) / 8;
    qni_store_u32le(p, QN_GGUF_ARRAY), qni_store_u32le(p + 4, QN_GGUF_STRING);
    qni_store_u64le(p + 8, (uint64_t)n);
    memset(p + 16, 0, (size_t)n * 8);
    p += 16 + n * 8;
    qni_store_u64le(p - 8, UINT64_MAX);
    check_hostile("empty strings, one endless", bytes, p - bytes, QN_ERR_END_OF_STREAM);
    free(bytes);
}

int main(int argc, char **argv)
{
    int64_t n_megabytes = 0;
    if (argc > 1 && qni_parse_i64(argv[1], &n_megabytes)) {
        n_hostile_bytes = n_megabytes << 20;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(opening_is_linear),
        cmocka_unit_test(hostile_headers_are_refused_cheaply),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
