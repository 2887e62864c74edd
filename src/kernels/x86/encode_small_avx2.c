/* encode_small_avx2.c — encoders of f16, bf16, q1_0, q2_0, tq1_0, tq2_0, mxfp4 and nvfp4 on AVX2.
 */
#include "kernels/x86/vec_avx2_internal.h"

#include "kernels/simd/encode_small_internal.h"
