/* cmd_quantize.c — `quench quantize`: llama-quantize's arguments and bytes. */
#include "cli/plan_run.h"
#include "cli/quantize_args.h"

#define MIB (1024 * 1024)

static plan_view view_of(const cli_call *call, const qn_plan *plan, const quantize_paths *paths)
{
    const quantize_values *values = call->values;

    return (plan_view){.plan = plan,
                       .in = paths->in,
                       .out = paths->out.chars,
                       .what_key = "preset",
                       .what = paths->preset->name,
                       .is_check = values->do_check,
                       .show_stats = values->show_stats};
}

/* Files that were read besides the model; free the items. */
static cli_list other_inputs(const quantize_values *values)
{
    const cli_list *files = &values->tensor_type_files;
    cli_list list = {cli_alloc((size_t)files->n + 2, sizeof *list.items), 0};

    for (int i = 0; i < files->n; i++) {
        list.items[list.n++] = files->items[i];
    }
    if (values->imatrix_path != NULL) {
        list.items[list.n++] = values->imatrix_path;
    }
    if (values->recipe_path != NULL) {
        list.items[list.n++] = values->recipe_path;
    }
    return list;
}

static int run_plan(const cli_call *call, const qn_model *model, const qn_plan *plan,
                    const quantize_paths *paths, double start_seconds)
{
    const quantize_values *values = call->values;
    plan_job job = {.model = model,
                    .view = view_of(call, plan, paths),
                    .options = QN_RUN_OPTIONS_INIT,
                    .report_path = values->report_path,
                    .want_sha256 = values->want_sha256,
                    .start_seconds = start_seconds,
                    .check = quantize_check_limits};

    job.options.n_threads = (int32_t)paths->n_threads;
    job.options.memory_bytes = values->max_buffer_mib * MIB;
    job.options.want_errors = values->report_path != NULL || values->fail_above.n > 0;
    job.options.is_check_only = values->do_check;
    job.options.do_resume = values->do_resume;
    job.options.no_sync = values->no_sync;
    cli_list inputs = other_inputs(values);
    job.options.inputs = inputs.items;
    job.options.n_inputs = inputs.n;
    const int status = plan_run(call, &job);
    free(inputs.items);
    return status;
}

static bool put_line(void *ctx, const char *line)
{
    return fputs(line, ctx) >= 0;
}

static int plan_and_run(const cli_call *call, const qn_model *model, const quantize_paths *paths,
                        const quantize_plan_args *args, double start_seconds)
{
    const quantize_values *values = call->values;
    qn_plan *plan = NULL;
    qn_error err = QN_ERROR_INIT;
    int status = CLI_OK;

    if (qn_plan_quantize(model, &args->options, &plan, &err) != QN_OK) {
        if (err.path[0] == '\0') {
            (void)snprintf(err.path, sizeof err.path, "%s", paths->in);
        }
        return cli_fail(&err);
    }
    if (values->print_recipe) {
        qn_plan_print_recipe(plan, put_line, stdout);
    } else if (values->is_dry_run) {
        const plan_view view = view_of(call, plan, paths);
        plan_show(call, &view);
    } else {
        status = run_plan(call, model, plan, paths, start_seconds);
    }
    qn_plan_free(plan);
    return status;
}

static int open_and_run(const cli_call *call, const quantize_paths *paths,
                        const quantize_plan_args *args, double start_seconds)
{
    const quantize_values *values = call->values;
    qn_model *model = NULL;

    int status = cli_open_model(call, paths->in, values->metadata_from, &model);
    if (status == CLI_OK) {
        status = plan_and_run(call, model, paths, args, start_seconds);
    }
    qn_model_close(model);
    return status;
}

static int run(const cli_call *call)
{
    const double start_seconds = cli_clock_seconds();
    quantize_paths paths;
    quantize_plan_args args;
    int status = quantize_parse_paths(call, &paths);

    memset(&args, 0, sizeof args);
    if (status == CLI_OK) {
        status = quantize_check_limits(call, NULL, NULL);
    }
    if (status == CLI_OK) {
        status = quantize_parse_plan_args(call, &paths, &args);
    }
    if (status == CLI_OK) {
        status = open_and_run(call, &paths, &args, start_seconds);
    }
    quantize_free_plan_args(&args);
    cli_text_free(&paths.out);
    return status;
}

#define FIELD(name) .offset = offsetof(quantize_values, name)

static const char types_group[] = "which type a tensor gets";
static const char matrix_group[] = "importance matrix";
static const char output_group[] = "input and output";
static const char proof_group[] = "looking and checking";

static const cli_option options[] = {
    {.name = "allow-requantize",
     .group = types_group,
     .kind = CLI_FLAG,
     FIELD(allow_requantize),
     .help = "convert tensors that are quantized already, which loses more than going from the "
             "original"},
    {.name = "leave-output-tensor",
     .group = types_group,
     .kind = CLI_FLAG,
     FIELD(leave_output_tensor),
     .help = "keep the type of output.weight"},
    {.name = "pure",
     .group = types_group,
     .kind = CLI_FLAG,
     FIELD(is_pure),
     .help = "give every tensor the same type instead of the mixture"},
    {.name = "output-tensor-type",
     .arg = "T",
     .group = types_group,
     .kind = CLI_DTYPE,
     FIELD(output_tensor_type),
     .help = "the type of output.weight"},
    {.name = "token-embedding-type",
     .arg = "T",
     .group = types_group,
     .kind = CLI_DTYPE,
     FIELD(token_embedding_type),
     .help = "the type of the token embeddings"},
    {.name = "tensor-type",
     .arg = "PATTERN=T",
     .group = types_group,
     .kind = CLI_LIST,
     FIELD(tensor_types),
     .help = "the type of tensors in whose name PATTERN, a regular expression, is found; may be "
             "given several times, the first match counts"},
    {.name = "tensor-type-file",
     .arg = "FILE",
     .group = types_group,
     .kind = CLI_LIST,
     FIELD(tensor_type_files),
     .help = "read PATTERN=T from FILE, separated by white space"},
    {.name = "allow-unmatched",
     .group = types_group,
     .kind = CLI_FLAG,
     FIELD(allow_unmatched),
     .help = "accept patterns that match no tensor"},
    {.name = "recipe",
     .arg = "FILE",
     .group = types_group,
     .kind = CLI_TEXT,
     FIELD(recipe_path),
     .help = "take the types from a recipe, lines of 'pattern = type'"},
    {.name = "no-fallback",
     .group = types_group,
     .kind = CLI_FLAG,
     FIELD(no_fallback),
     .help = "fail where a row does not fit the type instead of taking another one"},
    PLAN_OPTION_IMATRIX(matrix_group),
    {.name = "include-weights",
     .arg = "TEXT",
     .group = matrix_group,
     .kind = CLI_LIST,
     FIELD(include_weights),
     .help = "use only entries whose name contains TEXT; may be given several times"},
    {.name = "exclude-weights",
     .arg = "TEXT",
     .group = matrix_group,
     .kind = CLI_LIST,
     FIELD(exclude_weights),
     .help = "use no entries whose name contains TEXT; may be given several times"},
    {.name = "override-kv",
     .arg = "KEY=TYPE:VALUE",
     .group = output_group,
     .kind = CLI_LIST,
     FIELD(overrides),
     .help = "set a metadata key; TYPE is int, float, bool or str; may be given several times"},
    {.name = "prune-layers",
     .arg = "N,N,...",
     .group = output_group,
     .kind = CLI_TEXT,
     FIELD(prune_layers),
     .help = "leave these blocks out and number the others anew"},
    PLAN_OPTION_KEEP_SPLIT(output_group),
    PLAN_OPTION_SPLIT_MAX_SIZE(output_group),
    PLAN_OPTION_SPLIT_MAX_TENSORS(output_group),
    {.name = "metadata-from",
     .arg = "FILE",
     .group = output_group,
     .kind = CLI_TEXT,
     FIELD(metadata_from),
     .help = "for safetensors: take the metadata from this GGUF file"},
    PLAN_OPTION_RESUME(output_group),
    PLAN_OPTION_NO_SYNC(output_group),
    {.name = "max-buffer-size",
     .arg = "MIB",
     .group = output_group,
     .kind = CLI_INT,
     .min = 1,
     .max = INT32_MAX,
     FIELD(max_buffer_mib),
     .help = "llama-quantize's name for --memory, in MiB"},
    PLAN_OPTION_DRY_RUN(proof_group),
    {.name = "print-recipe",
     .group = proof_group,
     .kind = CLI_FLAG,
     FIELD(print_recipe),
     .help = "print a recipe that gives the same types, and stop"},
    {.name = "check",
     .group = proof_group,
     .kind = CLI_FLAG,
     FIELD(do_check),
     .help = "read and convert everything, write nothing"},
    PLAN_OPTION_REPORT(proof_group),
    {.name = "fail-above",
     .arg = "METRIC=VALUE",
     .group = proof_group,
     .kind = CLI_LIST,
     FIELD(fail_above),
     .help = "fail, and write nothing, if a tensor's rmse, relative_error, weighted_error, "
             "max_error or distance of its cosine from 1 is above VALUE"},
    {.name = "sha256",
     .group = proof_group,
     .kind = CLI_FLAG,
     FIELD(want_sha256),
     .help = "print the digest of the output, computed while it is written"},
    PLAN_OPTION_STATS(proof_group),
};

const cli_command cli_cmd_quantize = {
    .name = "quantize",
    .summary = "convert a model to another tensor type",
    .usage = "[OPTIONS] IN [OUT] TYPE [THREADS]",
    .description =
        "Writes IN with its weights converted to TYPE, with the arguments of llama-quantize and "
        "the very bytes that it would write. Without OUT the output is ggml-model-TYPE.gguf beside "
        "IN. TYPE is the name or number of a preset, such as Q4_K_M; 'quench version' lists "
        "them. IN may be a GGUF file, the first file of a split model, or safetensors with "
        "GGUF names.\n\n"
        "The output appears under its name only when it is whole and on the disk. A run that "
        "fails or is stopped leaves what was there before.",
    .options = CLI_OPTIONS(options),
    .takes = CLI_TAKES_WORK | CLI_TAKES_JSON,
    .n_value_bytes = sizeof(quantize_values),
    .exit_1 = "it failed, or a limit of --fail-above was passed; one line on the standard error "
              "says why and what to do, and nothing was written",
    .run = run,
};
