/* dtype.h — the tensor types: ids, sizes, names.
 *
 * A dtype's value is its ggml type id, as stored in GGUF files. Removed ids have names, so that a
 * file that uses one can be told so, and nothing else. */
#ifndef QUENCH_DTYPE_H
#define QUENCH_DTYPE_H

#include "quench/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum qn_dtype {
    QN_DTYPE_NONE = -1, /* no type: "keep", "not given" */
    QN_DTYPE_F32 = 0,
    QN_DTYPE_F16 = 1,
    QN_DTYPE_Q4_0 = 2,
    QN_DTYPE_Q4_1 = 3,
    QN_DTYPE_Q5_0 = 6,
    QN_DTYPE_Q5_1 = 7,
    QN_DTYPE_Q8_0 = 8,
    QN_DTYPE_Q8_1 = 9,
    QN_DTYPE_Q2_K = 10,
    QN_DTYPE_Q3_K = 11,
    QN_DTYPE_Q4_K = 12,
    QN_DTYPE_Q5_K = 13,
    QN_DTYPE_Q6_K = 14,
    QN_DTYPE_Q8_K = 15,
    QN_DTYPE_IQ2_XXS = 16,
    QN_DTYPE_IQ2_XS = 17,
    QN_DTYPE_IQ3_XXS = 18,
    QN_DTYPE_IQ1_S = 19,
    QN_DTYPE_IQ4_NL = 20,
    QN_DTYPE_IQ3_S = 21,
    QN_DTYPE_IQ2_S = 22,
    QN_DTYPE_IQ4_XS = 23,
    QN_DTYPE_I8 = 24,
    QN_DTYPE_I16 = 25,
    QN_DTYPE_I32 = 26,
    QN_DTYPE_I64 = 27,
    QN_DTYPE_F64 = 28,
    QN_DTYPE_IQ1_M = 29,
    QN_DTYPE_BF16 = 30,
    QN_DTYPE_TQ1_0 = 34,
    QN_DTYPE_TQ2_0 = 35,
    QN_DTYPE_MXFP4 = 39,
    QN_DTYPE_NVFP4 = 40,
    QN_DTYPE_Q1_0 = 41,
    QN_DTYPE_Q2_0 = 42
} qn_dtype;

/* One past the largest id; ids in between may be removed or never assigned. */
#define QN_DTYPE_LIMIT 43

/** What a type's file encoder does with importance weights. */
typedef enum qn_weights_use {
    QN_WEIGHTS_NONE = 0,     /* there is nothing to weight, or no file encoder */
    QN_WEIGHTS_IGNORED = 1,  /* accepted, without effect */
    QN_WEIGHTS_OPTIONAL = 2, /* another algorithm runs when they are given */
    QN_WEIGHTS_REQUIRED = 3  /* encoding without them is refused */
} qn_weights_use;

/* The most dimensions a tensor may have here; ggml itself stops at 4. */
#define QN_MAX_DIMS 8

/** One tensor's entry in a table of contents: plain values. `ne[0]` is the fastest-varying
 * dimension, always; entries from n_dims on are 1. */
typedef struct qn_tensor_info {
    const char *name; /* n_name bytes of any value, no NUL after them; borrowed */
    int64_t n_name;   /* length of the name in bytes */
    qn_dtype dtype;
    int32_t n_dims; /* 0..QN_MAX_DIMS, as stored */
    int64_t ne[QN_MAX_DIMS];
    int64_t n_bytes;     /* bytes of data, padding not counted */
    int64_t file_offset; /* first data byte in its file, or -1 */
    int32_t shard;       /* which file of a split model, from 0 */
    const void *data;    /* the data bytes if they are in memory or mapped, else NULL; borrowed */
    bool is_opaque;      /* its file has a type or a shape that has no counterpart here, and dtype
                          * and ne only account for the bytes: a row of I8, or of its own type */
} qn_tensor_info;

/** True for an id that files may use; false for removed, unassigned and out-of-range ids.
 * Threads: any thread; so for all functions of this header. Since 0.1. */
QN_API bool qn_dtype_is_valid(qn_dtype dtype);

/** True for an id that was assigned once and removed (4, 5, 31-33, 36-38). */
QN_API bool qn_dtype_is_removed(qn_dtype dtype);

/** The field's name of a type ("q4_K"); of a removed id its old name; "?" for any other value.
 * Never NULL. Static storage. */
QN_API const char *qn_dtype_name(qn_dtype dtype);

/** The type with this name, compared without case; QN_DTYPE_NONE if there is none. */
QN_API qn_dtype qn_dtype_from_name(const char *name);

/** Elements per block along ne[0]; 1 for plain types; 0 for an id that is not valid. */
QN_API int64_t qn_dtype_block_elems(qn_dtype dtype);

/** Bytes per block; 0 for an id that is not valid. */
QN_API int64_t qn_dtype_block_bytes(qn_dtype dtype);

/** True for the block formats and q8 activation types, as ggml_is_quantized answers. */
QN_API bool qn_dtype_is_quantized(qn_dtype dtype);

/** What its file encoder does with importance weights. */
QN_API qn_weights_use qn_dtype_weights_use(qn_dtype dtype);

/** The activation type that ggml's CPU backend pairs with these weights; QN_DTYPE_NONE if none. */
QN_API qn_dtype qn_dtype_partner(qn_dtype dtype);

/** Bytes of one row of `n_elems` elements.
 * @return QN_OK; QN_ERR_UNSUPPORTED_DTYPE; QN_ERR_INVALID_SHAPE (negative, or no whole number of
 *         blocks); QN_ERR_OVERFLOW. *out_n_bytes is 0 on failure. */
QN_API QN_NODISCARD qn_status qn_dtype_row_bytes(qn_dtype dtype, int64_t n_elems,
                                                 int64_t *out_n_bytes, qn_error *err);

/** Bytes of a tensor of `n_dims` (0..QN_MAX_DIMS) dimensions; 0 dimensions make one element, a
 * dimension of 0 makes no bytes.
 * @return as qn_dtype_row_bytes(). */
QN_API QN_NODISCARD qn_status qn_dtype_tensor_bytes(qn_dtype dtype, const int64_t *ne,
                                                    int32_t n_dims, int64_t *out_n_bytes,
                                                    qn_error *err);

#ifdef __cplusplus
}
#endif

#endif
