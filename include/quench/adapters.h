/* adapters.h — LoRA adapters merged into a GGUF model: W' = W + (alpha / r) B A.
 *
 *     qn_merge   a model and the adapters to merge into it: checked, nothing computed yet
 *
 * qn_merge_open() reads any form: a PEFT folder, an mlx-lm folder, an adapter GGUF, the state dict
 * or checkpoint folder of the reference trainer; they are told apart by content. Every tensor of an
 * adapter is used, or named in an error. qn_merge_model() is the merged model, as a source like any
 * other: plan with qn_plan_export() or qn_plan_quantize() and run; rows are merged in f32 as they
 * stream by, and rounded once, to the type that the plan chose. */
#ifndef QUENCH_ADAPTERS_H
#define QUENCH_ADAPTERS_H

#include "quench/model.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum qn_adapter_form {
    QN_ADAPTER_PEFT = 0, /* adapter_config.json and adapter_model.safetensors, or such keys alone */
    QN_ADAPTER_MLX = 1,  /* mlx-lm */
    QN_ADAPTER_GGUF = 2, /* llama.cpp */
    QN_ADAPTER_SEED = 3  /* the reference trainer's state dict or checkpoint folder */
} qn_adapter_form;

/** "PEFT", "mlx-lm", "GGUF", "state dict"; "?" for a value that is none. Static storage. */
QN_API const char *qn_adapter_form_name(qn_adapter_form form);

/** How to merge. Strings and matcher: keeps until the merge is closed. */
typedef struct qn_merge_options {
    size_t struct_size;
    const qn_allocator *allocator;
    bool has_alpha;        /* `alpha` counts, not what the adapters' own files say */
    double alpha;          /* numerator of the scale alpha / r */
    double strength;       /* factor on every scale; 1 in the INIT macro */
    bool allow_requantize; /* merge into quantized weights: they are quantized a second time */
    bool do_untie;  /* give a model that ties its output to token_embd.weight an output.weight of
                     * its own where the adapter needs it */
    bool no_record; /* do not add the key quench.merged_adapters */
    const qn_matcher
        *matcher;  /* for rank_pattern and alpha_pattern of PEFT; needed if there are any */
    qn_log_fn log; /* warnings; may be NULL */
    void *log_ctx;
} qn_merge_options;
#define QN_MERGE_OPTIONS_INIT                                    \
    {                                                            \
        .struct_size = sizeof(qn_merge_options), .strength = 1.0 \
    }

typedef struct qn_merge qn_merge;

/** Read adapters and match them with a model.
 *
 * All values of the adapters are read once, to refuse NaN and infinity and to take a digest.
 * @param base       a GGUF model; keeps until the merge is closed
 * @param paths      n_paths files or folders, merged in this order; borrowed
 * @param n_paths    at least 1
 * @param options    NULL for the defaults
 * @param out_merge  owned: close with qn_merge_close(); NULL on failure
 * @return QN_OK; QN_ERR_INVALID_ADAPTER (malformed, or it does not fit the model: the message names
 * the tensor); QN_ERR_UNSUPPORTED_ADAPTER (it cannot be merged exactly: the message names the
 *         part); QN_ERR_NON_FINITE_VALUE; QN_ERR_REQUANTIZE_REFUSED; QN_ERR_INVALID_PATTERN;
 *         QN_ERR_INVALID_ARGUMENT; QN_ERR_OUT_OF_MEMORY; what the readers of the containers return
 *
 * Threads: any thread; an open merge is immutable. Since 0.1. */
QN_API QN_NODISCARD qn_status qn_merge_open(const qn_model *base, const char *const *paths,
                                            int32_t n_paths, const qn_merge_options *options,
                                            qn_merge **out_merge, qn_error *err);

/** Close it; NULL does nothing. Plans made from its model must be gone. */
QN_API void qn_merge_close(qn_merge *merge);

/** The merged model: for qn_plan_export() and qn_plan_quantize(). Its metadata are the base's and,
 * unless no_record was given, quench.merged_adapters, an array of strings, one an adapter. Reading
 * tensors of it gives the base's bytes. Borrowed: not to be closed. */
QN_API const qn_model *qn_merge_model(const qn_merge *merge);

/** One adapter. Borrowed. */
typedef struct qn_adapter_info {
    const char *path;
    qn_adapter_form form;
    const char *record;       /* as in the metadata: "xxh3:0123456789abcdef strength 1" */
    bool was_merged;          /* the base's metadata say that it has been merged already */
    int64_t n_tensors;        /* in its file */
    int64_t n_pairs;          /* A and B, DoRA pairs included */
    int64_t n_replaced;       /* whole tensors that it brings */
    int64_t n_zero;           /* pairs whose product is zero: nothing comes of them */
    int64_t n_copies;         /* tensors that only repeat the model's own (base_layer.weight) */
    const char *scale_source; /* what said alpha or the scale: "option" (the one given here), the
                               * name of a file or key, "nothing" (a scale of 1) */
    const char *trained_on;   /* the model that its configuration names; NULL: none; not escaped */
} qn_adapter_info;

/** Adapter number `index` in the order given; false past the last. */
QN_API bool qn_merge_adapter_at(const qn_merge *merge, int64_t index, qn_adapter_info *out_info);

/** One tensor of the model that changes. Borrowed. */
typedef struct qn_merged_tensor {
    const qn_tensor_info *tensor; /* of the merged model */
    int64_t rank;                 /* of its first pair; 0 if it has none */
    float scale;                  /* of that pair, strength included; 1 if it has none */
    int64_t n_edits;              /* pairs and replacements, experts counted one by one */
    bool is_new;                  /* output.weight of a model that was tied */
    bool is_replaced;
    bool is_dora;
} qn_merged_tensor;

/** Tensor number `index` of those that change, in the model's order; false past the last. Pairs
 * whose product is zero change nothing and do not count. */
QN_API bool qn_merge_tensor_at(const qn_merge *merge, int64_t index, qn_merged_tensor *out_tensor);

/** How much an item's tensor changed, in f32 before it was rounded to its type. */
typedef struct qn_item_merge {
    double delta_norm;  /* ||W' - W|| */
    double weight_norm; /* ||W|| */
} qn_item_merge;

/** Of an item that has been run; false if it merges nothing, or if an earlier run has finished it.
 */
QN_API bool qn_run_item_merge(const qn_run *run, int64_t item, qn_item_merge *out_merge);

#ifdef __cplusplus
}
#endif

#endif
