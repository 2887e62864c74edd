/* encode_small_avx512.c — encoders of f16, bf16, q1_0, q2_0, tq1_0, tq2_0, mxfp4 and nvfp4 on
 * AVX-512. */
#include "kernels/x86/vec_avx512_internal.h"

#include "kernels/simd/encode_small_internal.h"
