/* float_internal.h — the 16-bit float formats, exactly as files store them.
 *
 * Plain integer code: the same bits on every machine, whatever its conversion instructions do with
 * NaN payloads and subnormals. */
#ifndef QNI_FLOAT_INTERNAL_H
#define QNI_FLOAT_INTERNAL_H

#include "base/base.h"

#define QNI_F32_ABS_MASK 0x7fffffffu
#define QNI_F32_INF      0x7f800000u

/* binary32 -> binary16: ties to even, overflow to infinity, subnormals kept, every NaN to 0x7e00
 * and the sign. */
QNI_INLINE uint16_t qni_f16_from_f32(float v)
{
    const uint32_t bits = qni_f32_bits(v);
    const uint32_t sign = bits >> 16 & 0x8000u;
    const uint32_t mag = bits & QNI_F32_ABS_MASK;
    if (mag > QNI_F32_INF) {
        return (uint16_t)(sign | 0x7e00u);
    }
    if (mag >= 0x477ff000u) { /* 65520: half-way between the largest f16 and 2^16 */
        return (uint16_t)(sign | 0x7c00u);
    }
    if (mag < 0x38800000u) {
        /* Below 2^-14 the f16 step is 2^-24, which is also the f32 step in [0.5, 1): adding 0.5
         * rounds at the right place, and the low bits of the sum are the subnormal. */
        const float shifted = qni_f32_from_bits(mag) + 0.5f;
        return (uint16_t)(sign | (qni_f32_bits(shifted) - 0x3f000000u));
    }
    const uint32_t rounded = mag + 0x0fffu + (mag >> 13 & 1u);
    return (uint16_t)(sign | (rounded - 0x38000000u) >> 13);
}

/* binary16 -> binary32: exact; a signalling NaN becomes quiet with its payload kept. */
QNI_INLINE float qni_f16_to_f32(uint16_t h)
{
    const uint32_t sign = (uint32_t)(h & 0x8000u) << 16;
    const uint32_t exponent = h >> 10 & 0x1fu;
    const uint32_t mantissa = h & 0x3ffu;
    if (exponent == 0) {
        const float mag = (float)(int32_t)mantissa * 0x1p-24f;
        return qni_f32_from_bits(sign | qni_f32_bits(mag));
    }
    if (exponent == 0x1f) {
        const uint32_t quiet = mantissa ? 0x00400000u : 0;
        return qni_f32_from_bits(sign | QNI_F32_INF | quiet | mantissa << 13);
    }
    return qni_f32_from_bits(sign | (exponent + 112) << 23 | mantissa << 13);
}

QNI_INLINE bool qni_f16_is_finite(uint16_t h)
{
    return (h & 0x7c00u) != 0x7c00u;
}

/* binary32 -> bfloat16: ties to even, overflow to infinity, subnormals kept, NaN made quiet. */
QNI_INLINE uint16_t qni_bf16_from_f32(float v)
{
    const uint32_t bits = qni_f32_bits(v);
    if ((bits & QNI_F32_ABS_MASK) > QNI_F32_INF) {
        return (uint16_t)(bits >> 16 | 0x40u);
    }
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

QNI_INLINE float qni_bf16_to_f32(uint16_t h)
{
    return qni_f32_from_bits((uint32_t)h << 16);
}

QNI_INLINE bool qni_bf16_is_finite(uint16_t h)
{
    return (h & 0x7f80u) != 0x7f80u;
}

QNI_INLINE bool qni_f32_is_finite(float v)
{
    return (qni_f32_bits(v) & QNI_F32_ABS_MASK) < QNI_F32_INF;
}

#endif
