/* vec_neon_internal.h — sixteen lanes of f32 or i32 on AArch64: four 128-bit registers.
 *
 * The names and meanings are those of x86/vec_avx2_internal.h, which explains them. Minimum,
 * maximum and truncation are written out where the instruction treats NaN or overflow another way.
 */
#ifndef QNI_VEC_NEON_INTERNAL_H
#define QNI_VEC_NEON_INTERNAL_H

#include <arm_neon.h>

#include "kernels/numeric_internal.h"

#define VEC_NAME(base) base##_neon

enum { VL = 16, VEC_SPREAD = 1 };

typedef struct vf {
    float32x4_t a, b, c, d;
} vf;

typedef struct vi {
    int32x4_t a, b, c, d;
} vi;

typedef struct vm {
    uint32x4_t a, b, c, d;
} vm;

/* clang-format off */
#define VEC_1(type, f, x) ((type){f((x).a), f((x).b), f((x).c), f((x).d)})
#define VEC_2(type, f, x, y) \
    ((type){f((x).a, (y).a), f((x).b, (y).b), f((x).c, (y).c), f((x).d, (y).d)})
#define VEC_3(type, f, x, y, z) \
    ((type){f((x).a, (y).a, (z).a), f((x).b, (y).b, (z).b), f((x).c, (y).c, (z).c), \
            f((x).d, (y).d, (z).d)})
#define VEC_F2(name, op) QNI_INLINE vf name(vf x, vf y) { return VEC_2(vf, op, x, y); }
#define VEC_I2(name, op) QNI_INLINE vi name(vi x, vi y) { return VEC_2(vi, op, x, y); }
#define VEC_CMP(name, op) QNI_INLINE vm name(vf x, vf y) { return VEC_2(vm, op, x, y); }

VEC_F2(vf_add, vaddq_f32)
VEC_F2(vf_sub, vsubq_f32)
VEC_F2(vf_mul, vmulq_f32)
VEC_F2(vf_div, vdivq_f32)

VEC_CMP(vf_lt, vcltq_f32)
VEC_CMP(vf_le, vcleq_f32)
VEC_CMP(vf_gt, vcgtq_f32)
VEC_CMP(vf_ge, vcgeq_f32)
VEC_CMP(vf_eq, vceqq_f32)

VEC_I2(vi_add, vaddq_s32)
VEC_I2(vi_sub, vsubq_s32)
VEC_I2(vi_min, vminq_s32)
VEC_I2(vi_max, vmaxq_s32)
VEC_I2(vi_and, vandq_s32)
VEC_I2(vi_or, vorrq_s32)
VEC_I2(vi_mul, vmulq_s32)

QNI_INLINE vm vi_eq(vi x, vi y) { return VEC_2(vm, vceqq_s32, x, y); }
QNI_INLINE vm vi_gt(vi x, vi y) { return VEC_2(vm, vcgtq_s32, x, y); }
QNI_INLINE vm vm_and(vm x, vm y) { return VEC_2(vm, vandq_u32, x, y); }
QNI_INLINE vm vm_or(vm x, vm y) { return VEC_2(vm, vorrq_u32, x, y); }
QNI_INLINE vm vm_but(vm x, vm y) { return VEC_2(vm, vbicq_u32, x, y); }
QNI_INLINE vf vf_pick(vm m, vf x, vf y) { return VEC_3(vf, vbslq_f32, m, x, y); }
QNI_INLINE vi vi_pick(vm m, vi x, vi y) { return VEC_3(vi, vbslq_s32, m, x, y); }
QNI_INLINE vf vf_sqrt(vf x) { return VEC_1(vf, vsqrtq_f32, x); }
QNI_INLINE vf vf_abs(vf x) { return VEC_1(vf, vabsq_f32, x); }
QNI_INLINE vf vf_neg(vf x) { return VEC_1(vf, vnegq_f32, x); }
QNI_INLINE vi vi_bits(vf x) { return VEC_1(vi, vreinterpretq_s32_f32, x); }
QNI_INLINE vf vf_bits(vi x) { return VEC_1(vf, vreinterpretq_f32_s32, x); }
QNI_INLINE vf vf_from_vi(vi x) { return VEC_1(vf, vcvtq_f32_s32, x); }
/* clang-format on */

#undef VEC_F2
#undef VEC_I2
#undef VEC_CMP

QNI_INLINE vf vf_min(vf x, vf y)
{
    return vf_pick(vf_lt(x, y), x, y);
}

QNI_INLINE vf vf_max(vf x, vf y)
{
    return vf_pick(vf_gt(x, y), x, y);
}

/* Asks for the cache line `ahead` bytes after p, wherever that is. */
QNI_INLINE void vec_prefetch(const void *p, int64_t ahead)
{
    __builtin_prefetch(qni_line_ahead(p, ahead), 0, 2);
}

QNI_INLINE vf vf_set(float v)
{
    const float32x4_t all = vdupq_n_f32(v);
    return (vf){all, all, all, all};
}

QNI_INLINE vf vf_fused(vf x, vf y, vf z)
{
    return VEC_3(vf, vfmaq_f32, z, x, y);
}

QNI_INLINE vf vf_load(const float *p)
{
    return (vf){vld1q_f32(p), vld1q_f32(p + 4), vld1q_f32(p + 8), vld1q_f32(p + 12)};
}

QNI_INLINE void vf_store(float *p, vf x)
{
    vst1q_f32(p, x.a);
    vst1q_f32(p + 4, x.b);
    vst1q_f32(p + 8, x.c);
    vst1q_f32(p + 12, x.d);
}

QNI_INLINE vi vi_set(int32_t v)
{
    const int32x4_t all = vdupq_n_s32(v);
    return (vi){all, all, all, all};
}

QNI_INLINE vi vi_load(const int32_t *p)
{
    return (vi){vld1q_s32(p), vld1q_s32(p + 4), vld1q_s32(p + 8), vld1q_s32(p + 12)};
}

QNI_INLINE void vi_store(int32_t *p, vi x)
{
    vst1q_s32(p, x.a);
    vst1q_s32(p + 4, x.b);
    vst1q_s32(p + 8, x.c);
    vst1q_s32(p + 12, x.d);
}

/* All bits of each lane narrowed to one byte. */
QNI_INLINE uint8x16_t vec_mask_bytes(vm x)
{
    const uint16x8_t low = vcombine_u16(vmovn_u32(x.a), vmovn_u32(x.b));
    const uint16x8_t high = vcombine_u16(vmovn_u32(x.c), vmovn_u32(x.d));
    return vcombine_u8(vmovn_u16(low), vmovn_u16(high));
}

QNI_INLINE uint32_t vm_bits(vm x)
{
    static const uint8_t places[16] = {1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128};
    const uint8x16_t bits = vandq_u8(vec_mask_bytes(x), vld1q_u8(places));
    return (uint32_t)vaddv_u8(vget_low_u8(bits)) | (uint32_t)vaddv_u8(vget_high_u8(bits)) << 8;
}

QNI_INLINE bool vm_any(vm x)
{
    return vmaxvq_u32(vorrq_u32(vorrq_u32(x.a, x.b), vorrq_u32(x.c, x.d))) != 0;
}

QNI_INLINE bool vm_all(vm x)
{
    return vminvq_u32(vandq_u32(vandq_u32(x.a, x.b), vandq_u32(x.c, x.d))) != 0;
}

QNI_INLINE int32x4_t vec_shr(int32x4_t x, int n)
{
    return vreinterpretq_s32_u32(vshlq_u32(vreinterpretq_u32_s32(x), vdupq_n_s32(-n)));
}

QNI_INLINE vi vi_shr(vi x, int n)
{
    return (vi){vec_shr(x.a, n), vec_shr(x.b, n), vec_shr(x.c, n), vec_shr(x.d, n)};
}

QNI_INLINE vi vi_shl(vi x, int n)
{
    const int32x4_t by = vdupq_n_s32(n);
    return (vi){vshlq_s32(x.a, by), vshlq_s32(x.b, by), vshlq_s32(x.c, by), vshlq_s32(x.d, by)};
}

/* The instruction saturates and turns NaN into 0; here all of these give -2^31. */
QNI_INLINE vi vi_trunc(vf x)
{
    const vm fits = vm_and(vf_ge(x, vf_set(-2147483648.0f)), vf_lt(x, vf_set(2147483648.0f)));
    return vi_pick(fits, VEC_1(vi, vcvtq_s32_f32, x), vi_set(INT32_MIN));
}

QNI_INLINE int32x4_t vec_count(int32x4_t x, uint32x4_t m)
{
    return vsubq_s32(x, vreinterpretq_s32_u32(m));
}

QNI_INLINE vi vi_count(vi x, vm m)
{
    return VEC_2(vi, vec_count, x, m);
}

/* The low half of each lane. */
QNI_INLINE uint16x4_t vec_low_half(int32x4_t x)
{
    return vmovn_u32(vreinterpretq_u32_s32(x));
}

QNI_INLINE void vi_store_u16(uint16_t *p, vi x)
{
    vst1_u16(p, vec_low_half(x.a));
    vst1_u16(p + 4, vec_low_half(x.b));
    vst1_u16(p + 8, vec_low_half(x.c));
    vst1_u16(p + 12, vec_low_half(x.d));
}

QNI_INLINE void vi_store_u8(uint8_t *p, vi x)
{
    vst1_u8(p, vmovn_u16(vcombine_u16(vec_low_half(x.a), vec_low_half(x.b))));
    vst1_u8(p + 8, vmovn_u16(vcombine_u16(vec_low_half(x.c), vec_low_half(x.d))));
}

QNI_INLINE void vi_store_i8x2(int8_t *p, vi x, vi y)
{
    vi_store_u8((uint8_t *)p, x);
    vi_store_u8((uint8_t *)p + VL, y);
}

QNI_INLINE vi vi_load_u16(const uint8_t *p)
{
    const uint16x8_t low = vreinterpretq_u16_u8(vld1q_u8(p));
    const uint16x8_t high = vreinterpretq_u16_u8(vld1q_u8(p + 16));
    return (vi){vreinterpretq_s32_u32(vmovl_u16(vget_low_u16(low))),
                vreinterpretq_s32_u32(vmovl_u16(vget_high_u16(low))),
                vreinterpretq_s32_u32(vmovl_u16(vget_low_u16(high))),
                vreinterpretq_s32_u32(vmovl_u16(vget_high_u16(high)))};
}

/* --- sixteen bytes; see x86/vec_bytes_internal.h ------------------------------------------------
 */

typedef uint8x16_t vb;

QNI_INLINE vb vb_load(const void *p)
{
    return vld1q_u8(p);
}

QNI_INLINE vb vb_load8(const void *p)
{
    return vcombine_u8(vld1_u8(p), vdup_n_u8(0));
}

QNI_INLINE vb vb_set(int32_t v)
{
    return vdupq_n_u8((uint8_t)v);
}

QNI_INLINE vb vb_words(uint32_t a, uint32_t b, uint32_t c, uint32_t d)
{
    const uint32_t words[4] = {a, b, c, d};
    return vreinterpretq_u8_u32(vld1q_u32(words));
}

QNI_INLINE vb vb_and(vb x, vb y)
{
    return vandq_u8(x, y);
}

QNI_INLINE vb vb_or(vb x, vb y)
{
    return vorrq_u8(x, y);
}

QNI_INLINE vb vb_but(vb x, vb y)
{
    return vbicq_u8(x, y);
}

QNI_INLINE vb vb_add(vb x, vb y)
{
    return vaddq_u8(x, y);
}

QNI_INLINE vb vb_sub(vb x, vb y)
{
    return vsubq_u8(x, y);
}

QNI_INLINE vb vb_shr(vb x, int n)
{
    return vshlq_u8(x, vdupq_n_s8((int8_t)-n));
}

QNI_INLINE vb vb_shl(vb x, int n)
{
    return vshlq_u8(x, vdupq_n_s8((int8_t)n));
}

QNI_INLINE vb vb_join(vb x, vb y)
{
    return vcombine_u8(vget_low_u8(x), vget_low_u8(y));
}

QNI_INLINE vb vb_zip(vb x, vb y)
{
    return vzip1q_u8(x, y);
}

QNI_INLINE vb vb_at_least(vb x, int32_t v)
{
    return vcgeq_u8(x, vb_set(v));
}

QNI_INLINE vb vb_look(vb table, vb x)
{
    return vqtbl1q_u8(table, x);
}

QNI_INLINE vb vb_bits(uint32_t bits, int half)
{
    static const uint8_t places[16] = {1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128};
    const uint32_t two = bits >> (16 * half);
    const vb bytes = vcombine_u8(vdup_n_u8((uint8_t)two), vdup_n_u8((uint8_t)(two >> 8)));
    return vtstq_u8(bytes, vld1q_u8(places));
}

QNI_INLINE float32x4_t vec_f16_lanes(const uint8_t *field)
{
    return vcvt_f32_f16(vreinterpret_f16_u16(vdup_n_u16(qni_load_u16le(field))));
}

QNI_INLINE float vec_f16(const uint8_t *field)
{
    return vgetq_lane_f32(vec_f16_lanes(field), 0);
}

QNI_INLINE vf vf_set_f16(const uint8_t *field)
{
    const float32x4_t all = vec_f16_lanes(field);
    return (vf){all, all, all, all};
}

QNI_INLINE vi vi_from_u8(vb x)
{
    const uint16x8_t low = vmovl_u8(vget_low_u8(x));
    const uint16x8_t high = vmovl_u8(vget_high_u8(x));
    return (vi){vreinterpretq_s32_u32(vmovl_u16(vget_low_u16(low))),
                vreinterpretq_s32_u32(vmovl_u16(vget_high_u16(low))),
                vreinterpretq_s32_u32(vmovl_u16(vget_low_u16(high))),
                vreinterpretq_s32_u32(vmovl_u16(vget_high_u16(high)))};
}

QNI_INLINE vi vi_from_i8(vb x)
{
    const int16x8_t low = vmovl_s8(vget_low_s8(vreinterpretq_s8_u8(x)));
    const int16x8_t high = vmovl_s8(vget_high_s8(vreinterpretq_s8_u8(x)));
    return (vi){vmovl_s16(vget_low_s16(low)), vmovl_s16(vget_high_s16(low)),
                vmovl_s16(vget_low_s16(high)), vmovl_s16(vget_high_s16(high))};
}

QNI_INLINE vi vi_load_u8(const uint8_t *p)
{
    return vi_from_u8(vb_load(p));
}

QNI_INLINE vi vi_load_i8(const int8_t *p)
{
    return vi_from_i8(vb_load(p));
}

/* The word shifted by first, first + step, ...: to the left if positive. */
QNI_INLINE int32x4_t vec_shifted(uint32_t word, int32_t first, int32_t step)
{
    const int32_t by[4] = {first, first + step, first + 2 * step, first + 3 * step};
    return vreinterpretq_s32_u32(vshlq_u32(vdupq_n_u32(word), vld1q_s32(by)));
}

QNI_INLINE vi vi_unpack2(uint32_t word)
{
    return (vi){vec_shifted(word, 0, -2), vec_shifted(word, -8, -2), vec_shifted(word, -16, -2),
                vec_shifted(word, -24, -2)};
}

QNI_INLINE vi vi_unpack4(uint32_t first, uint32_t second)
{
    return (vi){vec_shifted(first, 0, -4), vec_shifted(first, -16, -4), vec_shifted(second, 0, -4),
                vec_shifted(second, -16, -4)};
}

/* Places of the bytes of the floats number x & mask. */
QNI_INLINE uint8x16_t vec_places(int32x4_t x, int32_t mask)
{
    const int32x4_t number = vandq_s32(x, vdupq_n_s32(mask));
    return vreinterpretq_u8_s32(
        vmlaq_s32(vdupq_n_s32(0x03020100), number, vdupq_n_s32(0x04040404)));
}

QNI_INLINE float32x4_t vec_look4(float32x4_t table, int32x4_t x)
{
    return vreinterpretq_f32_u8(vqtbl1q_u8(vreinterpretq_u8_f32(table), vec_places(x, 3)));
}

QNI_INLINE vf vf_look4(vf table, vi x)
{
    return VEC_2(vf, vec_look4, table, x);
}

QNI_INLINE vf vf_look8(vf table, vi x)
{
    const uint8x16x2_t eight = {{vreinterpretq_u8_f32(table.a), vreinterpretq_u8_f32(table.b)}};
    return (vf){vreinterpretq_f32_u8(vqtbl2q_u8(eight, vec_places(x.a, 7))),
                vreinterpretq_f32_u8(vqtbl2q_u8(eight, vec_places(x.b, 7))),
                vreinterpretq_f32_u8(vqtbl2q_u8(eight, vec_places(x.c, 7))),
                vreinterpretq_f32_u8(vqtbl2q_u8(eight, vec_places(x.d, 7)))};
}

QNI_INLINE float32x4_t vec_flip(float32x4_t x, int32x4_t bits)
{
    const int32x4_t sign = vandq_s32(bits, vdupq_n_s32(INT32_MIN));
    return vreinterpretq_f32_s32(veorq_s32(vreinterpretq_s32_f32(x), sign));
}

QNI_INLINE vf vf_flip(vf x, uint32_t bits)
{
    const vi to_sign = {vec_shifted(bits, 31, -1), vec_shifted(bits, 27, -1),
                        vec_shifted(bits, 23, -1), vec_shifted(bits, 19, -1)};
    return VEC_2(vf, vec_flip, x, to_sign);
}

QNI_INLINE int32_t vi_reduce_max(vi x)
{
    return vmaxvq_s32(vmaxq_s32(vmaxq_s32(x.a, x.b), vmaxq_s32(x.c, x.d)));
}

QNI_INLINE int32_t vi_reduce_add(vi x)
{
    return vaddvq_s32(vaddq_s32(vaddq_s32(x.a, x.b), vaddq_s32(x.c, x.d)));
}

QNI_INLINE float vf_reduce_min(vf x)
{
    return vminvq_f32(vminq_f32(vminq_f32(x.a, x.b), vminq_f32(x.c, x.d)));
}

QNI_INLINE float vf_reduce_max(vf x)
{
    return vmaxvq_f32(vmaxq_f32(vmaxq_f32(x.a, x.b), vmaxq_f32(x.c, x.d)));
}

QNI_INLINE void vf_store_f16(uint16_t *p, vf x)
{
    vst1_u16(p, vreinterpret_u16_f16(vcvt_f16_f32(x.a)));
    vst1_u16(p + 4, vreinterpret_u16_f16(vcvt_f16_f32(x.b)));
    vst1_u16(p + 8, vreinterpret_u16_f16(vcvt_f16_f32(x.c)));
    vst1_u16(p + 12, vreinterpret_u16_f16(vcvt_f16_f32(x.d)));
}

QNI_INLINE vf vf_load_f16(const uint16_t *p)
{
    return (vf){vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p))),
                vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p + 4))),
                vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p + 8))),
                vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p + 12)))};
}

/* 4 columns of 4 rows, turned. */
QNI_INLINE void vec_turn4(const float *const *rows, int64_t at, float *out)
{
    const float32x4_t r0 = vld1q_f32(rows[0] + at);
    const float32x4_t r1 = vld1q_f32(rows[1] + at);
    const float32x4_t r2 = vld1q_f32(rows[2] + at);
    const float32x4_t r3 = vld1q_f32(rows[3] + at);
    const float32x4_t even_low = vzip1q_f32(r0, r2);
    const float32x4_t even_high = vzip2q_f32(r0, r2);
    const float32x4_t odd_low = vzip1q_f32(r1, r3);
    const float32x4_t odd_high = vzip2q_f32(r1, r3);
    vst1q_f32(out, vzip1q_f32(even_low, odd_low));
    vst1q_f32(out + VL, vzip2q_f32(even_low, odd_low));
    vst1q_f32(out + 2 * VL, vzip1q_f32(even_high, odd_high));
    vst1q_f32(out + 3 * VL, vzip2q_f32(even_high, odd_high));
}

QNI_INLINE void vec_transpose(const float *const *rows, int64_t at, int n, float *out)
{
    for (int i = 0; i < n; i += 4) {
        for (int lane = 0; lane < VL; lane += 4) {
            vec_turn4(rows + lane, at + i, out + VL * i + lane);
        }
    }
}

/* floor(2 x) + 256, cut to 0..511, of eight lanes. */
QNI_INLINE uint16x8_t vec_iq4_steps(float32x4_t x, float32x4_t y)
{
    const int16x4_t low = vqmovn_s32(vcvtmq_s32_f32(vaddq_f32(x, x)));
    const int16x4_t high = vqmovn_s32(vcvtmq_s32_f32(vaddq_f32(y, y)));
    const int16x8_t w = vqaddq_s16(vcombine_s16(low, high), vdupq_n_s16(256));
    return vreinterpretq_u16_s16(vminq_s16(vmaxq_s16(w, vdupq_n_s16(0)), vdupq_n_s16(511)));
}

/* Places among the iq4 code values, for numbers of any size. Decision points are multiples of 1/2,
 * so the place depends on w = floor(2 x) only. A bin of 16 in w + 256 holds at most one of them:
 * `base` counts the points at or below its start, `point` is the one inside it (99: none). */
QNI_INLINE uint8x16_t vec_iq4_places(vf x)
{
    static const uint8_t base[32] = {0, 0, 1, 1,  1,  2,  2,  3,  3,  4,  4,  5,  5,  6,  7,  7,
                                     8, 9, 9, 10, 11, 11, 12, 12, 13, 13, 14, 14, 14, 15, 15, 15};
    static const uint8_t point[32] = {99, 9,  99, 99, 5,  99, 12, 99, 14, 99, 12,
                                      99, 7,  99, 99, 7,  14, 99, 6,  15, 99, 11,
                                      99, 10, 99, 14, 99, 99, 10, 99, 99, 99};
    const uint16x8_t low = vec_iq4_steps(x.a, x.b);
    const uint16x8_t high = vec_iq4_steps(x.c, x.d);
    const uint8x16_t bin = vcombine_u8(vshrn_n_u16(low, 4), vshrn_n_u16(high, 4));
    const uint8x16_t rest = vandq_u8(vcombine_u8(vmovn_u16(low), vmovn_u16(high)), vdupq_n_u8(15));
    const uint8x16x2_t bases = {{vld1q_u8(base), vld1q_u8(base + 16)}};
    const uint8x16x2_t points = {{vld1q_u8(point), vld1q_u8(point + 16)}};
    const uint8x16_t is_past = vcgeq_u8(rest, vqtbl2q_u8(points, bin));
    return vsubq_u8(vqtbl2q_u8(bases, bin), is_past);
}

QNI_INLINE vi vi_iq4_codes(vf x)
{
    uint8_t bytes[VL];
    const vf near = vf_max(vf_min(x, vf_set(200.0f)), vf_set(-200.0f)); /* NaN becomes 200 */
    vst1q_u8(bytes, vec_iq4_places(near));
    return vi_load_u8(bytes);
}

QNI_INLINE vf vf_iq4_values(vf x)
{
    static const int8_t table[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                     1,    13,   25,  38,  53,  69,  89,  113};
    const int8x16_t values = vqtbl1q_s8(vld1q_s8(table), vec_iq4_places(x));
    const int16x8_t low = vmovl_s8(vget_low_s8(values));
    const int16x8_t high = vmovl_s8(vget_high_s8(values));
    const vi wide = {vmovl_s16(vget_low_s16(low)), vmovl_s16(vget_high_s16(low)),
                     vmovl_s16(vget_low_s16(high)), vmovl_s16(vget_high_s16(high))};
    return vf_from_vi(wide);
}

#endif
