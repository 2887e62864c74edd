/* lattice_search_lanes_internal.h — the search of iq2_* and iq3_* with the referee's result, in
 * lanes.
 *
 * Compiled for each width of lattice_lanes_*_internal.h, which comes before. Lanes are the
 * candidates of one sub-block, or eight points of a list. Levels do not fall as a candidate's
 * factor grows, so candidates with equal cells are neighbours: a *run*. For a cell off the grid the
 * nearest listed point is wanted for every candidate of the run. With A = sum w p^2, B = -2 sum w p
 * x and C = sum w x^2 the distance of a point is C + s (A s + B), so what a run needs is the lowest
 * of a few lines A s + B, and a point that is lowest at both ends of a run is lowest in between.
 * The lines are computed in any order, with fused operations, and believed only where one is below
 * all others by more than MARGIN allows for every rounding, ours and the referee's. Near ties, and
 * groups whose numbers are too large or too small for that bound, ask in the referee's own order of
 * operations (ask_exactly). docs/design/lattice-encoders.md has the proofs, of the margin and of
 * the two guards for lists without dominated points. */
enum {
    MAX_CANDIDATES = 32,
    MAX_GROUPS = QNI_LATTICE_MAX_GROUPS,
    MAX_RUNS = MAX_GROUPS * MAX_CANDIDATES,
    MAX_VECTORS = MAX_CANDIDATES / CL,
    MAX_LINES = 8,  /* vectors of lines of one run; longer lists are asked exactly */
    MAX_KEPT = 128, /* vectors of lines of all open runs of a sub-block */
};

/* Relative to C + max(distance - C, 0): five times what the proof needs. */
#define MARGIN 0x1p-14f
/* A level this near to the middle of two integers takes the whole list. */
#define BORDER 0.4999f
/* Candidates whose quotient is this near to the best are told apart exactly. */
#define NEARLY 0.99999f

/* What is known of one group for all its runs. In eight dimensions a table has four levels, twice;
 * in four it has eight. */
typedef struct group {
    __m256 a[8];
    __m256 b[8];
    float c;
} group;

/* A sub-block's search. Candidates of group g are entries 32 g and on. */
typedef struct work {
    QNI_ALIGNED(64) float inv[MAX_CANDIDATES + CL];   /* 1 / s, the candidate's factor */
    QNI_ALIGNED(64) float scale[MAX_CANDIDATES + CL]; /* s */
    QNI_ALIGNED(64) float half_inv[MAX_CANDIDATES];
    QNI_ALIGNED(64) uint32_t cell[MAX_RUNS];
    QNI_ALIGNED(64) uint32_t point[MAX_RUNS + MAX_CANDIDATES]; /* packed; runs spill over the end */
    QNI_ALIGNED(32) float wx[QNI_LATTICE_MAX_SUB];             /* w * x */
    /* x, but never so low that a level would be below zero before it is cut */
    QNI_ALIGNED(32) float floored[QNI_LATTICE_MAX_SUB];
    uint32_t at_border[MAX_GROUPS]; /* bit: candidate */
    group groups[MAX_GROUPS];
    const float *x;
    const float *w;
    const float *root;
    const struct qni_lattice *tables;
    int32_t n_candidates;
    int32_t n_vectors;
} work;

/* A run: its first and last candidate (entry numbers as in `point`) and a copy of its cell, whose
 * pruned_at becomes the run's point once that is known, as it is for a cell on the grid. */
typedef struct run {
    qni_lattice_cell cell;
    uint8_t first;
    uint8_t last;
} run;

/* A run that its ends did not settle: its lines are at kept + at; NO_LINES: ask for each. */
typedef struct open_run {
    uint8_t which;
    uint8_t at;
} open_run;
#define NO_LINES 255

#define NONE (-1)

/* --- pieces --------------------------------------------------------------------------------------
 */

QNI_INLINE __m256 positions(int32_t n_dims)
{
    return n_dims == 8 ? _mm256_setr_ps(1, 3, 5, 7, 1, 3, 5, 7)
                       : _mm256_setr_ps(1, 3, 5, 7, 9, 11, 13, 15);
}

QNI_INLINE const uint16_t *full_list(const work *job, const qni_lattice_cell *cell)
{
    return job->tables->lists + (size_t)cell->full_at * QNI_LATTICE_PAD;
}

QNI_INLINE const uint16_t *pruned_list(const work *job, const qni_lattice_cell *cell)
{
    return job->tables->lists + (size_t)cell->pruned_at * QNI_LATTICE_PAD;
}

/* The nearest listed point as the referee finds it. */
static __attribute__((noinline)) uint32_t ask_list_8(const float *x, const float *root, float scale,
                                                     const uint16_t *list, int32_t n)
{
    return nearest_of_list(8, positions(8), x, root, scale, list, n);
}

static __attribute__((noinline)) uint32_t ask_list_4(const float *x, const float *root, float scale,
                                                     const uint16_t *list, int32_t n)
{
    return nearest_of_list(4, positions(4), x, root, scale, list, n);
}

/* For candidate number `entry` (group and candidate in one) of a cell off the grid. */
QNI_INLINE uint32_t ask_exactly(const work *job, int32_t n_dims, const qni_lattice_cell *cell,
                                int32_t entry)
{
    const int32_t at = n_dims * (entry / MAX_CANDIDATES);
    const float scale = job->scale[entry % MAX_CANDIDATES];
    return (n_dims == 8 ? ask_list_8 : ask_list_4)(job->x + at, job->root + at, scale,
                                                   full_list(job, cell), cell->n_full);
}

/* --- candidates, cells ---------------------------------------------------------------------------
 */

QNI_INLINE void set_candidates(work *job, const qni_lattice_form *form, float range)
{
    vc k = vc_add(vc_numbers(), vc_set((float)-form->n_each_side));
    for (int32_t v = 0; v < job->n_vectors; v++) {
        const vc factor = vc_add(vc_set(form->middle), vc_mul(k, vc_set(form->step)));
        const vc inv = vc_div(factor, vc_set(range));
        vc_store(job->inv + CL * v, inv);
        vc_store(job->half_inv + CL * v, vc_mul(inv, vc_set(0.5f)));
        vc_store(job->scale + CL * v, vc_div(vc_set(1.0f), inv));
        k = vc_add(k, vc_set((float)CL));
    }
}

/* Lines' tables of a group, and C. True if C is outside the range that the margin is proven for. */
QNI_INLINE bool open_group(group *g, int32_t n_dims, const float *x, const float *root)
{
    const __m256 p = positions(n_dims);
    const __m256 pp = _mm256_mul_ps(p, p);
    float c = 0.0f;
    for (int32_t k = 0; k < n_dims; k++) {
        const float rx = root[k] * x[k];
        c += rx * x[k];
        g->a[k] = _mm256_mul_ps(_mm256_set1_ps(root[k]), pp);
        g->b[k] = _mm256_mul_ps(_mm256_set1_ps(-2.0f * rx), p);
    }
    g->c = c;
    return !(c >= 1e-30f && c <= 1e30f);
}

static const float place_3[8] = {1, 3, 9, 27, 81, 243, 729, 2187};
static const float place_8[4] = {1, 8, 64, 512};

/* Cells of all candidates of group number `at`; returns a bit for each last candidate of a run. */
QNI_INLINE uint32_t find_cells(work *job, int32_t n_dims, int32_t n_vectors, int32_t at)
{
    const float *x = job->floored + n_dims * at;
    const vc half = vc_set(0.5f);
    const vc top = vc_set(n_dims == 8 ? 2.0f : 7.0f);
    vc number[MAX_VECTORS];
#pragma GCC unroll 4
    for (int32_t v = 0; v < n_vectors; v++) {
        number[v] = vc_set(0.0f);
    }
#pragma GCC unroll 8
    for (int32_t k = 0; k < n_dims; k++) {
        const vc xk = vc_set(x[k]);
        const vc place = vc_set((n_dims == 8 ? place_3 : place_8)[k]);
#pragma GCC unroll 4
        for (int32_t v = 0; v < n_vectors; v++) {
            /* 0.5 * (inv * x - 1): halving is exact, so it may come first. Never below -0.5. */
            const vc half_inv = vc_load(job->half_inv + CL * v);
            const vc u = vc_min(vc_sub(vc_mul(xk, half_inv), half), top);
            number[v] = vc_fma(vc_round(u), place, number[v]); /* exact */
        }
    }
    vci cells[MAX_VECTORS + 1];
#pragma GCC unroll 4
    for (int32_t v = 0; v < n_vectors; v++) {
        cells[v] = vci_round(number[v]);
        vci_store(job->cell + MAX_CANDIDATES * at + CL * v, cells[v]);
    }
    cells[n_vectors] = vci_set(0);
    uint32_t same = 0;
#pragma GCC unroll 4
    for (int32_t v = 0; v < n_vectors; v++) {
        same |= vci_equals_next(cells[v], cells[v + 1]) << (CL * v);
    }
    const uint32_t last = 1u << (job->n_candidates - 1);
    return (~same & (last - 1)) | last;
}

/* --- runs ----------------------------------------------------------------------------------------
 */

typedef struct run_counts {
    int32_t runs;
    int32_t off_grid;
} run_counts;

/* Runs of one group from the bits of their last candidates, appended; the numbers of those off the
 * grid go to off_grid. No branch depends on the data but the loop's. */
QNI_INLINE run_counts list_runs(const work *job, int32_t at, uint32_t ends, run_counts n, run *runs,
                                uint8_t *off_grid)
{
    const qni_lattice_cell *table = job->tables->cells;
    const uint32_t *cells = job->cell + MAX_CANDIDATES * at;
    int32_t first = MAX_CANDIDATES * at;
    for (; ends; ends &= ends - 1) {
        const uint32_t last = first_bit(ends);
        const qni_lattice_cell cell = table[cells[last]];
        run *r = &runs[n.runs];
        r->cell = cell;
        r->first = (uint8_t)first;
        first = MAX_CANDIDATES * at + (int32_t)last;
        r->last = (uint8_t)first++;
        off_grid[n.off_grid] = (uint8_t)n.runs++;
        n.off_grid += cell.n_full != 0;
    }
    return n;
}

typedef struct lines {
    __m256 a;
    __m256 b;
} lines;

QNI_INLINE lines lines_of(const group *g, int32_t n_dims, __m256i packed)
{
    __m256 a[8];
    __m256 b[8];
    for (int32_t k = 0; k < n_dims; k++) {
        a[k] = look_up(n_dims, g->a[k], packed, k);
        b[k] = look_up(n_dims, g->b[k], packed, k);
    }
    for (int32_t n = n_dims / 2; n > 0; n /= 2) {
        for (int32_t k = 0; k < n; k++) {
            a[k] = _mm256_add_ps(a[k], a[k + n]);
            b[k] = _mm256_add_ps(b[k], b[k + n]);
        }
    }
    return (lines){a[0], b[0]};
}

/* Both ends of a run at once: lanes 0-3 belong to the first candidate, 4-7 to the last. */
QNI_INLINE __m256 both(float first, float last)
{
    return _mm256_blend_ps(_mm256_set1_ps(first), _mm256_set1_ps(last), 0xf0);
}

/* least + MARGIN * (max(least, 0) + c / s) */
QNI_INLINE __m256 limit_of(__m256 least, __m256 c, __m256 inv)
{
    const __m256 margin = _mm256_set1_ps(MARGIN);
    const __m256 room = _mm256_fmadd_ps(c, inv, _mm256_max_ps(least, _mm256_setzero_ps()));
    return _mm256_fmadd_ps(room, margin, least);
}

/* Minimum of each half of the lanes, in all lanes of the half. */
QNI_INLINE __m256 min_halves(__m256 v)
{
    v = _mm256_min_ps(v, _mm256_permute_ps(v, 0x4e));
    return _mm256_min_ps(v, _mm256_permute_ps(v, 0xb1));
}

/* Which of the points are within the limit at the first and the last candidate. */
typedef struct hits {
    uint64_t first;
    uint64_t last;
} hits;

/* Evaluates a run's lines, which are kept, at both of its ends. */
QNI_INLINE hits hit_ends(const work *job, const group *g, int32_t n_dims, const run *r,
                         int32_t n_vectors, const uint16_t *list, lines *keep)
{
    const int32_t first = r->first % MAX_CANDIDATES;
    const int32_t last = r->last % MAX_CANDIDATES;
    const __m256 s_first = _mm256_set1_ps(job->scale[first]);
    const __m256 s_last = _mm256_set1_ps(job->scale[last]);
    __m256 at_first[MAX_LINES];
    __m256 at_last[MAX_LINES];
    __m256 low = _mm256_set1_ps(INFINITY); /* lanes 0-3: of the first, 4-7: of the last candidate */
    for (int32_t j = 0; j < n_vectors; j++) {
        const lines l = lines_of(g, n_dims, load_points(list + LANES * j));
        keep[j] = l;
        at_first[j] = _mm256_fmadd_ps(l.a, s_first, l.b);
        at_last[j] = _mm256_fmadd_ps(l.a, s_last, l.b);
        low = _mm256_min_ps(low,
                            _mm256_min_ps(_mm256_permute2f128_ps(at_first[j], at_last[j], 0x20),
                                          _mm256_permute2f128_ps(at_first[j], at_last[j], 0x31)));
    }
    const __m256 limit =
        limit_of(min_halves(low), _mm256_set1_ps(g->c), both(job->inv[first], job->inv[last]));
    const __m256 limit_first = _mm256_permute2f128_ps(limit, limit, 0x00);
    const __m256 limit_last = _mm256_permute2f128_ps(limit, limit, 0x11);
    hits h = {0, 0};
    for (int32_t j = 0; j < n_vectors; j++) {
        const uint32_t f =
            (uint32_t)_mm256_movemask_ps(_mm256_cmp_ps(at_first[j], limit_first, _CMP_LE_OQ));
        const uint32_t l =
            (uint32_t)_mm256_movemask_ps(_mm256_cmp_ps(at_last[j], limit_last, _CMP_LE_OQ));
        h.first |= (uint64_t)f << (LANES * j);
        h.last |= (uint64_t)l << (LANES * j);
    }
    return h;
}

/* Settles the runs off the grid whose winner is clear at both ends and the same; returns how many
 * remain open. */
QNI_INLINE int32_t settle_runs(const work *job, int32_t n_dims, uint32_t extreme_groups, run *runs,
                               const uint8_t *off_grid, int32_t n_off_grid, lines *kept,
                               open_run *open)
{
    int32_t n_open = 0;
    int32_t n_kept = 0;
    for (int32_t i = 0; i < n_off_grid; i++) {
        run *r = &runs[off_grid[i]];
        const int32_t at = r->first / MAX_CANDIDATES;
        const group *g = &job->groups[at];
        const int32_t n = r->cell.n_pruned;
        if (QNI_UNLIKELY((extreme_groups >> at & 1u) != 0 || n > LANES * MAX_LINES ||
                         n_kept > MAX_KEPT - MAX_LINES)) {
            open[n_open++] = (open_run){off_grid[i], NO_LINES};
            continue;
        }
        const uint16_t *list = pruned_list(job, &r->cell);
        const int32_t n_vectors = (n + LANES - 1) / LANES;
        const hits h = n_vectors == 1 ? hit_ends(job, g, n_dims, r, 1, list, kept + n_kept)
                                      : hit_ends(job, g, n_dims, r, n_vectors, list, kept + n_kept);
        const uint64_t real = ~UINT64_C(0) >> (64 - n); /* without the padding */
        const uint64_t winners = h.first & real;
        const bool is_open =
            winners != (h.last & real) || winners == 0 || (winners & (winners - 1)) != 0;
        const uint16_t point = list[first_of_64(winners)];
        r->cell.pruned_at = is_open ? r->cell.pruned_at : point;
        open[n_open] = (open_run){off_grid[i], (uint8_t)n_kept};
        n_open += is_open;
        n_kept += is_open ? n_vectors : 0;
    }
    return n_open;
}

/* Writes each run's point to all its candidates, in order: what spills over a run's end is
 * overwritten by the next run. */
QNI_INLINE void spread_runs(work *job, const run *runs, int32_t n_runs)
{
    for (int32_t i = 0; i < n_runs; i++) {
        const vci point = vci_set(runs[i].cell.pruned_at);
        uint32_t *to = job->point + runs[i].first;
        for (int32_t at = 0; at < 16; at += CL) {
            vci_store(to + at, point);
        }
        if (runs[i].last - runs[i].first >= 16) {
            for (int32_t at = 16; at < MAX_CANDIDATES; at += CL) {
                vci_store(to + at, point);
            }
        }
    }
}

static void ask_for_run(work *job, int32_t n_dims, const run *r)
{
    for (int32_t at = r->first; at <= r->last; at++) {
        job->point[at] = ask_exactly(job, n_dims, &r->cell, at);
    }
}

/* An open run, lanes = its candidates from entry `at`, in n_vectors vectors: the two lowest lines
 * of each, and which is lowest. */
QNI_INLINE void resolve_lanes(work *job, int32_t n_dims, const run *r, const lines *kept,
                              int32_t at, int32_t n_vectors)
{
    const int32_t n = r->cell.n_pruned;
    vc s[2];
    vc lowest[2];
    vc second[2];
    vci winner[2];
#pragma GCC unroll 4
    for (int32_t v = 0; v < n_vectors; v++) {
        s[v] = vc_load(job->scale + (at & (MAX_CANDIDATES - 1)) + CL * v);
        lowest[v] = second[v] = vc_set(INFINITY);
        winner[v] = vci_set(0);
    }
    vci number = vci_set(0);
    for (int32_t from = 0; from < n; from += LANES, kept++) {
        const float *l = (const float *)(const void *)kept;
        const float *end = l + qni_min_i32(n - from, LANES);
        for (; l < end; l++) {
            const vc a = vc_set(l[0]);
            const vc b = vc_set(l[LANES]);
#pragma GCC unroll 4
            for (int32_t v = 0; v < n_vectors; v++) {
                const vc h = vc_fma(a, s[v], b);
                winner[v] = vci_pick_below(h, lowest[v], number, winner[v]);
                second[v] = vc_min(second[v], vc_max(h, lowest[v]));
                lowest[v] = vc_min(h, lowest[v]);
            }
            number = vci_add(number, vci_set(1));
        }
    }
    const uint16_t *list = pruned_list(job, &r->cell);
    const vc c = vc_set(job->groups[r->first / MAX_CANDIDATES].c);
    uint32_t unclear = 0;
#pragma GCC unroll 4
    for (int32_t v = 0; v < n_vectors; v++) {
        const vc inv = vc_load(job->inv + (at & (MAX_CANDIDATES - 1)) + CL * v);
        const vc margin = vc_set(MARGIN); /* as limit_of() */
        const vc room = vc_fma(c, inv, vc_max(lowest[v], vc_set(0.0f)));
        const vc limit = vc_fma(room, margin, lowest[v]);
        unclear |= vc_not_above(second[v], limit) << (CL * v);
        vci_store_first(job->point + at + CL * v, r->last - at + 1 - CL * v,
                        vci_points(list, n, winner[v]));
    }
    unclear &= (2u << (r->last - at)) - 1;
    for (; QNI_UNLIKELY(unclear); unclear &= unclear - 1) {
        const int32_t entry = at + (int32_t)first_bit(unclear);
        job->point[entry] = ask_exactly(job, n_dims, &r->cell, entry);
    }
}

QNI_INLINE void resolve_run(work *job, int32_t n_dims, const run *r, const lines *kept)
{
    int32_t at = r->first;
    for (; r->last - at >= CL; at += 2 * CL) {
        resolve_lanes(job, n_dims, r, kept, at, 2);
    }
    if (at <= r->last) {
        resolve_lanes(job, n_dims, r, kept, at, 1);
    }
}

/* Whether an element lies at the border of its cell: bits 0-3 for the first, 4-7 for the last
 * candidate of a run. */
QNI_INLINE uint32_t find_borders(const work *job, int32_t n_dims, const run *r)
{
    const float *x = job->floored + n_dims * (r->first / MAX_CANDIDATES);
    const __m256 half_inv =
        both(job->half_inv[r->first % MAX_CANDIDATES], job->half_inv[r->last % MAX_CANDIDATES]);
    __m256 most = _mm256_setzero_ps();
    for (int32_t k = 0; k < n_dims; k += 4) {
        const __m256 xk = _mm256_broadcast_ps((const __m128 *)(const void *)(x + k));
        const __m256 u =
            _mm256_min_ps(_mm256_sub_ps(_mm256_mul_ps(xk, half_inv), _mm256_set1_ps(0.5f)),
                          _mm256_set1_ps(n_dims == 8 ? 2.0f : 7.0f));
        const __m256 level = _mm256_round_ps(u, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
        const __m256 off = magnitude_of(_mm256_sub_ps(u, level));
        most = k == 0 ? off : _mm256_max_ps(most, off);
    }
    return (uint32_t)_mm256_movemask_ps(_mm256_cmp_ps(most, _mm256_set1_ps(BORDER), _CMP_GT_OQ));
}

/* A candidate with an element at the border of its cell may find a dominated point nearest, by
 * rounding. The factors of candidates differ so much that the next one lies beyond the border:
 * only the ends of runs need a look. */
QNI_INLINE void ask_at_borders(work *job, int32_t n_dims, const run *runs, const uint8_t *off_grid,
                               int32_t n_off_grid)
{
    for (int32_t i = 0; i < n_off_grid; i++) {
        const run *r = &runs[off_grid[i]];
        const uint32_t ends = find_borders(job, n_dims, r);
        if (QNI_LIKELY(ends == 0) || r->cell.n_full <= r->cell.n_pruned) {
            continue;
        }
        if (ends & 0x0f) {
            job->point[r->first] = ask_exactly(job, n_dims, &r->cell, r->first);
        }
        if (ends & 0xf0) {
            job->point[r->last] = ask_exactly(job, n_dims, &r->cell, r->last);
        }
    }
}

/* The point of every group for every candidate. */
QNI_INLINE void project_all(work *job, int32_t n_dims, int32_t n_groups, int32_t n_vectors,
                            bool is_pruned)
{
    run runs[MAX_RUNS];
    uint8_t off_grid[MAX_RUNS + 1];
    lines kept[MAX_KEPT];
    open_run open[MAX_RUNS + 1];
    run_counts n = {0, 0};
    uint32_t extreme_groups = 0;
    for (int32_t g = 0; g < n_groups; g++) {
        extreme_groups |= (uint32_t)open_group(&job->groups[g], n_dims, job->x + n_dims * g,
                                               job->root + n_dims * g)
                          << g;
        const uint32_t ends = find_cells(job, n_dims, n_vectors, g);
        n = list_runs(job, g, ends, n, runs, off_grid);
    }
    const int32_t n_open =
        settle_runs(job, n_dims, extreme_groups, runs, off_grid, n.off_grid, kept, open);
    spread_runs(job, runs, n.runs);
    for (int32_t i = 0; i < n_open; i++) {
        if (QNI_UNLIKELY(open[i].at == NO_LINES)) {
            ask_for_run(job, n_dims, &runs[open[i].which]);
        } else {
            resolve_run(job, n_dims, &runs[open[i].which], kept + open[i].at);
        }
    }
    if (is_pruned) {
        ask_at_borders(job, n_dims, runs, off_grid, n.off_grid);
    }
}

/* --- scores --------------------------------------------------------------------------------------
 */

/* Sums of all candidates, each in element order; an element's terms come from its eight (four)
 * levels. */
QNI_INLINE void score_all(const work *job, int32_t n_dims, int32_t n_groups, int32_t n_vectors,
                          float *out_xq, float *out_qq)
{
    const __m256 p = positions(n_dims);
    vc xq[MAX_VECTORS];
    vc qq[MAX_VECTORS];
#pragma GCC unroll 4
    for (int32_t v = 0; v < n_vectors; v++) {
        xq[v] = qq[v] = vc_set(0.0f);
    }
    for (int32_t g = 0; g < n_groups; g++) {
        const uint32_t *points = job->point + MAX_CANDIDATES * g;
        vci packed[MAX_VECTORS];
#pragma GCC unroll 4
        for (int32_t v = 0; v < n_vectors; v++) {
            packed[v] = vci_load(points + CL * v);
        }
#pragma GCC unroll 8
        for (int32_t k = 0; k < n_dims; k++) {
            const __m256 wp = _mm256_mul_ps(_mm256_set1_ps(job->w[n_dims * g + k]), p);
            const vc xq_of = vc_table(_mm256_mul_ps(_mm256_set1_ps(job->wx[n_dims * g + k]), p));
            const vc qq_of = vc_table(_mm256_mul_ps(wp, p));
#pragma GCC unroll 4
            for (int32_t v = 0; v < n_vectors; v++) {
                xq[v] = vc_add(xq[v], vc_look(n_dims, xq_of, packed[v]));
                qq[v] = vc_add(qq[v], vc_look(n_dims, qq_of, packed[v]));
                packed[v] = vci_next_levels(n_dims, packed[v]);
            }
        }
    }
#pragma GCC unroll 4
    for (int32_t v = 0; v < n_vectors; v++) {
        vc_store(out_xq + CL * v, xq[v]);
        vc_store(out_qq + CL * v, qq[v]);
    }
}

/* The referee's choice, one candidate after the other; NONE if it accepts none. */
static int32_t choose_in_order(const float *xq, const float *qq, int32_t n, float *scale)
{
    int32_t chosen = NONE;
    float best = 0.0f;
    for (int32_t k = 0; k < n; k++) {
        if (qq[k] > 0.0f && xq[k] * xq[k] > best * qq[k]) {
            *scale = xq[k] / qq[k];
            best = *scale * xq[k];
            chosen = k;
        }
    }
    return chosen;
}

/* The same without the chain: if every candidate near the best has the same sums, the first of
 * them is accepted and the others only if rounding lets equal sums pass once more; then the last
 * one stays. */
QNI_INLINE int32_t choose(const float *xq, const float *qq, int32_t n, int32_t n_vectors,
                          float *scale)
{
    vc ratio[MAX_VECTORS];
    vc best = vc_set(0.0f);
#pragma GCC unroll 4
    for (int32_t v = 0; v < n_vectors; v++) {
        const vc a = vc_load(xq + CL * v);
        const vc b = vc_load(qq + CL * v);
        ratio[v] = vc_keep_positive(vc_div(vc_mul(a, a), b), b, n - CL * v);
        best = vc_max(best, ratio[v]);
    }
    const float top = vc_reduce_max(best);
    if (QNI_UNLIKELY(!(top > 1e-25f && top < 1e30f))) {
        return choose_in_order(xq, qq, n, scale);
    }
    uint32_t near = 0;
#pragma GCC unroll 4
    for (int32_t v = 0; v < n_vectors; v++) {
        near |= vc_at_least(ratio[v], vc_set(top * NEARLY)) << (CL * v);
    }
    const int32_t k = (int32_t)first_bit(near);
    uint32_t others = near & (near - 1);
    for (; others; others &= others - 1) {
        const uint32_t o = first_bit(others);
        if (qq[o] != qq[k] || xq[o] != xq[k]) {
            return choose_in_order(xq, qq, n, scale);
        }
    }
    if (QNI_UNLIKELY(!(xq[k] * xq[k] > 1e-30f))) {
        return choose_in_order(xq, qq, n, scale);
    }
    *scale = xq[k] / qq[k];
    const float value = *scale * xq[k];
    return xq[k] * xq[k] > value * qq[k] ? 31 - (int32_t)__builtin_clz(near) : k;
}

/* --- the last projection -------------------------------------------------------------------------
 */

/* Sums of the points of a fit: products in lanes, added in element order. */
QNI_INLINE void score_fit(const work *job, int32_t n_dims, int32_t n, const qni_lattice_fit *fit,
                          float *out_xq, float *out_qq)
{
    QNI_ALIGNED(32) float xq_terms[QNI_LATTICE_MAX_SUB];
    QNI_ALIGNED(32) float qq_terms[QNI_LATTICE_MAX_SUB];
    const __m256i shifts = n_dims == 8 ? _mm256_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14)
                                       : _mm256_setr_epi32(0, 4, 8, 12, 0, 4, 8, 12);
    for (int32_t i = 0; i < n; i += LANES) {
        const int32_t g = i / n_dims;
        const __m256i low = _mm256_set1_epi32(fit->points[g]);
        const __m256i packed =
            n_dims == 8 ? low
                        : _mm256_blend_epi32(low, _mm256_set1_epi32(fit->points[g + 1]), 0xf0);
        const __m256i level = _mm256_and_si256(_mm256_srlv_epi32(packed, shifts),
                                               _mm256_set1_epi32(n_dims == 8 ? 3 : 7));
        const __m256 q = _mm256_cvtepi32_ps(
            _mm256_add_epi32(_mm256_add_epi32(level, level), _mm256_set1_epi32(1)));
        const __m256 w = _mm256_loadu_ps(job->w + i);
        _mm256_store_ps(xq_terms + i, _mm256_mul_ps(_mm256_load_ps(job->wx + i), q));
        _mm256_store_ps(qq_terms + i, _mm256_mul_ps(_mm256_mul_ps(w, q), q));
    }
    float xq = 0.0f;
    float qq = 0.0f;
    for (int32_t i = 0; i < n; i++) {
        xq += xq_terms[i];
        qq += qq_terms[i];
    }
    *out_xq = xq;
    *out_qq = qq;
}

/* Groups of `again` once more, with the scale found; then the scale that fits all points. */
QNI_INLINE void project_again(work *job, int32_t n_dims, int32_t n, uint32_t again, bool is_pruned,
                              qni_lattice_fit *fit)
{
    const __m256 inv = _mm256_set1_ps(1.0f / fit->scale);
    const float scale = fit->scale;
    QNI_ALIGNED(32) int32_t levels[QNI_LATTICE_MAX_SUB];
    uint32_t border = 0;
    for (int32_t i = 0; i < n; i += LANES) {
        const __m256 v = _mm256_mul_ps(
            _mm256_set1_ps(0.5f),
            _mm256_sub_ps(_mm256_mul_ps(inv, _mm256_loadu_ps(job->x + i)), _mm256_set1_ps(1.0f)));
        __m256i level = nearest_8(v);
        if (is_pruned) {
            const __m256 off = magnitude_of(_mm256_sub_ps(v, _mm256_cvtepi32_ps(level)));
            border |= (uint32_t)_mm256_movemask_ps(
                          _mm256_cmp_ps(off, _mm256_set1_ps(BORDER), _CMP_NLE_UQ))
                      << i;
        }
        level = _mm256_min_epi32(_mm256_max_epi32(level, _mm256_setzero_si256()),
                                 _mm256_set1_epi32(n_dims == 8 ? 2 : 7));
        _mm256_store_si256((__m256i *)(void *)(levels + i), level);
    }
    for (; again; again &= again - 1) {
        const int32_t at = n_dims * (int32_t)first_bit(again);
        int32_t number = 0;
        for (int32_t k = n_dims - 1; k >= 0; k--) {
            number = number * (n_dims == 8 ? 3 : 8) + levels[at + k];
        }
        const qni_lattice_cell *cell = &job->tables->cells[number];
        uint32_t point = cell->pruned_at;
        if (cell->n_full != 0) {
            const bool is_whole = !is_pruned || (border >> at & ((1u << n_dims) - 1)) != 0;
            point = (n_dims == 8 ? ask_list_8 : ask_list_4)(
                job->x + at, job->root + at, scale,
                is_whole ? full_list(job, cell) : pruned_list(job, cell),
                is_whole ? cell->n_full : cell->n_pruned);
        }
        fit->points[at / n_dims] = (uint16_t)point;
    }
    float xq;
    float qq;
    score_fit(job, n_dims, n, fit, &xq, &qq);
    if (qq > 0.0f) {
        fit->scale = xq / qq;
    }
}

/* --- one sub-block -------------------------------------------------------------------------------
 */

/* Whether all values of the sub-block are in the range that the bounds are proven for; also
 * fills wx and floored. */
QNI_INLINE bool is_calm(work *job, int32_t n, float range)
{
    /* times the largest factor, 18 / range, still far below the first border, 2 */
    const __m256 least = _mm256_set1_ps(range * 0.001f);
    const __m256 most_x = _mm256_set1_ps(1e4f * range);
    const __m256 most_root = _mm256_set1_ps(1e15f);
    __m256 max_root = _mm256_setzero_ps();
    __m256 is_wild = _mm256_setzero_ps(); /* too large, or a NaN */
    for (int32_t i = 0; i < n; i += LANES) {
        const __m256 x = _mm256_loadu_ps(job->x + i);
        const __m256 root = _mm256_loadu_ps(job->root + i);
        _mm256_store_ps(job->wx + i, _mm256_mul_ps(_mm256_loadu_ps(job->w + i), x));
        _mm256_store_ps(job->floored + i, _mm256_max_ps(x, least));
        is_wild = _mm256_or_ps(is_wild, _mm256_cmp_ps(magnitude_of(x), most_x, _CMP_NLT_UQ));
        is_wild = _mm256_or_ps(is_wild, _mm256_cmp_ps(root, most_root, _CMP_NLT_UQ));
        max_root = _mm256_max_ps(max_root, root);
    }
    const float root = _mm256_cvtss_f32(max_all(max_root));
    return _mm256_movemask_ps(is_wild) == 0 && range > 1e-25f && range < 1e12f &&
           root * range * range < 1e24f;
}

QNI_INLINE bool search(const struct qni_lattice *tables, const qni_lattice_form *form,
                       const qni_lattice_front *front, int32_t sub, float range, int32_t n_dims,
                       int32_t n, int32_t n_vectors, bool is_pruned, qni_lattice_fit *fit)
{
    work job;
    job.x = front->x + n * sub;
    job.w = front->w + n * sub;
    job.root = front->root + n * sub;
    job.tables = tables;
    job.n_candidates = 2 * form->n_each_side + 1;
    job.n_vectors = n_vectors;
    if (QNI_UNLIKELY(!is_calm(&job, n, range))) {
        return qni_lattice_search(tables, form, front, sub, range, fit);
    }
    const int32_t n_groups = n / n_dims;
    set_candidates(&job, form, range);
    project_all(&job, n_dims, n_groups, n_vectors, is_pruned);
    QNI_ALIGNED(64) float xq[MAX_CANDIDATES];
    QNI_ALIGNED(64) float qq[MAX_CANDIDATES];
    score_all(&job, n_dims, n_groups, n_vectors, xq, qq);

    const uint32_t all = (1u << n_groups) - 1;
    const int32_t k = choose(xq, qq, job.n_candidates, n_vectors, &fit->scale);
    uint32_t off_grid = form->starts_on_grid ? 0 : all;
    if (k != NONE) {
        off_grid = 0;
        for (int32_t g = 0; g < n_groups; g++) {
            const int32_t entry = MAX_CANDIDATES * g + k;
            fit->points[g] = (uint16_t)job.point[entry];
            off_grid |= (uint32_t)(tables->cells[job.cell[entry]].n_full != 0) << g;
        }
    }
    const uint32_t again = form->again == QNI_AGAIN_ALWAYS                 ? all
                           : form->again == QNI_AGAIN_ALL && off_grid != 0 ? all
                                                                           : off_grid;
    if (again != 0 && fit->scale > 0.0f) {
        project_again(&job, n_dims, n, again, is_pruned, fit);
    }
    return true;
}

#define VECTORS(n_candidates) (((n_candidates) + CL - 1) / CL)

bool LATTICE_NAME(qni_lattice_search)(const struct qni_lattice *tables,
                                      const qni_lattice_form *form, const qni_lattice_front *front,
                                      int32_t sub, float range, qni_lattice_fit *fit)
{
    if (form == &qni_form_iq3_xxs) {
        return search(tables, form, front, sub, range, 4, 32, VECTORS(31), true, fit);
    }
    if (form == &qni_form_iq3_s) {
        return search(tables, form, front, sub, range, 4, 32, VECTORS(19), true, fit);
    }
    if (form == &qni_form_iq2_xxs) {
        return search(tables, form, front, sub, range, 8, 32, VECTORS(13), true, fit);
    }
    if (form == &qni_form_iq2_xs) {
        return search(tables, form, front, sub, range, 8, 16, VECTORS(19), true, fit);
    }
    return search(tables, form, front, sub, range, 8, 16, VECTORS(19), false, fit);
}

#undef VECTORS
