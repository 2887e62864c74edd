/* encode_q8_avx2.c — q8_0, q8_1 and q8_K: what activations become on their way into a product, so
 * they have to keep up with memory. Layouts: scalar/q8_0.c, scalar/q8_k.c.
 *
 * Magnitudes compare as integers, so that NaN and infinity win and show themselves; blocks with
 * one, or with a scale whose inverse overflows, go to the referee. What is left is finite, and
 * levels lie in -127..127 without a clamp. */
#include <immintrin.h>

#include "kernels/numeric_internal.h"

enum { N = 32, GROUP = 8 /* blocks whose maxima and scales are found side by side */ };

QNI_INLINE __m256i load_bits(const float *x)
{
    return _mm256_loadu_si256((const __m256i *)(const void *)x);
}

/* 32 integers in -128..127 to bytes, in order. */
QNI_INLINE __m256i to_bytes(const __m256i *q)
{
    const __m256i packed =
        _mm256_packs_epi16(_mm256_packs_epi32(q[0], q[1]), _mm256_packs_epi32(q[2], q[3]));
    return _mm256_permutevar8x32_epi32(packed, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

/* Sums of four bytes each, in order. */
QNI_INLINE __m256i sums_of_4(__m256i bytes)
{
    const __m256i pairs = _mm256_maddubs_epi16(_mm256_set1_epi8(1), bytes);
    return _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
}

/* What the caller hands over next: see QNI_ENCODE_PIECE_BYTES. It may lie outside any buffer. */
QNI_INLINE void prefetch_next_piece(const float *x, int n)
{
    for (int i = 0; i < n; i += 16) {
        _mm_prefetch((const char *)((uintptr_t)(x + i) + QNI_ENCODE_PIECE_BYTES), _MM_HINT_T1);
    }
}

/* --- q8_0, q8_1 ----------------------------------------------------------------------------------
 */

QNI_INLINE __m256i magnitudes_of_32(const float *x)
{
    const __m256i mask = _mm256_set1_epi32((int32_t)QNI_F32_ABS_MASK);
    const __m256i a = _mm256_and_si256(load_bits(x), mask);
    const __m256i b = _mm256_and_si256(load_bits(x + 8), mask);
    const __m256i c = _mm256_and_si256(load_bits(x + 16), mask);
    const __m256i d = _mm256_and_si256(load_bits(x + 24), mask);
    return _mm256_max_epi32(_mm256_max_epi32(a, b), _mm256_max_epi32(c, d));
}

/* The greatest lane of two vectors, twice in each half. */
QNI_INLINE __m256i max_of_2(__m256i a, __m256i b)
{
    return _mm256_max_epi32(_mm256_unpacklo_epi32(a, b), _mm256_unpackhi_epi32(a, b));
}

QNI_INLINE __m256i max_of_4(const __m256i *v)
{
    const __m256i a = max_of_2(v[0], v[1]);
    const __m256i b = max_of_2(v[2], v[3]);
    return _mm256_max_epi32(_mm256_unpacklo_epi64(a, b), _mm256_unpackhi_epi64(a, b));
}

/* Lane i: the greatest lane of v[i]. */
QNI_INLINE __m256i max_of_8(const __m256i *v)
{
    const __m256i a = max_of_4(v);
    const __m256i b = max_of_4(v + 4);
    return _mm256_max_epi32(_mm256_permute2x128_si256(a, b, 0x20),
                            _mm256_permute2x128_si256(a, b, 0x31));
}

/* Lane i: the sum of the lanes of v[i]. */
QNI_INLINE __m256i sum_of_8(const __m256i *v)
{
    const __m256i a =
        _mm256_hadd_epi32(_mm256_hadd_epi32(v[0], v[1]), _mm256_hadd_epi32(v[2], v[3]));
    const __m256i b =
        _mm256_hadd_epi32(_mm256_hadd_epi32(v[4], v[5]), _mm256_hadd_epi32(v[6], v[7]));
    return _mm256_add_epi32(_mm256_permute2x128_si256(a, b, 0x20),
                            _mm256_permute2x128_si256(a, b, 0x31));
}

/* What up to eight blocks share. */
typedef struct q8_scales {
    __m256 d; /* 0 where the referee does the block */
    QNI_ALIGNED(32) float inv[GROUP];
    QNI_ALIGNED(16) uint16_t d16[GROUP];
    uint32_t is_odd; /* such blocks, a bit each */
} q8_scales;

QNI_INLINE qni_encode_result store_halves_x8(uint16_t *halves, __m256 v)
{
    const __m256 magnitude = _mm256_andnot_ps(_mm256_set1_ps(-0.0f), v);
    const __m256 too_large = _mm256_cmp_ps(magnitude, _mm256_set1_ps(65520.0f), _CMP_GE_OQ);
    _mm_store_si128((__m128i *)(void *)halves, _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
    return _mm256_movemask_ps(too_large) ? QNI_ENCODE_OVERFLOW : QNI_ENCODE_OK;
}

QNI_INLINE qni_encode_result find_scales(const float *x, int n, q8_scales *out)
{
    __m256i mags[GROUP];
    for (int b = 0; b < GROUP; b++) {
        mags[b] = b < n ? magnitudes_of_32(x + N * b) : _mm256_setzero_si256();
    }
    const __m256i bits = max_of_8(mags);
    const __m256 d = _mm256_div_ps(_mm256_castsi256_ps(bits), _mm256_set1_ps(127.0f));
    const __m256 is_some = _mm256_cmp_ps(d, _mm256_setzero_ps(), _CMP_NEQ_UQ);
    const __m256 inv = _mm256_and_ps(is_some, _mm256_div_ps(_mm256_set1_ps(1.0f), d));
    const __m256i is_not_finite =
        _mm256_cmpgt_epi32(bits, _mm256_set1_epi32((int32_t)QNI_F32_INF - 1));
    const __m256 is_odd = _mm256_or_ps(_mm256_castsi256_ps(is_not_finite),
                                       _mm256_cmp_ps(inv, _mm256_set1_ps(INFINITY), _CMP_EQ_OQ));
    out->is_odd = (uint32_t)_mm256_movemask_ps(is_odd);
    out->d = _mm256_andnot_ps(is_odd, d);
    _mm256_store_ps(out->inv, _mm256_andnot_ps(is_odd, inv));
    return store_halves_x8(out->d16, out->d);
}

/* Half away from zero: the largest float below 1/2, with the sign of v, carries exactly those over
 * that must be. */
QNI_INLINE __m256i round_away(__m256 v)
{
    const __m256 sign = _mm256_and_ps(v, _mm256_set1_ps(-0.0f));
    const __m256 almost_half = _mm256_or_ps(sign, _mm256_set1_ps(0x1.fffffep-2f));
    return _mm256_cvttps_epi32(_mm256_add_ps(v, almost_half));
}

QNI_INLINE __m256i levels_of_32(const float *x, float inverse)
{
    const __m256 inv = _mm256_set1_ps(inverse);
    __m256i q[4];
    for (int i = 0; i < 4; i++) {
        q[i] = round_away(_mm256_mul_ps(_mm256_loadu_ps(x + 8 * i), inv));
    }
    return to_bytes(q);
}

QNI_INLINE qni_encode_result q8_0_group(const float *x, int n, qni_block_q8_0 *block)
{
    q8_scales s;
    qni_encode_result result = find_scales(x, n, &s);
    for (int b = 0; b < n; b++) {
        qni_store_u16le(block[b].d, s.d16[b]);
        _mm256_storeu_si256((__m256i *)(void *)block[b].qs, levels_of_32(x + N * b, s.inv[b]));
    }
    for (int b = 0; QNI_UNLIKELY(s.is_odd >> b); b++) {
        if (s.is_odd >> b & 1) {
            result =
                qni_worse(result, qni_encode_q8_0_scalar(x + N * b, 1, N, NULL, NULL, block + b));
        }
    }
    return result;
}

QNI_INLINE qni_encode_result q8_1_group(const float *x, int n, qni_block_q8_1 *block)
{
    q8_scales s;
    __m256i sums[GROUP];
    QNI_ALIGNED(16) uint16_t s16[GROUP];
    qni_encode_result result = find_scales(x, n, &s);
    for (int b = 0; b < GROUP; b++) {
        sums[b] = _mm256_setzero_si256();
        if (b < n) {
            const __m256i q = levels_of_32(x + N * b, s.inv[b]);
            qni_store_u16le(block[b].d, s.d16[b]);
            _mm256_storeu_si256((__m256i *)(void *)block[b].qs, q);
            sums[b] = sums_of_4(q);
        }
    }
    const __m256 sum = _mm256_cvtepi32_ps(sum_of_8(sums));
    result = qni_worse(result, store_halves_x8(s16, _mm256_mul_ps(sum, s.d)));
    for (int b = 0; b < n; b++) {
        qni_store_u16le(block[b].s, s16[b]);
        if (QNI_UNLIKELY(s.is_odd >> b & 1)) {
            result =
                qni_worse(result, qni_encode_q8_1_scalar(x + N * b, 1, N, NULL, NULL, block + b));
        }
    }
    return result;
}

#define ENCODE_Q8(type)                                                                          \
    QNI_PROTO_encode(qni_encode_##type##_avx2)                                                   \
    {                                                                                            \
        (void)tables, (void)weights;                                                             \
        const int64_t n_blocks = n_rows * (row_len / N);                                         \
        qni_block_##type *block = out;                                                           \
        qni_encode_result result = QNI_ENCODE_OK;                                                \
        int64_t i = 0;                                                                           \
        for (; i + GROUP <= n_blocks; i += GROUP) {                                              \
            prefetch_next_piece(x + N * i, N * GROUP);                                           \
            result = qni_worse(result, type##_group(x + N * i, GROUP, block + i));               \
        }                                                                                        \
        if (i < n_blocks) {                                                                      \
            result = qni_worse(result, type##_group(x + N * i, (int)(n_blocks - i), block + i)); \
        }                                                                                        \
        return result;                                                                           \
    }
ENCODE_Q8(q8_0)
ENCODE_Q8(q8_1)

/* --- q8_K ----------------------------------------------------------------------------------------
 */

QNI_INLINE __m128i halves_max_epi32(__m256i v)
{
    const __m128i a = _mm_max_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    const __m128i b = _mm_max_epi32(a, _mm_shuffle_epi32(a, 0x4e));
    return _mm_max_epi32(b, _mm_shuffle_epi32(b, 0xb1));
}

QNI_INLINE __m128i halves_max_epu32(__m256i v)
{
    const __m128i a = _mm_max_epu32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    const __m128i b = _mm_max_epu32(a, _mm_shuffle_epi32(a, 0x4e));
    return _mm_max_epu32(b, _mm_shuffle_epi32(b, 0xb1));
}

/* Bits of the value of largest magnitude with its sign, of equal ones the first. As signed numbers
 * the positive floats win, as unsigned ones the negative. */
QNI_INLINE uint32_t extreme_of_256(const float *x)
{
    __m256i hi = _mm256_setzero_si256();
    __m256i lo = _mm256_setzero_si256();
    for (int i = 0; i < QNI_SUPER; i += 8) {
        const __m256i v = load_bits(x + i);
        hi = _mm256_max_epi32(hi, v);
        lo = _mm256_max_epu32(lo, v);
    }
    const uint32_t top = (uint32_t)_mm_cvtsi128_si32(halves_max_epi32(hi));
    const uint32_t bottom = (uint32_t)_mm_cvtsi128_si32(halves_max_epu32(lo));
    const uint32_t magnitude = bottom & QNI_F32_ABS_MASK;
    if (magnitude == top && bottom != top && top < QNI_F32_INF) {
        return qni_f32_bits(qni_absmax(x, QNI_SUPER).value);
    }
    return magnitude > top ? bottom : top;
}

/* 16 sums of 16 levels, from sums of four of each 32. */
QNI_INLINE void store_sums(const __m256i *four, uint8_t *out)
{
    const __m256i a =
        _mm256_hadd_epi32(_mm256_hadd_epi32(four[0], four[1]), _mm256_hadd_epi32(four[2], four[3]));
    const __m256i b =
        _mm256_hadd_epi32(_mm256_hadd_epi32(four[4], four[5]), _mm256_hadd_epi32(four[6], four[7]));
    const __m256i words = _mm256_packs_epi32(a, b); /* even sums in the low half, odd in the high */
    const __m128i even = _mm256_castsi256_si128(words);
    const __m128i odd = _mm256_extracti128_si256(words, 1);
    _mm_storeu_si128((__m128i *)(void *)out, _mm_unpacklo_epi16(even, odd));
    _mm_storeu_si128((__m128i *)(void *)(out + 16), _mm_unpackhi_epi16(even, odd));
}

QNI_INLINE qni_encode_result q8_k_block(const float *x, qni_block_q8_k *block)
{
    const uint32_t bits = extreme_of_256(x);
    const uint32_t magnitude = bits & QNI_F32_ABS_MASK;
    /* below 2^-119 the inverse is, or may become, infinite */
    if (QNI_UNLIKELY(magnitude < 0x04000000u || magnitude >= QNI_F32_INF)) {
        return qni_encode_q8_k_scalar(x, 1, QNI_SUPER, NULL, NULL, block);
    }
    const float inverse = -127.0f / qni_f32_from_bits(bits);
    const __m256 inv = _mm256_set1_ps(inverse);
    __m256i four[QNI_SUPER / N];
    for (int j = 0; j < QNI_SUPER / N; j++) {
        __m256i q[4];
        for (int i = 0; i < 4; i++) {
            q[i] = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x + N * j + 8 * i), inv));
        }
        const __m256i bytes = to_bytes(q); /* 128 saturates to 127 */
        _mm256_storeu_si256((__m256i *)(void *)(block->qs + N * j), bytes);
        four[j] = sums_of_4(bytes);
    }
    store_sums(four, block->bsums);
    qni_store_f32le(block->d, 1.0f / inverse);
    return QNI_ENCODE_OK;
}

QNI_PROTO_encode(qni_encode_q8_k_avx2)
{
    (void)weights, (void)tables;
    qni_block_q8_k *block = out;
    qni_encode_result result = QNI_ENCODE_OK;
    for (int64_t i = 0; i < n_rows * (row_len / QNI_SUPER); i++, block++, x += QNI_SUPER) {
        prefetch_next_piece(x, QNI_SUPER);
        result = qni_worse(result, q8_k_block(x, block));
    }
    return result;
}
