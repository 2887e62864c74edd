/* tq1_0.c — ternary weights, five to a byte.
 *
 *   byte 0                 48       52   54
 *       [ 48 bytes of five ][ 4 x 4 ][ d ]      (48 * 8 + 4 * 8 + 16) / 256 = 1.6875 bits a weight
 *
 * Trit n of a byte:  elements   0..159  byte i mod 32,             n = i / 32
 *                    elements 160..239  byte 32 + (i - 160) mod 16, n = (i - 160) / 16
 *                    elements 240..255  byte 48 + (i - 240) mod 4,  n = (i - 240) / 4
 * Five trits make v = t0 * 81 + t1 * 27 + t2 * 9 + t3 * 3 + t4 in 0..242; the byte is v * 256 / 243
 * rounded up. So the byte is a fraction of 256, and multiplying it by 3 carries one trit out of the
 * top: t_n = ((byte * 3^n mod 256) * 3) / 256. y = (t - 1) * d. */
#include "kernels/numeric_internal.h"

enum { N = QNI_SUPER };

/* One group: n_bytes bytes that hold n_trits trits each, the trits of a byte n_bytes apart. */
typedef struct trit_group {
    int first_elem;
    int first_byte;
    int n_bytes;
    int n_trits;
} trit_group;

static const trit_group groups[] = {{0, 0, 32, 5}, {160, 32, 16, 5}, {240, 48, 4, 4}};

static_assert(offsetof(qni_block_tq1_0, qh) == 48, "qs and qh are addressed as one array");

static void encode_group(const trit_group *group, const float *x, float inv, uint8_t *bytes)
{
    for (int b = 0; b < group->n_bytes; b++) {
        uint32_t v = 0;
        for (int n = 0; n < 5; n++) {
            uint32_t trit = 0;
            if (n < group->n_trits) {
                const float scaled = x[group->first_elem + n * group->n_bytes + b] * inv;
                trit = (uint32_t)(qni_round_low32(scaled) + 1);
            }
            v = v * 3 + trit;
        }
        bytes[group->first_byte + b] = (uint8_t)((256 * (v & 0xffu) + 242) / 243);
    }
}

QNI_PROTO_encode(qni_encode_tq1_0_scalar)
{
    (void)weights, (void)tables;
    qni_block_tq1_0 *block = out;
    qni_encode_result result = QNI_ENCODE_OK;
    for (int64_t i = 0; i < n_rows * (row_len / N); i++, block++, x += N) {
        float d = 0.0f;
        for (int k = 0; k < N; k++) {
            d = qni_max_f32(d, fabsf(x[k]));
        }
        const float inv = d != 0.0f ? 1.0f / d : 0.0f;
        for (int g = 0; g < 3; g++) {
            encode_group(&groups[g], x, inv, (uint8_t *)block);
        }
        result = qni_worse(result, qni_store_scale(block->d, d));
    }
    return result;
}

static void decode_group(const trit_group *group, const uint8_t *bytes, float d, float *out)
{
    uint32_t power = 1;
    for (int n = 0; n < group->n_trits; n++, power *= 3) {
        for (int b = 0; b < group->n_bytes; b++) {
            const uint32_t fraction = bytes[group->first_byte + b] * power & 0xffu;
            const int32_t trit = (int32_t)(fraction * 3 >> 8);
            out[group->first_elem + n * group->n_bytes + b] = (float)(trit - 1) * d;
        }
    }
}

QNI_PROTO_decode(qni_decode_tq1_0_scalar)
{
    const qni_block_tq1_0 *block = blocks;
    for (int64_t b = 0; b < n_blocks; b++, block++, out += N) {
        const float d = qni_load_scale(block->d);
        for (int g = 0; g < 3; g++) {
            decode_group(&groups[g], (const uint8_t *)block, d, out);
        }
    }
}
