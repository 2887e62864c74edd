/* 02_random_bytes.c [ROUNDS] — the parser on bytes that mean nothing.
 *
 * Exercise 2 of the book: random bytes, random bytes behind a good magic number, and a good file
 * with random bytes changed. Every failure must be an error value that says something; none may
 * crash, hang, or take memory that the input did not bring along. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "quench/quench.h"

enum { N_RANDOM = 4096 };

/* Memory is counted, so that a hostile count cannot hide. */
static int64_t n_live, n_most;

static void *counted_alloc(void *ctx, size_t n_bytes, size_t alignment)
{
    (void)ctx, (void)alignment;
    n_live += (int64_t)n_bytes;
    n_most = n_live > n_most ? n_live : n_most;
    return malloc(n_bytes);
}

static void counted_free(void *ctx, void *ptr, size_t n_bytes, size_t alignment)
{
    (void)ctx, (void)alignment;
    n_live -= (int64_t)n_bytes;
    free(ptr);
}

static uint64_t random_state = 20261130;

static uint32_t random_u32(void)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(random_state >> 32);
}

/* A good file to spoil; its bytes belong to the writer. */
static const uint8_t *good_file(qn_gguf_writer *w, int64_t *out_n)
{
    static const float data[32] = {0};
    static const qn_gguf_string words[] = {{"a", 1}, {"bc", 2}, {"", 0}};
    const int64_t ne[] = {8, 4};
    const void *bytes = NULL;
    const bool is_made =
        qn_gguf_writer_set_string(w, "general.architecture", "llama", 5, NULL) == QN_OK &&
        qn_gguf_writer_set_u32(w, "general.alignment", 32, NULL) == QN_OK &&
        qn_gguf_writer_set_strings(w, "tokenizer.ggml.tokens", words, 3, NULL) == QN_OK &&
        qn_gguf_writer_add(w, "t", 1, QN_DTYPE_F32, ne, 2, data, sizeof data, NULL) == QN_OK &&
        qn_gguf_writer_finish(w, &bytes, out_n, NULL) == QN_OK;
    return is_made ? bytes : NULL;
}

/* Parse; true if it was accepted, or refused as it should be. */
static bool parse(const uint8_t *bytes, int64_t n_bytes, int64_t *n_accepted)
{
    const qn_allocator allocator = {NULL, counted_alloc, counted_free};
    qn_gguf_options options = QN_GGUF_OPTIONS_INIT;
    qn_error err = QN_ERROR_INIT;
    qn_gguf *gguf = NULL;
    options.allocator = &allocator;
    n_most = 0;
    const qn_status st = qn_gguf_parse(bytes, n_bytes, &options, &gguf, &err);
    *n_accepted += st == QN_OK;
    qn_gguf_close(gguf);
    const bool says_why = st == QN_OK || (err.status == st && err.message[0] != '\0');
    return says_why && n_live == 0 && n_most < 16 * n_bytes + 4096;
}

int main(int argc, char **argv)
{
    const long n_rounds = argc > 1 ? strtol(argv[1], NULL, 10) : 20000;
    static uint8_t bytes[N_RANDOM];
    qn_gguf_writer *w = NULL;
    int64_t n_good = 0;
    int64_t n_accepted = 0;
    if (qn_gguf_writer_new(NULL, &w, NULL) != QN_OK) {
        return 1;
    }
    const uint8_t *good = good_file(w, &n_good);
    if (!good || n_good > N_RANDOM) {
        return 1;
    }
    for (long round = 0; round < n_rounds; round++) {
        int64_t n = n_good;
        if (round % 3 == 2) {
            memcpy(bytes, good, (size_t)n_good);
            for (int k = 0; k < 4; k++) {
                bytes[random_u32() % (uint32_t)n_good] = (uint8_t)random_u32();
            }
            n -= round % 7 == 0 ? random_u32() % (uint32_t)n_good : 0;
        } else {
            n = random_u32() % N_RANDOM;
            for (int64_t i = 0; i < n; i++) {
                bytes[i] = (uint8_t)random_u32();
            }
            if (round % 3 == 1 && n >= 24) {
                static const uint8_t head[16] = {'G', 'G', 'U', 'F', 3, 0, 0, 0, 2};
                memcpy(bytes, head, sizeof head);
                memset(bytes + 16, 0, 8);
                bytes[16] = 3; /* three metadata entries, two tensors: and then nonsense */
            }
        }
        if (!parse(bytes, n, &n_accepted)) {
            printf("round %ld broke the promise\n", round);
            return 1;
        }
    }
    printf("%ld inputs: %" PRId64 " accepted, %" PRId64 " refused with a reason\n", n_rounds,
           n_accepted, n_rounds - n_accepted);
    qn_gguf_writer_free(w);
    return 0;
}
