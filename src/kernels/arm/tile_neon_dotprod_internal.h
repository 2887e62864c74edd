/* tile_neon_dotprod_internal.h — the primitives of products over tiles on NEON with the dot product
 * instructions: 16 rows are four registers, and sdot adds four products to a 32-bit lane. Both of
 * its operands have signs, so codes of eight bits need no bias. Names and meanings are those of
 * x86/tile_avx2_internal.h. */
#ifndef QNI_TILE_NEON_DOTPROD_INTERNAL_H
#define QNI_TILE_NEON_DOTPROD_INTERNAL_H

#include <arm_neon.h>

#include "kernels/tile_internal.h"

/* What tile_neon_i8mm_internal.h has set is one step further. */
#ifndef TILE_NAME
#define TILE_NAME(base) base##_neon_dotprod
#define TILE_HAS_PAIRS  0
#endif

#define TILE_HAS_WORDS 0
#define TILE_WIDEST    4

enum {
    TILE_SUM_BITS = 32,
    TILE_SIGNED_BIAS = 0,
    TILE_COLS = TILE_WIDEST,
    TILE_WIDTHS = 3 /* 1, 2 and 4 columns */
};

typedef struct tile_w {
    uint8x16_t q[4];
} tile_w;

typedef struct tile_i {
    int32x4_t q[4];
} tile_i;

typedef tile_i tile_s;

typedef struct tile_f {
    float32x4_t q[4];
} tile_f;

/* One statement for each of the four registers. */
#define FOUR(statement)                    \
    QNI_UNROLL for (int i = 0; i < 4; i++) \
    {                                      \
        statement;                         \
    }

QNI_INLINE tile_w tile_load(const uint8_t *p)
{
    tile_w w;
    FOUR(w.q[i] = vld1q_u8(p + 16 * i))
    return w;
}

QNI_INLINE void tile_store(uint8_t *p, tile_w w){FOUR(vst1q_u8(p + 16 * i, w.q[i]))}

QNI_INLINE tile_w tile_shift(tile_w w, int n)
{
    FOUR(w.q[i] = vshlq_u8(w.q[i], vdupq_n_s8((int8_t)n)))
    return w;
}

QNI_INLINE tile_w tile_mask(tile_w w, int byte)
{
    FOUR(w.q[i] = vandq_u8(w.q[i], vdupq_n_u8((uint8_t)byte)))
    return w;
}

QNI_INLINE tile_w tile_or(tile_w v, tile_w w)
{
    FOUR(v.q[i] = vorrq_u8(v.q[i], w.q[i]))
    return v;
}

/* Never called: the bias is 0. */
QNI_INLINE tile_w tile_flip(tile_w w)
{
    return w;
}

QNI_INLINE tile_w tile_look_up(const int8_t *table, tile_w w)
{
    const uint8x16_t bytes = vreinterpretq_u8_s8(vld1q_s8(table));
    FOUR(w.q[i] = vqtbl1q_u8(bytes, w.q[i]))
    return w;
}

QNI_INLINE tile_s tile_start(const int32_t *p)
{
    tile_s s;
    FOUR(s.q[i] = vdupq_n_s32(*p))
    return s;
}

QNI_INLINE tile_s tile_add(tile_s s, tile_w w, const int8_t *levels)
{
    int32_t four;
    memcpy(&four, levels, sizeof four);
    const int8x16_t a = vreinterpretq_s8_s32(vdupq_n_s32(four));
    FOUR(s.q[i] = vdotq_s32(s.q[i], vreinterpretq_s8_u8(w.q[i]), a))
    return s;
}

QNI_INLINE tile_i tile_zero(void)
{
    tile_i v;
    FOUR(v.q[i] = vdupq_n_s32(0))
    return v;
}

QNI_INLINE tile_s tile_first(tile_w w, const int8_t *levels)
{
    return tile_add(tile_zero(), w, levels);
}

QNI_INLINE void tile_put_starts(const int8_t *levels, int bias, int n_unit, int32_t *out)
{
    const int32_t first = vaddlvq_s8(vld1q_s8(levels));
    const int32_t second = vaddlvq_s8(vld1q_s8(levels + 16));
    if (n_unit == 16) {
        out[0] = -bias * first;
        out[1] = -bias * second;
    } else {
        out[0] = -bias * (first + second);
    }
}

QNI_INLINE tile_i tile_scale(tile_i sum, tile_s s, const int32_t *factor)
{
    FOUR(sum.q[i] = vmlaq_s32(sum.q[i], s.q[i], vld1q_s32(factor + 4 * i)))
    return sum;
}

QNI_INLINE tile_i tile_whole(tile_i sum, tile_s s)
{
    FOUR(sum.q[i] = vaddq_s32(sum.q[i], s.q[i]))
    return sum;
}

QNI_INLINE tile_i tile_pairs(tile_i sum, const int32_t *pairs, const int16_t *p)
{
    const int16x4_t two = vreinterpret_s16_u32(vreinterpret_u32_u16(vld1_lane_u16(
        (const uint16_t *)p, vld1_lane_u16((const uint16_t *)(p + 1), vdup_n_u16(0), 1), 0)));
    const int16x8_t both = vreinterpretq_s16_s32(vdupq_lane_s32(vreinterpret_s32_s16(two), 0));
    FOUR(const int16x8_t w = vreinterpretq_s16_s32(vld1q_s32(pairs + 4 * i));
         sum.q[i] =
             vaddq_s32(sum.q[i], vpaddq_s32(vmull_s16(vget_low_s16(w), vget_low_s16(both)),
                                            vmull_s16(vget_high_s16(w), vget_high_s16(both)))))
    return sum;
}

QNI_INLINE tile_f tile_float(tile_i v)
{
    tile_f x;
    FOUR(x.q[i] = vcvtq_f32_s32(v.q[i]))
    return x;
}

QNI_INLINE tile_f tile_set(float v)
{
    tile_f x;
    FOUR(x.q[i] = vdupq_n_f32(v))
    return x;
}

QNI_INLINE tile_f tile_floats(const float *p)
{
    tile_f x;
    FOUR(x.q[i] = vld1q_f32(p + 4 * i))
    return x;
}

QNI_INLINE void tile_put(float *p, tile_f v){FOUR(vst1q_f32(p + 4 * i, v.q[i]))}

QNI_INLINE tile_f tile_mul(tile_f x, tile_f y)
{
    FOUR(x.q[i] = vmulq_f32(x.q[i], y.q[i]))
    return x;
}

QNI_INLINE tile_f tile_plus(tile_f x, tile_f y)
{
    FOUR(x.q[i] = vaddq_f32(x.q[i], y.q[i]))
    return x;
}

QNI_INLINE tile_f tile_minus(tile_f x, tile_f y)
{
    FOUR(x.q[i] = vsubq_f32(x.q[i], y.q[i]))
    return x;
}

typedef uint8x16_t row_bytes;

QNI_INLINE row_bytes rows_load(const uint8_t *p)
{
    return vld1q_u8(p);
}

QNI_INLINE row_bytes rows_shift(row_bytes v, int n)
{
    return vshlq_u8(v, vdupq_n_s8((int8_t)n));
}

QNI_INLINE row_bytes rows_mask(row_bytes v, int byte)
{
    return vandq_u8(v, vdupq_n_u8((uint8_t)byte));
}

QNI_INLINE row_bytes rows_or(row_bytes v, row_bytes w)
{
    return vorrq_u8(v, w);
}

QNI_INLINE row_bytes rows_minus(row_bytes v, int byte)
{
    return vsubq_u8(v, vdupq_n_u8((uint8_t)byte));
}

QNI_INLINE tile_f rows_halves(const uint8_t *p)
{
    tile_f x;
    FOUR(x.q[i] = vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8(p + 8 * i))))
    return x;
}

/* Bytes in 32-bit lanes. */
QNI_INLINE tile_i rows_lanes(row_bytes v)
{
    const uint16x8_t low = vmovl_u8(vget_low_u8(v));
    const uint16x8_t high = vmovl_u8(vget_high_u8(v));
    return (tile_i){{vreinterpretq_s32_u32(vmovl_u16(vget_low_u16(low))),
                     vreinterpretq_s32_u32(vmovl_u16(vget_high_u16(low))),
                     vreinterpretq_s32_u32(vmovl_u16(vget_low_u16(high))),
                     vreinterpretq_s32_u32(vmovl_u16(vget_high_u16(high)))}};
}

QNI_INLINE tile_f rows_e8m0(row_bytes v)
{
    const tile_i e = rows_lanes(v);
    tile_f x;
    FOUR(const int32x4_t normal = vshlq_n_s32(vsubq_s32(e.q[i], vdupq_n_s32(1)), 23);
         const int32x4_t subnormal = vshlq_s32(vdupq_n_s32(0x00200000), e.q[i]);
         const uint32x4_t is_normal = vcgtq_s32(e.q[i], vdupq_n_s32(1));
         x.q[i] = vreinterpretq_f32_s32(vbslq_s32(is_normal, normal, subnormal)))
    return x;
}

QNI_INLINE tile_i rows_u16(const uint8_t *p)
{
    tile_i v;
    FOUR(v.q[i] = vreinterpretq_s32_u32(vmovl_u16(vreinterpret_u16_u8(vld1_u8(p + 8 * i)))))
    return v;
}

QNI_INLINE row_bytes rows_narrow(tile_i v)
{
    const int16x8_t low = vcombine_s16(vmovn_s32(v.q[0]), vmovn_s32(v.q[1]));
    const int16x8_t high = vcombine_s16(vmovn_s32(v.q[2]), vmovn_s32(v.q[3]));
    return vreinterpretq_u8_s8(vcombine_s8(vmovn_s16(low), vmovn_s16(high)));
}

QNI_INLINE tile_i lanes_shift(tile_i v, int n)
{
    FOUR(v.q[i] = vshlq_s32(v.q[i], vdupq_n_s32(-n)))
    return v;
}

QNI_INLINE tile_i lanes_mask(tile_i v, int mask)
{
    FOUR(v.q[i] = vandq_s32(v.q[i], vdupq_n_s32(mask)))
    return v;
}

QNI_INLINE void rows_put_factors(row_bytes v, int32_t *out)
{
    const int8x16_t s = vreinterpretq_s8_u8(v);
    const int16x8_t low = vmovl_s8(vget_low_s8(s));
    const int16x8_t high = vmovl_s8(vget_high_s8(s));
    vst1q_s32(out, vmovl_s16(vget_low_s16(low)));
    vst1q_s32(out + 4, vmovl_s16(vget_high_s16(low)));
    vst1q_s32(out + 8, vmovl_s16(vget_low_s16(high)));
    vst1q_s32(out + 12, vmovl_s16(vget_high_s16(high)));
}

QNI_INLINE void rows_put_pairs(row_bytes even, row_bytes odd, int32_t *out)
{
    const tile_i low = rows_lanes(even);
    const tile_i high = rows_lanes(odd);
    FOUR(vst1q_s32(out + 4 * i, vorrq_s32(low.q[i], vshlq_n_s32(high.q[i], 16))))
}

QNI_INLINE float tile_half(const uint8_t *field)
{
    const uint16_t bits = qni_load_u16le(field);
    return vgetq_lane_f32(vcvt_f32_f16(vreinterpret_f16_u16(vdup_n_u16(bits))), 0);
}

/* The cache line `ahead` bytes after p, wherever that is. */
QNI_INLINE void tile_prefetch(const void *p, int64_t ahead)
{
    __builtin_prefetch(qni_line_ahead(p, ahead));
}

#endif
