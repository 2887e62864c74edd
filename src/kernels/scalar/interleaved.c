/* interleaved.c — layouts that put the blocks of a few rows side by side: q8_0x4, q4_kx8, q5_kx8,
 * q6_kx4 and q4_kx2mmla. c is the row in its group, e the element in its block.
 *
 *   q8_0x4       d [4] f16, then byte 16 (e / 4) + 4 c + e % 4: the level
 *   q4_kx8       d [8], dmin [8], scales [8 sub-blocks][8] u8, minima [8][8] u8, then byte
 *                256 (e / 64) + 32 (e % 32 / 4) + 4 c + e % 4: levels of e % 64 < 32 in the low
 *                nibble, of e + 32 in the high one, as in the file
 *   q5_kx8       the same fields, then byte 256 (e / 32) + 32 (e % 32 / 4) + 4 c + e % 4: the level
 *   q6_kx4       d [4], scales [16][4] i8, then byte 64 (e / 16) + 16 (e % 16 / 4) + 4 c + e % 4:
 *                the level minus 32
 *   q4_kx2mmla   d [2], dmin [2], scales [8][2], minima [8][2], then byte 32 (e / 16) +
 *                16 (e % 16 / 8) + 8 c + e % 8: the level
 *
 * Scales and minima of q4_K and q5_K are unpacked from six bits to bytes. */
#include "kernels/k_pack_internal.h"
#include "kernels/tile_internal.h"

enum { MAX_GROUP = 8 };

/* Where a layout keeps what. */
typedef struct interleaved {
    qn_dtype dtype;
    int n_rows;
    int n_halves;               /* f16 fields: d, dmin */
    int n_scales;               /* byte fields: scales, then as many minima where dmin is */
    int n_levels;               /* bytes of levels */
    int (*place)(int e, int c); /* of a level; | HIGH: in the high nibble */
    int bias;                   /* subtracted from stored levels */
} interleaved;

enum { HIGH = 1 << 16 };

static int place_q8_0x4(int e, int c)
{
    return 16 * (e / 4) + 4 * c + e % 4;
}

static int place_q4_kx8(int e, int c)
{
    const int at = 256 * (e / 64) + 32 * (e % 32 / 4) + 4 * c + e % 4;
    return e % 64 < 32 ? at : at | HIGH;
}

static int place_q5_kx8(int e, int c)
{
    return 256 * (e / 32) + 32 * (e % 32 / 4) + 4 * c + e % 4;
}

static int place_q6_kx4(int e, int c)
{
    return 64 * (e / 16) + 16 * (e % 16 / 4) + 4 * c + e % 4;
}

static int place_q4_kx2mmla(int e, int c)
{
    return 32 * (e / 16) + 16 * (e % 16 / 8) + 8 * c + e % 8;
}

static const interleaved q8_0x4 = {QN_DTYPE_Q8_0, 4, 1, 0, 128, place_q8_0x4, 0};
static const interleaved q4_kx8 = {QN_DTYPE_Q4_K, 8, 2, 8, 1024, place_q4_kx8, 0};
static const interleaved q5_kx8 = {QN_DTYPE_Q5_K, 8, 2, 8, 2048, place_q5_kx8, 0};
static const interleaved q6_kx4 = {QN_DTYPE_Q6_K, 4, 1, 16, 1024, place_q6_kx4, 32};
static const interleaved q4_kx2mmla = {QN_DTYPE_Q4_K, 2, 2, 8, 512, place_q4_kx2mmla, 0};

static int64_t block_bytes(const interleaved *l)
{
    const int n_minima = l->n_halves == 2 ? l->n_scales : 0;
    return l->n_rows * (2 * l->n_halves + l->n_scales + n_minima) + l->n_levels;
}

/* --- the fields of one block of the file ---------------------------------------------------------
 */

typedef struct fields {
    uint8_t halves[4]; /* d, dmin */
    uint8_t scales[16];
    uint8_t minima[8];
} fields;

static void take_fields(qn_dtype dtype, const uint8_t *block, fields *out)
{
    if (dtype == QN_DTYPE_Q6_K) {
        const qni_block_q6_k *b = (const qni_block_q6_k *)block;
        memcpy(out->halves, b->d, 2);
        memcpy(out->scales, b->scales, 16);
        return;
    }
    memcpy(out->halves, block, 4); /* q8_0: the first two count */
    if (dtype != QN_DTYPE_Q8_0) {
        for (int j = 0; j < 8; j++) {
            out->scales[j] = (uint8_t)qni_k_scale_code(block + 4, j);
            out->minima[j] = (uint8_t)qni_k_offset_code(block + 4, j);
        }
    }
}

static void put_fields(qn_dtype dtype, const fields *from, uint8_t *block)
{
    switch (dtype) {
    case QN_DTYPE_Q6_K: {
        qni_block_q6_k *b = (qni_block_q6_k *)block;
        memcpy(b->d, from->halves, 2);
        memcpy(b->scales, from->scales, 16);
        break;
    }
    case QN_DTYPE_Q8_0:
        memcpy(block, from->halves, 2);
        break;
    default:
        memcpy(block, from->halves, 4);
        qni_pack_k_codes(from->scales, from->minima, block + 4);
        break;
    }
}

/* --- one block of one row ------------------------------------------------------------------------
 */

static void put_block(const interleaved *l, const uint8_t *block, int c, uint8_t *group)
{
    uint8_t levels[QNI_SUPER];
    fields f;
    take_fields(l->dtype, block, &f);
    qni_take_levels(l->dtype, block, levels);
    for (int i = 0; i < l->n_halves; i++, group += 2 * l->n_rows) {
        memcpy(group + 2 * c, f.halves + 2 * i, 2);
    }
    for (int i = 0; i < l->n_scales; i++, group += l->n_rows) {
        group[c] = f.scales[i];
    }
    for (int i = 0; l->n_halves == 2 && i < l->n_scales; i++, group += l->n_rows) {
        group[c] = f.minima[i];
    }
    for (int e = 0; e < qn_dtype_block_elems(l->dtype); e++) {
        const int at = l->place(e, c);
        uint8_t *byte = group + (at & (HIGH - 1));
        const int level = levels[e] - l->bias;
        *byte = (uint8_t)(at & HIGH ? *byte | level << 4 : level);
    }
}

static void take_block(const interleaved *l, const uint8_t *group, int c, uint8_t *block)
{
    uint8_t levels[QNI_SUPER];
    fields f = {0};
    for (int i = 0; i < l->n_halves; i++, group += 2 * l->n_rows) {
        memcpy(f.halves + 2 * i, group + 2 * c, 2);
    }
    for (int i = 0; i < l->n_scales; i++, group += l->n_rows) {
        f.scales[i] = group[c];
    }
    for (int i = 0; l->n_halves == 2 && i < l->n_scales; i++, group += l->n_rows) {
        f.minima[i] = group[c];
    }
    const bool has_nibbles = l->place(32, 0) & HIGH;
    for (int e = 0; e < qn_dtype_block_elems(l->dtype); e++) {
        const int at = l->place(e, c);
        const int byte = group[at & (HIGH - 1)];
        const int level = at & HIGH ? byte >> 4 : has_nibbles ? byte & 15 : byte;
        levels[e] = (uint8_t)(level + l->bias);
    }
    memset(block, 0, (size_t)qn_dtype_block_bytes(l->dtype));
    put_fields(l->dtype, &f, block);
    qni_put_levels(l->dtype, levels, block);
}

/* --- groups --------------------------------------------------------------------------------------
 */

static void pack_group(const interleaved *l, const uint8_t *rows, int64_t stride, int64_t n_rows,
                       int64_t n_elems, uint8_t *group)
{
    const uint8_t zeros[QNI_SUPER] = {0};
    const int64_t n_blocks = n_elems / qn_dtype_block_elems(l->dtype);
    for (int64_t b = 0; b < n_blocks; b++, group += block_bytes(l)) {
        for (int c = 0; c < l->n_rows; c++) {
            const uint8_t *block = rows + c * stride + b * qn_dtype_block_bytes(l->dtype);
            put_block(l, c < n_rows ? block : zeros, c, group);
        }
    }
}

static void unpack_group(const interleaved *l, const uint8_t *group, int64_t n_rows,
                         int64_t n_elems, uint8_t *rows, int64_t stride)
{
    const int64_t n_blocks = n_elems / qn_dtype_block_elems(l->dtype);
    for (int64_t b = 0; b < n_blocks; b++, group += block_bytes(l)) {
        for (int c = 0; c < n_rows; c++) {
            take_block(l, group, c, rows + c * stride + b * qn_dtype_block_bytes(l->dtype));
        }
    }
}

#define INTERLEAVED(name)                                                                       \
    bool qni_##name##_fits(qn_dtype dtype)                                                      \
    {                                                                                           \
        return dtype == name.dtype;                                                             \
    }                                                                                           \
    int64_t qni_##name##_bytes(qn_dtype dtype, int64_t n_elems)                                 \
    {                                                                                           \
        return n_elems / qn_dtype_block_elems(dtype) * block_bytes(&name);                      \
    }                                                                                           \
    void qni_##name##_pack(qn_dtype dtype, const uint8_t *rows, int64_t stride, int64_t n_rows, \
                           int64_t n_elems, uint8_t *group)                                     \
    {                                                                                           \
        (void)dtype;                                                                            \
        pack_group(&name, rows, stride, n_rows, n_elems, group);                                \
    }                                                                                           \
    void qni_##name##_unpack(qn_dtype dtype, const uint8_t *group, int64_t n_rows,              \
                             int64_t n_elems, uint8_t *rows, int64_t stride)                    \
    {                                                                                           \
        (void)dtype;                                                                            \
        unpack_group(&name, group, n_rows, n_elems, rows, stride);                              \
    }
INTERLEAVED(q8_0x4)
INTERLEAVED(q4_kx8)
INTERLEAVED(q5_kx8)
INTERLEAVED(q6_kx4)
INTERLEAVED(q4_kx2mmla)
