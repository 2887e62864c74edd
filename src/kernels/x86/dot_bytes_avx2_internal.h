/* dot_bytes_avx2_internal.h — integer products on AVX2 of rows as they are, codes as bytes: few
 * columns straight from the blocks, many through tiles made on the fly. An output has the bits that
 * dot_words_avx2_internal.h defines. */
#ifndef QNI_DOT_BYTES_AVX2_INTERNAL_H
#define QNI_DOT_BYTES_AVX2_INTERNAL_H

#include "kernels/x86/dot_words_avx2_internal.h"

/* --- few columns, codes in bytes: nothing is widened or stored
 * ------------------------------------
 *
 * Eight rows at a time, each along k; what is left of a step is eight sums, a row a lane. */

enum {
    LANES = 8,
    SEGMENT = 32 /* chunks of a column that are prepared at once: 11 KiB */
};

/* 256 elements of a column. */
typedef struct few_column {
    QNI_ALIGNED(32) int8_t levels[CHUNK];
    QNI_ALIGNED(32) int16_t sums[16]; /* of each 16 levels; of super-blocks */
    QNI_ALIGNED(32) int32_t start[8]; /* minus the bias times the sums of each 32 */
    QNI_ALIGNED(32) float scale[8];
    QNI_ALIGNED(32) float stored_sum[8];
} few_column;

/* A segment of a column. */
typedef struct few_columns {
    few_column chunk[SEGMENT];
    QNI_ALIGNED(32) float scale[SEGMENT]; /* of super-blocks; 0 where there are none */
} few_columns;

/* Plus a bias if codes have one, so that they are not negative; what the compiler makes of it is
 * that the bias is never subtracted. */
QNI_INLINE __m256i unsigned_codes(const dot_format *f, const uint8_t *w, const block_head *head,
                                  int j)
{
    return _mm256_add_epi8(f->bytes(w, head, j), _mm256_set1_epi8((char)f->tile.bias));
}

/* Products of 32 codes with 32 levels, in pairs: they fit 16 bits. Of codes with a sign the
 * magnitudes, with the levels that have taken the sign. */
QNI_INLINE __m256i multiply_pairs(const dot_format *f, const uint8_t *w, const block_head *head,
                                  int j, __m256i levels)
{
    if (f->tile.is_signed) {
        const __m256i codes = f->bytes(w, head, j);
        return _mm256_maddubs_epi16(_mm256_abs_epi8(codes), _mm256_sign_epi8(levels, codes));
    }
    return _mm256_maddubs_epi16(unsigned_codes(f, w, head, j), levels);
}

QNI_INLINE __m256i sums_of_32(__m256i levels)
{
    const __m256i ones = _mm256_set1_epi16(1);
    return _mm256_madd_epi16(_mm256_maddubs_epi16(_mm256_set1_epi8(1), levels), ones);
}

QNI_INLINE void read_few_column(const dot_format *f, const uint8_t *a, int n, few_column *out)
{
    if (f->act_elems == CHUNK) {
        const qni_block_q8_k *block = (const qni_block_q8_k *)a;
        memcpy(out->levels, block->qs, CHUNK);
        memcpy(out->sums, block->bsums, sizeof out->sums);
        out->scale[0] = qni_load_f32le(block->d);
        return;
    }
    __m256i sums[8];
    for (int b = 0; b < 8; b++) {
        const bool is_there = b < n / 32;
        const __m256i levels =
            is_there ? load_32(a + b * f->act_bytes + f->act_codes_at) : _mm256_setzero_si256();
        _mm256_store_si256((__m256i *)(void *)(out->levels + 32 * b), levels);
        sums[b] = sums_of_32(levels);
        out->scale[b] = is_there ? scale_of(a + b * f->act_bytes) : 0.0f;
        out->stored_sum[b] =
            f->offset == DOT_SUMS && is_there ? scale_of(a + b * f->act_bytes + 2) : 0.0f;
    }
    const __m256i bias = _mm256_set1_epi32(-f->tile.bias);
    _mm256_store_si256((__m256i *)(void *)out->start, _mm256_mullo_epi32(sum_lanes_x8(sums), bias));
}

/* Integers of a super-block of one row, in eight lanes yet; and of its minima. */
QNI_INLINE __m256i super_lanes(const dot_format *f, const uint8_t *w, const block_head *head,
                               const few_column *a, __m256i *low)
{
    const __m256i sums = load_i16(a->sums);
    __m256i sum[2] = {_mm256_setzero_si256(), _mm256_setzero_si256()};
    QNI_UNROLL for (int j = 0; j < 8; j++)
    {
        const __m256i levels =
            _mm256_load_si256((const __m256i *)(const void *)(a->levels + 32 * j));
        const __m256i pairs = multiply_pairs(f, w, head, j, levels);
        __m256i factor = _mm256_set1_epi16(1);
        if (f->tile.n_factor_elems == 32) {
            factor = _mm256_set1_epi16(head->factor[2 * j]);
        } else if (f->has_factors) {
            const __m128i first = _mm_set1_epi16(head->factor[2 * j]);
            const __m128i second = _mm_set1_epi16(head->factor[2 * j + 1]);
            factor = _mm256_inserti128_si256(_mm256_castsi128_si256(first), second, 1);
        }
        sum[j % 2] = _mm256_add_epi32(sum[j % 2], _mm256_madd_epi16(pairs, factor));
    }
    if (f->tile.bias) {
        const __m256i factors = f->has_factors ? load_i16(head->factor) : _mm256_set1_epi16(1);
        const __m256i bias = _mm256_set1_epi32(f->tile.bias);
        sum[0] =
            _mm256_sub_epi32(sum[0], _mm256_mullo_epi32(_mm256_madd_epi16(factors, sums), bias));
    }
    *low = f->offset == DOT_MINIMA ? _mm256_madd_epi16(load_i16(head->minima), sums) : sums;
    return _mm256_add_epi32(sum[0], sum[1]);
}

/* Up to eight super-blocks of one row: their terms. */
QNI_INLINE __m256 terms_of_supers(const dot_format *f, const uint8_t *w, int n, const few_column *a,
                                  const float *scales)
{
    __m256i sum[LANES], low[LANES];
    QNI_ALIGNED(32) float scale[LANES] = {0};
    QNI_ALIGNED(32) float offset[LANES] = {0};
    QNI_ROLLED for (int k = 0; k < n; k++)
    {
        block_head head;
        f->begin(w, &head);
        sum[k] = super_lanes(f, w, &head, &a[k], &low[k]);
        scale[k] = head.scale[0];
        offset[k] = f->offset == DOT_MINIMA ? head.offset : 0.0f;
        w += f->n_bytes;
    }
    for (int k = n; k < LANES; k++) {
        sum[k] = low[k] = _mm256_setzero_si256();
    }
    const __m256 da = _mm256_load_ps(scales);
    __m256 term = _mm256_mul_ps(_mm256_mul_ps(_mm256_load_ps(scale), da),
                                _mm256_cvtepi32_ps(sum_lanes_x8(sum)));
    if (f->offset == DOT_MINIMA) {
        const __m256 dmin = _mm256_mul_ps(_mm256_load_ps(offset), da);
        const __m256 minima = _mm256_cvtepi32_ps(sum_lanes_x8(low));
        term = _mm256_sub_ps(term, _mm256_mul_ps(dmin, minima));
    }
    return term;
}

/* Eight steps of 32 of one row: their terms. */
QNI_INLINE __m256 terms_of_row(const dot_format *f, const uint8_t *w, int n, const few_column *a)
{
    const int n_steps = f->n_elems / 32;
    __m256i sum[8];
    QNI_ALIGNED(32) float scale[8];
    QNI_ALIGNED(32) float offset[8];
    QNI_UNROLL for (int b = 0; b < 8 / n_steps; b++)
    {
        block_head head;
        if (b * f->n_elems < n) {
            f->begin(w, &head);
        }
        QNI_UNROLL for (int j = 0; j < n_steps; j++)
        {
            const int s = b * n_steps + j;
            if (b * f->n_elems < n) {
                const __m256i levels =
                    _mm256_load_si256((const __m256i *)(const void *)(a->levels + 32 * s));
                const __m256i pairs = multiply_pairs(f, w, &head, j, levels);
                sum[s] = _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
                scale[s] = head.scale[j];
                offset[s] = f->offset == DOT_SUMS ? head.offset : 0.0f;
            } else {
                sum[s] = _mm256_setzero_si256();
                scale[s] = offset[s] = 0.0f;
            }
        }
        w += f->n_bytes;
    }
    __m256i sums = sum_lanes_x8(sum);
    if (f->tile.bias) {
        sums = _mm256_add_epi32(sums, _mm256_load_si256((const __m256i *)(const void *)a->start));
    }
    __m256 term = _mm256_mul_ps(_mm256_mul_ps(_mm256_load_ps(scale), _mm256_load_ps(a->scale)),
                                _mm256_cvtepi32_ps(sums));
    if (f->offset == DOT_SUMS) {
        term = _mm256_add_ps(term,
                             _mm256_mul_ps(_mm256_load_ps(offset), _mm256_load_ps(a->stored_sum)));
    }
    return term;
}

/* The rows of eight vectors added up one after the other: lane r gets the lanes of t[r]. */
QNI_INLINE __m256 add_lanes_in_order(const __m256 *t, __m256 y)
{
    __m256 u[8], v[8];
    for (int i = 0; i < 8; i += 2) {
        u[i] = _mm256_unpacklo_ps(t[i], t[i + 1]);
        u[i + 1] = _mm256_unpackhi_ps(t[i], t[i + 1]);
    }
    for (int i = 0; i < 8; i += 4) {
        v[i] = _mm256_shuffle_ps(u[i], u[i + 2], 0x44);
        v[i + 1] = _mm256_shuffle_ps(u[i], u[i + 2], 0xee);
        v[i + 2] = _mm256_shuffle_ps(u[i + 1], u[i + 3], 0x44);
        v[i + 3] = _mm256_shuffle_ps(u[i + 1], u[i + 3], 0xee);
    }
    for (int i = 0; i < 4; i++) {
        y = _mm256_add_ps(y, _mm256_permute2f128_ps(v[i], v[i + 4], 0x20));
    }
    for (int i = 0; i < 4; i++) {
        y = _mm256_add_ps(y, _mm256_permute2f128_ps(v[i], v[i + 4], 0x31));
    }
    return y;
}

/* The terms of one row: eight steps a vector, LANES vectors apart. A row is read from end to end,
 * as the prefetchers of the processor like it. Returns how many vectors. */
QNI_INLINE int terms_of_segment(const dot_format *f, const uint8_t *w, int64_t n_elems,
                                const few_columns *a, __m256 *terms)
{
    const int n_chunks = (int)((n_elems + CHUNK - 1) / CHUNK);
    const int64_t n_chunk_bytes = CHUNK / f->n_elems * f->n_bytes;
    if (f->step == CHUNK) {
        for (int k = 0; k < n_chunks; k += LANES) {
            const int n = n_chunks - k < LANES ? n_chunks - k : LANES;
            terms[k] = terms_of_supers(f, w + k * n_chunk_bytes, n, &a->chunk[k], &a->scale[k]);
        }
        return (n_chunks + LANES - 1) / LANES;
    }
    int k = 0;
    for (; k < n_elems / CHUNK; k++) {
        terms[k * LANES] = terms_of_row(f, w + k * n_chunk_bytes, CHUNK, &a->chunk[k]);
    }
    if (k < n_chunks) {
        terms[k * LANES] =
            terms_of_row(f, w + k * n_chunk_bytes, (int)(n_elems % CHUNK), &a->chunk[k]);
    }
    return n_chunks;
}

/* n_elems elements of eight rows (the last of them again where there are fewer) and one column. */
QNI_INLINE void dot_few_lanes(const dot_format *f, const uint8_t *const *w, int64_t n_elems,
                              const few_columns *a, bool is_first, int n_rows, float *out)
{
    __m256 terms[SEGMENT * LANES];
    QNI_ALIGNED(32) float y[LANES] = {0};
    int n_vectors = 0;
    for (int r = 0; r < LANES; r++) {
        n_vectors = terms_of_segment(f, w[r], n_elems, a, terms + r);
    }
    if (!is_first) {
        memcpy(y, out, (size_t)n_rows * sizeof *y);
    }
    __m256 sum = _mm256_load_ps(y);
    for (int v = 0; v < n_vectors; v++) {
        sum = add_lanes_in_order(terms + v * LANES, sum);
    }
    _mm256_store_ps(y, sum);
    memcpy(out, y, (size_t)n_rows * sizeof *y);
}

/* Elements [at, at + n_elems) of all rows and columns. */
QNI_INLINE void dot_few_segment(const dot_format *f, const qni_dot_tile *tile, int64_t at,
                                int64_t n_elems)
{
    few_columns a[FEW_COLS];
    for (int64_t c = 0; c < tile->n_cols; c++) {
        memset(a[c].scale, 0, sizeof a[c].scale);
        const uint8_t *from = tile->a + c * tile->a_stride + at / f->act_elems * f->act_bytes;
        for (int64_t k = 0; k < n_elems; k += CHUNK) {
            read_few_column(f, from + k / f->act_elems * f->act_bytes,
                            (int)qni_min_i64(CHUNK, n_elems - k), &a[c].chunk[k / CHUNK]);
            a[c].scale[k / CHUNK] = a[c].chunk[k / CHUNK].scale[0];
        }
    }
    for (int64_t row = 0; row < tile->n_rows; row += LANES) {
        const int n_rows = (int)qni_min_i64(LANES, tile->n_rows - row);
        const uint8_t *w[LANES];
        for (int r = 0; r < LANES; r++) {
            w[r] = tile->w + (row + (r < n_rows ? r : n_rows - 1)) * tile->w_stride +
                   at / f->n_elems * f->n_bytes;
        }
        for (int64_t c = 0; c < tile->n_cols; c++) {
            dot_few_lanes(f, w, n_elems, &a[c], at == 0, n_rows,
                          tile->y + c * tile->y_stride + row);
        }
    }
}

QNI_INLINE void dot_few_bytes(const dot_format *f, const qni_dot_tile *tile)
{
    for (int64_t at = 0; at < tile->n_elems; at += SEGMENT * CHUNK) {
        dot_few_segment(f, tile, at, qni_min_i64(SEGMENT * CHUNK, tile->n_elems - at));
    }
}

/* --- many columns, codes in bytes: the tiles of simd/tiles_internal.h, made on the fly
 * ---------------
 */

/* Eight rows of eight groups of four codes, transposed to the vectors of a sub-block. */
QNI_INLINE void transpose_groups(const __m256i *rows, uint8_t *to)
{
    __m256i t[8], u[8];
    for (int i = 0; i < 8; i += 2) {
        t[i] = _mm256_unpacklo_epi32(rows[i], rows[i + 1]);
        t[i + 1] = _mm256_unpackhi_epi32(rows[i], rows[i + 1]);
    }
    for (int i = 0; i < 8; i += 4) {
        u[i] = _mm256_unpacklo_epi64(t[i], t[i + 2]);
        u[i + 1] = _mm256_unpackhi_epi64(t[i], t[i + 2]);
        u[i + 2] = _mm256_unpacklo_epi64(t[i + 1], t[i + 3]);
        u[i + 3] = _mm256_unpackhi_epi64(t[i + 1], t[i + 3]);
    }
    for (int i = 0; i < 4; i++) {
        _mm256_store_si256((__m256i *)(void *)(to + TILE_VECTOR * i),
                           _mm256_permute2x128_si256(u[i], u[i + 4], 0x20));
        _mm256_store_si256((__m256i *)(void *)(to + TILE_VECTOR * (i + 4)),
                           _mm256_permute2x128_si256(u[i], u[i + 4], 0x31));
    }
}

/* What block b of a row says besides its codes, to lane r. */
QNI_INLINE void stage_head(const dot_format *f, const block_head *head, int b, int r,
                           tile_heads *to)
{
    const int n_steps = f->n_elems / f->step;
    for (int s = 0; s < n_steps; s++) {
        to->scale[b * n_steps + s][r] = head->scale[s];
    }
    if (f->offset != DOT_PLAIN) {
        to->offset[b][r] = head->offset;
    }
    const int n_factors = f->has_factors ? CHUNK / f->tile.n_factor_elems : 0;
    for (int i = 0; i < n_factors; i++) {
        const uint32_t factor = (uint16_t)head->factor[16 / n_factors * i];
        to->factor[i][r] = (int32_t)(factor | factor << 16);
    }
    for (int i = 0; f->offset == DOT_MINIMA && i < n_factors / 2; i++) {
        const uint32_t even = (uint16_t)head->minima[32 / n_factors * i];
        const uint32_t odd = (uint16_t)head->minima[32 / n_factors * i + 16 / n_factors];
        to->minima[i][r] = (int32_t)(even | odd << 16);
    }
}

/* Bytes of a sub-block that came as they are to words with their factors. */
QNI_INLINE void widen_stage(const dot_format *f, const uint8_t *codes, int j, tile_stage *to)
{
    for (int g = 0; g < TILE_SUB / 4; g++) {
        const tile_w w = tile_load(codes + TILE_VECTOR * g);
        for (int which = 0; which < 2; which++) {
            const tile_w wide = tile_widen(w, which);
            tile_store((uint8_t *)to->of.words[16 * j + 2 * g + which],
                       f->has_factors ? tile_times(wide, to->heads.factor[j]) : wide);
        }
    }
}

/* n elements of up to 16 rows. */
QNI_INLINE void stage_rows(const dot_format *f, const uint8_t *w, int64_t w_stride, int n_rows,
                           int n, tile_stage *to)
{
    QNI_ALIGNED(64) uint8_t codes[TILE_CHUNK / 4][TILE_VECTOR];
    uint8_t(*out)[TILE_VECTOR] = f->tile.is_signed ? codes : to->of.codes;
    const int n_subs = f->n_elems / TILE_SUB;
    for (int half = 0; half < 2; half++) {
        __m256i rows[CHUNK / TILE_SUB][8];
        for (int i = 0; i < 8; i++) {
            const int r = 8 * half + i;
            const uint8_t *block = w + (r < n_rows ? r : n_rows - 1) * w_stride;
            for (int64_t at = 0; at < CHUNK / f->n_elems * f->n_bytes; at += 64) {
                tile_prefetch((uintptr_t)block + (uintptr_t)(CHUNK / f->n_elems * f->n_bytes + at));
            }
            for (int b = 0; b < n / f->n_elems; b++, block += f->n_bytes) {
                block_head head;
                f->begin(block, &head);
                stage_head(f, &head, b, r, &to->heads);
                for (int j = 0; j < n_subs; j++) {
                    rows[b * n_subs + j][i] = _mm256_add_epi8(f->bytes(block, &head, j),
                                                              _mm256_set1_epi8((char)f->tile.bias));
                }
            }
        }
        for (int j = 0; j < n / TILE_SUB; j++) {
            transpose_groups(rows[j], out[8 * j] + 32 * half);
        }
    }
    for (int j = 0; f->tile.is_signed && j < n / TILE_SUB; j++) {
        widen_stage(f, codes[8 * j], j, to);
    }
}

QNI_INLINE void arrange_columns(const dot_format *f, const uint8_t *a, int64_t a_stride,
                                int64_t n_cols, int n, qni_column *out)
{
    for (int64_t c = 0; c < n_cols; c++, a += a_stride) {
        if (f->act_elems == CHUNK) {
            arrange_q8_k(&f->tile, a, n, (uint8_t *)&out[c], QNI_COLUMN_BYTES);
        } else {
            arrange_q8(&f->tile, a, n, (uint8_t *)&out[c], QNI_COLUMN_BYTES);
        }
    }
}

/* Up to TILE_GROUP * 16 rows by TILE_MAX_COLS columns. */
QNI_INLINE void dot_staged_group(const dot_format *f, const qni_dot_tile *tile, int64_t row,
                                 int64_t n_rows, int64_t col, int64_t n_cols)
{
    QNI_ALIGNED(64) float y[TILE_MAX_COLS][TILE_GROUP * TILE_ROWS];
    QNI_ALIGNED(64) qni_column a[TILE_MAX_COLS];
    tile_stage stage;
    memset(y, 0, (size_t)n_cols * sizeof y[0]);
    for (int64_t at = 0; at < tile->n_elems; at += CHUNK) {
        const int n = (int)qni_min_i64(CHUNK, tile->n_elems - at);
        const uint8_t *from_w = tile->w + row * tile->w_stride + at / f->n_elems * f->n_bytes;
        const uint8_t *from_a = tile->a + col * tile->a_stride + at / f->act_elems * f->act_bytes;
        arrange_columns(f, from_a, tile->a_stride, n_cols, n, a);
        for (int64_t r = 0; r < n_rows; r += TILE_ROWS) {
            const int n_here = (int)qni_min_i64(TILE_ROWS, n_rows - r);
            stage_rows(f, from_w + r * tile->w_stride, tile->w_stride, n_here, n, &stage);
            multiply_staged(f->micro, &stage, a, n_cols, n / TILE_SUB, y[0] + r,
                            TILE_GROUP * TILE_ROWS);
        }
    }
    for (int64_t c = 0; c < n_cols; c++) {
        memcpy(tile->y + (col + c) * tile->y_stride + row, y[c], (size_t)n_rows * sizeof(float));
    }
}

QNI_INLINE void dot_staged(const dot_format *f, const qni_dot_tile *tile)
{
    for (int64_t col = 0; col < tile->n_cols; col += TILE_MAX_COLS) {
        const int64_t n_cols = qni_min_i64(TILE_MAX_COLS, tile->n_cols - col);
        for (int64_t row = 0; row < tile->n_rows; row += TILE_GROUP * TILE_ROWS) {
            const int64_t n_rows = qni_min_i64(TILE_GROUP * TILE_ROWS, tile->n_rows - row);
            dot_staged_group(f, tile, row, n_rows, col, n_cols);
        }
    }
}

#endif
