/* shards_internal.h — dividing a plan's tensors among output files. */
#ifndef QNI_SHARDS_INTERNAL_H
#define QNI_SHARDS_INTERNAL_H

#include "model/model.h"
#include "quench/gguf.h"

/* Cuts by size and number of tensors; a tensor larger than the limit has a file of its own. */
typedef struct qni_shard_cutter {
    int64_t max_bytes;   /* 0: no limit */
    int64_t max_tensors; /* 0: no limit */
    int64_t n_bytes;     /* in the file under way */
    int64_t n_tensors;
    int32_t file;
} qni_shard_cutter;

/* The file that the next tensors go to, which belong together: n_tensors of n_bytes in all, padding
 * included. */
QN_NODISCARD qn_status qni_shard_next(qni_shard_cutter *cutter, int64_t n_bytes, int64_t n_tensors,
                                      int32_t *out_file, qn_error *err);

/* Set split.no, split.count and split.tensors.count as the last keys, in that order, as
 * llama-quantize and the official Python writer do. */
QN_NODISCARD qn_status qni_set_split_keys(qn_gguf_writer *writer, int32_t file, int32_t n_files,
                                          int64_t n_tensors, qn_error *err);

/* Setting a key that is there moves it to the end, as ggml does it: remove it first. */
QN_NODISCARD qn_status qni_make_last(qn_gguf_writer *writer, const char *key, qn_error *err);

#endif
