/* test_strmap.c — names to numbers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/base.h"

static void finds_what_was_added(void **state)
{
    (void)state;
    enum { N = 20000 };
    static char names[N][16];
    qni_strmap map;
    qni_strmap_init(&map, NULL);
    assert_int_equal(qni_strmap_find(&map, "x", 1), -1);
    for (int i = 0; i < N; i++) {
        const int n = snprintf(names[i], sizeof names[i], "t.%d", i);
        int64_t existing = 0;
        assert_int_equal(qni_strmap_add(&map, names[i], n, i, &existing, NULL), QN_OK);
        assert_int_equal(existing, -1);
    }
    for (int i = 0; i < N; i++) {
        assert_int_equal(qni_strmap_find(&map, names[i], (int64_t)strlen(names[i])), i);
    }
    int64_t existing = 0;
    assert_int_equal(qni_strmap_add(&map, "t.7", 3, 99, &existing, NULL), QN_OK);
    assert_int_equal(existing, 7);
    assert_int_equal(qni_strmap_find(&map, "t.7", 3), 7);
    assert_int_equal(qni_strmap_find(&map, "t.20000", 7), -1);
    qni_strmap_free(&map);
}

static void bytes_decide_not_text(void **state)
{
    (void)state;
    qni_strmap map;
    qni_strmap_init(&map, NULL);
    int64_t existing = 0;
    assert_int_equal(qni_strmap_add(&map, "", 0, 1, &existing, NULL), QN_OK);
    assert_int_equal(qni_strmap_add(&map, "\0", 1, 2, &existing, NULL), QN_OK);
    assert_int_equal(existing, -1);
    assert_int_equal(qni_strmap_add(&map, "\0\0", 2, 3, &existing, NULL), QN_OK);
    assert_int_equal(existing, -1);
    assert_int_equal(qni_strmap_find(&map, "", 0), 1);
    assert_int_equal(qni_strmap_find(&map, "\0\0", 2), 3);
    qni_strmap_free(&map);
}

static void two_maps_hash_differently(void **state)
{
    (void)state;
    qni_strmap a;
    qni_strmap b;
    qni_strmap_init(&a, NULL);
    qni_strmap_init(&b, NULL);
    assert_true(a.seed != b.seed);
}

/* XXH3_64bits of the empty input with seed 0, from the algorithm's published description. */
static void hash_is_xxh3(void **state)
{
    (void)state;
    assert_true(qni_hash64("", 0, 0) == UINT64_C(0x2D06800538D394C2));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_what_was_added),
        cmocka_unit_test(bytes_decide_not_text),
        cmocka_unit_test(two_maps_hash_differently),
        cmocka_unit_test(hash_is_xxh3),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
