/* test_floats.c — the 16-bit floats over their whole range, against arithmetic in double. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/kernels.h"

#include <cmocka.h>

/* The value of a finite binary16 by its definition. */
static double f16_value(uint32_t h)
{
    const int exponent = (int)(h >> 10 & 31);
    const double mantissa = (double)(h & 1023);
    const double mag =
        exponent == 0 ? ldexp(mantissa, -24) : ldexp(1024.0 + mantissa, exponent - 25);
    return h & 0x8000 ? -mag : mag;
}

static void every_f16_widens_and_comes_back(void **state)
{
    (void)state;
    for (uint32_t h = 0; h < 0x10000; h++) {
        const float wide = qni_f16_to_f32((uint16_t)h);
        if ((h & 0x7c00) != 0x7c00) {
            assert_true((double)wide == f16_value(h));
            assert_int_equal(qni_f16_from_f32(wide), h);
            assert_true(qni_f16_is_finite((uint16_t)h));
        } else if (h & 0x3ff) {
            assert_true(isnan(wide));
            assert_int_equal(qni_f32_bits(wide) & 0x007fffff, (h & 0x3ff) << 13 | 0x00400000);
            assert_int_equal(qni_f16_from_f32(wide), (h & 0x8000) | 0x7e00);
        } else {
            assert_true(isinf(wide));
            assert_int_equal(qni_f16_from_f32(wide), h);
        }
    }
}

/* Between two neighbours: below the middle, the middle itself (ties to even), above the middle. */
static void f16_rounds_to_nearest_even(void **state)
{
    (void)state;
    for (uint32_t h = 0; h < 0x7c00; h++) {
        const double low = f16_value(h);
        const double high = h == 0x7bff ? 65536.0 : f16_value(h + 1);
        const float middle = (float)((low + high) / 2);
        const uint32_t even = h & 1 ? h + 1 : h;
        assert_int_equal(qni_f16_from_f32(middle), even);
        assert_int_equal(qni_f16_from_f32(-middle), even | 0x8000);
        assert_int_equal(qni_f16_from_f32(nextafterf(middle, 0.0f)), h);
        assert_int_equal(qni_f16_from_f32(nextafterf(middle, INFINITY)), h + 1);
    }
    assert_int_equal(qni_f16_from_f32(0x1p-149f), 0);
    assert_int_equal(qni_f16_from_f32(3.4e38f), 0x7c00);
}

static void bf16_rounds_to_nearest_even(void **state)
{
    (void)state;
    for (uint32_t h = 0; h < 0x10000; h++) {
        const float wide = qni_bf16_to_f32((uint16_t)h);
        assert_int_equal(qni_f32_bits(wide), h << 16);
        const bool is_nan = (h & 0x7fff) > 0x7f80;
        assert_int_equal(qni_bf16_from_f32(wide), is_nan ? h | 0x40 : h);
        if ((h & 0x7f80) == 0x7f80) {
            assert_false(qni_bf16_is_finite((uint16_t)h));
            continue;
        }
        const uint32_t even = h & 1 ? h + 1 : h;
        assert_int_equal(qni_bf16_from_f32(qni_f32_from_bits(h << 16 | 0x8000)), even);
        assert_int_equal(qni_bf16_from_f32(qni_f32_from_bits(h << 16 | 0x7fff)), h);
        assert_int_equal(qni_bf16_from_f32(qni_f32_from_bits(h << 16 | 0x8001)), h + 1);
    }
    assert_int_equal(qni_bf16_from_f32(qni_f32_from_bits(0x7f800001)), 0x7fc0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_f16_widens_and_comes_back),
        cmocka_unit_test(f16_rounds_to_nearest_even),
        cmocka_unit_test(bf16_rounds_to_nearest_even),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
