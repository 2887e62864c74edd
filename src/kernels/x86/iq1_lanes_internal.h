/* iq1_lanes_internal.h — iq1_s and iq1_m with the referee's bytes, in lanes.
 *
 * Compiled for each width of lattice_lanes_*_internal.h, which comes before.
 *
 * Of all splits of the sorted values only the best few can be accepted last, so their quotient
 * xq^2 / qq is first computed roughly, and the referee's operations are done only for splits near
 * the best. Roughly is cheap: with prefix sums X of w x and W of w in sorted order, and T the whole
 * sums, shift up:    xq = 1.125 T - X_i - X_j   qq = 1.265625 T' + 0.75 W_i - 1.25 W_j shift down:
 * xq = 0.875 T - X_i - X_j   qq = 0.765625 T' + 1.25 W_i - 0.75 W_j because neighbouring level
 * values differ by one. docs/design/lattice-encoders.md says how near is near enough and when the
 * referee's whole loop must be run instead. */
#include <float.h>

#include "kernels/iq1_internal.h"

/* Splits whose rough quotient is within NEAR of the best are looked at; no other one's quotient is
 * above (1 + SLACK) times that limit. */
#define NEAR  2e-3f
#define SLACK 1e-3f
/* A quotient this much above another one is accepted after it whatever rounding does. */
#define CLEARLY 1.000001f

/* --- sorting -------------------------------------------------------------------------------------
 */

/* Integers in the order of the floats; -0 and +0 are equal. */
QNI_INLINE __m256i order_key(__m256 v)
{
    const __m256i bits = _mm256_castps_si256(_mm256_add_ps(v, _mm256_setzero_ps()));
    return _mm256_xor_si256(bits, _mm256_srli_epi32(_mm256_srai_epi32(bits, 31), 1));
}

/* rank[i]: position of x[i] in ascending order, equal values in index order. */
QNI_INLINE void rank_stable(const float *x, int32_t n, uint32_t *rank)
{
    QNI_ALIGNED(64) uint32_t keys[32];
    for (int32_t i = 0; i < n; i += LANES) {
        _mm256_store_si256((__m256i *)(void *)(keys + i), order_key(_mm256_loadu_ps(x + i)));
    }
    vci key[32 / CL];
    vci count[32 / CL];
    const int32_t n_vectors = n / CL;
    for (int32_t v = 0; v < n_vectors; v++) {
        key[v] = vci_load(keys + CL * v);
        count[v] = vci_set(0);
    }
    for (int32_t from = 0; from < n_vectors; from++) {
#pragma GCC unroll 16
        for (int32_t j = 0; j < CL; j++) {
            const vci other = vci_set((int32_t)keys[CL * from + j]);
#pragma GCC unroll 4
            for (int32_t v = 0; v < n_vectors; v++) {
                /* an equal one counts if it comes earlier: other > key is then "not behind" */
                if (v < from) {
                    count[v] = vci_count_above(count[v], key[v], other);
                } else if (v > from) {
                    count[v] = vci_count_not_below(count[v], key[v], other);
                } else {
                    count[v] = vci_count_above(count[v], key[v], other);
                    count[v] = vci_count_equal_behind(count[v], key[v], other, j);
                }
            }
        }
    }
    for (int32_t v = 0; v < n_vectors; v++) {
        vci_store(rank + CL * v, count[v]);
    }
}

/* --- what both types share -----------------------------------------------------------------------
 */

static void weigh_lanes(const float *x, const float *importance, float sigma2, float *w)
{
    for (int32_t i = 0; i < QNI_SUPER; i += LANES) {
        const __m256 v = _mm256_loadu_ps(x + i);
        const __m256 xx = _mm256_mul_ps(v, v);
        _mm256_storeu_ps(
            w + i, importance
                       ? _mm256_mul_ps(_mm256_loadu_ps(importance + i),
                                       _mm256_sqrt_ps(_mm256_add_ps(_mm256_set1_ps(sigma2), xx)))
                       : xx);
    }
}

/* The largest magnitude; *out_is_calm: all values and weights are in the range that the rough
 * quotients and finite distances need. */
QNI_INLINE float look_over(const float *x, const float *w, int32_t n, bool *out_is_calm)
{
    __m256 max = _mm256_setzero_ps();
    __m256 is_wild = _mm256_setzero_ps(); /* too large, negative, or a NaN */
    for (int32_t i = 0; i < n; i += LANES) {
        const __m256 v = magnitude_of(_mm256_loadu_ps(x + i));
        const __m256 wv = _mm256_loadu_ps(w + i);
        max = _mm256_max_ps(max, v);
        is_wild = _mm256_or_ps(is_wild, _mm256_cmp_ps(v, _mm256_set1_ps(1e10f), _CMP_NLE_UQ));
        is_wild = _mm256_or_ps(is_wild, _mm256_cmp_ps(wv, _mm256_set1_ps(1e15f), _CMP_NLE_UQ));
        is_wild = _mm256_or_ps(is_wild, _mm256_cmp_ps(wv, _mm256_setzero_ps(), _CMP_NGE_UQ));
    }
    *out_is_calm = _mm256_movemask_ps(is_wild) == 0;
    return _mm256_cvtss_f32(max_all(max));
}

/* The referee's acceptance, with a proof that what came before does not matter: is_synced once a
 * quotient is clearly above all earlier ones, looked at or not (`top` bounds those). */
typedef struct choice {
    qni_iq1_split split;
    float top;
    bool is_synced;
} choice;

QNI_INLINE void offer(choice *c, float xq, float qq, int32_t i, int32_t j, uint32_t shift)
{
    if (!(qq > 0.0f)) {
        return;
    }
    const float quotient = xq * xq / qq;
    if (quotient > c->top * CLEARLY) {
        c->is_synced = true;
    }
    c->top = quotient > c->top ? quotient : c->top;
    qni_iq1_offer(&c->split, xq, qq, i, j, shift);
}

QNI_INLINE choice no_choice(float limit)
{
    return (choice){.split = {.best = -FLT_MAX}, .top = limit * (1.0f + SLACK)};
}

/* xq^2 / qq, within 4e-4 */
QNI_INLINE vc rough_quotient(vc xq, vc qq)
{
    return vc_mul(vc_mul(xq, xq), vc_reciprocal(qq));
}

/* Rough quotients mean something: no overflow, no underflow. */
QNI_INLINE bool is_usable(float top, float sum_w)
{
    return sum_w > 1e-28f && sum_w < 1e28f && top * sum_w > 1e-28f && top < 1e28f;
}

/* Packed levels of an octet from its ranks. */
QNI_INLINE uint32_t pack_octet(const uint32_t *ranks, const qni_iq1_split *s, bool is_turned)
{
    const __m256i rank = _mm256_loadu_si256((const __m256i *)(const void *)ranks);
    const __m256i one = _mm256_set1_epi32(-1);
    const __m256i at_least_1 = _mm256_cmpgt_epi32(rank, _mm256_set1_epi32(s->first - 1));
    const __m256i at_least_2 = _mm256_cmpgt_epi32(rank, _mm256_set1_epi32(s->second - 1));
    __m256i level =
        _mm256_sub_epi32(_mm256_sub_epi32(_mm256_setzero_si256(), at_least_1), at_least_2);
    if (is_turned) {
        level = _mm256_sub_epi32(
            _mm256_sub_epi32(_mm256_sub_epi32(_mm256_setzero_si256(), one), one), level);
    }
    level = _mm256_sllv_epi32(level, _mm256_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14));
    __m128i sum = _mm_or_si128(_mm256_castsi256_si128(level), _mm256_extracti128_si256(level, 1));
    sum = _mm_or_si128(sum, _mm_shuffle_epi32(sum, 0x4e));
    sum = _mm_or_si128(sum, _mm_shuffle_epi32(sum, 0xb1));
    return (uint32_t)_mm_cvtsi128_si32(sum);
}

QNI_INLINE __m256 values_of(uint32_t shift)
{
    return _mm256_broadcast_ps((const __m128 *)(const void *)qni_iq1_values[shift]);
}

static __attribute__((noinline)) uint32_t ask_list(const float *x, const float *w, float scale,
                                                   uint32_t shift, const uint16_t *list, int32_t n)
{
    return nearest_of_list(8, values_of(shift), x, w, scale, list, n);
}

/* Terms of the fit of one octet: w q x and w q q. */
QNI_INLINE void octet_terms(const float *x, const float *w, __m256 values, uint32_t packed,
                            float *xq, float *qq)
{
    const __m256i level = _mm256_srlv_epi32(_mm256_set1_epi32((int32_t)packed),
                                            _mm256_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14));
    const __m256 q = _mm256_permutevar_ps(values, level);
    const __m256 wq = _mm256_mul_ps(_mm256_loadu_ps(w), q);
    _mm256_store_ps(xq, _mm256_mul_ps(wq, _mm256_loadu_ps(x)));
    _mm256_store_ps(qq, _mm256_mul_ps(wq, q));
}

/* Octets of a split to points of the grid; the scale once more if one had to move. */
QNI_INLINE void project_octets(const struct qni_lattice *tables, const float *x, const float *w,
                               const uint32_t *rank, const qni_iq1_split *s, int32_t n_octets,
                               const uint32_t *shifts, qni_iq1_fit *f)
{
    bool has_moved = false;
    for (int32_t o = 0; o < n_octets; o++) {
        uint32_t packed = pack_octet(rank + 8 * o, s, s->scale < 0.0f);
        const qni_lattice_cell *cell = &tables->cells[qni_lattice_cell_of(tables, packed)];
        if (cell->n_full != 0) {
            has_moved = true;
            packed =
                ask_list(x + 8 * o, w + 8 * o, f->scale, shifts[o],
                         tables->lists + (size_t)cell->full_at * QNI_LATTICE_PAD, cell->n_full);
        }
        f->points[o] = (uint16_t)packed;
    }
    if (!has_moved) {
        return;
    }
    QNI_ALIGNED(32) float xq_terms[32];
    QNI_ALIGNED(32) float qq_terms[32];
    for (int32_t o = 0; o < n_octets; o++) {
        octet_terms(x + 8 * o, w + 8 * o, values_of(shifts[o]), f->points[o], xq_terms + 8 * o,
                    qq_terms + 8 * o);
    }
    float xq = 0.0f;
    float qq = 0.0f;
    for (int32_t i = 0; i < 8 * n_octets; i++) {
        xq += xq_terms[i];
        qq += qq_terms[i];
    }
    if (xq > 0.0f && qq > 0.0f) {
        f->scale = xq / qq;
    }
}

/* --- iq1_s ---------------------------------------------------------------------------------------
 */

/* Prefix sums, with NaN behind: what lies there is never near the best. */
typedef struct sums_s {
    float x[48];
    float w[48];
} sums_s;

QNI_INLINE void sum_sorted_s(const float *x, const float *w, const uint32_t *at, sums_s *sums)
{
    float xs[32];
    float ws[32];
    for (int32_t i = 0; i < 32; i++) {
        xs[at[i]] = w[i] * x[i];
        ws[at[i]] = w[i];
    }
    sums->x[0] = sums->w[0] = 0.0f;
    for (int32_t i = 0; i < 32; i++) {
        sums->x[i + 1] = sums->x[i] + xs[i];
        sums->w[i + 1] = sums->w[i] + ws[i];
    }
    for (int32_t i = 33; i < 48; i++) {
        sums->x[i] = sums->w[i] = NAN;
    }
}

/* Rough quotients of splits (i, j) and the next, the larger of both shifts. */
QNI_INLINE vc rough_s(const sums_s *sums, int32_t i, int32_t j)
{
    const float total_x = sums->x[32];
    const float total_w = sums->w[32];
    const vc x = vc_load(sums->x + j);
    const vc w = vc_load(sums->w + j);
    const vc xq_up = vc_sub(vc_set(1.125f * total_x - sums->x[i]), x);
    const vc xq_down = vc_sub(vc_set(0.875f * total_x - sums->x[i]), x);
    const vc qq_up = vc_fma(vc_set(-1.25f), w, vc_set(1.265625f * total_w + 0.75f * sums->w[i]));
    const vc qq_down = vc_fma(vc_set(-0.75f), w, vc_set(0.765625f * total_w + 1.25f * sums->w[i]));
    return vc_max(rough_quotient(xq_up, qq_up), rough_quotient(xq_down, qq_down));
}

/* The referee's sums of one split. */
QNI_INLINE void offer_s(choice *c, const sums_s *sums, int32_t i, int32_t j)
{
    const float *xs = sums->x;
    const float *ws = sums->w;
    for (uint32_t shift = 0; shift < 2; shift++) {
        const float *v = qni_iq1_values[shift];
        const float xq = (xs[i] - xs[0]) * v[0] + (xs[j] - xs[i]) * v[1] + (xs[32] - xs[j]) * v[2];
        const float qq = (ws[i] - ws[0]) * v[0] * v[0] + (ws[j] - ws[i]) * v[1] * v[1] +
                         (ws[32] - ws[j]) * v[2] * v[2];
        offer(c, xq, qq, i, j, shift);
    }
}

QNI_INLINE choice choose_s(const sums_s *sums)
{
    vc row[33];
    vc most = vc_set(0.0f);
    for (int32_t i = 0; i <= 32; i++) {
        row[i] = vc_set(0.0f);
        for (int32_t j = i; j <= 32; j += CL) {
            row[i] = vc_max(rough_s(sums, i, j), row[i]); /* a NaN is dropped */
        }
        most = vc_max(most, row[i]);
    }
    const float top = vc_reduce_max(most);
    const float limit = top * (1.0f - NEAR);
    choice c = no_choice(limit);
    if (!is_usable(top, sums->w[32])) {
        return c;
    }
    const vc limits = vc_set(limit);
    for (int32_t i = 0; i <= 32; i++) {
        if (QNI_LIKELY(vc_at_least(row[i], limits) == 0)) {
            continue;
        }
        for (int32_t j = i; j <= 32; j += CL) {
            uint32_t near = vc_at_least(rough_s(sums, i, j), limits);
            for (; near; near &= near - 1) {
                offer_s(&c, sums, i, j + (int32_t)first_bit(near));
            }
        }
    }
    return c;
}

static bool fit_s_lanes(const struct qni_lattice *tables, const float *x, const float *w,
                        qni_iq1_fit *f)
{
    bool is_calm;
    const float max = look_over(x, w, 32, &is_calm);
    if (QNI_UNLIKELY(!is_calm)) {
        return qni_iq1_fit_s(tables, x, w, f);
    }
    f->scale = 0.0f;
    f->shift = 0;
    if (max < 1e-12f) {
        return true;
    }
    QNI_ALIGNED(64) uint32_t rank[32];
    sums_s sums;
    rank_stable(x, 32, rank);
    sum_sorted_s(x, w, rank, &sums);
    const choice c = choose_s(&sums);
    if (QNI_UNLIKELY(!c.is_synced)) {
        return qni_iq1_fit_s(tables, x, w, f);
    }
    f->scale = fabsf(c.split.scale);
    f->shift = c.split.shift ^ (uint32_t)(c.split.scale < 0.0f);
    const uint32_t shifts[4] = {f->shift, f->shift, f->shift, f->shift};
    project_octets(tables, x, w, rank, &c.split, 4, shifts, f);
    return true;
}

/* --- iq1_m ---------------------------------------------------------------------------------------
 */

/* The sorted sub-block: elements in sorted order, prefix sums of w x and, by octet, of w. */
typedef struct sums_m {
    float x[16];
    float w[16];
    uint8_t octet[16];
    float total_x[2];   /* by octet */
    float prefix_x[32]; /* both octets; NaN behind */
    float prefix_w[2][32];
} sums_m;

QNI_INLINE void sum_sorted_m(const float *x, const float *w, const uint32_t *at, sums_m *s)
{
    for (int32_t i = 0; i < 16; i++) {
        s->x[at[i]] = x[i];
        s->w[at[i]] = w[i];
        s->octet[at[i]] = (uint8_t)(i / 8);
    }
    s->total_x[0] = s->total_x[1] = 0.0f;
    s->prefix_x[0] = s->prefix_w[0][0] = s->prefix_w[1][0] = 0.0f;
    for (int32_t i = 0; i < 16; i++) {
        const float wx = s->w[i] * s->x[i];
        const bool is_second = s->octet[i] != 0;
        s->total_x[0] += is_second ? 0.0f : wx;
        s->total_x[1] += is_second ? wx : 0.0f;
        s->prefix_x[i + 1] = s->prefix_x[i] + wx;
        s->prefix_w[0][i + 1] = s->prefix_w[0][i] + (is_second ? 0.0f : s->w[i]);
        s->prefix_w[1][i + 1] = s->prefix_w[1][i] + (is_second ? s->w[i] : 0.0f);
    }
    for (int32_t i = 17; i < 32; i++) {
        s->prefix_x[i] = s->prefix_w[0][i] = s->prefix_w[1][i] = NAN;
    }
}

/* What does not depend on i: xq + X_i + X_j by code, and the parts of qq that depend on j. */
typedef struct codes_m {
    float xq[4];
    QNI_ALIGNED(64) float qq_of_j[4][32];
} codes_m;

QNI_INLINE void open_codes(const sums_m *s, codes_m *codes)
{
    static const float up[3] = {1.125f, 1.265625f, 1.25f};
    static const float down[3] = {0.875f, 0.765625f, 0.75f};
    for (uint32_t code = 0; code < 4; code++) {
        const float *a = qni_iq1_shift_of(code, 0) ? down : up;
        const float *b = qni_iq1_shift_of(code, 1) ? down : up;
        codes->xq[code] = a[0] * s->total_x[0] + b[0] * s->total_x[1];
        const vc base = vc_set(a[1] * s->prefix_w[0][16] + b[1] * s->prefix_w[1][16]);
        for (int32_t j = 0; j < 24; j += CL) {
            const vc part = vc_fma(vc_set(-a[2]), vc_load(s->prefix_w[0] + j), base);
            vc_store(codes->qq_of_j[code] + j,
                     vc_fma(vc_set(-b[2]), vc_load(s->prefix_w[1] + j), part));
        }
    }
}

/* Rough quotients of splits (i, j) and the next, the largest of all codes. */
QNI_INLINE vc rough_m(const sums_m *s, const codes_m *codes, int32_t i, int32_t j)
{
    const vc x = vc_add(vc_load(s->prefix_x + j), vc_set(s->prefix_x[i]));
    vc most = vc_set(0.0f);
#pragma GCC unroll 4
    for (uint32_t code = 0; code < 4; code++) {
        const float a = qni_iq1_shift_of(code, 0) ? 1.25f : 0.75f;
        const float b = qni_iq1_shift_of(code, 1) ? 1.25f : 0.75f;
        const vc xq = vc_sub(vc_set(codes->xq[code]), x);
        const vc qq = vc_add(vc_set(a * s->prefix_w[0][i] + b * s->prefix_w[1][i]),
                             vc_load(codes->qq_of_j[code] + j));
        most = vc_max(rough_quotient(xq, qq), most); /* a NaN is dropped */
    }
    return most;
}

/* The referee's sums of one split, lanes = codes, in sorted order. */
QNI_INLINE void offer_m(choice *c, const sums_m *s, int32_t i, int32_t j)
{
    __m128 xq = _mm_setzero_ps();
    __m128 qq = _mm_setzero_ps();
    for (int32_t at = 0; at < 16; at++) {
        const int32_t level = (at >= i) + (at >= j);
        const float up = qni_iq1_values[0][level];
        const float down = qni_iq1_values[1][level];
        const __m128 q =
            s->octet[at] ? _mm_setr_ps(up, down, up, down) : _mm_setr_ps(up, up, down, down);
        const __m128 wq = _mm_mul_ps(_mm_set1_ps(s->w[at]), q);
        xq = _mm_add_ps(xq, _mm_mul_ps(wq, _mm_set1_ps(s->x[at])));
        qq = _mm_add_ps(qq, _mm_mul_ps(wq, q));
    }
    float xqs[4];
    float qqs[4];
    _mm_storeu_ps(xqs, xq);
    _mm_storeu_ps(qqs, qq);
    for (uint32_t code = 0; code < 4; code++) {
        offer(c, xqs[code], qqs[code], i, j, code);
    }
}

QNI_INLINE choice choose_m(const sums_m *s)
{
    codes_m codes;
    open_codes(s, &codes);
    vc rough[17][3];
    vc most = vc_set(0.0f);
    for (int32_t i = 0; i <= 16; i++) {
        for (int32_t j = i, v = 0; j <= 16; j += CL, v++) {
            rough[i][v] = rough_m(s, &codes, i, j);
            most = vc_max(most, rough[i][v]);
        }
    }
    const float top = vc_reduce_max(most);
    const float limit = top * (1.0f - NEAR);
    choice c = no_choice(limit);
    if (!is_usable(top, s->prefix_w[0][16] + s->prefix_w[1][16])) {
        return c;
    }
    for (int32_t i = 0; i <= 16; i++) {
        for (int32_t j = i, v = 0; j <= 16; j += CL, v++) {
            uint32_t near = vc_at_least(rough[i][v], vc_set(limit));
            for (; QNI_UNLIKELY(near); near &= near - 1) {
                offer_m(&c, s, i, j + (int32_t)first_bit(near));
            }
        }
    }
    return c;
}

static bool fit_m_lanes(const struct qni_lattice *tables, const float *x, const float *w,
                        qni_iq1_fit *f)
{
    bool is_calm;
    const float max = look_over(x, w, 16, &is_calm);
    if (QNI_UNLIKELY(!is_calm)) {
        return qni_iq1_fit_m(tables, x, w, f);
    }
    f->scale = 0.0f;
    f->shift = 0;
    if (max < 1e-7f) {
        return true;
    }
    QNI_ALIGNED(64) uint32_t rank[16];
    sums_m sums;
    rank_stable(x, 16, rank);
    sum_sorted_m(x, w, rank, &sums);
    const choice c = choose_m(&sums);
    if (QNI_UNLIKELY(!c.is_synced)) {
        return qni_iq1_fit_m(tables, x, w, f);
    }
    f->scale = fabsf(c.split.scale);
    f->shift = c.split.scale < 0.0f ? c.split.shift ^ 3u : c.split.shift;
    const uint32_t shifts[2] = {qni_iq1_shift_of(f->shift, 0), qni_iq1_shift_of(f->shift, 1)};
    project_octets(tables, x, w, rank, &c.split, 2, shifts, f);
    return true;
}

static float refit_m_lanes(const float *x, const float *w, const qni_iq1_fit *fits,
                           const uint32_t *codes, float d)
{
    float xq = 0.0f;
    float qq = 0.0f;
    for (int32_t sub = 0; sub < QNI_SUPER / 16; sub++) {
        QNI_ALIGNED(32) float xq_terms[16];
        QNI_ALIGNED(32) float qq_terms[16];
        const __m256 step = _mm256_set1_ps((float)(2 * (int32_t)codes[sub] + 1));
        for (int32_t o = 0; o < 2; o++) {
            const int32_t at = 16 * sub + 8 * o;
            const __m256 values =
                _mm256_mul_ps(values_of(qni_iq1_shift_of(fits[sub].shift, o)), step);
            octet_terms(x + at, w + at, values, fits[sub].points[o], xq_terms + 8 * o,
                        qq_terms + 8 * o);
        }
        for (int32_t i = 0; i < 16; i++) {
            xq += xq_terms[i];
            qq += qq_terms[i];
        }
    }
    return qq > 0.0f ? xq / qq : d;
}

/* --- kernels -------------------------------------------------------------------------------------
 */

static const qni_iq1_steps steps_lanes = {
    .weigh = weigh_lanes,
    .fit_s = fit_s_lanes,
    .fit_m = fit_m_lanes,
    .refit_m = refit_m_lanes,
};

QNI_PROTO_encode(LATTICE_NAME(qni_encode_iq1_s))
{
    return qni_encode_iq1_s_by(&steps_lanes, x, n_rows, row_len, weights, tables, out);
}

QNI_PROTO_encode(LATTICE_NAME(qni_encode_iq1_m))
{
    return qni_encode_iq1_m_by(&steps_lanes, x, n_rows, row_len, weights, tables, out);
}
