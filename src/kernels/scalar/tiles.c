/* tiles.c — rows into tiles of 16 and back, for every type of tiles.def. Layout: tile_internal.h.
 *
 * Both directions read the same two descriptions: where the bits of an element are in a block
 * (tiles.def), and where they are in a plane of a tile (plane_place()). */
#include "kernels/numeric_internal.h"
#include "kernels/tile_internal.h"

static const qni_tile_format formats[QN_DTYPE_LIMIT] = {
#define QN_TILE(dtype, n_elems, low_width, low_at, low_run, high_width, high_at, high_run, \
                half_at, n_halves, byte_at, n_bytes)                                       \
    [QN_DTYPE_##dtype] = {n_elems,                                                         \
                          {low_width, low_at, low_run},                                    \
                          {high_width, high_at, high_run},                                 \
                          half_at,                                                         \
                          n_halves,                                                        \
                          byte_at,                                                         \
                          n_bytes},
#include "kernels/tiles.def"
#undef QN_TILE
};

bool qni_tile_fits(qn_dtype dtype)
{
    return (int)dtype >= 0 && (int)dtype < QN_DTYPE_LIMIT && formats[dtype].low.width != 0;
}

/* --- sizes ---------------------------------------------------------------------------------------
 */

static int block_field_bytes(const qni_tile_format *f)
{
    return TILE_ROWS * (2 * f->n_halves + f->n_bytes);
}

static int sub_bytes(const qni_tile_format *f)
{
    return TILE_VECTOR * (f->low.width + f->high.width);
}

int64_t qni_tile_field_bytes(qn_dtype dtype, int n_subs)
{
    const int64_t n_blocks = n_subs * TILE_SUB / qn_dtype_block_elems(dtype);
    const int64_t n_bytes = n_blocks * block_field_bytes(&formats[dtype]);
    return (n_bytes + TILE_VECTOR - 1) / TILE_VECTOR * TILE_VECTOR;
}

/* Sub-blocks of a chunk's part; only values of 16 bits leave the last one unfilled. */
static int subs_of(int64_t n_elems)
{
    return (int)(qni_min_i64(TILE_CHUNK, n_elems) + TILE_SUB - 1) / TILE_SUB;
}

static int64_t chunk_bytes(qn_dtype dtype, int n_subs)
{
    return qni_tile_field_bytes(dtype, n_subs) + n_subs * sub_bytes(&formats[dtype]);
}

int64_t qni_tile_bytes(qn_dtype dtype, int64_t n_elems)
{
    const int n_rest = subs_of(n_elems % TILE_CHUNK);
    return n_elems / TILE_CHUNK * chunk_bytes(dtype, TILE_CHUNK / TILE_SUB) +
           (n_rest > 0 ? chunk_bytes(dtype, n_rest) : 0);
}

/* --- levels of a block of the file ---------------------------------------------------------------
 */

/* Bits of a plane in a block: those of `run` elements from `first` on, each in a byte of its own.
 */
typedef struct stretch {
    int at;
    int shift;
} stretch;

QNI_INLINE stretch stretch_of(const qni_tile_plane *plane, int first)
{
    const int n_shifts = plane->width < 8 ? 8 / plane->width : 1;
    const int nth = first / plane->run;
    return (stretch){plane->at + nth / n_shifts * plane->run, plane->width * (nth % n_shifts)};
}

/* up: where the plane's bits are in a level. */
QNI_INLINE void take_bits(const qni_tile_plane *plane, int up, int n_elems, const uint8_t *block,
                          uint8_t *levels)
{
    const int mask = (1 << plane->width) - 1;
    for (int first = 0; plane->width > 0 && first < n_elems; first += plane->run) {
        const stretch from = stretch_of(plane, first);
        for (int i = 0; i < plane->run; i++) {
            const int bits = block[from.at + i] >> from.shift & mask;
            levels[first + i] = (uint8_t)(levels[first + i] | bits << up);
        }
    }
}

static void put_bits(const qni_tile_plane *plane, int up, int n_elems, const uint8_t *levels,
                     uint8_t *block)
{
    const int mask = (1 << plane->width) - 1;
    for (int first = 0; plane->width > 0 && first < n_elems; first += plane->run) {
        const stretch to = stretch_of(plane, first);
        for (int i = 0; i < plane->run; i++) {
            const int bits = (levels[first + i] >> up & mask) << to.shift;
            block[to.at + i] = (uint8_t)(block[to.at + i] | bits);
        }
    }
}

/* All levels of a block. */
QNI_INLINE void take_levels(const qni_tile_format *f, const uint8_t *block, uint8_t *levels)
{
    memset(levels, 0, (size_t)f->n_elems);
    take_bits(&f->low, 0, f->n_elems, block, levels);
    take_bits(&f->high, f->low.width, f->n_elems, block, levels);
}

void qni_take_levels(qn_dtype dtype, const uint8_t *block, uint8_t *levels)
{
    take_levels(&formats[dtype], block, levels);
}

void qni_put_levels(qn_dtype dtype, uint8_t *levels, uint8_t *block)
{
    const qni_tile_format *f = &formats[dtype];
    put_bits(&f->low, 0, f->n_elems, levels, block);
    put_bits(&f->high, f->low.width, f->n_elems, levels, block);
}

/* --- levels of a row of a tile -------------------------------------------------------------------
 */

/* Where group g of a plane is: its vector, and the shift inside each byte. */
typedef struct place {
    int vector;
    int shift;
} place;

QNI_INLINE place plane_place(int width, int g)
{
    switch (width) {
    case 8:
        return (place){g, 0};
    case 4:
        return (place){g % 4, g / 4 * 4};
    case 2:
        return (place){g / 4, g % 4 * 2};
    default:
        return (place){0, g};
    }
}

/* Each plane holds `width` bits of a level from bit `up`. Four levels at a time: what is shifted
 * was masked, so that nothing crosses from byte to byte. */
QNI_INLINE void put_plane(int width, int up, const uint8_t *levels, uint8_t *row)
{
    const uint32_t mask = 0x01010101u * ((1u << width) - 1);
    QNI_UNROLL for (int g = 0; g < 8; g++)
    {
        const place at = plane_place(width, g);
        uint32_t four;
        uint32_t bytes;
        memcpy(&four, levels + 4 * g, sizeof four);
        memcpy(&bytes, row + TILE_VECTOR * at.vector, sizeof bytes);
        bytes |= (four >> up & mask) << at.shift;
        memcpy(row + TILE_VECTOR * at.vector, &bytes, sizeof bytes);
    }
}

static void take_plane(int width, int up, const uint8_t *row, uint8_t *levels)
{
    const uint32_t mask = 0x01010101u * ((1u << width) - 1);
    for (int g = 0; width > 0 && g < 8; g++) {
        const place at = plane_place(width, g);
        uint32_t four;
        uint32_t bytes;
        memcpy(&four, levels + 4 * g, sizeof four);
        memcpy(&bytes, row + TILE_VECTOR * at.vector, sizeof bytes);
        four |= (bytes >> at.shift & mask) << up;
        memcpy(levels + 4 * g, &four, sizeof four);
    }
}

/* --- rows ----------------------------------------------------------------------------------------
 */

/* A row of a chunk of a tile. */
typedef struct tile_row {
    qn_dtype dtype;
    const qni_tile_format *format;
    int n_block_bytes;
    int n_elems;
    int n_subs;
    int64_t subs_at;
    int row;
} tile_row;

/* Values of 16 bits, two of a row side by side. */
static void put_words(const tile_row *t, const uint8_t *values, uint8_t *chunk)
{
    uint8_t *to = chunk + 4 * t->row;
    for (int p = 0; p < t->n_elems / 2; p++) {
        memcpy(to + TILE_VECTOR * p, values + 4 * p, 4);
    }
    if (t->n_elems % 2 != 0) {
        memcpy(to + TILE_VECTOR * (t->n_elems / 2), values + 2 * (t->n_elems - 1), 2);
    }
}

static void take_words(const tile_row *t, const uint8_t *chunk, uint8_t *values)
{
    for (int i = 0; i < t->n_elems; i++) {
        memcpy(values + 2 * i, chunk + TILE_VECTOR * (i / 2) + 4 * t->row + 2 * (i % 2), 2);
    }
}

/* Compiled once a type: f is a constant where this is inlined. */
QNI_INLINE void pack_chunk_row(const qni_tile_format *f, const tile_row *t, const uint8_t *block,
                               uint8_t *chunk)
{
    uint8_t levels[TILE_CHUNK];
    if (f->low.width == 16) {
        put_words(t, block, chunk);
        return;
    }
    uint8_t *field = chunk;
    uint8_t *sub = chunk + t->subs_at + 4 * t->row;
    for (int at = 0; at < t->n_elems; at += f->n_elems) {
        for (int i = 0; i < f->n_halves; i++, field += 2 * TILE_ROWS) {
            memcpy(field + 2 * t->row, block + f->half_at + 2 * i, 2);
        }
        for (int i = 0; i < f->n_bytes; i++, field += TILE_ROWS) {
            field[t->row] = block[f->byte_at + i];
        }
        take_levels(f, block, levels);
        for (int i = 0; i < f->n_elems; i += TILE_SUB, sub += sub_bytes(f)) {
            put_plane(f->low.width, 0, levels + i, sub);
            if (f->high.width > 0) {
                put_plane(f->high.width, f->low.width, levels + i,
                          sub + TILE_VECTOR * f->low.width);
            }
        }
        block += t->n_block_bytes;
    }
}

typedef void (*pack_row_fn)(const tile_row *t, const uint8_t *block, uint8_t *chunk);

#define QN_TILE(dtype, n_elems, low_width, low_at, low_run, high_width, high_at, high_run, \
                half_at, n_halves, byte_at, n_bytes)                                       \
    static void pack_row_##dtype(const tile_row *t, const uint8_t *block, uint8_t *chunk)  \
    {                                                                                      \
        const qni_tile_format f = {n_elems,                                                \
                                   {low_width, low_at, low_run},                           \
                                   {high_width, high_at, high_run},                        \
                                   half_at,                                                \
                                   n_halves,                                               \
                                   byte_at,                                                \
                                   n_bytes};                                               \
        pack_chunk_row(&f, t, block, chunk);                                               \
    }
#include "kernels/tiles.def"
#undef QN_TILE

static const pack_row_fn pack_rows[QN_DTYPE_LIMIT] = {
#define QN_TILE(dtype, ...) [QN_DTYPE_##dtype] = pack_row_##dtype,
#include "kernels/tiles.def"
#undef QN_TILE
};

static void unpack_chunk_row(const tile_row *t, const uint8_t *chunk, uint8_t *block)
{
    const qni_tile_format *f = t->format;
    uint8_t levels[TILE_CHUNK];
    if (f->low.width == 16) {
        take_words(t, chunk, block);
        return;
    }
    const uint8_t *field = chunk;
    const uint8_t *sub = chunk + t->subs_at + 4 * t->row;
    for (int at = 0; at < t->n_subs * TILE_SUB; at += f->n_elems) {
        memset(block, 0, (size_t)t->n_block_bytes);
        memset(levels, 0, sizeof levels);
        for (int i = 0; i < f->n_halves; i++, field += 2 * TILE_ROWS) {
            memcpy(block + f->half_at + 2 * i, field + 2 * t->row, 2);
        }
        for (int i = 0; i < f->n_bytes; i++, field += TILE_ROWS) {
            block[f->byte_at + i] = field[t->row];
        }
        for (int i = 0; i < f->n_elems; i += TILE_SUB, sub += sub_bytes(f)) {
            take_plane(f->low.width, 0, sub, levels + i);
            take_plane(f->high.width, f->low.width, sub + TILE_VECTOR * f->low.width, levels + i);
        }
        qni_put_levels(t->dtype, levels, block);
        block += t->n_block_bytes;
    }
}

static tile_row row_of_chunk(qn_dtype dtype, int64_t n_elems_left, int row)
{
    const int n_elems = (int)qni_min_i64(TILE_CHUNK, n_elems_left);
    const int n_subs = subs_of(n_elems);
    return (tile_row){dtype,   &formats[dtype], (int)qn_dtype_block_bytes(dtype),
                      n_elems, n_subs,          qni_tile_field_bytes(dtype, n_subs),
                      row};
}

void qni_tile_pack(qn_dtype dtype, const uint8_t *rows, int64_t stride, int64_t n_rows,
                   int64_t n_elems, uint8_t *group)
{
    memset(group, 0, (size_t)qni_tile_bytes(dtype, n_elems));
    for (int64_t at = 0; at < n_elems; at += TILE_CHUNK) {
        const int64_t from = at / qn_dtype_block_elems(dtype) * qn_dtype_block_bytes(dtype);
        for (int r = 0; r < n_rows; r++) {
            const tile_row t = row_of_chunk(dtype, n_elems - at, r);
            pack_rows[dtype](&t, rows + r * stride + from, group);
        }
        group += chunk_bytes(dtype, subs_of(n_elems - at));
    }
}

void qni_tile_unpack(qn_dtype dtype, const uint8_t *group, int64_t n_rows, int64_t n_elems,
                     uint8_t *rows, int64_t stride)
{
    for (int64_t at = 0; at < n_elems; at += TILE_CHUNK) {
        const int64_t to = at / qn_dtype_block_elems(dtype) * qn_dtype_block_bytes(dtype);
        for (int r = 0; r < n_rows; r++) {
            const tile_row t = row_of_chunk(dtype, n_elems - at, r);
            unpack_chunk_row(&t, group, rows + r * stride + to);
        }
        group += chunk_bytes(dtype, subs_of(n_elems - at));
    }
}
