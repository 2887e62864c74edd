/* encode_iq4_avx2.c — encoders of iq4_nl and iq4_xs on AVX2. */
#include "kernels/x86/vec_avx2_internal.h"

#include "kernels/simd/encode_iq4_internal.h"
