/* tq2_0.c — ternary weights in two bits each.
 *
 *   byte 0                          64   66
 *       [ 64 bytes, four planes     ][ d ]      (256 * 2 + 16) / 256 = 2.0625 bits a weight
 *
 * Planes: each 32 bytes hold 128 elements; bits 2p, 2p+1 of byte l are element 32 p + l of them.
 * y = (level - 1) * d. The encoder never writes level 3; a decoder gives 2d for it. */
#include "kernels/numeric_internal.h"

enum { N = QNI_SUPER };

QNI_PROTO_encode(qni_encode_tq2_0_scalar)
{
    (void)weights, (void)tables;
    qni_block_tq2_0 *block = out;
    qni_encode_result result = QNI_ENCODE_OK;
    for (int64_t i = 0; i < n_rows * (row_len / N); i++, block++, x += N) {
        float d = 0.0f;
        for (int k = 0; k < N; k++) {
            d = qni_max_f32(d, fabsf(x[k]));
        }
        const float inv = d != 0.0f ? 1.0f / d : 0.0f;
        uint8_t levels[N];
        for (int k = 0; k < N; k++) {
            levels[k] = (uint8_t)((qni_round_low32(x[k] * inv) + 1) & 3);
        }
        qni_pack_planes(levels, block->qs);
        result = qni_worse(result, qni_store_scale(block->d, d));
    }
    return result;
}

QNI_PROTO_decode(qni_decode_tq2_0_scalar)
{
    const qni_block_tq2_0 *block = blocks;
    for (int64_t b = 0; b < n_blocks; b++, block++, out += N) {
        const float d = qni_load_scale(block->d);
        uint8_t levels[N];
        qni_unpack_planes(block->qs, levels);
        for (int i = 0; i < N; i++) {
            out[i] = (float)((int32_t)levels[i] - 1) * d;
        }
    }
}
