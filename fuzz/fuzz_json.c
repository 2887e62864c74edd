/* fuzz_json.c — any bytes as JSON: jansson, where it is there, agrees on what is JSON; what is read
 * and written again reads the same. */
#include "fuzz.h"

#include "json/json.h"
#ifdef HAVE_JANSSON
#include <jansson.h>
#endif

static qn_status check(const void *bytes, size_t n_bytes, qn_error *err)
{
    qni_json r;
    qn_status st = qni_json_begin(&r, bytes, (int64_t)n_bytes, NULL, err);
    if (st == QN_OK) {
        st = qni_json_skip(&r, err);
    }
    if (st == QN_OK) {
        st = qni_json_finish(&r, err);
    }
    qni_json_end(&r);
    return st;
}

#ifdef HAVE_JANSSON
static int depth_of(const uint8_t *bytes, size_t n_bytes)
{
    int depth = 0;
    for (size_t i = 0; i < n_bytes; i++) { /* brackets in strings count too: only ever too many */
        depth += bytes[i] == '[' || bytes[i] == '{';
    }
    return depth;
}

static void compare_with_jansson(const uint8_t *bytes, size_t n_bytes, bool is_good)
{
    json_error_t error;
    json_t *theirs = json_loadb((const char *)bytes, n_bytes,
                                JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | JSON_ALLOW_NUL |
                                    JSON_DECODE_INT_AS_REAL,
                                &error);
    if (theirs) {
        /* a bare NUL ends the text for jansson; it is no JSON */
        require(is_good || depth_of(bytes, n_bytes) > QN_JSON_MAX_DEPTH ||
                    memchr(bytes, '\0', n_bytes),
                "what jansson accepts is accepted");
        json_decref(theirs);
    } else if (is_good) {
        const enum json_error_code code = json_error_code(&error);
        require(code == json_error_numeric_overflow || code == json_error_null_byte_in_key ||
                    code == json_error_out_of_memory,
                "what jansson refuses is refused");
    }
}
#endif

static qn_status put(void *ctx, const void *bytes, size_t n_bytes, qn_error *err)
{
    return qni_buffer_append(ctx, bytes, n_bytes, err);
}

/* The bytes as a string: written, read, the same. */
static void check_string(const uint8_t *bytes, size_t n_bytes)
{
    qni_buffer text;
    qn_json_writer *w = NULL;
    qni_json r;
    qni_json_text back;
    qni_buffer_init(&text, NULL, SIZE_MAX / 2);
    require(qn_json_writer_new(put, &text, 0, NULL, &w, NULL) == QN_OK, "memory");
    qn_json_string_bytes(w, bytes, n_bytes);
    require(qn_json_finish(w, NULL) == QN_OK, "a string is written");
    qn_json_writer_free(w);
    require(qni_json_begin(&r, text.bytes, (int64_t)text.n_bytes, NULL, NULL) == QN_OK &&
                qni_json_string(&r, &back, NULL) == QN_OK && qni_json_finish(&r, NULL) == QN_OK,
            "what is written reads back");
    if (qni_utf8_is_valid(bytes, n_bytes, NULL)) {
        require((size_t)back.n_bytes == n_bytes &&
                    (n_bytes == 0 || memcmp(back.bytes, bytes, n_bytes) == 0),
                "and is the same");
    }
    qni_json_end(&r);
    qni_buffer_free(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes)
{
    qn_error err = QN_ERROR_INIT;
    const qn_status st = check(bytes, n_bytes, &err);
    require(st == QN_OK || st == QN_ERR_INVALID_JSON, "one status for what is no JSON");
    require(st == QN_OK || (err.offset >= 0 && err.offset <= (int64_t)n_bytes),
            "an error has its byte");
#ifdef HAVE_JANSSON
    compare_with_jansson(bytes, n_bytes, st == QN_OK);
#endif
    check_string(bytes, n_bytes);
    return 0;
}
