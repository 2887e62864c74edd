/* cli/quantize_args.h — what llama-quantize's arguments mean, turned into the library's options. */
#ifndef CLI_QUANTIZE_ARGS_H
#define CLI_QUANTIZE_ARGS_H

#include "cli/cli.h"
#include "quench/model.h"

typedef struct quantize_values {
    /* llama-quantize's own */
    bool allow_requantize;
    bool leave_output_tensor;
    bool is_pure;
    bool keep_split;
    bool is_dry_run;
    const char *imatrix_path;
    cli_list include_weights;
    cli_list exclude_weights;
    qn_dtype output_tensor_type;
    qn_dtype token_embedding_type;
    cli_list tensor_types;
    cli_list tensor_type_files;
    const char *prune_layers;
    cli_list overrides;
    int64_t max_buffer_mib;
    /* more */
    const char *recipe_path;
    bool print_recipe;
    bool allow_unmatched;
    bool no_fallback;
    bool do_check;
    const char *metadata_from;
    const char *split_max_size;
    int64_t split_max_tensors;
    bool show_stats;
    const char *report_path;
    cli_list fail_above;
    bool want_sha256;
    bool do_resume;
    bool no_sync;
} quantize_values;

/* IN [OUT] TYPE [THREADS], as llama-quantize takes them. */
typedef struct quantize_paths {
    const char *in;
    cli_text out;
    const qn_preset *preset;
    int64_t n_threads; /* 0: not given, or all */
} quantize_paths;

/* CLI_OK or CLI_BAD_USAGE (said). Free out_paths->out in either case. */
int quantize_parse_paths(const cli_call *call, quantize_paths *out_paths);

/* Everything that the library's options point to. Zero-initialise. */
typedef struct quantize_plan_args {
    qn_quantize_options options;
    qn_tensor_type_rule *rules;
    int n_rules;
    qn_kv_override *overrides;
    int32_t *layers;
    qn_imatrix *imatrix;
    qn_recipe *recipe;
    cli_text *copies; /* strings that the rules point to */
    int n_copies;
} quantize_plan_args;

/* An exit status; the error is said. Free out_args in either case. */
int quantize_parse_plan_args(const cli_call *call, const quantize_paths *paths,
                             quantize_plan_args *out_args);
void quantize_free_plan_args(quantize_plan_args *args);

/* --split-max-size, for every command that has it: powers of 1000 as gguf-split takes them, a unit
 * is required. CLI_OK or CLI_BAD_USAGE (said). */
int cli_parse_split_size(const cli_call *call, const char *text, int64_t *out_n_bytes);
/* --fail-above: CLI_OK, CLI_FAILED (said) or CLI_BAD_USAGE (said). */
int quantize_check_limits(const cli_call *call, const qn_plan *plan, const qn_run *run);

#endif
