/* search_lanes_internal.h — the searches of search_internal.h, for sixteen sub-blocks at once.
 *
 * Each lane is one sub-block and does exactly what the scalar search does, operation by operation;
 * branches have become masks. Arrays are turned: element i of all lanes stands at [VL * i].
 * Included after a vec_*_internal.h header, which says what a vector is. Inputs are finite. */
#ifndef QNI_SEARCH_LANES_INTERNAL_H
#define QNI_SEARCH_LANES_INTERNAL_H

#include "kernels/search_internal.h"

/* --- rounding ----------------------------------------------------------------------------------
 */

/* qni_nearest() in every lane, accidents included. */
QNI_INLINE vi vi_nearest(vf v)
{
    const vi bits = vi_bits(vf_add(v, vf_set(12582912.0f)));
    return vi_sub(vi_and(bits, vi_set(0x007fffff)), vi_set(0x00400000));
}

QNI_INLINE vi vi_clamp(vi v, int32_t lo, int32_t hi)
{
    return vi_max(vi_min(v, vi_set(hi)), vi_set(lo));
}

/* The clamped level as a float, for any v. */
QNI_INLINE vf vf_level_any(vf v, int32_t lo, int32_t hi)
{
    return vf_from_vi(vi_clamp(vi_nearest(v), lo, hi));
}

/* The same for |v| < 2^22, where the sum with 1.5 * 2^23 is the rounding: two operations less. */
QNI_INLINE vf vf_level_near(vf v, float lo, float hi)
{
    const vf magic = vf_set(12582912.0f);
    const vf rounded = vf_sub(vf_add(v, magic), magic);
    return vf_max(vf_min(rounded, vf_set(hi)), vf_set(lo));
}

/* --- maxima ------------------------------------------------------------------------------------
 */

typedef struct lane_extreme {
    vf mag;
    vf value;
} lane_extreme;

/* qni_absmax() in every lane. */
QNI_INLINE lane_extreme lanes_absmax(const float *x, int n)
{
    lane_extreme best = {vf_set(0.0f), vf_set(0.0f)};
    for (int i = 0; i < n; i++) {
        const vf v = vf_load(x + VL * i);
        const vf mag = vf_abs(v);
        const vm larger = vf_gt(mag, best.mag);
        best.mag = vf_pick(larger, mag, best.mag);
        best.value = vf_pick(larger, v, best.value);
    }
    return best;
}

/* qni_sum_squares() in every lane. */
QNI_INLINE vf lanes_sum_squares(const float *x, int n)
{
    vf sum = vf_set(0.0f);
    for (int i = 0; i < n; i++) {
        const vf v = vf_load(x + VL * i);
        sum = vf_add(sum, vf_mul(v, v));
    }
    return sum;
}

QNI_INLINE vf lanes_sum(const float *x, int n)
{
    vf sum = vf_set(0.0f);
    for (int i = 0; i < n; i++) {
        sum = vf_add(sum, vf_load(x + VL * i));
    }
    return sum;
}

/* qni_weigh() in every lane; `w` holds the importance weights and becomes the result. */
QNI_INLINE void lanes_weigh(const float *x, vf sigma2, int n, float *w)
{
    for (int i = 0; i < n; i++) {
        const vf v = vf_load(x + VL * i);
        const vf root = vf_sqrt(vf_add(sigma2, vf_mul(v, v)));
        vf_store(w + VL * i, vf_mul(vf_load(w + VL * i), root));
    }
}

/* --- affine ------------------------------------------------------------------------------------
 */

/* What the search found. Levels are clamp(N(inv * (x - base))): kept in this form, since most
 * callers quantize again under the rounded scale. */
typedef struct lane_affine {
    vf scale;
    vf lo; /* minus the offset */
    vf inv;
    vf base;
    vm is_flat; /* nothing to scale: scale 0, levels 0 */
} lane_affine;

typedef struct lane_sums {
    vf l;
    vf ll;
    vf xl;
} lane_sums;

QNI_INLINE vf affine_level(vf v, int m, bool is_near)
{
    return is_near ? vf_level_near(v, 0.0f, (float)m) : vf_level_any(v, 0, m);
}

/* Levels of one candidate, and their weighted sums. */
QNI_INLINE lane_sums affine_sums(int n, int m, const float *x, const float *w, vf inv, vf lo,
                                 bool is_near, float *levels)
{
    lane_sums sum = {vf_set(0.0f), vf_set(0.0f), vf_set(0.0f)};
    for (int i = 0; i < n; i++) {
        const vf v = vf_load(x + VL * i);
        const vf l = affine_level(vf_mul(inv, vf_sub(v, lo)), m, is_near);
        const vf wl = vf_mul(vf_load(w + VL * i), l);
        vf_store(levels + VL * i, l);
        sum.l = vf_add(sum.l, wl);
        sum.ll = vf_add(sum.ll, vf_mul(wl, l));
        sum.xl = vf_add(sum.xl, vf_mul(wl, v));
    }
    return sum;
}

QNI_INLINE vf affine_error(int n, bool use_absolute, const float *x, const float *w,
                           const float *levels, vf scale, vf lo)
{
    vf sum = vf_set(0.0f);
    for (int i = 0; i < n; i++) {
        const vf fit = vf_add(vf_mul(scale, vf_load(levels + VL * i)), lo);
        const vf e = vf_sub(fit, vf_load(x + VL * i));
        const vf size = use_absolute ? vf_abs(e) : vf_mul(e, e);
        sum = vf_add(sum, vf_mul(vf_load(w + VL * i), size));
    }
    return sum;
}

/* The argument of N() is monotone in x, so its values at the smallest and largest x bound it. */
QNI_INLINE bool affine_is_near(vf inv, vf lo, vf x_min, vf x_max)
{
    const vf limit = vf_set(2097152.0f);
    const vf low = vf_abs(vf_mul(inv, vf_sub(x_min, lo)));
    const vf high = vf_abs(vf_mul(inv, vf_sub(x_max, lo)));
    return vm_all(vm_and(vf_lt(low, limit), vf_lt(high, limit)));
}

/* qni_search_affine() in every lane. */
QNI_INLINE lane_affine lanes_search_affine(const qni_affine_params params, const float *x,
                                           const float *w)
{
    const int n = params.n;
    const int m = params.m;
    const vf zero = vf_set(0.0f);
    vf x_min = vf_load(x);
    vf x_max = x_min;
    vf sum_w = vf_load(w);
    vf sum_x = vf_mul(sum_w, x_min);
    for (int i = 1; i < n; i++) {
        const vf v = vf_load(x + VL * i);
        const vf weight = vf_load(w + VL * i);
        x_min = vf_min(v, x_min);
        x_max = vf_max(v, x_max);
        sum_w = vf_add(sum_w, weight);
        sum_x = vf_add(sum_x, vf_mul(weight, v));
    }
    vf lo = vf_pick(vf_gt(x_min, zero), zero, x_min);
    const vm is_flat = vf_le(x_max, lo);
    const vf flat_lo = lo;

    float trial[VL * QNI_SEARCH_MAX];
    lane_affine best;
    best.is_flat = is_flat;
    vf range = vf_pick(is_flat, vf_set(1.0f), vf_sub(x_max, lo));
    best.inv = vf_div(vf_set((float)m), range);
    best.base = lo;
    best.scale = vf_div(vf_set(1.0f), best.inv);
    for (int i = 0; i < n; i++) {
        const vf v = vf_mul(best.inv, vf_sub(vf_load(x + VL * i), lo));
        vf_store(trial + VL * i, vf_level_any(v, 0, m));
    }
    vf best_error = affine_error(n, params.use_absolute, x, w, trial, best.scale, lo);

    for (int k = 0; k <= params.n_steps; k++) {
        range = vf_pick(is_flat, vf_set(1.0f), vf_sub(x_max, lo));
        const float reach = params.first + params.step * (float)k + (float)m;
        const vf inv = vf_div(vf_set(reach), range);
        const lane_sums sum = QNI_LIKELY(affine_is_near(inv, lo, x_min, x_max))
                                  ? affine_sums(n, m, x, w, inv, lo, true, trial)
                                  : affine_sums(n, m, x, w, inv, lo, false, trial);
        const vf det = vf_sub(vf_mul(sum_w, sum.ll), vf_mul(sum.l, sum.l));
        const vm is_solvable = vm_but(vf_gt(det, zero), is_flat);
        vf slope = vf_div(vf_sub(vf_mul(sum_w, sum.xl), vf_mul(sum_x, sum.l)), det);
        vf base = vf_div(vf_sub(vf_mul(sum.ll, sum_x), vf_mul(sum.l, sum.xl)), det);
        const vm is_above = vf_gt(base, zero);
        base = vf_pick(is_above, zero, base);
        slope = vf_pick(is_above, vf_div(sum.xl, sum.ll), slope);
        const vf error = affine_error(n, params.use_absolute, x, w, trial, slope, base);
        const vm is_better = vm_and(is_solvable, vf_lt(error, best_error));
        best_error = vf_pick(is_better, error, best_error);
        best.scale = vf_pick(is_better, slope, best.scale);
        best.inv = vf_pick(is_better, inv, best.inv);
        best.base = vf_pick(is_better, lo, best.base);
        lo = vf_pick(is_better, base, lo);
    }
    best.scale = vf_pick(is_flat, zero, best.scale);
    best.lo = vf_pick(is_flat, flat_lo, lo);
    return best;
}

/* The levels that lanes_search_affine() chose, element i. */
QNI_INLINE vi lanes_affine_level(const lane_affine *found, vf x, int m)
{
    const vi level = vi_clamp(vi_nearest(vf_mul(found->inv, vf_sub(x, found->base))), 0, m);
    return vi_pick(found->is_flat, vi_set(0), level);
}

/* --- symmetric ---------------------------------------------------------------------------------
 */

typedef struct lane_symmetric {
    vf scale;
    vf inv;     /* levels are clamp(N(inv * x), -m, m - 1) + m */
    vm is_zero; /* scale 0, levels 0 */
} lane_symmetric;

typedef struct lane_fit {
    vf xl;
    vf ll;
} lane_fit;

/* wx: w * x. The argument of N() is at most m + 1 in magnitude. */
QNI_INLINE lane_fit symmetric_sums(int n, int m, const float *x, const float *w, const float *wx,
                                   vf inv)
{
    lane_fit sum = {vf_set(0.0f), vf_set(0.0f)};
    for (int i = 0; i < n; i++) {
        const vf v = vf_mul(inv, vf_load(x + VL * i));
        const vf l = vf_level_near(v, (float)-m, (float)(m - 1));
        sum.xl = vf_add(sum.xl, vf_mul(vf_load(wx + VL * i), l));
        sum.ll = vf_add(sum.ll, vf_mul(vf_mul(vf_load(w + VL * i), l), l));
    }
    return sum;
}

/* qni_search_symmetric() in every lane; weights are always given. */
QNI_INLINE lane_symmetric lanes_search_symmetric(int n, int m, const float *x, const float *w)
{
    const vf zero = vf_set(0.0f);
    const lane_extreme extreme = lanes_absmax(x, n);
    lane_symmetric best;
    best.is_zero = vf_lt(extreme.mag, vf_set(QNI_TINY));
    const vf peak = vf_pick(best.is_zero, vf_set(1.0f), extreme.value);
    float wx[VL * QNI_SEARCH_MAX];
    for (int i = 0; i < n; i++) {
        vf_store(wx + VL * i, vf_mul(vf_load(w + VL * i), vf_load(x + VL * i)));
    }
    best.inv = vf_div(vf_set(-(float)m), peak);
    lane_fit sum = symmetric_sums(n, m, x, w, wx, best.inv);
    const vm is_null = vf_eq(sum.ll, zero);
    best.scale = vf_pick(is_null, zero, vf_div(sum.xl, sum.ll));
    vf best_score = vf_mul(best.scale, sum.xl);
    for (int k = -9; k <= 9; k++) {
        if (k == 0) {
            continue;
        }
        const vf inv = vf_div(vf_set(-((float)m + 0.1f * (float)k)), peak);
        sum = symmetric_sums(n, m, x, w, wx, inv);
        const vm is_better =
            vm_and(vf_gt(sum.ll, zero), vf_gt(vf_mul(sum.xl, sum.xl), vf_mul(best_score, sum.ll)));
        const vf scale = vf_div(sum.xl, sum.ll);
        best.inv = vf_pick(is_better, inv, best.inv);
        best.scale = vf_pick(is_better, scale, best.scale);
        best_score = vf_pick(is_better, vf_mul(scale, sum.xl), best_score);
    }
    best.scale = vf_pick(best.is_zero, zero, best.scale);
    return best;
}

QNI_INLINE vi lanes_symmetric_level(const lane_symmetric *found, vf x, int m)
{
    const vi level = vi_clamp(vi_nearest(vf_mul(found->inv, x)), -m, m - 1);
    return vi_pick(found->is_zero, vi_set(0), vi_add(level, vi_set(m)));
}

/* --- greedy ------------------------------------------------------------------------------------
 */

/* One element of a pass of qni_search_greedy() in sixteen lanes; true if a level moved. */
QNI_INLINE vm greedy_step(int m, vf x, float *level_at, lane_fit *sum)
{
    const vf zero = vf_set(0.0f);
    const vf w = vf_mul(x, x);
    const vf wx = vf_mul(w, x);
    const vf old = vf_load(level_at);
    vf xl = vf_sub(sum->xl, vf_mul(wx, old));
    vf ll = vf_sub(sum->ll, vf_mul(vf_mul(w, old), old));
    const vm is_open = vf_gt(xl, zero);
    const vf level = vf_level_any(vf_div(vf_mul(x, ll), xl), -m, m - 1);
    const vm is_moved = vm_but(is_open, vf_eq(level, old));
    xl = vf_add(xl, vf_mul(wx, level));
    ll = vf_add(ll, vf_mul(vf_mul(w, level), level));
    const vm is_better = vm_and(vf_gt(ll, zero), vf_gt(vf_mul(vf_mul(xl, xl), sum->ll),
                                                       vf_mul(vf_mul(sum->xl, sum->xl), ll)));
    const vm is_taken = vm_and(is_moved, is_better);
    vf_store(level_at, vf_pick(is_taken, level, old));
    sum->xl = vf_pick(is_taken, xl, sum->xl);
    sum->ll = vf_pick(is_taken, ll, sum->ll);
    return is_taken;
}

/* qni_search_greedy() for two groups of sixteen sub-blocks, n values each: the chain of operations
 * of one group is long, so the other fills its gaps. A lane that has stopped moving stays as it is
 * in later passes. levels: 2 * n vectors of floats, -m..m-1; the levels of zero lanes are -m. */
QNI_INLINE void lanes_search_greedy(int n, int m, const float *x, float *levels, vf *scales)
{
    const vf zero = vf_set(0.0f);
    lane_fit sum[2];
    vm is_zero[2];
    for (int g = 0; g < 2; g++) {
        const float *values = x + VL * n * g;
        const lane_extreme extreme = lanes_absmax(values, n);
        is_zero[g] = vf_lt(extreme.mag, vf_set(QNI_TINY));
        const vf peak = vf_pick(is_zero[g], vf_set(1.0f), extreme.value);
        const vf inv = vf_div(vf_set(-(float)m), peak);
        sum[g] = (lane_fit){zero, zero};
        for (int i = 0; i < n; i++) {
            const vf v = vf_load(values + VL * i);
            const vf w = vf_mul(v, v);
            const vf l = vf_level_near(vf_mul(inv, v), (float)-m, (float)(m - 1));
            vf_store(levels + VL * (n * g + i), l);
            sum[g].xl = vf_add(sum[g].xl, vf_mul(vf_mul(w, v), l));
            sum[g].ll = vf_add(sum[g].ll, vf_mul(vf_mul(w, l), l));
        }
    }
    for (int pass = 0; pass < 5; pass++) {
        vm is_changed = vf_lt(zero, zero);
        for (int i = 0; i < n; i++) {
            const vm first = greedy_step(m, vf_load(x + VL * i), levels + VL * i, &sum[0]);
            const vm second =
                greedy_step(m, vf_load(x + VL * (n + i)), levels + VL * (n + i), &sum[1]);
            is_changed = vm_or(is_changed, vm_or(first, second));
        }
        if (!vm_any(is_changed)) {
            break;
        }
    }
    for (int g = 0; g < 2; g++) {
        const vf scale = vf_pick(vf_gt(sum[g].ll, zero), vf_div(sum[g].xl, sum[g].ll), zero);
        scales[g] = vf_pick(is_zero[g], zero, scale);
        for (int i = 0; i < n; i++) {
            float *at = levels + VL * (n * g + i);
            vf_store(at, vf_pick(is_zero[g], vf_set((float)-m), vf_load(at)));
        }
    }
}

/* --- positive ----------------------------------------------------------------------------------
 */

QNI_INLINE vf positive_error(int n, const float *x, const float *w, const int32_t *levels, vf scale)
{
    vf sum = vf_set(0.0f);
    for (int i = 0; i < n; i++) {
        const vf l = vf_from_vi(vi_load(levels + VL * i));
        const vf e = vf_sub(vf_load(x + VL * i), vf_mul(scale, l));
        sum = vf_add(sum, vf_mul(vf_mul(vf_load(w + VL * i), e), e));
    }
    return sum;
}

/* One element of a pass of qni_search_positive(); true if a level moved. */
QNI_INLINE vm positive_step(int m, vf x, vf w, int32_t *level_at, lane_fit *sum)
{
    const vf zero = vf_set(0.0f);
    const vf wx = vf_mul(w, x);
    const vi old = vi_load(level_at);
    const vf l_old = vf_from_vi(old);
    vf xl = vf_sub(sum->xl, vf_mul(wx, l_old));
    vf ll = vf_sub(sum->ll, vf_mul(vf_mul(w, l_old), l_old));
    const vm is_open = vm_and(vf_gt(xl, zero), vf_gt(ll, zero));
    const vi level = vi_min(vi_nearest(vf_div(vf_mul(x, ll), xl)), vi_set(m));
    const vf l = vf_from_vi(level);
    const vm is_moved = vm_but(is_open, vi_eq(level, old));
    xl = vf_add(xl, vf_mul(wx, l));
    ll = vf_add(ll, vf_mul(vf_mul(w, l), l));
    const vm is_better =
        vf_gt(vf_mul(vf_mul(xl, xl), sum->ll), vf_mul(vf_mul(sum->xl, sum->xl), ll));
    const vm is_taken = vm_and(is_moved, is_better);
    vi_store(level_at, vi_pick(is_taken, vi_and(level, vi_set(0xff)), old));
    sum->xl = vf_pick(is_taken, xl, sum->xl);
    sum->ll = vf_pick(is_taken, ll, sum->ll);
    return is_taken;
}

/* qni_search_positive() in every lane; levels 0..255. */
QNI_INLINE vf lanes_search_positive(int n, int m, const float *x, const float *w, int32_t *levels)
{
    const vf zero = vf_set(0.0f);
    vf hi = zero;
    for (int i = 0; i < n; i++) {
        hi = vf_max(hi, vf_load(x + VL * i));
    }
    const vm is_zero = vf_lt(hi, vf_set(QNI_TINY));
    hi = vf_pick(is_zero, vf_set(1.0f), hi);
    vf inv = vf_div(vf_set((float)m), hi);
    for (int i = 0; i < n; i++) {
        const vi level = vi_nearest(vf_mul(inv, vf_load(x + VL * i)));
        vi_store(levels + VL * i, vi_and(level, vi_set(0xff)));
    }
    vf best = positive_error(n, x, w, levels, vf_div(vf_set(1.0f), inv));
    for (int k = -4; k <= 4; k++) {
        if (k == 0) {
            continue;
        }
        const vf candidate = vf_div(vf_set(0.1f * (float)k + (float)m), hi);
        for (int i = 0; i < n; i++) {
            const vi level = vi_nearest(vf_mul(candidate, vf_load(x + VL * i)));
            vi_store(levels + VL * i, vi_min(level, vi_set(m)));
        }
        const vf error = positive_error(n, x, w, levels, vf_div(vf_set(1.0f), candidate));
        const vm is_better = vf_lt(error, best);
        best = vf_pick(is_better, error, best);
        inv = vf_pick(is_better, candidate, inv);
    }
    lane_fit sum = {zero, zero};
    for (int i = 0; i < n; i++) {
        const vf v = vf_load(x + VL * i);
        const vf weight = vf_load(w + VL * i);
        const vi level = vi_min(vi_nearest(vf_mul(inv, v)), vi_set(m));
        const vf l = vf_from_vi(level);
        vi_store(levels + VL * i, vi_and(level, vi_set(0xff)));
        sum.xl = vf_add(sum.xl, vf_mul(vf_mul(weight, v), l));
        sum.ll = vf_add(sum.ll, vf_mul(vf_mul(weight, l), l));
    }
    for (int pass = 0; pass < 5; pass++) {
        vm is_changed = vf_lt(zero, zero);
        for (int i = 0; i < n; i++) {
            is_changed =
                vm_or(is_changed, positive_step(m, vf_load(x + VL * i), vf_load(w + VL * i),
                                                levels + VL * i, &sum));
        }
        if (!vm_any(is_changed)) {
            break;
        }
    }
    for (int i = 0; i < n; i++) {
        vi_store(levels + VL * i, vi_pick(is_zero, vi_set(0), vi_load(levels + VL * i)));
    }
    const vf scale = vf_pick(vf_gt(sum.ll, zero), vf_div(sum.xl, sum.ll), zero);
    return vf_pick(is_zero, zero, scale);
}

#endif
