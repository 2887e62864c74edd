/* export.h — plans that re-emit a GGUF model: a conservative transcode, or ternary planes. The
 * model may be one with adapters merged into it: qn_merge_model() of quench/adapters.h.
 *
 * Both keep what they are not sure of: only matrices named *.weight whose name does not contain
 * "norm" are touched, a row that is no multiple of the target's block keeps its type, and nothing
 * that is quantized already is quantized again. A plan made here is run like any other: see
 * quench/model.h. */
#ifndef QUENCH_EXPORT_H
#define QUENCH_EXPORT_H

#include "quench/model.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How many ternary planes a weight may become. */
#define QN_MAX_PLANES 3

/** What to make of the model. Strings, arrays and the matrix: keeps until the plan is freed. */
typedef struct qn_export_options {
    size_t struct_size;
    const qn_allocator *allocator;

    qn_dtype dtype;            /* target of eligible tensors; QN_DTYPE_NONE: keep */
    qn_dtype experts_dtype;    /* target of tensors whose name contains "_exps.weight", which may be
                                * quantized already; QN_DTYPE_NONE: as the others */
    const qn_imatrix *imatrix; /* importance weights of the encoders; may be NULL */

    int32_t n_planes; /* 1..QN_MAX_PLANES: ternary planes (PTQTP) instead of dtype; 0: none */
    bool is_tied;     /* scales of the planes in the ratio 3 : 1 or 9 : 3 : 1 */
    const char *const *include; /* names that contain one of these, instead of all but token_embd
                                 * and output.weight */
    int32_t n_include;
    const char *const *exclude; /* never names that contain one of these */
    int32_t n_exclude;

    bool keep_split;         /* one output file for each input file */
    int64_t split_max_bytes; /* as in qn_quantize_options */
    int64_t split_max_tensors;

    qn_log_fn log; /* warnings while planning; may be NULL */
    void *log_ctx;

    bool allow_requantize; /* take quantized sources for `dtype` */
} qn_export_options;
#define QN_EXPORT_OPTIONS_INIT                                            \
    {                                                                     \
        .struct_size = sizeof(qn_export_options), .dtype = QN_DTYPE_NONE, \
        .experts_dtype = QN_DTYPE_NONE                                    \
    }

/** Decide what becomes of every tensor and lay the output out to the byte. Reads no tensor data.
 *
 * Tensors stay in the input's order; a weight that becomes planes is replaced by NAME.ptqtp0,
 * NAME.ptqtp1, ... of type tq2_0. Metadata are copied as they are, but for the split keys,
 * general.file_type (the uniform preset of `dtype`), general.quantization_version (2 as soon as a
 * tensor is quantized by this plan) and the stamps of planes (fucina.ptqtp.version,
 * fucina.ptqtp.tie_scales).
 *
 * @param model    a GGUF model; keeps until the plan is freed
 * @param out_plan owned: free with qn_plan_free(); NULL on failure
 * @return QN_OK; QN_ERR_INVALID_ARGUMENT; QN_ERR_INVALID_PLANE_COUNT; QN_ERR_ENCODER_UNAVAILABLE;
 *         QN_ERR_REQUANTIZE_REFUSED (the message names the tensor); QN_ERR_MISSING_WEIGHTS;
 *         QN_ERR_INVALID_IMATRIX; QN_ERR_DUPLICATE_TENSOR_NAME; QN_ERR_OUT_OF_MEMORY
 * Threads: any thread. Since 0.1. */
QN_API QN_NODISCARD qn_status qn_plan_export(const qn_model *model,
                                             const qn_export_options *options, qn_plan **out_plan,
                                             qn_error *err);

/** How the fits of one tensor's planes went; the errors are in qn_run_item_errors(). */
typedef struct qn_item_planes {
    int32_t n_planes;
    int64_t n_groups;               /* of 256 weights */
    int64_t n_iterations;           /* of all groups together */
    int64_t n_unsettled;            /* groups whose scales still moved after 50 iterations */
    int64_t n_zeros[QN_MAX_PLANES]; /* zero trits, by plane */
} qn_item_planes;

/** Of an item that has been run with want_errors; false if it makes no planes. */
QN_API bool qn_run_item_planes(const qn_run *run, int64_t item, qn_item_planes *out_planes);

#ifdef __cplusplus
}
#endif

#endif
