/* tile_neon_i8mm_internal.h — the primitives of products over tiles on NEON with the matrix
 * instructions: smmla multiplies eight elements of two rows by eight of two columns. A single
 * column, and everything but the sums, is that of the dot product instructions. */
#ifndef QNI_TILE_NEON_I8MM_INTERNAL_H
#define QNI_TILE_NEON_I8MM_INTERNAL_H

#define TILE_NAME(base) base##_neon_i8mm
#define TILE_HAS_PAIRS  1

#include "kernels/arm/tile_neon_dotprod_internal.h"

/* Eight elements of 16 rows, two rows a register. */
typedef struct tile_e {
    int8x16_t q[8];
} tile_e;

/* Sums of 16 rows with two columns: of rows 2 i and 2 i + 1, column after column. */
typedef struct tile_p {
    int32x4_t q[8];
} tile_p;

/* Two groups of four elements. */
QNI_INLINE tile_e tile_eights(tile_w first, tile_w second)
{
    tile_e w;
    FOUR(const uint32x4_t a = vreinterpretq_u32_u8(first.q[i]);
         const uint32x4_t b = vreinterpretq_u32_u8(second.q[i]);
         w.q[2 * i] = vreinterpretq_s8_u32(vzip1q_u32(a, b));
         w.q[2 * i + 1] = vreinterpretq_s8_u32(vzip2q_u32(a, b)))
    return w;
}

QNI_INLINE tile_p tile_start_pair(int32_t first, int32_t second)
{
    const int32x4_t both = vzip1q_s32(vdupq_n_s32(first), vdupq_n_s32(second));
    tile_p s;
    FOUR(s.q[2 * i] = both; s.q[2 * i + 1] = both)
    return s;
}

/* levels: eight of each column. */
QNI_INLINE tile_p tile_add_pair(tile_p s, const tile_e *w, const int8_t *first,
                                const int8_t *second)
{
    const int8x16_t a = vcombine_s8(vld1_s8(first), vld1_s8(second));
    FOUR(s.q[2 * i] = vmmlaq_s32(s.q[2 * i], w->q[2 * i], a);
         s.q[2 * i + 1] = vmmlaq_s32(s.q[2 * i + 1], w->q[2 * i + 1], a))
    return s;
}

/* The sums of one of the two columns. */
QNI_INLINE tile_s tile_of_pair(const tile_p *s, int column)
{
    tile_s sums;
    FOUR(sums.q[i] = column == 0 ? vuzp1q_s32(s->q[2 * i], s->q[2 * i + 1])
                                 : vuzp2q_s32(s->q[2 * i], s->q[2 * i + 1]))
    return sums;
}

#endif
