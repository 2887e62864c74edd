/* encode_k_avx2.c — encoders of q2_K to q6_K on AVX2. */
#include "kernels/x86/vec_avx2_internal.h"

#include "kernels/simd/encode_k_internal.h"
