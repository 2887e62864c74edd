/* dot.c — products of weights with quantized activations: the referee of all types.
 *
 * An output starts at 0 and adds one f32 term per weight block, in ascending order:
 *
 *   term = sum over parts p of (d_p * factor_p) * float(sum of codes * activations)
 *          then, where the type has minima,  - (dmin * da) * float(sum of minima * activations)
 *          or, for q4_1 and q5_1,            + m * sa
 *
 * d_p is the product of the weight block's scale and the scale of the part's activations. A part is
 * what shares a factor: the whole block; for q1_0, q2_0 and nvfp4 also what shares an activation
 * block. Integer factors (q2_K to q6_K) are inside the integer sum, which is exact. Factors that
 * are powers of two away from the type's formula are exact, too.
 *
 * The integers of a block come from its own decoder: with its scale replaced by one, a block
 * decodes to its codes times its factors; with its factors replaced by ones, to its codes; and with
 * its codes replaced by ones, to its factors. So no layout is written down twice. A block is read
 * once for all columns. */
#include "kernels/numeric_internal.h"

enum { MAX_PARTS = 16, F16_ONE = 0x3c00, F16_4 = 0x4400, F16_8 = 0x4800 };

typedef enum offset_kind { OFFSET_NONE, OFFSET_MINIMA, OFFSET_SUM } offset_kind;

/* A weight block as its product needs it. */
typedef struct operand {
    float d;
    float offset; /* dmin, or m */
    int32_t codes[QNI_SUPER];
    int32_t minima[QNI_SUPER / 16]; /* of each 16 elements */
    float factor[MAX_PARTS];
} operand;

typedef void (*read_fn)(const void *block, operand *out);

/* What the loop has to know about a type. */
typedef struct format {
    qn_dtype weights;
    read_fn read;
    int n_parts;
    offset_kind offset;
} format;

/* --- reading -------------------------------------------------------------------------------------
 */

static void to_codes(qni_decode_fn decode, const void *block, int n, int32_t *codes)
{
    float values[QNI_SUPER];
    decode(block, 1, values);
    for (int i = 0; i < n; i++) {
        codes[i] = (int32_t)values[i];
    }
}

/* Types with one scale, or with integer factors. */
#define READ_WITH_SCALE(name, n_elems)                                    \
    static void read_##name(const void *block, operand *out)              \
    {                                                                     \
        qni_block_##name unit;                                            \
        memcpy(&unit, block, sizeof unit);                                \
        out->d = qni_load_scale(unit.d);                                  \
        out->factor[0] = 1.0f;                                            \
        qni_store_u16le(unit.d, F16_ONE);                                 \
        to_codes(qni_decode_##name##_scalar, &unit, n_elems, out->codes); \
    }
READ_WITH_SCALE(q4_0, 32)
READ_WITH_SCALE(q5_0, 32)
READ_WITH_SCALE(q8_0, 32)
READ_WITH_SCALE(iq4_nl, 32)
READ_WITH_SCALE(q3_k, QNI_SUPER)
READ_WITH_SCALE(q6_k, QNI_SUPER)
READ_WITH_SCALE(tq1_0, QNI_SUPER)
READ_WITH_SCALE(tq2_0, QNI_SUPER)

/* Several activation blocks: all parts have the same factor. */
#define READ_LONG(name, n_elems)                                   \
    READ_WITH_SCALE(name, n_elems)                                 \
    static void read_parts_##name(const void *block, operand *out) \
    {                                                              \
        read_##name(block, out);                                   \
        for (int p = 1; p < (n_elems) / 32; p++) {                 \
            out->factor[p] = 1.0f;                                 \
        }                                                          \
    }
READ_LONG(q1_0, 128)
READ_LONG(q2_0, 64)

#define READ_WITH_SUM(name)                                          \
    static void read_##name(const void *block, operand *out)         \
    {                                                                \
        qni_block_##name unit;                                       \
        memcpy(&unit, block, sizeof unit);                           \
        out->d = qni_load_scale(unit.d);                             \
        out->offset = qni_load_scale(unit.m);                        \
        out->factor[0] = 1.0f;                                       \
        qni_store_u16le(unit.d, F16_ONE);                            \
        qni_store_u16le(unit.m, 0);                                  \
        to_codes(qni_decode_##name##_scalar, &unit, 32, out->codes); \
    }
READ_WITH_SUM(q4_1)
READ_WITH_SUM(q5_1)

/* y = (d * sc) * q - dmin * mn: with d = 0 and dmin = 1 it is -mn. */
#define READ_WITH_MINIMA(name)                                              \
    static void read_##name(const void *block, operand *out)                \
    {                                                                       \
        qni_block_##name unit;                                              \
        int32_t negated[QNI_SUPER];                                         \
        memcpy(&unit, block, sizeof unit);                                  \
        out->d = qni_load_scale(unit.d);                                    \
        out->offset = qni_load_scale(unit.dmin);                            \
        out->factor[0] = 1.0f;                                              \
        qni_store_u16le(unit.d, F16_ONE);                                   \
        qni_store_u16le(unit.dmin, 0);                                      \
        to_codes(qni_decode_##name##_scalar, &unit, QNI_SUPER, out->codes); \
        qni_store_u16le(unit.d, 0);                                         \
        qni_store_u16le(unit.dmin, F16_ONE);                                \
        to_codes(qni_decode_##name##_scalar, &unit, QNI_SUPER, negated);    \
        for (int j = 0; j < QNI_SUPER / 16; j++) {                          \
            out->minima[j] = -negated[16 * j];                              \
        }                                                                   \
    }
READ_WITH_MINIMA(q2_k)
READ_WITH_MINIMA(q4_k)
READ_WITH_MINIMA(q5_k)

/* E8M0 exponent 128 is 1; code 1 has the value 1. */
static void read_mxfp4(const void *block, operand *out)
{
    qni_block_mxfp4 unit;
    float ones[32];
    memcpy(&unit, block, sizeof unit);
    unit.e = 128;
    to_codes(qni_decode_mxfp4_scalar, &unit, 32, out->codes);
    memcpy(&unit, block, sizeof unit);
    memset(unit.qs, 0x11, sizeof unit.qs);
    qni_decode_mxfp4_scalar(&unit, 1, ones);
    out->d = ones[0];
    out->factor[0] = 1.0f;
}

/* Half of the E4M3 value 0x40 is 1. The scales are the factors; there is no other. */
static void read_nvfp4(const void *block, operand *out)
{
    qni_block_nvfp4 unit;
    float ones[64];
    memcpy(&unit, block, sizeof unit);
    memset(unit.scales, 0x40, sizeof unit.scales);
    to_codes(qni_decode_nvfp4_scalar, &unit, 64, out->codes);
    memcpy(&unit, block, sizeof unit);
    memset(unit.qs, 0x11, sizeof unit.qs);
    qni_decode_nvfp4_scalar(&unit, 1, ones);
    out->d = 1.0f;
    for (int p = 0; p < 4; p++) {
        out->factor[p] = ones[16 * p];
    }
}

/* A factor code of 33 is 1; level 8 is 1. */
static void read_iq4_xs(const void *block, operand *out)
{
    qni_block_iq4_xs unit;
    float ones[QNI_SUPER];
    memcpy(&unit, block, sizeof unit);
    out->d = qni_load_scale(unit.d);
    qni_store_u16le(unit.d, F16_ONE);
    memset(unit.qs, 0x88, sizeof unit.qs);
    qni_decode_iq4_xs_scalar(&unit, 1, ones);
    memcpy(unit.qs, ((const qni_block_iq4_xs *)block)->qs, sizeof unit.qs);
    qni_store_u16le(unit.scales_h, 0xaaaa);
    memset(unit.scales_l, 0x11, sizeof unit.scales_l);
    to_codes(qni_decode_iq4_xs_scalar, &unit, QNI_SUPER, out->codes);
    for (int p = 0; p < 8; p++) {
        out->factor[p] = ones[32 * p];
    }
}

/* Lattice types: the factor of a part is an odd number times a power of two. `with_factors` is the
 * block with unit scale, `without` the same with all factor codes 0; codes are never 0. */
static void split_factors(qni_decode_fn decode, const void *with_factors, const void *without,
                          int n_parts, float power, operand *out)
{
    int32_t products[QNI_SUPER];
    const int n_part = QNI_SUPER / n_parts;
    to_codes(decode, with_factors, QNI_SUPER, products);
    to_codes(decode, without, QNI_SUPER, out->codes);
    for (int p = 0; p < n_parts; p++) {
        const int32_t factor = products[n_part * p] / out->codes[n_part * p]; /* exact */
        out->factor[p] = (float)factor * power;
    }
}

/* `unit_scale` is the f16 that makes products integers; `power` its inverse. */
#define READ_LATTICE(name, n_parts, unit_scale, power)                                 \
    static void read_##name(const void *block, operand *out)                           \
    {                                                                                  \
        qni_block_##name unit;                                                         \
        qni_block_##name plain;                                                        \
        memcpy(&unit, block, sizeof unit);                                             \
        out->d = qni_load_scale(unit.d);                                               \
        qni_store_u16le(unit.d, unit_scale);                                           \
        plain = unit;                                                                  \
        clear_factors_##name(&plain);                                                  \
        split_factors(qni_decode_##name##_scalar, &unit, &plain, n_parts, power, out); \
    }

static void clear_factors_iq2_xxs(qni_block_iq2_xxs *block)
{
    for (int g = 0; g < 8; g++) {
        block->qs[8 * g + 7] &= 0x0f;
    }
}

static void clear_factors_iq2_xs(qni_block_iq2_xs *block)
{
    memset(block->scales, 0, sizeof block->scales);
}

static void clear_factors_iq2_s(qni_block_iq2_s *block)
{
    memset(block->scales, 0, sizeof block->scales);
}

static void clear_factors_iq3_xxs(qni_block_iq3_xxs *block)
{
    for (int g = 0; g < 8; g++) {
        block->signs[4 * g + 3] &= 0x0f;
    }
}

static void clear_factors_iq3_s(qni_block_iq3_s *block)
{
    memset(block->scales, 0, sizeof block->scales);
}

static void clear_factors_iq1_s(qni_block_iq1_s *block)
{
    for (int g = 0; g < 8; g++) {
        block->qh[2 * g + 1] &= 0x8f;
    }
}

READ_LATTICE(iq2_xxs, 8, F16_8, 0.125f)
READ_LATTICE(iq2_xs, 16, F16_8, 0.125f)
READ_LATTICE(iq2_s, 16, F16_8, 0.125f)
READ_LATTICE(iq3_xxs, 8, F16_4, 0.25f)
READ_LATTICE(iq3_s, 8, F16_ONE, 1.0f)
READ_LATTICE(iq1_s, 8, F16_8, 0.125f)

/* The scale of iq1_m lies in the top nibbles of its factor words. */
static void read_iq1_m(const void *block, operand *out)
{
    qni_block_iq1_m unit;
    qni_block_iq1_m plain;
    uint32_t d = 0;
    memcpy(&unit, block, sizeof unit);
    for (int w = 0; w < 4; w++) {
        uint8_t *word = unit.scales + 2 * w;
        const uint32_t old = qni_load_u16le(word);
        d |= old >> 12 << (4 * w);
        qni_store_u16le(word, (uint16_t)((old & 0x0fffu) | (F16_8 >> (4 * w) & 15u) << 12));
    }
    out->d = qni_f16_to_f32((uint16_t)d);
    plain = unit;
    for (int w = 0; w < 4; w++) {
        plain.scales[2 * w] = 0;
        plain.scales[2 * w + 1] &= 0xf0;
    }
    split_factors(qni_decode_iq1_m_scalar, &unit, &plain, 16, 0.125f, out);
}

/* --- products ------------------------------------------------------------------------------------
 */

static int32_t integer_sum(const int32_t *codes, const int8_t *a, int n)
{
    int32_t sum = 0;
    for (int i = 0; i < n; i++) {
        sum += codes[i] * a[i];
    }
    return sum;
}

/* One block of weights with as many elements of q8_0 activations. */
static float term_q8_0(const format *f, const operand *w, int n_elems, const uint8_t *activations)
{
    const qni_block_q8_0 *a = (const qni_block_q8_0 *)activations;
    const int n_part = n_elems / f->n_parts;
    float term = 0.0f;
    for (int p = 0; p < f->n_parts; p++) {
        const int at = p * n_part;
        const qni_block_q8_0 *block = &a[at / 32];
        const float scale = w->d * qni_load_scale(block->d) * w->factor[p];
        term += scale * (float)integer_sum(w->codes + at, block->qs + at % 32, n_part);
    }
    return term;
}

static float term_q8_1(const operand *w, const uint8_t *activations)
{
    const qni_block_q8_1 *a = (const qni_block_q8_1 *)activations;
    const float product = w->d * qni_load_scale(a->d) * (float)integer_sum(w->codes, a->qs, 32);
    return product + w->offset * qni_load_scale(a->s);
}

static float term_q8_k(const format *f, const operand *w, const uint8_t *activations)
{
    const qni_block_q8_k *a = (const qni_block_q8_k *)activations;
    const float da = qni_load_f32le(a->d);
    const int n_part = QNI_SUPER / f->n_parts;
    float term = 0.0f;
    for (int p = 0; p < f->n_parts; p++) {
        const float scale = w->d * da * w->factor[p];
        term += scale * (float)integer_sum(w->codes + p * n_part, a->qs + p * n_part, n_part);
    }
    if (f->offset != OFFSET_MINIMA) {
        return term;
    }
    int32_t sum = 0;
    for (int j = 0; j < QNI_SUPER / 16; j++) {
        sum += w->minima[j] * (int16_t)qni_load_u16le(a->bsums + 2 * j);
    }
    return term - w->offset * da * (float)sum;
}

static void clear_outputs(const qni_dot_tile *tile)
{
    for (int64_t c = 0; c < tile->n_cols; c++) {
        memset(tile->y + c * tile->y_stride, 0, (size_t)tile->n_rows * sizeof(float));
    }
}

static void dot_quantized(const qni_dot_tile *tile, const format *f)
{
    const qn_dtype partner = qni_dot_activation(f->weights);
    const int64_t n_elems = qn_dtype_block_elems(f->weights);
    const int64_t n_bytes = qn_dtype_block_bytes(f->weights);
    const int64_t n_act_bytes =
        n_elems / qn_dtype_block_elems(partner) * qn_dtype_block_bytes(partner);
    operand w;
    clear_outputs(tile);
    for (int64_t r = 0; r < tile->n_rows; r++) {
        for (int64_t b = 0; b < tile->n_elems / n_elems; b++) {
            f->read(tile->w + r * tile->w_stride + b * n_bytes, &w);
            const uint8_t *a = tile->a + b * n_act_bytes;
            for (int64_t c = 0; c < tile->n_cols; c++, a += tile->a_stride) {
                float *y = tile->y + c * tile->y_stride + r;
                *y += partner == QN_DTYPE_Q8_K   ? term_q8_k(f, &w, a)
                      : partner == QN_DTYPE_Q8_1 ? term_q8_1(&w, a)
                                                 : term_q8_0(f, &w, (int)n_elems, a);
            }
        }
    }
}

#define DOT(name, symbol, reader, n_parts, offset)                                     \
    QNI_PROTO_dot(qni_dot_##name##_scalar)                                             \
    {                                                                                  \
        static const format f = {QN_DTYPE_##symbol, reader, n_parts, OFFSET_##offset}; \
        dot_quantized(tile, &f);                                                       \
    }
DOT(q1_0, Q1_0, read_parts_q1_0, 4, NONE)
DOT(q2_0, Q2_0, read_parts_q2_0, 2, NONE)
DOT(q4_0, Q4_0, read_q4_0, 1, NONE)
DOT(q4_1, Q4_1, read_q4_1, 1, SUM)
DOT(q5_0, Q5_0, read_q5_0, 1, NONE)
DOT(q5_1, Q5_1, read_q5_1, 1, SUM)
DOT(q8_0, Q8_0, read_q8_0, 1, NONE)
DOT(q2_k, Q2_K, read_q2_k, 1, MINIMA)
DOT(q3_k, Q3_K, read_q3_k, 1, NONE)
DOT(q4_k, Q4_K, read_q4_k, 1, MINIMA)
DOT(q5_k, Q5_K, read_q5_k, 1, MINIMA)
DOT(q6_k, Q6_K, read_q6_k, 1, NONE)
DOT(iq1_s, IQ1_S, read_iq1_s, 8, NONE)
DOT(iq1_m, IQ1_M, read_iq1_m, 16, NONE)
DOT(iq2_xxs, IQ2_XXS, read_iq2_xxs, 8, NONE)
DOT(iq2_xs, IQ2_XS, read_iq2_xs, 16, NONE)
DOT(iq2_s, IQ2_S, read_iq2_s, 16, NONE)
DOT(iq3_xxs, IQ3_XXS, read_iq3_xxs, 8, NONE)
DOT(iq3_s, IQ3_S, read_iq3_s, 8, NONE)
DOT(iq4_nl, IQ4_NL, read_iq4_nl, 1, NONE)
DOT(iq4_xs, IQ4_XS, read_iq4_xs, 8, NONE)
DOT(tq1_0, TQ1_0, read_tq1_0, 1, NONE)
DOT(tq2_0, TQ2_0, read_tq2_0, 1, NONE)
DOT(mxfp4, MXFP4, read_mxfp4, 1, NONE)
DOT(nvfp4, NVFP4, read_nvfp4, 4, NONE)

/* --- f32, f16, bf16: widened weights, activations as they are
 * --------------------------------------
 */

static void dot_widened(const qni_dot_tile *tile, qni_decode_fn decode, int64_t n_elem_bytes)
{
    enum { PIECE = 512 };
    float w[PIECE];
    clear_outputs(tile);
    for (int64_t r = 0; r < tile->n_rows; r++) {
        for (int64_t at = 0; at < tile->n_elems; at += PIECE) {
            const int64_t n = qni_min_i64(PIECE, tile->n_elems - at);
            decode(tile->w + r * tile->w_stride + at * n_elem_bytes, n, w);
            for (int64_t c = 0; c < tile->n_cols; c++) {
                const uint8_t *a = tile->a + c * tile->a_stride + 4 * at;
                float sum = tile->y[c * tile->y_stride + r];
                for (int64_t k = 0; k < n; k++) {
                    float x;
                    memcpy(&x, a + 4 * k, sizeof x);
                    sum += w[k] * x;
                }
                tile->y[c * tile->y_stride + r] = sum;
            }
        }
    }
}

QNI_PROTO_dot(qni_dot_f32_scalar)
{
    dot_widened(tile, qni_decode_f32_scalar, 4);
}

QNI_PROTO_dot(qni_dot_f16_scalar)
{
    dot_widened(tile, qni_decode_f16_scalar, 2);
}

QNI_PROTO_dot(qni_dot_bf16_scalar)
{
    dot_widened(tile, qni_decode_bf16_scalar, 2);
}

qn_dtype qni_dot_activation(qn_dtype weights)
{
    switch (weights) {
    case QN_DTYPE_F32:
    case QN_DTYPE_F16:
    case QN_DTYPE_BF16:
        return QN_DTYPE_F32;
    case QN_DTYPE_Q8_1:
    case QN_DTYPE_Q8_K:
        return QN_DTYPE_NONE;
    default:
        return qn_dtype_is_quantized(weights) ? qn_dtype_partner(weights) : QN_DTYPE_NONE;
    }
}
