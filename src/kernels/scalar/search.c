/* search.c — see search_internal.h. */
#include "kernels/search_internal.h"

/* Weighted sums of a candidate: x * level and level * level. */
typedef struct fit_sums {
    float xl;
    float ll;
} fit_sums;

static fit_sums sum_symmetric(int n, int m, float inv, const float *x, const float *w)
{
    fit_sums sum = {0.0f, 0.0f};
    for (int i = 0; i < n; i++) {
        const float l = (float)qni_clamp_i32(qni_nearest(inv * x[i]), -m, m - 1);
        sum.xl += w[i] * x[i] * l;
        sum.ll += w[i] * l * l;
    }
    return sum;
}

static void store_symmetric(int n, int m, float inv, const float *x, uint8_t *levels)
{
    for (int i = 0; i < n; i++) {
        levels[i] = (uint8_t)(qni_clamp_i32(qni_nearest(inv * x[i]), -m, m - 1) + m);
    }
}

float qni_search_symmetric(int n, int m, const float *x, const float *w, uint8_t *levels)
{
    const qni_extreme extreme = qni_absmax(x, n);
    if (extreme.mag < QNI_TINY) {
        memset(levels, 0, (size_t)n);
        return 0.0f;
    }
    float squares[QNI_SEARCH_MAX];
    for (int i = 0; !w && i < n; i++) {
        squares[i] = x[i] * x[i];
    }
    const float *weight = w ? w : squares;

    float best_inv = -(float)m / extreme.value;
    fit_sums sum = sum_symmetric(n, m, best_inv, x, weight);
    float scale = sum.ll != 0.0f ? sum.xl / sum.ll : 0.0f;
    float best = scale * sum.xl;
    for (int k = -9; k <= 9; k++) {
        if (k == 0) {
            continue;
        }
        const float inv = -((float)m + 0.1f * (float)k) / extreme.value;
        sum = sum_symmetric(n, m, inv, x, weight);
        if (sum.ll > 0.0f && sum.xl * sum.xl > best * sum.ll) {
            best_inv = inv;
            scale = sum.xl / sum.ll;
            best = scale * sum.xl;
        }
    }
    store_symmetric(n, m, best_inv, x, levels);
    return scale;
}

/* One pass over the levels in order; true if any moved. */
static bool improve_greedy(int n, int m, const float *x, int8_t *levels, fit_sums *sum)
{
    bool is_changed = false;
    for (int i = 0; i < n; i++) {
        const float w = x[i] * x[i];
        const float l = (float)levels[i];
        float xl = sum->xl - w * x[i] * l;
        if (!(xl > 0.0f)) {
            continue;
        }
        float ll = sum->ll - w * l * l;
        const int32_t level = qni_clamp_i32(qni_nearest(x[i] * ll / xl), -m, m - 1);
        if (level == levels[i]) {
            continue;
        }
        xl += w * x[i] * (float)level;
        ll += w * (float)level * (float)level;
        if (ll > 0.0f && xl * xl * sum->ll > sum->xl * sum->xl * ll) {
            levels[i] = (int8_t)level;
            *sum = (fit_sums){xl, ll};
            is_changed = true;
        }
    }
    return is_changed;
}

float qni_search_greedy(int n, int m, const float *x, uint8_t *levels)
{
    const qni_extreme extreme = qni_absmax(x, n);
    if (extreme.mag < QNI_TINY) {
        memset(levels, 0, (size_t)n);
        return 0.0f;
    }
    int8_t signed_levels[QNI_SEARCH_MAX];
    const float inv = -(float)m / extreme.value;
    fit_sums sum = {0.0f, 0.0f};
    for (int i = 0; i < n; i++) {
        const int32_t level = qni_clamp_i32(qni_nearest(inv * x[i]), -m, m - 1);
        const float w = x[i] * x[i];
        signed_levels[i] = (int8_t)level;
        sum.xl += w * x[i] * (float)level;
        sum.ll += w * (float)level * (float)level;
    }
    for (int pass = 0; pass < 5 && improve_greedy(n, m, x, signed_levels, &sum); pass++) {
    }
    for (int i = 0; i < n; i++) {
        levels[i] = (uint8_t)(signed_levels[i] + m);
    }
    return sum.ll > 0.0f ? sum.xl / sum.ll : 0.0f;
}

/* Weighted error of levels under scale and minimum. */
static float affine_error(const qni_affine_params *params, const float *x, const float *w,
                          const uint8_t *levels, float scale, float lo)
{
    float sum = 0.0f;
    for (int i = 0; i < params->n; i++) {
        const float e = scale * (float)levels[i] + lo - x[i];
        sum += w[i] * (params->use_absolute ? fabsf(e) : e * e);
    }
    return sum;
}

float qni_search_affine(const qni_affine_params *params, const float *x, const float *w,
                        uint8_t *levels, float *out_offset)
{
    const int n = params->n;
    const int m = params->m;
    float lo = x[0];
    float hi = x[0];
    float sum_w = w[0];
    float sum_x = w[0] * x[0];
    for (int i = 1; i < n; i++) {
        lo = x[i] < lo ? x[i] : lo;
        hi = x[i] > hi ? x[i] : hi;
        sum_w += w[i];
        sum_x += w[i] * x[i];
    }
    lo = lo > 0.0f ? 0.0f : lo;
    if (hi <= lo) {
        memset(levels, 0, (size_t)n);
        *out_offset = -lo;
        return 0.0f;
    }
    const float start_inv = (float)m / (hi - lo);
    float scale = 1.0f / start_inv;
    for (int i = 0; i < n; i++) {
        levels[i] = (uint8_t)qni_clamp_i32(qni_nearest(start_inv * (x[i] - lo)), 0, m);
    }
    float best = affine_error(params, x, w, levels, scale, lo);

    for (int k = 0; k <= params->n_steps; k++) {
        const float inv = (params->first + params->step * (float)k + (float)m) / (hi - lo);
        uint8_t trial[QNI_SEARCH_MAX];
        float sum_l = 0.0f, sum_ll = 0.0f, sum_xl = 0.0f;
        for (int i = 0; i < n; i++) {
            trial[i] = (uint8_t)qni_clamp_i32(qni_nearest(inv * (x[i] - lo)), 0, m);
            const float l = (float)trial[i];
            sum_l += w[i] * l;
            sum_ll += w[i] * l * l;
            sum_xl += w[i] * l * x[i];
        }
        const float det = sum_w * sum_ll - sum_l * sum_l;
        if (!(det > 0.0f)) {
            continue;
        }
        float slope = (sum_w * sum_xl - sum_x * sum_l) / det;
        float base = (sum_ll * sum_x - sum_l * sum_xl) / det;
        if (base > 0.0f) {
            base = 0.0f;
            slope = sum_xl / sum_ll;
        }
        const float error = affine_error(params, x, w, trial, slope, base);
        if (error < best) {
            memcpy(levels, trial, (size_t)n);
            best = error;
            scale = slope;
            lo = base; /* and so the next candidate's range */
        }
    }
    *out_offset = -lo;
    return scale;
}

static float positive_error(int n, const float *x, const float *w, const int32_t *levels,
                            float scale)
{
    float sum = 0.0f;
    for (int i = 0; i < n; i++) {
        const float e = x[i] - scale * (float)levels[i];
        sum += w[i] * e * e;
    }
    return sum;
}

/* One pass over the levels in order; true if any moved. */
static bool improve_positive(int n, int m, const float *x, const float *w, uint8_t *levels,
                             fit_sums *sum)
{
    bool is_changed = false;
    for (int i = 0; i < n; i++) {
        const float l = (float)levels[i];
        float xl = sum->xl - w[i] * x[i] * l;
        float ll = sum->ll - w[i] * l * l;
        if (!(xl > 0.0f && ll > 0.0f)) {
            continue;
        }
        const int32_t level = qni_min_i32(qni_nearest(x[i] * ll / xl), m);
        if (level == levels[i]) {
            continue;
        }
        xl += w[i] * x[i] * (float)level;
        ll += w[i] * (float)level * (float)level;
        if (xl * xl * sum->ll > sum->xl * sum->xl * ll) {
            levels[i] = (uint8_t)level;
            *sum = (fit_sums){xl, ll};
            is_changed = true;
        }
    }
    return is_changed;
}

float qni_search_positive(int n, int m, const float *x, const float *w, uint8_t *levels)
{
    float hi = 0.0f;
    for (int i = 0; i < n; i++) {
        hi = qni_max_f32(hi, x[i]);
    }
    if (hi < QNI_TINY) {
        memset(levels, 0, (size_t)n);
        return 0.0f;
    }
    int32_t trial[QNI_SEARCH_MAX];
    float inv = (float)m / hi;
    for (int i = 0; i < n; i++) {
        trial[i] = qni_nearest(inv * x[i]) & 0xff;
    }
    float best = positive_error(n, x, w, trial, 1.0f / inv);
    for (int k = -4; k <= 4; k++) {
        if (k == 0) {
            continue;
        }
        const float candidate = (0.1f * (float)k + (float)m) / hi;
        for (int i = 0; i < n; i++) {
            trial[i] = qni_min_i32(qni_nearest(candidate * x[i]), m);
        }
        const float error = positive_error(n, x, w, trial, 1.0f / candidate);
        if (error < best) {
            best = error;
            inv = candidate;
        }
    }
    fit_sums sum = {0.0f, 0.0f};
    for (int i = 0; i < n; i++) {
        const int32_t level = qni_min_i32(qni_nearest(inv * x[i]), m);
        levels[i] = (uint8_t)level;
        sum.xl += w[i] * x[i] * (float)level;
        sum.ll += w[i] * (float)level * (float)level;
    }
    for (int pass = 0; pass < 5 && improve_positive(n, m, x, w, levels, &sum); pass++) {
    }
    return sum.ll > 0.0f ? sum.xl / sum.ll : 0.0f;
}
