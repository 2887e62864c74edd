/* check_goldens.c FOLDER — every type against its golden vectors, both ways, on every instruction
 * set that this machine can run.
 *
 * No test library, so that it can be linked statically and run under an emulator. The last line is
 * "N passed, N failed, N skipped"; the exit status is 1 if anything failed or nothing ran. */
#include "quench/quench.h"
#include "support/inputs.h"

enum { N_ROWS = 8, ROW_LEN = 1024, N_ELEMS = N_ROWS * ROW_LEN, N_BYTES_MAX = 4 * N_ELEMS };

static const char *folder;
static int n_passed, n_failed, n_skipped;

static void report(bool is_good, const char *what, qn_dtype dtype, qn_isa isa)
{
    if (is_good) {
        n_passed++;
        return;
    }
    n_failed++;
    printf("FAIL %s %s %s\n", what, qn_dtype_name(dtype), qn_isa_name(isa));
}

/* FOLDER/name + suffix, name in lower case; the number of bytes read, or -1 without such a file. */
static int64_t read_golden(const char *name, const char *suffix, uint8_t *out)
{
    char path[1024];
    const int n = snprintf(path, sizeof path, "%s/%s%s", folder, name, suffix);
    for (char *c = path + n - strlen(name) - strlen(suffix); *c; c++) {
        *c = (char)(*c == 'K' ? 'k' : *c);
    }
    FILE *file = fopen(path, "rb");
    if (!file) {
        return -1;
    }
    const size_t n_read = fread(out, 1, N_BYTES_MAX, file);
    fclose(file);
    return (int64_t)n_read;
}

/* Little-endian floats of a file in this machine's order. */
static void read_floats(const char *name, float *out, int64_t n)
{
    static uint8_t bytes[N_BYTES_MAX];
    if (read_golden(name, ".f32", bytes) != 4 * n) {
        printf("FAIL %s/%s.f32 is missing or has another size\n", folder, name);
        exit(1);
    }
    for (int64_t i = 0; i < n; i++) {
        const uint8_t *b = bytes + 4 * i;
        out[i] = test_from_bits(b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 |
                                (uint32_t)b[3] << 24);
    }
}

static void check_encode(qn_dtype dtype, qn_isa isa, const float *x, const float *weights)
{
    static uint8_t want[N_BYTES_MAX];
    static uint8_t got[N_BYTES_MAX];
    const char *suffix = weights ? ".imat.bin" : ".bin";
    const int64_t n = read_golden(qn_dtype_name(dtype), suffix, want);
    if (n < 0) {
        n_skipped++;
        return;
    }
    qn_encode_options options = QN_ENCODE_OPTIONS_INIT;
    options.isa = isa;
    options.allow_overflow = true;
    qn_error err = QN_ERROR_INIT;
    const qn_status status =
        qn_encode_rows(dtype, x, N_ROWS, ROW_LEN, weights, &options, got, n, &err);
    if (status != QN_OK) {
        printf("%s\n", err.message);
    }
    report(status == QN_OK && memcmp(want, got, (size_t)n) == 0,
           weights ? "encode with weights" : "encode", dtype, isa);
}

static void check_decode(qn_dtype dtype, qn_isa isa)
{
    static uint8_t blocks[N_BYTES_MAX];
    static uint8_t bytes[N_BYTES_MAX];
    static float want[N_ELEMS];
    static float got[N_ELEMS];
    if (read_golden(qn_dtype_name(dtype), ".f32", bytes) < 0) {
        n_skipped++;
        return;
    }
    read_floats(qn_dtype_name(dtype), want, N_ELEMS);
    if (read_golden(qn_dtype_name(dtype), ".bin", blocks) < 0 &&
        read_golden(qn_dtype_name(dtype), ".imat.bin", blocks) < 0) {
        printf("FAIL no blocks for %s\n", qn_dtype_name(dtype));
        n_failed++;
        return;
    }
    const qn_status status =
        qn_decode_isa(dtype, isa, blocks, N_ELEMS / qn_dtype_block_elems(dtype), got, NULL);
    report(status == QN_OK && memcmp(want, got, sizeof want) == 0, "decode", dtype, isa);
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        (void)fprintf(stderr, "usage: check_goldens FOLDER\n");
        return 2;
    }
    folder = argv[1];
    static float x[N_ELEMS];
    static float weights[ROW_LEN];
    read_floats("inputs", x, N_ELEMS);
    read_floats("imatrix", weights, ROW_LEN);
    for (int i = 0; qn_isa_at(i) != QN_ISA_BEST; i++) {
        const qn_isa isa = qn_isa_at(i);
        if (!qn_isa_is_available(isa)) {
            continue;
        }
        for (int id = 0; id < QN_DTYPE_LIMIT; id++) {
            const qn_dtype dtype = (qn_dtype)id;
            if (qn_dtype_block_elems(dtype) == 0 || !qn_has_encoder(dtype) || id == QN_DTYPE_F32) {
                continue;
            }
            check_encode(dtype, isa, x, NULL);
            check_encode(dtype, isa, x, weights);
            check_decode(dtype, isa);
        }
    }
    printf("%d passed, %d failed, %d skipped\n", n_passed, n_failed, n_skipped);
    return n_failed > 0 || n_passed == 0;
}
