/* lora_avx512.c — the product of a low-rank update on AVX-512. */
#include "kernels/x86/vec_avx512_internal.h"

#include "kernels/simd/lora_lanes_internal.h"
