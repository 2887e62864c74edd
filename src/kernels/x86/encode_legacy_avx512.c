/* encode_legacy_avx512.c — encoders of q4_0, q4_1, q5_0 and q5_1 on AVX-512. */
#include "kernels/x86/vec_avx512_internal.h"

#include "kernels/simd/encode_legacy_internal.h"
