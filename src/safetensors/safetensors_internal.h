/* safetensors_internal.h — what the files of this room share. */
#ifndef QNI_SAFETENSORS_INTERNAL_H
#define QNI_SAFETENSORS_INTERNAL_H

#include "dtype/dtype.h"
#include "safetensors/safetensors.h"
#include "json/json.h"

/* Bytes of the header's length, before the header. */
#define ST_LENGTH_BYTES 8

/* The member of the header that is no tensor. */
#define ST_METADATA_KEY   "__metadata__"
#define ST_N_METADATA_KEY 12

/* A damaged model may be wrong in more ways than anybody reads. */
#define ST_MAX_DAMAGES 256

typedef enum st_source {
    ST_BYTES,  /* borrowed */
    ST_HEADER, /* header read, data stay in the file */
    ST_HEAP,   /* all of it read */
    ST_MAP     /* mapped */
} st_source;

/* One tensor of a file. 40 bytes: opening is bound by how much memory is touched. */
typedef struct st_entry {
    const char *name; /* in the header, or in the arena */
    int64_t begin;    /* in the data section */
    int64_t n_bytes;
    uint32_t n_name;
    uint32_t rank;
    uint32_t first_dim; /* in the file's dims */
    int32_t dtype;
} st_entry;

/* Names of a file -> index of its entries: 8 bytes a slot, where the general string map takes 32
 * and lives in main memory; with it, opening 20,000 tensors took a third longer. */
typedef struct st_name_slot {
    uint32_t tag;   /* upper half of the hash */
    uint32_t entry; /* index + 1; 0: empty */
} st_name_slot;

typedef struct st_names {
    st_name_slot *slots;
    int64_t n_slots; /* 0 or a power of two, at least twice the entries */
    uint64_t seed;
} st_names;

/* One file: where its bytes are, and its table of contents. */
typedef struct st_file {
    qn_safetensors_shard shard; /* what is told about it */
    char *path;                 /* owned, or NULL */
    const uint8_t *header;      /* the JSON */
    int64_t n_header;
    const uint8_t *data;    /* NULL: not in memory */
    int64_t n_data_present; /* -1: not known yet (prefix stream) */

    uint8_t *owned; /* the whole file, or its header */
    int64_t n_owned;
    uint8_t *owned_data; /* of a frame */
    int64_t n_owned_data;
    qni_map map;
    qni_file file;

    st_entry *entries; /* in the order of the data */
    int64_t n_entries;
    int64_t n_entries_max;
    int64_t *dims;
    int64_t n_dims;
    int64_t n_dims_max;
    qn_safetensors_entry *metadata;
    int64_t n_metadata;
    int64_t n_metadata_max;
    qni_arena arena;
    st_names names;
} st_file;

/* A tensor of a sharded model. */
typedef struct st_ref {
    int32_t file;
    uint32_t entry;
} st_ref;

struct qn_safetensors {
    qn_safetensors_options options;
    const qn_allocator *allocator;
    st_file *files;
    int32_t n_files;
    bool is_sharded;
    int64_t total_size;
    st_ref *refs; /* sharded only: in the order of the index */
    int64_t n_refs;
    int64_t n_refs_max;
    qni_strmap names;   /* sharded only: -> index of refs */
    qni_buffer damages; /* of qn_error */
};

/* A new handle with n_files files that hold nothing. */
QN_NODISCARD qn_status qni_st_new(const qn_safetensors_options *options, int32_t n_files,
                                  qn_safetensors **out_st, qn_error *err);

/* The rules about the first 8 bytes: `n_bytes` bytes are there of a file of n_total (-1: a stream).
 * *out_n_header is the length of the JSON after them. */
QN_NODISCARD qn_status qni_st_check_length(const uint8_t *bytes, int64_t n_bytes, int64_t n_total,
                                           int64_t *out_n_header, qn_error *err);

/* Parse file->header, which is there, and check everything about it; with n_data_present >= 0 the
 * data section too. */
QN_NODISCARD qn_status qni_st_parse_header(qn_safetensors *st, st_file *file, qn_error *err);

/* Open one file for `source` and parse it. *out_is_json: it is JSON instead (and the status is that
 * of a failure): its bytes may be an index. */
QN_NODISCARD qn_status qni_st_open_file(qn_safetensors *st, st_file *file, const char *path,
                                        st_source source, bool *out_is_json, qn_error *err);

/* Open a sharded model through its index. */
QN_NODISCARD qn_status qni_st_open_index(const char *path, const qn_safetensors_options *options,
                                         st_source source, qn_safetensors **out_st, qn_error *err);

/* With keep_damaged: note the failure and go on (QN_OK); else the failure. `failure` is filled. */
QN_NODISCARD qn_status qni_st_damage(qn_safetensors *st, const qn_error *failure, qn_error *err);

/* A warning, if somebody listens. */
void qni_st_warn(const qn_safetensors *st, const char *fmt, ...) QNI_PRINTF(2, 3) QNI_COLD;

/* Make room for n more elements of an array that grows by doubling. */
QN_NODISCARD qn_status qni_st_grow(const qn_allocator *allocator, void **array, size_t elem_bytes,
                                   int64_t n, int64_t *n_max, qn_error *err);

/* Index all entries by name; *out_repeated is the first entry whose name an earlier one has, or -1.
 */
QN_NODISCARD qn_status qni_st_index_names(st_file *file, const qn_allocator *allocator,
                                          int64_t *out_repeated, qn_error *err);
/* Index of the entry with this name, or -1. */
int64_t qni_st_find_name(const st_file *file, const char *name, int64_t n_name);
void qni_st_free_names(st_file *file, const qn_allocator *allocator);

/* Elements of an entry, from its bytes. */
QNI_INLINE int64_t qni_st_n_elems(const st_entry *entry)
{
    const int32_t bits = qn_safetensors_dtype_bits((qn_safetensors_dtype)entry->dtype);
    return bits % 8 == 0 ? entry->n_bytes / (bits / 8)
                         : entry->n_bytes / bits * 8 + entry->n_bytes % bits * 8 / bits;
}

/* The entry of tensor `index` and its file; false past the last. */
bool qni_st_entry_at(const qn_safetensors *st, int64_t index, const st_file **out_file,
                     const st_entry **out_entry);

#endif
