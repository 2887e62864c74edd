/* validate.c — stored rows, checked as ggml's row validator does. */
#include "codec/codec.h"

/* Where the f16 scales of a block stand. */
typedef struct scale_fields {
    int8_t n;
    uint8_t offsets[2];
    const char *names[2];
} scale_fields;

#define ONE(type)                           \
    {                                       \
        1, {offsetof(qni_block_##type, d)}, \
        {                                   \
            "d"                             \
        }                                   \
    }
#define TWO(type, second)                                                       \
    {                                                                           \
        2, {offsetof(qni_block_##type, d), offsetof(qni_block_##type, second)}, \
        {                                                                       \
            "d", #second                                                        \
        }                                                                       \
    }

static const scale_fields fields[QN_DTYPE_LIMIT] = {
    [QN_DTYPE_Q1_0] = ONE(q1_0),       [QN_DTYPE_Q2_0] = ONE(q2_0),
    [QN_DTYPE_Q4_0] = ONE(q4_0),       [QN_DTYPE_Q4_1] = TWO(q4_1, m),
    [QN_DTYPE_Q5_0] = ONE(q5_0),       [QN_DTYPE_Q5_1] = TWO(q5_1, m),
    [QN_DTYPE_Q8_0] = ONE(q8_0),       [QN_DTYPE_Q2_K] = TWO(q2_k, dmin),
    [QN_DTYPE_Q3_K] = ONE(q3_k),       [QN_DTYPE_Q4_K] = TWO(q4_k, dmin),
    [QN_DTYPE_Q5_K] = TWO(q5_k, dmin), [QN_DTYPE_Q6_K] = ONE(q6_k),
    [QN_DTYPE_TQ1_0] = ONE(tq1_0),     [QN_DTYPE_TQ2_0] = ONE(tq2_0),
    [QN_DTYPE_IQ1_S] = ONE(iq1_s),     [QN_DTYPE_IQ2_XXS] = ONE(iq2_xxs),
    [QN_DTYPE_IQ2_XS] = ONE(iq2_xs),   [QN_DTYPE_IQ2_S] = ONE(iq2_s),
    [QN_DTYPE_IQ3_XXS] = ONE(iq3_xxs), [QN_DTYPE_IQ3_S] = ONE(iq3_s),
    [QN_DTYPE_IQ4_NL] = ONE(iq4_nl),   [QN_DTYPE_IQ4_XS] = ONE(iq4_xs),
};

/* iq1_m spreads its scale over the top nibbles of four words. */
static uint16_t iq1_m_scale(const uint8_t *block)
{
    const uint8_t *words = ((const qni_block_iq1_m *)block)->scales;
    uint32_t bits = 0;
    for (int k = 0; k < 4; k++) {
        bits |= (uint32_t)(words[2 * k + 1] >> 4) << (4 * k);
    }
    return (uint16_t)bits;
}

/* The name of the field of a block that is not as it should be; NULL if all are. */
static const char *bad_field(qn_dtype dtype, const uint8_t *block)
{
    switch (dtype) {
    case QN_DTYPE_IQ1_M:
        return qni_f16_is_finite(iq1_m_scale(block)) ? NULL : "d";
    case QN_DTYPE_Q8_K:
        return qni_f32_is_finite(qni_load_f32le(block)) ? NULL : "d";
    case QN_DTYPE_MXFP4:
        return block[0] == 255 ? "exponent" : NULL;
    default:
        break;
    }
    const scale_fields *row = &fields[dtype];
    for (int k = 0; k < row->n; k++) {
        if (!qni_f16_is_finite(qni_load_u16le(block + row->offsets[k]))) {
            return row->names[k];
        }
    }
    return NULL;
}

static int64_t first_bad_block(qn_dtype dtype, const uint8_t *bytes, int64_t n_blocks,
                               int64_t n_block_bytes)
{
    for (int64_t i = 0; i < n_blocks; i++) {
        if (bad_field(dtype, bytes + i * n_block_bytes)) {
            return i;
        }
    }
    return -1;
}

static bool is_element_finite(qn_dtype dtype, const uint8_t *p)
{
    switch (dtype) {
    case QN_DTYPE_F32:
        return qni_f32_is_finite(qni_load_f32le(p));
    case QN_DTYPE_F16:
        return qni_f16_is_finite(qni_load_u16le(p));
    case QN_DTYPE_BF16:
        return qni_bf16_is_finite(qni_load_u16le(p));
    default: {
        float narrowed;
        qni_kernel_decode(QN_DTYPE_F64, QN_ISA_SCALAR)(p, 1, &narrowed);
        return qni_f32_is_finite(narrowed);
    }
    }
}

/* Loops without an exit, so that compilers make vector code of them. */
static bool all_u16_below(const uint8_t *bytes, int64_t n, uint32_t exponent_mask)
{
    uint32_t bad = 0;
    for (int64_t i = 0; i < n; i++) {
        bad |= (qni_load_u16le(bytes + 2 * i) & exponent_mask) == exponent_mask;
    }
    return bad == 0;
}

static bool all_f32_finite(const uint8_t *bytes, int64_t n)
{
    uint32_t bad = 0;
    for (int64_t i = 0; i < n; i++) {
        bad |= (qni_load_u32le(bytes + 4 * i) & QNI_F32_INF) == QNI_F32_INF;
    }
    return bad == 0;
}

static bool is_chunk_finite(qn_dtype dtype, const uint8_t *bytes, int64_t n)
{
    switch (dtype) {
    case QN_DTYPE_F32:
        return all_f32_finite(bytes, n);
    case QN_DTYPE_F16:
        return all_u16_below(bytes, n, 0x7c00u);
    case QN_DTYPE_BF16:
        return all_u16_below(bytes, n, 0x7f80u);
    default:
        return false; /* element by element */
    }
}

static int64_t first_bad_element(qn_dtype dtype, const uint8_t *bytes, int64_t n, int64_t n_bytes)
{
    enum { CHUNK = 4096 };
    for (int64_t start = 0; start < n; start += CHUNK) {
        const int64_t n_here = qni_min_i64(CHUNK, n - start);
        if (is_chunk_finite(dtype, bytes + start * n_bytes, n_here)) {
            continue;
        }
        for (int64_t i = start; i < start + n_here; i++) {
            if (!is_element_finite(dtype, bytes + i * n_bytes)) {
                return i;
            }
        }
    }
    return -1;
}

static bool is_float(qn_dtype dtype)
{
    return dtype == QN_DTYPE_F32 || dtype == QN_DTYPE_F16 || dtype == QN_DTYPE_BF16 ||
           dtype == QN_DTYPE_F64;
}

qn_status qn_validate_rows(qn_dtype dtype, const void *bytes, int64_t n_bytes, int64_t row_len,
                           int64_t first_row, qn_error *err)
{
    int64_t n_row_bytes = 0;
    QN_TRY(qn_dtype_row_bytes(dtype, row_len, &n_row_bytes, err));
    QN_CHECK(dtype != QN_DTYPE_Q8_1, err, QN_ERR_UNSUPPORTED_DTYPE, -1,
             "q8_1 is an activation format and does not belong in a file");
    const int64_t n_elems = qn_dtype_block_elems(dtype);
    const int64_t n_block_bytes = qn_dtype_block_bytes(dtype);
    const int64_t unit = n_row_bytes > 0 ? n_row_bytes : n_block_bytes;
    QN_CHECK(n_bytes >= 0 && n_bytes % unit == 0, err, QN_ERR_INVALID_DATA_LENGTH, -1,
             "%" PRId64 " bytes are no whole number of %s %s of %" PRId64 " bytes", n_bytes,
             qn_dtype_name(dtype), n_row_bytes > 0 ? "rows" : "blocks", unit);
    const int64_t n_blocks = n_bytes / n_block_bytes;
    const int64_t row_elems = row_len > 0 ? row_len : INT64_MAX;
    if (is_float(dtype)) {
        const int64_t bad = first_bad_element(dtype, bytes, n_blocks, n_block_bytes);
        QN_CHECK(bad < 0, err, QN_ERR_NON_FINITE_VALUE, -1,
                 "row %" PRId64 ", element %" PRId64 " of type %s is NaN or infinite",
                 first_row + bad / row_elems, bad % row_elems, qn_dtype_name(dtype));
        return QN_OK;
    }
    const int64_t bad = first_bad_block(dtype, bytes, n_blocks, n_block_bytes);
    QN_CHECK(bad < 0, err, QN_ERR_INVALID_BLOCK, -1,
             "row %" PRId64 ", the %s block at element %" PRId64 ": its %s is NaN or infinite",
             first_row + bad * n_elems / row_elems, qn_dtype_name(dtype), bad * n_elems % row_elems,
             bad_field(dtype, (const uint8_t *)bytes + bad * n_block_bytes));
    return QN_OK;
}
