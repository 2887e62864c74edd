/* parity_codec.c LIBRARY [-n ROUNDS] [-s SEED] [-t TYPE] — live comparison of the codecs with
 * ggml's own library.
 *
 * LIBRARY is libggml-base.so of the pinned package, loaded at run time. Per round: 14
 * distributions, 64 super-blocks each, every type that can be encoded, without weights, with random
 * and with zero-heavy ones; encoded by both, compared byte for byte; decoded by both, compared bit
 * for bit; the row validators compared on what was encoded and on random bytes. Where the codec
 * says that ggml would abort, a child process shows that it does. Exit status 77: no library,
 * skipped. */
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/wait.h>

#include "quench/quench.h"
#include "support/inputs.h"

enum { N_ELEMS = 64 * 256, ROW_LEN_MAX = 4096, N_BYTES_MAX = 4 * N_ELEMS };

typedef struct peer_traits { /* ggml_type_traits */
    const char *name;
    int64_t block_elems;
    int64_t interleave;
    size_t block_bytes;
    bool is_quantized;
    void (*to_float)(const void *blocks, float *out, int64_t n);
    void (*from_float_ref)(const float *x, void *out, int64_t n);
} peer_traits;

static struct {
    const peer_traits *(*traits)(int type);
    size_t (*quantize)(int type, const float *x, void *out, int64_t start, int64_t n_rows,
                       int64_t row_len, const float *weights);
    bool (*validate)(int type, const void *bytes, size_t n_bytes);
    void (*q8_1)(const float *x, void *out, int64_t n);
    void (*q8_k)(const float *x, void *out, int64_t n);
} peer;

static struct {
    int64_t n_blocks, n_differing, n_aborts, n_verdicts, n_failures;
} total;

static test_rng rng;
static float x[N_ELEMS], weight_buffer[ROW_LEN_MAX], ours_f32[N_ELEMS], theirs_f32[N_ELEMS];
static uint8_t ours[N_BYTES_MAX], theirs[N_BYTES_MAX];

/* One combination. */
typedef struct parity_case {
    qn_dtype dtype;
    test_distribution distribution;
    test_weights kind;
    const float *weights;
    int64_t n_rows, row_len, n_row_bytes;
} parity_case;

static void complain(const parity_case *c, const char *what, int64_t at)
{
    total.n_failures++;
    printf("DIFFERS %s, %s, weights %s: %s (%lld)\n", qn_dtype_name(c->dtype),
           test_distribution_names[c->distribution], test_weights_names[c->kind], what,
           (long long)at);
}

static void peer_encode(const parity_case *c, int64_t first_row, int64_t n_rows)
{
    const float *from = x + first_row * c->row_len;
    uint8_t *to = theirs + first_row * c->n_row_bytes;
    if (c->dtype == QN_DTYPE_Q8_1) {
        peer.q8_1(from, to, n_rows * c->row_len);
    } else if (c->dtype == QN_DTYPE_Q8_K) {
        peer.q8_k(from, to, n_rows * c->row_len);
    } else {
        (void)peer.quantize((int)c->dtype, from, to, 0, n_rows, c->row_len, c->weights);
    }
}

/* Does the peer abort on this row? Found out in a child. */
static bool peer_aborts(const parity_case *c, int64_t row)
{
    (void)fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        const int null = open("/dev/null", O_WRONLY);
        (void)dup2(null, 1); /* it prints what it could not find */
        (void)dup2(null, 2);
        peer_encode(c, row, 1);
        _exit(0);
    }
    int status = 0;
    (void)waitpid(child, &status, 0);
    return WIFSIGNALED(status);
}

static void encode_row(const parity_case *c, int64_t row)
{
    qn_encode_options options = QN_ENCODE_OPTIONS_INIT;
    options.allow_overflow = true;
    uint8_t *to = ours + row * c->n_row_bytes;
    qn_error err = QN_ERROR_INIT;
    const qn_status status = qn_encode_rows(c->dtype, x + row * c->row_len, 1, c->row_len,
                                            c->weights, &options, to, c->n_row_bytes, &err);
    if (status == QN_ERR_ENCODE_FAILED) {
        total.n_aborts++;
        if (!peer_aborts(c, row)) {
            complain(c, "the peer does not abort on row", row);
        }
        memset(to, 0, (size_t)c->n_row_bytes);
        return;
    }
    if (status != QN_OK) {
        complain(c, err.message, row);
        return;
    }
    peer_encode(c, row, 1);
}

static void compare_blocks(const parity_case *c)
{
    const int64_t n_block_bytes = qn_dtype_block_bytes(c->dtype);
    const int64_t n_blocks = c->n_rows * c->n_row_bytes / n_block_bytes;
    int64_t n_differing = 0;
    int64_t first = -1;
    for (int64_t i = 0; i < n_blocks; i++) {
        if (memcmp(ours + i * n_block_bytes, theirs + i * n_block_bytes, (size_t)n_block_bytes)) {
            first = n_differing++ == 0 ? i : first;
        }
    }
    total.n_blocks += n_blocks;
    total.n_differing += n_differing;
    if (n_differing > 0) {
        complain(c, "encoded blocks, the first of them", first);
    }
}

static bool same_float(float a, float b)
{
    return memcmp(&a, &b, sizeof a) == 0 || (isnan(a) && isnan(b));
}

static void compare_decoded(const parity_case *c)
{
    if (!peer.traits((int)c->dtype)->to_float) {
        return; /* q8_1 */
    }
    const int64_t n = c->n_rows * c->row_len;
    if (qn_decode(c->dtype, ours, n / qn_dtype_block_elems(c->dtype), ours_f32, NULL) != QN_OK) {
        complain(c, "cannot be decoded", 0);
        return;
    }
    peer.traits((int)c->dtype)->to_float(ours, theirs_f32, n);
    for (int64_t i = 0; i < n; i++) {
        if (!same_float(ours_f32[i], theirs_f32[i])) {
            complain(c, "decoded element", i);
            return;
        }
    }
}

/* The peer's validator writes about each bad block on stderr; main() sends that away. */
static void compare_verdicts(const parity_case *c, const uint8_t *bytes, const char *what)
{
    if (c->dtype == QN_DTYPE_Q8_1) {
        return;
    }
    const int64_t n_bytes = c->n_rows * c->n_row_bytes;
    const bool mine = qn_validate_rows(c->dtype, bytes, n_bytes, c->row_len, 0, NULL) == QN_OK;
    total.n_verdicts++;
    if (mine != peer.validate((int)c->dtype, bytes, (size_t)n_bytes)) {
        complain(c, what, mine);
    }
}

static void run_case(parity_case *c)
{
    test_fill(&rng, c->distribution, x, N_ELEMS);
    c->row_len = c->distribution == TEST_TINY_ROWS ? 256 : ROW_LEN_MAX;
    c->n_rows = N_ELEMS / c->row_len;
    c->weights = test_fill_weights(&rng, c->kind, weight_buffer, c->row_len);
    if (qn_dtype_row_bytes(c->dtype, c->row_len, &c->n_row_bytes, NULL) != QN_OK) {
        complain(c, "no row size", 0);
        return;
    }
    memset(ours, 0, sizeof ours);
    memset(theirs, 0, sizeof theirs);
    for (int64_t row = 0; row < c->n_rows; row++) {
        encode_row(c, row);
    }
    compare_blocks(c);
    compare_decoded(c);
    compare_verdicts(c, ours, "the validators disagree on encoded rows");
}

/* Blocks of random bytes: decoded, and one random byte string a round for the validators. */
static void run_random_blocks(qn_dtype dtype)
{
    parity_case c = {.dtype = dtype, .row_len = 256, .n_rows = N_ELEMS / 256};
    if (qn_dtype_row_bytes(dtype, c.row_len, &c.n_row_bytes, NULL) != QN_OK) {
        return;
    }
    for (size_t i = 0; i < sizeof ours; i++) {
        ours[i] = (uint8_t)test_next(&rng);
    }
    compare_decoded(&c);
    for (int64_t row = 0; row < N_ELEMS / 256; row++) { /* row by row: most hold no bad scale */
        parity_case one = c;
        one.n_rows = 1;
        compare_verdicts(&one, ours + row * c.n_row_bytes, "the validators disagree on bytes");
    }
}

static void run_type(qn_dtype dtype)
{
    const bool needs_weights = qn_dtype_weights_use(dtype) == QN_WEIGHTS_REQUIRED;
    for (int d = 0; d < TEST_N_DISTRIBUTIONS; d++) {
        for (int kind = needs_weights ? 1 : 0; kind < TEST_N_WEIGHTS; kind++) {
            parity_case c = {
                .dtype = dtype, .distribution = (test_distribution)d, .kind = (test_weights)kind};
            run_case(&c);
        }
    }
    run_random_blocks(dtype);
}

static bool load_peer(const char *path)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        printf("skipped: %s\n", dlerror());
        return false;
    }
    const struct {
        void *slot;
        const char *name;
    } symbols[] = {
        {&peer.traits, "ggml_get_type_traits"},     {&peer.quantize, "ggml_quantize_chunk"},
        {&peer.validate, "ggml_validate_row_data"}, {&peer.q8_1, "quantize_row_q8_1_ref"},
        {&peer.q8_k, "quantize_row_q8_K_ref"},
    };
    for (size_t i = 0; i < sizeof symbols / sizeof symbols[0]; i++) {
        void *symbol = dlsym(library, symbols[i].name);
        if (!symbol) {
            printf("skipped: %s has no %s\n", path, symbols[i].name);
            return false;
        }
        memcpy(symbols[i].slot, &symbol, sizeof symbol);
    }
    return true;
}

int main(int argc, char **argv)
{
    long n_rounds = 1;
    const char *only = NULL;
    rng.state = 1;
    for (int i = 2; i + 1 < argc; i += 2) {
        n_rounds = strcmp(argv[i], "-n") == 0 ? strtol(argv[i + 1], NULL, 10) : n_rounds;
        rng.state = strcmp(argv[i], "-s") == 0 ? strtoull(argv[i + 1], NULL, 0) : rng.state;
        only = strcmp(argv[i], "-t") == 0 ? argv[i + 1] : only;
    }
    if (argc < 2) {
        (void)fprintf(stderr, "usage: parity_codec LIBRARY [-n ROUNDS] [-s SEED] [-t TYPE]\n");
        return 2;
    }
    (void)setenv("GGML_NO_BACKTRACE", "1", 1);
    if (!load_peer(argv[1])) {
        return 77;
    }
    if (!freopen("/dev/null", "w", stderr)) {
        return 1;
    }
    printf("seed %llu, %ld rounds\n", (unsigned long long)rng.state, n_rounds);
    for (long round = 0; round < n_rounds; round++) {
        for (int id = 0; id < QN_DTYPE_LIMIT; id++) {
            const qn_dtype dtype = (qn_dtype)id;
            if (!qn_has_encoder(dtype) || (only && strcmp(only, qn_dtype_name(dtype)) != 0)) {
                continue;
            }
            const int64_t n_before = total.n_blocks;
            run_type(dtype);
            if (n_rounds == 1) {
                printf("%-8s %8lld blocks\n", qn_dtype_name(dtype),
                       (long long)(total.n_blocks - n_before));
            }
            (void)fflush(stdout);
        }
        if (n_rounds > 1) {
            printf("round %ld: %lld blocks, %lld differing\n", round + 1, (long long)total.n_blocks,
                   (long long)total.n_differing);
        }
    }
    printf("%lld blocks compared, %lld differing; %lld rows on which both refuse; %lld verdicts; "
           "%lld failures\n",
           (long long)total.n_blocks, (long long)total.n_differing, (long long)total.n_aborts,
           (long long)total.n_verdicts, (long long)total.n_failures);
    return total.n_failures > 0 || total.n_blocks == 0;
}
