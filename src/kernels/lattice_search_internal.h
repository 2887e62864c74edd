/* lattice_search_internal.h — what the encoders of iq2_xxs, iq2_xs, iq2_s, iq3_xxs and iq3_s share:
 * weights and signs of a super-block, and the search for a scale and for points of the grid.
 *
 * A *group* is what one index codes: eight elements (iq2) or four (iq3); a *sub-block* is what
 * shares a scale: 16 or 32 elements. */
#ifndef QNI_LATTICE_SEARCH_INTERNAL_H
#define QNI_LATTICE_SEARCH_INTERNAL_H

#include "dtype/dtype.h"
#include "kernels/lattice_internal.h"
#include "kernels/numeric_internal.h"

#define QNI_LATTICE_MAX_SUB    32
#define QNI_LATTICE_MAX_GROUPS 8
/* Not a point of any grid: what stands for levels outside of it. */
#define QNI_LATTICE_NO_POINT 0xffffu

/* Which groups are projected once more with the scale that the candidates gave. */
typedef enum qni_lattice_again {
    QNI_AGAIN_OFF_GRID, /* those that were off the grid */
    QNI_AGAIN_ALL,      /* all, if one was off the grid */
    QNI_AGAIN_ALWAYS    /* all */
} qni_lattice_again;

/* How the search of one type differs from the others'. */
typedef struct qni_lattice_form {
    int32_t n;           /* elements of a sub-block */
    int32_t n_each_side; /* candidates k = -n_each_side .. n_each_side: ... */
    float middle;        /* ... (middle + k * step) / range */
    float step;
    bool starts_on_grid; /* groups count as on the grid if no candidate is accepted */
    qni_lattice_again again;
} qni_lattice_form;

extern const qni_lattice_form qni_form_iq2_xxs;
extern const qni_lattice_form qni_form_iq2_xs;
extern const qni_lattice_form qni_form_iq2_s;
extern const qni_lattice_form qni_form_iq3_xxs;
extern const qni_lattice_form qni_form_iq3_s;

/* One super-block, ready to be searched. */
typedef struct qni_lattice_front {
    float x[QNI_SUPER];           /* magnitudes; with even signs some are negative */
    float w[QNI_SUPER];           /* weights */
    float root[QNI_SUPER];        /* their square roots, with which neighbours are compared */
    uint8_t signs[QNI_SUPER / 8]; /* bit k: element k of the octet is negated */
} qni_lattice_front;

/* The largest of n values, as the reference finds it. */
float qni_lattice_max(const float *x, int32_t n);

/* A sub-block's search. */
typedef struct qni_lattice_fit {
    float scale;                             /* in: to start from; out: the scale found */
    uint16_t points[QNI_LATTICE_MAX_GROUPS]; /* packed; in: to start from; out: found */
} qni_lattice_fit;

/* The parts of an encoder that are worth a faster version; what remains is packing. A version gives
 * the bytes of the scalar one. */
typedef struct qni_lattice_steps {
    /* Fills `front`. Weights: of importance if given, else x * x + plain_sigma2. Signs: `is_even`
     * makes the number of negatives of each octet even by turning the element that costs least,
     * and drops bit 7, which then follows from the others. */
    void (*prepare)(const float *x, const float *importance, float sigma2, float plain_sigma2,
                    bool is_even, qni_lattice_front *front);
    /* iq2_xxs: scale and points of its eight sub-blocks that the search starts from; the scale of
     * an all-zero one is 0. */
    void (*start)(const qni_lattice_front *front, qni_lattice_fit *fits);
    /* One sub-block: sub number `sub` of the form's length, candidates over `range`. False: the
     * reference would abort, having no listed point nearer than the largest float. */
    bool (*search)(const struct qni_lattice *tables, const qni_lattice_form *form,
                   const qni_lattice_front *front, int32_t sub, float range, qni_lattice_fit *fit);
} qni_lattice_steps;

void qni_lattice_prepare(const float *x, const float *importance, float sigma2, float plain_sigma2,
                         bool is_even, qni_lattice_front *front);
void qni_lattice_start(const qni_lattice_front *front, qni_lattice_fit *fits);
bool qni_lattice_search(const struct qni_lattice *tables, const qni_lattice_form *form,
                        const qni_lattice_front *front, int32_t sub, float range,
                        qni_lattice_fit *fit);
extern const qni_lattice_steps qni_lattice_steps_scalar;

/* The encoders, as kernels are, by the given steps. */
#define QNI_PROTO_LATTICE(symbol)                                                            \
    qni_encode_result symbol(const qni_lattice_steps *steps, const float *x, int64_t n_rows, \
                             int64_t row_len, const float *weights,                          \
                             const struct qni_lattice *tables, void *out)
QNI_PROTO_LATTICE(qni_encode_iq2_xxs_by);
QNI_PROTO_LATTICE(qni_encode_iq2_xs_by);
QNI_PROTO_LATTICE(qni_encode_iq2_s_by);
QNI_PROTO_LATTICE(qni_encode_iq3_xxs_by);
QNI_PROTO_LATTICE(qni_encode_iq3_s_by);

/* The index of each point; false if one is none of the grid, where the reference would abort. */
bool qni_lattice_indices(const struct qni_lattice *tables, const uint16_t *points, int32_t n,
                         uint16_t *out);

/* If the scale came out negative: negate it and the n octets' signs (`mask`: the bits stored). */
void qni_lattice_turn_positive(float *scale, uint8_t *signs, int32_t n, uint8_t mask);

/* Scale of a sub-block as a code of 0..max_code around odd multiples of 1 / inv. */
QNI_INLINE uint32_t qni_lattice_scale_code(float inv, float scale, int32_t max_code)
{
    return (uint32_t)qni_clamp_i32(qni_nearest(0.5f * (inv * scale - 1.0f)), 0, max_code);
}

#endif
