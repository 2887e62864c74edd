/* encode_legacy_avx2.c — encoders of q4_0, q4_1, q5_0 and q5_1 on AVX2. */
#include "kernels/x86/vec_avx2_internal.h"

#include "kernels/simd/encode_legacy_internal.h"
