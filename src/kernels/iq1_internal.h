/* iq1_internal.h — what the encoders of iq1_s and iq1_m share with their faster versions.
 *
 * A sub-block's levels 0, 1, 2 are a *split* of its sorted values: the first i get level 0, those
 * up to j level 1, the others level 2. All splits are tried with all shifts; then each octet goes
 * to a point of the grid. */
#ifndef QNI_IQ1_INTERNAL_H
#define QNI_IQ1_INTERNAL_H

#include "kernels/lattice_internal.h"
#include "kernels/numeric_internal.h"

/* Level values with the shift up (bit clear) and down (bit set); the fourth is padding. */
extern const float qni_iq1_values[2][4];

/* What a sub-block becomes. */
typedef struct qni_iq1_fit {
    float scale;        /* 0: all zeros, points 0 */
    uint32_t shift;     /* iq1_s: 0 up, 1 down; iq1_m: bit 1 octet 0 down, bit 0 octet 1 down */
    uint16_t points[4]; /* packed */
} qni_iq1_fit;

/* The best split so far: sorted positions before `first` get level 0, before `second` level 1. */
typedef struct qni_iq1_split {
    float scale;
    float best;
    int32_t first;
    int32_t second;
    uint32_t shift;
    bool is_found;
} qni_iq1_split;

QNI_INLINE void qni_iq1_offer(qni_iq1_split *s, float xq, float qq, int32_t first, int32_t second,
                              uint32_t shift)
{
    if (qq > 0.0f && xq * xq > s->best * qq) {
        s->scale = xq / qq;
        s->best = s->scale * xq;
        s->first = first;
        s->second = second;
        s->shift = shift;
        s->is_found = true;
    }
}

/* Shift codes 0..3 of iq1_m: whether octet 0, octet 1 is shifted down. */
QNI_INLINE uint32_t qni_iq1_shift_of(uint32_t code, int32_t octet)
{
    return code >> (1 - octet) & 1u;
}

/* The parts of an encoder that are worth a faster version. */
typedef struct qni_iq1_steps {
    /* Weights of a super-block: of importance if given, else x * x. */
    void (*weigh)(const float *x, const float *importance, float sigma2, float *w);
    /* A sub-block of 32 or 16; points have been set to 0. False: the reference would abort. */
    bool (*fit_s)(const struct qni_lattice *tables, const float *x, const float *w, qni_iq1_fit *f);
    bool (*fit_m)(const struct qni_lattice *tables, const float *x, const float *w, qni_iq1_fit *f);
    /* iq1_m's scale once all codes are known, from 256 elements; `d` if there is nothing to fit. */
    float (*refit_m)(const float *x, const float *w, const qni_iq1_fit *fits, const uint32_t *codes,
                     float d);
} qni_iq1_steps;

void qni_iq1_weigh(const float *x, const float *importance, float sigma2, float *w);
bool qni_iq1_fit_s(const struct qni_lattice *tables, const float *x, const float *w,
                   qni_iq1_fit *f);
bool qni_iq1_fit_m(const struct qni_lattice *tables, const float *x, const float *w,
                   qni_iq1_fit *f);
float qni_iq1_refit_m(const float *x, const float *w, const qni_iq1_fit *fits,
                      const uint32_t *codes, float d);

#define QNI_PROTO_IQ1(symbol)                                                            \
    qni_encode_result symbol(const qni_iq1_steps *steps, const float *x, int64_t n_rows, \
                             int64_t row_len, const float *weights,                      \
                             const struct qni_lattice *tables, void *out)
QNI_PROTO_IQ1(qni_encode_iq1_s_by);
QNI_PROTO_IQ1(qni_encode_iq1_m_by);

#endif
