/* encode_q8_neon.c — q8_0, q8_1 and q8_K on NEON. */
#include "kernels/arm/vec_neon_internal.h"

QNI_INLINE int32x4_t max_of_vi(vi x)
{
    return vmaxq_s32(vmaxq_s32(x.a, x.b), vmaxq_s32(x.c, x.d));
}

QNI_INLINE int32x4_t max_of_4(const vi *v)
{
    return vpmaxq_s32(vpmaxq_s32(max_of_vi(v[0]), max_of_vi(v[1])),
                      vpmaxq_s32(max_of_vi(v[2]), max_of_vi(v[3])));
}

/* Lane i: the greatest lane of v[i]. */
QNI_INLINE vi vi_reduce_max_x16(const vi *v)
{
    return (vi){max_of_4(v), max_of_4(v + 4), max_of_4(v + 8), max_of_4(v + 12)};
}

QNI_INLINE int32x4_t sum_of_vi(vi x)
{
    return vaddq_s32(vaddq_s32(x.a, x.b), vaddq_s32(x.c, x.d));
}

QNI_INLINE int32x4_t sum_of_4(const vi *v)
{
    return vpaddq_s32(vpaddq_s32(sum_of_vi(v[0]), sum_of_vi(v[1])),
                      vpaddq_s32(sum_of_vi(v[2]), sum_of_vi(v[3])));
}

/* Lane i: the sum of the lanes of v[i]. */
QNI_INLINE vi vi_reduce_add_x16(const vi *v)
{
    return (vi){sum_of_4(v), sum_of_4(v + 4), sum_of_4(v + 8), sum_of_4(v + 12)};
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

#include "kernels/simd/encode_q8_internal.h"
