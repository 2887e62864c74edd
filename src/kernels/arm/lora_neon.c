/* lora_neon.c — the product of a low-rank update on NEON. */
#include "kernels/arm/vec_neon_internal.h"

#include "kernels/simd/lora_lanes_internal.h"
