/* Every decoder of kernels.def that this machine can run against the scalar referee: all 32 bits of
 * every element, of blocks whose bytes are random (every pattern is legal input). */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include "kernels/kernels.h"

#include <cmocka.h>

#include "support/inputs.h"

enum { N_BLOCKS = 20000, N_SHORT = 19 };

static const uint64_t seed = 0x9e3779b97f4a7c15u; /* printed with each failure */
static test_rng rng;

static void fill_random(uint8_t *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        bytes[i] = (uint8_t)test_next(&rng);
    }
}

static void expect_equal(const qni_kernel_row *row, const float *want, const float *got,
                         int64_t n_elems, const char *what)
{
    if (memcmp(want, got, (size_t)n_elems * sizeof *want) == 0) {
        return;
    }
    for (int64_t i = 0; i < n_elems; i++) {
        const uint32_t w = qni_f32_bits(want[i]);
        const uint32_t g = qni_f32_bits(got[i]);
        if (w != g) {
            fail_msg("%s, %s: element %" PRId64 " is %08x, the referee gives %08x (seed %" PRIx64
                     ")",
                     row->symbol, what, i, g, w, seed);
        }
    }
}

typedef struct workspace {
    uint8_t *blocks;
    float *want;
    float *got;
} workspace;

static void random_blocks(const qni_kernel_row *row, qni_decode_fn referee, const workspace *w)
{
    const int64_t n_elems = qn_dtype_block_elems(row->dtype);
    const int64_t n_bytes = qn_dtype_block_bytes(row->dtype);
    const int64_t n_blocks = n_elems == 1 ? 65536 : N_BLOCKS;
    fill_random(w->blocks, (size_t)(n_blocks * n_bytes));
    if (n_bytes == 2 && n_elems == 1) { /* every 16-bit float */
        for (uint32_t i = 0; i < 65536; i++) {
            qni_store_u16le(w->blocks + 2 * i, (uint16_t)i);
        }
    }
    memset(w->blocks + n_bytes, 0, (size_t)n_bytes);
    memset(w->blocks + 2 * n_bytes, 0xff, (size_t)n_bytes);
    referee(w->blocks, n_blocks, w->want);
    row->kernel.decode(w->blocks, n_blocks, w->got);
    expect_equal(row, w->want, w->got, n_blocks * n_elems, "random blocks");
}

/* Few blocks at every address modulo 64, and outputs at every float of a vector: what lies round
 * the output must stay. */
static void short_and_unaligned(const qni_kernel_row *row, qni_decode_fn referee,
                                const workspace *w)
{
    const int64_t n_elems = qn_dtype_block_elems(row->dtype);
    const size_t n_bytes = (size_t)(N_SHORT * qn_dtype_block_bytes(row->dtype));
    for (int64_t n = 0; n <= N_SHORT; n++) {
        for (int shift = 0; shift < 64; shift += n_elems == 1 ? 1 : 7) {
            uint8_t *blocks = w->blocks + shift;
            fill_random(blocks, n_bytes);
            referee(blocks, n, w->want);
            float *out = w->got + 1 + shift % 16;
            out[-1] = 1234.5f;
            out[n * n_elems] = 1234.5f;
            row->kernel.decode(blocks, n, out);
            expect_equal(row, w->want, out, n * n_elems, "unaligned");
            assert_true(out[-1] == 1234.5f && out[n * n_elems] == 1234.5f);
        }
    }
}

/* Neither a byte outside the blocks is read nor one outside the output written. */
static void guard_pages(const qni_kernel_row *row, qni_decode_fn referee, const workspace *w)
{
    const int64_t n_elems = qn_dtype_block_elems(row->dtype);
    for (int64_t n = 1; n <= N_SHORT; n++) {
        const size_t n_in = (size_t)(n * qn_dtype_block_bytes(row->dtype));
        const size_t n_out = (size_t)(n * n_elems) * sizeof(float);
        test_guarded in = test_guarded_new(n_in);
        test_guarded out = test_guarded_new(n_out);
        for (int at_end = 0; at_end < 2; at_end++) {
            uint8_t *blocks = at_end ? in.end - n_in : in.first;
            float *got = (float *)(void *)(at_end ? out.end - n_out : out.first);
            fill_random(blocks, n_in);
            referee(blocks, n, w->want);
            row->kernel.decode(blocks, n, got);
            expect_equal(row, w->want, got, n * n_elems, "guard pages");
        }
        test_guarded_free(&in);
        test_guarded_free(&out);
    }
}

typedef void (*check_fn)(const qni_kernel_row *row, qni_decode_fn referee, const workspace *w);

static void for_each_decoder(check_fn check)
{
    const size_t n_floats = (size_t)N_BLOCKS * QNI_SUPER;
    workspace w = {malloc((size_t)N_BLOCKS * 300), malloc(n_floats * sizeof(float)),
                   malloc(n_floats * sizeof(float))};
    assert_true(w.blocks && w.want && w.got);
    rng.state = seed;
    int n_checked = 0;
    for (int i = 0; qni_kernel_row_at(i); i++) {
        const qni_kernel_row *row = qni_kernel_row_at(i);
        if (row->operation != QNI_OP_decode || row->isa == QN_ISA_SCALAR) {
            continue;
        }
        if (!qn_isa_is_available(row->isa)) {
            printf("skipped: %s, this machine has no %s\n", row->symbol, qn_isa_name(row->isa));
            continue;
        }
        check(row, qni_kernel_decode(row->dtype, QN_ISA_SCALAR), &w);
        n_checked++;
    }
    printf("%d decoders checked\n", n_checked);
    free(w.blocks);
    free(w.want);
    free(w.got);
}

static void test_random_blocks(void **unused)
{
    (void)unused;
    for_each_decoder(random_blocks);
}

static void test_short_and_unaligned(void **unused)
{
    (void)unused;
    for_each_decoder(short_and_unaligned);
}

static void test_guard_pages(void **unused)
{
    (void)unused;
    for_each_decoder(guard_pages);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_blocks),
        cmocka_unit_test(test_short_and_unaligned),
        cmocka_unit_test(test_guard_pages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
