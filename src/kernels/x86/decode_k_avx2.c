/* decode_k_avx2.c — decoders of K types, tq1_0, tq2_0 and iq4_xs on AVX2. */
#include "kernels/x86/vec_avx2_internal.h"

#include "kernels/simd/decode_k_internal.h"
