/* st_write_internal.h — the writer, as its two files see it. */
#ifndef QNI_ST_WRITE_INTERNAL_H
#define QNI_ST_WRITE_INTERNAL_H

#include "safetensors/safetensors_internal.h"

typedef struct st_item {
    const char *name; /* name and shape: in the arena */
    const int64_t *shape;
    int64_t n_name;
    int64_t n_elems;
    int64_t n_bytes;
    const void *data; /* the caller's; NULL when declared only */
    int64_t begin;    /* in the data section, once laid out */
    int64_t added;    /* number in the order of adding */
    int32_t rank;
    qn_safetensors_dtype dtype;
    bool has_data;
} st_item;

struct qn_safetensors_writer {
    const qn_allocator *allocator;
    qni_arena arena;
    st_item *items; /* in the order of adding, of the file once laid out */
    int64_t n_items;
    int64_t n_items_max;
    qni_strmap names;
    qn_safetensors_entry *entries;
    int64_t n_entries;
    int64_t n_entries_max;
    qni_strmap keys;
    qni_buffer header; /* length, JSON, padding */
    int64_t n_data_bytes;
    bool is_laid_out;
    int32_t n_streams; /* open on it */
    uint8_t *finished; /* the whole file, from the last finish */
    int64_t n_finished;
};

#endif
