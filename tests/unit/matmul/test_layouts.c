/* test_layouts.c — packed layouts: every byte where its description says, packing undone without
 * loss, products the same bits in all of them. */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include "matmul/matmul.h"

#include <cmocka.h>

#include "support/inputs.h"

static test_rng rng = {0x082efa98ec4e6c89u};

static void fill_random(uint8_t *bytes, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        bytes[i] = (uint8_t)test_next(&rng);
    }
}

/* --- levels and scales of blocks, as docs/formats and the decoders have them ---------------------
 */

/* The level of element e: what the decoder gives with scales of one. */
static int level_of(qn_dtype dtype, const uint8_t *block, int e)
{
    const uint8_t *b = block;
    switch (dtype) {
    case QN_DTYPE_Q8_0:
        return (int8_t)b[2 + e];
    case QN_DTYPE_Q4_K:
        return e % 64 < 32 ? b[16 + e / 64 * 32 + e % 32] & 15 : b[16 + e / 64 * 32 + e % 32] >> 4;
    case QN_DTYPE_Q5_K: {
        const int low = b[48 + e / 64 * 32 + e % 32];
        return (e % 64 < 32 ? low & 15 : low >> 4) | (b[16 + e % 32] >> (e / 32) & 1) << 4;
    }
    default: { /* q6_K */
        const int half = e / 128;
        const int low = b[64 * half + e % 64];
        const int high = b[128 + 32 * half + e % 32] >> (e % 128 / 32 * 2) & 3;
        return ((e % 128 < 64 ? low & 15 : low >> 4) | high << 4) - 32;
    }
    }
}

static int scale_of_sub(const uint8_t *block, int j)
{
    const uint8_t *t = block + 4;
    return j < 4 ? t[j] & 63 : (t[j + 4] & 15) | t[j - 4] >> 6 << 4;
}

static int minimum_of_sub(const uint8_t *block, int j)
{
    const uint8_t *t = block + 4;
    return j < 4 ? t[j + 4] & 63 : t[j + 4] >> 4 | t[j] >> 6 << 4;
}

/* --- the layouts, byte by byte -------------------------------------------------------------------
 */

enum { N_BLOCKS = 3 };

typedef struct rows_case {
    qn_dtype dtype;
    int n_group;
    int64_t n_block_bytes;
    int64_t n_row_bytes;
    uint8_t rows[16 * N_BLOCKS * 210];
    uint8_t group[20 * 1024];
} rows_case;

static const uint8_t *block_at(const rows_case *t, int c, int b)
{
    return t->rows + c * t->n_row_bytes + b * t->n_block_bytes;
}

static void make_rows(rows_case *t, qn_dtype dtype, int n_group)
{
    t->dtype = dtype;
    t->n_group = n_group;
    t->n_block_bytes = qn_dtype_block_bytes(dtype);
    t->n_row_bytes = N_BLOCKS * t->n_block_bytes;
    fill_random(t->rows, n_group * t->n_row_bytes);
    memset(t->group, 0x5a, sizeof t->group);
}

static void expect_fields_of_q45(const rows_case *t, const uint8_t *g, int c, const uint8_t *block)
{
    const int n = t->n_group;
    assert_memory_equal(g + 2 * c, block, 2);
    assert_memory_equal(g + 2 * n + 2 * c, block + 2, 2);
    for (int j = 0; j < 8; j++) {
        assert_int_equal(g[4 * n + j * n + c], scale_of_sub(block, j));
        assert_int_equal(g[12 * n + j * n + c], minimum_of_sub(block, j));
    }
}

static void q8_0x4_is_136_bytes_of_4_rows(void **state)
{
    (void)state;
    rows_case t;
    make_rows(&t, QN_DTYPE_Q8_0, 4);
    assert_int_equal(qni_q8_0x4_bytes(t.dtype, 32 * N_BLOCKS), 136 * N_BLOCKS);
    qni_q8_0x4_pack(t.dtype, t.rows, t.n_row_bytes, 4, 32 * N_BLOCKS, t.group);
    for (int b = 0; b < N_BLOCKS; b++) {
        const uint8_t *g = t.group + 136 * b;
        for (int c = 0; c < 4; c++) {
            assert_memory_equal(g + 2 * c, block_at(&t, c, b), 2);
            for (int fg = 0; fg < 8; fg++) {
                for (int lane = 0; lane < 4; lane++) {
                    assert_int_equal((int8_t)g[8 + fg * 16 + c * 4 + lane],
                                     level_of(t.dtype, block_at(&t, c, b), 4 * fg + lane));
                }
            }
        }
    }
}

static void q4_kx8_is_1184_bytes_of_8_rows(void **state)
{
    (void)state;
    rows_case t;
    make_rows(&t, QN_DTYPE_Q4_K, 8);
    assert_int_equal(qni_q4_kx8_bytes(t.dtype, 256 * N_BLOCKS), 1184 * N_BLOCKS);
    qni_q4_kx8_pack(t.dtype, t.rows, t.n_row_bytes, 8, 256 * N_BLOCKS, t.group);
    for (int b = 0; b < N_BLOCKS; b++) {
        const uint8_t *g = t.group + 1184 * b;
        for (int c = 0; c < 8; c++) {
            const uint8_t *block = block_at(&t, c, b);
            expect_fields_of_q45(&t, g, c, block);
            for (int pair = 0; pair < 4; pair++) {
                for (int i = 0; i < 32; i++) { /* the byte of the file as it is */
                    assert_int_equal(g[160 + pair * 256 + i / 4 * 32 + c * 4 + i % 4],
                                     block[16 + 32 * pair + i]);
                }
            }
        }
    }
}

static void q4_kx2mmla_is_552_bytes_of_2_rows(void **state)
{
    (void)state;
    rows_case t;
    make_rows(&t, QN_DTYPE_Q4_K, 2);
    assert_int_equal(qni_q4_kx2mmla_bytes(t.dtype, 256 * N_BLOCKS), 552 * N_BLOCKS);
    qni_q4_kx2mmla_pack(t.dtype, t.rows, t.n_row_bytes, 2, 256 * N_BLOCKS, t.group);
    for (int b = 0; b < N_BLOCKS; b++) {
        const uint8_t *g = t.group + 552 * b;
        for (int c = 0; c < 2; c++) {
            const uint8_t *block = block_at(&t, c, b);
            expect_fields_of_q45(&t, g, c, block);
            for (int sub = 0; sub < 8; sub++) {
                for (int half = 0; half < 2; half++) {
                    const uint8_t *base = g + 40 + sub * 64 + half * 32;
                    for (int i = 0; i < 8; i++) { /* c0 0..7, c1 0..7, c0 8..15, c1 8..15 */
                        const int e = 32 * sub + 16 * half + i;
                        assert_int_equal(base[8 * c + i], level_of(t.dtype, block, e));
                        assert_int_equal(base[16 + 8 * c + i], level_of(t.dtype, block, e + 8));
                    }
                }
            }
        }
    }
}

static void q5_kx8_is_2208_bytes_of_8_rows(void **state)
{
    (void)state;
    rows_case t;
    make_rows(&t, QN_DTYPE_Q5_K, 8);
    assert_int_equal(qni_q5_kx8_bytes(t.dtype, 256 * N_BLOCKS), 2208 * N_BLOCKS);
    qni_q5_kx8_pack(t.dtype, t.rows, t.n_row_bytes, 8, 256 * N_BLOCKS, t.group);
    for (int b = 0; b < N_BLOCKS; b++) {
        const uint8_t *g = t.group + 2208 * b;
        for (int c = 0; c < 8; c++) {
            const uint8_t *block = block_at(&t, c, b);
            expect_fields_of_q45(&t, g, c, block);
            for (int sub = 0; sub < 8; sub++) {
                for (int i = 0; i < 32; i++) {
                    assert_int_equal(g[160 + sub * 256 + i / 4 * 32 + c * 4 + i % 4],
                                     level_of(t.dtype, block, 32 * sub + i));
                }
            }
        }
    }
}

static void q6_kx4_is_1096_bytes_of_4_rows(void **state)
{
    (void)state;
    rows_case t;
    make_rows(&t, QN_DTYPE_Q6_K, 4);
    assert_int_equal(qni_q6_kx4_bytes(t.dtype, 256 * N_BLOCKS), 1096 * N_BLOCKS);
    qni_q6_kx4_pack(t.dtype, t.rows, t.n_row_bytes, 4, 256 * N_BLOCKS, t.group);
    for (int b = 0; b < N_BLOCKS; b++) {
        const uint8_t *g = t.group + 1096 * b;
        for (int c = 0; c < 4; c++) {
            const uint8_t *block = block_at(&t, c, b);
            assert_memory_equal(g + 2 * c, block + 208, 2);
            for (int sg = 0; sg < 16; sg++) {
                assert_int_equal(g[8 + sg * 4 + c], block[192 + sg]);
                for (int i = 0; i < 16; i++) {
                    assert_int_equal((int8_t)g[72 + sg * 64 + i / 4 * 16 + c * 4 + i % 4],
                                     level_of(t.dtype, block, 16 * sg + i));
                }
            }
        }
    }
}

/* bf16: pairs of elements of 16 rows; the last sub-block is continued with zeros. q4_0: 8 scales of
 * 16 rows, then sub-blocks of 4 vectors; q6_K: a scale, 16 factors, zeros, then sub-blocks of 4 + 2
 * vectors. */
static void tiles_are_planes_of_16_rows(void **state)
{
    (void)state;
    enum { K = 256 + 96 };
    static uint8_t rows[16 * 11 * 18];
    static uint8_t tile[16 * 11 * 18 + 64];
    fill_random(rows, sizeof rows);
    assert_int_equal(qni_tile_bytes(QN_DTYPE_Q4_0, K), 256 + 8 * 256 + 128 + 3 * 256);
    qni_tile_pack(QN_DTYPE_Q4_0, rows, 11 * 18, 16, K, tile);
    for (int r = 0; r < 16; r++) {
        for (int b = 0; b < 11; b++) {
            const uint8_t *block = rows + r * 11 * 18 + b * 18;
            const uint8_t *chunk = tile + (b < 8 ? 0 : 256 + 8 * 256);
            const uint8_t *sub = chunk + (b < 8 ? 256 : 128) + b % 8 * 256;
            assert_memory_equal(chunk + 32 * (b % 8) + 2 * r, block, 2);
            for (int e = 0; e < 32; e++) {
                const int level = e < 16 ? block[2 + e] & 15 : block[2 + e - 16] >> 4;
                const int byte = sub[64 * (e / 4 % 4) + 4 * r + e % 4];
                assert_int_equal(e / 4 < 4 ? byte & 15 : byte >> 4, level);
            }
        }
    }
    enum { ODD = 45 };
    assert_int_equal(qni_tile_bytes(QN_DTYPE_BF16, ODD), 2 * 1024);
    qni_tile_pack(QN_DTYPE_BF16, rows, 2 * ODD, 16, ODD, tile);
    for (int r = 0; r < 16; r++) {
        for (int e = 0; e < 64; e++) {
            const uint8_t *value = tile + 64 * (e / 2) + 4 * r + 2 * (e % 2);
            assert_memory_equal(value, e < ODD ? rows + 2 * (r * ODD + e) : (const uint8_t *)"\0",
                                2);
        }
    }
    rows_case t;
    make_rows(&t, QN_DTYPE_Q6_K, 16);
    static uint8_t wide[16 * N_BLOCKS * 212];
    assert_int_equal(qni_tile_bytes(QN_DTYPE_Q6_K, 256), 320 + 8 * 384);
    qni_tile_pack(QN_DTYPE_Q6_K, t.rows, t.n_row_bytes, 16, 256, wide);
    for (int r = 0; r < 16; r++) {
        const uint8_t *block = block_at(&t, r, 0);
        assert_memory_equal(wide + 2 * r, block + 208, 2);
        for (int j = 0; j < 16; j++) {
            assert_int_equal(wide[32 + 16 * j + r], block[192 + j]);
        }
        for (int e = 0; e < 256; e++) {
            const uint8_t *sub = wide + 320 + e / 32 * 384 + 4 * r + e % 4;
            const int g = e % 32 / 4;
            const int low = g < 4 ? sub[64 * g] & 15 : sub[64 * (g - 4)] >> 4;
            const int high = sub[256 + 64 * (g / 4)] >> (2 * (g % 4)) & 3;
            assert_int_equal((low | high << 4) - 32, level_of(QN_DTYPE_Q6_K, block, e));
        }
    }
}

/* --- all of them ---------------------------------------------------------------------------------
 */

static const qn_layout all_layouts[] = {QN_LAYOUT_ROWS,       QN_LAYOUT_TILES,  QN_LAYOUT_Q8_0X4,
                                        QN_LAYOUT_Q4_KX8,     QN_LAYOUT_Q5_KX8, QN_LAYOUT_Q6_KX4,
                                        QN_LAYOUT_Q4_KX2MMLA, QN_LAYOUT_DEFAULT};

/* Any bytes come back, also from a group with rows missing. */
static void packing_is_undone(void **state)
{
    (void)state;
    enum { N_MAX = 16, K = 768 };
    static uint8_t rows[N_MAX * K * 2];
    static uint8_t back[N_MAX * K * 2 + 1];
    static uint8_t group[N_MAX * K * 4];
    int n_cases = 0;
    for (int id = 0; id < QN_DTYPE_LIMIT; id++) {
        const qn_dtype dtype = (qn_dtype)id;
#define QN_LAYOUT(symbol, name, n_group_rows, prefix)                             \
    for (int n = 1; prefix##_fits(dtype) && n <= (n_group_rows); n++) {           \
        const int n_block = (int)qn_dtype_block_elems(dtype);                     \
        for (int k = 256; k <= K; k += 256 + (n_block < 256 ? 3 * n_block : 0)) { \
            int64_t n_row = 0;                                                    \
            assert_int_equal(qn_dtype_row_bytes(dtype, k, &n_row, NULL), QN_OK);  \
            fill_random(rows, n *n_row);                                          \
            memset(back, 0xa5, sizeof back);                                      \
            assert_true(prefix##_bytes(dtype, k) <= (int64_t)sizeof group);       \
            prefix##_pack(dtype, rows, n_row, n, k, group);                       \
            prefix##_unpack(dtype, group, n, k, back, n_row);                     \
            assert_memory_equal(rows, back, (size_t)(n * n_row));                 \
            assert_int_equal(back[n * n_row], 0xa5);                              \
            n_cases++;                                                            \
        }                                                                         \
    }
#include "kernels/layouts.def"
#undef QN_LAYOUT
    }
    assert_true(n_cases > 300);
}

/* The same bits; but the referee's terms of iq4_xs are those of sub-blocks, and where rows have no
 * other kernel it meets tiles that have terms of blocks. */
static void expect_same(qn_dtype dtype, qn_isa isa, const float *want, const float *got, int64_t n)
{
    const bool is_referee = qni_kernel_dot(dtype, isa) == qni_kernel_dot(dtype, QN_ISA_SCALAR);
    if (dtype != QN_DTYPE_IQ4_XS || !is_referee) {
        assert_memory_equal(want, got, (size_t)n * sizeof *got);
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        assert_true(fabsf(want[i] - got[i]) <= 1e-4f * (1.0f + fabsf(want[i])));
    }
}

static void products_do_not_depend_on_the_layout(void **state)
{
    (void)state;
    enum { N = 37, K = 768, M_MAX = 40 };
    static const int64_t row_counts[] = {1, 2, 7, 8, 9, 40};
    static float x[M_MAX * K];
    static float w[N * K];
    static float want[M_MAX * N];
    static float got[M_MAX * N];
    static uint8_t blocks[N * K * 2];
    static const qn_isa isas[] = {QN_ISA_SCALAR, QN_ISA_AVX2, QN_ISA_BEST};
    test_fill(&rng, TEST_GAUSSIAN, x, M_MAX * K);
    test_fill(&rng, TEST_GAUSSIAN, w, N * K);
    int n_cases = 0;
    for (size_t i = 0; i < sizeof isas / sizeof isas[0]; i++) {
        qn_compute_options options = QN_COMPUTE_OPTIONS_INIT;
        options.isa = isas[i];
        options.n_threads = 2;
        qn_compute *compute = NULL;
        assert_int_equal(qn_compute_new(&options, &compute, NULL), QN_OK);
        for (int id = 0; id < QN_DTYPE_LIMIT; id++) {
            const qn_dtype dtype = (qn_dtype)id;
            if (!qni_tile_fits(dtype)) {
                continue;
            }
            qn_rhs rhs = {.dtype = dtype, .n_out = N, .n_in = K, .data = blocks};
            const int64_t ne[2] = {K, N};
            assert_int_equal(qn_dtype_tensor_bytes(dtype, ne, 2, &rhs.n_bytes, NULL), QN_OK);
            assert_int_equal(qn_encode_rows(dtype, w, N, K, NULL, NULL, blocks, rhs.n_bytes, NULL),
                             QN_OK);
            for (size_t l = 0; l < sizeof all_layouts / sizeof all_layouts[0]; l++) {
                qn_packed *packed = NULL;
                if (qn_pack(compute, &rhs, all_layouts[l], &packed, NULL) != QN_OK) {
                    assert_true(all_layouts[l] >= QN_LAYOUT_Q8_0X4);
                    continue;
                }
                assert_true(all_layouts[l] == QN_LAYOUT_DEFAULT ||
                            qn_packed_layout(packed) == all_layouts[l]);
                for (size_t m = 0; m < sizeof row_counts / sizeof row_counts[0]; m++) {
                    const int64_t n_rows = row_counts[m];
                    memset(got, 0, sizeof got);
                    assert_int_equal(qn_matmul(compute, &rhs, x, n_rows, want, NULL), QN_OK);
                    assert_int_equal(qn_matmul_packed(compute, packed, x, n_rows, got, NULL),
                                     QN_OK);
                    expect_same(dtype, isas[i], want, got, n_rows * N);
                    n_cases++;
                }
                qn_packed_free(packed);
            }
        }
        qn_compute_free(compute);
    }
    assert_true(n_cases >= 3 * 6 * (14 * 3 + 5));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(q8_0x4_is_136_bytes_of_4_rows),
        cmocka_unit_test(q4_kx8_is_1184_bytes_of_8_rows),
        cmocka_unit_test(q4_kx2mmla_is_552_bytes_of_2_rows),
        cmocka_unit_test(q5_kx8_is_2208_bytes_of_8_rows),
        cmocka_unit_test(q6_kx4_is_1096_bytes_of_4_rows),
        cmocka_unit_test(tiles_are_planes_of_16_rows),
        cmocka_unit_test(packing_is_undone),
        cmocka_unit_test(products_do_not_depend_on_the_layout),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
