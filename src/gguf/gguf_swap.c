/* gguf_swap.c — tensor data in the other byte order. Only types for which the official converter
 * has a rule: of any other no agreed foreign form exists. */
#include "gguf/gguf_writer_internal.h"

typedef struct swap_rule {
    qn_dtype dtype;
    uint8_t first; /* byte of the block where the swapped fields begin */
    uint8_t n;     /* how many */
    uint8_t width; /* bytes of each; 1: nothing to swap */
} swap_rule;

static const swap_rule rules[] = {
    {QN_DTYPE_F32, 0, 1, 4},   {QN_DTYPE_F16, 0, 1, 2},   {QN_DTYPE_BF16, 0, 1, 2},
    {QN_DTYPE_F64, 0, 1, 8},   {QN_DTYPE_I8, 0, 1, 1},    {QN_DTYPE_I16, 0, 1, 2},
    {QN_DTYPE_I32, 0, 1, 4},   {QN_DTYPE_I64, 0, 1, 8},   {QN_DTYPE_Q4_0, 0, 1, 2},
    {QN_DTYPE_Q8_0, 0, 1, 2},  {QN_DTYPE_Q4_K, 0, 2, 2},  {QN_DTYPE_Q6_K, 208, 1, 2},
    {QN_DTYPE_MXFP4, 0, 1, 1}, {QN_DTYPE_NVFP4, 0, 1, 1},
};

static const swap_rule *rule_of(qn_dtype dtype)
{
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        if (rules[i].dtype == dtype) {
            return &rules[i];
        }
    }
    return NULL;
}

qn_status qn_gguf_swap_data(qn_dtype dtype, const void *in, void *out, int64_t n_bytes,
                            qn_error *err)
{
    const swap_rule *rule = rule_of(dtype);
    QN_CHECK(rule, err, QN_ERR_UNSUPPORTED_DTYPE, -1,
             "tensor type %d (%s) has no agreed form in the other byte order", (int)dtype,
             qn_dtype_name(dtype));
    const int64_t n_block = qn_dtype_block_bytes(dtype);
    QN_CHECK(n_bytes >= 0 && n_bytes % n_block == 0, err, QN_ERR_INVALID_DATA_LENGTH, -1,
             "%" PRId64 " bytes are no whole number of %s blocks", n_bytes, qn_dtype_name(dtype));
    if (n_bytes == 0) {
        return QN_OK;
    }
    memmove(out, in, (size_t)n_bytes);
    if (rule->width > 1) {
        uint8_t *p = out;
        for (int64_t at = rule->first; at < n_bytes; at += n_block) {
            qni_copy_elems(p + at, p + at, rule->n, rule->width, true);
        }
    }
    return QN_OK;
}

/* --- metadata ----------------------------------------------------------------------------------
 */

/* Copy `n` strings, their lengths swapped; both positions move on. */
static void swap_strings(const uint8_t **in, uint8_t **out, uint64_t n, bool is_big_endian)
{
    for (uint64_t i = 0; i < n; i++) {
        const uint64_t n_bytes = qni_load_u64(*in, is_big_endian);
        qni_copy_elems(*out, *in, 1, 8, true);
        memcpy(*out + 8, *in + 8, n_bytes);
        *in += 8 + n_bytes;
        *out += 8 + n_bytes;
    }
}

/* The walk of gguf_walk.c over an array that is known to be whole. */
static void swap_array(const uint8_t *in, uint8_t *out, bool is_big_endian)
{
    uint64_t left[QN_GGUF_MAX_DEPTH];
    int32_t depth = 0;
    do {
        const uint32_t elem_type = qni_load_u32(in, is_big_endian);
        const uint64_t n = qni_load_u64(in + 4, is_big_endian);
        qni_copy_elems(out, in, 1, 4, true);
        qni_copy_elems(out + 4, in + 4, 1, 8, true);
        in += 12;
        out += 12;
        if (elem_type == QN_GGUF_ARRAY) {
            if (n > 0) {
                left[depth++] = n;
                continue;
            }
        } else if (elem_type == QN_GGUF_STRING) {
            swap_strings(&in, &out, n, is_big_endian);
        } else {
            const int64_t n_elem = qn_gguf_type_bytes((qn_gguf_type)elem_type);
            qni_copy_elems(out, in, (int64_t)n, n_elem, true);
            in += (int64_t)n * n_elem;
            out += (int64_t)n * n_elem;
        }
        while (depth > 0 && --left[depth - 1] == 0) {
            depth--;
        }
    } while (depth > 0);
}

void qni_gguf_swap_value(qn_gguf_type type, const uint8_t *in, int64_t n_bytes, bool is_big_endian,
                         uint8_t *out)
{
    if (type == QN_GGUF_ARRAY) {
        swap_array(in, out, is_big_endian);
    } else if (type == QN_GGUF_STRING) {
        swap_strings(&in, &out, 1, is_big_endian);
    } else {
        qni_copy_elems(out, in, 1, n_bytes, true);
    }
}
