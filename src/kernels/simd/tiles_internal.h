/* tiles_internal.h — products over tiles of 16 rows (tile_internal.h), one shape for all types.
 *
 * Written in the primitives of a tile_<isa>_internal.h and compiled once for each. A lane is a row;
 * a group of four elements of 16 rows is unpacked with shifts and masks, and met by four levels of
 * each column, broadcast. Unsigned codes with a bias cost nothing: sums start at -bias times the
 * sum of the levels. Where sums have 16 bits, that also halves what they must hold: no sum of
 * `n_sum_elems` elements can leave them, whatever part of it is done,
 *
 *   16 / 2 elements a lane * largest |code - bias| * 127      q4_0 16 * 8 * 127 = 16256 (of 32)
 *                                                             q5_0 16 * 16 * 127 = 32512 (of 32)
 *   q4_K 16 * 15 * 127 = 30480 (of 32)                        q5_K 8 * 31 * 127 = 31496 (of 16)
 *   q6_K 8 * 32 * 127 = 32512 (of 16)                         mxfp4 16 * 12 * 127 = 24384 (of 32)
 *
 * What is left to floats is a step of 32 or 256 elements, exactly as dot_avx2_internal.h has it.
 *
 * Few columns: codes are unpacked in registers, one forward stream a tile. Many columns: a chunk of
 * a tile is unpacked once, to bytes in the first-level cache, and meets all columns; eight tiles
 * share the columns of a chunk. */
#ifndef QNI_TILES_INTERNAL_H
#define QNI_TILES_INTERNAL_H

#include "kernels/tile_internal.h"

#ifndef TILE_HAS_PAIRS /* primitives that take two columns at once */
#define TILE_HAS_PAIRS 0
#endif

enum {
    TILE_FEW_COLS = 8,   /* up to here unpacking in registers costs less than staging */
    TILE_MAX_COLS = 128, /* columns that share a staged chunk */
    TILE_GROUP = 8       /* tiles that share the columns of a chunk */
};

typedef enum tile_offset { TILE_PLAIN, TILE_MINIMA, TILE_SUMS } tile_offset;

/* What the fields of a chunk say, a row a lane. */
typedef struct tile_heads {
    QNI_ALIGNED(64) int32_t factor[16][TILE_ROWS]; /* as tile_scale() wants them */
    QNI_ALIGNED(64) int32_t minima[8][TILE_ROWS];  /* pairs of 16 bits */
    QNI_ALIGNED(64) float scale[8][TILE_ROWS];
    QNI_ALIGNED(64) float offset[8][TILE_ROWS];
} tile_heads;

/* A chunk unpacked for many columns. */
typedef struct tile_stage {
    tile_heads heads;
    union {
        QNI_ALIGNED(64) uint8_t codes[TILE_CHUNK / 4][TILE_VECTOR];
        QNI_ALIGNED(64) int16_t words[TILE_CHUNK / 2][TILE_ROWS][2];
    } of;
} tile_stage;

typedef void (*tile_heads_fn)(const uint8_t *fields, int n_blocks, tile_heads *heads);

/* A type: all members are constants where the engine is inlined. */
typedef struct tile_type {
    int low; /* bits of the planes */
    int high;
    const int8_t *table; /* what codes stand for, or NULL */
    int bias;            /* of unsigned codes */
    bool is_signed;      /* codes of 8 bits with a sign */
    int n_sum_elems;     /* that 16-bit sums can hold: 16 or 32 */
    int n_factor_elems;  /* that share an integer factor; 0: no factors */
    int step;            /* elements of a float term: 32 or 256 */
    tile_offset offset;
} tile_type;

/* n_subs sub-blocks of a staged chunk with 2^i columns; y: 16 rows of each. */
typedef void (*tile_micro_fn)(const tile_stage *stage, const qni_column *a, int n_subs, float *y,
                              int64_t y_stride);

/* --- codes ---------------------------------------------------------------------------------------
 */

QNI_INLINE int sub_bytes_of(const tile_type *f)
{
    return TILE_VECTOR * (f->low + f->high);
}

/* Group g of a sub-block. */
QNI_INLINE tile_w tile_codes(const tile_type *f, const uint8_t *sub, int g)
{
    const uint8_t *top = sub + TILE_VECTOR * f->low;
    tile_w w;
    if (f->low == 8) {
        w = tile_load(sub + TILE_VECTOR * g);
    } else if (f->low == 4) {
        w = tile_mask(tile_shift(tile_load(sub + TILE_VECTOR * (g % 4)), -4 * (g / 4)), 15);
    } else {
        w = tile_mask(tile_shift(tile_load(sub + TILE_VECTOR * (g / 4)), -2 * (g % 4)), 3);
    }
    if (f->high == 1) {
        w = tile_or(w, tile_mask(tile_shift(tile_load(top), f->low - g), 1 << f->low));
    } else if (f->high == 2) {
        const tile_w bits = tile_load(top + TILE_VECTOR * (g / 4));
        w = tile_or(w, tile_mask(tile_shift(bits, f->low - 2 * (g % 4)), 3 << f->low));
    }
    if (f->table) {
        w = tile_look_up(f->table, w);
    }
    return f->is_signed && TILE_SIGNED_BIAS != 0 ? tile_flip(w) : w;
}

/* --- a micro-tile: 16 rows by n_cols columns -----------------------------------------------------
 */

QNI_INLINE int bias_of(const tile_type *f)
{
    return f->is_signed ? TILE_SIGNED_BIAS : f->bias;
}

/* Elements of an integer sum between two multiplications. */
QNI_INLINE int unit_of(const tile_type *f)
{
    if (TILE_SUM_BITS == 16 && f->n_sum_elems < f->step) {
        return f->n_sum_elems;
    }
    return f->n_factor_elems == 16 ? 16 : TILE_SUB;
}

/* Sub-block j of each column, onto the totals. */
QNI_INLINE void multiply_sub(const tile_type *f, const uint8_t *sub, const tile_heads *heads,
                             const qni_column *a, int n_cols, int j, tile_i *total)
{
    const int n_unit = unit_of(f);
    QNI_UNROLL for (int u = 0; u < TILE_SUB / n_unit; u++)
    {
        const int unit = TILE_SUB / n_unit * j + u;
        tile_s s[TILE_COLS];
        if (bias_of(f)) {
            QNI_UNROLL for (int c = 0; c < n_cols; c++)
            {
                s[c] = tile_start(&a[c].start.whole[unit]);
            }
        }
        QNI_UNROLL for (int i = 0; i < n_unit / 4; i++)
        {
            const int g = n_unit / 4 * u + i;
            const tile_w w = tile_codes(f, sub, g);
            QNI_UNROLL for (int c = 0; c < n_cols; c++)
            {
                const int8_t *levels = a[c].level.bytes + TILE_SUB * j + 4 * g;
                s[c] = i == 0 && !bias_of(f) ? tile_first(w, levels) : tile_add(s[c], w, levels);
            }
        }
        QNI_UNROLL for (int c = 0; c < n_cols; c++)
        {
            total[c] =
                f->n_factor_elems
                    ? tile_scale(total[c], s[c], heads->factor[unit * n_unit / f->n_factor_elems])
                    : tile_whole(total[c], s[c]);
        }
    }
}

#if TILE_HAS_PAIRS
/* The same where an instruction takes eight elements of two columns; n_cols is even. */
QNI_INLINE void multiply_sub_pairs(const tile_type *f, const uint8_t *sub, const tile_heads *heads,
                                   const qni_column *a, int n_cols, int j, tile_i *total)
{
    const int n_unit = unit_of(f);
    QNI_UNROLL for (int u = 0; u < TILE_SUB / n_unit; u++)
    {
        const int unit = TILE_SUB / n_unit * j + u;
        tile_p s[TILE_COLS / 2];
        QNI_UNROLL for (int c = 0; c < n_cols; c += 2)
        {
            const bool has_start = bias_of(f) != 0;
            s[c / 2] = tile_start_pair(has_start ? a[c].start.whole[unit] : 0,
                                       has_start ? a[c + 1].start.whole[unit] : 0);
        }
        QNI_UNROLL for (int i = 0; i < n_unit / 8; i++)
        {
            const int g = n_unit / 4 * u + 2 * i;
            const int at = TILE_SUB * j + 4 * g;
            const tile_e w = tile_eights(tile_codes(f, sub, g), tile_codes(f, sub, g + 1));
            QNI_UNROLL for (int c = 0; c < n_cols; c += 2)
            {
                s[c / 2] =
                    tile_add_pair(s[c / 2], &w, a[c].level.bytes + at, a[c + 1].level.bytes + at);
            }
        }
        QNI_UNROLL for (int c = 0; c < n_cols; c++)
        {
            const tile_s sum = tile_of_pair(&s[c / 2], c % 2);
            total[c] =
                f->n_factor_elems
                    ? tile_scale(total[c], sum, heads->factor[unit * n_unit / f->n_factor_elems])
                    : tile_whole(total[c], sum);
        }
    }
}
#endif

#if TILE_HAS_WORDS
/* The same with codes of 16 bits, factors inside, or of 8 bits, which have none. */
QNI_INLINE void multiply_sub_words(const tile_type *f, const uint8_t *sub, const qni_column *a,
                                   int n_cols, int j, tile_i *total)
{
    QNI_UNROLL for (int p = 0; p < TILE_SUB / 2; p++)
    {
        const tile_w w = f->low == 16 ? tile_load(sub + TILE_VECTOR * p)
                                      : tile_widen(tile_codes(f, sub, p / 2), p % 2);
        QNI_UNROLL for (int c = 0; c < n_cols; c++)
        {
            total[c] = tile_add_words(total[c], w, a[c].level.words + TILE_SUB * j + 2 * p);
        }
    }
}

/* The same with codes from a table, which would cost more to widen. */
QNI_INLINE void multiply_sub_signed(const tile_type *f, const uint8_t *sub, const tile_heads *heads,
                                    const qni_column *a, int n_cols, int j, tile_i *total)
{
    const tile_i factor = f->n_factor_elems ? tile_lanes(heads->factor[j]) : tile_ones();
    QNI_UNROLL for (int g = 0; g < TILE_SUB / 4; g++)
    {
        const tile_w w = tile_codes(f, sub, g);
        QNI_UNROLL for (int c = 0; c < n_cols; c++)
        {
            total[c] =
                tile_add_signed(total[c], w, a[c].level.words + TILE_SUB * j + 4 * g, factor);
        }
    }
}
#endif

QNI_INLINE void multiply_any(const tile_type *f, const uint8_t *sub, const tile_heads *heads,
                             const qni_column *a, int n_cols, int j, tile_i *total)
{
#if TILE_HAS_WORDS
    if (f->is_signed && f->table) {
        multiply_sub_signed(f, sub, heads, a, n_cols, j, total);
        return;
    }
    if (f->is_signed) {
        multiply_sub_words(f, sub, a, n_cols, j, total);
        return;
    }
#endif
#if TILE_HAS_PAIRS
    if (n_cols % 2 == 0) {
        multiply_sub_pairs(f, sub, heads, a, n_cols, j, total);
        return;
    }
#endif
    multiply_sub(f, sub, heads, a, n_cols, j, total);
}

/* The term of step s, onto the outputs of 16 rows. */
QNI_INLINE void add_step(const tile_type *f, const tile_heads *heads, const qni_column *a, int s,
                         tile_i total, float *y)
{
    const tile_f da = tile_set(a->scale[s]);
    tile_f term = tile_mul(tile_mul(tile_floats(heads->scale[s]), da), tile_float(total));
    if (f->offset == TILE_SUMS) {
        term = tile_plus(term, tile_mul(tile_floats(heads->offset[s]), tile_set(a->stored_sum[s])));
    }
    if (f->offset == TILE_MINIMA) {
        tile_i low = tile_zero();
        QNI_UNROLL for (int p = 0; p < TILE_CHUNK / f->n_factor_elems / 2; p++)
        {
            low = tile_pairs(low, heads->minima[p], a->sums + 2 * p);
        }
        const tile_f dmin = tile_mul(tile_floats(heads->offset[s]), da);
        term = tile_minus(term, tile_mul(dmin, tile_float(low)));
    }
    tile_put(y, tile_plus(tile_floats(y), term));
}

/* ahead: bytes to the sub-blocks that are wanted next, or 0. */
QNI_INLINE void multiply_chunk(const tile_type *f, const uint8_t *sub, const tile_heads *heads,
                               const qni_column *a, int n_cols, int n_subs, float *y,
                               int64_t y_stride, int64_t ahead)
{
    tile_i total[TILE_COLS];
    QNI_UNROLL for (int c = 0; c < n_cols; c++)
    {
        total[c] = tile_zero();
    }
    QNI_ROLLED for (int j = 0; j < n_subs; j++, sub += sub_bytes_of(f))
    {
        if (ahead) {
            QNI_UNROLL for (int i = 0; i < sub_bytes_of(f); i += TILE_VECTOR)
            {
                tile_prefetch(sub, ahead + i);
            }
        }
        multiply_any(f, sub, heads, a, n_cols, j, total);
        if (f->step == TILE_SUB) {
            QNI_UNROLL for (int c = 0; c < n_cols; c++)
            {
                add_step(f, heads, &a[c], j, total[c], y + c * y_stride);
                total[c] = tile_zero();
            }
        }
    }
    if (f->step == TILE_CHUNK) {
        QNI_UNROLL for (int c = 0; c < n_cols; c++)
        {
            add_step(f, heads, &a[c], 0, total[c], y + c * y_stride);
        }
    }
}

/* Micro-tiles of staged chunks. */
#define TILE_MICRO_OF(shape, n_cols)                                                          \
    QNI_NOINLINE static void micro_##shape##_##n_cols(                                        \
        const tile_stage *stage, const qni_column *a, int n_subs, float *y, int64_t y_stride) \
    {                                                                                         \
        const tile_type f = SHAPE_##shape;                                                    \
        multiply_chunk(&f, (const uint8_t *)&stage->of, &stage->heads, a, n_cols, n_subs, y,  \
                       y_stride, 0);                                                          \
    }

/* All columns of a staged chunk, as many at a time as there are sums in registers. */
QNI_INLINE void multiply_staged(const tile_micro_fn *micro, const tile_stage *stage,
                                const qni_column *a, int64_t n_cols, int n_subs, float *y,
                                int64_t y_stride)
{
    int64_t c = 0;
    for (int width = TILE_WIDTHS - 1; width >= 0; width--) {
        for (; n_cols - c >= 1 << width; c += 1 << width) {
            micro[width](stage, a + c, n_subs, y + c * y_stride, y_stride);
        }
    }
}

/* --- whole products ------------------------------------------------------------------------------
 */

/* What a product needs to know besides the type. */
typedef struct tile_kernel {
    tile_type type;
    qn_dtype dtype;
    int n_elems; /* of a block of the file */
    tile_heads_fn heads;
    const tile_micro_fn *micro;
} tile_kernel;

QNI_INLINE void store_rows(const qni_dot_tile *tile, int64_t row, int64_t col, const float *y)
{
    const int64_t n = qni_min_i64(TILE_ROWS, tile->n_rows - row);
    memcpy(tile->y + col * tile->y_stride + row, y, (size_t)n * sizeof *y);
}

/* Chunks of a row, and where they lie. */
typedef struct chunk_walk {
    int64_t n_left; /* elements */
    int n_subs;
    int64_t n_field_bytes;
    int64_t n_bytes;
} chunk_walk;

QNI_INLINE chunk_walk chunk_of(const tile_kernel *k, int64_t n_left)
{
    const int n_subs = (int)(qni_min_i64(TILE_CHUNK, n_left) / TILE_SUB);
    const int64_t n_fields = qni_tile_field_bytes(k->dtype, n_subs);
    return (chunk_walk){n_left, n_subs, n_fields, n_fields + n_subs * sub_bytes_of(&k->type)};
}

/* How far ahead the stream of a tile is asked for: whole chunks, at least this many bytes. */
enum { TILE_AHEAD = 4096 };

QNI_INLINE void multiply_few(const tile_kernel *k, const qni_dot_tile *tile)
{
    QNI_ALIGNED(64) float y[TILE_FEW_COLS][TILE_ROWS];
    tile_heads heads;
    const chunk_walk whole = chunk_of(k, TILE_CHUNK);
    const int64_t ahead = (TILE_AHEAD + whole.n_bytes - 1) / whole.n_bytes * whole.n_bytes;
    const uint8_t *chunk = tile->w;
    for (int64_t row = 0; row < tile->n_rows; row += TILE_ROWS) {
        const qni_column *a = (const qni_column *)(const void *)tile->a;
        memset(y, 0, (size_t)tile->n_cols * sizeof y[0]);
        for (int64_t left = tile->n_elems; left > 0; left -= TILE_CHUNK) {
            const chunk_walk at = left >= TILE_CHUNK ? whole : chunk_of(k, left);
            for (int64_t i = 0; i < at.n_field_bytes; i += TILE_VECTOR) {
                tile_prefetch(chunk, ahead + i);
            }
            k->heads(chunk, at.n_subs * TILE_SUB / k->n_elems, &heads);
            const uint8_t *subs = chunk + at.n_field_bytes;
            int c = 0;
            QNI_UNROLL for (int width = TILE_WIDTHS - 1; width >= 0; width--)
            {
                for (; tile->n_cols - c >= 1 << width; c += 1 << width) {
                    multiply_chunk(&k->type, subs, &heads, a + c, 1 << width, at.n_subs, y[c],
                                   TILE_ROWS, ahead);
                }
            }
            chunk += at.n_bytes;
            a = (const qni_column *)(const void *)((const uint8_t *)a + tile->a_stride);
        }
        for (int64_t c = 0; c < tile->n_cols; c++) {
            store_rows(tile, row, c, y[c]);
        }
    }
}

QNI_INLINE void stage_chunk(const tile_kernel *k, const uint8_t *chunk, const chunk_walk *at,
                            tile_stage *stage)
{
    const tile_type *f = &k->type;
    k->heads(chunk, at->n_subs * TILE_SUB / k->n_elems, &stage->heads);
    const uint8_t *sub = chunk + at->n_field_bytes;
    uint8_t *to = (uint8_t *)&stage->of;
    QNI_ROLLED for (int j = 0; j < at->n_subs; j++, sub += sub_bytes_of(f))
    {
        QNI_UNROLL for (int i = 0; i < sub_bytes_of(f); i += TILE_VECTOR)
        {
            tile_prefetch(sub, at->n_bytes + i);
        }
        QNI_UNROLL for (int g = 0; g < TILE_SUB / 4; g++)
        {
            const tile_w w = tile_codes(f, sub, g);
#if TILE_HAS_WORDS
            if (f->is_signed) {
                const tile_w even = tile_widen(w, 0);
                const tile_w odd = tile_widen(w, 1);
                const int32_t *factor = stage->heads.factor[j];
                tile_store(to, f->n_factor_elems ? tile_times(even, factor) : even);
                tile_store(to + TILE_VECTOR, f->n_factor_elems ? tile_times(odd, factor) : odd);
                to += 2 * TILE_VECTOR;
                continue;
            }
#endif
            tile_store(to, w);
            to += TILE_VECTOR;
        }
    }
}

/* Up to TILE_GROUP tiles with up to TILE_MAX_COLS columns. */
QNI_INLINE void multiply_group(const tile_kernel *k, const qni_dot_tile *tile, int64_t row,
                               int64_t col, int64_t n_cols)
{
    QNI_ALIGNED(64) float y[TILE_MAX_COLS][TILE_GROUP * TILE_ROWS];
    tile_stage stage;
    const int64_t n_rows = qni_min_i64(TILE_GROUP * TILE_ROWS, tile->n_rows - row);
    const uint8_t *chunks = tile->w + row / TILE_ROWS * tile->w_stride;
    const uint8_t *columns = tile->a + col * QNI_COLUMN_BYTES;
    memset(y, 0, (size_t)n_cols * sizeof y[0]);
    for (int64_t left = tile->n_elems; left > 0; left -= TILE_CHUNK) {
        const chunk_walk at = chunk_of(k, left);
        for (int64_t r = 0; r < n_rows; r += TILE_ROWS) {
            stage_chunk(k, chunks + r / TILE_ROWS * tile->w_stride, &at, &stage);
            multiply_staged(k->micro, &stage, (const qni_column *)(const void *)columns, n_cols,
                            at.n_subs, y[0] + r, TILE_GROUP * TILE_ROWS);
        }
        chunks += at.n_bytes;
        columns += tile->a_stride;
    }
    for (int64_t c = 0; c < n_cols; c++) {
        memcpy(tile->y + (col + c) * tile->y_stride + row, y[c], (size_t)n_rows * sizeof(float));
    }
}

QNI_INLINE void multiply_tiles(const tile_kernel *k, const qni_dot_tile *tile)
{
    if (tile->n_cols <= TILE_FEW_COLS) {
        multiply_few(k, tile);
        return;
    }
    for (int64_t col = 0; col < tile->n_cols; col += TILE_MAX_COLS) {
        const int64_t n_cols = qni_min_i64(TILE_MAX_COLS, tile->n_cols - col);
        for (int64_t row = 0; row < tile->n_rows; row += TILE_GROUP * TILE_ROWS) {
            multiply_group(k, tile, row, col, n_cols);
        }
    }
}

/* --- fields --------------------------------------------------------------------------------------
 */

QNI_INLINE void heads_halves(const uint8_t *fields, int n_blocks, tile_heads *heads)
{
    for (int b = 0; b < n_blocks; b++) {
        tile_put(heads->scale[b], rows_halves(fields + 2 * TILE_ROWS * b));
    }
}

QNI_INLINE void heads_affine(const uint8_t *fields, int n_blocks, tile_heads *heads)
{
    for (int b = 0; b < n_blocks; b++) {
        tile_put(heads->scale[b], rows_halves(fields + 4 * TILE_ROWS * b));
        tile_put(heads->offset[b], rows_halves(fields + 4 * TILE_ROWS * b + 2 * TILE_ROWS));
    }
}

QNI_INLINE void heads_mxfp4(const uint8_t *fields, int n_blocks, tile_heads *heads)
{
    for (int b = 0; b < n_blocks; b++) {
        tile_put(heads->scale[b], rows_e8m0(rows_load(fields + TILE_ROWS * b)));
    }
}

/* d, dmin, then byte fields; see scalar/q4_k_q5_k.c for the six-bit ones. */
QNI_INLINE void heads_q45_k(const uint8_t *fields, int n_blocks, tile_heads *heads)
{
    (void)n_blocks;
    tile_put(heads->scale[0], rows_halves(fields));
    tile_put(heads->offset[0], rows_halves(fields + 2 * TILE_ROWS));
    const uint8_t *bytes = fields + 4 * TILE_ROWS;
    row_bytes minimum[8];
    QNI_UNROLL for (int i = 0; i < 4; i++)
    {
        const row_bytes a = rows_load(bytes + TILE_ROWS * i);
        const row_bytes b = rows_load(bytes + TILE_ROWS * (4 + i));
        const row_bytes c = rows_load(bytes + TILE_ROWS * (8 + i));
        const row_bytes top_a = rows_mask(rows_shift(a, -2), 0x30);
        const row_bytes top_b = rows_mask(rows_shift(b, -2), 0x30);
        rows_put_factors(rows_mask(a, 63), heads->factor[i]);
        rows_put_factors(rows_or(rows_mask(c, 15), top_a), heads->factor[4 + i]);
        minimum[i] = rows_mask(b, 63);
        minimum[4 + i] = rows_or(rows_mask(rows_shift(c, -4), 15), top_b);
    }
    QNI_UNROLL for (int p = 0; p < 4; p++)
    {
        rows_put_pairs(minimum[2 * p], minimum[2 * p + 1], heads->minima[p]);
    }
}

QNI_INLINE void heads_q6_k(const uint8_t *fields, int n_blocks, tile_heads *heads)
{
    (void)n_blocks;
    tile_put(heads->scale[0], rows_halves(fields));
    for (int j = 0; j < 16; j++) {
        rows_put_factors(rows_load(fields + TILE_ROWS * (2 + j)), heads->factor[j]);
    }
}

QNI_INLINE void heads_q2_k(const uint8_t *fields, int n_blocks, tile_heads *heads)
{
    (void)n_blocks;
    tile_put(heads->scale[0], rows_halves(fields));
    tile_put(heads->offset[0], rows_halves(fields + 2 * TILE_ROWS));
    for (int j = 0; j < 16; j += 2) {
        const row_bytes even = rows_load(fields + TILE_ROWS * (4 + j));
        const row_bytes odd = rows_load(fields + TILE_ROWS * (5 + j));
        rows_put_factors(rows_mask(even, 15), heads->factor[j]);
        rows_put_factors(rows_mask(odd, 15), heads->factor[j + 1]);
        rows_put_pairs(rows_mask(rows_shift(even, -4), 15), rows_mask(rows_shift(odd, -4), 15),
                       heads->minima[j / 2]);
    }
}

/* Low nibbles are two a byte in the first eight; the upper bits are four planes of the last four.
 */
QNI_INLINE void heads_q3_k(const uint8_t *fields, int n_blocks, tile_heads *heads)
{
    (void)n_blocks;
    tile_put(heads->scale[0], rows_halves(fields));
    const uint8_t *bytes = fields + 2 * TILE_ROWS;
    QNI_UNROLL for (int j = 0; j < 16; j++)
    {
        const row_bytes low = rows_shift(rows_load(bytes + TILE_ROWS * (j % 8)), -4 * (j / 8));
        const row_bytes top =
            rows_shift(rows_load(bytes + TILE_ROWS * (8 + j % 4)), 4 - 2 * (j / 4));
        const row_bytes code = rows_or(rows_mask(low, 15), rows_mask(top, 0x30));
        rows_put_factors(rows_minus(code, 32), heads->factor[j]);
    }
}

/* d, the words of upper bits, then nibbles. */
QNI_INLINE void heads_iq4_xs(const uint8_t *fields, int n_blocks, tile_heads *heads)
{
    (void)n_blocks;
    tile_put(heads->scale[0], rows_halves(fields));
    const tile_i words = rows_u16(fields + 2 * TILE_ROWS);
    row_bytes tops[3]; /* two bits each of three, three and two factors */
    QNI_UNROLL for (int i = 0; i < 3; i++)
    {
        tops[i] = rows_narrow(lanes_mask(lanes_shift(words, 6 * i), 0x3f));
    }
    QNI_UNROLL for (int j = 0; j < 8; j++)
    {
        const row_bytes nibbles = rows_load(fields + TILE_ROWS * (4 + j / 2));
        const row_bytes low = rows_mask(rows_shift(nibbles, -4 * (j % 2)), 15);
        const row_bytes top = rows_mask(rows_shift(tops[j / 3], 4 - 2 * (j % 3)), 0x30);
        rows_put_factors(rows_minus(rows_or(low, top), 32), heads->factor[j]);
    }
}

/* One scale of the whole chunk. */
QNI_INLINE void heads_tq2_0(const uint8_t *fields, int n_blocks, tile_heads *heads)
{
    (void)n_blocks;
    tile_put(heads->scale[0], rows_halves(fields));
}

/* --- columns -------------------------------------------------------------------------------------
 */

/* Where the sums of sub-block j start. */
QNI_INLINE void put_starts(const tile_type *f, const int8_t *levels, int j, qni_column *to)
{
    if (bias_of(f)) {
        tile_put_starts(levels, bias_of(f), unit_of(f),
                        &to->start.whole[TILE_SUB / unit_of(f) * j]);
    }
}

QNI_INLINE void put_levels(const tile_type *f, const int8_t *levels, int j, qni_column *to)
{
    if (TILE_HAS_WORDS && f->is_signed) {
        for (int i = 0; i < TILE_SUB; i++) {
            to->level.words[TILE_SUB * j + i] = (int16_t)levels[i];
        }
        return;
    }
    memcpy(to->level.bytes + TILE_SUB * j, levels, TILE_SUB);
    put_starts(f, levels, j, to);
}

/* One column of q8_K blocks; its chunks lie `stride` bytes apart. */
QNI_INLINE void arrange_q8_k(const tile_type *f, const uint8_t *a, int64_t n_elems, uint8_t *out,
                             int64_t stride)
{
    for (int64_t at = 0; at < n_elems; at += TILE_CHUNK, out += stride) {
        const qni_block_q8_k *block = (const qni_block_q8_k *)(a + at / QNI_SUPER * 292);
        qni_column *to = (qni_column *)(void *)out;
        to->scale[0] = qni_load_f32le(block->d);
        for (int j = 0; j < TILE_CHUNK / TILE_SUB; j++) {
            put_levels(f, block->qs + TILE_SUB * j, j, to);
        }
        if (f->offset == TILE_MINIMA) {
            memcpy(to->sums, block->bsums, sizeof to->sums);
        }
        for (int j = 0; f->offset == TILE_MINIMA && f->n_factor_elems == TILE_SUB && j < 8; j++) {
            to->sums[j] = (int16_t)(to->sums[2 * j] + to->sums[2 * j + 1]);
        }
    }
}

/* Of q8_0 or q8_1 blocks. */
QNI_INLINE void arrange_q8(const tile_type *f, const uint8_t *a, int64_t n_elems, uint8_t *out,
                           int64_t stride)
{
    const bool has_sums = f->offset == TILE_SUMS;
    for (int64_t at = 0; at < n_elems; at += TILE_CHUNK, out += stride) {
        qni_column *to = (qni_column *)(void *)out;
        const int n_subs = (int)(qni_min_i64(TILE_CHUNK, n_elems - at) / TILE_SUB);
        for (int j = 0; j < n_subs; j++) {
            to->scale[j] = tile_half(a);
            if (has_sums) {
                to->stored_sum[j] = tile_half(a + 2);
            }
            put_levels(f, (const int8_t *)(a + (has_sums ? 4 : 2)), j, to);
            a += has_sums ? sizeof(qni_block_q8_1) : sizeof(qni_block_q8_0);
        }
    }
}

#endif
