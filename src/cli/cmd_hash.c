/* cmd_hash.c — `quench hash`: digests of tensors and of whole models, manifests checked. */
#include "cli/digest.h"
#include "cli/json_out.h"
#include "cli/table.h"
#include "quench/model.h"

#define MAX_MANIFEST_BYTES (64 * 1024 * 1024)

typedef struct hash_values {
    const char *manifest_path;
    bool no_tensors;
} hash_values;

/* The digests of one model: of each tensor, then of all tensor data together. */
typedef struct hash_result {
    char *hex; /* n_tensors + 1 of CLI_DIGEST_HEX bytes */
    int64_t n_tensors;
} hash_result;

static const char *hex_of(const hash_result *result, int64_t index)
{
    return result->hex + (size_t)index * CLI_DIGEST_HEX;
}

/* --- computing -----------------------------------------------------------------------------------
 */

typedef struct hash_feed {
    cli_digest *tensor;
    cli_digest *model;
    int64_t item; /* the tensor being fed; those without data are never fed */
    hash_result *result;
} hash_feed;

static void finish_up_to(hash_feed *feed, int64_t item)
{
    for (; feed->item < item; feed->item++) {
        cli_digest_take(feed->tensor, feed->result->hex + (size_t)feed->item * CLI_DIGEST_HEX);
    }
}

static void take_bytes(void *ctx, int64_t item, const void *bytes, size_t n_bytes)
{
    hash_feed *feed = ctx;

    finish_up_to(feed, item);
    cli_digest_add(feed->tensor, bytes, n_bytes);
    cli_digest_add(feed->model, bytes, n_bytes);
}

static int run_plan(const cli_call *call, const char *path, const qn_plan *plan, hash_feed *feed)
{
    cli_progress progress;
    qn_run_options options = QN_RUN_OPTIONS_INIT;
    qn_error err = QN_ERROR_INIT;

    cli_progress_begin(&progress, call, "hash");
    options.n_threads = (int32_t)call->common.n_threads;
    options.memory_bytes = call->common.n_memory_bytes;
    options.progress = cli_progress_step;
    options.progress_ctx = &progress;
    options.on_item_bytes = take_bytes;
    options.bytes_ctx = feed;
    const qn_status status = qn_plan_run(plan, NULL, &options, NULL, &err);
    cli_progress_end(&progress);
    if (status == QN_ERR_CANCELLED) {
        cli_error("%s: interrupted", path);
        return CLI_FAILED;
    }
    return status == QN_OK ? CLI_OK : cli_fail(&err);
}

static int hash_model(const cli_call *call, const char *path, const qn_model *model,
                      hash_result *out_result)
{
    qn_plan *plan = NULL;
    qn_error err = QN_ERROR_INIT;
    hash_feed feed = {NULL, NULL, 0, out_result};
    int status;

    out_result->n_tensors = qn_model_n_tensors(model);
    out_result->hex = cli_alloc((size_t)out_result->n_tensors + 1, CLI_DIGEST_HEX);
    feed.tensor = cli_digest_new(&err);
    feed.model = feed.tensor != NULL ? cli_digest_new(&err) : NULL;
    if (feed.model == NULL || qn_plan_read(model, NULL, 0, false, NULL, &plan, &err) != QN_OK) {
        status = cli_fail(&err);
    } else {
        status = run_plan(call, path, plan, &feed);
        finish_up_to(&feed, out_result->n_tensors);
        cli_digest_take(feed.model,
                        out_result->hex + (size_t)out_result->n_tensors * CLI_DIGEST_HEX);
    }
    qn_plan_free(plan);
    cli_digest_free(feed.tensor);
    cli_digest_free(feed.model);
    return status;
}

/* --- showing -------------------------------------------------------------------------------------
 */

/* "HEX  FILE:TENSOR" as gguf-hash names them; the line of the whole model has no tensor. */
static void add_label(cli_text *text, const char *path, const qn_tensor_info *tensor)
{
    cli_text_escape(text, path, (int64_t)strlen(path), 0);
    if (tensor != NULL) {
        cli_text_add(text, ":", 1);
        cli_text_escape(text, tensor->name, tensor->n_name, 0);
    }
}

static void print_digests(const char *path, const qn_model *model, const hash_result *result,
                          bool no_tensors)
{
    for (int64_t i = no_tensors ? result->n_tensors : 0; i <= result->n_tensors; i++) {
        cli_text label = {NULL, 0, 0};
        add_label(&label, path, qn_model_tensor(model, i));
        (void)printf("sha256    %s  %s\n", hex_of(result, i), label.chars);
        cli_text_free(&label);
    }
}

static void digests_json(const char *path, const qn_model *model, const hash_result *result,
                         bool no_tensors, qn_json_writer *json)
{
    qn_json_begin_object(json);
    qn_json_member_string(json, "path", path);
    qn_json_member_string(json, "sha256", hex_of(result, result->n_tensors));
    if (!no_tensors) {
        qn_json_key(json, "tensors");
        qn_json_begin_array(json);
        for (int64_t i = 0; i < result->n_tensors; i++) {
            const qn_tensor_info *tensor = qn_model_tensor(model, i);
            qn_json_begin_object(json);
            qn_json_key(json, "name");
            qn_json_string_bytes(json, tensor->name, (size_t)tensor->n_name);
            qn_json_member_string(json, "sha256", hex_of(result, i));
            qn_json_end_object(json);
        }
        qn_json_end_array(json);
    }
    qn_json_end_object(json);
}

/* --- manifests -----------------------------------------------------------------------------------
 */

/* A line "sha256 HEX LABEL" with blanks between; the label is all the rest of it, blanks inside
 * kept. */
typedef struct manifest_line {
    const char *hex;
    const char *label;
    size_t n_label;
} manifest_line;

/* The lines, ordered by label, of equal ones the first first. */
typedef struct hash_manifest {
    cli_text text;
    manifest_line *lines;
    size_t n_lines;
} hash_manifest;

static int compare_labels(const char *a, size_t n_a, const char *b, size_t n_b)
{
    const int order = memcmp(a, b, n_a < n_b ? n_a : n_b);

    return order != 0 ? order : (n_a > n_b) - (n_a < n_b);
}

static int compare_lines(const void *left, const void *right)
{
    const manifest_line *a = left;
    const manifest_line *b = right;
    const int order = compare_labels(a->label, a->n_label, b->label, b->n_label);

    return order != 0 ? order : (a->label > b->label) - (a->label < b->label);
}

static bool parse_line(const char *line, size_t n_line, manifest_line *out_line)
{
    const size_t n_word = strcspn(line, " \t\n");
    const char *hex = line + n_word + strspn(line + n_word, " \t");
    const size_t n_hex = strspn(hex, "0123456789abcdef");
    const char *label = hex + n_hex + strspn(hex + n_hex, " \t");

    if (label > line + n_line || n_word != 6 || strncmp(line, "sha256", 6) != 0 ||
        n_hex != CLI_DIGEST_HEX - 1) {
        return false;
    }
    *out_line = (manifest_line){hex, label, (size_t)(line + n_line - label)};
    return true;
}

static int read_manifest(const char *path, hash_manifest *out_manifest)
{
    const int status = cli_read_text(path, MAX_MANIFEST_BYTES, &out_manifest->text);
    size_t n_most = 1;

    if (status != CLI_OK) {
        return status;
    }
    const char *text = out_manifest->text.chars;
    for (const char *p = strchr(text, '\n'); p != NULL; p = strchr(p + 1, '\n')) {
        n_most++;
    }
    out_manifest->lines = cli_alloc(n_most, sizeof *out_manifest->lines);
    for (const char *line = text; *line != '\0';) {
        const size_t n_line = strcspn(line, "\n");
        if (parse_line(line, n_line, &out_manifest->lines[out_manifest->n_lines])) {
            out_manifest->n_lines++;
        }
        line += n_line + (line[n_line] == '\n');
    }
    qsort(out_manifest->lines, out_manifest->n_lines, sizeof *out_manifest->lines, compare_lines);
    return CLI_OK;
}

static void free_manifest(hash_manifest *manifest)
{
    cli_text_free(&manifest->text);
    free(manifest->lines);
}

/* The digest that the manifest gives for a label, the first of several; NULL if there is none. */
static const char *find_in_manifest(const hash_manifest *manifest, const char *label)
{
    const size_t n_label = strlen(label);
    size_t low = 0;
    size_t high = manifest->n_lines;

    while (low < high) { /* the first line that is not before the label */
        const size_t middle = low + (high - low) / 2;
        const manifest_line *line = &manifest->lines[middle];
        if (compare_labels(line->label, line->n_label, label, n_label) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    const bool is_there = low < manifest->n_lines &&
                          compare_labels(manifest->lines[low].label, manifest->lines[low].n_label,
                                         label, n_label) == 0;
    return is_there ? manifest->lines[low].hex : NULL;
}

static int check_manifest(const cli_call *call, const hash_manifest *manifest, const char *path,
                          const qn_model *model, const hash_result *result)
{
    const hash_values *values = call->values;
    int64_t n_wrong = 0;

    for (int64_t i = values->no_tensors ? result->n_tensors : 0; i <= result->n_tensors; i++) {
        cli_text label = {NULL, 0, 0};
        add_label(&label, path, qn_model_tensor(model, i));
        const char *expected = find_in_manifest(manifest, label.chars);
        const bool is_same =
            expected != NULL && strncmp(expected, hex_of(result, i), CLI_DIGEST_HEX - 1) == 0;
        if (!is_same) {
            cli_error("%s: %s", label.chars,
                      expected == NULL ? "not in the manifest" : "differs from the manifest");
            n_wrong++;
        }
        cli_text_free(&label);
    }
    if (n_wrong == 0 && !call->common.quiet) {
        cli_text label = {NULL, 0, 0};
        add_label(&label, path, NULL);
        (void)printf("%s: ok\n", label.chars);
        cli_text_free(&label);
    }
    return n_wrong == 0 ? CLI_OK : CLI_FAILED;
}

/* --- the command ---------------------------------------------------------------------------------
 */

static int hash_one(const cli_call *call, const char *path, const hash_manifest *manifest,
                    qn_json_writer *json)
{
    const hash_values *values = call->values;
    qn_model *model = NULL;
    hash_result result = {NULL, 0};

    int status = cli_open_bytes(call, path, &model);
    if (status == CLI_OK) {
        status = hash_model(call, path, model, &result);
    }
    if (status == CLI_OK && manifest != NULL) {
        status = check_manifest(call, manifest, path, model, &result);
    } else if (status == CLI_OK && json != NULL) {
        digests_json(path, model, &result, values->no_tensors, json);
    } else if (status == CLI_OK) {
        print_digests(path, model, &result, values->no_tensors);
    }
    free(result.hex);
    qn_model_close(model);
    return status;
}

static int run(const cli_call *call)
{
    const hash_values *values = call->values;
    hash_manifest manifest = {{NULL, 0, 0}, NULL, 0};
    qn_json_writer *json = NULL;
    int status = CLI_OK;

    if (call->n_args == 0) {
        return cli_usage_error(call, "expected at least one FILE");
    }
    if (call->common.json && values->manifest_path != NULL) {
        return cli_usage_error(call, "--json and --check exclude each other");
    }
    if (values->manifest_path != NULL) {
        status = read_manifest(values->manifest_path, &manifest);
        if (status != CLI_OK) {
            free_manifest(&manifest);
            return status;
        }
    } else if (call->common.json) {
        json = cli_json_begin(stdout);
        qn_json_begin_array(json);
    }
    for (int i = 0; i < call->n_args && !cli_is_interrupted(); i++) {
        const int one =
            hash_one(call, call->args[i], values->manifest_path != NULL ? &manifest : NULL, json);
        status = one > status ? one : status;
    }
    if (json != NULL) {
        qn_json_end_array(json);
        status = cli_json_end(json, stdout, CLI_OK) == CLI_OK ? status : CLI_FAILED;
    }
    free_manifest(&manifest);
    return status;
}

static const cli_option options[] = {
    {.name = "check",
     .letter = 'c',
     .arg = "MANIFEST",
     .help = "compare with the lines that an earlier run printed",
     .kind = CLI_TEXT,
     .offset = offsetof(hash_values, manifest_path)},
    {.name = "no-tensors",
     .help = "only the digest of the whole model",
     .kind = CLI_FLAG,
     .offset = offsetof(hash_values, no_tensors)},
};

const cli_command cli_cmd_hash = {
    .name = "hash",
    .summary = "print or check digests of tensors and models",
    .usage = "[OPTIONS] FILE...",
    .description =
        "Prints the SHA-256 of each tensor's data, and of all of them together in the order of "
        "the file, without metadata and padding: what stays the same when a model is split, "
        "joined or gets other metadata. The lines are those of gguf-hash.\n\n"
        "With --check the lines of an earlier run are read from MANIFEST and compared.",
    .options = CLI_OPTIONS(options),
    .takes = CLI_TAKES_THREADS | CLI_TAKES_MEMORY | CLI_TAKES_JSON,
    .n_value_bytes = sizeof(hash_values),
    .exit_1 = "a file could not be read, or differs from the manifest; one line for each says what",
    .run = run,
};
