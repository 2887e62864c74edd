/* dot_lattice_avx2.c — products with the codebook types and tq1_0: a block whose scale is replaced
 * by a small power of two decodes to integers, so the decoders serve here, too. Layouts: scalar/.
 */
#include "kernels/x86/dot_avx2_internal.h"

enum { F16_ONE = 0x3c00, F16_4 = 0x4400, F16_8 = 0x4800 };

/* Integers that were decoded to floats. */
QNI_INLINE codes_32 load_decoded(const block_head *head, int j)
{
    __m256i v[4];
    for (int i = 0; i < 4; i++) {
        v[i] = _mm256_cvtps_epi32(_mm256_load_ps(head->codes + 32 * j + 8 * i));
    }
    return (codes_32){_mm256_permute4x64_epi64(_mm256_packs_epi32(v[0], v[1]), 0xd8),
                      _mm256_permute4x64_epi64(_mm256_packs_epi32(v[2], v[3]), 0xd8)};
}

/* `power` is the inverse of the f16 `unit_scale`. */
#define DOT_DECODED(name, unit_scale, power)                                      \
    QNI_INLINE void begin_##name(const void *p, block_head *head)                 \
    {                                                                             \
        qni_block_##name unit;                                                    \
        memcpy(&unit, p, sizeof unit);                                            \
        head->scale[0] = scale_of(unit.d) * (power);                              \
        qni_store_u16le(unit.d, unit_scale);                                      \
        qni_decode_##name##_avx2(&unit, 1, head->codes);                          \
    }                                                                             \
    QNI_INLINE codes_32 load_##name(const void *p, const block_head *head, int j) \
    {                                                                             \
        (void)p;                                                                  \
        return load_decoded(head, j);                                             \
    }                                                                             \
    DOT_AVX2(name, NULL, load_##name, false, CHUNK, CHUNK, PLAIN, q8_k)

DOT_DECODED(tq1_0, F16_ONE, 1.0f)
DOT_DECODED(iq1_s, F16_8, 0.125f)
DOT_DECODED(iq2_xxs, F16_8, 0.125f)
DOT_DECODED(iq2_xs, F16_8, 0.125f)
DOT_DECODED(iq2_s, F16_8, 0.125f)
DOT_DECODED(iq3_xxs, F16_4, 0.25f)
DOT_DECODED(iq3_s, F16_ONE, 1.0f)

/* The scale of iq1_m is spread over the top nibbles of four words: 8 is 0x4800. */
QNI_INLINE void begin_iq1_m(const void *p, block_head *head)
{
    qni_block_iq1_m unit;
    memcpy(&unit, p, sizeof unit);
    const uint64_t words = qni_load_u64le(unit.scales);
    head->scale[0] = iq1_m_scale(words) * 0.125f;
    qni_store_u64le(unit.scales, (words & 0x0fff0fff0fff0fff) | 0x4000800000000000);
    qni_decode_iq1_m_avx2(&unit, 1, head->codes);
}

QNI_INLINE codes_32 load_iq1_m(const void *p, const block_head *head, int j)
{
    (void)p;
    return load_decoded(head, j);
}
DOT_AVX2(iq1_m, NULL, load_iq1_m, false, CHUNK, CHUNK, PLAIN, q8_k)
