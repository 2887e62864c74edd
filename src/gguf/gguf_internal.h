/* gguf_internal.h — what the files of this room share: loads in either byte order, the walk over
 * values, the table of names, and the structs behind the handles. */
#ifndef QNI_GGUF_INTERNAL_H
#define QNI_GGUF_INTERNAL_H

#include <stdatomic.h>

#include "gguf/gguf.h"

#define QNI_GGUF_MAGIC             "GGUF"
#define QNI_GGUF_HEADER_BYTES      24 /* magic, version, two counts */
#define QNI_GGUF_DEFAULT_ALIGNMENT 32
/* What ggml's reader stops at; strict files keep to it. */
#define QNI_GGML_MAX_STRING ((uint64_t)1 << 30)
#define QNI_GGML_MAX_ARRAY  ((uint64_t)1 << 30)
#define QNI_GGML_MAX_NAME   63
#define QNI_GGML_MAX_DIMS   4

#define QNI_GGUF_KEY_ALIGNMENT     "general.alignment"
#define QNI_GGUF_KEY_SPLIT_NO      "split.no"
#define QNI_GGUF_KEY_SPLIT_COUNT   "split.count"
#define QNI_GGUF_KEY_SPLIT_TENSORS "split.tensors.count"

/* --- loads and stores in the byte order of a file ----------------------------------------------
 */

QNI_INLINE uint16_t qni_load_u16(const void *p, bool is_big_endian)
{
    const uint16_t v = qni_load_u16le(p);
    return is_big_endian ? (uint16_t)(v >> 8 | v << 8) : v;
}
QNI_INLINE uint32_t qni_load_u32(const void *p, bool is_big_endian)
{
    if (!is_big_endian) {
        return qni_load_u32le(p);
    }
    const uint8_t *b = p;
    return b[3] | (uint32_t)b[2] << 8 | (uint32_t)b[1] << 16 | (uint32_t)b[0] << 24;
}
QNI_INLINE uint64_t qni_load_u64(const void *p, bool is_big_endian)
{
    if (!is_big_endian) {
        return qni_load_u64le(p);
    }
    return (uint64_t)qni_load_u32(p, true) << 32 | qni_load_u32((const uint8_t *)p + 4, true);
}
/* Copy n elements of elem_bytes each (1, 2, 4, 8), reversing the bytes of each if `swap`. */
void qni_copy_elems(void *out, const void *in, int64_t n, int64_t elem_bytes, bool swap);
/* True on a machine that stores the low byte first. */
bool qni_host_is_little_endian(void);

/* --- walking over values -----------------------------------------------------------------------
 */

typedef enum qni_gguf_stop_why {
    QNI_STOP_NONE = 0,
    QNI_STOP_STRING,     /* `claimed` bytes of a string, `left` remain */
    QNI_STOP_ARRAY,      /* `claimed` elements of an array, at least `need` bytes, `left` remain */
    QNI_STOP_SHORT,      /* a fixed part of `need` bytes, `left` remain */
    QNI_STOP_TYPE,       /* value type `claimed` */
    QNI_STOP_ELEM_TYPE,  /* element type `claimed` */
    QNI_STOP_DEPTH,      /* nested deeper than QN_GGUF_MAX_DEPTH */
    QNI_STOP_LONG_STRING /* longer than ggml takes, strict only */
} qni_gguf_stop_why;

/* Why a walk ended early and where. */
typedef struct qni_gguf_stop {
    qni_gguf_stop_why why;
    const uint8_t *at;
    uint64_t claimed;
    uint64_t left;
    uint64_t need;
} qni_gguf_stop;

/* One past the value of this type at p, or NULL with *stop filled. Strings longer than max_string
 * stop it (UINT64_MAX: no limit). */
const uint8_t *qni_gguf_walk_value(const uint8_t *p, const uint8_t *end, uint32_t type,
                                   bool is_big_endian, uint64_t max_string, qni_gguf_stop *stop);
/* One past `n` strings, or NULL. */
const uint8_t *qni_gguf_walk_strings(const uint8_t *p, const uint8_t *end, uint64_t n,
                                     bool is_big_endian, uint64_t max_string, qni_gguf_stop *stop);
/* Report a stop: `what` names the entry ("metadata key \"x\""), `base` is byte 0 of the file. */
qn_status qni_gguf_fail_stop(const qni_gguf_stop *stop, const uint8_t *base, const char *what,
                             qn_error *err);
/* Decode a scalar or string of a known type at p (all of it is there) without range checks. */
void qni_gguf_decode(qn_gguf_type type, const uint8_t *p, bool is_big_endian,
                     qn_gguf_value *out_value);

/* --- names -------------------------------------------------------------------------------------
 */

/* Names to indices: a slot is 8 bytes, tag and index, and the name itself is looked up in the
 * table that the index is of. A qni_strmap has slots of 32 bytes, which at 100,000 tensors costs
 * more than the whole rest of opening; adding is queued so that the cache misses overlap.
 * Hashes are seeded from the system: names cannot be made to collide. */
#define QNI_NAMES_QUEUE 16
/* Both qn_tensor_info and qn_gguf_entry begin with this. */
typedef struct qni_gguf_name {
    const char *bytes;
    int64_t n_bytes;
} qni_gguf_name;

typedef struct qni_gguf_names {
    const qn_allocator *allocator;
    uint64_t *slots; /* 0: empty; else tag << 32 | index + 1 */
    uint64_t n_slots;
    uint64_t seed;
    bool cut_at_nul; /* names are equal when they are equal up to the first NUL (ggml's tensors) */
    bool is_file;    /* names lie in a file at `positions`, their length 8 bytes before */
    bool is_big_endian;
    const uint8_t *items; /* structs that begin with a qni_gguf_name, or the file's byte 0 */
    size_t stride;
    int64_t *positions;
    int32_t n_queued;
    struct {
        uint64_t hash;
        uint32_t index;
    } queue[QNI_NAMES_QUEUE];
} qni_gguf_names;

#define QNI_NAMES_MAX_ITEMS ((int64_t)1 << 31)
/* An empty table for n items; `items` may be given later, before the queue first runs full. */
QN_NODISCARD qn_status qni_names_init(qni_gguf_names *names, const qn_allocator *allocator,
                                      int64_t n, qn_error *err);
void qni_names_free(qni_gguf_names *names);
/* Queue item number `index`. False: a queued name is there twice; *out_pair are the two items. */
bool qni_names_add(qni_gguf_names *names, const char *bytes, int64_t n_bytes, int64_t index,
                   int64_t out_pair[2]);
/* Work the queue off; call it after the last add. */
bool qni_names_flush(qni_gguf_names *names, int64_t out_pair[2]);
/* The index of a name, or -1. Any thread after the flush. */
int64_t qni_names_find(const qni_gguf_names *names, const char *bytes, int64_t n_bytes);

/* --- names of files -----------------------------------------------------------------------------
 */

#define QNI_MAX_SHARDS     65535 /* split.count is a u16 */
#define QNI_N_SUFFIX_CHARS 20    /* -00001-of-00002.gguf */

/* --- open files --------------------------------------------------------------------------------
 */

/* Positions of every QNI_INDEX_STRIDE-th element of an array of strings or arrays. */
#define QNI_INDEX_STRIDE 16
typedef struct qni_gguf_index {
    int64_t n;
    int64_t positions[];
} qni_gguf_index;

/* What qn_gguf_array.index points to. */
typedef struct qni_gguf_index_slot {
    const qn_allocator *allocator;
    _Atomic(qni_gguf_index *) index;
} qni_gguf_index_slot;

typedef struct qni_gguf_item {
    qn_gguf_entry entry;
    qni_gguf_index_slot slot;
} qni_gguf_item;

typedef enum qni_gguf_backing {
    QNI_BACKING_NONE = 0, /* taken away */
    QNI_BACKING_BORROWED,
    QNI_BACKING_OWNED,
    QNI_BACKING_MAPPED
} qni_gguf_backing;

/* One file. */
typedef struct qni_gguf_part {
    qn_gguf_shard shard;
    qni_gguf_backing backing;
    const uint8_t *bytes;
    char *path; /* n_path bytes allocated */
    size_t n_path;
    qni_gguf_item *items; /* shard.n_entries of them */
    qni_gguf_names keys;
    qn_tensor_info *tensors; /* shard.n_tensors; moved to the handle */
    qni_gguf_names names;
    bool is_in_order; /* offsets are the running padded sums */
} qni_gguf_part;

struct qn_gguf {
    const qn_allocator *allocator;
    qn_gguf_options options;
    int64_t n_parts;
    qni_gguf_part *parts;
    int64_t n_tensors;
    qn_tensor_info *tensors;
    qni_gguf_names names;
    qn_error damage;
};

/* Read the options a caller gave, of whatever size. */
QN_NODISCARD qn_status qni_gguf_read_options(const qn_gguf_options *given,
                                             qn_gguf_options *out_options, qn_error *err);
/* Parse part->bytes of part->shard.n_bytes into the part. On failure it holds nothing more than
 * before. `damage` gets what keep_damaged forgives. */
QN_NODISCARD qn_status qni_gguf_parse_part(qni_gguf_part *part, const qn_gguf_options *options,
                                           qn_error *damage, qn_error *err);
/* Free what parsing made; bytes and path stay. */
void qni_gguf_part_clear(qni_gguf_part *part, const qn_allocator *allocator);
/* Check bounds, order and overlap of the tensors of a part, and make offsets absolute. */
QN_NODISCARD qn_status qni_gguf_place_tensors(qni_gguf_part *part, const qn_gguf_options *options,
                                              qn_error *damage, qn_error *err);
/* With keep_damaged: note the error just made in *err, if it is the first, and forgive it. */
qn_status qni_gguf_forgive(qn_status status, const qn_gguf_options *options, qn_error *damage,
                           const qn_error *err);
/* Merge the parts of a split model, or take over the only one. */
QN_NODISCARD qn_status qni_gguf_merge(qn_gguf *gguf, qn_error *err);
QN_NODISCARD qn_status qni_gguf_open_parts(qn_gguf *gguf, const char *path, qn_error *err);

/* Index of an entry of one part, or -1. */
int64_t qni_gguf_part_find(const qni_gguf_part *part, const char *key);
/* Free the sparse index of an entry's array, if one was made. */
void qni_gguf_index_free(qni_gguf_index_slot *slot);
/* The array of an entry that is one. */
qn_gguf_array qni_gguf_entry_array(const qni_gguf_item *item, bool is_big_endian);

#endif
