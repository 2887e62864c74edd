/* k_pack_internal.h — how the K types lay out codes and levels in their bytes, for every encoder
 * and decoder of them. The diagrams stand in scalar/q2_k.c and its neighbours. */
#ifndef QNI_K_PACK_INTERNAL_H
#define QNI_K_PACK_INTERNAL_H

#include "kernels/numeric_internal.h"

/* --- q3_K: 16 six-bit codes in 12 bytes ---------------------------------------------------------
 */

QNI_INLINE int32_t qni_q3_k_code(const uint8_t *packed, int j)
{
    const int32_t low = packed[j % 8] >> (j < 8 ? 0 : 4) & 15;
    const int32_t high = packed[8 + j % 4] >> (2 * (j / 4)) & 3;
    return low | high << 4;
}

QNI_INLINE void qni_pack_q3_k_codes(const uint8_t *codes, uint8_t *packed)
{
    memset(packed, 0, 12);
    for (int j = 0; j < 16; j++) {
        packed[j % 8] = (uint8_t)(packed[j % 8] | (codes[j] & 15) << (j < 8 ? 0 : 4));
        packed[8 + j % 4] = (uint8_t)(packed[8 + j % 4] | codes[j] >> 4 << (2 * (j / 4)));
    }
}

/* Levels 0..7; they are masked to the bits of the planes. */
QNI_INLINE void qni_pack_q3_k_levels(uint8_t *levels, qni_block_q3_k *block)
{
    for (int l = 0; l < 32; l++) {
        uint32_t high = 0;
        for (int g = 0; g < 8; g++) {
            high |= (uint32_t)levels[32 * g + l] >> 2 << g;
        }
        block->hmask[l] = (uint8_t)high;
    }
    for (int i = 0; i < QNI_SUPER; i++) {
        levels[i] &= 3;
    }
    qni_pack_planes(levels, block->qs);
}

/* --- q4_K, q5_K: eight scale and eight minimum codes of six bits in 12 bytes --------------------
 */

QNI_INLINE int32_t qni_k_scale_code(const uint8_t *t, int j)
{
    return j < 4 ? t[j] & 63 : (t[j + 4] & 15) | t[j - 4] >> 6 << 4;
}

QNI_INLINE int32_t qni_k_offset_code(const uint8_t *t, int j)
{
    return j < 4 ? t[j + 4] & 63 : t[j + 4] >> 4 | t[j] >> 6 << 4;
}

/* A code above 63 spills into its neighbours, as the reference's does. */
QNI_INLINE void qni_pack_k_codes(const uint8_t *sc, const uint8_t *mn, uint8_t *t)
{
    for (int j = 0; j < 4; j++) {
        t[j] = sc[j];
        t[j + 4] = mn[j];
    }
    for (int j = 4; j < 8; j++) {
        t[j + 4] = (uint8_t)((sc[j] & 15) | (mn[j] & 15) << 4);
        t[j - 4] = (uint8_t)(t[j - 4] | sc[j] >> 4 << 6);
        t[j] = (uint8_t)(t[j] | mn[j] >> 4 << 6);
    }
}

QNI_INLINE void qni_pack_q4_k_levels(const uint8_t *levels, qni_block_q4_k *block)
{
    for (int group = 0; group < QNI_SUPER / 64; group++) {
        qni_pack_nibbles(levels + 64 * group, 64, block->qs + 32 * group);
    }
}

/* Levels 0..31; they are masked to the bits of the nibbles. */
QNI_INLINE void qni_pack_q5_k_levels(uint8_t *levels, qni_block_q5_k *block)
{
    for (int l = 0; l < 32; l++) {
        uint32_t high = 0;
        for (int g = 0; g < 8; g++) {
            high |= (uint32_t)levels[32 * g + l] >> 4 << g;
        }
        block->qh[l] = (uint8_t)high;
    }
    for (int i = 0; i < QNI_SUPER; i++) {
        levels[i] &= 15;
    }
    for (int group = 0; group < QNI_SUPER / 64; group++) {
        qni_pack_nibbles(levels + 64 * group, 64, block->qs + 32 * group);
    }
}

/* --- q6_K ---------------------------------------------------------------------------------------
 */

QNI_INLINE void qni_pack_q6_k_levels(const uint8_t *levels, qni_block_q6_k *block)
{
    uint8_t part[QNI_SUPER];
    for (int i = 0; i < QNI_SUPER; i++) {
        part[i] = levels[i] & 15;
    }
    for (int half = 0; half < 2; half++) {
        qni_pack_nibbles(part + 128 * half, 128, block->ql + 64 * half);
    }
    for (int i = 0; i < QNI_SUPER; i++) {
        part[i] = levels[i] >> 4;
    }
    qni_pack_planes(part, block->qh);
}

#endif
