/* gguf_array.c — lazy arrays: iteration, random access through a sparse index made on first use,
 * copies of scalars. */
#include "gguf/gguf_internal.h"

#define ARRAY_HEADER_BYTES 12

void qni_gguf_index_free(qni_gguf_index_slot *slot)
{
    qni_gguf_index *index = atomic_load_explicit(&slot->index, memory_order_acquire);
    if (index) {
        qni_free(slot->allocator, index,
                 sizeof *index + (size_t)index->n * sizeof index->positions[0]);
    }
}

/* The array whose header lies at p. */
static qn_gguf_array array_at(const uint8_t *p, int64_t n_bytes, bool is_big_endian, void *index)
{
    return (qn_gguf_array){.elem_type = (qn_gguf_type)qni_load_u32(p, is_big_endian),
                           .is_big_endian = is_big_endian,
                           .n_elems = (int64_t)qni_load_u64(p + 4, is_big_endian),
                           .bytes = p + ARRAY_HEADER_BYTES,
                           .n_bytes = n_bytes - ARRAY_HEADER_BYTES,
                           .index = index};
}

qn_gguf_array qni_gguf_entry_array(const qni_gguf_item *item, bool is_big_endian)
{
    /* the slot is the one thing that changes in an open file: atomically, and only once */
    void *slot = (void *)(uintptr_t)&item->slot;
    return array_at(item->entry.bytes, item->entry.n_bytes, is_big_endian, slot);
}

/* Bytes of the element at p; the array was walked when the file was opened, so it is whole. */
static int64_t elem_bytes_at(const qn_gguf_array *array, const uint8_t *p)
{
    const int64_t fixed = qn_gguf_type_bytes(array->elem_type);
    if (fixed > 0) {
        return fixed;
    }
    if (array->elem_type == QN_GGUF_STRING) {
        return 8 + (int64_t)qni_load_u64(p, array->is_big_endian);
    }
    const uint8_t *end = (const uint8_t *)array->bytes + array->n_bytes;
    qni_gguf_stop stop;
    const uint8_t *after =
        qni_gguf_walk_value(p, end, QN_GGUF_ARRAY, array->is_big_endian, UINT64_MAX, &stop);
    return after - p;
}

static void decode_at(const qn_gguf_array *array, const uint8_t *p, int64_t n_bytes,
                      qn_gguf_value *out_value)
{
    if (array->elem_type == QN_GGUF_ARRAY) {
        out_value->kind = QN_GGUF_KIND_ARRAY;
        out_value->type = QN_GGUF_ARRAY;
        out_value->as_array = array_at(p, n_bytes, array->is_big_endian, NULL);
        return;
    }
    qni_gguf_decode(array->elem_type, p, array->is_big_endian, out_value);
}

bool qn_gguf_array_next(const qn_gguf_array *array, qn_gguf_array_iter *iter,
                        qn_gguf_value *out_value)
{
    if (iter->index >= array->n_elems) {
        return false;
    }
    const uint8_t *p = (const uint8_t *)array->bytes + iter->pos;
    const int64_t n_bytes = elem_bytes_at(array, p);
    decode_at(array, p, n_bytes, out_value);
    iter->index++;
    iter->pos += n_bytes;
    return true;
}

/* --- random access -----------------------------------------------------------------------------
 */

/* Positions of every QNI_INDEX_STRIDE-th element; NULL if there is no memory: then it is walked. */
static qni_gguf_index *build_index(const qn_gguf_array *array, const qn_allocator *allocator)
{
    const int64_t n = (array->n_elems + QNI_INDEX_STRIDE - 1) / QNI_INDEX_STRIDE;
    qni_gguf_index *index =
        qni_alloc(allocator, sizeof *index + (size_t)n * sizeof index->positions[0]);
    if (!index) {
        return NULL;
    }
    index->n = n;
    int64_t pos = 0;
    for (int64_t i = 0; i < array->n_elems; i++) {
        if (i % QNI_INDEX_STRIDE == 0) {
            index->positions[i / QNI_INDEX_STRIDE] = pos;
        }
        pos += elem_bytes_at(array, (const uint8_t *)array->bytes + pos);
    }
    return index;
}

/* The index of the array, made by whichever thread needs it first. */
static const qni_gguf_index *index_of(const qn_gguf_array *array)
{
    qni_gguf_index_slot *slot = array->index;
    if (!slot) {
        return NULL;
    }
    qni_gguf_index *index = atomic_load_explicit(&slot->index, memory_order_acquire);
    if (index) {
        return index;
    }
    qni_gguf_index *fresh = build_index(array, slot->allocator);
    if (!fresh || atomic_compare_exchange_strong_explicit(
                      &slot->index, &index, fresh, memory_order_acq_rel, memory_order_acquire)) {
        return fresh;
    }
    qni_free(slot->allocator, fresh, sizeof *fresh + (size_t)fresh->n * sizeof fresh->positions[0]);
    return index; /* another thread was faster */
}

static int64_t position_of(const qn_gguf_array *array, int64_t index)
{
    const int64_t fixed = qn_gguf_type_bytes(array->elem_type);
    if (fixed > 0) {
        return index * fixed;
    }
    const qni_gguf_index *known = index >= QNI_INDEX_STRIDE ? index_of(array) : NULL;
    int64_t at = 0;
    int64_t pos = 0;
    if (known) {
        at = index / QNI_INDEX_STRIDE * QNI_INDEX_STRIDE;
        pos = known->positions[index / QNI_INDEX_STRIDE];
    }
    for (; at < index; at++) {
        pos += elem_bytes_at(array, (const uint8_t *)array->bytes + pos);
    }
    return pos;
}

static qn_status check_range(const qn_gguf_array *array, int64_t first, int64_t n, qn_error *err)
{
    QN_CHECK(first >= 0 && n >= 0 && first <= array->n_elems && n <= array->n_elems - first, err,
             QN_ERR_INVALID_ARGUMENT, -1,
             "elements %" PRId64 " to %" PRId64 " of an array of %" PRId64, first, first + n,
             array->n_elems);
    return QN_OK;
}

qn_status qn_gguf_array_at(const qn_gguf_array *array, int64_t index, qn_gguf_value *out_value,
                           qn_error *err)
{
    *out_value = (qn_gguf_value){0};
    QN_TRY(check_range(array, index, 1, err));
    const uint8_t *p = (const uint8_t *)array->bytes + position_of(array, index);
    qn_gguf_value value = {0};
    decode_at(array, p, array->elem_type == QN_GGUF_ARRAY ? elem_bytes_at(array, p) : 0, &value);
    QN_CHECK(array->elem_type != QN_GGUF_U64 || value.as_int >= 0, err,
             QN_ERR_METADATA_VALUE_OUT_OF_RANGE, -1,
             "element %" PRId64 " is %" PRIu64 ", which does not fit in 63 bits", index,
             (uint64_t)value.as_int);
    *out_value = value;
    return QN_OK;
}

qn_status qn_gguf_array_string(const qn_gguf_array *array, int64_t index,
                               qn_gguf_string *out_string, qn_error *err)
{
    *out_string = (qn_gguf_string){"", 0};
    QN_CHECK(array->elem_type == QN_GGUF_STRING, err, QN_ERR_METADATA_TYPE_MISMATCH, -1,
             "an array of %s, not of strings", qn_gguf_type_name(array->elem_type));
    qn_gguf_value value;
    QN_TRY(qn_gguf_array_at(array, index, &value, err));
    *out_string = value.as_string;
    return QN_OK;
}

qn_status qn_gguf_array_copy(const qn_gguf_array *array, qn_gguf_type type, int64_t first,
                             int64_t n, void *out, qn_error *err)
{
    const int64_t n_bytes = qn_gguf_type_bytes(type);
    QN_CHECK(array->elem_type == type && n_bytes > 0, err, QN_ERR_METADATA_TYPE_MISMATCH, -1,
             "an array of %s, not of %s", qn_gguf_type_name(array->elem_type),
             qn_gguf_type_name(type));
    QN_TRY(check_range(array, first, n, err));
    const uint8_t *from = (const uint8_t *)array->bytes + first * n_bytes;
    const bool is_host_order = array->is_big_endian != qni_host_is_little_endian();
    qni_copy_elems(out, from, n, n_bytes, !is_host_order);
    if (type == QN_GGUF_BOOL) {
        uint8_t *flags = out;
        for (int64_t i = 0; i < n; i++) {
            flags[i] = flags[i] != 0;
        }
    }
    return QN_OK;
}
