/* ternary_internal.h — what the fits of ternary planes share: the order of candidates and the small
 * linear system. Every kernel goes through these, so that their doubles are the same.
 *
 * A group of 256 weights w becomes K planes of trits t_p with a scale alpha_p each,
 * w ~ sum over p of alpha_p * t_p. The free fit alternates a ridge regression for alpha with an
 * exhaustive choice of trits; the tied fit is a uniform quantizer with scales [3s, s] or
 * [9s, 3s, s]. */
#ifndef QNI_TERNARY_INTERNAL_H
#define QNI_TERNARY_INTERNAL_H

#include <math.h>

#include "kernels/kernels.h"

enum {
    QNI_TERNARY_GROUP = 256,
    QNI_TERNARY_MAX_ITERATIONS = 50,
    QNI_TERNARY_TIED_STEPS = 65 /* step sizes that the tied fit tries */
};

#define QNI_TERNARY_EPSILON     1e-4 /* the fit has settled when alpha moves less (L2) */
#define QNI_TERNARY_LAMBDA_MIN  1e-8
#define QNI_TERNARY_LAMBDA_MAX  1.0
#define QNI_TERNARY_KAPPA_MAX   1e6
#define QNI_TERNARY_SCALE_MAX   65504.0f /* largest finite binary16 */
#define QNI_TERNARY_TIED_MARGIN 0.75f    /* absmax / (L - 0.75) is the largest step tried */
#define QNI_TERNARY_TIED_STRIDE 0.03125f /* 2 / 64 */

/* Candidate tuples in the order in which ties are settled: sparser ones first, then those whose
 * trits sit in the finer planes. */
static const int8_t qni_ternary_candidates_1[][3] = {{0}, {-1}, {1}};
static const int8_t qni_ternary_candidates_2[][3] = {{0, 0},   {0, -1}, {0, 1},  {-1, 0}, {1, 0},
                                                     {-1, -1}, {-1, 1}, {1, -1}, {1, 1}};
static const int8_t qni_ternary_candidates_3[][3] = {
    {0, 0, 0},   {0, 0, -1},  {0, 0, 1},   {0, -1, 0}, {0, 1, 0},   {-1, 0, 0},   {1, 0, 0},
    {0, -1, -1}, {0, -1, 1},  {0, 1, -1},  {0, 1, 1},  {-1, 0, -1}, {-1, 0, 1},   {1, 0, -1},
    {1, 0, 1},   {-1, -1, 0}, {-1, 1, 0},  {1, -1, 0}, {1, 1, 0},   {-1, -1, -1}, {-1, -1, 1},
    {-1, 1, -1}, {-1, 1, 1},  {1, -1, -1}, {1, -1, 1}, {1, 1, -1},  {1, 1, 1}};

typedef struct qni_ternary_candidates {
    const int8_t (*trits)[3];
    int n;
} qni_ternary_candidates;

QNI_INLINE qni_ternary_candidates qni_ternary_candidates_of(int n_planes)
{
    switch (n_planes) {
    case 1:
        return (qni_ternary_candidates){qni_ternary_candidates_1, 3};
    case 2:
        return (qni_ternary_candidates){qni_ternary_candidates_2, 9};
    default:
        return (qni_ternary_candidates){qni_ternary_candidates_3, 27};
    }
}

/* The value that a tuple stands for, in f32, left to right. */
QNI_INLINE float qni_ternary_value(const float alpha[3], const int8_t trits[3], int n_planes)
{
    float v = alpha[0] * (float)trits[0];
    for (int p = 1; p < n_planes; p++) {
        v += alpha[p] * (float)trits[p];
    }
    return v;
}

/* Sums over a group: the Gram matrix of its planes and their products with the weights. */
typedef struct qni_ternary_sums {
    double s00, s01, s02, s11, s12, s22; /* whole numbers */
    double b[3];                         /* sum of t_p * w in index order */
} qni_ternary_sums;

/* A solution of (S + lambda I) alpha = b and the condition number of the matrix. */
typedef struct qni_ternary_solution {
    double alpha[3];
    double kappa;
} qni_ternary_solution;

QNI_INLINE qni_ternary_solution qni_ternary_solve_2(const qni_ternary_sums *s, double lambda)
{
    const double a11 = s->s00 + lambda;
    const double a22 = s->s11 + lambda;
    const double a12 = s->s01;
    const double det = a11 * a22 - a12 * a12;
    return (qni_ternary_solution){
        {(s->b[0] * a22 - s->b[1] * a12) / det, (s->b[1] * a11 - s->b[0] * a12) / det, 0.0},
        (a11 * a11 + a22 * a22 + 2.0 * a12 * a12) / det};
}

QNI_INLINE qni_ternary_solution qni_ternary_solve_3(const qni_ternary_sums *s, double lambda)
{
    const double a11 = s->s00 + lambda;
    const double a22 = s->s11 + lambda;
    const double a33 = s->s22 + lambda;
    const double a12 = s->s01;
    const double a13 = s->s02;
    const double a23 = s->s12;
    const double j11 = a22 * a33 - a23 * a23;
    const double j12 = -(a12 * a33 - a23 * a13);
    const double j13 = a12 * a23 - a22 * a13;
    const double j22 = a11 * a33 - a13 * a13;
    const double j23 = -(a11 * a23 - a12 * a13);
    const double j33 = a11 * a22 - a12 * a12;
    const double det = a11 * j11 + a12 * j12 + a13 * j13;
    const double norm_a =
        a11 * a11 + a22 * a22 + a33 * a33 + 2.0 * (a12 * a12 + a13 * a13 + a23 * a23);
    const double norm_j =
        j11 * j11 + j22 * j22 + j33 * j33 + 2.0 * (j12 * j12 + j13 * j13 + j23 * j23);
    const double *b = s->b;
    return (qni_ternary_solution){{(j11 * b[0] + j12 * b[1] + j13 * b[2]) / det,
                                   (j12 * b[0] + j22 * b[1] + j23 * b[2]) / det,
                                   (j13 * b[0] + j23 * b[1] + j33 * b[2]) / det},
                                  sqrt(norm_a) * sqrt(norm_j) / det};
}

/* One regression step: alpha for the given trits. The ridge grows until the matrix is well
 * conditioned; at first all planes are equal, so it has to. */
QNI_INLINE void qni_ternary_regress(const qni_ternary_sums *sums, int n_planes, float alpha[3])
{
    double lambda = QNI_TERNARY_LAMBDA_MIN;
    qni_ternary_solution x = {{0.0, 0.0, 0.0}, 1.0};
    if (n_planes == 1) {
        x.alpha[0] = sums->b[0] / (sums->s00 + lambda);
    }
    while (n_planes > 1) {
        x = n_planes == 2 ? qni_ternary_solve_2(sums, lambda) : qni_ternary_solve_3(sums, lambda);
        const bool is_sound = x.kappa >= 0.0 && x.kappa <= QNI_TERNARY_KAPPA_MAX;
        if (is_sound || lambda >= QNI_TERNARY_LAMBDA_MAX) {
            break;
        }
        lambda *= 10.0;
        lambda = lambda < QNI_TERNARY_LAMBDA_MAX ? lambda : QNI_TERNARY_LAMBDA_MAX;
    }
    for (int p = 0; p < n_planes; p++) {
        alpha[p] = (float)x.alpha[p];
    }
}

/* How far alpha moved. */
QNI_INLINE bool qni_ternary_has_settled(const float now[3], const float before[3], int n_planes)
{
    double sum = 0.0;
    for (int p = 0; p < n_planes; p++) {
        /* n_planes <= 3: NOLINTNEXTLINE(clang-analyzer-core.UndefinedBinaryOperatorResult) */
        const double move = (double)now[p] - (double)before[p];
        sum += move * move;
    }
    return sqrt(sum) < QNI_TERNARY_EPSILON;
}

/* A scale as tq2_0 stores it. Its sign does not matter: the candidates are symmetric. */
QNI_INLINE float qni_ternary_stored_scale(float alpha)
{
    const float mag = fabsf(alpha);
    return qni_f16_to_f32(
        qni_f16_from_f32(mag < QNI_TERNARY_SCALE_MAX ? mag : QNI_TERNARY_SCALE_MAX));
}

/* Levels on each side of a tied fit: 4 with two planes, 13 with three. */
QNI_INLINE float qni_ternary_tied_levels(int n_planes)
{
    return n_planes == 2 ? 4.0f : 13.0f;
}

/* The step number i of the 65 that a tied fit tries. */
QNI_INLINE float qni_ternary_tied_step(float absmax, float n_levels, int i)
{
    return absmax / ((n_levels - QNI_TERNARY_TIED_MARGIN) + (float)i * QNI_TERNARY_TIED_STRIDE);
}

/* Scales of a tied fit from its step. */
QNI_INLINE void qni_ternary_tied_scales(float step, int n_planes, float alpha[3])
{
    float scale = step;
    for (int p = n_planes - 1; p >= 0; p--) {
        alpha[p] = scale;
        scale = 3.0f * scale;
    }
}

#endif
