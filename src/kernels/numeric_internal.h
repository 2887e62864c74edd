/* numeric_internal.h — the arithmetic that all scalar kernels share, with the reference's rounding.
 *
 * Everything is binary32, one rounding per operation, in the written order: products go left to
 * right, sums add one term at a time from +0. Nothing here may be compiled with contraction or fast
 * math. Where the reference relies on what x86 does outside the range of a conversion, it is
 * written out, so that every machine gives the same bytes. */
#ifndef QNI_NUMERIC_INTERNAL_H
#define QNI_NUMERIC_INTERNAL_H

#include <float.h>
#include <math.h>

#include "kernels/kernels.h"

static_assert(FLT_EVAL_METHOD == 0, "binary32 must be computed in binary32");

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

/* Nearest integer, half away from zero, of a value in -1..1; what does not fit (an infinite or NaN
 * product in a block of subnormals) gives 0: the low half of x86's 64-bit conversion. */
QNI_INLINE int32_t qni_round_low32(float v)
{
    return fabsf(v) < 2147483648.0f ? (int32_t)roundf(v) : 0;
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

/* Sum in index order. */
QNI_INLINE float qni_sum(const float *x, int n)
{
    float sum = 0.0f;
    for (int i = 0; i < n; i++) {
        sum += x[i];
    }
    return sum;
}

/* Largest value above 0, or 0; NaN never wins. */
QNI_INLINE float qni_positive_max(const float *x, int n)
{
    float max = 0.0f;
    for (int i = 0; i < n; i++) {
        max = x[i] > max ? x[i] : max;
    }
    return max;
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

/* 32 five-bit levels: low nibbles split as above, fifth bits in a little-endian word. */
QNI_INLINE void qni_pack_fifth_bits(const uint8_t *levels, uint8_t *qh, uint8_t *qs)
{
    uint32_t high = 0;
    for (int i = 0; i < 16; i++) {
        qs[i] = (uint8_t)((levels[i] & 15) | (levels[i + 16] & 15) << 4);
    }
    for (int i = 0; i < 32; i++) {
        high |= (uint32_t)(levels[i] >> 4 & 1) << i;
    }
    qni_store_u32le(qh, high);
}

QNI_INLINE void qni_unpack_fifth_bits(const uint8_t *qh, const uint8_t *qs, uint8_t *levels)
{
    const uint32_t high = qni_load_u32le(qh);
    qni_unpack_nibbles(qs, 32, levels);
    for (int i = 0; i < 32; i++) {
        levels[i] = (uint8_t)(levels[i] | (high >> i & 1) << 4);
    }
}

/* 256 two-bit levels in four planes: each 32 bytes hold 128 of them, and bits 2p, 2p+1 of byte l
 * are level 32 p + l. */
QNI_INLINE void qni_pack_planes(const uint8_t *levels, uint8_t *qs)
{
    for (int half = 0; half < 2; half++, levels += 128, qs += 32) {
        for (int l = 0; l < 32; l++) {
            qs[l] = (uint8_t)(levels[l] | levels[l + 32] << 2 | levels[l + 64] << 4 |
                              levels[l + 96] << 6);
        }
    }
}

QNI_INLINE void qni_unpack_planes(const uint8_t *qs, uint8_t *levels)
{
    for (int half = 0; half < 2; half++, levels += 128, qs += 32) {
        for (int i = 0; i < 128; i++) {
            levels[i] = qs[i % 32] >> (2 * (i / 32)) & 3;
        }
    }
}

#endif
