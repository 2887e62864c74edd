/* decode_lattice_internal.h — the codebook types: iq1_*, iq2_*, iq3_*.
 * Layouts: scalar/iq1.c, iq2.c, iq3.c; packed points: lattice_internal.h.
 *
 * A packed point holds the level of each element in two or four bits. All products of a scale with
 * the levels fit one register, so sixteen elements are: two (four) points to all lanes, shift each
 * lane's level to the bottom, look it up. Signs are then turned; that is the referee's result
 * except for a NaN, so a block whose scale is not finite goes to the referee.
 * Compiled once for each instruction set. */
#include "kernels/lattice_internal.h"
#include "kernels/simd/decode_lanes_internal.h"

enum { N_OCTETS = QNI_SUPER / 8 };

/* --- points and signs ---------------------------------------------------------------------------
 */

/* The levels of two points of eight dimensions, each at the bottom of its lane. */
QNI_INLINE vi levels_of_2(uint16_t first, uint16_t second)
{
    return vi_unpack2(first | (uint32_t)second << 16);
}

/* The levels of four points of four dimensions. */
QNI_INLINE vi levels_of_4(uint16_t a, uint16_t b, uint16_t c, uint16_t d)
{
    return vi_unpack4(a | (uint32_t)b << 16, c | (uint32_t)d << 16);
}

/* --- iq2 ----------------------------------------------------------------------------------------
 */

QNI_INLINE vf iq2_values(float scale)
{
    static const float levels[VL] = {8, 25, 43, 0, 8, 25, 43, 0, 8, 25, 43, 0, 8, 25, 43, 0};
    return vf_mul(vf_set(scale), vf_load(levels));
}

QNI_INLINE void put_octets(sink out, int i, uint16_t first, uint16_t second, vf values,
                           uint32_t signs)
{
    put(out, i, vf_flip(vf_look4(values, levels_of_2(first, second)), signs));
}

QNI_INLINE void decode_iq2_xxs(const void *blocks, int64_t n_blocks, sink out)
{
    const uint16_t *points = qni_points_iq2xxs;
    const qni_block_iq2_xxs *block = blocks;
    for (int64_t b = 0; b < n_blocks; b++, block++, out = skip(out, QNI_SUPER)) {
        if (is_unbounded(block->d)) {
            put_by_referee(out, qni_decode_iq2_xxs_scalar, block, QNI_SUPER);
            continue;
        }
        const float d = vec_f16(block->d);
        for (int g = 0; g < 8; g++) {
            const uint8_t *group = block->qs + 8 * g;
            const uint32_t word = qni_load_u32le(group + 4);
            const uint32_t signs = qni_even_signs_x4(word);
            const vf values = iq2_values(d * (0.5f + (float)(int32_t)(word >> 28)) * 0.25f);
            put_octets(out, 32 * g, points[group[0]], points[group[1]], values, signs);
            put_octets(out, 32 * g + VL, points[group[2]], points[group[3]], values, signs >> 16);
        }
    }
}
DEFINE_DECODERS(iq2_xxs)

/* The 16 scales of iq2_xs and iq2_s: ((d * (0.5 + code)) * 0.25). */
QNI_INLINE void iq2_scales(const uint8_t *nibbles, vf d, float *out)
{
    const vf codes = vf_from_vi(vi_from_u8(nibbles_in_order(nibbles)));
    vf_store(out, vf_mul(vf_mul(d, vf_add(vf_set(0.5f), codes)), vf_set(0.25f)));
}

QNI_INLINE void decode_iq2_xs(const void *blocks, int64_t n_blocks, sink out)
{
    const uint16_t *points = qni_points_iq2xs;
    const qni_block_iq2_xs *block = blocks;
    for (int64_t b = 0; b < n_blocks; b++, block++, out = skip(out, QNI_SUPER)) {
        if (is_unbounded(block->d)) {
            put_by_referee(out, qni_decode_iq2_xs_scalar, block, QNI_SUPER);
            continue;
        }
        float scale[VL];
        iq2_scales(block->scales, vf_set_f16(block->d), scale);
        for (int o = 0; o < N_OCTETS; o += 4) {
            const uint64_t q = qni_load_u64le(block->qs + 2 * o);
            const uint64_t selectors = (q >> 9 & 0x7fu) | (q >> 18 & 0x3f80u) |
                                       (q >> 27 & 0x1fc000u) | (q >> 36 & 0xfe00000u);
            const uint32_t signs = qni_even_signs_x4((uint32_t)selectors);
            put_octets(out, 8 * o, points[q & 511u], points[q >> 16 & 511u],
                       iq2_values(scale[o / 2]), signs);
            put_octets(out, 8 * o + VL, points[q >> 32 & 511u], points[q >> 48 & 511u],
                       iq2_values(scale[o / 2 + 1]), signs >> 16);
        }
    }
}
DEFINE_DECODERS(iq2_xs)

QNI_INLINE void decode_iq2_s(const void *blocks, int64_t n_blocks, sink out)
{
    const uint16_t *points = qni_points_iq2s;
    const qni_block_iq2_s *block = blocks;
    for (int64_t b = 0; b < n_blocks; b++, block++, out = skip(out, QNI_SUPER)) {
        if (is_unbounded(block->d)) {
            put_by_referee(out, qni_decode_iq2_s_scalar, block, QNI_SUPER);
            continue;
        }
        float scale[VL];
        iq2_scales(block->scales, vf_set_f16(block->d), scale);
        for (int o = 0; o < N_OCTETS; o += 2) {
            const uint32_t high = (uint32_t)block->qh[o / 4] << 8 >> (2 * (o % 4));
            const uint16_t first = points[block->qs[o] | (high & 0x300u)];
            const uint16_t second = points[block->qs[o + 1] | (high >> 2 & 0x300u)];
            put_octets(out, 8 * o, first, second, iq2_values(scale[o / 2]),
                       qni_load_u16le(block->signs + o));
        }
    }
}
DEFINE_DECODERS(iq2_s)

/* --- iq3 ----------------------------------------------------------------------------------------
 */

QNI_INLINE void decode_iq3_xxs(const void *blocks, int64_t n_blocks, sink out)
{
    static const float levels[VL] = {4, 12, 20, 28, 36, 44, 52, 62, 4, 12, 20, 28, 36, 44, 52, 62};
    const uint16_t *points = qni_points_iq3xxs;
    const qni_block_iq3_xxs *block = blocks;
    for (int64_t b = 0; b < n_blocks; b++, block++, out = skip(out, QNI_SUPER)) {
        if (is_unbounded(block->d)) {
            put_by_referee(out, qni_decode_iq3_xxs_scalar, block, QNI_SUPER);
            continue;
        }
        const float d = vec_f16(block->d);
        for (int g = 0; g < 8; g++) {
            const uint8_t *qs = block->qs + 8 * g;
            const uint32_t word = qni_load_u32le(block->signs + 4 * g);
            const uint32_t signs = qni_even_signs_x4(word);
            const float scale = d * (0.5f + (float)(int32_t)(word >> 28)) * 0.5f;
            const vf values = vf_mul(vf_set(scale), vf_load(levels));
            const vi first =
                levels_of_4(points[qs[0]], points[qs[1]], points[qs[2]], points[qs[3]]);
            const vi second =
                levels_of_4(points[qs[4]], points[qs[5]], points[qs[6]], points[qs[7]]);
            put(out, 32 * g, vf_flip(vf_look8(values, first), signs));
            put(out, 32 * g + VL, vf_flip(vf_look8(values, second), signs >> 16));
        }
    }
}
DEFINE_DECODERS(iq3_xxs)

QNI_INLINE void decode_iq3_s(const void *blocks, int64_t n_blocks, sink out)
{
    static const float levels[VL] = {1, 3, 5, 7, 9, 11, 13, 15, 1, 3, 5, 7, 9, 11, 13, 15};
    const uint16_t *points = qni_points_iq3s;
    const qni_block_iq3_s *block = blocks;
    for (int64_t b = 0; b < n_blocks; b++, block++, out = skip(out, QNI_SUPER)) {
        if (is_unbounded(block->d)) {
            put_by_referee(out, qni_decode_iq3_s_scalar, block, QNI_SUPER);
            continue;
        }
        const vi code = vi_and(vi_unpack4(qni_load_u32le(block->scales), 0), vi_set(15));
        const vi odd = vi_add(vi_add(code, code), vi_set(1));
        float scale[VL]; /* the first eight count */
        vf_store(scale, vf_mul(vf_set_f16(block->d), vf_from_vi(odd)));
        for (int g = 0; g < N_OCTETS / 2; g++) {
            const uint8_t *qs = block->qs + 4 * g;
            const uint32_t high = (uint32_t)block->qh[g / 2] << 8 >> (4 * (g % 2));
            const vi q = levels_of_4(
                points[qs[0] | (high & 0x100u)], points[qs[1] | (high >> 1 & 0x100u)],
                points[qs[2] | (high >> 2 & 0x100u)], points[qs[3] | (high >> 3 & 0x100u)]);
            const vf values = vf_mul(vf_set(scale[g / 2]), vf_load(levels));
            put(out, VL * g, vf_flip(vf_look8(values, q), qni_load_u16le(block->signs + 2 * g)));
        }
    }
}
DEFINE_DECODERS(iq3_s)

/* --- iq1 ----------------------------------------------------------------------------------------
 */

#define IQ1_UP   -0.875f, 0.125f, 1.125f, 0, -0.875f, 0.125f, 1.125f, 0
#define IQ1_DOWN -1.125f, -0.125f, 0.875f, 0, -1.125f, -0.125f, 0.875f, 0

/* Levels -1, 0, 1 plus the shift of each of two octets; bit 0 of `down`: the first octet's is
 * down, bit 1: the second's. */
QNI_INLINE vf iq1_values(float scale, uint32_t down)
{
    static const float levels[4][VL] = {
        {IQ1_UP, IQ1_UP}, {IQ1_DOWN, IQ1_UP}, {IQ1_UP, IQ1_DOWN}, {IQ1_DOWN, IQ1_DOWN}};
    return vf_mul(vf_set(scale), vf_load(levels[down]));
}

#undef IQ1_UP
#undef IQ1_DOWN

QNI_INLINE void put_octets_iq1(sink out, int i, uint32_t first, uint32_t second, vf values)
{
    const uint16_t *points = qni_points_iq1s;
    put(out, i, vf_look4(values, levels_of_2(points[first], points[second])));
}

QNI_INLINE void decode_iq1_s(const void *blocks, int64_t n_blocks, sink out)
{
    const qni_block_iq1_s *block = blocks;
    for (int64_t b = 0; b < n_blocks; b++, block++, out = skip(out, QNI_SUPER)) {
        const float d = vec_f16(block->d);
        for (int g = 0; g < 8; g++) {
            const uint8_t *qs = block->qs + 4 * g;
            const uint32_t h = qni_load_u16le(block->qh + 2 * g);
            const float scale = d * (float)(2 * (int32_t)(h >> 12 & 7u) + 1);
            const vf values = iq1_values(scale, h >> 15 ? 3 : 0);
            put_octets_iq1(out, 32 * g, qs[0] | (h & 7u) << 8, qs[1] | (h >> 3 & 7u) << 8, values);
            put_octets_iq1(out, 32 * g + VL, qs[2] | (h >> 6 & 7u) << 8, qs[3] | (h >> 9 & 7u) << 8,
                           values);
        }
    }
}
DEFINE_DECODERS(iq1_s)

QNI_INLINE void decode_iq1_m(const void *blocks, int64_t n_blocks, sink out)
{
    const qni_block_iq1_m *block = blocks;
    for (int64_t b = 0; b < n_blocks; b++, block++, out = skip(out, QNI_SUPER)) {
        const uint64_t words = qni_load_u64le(block->scales);
        /* the scale is spread over the top nibbles of four words */
        uint8_t d_field[2];
        qni_store_u16le(d_field, (uint16_t)((words >> 12 & 0xfu) | (words >> 24 & 0xf0u) |
                                            (words >> 36 & 0xf00u) | (words >> 48 & 0xf000u)));
        const float d = vec_f16(d_field);
        for (int j = 0; j < 16; j++) {
            const uint32_t code = (uint32_t)(words >> (16 * (j / 4) + 3 * (j % 4))) & 7u;
            const uint32_t h = block->qh[j];
            const vf values =
                iq1_values(d * (float)(2 * (int32_t)code + 1), (h >> 3 & 1u) | (h >> 6 & 2u));
            put_octets_iq1(out, VL * j, block->qs[2 * j] | (h << 8 & 0x700u),
                           block->qs[2 * j + 1] | (h << 4 & 0x700u), values);
        }
    }
}
DEFINE_DECODERS(iq1_m)
