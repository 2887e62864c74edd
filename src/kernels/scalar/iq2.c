/* iq2.c — octets as points of a lattice {8, 25, 43}^8, signs, and a 4-bit scale per sub-block.
 *
 * iq2_xxs, 256 points, sub-blocks of 32; (16 + 8 * 64) / 256 = 2.0625 bits a weight
 *   byte 0  1  2                              66
 *       [ d ][ 8 groups of 8 bytes, one per 32 ]
 *   group:  i0 i1 i2 i3 | u32: bit 0 [sel 0: 7][sel 1: 7][sel 2: 7][sel 3: 7][scale: 4] bit 31
 *
 * iq2_xs, 512 points, sub-blocks of 16; (16 + 32 * 16 + 8 * 8) / 256 = 2.3125 bits a weight
 *   byte 0  1  2                    66       74
 *       [ d ][ 32 u16, one per octet ][ scales ]
 *   octet:  bit 0 [index: 9][selector: 7] bit 15
 *
 * iq2_s, 1024 points, sub-blocks of 16; (16 + 32 * 8 + 32 * 8 + 8 * 8 + 8 * 8) / 256 = 2.5625
 *   byte 0  1  2         34            66                 74       82
 *       [ d ][ 32 indices ][ 32 sign masks ][ 8: index bits 8-9 ][ scales ]
 *
 * A selector is the low 7 bits of a sign mask whose number of ones is even. Scale j of 16 elements
 * sits in nibble j mod 2 of scale byte j / 2. y = ((d * (0.5 + scale)) * 0.25) * magnitude * sign.
 */
#include "kernels/lattice_search_internal.h"
#include "kernels/super_rows_internal.h"

enum { N_SUB_16 = QNI_SUPER / 16, N_SUB_32 = QNI_SUPER / 32, N_OCTETS = QNI_SUPER / 8 };

/* Scales are stored as odd multiples 1..31 of d. */
#define SCALE_STEPS 31.0f

/* --- decoding ------------------------------------------------------------------------------------
 */

static float scale_of(float d, uint32_t code)
{
    return d * (0.5f + (float)(int32_t)code) * 0.25f;
}

/* The 8-bit sign mask of a 7-bit selector: bit 7 makes the number of ones even. */
static uint32_t even_signs(uint32_t selector)
{
    uint32_t parity = selector ^ selector >> 4;
    parity ^= parity >> 2;
    parity ^= parity >> 1;
    return selector | (parity & 1u) << 7;
}

static void decode_octet(const qni_codebook *book, uint32_t index, uint32_t signs, float scale,
                         float *out)
{
    const uint32_t packed = book->points[index];
    for (int32_t k = 0; k < 8; k++) {
        const float y = scale * book->value[packed >> (2 * k) & 3];
        out[k] = signs >> k & 1u ? -y : y;
    }
}

QNI_PROTO_decode(qni_decode_iq2_xxs_scalar)
{
    const qni_block_iq2_xxs *block = blocks;
    const qni_codebook *book = &qni_codebooks[QNI_LATTICE_IQ2_XXS];
    for (int64_t b = 0; b < n_blocks; b++, block++) {
        const float d = qni_load_scale(block->d);
        for (int32_t sub = 0; sub < N_SUB_32; sub++) {
            const uint8_t *group = block->qs + 8 * sub;
            const uint32_t word = qni_load_u32le(group + 4);
            for (int32_t o = 0; o < 4; o++, out += 8) {
                decode_octet(book, group[o], even_signs(word >> (7 * o) & 127u),
                             scale_of(d, word >> 28), out);
            }
        }
    }
}

QNI_PROTO_decode(qni_decode_iq2_xs_scalar)
{
    const qni_block_iq2_xs *block = blocks;
    const qni_codebook *book = &qni_codebooks[QNI_LATTICE_IQ2_XS];
    for (int64_t b = 0; b < n_blocks; b++, block++) {
        const float d = qni_load_scale(block->d);
        for (int32_t o = 0; o < N_OCTETS; o++, out += 8) {
            const uint32_t q = qni_load_u16le(block->qs + 2 * o);
            const uint32_t code = (uint32_t)block->scales[o / 4] >> (4 * (o / 2 % 2)) & 15u;
            decode_octet(book, q & 511u, even_signs(q >> 9), scale_of(d, code), out);
        }
    }
}

QNI_PROTO_decode(qni_decode_iq2_s_scalar)
{
    const qni_block_iq2_s *block = blocks;
    const qni_codebook *book = &qni_codebooks[QNI_LATTICE_IQ2_S];
    for (int64_t b = 0; b < n_blocks; b++, block++) {
        const float d = qni_load_scale(block->d);
        for (int32_t o = 0; o < N_OCTETS; o++, out += 8) {
            const uint32_t high = (uint32_t)block->qh[o / 4] >> (2 * (o % 4)) & 3u;
            const uint32_t code = (uint32_t)block->scales[o / 4] >> (4 * (o / 2 % 2)) & 15u;
            decode_octet(book, block->qs[o] | high << 8, block->signs[o], scale_of(d, code), out);
        }
    }
}

/* --- encoding ------------------------------------------------------------------------------------
 */

static bool encode_sub_iq2_xxs(const qni_lattice_steps *steps, const struct qni_lattice *tables,
                               qni_lattice_front *front, int32_t sub, qni_lattice_fit *fit,
                               uint8_t *out)
{
    const float range = fit->scale * 3.0f;
    if (range <= 0.0f) {
        fit->scale = 0.0f;
        return true;
    }
    uint16_t index[4];
    if (!steps->search(tables, &qni_form_iq2_xxs, front, sub, range, fit) ||
        !qni_lattice_indices(tables, fit->points, 4, index)) {
        return false;
    }
    uint8_t *signs = front->signs + 4 * sub;
    qni_lattice_turn_positive(&fit->scale, signs, 4, 127);
    uint32_t word = 0;
    for (int32_t o = 0; o < 4; o++) {
        out[o] = (uint8_t)index[o];
        word |= (uint32_t)signs[o] << (7 * o);
    }
    qni_store_u32le(out + 4, word);
    return true;
}

static qni_encode_result encode_iq2_xxs(const qni_lattice_steps *steps,
                                        const struct qni_lattice *tables, const float *x,
                                        const float *importance, qni_block_iq2_xxs *block)
{
    memset(block, 0, sizeof *block);
    qni_lattice_front front;
    steps->prepare(x, importance, qni_sum_squares(x, QNI_SUPER) / 256.0f, 0.0f, true, &front);
    qni_lattice_fit fits[N_SUB_32];
    steps->start(&front, fits);
    float max_scale = 0.0f;
    for (int32_t sub = 0; sub < N_SUB_32; sub++) {
        if (!encode_sub_iq2_xxs(steps, tables, &front, sub, &fits[sub], block->qs + 8 * sub)) {
            return QNI_ENCODE_ABORT;
        }
        max_scale = qni_max_f32(max_scale, fits[sub].scale);
    }
    if (max_scale == 0.0f) {
        memset(block, 0, sizeof *block);
        return QNI_ENCODE_OK;
    }
    const float d = max_scale / SCALE_STEPS;
    const float inv = 1.0f / d;
    for (int32_t sub = 0; sub < N_SUB_32; sub++) {
        uint8_t *word = block->qs + 8 * sub + 4;
        const uint32_t code = qni_lattice_scale_code(inv, fits[sub].scale, 15);
        qni_store_u32le(word, qni_load_u32le(word) | code << 28);
    }
    return qni_store_scale(block->d, d);
}

/* Search of a sub-block of 16: two octets. `zero_below`: what counts as all zeros. */
static bool encode_sub_16(const qni_lattice_steps *steps, const struct qni_lattice *tables,
                          const qni_lattice_form *form, float zero_below,
                          const qni_lattice_front *front, int32_t sub, uint16_t *index,
                          float *out_scale, bool *out_is_zero)
{
    const float max = qni_lattice_max(front->x + 16 * sub, 16);
    *out_scale = 0.0f;
    *out_is_zero = max < zero_below;
    if (*out_is_zero) {
        return true;
    }
    qni_lattice_fit fit = {max / 5.0f, {0, 0}};
    if (!steps->search(tables, form, front, sub, max, &fit) ||
        !qni_lattice_indices(tables, fit.points, 2, index)) {
        return false;
    }
    *out_scale = fit.scale;
    return true;
}

static void store_scales_16(float inv, const float *scales, uint8_t *out)
{
    for (int32_t sub = 0; sub < N_SUB_16; sub++) {
        const uint32_t code = qni_lattice_scale_code(inv, scales[sub], 15);
        out[sub / 2] = (uint8_t)(out[sub / 2] | code << (4 * (sub % 2)));
    }
}

static qni_encode_result encode_iq2_xs(const qni_lattice_steps *steps,
                                       const struct qni_lattice *tables, const float *x,
                                       const float *importance, qni_block_iq2_xs *block)
{
    memset(block, 0, sizeof *block);
    qni_lattice_front front;
    steps->prepare(x, importance, qni_sum_squares(x, QNI_SUPER) / 256.0f, 0.0f, true, &front);
    float scales[N_SUB_16];
    float max_scale = 0.0f;
    for (int32_t sub = 0; sub < N_SUB_16; sub++) {
        uint16_t index[2];
        bool is_zero;
        if (!encode_sub_16(steps, tables, &qni_form_iq2_xs, 1e-15f, &front, sub, index,
                           &scales[sub], &is_zero)) {
            return QNI_ENCODE_ABORT;
        }
        if (is_zero) {
            continue;
        }
        uint8_t *signs = front.signs + 2 * sub;
        qni_lattice_turn_positive(&scales[sub], signs, 2, 127);
        for (int32_t o = 0; o < 2; o++) {
            qni_store_u16le(block->qs + 4 * sub + 2 * o,
                            (uint16_t)(index[o] | (uint32_t)signs[o] << 9));
        }
        max_scale = qni_max_f32(max_scale, scales[sub]);
    }
    if (max_scale == 0.0f) {
        memset(block, 0, sizeof *block);
        return QNI_ENCODE_OK;
    }
    const float d = max_scale / SCALE_STEPS;
    store_scales_16(1.0f / d, scales, block->scales);
    return qni_store_scale(block->d, d);
}

static qni_encode_result encode_iq2_s(const qni_lattice_steps *steps,
                                      const struct qni_lattice *tables, const float *x,
                                      const float *importance, qni_block_iq2_s *block)
{
    memset(block, 0, sizeof *block);
    qni_lattice_front front;
    const float sigma2 = 2.0f * qni_sum_squares(x, QNI_SUPER) / 256.0f;
    steps->prepare(x, importance, sigma2, 0.25f * sigma2, false, &front);
    float scales[N_SUB_16];
    float max_scale = 0.0f;
    for (int32_t sub = 0; sub < N_SUB_16; sub++) {
        uint16_t index[2];
        bool is_zero;
        if (!encode_sub_16(steps, tables, &qni_form_iq2_s, 1e-8f, &front, sub, index, &scales[sub],
                           &is_zero)) {
            return QNI_ENCODE_ABORT;
        }
        if (is_zero) {
            continue;
        }
        uint8_t *signs = front.signs + 2 * sub;
        qni_lattice_turn_positive(&scales[sub], signs, 2, 255);
        for (int32_t o = 2 * sub; o < 2 * sub + 2; o++) {
            const uint32_t i = index[o - 2 * sub];
            block->qs[o] = (uint8_t)i;
            block->qh[o / 4] = (uint8_t)(block->qh[o / 4] | i >> 8 << (2 * (o % 4)));
            block->signs[o] = front.signs[o];
        }
        max_scale = qni_max_f32(max_scale, scales[sub]);
    }
    if (max_scale == 0.0f) {
        return QNI_ENCODE_OK; /* the reference keeps the indices it wrote */
    }
    const float d = max_scale / SCALE_STEPS;
    store_scales_16(1.0f / d, scales, block->scales);
    return qni_store_scale(block->d, d * 0.9875f);
}

/* --- rows ----------------------------------------------------------------------------------------
 */

QNI_DEFINE_SUPER_ROWS(iq2_xxs, QNI_PROTO_LATTICE, &qni_lattice_steps_scalar)
QNI_DEFINE_SUPER_ROWS(iq2_xs, QNI_PROTO_LATTICE, &qni_lattice_steps_scalar)
QNI_DEFINE_SUPER_ROWS(iq2_s, QNI_PROTO_LATTICE, &qni_lattice_steps_scalar)
