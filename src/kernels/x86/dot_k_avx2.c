/* dot_k_avx2.c — products with super-blocks without a codebook: K, ternary and iq4_xs. Layouts:
 * scalar/<format>.c. */
#include "kernels/x86/dot_avx2_internal.h"

/* Bits that lie at `from` of each byte, at `to`; the others are what they may. */
QNI_INLINE __m256i move_bits(__m256i v, int from, int to)
{
    if (from == to) {
        return v;
    }
    return from > to ? _mm256_srli_epi16(v, from - to) : _mm256_slli_epi16(v, to - from);
}

QNI_INLINE __m256i mask_bits(__m256i v, int mask)
{
    return _mm256_and_si256(v, _mm256_set1_epi8((char)mask));
}

/* Plane j of two-bit levels: 32 bytes hold four of them. */
QNI_INLINE __m256i plane_of(const uint8_t *qs, int j)
{
    return mask_bits(move_bits(load_32(qs + 32 * (j / 4)), 2 * (j % 4), 0), 3);
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
DOT_SUPER(q2_k, MINIMA, k16_min, 0, false, 16, 16)

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
    const __m256i high = mask_bits(move_bits(load_32(block->hmask), j, 2), 4);
    return _mm256_or_si256(plane_of(block->qs, j), high);
}
DOT_SUPER(q3_k, PLAIN, k16, 4, false, 16, 16)

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
    return mask_bits(move_bits(load_32(qs + 32 * (j / 2)), 4 * (j % 2), 0), 15);
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
DOT_SUPER(q4_k, MINIMA, k32_min, 0, false, 32, 32)

QNI_INLINE void begin_q5_k(const void *p, block_head *head)
{
    const qni_block_q5_k *block = p;
    begin_45(block->d, block->dmin, block->scales, head);
}

QNI_INLINE __m256i bytes_q5_k(const void *p, const block_head *head, int j)
{
    const qni_block_q5_k *block = p;
    (void)head;
    const __m256i high = mask_bits(move_bits(load_32(block->qh), j, 4), 16);
    return _mm256_or_si256(nibbles_of(block->qs, j), high);
}
DOT_SUPER(q5_k, MINIMA, k32_min16, 0, false, 16, 32)

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
    const __m256i high = move_bits(load_32(block->qh + 32 * half), 2 * g, 4);
    return _mm256_or_si256(mask_bits(move_bits(low, 4 * (g / 2), 0), 15), mask_bits(high, 48));
}
DOT_SUPER(q6_k, PLAIN, k16, 32, false, 16, 16)

QNI_INLINE void begin_iq4_xs(const void *p, block_head *head)
{
    const qni_block_iq4_xs *block = p;
    head->scale[0] = scale_of(block->d);
    store_i16(head->factor, twice_i16(iq4_xs_factors(block)));
}

QNI_INLINE __m256i bytes_iq4_xs(const void *p, const block_head *head, int j)
{
    const qni_block_iq4_xs *block = p;
    (void)head;
    return look_up(iq4_levels(), split_nibbles(block->qs + 16 * j));
}
DOT_SUPER(iq4_xs, PLAIN, sk, 0, true, 32, 32)

QNI_INLINE void begin_tq2_0(const void *p, block_head *head)
{
    const qni_block_tq2_0 *block = p;
    head->scale[0] = scale_of(block->d);
}

QNI_INLINE __m256i bytes_tq2_0(const void *p, const block_head *head, int j)
{
    const qni_block_tq2_0 *block = p;
    (void)head;
    return plane_of(block->qs, j);
}
DOT_SUPER(tq2_0, PLAIN, k, 1, false, 32, 0)

QNI_INLINE void begin_tq1_0(const void *p, block_head *head)
{
    const qni_block_tq1_0 *block = p;
    head->scale[0] = scale_of(block->d);
}

/* Three to the n times each byte: what multiplying by three next carries out is trit n. */
QNI_INLINE __m256i move_trits(__m256i bytes, int n)
{
    QNI_UNROLL for (int i = 0; i < n; i++)
    {
        bytes = _mm256_add_epi8(bytes, _mm256_add_epi8(bytes, bytes));
    }
    return bytes;
}

/* byte * 3 / 256. The bytes are less 128, so that signed comparisons order them. */
QNI_INLINE __m256i top_trits(__m256i bytes)
{
    const __m256i is_one = _mm256_cmpgt_epi8(bytes, _mm256_set1_epi8(85 - 128));
    const __m256i is_two = _mm256_cmpgt_epi8(bytes, _mm256_set1_epi8(170 - 128));
    return _mm256_sub_epi8(_mm256_abs_epi8(is_one), is_two);
}

/* Less 128, which stays so when they are moved: 3 * 128 is 128 (mod 256). */
QNI_INLINE __m256i less_128(__m256i bytes)
{
    return _mm256_xor_si256(bytes, _mm256_set1_epi8(-128));
}

QNI_INLINE __m256i bytes_tq1_0(const void *p, const block_head *head, int j)
{
    const qni_block_tq1_0 *block = p;
    (void)head;
    if (j < 5) {
        return top_trits(move_trits(less_128(load_32(block->qs)), j));
    }
    const __m256i both = less_128(_mm256_broadcastsi128_si256(load_16(block->qs + 32)));
    if (j < 7) {
        const __m256i first = move_trits(both, 2 * (j - 5));
        return top_trits(_mm256_blend_epi32(first, move_trits(first, 1), 0xf0));
    }
    const __m256i last = less_128(_mm256_set1_epi32((int32_t)qni_load_u32le(block->qh)));
    const __m256i once = move_trits(last, 1);
    const __m256i twice = move_trits(once, 1);
    const __m256i low = _mm256_blend_epi32(last, once, 0xaa);
    const __m256i high = _mm256_blend_epi32(twice, move_trits(twice, 1), 0xaa);
    return top_trits(
        _mm256_blend_epi32(move_trits(both, 4), _mm256_blend_epi32(low, high, 0xcc), 0xf0));
}
DOT_SUPER(tq1_0, PLAIN, k, 1, false, 32, 0)
