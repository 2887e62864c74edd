/* cmd_export.c — `quench export`: a conservative transcode, adapters merged, or ternary planes. */
#include "cli/matcher.h"
#include "cli/plan_run.h"
#include "cli/quantize_args.h"

typedef struct export_values {
    const char *from;
    const char *out;
    const char *dtype;
    const char *experts_dtype;
    const char *imatrix_path;
    cli_list adapters;
    const char *alpha;
    const char *strength;
    const char *preset;
    bool allow_requantize;
    bool do_untie;
    bool no_record;
    bool keep_split;
    const char *split_max_size;
    int64_t split_max_tensors;
    bool do_resume;
    bool no_sync;
    int64_t n_planes;
    bool is_tied;
    bool is_native;
    cli_list include;
    cli_list exclude;
    bool is_dry_run;
    const char *report_path;
    bool show_stats;
} export_values;

/* Everything that the library's options point to. */
typedef struct export_args {
    qn_export_options options;
    qn_merge_options merge;
    const qn_preset *preset; /* instead of a type; NULL: none */
    qn_imatrix *imatrix;
    cli_list include; /* pieces of the comma-separated lists */
    cli_list exclude;
    char *text; /* holds the pieces */
} export_args;

/* --- arguments -------------------------------------------------------------------------------- */

static int parse_dtype(const cli_call *call, const char *option, const char *word, qn_dtype *out)
{
    cli_text shown = {NULL, 0, 0};

    *out = QN_DTYPE_NONE;
    if (word == NULL || strcmp(word, "verbatim") == 0) {
        return CLI_OK;
    }
    *out = qn_dtype_from_name(word);
    if (*out != QN_DTYPE_NONE) {
        return CLI_OK;
    }
    cli_text_escape(&shown, word, (int64_t)strlen(word), 60);
    const int status = cli_usage_error(
        call, "--%s '%s': expected verbatim or a tensor type such as q8_0", option, shown.chars);
    cli_text_free(&shown);
    return status;
}

static size_t count_chars(const cli_list *list)
{
    size_t n = 0;

    for (int i = 0; i < list->n; i++) {
        n += strlen(list->items[i]) + 1;
    }
    return n;
}

/* "a,b" given twice or more -> its pieces; empty ones are dropped. */
static char *split_list(const cli_list *list, char *text, cli_list *out)
{
    size_t n_max = 0;

    for (int i = 0; i < list->n; i++) {
        for (const char *p = list->items[i]; *p != '\0'; p++) {
            n_max += *p == ',';
        }
        n_max++;
    }
    out->items = cli_alloc(n_max + 1, sizeof *out->items);
    for (int i = 0; i < list->n; i++) {
        const char *piece = list->items[i];
        while (*piece != '\0') {
            const size_t n = strcspn(piece, ",");
            if (n > 0) {
                memcpy(text, piece, n);
                text[n] = '\0';
                out->items[out->n++] = text;
                text += n + 1;
            }
            piece += n + (piece[n] == ',');
        }
    }
    return text;
}

static int parse_filters(const cli_call *call, export_args *args)
{
    const export_values *values = call->values;

    args->text = cli_alloc(count_chars(&values->include) + count_chars(&values->exclude) + 1, 1);
    char *rest = split_list(&values->include, args->text, &args->include);
    (void)split_list(&values->exclude, rest, &args->exclude);
    args->options.include = args->include.items;
    args->options.n_include = args->include.n;
    args->options.exclude = args->exclude.items;
    args->options.n_exclude = args->exclude.n;
    return CLI_OK;
}

static int check_combination(const cli_call *call)
{
    const export_values *values = call->values;
    const bool has_filters = values->include.n > 0 || values->exclude.n > 0;

    if (call->n_args > 0) {
        return cli_usage_error(call,
                               "unexpected argument; name the files with --from-gguf and --out");
    }
    if (values->from == NULL) {
        return cli_usage_error(call, "--from-gguf is missing");
    }
    if (values->is_native) {
        return cli_usage_error(call, "--ptqtp-native is not offered: its type number, 43, is the "
                                     "next one that ggml will give to a type of its own; use "
                                     "--ptqtp=2 --ptqtp-tie");
    }
    if (values->n_planes == 0 && (values->is_tied || has_filters)) {
        return cli_usage_error(call,
                               "--ptqtp-tie, --ptqtp-include and --ptqtp-exclude need --ptqtp");
    }
    if (values->is_tied && values->n_planes < 2) {
        return cli_usage_error(call, "--ptqtp-tie needs two or three planes");
    }
    if (values->n_planes > 0 && (values->dtype != NULL || values->experts_dtype != NULL)) {
        return cli_usage_error(call, "--ptqtp and --dtype exclude each other; export twice");
    }
    if (values->n_planes > 0 && values->adapters.n > 0) {
        return cli_usage_error(call, "--ptqtp and --adapters exclude each other; merge first, then "
                                     "make planes");
    }
    if (values->adapters.n == 0 &&
        (values->alpha != NULL || values->strength != NULL || values->preset != NULL ||
         values->do_untie || values->no_record)) {
        return cli_usage_error(call, "--alpha, --scale, --preset, --untie and --no-record need "
                                     "--adapters");
    }
    if (values->preset != NULL && (values->dtype != NULL || values->experts_dtype != NULL)) {
        return cli_usage_error(call, "--preset and --dtype exclude each other");
    }
    if (values->out == NULL && !values->is_dry_run) {
        return cli_usage_error(call, "--out is missing");
    }
    return CLI_OK;
}

static int parse_number(const cli_call *call, const char *option, const char *text, double *out)
{
    char *end = NULL;

    *out = strtod(text, &end);
    if (end != text && *end == '\0' && *out - *out == 0.0) { /* finite */
        return CLI_OK;
    }
    cli_text shown = {NULL, 0, 0};
    cli_text_escape(&shown, text, (int64_t)strlen(text), 60);
    const int status = cli_usage_error(call, "--%s '%s': expected a number", option, shown.chars);
    cli_text_free(&shown);
    return status;
}

/* Everything about adapters. */
static int parse_merge(const cli_call *call, export_args *args)
{
    const export_values *values = call->values;
    qn_error err = QN_ERROR_INIT;
    int status = CLI_OK;

    args->merge = (qn_merge_options)QN_MERGE_OPTIONS_INIT;
    args->merge.has_alpha = values->alpha != NULL;
    args->merge.allow_requantize = values->allow_requantize;
    args->merge.do_untie = values->do_untie;
    args->merge.no_record = values->no_record;
    args->merge.matcher = cli_matcher();
    args->merge.log = cli_log;
    args->merge.log_ctx = cli_log_ctx(call);
    if (values->alpha != NULL) {
        status = parse_number(call, "alpha", values->alpha, &args->merge.alpha);
    }
    if (status == CLI_OK && values->strength != NULL) {
        status = parse_number(call, "scale", values->strength, &args->merge.strength);
    }
    if (status == CLI_OK && values->preset != NULL &&
        qn_preset_from_name(values->preset, &args->preset, &err) != QN_OK) {
        status = cli_usage_error(call, "--preset: %s", err.message);
    }
    return status;
}

static int parse_args(const cli_call *call, export_args *args)
{
    const export_values *values = call->values;
    qn_export_options *options = &args->options;
    qn_error err = QN_ERROR_INIT;
    int status = check_combination(call);

    *options = (qn_export_options)QN_EXPORT_OPTIONS_INIT;
    options->n_planes = (int32_t)values->n_planes;
    options->is_tied = values->is_tied;
    options->keep_split = values->keep_split;
    options->split_max_tensors = values->split_max_tensors;
    options->allow_requantize = values->allow_requantize;
    options->log = cli_log;
    options->log_ctx = cli_log_ctx(call);
    if (status == CLI_OK) {
        status = parse_dtype(call, "dtype", values->dtype, &options->dtype);
    }
    if (status == CLI_OK) {
        status = parse_dtype(call, "experts-dtype", values->experts_dtype, &options->experts_dtype);
    }
    if (status == CLI_OK && values->split_max_size != NULL) {
        status = cli_parse_split_size(call, values->split_max_size, &options->split_max_bytes);
    }
    if (status == CLI_OK) {
        status = parse_filters(call, args);
    }
    if (status == CLI_OK) {
        status = parse_merge(call, args);
    }
    if (status == CLI_OK && values->imatrix_path != NULL &&
        qn_imatrix_open(values->imatrix_path, NULL, &args->imatrix, &err) != QN_OK) {
        status = cli_fail(&err);
    }
    options->imatrix = args->imatrix;
    return status;
}

/* --- the run ---------------------------------------------------------------------------------- */

static const char *mode_of(const export_values *values)
{
    if (values->n_planes > 0) {
        return values->is_tied ? "tied ternary planes" : "ternary planes";
    }
    if (values->preset != NULL) {
        return values->preset;
    }
    return values->dtype != NULL ? values->dtype : "verbatim";
}

static int run_plan(const cli_call *call, const qn_model *model, const plan_view *view,
                    double start_seconds)
{
    const export_values *values = call->values;
    plan_job job = {.model = model,
                    .view = *view,
                    .options = QN_RUN_OPTIONS_INIT,
                    .report_path = values->report_path,
                    .start_seconds = start_seconds};

    job.options.want_errors = values->report_path != NULL || values->n_planes > 0;
    job.options.do_resume = values->do_resume;
    job.options.no_sync = values->no_sync;
    job.options.inputs = &values->imatrix_path;
    job.options.n_inputs = values->imatrix_path != NULL;
    return plan_run(call, &job);
}

/* With a preset the types are those of quench quantize. */
static qn_status make_plan(const export_args *args, const qn_model *model, qn_plan **out_plan,
                           qn_error *err)
{
    qn_quantize_options options = QN_QUANTIZE_OPTIONS_INIT;

    if (args->preset == NULL) {
        return qn_plan_export(model, &args->options, out_plan, err);
    }
    options.preset = args->preset->id;
    options.imatrix = args->imatrix;
    options.allow_requantize = args->options.allow_requantize;
    options.keep_split = args->options.keep_split;
    options.split_max_bytes = args->options.split_max_bytes;
    options.split_max_tensors = args->options.split_max_tensors;
    options.log = args->options.log;
    options.log_ctx = args->options.log_ctx;
    return qn_plan_quantize(model, &options, out_plan, err);
}

static int plan_and_run(const cli_call *call, const qn_model *model, const qn_merge *merge,
                        const export_args *args, double start_seconds)
{
    const export_values *values = call->values;
    qn_plan *plan = NULL;
    qn_error err = QN_ERROR_INIT;
    int status = CLI_OK;

    if (make_plan(args, model, &plan, &err) != QN_OK) {
        if (err.path[0] == '\0') {
            (void)snprintf(err.path, sizeof err.path, "%s", values->from);
        }
        return cli_fail(&err);
    }
    const plan_view view = {.plan = plan,
                            .in = values->from,
                            .out = values->out != NULL ? values->out : "nothing",
                            .what_key = "mode",
                            .what = mode_of(values),
                            .merge = merge,
                            .show_stats = values->show_stats};
    if (values->is_dry_run) {
        plan_show(call, &view);
    } else {
        status = run_plan(call, model, &view, start_seconds);
    }
    qn_plan_free(plan);
    return status;
}

static int merge_and_run(const cli_call *call, const qn_model *base, const export_args *args,
                         double start_seconds)
{
    const export_values *values = call->values;
    qn_merge *merge = NULL;
    qn_error err = QN_ERROR_INIT;

    if (values->adapters.n == 0) {
        return plan_and_run(call, base, NULL, args, start_seconds);
    }
    if (qn_merge_open(base, values->adapters.items, values->adapters.n, &args->merge, &merge,
                      &err) != QN_OK) {
        return cli_fail(&err);
    }
    const int status = plan_and_run(call, qn_merge_model(merge), merge, args, start_seconds);
    qn_merge_close(merge);
    return status;
}

static int open_and_run(const cli_call *call, const export_args *args, double start_seconds)
{
    const export_values *values = call->values;
    qn_model *model = NULL;

    int status = cli_open_model(call, values->from, NULL, &model);
    if (status == CLI_OK) {
        status = merge_and_run(call, model, args, start_seconds);
    }
    qn_model_close(model);
    return status;
}

static int run(const cli_call *call)
{
    const double start_seconds = cli_clock_seconds();
    export_args args;

    memset(&args, 0, sizeof args);
    int status = parse_args(call, &args);
    if (status == CLI_OK) {
        status = open_and_run(call, &args, start_seconds);
    }
    qn_imatrix_free(args.imatrix);
    free(args.include.items);
    free(args.exclude.items);
    free(args.text);
    return status;
}

/* --- the option table ------------------------------------------------------------------------- */

#define FIELD(name) .offset = offsetof(export_values, name)

static const char files_group[] = "files";
static const char types_group[] = "transcode";
static const char adapters_group[] = "adapters";
static const char planes_group[] = "ternary planes";
static const char proof_group[] = "looking and checking";

static const cli_option options[] = {
    {.name = "from-gguf",
     .arg = "FILE",
     .group = files_group,
     .kind = CLI_TEXT,
     FIELD(from),
     .help = "the model: a GGUF file, or the first file of a split one"},
    {.name = "out",
     .arg = "FILE",
     .group = files_group,
     .kind = CLI_TEXT,
     FIELD(out),
     .help = "where it goes"},
    PLAN_OPTION_KEEP_SPLIT(files_group),
    PLAN_OPTION_SPLIT_MAX_SIZE(files_group),
    PLAN_OPTION_SPLIT_MAX_TENSORS(files_group),
    PLAN_OPTION_RESUME(files_group),
    PLAN_OPTION_NO_SYNC(files_group),
    {.name = "dtype",
     .arg = "T",
     .group = types_group,
     .kind = CLI_TEXT,
     FIELD(dtype),
     .help = "the type of weight matrices: verbatim (the default) or any type with an encoder"},
    {.name = "experts-dtype",
     .arg = "T",
     .group = types_group,
     .kind = CLI_TEXT,
     FIELD(experts_dtype),
     .help = "another type for *_exps.weight, which may be quantized already"},
    PLAN_OPTION_IMATRIX(types_group),
    {.name = "allow-requantize",
     .group = types_group,
     .kind = CLI_FLAG,
     FIELD(allow_requantize),
     .help = "take sources that are quantized already; they lose twice"},
    {.name = "adapters",
     .arg = "DIR",
     .group = adapters_group,
     .kind = CLI_LIST,
     FIELD(adapters),
     .help =
         "merge this LoRA adapter, a folder or file of PEFT, mlx-lm, llama.cpp or the reference "
         "trainer; may be given more than once"},
    {.name = "alpha",
     .arg = "A",
     .group = adapters_group,
     .kind = CLI_TEXT,
     FIELD(alpha),
     .help = "the scale is A / rank, whatever the adapter's own files say"},
    {.name = "scale",
     .arg = "S",
     .group = adapters_group,
     .kind = CLI_TEXT,
     FIELD(strength),
     .help = "multiply every scale by S (default 1)"},
    {.name = "preset",
     .arg = "P",
     .group = adapters_group,
     .kind = CLI_TEXT,
     FIELD(preset),
     .help = "quantize the merged model in the same pass, with the types of quench quantize"},
    {.name = "untie",
     .group = adapters_group,
     .kind = CLI_FLAG,
     FIELD(do_untie),
     .help = "give a tied model an output.weight of its own where the adapter needs one"},
    {.name = "no-record",
     .group = adapters_group,
     .kind = CLI_FLAG,
     FIELD(no_record),
     .help = "do not note in quench.merged_adapters what was merged"},
    {.name = "ptqtp",
     .arg = "K",
     .without = "2",
     .group = planes_group,
     .kind = CLI_INT,
     .min = 1,
     .max = QN_MAX_PLANES,
     FIELD(n_planes),
     .help = "replace weight matrices by the sum of K ternary planes (default 2)"},
    {.name = "ptqtp-planes",
     .arg = "K",
     .group = planes_group,
     .kind = CLI_INT,
     .min = 1,
     .max = QN_MAX_PLANES,
     FIELD(n_planes),
     .help = "the same"},
    {.name = "ptqtp-tie",
     .group = planes_group,
     .kind = CLI_FLAG,
     FIELD(is_tied),
     .help = "tie the planes' scales, 3 to 1 or 9 to 3 to 1"},
    {.name = "ptqtp-include",
     .arg = "TEXT,...",
     .group = planes_group,
     .kind = CLI_LIST,
     FIELD(include),
     .help = "only names that contain one of these, instead of all but embeddings and output"},
    {.name = "ptqtp-exclude",
     .arg = "TEXT,...",
     .group = planes_group,
     .kind = CLI_LIST,
     FIELD(exclude),
     .help = "never names that contain one of these"},
    {.name = "ptqtp-native",
     .group = planes_group,
     .kind = CLI_FLAG,
     FIELD(is_native),
     .help = "refused: a private type number that ggml will give to another type"},
    PLAN_OPTION_DRY_RUN(proof_group),
    PLAN_OPTION_REPORT(proof_group),
    PLAN_OPTION_STATS(proof_group),
};

const cli_command cli_cmd_export = {
    .name = "export",
    .summary = "re-emit a model: conservative transcode, adapters merged, ternary planes",
    .usage = "[OPTIONS] --from-gguf FILE --out FILE",
    .description =
        "Writes the model with its weight matrices in another type, with LoRA adapters merged into "
        "them, or as ternary planes. Only "
        "matrices named *.weight whose name does not contain 'norm' are touched; a row that is no "
        "multiple of the type's block keeps its type, unlike in quench quantize; a source that is "
        "quantized already is refused. Without --dtype and --ptqtp the tensors are copied.\n\n"
        "With --adapters each adapted matrix W becomes W + (alpha / rank) B A, computed in f32 and "
        "rounded once, to the type it has or gets. What cannot be merged exactly is refused, by "
        "name.\n\n"
        "With --ptqtp each matrix NAME becomes NAME.ptqtp0, NAME.ptqtp1 and so on, of type tq2_0, "
        "whose sum stands for it.\n\n"
        "The output appears under its name only when it is whole and on the disk. A run that "
        "fails or is stopped leaves what was there before.",
    .options = CLI_OPTIONS(options),
    .takes = CLI_TAKES_WORK | CLI_TAKES_JSON,
    .n_value_bytes = sizeof(export_values),
    .run = run,
};
