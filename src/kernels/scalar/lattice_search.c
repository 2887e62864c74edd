/* lattice_search.c — see lattice_search_internal.h. */
#include "kernels/lattice_search_internal.h"
#include "kernels/search_internal.h"

#include <float.h>

const qni_lattice_form qni_form_iq2_xxs = {32, 6, 5.0f, 0.1f, true, QNI_AGAIN_ALWAYS};
const qni_lattice_form qni_form_iq2_xs = {16, 9, 5.0f, 0.1f, true, QNI_AGAIN_OFF_GRID};
const qni_lattice_form qni_form_iq2_s = {16, 9, 5.0f, 0.1f, true, QNI_AGAIN_OFF_GRID};
const qni_lattice_form qni_form_iq3_xxs = {32, 15, 15.0f, 0.2f, true, QNI_AGAIN_OFF_GRID};
const qni_lattice_form qni_form_iq3_s = {32, 9, 15.0f, 0.2f, false, QNI_AGAIN_ALL};

static void weigh(const float *x, const float *importance, float sigma2, float plain_sigma2,
                  qni_lattice_front *front)
{
    if (importance) {
        qni_weigh(x, importance, sigma2, QNI_SUPER, front->w);
    } else {
        for (int32_t i = 0; i < QNI_SUPER; i++) {
            front->w[i] = plain_sigma2 + x[i] * x[i];
        }
    }
    for (int32_t i = 0; i < QNI_SUPER; i++) {
        front->root[i] = sqrtf(front->w[i]);
    }
}

/* Of an octet: the first element whose change of sign adds the least weighted error. */
static int32_t cheapest_flip(const float *x, const float *w)
{
    int32_t at = 0;
    float least = w[0] * x[0] * x[0];
    for (int32_t k = 1; k < 8; k++) {
        const float cost = w[k] * x[k] * x[k];
        if (cost < least) {
            least = cost;
            at = k;
        }
    }
    return at;
}

static void split_signs(const float *x, bool is_even, qni_lattice_front *front)
{
    for (int32_t octet = 0; octet < QNI_SUPER / 8; octet++) {
        const float *from = x + 8 * octet;
        float *to = front->x + 8 * octet;
        uint32_t signs = 0;
        uint32_t parity = 0;
        for (int32_t k = 0; k < 8; k++) {
            const bool is_negative = !(from[k] >= 0.0f);
            to[k] = is_negative ? -from[k] : from[k];
            signs |= (uint32_t)is_negative << k;
            parity ^= (uint32_t)is_negative;
        }
        if (is_even && parity) {
            const int32_t k = cheapest_flip(from, front->w + 8 * octet);
            to[k] = -to[k];
            signs ^= 1u << k;
        }
        front->signs[octet] = (uint8_t)(is_even ? signs & 0x7fu : signs);
    }
}

void qni_lattice_prepare(const float *x, const float *importance, float sigma2, float plain_sigma2,
                         bool is_even, qni_lattice_front *front)
{
    weigh(x, importance, sigma2, plain_sigma2, front);
    split_signs(x, is_even, front);
}

float qni_lattice_max(const float *x, int32_t n)
{
    float m = x[0];
    for (int32_t i = 1; i < n; i++) {
        m = qni_max_f32(m, x[i]);
    }
    return m;
}

/* Position of a packed point in dimension k, of 8 with two bits each or 4 with four. */
QNI_INLINE float position_of(int32_t n_dims, uint32_t packed, int32_t k)
{
    const int32_t bits = 16 / n_dims;
    const uint32_t level = packed >> (bits * k) & ((1u << bits) - 1);
    return (float)(2 * (int32_t)level + 1);
}

/* The listed point nearest to x / scale in the weighted sense, or NO_POINT if none is nearer than
 * the largest float. The first of equals wins. */
QNI_INLINE uint16_t nearest_listed(const struct qni_lattice *tables, int32_t n_dims,
                                   const qni_lattice_cell *cell, float scale, const float *x,
                                   const float *root)
{
    const uint16_t *list = tables->lists + (size_t)cell->full_at * QNI_LATTICE_PAD;
    uint16_t found = QNI_LATTICE_NO_POINT;
    float least = FLT_MAX;
    for (int32_t i = 0; i < cell->n_full; i++) {
        float distance = 0.0f;
        for (int32_t k = 0; k < n_dims; k++) {
            const float e = scale * position_of(n_dims, list[i], k) - x[k];
            distance += root[k] * e * e;
        }
        if (distance < least) {
            least = distance;
            found = list[i];
        }
    }
    return found;
}

typedef struct projection {
    uint16_t point;
    bool is_on_grid;
} projection;

/* Rounds a group to levels; if they are no point of the grid, takes the nearest one listed. */
QNI_INLINE projection project_dims(const struct qni_lattice *tables, int32_t n_dims, float inv,
                                   float scale, const float *x, const float *root)
{
    const int32_t n_levels = n_dims == 8 ? 3 : 8;
    int32_t number = 0;
    int32_t place = 1;
    for (int32_t k = 0; k < n_dims; k++) {
        const int32_t level = qni_nearest(0.5f * (inv * x[k] - 1.0f));
        number += place * qni_clamp_i32(level, 0, n_levels - 1);
        place *= n_levels;
    }
    const qni_lattice_cell *cell = &tables->cells[number];
    if (cell->n_full == 0) {
        return (projection){cell->pruned_at, true};
    }
    return (projection){nearest_listed(tables, n_dims, cell, scale, x, root), false};
}

/* The same, with the loops unrolled for the dimensions there are. */
static projection project(const struct qni_lattice *tables, float inv, float scale, const float *x,
                          const float *root)
{
    return tables->book->n_dims == 8 ? project_dims(tables, 8, inv, scale, x, root)
                                     : project_dims(tables, 4, inv, scale, x, root);
}

typedef struct score {
    float xq;
    float qq;
} score;

/* Over the whole sub-block, in element order. */
static score score_points(int32_t n_dims, int32_t n, const uint16_t *points, const float *x,
                          const float *w)
{
    score sum = {0.0f, 0.0f};
    for (int32_t i = 0; i < n; i++) {
        /* all points are there, n / n_dims: NOLINTNEXTLINE(clang-analyzer-core.CallAndMessage) */
        const float q = position_of(n_dims, points[i / n_dims], i % n_dims);
        sum.xq += w[i] * x[i] * q;
        sum.qq += w[i] * q * q;
    }
    return sum;
}

bool qni_lattice_search(const struct qni_lattice *tables, const qni_lattice_form *form,
                        const qni_lattice_front *front, int32_t sub, float range,
                        qni_lattice_fit *fit)
{
    const float *x = front->x + sub * form->n;
    const float *w = front->w + sub * form->n;
    const float *root = front->root + sub * form->n;
    const int32_t n_dims = tables->book->n_dims;
    const int32_t n_groups = form->n / n_dims;
    bool is_on_grid[QNI_LATTICE_MAX_GROUPS];
    for (int32_t g = 0; g < n_groups; g++) {
        is_on_grid[g] = form->starts_on_grid;
    }
    float best = 0.0f;
    for (int32_t k = -form->n_each_side; k <= form->n_each_side; k++) {
        const float inv = (form->middle + (float)k * form->step) / range;
        const float scale = 1.0f / inv;
        projection trial[QNI_LATTICE_MAX_GROUPS];
        uint16_t points[QNI_LATTICE_MAX_GROUPS];
        for (int32_t g = 0; g < n_groups; g++) {
            trial[g] = project(tables, inv, scale, x + n_dims * g, root + n_dims * g);
            points[g] = trial[g].point;
            if (points[g] == QNI_LATTICE_NO_POINT) {
                return false;
            }
        }
        const score sum = score_points(n_dims, form->n, points, x, w);
        if (sum.qq > 0.0f && sum.xq * sum.xq > best * sum.qq) {
            fit->scale = sum.xq / sum.qq;
            best = fit->scale * sum.xq;
            for (int32_t g = 0; g < n_groups; g++) {
                fit->points[g] = points[g];
                is_on_grid[g] = trial[g].is_on_grid;
            }
        }
    }

    bool any_off_grid = false;
    for (int32_t g = 0; g < n_groups; g++) {
        any_off_grid = any_off_grid || !is_on_grid[g];
    }
    if (!(fit->scale > 0.0f) || (form->again != QNI_AGAIN_ALWAYS && !any_off_grid)) {
        return true;
    }
    const float inv = 1.0f / fit->scale;
    for (int32_t g = 0; g < n_groups; g++) {
        if (form->again == QNI_AGAIN_OFF_GRID && is_on_grid[g]) {
            continue;
        }
        const projection p = project(tables, inv, fit->scale, x + n_dims * g, root + n_dims * g);
        if (p.point == QNI_LATTICE_NO_POINT) {
            return false;
        }
        fit->points[g] = p.point;
    }
    const score sum = score_points(n_dims, form->n, fit->points, x, w);
    if (sum.qq > 0.0f) {
        fit->scale = sum.xq / sum.qq;
    }
    return true;
}

/* Levels of the search without a grid; they need not be those of a point. */
static void pack_start(const uint8_t *levels, uint16_t *points)
{
    for (int32_t g = 0; g < 4; g++) {
        uint32_t packed = 0;
        bool is_point = true;
        for (int32_t k = 0; k < 8; k++) {
            is_point = is_point && levels[8 * g + k] <= 2;
            packed |= (uint32_t)levels[8 * g + k] << (2 * k);
        }
        points[g] = (uint16_t)(is_point ? packed : QNI_LATTICE_NO_POINT);
    }
}

void qni_lattice_start(const qni_lattice_front *front, qni_lattice_fit *fits)
{
    for (int32_t sub = 0; sub < QNI_SUPER / 32; sub++) {
        const float *x = front->x + 32 * sub;
        fits[sub] = (qni_lattice_fit){0.0f, {0}};
        if (qni_lattice_max(x, 32) < QNI_TINY) {
            continue;
        }
        uint8_t levels[32];
        fits[sub].scale = qni_search_positive(32, 4, x, front->w + 32 * sub, levels);
        pack_start(levels, fits[sub].points);
    }
}

const qni_lattice_steps qni_lattice_steps_scalar = {
    .prepare = qni_lattice_prepare,
    .start = qni_lattice_start,
    .search = qni_lattice_search,
};

bool qni_lattice_indices(const struct qni_lattice *tables, const uint16_t *points, int32_t n,
                         uint16_t *out)
{
    for (int32_t g = 0; g < n; g++) {
        if (points[g] == QNI_LATTICE_NO_POINT) {
            return false;
        }
        const qni_lattice_cell *cell = &tables->cells[qni_lattice_cell_of(tables, points[g])];
        if (cell->n_full != 0) {
            return false;
        }
        out[g] = cell->full_at;
    }
    return true;
}

void qni_lattice_turn_positive(float *scale, uint8_t *signs, int32_t n, uint8_t mask)
{
    if (!(*scale < 0.0f)) {
        return;
    }
    *scale = -*scale;
    for (int32_t o = 0; o < n; o++) {
        signs[o] = (uint8_t)(~signs[o] & mask);
    }
}
