/* spread_avx512.c — the product that gives gradients, on AVX-512. */
#include "kernels/x86/vec_avx512_internal.h"

#include "kernels/simd/spread_lanes_internal.h"
