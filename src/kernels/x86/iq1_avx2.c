/* iq1_avx2.c — encoders of iq1_s and iq1_m, eight splits at a time. */
#include "kernels/x86/lattice_lanes_avx2_internal.h"

#include "kernels/x86/iq1_lanes_internal.h"
