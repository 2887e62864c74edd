/* model.h — models as sources, plans of what to make of them, and the one executor that runs plans.
 *
 *     qn_model   a uniform, read-only view of a GGUF, a split GGUF, a safetensors file or its index
 *     qn_plan    which tensors become what and where every byte of every output lies; plain data
 * that can be printed and checked before any work. Made by a policy: qn_plan_quantize() qn_run the
 * executor: bounded memory, any number of threads, always the same output bytes
 *
 * The short way is qn_model_open(), qn_plan_quantize(), qn_plan_run(). Start reading there. */
#ifndef QUENCH_MODEL_H
#define QUENCH_MODEL_H

#include "quench/dtype.h"
#include "quench/isa.h"
#include "quench/status.h"

#ifdef __cplusplus
extern "C" {
#endif

struct qn_gguf; /* quench/gguf.h */

/* --- sources ---------------------------------------------------------------------------------- */

typedef struct qn_model qn_model;

typedef enum qn_container { QN_CONTAINER_GGUF = 1, QN_CONTAINER_SAFETENSORS = 2 } qn_container;

typedef struct qn_model_options {
    size_t struct_size;
    const qn_allocator *allocator; /* keeps until close; NULL: malloc */
    qn_log_fn log;                 /* warnings about the input; may be NULL */
    void *log_ctx;
    bool is_strict;            /* exactly what ggml's reader accepts */
    bool is_single_file;       /* do not pull in the other shards of a split model */
    const char *metadata_from; /* safetensors: take the metadata from this GGUF; may be NULL */
    bool takes_opaque; /* safetensors: a tensor whose type or shape has no counterpart here is no
                        * failure, it stands as is_opaque; for looking at bytes, not for converting
                        */
} qn_model_options;
#define QN_MODEL_OPTIONS_INIT                                                 \
    {                                                                         \
        sizeof(qn_model_options), NULL, NULL, NULL, false, false, NULL, false \
    }

/** Open a model; owns everything it reads of the files' headers, maps nothing of their data.
 *
 * @param path     a GGUF (the first shard of a split one pulls in the rest), a .safetensors file or
 *                 its *.safetensors.index.json; told apart by content
 * @param options  NULL for the defaults
 * @param out_model owned: close with qn_model_close(); NULL on failure
 * @return QN_OK; what the reader of the container returns; QN_ERR_NOT_A_MODEL;
 * QN_ERR_INVALID_SPLIT; QN_ERR_IO; QN_ERR_IS_DIR; QN_ERR_OUT_OF_MEMORY
 *
 * An open model is immutable. Threads: any thread. Since 0.1. */
QN_API QN_NODISCARD qn_status qn_model_open(const char *path, const qn_model_options *options,
                                            qn_model **out_model, qn_error *err);

/** Close it; NULL does nothing. Plans made from it must be gone. */
QN_API void qn_model_close(qn_model *model);

QN_API qn_container qn_model_container(const qn_model *model);

/** Number of files the model consists of, at least 1. */
QN_API int32_t qn_model_n_shards(const qn_model *model);

/** The path of a shard as it was opened, NULL past the last; borrowed. */
QN_API const char *qn_model_shard_path(const qn_model *model, int32_t shard);

/** The path of a file that was read to open the model: its shards, then what else there was, such
 * as an index, the file its metadata come from, or the files of adapters. None of them may be
 * replaced while the model is open. NULL past the last; borrowed. */
QN_API const char *qn_model_input_path(const qn_model *model, int32_t index);

/** Size of a shard's file in bytes, -1 past the last. */
QN_API int64_t qn_model_shard_bytes(const qn_model *model, int32_t shard);

QN_API int64_t qn_model_n_tensors(const qn_model *model);

/** Tensor number `index` in file order, shard by shard; NULL past the last; borrowed. `data` is
 * NULL: use qn_model_read(). */
QN_API const qn_tensor_info *qn_model_tensor(const qn_model *model, int64_t index);

/** Index of the tensor with this name, -1 if there is none. */
QN_API int64_t qn_model_find(const qn_model *model, const char *name, int64_t n_name);

/** The GGUF that holds the model's metadata (its first shard, or metadata_from); NULL if none;
 * borrowed. */
QN_API const struct qn_gguf *qn_model_metadata(const qn_model *model);

/** Read bytes of one tensor's data with pread.
 * @return QN_OK; QN_ERR_INVALID_ARGUMENT (outside the tensor); QN_ERR_FILE_CHANGED; QN_ERR_IO */
QN_API QN_NODISCARD qn_status qn_model_read(const qn_model *model, int64_t tensor,
                                            int64_t byte_offset, size_t n_bytes, void *out,
                                            qn_error *err);

/* --- importance matrices ---------------------------------------------------------------------- */

typedef struct qn_imatrix qn_imatrix;

/** Load a matrix in GGUF or .dat form, normalised to the weights that the encoders get.
 *
 * Duplicate entries of the .dat form: the later one counts. Every value must be finite.
 * @param out_imatrix owned: free with qn_imatrix_free(); NULL on failure
 * @return QN_OK; QN_ERR_INVALID_IMATRIX (the message names the entry); QN_ERR_IO;
 *         QN_ERR_OUT_OF_MEMORY
 * Threads: one at a time; const use any thread. Since 0.1. */
QN_API QN_NODISCARD qn_status qn_imatrix_open(const char *path, const qn_allocator *allocator,
                                              qn_imatrix **out_imatrix, qn_error *err);

/** The same from bytes in memory, which are borrowed during the call only. */
QN_API QN_NODISCARD qn_status qn_imatrix_parse(const void *bytes, size_t n_bytes,
                                               const qn_allocator *allocator,
                                               qn_imatrix **out_imatrix, qn_error *err);

QN_API void qn_imatrix_free(qn_imatrix *imatrix);

/** Keep only entries whose name contains one of `include` (if any are given), and drop those whose
 * name contains one of `exclude`. Giving both is QN_ERR_INVALID_ARGUMENT. */
QN_API QN_NODISCARD qn_status qn_imatrix_filter(qn_imatrix *imatrix, const char *const *include,
                                                int32_t n_include, const char *const *exclude,
                                                int32_t n_exclude, qn_error *err);

QN_API int64_t qn_imatrix_n_entries(const qn_imatrix *imatrix);

/** Entry number `index`: its name (n_name bytes and a NUL), values; false past the last. */
QN_API bool qn_imatrix_entry(const qn_imatrix *imatrix, int64_t index, const char **out_name,
                             int64_t *out_n_name, const float **out_values, int64_t *out_n_values);

/** Number of calibration chunks, 0 if unknown. */
QN_API int64_t qn_imatrix_n_chunks(const qn_imatrix *imatrix);

/** First data set the matrix was made from, NULL if unknown; borrowed. */
QN_API const char *qn_imatrix_dataset(const qn_imatrix *imatrix);

/** True for the GGUF form. */
QN_API bool qn_imatrix_is_gguf(const qn_imatrix *imatrix);

/* --- presets ---------------------------------------------------------------------------------- */

#define QN_PRESET_COPY (-1)

/** One preset, as llama-quantize lists them. */
typedef struct qn_preset {
    int32_t id;        /* the value of general.file_type; QN_PRESET_COPY for COPY */
    const char *name;  /* "Q4_K_M" */
    const char *alias; /* "Q4_K", or NULL */
    qn_dtype base;     /* type of a tensor when no rule says otherwise; QN_DTYPE_NONE for COPY */
    const char *description;
} qn_preset;

/** Preset number `index` in the order of llama-quantize's usage text; NULL past the last. An alias
 * is not a row of its own. Static storage. */
QN_API const qn_preset *qn_preset_at(int32_t index);

/** The preset with this name or alias (without case) or number (decimal).
 * @return QN_OK; QN_ERR_UNKNOWN_PRESET */
QN_API QN_NODISCARD qn_status qn_preset_from_name(const char *name, const qn_preset **out_preset,
                                                  qn_error *err);

/** The llama.cpp version whose choices the tables repeat. Static storage. */
QN_API const char *qn_policy_reference(void);

/* --- the quantize policy ---------------------------------------------------------------------- */

/** What a pattern is, the library does not know: the caller brings a matcher. `compile` may run
 * code of any cost once a pattern; `find` answers whether the pattern occurs in a name (search, not
 * whole match). Called from one thread at a time. */
typedef struct qn_matcher {
    void *ctx;
    qn_status (*compile)(void *ctx, const char *pattern, void **out_compiled, qn_error *err);
    qn_status (*find)(void *ctx, void *compiled, const char *name, int64_t n_name, bool *out_found,
                      qn_error *err);
    void (*release)(void *ctx, void *compiled);
} qn_matcher;

/** One `pattern = type` rule, of --tensor-type or of a recipe. */
typedef struct qn_tensor_type_rule {
    const char *pattern;
    qn_dtype dtype;
} qn_tensor_type_rule;

typedef enum qn_override_kind {
    QN_OVERRIDE_INT = 0,
    QN_OVERRIDE_FLOAT = 1,
    QN_OVERRIDE_BOOL = 2,
    QN_OVERRIDE_STR = 3
} qn_override_kind;

/** One --override-kv. An int is written as u32, a float as f32. */
typedef struct qn_kv_override {
    const char *key;
    qn_override_kind kind;
    int64_t int_value;
    double float_value;
    bool bool_value;
    const char *str_value;
} qn_kv_override;

/** Everything llama-quantize can be told, and a little more. Strings, arrays and the imatrix:
 * keeps until the plan is freed. */
typedef struct qn_quantize_options {
    size_t struct_size;
    const qn_allocator *allocator;
    int32_t preset; /* qn_preset.id */

    qn_dtype output_tensor_type;   /* QN_DTYPE_NONE: by the rules */
    qn_dtype token_embedding_type; /* QN_DTYPE_NONE: by the rules */
    bool allow_requantize;
    bool leave_output_tensor;
    bool is_pure;
    bool keep_split; /* one output file per input shard */
    bool is_dry_run; /* nothing will be run: a missing importance matrix is only a warning */

    const qn_tensor_type_rule *tensor_types; /* --tensor-type, first match counts */
    int32_t n_tensor_types;
    bool allow_unmatched;              /* a pattern that matches no tensor is no error */
    const qn_tensor_type_rule *recipe; /* fixes types before all rules; see qn_recipe */
    int32_t n_recipe;
    const qn_matcher *matcher; /* needed as soon as there are patterns */

    const qn_imatrix *imatrix;
    const char *imatrix_path; /* written to quantize.imatrix.file, with its three companions;
                               * NULL: none of the four keys is written */

    const qn_kv_override *overrides;
    int32_t n_overrides;
    const int32_t *prune_layers; /* any order, duplicates allowed */
    int32_t n_prune_layers;

    bool no_fallback;          /* a row that is no multiple of the block is an error */
    int64_t split_max_bytes;   /* start a new output file when the tensor bytes would exceed this;
                                * 0: no limit */
    int64_t split_max_tensors; /* the same by number of tensors; 0: no limit */

    qn_log_fn log; /* warnings while planning; may be NULL */
    void *log_ctx;
} qn_quantize_options;

/* Every field but these three means its default when zero. */
#define QN_QUANTIZE_OPTIONS_INIT                                                         \
    {                                                                                    \
        .struct_size = sizeof(qn_quantize_options), .output_tensor_type = QN_DTYPE_NONE, \
        .token_embedding_type = QN_DTYPE_NONE                                            \
    }

typedef struct qn_plan qn_plan;

/** Decide, for every tensor, what llama-quantize would make of it, and lay the output out to the
 * byte. Reads no tensor data.
 *
 * @param model    keeps until the plan is freed
 * @param out_plan owned: free with qn_plan_free(); NULL on failure
 * @return QN_OK; QN_ERR_UNKNOWN_PRESET; QN_ERR_MISSING_WEIGHTS; QN_ERR_INVALID_IMATRIX (an entry
 *         does not fit its tensor); QN_ERR_NO_FALLBACK; QN_ERR_REQUANTIZE_REFUSED;
 *         QN_ERR_UNMATCHED_PATTERN; QN_ERR_INVALID_METADATA; QN_ERR_INVALID_SHAPE;
 *         QN_ERR_ENCODER_UNAVAILABLE; QN_ERR_DECODER_UNAVAILABLE; what the matcher returns
 *
 * Refusals that llama-quantize makes only when a tensor's turn comes are made here, before there is
 * any output. Threads: any thread. Since 0.1. */
QN_API QN_NODISCARD qn_status qn_plan_quantize(const qn_model *model,
                                               const qn_quantize_options *options,
                                               qn_plan **out_plan, qn_error *err);

/** A plan that reads tensors and writes none: to check them, or to take digests of them with
 * `on_item_bytes`. Its run takes no path and has nothing to commit.
 *
 * @param model       keeps until the plan is freed
 * @param tensors     indices of the tensors to read, in that order; NULL: all; borrowed
 * @param n_tensors   how many; not used for all
 * @param do_validate check the values as a copy does
 * @param allocator   keeps until the plan is freed; NULL: malloc
 * @param out_plan    owned: free with qn_plan_free(); NULL on failure
 * @param err         filled on failure; may be NULL
 * @return QN_OK; QN_ERR_INVALID_ARGUMENT (no such tensor); QN_ERR_OUT_OF_MEMORY
 *
 * Threads: any thread. Since 0.1. */
QN_API QN_NODISCARD qn_status qn_plan_read(const qn_model *model, const int64_t *tensors,
                                           int64_t n_tensors, bool do_validate,
                                           const qn_allocator *allocator, qn_plan **out_plan,
                                           qn_error *err);

QN_API void qn_plan_free(qn_plan *plan);

/* --- plans ------------------------------------------------------------------------------------ */

typedef enum qn_recipe_kind {
    QN_RECIPE_COPY = 0,    /* the bytes of the input, validated */
    QN_RECIPE_CONVERT = 1, /* decode, encode */
    QN_RECIPE_PLANES = 2,  /* decode, fit ternary planes: several output tensors */
    QN_RECIPE_MERGE = 3    /* decode, merge adapters (quench/adapters.h), encode */
} qn_recipe_kind;

/** One work item, as a plan lists it. All pointers borrowed from the plan. */
typedef struct qn_plan_item {
    const qn_tensor_info *source; /* the (first) input tensor */
    const qn_tensor_info *target; /* the (first) output tensor; file_offset and shard are those of
                                   * the output; NULL if the item writes none */
    qn_recipe_kind recipe;
    const char *rule;   /* why the target has its type: a short, stable word ("mixture: down") */
    bool is_fallback;   /* the type chosen first did not fit the row */
    qn_dtype wanted;    /* the type before the fallback */
    bool has_weights;   /* importance weights will be used */
    bool lacks_weights; /* a dry run's warning: its type needs weights that are missing */
    int32_t n_targets;  /* output tensors; `target` is the first, the others follow it */
} qn_plan_item;

QN_API int64_t qn_plan_n_items(const qn_plan *plan);

/** Item number `index` in output order; false past the last. */
QN_API bool qn_plan_item_at(const qn_plan *plan, int64_t index, qn_plan_item *out_item);

/** One output file of a plan. */
typedef struct qn_plan_output {
    int64_t n_tensors;
    int64_t n_header_bytes; /* up to the first data byte, padding included */
    int64_t n_bytes;        /* of the whole file */
} qn_plan_output;

QN_API int32_t qn_plan_n_outputs(const qn_plan *plan);
QN_API bool qn_plan_output_at(const qn_plan *plan, int32_t index, qn_plan_output *out_output);

/** The path of an output file when the run is given `out_path`: the same, or with its shard suffix.
 * @param out fills n_out bytes with the path and a NUL
 * @return QN_OK; QN_ERR_INVALID_ARGUMENT (no such output, or `out` is too small) */
QN_API QN_NODISCARD qn_status qn_plan_output_path(const qn_plan *plan, int32_t index,
                                                  const char *out_path, char *out, size_t n_out,
                                                  qn_error *err);

/** The metadata and directory bytes that output `index` will begin with, to look at with
 * qn_gguf_open_memory(); NULL past the last; borrowed. */
QN_API const void *qn_plan_output_header(const qn_plan *plan, int32_t index, int64_t *out_n_bytes);

/** Sums over all items. */
typedef struct qn_plan_totals {
    int64_t n_source_bytes; /* of tensor data */
    int64_t n_target_bytes; /* of tensor data, without padding */
    int64_t n_elems;
    int64_t n_output_bytes; /* of all output files */
    int64_t n_fallbacks;
    int64_t n_missing_weights;
} qn_plan_totals;

QN_API void qn_plan_totals_of(const qn_plan *plan, qn_plan_totals *out_totals);

/** The recipe of a plan, `pattern = type` lines that give the same types again: called once a line,
 * with its final newline. Stops when `put` returns false. */
QN_API void qn_plan_print_recipe(const qn_plan *plan, bool (*put)(void *ctx, const char *line),
                                 void *ctx);

/** Rules parsed from text. */
typedef struct qn_recipe qn_recipe;

/** Parse a recipe: lines `pattern = type`, split at the last "=", blanks around both dropped; empty
 * lines and lines that begin with "#" are skipped.
 * @return QN_OK; QN_ERR_INVALID_RECIPE (the message names the line); QN_ERR_OUT_OF_MEMORY */
QN_API QN_NODISCARD qn_status qn_recipe_parse(const void *text, size_t n_bytes,
                                              const qn_allocator *allocator, qn_recipe **out_recipe,
                                              qn_error *err);
QN_API void qn_recipe_free(qn_recipe *recipe);
QN_API const qn_tensor_type_rule *qn_recipe_rules(const qn_recipe *recipe, int32_t *out_n_rules);

/* --- runs ------------------------------------------------------------------------------------- */

/** Errors of one tensor's new values against its old ones, in double precision, summed in row
 * order: independent of threads and chunks. */
typedef struct qn_item_errors {
    int64_t n_elems;
    double rmse;           /* sqrt(mean (y - x)^2) */
    double relative_error; /* sqrt(sum (y - x)^2 / sum x^2); 0 if all x are 0 and equal */
    double weighted_error; /* the same with importance weights; equal to it without them */
    double max_error;      /* largest |y - x| */
    double cosine;         /* of x and y; 1 if both are all 0 */
} qn_item_errors;

/** Where the time went. Seconds, summed over threads. */
typedef struct qn_run_stats {
    double wall_seconds;
    double read_seconds;    /* waiting for input */
    double compute_seconds; /* decoding, encoding, checking */
    double write_seconds;   /* waiting for output */
    double order_seconds;   /* waiting for an earlier chunk (digest and report only) */
    double sync_seconds;    /* fsync and rename, wall time */
    double cores_busy;      /* processor seconds / wall seconds before the sync */
    int64_t n_bytes_read;
    int64_t n_bytes_written;
    int32_t n_threads;
    int64_t n_chunks;
} qn_run_stats;

typedef struct qn_run qn_run;

typedef struct qn_run_options {
    size_t struct_size;
    const qn_allocator *allocator;
    int32_t n_threads;       /* 0: one per processor */
    int64_t memory_bytes;    /* budget of all buffers together; 0: 40 MiB */
    qn_isa isa;              /* limit; QN_ISA_BEST: none */
    qn_progress_fn progress; /* in bytes of source data; returning false cancels; may be NULL */
    void *progress_ctx;
    qn_log_fn log;
    void *log_ctx;
    bool want_errors;     /* measure qn_item_errors in the same pass */
    bool is_check_only;   /* read and validate everything, write nothing */
    bool do_resume;       /* continue a killed run's partial output; keep one when this run fails */
    bool keep_page_cache; /* leave pages in the page cache that the job brought in */
    bool no_sync;         /* skip fsync: for tests and benchmarks */
    /* Bytes of each output file in order, from the header to the last padding: for a digest. */
    void (*on_output_bytes)(void *ctx, int32_t output, const void *bytes, size_t n_bytes);
    /* Bytes of each item's output tensor in order, without padding. */
    void (*on_item_bytes)(void *ctx, int64_t item, const void *bytes, size_t n_bytes);
    void *bytes_ctx;
    /* Paths of other files that the job was made from, such as a matrix or a recipe: an output that
     * is one of them, or a file of its models, is refused. Borrowed. */
    const char *const *inputs;
    int32_t n_inputs;
} qn_run_options;
#define QN_RUN_OPTIONS_INIT                   \
    {                                         \
        .struct_size = sizeof(qn_run_options) \
    }

/** Run a whole plan: begin, all items, commit.
 *
 * @param out_path   where the output goes (shards: with their suffix); NULL if the plan has none
 * @param options    NULL for the defaults
 * @param out_stats  fills; may be NULL
 * @return QN_OK; QN_ERR_SAME_FILE; QN_ERR_NON_FINITE_VALUE; QN_ERR_SCALE_OVERFLOW;
 *         QN_ERR_INVALID_BLOCK; QN_ERR_ENCODE_FAILED; QN_ERR_MEMORY_BUDGET; QN_ERR_FILE_CHANGED;
 *         QN_ERR_NO_SPACE; QN_ERR_IO; QN_ERR_CANCELLED; QN_ERR_STALE_JOURNAL;
 *         QN_ERR_OUT_OF_MEMORY
 *
 * On failure nothing stands under the final name and what was there before is whole.
 * Threads: any thread, also several plans at once. Since 0.1. */
QN_API QN_NODISCARD qn_status qn_plan_run(const qn_plan *plan, const char *out_path,
                                          const qn_run_options *options, qn_run_stats *out_stats,
                                          qn_error *err);

/** Step 1 of 3: check the paths, open the outputs under temporary names, write the headers.
 * @param plan  keeps until the run is freed
 * @param out_run owned: end with qn_run_free(); NULL on failure */
QN_API QN_NODISCARD qn_status qn_run_begin(const qn_plan *plan, const char *out_path,
                                           const qn_run_options *options, qn_run **out_run,
                                           qn_error *err);

/** Step 2: items first_item .. first_item + n_items - 1. Ranges may come in any order unless a
 * bytes callback is set: then in ascending order without gaps. One at a time. */
QN_API QN_NODISCARD qn_status qn_run_range(qn_run *run, int64_t first_item, int64_t n_items,
                                           qn_error *err);

/** Step 3: sync all outputs, then rename them in order, the first shard last.
 * @return as qn_plan_run(); QN_ERR_INVALID_STATE if an item has not been run */
QN_API QN_NODISCARD qn_status qn_run_commit(qn_run *run, qn_error *err);

/** Ask a run to stop with QN_ERR_CANCELLED; safe from any thread, not from a signal handler. */
QN_API void qn_run_cancel(qn_run *run);

/** Errors of an item that has been run with want_errors; false if there are none. */
QN_API bool qn_run_item_errors(const qn_run *run, int64_t item, qn_item_errors *out_errors);

QN_API void qn_run_stats_of(const qn_run *run, qn_run_stats *out_stats);

/** End a run. One that was not committed is undone: nothing stands under the final names. NULL does
 * nothing. */
QN_API void qn_run_free(qn_run *run);

#ifdef __cplusplus
}
#endif

#endif
