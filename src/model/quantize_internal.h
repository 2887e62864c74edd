/* quantize_internal.h — the steps of qn_plan_quantize().
 *
 *     quantize_input.c     which tensors, under which names, in which order; the facts for the
 * rules policy.c             their types quantize_metadata.c  the output's metadata quantize.c
 * shards, checks, the plan */
#ifndef QNI_QUANTIZE_INTERNAL_H
#define QNI_QUANTIZE_INTERNAL_H

#include "model/plan_internal.h"
#include "model/policy_internal.h"

/* One tensor on its way to the output. */
typedef struct qni_outgoing {
    const qn_tensor_info *source;
    const char *name; /* in the output; n_name bytes and a NUL */
    int64_t n_name;
    int32_t file; /* of the output */
} qni_outgoing;

typedef struct qni_quantize_job {
    const qn_model *model;
    const qn_quantize_options *options;
    qni_arena arena;
    qni_outgoing *tensors; /* in output order */
    int64_t n_tensors;
    qni_policy_model facts;
    qni_policy_choice *choices; /* one for each tensor */
    int64_t n_blocks_left;      /* after pruning */
    int32_t n_files;
} qni_quantize_job;

/* Fill tensors (pruned, renamed, in output order) and facts. */
QN_NODISCARD qn_status qni_quantize_gather(qni_quantize_job *job, qn_error *err);

/* Give a writer the metadata of output file number `file`. */
QN_NODISCARD qn_status qni_quantize_metadata(const qni_quantize_job *job, int32_t file,
                                             qn_gguf_writer *writer, qn_error *err);

#endif
