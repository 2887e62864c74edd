/* tile_internal.h — weights in tiles of 16 rows, and columns arranged to meet them.
 *
 * A tile holds 16 rows side by side, so that a lane of a vector is a row and an activation is
 * broadcast to all of them. Rows are cut into chunks of 256 elements (the last may be shorter, by
 * whole sub-blocks of 32); a chunk is one forward stretch that starts on a cache line:
 *
 *   fields      of each block in turn: every 16-bit field [16 rows] u16, every byte field [16 rows]
 *               u8, as they are in the file; then zeros up to a cache line
 *   sub-blocks  of 32 elements in turn: the low plane, the high plane
 *
 * A plane of a sub-block is vectors of 64 bytes: row r has bytes 4 r .. 4 r + 3, which belong to
 * the four elements of a group (element 4 g + b is byte b of group g = 0..7):
 *
 *   16 bits  16 vectors, two elements of every row in each (bf16; a row may end anywhere, and is
 *            continued with zeros to the end of its sub-block)
 *   8 bits   8 vectors, group g in vector g
 *   4 bits   4 vectors, groups v and v + 4 in the low and high nibbles of vector v
 *   2 bits   2 vectors, groups 4 v .. 4 v + 3 at bits 0, 2, 4, 6 of vector v
 *   1 bit    1 vector, group g at bit g
 *
 * That is exactly the size of the rows in the file, but for the zeros (1 % of q6_K and 2 % of
 * q3_K). Rows past the last one are zeros. */
#ifndef QNI_TILE_INTERNAL_H
#define QNI_TILE_INTERNAL_H

#include "kernels/kernels.h"

enum {
    TILE_ROWS = QNI_TILE_ROWS,
    TILE_CHUNK = 256, /* elements of a chunk */
    TILE_SUB = 32,    /* of a sub-block */
    TILE_VECTOR = 64  /* bytes: four elements of every row */
};

/* Bits of the levels in a block of the file; see tiles.def. */
typedef struct qni_tile_plane {
    int width;
    int at;
    int run;
} qni_tile_plane;

typedef struct qni_tile_format {
    int n_elems; /* of a block */
    qni_tile_plane low;
    qni_tile_plane high;
    int half_at;
    int n_halves;
    int byte_at;
    int n_bytes;
} qni_tile_format;

/* 256 elements of a column of activations. */
typedef struct qni_column {
    union {
        int8_t bytes[TILE_CHUNK];
        int16_t words[TILE_CHUNK]; /* for codes of 16 bits */
    } level;
    union {
        int16_t pairs[16][2]; /* where 16-bit sums start; even and odd pairs of elements */
        int32_t whole[16];
    } start;
    int16_t sums[16]; /* of each 16 levels */
    float scale[16];
    float stored_sum[8];
} qni_column;

static_assert(sizeof(qni_column) == QNI_COLUMN_BYTES, "a column chunk has no padding");

/* Bytes of the fields of n sub-blocks, up to the cache line where the first sub-block starts. */
int64_t qni_tile_field_bytes(qn_dtype dtype, int n_subs);

/* The levels of a block of a type of tiles.def, low plane below high plane; and back, onto bits
 * that are 0. */
void qni_take_levels(qn_dtype dtype, const uint8_t *block, uint8_t *levels);
void qni_put_levels(qn_dtype dtype, uint8_t *levels, uint8_t *block);

#endif
