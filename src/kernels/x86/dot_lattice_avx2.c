/* dot_lattice_avx2.c — products with the codebook types. Layouts: scalar/iq1.c, iq2.c, iq3.c;
 * points: lattice_internal.h.
 *
 * What a block says of its octets is taken apart for all of them at once: indices of points, signs,
 * factors. Codes are what the decoder makes of a block whose scale is 1, times a small power of
 * two, without the odd factors: 8, 25, 43 (iq2), 4 .. 62 and 1 .. 15 (iq3), 8 level + shift (iq1).
 */
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

QNI_INLINE __m256i mask_i16(__m256i v, int mask)
{
    return _mm256_and_si256(v, _mm256_set1_epi16((int16_t)mask));
}

/* The nibbles of eight bytes, low ones first. */
QNI_INLINE __m128i nibbles_x16(__m128i bytes)
{
    const __m128i b = _mm_cvtepu8_epi16(bytes);
    return _mm_and_si128(_mm_or_si128(b, _mm_slli_epi16(b, 4)), _mm_set1_epi8(15));
}

/* Those of sixteen. */
QNI_INLINE __m256i nibbles_x32(__m128i bytes)
{
    const __m256i b = _mm256_cvtepu8_epi16(bytes);
    return _mm256_and_si256(_mm256_or_si256(b, _mm256_slli_epi16(b, 4)), _mm256_set1_epi8(15));
}

/* Seven bits of a sign mask in each byte: bit 7 makes the number of ones even. */
QNI_INLINE __m256i complete_signs(__m256i selectors)
{
    const __m128i odd =
        _mm_setr_epi8(0, -128, -128, 0, -128, 0, 0, -128, -128, 0, 0, -128, 0, -128, -128, 0);
    const __m256i folded = _mm256_xor_si256(selectors, _mm256_srli_epi16(selectors, 4));
    const __m256i at = _mm256_and_si256(folded, _mm256_set1_epi8(15));
    return _mm256_or_si256(selectors, look_up(odd, at));
}

QNI_INLINE void store_octets(block_head *head, __m256i octets)
{
    _mm256_store_si256((__m256i *)(void *)head->octet, octets);
}

/* Sign masks from the low 28 bits of eight words, four a word. */
QNI_INLINE void store_signs_of_words(block_head *head, __m256i words)
{
    const __m256i a = _mm256_and_si256(words, _mm256_set1_epi32(0x7f));
    const __m256i b = _mm256_and_si256(_mm256_slli_epi32(words, 1), _mm256_set1_epi32(0x7f00));
    const __m256i c = _mm256_and_si256(_mm256_slli_epi32(words, 2), _mm256_set1_epi32(0x7f0000));
    const __m256i d = _mm256_and_si256(_mm256_slli_epi32(words, 3), _mm256_set1_epi32(0x7f000000));
    const __m256i selectors = _mm256_or_si256(_mm256_or_si256(a, b), _mm256_or_si256(c, d));
    store_octets(head, complete_signs(selectors));
}

/* Hidden from the compiler, which would take single indices out of the register again. */
QNI_INLINE void store_index(block_head *head, int at, __m256i index)
{
    __m256i *to = (__m256i *)(void *)(head->index + at);
    _mm256_store_si256(to, index);
    __asm__("" : "+m"(*to));
}

/* The bytes of four points of eight dimensions. */
QNI_INLINE __m256i octets_x4(const uint64_t *octets, size_t a, size_t b, size_t c, size_t d)
{
    const __m128i low = _mm_unpacklo_epi64(load_8(octets + a), load_8(octets + b));
    const __m128i high = _mm_unpacklo_epi64(load_8(octets + c), load_8(octets + d));
    return _mm256_set_m128i(high, low);
}

/* Of sub-block j. */
QNI_INLINE __m256i octets_at(const uint64_t *octets, const block_head *head, int j)
{
    const uint16_t *i = head->index + 4 * j;
    return octets_x4(octets, i[0], i[1], i[2], i[3]);
}

/* The bytes of four points of four dimensions. */
QNI_INLINE __m128i quads_x4(const uint32_t *quads, size_t a, size_t b, size_t c, size_t d)
{
    return _mm_unpacklo_epi64(_mm_unpacklo_epi32(load_4(quads + a), load_4(quads + b)),
                              _mm_unpacklo_epi32(load_4(quads + c), load_4(quads + d)));
}

/* Octets of sub-block j, each eight times. */
QNI_INLINE __m256i each_octet(const block_head *head, int j)
{
    const __m256i all = _mm256_load_si256((const __m256i *)(const void *)head->octet);
    const __m256i half = j < 4 ? _mm256_permute2x128_si256(all, all, 0x00)
                               : _mm256_permute2x128_si256(all, all, 0x11);
    const __m256i which =
        _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303);
    return _mm256_shuffle_epi8(half, _mm256_add_epi8(which, _mm256_set1_epi8((char)(4 * (j % 4)))));
}

/* 0xff where bit i of the i-th byte of eight is set. */
QNI_INLINE __m256i spread_octets(__m256i octets)
{
    const __m256i which_bit = _mm256_set1_epi64x((int64_t)0x8040201008040201);
    return _mm256_cmpeq_epi8(_mm256_and_si256(octets, which_bit), which_bit);
}

/* Two bits of each of 8 bytes in turn, as bits 8 and 9 of 32 indices; at i = 0 of the first 16. */
QNI_INLINE __m256i high_bits_x16(const uint8_t *qh, int i)
{
    const __m256i byte_of =
        _mm256_setr_epi64x((long long)0x8000800080008000, (long long)0x8001800180018001,
                           (long long)0x8002800280028002, (long long)0x8003800380038003);
    const __m256i up = _mm256_set1_epi64x(0x0004001000400100);
    const __m256i bytes =
        _mm256_shuffle_epi8(_mm256_set1_epi32((int32_t)qni_load_u32le(qh + 4 * i)), byte_of);
    return mask_i16(_mm256_mullo_epi16(bytes, up), 0x300);
}

/* --- iq2 -----------------------------------------------------------------------------------------
 */

QNI_INLINE __m256i signs_of_octets(const void *p, const block_head *head, int j)
{
    (void)p;
    return spread_octets(each_octet(head, j));
}

QNI_INLINE void begin_iq2_xxs(const void *p, block_head *head)
{
    const qni_block_iq2_xxs *block = p;
    const __m256 a = _mm256_castsi256_ps(load_32(block->qs));
    const __m256 b = _mm256_castsi256_ps(load_32(block->qs + 32));
    const __m256i odd_ones = _mm256_castps_si256(_mm256_shuffle_ps(a, b, 0xdd));
    const __m256i words = _mm256_permute4x64_epi64(odd_ones, 0xd8);
    head->scale[0] = scale_of(block->d) * 0.125f;
    store_i16(head->factor, twice_i16(odd_i32(_mm256_srli_epi32(words, 28))));
    store_signs_of_words(head, words);
}

QNI_INLINE __m256i bytes_iq2_xxs(const void *p, const block_head *head, int j)
{
    const qni_block_iq2_xxs *block = p;
    (void)head;
    const uint8_t *q = block->qs + 8 * j;
    return octets_x4(qni_octets_iq2xxs, q[0], q[1], q[2], q[3]);
}
DOT_POINTS(iq2_xxs, signs_of_octets, sk, 0, true, 32, 32)

QNI_INLINE void begin_iq2_xs(const void *p, block_head *head)
{
    const qni_block_iq2_xs *block = p;
    const __m256i a = load_32(block->qs);
    const __m256i b = load_32(block->qs + 32);
    const __m256i selectors = _mm256_packus_epi16(_mm256_srli_epi16(a, 9), _mm256_srli_epi16(b, 9));
    const __m256i signs = complete_signs(_mm256_permute4x64_epi64(selectors, 0xd8));
    head->scale[0] = scale_of(block->d) * 0.125f;
    store_i16(head->factor, odd_i16(_mm256_cvtepu8_epi16(nibbles_x16(load_8(block->scales)))));
    store_index(head, 0, mask_i16(a, 511));
    store_index(head, 16, mask_i16(b, 511));
    store_octets(head, signs);
}

QNI_INLINE __m256i bytes_iq2_xs(const void *p, const block_head *head, int j)
{
    (void)p;
    return octets_at(qni_octets_iq2xs, head, j);
}
DOT_POINTS(iq2_xs, signs_of_octets, sk, 0, true, 32, 16)

QNI_INLINE void begin_iq2_s(const void *p, block_head *head)
{
    const qni_block_iq2_s *block = p;
    head->scale[0] = scale_of(block->d) * 0.125f;
    store_i16(head->factor, odd_i16(_mm256_cvtepu8_epi16(nibbles_x16(load_8(block->scales)))));
    for (int i = 0; i < 2; i++) {
        const __m256i low = _mm256_cvtepu8_epi16(load_16(block->qs + 16 * i));
        store_index(head, 16 * i, _mm256_or_si256(low, high_bits_x16(block->qh, i)));
    }
}

QNI_INLINE __m256i bytes_iq2_s(const void *p, const block_head *head, int j)
{
    (void)p;
    return octets_at(qni_octets_iq2s, head, j);
}

QNI_INLINE __m256i signs_iq2_s(const void *p, const block_head *head, int j)
{
    const qni_block_iq2_s *block = p;
    (void)head;
    return spread_bits(qni_load_u32le(block->signs + 4 * j));
}
DOT_POINTS(iq2_s, signs_iq2_s, sk, 0, true, 32, 16)

/* --- iq3 -----------------------------------------------------------------------------------------
 */

QNI_INLINE void begin_iq3_xxs(const void *p, block_head *head)
{
    const qni_block_iq3_xxs *block = p;
    const __m256i words = load_32(block->signs);
    head->scale[0] = scale_of(block->d) * 0.25f;
    store_i16(head->factor, twice_i16(odd_i32(_mm256_srli_epi32(words, 28))));
    store_signs_of_words(head, words);
}

QNI_INLINE __m256i bytes_iq3_xxs(const void *p, const block_head *head, int j)
{
    const qni_block_iq3_xxs *block = p;
    (void)head;
    const uint8_t *q = block->qs + 8 * j;
    const uint32_t *quads = qni_quads_iq3xxs;
    return _mm256_set_m128i(quads_x4(quads, q[4], q[5], q[6], q[7]),
                            quads_x4(quads, q[0], q[1], q[2], q[3]));
}
DOT_POINTS(iq3_xxs, signs_of_octets, sk, 0, true, 32, 32)

QNI_INLINE void begin_iq3_s(const void *p, block_head *head)
{
    const qni_block_iq3_s *block = p;
    const __m256i which_bit = _mm256_setr_epi16(1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048,
                                                4096, 8192, 16384, INT16_MIN);
    const __m256i code = _mm256_cvtepu8_epi32(nibbles_x16(load_4(block->scales)));
    head->scale[0] = scale_of(block->d);
    store_i16(head->factor, twice_i16(odd_i32(code)));
    for (int i = 0; i < 4; i++) {
        const __m256i bits = _mm256_set1_epi16((int16_t)qni_load_u16le(block->qh + 2 * i));
        const __m256i is_set = _mm256_cmpeq_epi16(_mm256_and_si256(bits, which_bit), which_bit);
        const __m256i low = _mm256_cvtepu8_epi16(load_16(block->qs + 16 * i));
        store_index(head, 16 * i, _mm256_or_si256(low, mask_i16(is_set, 256)));
    }
}

QNI_INLINE __m256i bytes_iq3_s(const void *p, const block_head *head, int j)
{
    (void)p;
    const uint16_t *i = head->index + 8 * j;
    const uint32_t *quads = qni_quads_iq3s;
    return _mm256_set_m128i(quads_x4(quads, i[4], i[5], i[6], i[7]),
                            quads_x4(quads, i[0], i[1], i[2], i[3]));
}

QNI_INLINE __m256i signs_iq3_s(const void *p, const block_head *head, int j)
{
    const qni_block_iq3_s *block = p;
    (void)head;
    return spread_bits(qni_load_u32le(block->signs + 4 * j));
}
DOT_POINTS(iq3_s, signs_iq3_s, k16, 15, false, 16, 16)

/* --- iq1 -----------------------------------------------------------------------------------------
 */

/* Bits 8 to 10 of the indices of four octets in each of four words, an octet a lane: moved from
 * bit 3 i there. */
QNI_INLINE __m256i high_bits_iq1_s(const uint8_t *qh)
{
    const __m256i word_of = _mm256_setr_epi64x(0x0100010001000100, 0x0302030203020302,
                                               0x0504050405040504, 0x0706070607060706);
    const __m256i up = _mm256_set1_epi64x(0x0004002001000800);
    const __m256i words =
        _mm256_shuffle_epi8(_mm256_set1_epi64x((int64_t)qni_load_u64le(qh)), word_of);
    return mask_i16(_mm256_srli_epi16(_mm256_mullo_epi16(words, up), 3), 0x700);
}

QNI_INLINE void begin_iq1_s(const void *p, block_head *head)
{
    const qni_block_iq1_s *block = p;
    const __m256i words = _mm256_cvtepi16_epi32(load_16(block->qh));
    const __m256i code = _mm256_and_si256(_mm256_srli_epi32(words, 12), _mm256_set1_epi32(7));
    const __m256i is_down = _mm256_srai_epi32(words, 15);
    head->scale[0] = scale_of(block->d) * 0.125f;
    store_i16(head->factor, twice_i16(odd_i32(code)));
    store_octets(head, _mm256_or_si256(is_down, _mm256_set1_epi8(1)));
    for (int i = 0; i < 2; i++) {
        const __m256i low = _mm256_cvtepu8_epi16(load_16(block->qs + 16 * i));
        store_index(head, 16 * i, _mm256_or_si256(low, high_bits_iq1_s(block->qh + 8 * i)));
    }
}

QNI_INLINE __m256i bytes_iq1_s(const void *p, const block_head *head, int j)
{
    (void)p;
    return _mm256_add_epi8(octets_at(qni_octets_iq1s, head, j), each_octet(head, j));
}
DOT_POINTS(iq1_s, NULL, k16, 9, false, 16, 16)

/* Three bits a factor, four factors a word: each is moved to bits 9..11 by a product. */
QNI_INLINE __m256i iq1_m_factors(uint64_t words)
{
    const __m256i word_of = _mm256_setr_epi64x(0x0100010001000100, 0x0302030203020302,
                                               0x0504050405040504, 0x0706070607060706);
    const __m256i up = _mm256_set1_epi64x(0x0001000800400200);
    const __m256i word = _mm256_shuffle_epi8(_mm256_set1_epi64x((int64_t)words), word_of);
    return odd_i16(mask_i16(_mm256_srli_epi16(_mm256_mullo_epi16(word, up), 9), 7));
}

/* Words of sixteen low and sixteen high bytes. */
QNI_INLINE __m256i join_bytes(__m128i low, __m128i high)
{
    return _mm256_set_m128i(_mm_unpackhi_epi8(low, high), _mm_unpacklo_epi8(low, high));
}

QNI_INLINE void begin_iq1_m(const void *p, block_head *head)
{
    const qni_block_iq1_m *block = p;
    const uint64_t words = qni_load_u64le(block->scales);
    const __m256i nibbles = nibbles_x32(load_16(block->qh)); /* of 32 octets */
    const __m256i bit = _mm256_set1_epi8(8);
    const __m256i is_down = _mm256_cmpeq_epi8(_mm256_and_si256(nibbles, bit), bit);
    const __m256i high = _mm256_and_si256(nibbles, _mm256_set1_epi8(7));
    head->scale[0] = iq1_m_scale(words) * 0.125f;
    store_i16(head->factor, iq1_m_factors(words));
    store_octets(head, _mm256_or_si256(is_down, _mm256_set1_epi8(1)));
    store_index(head, 0, join_bytes(load_16(block->qs), _mm256_castsi256_si128(high)));
    store_index(head, 16, join_bytes(load_16(block->qs + 16), _mm256_extracti128_si256(high, 1)));
}

QNI_INLINE __m256i bytes_iq1_m(const void *p, const block_head *head, int j)
{
    (void)p;
    return _mm256_add_epi8(octets_at(qni_octets_iq1s, head, j), each_octet(head, j));
}
DOT_POINTS(iq1_m, NULL, k16, 9, false, 16, 16)
