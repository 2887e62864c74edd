/* gguf_writer_internal.h — a table of contents in the making, shared by gguf_writer.c (what is in
 * it), gguf_layout.c (where it goes), gguf_stream.c and gguf_emit.c (writing), gguf_shards.c. */
#ifndef QNI_GGUF_WRITER_INTERNAL_H
#define QNI_GGUF_WRITER_INTERNAL_H

#include "gguf/gguf_internal.h"

/* A growing array of fixed-size items. */
typedef struct qni_gguf_list {
    void *items;
    int64_t n;
    int64_t n_capacity;
} qni_gguf_list;
/* Room for one more; NULL when there is no memory. Counts it. */
void *qni_list_add(qni_gguf_list *list, size_t item_bytes, const qn_allocator *allocator);
void qni_list_free(qni_gguf_list *list, size_t item_bytes, const qn_allocator *allocator);

/* Names that come and go: a name has an id for ever, an id an item or none. Keys must stay where
 * they are (the writer's arena). */
typedef struct qni_gguf_ids {
    qni_strmap map;      /* name to id */
    qni_gguf_list of_id; /* int64_t: index of the item, -1: none */
} qni_gguf_ids;

typedef struct qni_gguf_wentry {
    const char *key;
    int64_t n_key;
    qn_gguf_type type;
    const uint8_t *value; /* in the byte order of the file to be */
    int64_t n_value;
    bool is_dead;
} qni_gguf_wentry;

typedef struct qni_gguf_wtensor {
    qn_tensor_info info;  /* file_offset: set by layout; data: as given */
    int64_t given_offset; /* in the data section, lossless only; -1: the next free */
    bool swap_data;       /* data are in the other byte order */
    bool is_dead;
} qni_gguf_wtensor;

/* Source bytes that are neither header nor tensor. */
typedef struct qni_gguf_extra {
    int64_t offset; /* in the data section */
    const uint8_t *bytes;
    int64_t n_bytes;
} qni_gguf_extra;

struct qn_gguf_writer {
    const qn_allocator *allocator;
    qn_gguf_layout layout;
    uint32_t version;
    bool is_big_endian;
    int64_t alignment;
    qni_arena arena;       /* keys, values, names */
    qni_gguf_list entries; /* qni_gguf_wentry */
    qni_gguf_list tensors; /* qni_gguf_wtensor */
    qni_gguf_list extras;  /* qni_gguf_extra, ascending */
    qni_gguf_ids keys;
    qni_gguf_ids names;
    int64_t n_live_entries;
    int64_t n_live_tensors;
    int64_t n_streams; /* open ones: nothing may change */

    /* lossless: what the source had */
    const uint8_t *source_padding; /* after the header */
    int64_t n_source_padding;
    int64_t source_data_bytes; /* from the data section to the end of the file; -1: no source */

    /* made by qn_gguf_writer_layout() */
    bool is_laid_out;
    qni_buffer header;
    int64_t n_file_bytes;
    int64_t *order; /* tensors in file order, n_order of them */
    int64_t n_order;
    uint8_t *image; /* of qn_gguf_writer_finish() */
    int64_t n_image;
};

QNI_INLINE qni_gguf_wentry *qni_wentry_at(const qn_gguf_writer *writer, int64_t index)
{
    return (qni_gguf_wentry *)writer->entries.items + index;
}
QNI_INLINE qni_gguf_wtensor *qni_wtensor_at(const qn_gguf_writer *writer, int64_t index)
{
    return (qni_gguf_wtensor *)writer->tensors.items + index;
}
QNI_INLINE const qni_gguf_extra *qni_extra_at(const qn_gguf_writer *writer, int64_t index)
{
    return (const qni_gguf_extra *)writer->extras.items + index;
}

/* Set an entry from a value in the byte order `is_big_endian`, all checks included. */
QN_NODISCARD qn_status qni_writer_set_value(qn_gguf_writer *writer, const char *key, int64_t n_key,
                                            qn_gguf_type type, const uint8_t *value,
                                            int64_t n_value, bool is_big_endian, qn_error *err);
/* Declare a tensor; `data` may be NULL. */
QN_NODISCARD qn_status qni_writer_put_tensor(qn_gguf_writer *writer, const qni_gguf_wtensor *tensor,
                                             qn_error *err);
/* Take out what was removed and lay the file out, unless that has been done. */
QN_NODISCARD qn_status qni_writer_layout(qn_gguf_writer *writer, qn_error *err);
/* Write the finished file through an output that was begun. */
QN_NODISCARD qn_status qni_writer_write_output(qn_gguf_writer *writer, qni_output *output,
                                               qn_error *err);
/* Copy a whole value with every number in it in the other byte order. */
void qni_gguf_swap_value(qn_gguf_type type, const uint8_t *in, int64_t n_bytes, bool is_big_endian,
                         uint8_t *out);

#endif
