/* dot_lattice_avx2.c — products with the codebook types. Layouts: scalar/iq1.c, iq2.c, iq3.c;
 * packed points: lattice_internal.h.
 *
 * The points of 32 elements are put side by side and their levels looked up where they lie. Codes
 * are what the decoder makes of a block whose scale is 1, times a small power of two, without the
 * odd factors: 8, 25, 43 (iq2), 4 .. 62 and 1 .. 15 (iq3), 8 level + shift (iq1). */
#include "kernels/x86/dot_avx2_internal.h"

#include "kernels/lattice_internal.h"

/* --- what the types share ------------------------------------------------------------------------
 */

/* Factors from their codes. */
QNI_INLINE __m256i odd_i32(__m256i code)
{
    return _mm256_add_epi32(_mm256_add_epi32(code, code), _mm256_set1_epi32(1));
}

QNI_INLINE __m256i odd_i16(__m256i code)
{
    return _mm256_add_epi16(_mm256_add_epi16(code, code), _mm256_set1_epi16(1));
}

/* The nibbles of eight bytes, low ones first. */
QNI_INLINE __m128i nibbles_x16(__m128i bytes)
{
    const __m128i b = _mm_cvtepu8_epi16(bytes);
    return _mm_and_si128(_mm_or_si128(b, _mm_slli_epi16(b, 4)), _mm_set1_epi8(15));
}

/* Those of sixteen, to the bytes of a table. */
QNI_INLINE __m256i look_up_nibbles(__m128i table, __m128i bytes)
{
    const __m256i b = _mm256_cvtepu8_epi16(bytes);
    const __m256i at = _mm256_or_si256(b, _mm256_slli_epi16(b, 4));
    return look_up(table, _mm256_and_si256(at, _mm256_set1_epi8(15)));
}

/* Negative where the bit is set. */
QNI_INLINE __m256i turn_signs(__m256i magnitudes, uint32_t signs)
{
    const __m256i is_set = spread_bits(signs);
    return _mm256_sub_epi8(_mm256_xor_si256(magnitudes, is_set), is_set);
}

/* Four points of eight dimensions. */
QNI_INLINE __m128i points_x4(uint64_t a, uint64_t b, uint64_t c, uint64_t d)
{
    return _mm_cvtsi64_si128((int64_t)(a | b << 16 | c << 32 | d << 48));
}

/* --- iq2 -----------------------------------------------------------------------------------------
 */

#define IQ2_LEVELS PAIR_TABLE(8, 25, 43, 0)

QNI_INLINE void begin_iq2_xxs(const void *p, block_head *head)
{
    const qni_block_iq2_xxs *block = p;
    const __m256 a = _mm256_castsi256_ps(load_32(block->qs));
    const __m256 b = _mm256_castsi256_ps(load_32(block->qs + 32));
    const __m256i words = _mm256_castps_si256(_mm256_shuffle_ps(a, b, 0xdd));
    const __m256i code = _mm256_srli_epi32(_mm256_permute4x64_epi64(words, 0xd8), 28);
    head->scale[0] = scale_of(block->d) * 0.125f;
    store_i16(head->factor, twice_i16(odd_i32(code)));
}

QNI_INLINE __m256i bytes_iq2_xxs(const void *p, const block_head *head, int j)
{
    const qni_block_iq2_xxs *block = p;
    (void)head;
    const uint8_t *q = block->qs + 8 * j;
    const uint16_t *points = qni_points_iq2xxs;
    const __m128i four = points_x4(points[q[0]], points[q[1]], points[q[2]], points[q[3]]);
    return turn_signs(look_up_pairs(IQ2_LEVELS, four), qni_even_signs_x4(qni_load_u32le(q + 4)));
}
DOT_SUPER(iq2_xxs, PLAIN, sk, 0, true, 32, 32)

QNI_INLINE void begin_iq2_xs(const void *p, block_head *head)
{
    const qni_block_iq2_xs *block = p;
    head->scale[0] = scale_of(block->d) * 0.125f;
    store_i16(head->factor, odd_i16(_mm256_cvtepu8_epi16(nibbles_x16(load_8(block->scales)))));
}

QNI_INLINE __m256i bytes_iq2_xs(const void *p, const block_head *head, int j)
{
    const qni_block_iq2_xs *block = p;
    (void)head;
    const uint64_t q = qni_load_u64le(block->qs + 8 * j);
    const uint64_t selectors =
        (q >> 9 & 0x7fu) | (q >> 18 & 0x3f80u) | (q >> 27 & 0x1fc000u) | (q >> 36 & 0xfe00000u);
    const uint16_t *points = qni_points_iq2xs;
    const __m128i four = points_x4(points[q & 511u], points[q >> 16 & 511u], points[q >> 32 & 511u],
                                   points[q >> 48 & 511u]);
    return turn_signs(look_up_pairs(IQ2_LEVELS, four), qni_even_signs_x4((uint32_t)selectors));
}
DOT_SUPER(iq2_xs, PLAIN, sk, 0, true, 32, 16)

QNI_INLINE void begin_iq2_s(const void *p, block_head *head)
{
    const qni_block_iq2_s *block = p;
    head->scale[0] = scale_of(block->d) * 0.125f;
    store_i16(head->factor, odd_i16(_mm256_cvtepu8_epi16(nibbles_x16(load_8(block->scales)))));
}

QNI_INLINE __m256i bytes_iq2_s(const void *p, const block_head *head, int j)
{
    const qni_block_iq2_s *block = p;
    (void)head;
    const uint8_t *q = block->qs + 4 * j;
    const uint32_t high = block->qh[j];
    const uint16_t *points = qni_points_iq2s;
    const __m128i four =
        points_x4(points[q[0] | (high << 8 & 0x300u)], points[q[1] | (high << 6 & 0x300u)],
                  points[q[2] | (high << 4 & 0x300u)], points[q[3] | (high << 2 & 0x300u)]);
    return turn_signs(look_up_pairs(IQ2_LEVELS, four), qni_load_u32le(block->signs + 4 * j));
}
DOT_SUPER(iq2_s, PLAIN, sk, 0, true, 32, 16)

/* --- iq3 -----------------------------------------------------------------------------------------
 */

/* Eight points of four dimensions; bit i of `high` is bit 8 of index i. */
QNI_INLINE __m128i points_x8(const uint16_t *points, const uint8_t *q, uint32_t high)
{
    uint64_t half[2];
    for (int h = 0; h < 2; h++, q += 4, high >>= 4) {
        const uint64_t a = points[q[0] | (high << 8 & 0x100u)];
        const uint64_t b = points[q[1] | (high << 7 & 0x100u)];
        const uint64_t c = points[q[2] | (high << 6 & 0x100u)];
        const uint64_t d = points[q[3] | (high << 5 & 0x100u)];
        half[h] = a | b << 16 | c << 32 | d << 48;
    }
    return _mm_set_epi64x((int64_t)half[1], (int64_t)half[0]);
}

QNI_INLINE void begin_iq3_xxs(const void *p, block_head *head)
{
    const qni_block_iq3_xxs *block = p;
    head->scale[0] = scale_of(block->d) * 0.25f;
    store_i16(head->factor, twice_i16(odd_i32(_mm256_srli_epi32(load_32(block->signs), 28))));
}

QNI_INLINE __m256i bytes_iq3_xxs(const void *p, const block_head *head, int j)
{
    const qni_block_iq3_xxs *block = p;
    (void)head;
    const __m128i levels = _mm_setr_epi8(4, 12, 20, 28, 36, 44, 52, 62, 0, 0, 0, 0, 0, 0, 0, 0);
    const __m128i points = points_x8(qni_points_iq3xxs, block->qs + 8 * j, 0);
    const uint32_t signs = qni_even_signs_x4(qni_load_u32le(block->signs + 4 * j));
    return turn_signs(look_up_nibbles(levels, points), signs);
}
DOT_SUPER(iq3_xxs, PLAIN, sk, 0, true, 32, 32)

QNI_INLINE void begin_iq3_s(const void *p, block_head *head)
{
    const qni_block_iq3_s *block = p;
    const __m256i code = _mm256_cvtepu8_epi32(nibbles_x16(load_4(block->scales)));
    head->scale[0] = scale_of(block->d);
    store_i16(head->factor, twice_i16(odd_i32(code)));
}

QNI_INLINE __m256i bytes_iq3_s(const void *p, const block_head *head, int j)
{
    const qni_block_iq3_s *block = p;
    (void)head;
    const __m128i levels = _mm_setr_epi8(1, 3, 5, 7, 9, 11, 13, 15, 0, 0, 0, 0, 0, 0, 0, 0);
    const __m128i points = points_x8(qni_points_iq3s, block->qs + 8 * j, block->qh[j]);
    const __m256i codes =
        turn_signs(look_up_nibbles(levels, points), qni_load_u32le(block->signs + 4 * j));
    return _mm256_add_epi8(codes, _mm256_set1_epi8(15));
}
DOT_SUPER(iq3_s, PLAIN, k16, 15, false, 16, 16)

/* --- iq1 -----------------------------------------------------------------------------------------
 */

/* 8 level + 9, to which a shift of -1 or 1 comes. */
#define IQ1_LEVELS PAIR_TABLE(1, 9, 17, 0)

QNI_INLINE void begin_iq1_s(const void *p, block_head *head)
{
    const qni_block_iq1_s *block = p;
    const __m256i h = _mm256_cvtepu16_epi32(load_16(block->qh));
    const __m256i code = _mm256_and_si256(_mm256_srli_epi32(h, 12), _mm256_set1_epi32(7));
    head->scale[0] = scale_of(block->d) * 0.125f;
    store_i16(head->factor, twice_i16(odd_i32(code)));
}

QNI_INLINE __m256i bytes_iq1_s(const void *p, const block_head *head, int j)
{
    const qni_block_iq1_s *block = p;
    (void)head;
    const uint8_t *q = block->qs + 4 * j;
    const uint32_t h = qni_load_u16le(block->qh + 2 * j);
    const uint16_t *points = qni_points_iq1s;
    const __m128i four =
        points_x4(points[q[0] | (h << 8 & 0x700u)], points[q[1] | (h << 5 & 0x700u)],
                  points[q[2] | (h << 2 & 0x700u)], points[q[3] | (h >> 1 & 0x700u)]);
    const __m256i shift = _mm256_set1_epi8((char)(1 - (int)(h >> 14 & 2u)));
    return _mm256_add_epi8(look_up_pairs(IQ1_LEVELS, four), shift);
}
DOT_SUPER(iq1_s, PLAIN, k16, 9, false, 16, 16)

/* Three bits a factor, four factors a word: each is moved to bits 9..11 by a product. */
QNI_INLINE __m256i iq1_m_factors(uint64_t words)
{
    const __m256i word_of = _mm256_setr_epi64x(0x0100010001000100, 0x0302030203020302,
                                               0x0504050405040504, 0x0706070607060706);
    const __m256i up = _mm256_set1_epi64x(0x0001000800400200);
    const __m256i word = _mm256_shuffle_epi8(_mm256_set1_epi64x((int64_t)words), word_of);
    const __m256i code = _mm256_srli_epi16(_mm256_mullo_epi16(word, up), 9);
    return odd_i16(_mm256_and_si256(code, _mm256_set1_epi16(7)));
}

/* The shifts of 32 octets: bits 3 and 7 of sixteen bytes. */
QNI_INLINE __m256i iq1_m_shifts(const uint8_t *qh)
{
    const __m256i b = _mm256_cvtepu8_epi16(load_16(qh));
    const __m256i bit = _mm256_set1_epi8(8);
    const __m256i bits = _mm256_and_si256(_mm256_or_si256(b, _mm256_slli_epi16(b, 4)), bit);
    return _mm256_or_si256(_mm256_cmpeq_epi8(bits, bit), _mm256_set1_epi8(1));
}

QNI_INLINE void begin_iq1_m(const void *p, block_head *head)
{
    const qni_block_iq1_m *block = p;
    const uint64_t words = qni_load_u64le(block->scales);
    head->scale[0] = iq1_m_scale(words) * 0.125f;
    store_i16(head->factor, iq1_m_factors(words));
    _mm256_store_si256((__m256i *)(void *)head->shift, iq1_m_shifts(block->qh));
}

QNI_INLINE __m256i bytes_iq1_m(const void *p, const block_head *head, int j)
{
    const qni_block_iq1_m *block = p;
    const uint8_t *q = block->qs + 4 * j;
    const uint32_t h = qni_load_u16le(block->qh + 2 * j);
    const uint16_t *points = qni_points_iq1s;
    const __m128i four =
        points_x4(points[q[0] | (h << 8 & 0x700u)], points[q[1] | (h << 4 & 0x700u)],
                  points[q[2] | (h & 0x700u)], points[q[3] | (h >> 4 & 0x700u)]);
    const __m256i shift = each_8_times(qni_load_u32le((const uint8_t *)head->shift + 4 * j));
    return _mm256_add_epi8(look_up_pairs(IQ1_LEVELS, four), shift);
}
DOT_SUPER(iq1_m, PLAIN, k16, 9, false, 16, 16)
