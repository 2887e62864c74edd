/* iq1_avx512.c — encoders of iq1_s and iq1_m, sixteen splits at a time. */
#include "kernels/x86/lattice_lanes_avx512_internal.h"

#include "kernels/x86/iq1_lanes_internal.h"
