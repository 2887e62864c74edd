/* dot_float_avx2.c — products with f32, f16 and bf16 weights, widened in registers.
 *
 * An output is the sum of eight lanes, each a chain of fused multiply-adds over every eighth
 * element, then of the elements past the last whole eight: the same in any tile. A micro-tile is 4
 * rows by 3 columns: twelve sums in registers. */
#include "kernels/x86/decode_avx2_internal.h"

enum { MICRO_ROWS = 4, MICRO_COLS = 3 };

/* Eight weights, or one, of a row at element k. */
typedef __m256 (*load_8_fn)(const uint8_t *row, int64_t k);
typedef float (*load_1_fn)(const uint8_t *row, int64_t k);

QNI_INLINE __m256 load_8_f32(const uint8_t *row, int64_t k)
{
    return _mm256_castsi256_ps(load_32(row + 4 * k));
}

QNI_INLINE float load_1_f32(const uint8_t *row, int64_t k)
{
    return qni_load_f32le(row + 4 * k);
}

QNI_INLINE __m256 load_8_f16(const uint8_t *row, int64_t k)
{
    return _mm256_cvtph_ps(load_16(row + 2 * k));
}

QNI_INLINE float load_1_f16(const uint8_t *row, int64_t k)
{
    return scale_of(row + 2 * k);
}

QNI_INLINE __m256 load_8_bf16(const uint8_t *row, int64_t k)
{
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(load_16(row + 2 * k)), 16));
}

QNI_INLINE float load_1_bf16(const uint8_t *row, int64_t k)
{
    return qni_bf16_to_f32(qni_load_u16le(row + 2 * k));
}

QNI_INLINE float sum_lanes_f32(__m256 v)
{
    const __m128 half = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    const __m128 two = _mm_add_ps(half, _mm_movehl_ps(half, half));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

/* n_rows and n_cols are constants where this is inlined. */
QNI_INLINE void dot_micro(const qni_dot_tile *tile, load_8_fn eight, load_1_fn one, int64_t row,
                          int n_rows, int64_t col, int n_cols)
{
    const uint8_t *w = tile->w + row * tile->w_stride;
    const uint8_t *a = tile->a + col * tile->a_stride;
    __m256 sum[MICRO_ROWS][MICRO_COLS];
    for (int r = 0; r < n_rows; r++) {
        for (int c = 0; c < n_cols; c++) {
            sum[r][c] = _mm256_setzero_ps();
        }
    }
    int64_t k = 0;
    for (; k + 8 <= tile->n_elems; k += 8) {
        __m256 x[MICRO_COLS];
        for (int c = 0; c < n_cols; c++) {
            x[c] = load_8_f32(a + c * tile->a_stride, k);
        }
        for (int r = 0; r < n_rows; r++) {
            const __m256 v = eight(w + r * tile->w_stride, k);
            for (int c = 0; c < n_cols; c++) {
                sum[r][c] = _mm256_fmadd_ps(v, x[c], sum[r][c]);
            }
        }
    }
    for (int r = 0; r < n_rows; r++) {
        for (int c = 0; c < n_cols; c++) {
            float y = sum_lanes_f32(sum[r][c]);
            for (int64_t i = k; i < tile->n_elems; i++) {
                y += one(w + r * tile->w_stride, i) * load_1_f32(a + c * tile->a_stride, i);
            }
            tile->y[(col + c) * tile->y_stride + row + r] = y;
        }
    }
}

QNI_INLINE void dot_columns(const qni_dot_tile *tile, load_8_fn eight, load_1_fn one, int64_t row,
                            int n_rows)
{
    int64_t col = 0;
    for (; col + MICRO_COLS <= tile->n_cols; col += MICRO_COLS) {
        dot_micro(tile, eight, one, row, n_rows, col, MICRO_COLS);
    }
    for (; col < tile->n_cols; col++) {
        dot_micro(tile, eight, one, row, n_rows, col, 1);
    }
}

QNI_INLINE void dot_floats(const qni_dot_tile *tile, load_8_fn eight, load_1_fn one)
{
    int64_t row = 0;
    for (; row + MICRO_ROWS <= tile->n_rows; row += MICRO_ROWS) {
        dot_columns(tile, eight, one, row, MICRO_ROWS);
    }
    for (; row < tile->n_rows; row++) {
        dot_columns(tile, eight, one, row, 1);
    }
}

QNI_PROTO_dot(qni_dot_f32_avx2)
{
    dot_floats(tile, load_8_f32, load_1_f32);
}

QNI_PROTO_dot(qni_dot_f16_avx2)
{
    dot_floats(tile, load_8_f16, load_1_f16);
}

QNI_PROTO_dot(qni_dot_bf16_avx2)
{
    dot_floats(tile, load_8_bf16, load_1_bf16);
}
