/* cmd_verify.c — `quench verify`: structure, then every value, as ggml's row validator checks them;
 * of a folder the training checkpoint in it. */
#include <sys/stat.h>

#include "cli/json_out.h"
#include "cli/table.h"
#include "cli/view.h"
#include "quench/checkpoint.h"
#include "quench/model.h"
#include "quench/safetensors.h"

#define MAX_FAULTS     20 /* of one file before the rest is left unread */
#define MAX_PATH_BYTES 4096

typedef struct verify_values {
    bool is_quick;
    bool is_strict;
    bool is_imatrix;
} verify_values;

/* What was found in one file. */
typedef struct verify_result {
    const char *path;
    const char *kind; /* "gguf", "safetensors", "imatrix", "checkpoint"; NULL: not known */
    int64_t n_tensors;
    bool has_checked_values;
    qn_error faults[MAX_FAULTS];
    int n_faults;
    bool is_unfinished; /* not all was looked at: an interruption, too little memory */
    model_view view;    /* open only when the structure is good */
} verify_result;

/* What failed is the check, and says nothing of the file. */
static bool is_of_check(qn_status status)
{
    return status == QN_ERR_CANCELLED || status == QN_ERR_MEMORY_BUDGET ||
           status == QN_ERR_OUT_OF_MEMORY || status == QN_ERR_INVALID_ARGUMENT;
}

static void add_fault(verify_result *result, const qn_error *err)
{
    result->is_unfinished = result->is_unfinished || is_of_check(err->status);
    if (err->status == QN_ERR_CANCELLED) {
        return; /* said once, at the end */
    }
    if (result->n_faults < MAX_FAULTS) {
        result->faults[result->n_faults++] = *err;
    }
}

/* --- values --------------------------------------------------------------------------------------
 */

static void set_run_options(const cli_call *call, cli_progress *progress, qn_run_options *out)
{
    *out = (qn_run_options)QN_RUN_OPTIONS_INIT;
    out->n_threads = (int32_t)call->common.n_threads;
    out->memory_bytes = call->common.n_memory_bytes;
    out->isa = call->common.isa;
    out->progress = cli_progress_step;
    out->progress_ctx = progress;
}

/* Integers of any value are fine: reading gigabytes of them would find nothing. */
static bool has_values(const qn_plan *plan, int64_t index)
{
    qn_plan_item item;

    return qn_plan_item_at(plan, index, &item) && item.source->dtype != QN_DTYPE_I8 &&
           item.source->dtype != QN_DTYPE_I16 && item.source->dtype != QN_DTYPE_I32 &&
           item.source->dtype != QN_DTYPE_I64;
}

/* The next stretch of items with values, from *first on; then *first is where to go on: after it,
 * or after the bad tensor. */
static qn_status check_items(const qn_plan *plan, qn_run *run, int64_t *first, qn_error *err)
{
    const int64_t n_items = qn_plan_n_items(plan);
    int64_t start = *first;
    while (start < n_items && !has_values(plan, start)) {
        start++;
    }
    int64_t end = start;
    while (end < n_items && has_values(plan, end)) {
        end++;
    }
    *first = end;
    const qn_status status = start == end ? QN_OK : qn_run_range(run, start, end - start, err);
    const bool is_bad_value = status == QN_ERR_NON_FINITE_VALUE || status == QN_ERR_INVALID_BLOCK;
    if (is_bad_value && err->tensor_index >= start) {
        *first = err->tensor_index + 1;
    } else if (status != QN_OK) {
        *first = n_items;
    }
    return status;
}

/* Every bad tensor is a fault; anything else ends the check. One run serves for all stretches, up
 * to a fault, which ends it. */
static void check_plan(const cli_call *call, const qn_plan *plan, verify_result *result)
{
    cli_progress progress;
    qn_run_options options;
    qn_run *run = NULL;

    cli_progress_begin(&progress, call, "verify");
    set_run_options(call, &progress, &options);
    for (int64_t first = 0; first < qn_plan_n_items(plan) && result->n_faults < MAX_FAULTS;) {
        qn_error err = QN_ERROR_INIT;
        qn_status status = run != NULL ? QN_OK : qn_run_begin(plan, NULL, &options, &run, &err);
        if (status != QN_OK) {
            first = qn_plan_n_items(plan);
        } else {
            status = check_items(plan, run, &first, &err);
        }
        if (status != QN_OK) {
            add_fault(result, &err);
            qn_run_free(run);
            run = NULL;
        }
    }
    qn_run_free(run);
    cli_progress_end(&progress);
    result->has_checked_values = !result->is_unfinished;
}

static void warn_unchecked(verify_result *result, const qn_error *err)
{
    cli_text text = {NULL, 0, 0};

    cli_text_printf(&text, "the values were not checked: %s", err->message);
    (void)view_add_warning(&result->view, text.chars);
    cli_text_free(&text);
}

/* A safetensors file need not be a model: no fault of the file. */
static bool is_beyond_us(const verify_result *result, qn_status status)
{
    return strcmp(result->kind, "safetensors") == 0 && status == QN_ERR_NOT_A_MODEL;
}

/* Types that have no counterpart here stand as bytes, of which any are fine. */
static void warn_of_opaque(verify_result *result, const qn_model *model)
{
    char text[160];
    int64_t n = 0;

    for (int64_t i = 0; i < qn_model_n_tensors(model); i++) {
        const qn_tensor_info *tensor = qn_model_tensor(model, i);
        n += tensor->is_opaque && tensor->dtype == QN_DTYPE_I8;
    }
    if (n > 0) {
        (void)snprintf(text, sizeof text,
                       "the values of %" PRId64 " of %" PRId64
                       " tensors were not checked: their types have no counterpart here",
                       n, qn_model_n_tensors(model));
        (void)view_add_warning(&result->view, text);
    }
}

static void check_values(const cli_call *call, verify_result *result)
{
    qn_model_options options = QN_MODEL_OPTIONS_INIT;
    qn_model *model = NULL;
    qn_plan *plan = NULL;
    qn_error err = QN_ERROR_INIT;

    options.takes_opaque = true;
    const qn_status status = qn_model_open(result->path, &options, &model, &err);
    if (is_beyond_us(result, status)) {
        warn_unchecked(result, &err);
    } else if (status != QN_OK || qn_plan_read(model, NULL, 0, true, NULL, &plan, &err) != QN_OK) {
        add_fault(result, &err);
    } else {
        check_plan(call, plan, result);
        warn_of_opaque(result, model);
    }
    qn_plan_free(plan);
    qn_model_close(model);
}

/* --- one file ------------------------------------------------------------------------------------
 */

static bool says_imatrix(const model_view *view)
{
    qn_gguf_string type;

    return strcmp(view->format, "gguf") == 0 &&
           qn_gguf_get_string(view->source, "general.type", &type, NULL) == QN_OK &&
           type.n_bytes == 7 && memcmp(type.bytes, "imatrix", 7) == 0;
}

/* The matrix as a whole: every entry has both halves and only finite values. */
static qn_status try_imatrix(verify_result *result, qn_error *err)
{
    qn_imatrix *imatrix = NULL;
    const qn_status status = qn_imatrix_open(result->path, NULL, &imatrix, err);

    if (status == QN_OK) {
        result->kind = "imatrix";
        result->n_tensors = qn_imatrix_n_entries(imatrix);
        result->has_checked_values = true;
        qn_imatrix_free(imatrix);
    }
    return status;
}

/* A file that says that it is a matrix and is not may still be a fine GGUF file. */
static void warn_of_imatrix(verify_result *result)
{
    qn_error err = QN_ERROR_INIT;
    cli_text text = {NULL, 0, 0};

    const qn_status status = try_imatrix(result, &err);
    if (status == QN_OK) {
        return;
    }
    if (status == QN_ERR_IO || status == QN_ERR_FILE_CHANGED || status == QN_ERR_OUT_OF_MEMORY) {
        add_fault(result, &err); /* says nothing about the matrix */
        return;
    }
    cli_text_printf(&text, "no quantizer can use it as an importance matrix: %s", err.message);
    (void)view_add_warning(&result->view, text.chars);
    cli_text_free(&text);
}

static bool is_folder(const char *path)
{
    struct stat info;

    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

/* The last complete save in a folder, as `quench checkpoint verify` checks it. */
static void verify_checkpoint(verify_result *result)
{
    char save[MAX_PATH_BYTES];
    qn_checkpoint_report report;
    qn_error err = QN_ERROR_INIT;
    cli_text hint = {NULL, 0, 0};

    if (qn_checkpoint_find(result->path, save, sizeof save, &err) != QN_OK) {
        cli_text_printf(&hint, "a folder is checked as a training checkpoint: %s", err.message);
        (void)snprintf(err.message, sizeof err.message, "%s", hint.chars);
        cli_text_free(&hint);
        add_fault(result, &err);
        return;
    }
    result->kind = "checkpoint";
    if (strcmp(save, result->path) != 0) {
        (void)view_add_warning(&result->view, "the last save was not completed; checked was the "
                                              "one before, in prev/");
    }
    if (qn_checkpoint_verify(save, &report, &err) != QN_OK) {
        add_fault(result, &err);
        return;
    }
    result->n_tensors = report.has_model + report.has_adapters + report.has_optimizer;
    if (!report.has_digests) {
        (void)view_add_warning(&result->view,
                               "the save has no digests: a payload of another save is not told");
    }
}

static bool ends_with(const char *text, const char *suffix)
{
    const size_t n = strlen(text), n_suffix = strlen(suffix);

    return n >= n_suffix && strcmp(text + n - n_suffix, suffix) == 0;
}

/* What did not open, with `first`. Of a sharded model every missing and every short shard is named.
 */
static void add_open_faults(verify_result *result, const qn_error *first)
{
    qn_safetensors_options options = QN_SAFETENSORS_OPTIONS_INIT;
    qn_safetensors *st = NULL;

    options.keep_damaged = true;
    if (first->status == QN_ERR_NOT_A_MODEL ||
        qn_safetensors_open(result->path, &options, &st, NULL) != QN_OK ||
        qn_safetensors_damage(st, 0) == NULL) {
        add_fault(result, first);
    } else {
        for (int64_t i = 0; qn_safetensors_damage(st, i) != NULL; i++) {
            add_fault(result, qn_safetensors_damage(st, i));
        }
    }
    qn_safetensors_close(st);
}

static void verify_one(const cli_call *call, const char *path, verify_result *out_result)
{
    const verify_values *values = call->values;
    const view_options options = {.is_strict = values->is_strict, .is_deep = !values->is_quick};
    qn_error err = QN_ERROR_INIT;

    memset(out_result, 0, sizeof *out_result);
    out_result->path = path;
    if (is_folder(path)) {
        verify_checkpoint(out_result);
        return;
    }
    /* The older form of a matrix has no magic to tell it by. */
    if (values->is_imatrix || ends_with(path, ".dat") || ends_with(path, ".imatrix")) {
        if (try_imatrix(out_result, &err) != QN_OK) {
            add_fault(out_result, &err);
        }
        return;
    }
    if (view_try_open(path, &options, &out_result->view, &err) != QN_OK) {
        add_open_faults(out_result, &err);
        return;
    }
    out_result->kind = out_result->view.format;
    out_result->n_tensors = out_result->view.n_tensors;
    if (!values->is_quick) {
        check_values(call, out_result);
    }
    if (says_imatrix(&out_result->view) && out_result->n_faults == 0) {
        warn_of_imatrix(out_result);
    }
}

/* --- text ----------------------------------------------------------------------------------------
 */

/* What n_tensors counts. */
static const char *parts_word(const char *kind)
{
    if (strcmp(kind, "checkpoint") == 0) {
        return "payloads";
    }
    return strcmp(kind, "imatrix") == 0 ? "entries" : "tensors";
}

/* A fault of the file itself. */
static bool is_bad(const verify_result *result)
{
    for (int i = 0; i < result->n_faults; i++) {
        if (!is_of_check(result->faults[i].status)) {
            return true;
        }
    }
    return false;
}

static void print_result(const cli_call *call, const verify_result *result)
{
    cli_text path = {NULL, 0, 0};
    char number[CLI_NUMBER_MAX];

    for (int i = 0; i < result->n_faults; i++) {
        (void)cli_fail(&result->faults[i]);
    }
    if (call->common.quiet) {
        return;
    }
    cli_text_escape(&path, result->path, (int64_t)strlen(result->path), 0);
    for (int64_t i = 0; i < result->view.n_warnings; i++) {
        (void)printf("%s: warning: %s\n", path.chars, result->view.warnings[i].text.chars);
    }
    if (is_bad(result)) {
        (void)printf("%s: BAD\n", path.chars);
    } else if (result->is_unfinished) {
        (void)printf("%s: not checked to the end\n", path.chars);
    } else {
        (void)printf("%s: ok: %s, %s %s, %s", path.chars, result->kind,
                     cli_grouped(result->n_tensors, number), parts_word(result->kind),
                     result->has_checked_values ? "structure and values checked"
                                                : "structure checked");
        (void)printf(result->view.n_warnings == 1 ? ", %s warning\n" : ", %s warnings\n",
                     cli_grouped(result->view.n_warnings, number));
    }
    cli_text_free(&path);
}

/* --- JSON ----------------------------------------------------------------------------------------
 */

static void faults_json(qn_json_writer *json, const verify_result *result)
{
    qn_json_key(json, "errors");
    qn_json_begin_array(json);
    for (int i = 0; i < result->n_faults; i++) {
        const qn_error *fault = &result->faults[i];
        qn_json_begin_object(json);
        qn_json_member_string(json, "status", qn_status_name(fault->status));
        qn_json_member_string(json, "file", fault->path);
        qn_json_member_i64(json, "offset", fault->offset);
        qn_json_member_i64(json, "tensor", fault->tensor_index);
        qn_json_member_string(json, "message", fault->message);
        qn_json_end_object(json);
    }
    qn_json_end_array(json);
}

static void readers_json(qn_json_writer *json, uint32_t readers)
{
    static const struct {
        uint32_t bit;
        const char *name;
    } names[] = {{QN_GGUF_READER_GGML, "ggml"},
                 {QN_GGUF_READER_GGML_DATA, "ggml-data"},
                 {QN_GGUF_READER_GGUF_PY, "gguf-py"}};

    qn_json_key(json, "refused_by");
    qn_json_begin_array(json);
    for (int i = 0; i < CLI_COUNT(names); i++) {
        if ((readers & names[i].bit) != 0) {
            qn_json_string(json, names[i].name);
        }
    }
    qn_json_end_array(json);
}

static void warnings_json(qn_json_writer *json, const model_view *view)
{
    qn_json_key(json, "warnings");
    qn_json_begin_array(json);
    for (int64_t i = 0; i < view->n_warnings; i++) {
        const view_warning *warning = &view->warnings[i];
        qn_json_begin_object(json);
        qn_json_member_i64(json, "code", warning->code);
        qn_json_member_i64(json, "n_found", warning->n_found);
        qn_json_member_i64(json, "offset", warning->offset);
        readers_json(json, warning->readers);
        qn_json_member_string(json, "message", warning->text.chars);
        qn_json_end_object(json);
    }
    qn_json_end_array(json);
}

static void result_json(qn_json_writer *json, const verify_result *result)
{
    qn_json_begin_object(json);
    qn_json_member_string(json, "path", result->path);
    qn_json_member_string(json, "format", result->kind);
    qn_json_member_bool(json, "is_ok", result->n_faults == 0 && !result->is_unfinished);
    qn_json_member_bool(json, "is_finished", !result->is_unfinished);
    qn_json_member_i64(json, "n_tensors", result->n_tensors);
    qn_json_member_bool(json, "has_checked_values", result->has_checked_values);
    faults_json(json, result);
    warnings_json(json, &result->view);
    qn_json_end_object(json);
}

/* --- the command ---------------------------------------------------------------------------------
 */

static int run(const cli_call *call)
{
    qn_json_writer *json = NULL;
    int status = CLI_OK;

    if (call->n_args == 0) {
        return cli_usage_error(call, "expected at least one FILE or DIR");
    }
    if (call->common.json) {
        json = cli_json_begin(stdout);
        qn_json_begin_array(json);
    }
    int n_done = 0;
    for (int i = 0; i < call->n_args && !cli_is_interrupted(); i++) {
        verify_result result;
        verify_one(call, call->args[i], &result);
        if (json != NULL) {
            result_json(json, &result);
        } else {
            print_result(call, &result);
        }
        status = result.n_faults > 0 || result.is_unfinished ? CLI_FAILED : status;
        n_done += !result.is_unfinished;
        view_close(&result.view);
    }
    if (json != NULL) {
        qn_json_end_array(json);
        status = cli_json_end(json, stdout, CLI_OK) == CLI_OK ? status : CLI_FAILED;
    }
    if (cli_is_interrupted() && n_done < call->n_args) {
        cli_error("interrupted; %d of %d files were checked to the end", n_done, call->n_args);
        status = CLI_FAILED;
    }
    return status;
}

static const cli_option options[] = {
    {.name = "quick",
     .help = "check the structure only, without reading the weights",
     .kind = CLI_FLAG,
     .offset = offsetof(verify_values, is_quick)},
    {.name = "strict",
     .help = "accept exactly what ggml's reader accepts",
     .kind = CLI_FLAG,
     .offset = offsetof(verify_values, is_strict)},
    {.name = "imatrix",
     .help = "FILE is an importance matrix, in GGUF or .dat form",
     .kind = CLI_FLAG,
     .offset = offsetof(verify_values, is_imatrix)},
};

const cli_command cli_cmd_verify = {
    .name = "verify",
    .summary = "check the structure and the values of model files",
    .usage = "[OPTIONS] FILE|DIR...",
    .description =
        "Checks that FILE is a whole and valid GGUF file, split model, safetensors file or index "
        "of one; then reads all weights and checks them as ggml does: no NaN, no infinity, no "
        "bad scale. With --imatrix, and for names that end in .imatrix or .dat, it must be an "
        "importance matrix. Of a DIR the training checkpoint in it is checked.\n\n"
        "What is odd but has one meaning is a warning that says which reader would refuse it; "
        "warnings do not change the exit status.",
    .options = CLI_OPTIONS(options),
    .takes = CLI_TAKES_WORK | CLI_TAKES_JSON,
    .n_value_bytes = sizeof(verify_values),
    .exit_1 = "something is wrong with a file, or it could not be read; a line for each fault says "
              "what",
    .run = run,
};
