/* decode_lattice_neon.c — decoders of iq1_*, iq2_* and iq3_* on NEON. */
#include "kernels/arm/vec_neon_internal.h"

#include "kernels/simd/decode_lattice_internal.h"
