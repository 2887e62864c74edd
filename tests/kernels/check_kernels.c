/* check_kernels.c [--stride N] [--seed N] [--isa NAME] [--filter TEXT] [--without TEXT] — every
 * encode and decode kernel of kernels.def against the scalar referee of its type: all distributions
 * and weights, block counts around the vector widths, one and several rows, unaligned buffers,
 * guard pages at both ends. Decoders get 20,000 random blocks besides.
 *
 * --stride N runs one case in N; --isa, --filter and --without leave out kernels of other
 * instruction sets, those whose symbol does not hold TEXT, and those whose symbol does. Kernels of
 * instruction sets that this machine lacks are counted as skipped. The scalar kernels run too:
 * against themselves, but between guard pages. No test library, so that it can be linked statically
 * and run under an emulator. The last line is "N passed, N failed, N skipped". */
#include "codec/codec.h"
#include "support/inputs.h"

static const int64_t block_counts[] = {1, 2, 15, 16, 17, 31, 33};
enum { N_COUNTS = 7, N_BLOCKS_MAX = 33, N_ROWS_MAX = 2, N_RANDOM_BLOCKS = 20000 };

/* Room for the largest case, on pages of its own. */
typedef struct check_buffers {
    test_guarded x;
    test_guarded weights;
    test_guarded blocks;
    float *want_floats;
    uint8_t *want_blocks;
} check_buffers;

static check_buffers buffers;
static test_rng rng;
static int64_t stride = 1;

static bool fail(const qni_kernel_row *row, const char *what, int64_t n_blocks)
{
    printf("FAIL %s: %s (%" PRId64 " blocks)\n", row->symbol, what, n_blocks);
    return false;
}

/* Where a case puts its buffers: against the guard page before or after them, and a shift in bytes
 * for the blocks. */
typedef struct placement {
    bool at_end;
    size_t shift;
} placement;

static const placement placements[] = {{true, 0}, {false, 0}, {false, 1}, {true, 3}};

static uint8_t *place(const test_guarded *buffer, size_t n_bytes, placement where)
{
    return where.at_end ? buffer->end - n_bytes - where.shift : buffer->first + where.shift;
}

static bool check_encode_case(const qni_kernel_row *row, const struct qni_lattice *tables,
                              test_distribution distribution, test_weights kind, int64_t n_rows,
                              int64_t n_blocks, placement where)
{
    const int64_t row_len = n_blocks * qn_dtype_block_elems(row->dtype);
    const size_t n_elems = (size_t)(n_rows * row_len);
    const size_t n_bytes = (size_t)(n_rows * n_blocks * qn_dtype_block_bytes(row->dtype));
    const placement whole = {where.at_end, 0}; /* floats stay aligned */
    float *x = (float *)place(&buffers.x, 4 * n_elems, whole);
    float *w = (float *)place(&buffers.weights, 4 * (size_t)row_len, whole);
    uint8_t *got = place(&buffers.blocks, n_bytes, where);
    test_fill(&rng, distribution, x, (int64_t)n_elems);
    const float *weights = test_fill_weights(&rng, kind, w, row_len);

    memset(buffers.want_blocks, 0xa5, n_bytes);
    memset(got, 0x5a, n_bytes);
    const qni_encode_fn referee = qni_kernel_encode(row->dtype, QN_ISA_SCALAR);
    const qni_encode_result want =
        referee(x, n_rows, row_len, weights, tables, buffers.want_blocks);
    const qni_encode_result result = row->kernel.encode(x, n_rows, row_len, weights, tables, got);
    if (result != want) {
        return fail(row, "another result than the referee's", n_blocks);
    }
    if (want != QNI_ENCODE_ABORT && memcmp(buffers.want_blocks, got, n_bytes) != 0) {
        printf("distribution %s, weights %s, %" PRId64 " rows\n",
               test_distribution_names[distribution], test_weights_names[kind], n_rows);
        return fail(row, "other bytes than the referee's", n_blocks);
    }
    return true;
}

static bool check_encode(const qni_kernel_row *row)
{
    const struct qni_lattice *tables = NULL;
    if (qni_codec_tables(row->dtype, &tables, NULL) != QN_OK) {
        return fail(row, "no search tables", 0);
    }
    const bool needs_weights = qn_dtype_weights_use(row->dtype) == QN_WEIGHTS_REQUIRED;
    int64_t n_cases = 0;
    for (int d = 0; d < TEST_N_DISTRIBUTIONS; d++) {
        for (int kind = needs_weights ? TEST_RANDOM_WEIGHTS : 0; kind < TEST_N_WEIGHTS; kind++) {
            /* Every count once; rows and places in turn, so that the slow searches stay bearable.
             */
            for (int c = 0; c < N_COUNTS; c++) {
                const placement where = placements[n_cases % 4];
                const int64_t n_rows = 1 + n_cases / 4 % N_ROWS_MAX;
                n_cases++;
                /* A slow one against itself: a third is enough. */
                const bool is_slow =
                    row->isa == QN_ISA_SCALAR && qn_dtype_block_elems(row->dtype) == QNI_SUPER;
                if (n_cases % (is_slow ? 3 * stride : stride) != 0) {
                    continue;
                }
                if (!check_encode_case(row, tables, (test_distribution)d, (test_weights)kind,
                                       n_rows, block_counts[c], where)) {
                    return false;
                }
            }
        }
    }
    return true;
}

/* Equal bits, or both NaN: which payload a product of two NaN gets is the machine's choice. */
static bool same_floats(const float *a, const float *b, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (qni_f32_bits(a[i]) != qni_f32_bits(b[i]) && !(isnan(a[i]) && isnan(b[i]))) {
            return false;
        }
    }
    return true;
}

/* What a decoder of this row must give, as bytes: the referee's floats, rounded by the referee's
 * encoder where the row rounds. Returns the bytes an element takes. */
static size_t want_decoded(const qni_kernel_row *row, const uint8_t *blocks, int64_t n_blocks)
{
    const int64_t n_elems = n_blocks * qn_dtype_block_elems(row->dtype);
    qni_kernel_decode(row->dtype, QN_ISA_SCALAR)(blocks, n_blocks, buffers.want_floats);
    if (row->operation == QNI_OP_decode) {
        return 4;
    }
    const qn_dtype to = row->operation == QNI_OP_decode_f16 ? QN_DTYPE_F16 : QN_DTYPE_BF16;
    (void)qni_kernel_encode(to, QN_ISA_SCALAR)(buffers.want_floats, 1, n_elems, NULL, NULL,
                                               buffers.want_blocks);
    return 2;
}

static void run_decoder(const qni_kernel_row *row, const uint8_t *blocks, int64_t n_blocks,
                        uint8_t *out)
{
    if (row->operation == QNI_OP_decode) {
        row->kernel.decode(blocks, n_blocks, (float *)(void *)out);
    } else if (row->operation == QNI_OP_decode_f16) {
        row->kernel.decode_f16(blocks, n_blocks, out);
    } else {
        row->kernel.decode_bf16(blocks, n_blocks, out);
    }
}

/* Equal bits, or both NaN: a product of two NaN may have the payload, a difference of infinities
 * the sign that the machine likes. */
static bool same_halves(const uint8_t *a, const uint8_t *b, size_t n, bool is_f16)
{
    const uint32_t infinity = is_f16 ? 0x7c00 : 0x7f80;
    for (size_t i = 0; i < n; i++) {
        const uint32_t x = qni_load_u16le(a + 2 * i);
        const uint32_t y = qni_load_u16le(b + 2 * i);
        if (x != y && ((x & 0x7fff) <= infinity || (y & 0x7fff) <= infinity)) {
            return false;
        }
    }
    return true;
}

static bool check_decode_case(const qni_kernel_row *row, const uint8_t *blocks, int64_t n_blocks,
                              bool at_end)
{
    const size_t n_elems = (size_t)(n_blocks * qn_dtype_block_elems(row->dtype));
    const size_t n_elem_bytes = want_decoded(row, blocks, n_blocks);
    uint8_t *out = place(&buffers.x, n_elem_bytes * n_elems, (placement){at_end, 0});
    memset(out, 0x5a, n_elem_bytes * n_elems);
    run_decoder(row, blocks, n_blocks, out);
    const bool is_same =
        row->operation == QNI_OP_decode
            ? same_floats(buffers.want_floats, (float *)(void *)out, n_elems)
            : same_halves(buffers.want_blocks, out, n_elems, row->operation == QNI_OP_decode_f16);
    return is_same || fail(row, "other values than the referee's", n_blocks);
}

/* --- from f16 and bf16
 * -----------------------------------------------------------------------------
 */

/* Decode and encode of the same bits; false if that meets what a direct encoder leaves to it. */
static bool want_encoded(const qni_kernel_row *row, qn_dtype from, const uint8_t *halves,
                         int64_t n_blocks)
{
    const int64_t n_elems = n_blocks * qn_dtype_block_elems(row->dtype);
    qni_kernel_decode(from, QN_ISA_SCALAR)(halves, n_elems, buffers.want_floats);
    for (int64_t i = 0; i < n_elems; i++) {
        if (!isfinite(buffers.want_floats[i])) {
            return false;
        }
    }
    return qni_kernel_encode(row->dtype, QN_ISA_SCALAR)(buffers.want_floats, 1, n_elems, NULL, NULL,
                                                        buffers.want_blocks) == QNI_ENCODE_OK;
}

/* *n_refused counts the cases that the kernel left to the long way. A refusal of what is plain is
 * only slow; of f16 nothing finite may be refused. */
static bool check_encode_from_case(const qni_kernel_row *row, const uint8_t *halves,
                                   int64_t n_blocks, placement where, int64_t *n_refused)
{
    const bool is_f16 = row->operation == QNI_OP_encode_from_f16;
    const size_t n_bytes = (size_t)(n_blocks * qn_dtype_block_bytes(row->dtype));
    const bool is_plain =
        want_encoded(row, is_f16 ? QN_DTYPE_F16 : QN_DTYPE_BF16, halves, n_blocks);
    uint8_t *got = place(&buffers.x, n_bytes, where);
    memset(got, 0x5a, n_bytes);
    const bool is_done = is_f16 ? row->kernel.encode_from_f16(halves, n_blocks, got)
                                : row->kernel.encode_from_bf16(halves, n_blocks, got);
    *n_refused += !is_done;
    if (is_done != is_plain && (is_done || is_f16)) {
        return fail(row, is_done ? "took what is not plain" : "refused what is plain", n_blocks);
    }
    return !is_done || memcmp(buffers.want_blocks, got, n_bytes) == 0 ||
           fail(row, "other bytes than decode and encode give", n_blocks);
}

/* Elements with what kernels trip over: any bits; small numbers only, many of the same magnitude;
 * all around one exponent; zeros of both signs; one infinity or NaN. */
static void fill_halves(uint8_t *halves, size_t n, int kind, bool is_f16)
{
    const uint32_t infinity = is_f16 ? 0x7c00 : 0x7f80;
    const uint32_t exponent = (uint32_t)test_next(&rng) % infinity;
    for (size_t i = 0; i < n; i++) {
        const uint32_t bits = (uint32_t)test_next(&rng);
        const uint32_t sign = bits & 0x8000;
        const uint32_t finite = (bits & 0x7fff) % infinity;
        const uint32_t near = (exponent + (bits >> 16) % 0x800) % infinity;
        const uint32_t choices[] = {bits & 0xffff, sign | finite,       sign | (finite & 3),
                                    sign | near,   sign | (near & ~7u), sign};
        qni_store_u16le(halves + 2 * i, (uint16_t)choices[kind < 6 ? kind : 1]);
    }
    if (kind == 6) {
        const size_t at = (size_t)(test_next(&rng) % n);
        qni_store_u16le(halves + 2 * at, (uint16_t)(infinity + test_next(&rng) % 2));
    }
}

static bool check_encode_from(const qni_kernel_row *row)
{
    enum { N_KINDS = 7 };
    const int64_t n_block_elems = qn_dtype_block_elems(row->dtype);
    const bool is_f16 = row->operation == QNI_OP_encode_from_f16;
    int64_t n_refused = 0;
    int64_t n_cases = 0;
    for (int64_t round = 0; round < 400 * N_KINDS; round += stride, n_cases++) {
        const int64_t n_blocks = block_counts[round / N_KINDS % N_COUNTS];
        const size_t n = (size_t)(n_blocks * n_block_elems);
        const placement where = placements[n_cases % 4];
        uint8_t *halves = place(&buffers.blocks, 2 * n, where);
        fill_halves(halves, n, (int)(round % N_KINDS), is_f16);
        if (!check_encode_from_case(row, halves, n_blocks, where, &n_refused)) {
            return false;
        }
    }
    /* every f16 and bf16 that is finite, beside its neighbours */
    uint8_t *halves = buffers.blocks.end - 2 * n_block_elems;
    for (uint32_t first = 0; first < 0x10000; first += (uint32_t)n_block_elems, n_cases++) {
        for (uint32_t i = 0; i < (uint32_t)n_block_elems; i++) {
            qni_store_u16le(halves + 2 * i, (uint16_t)(first + i));
        }
        if (!check_encode_from_case(row, halves, 1, (placement){true, 0}, &n_refused)) {
            return false;
        }
    }
    return (n_refused > 0 && n_refused < n_cases) || fail(row, "refused all or nothing", n_refused);
}

static void fill_bytes(uint8_t *bytes, size_t n) /* any bytes are a block */
{
    for (size_t i = 0; i < n; i++) {
        bytes[i] = (uint8_t)test_next(&rng);
    }
}

static bool check_decode(const qni_kernel_row *row)
{
    const size_t n_block_bytes = (size_t)qn_dtype_block_bytes(row->dtype);
    for (int round = 0; round < 40 * N_COUNTS; round += (int)stride) {
        const int64_t n_blocks = block_counts[round % N_COUNTS];
        const placement where = placements[round / N_COUNTS % 4];
        uint8_t *blocks = place(&buffers.blocks, (size_t)n_blocks * n_block_bytes, where);
        fill_bytes(blocks, (size_t)n_blocks * n_block_bytes);
        if (!check_decode_case(row, blocks, n_blocks, where.at_end)) {
            return false;
        }
    }
    const int64_t n_random = N_RANDOM_BLOCKS / stride;
    for (int64_t done = 0; done < n_random; done += N_BLOCKS_MAX) {
        uint8_t *blocks = buffers.blocks.end - N_BLOCKS_MAX * n_block_bytes;
        fill_bytes(blocks, N_BLOCKS_MAX * n_block_bytes);
        if (!check_decode_case(row, blocks, N_BLOCKS_MAX, true)) {
            return false;
        }
    }
    return true;
}

/* --- all of them --------------------------------------------------------------------------------
 */

typedef struct check_options {
    uint64_t seed;
    qn_isa isa;         /* QN_ISA_BEST: all */
    const char *filter; /* a part of the symbol */
    const char *without;
} check_options;

static bool read_options(int argc, char **argv, check_options *options)
{
    for (int i = 1; i < argc; i += 2) {
        const char *value = i + 1 < argc ? argv[i + 1] : NULL;
        if (value && strcmp(argv[i], "--stride") == 0) {
            stride = strtol(value, NULL, 10);
        } else if (value && strcmp(argv[i], "--seed") == 0) {
            options->seed = strtoull(value, NULL, 0);
        } else if (value && strcmp(argv[i], "--filter") == 0) {
            options->filter = value;
        } else if (value && strcmp(argv[i], "--without") == 0) {
            options->without = value;
        } else if (!value || strcmp(argv[i], "--isa") != 0 ||
                   qn_isa_from_name(value, &options->isa, NULL) != QN_OK) {
            printf("usage: check_kernels [--stride N] [--seed N] [--isa NAME] "
                   "[--filter TEXT] [--without TEXT]\n");
            return false;
        }
    }
    stride = stride < 1 ? 1 : stride;
    return true;
}

/* In the program whose AVX-512 kernels are plain C (plain_avx512/) they run anywhere. */
static bool can_run(qn_isa isa)
{
#ifdef CHECK_PLAIN_AVX512
    if (isa == QN_ISA_AVX512) {
        return true;
    }
#endif
    return qn_isa_is_available(isa);
}

typedef bool (*checker)(const qni_kernel_row *row);

/* NULL: such kernels are checked elsewhere. */
static checker checker_of(qni_operation operation)
{
    static const checker checkers[QNI_N_OPERATIONS] = {
        [QNI_OP_encode] = check_encode,
        [QNI_OP_encode_from_f16] = check_encode_from,
        [QNI_OP_encode_from_bf16] = check_encode_from,
        [QNI_OP_decode] = check_decode,
        [QNI_OP_decode_f16] = check_decode,
        [QNI_OP_decode_bf16] = check_decode,
    };
    return checkers[operation];
}

static bool is_wanted(const qni_kernel_row *row, const check_options *options)
{
    return checker_of(row->operation) &&
           (options->isa == QN_ISA_BEST || row->isa == options->isa) &&
           strstr(row->symbol, options->filter) &&
           !(options->without && strstr(row->symbol, options->without));
}

int main(int argc, char **argv)
{
    check_options options = {20240607, QN_ISA_BEST, "", NULL};
    if (!read_options(argc, argv, &options)) {
        return 2;
    }
    rng.state = options.seed;
    printf("seed %llu\n", (unsigned long long)rng.state);
    const size_t n_elems = (size_t)N_ROWS_MAX * N_BLOCKS_MAX * QNI_SUPER;
    buffers.x = test_guarded_new(4 * n_elems);
    buffers.weights = test_guarded_new(4 * n_elems);
    buffers.blocks = test_guarded_new(8 * n_elems + 8);
    buffers.want_floats = malloc(4 * n_elems);
    buffers.want_blocks = malloc(8 * n_elems);
    int n_passed = 0, n_failed = 0, n_skipped = 0;
    const qni_kernel_row *row;
    for (int i = 0; (row = qni_kernel_row_at(i)) != NULL; i++) {
        if (!is_wanted(row, &options)) {
            continue;
        }
        if (!can_run(row->isa)) {
            printf("skipped %s: no %s here\n", row->symbol, qn_isa_name(row->isa));
            n_skipped++;
            continue;
        }
        const bool is_good = checker_of(row->operation)(row);
        n_passed += is_good;
        n_failed += !is_good;
    }
    printf("%d passed, %d failed, %d skipped\n", n_passed, n_failed, n_skipped);
    return n_failed > 0 || n_passed == 0;
}
