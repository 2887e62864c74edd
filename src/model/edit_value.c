/* edit_value.c — a value's text turned into its bytes: strings as they are, the rest as JSON has
 * it. */
#include <float.h>

#include "model/edit_internal.h"
#include "json/json.h"

#define MAX_VALUE_BYTES ((size_t)1 << 31)

static qn_status put(qni_buffer *to, uint64_t bits, int64_t n_bytes, qn_error *err)
{
    uint8_t bytes[8];
    qni_store_u64le(bytes, bits);
    return qni_buffer_append(to, bytes, (size_t)n_bytes, err);
}

static qn_status put_unsigned(qni_json *text, qn_gguf_type type, qni_buffer *to, qn_error *err)
{
    const int64_t n_bytes = qn_gguf_type_bytes(type);
    uint64_t value;
    QN_TRY(qni_json_u64(text, &value, err));
    QN_CHECK(n_bytes == 8 || value >> (8 * n_bytes) == 0, err, QN_ERR_INVALID_ARGUMENT, -1,
             "%" PRIu64 " does not fit into %s", value, qn_gguf_type_name(type));
    return put(to, value, n_bytes, err);
}

static qn_status put_signed(qni_json *text, qn_gguf_type type, qni_buffer *to, qn_error *err)
{
    const int64_t n_bytes = qn_gguf_type_bytes(type);
    const int64_t most = INT64_MAX >> (64 - 8 * n_bytes);
    int64_t value;
    QN_TRY(qni_json_i64(text, &value, err));
    QN_CHECK(value <= most && value >= -most - 1, err, QN_ERR_INVALID_ARGUMENT, -1,
             "%" PRId64 " does not fit into %s", value, qn_gguf_type_name(type));
    return put(to, (uint64_t)value, n_bytes, err);
}

static qn_status put_float(qni_json *text, qn_gguf_type type, qni_buffer *to, qn_error *err)
{
    double value;
    QN_TRY(qni_json_f64(text, &value, err));
    if (type == QN_GGUF_F64) {
        uint64_t bits;
        memcpy(&bits, &value, sizeof bits);
        return put(to, bits, 8, err);
    }
    QN_CHECK(value <= (double)FLT_MAX && value >= -(double)FLT_MAX, err, QN_ERR_INVALID_ARGUMENT,
             -1, "%g does not fit into f32", value);
    const float single = (float)value;
    uint32_t bits;
    memcpy(&bits, &single, sizeof bits);
    return put(to, bits, 4, err);
}

static qn_status put_bool(qni_json *text, qni_buffer *to, qn_error *err)
{
    bool value;
    QN_TRY(qni_json_bool(text, &value, err));
    return put(to, value, 1, err);
}

static qn_status put_string(const char *bytes, int64_t n_bytes, qni_buffer *to, qn_error *err)
{
    QN_TRY(put(to, (uint64_t)n_bytes, 8, err));
    return qni_buffer_append(to, bytes, (size_t)n_bytes, err);
}

static qn_status put_element(qni_json *text, qn_gguf_type type, qni_buffer *to, qn_error *err)
{
    qni_json_text string;
    switch (type) {
    case QN_GGUF_U8:
    case QN_GGUF_U16:
    case QN_GGUF_U32:
    case QN_GGUF_U64:
        return put_unsigned(text, type, to, err);
    case QN_GGUF_I8:
    case QN_GGUF_I16:
    case QN_GGUF_I32:
    case QN_GGUF_I64:
        return put_signed(text, type, to, err);
    case QN_GGUF_F32:
    case QN_GGUF_F64:
        return put_float(text, type, to, err);
    case QN_GGUF_BOOL:
        return put_bool(text, to, err);
    case QN_GGUF_STRING:
        QN_TRY(qni_json_string(text, &string, err));
        return put_string(string.bytes, string.n_bytes, to, err);
    default:
        return qni_fail(err, QN_ERR_INVALID_ARGUMENT, -1,
                        "values of type %s cannot be given as text", qn_gguf_type_name(type));
    }
}

static qn_status put_array(qni_json *text, qn_gguf_type elem_type, qni_buffer *to, qn_error *err)
{
    uint64_t n = 0;
    bool has_item;
    QN_TRY(put(to, (uint64_t)elem_type, 4, err));
    QN_TRY(put(to, 0, 8, err)); /* their number, known at the end */
    QN_TRY(qni_json_enter_array(text, err));
    for (;;) {
        QN_TRY(qni_json_next_item(text, &has_item, err));
        if (!has_item) {
            break;
        }
        QN_TRY(put_element(text, elem_type, to, err));
        n++;
    }
    qni_store_u64le(to->bytes + 4, n);
    return QN_OK;
}

static qn_status put_json(const qn_edit *edit, qn_gguf_type type, qn_gguf_type elem_type,
                          const qn_allocator *allocator, qni_buffer *to, qn_error *err)
{
    const qni_json_options options = {.status = QN_ERR_INVALID_ARGUMENT,
                                      .status_overflow = QN_ERR_INVALID_ARGUMENT,
                                      .allocator = allocator};
    qni_json text;
    qn_status st = qni_json_begin(&text, edit->text, edit->n_text, &options, err);
    if (st == QN_OK) {
        st = type == QN_GGUF_ARRAY ? put_array(&text, elem_type, to, err)
                                   : put_element(&text, type, to, err);
    }
    if (st == QN_OK) {
        st = qni_json_finish(&text, err);
    }
    qni_json_end(&text);
    return st;
}

qn_status qni_edit_set_value(const qn_edit *edit, qn_gguf_type type, qn_gguf_type elem_type,
                             const qn_allocator *allocator, qn_gguf_writer *writer, qn_error *err)
{
    qni_buffer value;
    qni_buffer_init(&value, allocator, MAX_VALUE_BYTES);
    qn_status st = type == QN_GGUF_STRING ? put_string(edit->text, edit->n_text, &value, err)
                                          : put_json(edit, type, elem_type, allocator, &value, err);
    if (st == QN_OK) {
        st = qn_gguf_writer_set_raw(writer, edit->name, (int64_t)strlen(edit->name), type,
                                    value.bytes, (int64_t)value.n_bytes, err);
    }
    qni_buffer_free(&value);
    return st;
}
