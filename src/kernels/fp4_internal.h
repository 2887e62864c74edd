/* fp4_internal.h — scales of the four-bit floats, for every encoder and decoder of them. */
#ifndef QNI_FP4_INTERNAL_H
#define QNI_FP4_INTERNAL_H

#include "kernels/numeric_internal.h"

/* Half the value of an E8M0 scale, 2^(e - 128); 0 and 1 give subnormals. */
QNI_INLINE float qni_half_e8m0(uint32_t e)
{
    return qni_f32_from_bits(e < 2 ? 0x00200000u << e : (e - 1) << 23);
}

/* Half the value of an unsigned E4M3 scale. The top bit is ignored, except that 0x7f is 0 and 0xff
 * is not. */
QNI_INLINE float qni_half_e4m3(uint32_t scale)
{
    if (scale == 0 || scale == 0x7f) {
        return 0.0f;
    }
    const uint32_t exponent = scale >> 3 & 15;
    const uint32_t mantissa = scale & 7;
    if (exponent == 0) {
        return (float)(int32_t)mantissa * 0x1p-10f;
    }
    return qni_f32_from_bits((exponent + 119) << 23 | mantissa << 20);
}

/* The logarithm of a value just below 2^n rounds to n itself, and its floor is then n, not n - 1.
 * It happens for the few largest floats below 2^n; how many depends on n, because the spacing of
 * floats around the logarithm grows with |n|. Counted against the reference's log2f. */
QNI_INLINE int qni_n_rounding_up(int n)
{
    static const struct {
        int16_t first;
        int16_t last;
        int16_t count;
    } ranges[] = {
        {-148, -132, 0},  {-131, -131, 1}, {-130, -130, 2}, {-129, -129, 5}, {-128, -127, 11},
        {-126, -126, 22}, {-125, -64, 44}, {-63, -32, 22},  {-31, -16, 11},  {-15, -8, 5},
        {-7, -4, 2},      {-3, -2, 1},     {-1, 2, 0},      {3, 4, 1},       {5, 8, 2},
        {9, 16, 5},       {17, 32, 11},    {33, 64, 22},    {65, 128, 44},
    };
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++) {
        if (n >= ranges[i].first && n <= ranges[i].last) {
            return ranges[i].count;
        }
    }
    return 0;
}

/* Bits of the float 2^n, -149 <= n <= 128. */
QNI_INLINE uint32_t qni_power_of_two_bits(int n)
{
    return n >= -126 ? (uint32_t)(n + 127) << 23 : 1u << (n + 149);
}

/* floor(log2f(mag)) for finite mag > 0, as the reference's C library rounds it. */
QNI_INLINE int qni_floor_log2(float mag)
{
    const uint32_t bits = qni_f32_bits(mag);
    int n = (int)(bits >> 23) - 127;
    if (n == -127) { /* subnormal: the exponent is that of the highest mantissa bit */
        n = -149;
        for (uint32_t rest = bits >> 1; rest; rest >>= 1) {
            n++;
        }
    }
    const uint32_t left = qni_power_of_two_bits(n + 1) - bits;
    if (left > 44) { /* more than any of the counts */
        return n;
    }
    return left <= (uint32_t)qni_n_rounding_up(n + 1) ? n + 1 : n;
}

/* The nearest unsigned E4M3 value, half up in the bit that is dropped; at most 448 (0x7e). */
QNI_INLINE uint8_t qni_e4m3_from_f32(float v)
{
    if (!(v > 0.0f)) {
        return 0;
    }
    v = v > 448.0f ? 448.0f : v;
    const uint32_t bits = qni_f32_bits(v);
    int32_t exponent = (int32_t)(bits >> 23) - 127 + 7;
    if (exponent <= 0) {
        const int32_t mantissa = qni_min_i32(qni_trunc_i32(v * 512.0f + 0.5f), 7);
        return mantissa < 1 ? 0 : (uint8_t)mantissa;
    }
    if (exponent >= 15) {
        return 0x7e;
    }
    uint32_t mantissa = (bits >> 20 & 7) + (bits >> 19 & 1);
    if (mantissa == 8) {
        mantissa = 0;
        exponent++;
    }
    return exponent == 15 ? 0x7e : (uint8_t)((uint32_t)exponent << 3 | mantissa);
}

#endif
