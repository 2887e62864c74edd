/* st_dtype.c — the element types: tags, sizes, counterparts. */
#include "safetensors/safetensors_internal.h"

typedef struct dtype_row {
    const char *tag;
    int32_t n_bits;
    qn_dtype core; /* QN_DTYPE_NONE: no tensor type of GGUF has these values */
} dtype_row;

static const dtype_row rows[QN_SAFETENSORS_DTYPE_LIMIT] = {
    [QN_SAFETENSORS_BOOL] = {"BOOL", 8, QN_DTYPE_NONE},
    [QN_SAFETENSORS_F4] = {"F4", 4, QN_DTYPE_NONE},
    [QN_SAFETENSORS_F6_E2M3] = {"F6_E2M3", 6, QN_DTYPE_NONE},
    [QN_SAFETENSORS_F6_E3M2] = {"F6_E3M2", 6, QN_DTYPE_NONE},
    [QN_SAFETENSORS_U8] = {"U8", 8, QN_DTYPE_NONE},
    [QN_SAFETENSORS_I8] = {"I8", 8, QN_DTYPE_I8},
    [QN_SAFETENSORS_F8_E5M2] = {"F8_E5M2", 8, QN_DTYPE_NONE},
    [QN_SAFETENSORS_F8_E4M3] = {"F8_E4M3", 8, QN_DTYPE_NONE},
    [QN_SAFETENSORS_F8_E8M0] = {"F8_E8M0", 8, QN_DTYPE_NONE},
    [QN_SAFETENSORS_F8_E4M3FNUZ] = {"F8_E4M3FNUZ", 8, QN_DTYPE_NONE},
    [QN_SAFETENSORS_F8_E5M2FNUZ] = {"F8_E5M2FNUZ", 8, QN_DTYPE_NONE},
    [QN_SAFETENSORS_I16] = {"I16", 16, QN_DTYPE_I16},
    [QN_SAFETENSORS_U16] = {"U16", 16, QN_DTYPE_NONE},
    [QN_SAFETENSORS_F16] = {"F16", 16, QN_DTYPE_F16},
    [QN_SAFETENSORS_BF16] = {"BF16", 16, QN_DTYPE_BF16},
    [QN_SAFETENSORS_I32] = {"I32", 32, QN_DTYPE_I32},
    [QN_SAFETENSORS_U32] = {"U32", 32, QN_DTYPE_NONE},
    [QN_SAFETENSORS_F32] = {"F32", 32, QN_DTYPE_F32},
    [QN_SAFETENSORS_C64] = {"C64", 64, QN_DTYPE_NONE},
    [QN_SAFETENSORS_F64] = {"F64", 64, QN_DTYPE_F64},
    [QN_SAFETENSORS_I64] = {"I64", 64, QN_DTYPE_I64},
    [QN_SAFETENSORS_U64] = {"U64", 64, QN_DTYPE_NONE},
};

static bool is_dtype(qn_safetensors_dtype dtype)
{
    return (int)dtype >= 0 && (int)dtype < QN_SAFETENSORS_DTYPE_LIMIT;
}

const char *qn_safetensors_dtype_tag(qn_safetensors_dtype dtype)
{
    return is_dtype(dtype) ? rows[dtype].tag : "?";
}

qn_safetensors_dtype qn_safetensors_dtype_from_tag(const char *tag, int64_t n_tag)
{
    for (int i = 0; i < QN_SAFETENSORS_DTYPE_LIMIT; i++) {
        const size_t n = strlen(rows[i].tag);
        if ((int64_t)n == n_tag && memcmp(rows[i].tag, tag, n) == 0) {
            return (qn_safetensors_dtype)i;
        }
    }
    return QN_SAFETENSORS_NONE;
}

int32_t qn_safetensors_dtype_bits(qn_safetensors_dtype dtype)
{
    return is_dtype(dtype) ? rows[dtype].n_bits : 0;
}

qn_status qn_safetensors_dtype_to_core(qn_safetensors_dtype dtype, qn_dtype *out_dtype,
                                       qn_error *err)
{
    *out_dtype = is_dtype(dtype) ? rows[dtype].core : QN_DTYPE_NONE;
    QN_CHECK(*out_dtype != QN_DTYPE_NONE, err, QN_ERR_UNSUPPORTED_DTYPE, -1,
             "safetensors type %s has no counterpart among the tensor types; it can only be "
             "inspected and copied",
             qn_safetensors_dtype_tag(dtype));
    return QN_OK;
}

qn_status qn_safetensors_dtype_from_core(qn_dtype dtype, qn_safetensors_dtype *out_dtype,
                                         qn_error *err)
{
    *out_dtype = QN_SAFETENSORS_NONE;
    for (int i = 0; dtype != QN_DTYPE_NONE && i < QN_SAFETENSORS_DTYPE_LIMIT; i++) {
        if (rows[i].core == dtype) {
            *out_dtype = (qn_safetensors_dtype)i;
            return QN_OK;
        }
    }
    return qni_fail(err, QN_ERR_UNSUPPORTED_DTYPE, -1,
                    "safetensors has no type for %s; decode it to f32, f16 or bf16 first",
                    qn_dtype_name(dtype));
}

qn_status qn_safetensors_tensor_bytes(qn_safetensors_dtype dtype, const int64_t *shape,
                                      int32_t rank, int64_t *out_n_bytes, qn_error *err)
{
    *out_n_bytes = 0;
    QN_CHECK(is_dtype(dtype), err, QN_ERR_UNSUPPORTED_DTYPE, -1, "%d is no safetensors type",
             (int)dtype);
    int64_t n_bits = 1;
    for (int32_t i = 0; i < rank; i++) {
        QN_CHECK(shape[i] >= 0, err, QN_ERR_INVALID_SHAPE, -1, "dimension %d is negative: %" PRId64,
                 (int)i, shape[i]);
        QN_CHECK(qni_mul_i64(n_bits, shape[i], &n_bits), err, QN_ERR_VALIDATION_OVERFLOW, -1,
                 "the product of the dimensions does not fit in 63 bits");
    }
    QN_CHECK(qni_mul_i64(n_bits, rows[dtype].n_bits, &n_bits), err, QN_ERR_VALIDATION_OVERFLOW, -1,
             "the size does not fit in 63 bits");
    QN_CHECK(n_bits % 8 == 0, err, QN_ERR_MISALIGNED_SLICE, -1,
             "%" PRId64 " bits of %s do not fill whole bytes", n_bits, rows[dtype].tag);
    *out_n_bytes = n_bits / 8;
    return QN_OK;
}
