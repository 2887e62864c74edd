/* cmocka.h — as much of cmocka as these tests use, in one header: for builds that run on another
 * machine, where the library itself is not installed (QN_WITH_CHECKERS; see tests/README.md).
 *
 * A failed assertion says where and ends its test, not the program; what a failed test held is not
 * given back. Not thread-safe, as cmocka's assertions are not. */
#ifndef QNT_PLAIN_CMOCKA_H
#define QNT_PLAIN_CMOCKA_H

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct CMUnitTest {
    const char *name;
    void (*run)(void **state);
};

static jmp_buf plain_end_of_test;

__attribute__((noreturn, unused, format(printf, 3, 4))) static void
plain_fail(const char *file, int line, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    printf("%s:%d: ", file, line);
    (void)vprintf(format, args);
    printf("\n");
    va_end(args);
    longjmp(plain_end_of_test, 1);
}

#define fail_msg(...) plain_fail(__FILE__, __LINE__, __VA_ARGS__)
#define fail()        plain_fail(__FILE__, __LINE__, "failed")

#define assert_true(condition) \
    ((condition) ? (void)0 : plain_fail(__FILE__, __LINE__, "not true: %s", #condition))
#define assert_false(condition) \
    ((condition) ? plain_fail(__FILE__, __LINE__, "not false: %s", #condition) : (void)0)
#define assert_non_null(pointer) \
    ((pointer) != NULL ? (void)0 : plain_fail(__FILE__, __LINE__, "NULL: %s", #pointer))
#define assert_null(pointer) \
    ((pointer) == NULL ? (void)0 : plain_fail(__FILE__, __LINE__, "not NULL: %s", #pointer))
#define assert_ptr_equal(a, b)              \
    ((const void *)(a) == (const void *)(b) \
         ? (void)0                          \
         : plain_fail(__FILE__, __LINE__, "%s is not %s", #a, #b))

/* As there: both sides become unsigned 64-bit numbers. */
__attribute__((unused)) static void plain_compare(uint64_t a, uint64_t b, bool want_equal,
                                                  const char *what, const char *file, int line)
{
    if ((a == b) != want_equal) {
        plain_fail(file, line, "%s: %#" PRIx64 " and %#" PRIx64, what, a, b);
    }
}

#define assert_int_equal(a, b) \
    plain_compare((uint64_t)(a), (uint64_t)(b), true, #a " is not " #b, __FILE__, __LINE__)
#define assert_int_not_equal(a, b) \
    plain_compare((uint64_t)(a), (uint64_t)(b), false, #a " is " #b, __FILE__, __LINE__)

__attribute__((unused)) static void plain_compare_text(const char *a, const char *b,
                                                       const char *file, int line)
{
    if (strcmp(a, b) != 0) {
        plain_fail(file, line, "\"%s\" is not \"%s\"", a, b);
    }
}

#define assert_string_equal(a, b) plain_compare_text(a, b, __FILE__, __LINE__)

__attribute__((unused)) static void plain_compare_bytes(const void *a, const void *b, size_t n,
                                                        const char *file, int line)
{
    for (size_t i = 0; i < n; i++) {
        if (((const uint8_t *)a)[i] != ((const uint8_t *)b)[i]) {
            plain_fail(file, line, "byte %zu of %zu differs", i, n);
        }
    }
}

#define assert_memory_equal(a, b, n) plain_compare_bytes(a, b, (size_t)(n), __FILE__, __LINE__)

#define print_message(...) printf(__VA_ARGS__)

#define cmocka_unit_test(function) \
    {                              \
#function, function        \
    }

/* Runs all tests, whatever the others do; the number of those that failed. */
__attribute__((unused)) static int plain_run(const struct CMUnitTest *tests, size_t n_tests,
                                             int (*set_up)(void **), int (*tear_down)(void **))
{
    void *volatile state = NULL;
    volatile int n_failed = 0;
    void *held = NULL;
    if (set_up && set_up(&held) != 0) {
        printf("the preparation failed\n");
        return 1;
    }
    state = held;
    for (volatile size_t i = 0; i < n_tests; i++) {
        held = state;
        if (setjmp(plain_end_of_test) == 0) {
            tests[i].run(&held);
            state = held;
            printf("ok %s\n", tests[i].name);
        } else {
            printf("FAILED %s\n", tests[i].name);
            n_failed++;
        }
    }
    held = state;
    if (tear_down && tear_down(&held) != 0) {
        printf("the clean-up failed\n");
        n_failed++;
    }
    printf("%zu tests, %d failed\n", n_tests, n_failed);
    return n_failed;
}

#define cmocka_run_group_tests(tests, set_up, tear_down) \
    plain_run(tests, sizeof(tests) / sizeof(tests)[0], set_up, tear_down)

#endif
