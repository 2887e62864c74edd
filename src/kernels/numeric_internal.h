/* numeric_internal.h — the arithmetic that all scalar kernels share, with the reference's rounding.
 *
 * Everything is binary32, one rounding per operation, in the written order: products go left to
 * right, sums add one term at a time from +0. Nothing here may be compiled with contraction or fast
 * math. Where the reference relies on what x86 does outside the range of a conversion, it is
 * written out, so that every machine gives the same bytes. */
#ifndef QNI_NUMERIC_INTERNAL_H
#define QNI_NUMERIC_INTERNAL_H

#include <math.h>

#include "kernels/kernels.h"

/* Nearest integer by adding 1.5 * 2^23: ties to even for |v| < 2^22. Outside that range, and for
 * NaN and infinity, a bit accident that encoders can reach and that must be kept: NaN gives 0. */
QNI_INLINE int32_t qni_nearest(float v)
{
    return (int32_t)(qni_f32_bits(v + 12582912.0f) & 0x007fffffu) - 0x00400000;
}

/* Truncation to 32 bits; NaN, infinity and what does not fit give -2^31, as x86 does. */
QNI_INLINE int32_t qni_trunc_i32(float v)
{
    if (!(v >= -2147483648.0f && v < 2147483648.0f)) {
        return INT32_MIN;
    }
    return (int32_t)v;
}

/* The low 8 bits of the truncation, read as two's complement. */
QNI_INLINE int32_t qni_trunc_i8(float v)
{
    return (int32_t)(((uint32_t)qni_trunc_i32(v) & 0xffu) ^ 0x80u) - 0x80;
}

QNI_INLINE int32_t qni_min_i32(int32_t a, int32_t b)
{
    return a < b ? a : b;
}

QNI_INLINE int32_t qni_clamp_i32(int32_t v, int32_t lo, int32_t hi)
{
    return v > hi ? hi : v < lo ? lo : v;
}

/* "a if a > b, else b": a NaN in b comes out, a NaN in a is dropped. */
QNI_INLINE float qni_max_f32(float a, float b)
{
    return a > b ? a : b;
}

/* The value of largest magnitude with its sign; of equal magnitudes the first wins. */
typedef struct qni_extreme {
    float mag;
    float value;
} qni_extreme;

QNI_INLINE qni_extreme qni_absmax(const float *x, int n)
{
    qni_extreme best = {0.0f, 0.0f};
    for (int i = 0; i < n; i++) {
        if (fabsf(x[i]) > best.mag) {
            best.mag = fabsf(x[i]);
            best.value = x[i];
        }
    }
    return best;
}

/* Sum of squares in index order. */
QNI_INLINE float qni_sum_squares(const float *x, int64_t n)
{
    float sum = 0.0f;
    for (int64_t i = 0; i < n; i++) {
        sum += x[i] * x[i];
    }
    return sum;
}

/* Importance weights of a block: w = importance * sqrt(sigma2 + x * x). */
QNI_INLINE void qni_weigh(const float *x, const float *importance, float sigma2, int n, float *w)
{
    for (int i = 0; i < n; i++) {
        w[i] = importance[i] * sqrtf(sigma2 + x[i] * x[i]);
    }
}

/* f16 scale fields. Storing one that is not finite is worth reporting. */
QNI_INLINE float qni_load_scale(const uint8_t *field)
{
    return qni_f16_to_f32(qni_load_u16le(field));
}

QNI_INLINE qni_encode_result qni_store_scale(uint8_t *field, float scale)
{
    const uint16_t h = qni_f16_from_f32(scale);
    qni_store_u16le(field, h);
    return qni_f16_is_finite(h) ? QNI_ENCODE_OK : QNI_ENCODE_OVERFLOW;
}

QNI_INLINE qni_encode_result qni_worse(qni_encode_result a, qni_encode_result b)
{
    return a > b ? a : b;
}

/* The nibble split: of w values the first w/2 sit in the low nibbles of w/2 bytes, the others in
 * the high nibbles. A value above 15 spills into its neighbour exactly as the reference's does. */
QNI_INLINE void qni_pack_nibbles(const uint8_t *levels, int n, uint8_t *qs)
{
    for (int i = 0; i < n / 2; i++) {
        qs[i] = (uint8_t)(levels[i] | (uint32_t)levels[i + n / 2] << 4);
    }
}

QNI_INLINE void qni_unpack_nibbles(const uint8_t *qs, int n, uint8_t *levels)
{
    for (int i = 0; i < n / 2; i++) {
        levels[i] = qs[i] & 15;
        levels[i + n / 2] = qs[i] >> 4;
    }
}

#endif
