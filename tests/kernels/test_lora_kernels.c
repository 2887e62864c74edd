/* test_lora_kernels.c — the product of a low-rank update: every kernel against the scalar referee,
 * and the referee against the order of roundings that docs/formats/adapters.md gives. */
#define _DEFAULT_SOURCE 1 /* MAP_ANONYMOUS */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "kernels/kernels.h"
#include "support/inputs.h"

enum { MAX_ELEMS = 131, MAX_RANK = 17, MAX_COLS = 11 };

typedef struct lora_case {
    int64_t n_elems;
    int64_t rank;
    int64_t n_cols;
} lora_case;

static const lora_case cases[] = {{1, 1, 1},   {15, 3, 2},  {16, 1, 4},   {17, 16, 5}, {32, 17, 11},
                                  {47, 8, 3},  {64, 2, 7},  {131, 17, 9}, {128, 0, 4}, {0, 4, 4},
                                  {100, 5, 0}, {96, 16, 8}, {33, 17, 1},  {80, 7, 6}};
enum { N_CASES = sizeof cases / sizeof cases[0] };

/* Buffers end at a guard page, or begin at one. */
typedef struct lora_data {
    test_guarded w;
    test_guarded s;
    test_guarded y;
} lora_data;

static float *at_end(const test_guarded *buffer, int64_t n)
{
    return (float *)(void *)(buffer->end - (size_t)n * sizeof(float));
}

static qni_spread_tile tile_of(const lora_data *data, const lora_case *c)
{
    return (qni_spread_tile){.w = at_end(&data->w, c->rank * c->n_elems),
                             .w_stride = c->n_elems,
                             .n_rows = c->rank,
                             .s = at_end(&data->s, c->n_cols * c->rank),
                             .s_stride = c->rank,
                             .n_cols = c->n_cols,
                             .n_elems = c->n_elems,
                             .y = at_end(&data->y, c->n_cols * c->n_elems),
                             .y_stride = c->n_elems};
}

/* One product and one sum for each k, each rounded: volatile keeps a compiler from fusing them. */
static float by_definition(const qni_spread_tile *tile, const float *start, int64_t c, int64_t i)
{
    volatile float acc = start[c * tile->y_stride + i];
    for (int64_t k = 0; k < tile->n_rows; k++) {
        volatile float product = tile->s[c * tile->s_stride + k] * tile->w[k * tile->w_stride + i];
        acc = acc + product;
    }
    return acc;
}

static void check_kernel(const qni_kernel_row *row, const lora_data *data, const lora_case *c,
                         test_rng *rng, test_distribution distribution)
{
    static float start[MAX_COLS * MAX_ELEMS];
    const qni_spread_tile tile = tile_of(data, c);
    const int64_t n_y = c->n_cols * c->n_elems;
    test_fill(rng, distribution, at_end(&data->w, c->rank * c->n_elems), c->rank * c->n_elems);
    test_fill(rng, distribution, at_end(&data->s, c->n_cols * c->rank), c->n_cols * c->rank);
    test_fill(rng, TEST_GAUSSIAN, tile.y, n_y);
    memcpy(start, tile.y, (size_t)n_y * sizeof(float));
    row->kernel.lora(&tile);
    for (int64_t i = 0; i < n_y; i++) {
        const float want = by_definition(&tile, start, i / c->n_elems, i % c->n_elems);
        if (memcmp(&want, &tile.y[i], sizeof want) != 0) {
            fail_msg("%s: %lld x %lld of rank %lld: element %lld is %a, not %a", row->symbol,
                     (long long)c->n_cols, (long long)c->n_elems, (long long)c->rank, (long long)i,
                     (double)tile.y[i], (double)want);
        }
    }
}

static void every_kernel_rounds_each_step(void **state)
{
    (void)state;
    static const test_distribution distributions[] = {TEST_GAUSSIAN, TEST_SIXTEENTHS,
                                                      TEST_SUBNORMAL, TEST_OUTLIER};
    lora_data data = {test_guarded_new(MAX_RANK * MAX_ELEMS * sizeof(float)),
                      test_guarded_new(MAX_COLS * MAX_RANK * sizeof(float)),
                      test_guarded_new(MAX_COLS * MAX_ELEMS * sizeof(float))};
    test_rng rng = {14};
    int n_checked = 0;
    const qni_kernel_row *row = NULL;
    for (int i = 0; (row = qni_kernel_row_at(i)) != NULL; i++) {
        if (row->operation != QNI_OP_lora || !qn_isa_is_available(row->isa)) {
            continue;
        }
        for (int c = 0; c < N_CASES; c++) {
            for (size_t d = 0; d < sizeof distributions / sizeof distributions[0]; d++) {
                check_kernel(row, &data, &cases[c], &rng, distributions[d]);
            }
        }
        n_checked++;
    }
    assert_true(n_checked >= 1);
    test_guarded_free(&data.w);
    test_guarded_free(&data.s);
    test_guarded_free(&data.y);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kernel_rounds_each_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
