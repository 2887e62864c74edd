/* encode_iq4_avx512.c — encoders of iq4_nl and iq4_xs on AVX-512. */
#include "kernels/x86/vec_avx512_internal.h"

#include "kernels/simd/encode_iq4_internal.h"
