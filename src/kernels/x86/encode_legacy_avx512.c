/* encode_legacy_avx512.c — encoders of q4_0, q4_1, q5_0 and q5_1 on AVX-512. */
#include "kernels/x86/vec_avx512_internal.h"

#include "kernels/simd/level_lanes_internal.h"

typedef vf vf_part;

QNI_INLINE vf_part vf_max_part(vf x)
{
    return x;
}

QNI_INLINE vf_part vf_min_part(vf x)
{
    return x;
}

QNI_INLINE vf vf_max_of_parts(const vf_part *parts)
{
    float lanes[VL];
    for (int i = 0; i < VL; i++) {
        lanes[i] = vf_reduce_max(parts[i]);
    }
    return vf_load(lanes);
}

QNI_INLINE vf vf_min_of_parts(const vf_part *parts)
{
    float lanes[VL];
    for (int i = 0; i < VL; i++) {
        lanes[i] = vf_reduce_min(parts[i]);
    }
    return vf_load(lanes);
}

#include "kernels/simd/encode_legacy_internal.h"
