/* spread_avx2.c — the product that gives gradients, on AVX2. */
#include "kernels/x86/vec_avx2_internal.h"

#include "kernels/simd/spread_lanes_internal.h"
