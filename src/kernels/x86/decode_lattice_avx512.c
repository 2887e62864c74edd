/* decode_lattice_avx512.c — decoders of iq1_*, iq2_* and iq3_* on AVX-512. */
#include "kernels/x86/vec_avx512_internal.h"

#include "kernels/simd/decode_lattice_internal.h"
