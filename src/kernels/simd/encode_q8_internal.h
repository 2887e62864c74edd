/* encode_q8_internal.h — q8_0, q8_1 and q8_K: what activations become on their way into a product,
 * so they have to keep up with memory. Layouts: scalar/q8_0.c, scalar/q8_k.c.
 *
 * A block is a chain from its largest magnitude over a division to its levels. So the scales of
 * the blocks to come are found before the levels of those at hand are: nothing waits for a
 * division.
 *
 * Magnitudes compare as integers, so that NaN and infinity win and show themselves; blocks with
 * one, or with a scale whose inverse overflows, go to the referee. What is left is finite, and
 * levels lie in -127..127 without a clamp. Compiled once for each instruction set, which brings
 *
 *   vi_part                      what is left of a vector half-way to its maximum or sum
 *   vi_max_part(), vi_add_part() that of a vector; _of_parts(): the results of sixteen, one a lane
 *   vi_max_unsigned(), vi_reduce_max_unsigned(), vi_nearest()
 *   put_rounded()                levels of 32 values, rounded half away from zero: times `inverse`,
 *                                which has been multiplied by ROUNDED_TIMES; their sum half-way
 *   sums_of_levels()             the sums of sixteen blocks, one a lane */
#include "kernels/simd/batch_lanes_internal.h"

enum { BLOCK = 32, SUPER = QNI_SUPER };

/* --- q8_0, q8_1 ----------------------------------------------------------------------------------
 */

/* What up to sixteen blocks share, a block a lane. */
typedef struct q8_group {
    float d[VL];   /* 0 where the referee does the block */
    float inv[VL]; /* ROUNDED_TIMES / d, or 0 */
    uint16_t d16[VL];
    uint32_t is_odd; /* such blocks, a bit each */
    qni_encode_result result;
} q8_group;

QNI_INLINE vi_part magnitude_of_32(const float *x)
{
    const vi mask = vi_set((int32_t)QNI_F32_ABS_MASK);
    const vi low = vi_and(vi_bits(vf_load(x)), mask);
    const vi high = vi_and(vi_bits(vf_load(x + VL)), mask);
    return vi_max_part(vi_max(low, high));
}

QNI_INLINE void find_scales(const float *x, int n, q8_group *group)
{
    vi_part mags[VL];
    for (int b = 0; b < VL; b++) {
        mags[b] = b < n ? magnitude_of_32(x + BLOCK * b) : vi_max_part(vi_set(0));
    }
    const vi bits = vi_max_of_parts(mags);
    const vf zero = vf_set(0.0f);
    const vf d = vf_div(vf_bits(bits), vf_set(127.0f));
    const vf inverse = vf_mul(vf_div(vf_set(1.0f), d), vf_set(ROUNDED_TIMES));
    const vf inv = vf_pick(vf_eq(d, zero), zero, inverse);
    const vm is_odd =
        vm_or(vi_gt(bits, vi_set((int32_t)QNI_F32_INF - 1)), vf_eq(inv, vf_set(INFINITY)));
    const vf safe = vf_pick(is_odd, zero, d);
    group->is_odd = vm_bits(is_odd);
    vf_store(group->d, safe);
    vf_store(group->inv, vf_pick(is_odd, zero, inv));
    group->result = store_halves(group->d16, safe);
}

QNI_INLINE qni_encode_result q8_0_group(const float *x, int n, const q8_group *group,
                                        qni_block_q8_0 *block)
{
#pragma GCC unroll 4
    for (int b = 0; b < n; b++) {
        prefetch_next_piece(x + BLOCK * b, BLOCK);
        qni_store_u16le(block[b].d, group->d16[b]);
        (void)put_rounded(x + BLOCK * b, group->inv[b], block[b].qs);
    }
    return group->result;
}

QNI_INLINE qni_encode_result q8_1_group(const float *x, int n, const q8_group *group,
                                        qni_block_q8_1 *block)
{
    level_part parts[VL];
    uint16_t s16[VL];
    int32_t both[VL]; /* d and s lie side by side */
#pragma GCC unroll 4
    for (int b = 0; b < n; b++) {
        prefetch_next_piece(x + BLOCK * b, BLOCK);
        parts[b] = put_rounded(x + BLOCK * b, group->inv[b], block[b].qs);
    }
    for (int b = n; b < VL; b++) {
        parts[b] = parts[0];
    }
    const vf s = vf_mul(vf_from_vi(sums_of_levels(parts)), vf_load(group->d));
    const qni_encode_result result = store_halves(s16, s);
    const vi low = vi_load_u16((const uint8_t *)group->d16);
    const vi high = vi_load_u16((const uint8_t *)s16);
    vi_store(both, vi_or(low, vi_shl(high, 16)));
    for (int b = 0; b < n; b++) {
        qni_store_u32le(block[b].d, (uint32_t)both[b]);
    }
    return qni_worse(group->result, result);
}

#define ENCODE_Q8(type)                                                                        \
    static qni_encode_result type##_by_referee(const float *x, uint32_t is_odd,                \
                                               qni_block_##type *block)                        \
    {                                                                                          \
        qni_encode_result result = QNI_ENCODE_OK;                                              \
        for (int b = 0; is_odd >> b; b++) {                                                    \
            if (is_odd >> b & 1) {                                                             \
                result = qni_worse(result, qni_encode_##type##_scalar(x + BLOCK * b, 1, BLOCK, \
                                                                      NULL, NULL, block + b)); \
            }                                                                                  \
        }                                                                                      \
        return result;                                                                         \
    }                                                                                          \
    QNI_PROTO_encode(VEC_NAME(qni_encode_##type))                                              \
    {                                                                                          \
        (void)tables, (void)weights;                                                           \
        qni_block_##type *block = out;                                                         \
        qni_encode_result result = QNI_ENCODE_OK;                                              \
        q8_group groups[2];                                                                    \
        int64_t left = n_rows * (row_len / BLOCK);                                             \
        int which = 0;                                                                         \
        if (left < VL && left > 0) {                                                           \
            find_scales(x, (int)left, &groups[0]);                                             \
        } else if (left > 0) {                                                                 \
            find_scales(x, VL, &groups[0]);                                                    \
        }                                                                                      \
        for (; left > 0; left -= VL, block += VL, x += VL * BLOCK, which ^= 1) {               \
            const q8_group *group = &groups[which];                                            \
            if (left >= 2 * VL) {                                                              \
                find_scales(x + VL * BLOCK, VL, &groups[which ^ 1]);                           \
            } else if (left > VL) {                                                            \
                find_scales(x + VL * BLOCK, (int)left - VL, &groups[which ^ 1]);               \
            }                                                                                  \
            if (left >= VL) {                                                                  \
                result = qni_worse(result, type##_group(x, VL, group, block));                 \
            } else {                                                                           \
                result = qni_worse(result, type##_group(x, (int)left, group, block));          \
            }                                                                                  \
            if (QNI_UNLIKELY(group->is_odd)) {                                                 \
                result = qni_worse(result, type##_by_referee(x, group->is_odd, block));        \
            }                                                                                  \
        }                                                                                      \
        return result;                                                                         \
    }
ENCODE_Q8(q8_0)
ENCODE_Q8(q8_1)

/* --- q8_K ----------------------------------------------------------------------------------------
 */

/* Bits of the value of largest magnitude with its sign, of equal ones the first. As signed numbers
 * the positive floats win, as unsigned ones the negative. */
QNI_INLINE uint32_t extreme_of_super(const float *x)
{
    vi hi = vi_set(0);
    vi lo = vi_set(0);
    for (int i = 0; i < SUPER; i += VL) {
        const vi v = vi_bits(vf_load(x + i));
        hi = vi_max(hi, v);
        lo = vi_max_unsigned(lo, v);
    }
    const uint32_t top = (uint32_t)vi_reduce_max(hi);
    const uint32_t bottom = vi_reduce_max_unsigned(lo);
    const uint32_t magnitude = bottom & QNI_F32_ABS_MASK;
    if (QNI_UNLIKELY(magnitude == top && bottom != top && top < QNI_F32_INF)) {
        return qni_f32_bits(qni_absmax(x, SUPER).value);
    }
    return magnitude > top ? bottom : top;
}

QNI_INLINE qni_encode_result q8_k_block(const float *x, uint32_t extreme, qni_block_q8_k *block)
{
    const uint32_t magnitude = extreme & QNI_F32_ABS_MASK;
    /* below 2^-119 the inverse is, or may become, infinite */
    if (QNI_UNLIKELY(magnitude < 0x04000000u || magnitude >= QNI_F32_INF)) {
        return qni_encode_q8_k_scalar(x, 1, SUPER, NULL, NULL, block);
    }
    const float inverse = -127.0f / qni_f32_from_bits(extreme);
    const vf inv = vf_set(inverse);
    vi_part sums[SUPER / VL];
    for (int j = 0; j < SUPER / VL; j += 2) {
        const vi low = vi_nearest(vf_mul(vf_load(x + VL * j), inv));
        const vi high = vi_nearest(vf_mul(vf_load(x + VL * j + VL), inv));
        vi_store_i8x2(block->qs + VL * j, low, high);
        sums[j] = vi_add_part(low);
        sums[j + 1] = vi_add_part(high);
    }
    vi_store_u16((uint16_t *)(void *)block->bsums, vi_add_of_parts(sums));
    qni_store_f32le(block->d, 1.0f / inverse);
    return QNI_ENCODE_OK;
}

QNI_PROTO_encode(VEC_NAME(qni_encode_q8_k))
{
    (void)weights, (void)tables;
    qni_block_q8_k *block = out;
    qni_encode_result result = QNI_ENCODE_OK;
    const int64_t n_blocks = n_rows * (row_len / SUPER);
    uint32_t extreme = n_blocks > 0 ? extreme_of_super(x) : 0;
    for (int64_t i = 0; i < n_blocks; i++, block++, x += SUPER) {
        const uint32_t next = i + 1 < n_blocks ? extreme_of_super(x + SUPER) : 0;
        prefetch_next_piece(x, SUPER);
        result = qni_worse(result, q8_k_block(x, extreme, block));
        extreme = next;
    }
    return result;
}
