/* encode_k_avx512.c — encoders of q2_K to q6_K on AVX-512. */
#include "kernels/x86/vec_avx512_internal.h"

#include "kernels/simd/encode_k_internal.h"
