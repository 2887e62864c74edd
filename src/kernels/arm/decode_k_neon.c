/* decode_k_neon.c — decoders of K types, tq1_0, tq2_0 and iq4_xs on NEON. */
#include "kernels/arm/vec_neon_internal.h"

#include "kernels/simd/decode_k_internal.h"
