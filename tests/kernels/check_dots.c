/* check_dots.c [STRIDE [ISA]] — every product kernel of kernels.def: integer parts against 64-bit
 * sums over what the decoders give, float parts against binary64, every tile the same bits as a
 * tile of one; operands between guard pages. Kernels over tiles also give the bits of the kernel
 * over rows of their instruction set, if there is one. The products of gradients (spread) likewise:
 * against binary64, in any tile the same bits.
 *
 * Kernels of instruction sets that this machine lacks are counted as skipped. No test library, so
 * that it can be linked statically and run under an emulator; STRIDE thins the cases out, ISA names
 * the only instruction set to check. The last line is "N passed, N failed, N skipped". */
#include <stdio.h>

#include "codec/codec.h"
#include "support/inputs.h"

enum { MAX_ELEMS = 2048, MAX_ROWS = 67, MAX_COLS = 515 };

static const uint64_t seed = 0x243f6a8885a308d3u;
static test_rng rng;
static int stride = 1;

static void fill_random(void *bytes, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        ((uint8_t *)bytes)[i] = (uint8_t)test_next(&rng);
    }
}

static _Noreturn void give_up(const char *what)
{
    printf("check_dots: %s (seed %" PRIx64 ")\n", what, seed);
    exit(1);
}

static void must(bool is_true, const char *what)
{
    if (!is_true) {
        give_up(what);
    }
}

/* --- one kernel ----------------------------------------------------------------------------------
 */

static test_guarded guarded_w;
static test_guarded guarded_a;

static int64_t row_bytes(qn_dtype dtype, int64_t n)
{
    int64_t n_bytes = 0;
    must(qn_dtype_row_bytes(dtype, n, &n_bytes, NULL) == QN_OK, "row bytes");
    return n_bytes;
}

static qni_arrange_fn arrange_of(const qni_kernel_row *row)
{
    const qni_kernel_row *other;
    for (int i = 0; (other = qni_kernel_row_at(i)) != NULL; i++) {
        if (other->operation == QNI_OP_arrange && other->dtype == row->dtype &&
            other->isa == row->isa) {
            return other->kernel.arrange;
        }
    }
    return NULL;
}

/* Rows at the ends of pages that cannot be touched. */
static void run_rows(const qni_kernel_row *row, const qni_dot_tile *t)
{
    qni_dot_tile tile = *t;
    const size_t n_w = (size_t)(t->n_rows * row_bytes(row->dtype, t->n_elems));
    const size_t n_a = (size_t)(t->n_cols * row_bytes(qni_dot_activation(row->dtype), t->n_elems));
    tile.w = guarded_w.end - n_w;
    tile.a = guarded_a.end - n_a;
    memcpy(guarded_w.end - n_w, t->w, n_w);
    memcpy(guarded_a.end - n_a, t->a, n_a);
    row->kernel.dot(&tile);
}

/* Packed and arranged, then the same. */
static void run_tiles(const qni_kernel_row *row, const qni_dot_tile *t)
{
    const qni_arrange_fn arrange = arrange_of(row);
    if (!arrange || !row->kernel.dot_tiles) {
        give_up("a kernel over tiles without one that arranges, or the other way round");
    }
    const int64_t n_groups = (t->n_rows + QNI_TILE_ROWS - 1) / QNI_TILE_ROWS;
    const int64_t n_chunks = (t->n_elems + 255) / 256;
    qni_dot_tile tile = *t;
    tile.w_stride = qni_tile_bytes(row->dtype, t->n_elems);
    tile.a_stride = t->n_cols * QNI_COLUMN_BYTES;
    uint8_t *w = guarded_w.end - n_groups * tile.w_stride;
    uint8_t *a = guarded_a.end - n_chunks * tile.a_stride;
    for (int64_t g = 0; g < n_groups; g++) {
        const int64_t first = g * QNI_TILE_ROWS;
        qni_tile_pack(row->dtype, t->w + first * t->w_stride, t->w_stride,
                      qni_min_i64(QNI_TILE_ROWS, t->n_rows - first), t->n_elems,
                      w + g * tile.w_stride);
    }
    for (int64_t c = 0; c < t->n_cols; c++) {
        arrange(t->a + c * t->a_stride, t->n_elems, a + c * QNI_COLUMN_BYTES, tile.a_stride);
    }
    tile.w = w;
    tile.a = a;
    row->kernel.dot_tiles(&tile);
}

/* In pairs of rows, columns as they are. */
static void run_pairs(const qni_kernel_row *row, const qni_dot_tile *t)
{
    qni_dot_tile tile = *t;
    tile.w_stride = qni_q4_kx2mmla_bytes(row->dtype, t->n_elems);
    const int64_t n_a = t->n_cols * row_bytes(qni_dot_activation(row->dtype), t->n_elems);
    uint8_t *w = guarded_w.end - (t->n_rows + 1) / 2 * tile.w_stride;
    uint8_t *a = guarded_a.end - n_a;
    for (int64_t r = 0; r < t->n_rows; r += 2) {
        qni_q4_kx2mmla_pack(row->dtype, t->w + r * t->w_stride, t->w_stride,
                            qni_min_i64(2, t->n_rows - r), t->n_elems, w + r / 2 * tile.w_stride);
    }
    memcpy(a, t->a, (size_t)n_a);
    tile.w = w;
    tile.a = a;
    row->kernel.dot_kx2mmla(&tile);
}

static void run_kernel(const qni_kernel_row *row, const qni_dot_tile *tile)
{
    if (row->operation == QNI_OP_dot_tiles) {
        run_tiles(row, tile);
    } else if (row->operation == QNI_OP_dot_kx2mmla) {
        run_pairs(row, tile);
    } else {
        run_rows(row, tile);
    }
}

/* --- integers ------------------------------------------------------------------------------------
 */

static void set_f16(uint8_t *block, size_t at, uint16_t bits)
{
    qni_store_u16le(block + at, bits);
}

/* Scales that make all products integers or eighths of them. */
static void set_unit_scales(qn_dtype dtype, uint8_t *block)
{
    const uint16_t one = 0x3c00;
    switch (dtype) {
    case QN_DTYPE_Q2_K:
        set_f16(block, offsetof(qni_block_q2_k, d), one);
        set_f16(block, offsetof(qni_block_q2_k, dmin), one);
        break;
    case QN_DTYPE_Q3_K:
        set_f16(block, offsetof(qni_block_q3_k, d), one);
        break;
    case QN_DTYPE_Q6_K:
        set_f16(block, offsetof(qni_block_q6_k, d), one);
        break;
    case QN_DTYPE_TQ1_0:
        set_f16(block, offsetof(qni_block_tq1_0, d), one);
        break;
    case QN_DTYPE_TQ2_0:
        set_f16(block, offsetof(qni_block_tq2_0, d), one);
        break;
    case QN_DTYPE_MXFP4:
        block[0] = 128;
        break;
    case QN_DTYPE_NVFP4: /* 1, 2, 0.5, 16 */
        memcpy(block, (const uint8_t[]){0x40, 0x48, 0x38, 0x60}, 4);
        break;
    case QN_DTYPE_IQ1_M:
        for (size_t w = 0; w < 4; w++) {
            uint8_t *word = block + offsetof(qni_block_iq1_m, scales) + 2 * w;
            const uint32_t low = qni_load_u16le(word) & 0x0fffu;
            qni_store_u16le(word, (uint16_t)(low | (one >> (4 * w) & 15u) << 12));
        }
        break;
    case QN_DTYPE_Q4_1:
    case QN_DTYPE_Q5_1:
    case QN_DTYPE_Q4_K:
    case QN_DTYPE_Q5_K:
        set_f16(block, 2, one);
        set_f16(block, 0, one);
        break;
    default:
        set_f16(block, 0, one);
        break;
    }
}

static int64_t sum_16(const int8_t *q)
{
    int64_t sum = 0;
    for (int i = 0; i < 16; i++) {
        sum += q[i];
    }
    return sum;
}

/* One block of activations with scale 1 and levels -127..127; the levels go to `levels`. */
static void unit_activations(qn_dtype dtype, bool is_extreme, uint8_t *block, int8_t *levels)
{
    const int64_t n = qn_dtype_block_elems(dtype);
    for (int64_t i = 0; i < n; i++) {
        levels[i] = (int8_t)(test_below(&rng, 255) - 127);
        if (is_extreme) {
            levels[i] = test_below(&rng, 8) ? 127 : -127;
        }
    }
    if (dtype == QN_DTYPE_Q8_K) {
        qni_block_q8_k *b = (qni_block_q8_k *)block;
        qni_store_f32le(b->d, 1.0f);
        memcpy(b->qs, levels, 256);
        for (int j = 0; j < 16; j++) {
            qni_store_u16le(b->bsums + 2 * j, (uint16_t)sum_16(levels + 16 * j));
        }
        return;
    }
    set_f16(block, 0, 0x3c00);
    if (dtype == QN_DTYPE_Q8_1) { /* sums up to 2048 are exact in f16 */
        int64_t sum = sum_16(levels) + sum_16(levels + 16);
        for (int i = 0; sum > 2048 || sum < -2048; i++) {
            sum -= levels[i];
            levels[i] = 0;
        }
        set_f16(block, 2, qni_f16_from_f32((float)sum));
        memcpy(block + 4, levels, 32);
        return;
    }
    memcpy(block + 2, levels, 32);
}

/* One row, one block: the product is one exact integer (or eighths). */
static bool check_integers(const qni_kernel_row *row)
{
    const qn_dtype partner = qni_dot_activation(row->dtype);
    if (partner == QN_DTYPE_F32) {
        return true;
    }
    const int64_t n = qn_dtype_block_elems(row->dtype);
    const int64_t n_act = qn_dtype_block_elems(partner);
    uint8_t w[300];
    uint8_t a[8 * 300];
    int8_t levels[QNI_SUPER] = {0};
    float decoded[QNI_SUPER] = {0};
    for (int round = 0; round < 3000; round += stride) {
        fill_random(w, qn_dtype_block_bytes(row->dtype));
        if (round % 8 == 0) { /* the largest sums */
            memset(w, round % 16 == 0 ? 0xff : 0, sizeof w);
        }
        set_unit_scales(row->dtype, w);
        for (int64_t i = 0; i < n / n_act; i++) {
            unit_activations(partner, round % 4 == 0, a + i * qn_dtype_block_bytes(partner),
                             levels + i * n_act);
        }
        must(qn_decode_isa(row->dtype, QN_ISA_SCALAR, w, 1, decoded, NULL) == QN_OK, "decode");
        int64_t eighths = 0;
        int64_t magnitude = 0;
        for (int64_t i = 0; i < n; i++) {
            const int64_t code = (int64_t)(decoded[i] * 8.0f);
            must((float)code == decoded[i] * 8.0f, "a code is no eighth");
            eighths += code * levels[i];
            magnitude += code * levels[i] < 0 ? -code * levels[i] : code * levels[i];
        }
        float y = -1.0f;
        const qni_dot_tile tile = {w, 0, 1, a, 0, 1, n, &y, 1};
        run_kernel(row, &tile);
        /* exact while a float can hold every part of it; and then within its rounding */
        const double off = fabs((double)y - (double)(float)((double)eighths / 8.0));
        const double bound = magnitude < 1 << 24 ? 0.0 : (double)magnitude * 0x1p-24;
        if (!(off <= bound)) {
            printf("FAIL %s: %.9g instead of %.9g (seed %" PRIx64 ", round %d)\n", row->symbol,
                   (double)y, (double)eighths / 8.0, seed, round);
            return false;
        }
    }
    return true;
}

/* --- floats --------------------------------------------------------------------------------------
 */

typedef struct workspace {
    float *x;      /* MAX_COLS rows */
    float *w;      /* MAX_ROWS rows */
    uint8_t *a;    /* quantized x */
    uint8_t *wq;   /* quantized w */
    float *x_back; /* what a and wq mean */
    float *w_back;
    float *y;
    float *y_rows; /* of the kernel over rows */
} workspace;

static void quantize(qn_dtype dtype, const float *x, int64_t n_rows, int64_t n, uint8_t *out,
                     float *back)
{
    static float ones[MAX_ELEMS];
    for (int i = 0; i < MAX_ELEMS; i++) {
        ones[i] = 1.0f;
    }
    const float *weights = qn_dtype_weights_use(dtype) == QN_WEIGHTS_REQUIRED ? ones : NULL;
    must(qn_encode_rows(dtype, x, n_rows, n, weights, NULL, out, n_rows * row_bytes(dtype, n),
                        NULL) == QN_OK,
         "encode");
    must(qn_decode(dtype, out, n_rows * n / qn_dtype_block_elems(dtype), back, NULL) == QN_OK,
         "decode");
}

/* The sum that q8_1 stores is rounded to f16: what a minimum meets. */
static double stored_sum_error(qn_dtype dtype, const workspace *ws, int64_t r, int64_t c, int64_t n)
{
    if (dtype != QN_DTYPE_Q4_1 && dtype != QN_DTYPE_Q5_1) {
        return 0.0;
    }
    const int64_t n_w = qn_dtype_block_bytes(dtype);
    double error = 0.0;
    for (int64_t b = 0; b < n / 32; b++) {
        const qni_block_q8_1 *a = (const qni_block_q8_1 *)(ws->a + (c * n / 32 + b) * 36);
        const double m =
            (double)qni_f16_to_f32(qni_load_u16le(ws->wq + (r * n / 32 + b) * n_w + 2));
        double sum = 0.0;
        for (int i = 0; i < 32; i++) {
            sum += (double)ws->x_back[c * n + 32 * b + i];
        }
        error += m * ((double)qni_f16_to_f32(qni_load_u16le(a->s)) - sum);
    }
    return error;
}

static bool is_product(const qni_kernel_row *row, const workspace *ws, int64_t r, int64_t c,
                       int64_t n, float y)
{
    double sum = stored_sum_error(row->dtype, ws, r, c, n);
    double magnitude = 0.0;
    for (int64_t k = 0; k < n; k++) {
        const double term = (double)ws->w_back[r * n + k] * (double)ws->x_back[c * n + k];
        sum += term;
        magnitude += fabs(term);
    }
    /* types with minima subtract two larger sums than their difference */
    const double bound = 4e-6 * magnitude + 1e-30;
    if (fabs((double)y - sum) <= bound) {
        return true;
    }
    printf("FAIL %s: row %" PRId64 ", column %" PRId64 " of %" PRId64
           " elements is %.9g instead of %.9g, off by %.2e of the terms (seed %" PRIx64 ")\n",
           row->symbol, r, c, n, (double)y, sum, fabs((double)y - sum) / magnitude, seed);
    return false;
}

/* The kernel over rows that the same machine would use, if it does the same sequence of float
 * operations: the referees of a few types do another, and so do kernels of floats. */
static qni_dot_fn twin_of(const qni_kernel_row *row)
{
    const qni_dot_fn twin = qni_kernel_dot(row->dtype, row->isa);
    if (qni_dot_activation(row->dtype) == QN_DTYPE_F32) {
        return NULL;
    }
    return twin == qni_kernel_dot(row->dtype, QN_ISA_SCALAR) ? NULL : twin;
}

static bool fail(const qni_kernel_row *row, const char *what, const qni_dot_tile *t)
{
    printf("FAIL %s: %s (%" PRId64 " rows, %" PRId64 " columns, %" PRId64 " elements, seed %" PRIx64
           ")\n",
           row->symbol, what, t->n_rows, t->n_cols, t->n_elems, seed);
    return false;
}

/* Outputs of all columns, and untouched ones between them. */
static bool check_outputs(const qni_kernel_row *row, const workspace *ws, const qni_dot_tile *t)
{
    for (int64_t c = 0; c < t->n_cols; c++) {
        /* every product of small tiles, some of large ones */
        const int64_t step = t->n_cols > 20 ? 5 : 1;
        for (int64_t r = c % step; r < t->n_rows; r += step) {
            if (!is_product(row, ws, r, c, t->n_elems, t->y[c * t->y_stride + r])) {
                return false;
            }
        }
        for (int64_t r = t->n_rows; r < t->y_stride; r++) {
            if (t->y[c * t->y_stride + r] != 4321.0f) {
                return fail(row, "a write past the rows", t);
            }
        }
    }
    return true;
}

static bool check_shape(const qni_kernel_row *row, const workspace *ws, int64_t n_rows,
                        int64_t n_cols, int64_t n)
{
    const qn_dtype partner = qni_dot_activation(row->dtype);
    test_fill(&rng, TEST_GAUSSIAN, ws->x, n_cols * n);
    test_fill(&rng, TEST_GAUSSIAN, ws->w, n_rows * n);
    if (row->operation == QNI_OP_dot_tiles && partner == QN_DTYPE_F32) { /* bf16 numbers only */
        quantize(QN_DTYPE_BF16, ws->x, n_cols, n, ws->a, ws->x_back);
        memcpy(ws->x, ws->x_back, sizeof(float) * (size_t)(n_cols * n));
    }
    quantize(row->dtype, ws->w, n_rows, n, ws->wq, ws->w_back);
    quantize(partner, ws->x, n_cols, n, ws->a, ws->x_back);
    if (partner ==
        QN_DTYPE_F32) { /* activations that stay floats are this machine's, not a file's */
        memcpy(ws->a, ws->x, sizeof(float) * (size_t)(n_cols * n));
    }
    const int64_t n_w = row_bytes(row->dtype, n);
    const int64_t n_a = row_bytes(partner, n);
    for (int64_t i = 0; i < n_cols * (n_rows + 3); i++) {
        ws->y[i] = 4321.0f;
    }
    const qni_dot_tile tile = {ws->wq, n_w, n_rows, ws->a, n_a, n_cols, n, ws->y, n_rows + 3};
    run_kernel(row, &tile);
    if (!check_outputs(row, ws, &tile)) {
        return false;
    }
    const int64_t r = test_below(&rng, n_rows);
    const int64_t c = test_below(&rng, n_cols);
    float y = 0.0f;
    const qni_dot_tile one = {ws->wq + r * n_w, n_w, 1, ws->a + c * n_a, n_a, 1, n, &y, 1};
    run_kernel(row, &one);
    if (qni_f32_bits(y) != qni_f32_bits(ws->y[c * tile.y_stride + r])) {
        return fail(row, "other bits in a tile of one", &tile);
    }
    const qni_dot_fn twin = row->operation == QNI_OP_dot_tiles ? twin_of(row) : NULL;
    if (!twin) {
        return true;
    }
    memcpy(ws->y_rows, ws->y, (size_t)(n_cols * tile.y_stride) * sizeof(float));
    twin(&tile);
    return memcmp(ws->y_rows, ws->y, (size_t)(n_cols * tile.y_stride) * sizeof(float)) == 0 ||
           fail(row, "other bits than the kernel over rows", &tile);
}

static bool check_floats(const qni_kernel_row *row, const workspace *ws)
{
    static const int64_t col_counts[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 17, 33, 64, 65, 512};
    static const int64_t row_counts[] = {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 65};
    const int64_t n_block = qn_dtype_block_elems(row->dtype);
    for (size_t i = 0; i < sizeof col_counts / sizeof col_counts[0]; i += (size_t)stride) {
        const int64_t n_max = col_counts[i] > 100 ? 512 : 1024;
        const int64_t n = n_block * (1 + test_below(&rng, n_max / n_block));
        if (!check_shape(row, ws, 1 + test_below(&rng, 19), col_counts[i], n)) {
            return false;
        }
    }
    for (size_t i = 0; i < sizeof row_counts / sizeof row_counts[0]; i += (size_t)stride) {
        const int64_t n = n_block * (1 + test_below(&rng, 1 + 1024 / n_block));
        if (!check_shape(row, ws, row_counts[i], 1 + (int64_t)(i % 11), n)) {
            return false;
        }
    }
    return true;
}

/* --- the product of gradients --------------------------------------------------------------------
 */

/* Rows of w and s at the ends of pages that cannot be touched; y in between others. */
static void run_spread(const qni_kernel_row *row, const qni_spread_tile *t)
{
    qni_spread_tile tile = *t;
    const size_t n_w = (size_t)((t->n_rows - 1) * t->w_stride + t->n_elems);
    const size_t n_s = (size_t)((t->n_cols - 1) * t->s_stride + t->n_rows);
    float *w = (float *)(void *)guarded_w.end - n_w;
    float *s = (float *)(void *)guarded_a.end - n_s;
    memcpy(w, t->w, n_w * sizeof *w);
    memcpy(s, t->s, n_s * sizeof *s);
    tile.w = w;
    tile.s = s;
    row->kernel.spread(&tile);
}

static bool is_gradient(const qni_kernel_row *row, const qni_spread_tile *t, int64_t c, int64_t k,
                        float start)
{
    double sum = (double)start;
    double magnitude = fabs(sum);
    for (int64_t r = 0; r < t->n_rows; r++) {
        const double term = (double)t->s[c * t->s_stride + r] * (double)t->w[r * t->w_stride + k];
        sum += term;
        magnitude += fabs(term);
    }
    const float y = t->y[c * t->y_stride + k];
    if (fabs((double)y - sum) <= 4e-6 * magnitude + 1e-30) {
        return true;
    }
    printf("FAIL %s: element %" PRId64 " of column %" PRId64 " is %.9g instead of %.9g (%" PRId64
           " rows, %" PRId64 " columns, %" PRId64 " elements, seed %" PRIx64 ")\n",
           row->symbol, k, c, (double)y, sum, t->n_rows, t->n_cols, t->n_elems, seed);
    return false;
}

static bool check_spread_shape(const qni_kernel_row *row, const workspace *ws, int64_t n_rows,
                               int64_t n_cols, int64_t n)
{
    qni_spread_tile tile = {ws->w, n + 3, n_rows, ws->x, n_rows + 2, n_cols, n, ws->y, n + 5};
    float *start = ws->y_rows;
    test_fill(&rng, TEST_GAUSSIAN, ws->w, n_rows * tile.w_stride);
    test_fill(&rng, TEST_GAUSSIAN, ws->x, n_cols * tile.s_stride);
    test_fill(&rng, TEST_GAUSSIAN, ws->y, n_cols * tile.y_stride);
    memcpy(start, ws->y, (size_t)(n_cols * tile.y_stride) * sizeof *start);
    run_spread(row, &tile);
    for (int64_t i = 0; i < n_cols * tile.y_stride; i++) {
        const int64_t k = i % tile.y_stride;
        const bool is_good = k < n ? is_gradient(row, &tile, i / tile.y_stride, k, start[i])
                                   : qni_f32_bits(ws->y[i]) == qni_f32_bits(start[i]);
        if (!is_good) {
            printf("FAIL %s: element %" PRId64 " of rows of %" PRId64 "\n", row->symbol, k, n);
            return false;
        }
    }
    const int64_t c = test_below(&rng, n_cols);
    const int64_t k = test_below(&rng, n);
    float y = start[c * tile.y_stride + k];
    const qni_spread_tile one = {
        ws->w + k, tile.w_stride, n_rows, ws->x + c * tile.s_stride, 0, 1, 1, &y, 1};
    run_spread(row, &one);
    if (qni_f32_bits(y) != qni_f32_bits(ws->y[c * tile.y_stride + k])) {
        printf("FAIL %s: other bits in a tile of one\n", row->symbol);
        return false;
    }
    return true;
}

static bool check_spread(const qni_kernel_row *row, const workspace *ws)
{
    static const int64_t elem_counts[] = {1,  7,  8,  15, 16, 17,  31, 32,
                                          48, 63, 64, 65, 80, 129, 512};
    for (size_t i = 0; i < sizeof elem_counts / sizeof elem_counts[0]; i += (size_t)stride) {
        for (int64_t n_cols = 1; n_cols <= 20; n_cols += stride > 1 ? 3 : 1) {
            const int64_t n_rows = 1 + test_below(&rng, MAX_ROWS);
            if (!check_spread_shape(row, ws, n_rows, n_cols, elem_counts[i])) {
                return false;
            }
        }
    }
    return true;
}

static bool check_kernel(const qni_kernel_row *row, const workspace *ws)
{
    if (row->operation == QNI_OP_spread) {
        return check_spread(row, ws);
    }
    return check_integers(row) && check_floats(row, ws);
}

static workspace new_workspace(void)
{
    const size_t n_x = (size_t)MAX_COLS * MAX_ELEMS;
    const size_t n_w = (size_t)MAX_ROWS * MAX_ELEMS;
    const size_t n_y = (size_t)MAX_COLS * (MAX_ROWS + 3);
    const workspace ws = {
        .x = malloc(4 * n_x),
        .w = malloc(4 * n_w),
        .a = malloc(4 * n_x),
        .wq = malloc(4 * n_w),
        .x_back = malloc(4 * n_x),
        .w_back = malloc(4 * n_w),
        .y = malloc(4 * n_y),
        .y_rows = malloc(4 * n_y),
    };
    must(ws.x && ws.w && ws.a && ws.wq && ws.x_back && ws.w_back && ws.y && ws.y_rows, "memory");
    return ws;
}

static void free_workspace(const workspace *ws)
{
    free(ws->x);
    free(ws->w);
    free(ws->a);
    free(ws->wq);
    free(ws->x_back);
    free(ws->w_back);
    free(ws->y);
    free(ws->y_rows);
}

/* In the program whose AVX-512 kernels are plain C (plain_avx512/) they run anywhere. */
static bool can_run(qn_isa isa)
{
#ifdef CHECK_PLAIN_AVX512
    if (isa == QN_ISA_AVX512 || isa == QN_ISA_AVX512_VNNI || isa == QN_ISA_AVX512_BF16) {
        return true;
    }
#endif
    return qn_isa_is_available(isa);
}

int main(int argc, char **argv)
{
    stride = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 1;
    stride = stride < 1 ? 1 : stride;
    const char *only = argc > 2 ? argv[2] : NULL;
    guarded_w = test_guarded_new((size_t)4 * MAX_ROWS * MAX_ELEMS);
    guarded_a = test_guarded_new((size_t)4 * MAX_COLS * MAX_ELEMS);
    const workspace ws = new_workspace();
    int n_passed = 0, n_failed = 0, n_skipped = 0;
    const qni_kernel_row *row;
    for (int i = 0; (row = qni_kernel_row_at(i)) != NULL; i++) {
        if (row->operation != QNI_OP_dot && row->operation != QNI_OP_dot_tiles &&
            row->operation != QNI_OP_dot_kx2mmla && row->operation != QNI_OP_spread) {
            continue;
        }
        if (only && strcmp(qn_isa_name(row->isa), only) != 0) {
            continue;
        }
        if (!can_run(row->isa)) {
            printf("skipped %s: no %s here\n", row->symbol, qn_isa_name(row->isa));
            n_skipped++;
            continue;
        }
        rng.state = seed;
        const bool is_good = check_kernel(row, &ws);
        n_passed += is_good;
        n_failed += !is_good;
    }
    printf("%d passed, %d failed, %d skipped\n", n_passed, n_failed, n_skipped);
    free_workspace(&ws);
    test_guarded_free(&guarded_w);
    test_guarded_free(&guarded_a);
    return n_failed > 0 || n_passed < (only ? 1 : 28);
}
