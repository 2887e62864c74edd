/* decode_small_avx512.c — decoders of blocks of 32 to 128 elements, 16-bit floats and q8_K on
 * AVX-512. */
#include "kernels/x86/vec_avx512_internal.h"

#include "kernels/simd/decode_small_internal.h"
