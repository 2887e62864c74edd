/* tiles_avx512_bf16.c — products over tiles of bf16 weights with the bf16 dot product.
 *
 * A vector of a tile holds two elements of 16 rows, which meet two values of a column, broadcast.
 * An output is one chain of vdpbf16ps over the pairs of a row, in order: the same in any tile. The
 * instruction takes subnormal numbers for zeros. */
#include <immintrin.h>

#include "kernels/numeric_internal.h"
#include "kernels/tile_internal.h"

enum {
    MICRO_TILES = 2, /* by MICRO_COLS: sixteen chains hide the latency of the instruction */
    MICRO_COLS = 8,
    AHEAD = 4096 /* bytes that a tile's stream is asked for before they are met */
};

QNI_INLINE __m512bh pair_of(const uint8_t *p)
{
    int32_t pair;
    memcpy(&pair, p, sizeof pair);
    return (__m512bh)_mm512_set1_epi32(pair);
}

QNI_INLINE __m512bh pairs_of_rows(const uint8_t *p)
{
    return (__m512bh)_mm512_loadu_si512(p);
}

/* Rows from `row` and columns from `col`; n_tiles and n_cols are constants where this is inlined.
 */
QNI_INLINE void multiply(const qni_dot_tile *tile, int64_t row, int n_tiles, int64_t col,
                         int n_cols)
{
    __m512 sum[MICRO_TILES][MICRO_COLS];
    QNI_UNROLL for (int t = 0; t < n_tiles; t++)
    {
        QNI_UNROLL for (int c = 0; c < n_cols; c++)
        {
            sum[t][c] = _mm512_setzero_ps();
        }
    }
    const uint8_t *w = tile->w + row / TILE_ROWS * tile->w_stride;
    const uint8_t *a = tile->a + col * QNI_COLUMN_BYTES;
    for (int64_t left = tile->n_elems; left > 0; left -= TILE_CHUNK, a += tile->a_stride) {
        const int64_t n_pairs = (qni_min_i64(left, TILE_CHUNK) + 1) / 2;
        for (int64_t p = 0; p < n_pairs; p++, w += TILE_VECTOR) {
            __m512bh v[MICRO_TILES];
            QNI_UNROLL for (int t = 0; t < n_tiles; t++)
            {
                v[t] = pairs_of_rows(w + t * tile->w_stride);
                _mm_prefetch(qni_line_ahead(w, t * tile->w_stride + AHEAD), _MM_HINT_T0);
            }
            QNI_UNROLL for (int c = 0; c < n_cols; c++)
            {
                const __m512bh x = pair_of(a + c * QNI_COLUMN_BYTES + 4 * p);
                QNI_UNROLL for (int t = 0; t < n_tiles; t++)
                {
                    sum[t][c] = _mm512_dpbf16_ps(sum[t][c], v[t], x);
                }
            }
        }
    }
    QNI_UNROLL for (int t = 0; t < n_tiles; t++)
    {
        QNI_UNROLL for (int c = 0; c < n_cols; c++)
        {
            float y[TILE_ROWS];
            const int64_t first = row + t * TILE_ROWS;
            const int64_t n = qni_min_i64(TILE_ROWS, tile->n_rows - first);
            _mm512_storeu_ps(y, sum[t][c]);
            memcpy(tile->y + (col + c) * tile->y_stride + first, y, (size_t)n * sizeof *y);
        }
    }
}

QNI_INLINE void multiply_columns(const qni_dot_tile *tile, int64_t row, int n_tiles)
{
    int64_t col = 0;
    for (; col + 8 <= tile->n_cols; col += 8) {
        multiply(tile, row, n_tiles, col, 8);
    }
    for (; col + 4 <= tile->n_cols; col += 4) {
        multiply(tile, row, n_tiles, col, 4);
    }
    for (; col < tile->n_cols; col++) {
        multiply(tile, row, n_tiles, col, 1);
    }
}

QNI_PROTO_dot_tiles(qni_dot_tiles_bf16_avx512_bf16)
{
    int64_t row = 0;
    for (; row + TILE_ROWS < tile->n_rows; row += MICRO_TILES * TILE_ROWS) {
        multiply_columns(tile, row, MICRO_TILES);
    }
    if (row < tile->n_rows) {
        multiply_columns(tile, row, 1);
    }
}

/* The floats of a column have the values of bf16 numbers. */
QNI_PROTO_arrange(qni_arrange_bf16_avx512_bf16)
{
    for (int64_t at = 0; at < n_elems; at += TILE_CHUNK, out += stride) {
        const int64_t n = qni_min_i64(TILE_CHUNK, n_elems - at);
        memset(out, 0, 2 * TILE_CHUNK);
        for (int64_t i = 0; i < n; i++) {
            float x;
            memcpy(&x, a + 4 * (at + i), sizeof x);
            qni_store_u16le(out + 2 * i, (uint16_t)(qni_f32_bits(x) >> 16));
        }
    }
}
