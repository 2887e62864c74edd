/* compute_internal.h — what the files of this room share: the handle and packed weights. */
#ifndef QNI_COMPUTE_INTERNAL_H
#define QNI_COMPUTE_INTERNAL_H

#include "matmul/matmul.h"

/* One way to lay out packed weights: a row of kernels/layouts.def. */
typedef struct qni_layout_row {
    qn_layout layout;
    int64_t n_group_rows;
    qni_layout_fits_fn fits;
    qni_layout_bytes_fn n_group_bytes;
    qni_layout_pack_fn pack;
    qni_layout_unpack_fn unpack;
} qni_layout_row;

/* Rows of weights as kernels read them. */
typedef struct qni_rows {
    qn_dtype dtype;
    int64_t n_out;
    int64_t n_in;
    const uint8_t *bytes;
    int64_t stride;               /* from row to row, or from group to group */
    const qni_layout_row *layout; /* of groups; NULL: rows as in the file */
} qni_rows;

struct qn_packed {
    const qn_allocator *allocator;
    qni_rows rows;
    uint8_t *bytes;
    int64_t n_bytes;
    double seconds; /* that packing took */
};

/* Memory that a handle keeps between calls. */
typedef struct qni_scratch {
    void *bytes;
    size_t n_bytes;
} qni_scratch;

/* A packed copy of weights that stay, keyed by where and what they are. */
typedef struct qni_cached {
    qn_rhs key;
    qn_packed *packed;
    struct qni_cached *next;
} qni_cached;

struct qn_compute {
    const qn_allocator *allocator;
    qni_pool *pool;
    qn_isa isa;
    bool round_bf16;
    qni_scratch activations; /* quantized rows of x, then a flag each */
    qni_scratch columns;     /* the same arranged for tiles */
    qni_scratch tiles;       /* widened or unpacked weights, one part a worker */
    int64_t n_cache_bytes;
    int64_t n_cached_bytes;
    double cache_seconds; /* that making copies took */
    qni_cached *cached;
};

/* At least n_bytes, aligned to a cache line; contents undefined. */
QN_NODISCARD qn_status qni_scratch_reserve(const qn_allocator *allocator, qni_scratch *scratch,
                                           size_t n_bytes, qn_error *err);
void qni_scratch_free(const qn_allocator *allocator, qni_scratch *scratch);

/* Type, shape and bytes of weights are consistent. */
QN_NODISCARD qn_status qni_check_rhs(const qn_rhs *w, qni_rows *out_rows, qn_error *err);

/* n_rows * row_len floats, counted without overflow, in bytes; a buffer is there if there are any.
 */
QN_NODISCARD qn_status qni_check_floats(const void *buffer, const char *what, int64_t n_rows,
                                        int64_t row_len, int64_t *out_n_bytes, qn_error *err);

/* The packed copy of weights that stay, made if the budget allows; NULL in *out_packed: use the
 * bytes as they are. */
QN_NODISCARD qn_status qni_cache_find(qn_compute *compute, const qn_rhs *w, const qni_rows *rows,
                                      const qn_packed **out_packed, qn_error *err);

#endif
