/* test_isa.c — names of instruction sets and the choice among them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/base.h"

static void names_go_both_ways(void **state)
{
    (void)state;
    for (int i = 0; qn_isa_at(i) != QN_ISA_BEST; i++) {
        qn_isa isa = QN_ISA_BEST;
        assert_int_equal(qn_isa_from_name(qn_isa_name(qn_isa_at(i)), &isa, NULL), QN_OK);
        assert_int_equal(isa, qn_isa_at(i));
    }
    qn_isa isa = QN_ISA_AVX2;
    qn_error err = QN_ERROR_INIT;
    assert_int_equal(qn_isa_from_name("avx3", &isa, &err), QN_ERR_UNKNOWN_ISA);
    assert_int_equal(isa, QN_ISA_BEST);
    assert_non_null(strstr(err.message, "avx512_vnni"));
    assert_int_equal(qn_isa_from_name("best", &isa, &err), QN_OK);
    assert_string_equal(qn_isa_name((qn_isa)99), "?");
}

static void choice_is_available_and_within_the_limit(void **state)
{
    (void)state;
    assert_true(qn_isa_is_available(QN_ISA_SCALAR));
    assert_int_equal(qn_isa_resolve(QN_ISA_SCALAR), QN_ISA_SCALAR);
    for (int i = 0; qn_isa_at(i) != QN_ISA_BEST; i++) {
        const qn_isa limit = qn_isa_at(i);
        const qn_isa got = qn_isa_resolve(limit);
        assert_true(qn_isa_is_available(got));
        assert_true(got <= limit);
        assert_true(!qn_isa_is_available(limit) || got == limit);
    }
    assert_true(qn_isa_is_available(qn_isa_resolve(QN_ISA_BEST)));
    assert_false(qn_isa_is_available((qn_isa)31));
    assert_false(qn_isa_is_available((qn_isa)-1));
}

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
/* gcc's own detection as a second opinion (clang 14 does not know f16c). */
static void agrees_with_the_compilers_detection(void **state)
{
    (void)state;
    const bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                          __builtin_cpu_supports("f16c") && __builtin_cpu_supports("bmi2");
    assert_true(qn_isa_is_available(QN_ISA_AVX2) == has_avx2);
    const bool has_avx512 =
        has_avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    assert_true(qn_isa_is_available(QN_ISA_AVX512) == has_avx512);
    const bool has_vnni =
        has_avx512 && __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512vbmi");
    assert_true(qn_isa_is_available(QN_ISA_AVX512_VNNI) == has_vnni);
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_go_both_ways),
        cmocka_unit_test(choice_is_available_and_within_the_limit),
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
        cmocka_unit_test(agrees_with_the_compilers_detection),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
