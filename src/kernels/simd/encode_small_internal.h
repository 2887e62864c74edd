/* encode_small_internal.h — f16, bf16, q1_0, q2_0, tq1_0, tq2_0, mxfp4 and nvfp4.
 *
 * Sixteen elements of a block at a time; the one sum whose order matters, that of q1_0, runs over
 * sixteen blocks, one a lane. Blocks with something unusual in them (NaN, infinity, subnormal
 * scales) are left to the referee. Compiled once for each instruction set. */
#include "kernels/fp4_internal.h"
#include "kernels/simd/batch_lanes_internal.h"

/* --- common -------------------------------------------------------------------------------------
 */

/* Bits of the largest magnitude of n values, n a multiple of 16. Not below QNI_F32_INF if one is
 * infinite or NaN. */
QNI_INLINE uint32_t magnitude_bits(const float *x, int n)
{
    const vi mask = vi_set((int32_t)QNI_F32_ABS_MASK);
    vi max = vi_set(0);
    for (int i = 0; i < n; i += VL) {
        max = vi_max(max, vi_and(vi_bits(vf_load(x + i)), mask));
    }
    return (uint32_t)vi_reduce_max(max);
}

/* Magnitudes outside 2^-100 .. 2^100, but for 0: for the referee. */
QNI_INLINE bool is_unusual(uint32_t mag_bits)
{
    return mag_bits != 0 && mag_bits - (27u << 23) > 200u << 23;
}

QNI_PROTO_finite(VEC_NAME(qni_finite_f32))
{
    const vi mask = vi_set((int32_t)QNI_F32_ABS_MASK);
    vi max[2] = {vi_set(0), vi_set(0)};
    int64_t i = 0;
    for (; i + 2 * VL <= n; i += 2 * VL) {
        max[0] = vi_max(max[0], vi_and(vi_bits(vf_load(x + i)), mask));
        max[1] = vi_max(max[1], vi_and(vi_bits(vf_load(x + i + VL)), mask));
    }
    return vi_reduce_max(vi_max(max[0], max[1])) < (int32_t)QNI_F32_INF &&
           qni_finite_f32_scalar(x + i, n - i);
}

/* --- f16, bf16 ----------------------------------------------------------------------------------
 */

QNI_PROTO_encode(VEC_NAME(qni_encode_f16))
{
    const int64_t n = n_rows * row_len;
    uint8_t *to = out;
    qni_encode_result result = QNI_ENCODE_OK;
    int64_t i = 0;
    for (; i + VL <= n; i += VL) {
        const vf v = vf_load(x + i);
        prefetch_next_piece(x + i, VL);
        if (QNI_UNLIKELY(!vm_all(vf_lt(vf_abs(v), vf_set(65520.0f))))) { /* infinite, or NaN */
            const float *from = x + i;
            result =
                qni_worse(result, qni_encode_f16_scalar(from, 1, VL, weights, tables, to + 2 * i));
            continue;
        }
        vf_store_f16((uint16_t *)(void *)(to + 2 * i), v);
    }
    return qni_worse(result, qni_encode_f16_scalar(x + i, 1, n - i, weights, tables, to + 2 * i));
}

QNI_PROTO_encode(VEC_NAME(qni_encode_bf16))
{
    const int64_t n = n_rows * row_len;
    uint8_t *to = out;
    qni_encode_result result = QNI_ENCODE_OK;
    int64_t i = 0;
    for (; i + VL <= n; i += VL) {
        const vi bits = vi_bits(vf_load(x + i));
        prefetch_next_piece(x + i, VL);
        const vi mag = vi_and(bits, vi_set((int32_t)QNI_F32_ABS_MASK));
        if (QNI_UNLIKELY(vm_any(vi_gt(mag, vi_set(0x7f7f7fff))))) { /* becomes infinite, or NaN */
            result = qni_worse(result,
                               qni_encode_bf16_scalar(x + i, 1, VL, weights, tables, to + 2 * i));
            continue;
        }
        const vi odd = vi_and(vi_shr(bits, 16), vi_set(1));
        const vi rounded = vi_add(vi_add(bits, vi_set(0x7fff)), odd);
        vi_store_u16((uint16_t *)(void *)(to + 2 * i), vi_shr(rounded, 16));
    }
    return qni_worse(result, qni_encode_bf16_scalar(x + i, 1, n - i, weights, tables, to + 2 * i));
}

/* --- q1_0 ---------------------------------------------------------------------------------------
 */

enum { N_Q1 = 128 };

static qni_encode_result q1_0_batch(const lane_batch *batch, qni_block_q1_0 *block)
{
    float turned[VL * 32];
    float d[VL];
    vf sum = vf_set(0.0f);
    for (int at = 0; at < N_Q1; at += 32) {
        vec_transpose(batch->x, at, 32, turned);
        for (int i = 0; i < 32; i++) {
            sum = vf_add(sum, vf_abs(vf_load(turned + VL * i)));
        }
    }
    vf_store(d, vf_div(sum, vf_set(128.0f)));
    qni_encode_result result = QNI_ENCODE_OK;
    for (int b = 0; b < batch->n; b++, block++) {
        const float *x = batch->x[b];
        for (int i = 0; i < N_Q1; i += VL) {
            const vm is_set = vf_ge(vf_load(x + i), vf_set(0.0f));
            qni_store_u16le(block->bits + i / 8, (uint16_t)vm_bits(is_set));
        }
        result = qni_worse(result, qni_store_scale(block->d, d[b]));
    }
    return result;
}

QNI_PROTO_encode(VEC_NAME(qni_encode_q1_0))
{
    (void)weights, (void)tables;
    qni_block_q1_0 *block = out;
    qni_encode_result result = QNI_ENCODE_OK;
    const int64_t n_blocks = n_rows * (row_len / N_Q1);
    for (int64_t i = 0; i < n_blocks; i += VL) {
        const lane_batch batch = batch_at(x, NULL, N_Q1, i, n_blocks, 1);
        prefetch_next_piece(x + N_Q1 * i, N_Q1 * batch.n);
        result = qni_worse(result, q1_0_batch(&batch, block + i));
    }
    return result;
}

/* --- ternary levels: q2_0, tq1_0, tq2_0 ---------------------------------------------------------
 */

/* 0, 1 or 2: one more than x * inv rounded half away from zero, for |x * inv| < 1.5. */
QNI_INLINE vi ternary_level(const float *x, vf inv)
{
    const vf v = vf_mul(vf_load(x), inv);
    const vi up = vi_count(vi_set(0), vf_gt(v, vf_set(-0.5f)));
    return vi_count(up, vf_ge(v, vf_set(0.5f)));
}

/* The reciprocal of a magnitude that is not unusual. */
QNI_INLINE float ternary_inverse(uint32_t mag_bits)
{
    return mag_bits ? 1.0f / qni_f32_from_bits(mag_bits) : 0.0f;
}

enum { N_Q2 = 64 };

static qni_encode_result q2_0_block(const float *x, qni_block_q2_0 *block)
{
    const uint32_t mag = magnitude_bits(x, N_Q2);
    if (QNI_UNLIKELY(is_unusual(mag))) {
        return qni_encode_q2_0_scalar(x, 1, N_Q2, NULL, NULL, block);
    }
    const vf inv = vf_set(ternary_inverse(mag));
    uint8_t levels[N_Q2];
    for (int i = 0; i < N_Q2; i += VL) {
        vi_store_u8(levels + i, ternary_level(x + i, inv));
    }
    int32_t fours[VL]; /* four levels in four bytes, the first lowest */
    memcpy(fours, levels, sizeof fours);
    const vi v = vi_load(fours);
    vi_store_u8(block->qs, vi_or(vi_or(v, vi_shr(v, 6)), vi_or(vi_shr(v, 12), vi_shr(v, 18))));
    return qni_store_scale(block->d, qni_f32_from_bits(mag));
}

QNI_PROTO_encode(VEC_NAME(qni_encode_q2_0))
{
    (void)weights, (void)tables;
    qni_block_q2_0 *block = out;
    qni_encode_result result = QNI_ENCODE_OK;
    for (int64_t i = 0; i < n_rows * (row_len / N_Q2); i++, block++, x += N_Q2) {
        prefetch_next_piece(x, N_Q2);
        result = qni_worse(result, q2_0_block(x, block));
    }
    return result;
}

enum { SUPER = QNI_SUPER };

static qni_encode_result tq2_0_block(const float *x, qni_block_tq2_0 *block)
{
    const uint32_t mag = magnitude_bits(x, SUPER);
    if (QNI_UNLIKELY(is_unusual(mag))) {
        return qni_encode_tq2_0_scalar(x, 1, SUPER, NULL, NULL, block);
    }
    const vf inv = vf_set(ternary_inverse(mag));
    for (int i = 0; i < SUPER / 4; i += VL) {
        const float *from = x + 128 * (i / 32) + i % 32;
        const vi low = vi_or(ternary_level(from, inv), vi_shl(ternary_level(from + 32, inv), 2));
        const vi high = vi_or(vi_shl(ternary_level(from + 64, inv), 4),
                              vi_shl(ternary_level(from + 96, inv), 6));
        vi_store_u8(block->qs + i, vi_or(low, high));
    }
    return qni_store_scale(block->d, qni_f32_from_bits(mag));
}

QNI_PROTO_encode(VEC_NAME(qni_encode_tq2_0))
{
    (void)weights, (void)tables;
    qni_block_tq2_0 *block = out;
    qni_encode_result result = QNI_ENCODE_OK;
    for (int64_t i = 0; i < n_rows * (row_len / SUPER); i++, block++, x += SUPER) {
        prefetch_next_piece(x, SUPER);
        result = qni_worse(result, tq2_0_block(x, block));
    }
    return result;
}

/* Five trits as v = 0..242 to the byte v * 256 / 243, rounded up. */
QNI_INLINE vi trit_bytes(vi v)
{
    const vi scaled = vi_add(vi_shl(v, 8), vi_set(242));
    return vi_trunc(vf_div(vf_from_vi(scaled), vf_set(243.0f)));
}

/* v * 3 + trit */
QNI_INLINE vi add_trit(vi v, vi trit)
{
    return vi_add(vi_add(v, vi_add(v, v)), trit);
}

/* Sixteen bytes of five trits each, the trits of a byte `stride` elements apart. */
QNI_INLINE void five_trits(const float *x, int stride, vf inv, uint8_t *bytes)
{
    vi v = ternary_level(x, inv);
    for (int n = 1; n < 5; n++) {
        v = add_trit(v, ternary_level(x + stride * n, inv));
    }
    vi_store_u8(bytes, trit_bytes(v));
}

static qni_encode_result tq1_0_block(const float *x, qni_block_tq1_0 *block)
{
    const uint32_t mag = magnitude_bits(x, SUPER);
    if (QNI_UNLIKELY(is_unusual(mag))) {
        return qni_encode_tq1_0_scalar(x, 1, SUPER, NULL, NULL, block);
    }
    const vf inv = vf_set(ternary_inverse(mag));
    five_trits(x, 32, inv, block->qs);
    five_trits(x + VL, 32, inv, block->qs + VL);
    five_trits(x + 160, 16, inv, block->qs + 32);
    int32_t last[VL]; /* 240..255: four bytes of four trits, 4 apart; the fifth is 0 */
    vi_store(last, ternary_level(x + 240, inv));
    for (int b = 0; b < 4; b++) {
        const int32_t v = ((last[b] * 3 + last[b + 4]) * 3 + last[b + 8]) * 3 + last[b + 12];
        block->qh[b] = (uint8_t)((256 * (v * 3 & 0xff) + 242) / 243);
    }
    return qni_store_scale(block->d, qni_f32_from_bits(mag));
}

QNI_PROTO_encode(VEC_NAME(qni_encode_tq1_0))
{
    (void)weights, (void)tables;
    qni_block_tq1_0 *block = out;
    qni_encode_result result = QNI_ENCODE_OK;
    for (int64_t i = 0; i < n_rows * (row_len / SUPER); i++, block++, x += SUPER) {
        prefetch_next_piece(x, SUPER);
        result = qni_worse(result, tq1_0_block(x, block));
    }
    return result;
}

/* --- four-bit floats ----------------------------------------------------------------------------
 */

/* Codes of sixteen values under half a scale that is above 0, for |x| < 2^20 * half_scale. The
 * magnitudes 0 1 2 3 4 6 8 12 meet half-way at 0.5 1.5 2.5 3.5 5 7 10, where the lower one wins;
 * near those points the reference's two distances are exact, so a comparison decides as they do. */
QNI_INLINE vi fp4_codes(const float *x, float half_scale)
{
    static const float between[7] = {0.5f, 1.5f, 2.5f, 3.5f, 5.0f, 7.0f, 10.0f};
    const vf v = vf_load(x);
    const vf mag = vf_abs(v);
    vi code = vi_set(0);
    for (int k = 0; k < 7; k++) {
        code = vi_count(code, vf_gt(mag, vf_set(between[k] * half_scale)));
    }
    const vm is_negative = vm_but(vf_lt(v, vf_set(0.0f)), vi_eq(code, vi_set(0)));
    return vi_pick(is_negative, vi_add(code, vi_set(8)), code);
}

enum { N_MX = 32 };

static qni_encode_result mxfp4_block(const float *x, qni_block_mxfp4 *block)
{
    const uint32_t mag = magnitude_bits(x, N_MX);
    if (QNI_UNLIKELY(mag == 0 || is_unusual(mag))) {
        return qni_encode_mxfp4_scalar(x, 1, N_MX, NULL, NULL, block);
    }
    block->e = (uint8_t)(qni_floor_log2(qni_f32_from_bits(mag)) - 2 + 127);
    const float half_scale = qni_half_e8m0(block->e);
    const vi low = fp4_codes(x, half_scale);
    const vi high = fp4_codes(x + VL, half_scale);
    vi_store_u8(block->qs, vi_or(low, vi_shl(high, 4)));
    return QNI_ENCODE_OK;
}

QNI_PROTO_encode(VEC_NAME(qni_encode_mxfp4))
{
    (void)weights, (void)tables;
    qni_block_mxfp4 *block = out;
    qni_encode_result result = QNI_ENCODE_OK;
    for (int64_t i = 0; i < n_rows * (row_len / N_MX); i++, block++, x += N_MX) {
        prefetch_next_piece(x, N_MX);
        result = qni_worse(result, mxfp4_block(x, block));
    }
    return result;
}

enum { N_NV = 64, N_NV_SUB = 16 };

/* The scale is at most 448: above 2688 values are cut, and far above, distances round. */
static const float nvfp4_limit = 100000.0f;

static void nvfp4_block(const float *x, qni_block_nvfp4 *block)
{
    uint8_t codes[N_NV];
    for (int s = 0; s < N_NV / N_NV_SUB; s++) {
        const float *sub = x + N_NV_SUB * s;
        const float mag = qni_f32_from_bits(magnitude_bits(sub, N_NV_SUB));
        if (QNI_UNLIKELY(!(mag < nvfp4_limit))) { /* NaN too */
            (void)qni_encode_nvfp4_scalar(x, 1, N_NV, NULL, NULL, block);
            return;
        }
        block->scales[s] = qni_e4m3_from_f32(mag / 6.0f);
        const float half_scale = qni_half_e4m3(block->scales[s]);
        const vi code = half_scale > 0.0f ? fp4_codes(sub, half_scale) : vi_set(0);
        vi_store_u8(codes + N_NV_SUB * s, code);
    }
    for (int s = 0; s < N_NV / N_NV_SUB; s++) {
        qni_pack_nibbles(codes + N_NV_SUB * s, N_NV_SUB, block->qs + 8 * s);
    }
}

QNI_PROTO_encode(VEC_NAME(qni_encode_nvfp4))
{
    (void)weights, (void)tables;
    qni_block_nvfp4 *block = out;
    for (int64_t i = 0; i < n_rows * (row_len / N_NV); i++, block++, x += N_NV) {
        nvfp4_block(x, block);
    }
    return QNI_ENCODE_OK;
}
