/* check_kernels.c [STRIDE [SEED]] — every encode and decode kernel of kernels.def against the
 * scalar referee of its type: all distributions and weights, block counts around the vector widths,
 * one and several rows, unaligned buffers, guard pages at both ends.
 *
 * Kernels of instruction sets that this machine lacks are counted as skipped. The scalar kernels
 * run too: against themselves, but between guard pages. No test library, so that it can be linked
 * statically and run under an emulator. The last line is "N passed, N failed, N skipped". */
#include "codec/codec.h"
#include "support/inputs.h"

static const int64_t block_counts[] = {1, 2, 15, 16, 17, 31, 33};
enum { N_COUNTS = 7, N_BLOCKS_MAX = 33, N_ROWS_MAX = 2 };

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

static bool check_decode(const qni_kernel_row *row)
{
    const qni_decode_fn referee = qni_kernel_decode(row->dtype, QN_ISA_SCALAR);
    for (int round = 0; round < 40 * N_COUNTS; round += (int)stride) {
        const int64_t n_blocks = block_counts[round % N_COUNTS];
        const placement where = placements[round / N_COUNTS % 4];
        const size_t n_elems = (size_t)(n_blocks * qn_dtype_block_elems(row->dtype));
        const size_t n_bytes = (size_t)(n_blocks * qn_dtype_block_bytes(row->dtype));
        uint8_t *blocks = place(&buffers.blocks, n_bytes, where);
        float *out = (float *)place(&buffers.x, 4 * n_elems, (placement){where.at_end, 0});
        for (size_t i = 0; i < n_bytes; i++) { /* any bytes are a block */
            blocks[i] = (uint8_t)test_next(&rng);
        }
        referee(blocks, n_blocks, buffers.want_floats);
        memset(out, 0x5a, 4 * n_elems);
        row->kernel.decode(blocks, n_blocks, out);
        if (!same_floats(buffers.want_floats, out, n_elems)) {
            return fail(row, "other floats than the referee's", n_blocks);
        }
    }
    return true;
}

int main(int argc, char **argv)
{
    stride = argc > 1 ? strtol(argv[1], NULL, 10) : 1;
    stride = stride < 1 ? 1 : stride;
    rng.state = argc > 2 ? strtoull(argv[2], NULL, 0) : 20240607;
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
        if (row->operation != QNI_OP_encode && row->operation != QNI_OP_decode) {
            continue;
        }
        if (!qn_isa_is_available(row->isa)) {
            printf("skipped %s: no %s here\n", row->symbol, qn_isa_name(row->isa));
            n_skipped++;
            continue;
        }
        const bool is_good =
            row->operation == QNI_OP_encode ? check_encode(row) : check_decode(row);
        n_passed += is_good;
        n_failed += !is_good;
    }
    printf("%d passed, %d failed, %d skipped\n", n_passed, n_failed, n_skipped);
    return n_failed > 0 || n_passed == 0;
}
