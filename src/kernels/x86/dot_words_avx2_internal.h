/* dot_words_avx2_internal.h — integer products on AVX2 of rows as they are with many columns, codes
 * as 16-bit words: for nvfp4, whose steps have 16 elements, so that no sum of bytes would be long
 * enough to pay. An output has the bits that dot_format_avx2_internal.h defines.
 *
 * 16 rows are transposed into pairs of elements, [128 pairs][16 rows][2], so that a lane is a row;
 * columns are widened to 16 bits once for a group of rows, and a pair of them is broadcast from
 * memory. A micro-tile is 16 rows by 4 columns: eight sums in registers. One multiply-add of pairs
 * (vpmaddwd) is the whole inner loop.
 *
 *   w[p]:  r0e0 r0e1 r1e0 r1e1 ... r7e0 r7e1 | r8e0 ... r15e1        a:  e0 e1 e0 e1 ... */
#ifndef QNI_DOT_WORDS_AVX2_INTERNAL_H
#define QNI_DOT_WORDS_AVX2_INTERNAL_H

#include "kernels/x86/dot_format_avx2_internal.h"

enum {
    STEP = 16,
    GROUP_ROWS = 64, /* rows that share widened columns */
    MICRO_COLS = 4,  /* columns of a micro-tile */
    MAX_COLS = 128,  /* columns widened at once: 80 KiB, for the second-level cache */
    MAX_STEPS = CHUNK / STEP
};

/* 32 integers, in order. */
typedef struct codes_32 {
    __m256i lo;
    __m256i hi;
} codes_32;

/* Up to 256 elements of one row of weights. */
typedef struct row_chunk {
    QNI_ALIGNED(32) int16_t code[CHUNK];
    QNI_ALIGNED(32) float scale[MAX_STEPS];
} row_chunk;

/* And of one column. */
typedef struct col_chunk {
    QNI_ALIGNED(32) int16_t code[CHUNK];
    QNI_ALIGNED(32) float scale[MAX_STEPS];
} col_chunk;

/* 16 rows, transposed. */
typedef struct tile_chunk {
    QNI_ALIGNED(32) int16_t code[CHUNK / 2][TILE_ROWS][2];
    QNI_ALIGNED(32) float scale[MAX_STEPS][TILE_ROWS];
} tile_chunk;

/* --- reading
 * --------------------------------------------------------------------------------------
 */

QNI_INLINE codes_32 widen_codes(__m256i bytes)
{
    return (codes_32){_mm256_cvtepi8_epi16(_mm256_castsi256_si128(bytes)),
                      _mm256_cvtepi8_epi16(_mm256_extracti128_si256(bytes, 1))};
}

QNI_INLINE void read_row(const dot_format *f, const uint8_t *w, int n, row_chunk *out)
{
    const int n_steps = f->n_elems / STEP;
    for (int b = 0; b < n / f->n_elems; b++, w += f->n_bytes) {
        block_head head;
        f->begin(w, &head);
        for (int s = 0; s < n_steps; s++) {
            out->scale[b * n_steps + s] = head.scale[s];
        }
        for (int j = 0; j < f->n_elems / 32; j++) {
            const __m256i codes = _mm256_permute4x64_epi64(f->bytes(w, &head, j), 0xd8);
            const __m256i bias = _mm256_set1_epi8((char)f->tile.bias);
            const codes_32 c = widen_codes(_mm256_sub_epi8(codes, bias));
            store_i16(out->code + b * f->n_elems + 32 * j, c.lo);
            store_i16(out->code + b * f->n_elems + 32 * j + 16, c.hi);
        }
    }
}

QNI_INLINE void read_col(const dot_format *f, const uint8_t *a, int n, col_chunk *out)
{
    for (int b = 0; b < n / 32; b++, a += f->act_bytes) {
        const codes_32 c = widen_codes(load_32(a + f->act_codes_at));
        store_i16(out->code + 32 * b, c.lo);
        store_i16(out->code + 32 * b + 16, c.hi);
        out->scale[2 * b] = out->scale[2 * b + 1] = scale_of(a);
    }
}

/* --- products ------------------------------------------------------------------------------------
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
            for (int s = 0; s < n / STEP; s++) {
                out->scale[s][r] = rows[i].scale[s];
            }
        }
        for (int at = 0; at < n; at += 16) {
            transpose_8x8(rows, at, (__m256i *)(void *)out->code[at / 2] + half);
        }
    }
}

/* Integer sums of a micro-tile over step s. */
QNI_INLINE void multiply_micro(const tile_chunk *w, const col_chunk *a, int n_cols, int s,
                               __m256i sum[MICRO_COLS][2])
{
    const int at = STEP * s;
    const __m256i *codes = (const __m256i *)(const void *)w->code[at / 2];
    for (int c = 0; c < n_cols; c++) {
        sum[c][0] = _mm256_setzero_si256();
        sum[c][1] = _mm256_setzero_si256();
    }
    for (int p = 0; p < STEP / 2; p++) {
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
QNI_INLINE void add_pair_step(const tile_chunk *w, const col_chunk *a, int s, int half, __m256i sum,
                              float *y)
{
    const __m256 scale =
        _mm256_mul_ps(_mm256_load_ps(w->scale[s] + 8 * half), _mm256_set1_ps(a->scale[s]));
    const __m256 term = _mm256_mul_ps(scale, _mm256_cvtepi32_ps(sum));
    _mm256_store_ps(y, _mm256_add_ps(_mm256_load_ps(y), term));
}

QNI_INLINE void add_micro(const tile_chunk *w, const col_chunk *a, int n_cols, int n,
                          float (*y)[GROUP_ROWS])
{
    for (int s = 0; s < n / STEP; s++) {
        __m256i sum[MICRO_COLS][2];
        multiply_micro(w, a, n_cols, s, sum);
        for (int c = 0; c < n_cols; c++) {
            add_pair_step(w, &a[c], s, 0, sum[c][0], y[c]);
            add_pair_step(w, &a[c], s, 1, sum[c][1], y[c] + 8);
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
                add_micro(&w, a + c, MICRO_COLS, n, (float(*)[GROUP_ROWS])(y[c] + r));
            }
            for (; c < n_cols; c++) {
                add_micro(&w, a + c, 1, n, (float(*)[GROUP_ROWS])(y[c] + r));
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
