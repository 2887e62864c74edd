/* dot_bytes_avx2_internal.h — integer products on AVX2 of rows as they are, codes as bytes: few
 * columns straight from the blocks, many through tiles made on the fly. An output has the bits that
 * dot_format_avx2_internal.h defines. */
#ifndef QNI_DOT_BYTES_AVX2_INTERNAL_H
#define QNI_DOT_BYTES_AVX2_INTERNAL_H

#include "kernels/x86/dot_format_avx2_internal.h"

/* --- few columns: nothing is widened or stored
 * ----------------------------------------------------
 *
 * Eight rows at a time, each along k; what is left of a step is eight sums, a row a lane. */

enum {
    LANES = 8,
    SEGMENT = 32, /* chunks of a column that are prepared at once: 11 KiB */
    AHEAD = 4096  /* bytes of weights between the loads and what is asked for */
};

/* 256 elements of a column. */
typedef struct few_column {
    QNI_ALIGNED(32) int8_t levels[CHUNK];
    QNI_ALIGNED(32)
    int16_t sums[16];                 /* of each 16 levels of super-blocks; or where steps of 16
                                         start for the bias to go */
    QNI_ALIGNED(32) int32_t start[8]; /* of each 32: where sums start for the bias to go */
    QNI_ALIGNED(32) float scale[8];
    QNI_ALIGNED(32) float stored_sum[8];
} few_column;

/* A segment of a column. */
typedef struct few_columns {
    few_column chunk[SEGMENT];
    QNI_ALIGNED(32) float scale[SEGMENT]; /* of super-blocks; 0 where there are none */
} few_columns;

QNI_INLINE __m256i load_lanes(const int32_t *p)
{
    return _mm256_load_si256((const __m256i *)(const void *)p);
}

/* Negated where the mask is -1. */
QNI_INLINE __m256i turn_signs(__m256i v, __m256i mask)
{
    return _mm256_sub_epi8(_mm256_xor_si256(v, mask), mask);
}

/* Products of 32 codes with 32 levels, in pairs: they fit 16 bits. Of codes with a sign the
 * magnitudes, with the levels that have taken the sign. */
QNI_INLINE __m256i multiply_pairs(const dot_format *f, const uint8_t *w, const block_head *head,
                                  int j, const int8_t *levels)
{
    const __m256i codes = f->bytes(w, head, j);
    const __m256i a = _mm256_load_si256((const __m256i *)(const void *)levels);
    if (f->signs) {
        return _mm256_maddubs_epi16(codes, turn_signs(a, f->signs(w, head, j)));
    }
    if (f->tile.is_signed) {
        return _mm256_maddubs_epi16(_mm256_abs_epi8(codes), _mm256_sign_epi8(a, codes));
    }
    return _mm256_maddubs_epi16(codes, a);
}

QNI_INLINE __m256i add_pairs(__m256i pairs)
{
    return _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
}

/* True if the sums of a step's even and odd pairs stay within 16 bits. */
QNI_INLINE bool has_short_sums(const dot_format *f)
{
    return !f->tile.is_signed && f->tile.n_sum_elems == 32;
}

/* Two steps of 16: the first eight levels of both, then the others; and where their sums start. */
QNI_INLINE void interleave_steps(few_column *column, int b, int bias)
{
    int8_t *levels = column->levels + 32 * b;
    for (int s = 0; s < 2; s++) {
        int sum = 0;
        for (int i = 0; i < 16; i++) {
            sum += levels[16 * s + i];
        }
        column->sums[2 * b + s] = (int16_t)(-bias * sum);
    }
    __m256i *v = (__m256i *)(void *)levels;
    _mm256_store_si256(v, _mm256_permute4x64_epi64(_mm256_load_si256(v), 0xd8));
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
    memset(out, 0, sizeof *out);
    for (int b = 0; b < n / 32; b++, a += f->act_bytes) {
        memcpy(out->levels + 32 * b, a + f->act_codes_at, 32);
        if (f->step == 16) {
            interleave_steps(out, b, f->tile.bias);
        } else {
            tile_put_starts(out->levels + 32 * b, f->tile.bias, 32, &out->start[b]);
        }
        out->scale[b] = scale_of(a);
        if (f->offset == DOT_SUMS) {
            out->stored_sum[b] = scale_of(a + 2);
        }
    }
}

/* The factors of sub-block j, two bytes for each pair of elements; half: those of four sub-blocks,
 * in both halves of the register. */
QNI_INLINE __m256i factors_of_sub(__m256i half, int j)
{
    const __m256i pick = _mm256_setr_epi64x(0x0100010001000100, 0x0100010001000100,
                                            0x0302030203020302, 0x0302030203020302);
    const __m256i at = _mm256_set1_epi8((char)(4 * (j % 4)));
    return _mm256_shuffle_epi8(half, _mm256_add_epi8(pick, at));
}

/* Integers of a super-block of one row, in eight lanes yet. */
QNI_INLINE __m256i super_lanes(const dot_format *f, const uint8_t *w, const block_head *head,
                               const few_column *a)
{
    if (!f->has_factors) { /* small codes: eight pairs stay within 16 bits */
        __m256i pairs = multiply_pairs(f, w, head, 0, a->levels);
        QNI_UNROLL for (int j = 1; j < 8; j++)
        {
            pairs = _mm256_add_epi16(pairs, multiply_pairs(f, w, head, j, a->levels + 32 * j));
        }
        const __m256i bias = _mm256_set1_epi16((int16_t)f->tile.bias);
        return _mm256_sub_epi32(add_pairs(pairs), _mm256_madd_epi16(bias, load_i16(a->sums)));
    }
    const __m256i factors = load_i16(head->factor);
    const __m256i half[2] = {_mm256_permute2x128_si256(factors, factors, 0x00),
                             _mm256_permute2x128_si256(factors, factors, 0x11)};
    __m256i sum[2] = {_mm256_setzero_si256(), _mm256_setzero_si256()};
    QNI_UNROLL for (int j = 0; j < 8; j++)
    {
        const __m256i pairs = multiply_pairs(f, w, head, j, a->levels + 32 * j);
        const __m256i product = _mm256_madd_epi16(pairs, factors_of_sub(half[j / 4], j));
        sum[j % 2] = _mm256_add_epi32(sum[j % 2], product);
    }
    if (f->tile.bias && !f->signs) {
        const __m256i bias = _mm256_mullo_epi16(factors, _mm256_set1_epi16((int16_t)f->tile.bias));
        sum[0] = _mm256_sub_epi32(sum[0], _mm256_madd_epi16(bias, load_i16(a->sums)));
    }
    return _mm256_add_epi32(sum[0], sum[1]);
}

QNI_INLINE void ask_ahead(const uint8_t *w, int n_bytes)
{
    QNI_UNROLL for (int i = 0; i < n_bytes; i += 64)
    {
        tile_prefetch(w, AHEAD + i);
    }
}

/* Up to eight super-blocks of one row. */
typedef struct supers {
    __m256i sum[LANES];
    __m256i low[LANES]; /* of minima */
    QNI_ALIGNED(32) float scale[LANES];
    QNI_ALIGNED(32) float offset[LANES];
} supers;

QNI_INLINE void begin_super(const dot_format *f, const uint8_t *w, const few_column *a, int k,
                            block_head *head, supers *to)
{
    ask_ahead(w, f->n_bytes);
    f->begin(w, head);
    to->scale[k] = head->scale[0];
    if (f->offset == DOT_MINIMA) {
        to->offset[k] = head->offset;
        to->low[k] = _mm256_madd_epi16(load_i16(head->minima), load_i16(a->sums));
    }
}

/* Codebooks: what all blocks say first, so that nothing waits for an index. Other types gain
 * nothing from that, and lose. */
QNI_INLINE void add_supers(const dot_format *f, const uint8_t *w, int n, const few_column *a,
                           supers *to)
{
    if (f->has_points) {
        block_head heads[LANES];
        QNI_ROLLED for (int k = 0; k < n; k++)
        {
            begin_super(f, w + k * f->n_bytes, &a[k], k, &heads[k], to);
        }
        QNI_ROLLED for (int k = 0; k < n; k++)
        {
            to->sum[k] = super_lanes(f, w + k * f->n_bytes, &heads[k], &a[k]);
        }
        return;
    }
    QNI_ROLLED for (int k = 0; k < n; k++)
    {
        block_head head;
        begin_super(f, w, &a[k], k, &head, to);
        to->sum[k] = super_lanes(f, w, &head, &a[k]);
        w += f->n_bytes;
    }
}

/* Up to eight super-blocks of one row: their terms. */
QNI_INLINE __m256 terms_of_supers(const dot_format *f, const uint8_t *w, int n, const few_column *a,
                                  const float *scales)
{
    supers s;
    _mm256_store_ps(s.scale, _mm256_setzero_ps());
    _mm256_store_ps(s.offset, _mm256_setzero_ps());
    add_supers(f, w, n, a, &s);
    for (int k = n; k < LANES; k++) {
        s.sum[k] = s.low[k] = _mm256_setzero_si256();
    }
    const __m256 da = _mm256_load_ps(scales);
    __m256 term = _mm256_mul_ps(_mm256_mul_ps(_mm256_load_ps(s.scale), da),
                                _mm256_cvtepi32_ps(sum_lanes_x8(s.sum)));
    if (f->offset == DOT_MINIMA) {
        const __m256 dmin = _mm256_mul_ps(_mm256_load_ps(s.offset), da);
        const __m256 minima = _mm256_cvtepi32_ps(sum_lanes_x8(s.low));
        term = _mm256_sub_ps(term, _mm256_mul_ps(dmin, minima));
    }
    return term;
}

/* Sums of even and odd pairs, 16 bits each, of eight steps: those of v[i] in lane i. */
QNI_INLINE __m256i sum_short_x8(const __m256i *v)
{
    __m256i two[4], four[2];
    for (int i = 0; i < 4; i++) {
        two[i] = _mm256_add_epi16(_mm256_unpacklo_epi32(v[2 * i], v[2 * i + 1]),
                                  _mm256_unpackhi_epi32(v[2 * i], v[2 * i + 1]));
    }
    for (int i = 0; i < 2; i++) {
        four[i] = _mm256_add_epi16(_mm256_unpacklo_epi64(two[2 * i], two[2 * i + 1]),
                                   _mm256_unpackhi_epi64(two[2 * i], two[2 * i + 1]));
    }
    return _mm256_add_epi16(_mm256_permute2x128_si256(four[0], four[1], 0x20),
                            _mm256_permute2x128_si256(four[0], four[1], 0x31));
}

QNI_INLINE __m256i shuffle_i32(__m256i a, __m256i b, const int order)
{
    const __m256 x = _mm256_castsi256_ps(a);
    const __m256 y = _mm256_castsi256_ps(b);
    return _mm256_castps_si256(order == 0x88 ? _mm256_shuffle_ps(x, y, 0x88)
                                             : _mm256_shuffle_ps(x, y, 0xdd));
}

/* The first four bytes of the blocks of four steps. */
QNI_INLINE __m128i words_of_4(const dot_format *f, const uint8_t *w, int step)
{
    const int n_steps = f->n_elems / 32;
    if (n_steps == 4) {
        return _mm_set1_epi32((int32_t)qni_load_u32le(w + step / 4 * f->n_bytes));
    }
    __m128i word[4];
    QNI_UNROLL for (int s = 0; s < 4; s++)
    {
        word[s] = load_4(w + (step + s) / n_steps * f->n_bytes);
    }
    return _mm_unpacklo_epi64(_mm_unpacklo_epi32(word[0], word[1]),
                              _mm_unpacklo_epi32(word[2], word[3]));
}

/* f16 fields in the low halves of eight words. */
QNI_INLINE __m256 halves_of_words(__m256i words)
{
    const __m256i low = _mm256_and_si256(words, _mm256_set1_epi32(0xffff));
    const __m256i side = _mm256_permute4x64_epi64(_mm256_packus_epi32(low, low), 0x08);
    return _mm256_cvtph_ps(_mm256_castsi256_si128(side));
}

/* Eight steps of 32 of one row: their terms. */
QNI_INLINE __m256 terms_of_steps(const dot_format *f, const uint8_t *w, const few_column *a)
{
    const int n_steps = f->n_elems / 32;
    __m256i pairs[8];
    QNI_UNROLL for (int s = 0; s < 8; s++)
    {
        pairs[s] =
            multiply_pairs(f, w + s / n_steps * f->n_bytes, NULL, s % n_steps, a->levels + 32 * s);
        if (!has_short_sums(f)) {
            pairs[s] = add_pairs(pairs[s]);
        }
    }
    __m256i sums;
    if (has_short_sums(f)) {
        sums = sum_short_x8(pairs);
        sums = add_pairs(f->tile.bias ? _mm256_add_epi16(sums, load_lanes(a->start)) : sums);
    } else {
        sums = sum_lanes_x8(pairs);
    }
    const __m256i words = _mm256_set_m128i(words_of_4(f, w, 4), words_of_4(f, w, 0));
    const __m256 scale = _mm256_mul_ps(f->scales(words), _mm256_load_ps(a->scale));
    __m256 term = _mm256_mul_ps(scale, _mm256_cvtepi32_ps(sums));
    if (f->offset == DOT_SUMS) {
        const __m256 offset = halves_of_words(_mm256_srli_epi32(words, 16));
        term = _mm256_add_ps(term, _mm256_mul_ps(offset, _mm256_load_ps(a->stored_sum)));
    }
    return term;
}

/* Eight steps of 16 of one row, from element 128 * half of the chunk: their terms. Codes and levels
 * of 32 elements have the first and second eight of two steps side by side. */
QNI_INLINE __m256 terms_of_half_steps(const dot_format *f, const uint8_t *w, const few_column *a,
                                      int half)
{
    __m256i v[4], side[2];
    QNI_UNROLL for (int i = 0; i < 4; i++)
    {
        v[i] =
            multiply_pairs(f, w + i / 2 * f->n_bytes, NULL, i % 2, a->levels + 128 * half + 32 * i);
    }
    for (int i = 0; i < 2; i++) { /* steps 0 and 1 | 2 and 3: two sums of even and odd pairs */
        side[i] = _mm256_add_epi16(_mm256_permute2x128_si256(v[2 * i], v[2 * i + 1], 0x20),
                                   _mm256_permute2x128_si256(v[2 * i], v[2 * i + 1], 0x31));
    }
    const __m256i mixed =
        _mm256_add_epi16(shuffle_i32(side[0], side[1], 0x88), shuffle_i32(side[0], side[1], 0xdd));
    const __m256i start =
        _mm256_cvtepi16_epi32(_mm_load_si128((const __m128i *)(const void *)(a->sums + 8 * half)));
    const __m256i sums = _mm256_add_epi32(add_pairs(_mm256_permute4x64_epi64(mixed, 0xd8)), start);
    const __m128i words = _mm_unpacklo_epi32(load_4(w), load_4(w + f->n_bytes));
    const __m128 da = _mm_load_ps(a->scale + 4 * half);
    const __m256 da_twice = _mm256_set_m128(_mm_unpackhi_ps(da, da), _mm_unpacklo_ps(da, da));
    return _mm256_mul_ps(_mm256_mul_ps(f->scales(_mm256_castsi128_si256(words)), da_twice),
                         _mm256_cvtepi32_ps(sums));
}

/* A chunk of one row: one vector of terms, or two, LANES vectors apart. */
QNI_INLINE void terms_of_chunk(const dot_format *f, const uint8_t *w, const few_column *a,
                               __m256 *terms)
{
    ask_ahead(w, CHUNK / f->n_elems * f->n_bytes);
    if (f->step == 32) {
        terms[0] = terms_of_steps(f, w, a);
        return;
    }
    terms[0] = terms_of_half_steps(f, w, a, 0);
    terms[LANES] = terms_of_half_steps(f, w + CHUNK / 2 / f->n_elems * f->n_bytes, a, 1);
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
    const int n_whole = (int)(n_elems / CHUNK);
    const int n_vectors = CHUNK / LANES / f->step; /* of a chunk */
    QNI_ROLLED for (int k = 0; k < n_whole; k++)
    {
        terms_of_chunk(f, w + k * n_chunk_bytes, &a->chunk[k], terms + k * n_vectors * LANES);
    }
    if (n_whole < n_chunks) { /* the rest is zeros */
        uint8_t last[CHUNK / 32 * sizeof(qni_block_q8_1)] = {0};
        memcpy(last, w + n_whole * n_chunk_bytes,
               (size_t)(n_elems % CHUNK / f->n_elems * f->n_bytes));
        terms_of_chunk(f, last, &a->chunk[n_whole], terms + n_whole * n_vectors * LANES);
    }
    return n_chunks * n_vectors;
}

/* n_elems elements of up to eight rows and one column. */
QNI_INLINE void dot_few_lanes(const dot_format *f, const uint8_t *w, int64_t w_stride, int n_rows,
                              int64_t n_elems, const few_columns *a, bool is_first, float *out)
{
    __m256 terms[2 * SEGMENT * LANES];
    QNI_ALIGNED(32) float y[LANES] = {0};
    int n_vectors = 0;
    QNI_ROLLED for (int r = 0; r < n_rows; r++)
    {
        n_vectors = terms_of_segment(f, w + r * w_stride, n_elems, a, terms + r);
    }
    for (int r = n_rows; r < LANES; r++) {
        for (int v = 0; v < n_vectors; v++) {
            terms[v * LANES + r] = _mm256_setzero_ps();
        }
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
        const uint8_t *w = tile->w + row * tile->w_stride + at / f->n_elems * f->n_bytes;
        for (int64_t c = 0; c < tile->n_cols; c++) {
            dot_few_lanes(f, w, tile->w_stride, n_rows, n_elems, &a[c], at == 0,
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
        const int i = f->has_factors ? (TILE_SUB * j + 4 * g) / f->tile.n_factor_elems : 0;
        for (int which = 0; which < 2; which++) {
            const tile_w wide = tile_widen(w, which);
            tile_store((uint8_t *)to->of.words[16 * j + 2 * g + which],
                       f->has_factors ? tile_times(wide, to->heads.factor[i]) : wide);
        }
    }
}

QNI_INLINE __m256i staged_codes(const dot_format *f, const uint8_t *w, const block_head *head,
                                int j)
{
    const __m256i codes = f->bytes(w, head, j);
    if (!f->signs) {
        return codes;
    }
    return _mm256_add_epi8(turn_signs(codes, f->signs(w, head, j)),
                           _mm256_set1_epi8((char)f->tile.bias));
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
                tile_prefetch(block, CHUNK / f->n_elems * f->n_bytes + at);
            }
            for (int b = 0; b < n / f->n_elems; b++, block += f->n_bytes) {
                block_head head;
                f->begin(block, &head);
                stage_head(f, &head, b, r, &to->heads);
                for (int j = 0; j < n_subs; j++) {
                    rows[b * n_subs + j][i] = staged_codes(f, block, &head, j);
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
