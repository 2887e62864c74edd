/* encode_legacy_neon.c — encoders of q4_0, q4_1, q5_0 and q5_1 on NEON. */
#include "kernels/arm/vec_neon_internal.h"

#include "kernels/simd/encode_legacy_internal.h"
