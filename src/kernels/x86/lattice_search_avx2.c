/* lattice_search_avx2.c — the search of iq2_* and iq3_*, eight candidates at a time. */
#include "kernels/x86/lattice_lanes_avx2_internal.h"

#include "kernels/x86/lattice_search_lanes_internal.h"
