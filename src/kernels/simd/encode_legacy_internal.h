/* encode_legacy_internal.h — q4_0, q4_1, q5_0, q5_1, q8_0, q8_1: 32 elements a block, sixteen
 * blocks at a time. (On x86 the last two are in x86/encode_q8_avx2.c.)
 *
 * Three steps: the extremes of each block; in lanes, one a block, the scales and their reciprocals;
 * element by element the levels. A NaN never wins a maximum and its level is the low byte of -2^31,
 * as in the referee, without further care; what needs care is left to the referee, block by block.
 * Compiled once for each instruction set; the referees are scalar/q4_0_q5_0.c and its neighbours.
 */
#include <float.h>

#include "kernels/simd/encode_weighted_internal.h"

/* One field of a group of blocks, a block a lane. */
typedef struct legacy_group {
    float lo[VL];  /* least value, or magnitude as bits */
    float hi[VL];  /* greatest value */
    float d[VL];   /* unrounded scale */
    float inv[VL]; /* 1 / d, or 0 */
    uint16_t d16[VL];
    uint16_t m16[VL];
    uint32_t is_odd; /* lanes that the referee must do */
} legacy_group;

/* 1 / d, and 0 for d = 0. */
QNI_INLINE vf reciprocal(vf d)
{
    return vf_pick(vf_eq(d, vf_set(0.0f)), vf_set(0.0f), vf_div(vf_set(1.0f), d));
}

/* Binary16 fields of numbers that are not NaN, and whether one is infinite. */
QNI_INLINE qni_encode_result store_halves(uint16_t *halves, vf v)
{
    vf_store_f16(halves, v);
    return vm_any(vf_ge(vf_abs(v), vf_set(65520.0f))) ? QNI_ENCODE_OVERFLOW : QNI_ENCODE_OK;
}

/* The first of 32 values with magnitude `mag`. */
static float first_of_magnitude(const float *x, float mag)
{
    int i = 0;
    while (i < BLOCK - 1 && fabsf(x[i]) != mag) {
        i++;
    }
    return x[i];
}

/* The value of largest magnitude with its sign, of equal ones the first. */
QNI_INLINE float block_extreme(const float *x)
{
    const vf zero = vf_set(0.0f);
    const vf a = vf_load(x);
    const vf b = vf_load(x + VL);
    const float hi = vf_reduce_max(vf_max(b, vf_max(a, zero)));
    const float lo = vf_reduce_min(vf_min(b, vf_min(a, zero)));
    if (hi == -lo) {
        return hi == 0.0f ? 0.0f : first_of_magnitude(x, hi);
    }
    return hi > -lo ? hi : lo;
}

/* --- q4_0, q5_0 ---------------------------------------------------------------------------------
 */

/* Scales of up to sixteen blocks, d = extreme / -m. */
QNI_INLINE qni_encode_result symmetric_scales(const float *x, int n, float m, legacy_group *group)
{
    for (int b = 0; b < VL; b++) {
        group->hi[b] = b < n ? block_extreme(x + BLOCK * b) : 0.0f;
    }
    const vf d = vf_div(vf_load(group->hi), vf_set(-m));
    vf_store(group->inv, reciprocal(d));
    return store_halves(group->d16, d);
}

QNI_INLINE vi symmetric_level(const float *x, vf inv, int m)
{
    const vf v = vf_add(vf_mul(vf_load(x), inv), vf_set((float)m + 0.5f));
    return vi_min(vi_trunc(v), vi_set(2 * m - 1));
}

static qni_encode_result q4_0_group(const float *x, int n, qni_block_q4_0 *block)
{
    legacy_group group;
    const qni_encode_result result = symmetric_scales(x, n, 8.0f, &group);
    for (int b = 0; b < n; b++, x += BLOCK, block++) {
        const vf inv = vf_set(group.inv[b]);
        const vi low = symmetric_level(x, inv, 8);
        const vi high = symmetric_level(x + VL, inv, 8);
        qni_store_u16le(block->d, group.d16[b]);
        vi_store_u8(block->qs, vi_or(low, vi_shl(high, 4)));
    }
    return result;
}

/* Nibbles and fifth bits of 32 levels; of a level that is not 0..31 (-2^31) the low five bits. */
QNI_INLINE void store_fifth_bits(vi low, vi high, uint8_t *qh, uint8_t *qs)
{
    const vi fifth = vi_set(16);
    const vi nibble = vi_set(15);
    const uint32_t bits = vm_bits(vi_eq(vi_and(low, fifth), fifth)) |
                          vm_bits(vi_eq(vi_and(high, fifth), fifth)) << 16;
    qni_store_u32le(qh, bits);
    const vi top = vi_and(high, nibble);
    vi_store_u8(qs, vi_or(vi_and(low, nibble), vi_shl(top, 4)));
}

static qni_encode_result q5_0_group(const float *x, int n, qni_block_q5_0 *block)
{
    legacy_group group;
    const qni_encode_result result = symmetric_scales(x, n, 16.0f, &group);
    for (int b = 0; b < n; b++, x += BLOCK, block++) {
        const vf inv = vf_set(group.inv[b]);
        qni_store_u16le(block->d, group.d16[b]);
        store_fifth_bits(symmetric_level(x, inv, 16), symmetric_level(x + VL, inv, 16), block->qh,
                         block->qs);
    }
    return result;
}

/* --- q4_1, q5_1 ---------------------------------------------------------------------------------
 */

/* Minimum and maximum. Of zeros of both signs the first is the minimum, and its sign is stored. */
QNI_INLINE void block_range(const float *x, float *lo, float *hi)
{
    const vf a = vf_load(x);
    const vf b = vf_load(x + VL);
    *hi = vf_reduce_max(vf_max(b, vf_max(a, vf_set(-FLT_MAX)))) + 0.0f; /* never -0: hi - lo = +0 */
    *lo = vf_reduce_min(vf_min(b, vf_min(a, vf_set(FLT_MAX))));
    if (*lo == 0.0f) {
        *lo = first_of_magnitude(x, 0.0f);
    }
}

QNI_INLINE qni_encode_result affine_scales(const float *x, int n, float m, legacy_group *group)
{
    for (int b = 0; b < VL; b++) {
        group->lo[b] = 0.0f;
        group->hi[b] = 0.0f;
        if (b < n) {
            block_range(x + BLOCK * b, &group->lo[b], &group->hi[b]);
        }
    }
    const vf lo = vf_load(group->lo);
    const vf hi = vf_load(group->hi);
    const vf d = vf_div(vf_sub(hi, lo), vf_set(m));
    vf_store(group->inv, reciprocal(d));
    return qni_worse(store_halves(group->d16, d), store_halves(group->m16, lo));
}

QNI_INLINE vi affine_levels_of(const float *x, vf lo, vf inv)
{
    const vf v = vf_mul(vf_sub(vf_load(x), lo), inv);
    return vi_trunc(vf_add(v, vf_set(0.5f)));
}

static qni_encode_result q4_1_group(const float *x, int n, qni_block_q4_1 *block)
{
    legacy_group group;
    const qni_encode_result result = affine_scales(x, n, 15.0f, &group);
    for (int b = 0; b < n; b++, x += BLOCK, block++) {
        const vf inv = vf_set(group.inv[b]);
        const vf lo = vf_set(group.lo[b]);
        const vi low = vi_min(affine_levels_of(x, lo, inv), vi_set(15));
        const vi high = vi_min(affine_levels_of(x + VL, lo, inv), vi_set(15));
        qni_store_u16le(block->d, group.d16[b]);
        qni_store_u16le(block->m, group.m16[b]);
        vi_store_u8(block->qs, vi_or(low, vi_shl(high, 4)));
    }
    return result;
}

static qni_encode_result q5_1_group(const float *x, int n, qni_block_q5_1 *block)
{
    legacy_group group;
    const qni_encode_result result = affine_scales(x, n, 31.0f, &group);
    for (int b = 0; b < n; b++, x += BLOCK, block++) {
        const vf inv = vf_set(group.inv[b]);
        const vf lo = vf_set(group.lo[b]);
        qni_store_u16le(block->d, group.d16[b]);
        qni_store_u16le(block->m, group.m16[b]);
        store_fifth_bits(affine_levels_of(x, lo, inv), affine_levels_of(x + VL, lo, inv), block->qh,
                         block->qs);
    }
    return result;
}

#if !VEC_HAS_OWN_Q8
/* --- q8_0, q8_1 ---------------------------------------------------------------------------------
 */

/* Half away from zero, for |v| < 2^22: the largest float below 1/2, with the sign of v, carries
 * exactly those over that must be. */
QNI_INLINE vi round_away(vf v)
{
    const vi sign = vi_and(vi_bits(v), vi_set(INT32_MIN));
    const vi almost_half = vi_or(sign, vi_set(0x3effffff));
    return vi_trunc(vf_add(v, vf_bits(almost_half)));
}

/* Scales from the largest magnitudes. Magnitudes compare as integers, so that NaN shows itself. */
QNI_INLINE qni_encode_result q8_scales(const float *x, int n, legacy_group *group)
{
    const vi mask = vi_set((int32_t)QNI_F32_ABS_MASK);
    int32_t mags[VL] = {0};
    for (int b = 0; b < n; b++) {
        const vi low = vi_and(vi_bits(vf_load(x + BLOCK * b)), mask);
        const vi high = vi_and(vi_bits(vf_load(x + BLOCK * b + VL)), mask);
        mags[b] = vi_reduce_max(vi_max(low, high));
    }
    const vi bits = vi_load(mags);
    const vf d = vf_div(vf_bits(bits), vf_set(127.0f));
    const vf inv = reciprocal(d);
    const vm is_odd =
        vm_or(vi_gt(bits, vi_set((int32_t)QNI_F32_INF - 1)), vf_eq(inv, vf_set(INFINITY)));
    group->is_odd = vm_bits(is_odd);
    const vf safe = vf_pick(is_odd, vf_set(0.0f), d);
    vf_store(group->d, safe);
    vf_store(group->inv, vf_pick(is_odd, vf_set(0.0f), inv));
    return store_halves(group->d16, safe);
}

static qni_encode_result q8_0_group(const float *x, int n, qni_block_q8_0 *block)
{
    legacy_group group;
    qni_encode_result result = q8_scales(x, n, &group);
    for (int b = 0; b < n; b++) {
        const float *from = x + BLOCK * b;
        const vf inv = vf_set(group.inv[b]);
        qni_store_u16le(block[b].d, group.d16[b]);
        vi_store_i8x2(block[b].qs, round_away(vf_mul(vf_load(from), inv)),
                      round_away(vf_mul(vf_load(from + VL), inv)));
    }
    for (int b = 0; QNI_UNLIKELY(group.is_odd >> b); b++) {
        if (group.is_odd >> b & 1) {
            result = qni_worse(
                result, qni_encode_q8_0_scalar(x + BLOCK * b, 1, BLOCK, NULL, NULL, block + b));
        }
    }
    return result;
}

static qni_encode_result q8_1_group(const float *x, int n, qni_block_q8_1 *block)
{
    legacy_group group;
    int32_t sums[VL] = {0};
    uint16_t s16[VL];
    qni_encode_result result = q8_scales(x, n, &group);
    for (int b = 0; b < n; b++) {
        const float *from = x + BLOCK * b;
        const vf inv = vf_set(group.inv[b]);
        const vi low = round_away(vf_mul(vf_load(from), inv));
        const vi high = round_away(vf_mul(vf_load(from + VL), inv));
        qni_store_u16le(block[b].d, group.d16[b]);
        vi_store_i8x2(block[b].qs, low, high);
        sums[b] = vi_reduce_add(vi_add(low, high));
    }
    const vf s = vf_mul(vf_from_vi(vi_load(sums)), vf_load(group.d));
    result = qni_worse(result, store_halves(s16, s));
    for (int b = 0; b < n; b++) {
        qni_store_u16le(block[b].s, s16[b]);
        if (QNI_UNLIKELY(group.is_odd >> b & 1)) {
            result = qni_worse(
                result, qni_encode_q8_1_scalar(x + BLOCK * b, 1, BLOCK, NULL, NULL, block + b));
        }
    }
    return result;
}

#endif

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

#define ENCODE_PLAIN(type)                                        \
    QNI_PROTO_encode(VEC_NAME(qni_encode_##type))                 \
    {                                                             \
        (void)tables, (void)weights;                              \
        return type##_groups(x, n_rows * (row_len / BLOCK), out); \
    }

#define ENCODE_GROUPS(type)                                                        \
    static qni_encode_result type##_groups(const float *x, int64_t n_blocks,       \
                                           qni_block_##type *block)                \
    {                                                                              \
        qni_encode_result result = QNI_ENCODE_OK;                                  \
        for (int64_t i = 0; i < n_blocks; i += VL) {                               \
            const int n = n_blocks - i < VL ? (int)(n_blocks - i) : VL;            \
            prefetch_next_piece(x + BLOCK * i, BLOCK * n);                         \
            result = qni_worse(result, type##_group(x + BLOCK * i, n, block + i)); \
        }                                                                          \
        return result;                                                             \
    }

ENCODE_GROUPS(q4_0)
ENCODE_GROUPS(q4_1)
ENCODE_GROUPS(q5_0)
ENCODE_GROUPS(q5_1)
ENCODE_WEIGHTED(q4_0)
ENCODE_WEIGHTED(q4_1)
ENCODE_WEIGHTED(q5_0)
ENCODE_WEIGHTED(q5_1)
#if !VEC_HAS_OWN_Q8
ENCODE_GROUPS(q8_0)
ENCODE_GROUPS(q8_1)
ENCODE_PLAIN(q8_0)
ENCODE_PLAIN(q8_1)
#endif
