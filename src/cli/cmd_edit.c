/* cmd_edit.c — `quench edit`: a model's metadata and tensor names changed. */
#include "cli/edit_args.h"
#include "cli/json_out.h"
#include "cli/plan_run.h"
#include "quench/edit.h"

/* A file's text may not take the place of a number. */
static int check_files(const cli_call *call, const qn_gguf *gguf, const edit_list *list)
{
    for (int i = 0; i < list->n && gguf != NULL; i++) {
        const char *key = list->edits[i].name;
        const qn_gguf_entry *entry =
            qn_gguf_entry_at(gguf, qn_gguf_find_entry(gguf, key, (int64_t)strlen(key)));
        if (list->texts[2 * i + 1].chars != NULL && entry != NULL &&
            entry->type != QN_GGUF_STRING) {
            return edit_args_bad(call, "set-file", key,
                                 "the key is no string; give its value with --set");
        }
    }
    return CLI_OK;
}

/* --- the run -----------------------------------------------------------------------------------
 */

/* The files of --set-file, which the output may not replace; free the items. */
static cli_list read_files(const edit_values *values)
{
    cli_list files = {cli_alloc((size_t)values->set_files.n + 1, sizeof *files.items), 0};

    for (int i = 0; i < values->set_files.n; i++) {
        files.items[files.n++] = strchr(values->set_files.items[i], '=') + 1;
    }
    return files;
}

static int run_plan(const cli_call *call, const qn_model *model, const plan_view *view,
                    double start_seconds)
{
    const edit_values *values = call->values;
    plan_job job = {.model = model,
                    .view = *view,
                    .options = QN_RUN_OPTIONS_INIT,
                    .want_sha256 = values->want_sha256,
                    .start_seconds = start_seconds};

    job.options.do_resume = values->do_resume;
    job.options.no_sync = values->no_sync;
    cli_list inputs = read_files(values);
    job.options.inputs = inputs.items;
    job.options.n_inputs = inputs.n;
    const int status = plan_run(call, &job);
    free(inputs.items);
    return status;
}

static void set_edits(const cli_call *call, const edit_list *list, qn_edit_options *options)
{
    const edit_values *values = call->values;

    options->edits = list->edits;
    options->n_edits = list->n;
    options->keep_split = values->keep_split;
    options->reserve = values->reserve;
    options->log = cli_log;
    options->log_ctx = cli_log_ctx(call);
}

static int plan_and_run(const cli_call *call, const qn_model *model, const edit_list *list,
                        double start_seconds)
{
    const edit_values *values = call->values;
    qn_edit_options options = QN_EDIT_OPTIONS_INIT;
    qn_plan *plan = NULL;
    qn_error err = QN_ERROR_INIT;
    int status = check_files(call, qn_model_metadata(model), list);

    if (status != CLI_OK) {
        return status;
    }
    set_edits(call, list, &options);
    if (qn_plan_edit(model, &options, &plan, &err) != QN_OK) {
        if (err.path[0] == '\0') {
            (void)snprintf(err.path, sizeof err.path, "%s", call->args[0]);
        }
        return cli_fail(&err);
    }
    const plan_view view = {.plan = plan,
                            .in = call->args[0],
                            .out = call->args[1],
                            .what_key = "mode",
                            .what = "edit",
                            .show_stats = values->show_stats};
    if (values->is_dry_run) {
        plan_show(call, &view);
    } else {
        status = run_plan(call, model, &view, start_seconds);
    }
    qn_plan_free(plan);
    return status;
}

static int open_and_run(const cli_call *call, const edit_list *list, double start_seconds)
{
    qn_model *model = NULL;

    int status = cli_open_model(call, call->args[0], NULL, &model);
    if (status == CLI_OK) {
        status = plan_and_run(call, model, list, start_seconds);
    }
    qn_model_close(model);
    return status;
}

/* --- in place -----------------------------------------------------------------------------------
 */

static void show_in_place(const cli_call *call, const qn_edit_result *result)
{
    const edit_values *values = call->values;
    const char *verb = values->is_dry_run ? "would be" : "was";
    char header[CLI_NUMBER_MAX], grown[CLI_NUMBER_MAX], left[CLI_NUMBER_MAX];
    cli_text name = {NULL, 0, 0};

    if (call->common.quiet) {
        return;
    }
    cli_text_escape(&name, call->args[0], (int64_t)strlen(call->args[0]), 0);
    printf("%s: the header of %s bytes %s written in place\n", name.chars,
           cli_grouped(result->n_header_bytes, header), verb);
    if (result->n_inserted > 0) {
        printf("the file %s made %s bytes longer at its front\n", verb,
               cli_grouped(result->n_inserted, grown));
    }
    printf("%s bytes are left for later edits\n", cli_grouped(result->n_reserved, left));
    cli_text_free(&name);
}

static int show_in_place_json(const cli_call *call, const qn_edit_result *result)
{
    const edit_values *values = call->values;
    qn_json_writer *json = cli_json_begin(stdout);

    qn_json_begin_object(json);
    qn_json_member_string(json, "mode", "edit in place");
    qn_json_member_string(json, "file", call->args[0]);
    qn_json_member_bool(json, "is_dry_run", values->is_dry_run);
    qn_json_member_i64(json, "header_bytes", result->n_header_bytes);
    qn_json_member_i64(json, "inserted_bytes", result->n_inserted);
    qn_json_member_i64(json, "reserved_bytes", result->n_reserved);
    qn_json_end_object(json);
    return cli_json_end(json, stdout, CLI_OK);
}

/* check_files() for a file that is not open yet. */
static int check_files_at(const cli_call *call, const edit_list *list)
{
    const edit_values *values = call->values;
    qn_gguf_options options = QN_GGUF_OPTIONS_INIT;
    qn_gguf *gguf = NULL;
    qn_error err = QN_ERROR_INIT;

    options.single_shard = true;
    if (values->set_files.n == 0 || qn_edit_check(call->args[0], &err) != QN_OK) {
        return CLI_OK; /* the edit says it */
    }
    if (qn_gguf_open(call->args[0], &options, &gguf, &err) != QN_OK) {
        return cli_fail(&err);
    }
    const int status = check_files(call, gguf, list);
    qn_gguf_close(gguf);
    return status;
}

static int edit_in_place(const cli_call *call, const edit_list *list)
{
    const edit_values *values = call->values;
    qn_edit_options options = QN_EDIT_OPTIONS_INIT;
    qn_edit_result result;
    qn_error err = QN_ERROR_INIT;

    set_edits(call, list, &options);
    cli_guard_input(call->args[0]);
    const int checked = check_files_at(call, list);
    if (checked != CLI_OK) {
        return checked;
    }
    if (qn_edit_in_place(call->args[0], &options, values->is_dry_run, &result, &err) != QN_OK) {
        return cli_fail(&err);
    }
    cli_guard_input(NULL);
    if (!values->is_dry_run && !result.is_claimed) {
        cli_log(cli_log_ctx(call), QN_LOG_WARNING,
                "it cannot be told here whether another process has the file open: one that has "
                "may see a mixture of old and new");
    }
    if (call->common.json) {
        return show_in_place_json(call, &result);
    }
    show_in_place(call, &result);
    return CLI_OK;
}

static int recover(const cli_call *call)
{
    static const char *const outcomes[] = {"no edit of it was interrupted", "the edit is finished",
                                           "the edit had not begun: the file is as it was"};
    qn_edit_recovery recovery;
    qn_error err = QN_ERROR_INIT;
    cli_text name = {NULL, 0, 0};

    if (qn_edit_recover(call->args[0], &recovery, &err) != QN_OK) {
        return cli_fail(&err);
    }
    if (!call->common.quiet) {
        cli_text_escape(&name, call->args[0], (int64_t)strlen(call->args[0]), 0);
        printf("%s: %s\n", name.chars, outcomes[recovery]);
        cli_text_free(&name);
    }
    return CLI_OK;
}

/* What is said about outputs means nothing without one. */
static int check_in_place(const cli_call *call)
{
    const edit_values *v = call->values;
    const struct {
        bool is_set;
        const char *name;
    } others[] = {{v->keep_split, "keep-split"}, {v->do_resume, "resume"},
                  {v->no_sync, "no-sync"},       {v->want_sha256, "sha256"},
                  {v->show_stats, "stats"},      {v->is_in_place && v->do_recover, "recover"}};
    const char *option = v->is_in_place ? "in-place" : "recover";

    for (int i = 0; i < CLI_COUNT(others); i++) {
        if (others[i].is_set) {
            return cli_usage_error(call, "--%s: not together with --%s", option, others[i].name);
        }
    }
    return call->n_args == 1 ? CLI_OK : cli_usage_error(call, "--%s: expected one FILE", option);
}

/* --- the command --------------------------------------------------------------------------------
 */

static int run_edits(const cli_call *call)
{
    const edit_values *values = call->values;
    const double start_seconds = cli_clock_seconds();
    edit_list list = {NULL, NULL, 0};
    int status = edit_args_parse(call, &list);

    if (status == CLI_OK) {
        status = values->is_in_place ? edit_in_place(call, &list)
                                     : open_and_run(call, &list, start_seconds);
    }
    edit_args_free(&list);
    return status;
}

static int run(const cli_call *call)
{
    const edit_values *values = call->values;

    if (values->is_in_place || values->do_recover) {
        const int status = check_in_place(call);
        return status != CLI_OK ? status : values->do_recover ? recover(call) : run_edits(call);
    }
    if (call->n_args != 2) {
        return cli_usage_error(call, "expected IN OUT, or --in-place FILE");
    }
    return run_edits(call);
}

#define FIELD(name) .offset = offsetof(edit_values, name)

static const char keys_group[] = "metadata";
static const char tensors_group[] = "tensors";
static const char output_group[] = "output";
static const char place_group[] = "in place";

static const cli_option options[] = {
    {.name = "set",
     .arg = "KEY=[TYPE:]VALUE",
     .group = keys_group,
     .kind = CLI_LIST,
     FIELD(sets),
     .help = "give KEY this value; a key that is there keeps its type and place, a new one needs "
             "TYPE: u8 to u64, i8 to i64, f32, f64, bool, string, or one of them with [] for an "
             "array, whose value is JSON; may be given several times, like all of these"},
    {.name = "set-file",
     .arg = "KEY=FILE",
     .group = keys_group,
     .kind = CLI_LIST,
     FIELD(set_files),
     .help = "give KEY the text in FILE as a string: a chat template"},
    {.name = "remove",
     .arg = "KEY",
     .group = keys_group,
     .kind = CLI_LIST,
     FIELD(removals),
     .help = "leave KEY out"},
    {.name = "rename",
     .arg = "OLD=NEW",
     .group = keys_group,
     .kind = CLI_LIST,
     FIELD(renames),
     .help = "give the value of OLD the key NEW"},
    {.name = "remove-tensor",
     .arg = "NAME",
     .group = tensors_group,
     .kind = CLI_LIST,
     FIELD(tensor_removals),
     .help = "leave the tensor out"},
    {.name = "rename-tensor",
     .arg = "OLD=NEW",
     .group = tensors_group,
     .kind = CLI_LIST,
     FIELD(tensor_renames),
     .help = "give the tensor OLD the name NEW"},
    PLAN_OPTION_KEEP_SPLIT(output_group),
    PLAN_OPTION_RESUME(output_group),
    PLAN_OPTION_NO_SYNC(output_group),
    PLAN_OPTION_DRY_RUN(output_group),
    {.name = "sha256",
     .group = output_group,
     .kind = CLI_FLAG,
     FIELD(want_sha256),
     .help = "print the digest of the output, computed while it is written"},
    PLAN_OPTION_STATS(output_group),
    {.name = "in-place",
     .group = place_group,
     .kind = CLI_FLAG,
     FIELD(is_in_place),
     .help = "change FILE itself: only its header is written, which takes as long for any size"},
    {.name = "reserve",
     .arg = "SIZE",
     .group = place_group,
     .kind = CLI_SIZE,
     .max = (int64_t)1 << 30,
     FIELD(reserve),
     .help =
         "keep so much of the header free for later edits in place, in the key quench.reserved"},
    {.name = "recover",
     .group = place_group,
     .kind = CLI_FLAG,
     FIELD(do_recover),
     .help = "finish an edit of FILE in place that was interrupted; no edits are given"},
};

const cli_command cli_cmd_edit = {
    .name = "edit",
    .summary = "change a model's metadata and tensor names",
    .usage = "[OPTIONS] IN OUT | --in-place FILE | --recover FILE",
    .description =
        "Writes the GGUF model IN to OUT with keys set, renamed or left out, and tensors renamed "
        "or left out. Everything else stays as it is and where it is; tensor data are copied. "
        "Removals are made first, then renames, then values are set, whatever their order on the "
        "command line.\n\n"
        "A split model becomes one file, or with --keep-split as many as it was; its split keys "
        "follow and cannot be edited.\n\n"
        "With --in-place only the header of FILE is written: its tensors stay where they are, and "
        "one file is edited, also if it is a part of a split model. Tensors are not removed in "
        "place.",
    .options = CLI_OPTIONS(options),
    .takes = CLI_TAKES_THREADS | CLI_TAKES_MEMORY | CLI_TAKES_JSON,
    .n_value_bytes = sizeof(edit_values),
    .run = run,
};
