/* spread_neon.c — the product that gives gradients, on NEON. */
#include "kernels/arm/vec_neon_internal.h"

#include "kernels/simd/spread_lanes_internal.h"
