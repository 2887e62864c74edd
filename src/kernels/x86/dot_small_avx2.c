/* dot_small_avx2.c — products with weights of 32 to 128 elements a block. Layouts:
 * scalar/<format>.c. */
#include "kernels/x86/dot_avx2_internal.h"

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
    return _mm256_sub_epi8(split_nibbles(block->qs), _mm256_set1_epi8(8));
}
DOT_AVX2_STAGED(q4_0, bytes_q4_0, 32, 32, PLAIN, q8_0, b32, 8, false, 32, 0)

QNI_INLINE __m256i bytes_q4_1(const void *p, const block_head *head, int j)
{
    const qni_block_q4_1 *block = p;
    (void)head, (void)j;
    return split_nibbles(block->qs);
}
DOT_AVX2_STAGED(q4_1, bytes_q4_1, 32, 32, SUMS, q8_1, b32_sum, 0, false, 32, 0)

QNI_INLINE __m256i bytes_q5_0(const void *p, const block_head *head, int j)
{
    const qni_block_q5_0 *block = p;
    (void)head, (void)j;
    return _mm256_sub_epi8(join_fifth_bits(block->qs, block->qh), _mm256_set1_epi8(16));
}
DOT_AVX2_STAGED(q5_0, bytes_q5_0, 32, 32, PLAIN, q8_0, b32, 16, false, 32, 0)

QNI_INLINE __m256i bytes_q5_1(const void *p, const block_head *head, int j)
{
    const qni_block_q5_1 *block = p;
    (void)head, (void)j;
    return join_fifth_bits(block->qs, block->qh);
}
DOT_AVX2_STAGED(q5_1, bytes_q5_1, 32, 32, SUMS, q8_1, b32_sum16, 0, false, 16, 0)

QNI_INLINE __m256i bytes_q8_0(const void *p, const block_head *head, int j)
{
    const qni_block_q8_0 *block = p;
    (void)head, (void)j;
    return load_32(block->qs);
}
DOT_AVX2_STAGED(q8_0, bytes_q8_0, 32, 32, PLAIN, q8_0, s32, 0, true, 32, 0)

QNI_INLINE __m256i bytes_iq4_nl(const void *p, const block_head *head, int j)
{
    const qni_block_iq4_nl *block = p;
    (void)head, (void)j;
    return look_up(iq4_levels(), split_nibbles(block->qs));
}
DOT_AVX2_STAGED(iq4_nl, bytes_iq4_nl, 32, 32, PLAIN, q8_0, s32, 0, true, 32, 0)

QNI_INLINE void begin_mxfp4(const void *p, block_head *head)
{
    const qni_block_mxfp4 *block = p;
    head->scale[0] = half_e8m0(block->e);
}

QNI_INLINE __m256i bytes_mxfp4(const void *p, const block_head *head, int j)
{
    const qni_block_mxfp4 *block = p;
    (void)head, (void)j;
    return look_up(fp4_levels(), split_nibbles(block->qs));
}
DOT_AVX2_STAGED(mxfp4, bytes_mxfp4, 32, 32, PLAIN, q8_0, b32, 12, false, 32, 0)

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
DOT_AVX2(nvfp4, bytes_nvfp4, NULL, false, 64, 16, PLAIN, q8_0)

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
    return _mm256_sub_epi8(_mm256_and_si256(is_one, _mm256_set1_epi8(2)), _mm256_set1_epi8(1));
}
DOT_AVX2_STAGED(q1_0, bytes_q1_0, 128, 32, PLAIN, q8_0, b32, 1, false, 32, 0)

QNI_INLINE void begin_q2_0(const void *p, block_head *head)
{
    const qni_block_q2_0 *block = p;
    _mm_storeu_ps(head->scale, _mm_set1_ps(scale_of(block->d)));
}

/* Four bytes to sixteen levels of two bits: moved to bits 6-7 by a product, then down. */
QNI_INLINE __m256i two_bits_x16(const uint8_t *qs)
{
    const __m256i up = _mm256_set1_epi64x(0x0001000400100040);
    const __m128i four = _mm_setr_epi8(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
    const __m256i bytes = _mm256_cvtepu8_epi16(_mm_shuffle_epi8(load_4(qs), four));
    const __m256i level = _mm256_srli_epi16(_mm256_mullo_epi16(bytes, up), 6);
    return _mm256_sub_epi16(_mm256_and_si256(level, _mm256_set1_epi16(3)), _mm256_set1_epi16(1));
}

QNI_INLINE codes_32 load_q2_0(const void *p, const block_head *head, int j)
{
    const qni_block_q2_0 *block = p;
    (void)head;
    return (codes_32){two_bits_x16(block->qs + 8 * j), two_bits_x16(block->qs + 8 * j + 4)};
}
DOT_AVX2(q2_0, NULL, load_q2_0, false, 64, 32, PLAIN, q8_0)
