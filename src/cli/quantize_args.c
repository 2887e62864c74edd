/* quantize_args.c — llama-quantize's argument syntax. Where it is lenient about numbers with
 * something after them we are not; docs/design/deviations.md lists what differs. */
#include "cli/quantize_args.h"

#include "cli/matcher.h"

#define MAX_KEY_BYTES  127 /* llama.cpp keeps an override's key and text in 128 bytes */
#define MAX_TEXT_BYTES (16 * 1024 * 1024)
#define DECIMAL_KILO   1000
#define BINARY_KILO    1024

/* --- IN [OUT] TYPE [THREADS]
 * ---------------------------------------------------------------------- */

static void default_output(const char *in, const qn_preset *preset, bool keep_split, cli_text *out)
{
    const char *slash = strrchr(in, '/');

    if (slash != NULL) {
        cli_text_add(out, in, (size_t)(slash - in) + 1);
    }
    cli_text_printf(out, "ggml-model-%s%s", preset->name, keep_split ? "" : ".gguf");
}

static bool ends_with(const cli_text *text, const char *suffix)
{
    const size_t n = strlen(suffix);

    return text->n >= n && strcmp(text->chars + text->n - n, suffix) == 0;
}

static int unknown_preset(const cli_call *call, const char *name, const qn_error *err)
{
    cli_text shown = {NULL, 0, 0};
    const char *nearest = NULL;
    int best = 3;

    for (int32_t i = 0; qn_preset_at(i) != NULL; i++) {
        const int edits = cli_edit_distance(name, qn_preset_at(i)->name, best);
        if (edits < best) {
            best = edits;
            nearest = qn_preset_at(i)->name;
        }
    }
    cli_text_escape(&shown, name, (int64_t)strlen(name), 60);
    const int status = nearest != NULL ? cli_usage_error(call, "'%s' is no type; did you mean %s?",
                                                         shown.chars, nearest)
                                       : cli_usage_error(call, "%s", err->message);
    cli_text_free(&shown);
    return status;
}

int quantize_parse_paths(const cli_call *call, quantize_paths *out_paths)
{
    const quantize_values *values = call->values;
    qn_error err = QN_ERROR_INIT;

    memset(out_paths, 0, sizeof *out_paths);
    if (call->n_args < 2) {
        return cli_usage_error(call, "expected IN [OUT] TYPE [THREADS]");
    }
    out_paths->in = call->args[0];
    /* What names a type is one, so a file called q8_0 cannot be an output without ./ before it. */
    const bool has_out = qn_preset_from_name(call->args[1], &out_paths->preset, NULL) != QN_OK;
    const int i_type = has_out ? 2 : 1;
    if (has_out && call->n_args < 3) {
        return unknown_preset(call, call->args[1], &err);
    }
    if (qn_preset_from_name(call->args[i_type], &out_paths->preset, &err) != QN_OK) {
        return unknown_preset(call, call->args[i_type], &err);
    }
    if (call->n_args > i_type + 2) {
        return cli_usage_error(call, "too many arguments; expected IN [OUT] TYPE [THREADS]");
    }
    if (call->n_args == i_type + 2 &&
        !cli_parse_int(call->args[i_type + 1], &out_paths->n_threads)) {
        return cli_usage_error(call, "THREADS is no number");
    }
    if (out_paths->n_threads < 0 || out_paths->n_threads > INT32_MAX) {
        out_paths->n_threads = 0;
    }
    if (has_out) {
        cli_text_printf(&out_paths->out, "%s", call->args[1]);
    } else {
        default_output(out_paths->in, out_paths->preset, values->keep_split, &out_paths->out);
    }
    if (values->keep_split && ends_with(&out_paths->out, ".gguf")) {
        out_paths->out.n -= strlen(".gguf");
        out_paths->out.chars[out_paths->out.n] = '\0';
    }
    return CLI_OK;
}

/* --- --tensor-type, --tensor-type-file
 * ------------------------------------------------------------ */

/* A NUL-terminated copy that lives as long as `args`. */
static char *copy_of(quantize_plan_args *args, const char *bytes, size_t n)
{
    cli_text *copies = cli_alloc((size_t)args->n_copies + 1, sizeof *copies);

    if (args->n_copies > 0) {
        memcpy(copies, args->copies, (size_t)args->n_copies * sizeof *copies);
    }
    cli_text_add(&copies[args->n_copies], bytes, n);
    free(args->copies);
    args->copies = copies;
    return copies[args->n_copies++].chars;
}

static void add_rule(quantize_plan_args *args, const char *pattern, qn_dtype dtype)
{
    qn_tensor_type_rule *rules = cli_alloc((size_t)args->n_rules + 1, sizeof *rules);

    if (args->n_rules > 0) {
        memcpy(rules, args->rules, (size_t)args->n_rules * sizeof *rules);
    }
    rules[args->n_rules++] = (qn_tensor_type_rule){pattern, dtype};
    free(args->rules);
    args->rules = rules;
}

static int bad_rule(const cli_call *call, const char *text, size_t n, const char *why)
{
    cli_text shown = {NULL, 0, 0};

    cli_text_escape(&shown, text, (int64_t)n, 80);
    const int status = cli_usage_error(call, "tensor type '%s': %s", shown.chars, why);
    cli_text_free(&shown);
    return status;
}

/* "PATTERN=TYPE": split at the first =, the pattern lower-cased, as llama-quantize does. */
static int parse_rule(const cli_call *call, const char *text, size_t n, quantize_plan_args *args)
{
    const char *equals = memchr(text, '=', n);

    if (equals == NULL || equals == text || equals == text + n - 1) {
        return bad_rule(call, text, n, "expected PATTERN=TYPE");
    }
    char *pattern = copy_of(args, text, (size_t)(equals - text));
    for (char *p = pattern; *p != '\0'; p++) {
        if (*p >= 'A' && *p <= 'Z') {
            *p = (char)(*p - 'A' + 'a');
        }
    }
    const char *type = copy_of(args, equals + 1, (size_t)(text + n - equals - 1));
    const qn_dtype dtype = qn_dtype_from_name(type);
    if (dtype == QN_DTYPE_NONE) {
        return bad_rule(call, text, n, "no such type; 'quench version' lists them");
    }
    add_rule(args, pattern, dtype);
    return CLI_OK;
}

static int parse_rule_file(const cli_call *call, const char *path, quantize_plan_args *args)
{
    static const char blanks[] = " \t\n\v\f\r";
    cli_text text = {NULL, 0, 0};
    int status = cli_read_text(path, MAX_TEXT_BYTES, &text);

    const char *p = text.chars != NULL ? text.chars : "";
    while (status == CLI_OK) {
        p += strspn(p, blanks);
        const size_t n = strcspn(p, blanks);
        if (n == 0) {
            break;
        }
        status = parse_rule(call, p, n, args);
        p += n;
    }
    cli_text_free(&text);
    return status;
}

static int parse_rules(const cli_call *call, quantize_plan_args *args)
{
    const quantize_values *values = call->values;
    int status = CLI_OK;

    for (int i = 0; i < values->tensor_types.n && status == CLI_OK; i++) {
        const char *text = values->tensor_types.items[i];
        status = parse_rule(call, text, strlen(text), args);
    }
    for (int i = 0; i < values->tensor_type_files.n && status == CLI_OK; i++) {
        status = parse_rule_file(call, values->tensor_type_files.items[i], args);
    }
    args->options.tensor_types = args->rules;
    args->options.n_tensor_types = args->n_rules;
    return status;
}

static int parse_recipe(const char *path, quantize_plan_args *args)
{
    cli_text text = {NULL, 0, 0};
    qn_error err = QN_ERROR_INIT;
    int32_t n_rules = 0;
    int status = cli_read_text(path, MAX_TEXT_BYTES, &text);

    if (status == CLI_OK &&
        qn_recipe_parse(text.chars, text.n, NULL, &args->recipe, &err) != QN_OK) {
        if (err.path[0] == '\0') {
            (void)snprintf(err.path, sizeof err.path, "%s", path);
        }
        status = cli_fail(&err);
    }
    cli_text_free(&text);
    if (status == CLI_OK) {
        args->options.recipe = qn_recipe_rules(args->recipe, &n_rules);
        args->options.n_recipe = n_rules;
    }
    return status;
}

/* --- --override-kv
 * -------------------------------------------------------------------------------- */

static int bad_override(const cli_call *call, const char *text, const char *why)
{
    cli_text shown = {NULL, 0, 0};

    cli_text_escape(&shown, text, (int64_t)strlen(text), 80);
    const int status = cli_usage_error(call, "override '%s': %s", shown.chars, why);
    cli_text_free(&shown);
    return status;
}

static int parse_override_value(const cli_call *call, const char *text, const char *typed,
                                qn_kv_override *out)
{
    char *end = NULL;

    if (strncmp(typed, "int:", 4) == 0) {
        out->kind = QN_OVERRIDE_INT;
        return cli_parse_int(typed + 4, &out->int_value)
                   ? CLI_OK
                   : bad_override(call, text, "expected a whole number after int:");
    }
    if (strncmp(typed, "float:", 6) == 0) {
        out->kind = QN_OVERRIDE_FLOAT;
        out->float_value = strtod(typed + 6, &end);
        return end != typed + 6 && *end == '\0'
                   ? CLI_OK
                   : bad_override(call, text, "expected a number after float:");
    }
    if (strncmp(typed, "bool:", 5) == 0) {
        out->kind = QN_OVERRIDE_BOOL;
        out->bool_value = strcmp(typed + 5, "true") == 0;
        return out->bool_value || strcmp(typed + 5, "false") == 0
                   ? CLI_OK
                   : bad_override(call, text, "expected true or false after bool:");
    }
    if (strncmp(typed, "str:", 4) == 0) {
        out->kind = QN_OVERRIDE_STR;
        out->str_value = typed + 4;
        return strlen(out->str_value) <= MAX_KEY_BYTES
                   ? CLI_OK
                   : bad_override(call, text, "a text has at most 127 bytes");
    }
    return bad_override(call, text, "expected KEY=int:N, float:X, bool:true or str:TEXT");
}

static int parse_override(const cli_call *call, const char *text, quantize_plan_args *args,
                          qn_kv_override *out)
{
    const char *equals = strchr(text, '=');

    if (equals == NULL || equals == text) {
        return bad_override(call, text, "expected KEY=TYPE:VALUE");
    }
    if (equals - text > MAX_KEY_BYTES) {
        return bad_override(call, text, "a key has at most 127 bytes");
    }
    out->key = copy_of(args, text, (size_t)(equals - text));
    return parse_override_value(call, text, equals + 1, out);
}

static int parse_overrides(const cli_call *call, quantize_plan_args *args)
{
    const quantize_values *values = call->values;
    const int n = values->overrides.n;
    int status = CLI_OK;

    args->overrides = cli_alloc((size_t)n, sizeof *args->overrides);
    for (int i = 0; i < n && status == CLI_OK; i++) {
        status = parse_override(call, values->overrides.items[i], args, &args->overrides[i]);
    }
    args->options.overrides = args->overrides;
    args->options.n_overrides = n;
    return status;
}

/* --- --prune-layers, sizes
 * ------------------------------------------------------------------------- */

static int parse_layers(const cli_call *call, const char *text, quantize_plan_args *args)
{
    args->layers = cli_alloc(strlen(text) / 2 + 1, sizeof *args->layers);
    for (;;) {
        char *end = NULL;
        const long layer = *text >= '0' && *text <= '9' ? strtol(text, &end, 10) : -1;
        if (layer < 0 || layer >= INT32_MAX || (*end != ',' && *end != '\0')) {
            return cli_usage_error(call, "--prune-layers: expected numbers such as 20,21,22");
        }
        args->layers[args->options.n_prune_layers++] = (int32_t)layer;
        if (*end == '\0') {
            break;
        }
        text = end + 1;
    }
    args->options.prune_layers = args->layers;
    return CLI_OK;
}

/* A shard's size as gguf-split takes it: M and G are powers of 1000; MiB and GiB of 1024. */
int cli_parse_split_size(const cli_call *call, const char *text, int64_t *out_n_bytes)
{
    static const char letters[] = "KMG";
    char *end = NULL;
    const long long number = *text >= '0' && *text <= '9' ? strtoll(text, &end, 10) : 0;
    const char *letter = end != NULL && *end != '\0' ? strchr(letters, *end) : NULL;
    const bool is_binary = letter != NULL && strcmp(end + 1, "iB") == 0;
    int64_t n_bytes = number;

    if (number <= 0 || letter == NULL ||
        !(is_binary || end[1] == '\0' || strcmp(end + 1, "B") == 0)) {
        return cli_usage_error(call, "--split-max-size: expected a size such as 2G or 500M");
    }
    for (const char *p = letters; p <= letter; p++) {
        if (__builtin_mul_overflow(n_bytes, is_binary ? BINARY_KILO : DECIMAL_KILO, &n_bytes)) {
            return cli_usage_error(call, "--split-max-size: too large");
        }
    }
    *out_n_bytes = n_bytes;
    return CLI_OK;
}

/* --- the matrix
 * ------------------------------------------------------------------------------------ */

static int open_imatrix(const cli_call *call, quantize_plan_args *args)
{
    const quantize_values *values = call->values;
    qn_error err = QN_ERROR_INIT;

    if (values->include_weights.n > 0 && values->exclude_weights.n > 0) {
        return cli_usage_error(call, "--include-weights and --exclude-weights exclude each other");
    }
    if (values->imatrix_path == NULL) {
        return CLI_OK;
    }
    if (qn_imatrix_open(values->imatrix_path, NULL, &args->imatrix, &err) != QN_OK ||
        qn_imatrix_filter(args->imatrix, values->include_weights.items, values->include_weights.n,
                          values->exclude_weights.items, values->exclude_weights.n,
                          &err) != QN_OK) {
        return cli_fail(&err);
    }
    args->options.imatrix = args->imatrix;
    args->options.imatrix_path = values->imatrix_path;
    return CLI_OK;
}

/* --- all of it
 * ------------------------------------------------------------------------------------- */

int quantize_parse_plan_args(const cli_call *call, const quantize_paths *paths,
                             quantize_plan_args *out_args)
{
    const quantize_values *values = call->values;
    qn_quantize_options *options = &out_args->options;
    int status;

    *out_args = (quantize_plan_args){.options = QN_QUANTIZE_OPTIONS_INIT};
    options->preset = paths->preset->id;
    options->allow_requantize = values->allow_requantize;
    options->leave_output_tensor = values->leave_output_tensor;
    options->is_pure = values->is_pure;
    options->keep_split = values->keep_split;
    options->is_dry_run = values->is_dry_run;
    options->allow_unmatched = values->allow_unmatched;
    options->no_fallback = values->no_fallback;
    options->split_max_tensors = values->split_max_tensors;
    options->output_tensor_type = values->output_tensor_type;
    options->token_embedding_type = values->token_embedding_type;
    options->matcher = cli_matcher();
    options->log = cli_log;
    options->log_ctx = cli_log_ctx(call);
    if ((status = parse_rules(call, out_args)) != CLI_OK ||
        (status = parse_overrides(call, out_args)) != CLI_OK ||
        (values->prune_layers != NULL &&
         (status = parse_layers(call, values->prune_layers, out_args)) != CLI_OK) ||
        (values->split_max_size != NULL &&
         (status = cli_parse_split_size(call, values->split_max_size, &options->split_max_bytes)) !=
             CLI_OK) ||
        (values->recipe_path != NULL &&
         (status = parse_recipe(values->recipe_path, out_args)) != CLI_OK)) {
        return status;
    }
    return open_imatrix(call, out_args);
}

void quantize_free_plan_args(quantize_plan_args *args)
{
    for (int i = 0; i < args->n_copies; i++) {
        cli_text_free(&args->copies[i]);
    }
    free(args->copies);
    free(args->rules);
    free(args->overrides);
    free(args->layers);
    qn_imatrix_free(args->imatrix);
    qn_recipe_free(args->recipe);
}
