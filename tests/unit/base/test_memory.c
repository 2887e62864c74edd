/* test_memory.c — allocators, arena, growing buffer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/base.h"

/* Counts what is out, and checks that free gets the size that alloc was given. */
typedef struct ledger {
    int64_t n_out;
    int64_t n_left; /* allocations until the first failure; -1: never */
} ledger;

static void *ledger_alloc(void *ctx, size_t n_bytes, size_t alignment)
{
    ledger *book = ctx;
    if (book->n_left == 0) {
        return NULL;
    }
    book->n_left -= book->n_left > 0;
    uint8_t *p = malloc(n_bytes + 64);
    assert_non_null(p);
    memcpy(p, &n_bytes, sizeof n_bytes);
    memcpy(p + 8, &alignment, sizeof alignment);
    book->n_out++;
    return p + 64;
}

static void ledger_free(void *ctx, void *ptr, size_t n_bytes, size_t alignment)
{
    ledger *book = ctx;
    uint8_t *p = (uint8_t *)ptr - 64;
    assert_memory_equal(p, &n_bytes, sizeof n_bytes);
    assert_memory_equal(p + 8, &alignment, sizeof alignment);
    book->n_out--;
    free(p);
}

static void arena_gives_back_everything(void **state)
{
    (void)state;
    ledger book = {0, -1};
    const qn_allocator allocator = {&book, ledger_alloc, ledger_free};
    qni_arena arena = {.allocator = &allocator};
    for (size_t n = 0; n < 3000; n += 7) {
        uint8_t *p = qni_arena_alloc(&arena, n);
        assert_non_null(p);
        assert_int_equal((uintptr_t)p % _Alignof(max_align_t), 0);
        memset(p, 0xAA, n);
    }
    assert_non_null(qni_arena_alloc(&arena, 1 << 20));
    assert_string_equal(qni_arena_copy(&arena, "ab\0cd", 5), "ab");
    assert_null(qni_arena_alloc(&arena, SIZE_MAX - 3));
    qni_arena_free(&arena);
    assert_int_equal(book.n_out, 0);
}

static void buffer_keeps_to_its_limit(void **state)
{
    (void)state;
    ledger book = {0, -1};
    const qn_allocator allocator = {&book, ledger_alloc, ledger_free};
    qni_buffer buf;
    qni_buffer_init(&buf, &allocator, 1000);
    for (int i = 0; i < 100; i++) {
        assert_int_equal(qni_buffer_append(&buf, "0123456789", 10, NULL), QN_OK);
    }
    assert_int_equal(buf.n_bytes, 1000);
    assert_memory_equal(buf.bytes + 990, "0123456789", 10);
    qn_error err = QN_ERROR_INIT;
    assert_int_equal(qni_buffer_append_zeros(&buf, 1, &err), QN_ERR_OVERFLOW);
    assert_int_equal(qni_buffer_reserve(&buf, SIZE_MAX, &err), QN_ERR_OVERFLOW);
    qni_buffer_free(&buf);
    assert_int_equal(book.n_out, 0);
}

static void buffer_reports_no_memory(void **state)
{
    (void)state;
    ledger book = {0, 1};
    const qn_allocator allocator = {&book, ledger_alloc, ledger_free};
    qni_buffer buf;
    qni_buffer_init(&buf, &allocator, SIZE_MAX);
    assert_int_equal(qni_buffer_append_u32le(&buf, 7, NULL), QN_OK);
    qn_error err = QN_ERROR_INIT;
    assert_int_equal(qni_buffer_append_zeros(&buf, 4096, &err), QN_ERR_OUT_OF_MEMORY);
    assert_int_equal(buf.n_bytes, 4);
    qni_buffer_free(&buf);
    assert_int_equal(book.n_out, 0);
}

static void arrays_check_their_product(void **state)
{
    (void)state;
    assert_null(qni_alloc_array(NULL, INT64_MAX, 16));
    assert_null(qni_alloc_array(NULL, -1, 1));
    void *p = qni_alloc_array(NULL, 0, 8);
    assert_non_null(p);
    qni_free(NULL, p, 0);
    void *aligned = qni_alloc_aligned(NULL, 100, 64);
    assert_int_equal((uintptr_t)aligned % 64, 0);
    qni_free_aligned(NULL, aligned, 100, 64);
}

static void large_blocks_start_on_a_huge_page(void **state)
{
    (void)state;
    const size_t huge = (size_t)2 << 20;
    const size_t sizes[] = {1, 4096, huge - 1, huge, huge + 1, 3 * huge + 4097};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        uint8_t *block = qni_alloc_large(NULL, sizes[i], 64);
        assert_non_null(block);
        assert_int_equal((uintptr_t)block % (sizes[i] < huge ? 64 : huge), 0);
        memset(block, 0x5a, sizes[i]);
        assert_int_equal(block[sizes[i] - 1], 0x5a);
        qni_free_aligned(NULL, block, sizes[i], 64);
    }
    ledger book = {0, -1};
    const qn_allocator own = {&book, ledger_alloc, ledger_free};
    uint8_t *block = qni_alloc_large(&own, 2 * huge, 64);
    size_t asked = 0;
    memcpy(&asked, block - 56, sizeof asked);
    assert_int_equal(asked, 64); /* memory that others manage is taken as it is */
    qni_free_aligned(&own, block, 2 * huge, 64);
    assert_int_equal(book.n_out, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arena_gives_back_everything),
        cmocka_unit_test(buffer_keeps_to_its_limit),
        cmocka_unit_test(buffer_reports_no_memory),
        cmocka_unit_test(arrays_check_their_product),
        cmocka_unit_test(large_blocks_start_on_a_huge_page),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
