/* encode_legacy_neon.c — encoders of q4_0, q4_1, q5_0 and q5_1 on NEON. */
#include "kernels/arm/vec_neon_internal.h"

#include "kernels/simd/level_lanes_internal.h"

typedef float32x4_t vf_part;

QNI_INLINE vf_part vf_max_part(vf x)
{
    return vmaxq_f32(vmaxq_f32(x.a, x.b), vmaxq_f32(x.c, x.d));
}

QNI_INLINE vf_part vf_min_part(vf x)
{
    return vminq_f32(vminq_f32(x.a, x.b), vminq_f32(x.c, x.d));
}

QNI_INLINE float32x4_t max_of_4(const vf_part *v)
{
    return vpmaxq_f32(vpmaxq_f32(v[0], v[1]), vpmaxq_f32(v[2], v[3]));
}

QNI_INLINE float32x4_t min_of_4(const vf_part *v)
{
    return vpminq_f32(vpminq_f32(v[0], v[1]), vpminq_f32(v[2], v[3]));
}

QNI_INLINE vf vf_max_of_parts(const vf_part *parts)
{
    return (vf){max_of_4(parts), max_of_4(parts + 4), max_of_4(parts + 8), max_of_4(parts + 12)};
}

QNI_INLINE vf vf_min_of_parts(const vf_part *parts)
{
    return (vf){min_of_4(parts), min_of_4(parts + 4), min_of_4(parts + 8), min_of_4(parts + 12)};
}

#include "kernels/simd/encode_legacy_internal.h"
