/* encode_iq4_internal.h — iq4_nl and iq4_xs, sixteen blocks or super-blocks at a time, one a lane.
 *
 * Compiled once for each instruction set; the referee is scalar/iq4.c. */
#include "kernels/simd/batch_lanes_internal.h"
#include "kernels/simd/search_lanes_internal.h"

enum { SUB = 32, SUPER = QNI_SUPER, N_SUBS = SUPER / SUB };

/* Weighted sums of a candidate: w * q * x and w * q * q over the code values q. |inv * x| <= 135.
 */
QNI_INLINE lane_fit iq4_sums(const float *x, const float *w, vf inv)
{
    lane_fit sum = {vf_set(0.0f), vf_set(0.0f)};
    for (int i = 0; i < SUB; i++) {
        const vf v = vf_load(x + VL * i);
        const vf q = vf_iq4_values(vf_mul(inv, v));
        const vf wq = vf_mul(vf_load(w + VL * i), q);
        sum.xl = vf_add(sum.xl, vf_mul(wq, v));
        sum.ll = vf_add(sum.ll, vf_mul(wq, q));
    }
    return sum;
}

/* The best scale of 32 values in every lane; 0 when there is nothing to scale. */
static vf iq4_search(const float *x, const float *w)
{
    const vf zero = vf_set(0.0f);
    const lane_extreme extreme = lanes_absmax(x, SUB);
    const vm is_zero = vf_lt(extreme.mag, vf_set(QNI_TINY));
    const vf peak = vf_pick(is_zero, vf_set(1.0f), extreme.value);
    vf scale = vf_div(vf_neg(peak), vf_set(-127.0f));
    lane_fit sum = iq4_sums(x, w, vf_div(vf_set(1.0f), scale));
    scale = vf_pick(vf_gt(sum.ll, zero), vf_div(sum.xl, sum.ll), zero);
    vf best = vf_mul(scale, sum.xl);
    for (int k = -7; k <= 7; k++) {
        sum = iq4_sums(x, w, vf_div(vf_set((float)k - 127.0f), peak));
        const vm is_better =
            vm_and(vf_gt(sum.ll, zero), vf_gt(vf_mul(sum.xl, sum.xl), vf_mul(best, sum.ll)));
        const vf candidate = vf_div(sum.xl, sum.ll);
        scale = vf_pick(is_better, candidate, scale);
        best = vf_pick(is_better, vf_mul(candidate, sum.xl), best);
    }
    return vf_pick(is_zero, zero, scale);
}

/* Weights of 32 values that stand at `at` in their blocks, under importance or x * x. */
QNI_INLINE void iq4_weigh(const lane_batch *batch, const float *x, int at, vf sigma2, float *w)
{
    if (batch->is_weighted) {
        vec_transpose(batch->importance, at, SUB, w);
        lanes_weigh(x, sigma2, SUB, w);
        return;
    }
    for (int i = 0; i < SUB; i++) {
        const vf v = vf_load(x + VL * i);
        vf_store(w + VL * i, vf_mul(v, v));
    }
}

/* 32 values of one block to 16 bytes. */
QNI_INLINE void iq4_codes(const float *x, float inv, uint8_t *qs)
{
    const vi low = vi_iq4_codes(vf_mul(vf_set(inv), vf_load(x)));
    const vi high = vi_iq4_codes(vf_mul(vf_set(inv), vf_load(x + VL)));
    vi_store_u8(qs, vi_or(low, vi_shl(high, 4)));
}

/* --- iq4_nl -------------------------------------------------------------------------------------
 */

static qni_encode_result iq4_nl_batch(const lane_batch *batch, qni_block_iq4_nl *block)
{
    float x[VL * SUB];
    float w[VL * SUB];
    float scales[VL];
    vec_transpose(batch->x, 0, SUB, x);
    if (QNI_UNLIKELY(!lanes_are_finite(x, SUB))) {
        return batch_by_referee(batch, qni_encode_iq4_nl_scalar, SUB, sizeof *block,
                                (uint8_t *)block);
    }
    const vf sigma2 = vf_mul(lanes_sum_squares(x, SUB), vf_set(2.0f / (float)SUB));
    iq4_weigh(batch, x, 0, sigma2, w);
    vf_store(scales, iq4_search(x, w));
    qni_encode_result result = QNI_ENCODE_OK;
    for (int b = 0; b < batch->n; b++) {
        const float d = scales[b];
        iq4_codes(batch->x[b], d != 0.0f ? 1.0f / d : 0.0f, block[b].qs);
        result = qni_worse(result, qni_store_scale(block[b].d, d));
    }
    return result;
}

QNI_PROTO_encode(VEC_NAME(qni_encode_iq4_nl))
{
    (void)tables;
    qni_block_iq4_nl *block = out;
    qni_encode_result result = QNI_ENCODE_OK;
    const int64_t n_blocks = n_rows * (row_len / SUB);
    for (int64_t i = 0; i < n_blocks; i += VL) {
        const lane_batch batch = batch_at(x, weights, SUB, i, n_blocks, row_len / SUB);
        result = qni_worse(result, iq4_nl_batch(&batch, block + i));
    }
    return result;
}

/* --- iq4_xs -------------------------------------------------------------------------------------
 */

/* One super-block, whose sub-block scales stand VL apart. */
static qni_encode_result iq4_xs_finish(const float *x, const float *turned_scales,
                                       qni_block_iq4_xs *block)
{
    float scales[N_SUBS];
    for (int j = 0; j < N_SUBS; j++) {
        scales[j] = turned_scales[VL * j];
    }
    const float d = -qni_absmax(scales, N_SUBS).value / 32.0f;
    const float inv = d != 0.0f ? 1.0f / d : 0.0f;
    uint32_t upper = 0;
    memset(block->scales_l, 0, sizeof block->scales_l);
    for (int j = 0; j < N_SUBS; j++) {
        const int32_t level = qni_clamp_i32(qni_nearest(inv * scales[j]), -32, 31);
        const float scale = d * (float)level; /* unrounded d */
        iq4_codes(x + SUB * j, scale != 0.0f ? 1.0f / scale : 0.0f, block->qs + 16 * j);
        const uint32_t code = (uint32_t)(level + 32);
        block->scales_l[j / 2] = (uint8_t)(block->scales_l[j / 2] | (code & 15) << (4 * (j % 2)));
        upper |= code >> 4 << (2 * j);
    }
    qni_store_u16le(block->scales_h, (uint16_t)upper);
    return qni_store_scale(block->d, d);
}

static qni_encode_result iq4_xs_batch(const lane_batch *batch, qni_block_iq4_xs *block)
{
    float x[VL * SUPER];
    float w[VL * SUB];
    float scales[VL * N_SUBS];
    vec_transpose(batch->x, 0, SUPER, x);
    if (QNI_UNLIKELY(!lanes_are_finite(x, SUPER))) {
        return batch_by_referee(batch, qni_encode_iq4_xs_scalar, SUPER, sizeof *block,
                                (uint8_t *)block);
    }
    const vf sigma2 = vf_mul(lanes_sum_squares(x, SUPER), vf_set(2.0f / (float)SUPER));
    for (int j = 0; j < N_SUBS; j++) {
        const float *sub = x + VL * SUB * j;
        iq4_weigh(batch, sub, SUB * j, sigma2, w);
        vf_store(scales + VL * j, iq4_search(sub, w));
    }
    qni_encode_result result = QNI_ENCODE_OK;
    for (int b = 0; b < batch->n; b++) {
        result = qni_worse(result, iq4_xs_finish(batch->x[b], scales + b, block + b));
    }
    return result;
}

QNI_PROTO_encode(VEC_NAME(qni_encode_iq4_xs))
{
    (void)tables;
    qni_block_iq4_xs *block = out;
    qni_encode_result result = QNI_ENCODE_OK;
    const int64_t n_blocks = n_rows * (row_len / SUPER);
    for (int64_t i = 0; i < n_blocks; i += VL) {
        const lane_batch batch = batch_at(x, weights, SUPER, i, n_blocks, row_len / SUPER);
        result = qni_worse(result, iq4_xs_batch(&batch, block + i));
    }
    return result;
}
