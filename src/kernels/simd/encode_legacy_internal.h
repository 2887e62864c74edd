/* encode_legacy_internal.h — q4_0, q4_1, q5_0, q5_1: 32 elements a block, sixteen blocks at a time.
 *
 * Three steps: the extremes of each block; in lanes, one a block, the scales and their reciprocals;
 * element by element the levels. The scales of the next sixteen blocks are found before the levels
 * of those at hand are, so that nothing waits for a division. A NaN never wins a maximum, and its
 * level is 0 as in the referee, the low bits of -2^31: that of any other value is at least 0, so
 * that saturating does as well. Compiled once for each instruction set, which brings
 *
 *   vf_part                       what is left of a vector half-way to its maximum or minimum
 *   vf_max_part(), vf_min_part()  that of a vector; _of_parts(): the results of sixteen, one a lane
 *   put_nibbles(), put_fifths()   levels of 32 values: below 0 they are 0, above 15 or 31 as these
 *
 * The referees are scalar/q4_0_q5_0.c and its neighbours. */
#include <float.h>

#include "kernels/simd/encode_weighted_internal.h"

/* One field of a group of blocks, a block a lane. */
typedef struct legacy_group {
    float lo[VL];  /* least value */
    float hi[VL];  /* greatest value */
    float inv[VL]; /* 1 / scale, or 0 */
    uint16_t d16[VL];
    uint16_t m16[VL];
    qni_encode_result result;
} legacy_group;

/* The first of 32 values with magnitude `mag`. */
static float first_of_magnitude(const float *x, float mag)
{
    int i = 0;
    while (i < BLOCK - 1 && fabsf(x[i]) != mag) {
        i++;
    }
    return x[i];
}

/* --- q4_0, q5_0 ---------------------------------------------------------------------------------
 */

/* Scales of up to sixteen blocks, d = extreme / -m, the extreme being the value of largest
 * magnitude with its sign, of equal ones the first. */
QNI_INLINE void symmetric_scales(const float *x, int n, float m, legacy_group *group)
{
    const vf zero = vf_set(0.0f);
    vf_part hi[VL];
    vf_part lo[VL];
    for (int b = 0; b < VL; b++) {
        const vf v = b < n ? vf_load(x + BLOCK * b) : zero;
        const vf w = b < n ? vf_load(x + BLOCK * b + VL) : zero;
        hi[b] = vf_max_part(vf_max(w, vf_max(v, zero)));
        lo[b] = vf_min_part(vf_min(w, vf_min(v, zero)));
    }
    const vf top = vf_max_of_parts(hi);
    const vf bottom = vf_min_of_parts(lo);
    const vf down = vf_neg(bottom);
    vf_store(group->hi, vf_pick(vf_gt(top, down), top, bottom));
    uint32_t ties = vm_bits(vm_and(vf_eq(top, down), vf_gt(top, zero)));
    for (int b = 0; QNI_UNLIKELY(ties != 0); b++, ties >>= 1) {
        if (ties & 1) {
            group->hi[b] = first_of_magnitude(x + BLOCK * b, fabsf(group->hi[b]));
        }
    }
    const vf d = vf_div(vf_load(group->hi), vf_set(-m));
    vf_store(group->inv, reciprocal(d));
    group->result = store_halves(group->d16, d);
}

QNI_INLINE vi symmetric_level(const float *x, vf inv, float m)
{
    return vi_trunc(vf_add(vf_mul(vf_load(x), inv), vf_set(m + 0.5f)));
}

QNI_INLINE void q4_0_scales(const float *x, int n, legacy_group *group)
{
    symmetric_scales(x, n, 8.0f, group);
}

QNI_INLINE void q4_0_levels(const float *x, int n, const legacy_group *group, qni_block_q4_0 *block)
{
    for (int b = 0; b < n; b++, x += BLOCK, block++) {
        const vf inv = vf_set(group->inv[b]);
        qni_store_u16le(block->d, group->d16[b]);
        put_nibbles(symmetric_level(x, inv, 8.0f), symmetric_level(x + VL, inv, 8.0f), block->qs);
    }
}

QNI_INLINE void q5_0_scales(const float *x, int n, legacy_group *group)
{
    symmetric_scales(x, n, 16.0f, group);
}

QNI_INLINE void q5_0_levels(const float *x, int n, const legacy_group *group, qni_block_q5_0 *block)
{
    for (int b = 0; b < n; b++, x += BLOCK, block++) {
        const vf inv = vf_set(group->inv[b]);
        qni_store_u16le(block->d, group->d16[b]);
        put_fifths(symmetric_level(x, inv, 16.0f), symmetric_level(x + VL, inv, 16.0f), block->qh,
                   block->qs);
    }
}

/* --- q4_1, q5_1 ---------------------------------------------------------------------------------
 */

/* Minimum and maximum of up to sixteen blocks, d = (maximum - minimum) / m. */
QNI_INLINE void affine_scales(const float *x, int n, float m, legacy_group *group)
{
    const vf least = vf_set(-FLT_MAX);
    const vf greatest = vf_set(FLT_MAX);
    const vf zero = vf_set(0.0f);
    vf_part hi_parts[VL];
    vf_part lo_parts[VL];
    for (int b = 0; b < VL; b++) {
        const vf v = b < n ? vf_load(x + BLOCK * b) : zero;
        const vf w = b < n ? vf_load(x + BLOCK * b + VL) : zero;
        hi_parts[b] = vf_max_part(vf_max(w, vf_max(v, least)));
        lo_parts[b] = vf_min_part(vf_min(w, vf_min(v, greatest)));
    }
    vf_store(group->lo, vf_min_of_parts(lo_parts));
    /* of zeros of both signs the first is the minimum, and its sign is stored */
    uint32_t zeros = vm_bits(vf_eq(vf_load(group->lo), zero));
    for (int b = 0; QNI_UNLIKELY(zeros != 0) && b < n; b++, zeros >>= 1) {
        if (zeros & 1) {
            group->lo[b] = first_of_magnitude(x + BLOCK * b, 0.0f);
        }
    }
    const vf lo = vf_load(group->lo);
    const vf hi = vf_add(vf_max_of_parts(hi_parts), zero); /* never -0: hi - lo = +0 */
    const vf d = vf_div(vf_sub(hi, lo), vf_set(m));
    vf_store(group->inv, reciprocal(d));
    group->result = qni_worse(store_halves(group->d16, d), store_halves(group->m16, lo));
}

QNI_INLINE vi affine_levels_of(const float *x, vf lo, vf inv)
{
    return vi_trunc(vf_add(vf_mul(vf_sub(vf_load(x), lo), inv), vf_set(0.5f)));
}

QNI_INLINE void q4_1_scales(const float *x, int n, legacy_group *group)
{
    affine_scales(x, n, 15.0f, group);
}

QNI_INLINE void q4_1_levels(const float *x, int n, const legacy_group *group, qni_block_q4_1 *block)
{
    for (int b = 0; b < n; b++, x += BLOCK, block++) {
        const vf inv = vf_set(group->inv[b]);
        const vf lo = vf_set(group->lo[b]);
        qni_store_u16le(block->d, group->d16[b]);
        qni_store_u16le(block->m, group->m16[b]);
        put_nibbles(affine_levels_of(x, lo, inv), affine_levels_of(x + VL, lo, inv), block->qs);
    }
}

QNI_INLINE void q5_1_scales(const float *x, int n, legacy_group *group)
{
    affine_scales(x, n, 31.0f, group);
}

QNI_INLINE void q5_1_levels(const float *x, int n, const legacy_group *group, qni_block_q5_1 *block)
{
    for (int b = 0; b < n; b++, x += BLOCK, block++) {
        const vf inv = vf_set(group->inv[b]);
        const vf lo = vf_set(group->lo[b]);
        qni_store_u16le(block->d, group->d16[b]);
        qni_store_u16le(block->m, group->m16[b]);
        put_fifths(affine_levels_of(x, lo, inv), affine_levels_of(x + VL, lo, inv), block->qh,
                   block->qs);
    }
}

/* --- entry points -------------------------------------------------------------------------------
 */

/* Defines the encoder of a type with importance weights, and of one without. */
#define ENCODE_WEIGHTED(type)                                                                     \
    QNI_PROTO_encode(VEC_NAME(qni_encode_##type))                                                 \
    {                                                                                             \
        (void)tables;                                                                             \
        qni_block_##type *block = out;                                                            \
        if (weights) {                                                                            \
            return weighted_encode(type##_weighted, qni_encode_##type##_scalar, sizeof *block, x, \
                                   n_rows, row_len, weights, out);                                \
        }                                                                                         \
        return type##_groups(x, n_rows * (row_len / BLOCK), block);                               \
    }

/* With the number of blocks a constant for all groups but the last. */
#define ENCODE_GROUPS(type)                                                                       \
    static qni_encode_result type##_groups(const float *x, int64_t left, qni_block_##type *block) \
    {                                                                                             \
        qni_encode_result result = QNI_ENCODE_OK;                                                 \
        legacy_group groups[2];                                                                   \
        int which = 0;                                                                            \
        if (left >= VL) {                                                                         \
            type##_scales(x, VL, &groups[0]);                                                     \
        } else if (left > 0) {                                                                    \
            type##_scales(x, (int)left, &groups[0]);                                              \
        }                                                                                         \
        for (; left > 0; left -= VL, block += VL, x += VL * BLOCK, which ^= 1) {                  \
            const legacy_group *group = &groups[which];                                           \
            prefetch_next_piece(x, VL *BLOCK);                                                    \
            if (left >= 2 * VL) {                                                                 \
                type##_scales(x + VL * BLOCK, VL, &groups[which ^ 1]);                            \
            } else if (left > VL) {                                                               \
                type##_scales(x + VL * BLOCK, (int)left - VL, &groups[which ^ 1]);                \
            }                                                                                     \
            if (left >= VL) {                                                                     \
                type##_levels(x, VL, group, block);                                               \
            } else {                                                                              \
                type##_levels(x, (int)left, group, block);                                        \
            }                                                                                     \
            result = qni_worse(result, group->result);                                            \
        }                                                                                         \
        return result;                                                                            \
    }

ENCODE_GROUPS(q4_0)
ENCODE_GROUPS(q4_1)
ENCODE_GROUPS(q5_0)
ENCODE_GROUPS(q5_1)
ENCODE_WEIGHTED(q4_0)
ENCODE_WEIGHTED(q4_1)
ENCODE_WEIGHTED(q5_0)
ENCODE_WEIGHTED(q5_1)
