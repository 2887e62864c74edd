/* encode_legacy_neon.c — encoders of q4_0 to q8_1 on NEON. */
#include "kernels/arm/vec_neon_internal.h"

#include "kernels/simd/encode_legacy_internal.h"
