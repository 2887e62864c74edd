/* edit_args.c — the options of `quench edit` turned into a list of edits. */
#include "cli/edit_args.h"

#define MAX_FILE_BYTES ((size_t)64 << 20)

static char *keep_text(cli_text *text, const char *chars, size_t n)
{
    cli_text_add(text, "", 0);
    cli_text_add(text, chars, n);
    return text->chars;
}

int edit_args_bad(const cli_call *call, const char *option, const char *text, const char *why)
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
        return edit_args_bad(call, "set", text, "expected KEY=VALUE or KEY=TYPE:VALUE");
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
        return edit_args_bad(call, "set-file", text, "expected KEY=FILE");
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
    return *text != '\0' ? CLI_OK : edit_args_bad(call, "remove", text, "expected a key");
}

static int parse_rename(const cli_call *call, const char *text, qn_edit *edit, cli_text *kept)
{
    edit->kind = QN_EDIT_RENAME;
    edit->new_name = take_name(text, edit, kept);
    return edit->new_name != NULL && *edit->new_name != '\0'
               ? CLI_OK
               : edit_args_bad(call, "rename", text, "expected OLD=NEW");
}

static int parse_tensor_removal(const cli_call *call, const char *text, qn_edit *edit,
                                cli_text *kept)
{
    (void)kept;
    edit->kind = QN_EDIT_REMOVE_TENSOR;
    edit->name = text;
    return *text != '\0' ? CLI_OK : edit_args_bad(call, "remove-tensor", text, "expected a name");
}

static int parse_tensor_rename(const cli_call *call, const char *text, qn_edit *edit,
                               cli_text *kept)
{
    edit->kind = QN_EDIT_RENAME_TENSOR;
    edit->new_name = take_name(text, edit, kept);
    return edit->new_name != NULL && *edit->new_name != '\0'
               ? CLI_OK
               : edit_args_bad(call, "rename-tensor", text, "expected OLD=NEW");
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

int edit_args_parse(const cli_call *call, edit_list *out)
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

void edit_args_free(edit_list *list)
{
    for (int i = 0; i < 2 * list->n; i++) {
        cli_text_free(&list->texts[i]);
    }
    free(list->texts);
    free(list->edits);
}
