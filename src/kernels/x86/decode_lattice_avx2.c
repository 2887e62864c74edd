/* decode_lattice_avx2.c — decoders of iq1_*, iq2_* and iq3_* on AVX2. */
#include "kernels/x86/vec_avx2_internal.h"

#include "kernels/simd/decode_lattice_internal.h"
