/* dot_words_avx2_internal.h — integer products on AVX2 of rows as they are, codes as 16-bit words.
 *
 * A format gives its blocks as 16-bit integers in the order of elements: codes, times their integer
 * factors where there are any. So one multiply-add of pairs (vpmaddwd) is the whole inner loop, no
 * sum can overflow 32 bits (256 * 4096 * 127), and no type needs a correction. What is left to
 * floats is one step of STEP elements:
 *
 *   y += (scale * da) * float(integer sum)  [ - (dmin * da) * float(sum of minima) | + m * sa ]
 *
 * in ascending order, each product and sum rounded once. Both shapes below do exactly that, so an
 * output has the same bits in any tile:
 *
 * Few columns: a row's integers meet each column along k; the eight lanes are added up per step.
 *
 * Many columns: 16 rows are transposed into pairs of elements, [128 pairs][16 rows][2], so that a
 * lane is a row; columns are widened to 16 bits once for a group of rows, and a pair of them is
 * broadcast from memory. A micro-tile is 16 rows by 4 columns: eight sums in registers.
 *
 *   w[p]:  r0e0 r0e1 r1e0 r1e1 ... r7e0 r7e1 | r8e0 ... r15e1        a:  e0 e1 e0 e1 ... */
#ifndef QNI_DOT_WORDS_AVX2_INTERNAL_H
#define QNI_DOT_WORDS_AVX2_INTERNAL_H

#include "kernels/x86/decode_avx2_internal.h"
#include "kernels/x86/tile_avx2_internal.h"

#include "kernels/simd/tiles_internal.h"

enum {
    CHUNK = 256,     /* elements handled at once */
    GROUP_ROWS = 64, /* rows that share widened columns */
    MICRO_COLS = 4,  /* columns of a micro-tile */
    FEW_COLS = 3,    /* up to here a transposition does not pay */
    MAX_COLS = 128,  /* columns widened at once: 80 KiB, for the second-level cache */
    MAX_STEPS = 16   /* of a chunk: a step is at least 16 elements */
};

typedef enum dot_offset { DOT_PLAIN, DOT_MINIMA, DOT_SUMS } dot_offset;

/* 32 integers, in order. */
typedef struct codes_32 {
    __m256i lo;
    __m256i hi;
} codes_32;

/* What a block says besides its codes. */
typedef struct block_head {
    float scale[4]; /* of each step in the block */
    float offset;   /* dmin, or m */
    QNI_ALIGNED(32) int16_t factor[16];
    QNI_ALIGNED(32) int16_t minima[16]; /* of each 16 elements */
    QNI_ALIGNED(32) float codes[CHUNK]; /* for formats that unpack all at once */
} block_head;

typedef void (*dot_begin_fn)(const void *block, block_head *head);
typedef codes_32 (*dot_load_fn)(const void *block, const block_head *head, int j);
typedef __m256i (*dot_bytes_fn)(const void *block, const block_head *head, int j);

/* A format: all members are constants where the engine is inlined. */
typedef struct dot_format {
    dot_begin_fn begin;
    dot_bytes_fn bytes; /* codes of elements 32 j .. 32 j + 31 of the block, -127..127; or NULL: */
    dot_load_fn load;   /* the same widened, factors included */
    bool has_factors;   /* the codes of 16 elements are to be multiplied by head.factor */
    int n_elems;        /* of a block */
    int n_bytes;
    int step;
    dot_offset offset;
    int act_elems; /* 32 or 256: of an activation block */
    int act_bytes;
    int act_codes_at;           /* where its levels begin */
    const tile_micro_fn *micro; /* for staged tiles (simd/tiles_internal.h); or NULL: */
    tile_type tile;             /* what they hold */
} dot_format;

/* Kernels of tiles_avx2.c. */
#define TILE_SHAPE(name) extern const tile_micro_fn qni_micro_##name##_avx2[4];
TILE_SHAPE(k32_min)
TILE_SHAPE(k32_min16)
TILE_SHAPE(k16_min)
TILE_SHAPE(k16)
TILE_SHAPE(k)
TILE_SHAPE(b32)
TILE_SHAPE(b32_sum)
TILE_SHAPE(b32_sum16)
TILE_SHAPE(s32)
TILE_SHAPE(sk)
#undef TILE_SHAPE

/* Up to 256 elements of one row of weights. */
typedef struct row_chunk {
    QNI_ALIGNED(32) int16_t code[CHUNK];
    QNI_ALIGNED(32) int16_t minima[16];
    QNI_ALIGNED(32) float scale[MAX_STEPS];
    QNI_ALIGNED(32) float offset[8];
} row_chunk;

/* And of one column. */
typedef struct col_chunk {
    QNI_ALIGNED(32) int16_t code[CHUNK];
    QNI_ALIGNED(32) int16_t sums[16]; /* of each 16 levels */
    QNI_ALIGNED(32) float scale[MAX_STEPS];
    QNI_ALIGNED(32) float stored_sum[8];
} col_chunk;

/* 16 rows, transposed. */
typedef struct tile_chunk {
    QNI_ALIGNED(32) int16_t code[CHUNK / 2][TILE_ROWS][2];
    QNI_ALIGNED(32) int16_t minima[8][TILE_ROWS][2];
    QNI_ALIGNED(32) float scale[MAX_STEPS][TILE_ROWS];
    QNI_ALIGNED(32) float offset[8][TILE_ROWS];
} tile_chunk;

QNI_INLINE __m256i load_i16(const int16_t *p)
{
    return _mm256_load_si256((const __m256i *)(const void *)p);
}

QNI_INLINE void store_i16(int16_t *p, __m256i v)
{
    _mm256_store_si256((__m256i *)(void *)p, v);
}

/* --- codes from bytes, for the formats
 * ------------------------------------------------------------
 */

QNI_INLINE codes_32 widen_codes(__m256i bytes)
{
    return (codes_32){_mm256_cvtepi8_epi16(_mm256_castsi256_si128(bytes)),
                      _mm256_cvtepi8_epi16(_mm256_extracti128_si256(bytes, 1))};
}

/* Times a factor for the first 16 and one for the others. */
QNI_INLINE codes_32 scale_codes(codes_32 c, int16_t first, int16_t second)
{
    return (codes_32){_mm256_mullo_epi16(c.lo, _mm256_set1_epi16(first)),
                      _mm256_mullo_epi16(c.hi, _mm256_set1_epi16(second))};
}

/* --- reading
 * --------------------------------------------------------------------------------------
 */

QNI_INLINE codes_32 load_codes(const dot_format *f, const uint8_t *block, const block_head *head,
                               int j)
{
    if (!f->bytes) {
        return f->load(block, head, j);
    }
    const codes_32 c = widen_codes(f->bytes(block, head, j));
    return f->has_factors ? scale_codes(c, head->factor[2 * j], head->factor[2 * j + 1]) : c;
}

QNI_INLINE void read_row(const dot_format *f, const uint8_t *w, int n, row_chunk *out)
{
    const int n_steps = f->n_elems / f->step;
    for (int b = 0; b < n / f->n_elems; b++, w += f->n_bytes) {
        block_head head;
        f->begin(w, &head);
        for (int s = 0; s < n_steps; s++) {
            out->scale[b * n_steps + s] = head.scale[s];
        }
        if (f->offset != DOT_PLAIN) {
            out->offset[b] = head.offset;
        }
        if (f->offset == DOT_MINIMA) {
            store_i16(out->minima, load_i16(head.minima));
        }
        for (int j = 0; j < f->n_elems / 32; j++) {
            const codes_32 c = load_codes(f, w, &head, j);
            store_i16(out->code + b * f->n_elems + 32 * j, c.lo);
            store_i16(out->code + b * f->n_elems + 32 * j + 16, c.hi);
        }
    }
}

QNI_INLINE void widen_col(const uint8_t *levels, int n, int16_t *out)
{
    for (int i = 0; i < n; i += 16) {
        store_i16(out + i, _mm256_cvtepi8_epi16(load_16(levels + i)));
    }
}

QNI_INLINE void read_col(const dot_format *f, const uint8_t *a, int n, col_chunk *out)
{
    if (f->act_elems == CHUNK) {
        const qni_block_q8_k *block = (const qni_block_q8_k *)a;
        widen_col((const uint8_t *)block->qs, CHUNK, out->code);
        memcpy(out->sums, block->bsums, sizeof out->sums);
        out->scale[0] = qni_load_f32le(block->d);
        return;
    }
    const int steps_a_block = 32 / f->step > 0 ? 32 / f->step : 1;
    for (int b = 0; b < n / 32; b++, a += f->act_bytes) {
        const float d = scale_of(a);
        widen_col(a + f->act_codes_at, 32, out->code + 32 * b);
        for (int s = 0; s < steps_a_block; s++) {
            out->scale[steps_a_block * b + s] = d;
        }
        if (f->offset == DOT_SUMS) {
            out->stored_sum[b] = scale_of(a + 2);
        }
    }
}

/* --- few columns
 * ----------------------------------------------------------------------------------
 */

QNI_INLINE __m256i multiply_32(const int16_t *w, const int16_t *a)
{
    return _mm256_add_epi32(_mm256_madd_epi16(load_i16(w), load_i16(a)),
                            _mm256_madd_epi16(load_i16(w + 16), load_i16(a + 16)));
}

QNI_INLINE int32_t sum_lanes(__m256i v)
{
    const __m128i half = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    const __m128i two = _mm_add_epi32(half, _mm_unpackhi_epi64(half, half));
    return _mm_cvtsi128_si32(_mm_add_epi32(two, _mm_shuffle_epi32(two, 1)));
}

/* Lanes of eight vectors added up: lane i is the sum of v[i]. */
QNI_INLINE __m256i sum_lanes_x8(const __m256i *v)
{
    const __m256i a =
        _mm256_hadd_epi32(_mm256_hadd_epi32(v[0], v[1]), _mm256_hadd_epi32(v[2], v[3]));
    const __m256i b =
        _mm256_hadd_epi32(_mm256_hadd_epi32(v[4], v[5]), _mm256_hadd_epi32(v[6], v[7]));
    return _mm256_add_epi32(_mm256_permute2x128_si256(a, b, 0x20),
                            _mm256_permute2x128_si256(a, b, 0x31));
}

/* One step of a whole super-block. */
QNI_INLINE float add_super(const dot_format *f, const row_chunk *w, const col_chunk *a, float y)
{
    __m256i sum0 = _mm256_setzero_si256();
    __m256i sum1 = _mm256_setzero_si256();
    for (int i = 0; i < CHUNK; i += 64) {
        sum0 = _mm256_add_epi32(sum0, multiply_32(w->code + i, a->code + i));
        sum1 = _mm256_add_epi32(sum1, multiply_32(w->code + i + 32, a->code + i + 32));
    }
    const int32_t sum = sum_lanes(_mm256_add_epi32(sum0, sum1));
    float term = w->scale[0] * a->scale[0] * (float)sum;
    if (f->offset == DOT_MINIMA) {
        const int32_t low = sum_lanes(_mm256_madd_epi16(load_i16(w->minima), load_i16(a->sums)));
        term = term - w->offset[0] * a->scale[0] * (float)low;
    }
    return y + term;
}

/* Eight steps of 32. */
QNI_INLINE __m256 terms_32(const dot_format *f, const row_chunk *w, const col_chunk *a)
{
    __m256i v[8];
    for (int s = 0; s < 8; s++) {
        v[s] = multiply_32(w->code + 32 * s, a->code + 32 * s);
    }
    const __m256 scale = _mm256_mul_ps(_mm256_load_ps(w->scale), _mm256_load_ps(a->scale));
    __m256 term = _mm256_mul_ps(scale, _mm256_cvtepi32_ps(sum_lanes_x8(v)));
    if (f->offset == DOT_SUMS) {
        term = _mm256_add_ps(
            term, _mm256_mul_ps(_mm256_load_ps(w->offset), _mm256_load_ps(a->stored_sum)));
    }
    return term;
}

/* Sixteen steps of 16, eight of them: the first half at h = 0. */
QNI_INLINE __m256 terms_16(const row_chunk *w, const col_chunk *a, int h)
{
    __m256i v[8];
    for (int s = 0; s < 8; s++) {
        const int at = 128 * h + 16 * s;
        v[s] = _mm256_madd_epi16(load_i16(w->code + at), load_i16(a->code + at));
    }
    const __m256 scale =
        _mm256_mul_ps(_mm256_load_ps(w->scale + 8 * h), _mm256_load_ps(a->scale + 8 * h));
    return _mm256_mul_ps(scale, _mm256_cvtepi32_ps(sum_lanes_x8(v)));
}

QNI_INLINE float add_in_order(__m256 terms, int n, float y)
{
    QNI_ALIGNED(32) float t[8];
    _mm256_store_ps(t, terms);
    for (int i = 0; i < n; i++) {
        y += t[i];
    }
    return y;
}

QNI_INLINE float add_chunk(const dot_format *f, const row_chunk *w, const col_chunk *a, int n,
                           float y)
{
    if (f->step == CHUNK) {
        return add_super(f, w, a, y);
    }
    if (f->step == 32) {
        return add_in_order(terms_32(f, w, a), n / 32, y);
    }
    y = add_in_order(terms_16(w, a, 0), n < 128 ? n / 16 : 8, y);
    return n > 128 ? add_in_order(terms_16(w, a, 1), (n - 128) / 16, y) : y;
}

/* Rows that share widened columns: few enough to stay streams of memory. */
enum { FEW_ROWS = 8 };

QNI_INLINE void dot_few_rows(const dot_format *f, const qni_dot_tile *tile, int64_t row, int n_rows,
                             row_chunk *w, col_chunk *a)
{
    for (int64_t at = 0; at < tile->n_elems; at += CHUNK) {
        const int n = (int)qni_min_i64(CHUNK, tile->n_elems - at);
        const uint8_t *from = tile->w + row * tile->w_stride + at / f->n_elems * f->n_bytes;
        for (int64_t c = 0; c < tile->n_cols; c++) {
            read_col(f, tile->a + c * tile->a_stride + at / f->act_elems * f->act_bytes, n, &a[c]);
        }
        for (int r = 0; r < n_rows; r++) {
            read_row(f, from + r * tile->w_stride, n, w);
            for (int64_t c = 0; c < tile->n_cols; c++) {
                float *y = tile->y + c * tile->y_stride + row + r;
                *y = add_chunk(f, w, &a[c], n, at == 0 ? 0.0f : *y);
            }
        }
    }
}

QNI_INLINE void dot_few(const dot_format *f, const qni_dot_tile *tile)
{
    col_chunk a[FEW_COLS];
    row_chunk w;
    memset(a, 0, sizeof a); /* elements past a short last chunk */
    memset(&w, 0, sizeof w);
    for (int64_t row = 0; row < tile->n_rows; row += FEW_ROWS) {
        dot_few_rows(f, tile, row, (int)qni_min_i64(FEW_ROWS, tile->n_rows - row), &w, a);
    }
}

/* --- many columns
 * ---------------------------------------------------------------------------------
 */

/* Eight rows of eight 32-bit pairs, transposed; rows are CHUNK elements apart, results TILE_ROWS
 * pairs apart. */
QNI_INLINE void transpose_8x8(const row_chunk *rows, int at, __m256i *to)
{
    __m256i r[8], t[8], u[8];
    for (int i = 0; i < 8; i++) {
        r[i] = load_i16(rows[i].code + at);
    }
    for (int i = 0; i < 8; i += 2) {
        t[i] = _mm256_unpacklo_epi32(r[i], r[i + 1]);
        t[i + 1] = _mm256_unpackhi_epi32(r[i], r[i + 1]);
    }
    for (int i = 0; i < 8; i += 4) {
        u[i] = _mm256_unpacklo_epi64(t[i], t[i + 2]);
        u[i + 1] = _mm256_unpackhi_epi64(t[i], t[i + 2]);
        u[i + 2] = _mm256_unpacklo_epi64(t[i + 1], t[i + 3]);
        u[i + 3] = _mm256_unpackhi_epi64(t[i + 1], t[i + 3]);
    }
    for (int i = 0; i < 4; i++) {
        to[2 * i] = _mm256_permute2x128_si256(u[i], u[i + 4], 0x20);
        to[2 * (i + 4)] = _mm256_permute2x128_si256(u[i], u[i + 4], 0x31);
    }
}

QNI_INLINE void read_tile(const dot_format *f, const uint8_t *w, int64_t w_stride, int n_rows,
                          int n, tile_chunk *out)
{
    row_chunk rows[TILE_ROWS / 2];
    for (int half = 0; half < 2; half++) {
        for (int i = 0; i < 8; i++) {
            const int r = 8 * half + i;
            if (r < n_rows) {
                read_row(f, w + r * w_stride, n, &rows[i]);
            } else {
                memset(&rows[i], 0, sizeof rows[i]);
            }
            for (int s = 0; s < n / f->step; s++) {
                out->scale[s][r] = rows[i].scale[s];
            }
            for (int b = 0; f->offset == DOT_SUMS && b < n / 32; b++) {
                out->offset[b][r] = rows[i].offset[b];
            }
            for (int j = 0; f->offset == DOT_MINIMA && j < 8; j++) {
                memcpy(out->minima[j][r], &rows[i].minima[2 * j], sizeof out->minima[j][r]);
            }
            if (f->offset == DOT_MINIMA) {
                out->offset[0][r] = rows[i].offset[0];
            }
        }
        for (int at = 0; at < n; at += 16) {
            transpose_8x8(rows, at, (__m256i *)(void *)out->code[at / 2] + half);
        }
    }
}

/* Integer sums of a micro-tile over elements [at, at + n). */
QNI_INLINE void multiply_micro(const tile_chunk *w, const col_chunk *a, int n_cols, int at, int n,
                               __m256i sum[MICRO_COLS][2])
{
    const __m256i *codes = (const __m256i *)(const void *)w->code[at / 2];
    for (int c = 0; c < n_cols; c++) {
        sum[c][0] = _mm256_setzero_si256();
        sum[c][1] = _mm256_setzero_si256();
    }
    for (int p = 0; p < n / 2; p++) {
        const __m256i w0 = codes[2 * p];
        const __m256i w1 = codes[2 * p + 1];
        for (int c = 0; c < n_cols; c++) {
            const __m256i pair = broadcast_4(a[c].code + at + 2 * p);
            sum[c][0] = _mm256_add_epi32(sum[c][0], _mm256_madd_epi16(w0, pair));
            KEEP_SUM(sum[c][0]);
            sum[c][1] = _mm256_add_epi32(sum[c][1], _mm256_madd_epi16(w1, pair));
            KEEP_SUM(sum[c][1]);
        }
    }
}

/* Eight rows of a step to floats, and onto y. */
QNI_INLINE void add_pair_step(const dot_format *f, const tile_chunk *w, const col_chunk *a, int s,
                              int half, __m256i sum, float *y)
{
    const __m256 da = _mm256_set1_ps(a->scale[s]);
    const __m256 scale = _mm256_mul_ps(_mm256_load_ps(w->scale[s] + 8 * half), da);
    __m256 term = _mm256_mul_ps(scale, _mm256_cvtepi32_ps(sum));
    if (f->offset == DOT_SUMS) {
        term = _mm256_add_ps(term, _mm256_mul_ps(_mm256_load_ps(w->offset[s] + 8 * half),
                                                 _mm256_set1_ps(a->stored_sum[s])));
    }
    if (f->offset == DOT_MINIMA) {
        __m256i low = _mm256_setzero_si256();
        for (int j = 0; j < 8; j++) {
            low = _mm256_add_epi32(low, _mm256_madd_epi16(load_i16(w->minima[j][8 * half]),
                                                          broadcast_4(a->sums + 2 * j)));
        }
        const __m256 dmin = _mm256_mul_ps(_mm256_load_ps(w->offset[0] + 8 * half), da);
        term = _mm256_sub_ps(term, _mm256_mul_ps(dmin, _mm256_cvtepi32_ps(low)));
    }
    _mm256_store_ps(y, _mm256_add_ps(_mm256_load_ps(y), term));
}

QNI_INLINE void add_micro(const dot_format *f, const tile_chunk *w, const col_chunk *a, int n_cols,
                          int n, float (*y)[GROUP_ROWS])
{
    for (int s = 0; s < n / f->step; s++) {
        __m256i sum[MICRO_COLS][2];
        multiply_micro(w, a, n_cols, s * f->step, f->step, sum);
        for (int c = 0; c < n_cols; c++) {
            add_pair_step(f, w, &a[c], s, 0, sum[c][0], y[c]);
            add_pair_step(f, w, &a[c], s, 1, sum[c][1], y[c] + 8);
        }
    }
}

/* Up to GROUP_ROWS rows by MAX_COLS columns. */
QNI_INLINE void dot_group(const dot_format *f, const qni_dot_tile *tile, int64_t row, int n_rows,
                          int64_t col, int n_cols)
{
    col_chunk a[MAX_COLS];
    tile_chunk w;
    QNI_ALIGNED(32) float y[MAX_COLS][GROUP_ROWS];
    memset(y, 0, (size_t)n_cols * sizeof y[0]);
    for (int64_t at = 0; at < tile->n_elems; at += CHUNK) {
        const int n = (int)qni_min_i64(CHUNK, tile->n_elems - at);
        const uint8_t *from_w = tile->w + row * tile->w_stride + at / f->n_elems * f->n_bytes;
        const uint8_t *from_a = tile->a + col * tile->a_stride + at / f->act_elems * f->act_bytes;
        for (int c = 0; c < n_cols; c++) {
            read_col(f, from_a + c * tile->a_stride, n, &a[c]);
        }
        for (int r = 0; r < n_rows; r += TILE_ROWS) {
            const int n_here = n_rows - r < TILE_ROWS ? n_rows - r : TILE_ROWS;
            read_tile(f, from_w + r * tile->w_stride, tile->w_stride, n_here, n, &w);
            int c = 0;
            for (; c + MICRO_COLS <= n_cols; c += MICRO_COLS) {
                add_micro(f, &w, a + c, MICRO_COLS, n, (float(*)[GROUP_ROWS])(y[c] + r));
            }
            for (; c < n_cols; c++) {
                add_micro(f, &w, a + c, 1, n, (float(*)[GROUP_ROWS])(y[c] + r));
            }
        }
    }
    for (int c = 0; c < n_cols; c++) {
        memcpy(tile->y + (col + c) * tile->y_stride + row, y[c], (size_t)n_rows * sizeof(float));
    }
}

QNI_INLINE void dot_many(const dot_format *f, const qni_dot_tile *tile)
{
    for (int64_t col = 0; col < tile->n_cols; col += MAX_COLS) {
        const int n_cols = (int)qni_min_i64(MAX_COLS, tile->n_cols - col);
        for (int64_t row = 0; row < tile->n_rows; row += GROUP_ROWS) {
            const int n_rows = (int)qni_min_i64(GROUP_ROWS, tile->n_rows - row);
            dot_group(f, tile, row, n_rows, col, n_cols);
        }
    }
}

#endif
