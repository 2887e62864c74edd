/* dot_kx2mmla_neon_i8mm.c — products over q4_K rows in pairs, as QN_LAYOUT_Q4_KX2MMLA has them: its
 * levels lie as smmla takes them, eight elements of a row and then eight of the other.
 *
 * A block of a pair, 552 bytes: d and dmin of both rows, [2] u16 each; scales [8][2] u8, minima
 * [8][2] u8; levels, 16 elements in 32 bytes: eight of row 0, eight of row 1, and again. */
#include <arm_neon.h>

#include "kernels/numeric_internal.h"

enum {
    PAIR_SCALES = 8, /* where they are in a block of a pair */
    PAIR_MINIMA = 24,
    PAIR_LEVELS = 40,
    PAIR_BYTES = 552
};

QNI_INLINE float half_at(const uint8_t *p)
{
    return qni_f16_to_f32(qni_load_u16le(p));
}

/* Rows 0, 0, 1, 1 with columns 0, 1, 0, 1: the order of smmla's sums. */
QNI_INLINE int32x4_t factors_of(const uint8_t *two)
{
    return (int32x4_t){two[0], two[0], two[1], two[1]};
}

/* The integer sums of a block: products under their scales, and minima. */
QNI_INLINE void sum_block(const uint8_t *w, const qni_block_q8_k *const a[2], int32x4_t *out_total,
                          int32x4_t *out_low)
{
    int32x4_t total = vdupq_n_s32(0);
    int32x4_t low = vdupq_n_s32(0);
    for (int j = 0; j < QNI_SUPER / 32; j++) {
        int32x4_t sum = vdupq_n_s32(0);
        int32_t level_sum[2];
        for (int i = 0; i < 4; i++) {
            const int8x16_t levels =
                vreinterpretq_s8_u8(vld1q_u8(w + PAIR_LEVELS + 64 * j + 16 * i));
            const int at = 32 * j + 8 * i;
            sum = vmmlaq_s32(sum, levels,
                             vcombine_s8(vld1_s8(a[0]->qs + at), vld1_s8(a[1]->qs + at)));
        }
        for (int c = 0; c < 2; c++) {
            level_sum[c] = (int16_t)qni_load_u16le(a[c]->bsums + 4 * j) +
                           (int16_t)qni_load_u16le(a[c]->bsums + 4 * j + 2);
        }
        const int32x4_t sums = {level_sum[0], level_sum[1], level_sum[0], level_sum[1]};
        total = vmlaq_s32(total, sum, factors_of(w + PAIR_SCALES + 2 * j));
        low = vmlaq_s32(low, sums, factors_of(w + PAIR_MINIMA + 2 * j));
    }
    *out_total = total;
    *out_low = low;
}

/* Two rows with two columns; y in the order of the sums. */
QNI_INLINE float32x4_t multiply_pair(const uint8_t *w, const uint8_t *const columns[2],
                                     int64_t n_elems)
{
    float32x4_t y = vdupq_n_f32(0.0f);
    for (int64_t b = 0; b < n_elems / QNI_SUPER; b++, w += PAIR_BYTES) {
        const qni_block_q8_k *a[2];
        int32x4_t total;
        int32x4_t low;
        for (int c = 0; c < 2; c++) {
            a[c] = (const qni_block_q8_k *)(columns[c] + b * (int64_t)sizeof *a[c]);
        }
        sum_block(w, a, &total, &low);
        const float da[2] = {qni_load_f32le(a[0]->d), qni_load_f32le(a[1]->d)};
        const float32x4_t scale = {da[0], da[1], da[0], da[1]};
        const float d[2] = {half_at(w), half_at(w + 2)};
        const float dmin[2] = {half_at(w + 4), half_at(w + 6)};
        const float32x4_t of_products = {d[0], d[0], d[1], d[1]};
        const float32x4_t of_minima = {dmin[0], dmin[0], dmin[1], dmin[1]};
        const float32x4_t term = vmulq_f32(vmulq_f32(of_products, scale), vcvtq_f32_s32(total));
        const float32x4_t minimum = vmulq_f32(vmulq_f32(of_minima, scale), vcvtq_f32_s32(low));
        y = vaddq_f32(y, vsubq_f32(term, minimum));
    }
    return y;
}

QNI_PROTO_dot_kx2mmla(qni_dot_kx2mmla_q4_k_neon_i8mm)
{
    for (int64_t row = 0; row < tile->n_rows; row += 2) {
        const uint8_t *w = tile->w + row / 2 * tile->w_stride;
        for (int64_t col = 0; col < tile->n_cols; col += 2) {
            const int64_t second = qni_min_i64(col + 1, tile->n_cols - 1);
            const uint8_t *const columns[2] = {tile->a + col * tile->a_stride,
                                               tile->a + second * tile->a_stride};
            float y[4];
            vst1q_f32(y, multiply_pair(w, columns, tile->n_elems));
            for (int i = 0; i < 4; i++) {
                if (row + i / 2 < tile->n_rows && col + i % 2 < tile->n_cols) {
                    tile->y[(col + i % 2) * tile->y_stride + row + i / 2] = y[i];
                }
            }
        }
    }
}
