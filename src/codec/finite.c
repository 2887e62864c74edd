/* finite.c — the check that comes before every encoder. */
#include "codec/codec.h"

int64_t qn_find_non_finite(const float *x, int64_t n)
{
    enum { CHUNK = 4096 };
    const qni_finite_fn all_finite = qni_kernel_finite(QN_DTYPE_F32, QN_ISA_BEST);
    for (int64_t start = 0; start < n; start += CHUNK) {
        const int64_t n_here = qni_min_i64(CHUNK, n - start);
        if (all_finite(x + start, n_here)) {
            continue;
        }
        for (int64_t i = start;; i++) {
            if (!qni_f32_is_finite(x[i])) {
                return i;
            }
        }
    }
    return -1;
}
