/* cmd_edit.c — `quench edit`: a model's metadata and tensor names changed. */
#include "cli/plan_run.h"
#include "quench/edit.h"

#define MAX_FILE_BYTES ((size_t)64 << 20)

typedef struct edit_values {
    cli_list sets;
    cli_list set_files;
    cli_list removals;
    cli_list renames;
    cli_list tensor_removals;
    cli_list tensor_renames;
    bool keep_split;
    bool do_resume;
    bool no_sync;
    bool is_dry_run;
    bool want_sha256;
    bool show_stats;
} edit_values;

/* The edits and every text that they point to. */
typedef struct edit_list {
    qn_edit *edits;
    cli_text *texts; /* two for each edit: a name, a new name or value */
    int n;
} edit_list;

static char *keep_text(cli_text *text, const char *chars, size_t n)
{
    cli_text_add(text, "", 0);
    cli_text_add(text, chars, n);
    return text->chars;
}

static int bad_edit(const cli_call *call, const char *option, const char *text, const char *why)
{
    cli_text shown = {NULL, 0, 0};

    cli_text_escape(&shown, text, (int64_t)strlen(text), 80);
    const int status = cli_usage_error(call, "--%s '%s': %s", option, shown.chars, why);
    cli_text_free(&shown);
    return status;
}

/* "A=B": A becomes the edit's name; where B begins. NULL: there is none. */
static const char *take_name(const char *text, qn_edit *edit, cli_text *kept)
{
    const char *equals = strchr(text, '=');

    if (equals == NULL || equals == text) {
        return NULL;
    }
    edit->name = keep_text(kept, text, (size_t)(equals - text));
    return equals + 1;
}

/* --- values ------------------------------------------------------------------------------------
 */

static qn_gguf_type type_from_name(const char *name, size_t n)
{
    if (n == strlen("str") && memcmp(name, "str", n) == 0) { /* llama-quantize's word */
        return QN_GGUF_STRING;
    }
    for (int type = 0; type < QN_GGUF_TYPE_LIMIT; type++) {
        const char *known = qn_gguf_type_name((qn_gguf_type)type);
        if (type != QN_GGUF_ARRAY && strlen(known) == n && memcmp(known, name, n) == 0) {
            return (qn_gguf_type)type;
        }
    }
    return QN_GGUF_NONE;
}

/* "TYPE:" or "TYPE[]:" before a value: its length, 0 if there is none. */
static size_t take_type(const char *text, qn_edit *edit)
{
    const char *colon = strchr(text, ':');
    size_t n = colon != NULL ? (size_t)(colon - text) : 0;
    const bool is_array = n > 2 && memcmp(text + n - 2, "[]", 2) == 0;
    const qn_gguf_type type = type_from_name(text, is_array ? n - 2 : n);

    edit->type = edit->elem_type = QN_GGUF_NONE;
    if (n == 0 || type == QN_GGUF_NONE) {
        return 0;
    }
    edit->type = is_array ? QN_GGUF_ARRAY : type;
    edit->elem_type = is_array ? type : QN_GGUF_NONE;
    return n + 1;
}

static int parse_set(const cli_call *call, const char *text, qn_edit *edit, cli_text *kept)
{
    const char *value = take_name(text, edit, kept);

    if (value == NULL) {
        return bad_edit(call, "set", text, "expected KEY=VALUE or KEY=TYPE:VALUE");
    }
    edit->kind = QN_EDIT_SET;
    edit->text = value + take_type(value, edit);
    edit->n_text = (int64_t)strlen(edit->text);
    return CLI_OK;
}

static int parse_set_file(const cli_call *call, const char *text, qn_edit *edit, cli_text *kept)
{
    const char *path = take_name(text, edit, kept);

    if (path == NULL || *path == '\0') {
        return bad_edit(call, "set-file", text, "expected KEY=FILE");
    }
    cli_text_add(&kept[1], "", 0);
    const int status = cli_read_text(path, MAX_FILE_BYTES, &kept[1]);
    edit->kind = QN_EDIT_SET;
    edit->type = QN_GGUF_STRING;
    edit->text = kept[1].chars != NULL ? kept[1].chars : "";
    edit->n_text = (int64_t)kept[1].n;
    return status;
}

/* --- names -------------------------------------------------------------------------------------
 */

static int parse_removal(const cli_call *call, const char *text, qn_edit *edit, cli_text *kept)
{
    (void)kept;
    edit->kind = QN_EDIT_REMOVE;
    edit->name = text;
    return *text != '\0' ? CLI_OK : bad_edit(call, "remove", text, "expected a key");
}

static int parse_rename(const cli_call *call, const char *text, qn_edit *edit, cli_text *kept)
{
    edit->kind = QN_EDIT_RENAME;
    edit->new_name = take_name(text, edit, kept);
    return edit->new_name != NULL && *edit->new_name != '\0'
               ? CLI_OK
               : bad_edit(call, "rename", text, "expected OLD=NEW");
}

static int parse_tensor_removal(const cli_call *call, const char *text, qn_edit *edit,
                                cli_text *kept)
{
    (void)kept;
    edit->kind = QN_EDIT_REMOVE_TENSOR;
    edit->name = text;
    return *text != '\0' ? CLI_OK : bad_edit(call, "remove-tensor", text, "expected a name");
}

static int parse_tensor_rename(const cli_call *call, const char *text, qn_edit *edit,
                               cli_text *kept)
{
    edit->kind = QN_EDIT_RENAME_TENSOR;
    edit->new_name = take_name(text, edit, kept);
    return edit->new_name != NULL && *edit->new_name != '\0'
               ? CLI_OK
               : bad_edit(call, "rename-tensor", text, "expected OLD=NEW");
}

/* --- all of them -------------------------------------------------------------------------------
 */

typedef int parse_fn(const cli_call *call, const char *text, qn_edit *edit, cli_text *kept);

static int parse_list(const cli_call *call, const cli_list *list, parse_fn *parse, edit_list *out)
{
    int status = CLI_OK;

    for (int i = 0; i < list->n && status == CLI_OK; i++) {
        qn_edit *edit = &out->edits[out->n];
        status = parse(call, list->items[i], edit, &out->texts[2 * out->n]);
        out->n++;
    }
    return status;
}

/* What makes room comes before what takes it. */
static int parse_edits(const cli_call *call, edit_list *out)
{
    const edit_values *v = call->values;
    const struct {
        const cli_list *list;
        parse_fn *parse;
    } kinds[] = {
        {&v->removals, parse_removal},
        {&v->renames, parse_rename},
        {&v->sets, parse_set},
        {&v->set_files, parse_set_file},
        {&v->tensor_removals, parse_tensor_removal},
        {&v->tensor_renames, parse_tensor_rename},
    };
    size_t n = 0;
    int status = CLI_OK;

    for (int i = 0; i < CLI_COUNT(kinds); i++) {
        n += (size_t)kinds[i].list->n;
    }
    if (n == 0) {
        return cli_usage_error(call, "nothing to edit: give --set, --remove, --rename or another");
    }
    out->edits = cli_alloc(n, sizeof *out->edits);
    out->texts = cli_alloc(2 * n, sizeof *out->texts);
    for (int i = 0; i < CLI_COUNT(kinds) && status == CLI_OK; i++) {
        status = parse_list(call, kinds[i].list, kinds[i].parse, out);
    }
    return status;
}

static void free_edits(edit_list *list)
{
    for (int i = 0; i < 2 * list->n; i++) {
        cli_text_free(&list->texts[i]);
    }
    free(list->texts);
    free(list->edits);
}

/* A file's text may not take the place of a number. */
static int check_files(const cli_call *call, const qn_model *model, const edit_list *list)
{
    const qn_gguf *gguf = qn_model_metadata(model);

    for (int i = 0; i < list->n && gguf != NULL; i++) {
        const char *key = list->edits[i].name;
        const qn_gguf_entry *entry =
            qn_gguf_entry_at(gguf, qn_gguf_find_entry(gguf, key, (int64_t)strlen(key)));
        if (list->texts[2 * i + 1].chars != NULL && entry != NULL &&
            entry->type != QN_GGUF_STRING) {
            return bad_edit(call, "set-file", key,
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

static int plan_and_run(const cli_call *call, const qn_model *model, const edit_list *list,
                        double start_seconds)
{
    const edit_values *values = call->values;
    qn_edit_options options = QN_EDIT_OPTIONS_INIT;
    qn_plan *plan = NULL;
    qn_error err = QN_ERROR_INIT;
    int status = check_files(call, model, list);

    if (status != CLI_OK) {
        return status;
    }
    options.edits = list->edits;
    options.n_edits = list->n;
    options.keep_split = values->keep_split;
    options.log = cli_log;
    options.log_ctx = cli_log_ctx(call);
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

static int run(const cli_call *call)
{
    const double start_seconds = cli_clock_seconds();
    edit_list list = {NULL, NULL, 0};

    if (call->n_args != 2) {
        return cli_usage_error(call, "expected IN OUT: the input is never written to");
    }
    int status = parse_edits(call, &list);
    if (status == CLI_OK) {
        status = open_and_run(call, &list, start_seconds);
    }
    free_edits(&list);
    return status;
}

#define FIELD(name) .offset = offsetof(edit_values, name)

static const char keys_group[] = "metadata";
static const char tensors_group[] = "tensors";
static const char output_group[] = "output";

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
};

const cli_command cli_cmd_edit = {
    .name = "edit",
    .summary = "change a model's metadata and tensor names",
    .usage = "[OPTIONS] IN OUT",
    .description =
        "Writes the GGUF model IN to OUT with keys set, renamed or left out, and tensors renamed "
        "or left out. Everything else stays as it is and where it is; tensor data are copied. "
        "Removals are made first, then renames, then values are set, whatever their order on the "
        "command line.\n\n"
        "A split model becomes one file, or with --keep-split as many as it was; its split keys "
        "follow and cannot be edited.",
    .options = CLI_OPTIONS(options),
    .takes = CLI_TAKES_THREADS | CLI_TAKES_MEMORY | CLI_TAKES_JSON,
    .n_value_bytes = sizeof(edit_values),
    .run = run,
};
