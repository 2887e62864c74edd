/* fit_ternary_avx2.c — the fit of ternary planes with eight groups side by side, one a lane.
 *
 * Every lane does what the scalar referee does to its group, in the same order: f32 distances, f64
 * sums in index order. Groups need from 2 to 50 iterations, so a lane whose group has settled takes
 * the next one at once instead of waiting for its neighbours. A first pass makes the starting sums
 * of eight groups at a time, a last one packs and measures eight at a time; the iterations between
 * them only have to leave the scales. */
#include <immintrin.h>

#include "kernels/numeric_internal.h"
#include "kernels/ternary_internal.h"

enum {
    G = QNI_TERNARY_GROUP,
    LANES = 8,
    CHUNK = 256, /* groups between the first and the last pass: bounds the stack */
    N_CANDIDATES_MAX = 27
};

/* A tuple as one number: two bits a plane, trit + 1. */
QNI_INLINE int32_t code_of(const int8_t trits[3])
{
    return (trits[0] + 1) | (trits[1] + 1) << 2 | (trits[2] + 1) << 4;
}

/* Weights of eight groups, element by element. */
typedef struct weights8 {
    float w[G][LANES] QNI_ALIGNED(32);
} weights8;

/* The candidates' values for the scales of each lane. */
typedef struct values8 {
    __m256 value[N_CANDIDATES_MAX];
    __m256 code[N_CANDIDATES_MAX];
    int n;
} values8;

typedef struct scales8 {
    float alpha[3][LANES] QNI_ALIGNED(32);
} scales8;

static void make_values(const scales8 *scales, int n_planes, values8 *out)
{
    const qni_ternary_candidates candidates = qni_ternary_candidates_of(n_planes);
    out->n = candidates.n;
    for (int c = 0; c < candidates.n; c++) {
        const int8_t *trits = candidates.trits[c];
        __m256 v = _mm256_mul_ps(_mm256_load_ps(scales->alpha[0]), _mm256_set1_ps(trits[0]));
        for (int p = 1; p < n_planes; p++) {
            v = _mm256_add_ps(
                /* n_planes <= 3: NOLINTNEXTLINE(clang-analyzer-core.CallAndMessage) */
                v, _mm256_mul_ps(_mm256_load_ps(scales->alpha[p]), _mm256_set1_ps(trits[p])));
        }
        out->value[c] = v;
        out->code[c] = _mm256_castsi256_ps(_mm256_set1_epi32(code_of(trits)));
    }
}

/* The nearest tuple of each lane, as its code; a tie keeps the earlier one. */
QNI_INLINE __m256i nearest(__m256 w, const values8 *values, int n)
{
    const __m256 d0 = _mm256_sub_ps(w, values->value[0]);
    __m256 best = _mm256_mul_ps(d0, d0);
    __m256 code = values->code[0];
    for (int c = 1; c < n; c++) {
        const __m256 d = _mm256_sub_ps(w, values->value[c]);
        const __m256 error = _mm256_mul_ps(d, d);
        const __m256 is_less = _mm256_cmp_ps(error, best, _CMP_LT_OQ);
        best = _mm256_min_ps(error, best);
        code = _mm256_blendv_ps(code, values->code[c], is_less);
    }
    return _mm256_castps_si256(code);
}

/* Trits of one plane as floats. */
QNI_INLINE __m256 trit(__m256i code, int plane)
{
    const __m256i level =
        _mm256_and_si256(_mm256_srli_epi32(code, 2 * plane), _mm256_set1_epi32(3));
    return _mm256_cvtepi32_ps(_mm256_sub_epi32(level, _mm256_set1_epi32(1)));
}

typedef struct sum8 {
    __m256d lo;
    __m256d hi;
} sum8;

QNI_INLINE sum8 sum8_add(sum8 s, __m256 v)
{
    s.lo = _mm256_add_pd(s.lo, _mm256_cvtps_pd(_mm256_castps256_ps128(v)));
    s.hi = _mm256_add_pd(s.hi, _mm256_cvtps_pd(_mm256_extractf128_ps(v, 1)));
    return s;
}

/* v * v, widened before the product as the referee does. */
QNI_INLINE sum8 sum8_add_square(sum8 s, __m256 v)
{
    const __m256d lo = _mm256_cvtps_pd(_mm256_castps256_ps128(v));
    const __m256d hi = _mm256_cvtps_pd(_mm256_extractf128_ps(v, 1));
    s.lo = _mm256_add_pd(s.lo, _mm256_mul_pd(lo, lo));
    s.hi = _mm256_add_pd(s.hi, _mm256_mul_pd(hi, hi));
    return s;
}

QNI_INLINE void sum8_store(sum8 s, double out[LANES])
{
    _mm256_storeu_pd(out, s.lo);
    _mm256_storeu_pd(out + 4, s.hi);
}

typedef struct sums8 {
    float s00[LANES], s01[LANES], s02[LANES], s11[LANES], s12[LANES], s22[LANES]; /* exact */
    double b[3][LANES];
} sums8;

/* Choose trits for all lanes and sum them up for the next regression. */
QNI_INLINE void iterate(const weights8 *x, const values8 *values, int n_planes, int n, sums8 *out)
{
    const __m256 zero = _mm256_setzero_ps();
    __m256 s00 = zero, s01 = zero, s02 = zero, s11 = zero, s12 = zero, s22 = zero;
    sum8 b[3] = {{_mm256_setzero_pd(), _mm256_setzero_pd()},
                 {_mm256_setzero_pd(), _mm256_setzero_pd()},
                 {_mm256_setzero_pd(), _mm256_setzero_pd()}};
    for (int i = 0; i < G; i++) {
        const __m256 w = _mm256_load_ps(x->w[i]);
        const __m256i code = nearest(w, values, n);
        const __m256 t0 = trit(code, 0);
        s00 = _mm256_add_ps(s00, _mm256_mul_ps(t0, t0));
        b[0] = sum8_add(b[0], _mm256_mul_ps(t0, w));
        if (n_planes > 1) {
            const __m256 t1 = trit(code, 1);
            s01 = _mm256_add_ps(s01, _mm256_mul_ps(t0, t1));
            s11 = _mm256_add_ps(s11, _mm256_mul_ps(t1, t1));
            b[1] = sum8_add(b[1], _mm256_mul_ps(t1, w));
            if (n_planes > 2) {
                const __m256 t2 = trit(code, 2);
                s02 = _mm256_add_ps(s02, _mm256_mul_ps(t0, t2));
                s12 = _mm256_add_ps(s12, _mm256_mul_ps(t1, t2));
                s22 = _mm256_add_ps(s22, _mm256_mul_ps(t2, t2));
                b[2] = sum8_add(b[2], _mm256_mul_ps(t2, w));
            }
        }
    }
    _mm256_storeu_ps(out->s00, s00);
    _mm256_storeu_ps(out->s01, s01);
    _mm256_storeu_ps(out->s02, s02);
    _mm256_storeu_ps(out->s11, s11);
    _mm256_storeu_ps(out->s12, s12);
    _mm256_storeu_ps(out->s22, s22);
    for (int p = 0; p < 3; p++) {
        sum8_store(b[p], out->b[p]);
    }
}

/* One copy a number of planes, so that the candidate loop is unrolled. */
static void iterate_planes(const weights8 *x, const values8 *values, int n_planes, sums8 *out)
{
    switch (n_planes) {
    case 1:
        iterate(x, values, 1, 3, out);
        break;
    case 2:
        iterate(x, values, 2, 9, out);
        break;
    default:
        iterate(x, values, 3, 27, out);
        break;
    }
}

/* 8 x 8 floats transposed: out[i][lane] = in[lane][i]. */
QNI_INLINE void transpose8(const float *const in[LANES], int at, float out[][LANES])
{
    __m256 r[8];
    __m256 s[8];
    for (int i = 0; i < 8; i++) {
        r[i] = _mm256_loadu_ps(in[i] + at);
    }
    for (int i = 0; i < 8; i += 2) {
        s[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
        s[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
    }
    for (int i = 0; i < 8; i += 4) {
        r[i] = _mm256_shuffle_ps(s[i], s[i + 2], 0x44);
        r[i + 1] = _mm256_shuffle_ps(s[i], s[i + 2], 0xee);
        r[i + 2] = _mm256_shuffle_ps(s[i + 1], s[i + 3], 0x44);
        r[i + 3] = _mm256_shuffle_ps(s[i + 1], s[i + 3], 0xee);
    }
    for (int i = 0; i < 4; i++) {
        _mm256_store_ps(out[i], _mm256_permute2f128_ps(r[i], r[i + 4], 0x20));
        _mm256_store_ps(out[i + 4], _mm256_permute2f128_ps(r[i], r[i + 4], 0x31));
    }
}

/* Eight groups from x on, of which n are there; the others repeat the last. */
static void load_groups(const float *x, int n, weights8 *out)
{
    const float *rows[LANES];
    for (int lane = 0; lane < LANES; lane++) {
        rows[lane] = x + (int64_t)G * (lane < n ? lane : n - 1);
    }
    for (int i = 0; i < G; i += 8) {
        transpose8(rows, i, &out->w[i]);
    }
}

/* What the iterations keep of a group. */
typedef struct group_state {
    double start_b; /* sum of |w|: b of every plane when the trits are the signs */
    double start_s; /* how many weights are not zero */
    float alpha[3];
    int32_t n_iterations;
    bool is_settled;
} group_state;

static void start_groups(const float *x, int n, group_state *states)
{
    weights8 w;
    load_groups(x, n, &w);
    const __m256 abs_mask = _mm256_castsi256_ps(_mm256_set1_epi32(0x7fffffff));
    sum8 b = {_mm256_setzero_pd(), _mm256_setzero_pd()};
    __m256 count = _mm256_setzero_ps();
    for (int i = 0; i < G; i++) {
        const __m256 v = _mm256_load_ps(w.w[i]);
        const __m256 is_set = _mm256_cmp_ps(v, _mm256_setzero_ps(), _CMP_NEQ_OQ);
        b = sum8_add(b, _mm256_and_ps(v, abs_mask));
        count = _mm256_add_ps(count, _mm256_and_ps(is_set, _mm256_set1_ps(1.0f)));
    }
    double sums[LANES];
    float counts[LANES];
    sum8_store(b, sums);
    _mm256_storeu_ps(counts, count);
    for (int lane = 0; lane < n; lane++) {
        states[lane] = (group_state){
            .start_b = sums[lane], .start_s = (double)counts[lane], .alpha = {1.0f, 1.0f, 1.0f}};
    }
}

static qni_ternary_sums start_sums(const group_state *state)
{
    const double s = state->start_s;
    const double b = state->start_b;
    return (qni_ternary_sums){s, s, s, s, s, s, {b, b, b}};
}

static qni_ternary_sums lane_sums(const sums8 *sums, int lane)
{
    return (qni_ternary_sums){(double)sums->s00[lane],
                              (double)sums->s01[lane],
                              (double)sums->s02[lane],
                              (double)sums->s11[lane],
                              (double)sums->s12[lane],
                              (double)sums->s22[lane],
                              {sums->b[0][lane], sums->b[1][lane], sums->b[2][lane]}};
}

/* A regression step of one group; true when the group needs no further iteration. */
static bool step_group(const qni_ternary_sums *sums, int n_planes, group_state *state)
{
    const float before[3] = {state->alpha[0], state->alpha[1], state->alpha[2]};
    qni_ternary_regress(sums, n_planes, state->alpha);
    state->n_iterations++;
    state->is_settled = qni_ternary_has_settled(state->alpha, before, n_planes);
    return state->is_settled || state->n_iterations == QNI_TERNARY_MAX_ITERATIONS;
}

/* Lanes at work: which group each has. */
typedef struct lanes {
    weights8 x;
    scales8 scales;
    int group[LANES]; /* -1: idle */
    int next_group;
    int n_groups;
    int n_busy;
} lanes;

/* Give a lane the next group that is not done after its first step, or make it idle. */
static void feed_lane(lanes *work, int lane, const float *x, int n_planes, group_state *states)
{
    if (work->group[lane] >= 0) {
        work->n_busy--;
        work->group[lane] = -1;
    }
    while (work->next_group < work->n_groups) {
        const int group = work->next_group++;
        const qni_ternary_sums sums = start_sums(&states[group]);
        if (step_group(&sums, n_planes, &states[group])) {
            continue;
        }
        const float *from = x + (int64_t)G * group;
        for (int i = 0; i < G; i++) {
            work->x.w[i][lane] = from[i];
        }
        for (int p = 0; p < 3; p++) {
            work->scales.alpha[p][lane] = states[group].alpha[p];
        }
        work->group[lane] = group;
        work->n_busy++;
        return;
    }
}

static void fit_free(const float *x, int n_groups, int n_planes, group_state *states)
{
    lanes work;
    memset(&work, 0, sizeof work); /* idle lanes compute on zeros */
    work.n_groups = n_groups;
    for (int lane = 0; lane < LANES; lane++) {
        work.group[lane] = -1;
        feed_lane(&work, lane, x, n_planes, states);
    }
    while (work.n_busy > 0) {
        values8 values;
        sums8 sums;
        make_values(&work.scales, n_planes, &values);
        iterate_planes(&work.x, &values, n_planes, &sums);
        for (int lane = 0; lane < LANES; lane++) {
            if (work.group[lane] < 0) {
                continue;
            }
            group_state *state = &states[work.group[lane]];
            const qni_ternary_sums of_lane = lane_sums(&sums, lane);
            if (step_group(&of_lane, n_planes, state)) {
                feed_lane(&work, lane, x, n_planes, states);
                continue;
            }
            for (int p = 0; p < 3; p++) {
                work.scales.alpha[p][lane] = state->alpha[p];
            }
        }
    }
}

/* Half away from zero: the fraction x - trunc(x) is exact. */
QNI_INLINE __m256 round_away(__m256 x)
{
    const __m256 sign_mask = _mm256_set1_ps(-0.0f);
    const __m256 whole = _mm256_round_ps(x, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC);
    const __m256 part = _mm256_andnot_ps(sign_mask, _mm256_sub_ps(x, whole));
    const __m256 is_up = _mm256_cmp_ps(part, _mm256_set1_ps(0.5f), _CMP_GE_OQ);
    const __m256 one = _mm256_or_ps(_mm256_and_ps(x, sign_mask), _mm256_set1_ps(1.0f));
    return _mm256_add_ps(whole, _mm256_and_ps(is_up, one));
}

static void tied_errors(const weights8 *x, __m256 step, float n_levels, double out[LANES])
{
    const __m256 hi = _mm256_set1_ps(n_levels);
    const __m256 lo = _mm256_set1_ps(-n_levels);
    sum8 sum = {_mm256_setzero_pd(), _mm256_setzero_pd()};
    for (int i = 0; i < G; i++) {
        const __m256 w = _mm256_load_ps(x->w[i]);
        const __m256 q = round_away(_mm256_div_ps(w, step));
        const __m256 is_number = _mm256_cmp_ps(q, q, _CMP_ORD_Q);
        const __m256 clamped = _mm256_min_ps(_mm256_max_ps(q, lo), hi);
        const __m256 code = _mm256_and_ps(clamped, is_number);
        sum = sum8_add_square(sum, _mm256_sub_ps(w, _mm256_mul_ps(step, code)));
    }
    sum8_store(sum, out);
}

static void fit_tied(const float *x, int n, int n_planes, group_state *states)
{
    weights8 w;
    load_groups(x, n, &w);
    const float n_levels = qni_ternary_tied_levels(n_planes);
    float absmax[LANES];
    for (int lane = 0; lane < n; lane++) {
        absmax[lane] = qni_absmax(x + (int64_t)G * lane, G).mag;
    }
    float best_step[LANES] = {0.0f};
    double best_error[LANES] = {0.0};
    for (int i = 0; i < QNI_TERNARY_TIED_STEPS; i++) {
        float step[LANES];
        double error[LANES];
        for (int lane = 0; lane < LANES; lane++) {
            step[lane] = lane < n ? qni_ternary_tied_step(absmax[lane], n_levels, i) : 1.0f;
        }
        tied_errors(&w, _mm256_loadu_ps(step), n_levels, error);
        for (int lane = 0; lane < n; lane++) {
            if (absmax[lane] > 0.0f && (i == 0 || error[lane] < best_error[lane])) {
                best_error[lane] = error[lane];
                best_step[lane] = step[lane];
            }
        }
    }
    for (int lane = 0; lane < n; lane++) {
        states[lane] = (group_state){.n_iterations = 1, .is_settled = true};
        qni_ternary_tied_scales(best_step[lane], n_planes, states[lane].alpha);
    }
}

/* Codes of eight groups, a byte each. */
typedef struct codes8 {
    uint64_t code[G]; /* byte `lane` is group `lane`'s */
} codes8;

/* One plane of eight groups: byte 32 c + l of a block holds elements 128 c + 32 q + l, two bits
 * each. Eight blocks at a time, then one byte to each. */
static void pack_plane(const codes8 *codes, int plane, int n, qni_block_tq2_0 *out)
{
    const uint64_t two_bits = 0x0303030303030303u;
    for (int at = 0; at < G / 4; at++) {
        const int first = at / 32 * 128 + at % 32;
        uint64_t bytes = 0;
        for (int q = 0; q < 4; q++) {
            bytes |= (codes->code[first + 32 * q] >> (2 * plane) & two_bits) << (2 * q);
        }
        for (int lane = 0; lane < n; lane++) {
            out[lane].qs[at] = (uint8_t)(bytes >> (8 * lane));
        }
    }
}

/* Eight bytes of eight 32-bit codes. */
QNI_INLINE uint64_t narrow(__m256i code)
{
    const __m128i words =
        _mm_packus_epi32(_mm256_castsi256_si128(code), _mm256_extracti128_si256(code, 1));
    return (uint64_t)_mm_cvtsi128_si64(_mm_packus_epi16(words, words));
}

static void finish_groups(const float *x, int n, int n_planes, const group_state *states,
                          void *const planes[3], int64_t first_block, qni_ternary_stats *stats)
{
    weights8 w;
    scales8 scales;
    values8 values;
    codes8 codes;
    memset(&scales, 0, sizeof scales);
    load_groups(x, n, &w);
    for (int lane = 0; lane < n; lane++) {
        for (int p = 0; p < n_planes; p++) {
            scales.alpha[p][lane] = qni_ternary_stored_scale(states[lane].alpha[p]);
        }
    }
    make_values(&scales, n_planes, &values);
    sum8 error2 = {_mm256_setzero_pd(), _mm256_setzero_pd()};
    sum8 weight2 = error2;
    __m256i zeros[3] = {_mm256_setzero_si256(), _mm256_setzero_si256(), _mm256_setzero_si256()};
    for (int i = 0; i < G; i++) {
        const __m256 v = _mm256_load_ps(w.w[i]);
        const __m256i code = nearest(v, &values, values.n);
        codes.code[i] = narrow(code);
        __m256 back = _mm256_mul_ps(_mm256_load_ps(scales.alpha[0]), trit(code, 0));
        for (int p = 1; p < n_planes; p++) {
            back =
                _mm256_add_ps(back, _mm256_mul_ps(_mm256_load_ps(scales.alpha[p]), trit(code, p)));
        }
        for (int p = 0; p < n_planes; p++) {
            const __m256i level =
                _mm256_and_si256(_mm256_srli_epi32(code, 2 * p), _mm256_set1_epi32(3));
            zeros[p] = _mm256_sub_epi32(zeros[p], _mm256_cmpeq_epi32(level, _mm256_set1_epi32(1)));
        }
        error2 = sum8_add_square(error2, _mm256_sub_ps(v, back));
        weight2 = sum8_add_square(weight2, v);
    }
    double errors[LANES];
    double sizes[LANES];
    int32_t counts[3][LANES];
    sum8_store(error2, errors);
    sum8_store(weight2, sizes);
    for (int p = 0; p < n_planes; p++) {
        qni_block_tq2_0 *blocks = (qni_block_tq2_0 *)planes[p] + first_block;
        pack_plane(&codes, p, n, blocks);
        _mm256_storeu_si256((__m256i *)counts[p], zeros[p]);
        for (int lane = 0; lane < n; lane++) {
            (void)qni_store_scale(blocks[lane].d, scales.alpha[p][lane]);
        }
    }
    for (int lane = 0; lane < n; lane++) {
        stats[lane] = (qni_ternary_stats){.sum_error2 = errors[lane],
                                          .sum_weight2 = sizes[lane],
                                          .n_iterations = states[lane].n_iterations,
                                          .is_settled = states[lane].is_settled};
        for (int p = 0; p < n_planes; p++) {
            stats[lane].n_zeros[p] = counts[p][lane];
        }
    }
}

QNI_PROTO_fit(qni_fit_tq2_0_avx2)
{
    group_state states[CHUNK];
    for (int64_t at = 0; at < n_groups; at += CHUNK) {
        const int n = (int)qni_min_i64(CHUNK, n_groups - at);
        const float *from = x + at * G;
        for (int g = 0; g < n; g += LANES) {
            const int n_here = n - g < LANES ? n - g : LANES;
            if (is_tied) {
                fit_tied(from + (int64_t)G * g, n_here, n_planes, &states[g]);
            } else {
                start_groups(from + (int64_t)G * g, n_here, &states[g]);
            }
        }
        if (!is_tied) {
            fit_free(from, n, n_planes, states);
        }
        for (int g = 0; g < n; g += LANES) {
            const int n_here = n - g < LANES ? n - g : LANES;
            finish_groups(from + (int64_t)G * g, n_here, n_planes, &states[g], planes, at + g,
                          stats + at + g);
        }
    }
}
