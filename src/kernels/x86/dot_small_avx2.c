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
DOT_AVX2(q4_0, halves_of_words, 32, 32, PLAIN, q8_0, b32, 8, false, 32, 0)

QNI_INLINE __m256i bytes_q4_1(const void *p, const block_head *head, int j)
{
    const qni_block_q4_1 *block = p;
    (void)head, (void)j;
    return split_nibbles(block->qs);
}
DOT_AVX2(q4_1, halves_of_words, 32, 32, SUMS, q8_1, b32_sum, 0, false, 32, 0)

QNI_INLINE __m256i bytes_q5_0(const void *p, const block_head *head, int j)
{
    const qni_block_q5_0 *block = p;
    (void)head, (void)j;
    return join_fifth_bits(block->qs, block->qh);
}
DOT_AVX2(q5_0, halves_of_words, 32, 32, PLAIN, q8_0, b32, 16, false, 32, 0)

QNI_INLINE __m256i bytes_q5_1(const void *p, const block_head *head, int j)
{
    const qni_block_q5_1 *block = p;
    (void)head, (void)j;
    return join_fifth_bits(block->qs, block->qh);
}
DOT_AVX2(q5_1, halves_of_words, 32, 32, SUMS, q8_1, b32_sum16, 0, false, 16, 0)

QNI_INLINE __m256i bytes_q8_0(const void *p, const block_head *head, int j)
{
    const qni_block_q8_0 *block = p;
    (void)head, (void)j;
    return load_32(block->qs);
}
DOT_AVX2(q8_0, halves_of_words, 32, 32, PLAIN, q8_0, s32, 0, true, 32, 0)

QNI_INLINE __m256i bytes_iq4_nl(const void *p, const block_head *head, int j)
{
    const qni_block_iq4_nl *block = p;
    (void)head, (void)j;
    return look_up(iq4_levels(), split_nibbles(block->qs));
}
DOT_AVX2(iq4_nl, halves_of_words, 32, 32, PLAIN, q8_0, s32, 0, true, 32, 0)

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

QNI_INLINE __m256i bytes_mxfp4(const void *p, const block_head *head, int j)
{
    const qni_block_mxfp4 *block = p;
    (void)head, (void)j;
    return look_up(_mm_add_epi8(fp4_levels(), _mm_set1_epi8(12)), split_nibbles(block->qs));
}
DOT_AVX2(mxfp4, e8m0_of_words, 32, 32, PLAIN, q8_0, b32, 12, false, 32, 0)

QNI_INLINE void begin_nvfp4(const void *p, block_head *head)
{
    const qni_block_nvfp4 *block = p;
    _mm_storeu_ps(head->scale, ue4m3_halves(block->scales));
}

QNI_INLINE __m256i bytes_nvfp4(const void *p, const block_head *head, int j)
{
    const qni_block_nvfp4 *block = p;
    (void)head;
    const __m256i q = look_up(fp4_levels(), split_nibbles(block->qs + 16 * j));
    /* low nibbles of two groups, high nibbles of two groups -> group, group */
    return _mm256_permute4x64_epi64(q, 0xd8);
}

QNI_PROTO_dot(qni_dot_nvfp4_avx2)
{
    const dot_format f = {.begin = begin_nvfp4,
                          .bytes = bytes_nvfp4,
                          .n_elems = 64,
                          .n_bytes = sizeof(qni_block_nvfp4),
                          .step = STEP,
                          .act_elems = 32,
                          .act_bytes = sizeof(qni_block_q8_0),
                          .act_codes_at = offsetof(qni_block_q8_0, qs)};
    if (tile->n_cols <= FEW_COLS) {
        dot_few(&f, tile);
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
DOT_AVX2(q1_0, halves_of_words, 128, 32, PLAIN, q8_0, b32, 1, false, 32, 0)

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
DOT_AVX2(q2_0, halves_of_words, 64, 32, PLAIN, q8_0, b32, 1, false, 32, 0)
