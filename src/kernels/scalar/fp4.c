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
#include "kernels/numeric_internal.h"

/* Twice the value of each code; code 8 would be -0 and is +0. */
static const int8_t doubled[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

/* Half the value of an E8M0 scale, 2^(e - 128); 0 and 1 give subnormals. */
static float half_e8m0(uint32_t e)
{
    return qni_f32_from_bits(e < 2 ? 0x00200000u << e : (e - 1) << 23);
}

/* Half the value of an unsigned E4M3 scale. The top bit is ignored, except that 0x7f is 0 and 0xff
 * is not. */
static float half_e4m3(uint32_t scale)
{
    if (scale == 0 || scale == 0x7f) {
        return 0.0f;
    }
    const uint32_t exponent = scale >> 3 & 15;
    const uint32_t mantissa = scale & 7;
    if (exponent == 0) {
        return (float)(int32_t)mantissa * 0x1p-10f;
    }
    return qni_f32_from_bits((exponent + 119) << 23 | mantissa << 20);
}

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

/* The logarithm of a value just below 2^n rounds to n itself, and its floor is then n, not n - 1.
 * It happens for the few largest floats below 2^n; how many depends on n, because the spacing of
 * floats around the logarithm grows with |n|. Counted against the reference's log2f. */
static int n_rounding_up(int n)
{
    static const struct {
        int16_t first;
        int16_t last;
        int16_t count;
    } ranges[] = {
        {-148, -132, 0},  {-131, -131, 1}, {-130, -130, 2}, {-129, -129, 5}, {-128, -127, 11},
        {-126, -126, 22}, {-125, -64, 44}, {-63, -32, 22},  {-31, -16, 11},  {-15, -8, 5},
        {-7, -4, 2},      {-3, -2, 1},     {-1, 2, 0},      {3, 4, 1},       {5, 8, 2},
        {9, 16, 5},       {17, 32, 11},    {33, 64, 22},    {65, 128, 44},
    };
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++) {
        if (n >= ranges[i].first && n <= ranges[i].last) {
            return ranges[i].count;
        }
    }
    return 0;
}

/* Bits of the float 2^n, -149 <= n <= 128. */
static uint32_t power_of_two_bits(int n)
{
    return n >= -126 ? (uint32_t)(n + 127) << 23 : 1u << (n + 149);
}

/* floor(log2f(mag)) for finite mag > 0, as the reference's C library rounds it. */
static int floor_log2(float mag)
{
    const uint32_t bits = qni_f32_bits(mag);
    int n = (int)(bits >> 23) - 127;
    if (n == -127) { /* subnormal: the exponent is that of the highest mantissa bit */
        n = -149;
        for (uint32_t rest = bits >> 1; rest; rest >>= 1) {
            n++;
        }
    }
    const uint32_t left = power_of_two_bits(n + 1) - bits;
    return left <= (uint32_t)n_rounding_up(n + 1) ? n + 1 : n;
}

/* The exponent that puts the largest magnitude into the top binade of E2M1 (4..6). Below 2^-125 it
 * would be negative and wraps; 255 is what row validation refuses. */
static qni_encode_result encode_mxfp4(const float *x, qni_block_mxfp4 *block)
{
    const float mag = qni_absmax(x, MX).mag;
    int e = 0;
    if (mag > 0.0f) {
        e = qni_f32_is_finite(mag) ? floor_log2(mag) - 2 + 127 : 0;
    }
    block->e = (uint8_t)e;
    encode_codes(x, MX, half_e8m0(block->e), block->qs);
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
        decode_codes(block->qs, MX, half_e8m0(block->e), out);
    }
}

/* --- nvfp4 -------------------------------------------------------------------------------------
 */

enum { NV = 64, NV_SUB = 16 };

/* The nearest unsigned E4M3 value, half up in the bit that is dropped; at most 448 (0x7e). */
static uint8_t e4m3_from_f32(float v)
{
    if (!(v > 0.0f)) {
        return 0;
    }
    v = v > 448.0f ? 448.0f : v;
    const uint32_t bits = qni_f32_bits(v);
    int32_t exponent = (int32_t)(bits >> 23) - 127 + 7;
    if (exponent <= 0) {
        const int32_t mantissa = qni_min_i32(qni_trunc_i32(v * 512.0f + 0.5f), 7);
        return mantissa < 1 ? 0 : (uint8_t)mantissa;
    }
    if (exponent >= 15) {
        return 0x7e;
    }
    uint32_t mantissa = (bits >> 20 & 7) + (bits >> 19 & 1);
    if (mantissa == 8) {
        mantissa = 0;
        exponent++;
    }
    return exponent == 15 ? 0x7e : (uint8_t)((uint32_t)exponent << 3 | mantissa);
}

QNI_PROTO_encode(qni_encode_nvfp4_scalar)
{
    (void)weights, (void)tables;
    qni_block_nvfp4 *block = out;
    for (int64_t i = 0; i < n_rows * (row_len / NV); i++, block++) {
        for (int s = 0; s < NV / NV_SUB; s++, x += NV_SUB) {
            block->scales[s] = e4m3_from_f32(qni_absmax(x, NV_SUB).mag / 6.0f);
            encode_codes(x, NV_SUB, half_e4m3(block->scales[s]), block->qs + 8 * s);
        }
    }
    return QNI_ENCODE_OK;
}

QNI_PROTO_decode(qni_decode_nvfp4_scalar)
{
    const qni_block_nvfp4 *block = blocks;
    for (int64_t b = 0; b < n_blocks; b++, block++) {
        for (int s = 0; s < NV / NV_SUB; s++, out += NV_SUB) {
            decode_codes(block->qs + 8 * s, NV_SUB, half_e4m3(block->scales[s]), out);
        }
    }
}
