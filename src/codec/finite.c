/* finite.c — the check that comes before every encoder. */
#include "codec/codec.h"

/* |x| as an integer is below that of infinity exactly for finite values. The loop has no exit, so
 * that compilers make vector code of it. */
static bool all_finite(const float *x, int64_t n)
{
    uint32_t bad = 0;
    for (int64_t i = 0; i < n; i++) {
        bad |= (qni_f32_bits(x[i]) & QNI_F32_ABS_MASK) >= QNI_F32_INF;
    }
    return bad == 0;
}

int64_t qn_find_non_finite(const float *x, int64_t n)
{
    enum { CHUNK = 4096 };
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
