/* decode_small_neon.c — decoders of blocks of 32 to 128 elements, 16-bit floats and q8_K on NEON.
 */
#include "kernels/arm/vec_neon_internal.h"

#include "kernels/simd/decode_small_internal.h"
