/* encode_iq4_neon.c — encoders of iq4_nl and iq4_xs on NEON. */
#include "kernels/arm/vec_neon_internal.h"

#include "kernels/simd/encode_iq4_internal.h"
