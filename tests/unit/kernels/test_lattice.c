/* test_lattice.c — the search tables of the lattice types against a plain sort of all points, and
 * the lists without dominated points against the whole lists. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <float.h>

#include "kernels/lattice_internal.h"

static const qn_dtype types[QNI_LATTICE_COUNT] = {
    [QNI_LATTICE_IQ1] = QN_DTYPE_IQ1_S,       [QNI_LATTICE_IQ2_XXS] = QN_DTYPE_IQ2_XXS,
    [QNI_LATTICE_IQ2_XS] = QN_DTYPE_IQ2_XS,   [QNI_LATTICE_IQ2_S] = QN_DTYPE_IQ2_S,
    [QNI_LATTICE_IQ3_XXS] = QN_DTYPE_IQ3_XXS, [QNI_LATTICE_IQ3_S] = QN_DTYPE_IQ3_S,
};

/* Counted with ggml's own rule by another program: cells off the grid, entries of all lists, the
 * shortest and the longest list. */
static const int32_t facts[QNI_LATTICE_COUNT][4] = {
    [QNI_LATTICE_IQ1] = {4513, 327721, 12, 205},   [QNI_LATTICE_IQ2_XXS] = {6305, 113157, 2, 150},
    [QNI_LATTICE_IQ2_XS] = {6049, 181721, 2, 292}, [QNI_LATTICE_IQ2_S] = {5537, 44716, 1, 70},
    [QNI_LATTICE_IQ3_XXS] = {3840, 18985, 2, 36},  [QNI_LATTICE_IQ3_S] = {3584, 24733, 3, 38},
};

static const struct qni_lattice *tables_of(int kind, void **out_memory)
{
    *out_memory = malloc(qni_lattice_bytes(types[kind]));
    assert_non_null(*out_memory);
    return qni_lattice_build(types[kind], *out_memory);
}

static int32_t level_of(const qni_codebook *book, uint32_t packed, int32_t k)
{
    return (int32_t)(packed >> (book->level_bits * k)) & ((1 << book->level_bits) - 1);
}

static void unpack_cell(const qni_codebook *book, int32_t cell, int32_t *levels)
{
    for (int32_t k = 0; k < book->n_dims; k++, cell /= book->n_levels) {
        levels[k] = cell % book->n_levels;
    }
}

static int compare_keys(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a;
    const uint32_t y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

/* All points as distance * 4096 + index, sorted. */
static void sort_points(const qni_codebook *book, int32_t cell, uint32_t *keys)
{
    int32_t levels[8];
    unpack_cell(book, cell, levels);
    for (int32_t j = 0; j < book->n_points; j++) {
        int32_t sum = 0;
        for (int32_t k = 0; k < book->n_dims; k++) {
            const int32_t d = 2 * (level_of(book, book->points[j], k) - levels[k]);
            sum += d * d;
        }
        keys[j] = (uint32_t)sum * 4096 + (uint32_t)j;
    }
    qsort(keys, (size_t)book->n_points, sizeof *keys, compare_keys);
}

static int32_t count_shells(const qni_codebook *book, const uint32_t *keys)
{
    int32_t n_shells = 0;
    for (int32_t j = 0; j < book->n_points; j++) {
        if (j == 0 || keys[j] / 4096 != keys[j - 1] / 4096) {
            if (n_shells++ == book->n_shells) {
                return j;
            }
        }
    }
    return book->n_points;
}

static void lists_are_those_of_a_sort(void **state)
{
    (void)state;
    static uint32_t keys[QNI_LATTICE_MAX_POINTS];
    for (int kind = 0; kind < QNI_LATTICE_COUNT; kind++) {
        void *memory;
        const struct qni_lattice *tables = tables_of(kind, &memory);
        const qni_codebook *book = tables->book;
        int32_t found[4] = {0, 0, INT32_MAX, 0};
        for (int32_t c = 0; c < book->n_cells; c++) {
            const qni_lattice_cell *cell = &tables->cells[c];
            sort_points(book, c, keys);
            if (keys[0] < 4096) { /* at distance 0: the cell is a point */
                assert_int_equal(cell->n_full, 0);
                assert_int_equal(cell->full_at, keys[0]);
                assert_int_equal(cell->pruned_at, book->points[keys[0]]);
                assert_int_equal(qni_lattice_cell_of(tables, cell->pruned_at), c);
                assert_int_equal(qni_lattice_index_of(tables, cell->pruned_at), keys[0]);
                continue;
            }
            const uint16_t *list = tables->lists + (size_t)cell->full_at * QNI_LATTICE_PAD;
            assert_int_equal(cell->n_full, count_shells(book, keys));
            for (int32_t i = 0; i < cell->n_full; i++) {
                assert_int_equal(list[i], book->points[keys[i] % 4096]);
            }
            found[0]++;
            found[1] += cell->n_full;
            found[2] = cell->n_full < found[2] ? cell->n_full : found[2];
            found[3] = cell->n_full > found[3] ? cell->n_full : found[3];
        }
        assert_memory_equal(found, facts[kind], sizeof found);
        free(memory);
    }
}

static uint64_t seed = 6;

static float random_unit(void)
{
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (float)(seed >> 40) * 0x1p-24f;
}

static int32_t first_nearest(const qni_codebook *book, const uint16_t *list, int32_t n, float scale,
                             const float *x, const float *w)
{
    int32_t at = -1;
    float least = FLT_MAX;
    for (int32_t i = 0; i < n; i++) {
        float distance = 0.0f;
        for (int32_t k = 0; k < book->n_dims; k++) {
            const float e = scale * (float)(2 * level_of(book, list[i], k) + 1) - x[k];
            distance += w[k] * e * e;
        }
        if (distance < least) {
            least = distance;
            at = i;
        }
    }
    return at;
}

/* For positions anywhere inside of a cell (and beyond its outer side where it has one), with any
 * weights, dropping the dominated points changes nothing. */
static void dominated_points_never_win(void **state)
{
    (void)state;
    int64_t n_dropped = 0;
    for (int kind = 0; kind < QNI_LATTICE_COUNT; kind++) {
        void *memory;
        const struct qni_lattice *tables = tables_of(kind, &memory);
        const qni_codebook *book = tables->book;
        for (int32_t c = 0; c < book->n_cells; c++) {
            const qni_lattice_cell *cell = &tables->cells[c];
            if (cell->n_full == 0) {
                continue;
            }
            n_dropped += cell->n_full - cell->n_pruned;
            int32_t levels[8];
            unpack_cell(book, c, levels);
            for (int trial = 0; trial < 8; trial++) {
                const float scale = 0.01f + random_unit();
                float x[8];
                float w[8];
                for (int32_t k = 0; k < book->n_dims; k++) {
                    float off = 1.998f * (random_unit() - 0.5f);
                    if (levels[k] == 0 && random_unit() < 0.2f) {
                        off -= 4.0f * random_unit();
                    } else if (levels[k] == book->n_levels - 1 && random_unit() < 0.2f) {
                        off += 4.0f * random_unit();
                    }
                    x[k] = scale * ((float)(2 * levels[k] + 1) + off);
                    w[k] = trial & 1 ? random_unit() : (float)(int)(3.0f * random_unit());
                }
                const uint16_t *full = tables->lists + (size_t)cell->full_at * QNI_LATTICE_PAD;
                const uint16_t *few = tables->lists + (size_t)cell->pruned_at * QNI_LATTICE_PAD;
                const int32_t a = first_nearest(book, full, cell->n_full, scale, x, w);
                const int32_t b = first_nearest(book, few, cell->n_pruned, scale, x, w);
                assert_true(a >= 0 && b >= 0);
                assert_int_equal(full[a], few[b]);
            }
        }
        free(memory);
    }
    assert_true(n_dropped > 100000); /* else the test shows nothing */
}

static void other_types_have_no_tables(void **state)
{
    (void)state;
    assert_int_equal(qni_lattice_bytes(QN_DTYPE_Q4_K), 0);
    assert_int_equal(qni_lattice_bytes(QN_DTYPE_IQ4_XS), 0);
    assert_int_equal(qni_lattice_bytes(QN_DTYPE_IQ1_M), qni_lattice_bytes(QN_DTYPE_IQ1_S));
    assert_int_equal(qni_lattice_owner(QN_DTYPE_IQ1_M), QN_DTYPE_IQ1_S);
    assert_int_equal(qni_lattice_owner(QN_DTYPE_IQ3_S), QN_DTYPE_IQ3_S);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_are_those_of_a_sort),
        cmocka_unit_test(dominated_points_never_win),
        cmocka_unit_test(other_types_have_no_tables),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
