/* policy_internal.h — llama-quantize's choice of types: pure functions over names and shapes.
 *
 * Nothing here opens a file, and nothing outside knows a preset. The rules themselves stand in
 * presets.def, mixture.def, mixture_after.def and fallback.def. */
#ifndef QNI_POLICY_INTERNAL_H
#define QNI_POLICY_INTERNAL_H

#include "base/base.h"
#include "dtype/dtype.h"
#include "quench/model.h"

/* What the rules look at in the model's metadata. */
typedef struct qni_policy_model {
    const char *architecture;
    int64_t n_blocks;   /* A.block_count */
    int64_t n_experts;  /* A.expert_count, 0 if absent */
    int64_t n_heads;    /* A.attention.head_count, first element of an array; 0 if absent */
    int64_t n_heads_kv; /* A.attention.head_count_kv; equal to n_heads if absent */
} qni_policy_model;

/* What they look at in a tensor. Tensors are given in output order. */
typedef struct qni_policy_tensor {
    const char *name; /* as in the output; NUL-terminated */
    qn_dtype source;
    int32_t n_dims; /* trailing ones not counted, at least 1 */
    int64_t ne[4];
} qni_policy_tensor;

/* What comes out for a tensor. */
typedef struct qni_policy_choice {
    qn_dtype dtype;
    qn_dtype wanted;  /* before the fallback; the same without one */
    const char *rule; /* why, static text */
    bool is_fallback;
    bool may_convert;   /* the rules were free to choose */
    bool needs_weights; /* refused without importance weights */
} qni_policy_choice;

/* Choose for all tensors. */
QN_NODISCARD qn_status qni_policy_choose(const qn_quantize_options *options,
                                         const qni_policy_model *model,
                                         const qni_policy_tensor *tensors, int64_t n_tensors,
                                         qni_policy_choice *out_choices, qn_error *err);

/* The block number that a name begins with ("blk.12."), read as upstream reads it; -1 if none. */
int64_t qni_policy_block_of(const char *name);

/* Output order: by block number, then by the bytes of the name. <0, 0, >0 as for strcmp. */
int qni_policy_compare(const char *name_a, const char *name_b);

/* The row of a preset by id, NULL if there is none. */
const qn_preset *qni_preset_of(int32_t id);

#endif
