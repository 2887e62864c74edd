/* iq1.c — octets as points of a lattice {-1, 0, 1}^8 that may be shifted by an eighth.
 *
 * iq1_s, sub-blocks of 32 that share scale and shift; (16 + 32 * 8 + 8 * 16) / 256 = 1.5625
 *   byte 0  1  2         34                    50
 *       [ d ][ 32 indices ][ 8 u16, one per 32   ]
 *   u16:  bit 0 [bits 8-10 of index 0: 3][1: 3][2: 3][3: 3][scale: 3][shift] bit 15
 *
 * iq1_m, sub-blocks of 16, a shift per octet; (32 * 8 + 16 * 8 + 8 * 8) / 256 = 1.75
 *   byte 0           32                      48                  56
 *       [ 32 indices ][ 16: nibble per octet ][ 4 u16: scales, d ]
 *   nibble: bits 0-2 index bits 8-10, bit 3 the shift
 *   u16 number w: bit 0 [scale 4w: 3][4w + 1: 3][4w + 2: 3][4w + 3: 3][nibble w of d: 4] bit 15
 *
 * y = (d * (2 * scale + 1)) * (value + shift), shift = -0.125 if the bit is set, else +0.125. */
#include "kernels/iq1_internal.h"
#include "kernels/super_rows_internal.h"

#include <float.h>

enum { N_SUB_32 = QNI_SUPER / 32, N_SUB_16 = QNI_SUPER / 16, N_OCTETS = QNI_SUPER / 8 };

/* Scales are stored as odd multiples 1..15 of d. */
#define SCALE_STEPS 15.0f

const float qni_iq1_values[2][4] = {{-0.875f, 0.125f, 1.125f, 0.0f},
                                    {-1.125f, -0.125f, 0.875f, 0.0f}};

/* --- decoding ------------------------------------------------------------------------------------
 */

static void decode_octet(uint32_t index, uint32_t shift_down, float scale, float *out)
{
    const qni_codebook *book = &qni_codebooks[QNI_LATTICE_IQ1];
    const uint32_t packed = book->points[index];
    for (int32_t k = 0; k < 8; k++) {
        out[k] = scale * qni_iq1_values[shift_down][packed >> (2 * k) & 3];
    }
}

QNI_PROTO_decode(qni_decode_iq1_s_scalar)
{
    const qni_block_iq1_s *block = blocks;
    for (int64_t b = 0; b < n_blocks; b++, block++) {
        const float d = qni_load_scale(block->d);
        for (int32_t o = 0; o < N_OCTETS; o++, out += 8) {
            const uint32_t h = qni_load_u16le(block->qh + o / 4 * 2);
            const uint32_t high = h >> (3 * (o % 4)) & 7u;
            const float scale = d * (float)(2 * (int32_t)(h >> 12 & 7u) + 1);
            decode_octet(block->qs[o] | high << 8, h >> 15, scale, out);
        }
    }
}

QNI_PROTO_decode(qni_decode_iq1_m_scalar)
{
    const qni_block_iq1_m *block = blocks;
    for (int64_t b = 0; b < n_blocks; b++, block++) {
        uint32_t d_bits = 0;
        for (int32_t w = 0; w < 4; w++) {
            d_bits |= (uint32_t)qni_load_u16le(block->scales + 2 * w) >> 12 << (4 * w);
        }
        const float d = qni_f16_to_f32((uint16_t)d_bits);
        for (int32_t o = 0; o < N_OCTETS; o++, out += 8) {
            const uint32_t h = (uint32_t)block->qh[o / 2] >> (4 * (o % 2)) & 15u;
            const uint32_t word = qni_load_u16le(block->scales + o / 8 * 2);
            const uint32_t code = word >> (3 * (o / 2 % 4)) & 7u;
            const float scale = d * (float)(2 * (int32_t)code + 1);
            decode_octet(block->qs[o] | (h & 7u) << 8, h >> 3, scale, out);
        }
    }
}

/* --- encoding: what both types share
 * --------------------------------------------------------------
 */

static const qni_iq1_split no_split = {.best = -FLT_MAX};

/* Indices in ascending order of value; equal values, and -0 with +0, stay in index order. */
static void sort_stable(const float *x, int32_t n, uint8_t *order)
{
    for (int32_t i = 0; i < n; i++) {
        int32_t at = i;
        for (; at > 0 && x[order[at - 1]] > x[i]; at--) {
            order[at] = order[at - 1];
        }
        order[at] = (uint8_t)i;
    }
}

static float max_magnitude(const float *x, int32_t n)
{
    float m = fabsf(x[0]);
    for (int32_t i = 1; i < n; i++) {
        m = qni_max_f32(m, fabsf(x[i]));
    }
    return m;
}

/* Levels of a split in element order. A negative scale turns everything round. */
static void apply_split(qni_iq1_split *s, const uint8_t *order, int32_t n, uint32_t shift_mask,
                        uint8_t *levels)
{
    for (int32_t j = 0; j < n; j++) {
        levels[order[j]] = (uint8_t)(j < s->first ? 0 : j < s->second ? 1 : 2);
    }
    if (!(s->scale < 0.0f)) {
        return;
    }
    s->scale = -s->scale;
    s->shift ^= shift_mask;
    for (int32_t i = 0; i < n; i++) {
        levels[i] = (uint8_t)(2 - levels[i]);
    }
}

/* The listed point nearest to x / scale; false if none is nearer than the largest float. */
static bool nearest_listed(const struct qni_lattice *tables, const qni_lattice_cell *cell,
                           float scale, const float *values, const float *x, const float *w,
                           uint16_t *out_point)
{
    const uint16_t *list = tables->lists + (size_t)cell->full_at * QNI_LATTICE_PAD;
    float least = FLT_MAX;
    bool is_found = false;
    for (int32_t i = 0; i < cell->n_full; i++) {
        float distance = 0.0f;
        for (int32_t k = 0; k < 8; k++) {
            const float e = scale * values[list[i] >> (2 * k) & 3] - x[k];
            distance += w[k] * e * e;
        }
        if (distance < least) {
            least = distance;
            *out_point = list[i];
            is_found = true;
        }
    }
    return is_found;
}

static uint32_t pack_levels(const uint8_t *levels)
{
    uint32_t packed = 0;
    for (int32_t k = 0; k < 8; k++) {
        packed |= (uint32_t)levels[k] << (2 * k);
    }
    return packed;
}

/* Takes the octets to points of the grid and, if one had to move, fits the scale again.
 * values[o]: level values of octet o. False: the reference would abort. */
static bool project_octets(const struct qni_lattice *tables, const uint8_t *levels,
                           const float *const *values, int32_t n_octets, const float *x,
                           const float *w, qni_iq1_fit *f)
{
    bool has_moved = false;
    for (int32_t o = 0; o < n_octets; o++) {
        const uint32_t packed = pack_levels(levels + 8 * o);
        const qni_lattice_cell *cell = &tables->cells[qni_lattice_cell_of(tables, packed)];
        f->points[o] = (uint16_t)packed;
        if (cell->n_full == 0) {
            continue;
        }
        has_moved = true;
        if (!nearest_listed(tables, cell, f->scale, values[o], x + 8 * o, w + 8 * o,
                            &f->points[o])) {
            return false;
        }
    }
    if (!has_moved) {
        return true;
    }
    float xq = 0.0f;
    float qq = 0.0f;
    for (int32_t i = 0; i < 8 * n_octets; i++) {
        const float q = values[i / 8][f->points[i / 8] >> (2 * (i % 8)) & 3];
        xq += w[i] * q * x[i];
        qq += w[i] * q * q;
    }
    if (xq > 0.0f && qq > 0.0f) {
        f->scale = xq / qq;
    }
    return true;
}

static uint32_t scale_code(float inv, float scale)
{
    return (uint32_t)qni_clamp_i32(qni_nearest(0.5f * (inv * scale - 1.0f)), 0, 7);
}

/* --- iq1_s ---------------------------------------------------------------------------------------
 */

/* All 561 splits of 32 sorted values, both shifts, from prefix sums. */
static qni_iq1_split search_iq1_s(const float *x, const float *w, const uint8_t *order)
{
    float xs[33] = {0.0f};
    float ws[33] = {0.0f};
    for (int32_t j = 0; j < 32; j++) {
        xs[j + 1] = xs[j] + w[order[j]] * x[order[j]];
        ws[j + 1] = ws[j] + w[order[j]];
    }
    qni_iq1_split s = no_split;
    for (int32_t i = 0; i <= 32; i++) {
        for (int32_t j = i; j <= 32; j++) {
            for (uint32_t shift = 0; shift < 2; shift++) {
                const float *v = qni_iq1_values[shift];
                const float xq =
                    (xs[i] - xs[0]) * v[0] + (xs[j] - xs[i]) * v[1] + (xs[32] - xs[j]) * v[2];
                const float qq = (ws[i] - ws[0]) * v[0] * v[0] + (ws[j] - ws[i]) * v[1] * v[1] +
                                 (ws[32] - ws[j]) * v[2] * v[2];
                qni_iq1_offer(&s, xq, qq, i, j, shift);
            }
        }
    }
    return s;
}

/* f->scale 0: an all-zero sub-block, points not set. False: the reference would abort. */
bool qni_iq1_fit_s(const struct qni_lattice *tables, const float *x, const float *w, qni_iq1_fit *f)
{
    f->scale = 0.0f;
    f->shift = 0;
    if (max_magnitude(x, 32) < 1e-12f) {
        return true;
    }
    uint8_t order[32];
    uint8_t levels[32];
    sort_stable(x, 32, order);
    qni_iq1_split s = search_iq1_s(x, w, order);
    if (!s.is_found) {
        return true;
    }
    apply_split(&s, order, 32, 1, levels);
    f->scale = s.scale;
    f->shift = s.shift;
    const float *v = qni_iq1_values[s.shift];
    const float *values[4] = {v, v, v, v};
    return project_octets(tables, levels, values, 4, x, w, f);
}

static qni_encode_result encode_iq1_s(const qni_iq1_steps *steps, const struct qni_lattice *tables,
                                      const float *x, const float *importance,
                                      qni_block_iq1_s *block)
{
    memset(block, 0, sizeof *block);
    float w[QNI_SUPER];
    steps->weigh(x, importance, 2.0f * qni_sum_squares(x, QNI_SUPER) / 256.0f, w);
    qni_iq1_fit fits[N_SUB_32];
    uint32_t high[N_SUB_32] = {0};
    float max_scale = 0.0f;
    for (int32_t sub = 0; sub < N_SUB_32; sub++) {
        qni_iq1_fit *f = &fits[sub];
        memset(f->points, 0, sizeof f->points);
        if (!steps->fit_s(tables, x + 32 * sub, w + 32 * sub, f)) {
            return QNI_ENCODE_ABORT;
        }
        for (int32_t o = 0; o < 4; o++) {
            const uint32_t index = qni_lattice_index_of(tables, f->points[o]);
            block->qs[4 * sub + o] = (uint8_t)index;
            high[sub] |= index >> 8 << (3 * o);
        }
        max_scale = qni_max_f32(max_scale, f->scale);
    }
    qni_encode_result result = QNI_ENCODE_OK;
    if (max_scale != 0.0f) {
        const float d = max_scale / SCALE_STEPS;
        const float inv = 1.0f / d;
        result = qni_store_scale(block->d, d * 1.125f);
        for (int32_t sub = 0; sub < N_SUB_32; sub++) {
            high[sub] |= (scale_code(inv, fits[sub].scale) | fits[sub].shift << 3) << 12;
        }
    }
    for (int32_t sub = 0; sub < N_SUB_32; sub++) {
        qni_store_u16le(block->qh + 2 * sub, (uint16_t)high[sub]);
    }
    return result;
}

/* --- iq1_m ---------------------------------------------------------------------------------------
 */

/* All 153 splits of 16 sorted values, all four shift codes; each sum from scratch in sorted order,
 * because rounding depends on it. */
static qni_iq1_split search_iq1_m(const float *x, const float *w, const uint8_t *order)
{
    qni_iq1_split s = no_split;
    for (int32_t i = 0; i <= 16; i++) {
        for (int32_t j = i; j <= 16; j++) {
            float xq[4] = {0.0f};
            float qq[4] = {0.0f};
            for (int32_t at = 0; at < 16; at++) {
                const int32_t e = order[at];
                const int32_t level = at < i ? 0 : at < j ? 1 : 2;
                for (uint32_t code = 0; code < 4; code++) {
                    const float q = qni_iq1_values[qni_iq1_shift_of(code, e / 8)][level];
                    xq[code] += w[e] * q * x[e];
                    qq[code] += w[e] * q * q;
                }
            }
            for (uint32_t code = 0; code < 4; code++) {
                qni_iq1_offer(&s, xq[code], qq[code], i, j, code);
            }
        }
    }
    return s;
}

bool qni_iq1_fit_m(const struct qni_lattice *tables, const float *x, const float *w, qni_iq1_fit *f)
{
    f->scale = 0.0f;
    f->shift = 0;
    if (max_magnitude(x, 16) < 1e-7f) {
        return true;
    }
    uint8_t order[16];
    uint8_t levels[16];
    sort_stable(x, 16, order);
    qni_iq1_split s = search_iq1_m(x, w, order);
    if (!s.is_found) {
        return true;
    }
    apply_split(&s, order, 16, 3, levels);
    f->scale = s.scale;
    f->shift = s.shift;
    const float *values[2] = {qni_iq1_values[qni_iq1_shift_of(s.shift, 0)],
                              qni_iq1_values[qni_iq1_shift_of(s.shift, 1)]};
    return project_octets(tables, levels, values, 2, x, w, f);
}

/* The super-block's scale once all codes are known: over all 256 elements in order, sub-blocks of
 * zeros included. Returns `d` if there is nothing to fit. */
float qni_iq1_refit_m(const float *x, const float *w, const qni_iq1_fit *fits,
                      const uint32_t *codes, float d)
{
    float xq = 0.0f;
    float qq = 0.0f;
    for (int32_t i = 0; i < QNI_SUPER; i++) {
        const qni_iq1_fit *f = &fits[i / 16];
        const int32_t o = i / 8 % 2;
        const float value =
            qni_iq1_values[qni_iq1_shift_of(f->shift, o)][f->points[o] >> (2 * (i % 8)) & 3];
        const float q = value * (float)(2 * (int32_t)codes[i / 16] + 1);
        xq += w[i] * q * x[i];
        qq += w[i] * q * q;
    }
    return qq > 0.0f ? xq / qq : d;
}

static qni_encode_result encode_iq1_m(const qni_iq1_steps *steps, const struct qni_lattice *tables,
                                      const float *x, const float *importance,
                                      qni_block_iq1_m *block)
{
    memset(block, 0, sizeof *block);
    float w[QNI_SUPER];
    const float sigma2 = importance ? 2.0f * qni_sum_squares(x, QNI_SUPER) / 256.0f : 0.0f;
    steps->weigh(x, importance, sigma2, w);
    qni_iq1_fit fits[N_SUB_16];
    float max_scale = 0.0f;
    for (int32_t sub = 0; sub < N_SUB_16; sub++) {
        qni_iq1_fit *f = &fits[sub];
        memset(f->points, 0, sizeof f->points);
        if (!steps->fit_m(tables, x + 16 * sub, w + 16 * sub, f)) {
            return QNI_ENCODE_ABORT;
        }
        const uint32_t index0 = qni_lattice_index_of(tables, f->points[0]);
        const uint32_t index1 = qni_lattice_index_of(tables, f->points[1]);
        block->qs[2 * sub] = (uint8_t)index0;
        block->qs[2 * sub + 1] = (uint8_t)index1;
        block->qh[sub] = (uint8_t)(index0 >> 8 | index1 >> 8 << 4);
        max_scale = qni_max_f32(max_scale, f->scale);
    }
    if (max_scale == 0.0f) {
        return QNI_ENCODE_OK; /* the reference keeps the indices it wrote */
    }
    const float d = max_scale / SCALE_STEPS;
    const float inv = 1.0f / d;
    uint32_t codes[N_SUB_16];
    uint32_t words[4] = {0};
    for (int32_t sub = 0; sub < N_SUB_16; sub++) {
        const uint32_t shift = fits[sub].shift;
        codes[sub] = scale_code(inv, fits[sub].scale);
        words[sub / 4] |= codes[sub] << (3 * (sub % 4));
        block->qh[sub] = (uint8_t)(block->qh[sub] | qni_iq1_shift_of(shift, 0) << 3 |
                                   qni_iq1_shift_of(shift, 1) << 7);
    }
    const uint16_t h = qni_f16_from_f32(steps->refit_m(x, w, fits, codes, d) * 1.1125f);
    for (int32_t i = 0; i < 4; i++) {
        words[i] |= ((uint32_t)h >> (4 * i) & 15u) << 12;
        qni_store_u16le(block->scales + 2 * i, (uint16_t)words[i]);
    }
    return qni_f16_is_finite(h) ? QNI_ENCODE_OK : QNI_ENCODE_OVERFLOW;
}

void qni_iq1_weigh(const float *x, const float *importance, float sigma2, float *w)
{
    if (importance) {
        qni_weigh(x, importance, sigma2, QNI_SUPER, w);
        return;
    }
    for (int32_t i = 0; i < QNI_SUPER; i++) {
        w[i] = x[i] * x[i];
    }
}

/* --- rows ----------------------------------------------------------------------------------------
 */

static const qni_iq1_steps steps_scalar = {
    .weigh = qni_iq1_weigh,
    .fit_s = qni_iq1_fit_s,
    .fit_m = qni_iq1_fit_m,
    .refit_m = qni_iq1_refit_m,
};

QNI_DEFINE_SUPER_ROWS(iq1_s, QNI_PROTO_IQ1, &steps_scalar)
QNI_DEFINE_SUPER_ROWS(iq1_m, QNI_PROTO_IQ1, &steps_scalar)
