/* ternary.c — the fit of ternary planes, scalar: the referee.
 *
 * After the scales are found they are rounded to binary16, as tq2_0 stores them, and the trits are
 * chosen once more against the rounded scales: those are what is packed and measured. */
#include "kernels/numeric_internal.h"
#include "kernels/ternary_internal.h"

enum { G = QNI_TERNARY_GROUP };

typedef struct trit_group {
    int8_t t[G][3];
} trit_group;

/* For every weight the tuple whose value is nearest; a tie keeps the earlier candidate. */
static void choose_trits(const float *x, const float alpha[3], int n_planes, trit_group *out)
{
    const qni_ternary_candidates candidates = qni_ternary_candidates_of(n_planes);
    float values[27];
    for (int c = 0; c < candidates.n; c++) {
        values[c] = qni_ternary_value(alpha, candidates.trits[c], n_planes);
    }
    for (int i = 0; i < G; i++) {
        int best = 0;
        float best_error = (x[i] - values[0]) * (x[i] - values[0]);
        for (int c = 1; c < candidates.n; c++) {
            const float d = x[i] - values[c];
            if (d * d < best_error) {
                best_error = d * d;
                best = c;
            }
        }
        memcpy(out->t[i], candidates.trits[best], sizeof out->t[i]);
    }
}

static void start_with_signs(const float *x, int n_planes, trit_group *out)
{
    for (int i = 0; i < G; i++) {
        for (int p = 0; p < 3; p++) {
            out->t[i][p] = (int8_t)(p >= n_planes ? 0 : (x[i] > 0.0f) - (x[i] < 0.0f));
        }
    }
}

static qni_ternary_sums sum_up(const float *x, const trit_group *trits, int n_planes)
{
    qni_ternary_sums s = {0};
    for (int i = 0; i < G; i++) {
        const int8_t *t = trits->t[i];
        s.s00 += t[0] * t[0];
        s.s01 += t[0] * t[1];
        s.s02 += t[0] * t[2];
        s.s11 += t[1] * t[1];
        s.s12 += t[1] * t[2];
        s.s22 += t[2] * t[2];
        for (int p = 0; p < n_planes; p++) {
            s.b[p] += (double)((float)t[p] * x[i]);
        }
    }
    return s;
}

static void fit_free(const float *x, int n_planes, float alpha[3], qni_ternary_stats *stats)
{
    trit_group now;
    start_with_signs(x, n_planes, &now);
    for (int p = 0; p < n_planes; p++) {
        alpha[p] = 1.0f;
    }
    while (!stats->is_settled && stats->n_iterations < QNI_TERNARY_MAX_ITERATIONS) {
        const float before[3] = {alpha[0], alpha[1], alpha[2]};
        const qni_ternary_sums sums = sum_up(x, &now, n_planes);
        qni_ternary_regress(&sums, n_planes, alpha);
        choose_trits(x, alpha, n_planes, &now);
        stats->n_iterations++;
        stats->is_settled = qni_ternary_has_settled(alpha, before, n_planes);
    }
}

/* Sum of squared errors when the weights are rounded to multiples of the step. */
static double tied_error(const float *x, float step, float n_levels)
{
    double sum = 0.0;
    for (int i = 0; i < G; i++) {
        const float q = roundf(x[i] / step);
        const float code = q > n_levels ? n_levels : q < -n_levels ? -n_levels : q == q ? q : 0.0f;
        const float d = x[i] - step * code;
        sum += (double)d * (double)d;
    }
    return sum;
}

static void fit_tied(const float *x, int n_planes, float alpha[3], qni_ternary_stats *stats)
{
    const float absmax = qni_absmax(x, G).mag;
    const float n_levels = qni_ternary_tied_levels(n_planes);
    float best_step = 0.0f;
    double best_error = 0.0;
    for (int i = 0; absmax > 0.0f && i < QNI_TERNARY_TIED_STEPS; i++) {
        const float step = qni_ternary_tied_step(absmax, n_levels, i);
        const double error = tied_error(x, step, n_levels);
        if (i == 0 || error < best_error) {
            best_error = error;
            best_step = step;
        }
    }
    qni_ternary_tied_scales(best_step, n_planes, alpha);
    stats->n_iterations = 1;
    stats->is_settled = true;
}

/* Errors of what a reader will see: rounded scales, f32 sums in the order of the planes. */
static void measure(const float *x, const trit_group *trits, const float alpha[3], int n_planes,
                    qni_ternary_stats *stats)
{
    for (int i = 0; i < G; i++) {
        const float d = x[i] - qni_ternary_value(alpha, trits->t[i], n_planes);
        stats->sum_error2 += (double)d * (double)d;
        stats->sum_weight2 += (double)x[i] * (double)x[i];
        for (int p = 0; p < n_planes; p++) {
            stats->n_zeros[p] += trits->t[i][p] == 0;
        }
    }
}

static void pack(const trit_group *trits, int plane, float alpha, qni_block_tq2_0 *out)
{
    uint8_t levels[G];
    for (int i = 0; i < G; i++) {
        levels[i] = (uint8_t)(trits->t[i][plane] + 1);
    }
    qni_pack_planes(levels, out->qs);
    (void)qni_store_scale(out->d, alpha);
}

QNI_PROTO_fit(qni_fit_tq2_0_scalar)
{
    for (int64_t g = 0; g < n_groups; g++, x += G) {
        qni_ternary_stats stat = {0};
        float alpha[3] = {0.0f, 0.0f, 0.0f};
        if (is_tied) {
            fit_tied(x, n_planes, alpha, &stat);
        } else {
            fit_free(x, n_planes, alpha, &stat);
        }
        for (int p = 0; p < n_planes; p++) {
            alpha[p] = qni_ternary_stored_scale(alpha[p]);
        }
        trit_group chosen;
        choose_trits(x, alpha, n_planes, &chosen);
        measure(x, &chosen, alpha, n_planes, &stat);
        for (int p = 0; p < n_planes; p++) {
            pack(&chosen, p, alpha[p], (qni_block_tq2_0 *)planes[p] + g);
        }
        stats[g] = stat;
    }
}
