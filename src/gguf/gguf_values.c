/* gguf_values.c — metadata entries: look-up, the five kinds, exact types. */
#include "gguf/gguf_internal.h"

int64_t qn_gguf_n_entries(const qn_gguf *gguf)
{
    return gguf->parts[0].shard.n_entries;
}

const qn_gguf_entry *qn_gguf_entry_at(const qn_gguf *gguf, int64_t index)
{
    const qni_gguf_part *part = &gguf->parts[0];
    return index >= 0 && index < part->shard.n_entries ? &part->items[index].entry : NULL;
}

int64_t qn_gguf_find_entry(const qn_gguf *gguf, const char *key, int64_t n_key)
{
    return qni_names_find(&gguf->parts[0].keys, key, n_key);
}

bool qn_gguf_has(const qn_gguf *gguf, const char *key)
{
    return qni_gguf_part_find(&gguf->parts[0], key) >= 0;
}

qn_status qn_gguf_value_at(const qn_gguf *gguf, int64_t index, qn_gguf_value *out_value,
                           qn_error *err)
{
    *out_value = (qn_gguf_value){0};
    const qni_gguf_part *part = &gguf->parts[0];
    QN_CHECK(index >= 0 && index < part->shard.n_entries, err, QN_ERR_INVALID_ARGUMENT, -1,
             "there is no metadata entry %" PRId64 " of %" PRId64, index, part->shard.n_entries);
    qni_gguf_item *item = &part->items[index];
    const qn_gguf_entry *entry = &item->entry;
    if (entry->type == QN_GGUF_ARRAY) {
        out_value->kind = QN_GGUF_KIND_ARRAY;
        out_value->type = QN_GGUF_ARRAY;
        out_value->as_array = qni_gguf_entry_array(item, part->shard.is_big_endian);
        return QN_OK;
    }
    qn_gguf_value value = {0};
    qni_gguf_decode(entry->type, entry->bytes, part->shard.is_big_endian, &value);
    qni_name_text text;
    QN_CHECK(entry->type != QN_GGUF_U64 || value.as_int >= 0, err,
             QN_ERR_METADATA_VALUE_OUT_OF_RANGE, entry->file_offset,
             "metadata key \"%s\" holds %" PRIu64 ", which does not fit in 63 bits",
             qni_escape_name(entry->key, entry->n_key, &text), (uint64_t)value.as_int);
    *out_value = value;
    return QN_OK;
}

/* --- by key ------------------------------------------------------------------------------------
 */

static qn_status find(const qn_gguf *gguf, const char *key, int64_t *out_index, qn_error *err)
{
    *out_index = qni_gguf_part_find(&gguf->parts[0], key);
    qni_name_text text;
    QN_CHECK(*out_index >= 0, err, QN_ERR_KEY_NOT_FOUND, -1, "there is no metadata key \"%s\"",
             qni_escape_name(key, (int64_t)strlen(key), &text));
    return QN_OK;
}

QNI_COLD static qn_status fail_type(const qn_gguf *gguf, int64_t index, const char *wanted,
                                    qn_error *err)
{
    const qn_gguf_entry *entry = qn_gguf_entry_at(gguf, index);
    qni_name_text text;
    return qni_fail(err, QN_ERR_METADATA_TYPE_MISMATCH, entry->file_offset,
                    "metadata key \"%s\" has type %s, not %s",
                    qni_escape_name(entry->key, entry->n_key, &text),
                    qn_gguf_type_name(entry->type), wanted);
}

/* The value of a key, if its kind is one of the bits in `kinds`. */
static qn_status get_value(const qn_gguf *gguf, const char *key, unsigned kinds, const char *wanted,
                           qn_gguf_value *out_value, qn_error *err)
{
    int64_t index = -1;
    QN_TRY(find(gguf, key, &index, err));
    static const qn_gguf_kind kind_of[QN_GGUF_TYPE_LIMIT] = {
        QN_GGUF_KIND_INT,    QN_GGUF_KIND_INT,   QN_GGUF_KIND_INT,   QN_GGUF_KIND_INT,
        QN_GGUF_KIND_INT,    QN_GGUF_KIND_INT,   QN_GGUF_KIND_FLOAT, QN_GGUF_KIND_BOOL,
        QN_GGUF_KIND_STRING, QN_GGUF_KIND_ARRAY, QN_GGUF_KIND_INT,   QN_GGUF_KIND_INT,
        QN_GGUF_KIND_FLOAT};
    if ((kinds & 1u << kind_of[qn_gguf_entry_at(gguf, index)->type]) == 0) {
        return fail_type(gguf, index, wanted, err);
    }
    return qn_gguf_value_at(gguf, index, out_value, err);
}

#define BIT(kind) (1u << QN_GGUF_KIND_##kind)

qn_status qn_gguf_get_int(const qn_gguf *gguf, const char *key, int64_t *out_value, qn_error *err)
{
    qn_gguf_value value;
    *out_value = 0;
    QN_TRY(get_value(gguf, key, BIT(INT), "an integer", &value, err));
    *out_value = value.as_int;
    return QN_OK;
}

qn_status qn_gguf_get_float(const qn_gguf *gguf, const char *key, double *out_value, qn_error *err)
{
    qn_gguf_value value;
    *out_value = 0;
    QN_TRY(get_value(gguf, key, BIT(INT) | BIT(FLOAT), "a number", &value, err));
    *out_value = value.kind == QN_GGUF_KIND_INT ? (double)value.as_int : value.as_float;
    return QN_OK;
}

qn_status qn_gguf_get_flag(const qn_gguf *gguf, const char *key, bool *out_value, qn_error *err)
{
    qn_gguf_value value;
    *out_value = false;
    QN_TRY(get_value(gguf, key, BIT(INT) | BIT(BOOL), "a bool or an integer", &value, err));
    *out_value = value.kind == QN_GGUF_KIND_INT ? value.as_int != 0 : value.as_bool;
    return QN_OK;
}

qn_status qn_gguf_get_string(const qn_gguf *gguf, const char *key, qn_gguf_string *out_value,
                             qn_error *err)
{
    qn_gguf_value value;
    *out_value = (qn_gguf_string){"", 0};
    QN_TRY(get_value(gguf, key, BIT(STRING), "a string", &value, err));
    *out_value = value.as_string;
    return QN_OK;
}

qn_status qn_gguf_get_array(const qn_gguf *gguf, const char *key, qn_gguf_array *out_array,
                            qn_error *err)
{
    qn_gguf_value value;
    *out_array = (qn_gguf_array){.elem_type = QN_GGUF_NONE};
    QN_TRY(get_value(gguf, key, BIT(ARRAY), "an array", &value, err));
    *out_array = value.as_array;
    return QN_OK;
}

/* Copy the stored scalar of exactly this type into *out. */
static qn_status get_exact(const qn_gguf *gguf, const char *key, qn_gguf_type type, void *out,
                           qn_error *err)
{
    int64_t index = -1;
    const int64_t n_bytes = qn_gguf_type_bytes(type);
    memset(out, 0, (size_t)n_bytes);
    QN_TRY(find(gguf, key, &index, err));
    const qn_gguf_entry *entry = qn_gguf_entry_at(gguf, index);
    if (entry->type != type) {
        return fail_type(gguf, index, qn_gguf_type_name(type), err);
    }
    const bool is_host_order = gguf->parts[0].shard.is_big_endian != qni_host_is_little_endian();
    qni_copy_elems(out, entry->bytes, 1, n_bytes, !is_host_order);
    return QN_OK;
}

#define EXACT_GETTER(name, c_type, TYPE)                                                  \
    qn_status qn_gguf_get_##name(const qn_gguf *gguf, const char *key, c_type *out_value, \
                                 qn_error *err)                                           \
    {                                                                                     \
        return get_exact(gguf, key, QN_GGUF_##TYPE, out_value, err);                      \
    }
EXACT_GETTER(u8, uint8_t, U8)
EXACT_GETTER(i8, int8_t, I8)
EXACT_GETTER(u16, uint16_t, U16)
EXACT_GETTER(i16, int16_t, I16)
EXACT_GETTER(u32, uint32_t, U32)
EXACT_GETTER(i32, int32_t, I32)
EXACT_GETTER(u64, uint64_t, U64)
EXACT_GETTER(i64, int64_t, I64)
EXACT_GETTER(f32, float, F32)
EXACT_GETTER(f64, double, F64)

qn_status qn_gguf_get_bool(const qn_gguf *gguf, const char *key, bool *out_value, qn_error *err)
{
    uint8_t byte = 0;
    *out_value = false;
    QN_TRY(get_exact(gguf, key, QN_GGUF_BOOL, &byte, err));
    *out_value = byte != 0;
    return QN_OK;
}
