/* gguf_walk.c — metadata values in the bytes of a file: finding the end of one without decoding it,
 * decoding one that is known to be whole. */
#include "gguf/gguf_internal.h"

static const uint8_t type_bytes[QN_GGUF_TYPE_LIMIT] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
static const char *const type_names[QN_GGUF_TYPE_LIMIT] = {
    "u8", "i8", "u16", "i16", "u32", "i32", "f32", "bool", "string", "array", "u64", "i64", "f64"};

/* The least that an array header (element type, count), a string length and a fixed part take. */
#define ARRAY_HEADER_BYTES 12
#define STRING_BYTES       8

const char *qn_gguf_type_name(qn_gguf_type type)
{
    return (int)type >= 0 && (int)type < QN_GGUF_TYPE_LIMIT ? type_names[type] : "?";
}

int64_t qn_gguf_type_bytes(qn_gguf_type type)
{
    return (int)type >= 0 && (int)type < QN_GGUF_TYPE_LIMIT ? type_bytes[type] : 0;
}

bool qni_host_is_little_endian(void)
{
    const uint16_t one = 1;
    uint8_t first = 0;
    memcpy(&first, &one, 1);
    return first == 1;
}

void qni_copy_elems(void *out, const void *in, int64_t n, int64_t elem_bytes, bool swap)
{
    if (n == 0) {
        return;
    }
    if (!swap || elem_bytes == 1) {
        memmove(out, in, (size_t)(n * elem_bytes));
        return;
    }
    uint8_t *to = out;
    const uint8_t *from = in;
    for (int64_t i = 0; i < n; i++) {
        uint8_t elem[8];
        memcpy(elem, from, (size_t)elem_bytes);
        for (int64_t k = 0; k < elem_bytes; k++) {
            to[k] = elem[elem_bytes - 1 - k];
        }
        to += elem_bytes;
        from += elem_bytes;
    }
}

static const uint8_t *stop_at(qni_gguf_stop *stop, qni_gguf_stop_why why, const uint8_t *at,
                              uint64_t claimed, const uint8_t *end, uint64_t need)
{
    *stop = (qni_gguf_stop){why, at, claimed, (uint64_t)(end - at), need};
    return NULL;
}

/* The loop is the cost of opening a file with a large vocabulary: one length, one comparison. */
QNI_INLINE const uint8_t *walk_strings(const uint8_t *p, const uint8_t *end, uint64_t n,
                                       bool is_big_endian, uint64_t max_string, qni_gguf_stop *stop)
{
    if (n > (uint64_t)(end - p) / STRING_BYTES) {
        return stop_at(stop, QNI_STOP_ARRAY, p, n, end, STRING_BYTES);
    }
    for (uint64_t i = 0; i < n; i++) {
        if (QNI_UNLIKELY(end - p < STRING_BYTES)) {
            return stop_at(stop, QNI_STOP_SHORT, p, 0, end, STRING_BYTES);
        }
        const uint64_t n_bytes = qni_load_u64(p, is_big_endian);
        if (QNI_UNLIKELY(n_bytes > (uint64_t)(end - p) - STRING_BYTES)) {
            return stop_at(stop, QNI_STOP_STRING, p, n_bytes, end, STRING_BYTES);
        }
        if (QNI_UNLIKELY(n_bytes > max_string)) {
            return stop_at(stop, QNI_STOP_LONG_STRING, p, n_bytes, end, 0);
        }
        p += STRING_BYTES + n_bytes;
    }
    return p;
}

const uint8_t *qni_gguf_walk_strings(const uint8_t *p, const uint8_t *end, uint64_t n,
                                     bool is_big_endian, uint64_t max_string, qni_gguf_stop *stop)
{
    return is_big_endian ? walk_strings(p, end, n, true, max_string, stop)
                         : walk_strings(p, end, n, false, max_string, stop);
}

/* Arrays without recursion: `left` counts, per level, the arrays still to come. */
static const uint8_t *walk_array(const uint8_t *p, const uint8_t *end, bool is_big_endian,
                                 uint64_t max_string, qni_gguf_stop *stop)
{
    uint64_t left[QN_GGUF_MAX_DEPTH];
    int32_t depth = 0; /* arrays of arrays that p is inside of */
    for (;;) {
        if (end - p < ARRAY_HEADER_BYTES) {
            return stop_at(stop, QNI_STOP_SHORT, p, 0, end, ARRAY_HEADER_BYTES);
        }
        const uint8_t *header = p;
        const uint32_t elem_type = qni_load_u32(p, is_big_endian);
        const uint64_t n = qni_load_u64(p + 4, is_big_endian);
        p += ARRAY_HEADER_BYTES;
        if (elem_type >= QN_GGUF_TYPE_LIMIT) {
            return stop_at(stop, QNI_STOP_ELEM_TYPE, header, elem_type, end, 0);
        }
        if (elem_type == QN_GGUF_ARRAY) {
            /* this one is at level depth + 1, its elements would be at depth + 2 */
            if (depth + 2 > QN_GGUF_MAX_DEPTH) {
                return stop_at(stop, QNI_STOP_DEPTH, header, 0, end, 0);
            }
            if (n > (uint64_t)(end - p) / ARRAY_HEADER_BYTES) {
                return stop_at(stop, QNI_STOP_ARRAY, p, n, end, ARRAY_HEADER_BYTES);
            }
            if (n > 0) {
                left[depth++] = n;
                continue;
            }
        } else if (elem_type == QN_GGUF_STRING) {
            p = qni_gguf_walk_strings(p, end, n, is_big_endian, max_string, stop);
            if (!p) {
                return NULL;
            }
        } else {
            if (n > (uint64_t)(end - p) / type_bytes[elem_type]) {
                return stop_at(stop, QNI_STOP_ARRAY, p, n, end, type_bytes[elem_type]);
            }
            p += n * type_bytes[elem_type];
        }
        while (depth > 0 && --left[depth - 1] == 0) {
            depth--;
        }
        if (depth == 0) {
            return p;
        }
    }
}

const uint8_t *qni_gguf_walk_value(const uint8_t *p, const uint8_t *end, uint32_t type,
                                   bool is_big_endian, uint64_t max_string, qni_gguf_stop *stop)
{
    if (type >= QN_GGUF_TYPE_LIMIT) {
        return stop_at(stop, QNI_STOP_TYPE, p, type, end, 0);
    }
    if (type == QN_GGUF_STRING) {
        if (end - p < STRING_BYTES) {
            return stop_at(stop, QNI_STOP_SHORT, p, 0, end, STRING_BYTES);
        }
        return qni_gguf_walk_strings(p, end, 1, is_big_endian, max_string, stop);
    }
    if (type == QN_GGUF_ARRAY) {
        return walk_array(p, end, is_big_endian, max_string, stop);
    }
    if (end - p < type_bytes[type]) {
        return stop_at(stop, QNI_STOP_SHORT, p, 0, end, type_bytes[type]);
    }
    return p + type_bytes[type];
}

qn_status qni_gguf_fail_stop(const qni_gguf_stop *stop, const uint8_t *base, const char *what,
                             qn_error *err)
{
    const int64_t offset = stop->at - base;
    switch (stop->why) {
    case QNI_STOP_STRING:
        return qni_fail(err, QN_ERR_END_OF_STREAM, offset,
                        "%s: a string of %" PRIu64 " bytes where %" PRIu64
                        " are left; the file is cut short or damaged",
                        what, stop->claimed, stop->left - stop->need);
    case QNI_STOP_ARRAY:
        return qni_fail(err, QN_ERR_END_OF_STREAM, offset,
                        "%s: an array of %" PRIu64 " elements of at least %" PRIu64
                        " bytes where %" PRIu64 " bytes are left; the file is cut short or damaged",
                        what, stop->claimed, stop->need, stop->left);
    case QNI_STOP_TYPE:
        return qni_fail(err, QN_ERR_UNSUPPORTED_VALUE_TYPE, offset,
                        "%s: value type %" PRIu64 " does not exist, the last one is 12", what,
                        stop->claimed);
    case QNI_STOP_ELEM_TYPE:
        return qni_fail(err, QN_ERR_UNSUPPORTED_VALUE_TYPE, offset,
                        "%s: array element type %" PRIu64 " does not exist, the last one is 12",
                        what, stop->claimed);
    case QNI_STOP_DEPTH:
        return qni_fail(err, QN_ERR_UNSUPPORTED_VALUE_TYPE, offset,
                        "%s: arrays nested deeper than %d", what, QN_GGUF_MAX_DEPTH);
    case QNI_STOP_LONG_STRING:
        return qni_fail(err, QN_ERR_STRICT, offset,
                        "%s: a string of %" PRIu64 " bytes; ggml takes at most %" PRIu64, what,
                        stop->claimed, QNI_GGML_MAX_STRING);
    default:
        return qni_fail(err, QN_ERR_END_OF_STREAM, offset,
                        "%s: %" PRIu64 " bytes expected, %" PRIu64
                        " are left; the file is cut short",
                        what, stop->need, stop->left);
    }
}

/* --- values -------------------------------------------------------------------------------------
 */

static void set_int(qn_gguf_value *value, int64_t number)
{
    value->kind = QN_GGUF_KIND_INT;
    value->as_int = number;
}

void qni_gguf_decode(qn_gguf_type type, const uint8_t *p, bool is_big_endian, qn_gguf_value *value)
{
    value->type = type;
    switch (type) {
    case QN_GGUF_U8:
        set_int(value, p[0]);
        return;
    case QN_GGUF_I8:
        set_int(value, (int8_t)p[0]);
        return;
    case QN_GGUF_U16:
        set_int(value, qni_load_u16(p, is_big_endian));
        return;
    case QN_GGUF_I16:
        set_int(value, (int16_t)qni_load_u16(p, is_big_endian));
        return;
    case QN_GGUF_U32:
        set_int(value, qni_load_u32(p, is_big_endian));
        return;
    case QN_GGUF_I32:
        set_int(value, (int32_t)qni_load_u32(p, is_big_endian));
        return;
    case QN_GGUF_U64:
    case QN_GGUF_I64:
        set_int(value, (int64_t)qni_load_u64(p, is_big_endian));
        return;
    case QN_GGUF_F32:
        value->kind = QN_GGUF_KIND_FLOAT;
        value->as_float = (double)qni_f32_from_bits(qni_load_u32(p, is_big_endian));
        return;
    case QN_GGUF_F64: {
        const uint64_t bits = qni_load_u64(p, is_big_endian);
        value->kind = QN_GGUF_KIND_FLOAT;
        memcpy(&value->as_float, &bits, sizeof bits);
        return;
    }
    case QN_GGUF_BOOL:
        value->kind = QN_GGUF_KIND_BOOL;
        value->as_bool = p[0] != 0;
        return;
    default: /* a string; arrays never come here */
        value->kind = QN_GGUF_KIND_STRING;
        value->as_string.n_bytes = (int64_t)qni_load_u64(p, is_big_endian);
        value->as_string.bytes = (const char *)p + 8;
        return;
    }
}
