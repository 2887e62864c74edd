/* fp4.c — the four-bit floats: mxfp4 with power-of-two scales, nvfp4 with E4M3 scales.
 *
 *   mxfp4  byte 0   1                 17
 *              [ e ][ 16 bytes        ]               (8 + 32 * 4) / 32 = 4.25 bits a weight
 *   nvfp4  byte 0          4                      36
 *              [ 4 scales  ][ 4 x 8 bytes         ]   (4 * 8 + 64 * 4) / 64 = 4.5
 *
 * A code is an E2M1 float. Decoders multiply twice its value, an integer, with half the scale.
 * mxfp4: nibbles as in q4_0, scale 2^(e - 127). nvfp4: sub-block s of 16 elements has its own scale
 * byte and the nibble split of the 8 bytes at 4 + 8s. */
#include "kernels/fp4_internal.h"

/* Twice the value of each code; code 8 would be -0 and is +0. */
static const int8_t doubled[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

/* The first of the nearest codes. A NaN distance never wins, so NaN gives 0. */
static uint8_t nearest_code(float x, float half_scale)
{
    uint8_t best = 0;
    float best_distance = fabsf((float)doubled[0] * half_scale - x);
    for (uint8_t code = 1; code < 16; code++) {
        const float distance = fabsf((float)doubled[code] * half_scale - x);
        if (distance < best_distance) {
            best = code;
            best_distance = distance;
        }
    }
    return best;
}

/* n values (at most 32) to the nibbles of n / 2 bytes. */
static void encode_codes(const float *x, int n, float half_scale, uint8_t *qs)
{
    uint8_t codes[32];
    for (int i = 0; i < n; i++) {
        codes[i] = nearest_code(x[i], half_scale);
    }
    qni_pack_nibbles(codes, n, qs);
}

static void decode_codes(const uint8_t *qs, int n, float half_scale, float *out)
{
    uint8_t codes[32];
    qni_unpack_nibbles(qs, n, codes);
    for (int i = 0; i < n; i++) {
        out[i] = (float)doubled[codes[i]] * half_scale;
    }
}

/* --- mxfp4 -------------------------------------------------------------------------------------
 */

enum { MX = 32 };

/* The exponent that puts the largest magnitude into the top binade of E2M1 (4..6). Below 2^-125 it
 * would be negative and wraps; 255 is what row validation refuses. */
static qni_encode_result encode_mxfp4(const float *x, qni_block_mxfp4 *block)
{
    const float mag = qni_absmax(x, MX).mag;
    int e = 0;
    if (mag > 0.0f) {
        e = qni_f32_is_finite(mag) ? qni_floor_log2(mag) - 2 + 127 : 0;
    }
    block->e = (uint8_t)e;
    encode_codes(x, MX, qni_half_e8m0(block->e), block->qs);
    return block->e == 255 ? QNI_ENCODE_OVERFLOW : QNI_ENCODE_OK;
}

QNI_PROTO_encode(qni_encode_mxfp4_scalar)
{
    (void)weights, (void)tables;
    qni_block_mxfp4 *block = out;
    qni_encode_result result = QNI_ENCODE_OK;
    for (int64_t i = 0; i < n_rows * (row_len / MX); i++, block++, x += MX) {
        result = qni_worse(result, encode_mxfp4(x, block));
    }
    return result;
}

QNI_PROTO_decode(qni_decode_mxfp4_scalar)
{
    const qni_block_mxfp4 *block = blocks;
    for (int64_t b = 0; b < n_blocks; b++, block++, out += MX) {
        decode_codes(block->qs, MX, qni_half_e8m0(block->e), out);
    }
}

/* --- nvfp4 -------------------------------------------------------------------------------------
 */

enum { NV = 64, NV_SUB = 16 };

QNI_PROTO_encode(qni_encode_nvfp4_scalar)
{
    (void)weights, (void)tables;
    qni_block_nvfp4 *block = out;
    for (int64_t i = 0; i < n_rows * (row_len / NV); i++, block++) {
        for (int s = 0; s < NV / NV_SUB; s++, x += NV_SUB) {
            block->scales[s] = qni_e4m3_from_f32(qni_absmax(x, NV_SUB).mag / 6.0f);
            encode_codes(x, NV_SUB, qni_half_e4m3(block->scales[s]), block->qs + 8 * s);
        }
    }
    return QNI_ENCODE_OK;
}

QNI_PROTO_decode(qni_decode_nvfp4_scalar)
{
    const qni_block_nvfp4 *block = blocks;
    for (int64_t b = 0; b < n_blocks; b++, block++) {
        for (int s = 0; s < NV / NV_SUB; s++, out += NV_SUB) {
            decode_codes(block->qs + 8 * s, NV_SUB, qni_half_e4m3(block->scales[s]), out);
        }
    }
}
