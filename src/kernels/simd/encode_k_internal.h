/* encode_k_internal.h — q2_K to q6_K, sixteen super-blocks at a time.
 *
 * A lane is a super-block: sub-block j of all sixteen is searched in one go, then the scales of all
 * sixteen are fitted, and only the last pass, element by element, goes along each super-block.
 * Compiled once for each instruction set; the referees are scalar/q2_k.c and its neighbours. */
#include "kernels/k_pack_internal.h"
#include "kernels/simd/batch_lanes_internal.h"
#include "kernels/simd/search_lanes_internal.h"

enum { SUPER = QNI_SUPER, MAX_SUBS = 16 };

/* What the searches found, turned: sub-block j of all super-blocks at [VL * j]. */
typedef struct k_lanes {
    float x[VL * SUPER];
    float w[VL * QNI_SEARCH_MAX]; /* of the sub-block at hand */
    float scales[VL * MAX_SUBS];
    float offsets[VL * MAX_SUBS];
    float sums[VL * MAX_SUBS]; /* of the weights */
    float inv[VL * MAX_SUBS];  /* how to make the levels again; see keep_levels() */
    float base[VL * MAX_SUBS];
    uint32_t is_zero[MAX_SUBS];
    int32_t codes[VL * MAX_SUBS];
    int32_t offset_codes[VL * MAX_SUBS];
    float d[VL];
    float dmin[VL];
} k_lanes;

/* Encodes one batch, whose input stands in lanes->x. */
typedef qni_encode_result (*k_encode_fn)(const lane_batch *batch, k_lanes *lanes, void *out);

QNI_INLINE qni_encode_result k_encode(k_encode_fn encode, qni_encode_fn referee, size_t block_bytes,
                                      const float *x, int64_t n_rows, int64_t row_len,
                                      const float *weights, uint8_t *out)
{
    k_lanes lanes;
    qni_encode_result result = QNI_ENCODE_OK;
    const int64_t n_blocks = n_rows * (row_len / SUPER);
    for (int64_t i = 0; i < n_blocks; i += VL) {
        const lane_batch batch = batch_at(x, weights, SUPER, i, n_blocks, row_len / SUPER);
        uint8_t *at = out + (size_t)i * block_bytes;
        vec_transpose(batch.x, 0, SUPER, lanes.x);
        result = qni_worse(result, QNI_LIKELY(lanes_are_finite(lanes.x, SUPER))
                                       ? encode(&batch, &lanes, at)
                                       : batch_by_referee(&batch, referee, SUPER, block_bytes, at));
    }
    return result;
}

/* --- searches -----------------------------------------------------------------------------------
 */

/* Weights of sub-block j under importance; their sums too. */
QNI_INLINE void weigh_sub(const lane_batch *batch, k_lanes *lanes, int n, int j, vf sigma2)
{
    vec_transpose(batch->importance, n * j, n, lanes->w);
    lanes_weigh(lanes->x + VL * n * j, sigma2, n, lanes->w);
    vf_store(lanes->sums + VL * j, lanes_sum(lanes->w, n));
}

QNI_INLINE void store_affine(const lane_affine *found, int j, k_lanes *lanes)
{
    const vf zero = vf_set(0.0f);
    vf_store(lanes->scales + VL * j, found->scale);
    vf_store(lanes->offsets + VL * j, vf_neg(found->lo));
    vf_store(lanes->inv + VL * j, vf_pick(found->is_flat, zero, found->inv));
    vf_store(lanes->base + VL * j, vf_pick(found->is_flat, zero, found->base));
    lanes->is_zero[j] = 0;
}

QNI_INLINE void store_symmetric(const lane_symmetric *found, int j, k_lanes *lanes)
{
    vf_store(lanes->scales + VL * j, found->scale);
    vf_store(lanes->inv + VL * j, found->inv);
    lanes->is_zero[j] = vm_bits(found->is_zero);
}

/* --- the last pass ------------------------------------------------------------------------------
 */

/* Levels of sub-block j of super-block b as the search chose them, because its stored scale is 0.
 */
static void keep_affine(const k_lanes *lanes, const float *x, int n, int m, int j, int b,
                        uint8_t *levels)
{
    const float inv = lanes->inv[VL * j + b];
    const float base = lanes->base[VL * j + b];
    for (int i = 0; i < n; i++) {
        levels[i] = (uint8_t)qni_clamp_i32(qni_nearest(inv * (x[i] - base)), 0, m);
    }
}

static void keep_symmetric(const k_lanes *lanes, const float *x, int n, int m, int j, int b,
                           uint8_t *levels)
{
    const bool is_zero = lanes->is_zero[j] >> b & 1;
    const float inv = lanes->inv[VL * j + b];
    for (int i = 0; i < n; i++) {
        const int32_t level = qni_clamp_i32(qni_nearest(inv * x[i]), -m, m - 1) + m;
        levels[i] = is_zero ? 0 : (uint8_t)level;
    }
}

/* qni_requantize_affine() for n = 16 or 32 values, sixteen at a time. */
QNI_INLINE void requantize_affine(const k_lanes *lanes, const float *x, int n, int m, int j, int b,
                                  float scale, float offset, uint8_t *levels)
{
    if (scale == 0.0f) {
        keep_affine(lanes, x, n, m, j, b, levels);
        return;
    }
    for (int i = 0; i < n; i += VL) {
        const vf v = vf_div(vf_add(vf_load(x + i), vf_set(offset)), vf_set(scale));
        vi_store_u8(levels + i, vi_clamp(vi_nearest(v), 0, m));
    }
}

QNI_INLINE void requantize_symmetric(const k_lanes *lanes, const float *x, int m, int j, int b,
                                     float scale, uint8_t *levels)
{
    if (scale == 0.0f) {
        keep_symmetric(lanes, x, VL, m, j, b, levels);
        return;
    }
    const vi level = vi_nearest(vf_div(vf_load(x), vf_set(scale)));
    vi_store_u8(levels, vi_add(vi_clamp(level, -m, m - 1), vi_set(m)));
}

/* --- scales of the plain searches ---------------------------------------------------------------
 */

/* Largest of n values and 0; NaN never wins. */
QNI_INLINE vf lanes_positive_max(const float *values, int n)
{
    vf max = vf_set(0.0f);
    for (int j = 0; j < n; j++) {
        max = vf_max(vf_load(values + VL * j), max);
    }
    return max;
}

/* n values to codes N(value * top / max), low eight bits; returns max / top. */
QNI_INLINE vf fit_plain(const float *values, int n, float top, int32_t *codes)
{
    const vf zero = vf_set(0.0f);
    const vf max = lanes_positive_max(values, n);
    const vf inv = vf_pick(vf_gt(max, zero), vf_div(vf_set(top), max), zero);
    for (int j = 0; j < n; j++) {
        const vi code = vi_nearest(vf_mul(inv, vf_load(values + VL * j)));
        vi_store(codes + VL * j, vi_and(code, vi_set(0xff)));
    }
    return vf_div(max, vf_set(top));
}

/* --- q2_K ---------------------------------------------------------------------------------------
 */

static const qni_affine_params q2_plain = {16, 3, -0.5f, 0.1f, 15, true};
static const qni_affine_params q2_weighted = {16, 3, -0.9f, 0.05f, 36, false};

static void q2_search(const lane_batch *batch, k_lanes *lanes)
{
    if (batch->is_weighted) {
        const vf sigma2 = vf_div(lanes_sum_squares(lanes->x, SUPER), vf_set((float)SUPER));
        for (int j = 0; j < 16; j++) {
            weigh_sub(batch, lanes, 16, j, sigma2);
            const lane_affine found =
                lanes_search_affine(q2_weighted, lanes->x + VL * 16 * j, lanes->w);
            store_affine(&found, j, lanes);
        }
        return;
    }
    for (int j = 0; j < 16; j++) {
        const float *x = lanes->x + VL * 16 * j;
        for (int i = 0; i < 16; i++) {
            vf_store(lanes->w + VL * i, vf_abs(vf_load(x + VL * i)));
        }
        const lane_affine found = lanes_search_affine(q2_plain, x, lanes->w);
        store_affine(&found, j, lanes);
    }
}

static qni_encode_result q2_finish(const k_lanes *lanes, const float *x, int b,
                                   qni_block_q2_k *block)
{
    uint8_t levels[SUPER];
    for (int j = 0; j < 16; j++) {
        block->scales[j] =
            (uint8_t)(lanes->codes[VL * j + b] | lanes->offset_codes[VL * j + b] << 4);
    }
    const qni_encode_result result = qni_worse(qni_store_scale(block->d, lanes->d[b]),
                                               qni_store_scale(block->dmin, lanes->dmin[b]));
    const float d = qni_load_scale(block->d);
    const float dmin = qni_load_scale(block->dmin);
    for (int j = 0; j < 16; j++) {
        requantize_affine(lanes, x + 16 * j, 16, 3, j, b, d * (float)(block->scales[j] & 15),
                          dmin * (float)(block->scales[j] >> 4), levels + 16 * j);
    }
    qni_pack_planes(levels, block->qs);
    return result;
}

static qni_encode_result q2_encode(const lane_batch *batch, k_lanes *lanes, void *out)
{
    qni_block_q2_k *block = out;
    q2_search(batch, lanes);
    if (batch->is_weighted) {
        vf_store(lanes->d, lanes_search_positive(16, 15, lanes->scales, lanes->sums, lanes->codes));
        vf_store(lanes->dmin,
                 lanes_search_positive(16, 15, lanes->offsets, lanes->sums, lanes->offset_codes));
    } else {
        vf_store(lanes->d, fit_plain(lanes->scales, 16, 15.0f, lanes->codes));
        vf_store(lanes->dmin, fit_plain(lanes->offsets, 16, 15.0f, lanes->offset_codes));
    }
    qni_encode_result result = QNI_ENCODE_OK;
    for (int b = 0; b < batch->n; b++) {
        result = qni_worse(result, q2_finish(lanes, batch->x[b], b, block + b));
    }
    return result;
}

QNI_PROTO_encode(VEC_NAME(qni_encode_q2_k))
{
    (void)tables;
    return k_encode(q2_encode, qni_encode_q2_k_scalar, sizeof(qni_block_q2_k), x, n_rows, row_len,
                    weights, out);
}

/* --- q3_K ---------------------------------------------------------------------------------------
 */

/* Levels of the greedy search, element i of sub-block j of lane b: kept for scales that become 0.
 */
static void q3_search_plain(k_lanes *lanes, float *levels)
{
    for (int j = 0; j < 16; j += 2) {
        vf scales[2];
        lanes_search_greedy(16, 4, lanes->x + VL * 16 * j, levels + VL * 16 * j, scales);
        vf_store(lanes->scales + VL * j, scales[0]);
        vf_store(lanes->scales + VL * (j + 1), scales[1]);
    }
    const lane_extreme extreme = lanes_absmax(lanes->scales, 16);
    const vm is_null = vf_eq(extreme.value, vf_set(0.0f));
    const vf inv = vf_div(vf_set(-32.0f), extreme.value);
    for (int j = 0; j < 16; j++) {
        vi code = vi_nearest(vf_mul(inv, vf_load(lanes->scales + VL * j)));
        /* the low eight bits, as a signed number */
        code = vi_sub(vi_and(vi_add(code, vi_set(128)), vi_set(0xff)), vi_set(128));
        code = vi_add(vi_clamp(code, -32, 31), vi_set(32));
        vi_store(lanes->codes + VL * j, vi_pick(is_null, vi_set(0), code));
    }
    vf_store(lanes->d, vf_pick(is_null, vf_set(0.0f), vf_div(vf_set(1.0f), inv)));
}

static void q3_search_weighted(const lane_batch *batch, k_lanes *lanes)
{
    const vf sum = lanes_sum_squares(lanes->x, SUPER);
    const vf sigma2 = vf_div(vf_mul(vf_set(2.0f), sum), vf_set((float)SUPER));
    for (int j = 0; j < 16; j++) {
        weigh_sub(batch, lanes, 16, j, sigma2);
        const lane_symmetric found =
            lanes_search_symmetric(16, 4, lanes->x + VL * 16 * j, lanes->w);
        store_symmetric(&found, j, lanes);
    }
    if (!lanes_are_finite(lanes->scales, 16)) { /* sums that overflowed */
        for (int b = 0; b < batch->n; b++) {
            float scales[16], sums[16];
            uint8_t codes[16];
            for (int j = 0; j < 16; j++) {
                scales[j] = lanes->scales[VL * j + b];
                sums[j] = lanes->sums[VL * j + b];
            }
            lanes->d[b] = qni_search_symmetric(16, 32, scales, sums, codes);
            for (int j = 0; j < 16; j++) {
                lanes->codes[VL * j + b] = codes[j];
            }
        }
        return;
    }
    const lane_symmetric fit = lanes_search_symmetric(16, 32, lanes->scales, lanes->sums);
    vf_store(lanes->d, fit.scale);
    for (int j = 0; j < 16; j++) {
        const vf scale = vf_load(lanes->scales + VL * j);
        vi_store(lanes->codes + VL * j, lanes_symmetric_level(&fit, scale, 32));
    }
}

static qni_encode_result q3_finish(const lane_batch *batch, const k_lanes *lanes,
                                   const float *greedy, int b, qni_block_q3_k *block)
{
    const float *x = batch->x[b];
    uint8_t levels[SUPER];
    uint8_t codes[16];
    for (int j = 0; j < 16; j++) {
        codes[j] = (uint8_t)lanes->codes[VL * j + b];
    }
    qni_pack_q3_k_codes(codes, block->scales);
    const qni_encode_result result = qni_store_scale(block->d, lanes->d[b]);
    const float d = qni_load_scale(block->d);
    for (int j = 0; j < 16; j++) {
        const float scale = d * (float)(codes[j] - 32);
        if (scale == 0.0f && !batch->is_weighted) {
            for (int i = 16 * j; i < 16 * (j + 1); i++) {
                levels[i] = (uint8_t)(greedy[VL * i + b] + 4.0f);
            }
            continue;
        }
        requantize_symmetric(lanes, x + 16 * j, 4, j, b, scale, levels + 16 * j);
    }
    qni_pack_q3_k_levels(levels, block);
    return result;
}

static qni_encode_result q3_encode(const lane_batch *batch, k_lanes *lanes, void *out)
{
    qni_block_q3_k *block = out;
    float greedy[VL * SUPER];
    if (batch->is_weighted) {
        q3_search_weighted(batch, lanes);
    } else {
        q3_search_plain(lanes, greedy);
    }
    qni_encode_result result = QNI_ENCODE_OK;
    for (int b = 0; b < batch->n; b++) {
        result = qni_worse(result, q3_finish(batch, lanes, greedy, b, block + b));
    }
    return result;
}

QNI_PROTO_encode(VEC_NAME(qni_encode_q3_k))
{
    (void)tables;
    return k_encode(q3_encode, qni_encode_q3_k_scalar, sizeof(qni_block_q3_k), x, n_rows, row_len,
                    weights, out);
}

/* --- q4_K, q5_K ---------------------------------------------------------------------------------
 */

static const qni_affine_params q4_plain = {32, 15, -1.0f, 0.1f, 20, false};
static const qni_affine_params q5_plain = {32, 31, -0.5f, 0.1f, 15, false};
static const qni_affine_params q4_weighted = {32, 15, -0.9f, 0.05f, 36, false};
static const qni_affine_params q5_weighted = {32, 31, -0.9f, 0.05f, 36, false};

static void q4_search_sub(const qni_affine_params *params, k_lanes *lanes, int j)
{
    const qni_affine_params search = {32, 15, params->first, params->step, params->n_steps, false};
    const lane_affine found = lanes_search_affine(search, lanes->x + VL * 32 * j, lanes->w);
    store_affine(&found, j, lanes);
}

static void q5_search_sub(const qni_affine_params *params, k_lanes *lanes, int j)
{
    const qni_affine_params search = {32, 31, params->first, params->step, params->n_steps, false};
    const lane_affine found = lanes_search_affine(search, lanes->x + VL * 32 * j, lanes->w);
    store_affine(&found, j, lanes);
}

/* w = root mean square + |x| */
static void weigh_plain(k_lanes *lanes, int j)
{
    const float *x = lanes->x + VL * 32 * j;
    const vf rms = vf_sqrt(vf_div(lanes_sum_squares(x, 32), vf_set(32.0f)));
    for (int i = 0; i < 32; i++) {
        vf_store(lanes->w + VL * i, vf_add(rms, vf_abs(vf_load(x + VL * i))));
    }
}

typedef void (*k_search_sub_fn)(const qni_affine_params *params, k_lanes *lanes, int j);

/* Searches of all sub-blocks, and the codes of their scales and offsets. */
static void q45_search(const lane_batch *batch, k_lanes *lanes, k_search_sub_fn search,
                       const qni_affine_params *params)
{
    const vf sum = lanes_sum_squares(lanes->x, SUPER);
    const vf sigma2 = vf_div(vf_mul(vf_set(2.0f), sum), vf_set((float)SUPER));
    for (int j = 0; j < 8; j++) {
        if (batch->is_weighted) {
            weigh_sub(batch, lanes, 32, j, sigma2);
        } else {
            weigh_plain(lanes, j);
        }
        search(params, lanes, j);
    }
    if (batch->is_weighted) {
        vf_store(lanes->d, lanes_search_positive(8, 63, lanes->scales, lanes->sums, lanes->codes));
        vf_store(lanes->dmin,
                 lanes_search_positive(8, 63, lanes->offsets, lanes->sums, lanes->offset_codes));
    } else {
        vf_store(lanes->d, fit_plain(lanes->scales, 8, 63.0f, lanes->codes));
        vf_store(lanes->dmin, fit_plain(lanes->offsets, 8, 63.0f, lanes->offset_codes));
    }
}

/* The 12 code bytes, and the levels under the stored scales. is_capped: codes at most 63. */
QNI_INLINE qni_encode_result q45_finish(const k_lanes *lanes, const float *x, int m, bool is_capped,
                                        int b, uint8_t *d_field, uint8_t *dmin_field,
                                        uint8_t *packed, uint8_t *levels)
{
    uint8_t sc[8];
    uint8_t mn[8];
    for (int j = 0; j < 8; j++) {
        const int32_t limit = is_capped ? 63 : 255;
        sc[j] = (uint8_t)qni_min_i32(lanes->codes[VL * j + b], limit);
        mn[j] = (uint8_t)qni_min_i32(lanes->offset_codes[VL * j + b], limit);
    }
    qni_pack_k_codes(sc, mn, packed);
    const qni_encode_result result = qni_worse(qni_store_scale(d_field, lanes->d[b]),
                                               qni_store_scale(dmin_field, lanes->dmin[b]));
    const float d = qni_load_scale(d_field);
    const float dmin = qni_load_scale(dmin_field);
    for (int j = 0; j < 8; j++) {
        requantize_affine(lanes, x + 32 * j, 32, m, j, b, d * (float)qni_k_scale_code(packed, j),
                          dmin * (float)qni_k_offset_code(packed, j), levels + 32 * j);
    }
    return result;
}

static qni_encode_result q4_encode(const lane_batch *batch, k_lanes *lanes, void *out)
{
    qni_block_q4_k *block = out;
    q45_search(batch, lanes, q4_search_sub, batch->is_weighted ? &q4_weighted : &q4_plain);
    qni_encode_result result = QNI_ENCODE_OK;
    for (int b = 0; b < batch->n; b++, block++) {
        uint8_t levels[SUPER];
        result = qni_worse(result, q45_finish(lanes, batch->x[b], 15, !batch->is_weighted, b,
                                              block->d, block->dmin, block->scales, levels));
        qni_pack_q4_k_levels(levels, block);
    }
    return result;
}

QNI_PROTO_encode(VEC_NAME(qni_encode_q4_k))
{
    (void)tables;
    return k_encode(q4_encode, qni_encode_q4_k_scalar, sizeof(qni_block_q4_k), x, n_rows, row_len,
                    weights, out);
}

static qni_encode_result q5_encode(const lane_batch *batch, k_lanes *lanes, void *out)
{
    qni_block_q5_k *block = out;
    q45_search(batch, lanes, q5_search_sub, batch->is_weighted ? &q5_weighted : &q5_plain);
    qni_encode_result result = QNI_ENCODE_OK;
    for (int b = 0; b < batch->n; b++, block++) {
        uint8_t levels[SUPER];
        result = qni_worse(result, q45_finish(lanes, batch->x[b], 31, true, b, block->d,
                                              block->dmin, block->scales, levels));
        qni_pack_q5_k_levels(levels, block);
    }
    return result;
}

QNI_PROTO_encode(VEC_NAME(qni_encode_q5_k))
{
    (void)tables;
    return k_encode(q5_encode, qni_encode_q5_k_scalar, sizeof(qni_block_q5_k), x, n_rows, row_len,
                    weights, out);
}

/* --- q6_K ---------------------------------------------------------------------------------------
 */

/* Importance weighs as it is here, without the variance. */
static void q6_search(const lane_batch *batch, k_lanes *lanes)
{
    for (int j = 0; j < 16; j++) {
        const float *x = lanes->x + VL * 16 * j;
        if (batch->is_weighted) {
            vec_transpose(batch->importance, 16 * j, 16, lanes->w);
        } else {
            for (int i = 0; i < 16; i++) {
                const vf v = vf_load(x + VL * i);
                vf_store(lanes->w + VL * i, vf_mul(v, v));
            }
        }
        const lane_symmetric found = lanes_search_symmetric(16, 32, x, lanes->w);
        store_symmetric(&found, j, lanes);
    }
}

static qni_encode_result q6_finish(const k_lanes *lanes, const float *x, int b, bool is_zero,
                                   qni_block_q6_k *block)
{
    if (is_zero) {
        memset(block, 0, sizeof *block);
        return QNI_ENCODE_OK;
    }
    uint8_t levels[SUPER];
    const qni_encode_result result = qni_store_scale(block->d, lanes->d[b]);
    const float d = qni_load_scale(block->d);
    for (int j = 0; j < 16; j++) {
        block->scales[j] = (int8_t)lanes->codes[VL * j + b];
        requantize_symmetric(lanes, x + 16 * j, 32, j, b, d * (float)block->scales[j],
                             levels + 16 * j);
    }
    qni_pack_q6_k_levels(levels, block);
    return result;
}

static qni_encode_result q6_encode(const lane_batch *batch, k_lanes *lanes, void *out)
{
    qni_block_q6_k *block = out;
    q6_search(batch, lanes);
    const lane_extreme extreme = lanes_absmax(lanes->scales, 16);
    const uint32_t is_zero = vm_bits(vf_lt(extreme.mag, vf_set(QNI_TINY)));
    const vf inv = vf_div(vf_set(-128.0f), extreme.value);
    vf_store(lanes->d, vf_div(vf_set(1.0f), inv));
    for (int j = 0; j < 16; j++) {
        const vi code = vi_nearest(vf_mul(inv, vf_load(lanes->scales + VL * j)));
        vi_store(lanes->codes + VL * j, vi_min(code, vi_set(127)));
    }
    qni_encode_result result = QNI_ENCODE_OK;
    for (int b = 0; b < batch->n; b++) {
        result = qni_worse(result, q6_finish(lanes, batch->x[b], b, is_zero >> b & 1, block + b));
    }
    return result;
}

QNI_PROTO_encode(VEC_NAME(qni_encode_q6_k))
{
    (void)tables;
    return k_encode(q6_encode, qni_encode_q6_k_scalar, sizeof(qni_block_q6_k), x, n_rows, row_len,
                    weights, out);
}
