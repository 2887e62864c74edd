/* encode_k_neon.c — encoders of q2_K to q6_K on NEON. */
#include "kernels/arm/vec_neon_internal.h"

#include "kernels/simd/encode_k_internal.h"
