/* encode_16_avx2.c — f16 and bf16 straight to q4_0, q5_0 and q8_0 on AVX2: most of a conversion's
 * time would go by on the way over floats in memory. The bytes are those of decode and encode.
 *
 * Sixteen blocks at a time, in the steps of simd/encode_legacy_internal.h and encode_q8_internal.h;
 * the scales of the next sixteen are found before the levels of those at hand. Floats of 16 bits
 * compare as integers: signed, the greatest positive one wins; unsigned, the negative one of
 * greatest magnitude; and an infinity or a NaN wins over all numbers and shows itself. So the
 * extremes take two instructions for sixteen values, and widening only the levels need. */
#include "kernels/x86/vec_avx2_internal.h"

#include "kernels/simd/batch_lanes_internal.h"
#include "kernels/x86/levels_avx2_internal.h"

enum { BLOCK = 32, BLOCK_IN_BYTES = 2 * BLOCK, MAX_BLOCK_BYTES = sizeof(qni_block_q8_0) };

/* The two types of input. */
typedef enum half_kind { FROM_F16, FROM_BF16 } half_kind;

/* What is stored and multiplied by, a block a lane. */
typedef struct half_group {
    float inv[VL];
    uint16_t d16[VL];
} half_group;

/* Scales of sixteen blocks; false if one of them is not plain. */
typedef bool (*half_scales_fn)(half_kind from, const uint8_t *x, half_group *group);
/* The blocks themselves. */
typedef void (*half_levels_fn)(half_kind from, const uint8_t *x, const half_group *group,
                               uint8_t *blocks);

QNI_INLINE __m256i load_halves(const uint8_t *x)
{
    return _mm256_loadu_si256((const __m256i *)(const void *)x);
}

QNI_INLINE __m256 widen_8(half_kind from, __m128i halves)
{
    return from == FROM_F16
               ? _mm256_cvtph_ps(halves)
               : _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(halves), 16));
}

/* Sixteen values. */
QNI_INLINE vf widen(half_kind from, const uint8_t *x)
{
    return (vf){widen_8(from, vb_load(x)), widen_8(from, vb_load(x + 16))};
}

/* The greatest lanes of sixteen vectors: lane i is that of v[i]. */
#define EXTREME_OF_16(name, op)                                                                  \
    QNI_INLINE __m256i name##_of_2(const __m256i *v)                                             \
    {                                                                                            \
        return op(_mm256_unpacklo_epi16(v[0], v[1]), _mm256_unpackhi_epi16(v[0], v[1]));         \
    }                                                                                            \
    QNI_INLINE __m256i name##_of_4(const __m256i *v)                                             \
    {                                                                                            \
        const __m256i a = name##_of_2(v);                                                        \
        const __m256i b = name##_of_2(v + 2);                                                    \
        return op(_mm256_unpacklo_epi32(a, b), _mm256_unpackhi_epi32(a, b));                     \
    }                                                                                            \
    QNI_INLINE __m256i name##_of_8(const __m256i *v)                                             \
    {                                                                                            \
        const __m256i a = name##_of_4(v);                                                        \
        const __m256i b = name##_of_4(v + 4);                                                    \
        return op(_mm256_unpacklo_epi64(a, b), _mm256_unpackhi_epi64(a, b));                     \
    }                                                                                            \
    QNI_INLINE __m256i name##_of_16(const __m256i *v)                                            \
    {                                                                                            \
        const __m256i a = name##_of_8(v);                                                        \
        const __m256i b = name##_of_8(v + 8);                                                    \
        return op(_mm256_permute2x128_si256(a, b, 0x20), _mm256_permute2x128_si256(a, b, 0x31)); \
    }
EXTREME_OF_16(signed_max, _mm256_max_epi16)
EXTREME_OF_16(unsigned_max, _mm256_max_epu16)

QNI_INLINE bool has_non_finite(half_kind from, __m256i magnitudes)
{
    const int16_t greatest = from == FROM_F16 ? 0x7bff : 0x7f7f;
    return _mm256_movemask_epi8(_mm256_cmpgt_epi16(magnitudes, _mm256_set1_epi16(greatest))) != 0;
}

/* Scales d and their inverses, multiplied by `times`. Those of f16 are always good: the least
 * magnitude is 2^-24, the greatest 65504. */
QNI_INLINE bool set_scales(half_kind from, vf d, float times, half_group *group)
{
    const vf inv = vf_mul(reciprocal(d), vf_set(times));
    vf_store(group->inv, inv);
    const qni_encode_result result = store_halves(group->d16, d);
    return from == FROM_F16 ||
           (result == QNI_ENCODE_OK && !vm_any(vf_eq(vf_abs(inv), vf_set(INFINITY))));
}

/* --- q8_0 ---------------------------------------------------------------------------------------
 */

QNI_INLINE bool q8_0_scales(half_kind from, const uint8_t *x, half_group *group)
{
    const __m256i mask = _mm256_set1_epi16(0x7fff);
    __m256i greatest[VL];
    for (int b = 0; b < VL; b++, x += BLOCK_IN_BYTES) {
        greatest[b] = _mm256_max_epi16(_mm256_and_si256(load_halves(x), mask),
                                       _mm256_and_si256(load_halves(x + 32), mask));
    }
    const __m256i magnitudes = signed_max_of_16(greatest);
    uint16_t halves[VL];
    _mm256_storeu_si256((__m256i *)(void *)halves, magnitudes);
    const vf d = vf_div(widen(from, (const uint8_t *)halves), vf_set(127.0f));
    return set_scales(from, d, ROUNDED_TIMES, group) && !has_non_finite(from, magnitudes);
}

QNI_INLINE void q8_0_levels(half_kind from, const uint8_t *x, const half_group *group,
                            uint8_t *blocks)
{
    qni_block_q8_0 *block = (qni_block_q8_0 *)blocks;
#pragma GCC unroll 4
    for (int b = 0; b < VL; b++, x += BLOCK_IN_BYTES, block++) {
        qni_store_u16le(block->d, group->d16[b]);
        (void)put_rounded_values(widen(from, x), widen(from, x + 32), group->inv[b], block->qs);
    }
}

/* --- q4_0, q5_0 ---------------------------------------------------------------------------------
 */

/* The first value of a block with the magnitude of `half`. */
static uint16_t first_of_magnitude(const uint8_t *x, uint16_t half)
{
    int i = 0;
    while (i < BLOCK - 1 && ((qni_load_u16le(x + 2 * i) ^ half) & 0x7fff) != 0) {
        i++;
    }
    return qni_load_u16le(x + 2 * i);
}

/* d = extreme / -m, the extreme being the value of largest magnitude with its sign, of equal ones
 * the first. */
QNI_INLINE bool symmetric_scales(half_kind from, const uint8_t *x, float m, half_group *group)
{
    const __m256i zero = _mm256_setzero_si256();
    __m256i hi[VL];
    __m256i lo[VL];
    for (int b = 0; b < VL; b++) {
        const __m256i v = load_halves(x + BLOCK_IN_BYTES * b);
        const __m256i w = load_halves(x + BLOCK_IN_BYTES * b + 32);
        hi[b] = _mm256_max_epi16(v, w);
        lo[b] = _mm256_max_epu16(v, w);
    }
    const __m256i top = _mm256_max_epi16(signed_max_of_16(hi), zero);
    const __m256i bottom = unsigned_max_of_16(lo);
    const __m256i down = _mm256_and_si256(bottom, _mm256_set1_epi16(0x7fff));
    uint16_t extreme[VL];
    _mm256_storeu_si256((__m256i *)(void *)extreme,
                        _mm256_blendv_epi8(top, bottom, _mm256_cmpgt_epi16(down, top)));
    const __m256i is_tie = _mm256_and_si256(
        _mm256_cmpgt_epi16(zero, bottom),
        _mm256_and_si256(_mm256_cmpeq_epi16(down, top), _mm256_cmpgt_epi16(top, zero)));
    uint32_t ties = (uint32_t)_mm256_movemask_epi8(is_tie);
    for (int b = 0; QNI_UNLIKELY(ties != 0); b++, ties >>= 2) {
        if (ties & 1) {
            extreme[b] = first_of_magnitude(x + BLOCK_IN_BYTES * b, extreme[b]);
        }
    }
    const vf d = vf_div(widen(from, (const uint8_t *)extreme), vf_set(-m));
    return set_scales(from, d, 1.0f, group) && !has_non_finite(from, _mm256_max_epi16(top, down));
}

QNI_INLINE vi symmetric_level(half_kind from, const uint8_t *x, vf inv, float m)
{
    return vi_trunc(vf_add(vf_mul(widen(from, x), inv), vf_set(m + 0.5f)));
}

QNI_INLINE bool q4_0_scales(half_kind from, const uint8_t *x, half_group *group)
{
    return symmetric_scales(from, x, 8.0f, group);
}

QNI_INLINE void q4_0_levels(half_kind from, const uint8_t *x, const half_group *group,
                            uint8_t *blocks)
{
    qni_block_q4_0 *block = (qni_block_q4_0 *)blocks;
#pragma GCC unroll 4
    for (int b = 0; b < VL; b++, x += BLOCK_IN_BYTES, block++) {
        const vf inv = vf_set(group->inv[b]);
        qni_store_u16le(block->d, group->d16[b]);
        put_nibbles(symmetric_level(from, x, inv, 8.0f), symmetric_level(from, x + 32, inv, 8.0f),
                    block->qs);
    }
}

QNI_INLINE bool q5_0_scales(half_kind from, const uint8_t *x, half_group *group)
{
    return symmetric_scales(from, x, 16.0f, group);
}

QNI_INLINE void q5_0_levels(half_kind from, const uint8_t *x, const half_group *group,
                            uint8_t *blocks)
{
    qni_block_q5_0 *block = (qni_block_q5_0 *)blocks;
#pragma GCC unroll 4
    for (int b = 0; b < VL; b++, x += BLOCK_IN_BYTES, block++) {
        const vf inv = vf_set(group->inv[b]);
        qni_store_u16le(block->d, group->d16[b]);
        put_fifths(symmetric_level(from, x, inv, 16.0f), symmetric_level(from, x + 32, inv, 16.0f),
                   block->qh, block->qs);
    }
}

/* --- entry points -------------------------------------------------------------------------------
 */

/* What is left at the end, fewer than sixteen blocks, with zeros after them. */
QNI_INLINE bool encode_rest(half_scales_fn scales, half_levels_fn levels, half_kind from,
                            size_t n_block_bytes, const uint8_t *x, size_t n_blocks, uint8_t *out)
{
    uint8_t padded[VL * BLOCK_IN_BYTES] = {0};
    uint8_t blocks[VL * MAX_BLOCK_BYTES];
    half_group group;
    memcpy(padded, x, n_blocks * BLOCK_IN_BYTES);
    if (!scales(from, padded, &group)) {
        return false;
    }
    levels(from, padded, &group, blocks);
    memcpy(out, blocks, n_blocks * n_block_bytes);
    return true;
}

QNI_INLINE bool encode_halves(half_scales_fn scales, half_levels_fn levels, half_kind from,
                              size_t n_block_bytes, const uint8_t *x, int64_t n_blocks,
                              uint8_t *out)
{
    half_group groups[2];
    int which = 0;
    bool is_plain = n_blocks < VL || scales(from, x, &groups[0]);
    for (; is_plain && n_blocks >= VL; n_blocks -= VL, which ^= 1) {
        is_plain = n_blocks < 2 * VL || scales(from, x + VL * BLOCK_IN_BYTES, &groups[which ^ 1]);
        levels(from, x, &groups[which], out);
        x += VL * BLOCK_IN_BYTES;
        out += VL * n_block_bytes;
    }
    return is_plain && (n_blocks == 0 ||
                        encode_rest(scales, levels, from, n_block_bytes, x, (size_t)n_blocks, out));
}

#define ENCODE_FROM(type, kind, from)                                                         \
    QNI_PROTO_encode_from_##kind(qni_encode_from_##kind##_##type##_avx2)                      \
    {                                                                                         \
        return encode_halves(type##_scales, type##_levels, from, sizeof(qni_block_##type), x, \
                             n_blocks, out);                                                  \
    }
ENCODE_FROM(q4_0, f16, FROM_F16)
ENCODE_FROM(q4_0, bf16, FROM_BF16)
ENCODE_FROM(q5_0, f16, FROM_F16)
ENCODE_FROM(q5_0, bf16, FROM_BF16)
ENCODE_FROM(q8_0, f16, FROM_F16)
ENCODE_FROM(q8_0, bf16, FROM_BF16)
