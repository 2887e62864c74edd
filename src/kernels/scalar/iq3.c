/* iq3.c — quads as points of a lattice in four dimensions, signs, a 4-bit scale per 32 elements.
 *
 * iq3_xxs, 256 points of {4, 12, 20, 28, 36, 44, 52, 62}^4; (16 + 64 * 8 + 8 * 32) / 256 = 3.0625
 *   byte 0  1  2                       66                     98
 *       [ d ][ 64 indices, one per quad ][ 8 u32, one per 32    ]
 *   u32:  bit 0 [sel 0: 7][sel 1: 7][sel 2: 7][sel 3: 7][scale: 4] bit 31
 *   y = ((d * (0.5 + scale)) * 0.5) * magnitude * sign
 *
 * iq3_s, 512 points of {1, 3, ... 15}^4; (16 + 64 * 8 + 8 * 8 + 32 * 8 + 4 * 8) / 256 = 3.4375
 *   byte 0  1  2                74                 106              110
 *       [ d ][ 64 low index bytes ][ 8: index bit 8 ][ 32 sign masks ][ scales ]
 *         0-1            2-65            66-73             74-105      106-109
 *   Index bit 8 of quad t is bit t mod 8 of byte 66 + t / 8; scale j is nibble j mod 2 of byte
 *   106 + j / 2. y = (d * (1 + 2 * scale)) * magnitude * sign
 *
 * A selector is the low 7 bits of a sign mask whose number of ones is even. */
#include "kernels/lattice_search_internal.h"
#include "kernels/super_rows_internal.h"

enum { N_SUB = QNI_SUPER / 32, N_OCTETS = QNI_SUPER / 8 };

/* Scales are stored as odd multiples 1..31 of d. */
#define SCALE_STEPS 31.0f

/* --- decoding ------------------------------------------------------------------------------------
 */

static uint32_t even_signs(uint32_t selector)
{
    uint32_t parity = selector ^ selector >> 4;
    parity ^= parity >> 2;
    parity ^= parity >> 1;
    return selector | (parity & 1u) << 7;
}

static void decode_quad(const qni_codebook *book, uint32_t index, uint32_t signs, float scale,
                        float *out)
{
    const uint32_t packed = book->points[index];
    for (int32_t k = 0; k < 4; k++) {
        const float y = scale * book->value[packed >> (4 * k) & 7];
        out[k] = signs >> k & 1u ? -y : y;
    }
}

QNI_PROTO_decode(qni_decode_iq3_xxs_scalar)
{
    const qni_block_iq3_xxs *block = blocks;
    const qni_codebook *book = &qni_codebooks[QNI_LATTICE_IQ3_XXS];
    for (int64_t b = 0; b < n_blocks; b++, block++) {
        const float d = qni_load_scale(block->d);
        for (int32_t o = 0; o < N_OCTETS; o++, out += 8) {
            const uint32_t word = qni_load_u32le(block->signs + o / 4 * 4);
            const uint32_t signs = even_signs(word >> (7 * (o % 4)) & 127u);
            const float scale = d * (0.5f + (float)(int32_t)(word >> 28)) * 0.5f;
            decode_quad(book, block->qs[2 * o], signs, scale, out);
            decode_quad(book, block->qs[2 * o + 1], signs >> 4, scale, out + 4);
        }
    }
}

QNI_PROTO_decode(qni_decode_iq3_s_scalar)
{
    const qni_block_iq3_s *block = blocks;
    const qni_codebook *book = &qni_codebooks[QNI_LATTICE_IQ3_S];
    for (int64_t b = 0; b < n_blocks; b++, block++) {
        const float d = qni_load_scale(block->d);
        for (int32_t t = 0; t < QNI_SUPER / 4; t++, out += 4) {
            const uint32_t high = (uint32_t)block->qh[t / 8] >> (t % 8) & 1u;
            const uint32_t signs = (uint32_t)block->signs[t / 2] >> (4 * (t % 2));
            const uint32_t code = (uint32_t)block->scales[t / 16] >> (4 * (t / 8 % 2)) & 15u;
            const float scale = d * (float)(1 + 2 * (int32_t)code);
            decode_quad(book, block->qs[t] | high << 8, signs, scale, out);
        }
    }
}

/* --- encoding ------------------------------------------------------------------------------------
 */

/* Search of one sub-block that is not all zeros: indices of its eight quads, its scale. */
static bool encode_sub(const qni_lattice_steps *steps, const struct qni_lattice *tables,
                       const qni_lattice_form *form, const qni_lattice_front *front, int32_t sub,
                       float max, uint16_t *index, float *out_scale)
{
    qni_lattice_fit fit = {max / 15.0f, {0}};
    if (!steps->search(tables, form, front, sub, max, &fit)) {
        return false;
    }
    *out_scale = fit.scale;
    return qni_lattice_indices(tables, fit.points, 8, index);
}

static qni_encode_result encode_iq3_xxs(const qni_lattice_steps *steps,
                                        const struct qni_lattice *tables, const float *x,
                                        const float *importance, qni_block_iq3_xxs *block)
{
    memset(block, 0, sizeof *block);
    qni_lattice_front front;
    const float sigma2 = 2.0f * qni_sum_squares(x, QNI_SUPER) / 256.0f;
    steps->prepare(x, importance, sigma2, 0.0f, true, &front);
    float scales[N_SUB] = {0};
    uint32_t words[N_SUB] = {0};
    float max_scale = 0.0f;
    for (int32_t sub = 0; sub < N_SUB; sub++) {
        const float max = qni_lattice_max(front.x + 32 * sub, 32);
        if (max < 1e-8f) {
            continue;
        }
        uint16_t index[8];
        if (!encode_sub(steps, tables, &qni_form_iq3_xxs, &front, sub, max, index, &scales[sub])) {
            return QNI_ENCODE_ABORT;
        }
        uint8_t *signs = front.signs + 4 * sub;
        qni_lattice_turn_positive(&scales[sub], signs, 4, 127);
        for (int32_t t = 0; t < 8; t++) {
            block->qs[8 * sub + t] = (uint8_t)index[t];
        }
        for (int32_t o = 0; o < 4; o++) {
            words[sub] |= (uint32_t)signs[o] << (7 * o);
        }
        max_scale = qni_max_f32(max_scale, scales[sub]);
    }
    if (max_scale == 0.0f) {
        memset(block, 0, sizeof *block);
        return QNI_ENCODE_OK;
    }
    const float d = max_scale / SCALE_STEPS;
    const float inv = 1.0f / d;
    for (int32_t sub = 0; sub < N_SUB; sub++) {
        const uint32_t code = qni_lattice_scale_code(inv, scales[sub], 15);
        qni_store_u32le(block->signs + 4 * sub, words[sub] | code << 28);
    }
    return qni_store_scale(block->d, d * 1.0125f);
}

/* The reference writes low index bytes and sign masks through cursors that do not move over an
 * all-zero sub-block, while index bits 8 and scales go by the sub-block's number. What comes after
 * such a sub-block is thus stored one place early; it is copied, because files must be equal. */
static qni_encode_result encode_iq3_s(const qni_lattice_steps *steps,
                                      const struct qni_lattice *tables, const float *x,
                                      const float *importance, qni_block_iq3_s *block)
{
    memset(block, 0, sizeof *block);
    qni_lattice_front front;
    const float sigma2 = 2.0f * qni_sum_squares(x, QNI_SUPER) / 256.0f;
    steps->prepare(x, importance, sigma2, 0.0f, false, &front);
    float scales[N_SUB] = {0};
    float max_scale = 0.0f;
    uint8_t *low_bytes = block->qs;
    uint8_t *sign_masks = block->signs;
    for (int32_t sub = 0; sub < N_SUB; sub++) {
        const float max = qni_lattice_max(front.x + 32 * sub, 32);
        if (max == 0.0f) {
            continue;
        }
        uint16_t index[8];
        if (!encode_sub(steps, tables, &qni_form_iq3_s, &front, sub, max, index, &scales[sub])) {
            return QNI_ENCODE_ABORT;
        }
        uint8_t *signs = front.signs + 4 * sub;
        qni_lattice_turn_positive(&scales[sub], signs, 4, 255);
        for (int32_t t = 0; t < 8; t++) {
            low_bytes[t] = (uint8_t)index[t];
            block->qh[sub] = (uint8_t)(block->qh[sub] | index[t] >> 8 << t);
        }
        memcpy(sign_masks, signs, 4);
        low_bytes += 8;
        sign_masks += 4;
        max_scale = qni_max_f32(max_scale, scales[sub]);
    }
    if (max_scale == 0.0f) {
        return QNI_ENCODE_OK; /* the reference keeps the indices it wrote */
    }
    const float d = max_scale / SCALE_STEPS;
    const float inv = 1.0f / d;
    for (int32_t sub = 0; sub < N_SUB; sub++) {
        const uint32_t code = qni_lattice_scale_code(inv, scales[sub], 15);
        block->scales[sub / 2] = (uint8_t)(block->scales[sub / 2] | code << (4 * (sub % 2)));
    }
    return qni_store_scale(block->d, d * 1.033f);
}

/* --- rows ----------------------------------------------------------------------------------------
 */

QNI_DEFINE_SUPER_ROWS(iq3_xxs, QNI_PROTO_LATTICE, &qni_lattice_steps_scalar)
QNI_DEFINE_SUPER_ROWS(iq3_s, QNI_PROTO_LATTICE, &qni_lattice_steps_scalar)
