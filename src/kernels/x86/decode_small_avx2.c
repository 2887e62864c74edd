/* decode_small_avx2.c — blocks of 32 to 128 elements, and the 16-bit floats.
 * Layouts: scalar/<format>.c. */
#include "kernels/x86/decode_avx2_internal.h"

QNI_PROTO_decode(qni_decode_f16_avx2)
{
    const uint8_t *bytes = blocks;
    int64_t i = 0;
    for (; i + 8 <= n_blocks; i += 8) {
        _mm256_storeu_ps(out + i, _mm256_cvtph_ps(load_16(bytes + 2 * i)));
    }
    for (; i < n_blocks; i++) {
        out[i] = scale_of(bytes + 2 * i);
    }
}

QNI_PROTO_decode(qni_decode_bf16_avx2)
{
    const uint8_t *bytes = blocks;
    int64_t i = 0;
    for (; i + 8 <= n_blocks; i += 8) {
        const __m256i bits = _mm256_slli_epi32(_mm256_cvtepu16_epi32(load_16(bytes + 2 * i)), 16);
        _mm256_storeu_ps(out + i, _mm256_castsi256_ps(bits));
    }
    for (; i < n_blocks; i++) {
        out[i] = qni_bf16_to_f32(qni_load_u16le(bytes + 2 * i));
    }
}

/* The sign of d is changed where the bit is 0, as a negation changes it: also of a NaN. */
QNI_PROTO_decode(qni_decode_q1_0_avx2)
{
    const __m256i to_sign = _mm256_setr_epi32(31, 30, 29, 28, 27, 26, 25, 24);
    const __m256 sign_bit = _mm256_set1_ps(-0.0f);
    const qni_block_q1_0 *block = blocks;
    for (int64_t b = 0; b < n_blocks; b++, block++, out += 128) {
        const __m256 minus_d = _mm256_xor_ps(scale_x8(block->d), sign_bit);
        for (int i = 0; i < 16; i++) {
            const __m256i bits = _mm256_sllv_epi32(_mm256_set1_epi32(block->bits[i]), to_sign);
            const __m256 flip = _mm256_and_ps(_mm256_castsi256_ps(bits), sign_bit);
            _mm256_storeu_ps(out + 8 * i, _mm256_xor_ps(minus_d, flip));
        }
    }
}

/* Four possible values: a permute looks them up with the low two bits of each lane. */
QNI_PROTO_decode(qni_decode_q2_0_avx2)
{
    const __m256 levels = _mm256_setr_ps(-1, 0, 1, 2, -1, 0, 1, 2);
    const __m256i to_bottom = _mm256_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14);
    const qni_block_q2_0 *block = blocks;
    for (int64_t b = 0; b < n_blocks; b++, block++, out += 64) {
        const __m256 values = _mm256_mul_ps(levels, scale_x8(block->d));
        for (int i = 0; i < 8; i++) {
            const __m256i word = _mm256_set1_epi32(qni_load_u16le(block->qs + 2 * i));
            _mm256_storeu_ps(out + 8 * i,
                             _mm256_permutevar_ps(values, _mm256_srlv_epi32(word, to_bottom)));
        }
    }
}

QNI_PROTO_decode(qni_decode_q4_0_avx2)
{
    const qni_block_q4_0 *block = blocks;
    for (int64_t b = 0; b < n_blocks; b++, block++, out += 32) {
        const __m256i q = _mm256_sub_epi8(split_nibbles(block->qs), _mm256_set1_epi8(8));
        put_32(out, q, scale_x8(block->d));
    }
}

/* 32 levels of 0..31 times d, plus m. */
QNI_INLINE void put_32_affine(float *out, __m256i q, __m256 d, __m256 m)
{
    const __m128i lo = _mm256_castsi256_si128(q);
    const __m128i hi = _mm256_extracti128_si256(q, 1);
    put_8_affine(out, _mm256_cvtepu8_epi32(lo), d, m);
    put_8_affine(out + 8, _mm256_cvtepu8_epi32(_mm_unpackhi_epi64(lo, lo)), d, m);
    put_8_affine(out + 16, _mm256_cvtepu8_epi32(hi), d, m);
    put_8_affine(out + 24, _mm256_cvtepu8_epi32(_mm_unpackhi_epi64(hi, hi)), d, m);
}

QNI_PROTO_decode(qni_decode_q4_1_avx2)
{
    const qni_block_q4_1 *block = blocks;
    for (int64_t b = 0; b < n_blocks; b++, block++, out += 32) {
        if (both_unbounded(block->d)) {
            qni_decode_q4_1_scalar(block, 1, out);
            continue;
        }
        put_32_affine(out, split_nibbles(block->qs), scale_x8(block->d), scale_x8(block->m));
    }
}

QNI_PROTO_decode(qni_decode_q5_0_avx2)
{
    const qni_block_q5_0 *block = blocks;
    for (int64_t b = 0; b < n_blocks; b++, block++, out += 32) {
        const __m256i levels = join_fifth_bits(block->qs, block->qh);
        put_32(out, _mm256_sub_epi8(levels, _mm256_set1_epi8(16)), scale_x8(block->d));
    }
}

QNI_PROTO_decode(qni_decode_q5_1_avx2)
{
    const qni_block_q5_1 *block = blocks;
    for (int64_t b = 0; b < n_blocks; b++, block++, out += 32) {
        if (both_unbounded(block->d)) {
            qni_decode_q5_1_scalar(block, 1, out);
            continue;
        }
        put_32_affine(out, join_fifth_bits(block->qs, block->qh), scale_x8(block->d),
                      scale_x8(block->m));
    }
}

/* 32 signed bytes in memory: widening loads spare the shuffles. */
QNI_INLINE void put_32_bytes(float *out, const int8_t *qs, __m256 d)
{
    for (int i = 0; i < 32; i += 8) {
        put_8(out + i, _mm256_cvtepi8_epi32(load_8(qs + i)), d);
    }
}

QNI_PROTO_decode(qni_decode_q8_0_avx2)
{
    const qni_block_q8_0 *block = blocks;
    for (int64_t b = 0; b < n_blocks; b++, block++, out += 32) {
        put_32_bytes(out, block->qs, scale_x8(block->d));
    }
}

QNI_PROTO_decode(qni_decode_q8_1_avx2)
{
    const qni_block_q8_1 *block = blocks;
    for (int64_t b = 0; b < n_blocks; b++, block++, out += 32) {
        put_32_bytes(out, block->qs, scale_x8(block->d));
    }
}

QNI_PROTO_decode(qni_decode_q8_k_avx2)
{
    const qni_block_q8_k *block = blocks;
    for (int64_t b = 0; b < n_blocks; b++, block++, out += QNI_SUPER) {
        const __m256 d = _mm256_broadcastss_ps(_mm_castsi128_ps(load_4(block->d)));
        for (int i = 0; i < QNI_SUPER; i += 32) {
            put_32_bytes(out + i, block->qs + i, d);
        }
    }
}

QNI_PROTO_decode(qni_decode_iq4_nl_avx2)
{
    const __m128i levels = iq4_levels();
    const qni_block_iq4_nl *block = blocks;
    for (int64_t b = 0; b < n_blocks; b++, block++, out += 32) {
        put_32(out, look_up(levels, split_nibbles(block->qs)), scale_x8(block->d));
    }
}

QNI_PROTO_decode(qni_decode_mxfp4_avx2)
{
    const __m128i levels = fp4_levels();
    const qni_block_mxfp4 *block = blocks;
    for (int64_t b = 0; b < n_blocks; b++, block++, out += 32) {
        put_32(out, look_up(levels, split_nibbles(block->qs)), _mm256_set1_ps(half_e8m0(block->e)));
    }
}

/* Each group of 16 elements is a nibble split of 8 bytes: two groups come out of 16 bytes by
 * pairing the low nibbles of 8 bytes with their high nibbles. */
QNI_PROTO_decode(qni_decode_nvfp4_avx2)
{
    const __m128i levels = fp4_levels();
    const qni_block_nvfp4 *block = blocks;
    for (int64_t b = 0; b < n_blocks; b++, block++, out += 64) {
        float u[4];
        _mm_storeu_ps(u, ue4m3_halves(block->scales));
        for (int pair = 0; pair < 2; pair++) {
            const __m256i q = look_up(levels, split_nibbles(block->qs + 16 * pair));
            const __m128i lo = _mm256_castsi256_si128(q);
            const __m128i hi = _mm256_extracti128_si256(q, 1);
            put_16(out + 32 * pair, _mm_unpacklo_epi64(lo, hi), _mm256_set1_ps(u[2 * pair]));
            put_16(out + 32 * pair + 16, _mm_unpackhi_epi64(lo, hi),
                   _mm256_set1_ps(u[2 * pair + 1]));
        }
    }
}
