/* lattice_search_avx512.c — the search of iq2_* and iq3_*, sixteen candidates at a time, and the
 * kernels made of it; what comes before the search is that of AVX2. */
#include "kernels/x86/lattice_lanes_avx512_internal.h"

#include "kernels/x86/lattice_search_lanes_internal.h"

static const qni_lattice_steps steps_avx512 = {
    .prepare = qni_lattice_prepare_avx2,
    .start = qni_lattice_start_avx2,
    .search = qni_lattice_search_avx512,
};

#define DEFINE_KERNEL(name)                                                                     \
    QNI_PROTO_encode(qni_encode_##name##_avx512)                                                \
    {                                                                                           \
        return qni_encode_##name##_by(&steps_avx512, x, n_rows, row_len, weights, tables, out); \
    }

DEFINE_KERNEL(iq2_xxs)
DEFINE_KERNEL(iq2_xs)
DEFINE_KERNEL(iq2_s)
DEFINE_KERNEL(iq3_xxs)
DEFINE_KERNEL(iq3_s)
