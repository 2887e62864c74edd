/* encode_q8_neon.c — q8_0, q8_1 and q8_K on NEON. */
#include "kernels/arm/vec_neon_internal.h"

typedef int32x4_t vi_part;

QNI_INLINE vi_part vi_max_part(vi x)
{
    return vmaxq_s32(vmaxq_s32(x.a, x.b), vmaxq_s32(x.c, x.d));
}

QNI_INLINE vi_part vi_add_part(vi x)
{
    return vaddq_s32(vaddq_s32(x.a, x.b), vaddq_s32(x.c, x.d));
}

QNI_INLINE int32x4_t max_of_4(const vi_part *v)
{
    return vpmaxq_s32(vpmaxq_s32(v[0], v[1]), vpmaxq_s32(v[2], v[3]));
}

QNI_INLINE vi vi_max_of_parts(const vi_part *parts)
{
    return (vi){max_of_4(parts), max_of_4(parts + 4), max_of_4(parts + 8), max_of_4(parts + 12)};
}

QNI_INLINE int32x4_t sum_of_4(const vi_part *v)
{
    return vpaddq_s32(vpaddq_s32(v[0], v[1]), vpaddq_s32(v[2], v[3]));
}

QNI_INLINE vi vi_add_of_parts(const vi_part *parts)
{
    return (vi){sum_of_4(parts), sum_of_4(parts + 4), sum_of_4(parts + 8), sum_of_4(parts + 12)};
}

QNI_INLINE uint32x4_t max_unsigned(int32x4_t x, int32x4_t y)
{
    return vmaxq_u32(vreinterpretq_u32_s32(x), vreinterpretq_u32_s32(y));
}

QNI_INLINE vi vi_max_unsigned(vi x, vi y)
{
    return (vi){vreinterpretq_s32_u32(max_unsigned(x.a, y.a)),
                vreinterpretq_s32_u32(max_unsigned(x.b, y.b)),
                vreinterpretq_s32_u32(max_unsigned(x.c, y.c)),
                vreinterpretq_s32_u32(max_unsigned(x.d, y.d))};
}

QNI_INLINE uint32_t vi_reduce_max_unsigned(vi x)
{
    return vmaxvq_u32(vmaxq_u32(max_unsigned(x.a, x.b), max_unsigned(x.c, x.d)));
}

/* To the nearest, half to even. */
QNI_INLINE vi vi_nearest(vf x)
{
    return (vi){vcvtnq_s32_f32(x.a), vcvtnq_s32_f32(x.b), vcvtnq_s32_f32(x.c), vcvtnq_s32_f32(x.d)};
}

#define ROUNDED_TIMES 1.0f

QNI_INLINE vi levels_of_16(const float *x, float inverse)
{
    const vf v = vf_mul(vf_load(x), vf_set(inverse));
    return (vi){vcvtaq_s32_f32(v.a), vcvtaq_s32_f32(v.b), vcvtaq_s32_f32(v.c), vcvtaq_s32_f32(v.d)};
}

typedef vi_part level_part;

QNI_INLINE level_part put_rounded(const float *x, float inverse, int8_t *to)
{
    const vi low = levels_of_16(x, inverse);
    const vi high = levels_of_16(x + VL, inverse);
    vi_store_i8x2(to, low, high);
    return vi_add_part(vi_add(low, high));
}

QNI_INLINE vi sums_of_levels(const level_part *parts)
{
    return vi_add_of_parts(parts);
}

#include "kernels/simd/encode_q8_internal.h"
