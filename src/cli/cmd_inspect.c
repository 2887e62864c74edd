/* cmd_inspect.c — `quench inspect`: summary, sizes that add up, metadata, tensors. */
#include "cli/json_out.h"
#include "cli/table.h"
#include "cli/view.h"

#define MAX_VALUE_CHARS   60 /* of a metadata value in the table */
#define MAX_JSON_ELEMENTS 64 /* of a metadata array in JSON */
#define MAX_TYPES         64

typedef struct inspect_values {
    bool summary_only;
    bool is_full;
    bool is_strict;
} inspect_values;

/* Tensors of one type, summed. */
typedef struct type_sum {
    const char *type;
    int64_t n_tensors;
    int64_t n_elems;
    int64_t n_bytes;
} type_sum;

typedef struct inspect_sums {
    type_sum types[MAX_TYPES];
    int n_types;
    int64_t n_elems;
    view_file all; /* of all files together */
} inspect_sums;

static void add_tensor(inspect_sums *sums, const view_tensor *tensor)
{
    int i = 0;

    while (i < sums->n_types && strcmp(sums->types[i].type, tensor->type) != 0) {
        i++;
    }
    if (i == MAX_TYPES) {
        return;
    }
    if (i == sums->n_types) {
        sums->n_types++;
        sums->types[i].type = tensor->type;
    }
    sums->types[i].n_tensors++;
    sums->types[i].n_elems += tensor->n_elems;
    sums->types[i].n_bytes += tensor->n_bytes;
    sums->n_elems += tensor->n_elems;
}

static void sum_up(const model_view *view, inspect_sums *sums)
{
    memset(sums, 0, sizeof *sums);
    for (int64_t i = 0; i < view->n_tensors; i++) {
        view_tensor tensor;
        view->tensor(view, i, &tensor);
        add_tensor(sums, &tensor);
    }
    for (int64_t i = 0; i < view->n_files; i++) {
        sums->all.n_header_bytes += view->files[i].n_header_bytes;
        sums->all.n_padding_bytes += view->files[i].n_padding_bytes;
        sums->all.n_tensor_bytes += view->files[i].n_tensor_bytes;
        sums->all.n_file_bytes += view->files[i].n_file_bytes;
    }
}

static int64_t total_of(const view_file *file)
{
    return file->n_header_bytes + file->n_padding_bytes + file->n_tensor_bytes;
}

static double bits_per_weight(int64_t n_bytes, int64_t n_elems)
{
    return n_elems > 0 ? 8.0 * (double)n_bytes / (double)n_elems : 0.0;
}

/* --- text ---------------------------------------------------------------------------------------
 */

static void put_line(const char *name, const char *text)
{
    (void)printf("  %-13s %s\n", name, text);
}

static void put_optional(const char *name, const cli_text *text)
{
    if (text->n > 0) {
        put_line(name, text->chars);
    }
}

static void print_summary(const model_view *view, const inspect_sums *sums)
{
    char number[CLI_NUMBER_MAX], scaled[CLI_NUMBER_MAX];
    cli_text path = {NULL, 0, 0};

    cli_text_escape(&path, view->path, (int64_t)strlen(view->path), 0);
    (void)printf("%s\n", path.chars);
    cli_text_free(&path);
    put_optional("format", &view->layout);
    put_optional("name", &view->title);
    put_optional("architecture", &view->architecture);
    put_optional("file type", &view->file_type);
    if (view->n_files > 1) {
        (void)printf("  %-13s %" PRId64 "\n", "files", view->n_files);
    }
    (void)printf("  %-13s %s", "parameters", cli_grouped(sums->n_elems, number));
    (void)printf(sums->n_elems >= 1000 ? " (%s)\n" : "\n", cli_count(sums->n_elems, scaled));
    put_line("tensors", cli_grouped(view->n_tensors, number));
    put_line("metadata", cli_grouped(view->n_entries, number));
    if (sums->n_elems > 0) {
        (void)printf("  %-13s %.3f\n", "bits/weight",
                     bits_per_weight(sums->all.n_tensor_bytes, sums->n_elems));
    }
}

static void print_size_row(cli_table *table, const char *label, const view_file *file)
{
    char number[CLI_NUMBER_MAX];

    cli_table_row(table);
    cli_table_name(table, label, (int64_t)strlen(label), 0);
    cli_table_cell(table, cli_grouped(file->n_header_bytes, number));
    cli_table_cell(table, cli_grouped(file->n_padding_bytes, number));
    cli_table_cell(table, cli_grouped(file->n_tensor_bytes, number));
    cli_table_cell(table, cli_grouped(total_of(file), number));
    cli_table_cell(table, cli_grouped(file->n_file_bytes, number));
    cli_table_cell(table, total_of(file) == file->n_file_bytes ? "equal" : "DIFFERENT");
}

static void print_sizes(const model_view *view, const inspect_sums *sums)
{
    static const char *const titles[] = {"HEADER", "PADDING",   "TENSORS",
                                         "SUM",    "FILE SIZE", "CHECK"};
    cli_table *table = cli_table_new();

    (void)printf("\nsizes in bytes: header + padding + tensors = file size\n");
    cli_table_column(table, "FILE", CLI_LEFT);
    for (int i = 0; i < CLI_COUNT(titles); i++) {
        cli_table_column(table, titles[i], i < CLI_COUNT(titles) - 1 ? CLI_RIGHT : CLI_LEFT);
    }
    for (int64_t i = 0; i < view->n_files; i++) {
        const char *slash = strrchr(view->files[i].path, '/');
        print_size_row(table, slash != NULL ? slash + 1 : view->files[i].path, &view->files[i]);
    }
    if (view->n_files > 1) {
        print_size_row(table, "all", &sums->all);
    }
    cli_table_print(table);
    cli_table_free(table);
}

static void print_types(const inspect_sums *sums)
{
    cli_table *table = cli_table_new();
    char number[CLI_NUMBER_MAX];

    (void)printf("\ntypes\n");
    cli_table_column(table, "TYPE", CLI_LEFT);
    cli_table_column(table, "TENSORS", CLI_RIGHT);
    cli_table_column(table, "PARAMETERS", CLI_RIGHT);
    cli_table_column(table, "BYTES", CLI_RIGHT);
    cli_table_column(table, "BITS/WEIGHT", CLI_RIGHT);
    for (int i = 0; i < sums->n_types; i++) {
        const type_sum *sum = &sums->types[i];
        cli_table_row(table);
        cli_table_cell(table, sum->type);
        cli_table_cell(table, cli_grouped(sum->n_tensors, number));
        cli_table_cell(table, cli_grouped(sum->n_elems, number));
        cli_table_cell(table, cli_grouped(sum->n_bytes, number));
        cli_table_printf(table, "%.4f", bits_per_weight(sum->n_bytes, sum->n_elems));
    }
    cli_table_print(table);
    cli_table_free(table);
}

static void print_metadata(const model_view *view, int64_t n_max)
{
    cli_table *table = cli_table_new();

    (void)printf("\nmetadata\n");
    cli_table_column(table, "KEY", CLI_LEFT);
    cli_table_column(table, "TYPE", CLI_LEFT);
    cli_table_column(table, "VALUE", CLI_CUT);
    for (int64_t i = 0; i < view->n_entries; i++) {
        cli_text key = {NULL, 0, 0}, type = {NULL, 0, 0}, value = {NULL, 0, 0};
        view->entry(view, i, n_max, &key, &type, &value);
        cli_table_row(table);
        cli_table_cell(table, key.chars);
        cli_table_cell(table, type.chars);
        cli_table_cell(table, value.n > 0 ? value.chars : "");
        cli_text_free(&key);
        cli_text_free(&type);
        cli_text_free(&value);
    }
    cli_table_print(table);
    cli_table_free(table);
}

static void print_tensor(cli_table *table, const model_view *view, const view_tensor *tensor)
{
    char number[CLI_NUMBER_MAX];
    cli_text shape = {NULL, 0, 0};

    for (int32_t i = 0; i < tensor->n_dims; i++) {
        cli_text_printf(&shape, "%s%" PRId64, i > 0 ? " x " : "", view_dim(tensor, i));
    }
    cli_table_row(table);
    cli_table_name(table, tensor->name, tensor->n_name, 0);
    cli_table_cell(table, tensor->type);
    cli_table_cell(table, shape.n > 0 ? shape.chars : "scalar");
    cli_table_cell(table, cli_grouped(tensor->n_bytes, number));
    cli_table_printf(table, "%" PRId64, tensor->file_offset);
    if (view->n_files > 1) {
        cli_table_printf(table, "%" PRId64, tensor->file + 1);
    }
    cli_text_free(&shape);
}

static void print_tensors(const model_view *view)
{
    cli_table *table = cli_table_new();

    (void)printf("\ntensors\n");
    cli_table_column(table, "NAME", CLI_LEFT);
    cli_table_column(table, "TYPE", CLI_LEFT);
    cli_table_column(table, "SHAPE", CLI_RIGHT);
    cli_table_column(table, "BYTES", CLI_RIGHT);
    cli_table_column(table, "OFFSET", CLI_RIGHT);
    if (view->n_files > 1) {
        cli_table_column(table, "FILE", CLI_RIGHT);
    }
    for (int64_t i = 0; i < view->n_tensors; i++) {
        view_tensor tensor;
        view->tensor(view, i, &tensor);
        print_tensor(table, view, &tensor);
    }
    cli_table_print(table);
    cli_table_free(table);
}

static void print_text(const model_view *view, const inspect_values *values)
{
    inspect_sums sums;

    sum_up(view, &sums);
    print_summary(view, &sums);
    for (int64_t i = 0; i < view->n_warnings; i++) {
        put_line("warning", view->warnings[i].text.chars);
    }
    print_sizes(view, &sums);
    if (view->n_tensors > 0) {
        print_types(&sums);
    }
    if (values->summary_only) {
        return;
    }
    if (view->n_entries > 0) {
        print_metadata(view, values->is_full ? 0 : MAX_VALUE_CHARS);
    }
    if (view->n_tensors > 0) {
        print_tensors(view);
    }
}

/* --- JSON ---------------------------------------------------------------------------------------
 */

static void sizes_json(qn_json_writer *json, const view_file *file)
{
    qn_json_member_i64(json, "header_bytes", file->n_header_bytes);
    qn_json_member_i64(json, "padding_bytes", file->n_padding_bytes);
    qn_json_member_i64(json, "tensor_bytes", file->n_tensor_bytes);
    qn_json_member_i64(json, "sum_bytes", total_of(file));
    qn_json_member_i64(json, "file_bytes", file->n_file_bytes);
}

static void member_text(qn_json_writer *json, const char *name, const cli_text *text)
{
    if (text->n > 0) {
        qn_json_member_string(json, name, text->chars);
    }
}

static void member_bytes(qn_json_writer *json, const char *name, const qn_gguf_string *bytes)
{
    if (bytes->n_bytes > 0) {
        qn_json_key(json, name);
        qn_json_string_bytes(json, bytes->bytes, (size_t)bytes->n_bytes);
    }
}

static void tensors_json(const model_view *view, qn_json_writer *json)
{
    qn_json_key(json, "tensors");
    qn_json_begin_array(json);
    for (int64_t i = 0; i < view->n_tensors; i++) {
        view_tensor tensor;
        view->tensor(view, i, &tensor);
        qn_json_begin_object(json);
        qn_json_key(json, "name");
        qn_json_string_bytes(json, tensor.name, (size_t)tensor.n_name);
        qn_json_member_string(json, "type", tensor.type);
        qn_json_key(json, "ne");
        qn_json_begin_array(json);
        for (int32_t d = 0; d < tensor.n_dims; d++) {
            qn_json_i64(json, view_dim(&tensor, d));
        }
        qn_json_end_array(json);
        qn_json_member_i64(json, "bytes", tensor.n_bytes);
        qn_json_member_i64(json, "offset", tensor.file_offset);
        qn_json_member_i64(json, "file", tensor.file);
        qn_json_end_object(json);
    }
    qn_json_end_array(json);
}

static void files_json(const model_view *view, qn_json_writer *json)
{
    qn_json_key(json, "files");
    qn_json_begin_array(json);
    for (int64_t i = 0; i < view->n_files; i++) {
        qn_json_begin_object(json);
        qn_json_member_string(json, "path", view->files[i].path);
        qn_json_member_i64(json, "n_tensors", view->files[i].n_tensors);
        sizes_json(json, &view->files[i]);
        qn_json_end_object(json);
    }
    qn_json_end_array(json);
}

static void types_json(const inspect_sums *sums, qn_json_writer *json)
{
    qn_json_key(json, "types");
    qn_json_begin_array(json);
    for (int i = 0; i < sums->n_types; i++) {
        qn_json_begin_object(json);
        qn_json_member_string(json, "type", sums->types[i].type);
        qn_json_member_i64(json, "n_tensors", sums->types[i].n_tensors);
        qn_json_member_i64(json, "n_parameters", sums->types[i].n_elems);
        qn_json_member_i64(json, "bytes", sums->types[i].n_bytes);
        qn_json_end_object(json);
    }
    qn_json_end_array(json);
}

static void metadata_json(const model_view *view, int64_t n_max, qn_json_writer *json)
{
    qn_json_key(json, "metadata");
    qn_json_begin_array(json);
    for (int64_t i = 0; i < view->n_entries; i++) {
        qn_json_begin_object(json);
        view->entry_json(view, i, n_max, json);
        qn_json_end_object(json);
    }
    qn_json_end_array(json);
}

static void print_json(const model_view *view, const inspect_values *values, qn_json_writer *json)
{
    inspect_sums sums;

    sum_up(view, &sums);
    qn_json_begin_object(json);
    qn_json_member_string(json, "path", view->path);
    qn_json_member_string(json, "format", view->format);
    member_text(json, "layout", &view->layout);
    member_bytes(json, "name", &view->raw_title);
    member_bytes(json, "architecture", &view->raw_architecture);
    member_text(json, "file_type", &view->file_type);
    qn_json_member_i64(json, "n_parameters", sums.n_elems);
    qn_json_member_i64(json, "n_tensors", view->n_tensors);
    qn_json_member_i64(json, "n_metadata", view->n_entries);
    qn_json_key(json, "sizes");
    qn_json_begin_object(json);
    sizes_json(json, &sums.all);
    qn_json_end_object(json);
    files_json(view, json);
    types_json(&sums, json);
    qn_json_key(json, "warnings");
    qn_json_begin_array(json);
    for (int64_t i = 0; i < view->n_warnings; i++) {
        qn_json_string(json, view->warnings[i].text.chars);
    }
    qn_json_end_array(json);
    if (!values->summary_only) {
        metadata_json(view, values->is_full ? 0 : MAX_JSON_ELEMENTS, json);
        tensors_json(view, json);
    }
    qn_json_end_object(json);
}

/* --- the command --------------------------------------------------------------------------------
 */

static int inspect_one(const cli_call *call, const char *path, qn_json_writer *json)
{
    const inspect_values *values = call->values;
    const view_options options = {.is_strict = values->is_strict};
    model_view model;

    const int status = view_open(path, &options, &model);
    if (status != CLI_OK) {
        return status;
    }
    if (json != NULL) {
        print_json(&model, values, json);
    } else if (!call->common.quiet) {
        print_text(&model, values);
    }
    view_close(&model);
    return CLI_OK;
}

static int run(const cli_call *call)
{
    qn_json_writer *json = NULL;
    int status = CLI_OK;

    if (call->n_args == 0) {
        return cli_usage_error(call, "expected at least one FILE");
    }
    if (call->common.json) {
        json = cli_json_begin(stdout);
        if (call->n_args > 1) {
            qn_json_begin_array(json);
        }
    }
    for (int i = 0; i < call->n_args; i++) {
        if (i > 0 && json == NULL && !call->common.quiet) {
            (void)printf("\n");
        }
        const int one = inspect_one(call, call->args[i], json);
        status = one > status ? one : status;
    }
    if (json != NULL) {
        if (call->n_args > 1) {
            qn_json_end_array(json);
        }
        status = cli_json_end(json, stdout, call->n_args > 1 ? CLI_OK : status) == CLI_OK
                     ? status
                     : CLI_FAILED;
    }
    return status;
}

static const cli_option options[] = {
    {.name = "summary",
     .letter = 's',
     .help = "leave out the lists of metadata and tensors",
     .kind = CLI_FLAG,
     .offset = offsetof(inspect_values, summary_only)},
    {.name = "full",
     .help = "show values whole, however long they are",
     .kind = CLI_FLAG,
     .offset = offsetof(inspect_values, is_full)},
    {.name = "strict",
     .help = "accept exactly what ggml's reader accepts",
     .kind = CLI_FLAG,
     .offset = offsetof(inspect_values, is_strict)},
};

const cli_command cli_cmd_inspect = {
    .name = "inspect",
    .summary = "show what is inside a model file",
    .usage = "[OPTIONS] FILE...",
    .description =
        "Shows a summary, where the bytes of the file go (header, padding and tensors add up to "
        "its size), the metadata and the tensors. FILE may be a GGUF file, any shard of a split "
        "model, a safetensors file or the index of a sharded one. Reads the header only.\n\n"
        "Dimensions are in the order of GGUF, the fastest-varying one first. Names and values "
        "from the file are shown with control characters escaped.",
    .options = CLI_OPTIONS(options),
    .takes = CLI_TAKES_JSON,
    .n_value_bytes = sizeof(inspect_values),
    .exit_1 = "a file could not be read or is no valid model; one line on the standard error says "
              "why and what to do",
    .run = run,
};
