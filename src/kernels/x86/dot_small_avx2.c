/* dot_small_avx2.c — products with weights of 32 to 128 elements a block. Layouts:
 * scalar/<format>.c. */
#include "kernels/x86/dot_avx2_internal.h"
#include "kernels/x86/dot_words_avx2_internal.h"

#define BEGIN_WITH_SCALE(name)                                    \
    QNI_INLINE void begin_##name(const void *p, block_head *head) \
    {                                                             \
        const qni_block_##name *block = p;                        \
        head->scale[0] = scale_of(block->d);                      \
    }
BEGIN_WITH_SCALE(q4_0)
BEGIN_WITH_SCALE(q5_0)
BEGIN_WITH_SCALE(q8_0)
BEGIN_WITH_SCALE(iq4_nl)

#define BEGIN_WITH_MINIMUM(name)                                  \
    QNI_INLINE void begin_##name(const void *p, block_head *head) \
    {                                                             \
        const qni_block_##name *block = p;                        \
        head->scale[0] = scale_of(block->d);                      \
        head->offset = scale_of(block->m);                        \
    }
BEGIN_WITH_MINIMUM(q4_1)
BEGIN_WITH_MINIMUM(q5_1)

QNI_INLINE __m256i bytes_q4_0(const void *p, const block_head *head, int j)
{
    const qni_block_q4_0 *block = p;
    (void)head, (void)j;
    return split_nibbles(block->qs);
}
DOT_SMALL(q4_0, halves_of_words, 32, PLAIN, q8_0, b32, 8, false, 32)

QNI_INLINE __m256i bytes_q4_1(const void *p, const block_head *head, int j)
{
    const qni_block_q4_1 *block = p;
    (void)head, (void)j;
    return split_nibbles(block->qs);
}
DOT_SMALL(q4_1, halves_of_words, 32, SUMS, q8_1, b32_sum, 0, false, 32)

QNI_INLINE __m256i bytes_q5_0(const void *p, const block_head *head, int j)
{
    const qni_block_q5_0 *block = p;
    (void)head, (void)j;
    return join_fifth_bits(block->qs, block->qh);
}
DOT_SMALL(q5_0, halves_of_words, 32, PLAIN, q8_0, b32, 16, false, 32)

QNI_INLINE __m256i bytes_q5_1(const void *p, const block_head *head, int j)
{
    const qni_block_q5_1 *block = p;
    (void)head, (void)j;
    return join_fifth_bits(block->qs, block->qh);
}
DOT_SMALL(q5_1, halves_of_words, 32, SUMS, q8_1, b32_sum16, 0, false, 16)

QNI_INLINE __m256i bytes_q8_0(const void *p, const block_head *head, int j)
{
    const qni_block_q8_0 *block = p;
    (void)head, (void)j;
    return load_32(block->qs);
}
DOT_SMALL(q8_0, halves_of_words, 32, PLAIN, q8_0, s32, 0, true, 32)

QNI_INLINE __m256i bytes_iq4_nl(const void *p, const block_head *head, int j)
{
    const qni_block_iq4_nl *block = p;
    (void)head, (void)j;
    return look_up(iq4_levels(), split_nibbles(block->qs));
}
DOT_SMALL(iq4_nl, halves_of_words, 32, PLAIN, q8_0, s32, 0, true, 32)

QNI_INLINE void begin_mxfp4(const void *p, block_head *head)
{
    const qni_block_mxfp4 *block = p;
    head->scale[0] = half_e8m0(block->e);
}

/* E8M0 fields in the low bytes of eight words. */
QNI_INLINE __m256 e8m0_of_words(__m256i words)
{
    return half_e8m0_lanes(_mm256_and_si256(words, _mm256_set1_epi32(255)));
}

/* Of 32 nibbles, plus 12. */
QNI_INLINE __m256i fp4_codes(const uint8_t *qs)
{
    return look_up(_mm_add_epi8(fp4_levels(), _mm_set1_epi8(12)), split_nibbles(qs));
}

QNI_INLINE __m256i bytes_mxfp4(const void *p, const block_head *head, int j)
{
    const qni_block_mxfp4 *block = p;
    (void)head, (void)j;
    return fp4_codes(block->qs);
}
DOT_SMALL(mxfp4, e8m0_of_words, 32, PLAIN, q8_0, b32, 12, false, 32)

QNI_INLINE void begin_nvfp4(const void *p, block_head *head)
{
    const qni_block_nvfp4 *block = p;
    _mm_storeu_ps(head->scale, _mm256_castps256_ps128(ue4m3_halves(load_4(block->scales))));
}

/* Low nibbles of two steps, then their high nibbles. */
QNI_INLINE __m256i bytes_nvfp4(const void *p, const block_head *head, int j)
{
    const qni_block_nvfp4 *block = p;
    (void)head;
    return fp4_codes(block->qs + 16 * j);
}

QNI_INLINE __m256 ue4m3_of_words(__m256i words)
{
    return ue4m3_halves(_mm256_castsi256_si128(words));
}

QNI_PROTO_dot(qni_dot_nvfp4_avx2)
{
    const dot_format f = {.begin = begin_nvfp4,
                          .bytes = bytes_nvfp4,
                          .scales = ue4m3_of_words,
                          .n_elems = 64,
                          .n_bytes = sizeof(qni_block_nvfp4),
                          .step = STEP,
                          .act_elems = 32,
                          .act_bytes = sizeof(qni_block_q8_0),
                          .act_codes_at = offsetof(qni_block_q8_0, qs),
                          .tile = {.bias = 12}};
    if (tile->n_cols <= FEW_COLS) {
        dot_few_bytes(&f, tile);
    } else {
        dot_many(&f, tile);
    }
}

/* One scale for several activation blocks. */
QNI_INLINE void begin_q1_0(const void *p, block_head *head)
{
    const qni_block_q1_0 *block = p;
    _mm_storeu_ps(head->scale, _mm_set1_ps(scale_of(block->d)));
}

QNI_INLINE __m256i bytes_q1_0(const void *p, const block_head *head, int j)
{
    const qni_block_q1_0 *block = p;
    (void)head;
    const __m256i is_one = spread_bits(qni_load_u32le(block->bits + 4 * j));
    return _mm256_and_si256(is_one, _mm256_set1_epi8(2));
}
DOT_SMALL(q1_0, halves_of_words, 128, PLAIN, q8_0, b32, 1, false, 32)

QNI_INLINE void begin_q2_0(const void *p, block_head *head)
{
    const qni_block_q2_0 *block = p;
    _mm_storeu_ps(head->scale, _mm_set1_ps(scale_of(block->d)));
}

QNI_INLINE __m256i bytes_q2_0(const void *p, const block_head *head, int j)
{
    const qni_block_q2_0 *block = p;
    (void)head;
    const __m128i eight = load_8(block->qs + 8 * j);
    return look_up_pairs(PAIR_TABLE(0, 1, 2, 3), eight);
}
DOT_SMALL(q2_0, halves_of_words, 64, PLAIN, q8_0, b32, 1, false, 32)
