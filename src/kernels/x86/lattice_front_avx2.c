/* lattice_front_avx2.c — weights and signs of a super-block, the start of iq2_xxs, and the kernels
 * of iq2_* and iq3_* made of them. Every element has the referee's operations in its order. */
#include "kernels/x86/lattice_avx2_internal.h"

#include <float.h>

enum { N_SUB = QNI_SUPER / 32 };

/* --- weights and signs ---------------------------------------------------------------------------
 */

/* Lane number `k` only, and only if `is_wanted`: the sign bit. */
QNI_INLINE __m256 sign_of_lane(uint32_t k, uint32_t is_wanted)
{
    const __m256i lane = _mm256_cmpeq_epi32(_mm256_set1_epi32((int32_t)k),
                                            _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
    const __m256i bit = _mm256_slli_epi32(_mm256_set1_epi32((int32_t)is_wanted), 31);
    return _mm256_castsi256_ps(_mm256_and_si256(lane, bit));
}

QNI_INLINE __m256 weight_of(__m256 x, const float *importance, __m256 sigma2, __m256 plain_sigma2)
{
    const __m256 xx = _mm256_mul_ps(x, x);
    return importance ? _mm256_mul_ps(_mm256_loadu_ps(importance),
                                      _mm256_sqrt_ps(_mm256_add_ps(sigma2, xx)))
                      : _mm256_add_ps(plain_sigma2, xx);
}

/* False if a weight is not finite: then comparisons must be made one by one. */
QNI_INLINE bool prepare(const float *x, const float *importance, float sigma2, float plain_sigma2,
                        bool is_even, qni_lattice_front *front)
{
    const __m256 sign_bit = _mm256_set1_ps(-0.0f);
    __m256 is_wild = _mm256_setzero_ps();
    for (int32_t i = 0; i < QNI_SUPER; i += LANES) {
        const __m256 v = _mm256_loadu_ps(x + i);
        const __m256 w = weight_of(v, importance ? importance + i : NULL, _mm256_set1_ps(sigma2),
                                   _mm256_set1_ps(plain_sigma2));
        const __m256 is_negative = _mm256_cmp_ps(v, _mm256_setzero_ps(), _CMP_NGE_UQ);
        __m256 y = _mm256_xor_ps(v, _mm256_and_ps(is_negative, sign_bit));
        uint32_t signs = (uint32_t)_mm256_movemask_ps(is_negative);
        if (is_even) {
            const __m256 cost = _mm256_mul_ps(_mm256_mul_ps(w, v), v);
            is_wild =
                _mm256_or_ps(is_wild, _mm256_cmp_ps(cost, _mm256_set1_ps(FLT_MAX), _CMP_NLE_UQ));
            const uint32_t cheapest = first_bit(
                (uint32_t)_mm256_movemask_ps(_mm256_cmp_ps(cost, min_all(cost), _CMP_EQ_OQ)) |
                0x80u);
            const uint32_t is_odd = (uint32_t)__builtin_popcount(signs) & 1u;
            y = _mm256_xor_ps(y, sign_of_lane(cheapest, is_odd));
            signs = (signs ^ is_odd << cheapest) & 0x7fu;
        }
        front->signs[i / 8] = (uint8_t)signs;
        _mm256_storeu_ps(front->x + i, y);
        _mm256_storeu_ps(front->w + i, w);
        _mm256_storeu_ps(front->root + i, _mm256_sqrt_ps(w));
    }
    return _mm256_movemask_ps(is_wild) == 0;
}

void qni_lattice_prepare_avx2(const float *x, const float *importance, float sigma2,
                              float plain_sigma2, bool is_even, qni_lattice_front *front)
{
    bool is_done;
    if (is_even) {
        is_done = importance ? prepare(x, importance, sigma2, plain_sigma2, true, front)
                             : prepare(x, NULL, sigma2, plain_sigma2, true, front);
    } else {
        is_done = importance ? prepare(x, importance, sigma2, plain_sigma2, false, front)
                             : prepare(x, NULL, sigma2, plain_sigma2, false, front);
    }
    if (!is_done) {
        qni_lattice_prepare(x, importance, sigma2, plain_sigma2, is_even, front);
    }
}

/* --- the start of iq2_xxs: lanes are the eight sub-blocks
 * -----------------------------------------
 */

/* Rows of 32 floats, eight of them -> element i of all eight in out[i]. */
QNI_INLINE void transpose_sub_blocks(const float *from, __m256 *out)
{
    for (int32_t i = 0; i < 32; i += 8) {
        __m256 r[8];
        __m256 t[8];
        for (int32_t k = 0; k < 8; k++) {
            r[k] = _mm256_loadu_ps(from + 32 * k + i);
        }
        for (int32_t k = 0; k < 8; k += 2) {
            t[k] = _mm256_unpacklo_ps(r[k], r[k + 1]);
            t[k + 1] = _mm256_unpackhi_ps(r[k], r[k + 1]);
        }
        for (int32_t k = 0; k < 8; k += 4) {
            r[k] = _mm256_shuffle_ps(t[k], t[k + 2], 0x44);
            r[k + 1] = _mm256_shuffle_ps(t[k], t[k + 2], 0xee);
            r[k + 2] = _mm256_shuffle_ps(t[k + 1], t[k + 3], 0x44);
            r[k + 3] = _mm256_shuffle_ps(t[k + 1], t[k + 3], 0xee);
        }
        for (int32_t k = 0; k < 4; k++) {
            out[i + k] = _mm256_permute2f128_ps(r[k], r[k + 4], 0x20);
            out[i + k + 4] = _mm256_permute2f128_ps(r[k], r[k + 4], 0x31);
        }
    }
}

/* The positive search with four as the highest level, as in qni_search_positive(). */
typedef struct start_work {
    __m256 x[32];
    __m256 w[32];
    __m256 wx[32];
    __m256 level[32];
} start_work;

#define TOP 4

QNI_INLINE __m256 low_byte(__m256i v)
{
    return _mm256_cvtepi32_ps(_mm256_and_si256(v, _mm256_set1_epi32(255)));
}

/* Weighted error with levels rounded by `inv`; the first candidate's wrap, the others' are cut. */
QNI_INLINE __m256 error_of(const start_work *job, __m256 inv, bool is_first)
{
    const __m256 scale = _mm256_div_ps(_mm256_set1_ps(1.0f), inv);
    __m256 sum = _mm256_setzero_ps();
    for (int32_t i = 0; i < 32; i++) {
        const __m256i l = nearest_8(_mm256_mul_ps(inv, job->x[i]));
        const __m256 level = is_first
                                 ? low_byte(l)
                                 : _mm256_cvtepi32_ps(_mm256_min_epi32(l, _mm256_set1_epi32(TOP)));
        const __m256 e = _mm256_sub_ps(job->x[i], _mm256_mul_ps(scale, level));
        sum = _mm256_add_ps(sum, _mm256_mul_ps(_mm256_mul_ps(job->w[i], e), e));
    }
    return sum;
}

/* One pass that moves levels; returns which lanes changed. */
QNI_INLINE __m256 improve(start_work *job, __m256 *xl, __m256 *ll)
{
    const __m256 zero = _mm256_setzero_ps();
    __m256 has_changed = zero;
    for (int32_t i = 0; i < 32; i++) {
        const __m256 l = job->level[i];
        const __m256 a = _mm256_sub_ps(*xl, _mm256_mul_ps(job->wx[i], l));
        const __m256 b = _mm256_sub_ps(*ll, _mm256_mul_ps(_mm256_mul_ps(job->w[i], l), l));
        __m256 moves =
            _mm256_and_ps(_mm256_cmp_ps(a, zero, _CMP_GT_OQ), _mm256_cmp_ps(b, zero, _CMP_GT_OQ));
        const __m256i new_l = _mm256_min_epi32(
            nearest_8(_mm256_div_ps(_mm256_mul_ps(job->x[i], b), a)), _mm256_set1_epi32(TOP));
        const __m256 nl = _mm256_cvtepi32_ps(new_l);
        moves = _mm256_and_ps(moves, _mm256_cmp_ps(nl, l, _CMP_NEQ_UQ));
        const __m256 a2 = _mm256_add_ps(a, _mm256_mul_ps(job->wx[i], nl));
        const __m256 b2 = _mm256_add_ps(b, _mm256_mul_ps(_mm256_mul_ps(job->w[i], nl), nl));
        const __m256 is_better =
            _mm256_cmp_ps(_mm256_mul_ps(_mm256_mul_ps(a2, a2), *ll),
                          _mm256_mul_ps(_mm256_mul_ps(*xl, *xl), b2), _CMP_GT_OQ);
        moves = _mm256_and_ps(moves, is_better);
        job->level[i] = _mm256_blendv_ps(l, low_byte(new_l), moves);
        *xl = _mm256_blendv_ps(*xl, a2, moves);
        *ll = _mm256_blendv_ps(*ll, b2, moves);
        has_changed = _mm256_or_ps(has_changed, moves);
    }
    return has_changed;
}

QNI_INLINE __m256 search_positive(start_work *job, __m256 max)
{
    __m256 inv = _mm256_div_ps(_mm256_set1_ps(TOP), max);
    __m256 least = error_of(job, inv, true);
    for (int32_t k = -4; k <= 4; k++) {
        if (k == 0) {
            continue;
        }
        const __m256 trial = _mm256_div_ps(_mm256_set1_ps(0.1f * (float)k + (float)TOP), max);
        const __m256 error = error_of(job, trial, false);
        const __m256 is_less = _mm256_cmp_ps(error, least, _CMP_LT_OQ);
        least = _mm256_blendv_ps(least, error, is_less);
        inv = _mm256_blendv_ps(inv, trial, is_less);
    }
    __m256 xl = _mm256_setzero_ps();
    __m256 ll = _mm256_setzero_ps();
    for (int32_t i = 0; i < 32; i++) {
        const __m256i l =
            _mm256_min_epi32(nearest_8(_mm256_mul_ps(inv, job->x[i])), _mm256_set1_epi32(TOP));
        const __m256 level = _mm256_cvtepi32_ps(l);
        job->level[i] = low_byte(l);
        xl = _mm256_add_ps(xl, _mm256_mul_ps(job->wx[i], level));
        ll = _mm256_add_ps(ll, _mm256_mul_ps(_mm256_mul_ps(job->w[i], level), level));
    }
    /* a lane that did not change in a pass does not in the next: further passes are harmless */
    for (int32_t pass = 0; pass < 5; pass++) {
        if (_mm256_movemask_ps(improve(job, &xl, &ll)) == 0) {
            break;
        }
    }
    const __m256 is_positive = _mm256_cmp_ps(ll, _mm256_setzero_ps(), _CMP_GT_OQ);
    return _mm256_and_ps(is_positive, _mm256_div_ps(xl, ll));
}

/* The points are needed only where a scale is a NaN: then the referee's start makes them. */
void qni_lattice_start_avx2(const qni_lattice_front *front, qni_lattice_fit *fits)
{
    start_work job;
    transpose_sub_blocks(front->x, job.x);
    transpose_sub_blocks(front->w, job.w);
    __m256 max = job.x[0];
    for (int32_t i = 0; i < 32; i++) {
        job.wx[i] = _mm256_mul_ps(job.w[i], job.x[i]);
        max = _mm256_max_ps(max, job.x[i]);
    }
    const __m256 is_zero = _mm256_cmp_ps(max, _mm256_set1_ps(1e-15f), _CMP_LT_OQ);
    /* lanes of zeros divide by one instead */
    const __m256 scale = _mm256_andnot_ps(
        is_zero, search_positive(&job, _mm256_blendv_ps(max, _mm256_set1_ps(1.0f), is_zero)));
    if (_mm256_movemask_ps(_mm256_cmp_ps(scale, scale, _CMP_UNORD_Q)) != 0) {
        qni_lattice_start(front, fits);
        return;
    }
    float scales[N_SUB];
    _mm256_storeu_ps(scales, scale);
    for (int32_t sub = 0; sub < N_SUB; sub++) {
        fits[sub].scale = scales[sub];
        memset(fits[sub].points, 0xff, sizeof fits[sub].points);
    }
}

/* --- kernels -------------------------------------------------------------------------------------
 */

static const qni_lattice_steps steps_avx2 = {
    .prepare = qni_lattice_prepare_avx2,
    .start = qni_lattice_start_avx2,
    .search = qni_lattice_search_avx2,
};

#define DEFINE_KERNEL(name)                                                                   \
    QNI_PROTO_encode(qni_encode_##name##_avx2)                                                \
    {                                                                                         \
        return qni_encode_##name##_by(&steps_avx2, x, n_rows, row_len, weights, tables, out); \
    }

DEFINE_KERNEL(iq2_xxs)
DEFINE_KERNEL(iq2_xs)
DEFINE_KERNEL(iq2_s)
DEFINE_KERNEL(iq3_xxs)
DEFINE_KERNEL(iq3_s)
