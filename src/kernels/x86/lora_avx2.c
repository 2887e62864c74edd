/* lora_avx2.c — the product of a low-rank update on AVX2. */
#include "kernels/x86/vec_avx2_internal.h"

#include "kernels/simd/lora_lanes_internal.h"
