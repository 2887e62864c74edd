/* dot_k_avx2.c — products with super-blocks without a codebook: K, ternary and iq4_xs. Layouts:
 * scalar/<format>.c. */
#include "kernels/x86/dot_avx2_internal.h"

/* Plane j of two-bit levels: 32 bytes hold four of them. */
QNI_INLINE __m256i plane_of(const uint8_t *qs, int j)
{
    const __m256i bytes = load_32(qs + 32 * (j / 4));
    return _mm256_and_si256(_mm256_srl_epi16(bytes, _mm_cvtsi32_si128(2 * (j % 4))),
                            _mm256_set1_epi8(3));
}

QNI_INLINE void begin_q2_k(const void *p, block_head *head)
{
    const qni_block_q2_k *block = p;
    const __m128i scales = load_16(block->scales);
    const __m128i nibble = _mm_set1_epi8(15);
    head->scale[0] = scale_of(block->d);
    head->offset = scale_of(block->dmin);
    store_i16(head->factor, _mm256_cvtepu8_epi16(_mm_and_si128(scales, nibble)));
    store_i16(head->minima, _mm256_cvtepu8_epi16(_mm_and_si128(_mm_srli_epi16(scales, 4), nibble)));
}

QNI_INLINE __m256i bytes_q2_k(const void *p, const block_head *head, int j)
{
    const qni_block_q2_k *block = p;
    (void)head;
    return plane_of(block->qs, j);
}
DOT_AVX2_STAGED(q2_k, bytes_q2_k, CHUNK, CHUNK, MINIMA, q8_k, k16_min, 0, false, 16, 16)

QNI_INLINE void begin_q3_k(const void *p, block_head *head)
{
    const qni_block_q3_k *block = p;
    head->scale[0] = scale_of(block->d);
    store_i16(head->factor, _mm256_cvtepi8_epi16(q3_k_scales(block->scales)));
}

QNI_INLINE __m256i bytes_q3_k(const void *p, const block_head *head, int j)
{
    const qni_block_q3_k *block = p;
    (void)head;
    const __m256i bit = _mm256_set1_epi8((char)(1 << j));
    const __m256i is_low =
        _mm256_cmpeq_epi8(_mm256_and_si256(load_32(block->hmask), bit), _mm256_setzero_si256());
    const __m256i four = _mm256_and_si256(is_low, _mm256_set1_epi8(4));
    const __m256i q = _mm256_sub_epi8(plane_of(block->qs, j), four);
    return q;
}
DOT_AVX2_STAGED(q3_k, bytes_q3_k, CHUNK, CHUNK, PLAIN, q8_k, k16, 4, false, 16, 16)

/* Eight bytes, each twice, as 16-bit integers. */
QNI_INLINE __m256i twice_x8(uint64_t bytes)
{
    const __m128i b = _mm_cvtsi64_si128((int64_t)bytes);
    return _mm256_cvtepu8_epi16(_mm_unpacklo_epi8(b, b));
}

QNI_INLINE void begin_45(const uint8_t *d, const uint8_t *dmin, const uint8_t *packed,
                         block_head *head)
{
    const codes_45 codes = unpack_codes_45(packed);
    head->scale[0] = scale_of(d);
    head->offset = scale_of(dmin);
    store_i16(head->factor, twice_x8(codes.scales));
    store_i16(head->minima, twice_x8(codes.minima));
}

QNI_INLINE __m256i nibbles_of(const uint8_t *qs, int j)
{
    const __m256i bytes = load_32(qs + 32 * (j / 2));
    return _mm256_and_si256(j % 2 ? _mm256_srli_epi16(bytes, 4) : bytes, _mm256_set1_epi8(15));
}

QNI_INLINE void begin_q4_k(const void *p, block_head *head)
{
    const qni_block_q4_k *block = p;
    begin_45(block->d, block->dmin, block->scales, head);
}

QNI_INLINE __m256i bytes_q4_k(const void *p, const block_head *head, int j)
{
    const qni_block_q4_k *block = p;
    (void)head;
    return nibbles_of(block->qs, j);
}
DOT_AVX2_STAGED(q4_k, bytes_q4_k, CHUNK, CHUNK, MINIMA, q8_k, k32_min, 0, false, 32, 32)

QNI_INLINE void begin_q5_k(const void *p, block_head *head)
{
    const qni_block_q5_k *block = p;
    begin_45(block->d, block->dmin, block->scales, head);
}

QNI_INLINE __m256i bytes_q5_k(const void *p, const block_head *head, int j)
{
    const qni_block_q5_k *block = p;
    (void)head;
    const __m256i bit = _mm256_set1_epi8((char)(1 << j));
    const __m256i is_set = _mm256_cmpeq_epi8(_mm256_and_si256(load_32(block->qh), bit), bit);
    const __m256i high = _mm256_and_si256(is_set, _mm256_set1_epi8(16));
    return _mm256_or_si256(nibbles_of(block->qs, j), high);
}
DOT_AVX2_STAGED(q5_k, bytes_q5_k, CHUNK, CHUNK, MINIMA, q8_k, k32_min16, 0, false, 16, 32)

QNI_INLINE void begin_q6_k(const void *p, block_head *head)
{
    const qni_block_q6_k *block = p;
    head->scale[0] = scale_of(block->d);
    store_i16(head->factor, _mm256_cvtepi8_epi16(load_16(block->scales)));
}

/* Group g of a half: low nibbles of two stretches of 32 bytes, then their high nibbles. */
QNI_INLINE __m256i bytes_q6_k(const void *p, const block_head *head, int j)
{
    const qni_block_q6_k *block = p;
    (void)head;
    const int half = j / 4;
    const int g = j % 4;
    const __m256i low = load_32(block->ql + 64 * half + 32 * (g % 2));
    const __m256i high = _mm256_srl_epi16(load_32(block->qh + 32 * half), _mm_cvtsi32_si128(2 * g));
    const __m256i nibble =
        _mm256_and_si256(g / 2 ? _mm256_srli_epi16(low, 4) : low, _mm256_set1_epi8(15));
    const __m256i two = _mm256_slli_epi16(_mm256_and_si256(high, _mm256_set1_epi8(3)), 4);
    const __m256i q = _mm256_sub_epi8(_mm256_or_si256(nibble, two), _mm256_set1_epi8(32));
    return q;
}
DOT_AVX2_STAGED(q6_k, bytes_q6_k, CHUNK, CHUNK, PLAIN, q8_k, k16, 32, false, 16, 16)

QNI_INLINE void begin_iq4_xs(const void *p, block_head *head)
{
    const qni_block_iq4_xs *block = p;
    QNI_ALIGNED(32) int32_t factor[8];
    _mm256_store_si256((__m256i *)(void *)factor, iq4_xs_factors(block));
    head->scale[0] = scale_of(block->d);
    for (int j = 0; j < 8; j++) {
        head->factor[2 * j] = (int16_t)factor[j];
        head->factor[2 * j + 1] = (int16_t)factor[j];
    }
}

QNI_INLINE __m256i bytes_iq4_xs(const void *p, const block_head *head, int j)
{
    const qni_block_iq4_xs *block = p;
    (void)head;
    return look_up(iq4_levels(), split_nibbles(block->qs + 16 * j));
}
DOT_AVX2_STAGED(iq4_xs, bytes_iq4_xs, CHUNK, CHUNK, PLAIN, q8_k, sk, 0, true, 32, 32)

QNI_INLINE void begin_tq2_0(const void *p, block_head *head)
{
    const qni_block_tq2_0 *block = p;
    head->scale[0] = scale_of(block->d);
}

QNI_INLINE __m256i bytes_tq2_0(const void *p, const block_head *head, int j)
{
    const qni_block_tq2_0 *block = p;
    (void)head;
    return _mm256_sub_epi8(plane_of(block->qs, j), _mm256_set1_epi8(1));
}
DOT_AVX2_STAGED(tq2_0, bytes_tq2_0, CHUNK, CHUNK, PLAIN, q8_k, k, 1, false, 32, 0)
