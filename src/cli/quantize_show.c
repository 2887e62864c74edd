/* quantize_show.c — plans and results for people and for programs. */
#include "cli/quantize_show.h"

#include "cli/digest.h"
#include "cli/json_out.h"
#include "cli/table.h"

static double bits_per_weight(int64_t n_bytes, int64_t n_elems)
{
    return n_elems > 0 ? 8.0 * (double)n_bytes / (double)n_elems : 0.0;
}

typedef struct item_counts {
    int64_t n_converted;
    int64_t n_copied;
} item_counts;

static item_counts count_items(const qn_plan *plan)
{
    item_counts counts = {0, 0};
    qn_plan_item item;

    for (int64_t i = 0; qn_plan_item_at(plan, i, &item); i++) {
        if (item.recipe == QN_RECIPE_COPY) {
            counts.n_copied++;
        } else {
            counts.n_converted++;
        }
    }
    return counts;
}

/* --- plans: text ---------------------------------------------------------------------------------
 */

static void add_shape(cli_text *text, const qn_tensor_info *info)
{
    for (int32_t i = 0; i < info->n_dims; i++) {
        cli_text_printf(text, "%s%" PRId64, i > 0 ? " x " : "", info->ne[i]);
    }
    if (info->n_dims == 0) {
        cli_text_printf(text, "scalar");
    }
}

static void add_reason(cli_text *text, const qn_plan_item *item)
{
    cli_text_printf(text, "%s", item->rule);
    if (item->is_fallback) {
        cli_text_printf(text, "; fallback from %s", qn_dtype_name(item->wanted));
    }
    if (item->lacks_weights) {
        cli_text_printf(text, "; needs an importance matrix");
    }
}

static void plan_row(cli_table *table, const qn_plan_item *item)
{
    cli_text shape = {NULL, 0, 0}, reason = {NULL, 0, 0};
    char number[CLI_NUMBER_MAX];

    add_shape(&shape, item->source);
    add_reason(&reason, item);
    cli_table_row(table);
    cli_table_name(table, item->target->name, item->target->n_name, 0);
    cli_table_cell(table, shape.chars);
    cli_table_cell(table, qn_dtype_name(item->source->dtype));
    cli_table_cell(table, qn_dtype_name(item->target->dtype));
    cli_table_cell(table, cli_grouped(item->source->n_bytes, number));
    cli_table_cell(table, cli_grouped(item->target->n_bytes, number));
    cli_table_cell(table, reason.chars);
    cli_text_free(&shape);
    cli_text_free(&reason);
}

static void print_plan_table(const qn_plan *plan)
{
    cli_table *table = cli_table_new();
    qn_plan_item item;

    cli_table_column(table, "TENSOR", CLI_LEFT);
    cli_table_column(table, "SHAPE", CLI_RIGHT);
    cli_table_column(table, "FROM", CLI_LEFT);
    cli_table_column(table, "TO", CLI_LEFT);
    cli_table_column(table, "BYTES IN", CLI_RIGHT);
    cli_table_column(table, "BYTES OUT", CLI_RIGHT);
    cli_table_column(table, "RULE", CLI_LEFT);
    for (int64_t i = 0; qn_plan_item_at(plan, i, &item); i++) {
        plan_row(table, &item);
    }
    cli_table_print(table);
    cli_table_free(table);
}

/* Size, bits per weight, what was done to how many tensors: for plans and results. */
static void print_totals(const qn_plan *plan)
{
    const item_counts counts = count_items(plan);
    qn_plan_totals totals;
    char from[CLI_NUMBER_MAX], to[CLI_NUMBER_MAX];

    qn_plan_totals_of(plan, &totals);
    (void)printf("  tensors   %" PRId64 ": %" PRId64 " converted, %" PRId64 " copied, %" PRId64
                 " with a fallback type\n",
                 qn_plan_n_items(plan), counts.n_converted, counts.n_copied, totals.n_fallbacks);
    if (totals.n_missing_weights > 0) {
        (void)printf("  missing   importance values for %" PRId64 " tensors: give --imatrix\n",
                     totals.n_missing_weights);
    }
    (void)printf("  data      %s -> %s (%.3f -> %.3f bits/weight)\n",
                 cli_bytes(totals.n_source_bytes, from), cli_bytes(totals.n_target_bytes, to),
                 bits_per_weight(totals.n_source_bytes, totals.n_elems),
                 bits_per_weight(totals.n_target_bytes, totals.n_elems));
    (void)printf("  output    %s bytes", cli_grouped(totals.n_output_bytes, to));
    if (qn_plan_n_outputs(plan) > 1) {
        (void)printf(" in %d files", (int)qn_plan_n_outputs(plan));
    }
    (void)printf("\n");
}

static void print_heading(const quantize_paths *paths, const char *note)
{
    cli_text text = {NULL, 0, 0};

    cli_text_escape(&text, paths->in, (int64_t)strlen(paths->in), 0);
    cli_text_printf(&text, " -> ");
    cli_text_escape(&text, paths->out.chars, (int64_t)paths->out.n, 0);
    (void)printf("%s: %s%s\n", text.chars, paths->preset->name, note);
    cli_text_free(&text);
}

/* --- plans: JSON ---------------------------------------------------------------------------------
 */

static void item_json(qn_json_writer *json, const qn_plan_item *item)
{
    qn_json_key(json, "name");
    qn_json_string_bytes(json, item->target->name, (size_t)item->target->n_name);
    qn_json_member_string(json, "source", qn_dtype_name(item->source->dtype));
    qn_json_member_string(json, "target", qn_dtype_name(item->target->dtype));
    qn_json_key(json, "ne");
    qn_json_begin_array(json);
    for (int32_t i = 0; i < item->target->n_dims; i++) {
        qn_json_i64(json, item->target->ne[i]);
    }
    qn_json_end_array(json);
    qn_json_member_string(json, "rule", item->rule);
    qn_json_member_bool(json, "is_fallback", item->is_fallback);
    qn_json_member_string(json, "wanted", qn_dtype_name(item->wanted));
    qn_json_member_bool(json, "has_weights", item->has_weights);
    qn_json_member_bool(json, "lacks_weights", item->lacks_weights);
    qn_json_member_i64(json, "source_bytes", item->source->n_bytes);
    qn_json_member_i64(json, "bytes", item->target->n_bytes);
    qn_json_member_i64(json, "offset", item->target->file_offset);
    qn_json_member_i64(json, "output", item->target->shard);
}

static void errors_json(qn_json_writer *json, const qn_item_errors *errors)
{
    qn_json_member_f64(json, "rmse", errors->rmse);
    qn_json_member_f64(json, "relative_error", errors->relative_error);
    qn_json_member_f64(json, "weighted_error", errors->weighted_error);
    qn_json_member_f64(json, "max_error", errors->max_error);
    qn_json_member_f64(json, "cosine", errors->cosine);
}

static void items_json(qn_json_writer *json, const qn_plan *plan, const qn_run *run)
{
    qn_plan_item item;
    qn_item_errors errors;

    qn_json_key(json, "tensors");
    qn_json_begin_array(json);
    for (int64_t i = 0; qn_plan_item_at(plan, i, &item); i++) {
        qn_json_begin_object(json);
        item_json(json, &item);
        if (run != NULL && qn_run_item_errors(run, i, &errors)) {
            qn_json_member_f64(json, "bits_per_weight",
                               bits_per_weight(item.target->n_bytes, errors.n_elems));
            errors_json(json, &errors);
        }
        qn_json_end_object(json);
    }
    qn_json_end_array(json);
}

static void outputs_json(qn_json_writer *json, const qn_plan *plan, const quantize_paths *paths,
                         const char *digests)
{
    qn_plan_output output;
    char path[4096];

    qn_json_key(json, "outputs");
    qn_json_begin_array(json);
    for (int32_t i = 0; qn_plan_output_at(plan, i, &output); i++) {
        qn_json_begin_object(json);
        if (qn_plan_output_path(plan, i, paths->out.chars, path, sizeof path, NULL) == QN_OK) {
            qn_json_member_string(json, "path", path);
        }
        qn_json_member_i64(json, "n_tensors", output.n_tensors);
        qn_json_member_i64(json, "header_bytes", output.n_header_bytes);
        qn_json_member_i64(json, "bytes", output.n_bytes);
        if (digests != NULL) {
            qn_json_member_string(json, "sha256", digests + (size_t)i * CLI_DIGEST_HEX);
        }
        qn_json_end_object(json);
    }
    qn_json_end_array(json);
}

/* The members that plans, results and reports begin with. */
static void head_json(qn_json_writer *json, const qn_plan *plan, const quantize_paths *paths,
                      const char *digests)
{
    const item_counts counts = count_items(plan);
    qn_plan_totals totals;

    qn_plan_totals_of(plan, &totals);
    qn_json_member_string(json, "input", paths->in);
    qn_json_member_string(json, "preset", paths->preset->name);
    qn_json_member_i64(json, "n_tensors", qn_plan_n_items(plan));
    qn_json_member_i64(json, "n_converted", counts.n_converted);
    qn_json_member_i64(json, "n_copied", counts.n_copied);
    qn_json_member_i64(json, "n_fallbacks", totals.n_fallbacks);
    qn_json_member_i64(json, "n_missing_weights", totals.n_missing_weights);
    qn_json_member_i64(json, "n_parameters", totals.n_elems);
    qn_json_member_i64(json, "source_bytes", totals.n_source_bytes);
    qn_json_member_i64(json, "target_bytes", totals.n_target_bytes);
    qn_json_member_i64(json, "output_bytes", totals.n_output_bytes);
    outputs_json(json, plan, paths, digests);
}

void quantize_show_plan(const cli_call *call, const qn_plan *plan, const quantize_paths *paths)
{
    if (!call->common.json) {
        print_plan_table(plan);
        (void)printf("\n");
        print_heading(paths, " (dry run: nothing was written)");
        print_totals(plan);
        return;
    }
    qn_json_writer *json = cli_json_begin(stdout);
    qn_json_begin_object(json);
    qn_json_member_bool(json, "is_dry_run", true);
    head_json(json, plan, paths, NULL);
    items_json(json, plan, NULL);
    qn_json_end_object(json);
    (void)cli_json_end(json, stdout, CLI_OK);
}

/* --- results
 * -------------------------------------------------------------------------------------- */

static void print_stats(const qn_run_stats *stats)
{
    (void)printf("  stats     %d threads, %.2f cores busy, %" PRId64 " chunks\n",
                 (int)stats->n_threads, stats->cores_busy, stats->n_chunks);
    (void)printf("            seconds over all threads: %.3f waiting for input, %.3f computing, "
                 "%.3f waiting for output, %.3f for order\n",
                 stats->read_seconds, stats->compute_seconds, stats->write_seconds,
                 stats->order_seconds);
    (void)printf("            seconds of wall time: %.3f, of them %.3f in the final sync\n",
                 stats->wall_seconds, stats->sync_seconds);
}

static void print_result(const cli_call *call, const quantize_result *result)
{
    const quantize_values *values = call->values;
    const double rate =
        result->seconds > 0 ? (double)result->stats.n_bytes_read / result->seconds : 0.0;
    char number[CLI_NUMBER_MAX];

    print_heading(result->paths, values->do_check ? " (checked: nothing was written)" : "");
    print_totals(result->plan);
    (void)printf("  time      %.2f s (%s/s of input)\n", result->seconds,
                 cli_bytes((int64_t)rate, number));
    (void)printf("  memory    %s at most\n", cli_bytes(cli_peak_bytes(), number));
    for (int32_t i = 0; result->digests != NULL && i < qn_plan_n_outputs(result->plan); i++) {
        (void)printf("  sha256    %s\n", result->digests + (size_t)i * CLI_DIGEST_HEX);
    }
    if (values->show_stats) {
        print_stats(&result->stats);
    }
}

static void stats_json(qn_json_writer *json, const qn_run_stats *stats)
{
    qn_json_key(json, "stats");
    qn_json_begin_object(json);
    qn_json_member_i64(json, "n_threads", stats->n_threads);
    qn_json_member_i64(json, "n_chunks", stats->n_chunks);
    qn_json_member_i64(json, "n_bytes_read", stats->n_bytes_read);
    qn_json_member_i64(json, "n_bytes_written", stats->n_bytes_written);
    qn_json_member_f64(json, "wall_seconds", stats->wall_seconds);
    qn_json_member_f64(json, "read_seconds", stats->read_seconds);
    qn_json_member_f64(json, "compute_seconds", stats->compute_seconds);
    qn_json_member_f64(json, "write_seconds", stats->write_seconds);
    qn_json_member_f64(json, "order_seconds", stats->order_seconds);
    qn_json_member_f64(json, "sync_seconds", stats->sync_seconds);
    qn_json_member_f64(json, "cores_busy", stats->cores_busy);
    qn_json_end_object(json);
}

void quantize_show_result(const cli_call *call, const quantize_result *result)
{
    if (!call->common.json) {
        if (result->has_errors && !call->common.quiet) {
            quantize_show_errors(result);
        }
        if (!call->common.quiet) {
            print_result(call, result);
        }
        return;
    }
    qn_json_writer *json = cli_json_begin(stdout);
    qn_json_begin_object(json);
    head_json(json, result->plan, result->paths, result->digests);
    qn_json_member_f64(json, "seconds", result->seconds);
    qn_json_member_i64(json, "peak_memory_bytes", cli_peak_bytes());
    stats_json(json, &result->stats);
    items_json(json, result->plan, result->has_errors ? result->run : NULL);
    qn_json_end_object(json);
    (void)cli_json_end(json, stdout, CLI_OK);
}

/* --- reports
 * -------------------------------------------------------------------------------------- */

static void error_row(cli_table *table, const qn_plan_item *item, const qn_item_errors *errors)
{
    cli_table_row(table);
    cli_table_name(table, item->target->name, item->target->n_name, 0);
    cli_table_cell(table, qn_dtype_name(item->target->dtype));
    cli_table_printf(table, "%.4f", bits_per_weight(item->target->n_bytes, errors->n_elems));
    cli_table_printf(table, "%.6g", errors->rmse);
    cli_table_printf(table, "%.6g", errors->relative_error);
    cli_table_printf(table, "%.6g", errors->weighted_error);
    cli_table_printf(table, "%.6g", errors->max_error);
    cli_table_printf(table, "%.8f", errors->cosine);
}

void quantize_show_errors(const quantize_result *result)
{
    static const char *const titles[] = {"BITS/WEIGHT", "RMSE",      "RELATIVE",
                                         "WEIGHTED",    "MAX ERROR", "COSINE"};
    cli_table *table = cli_table_new();
    qn_plan_item item;
    qn_item_errors errors;

    cli_table_column(table, "TENSOR", CLI_LEFT);
    cli_table_column(table, "TYPE", CLI_LEFT);
    for (int i = 0; i < CLI_COUNT(titles); i++) {
        cli_table_column(table, titles[i], CLI_RIGHT);
    }
    for (int64_t i = 0; qn_plan_item_at(result->plan, i, &item); i++) {
        if (item.recipe != QN_RECIPE_COPY && qn_run_item_errors(result->run, i, &errors)) {
            error_row(table, &item, &errors);
        }
    }
    cli_table_print(table);
    cli_table_free(table);
    (void)printf("\n");
}

int quantize_write_report(const quantize_result *result, const char *path)
{
    FILE *file = fopen(path, "wb");

    if (file == NULL) {
        return cli_file_error(path, "the report cannot be written");
    }
    qn_json_writer *json = cli_json_begin(file);
    qn_json_begin_object(json);
    head_json(json, result->plan, result->paths, result->digests);
    items_json(json, result->plan, result->run);
    qn_json_end_object(json);
    const int status = cli_json_end(json, file, CLI_OK);
    const bool is_lost = ferror(file) != 0;
    if (fclose(file) != 0 || is_lost) {
        return cli_file_error(path, "the report cannot be written");
    }
    return status;
}

/* --- limits
 * --------------------------------------------------------------------------------------- */

typedef struct metric {
    const char *name;
    size_t offset;
} metric;

static const metric metrics[] = {
    {"rmse", offsetof(qn_item_errors, rmse)},
    {"relative_error", offsetof(qn_item_errors, relative_error)},
    {"weighted_error", offsetof(qn_item_errors, weighted_error)},
    {"max_error", offsetof(qn_item_errors, max_error)},
    {"cosine", offsetof(qn_item_errors, cosine)},
};

static double metric_of(const metric *which, const qn_item_errors *errors)
{
    double value;

    memcpy(&value, (const char *)errors + which->offset, sizeof value);
    return value;
}

/* "METRIC=VALUE"; cosine is one minus it, so that more is worse. */
static const metric *parse_limit(const cli_call *call, const char *text, double *out_limit)
{
    const char *equals = strchr(text, '=');
    char *end = NULL;

    *out_limit = equals != NULL ? strtod(equals + 1, &end) : 0.0;
    for (int i = 0; equals != NULL && end != equals + 1 && *end == '\0' && i < CLI_COUNT(metrics);
         i++) {
        const size_t n = strlen(metrics[i].name);
        if ((size_t)(equals - text) == n && strncmp(text, metrics[i].name, n) == 0) {
            return &metrics[i];
        }
    }
    (void)cli_usage_error(call, "--fail-above: expected METRIC=VALUE with rmse, relative_error, "
                                "weighted_error, max_error or cosine (its distance from 1)");
    return NULL;
}

static int check_limit(const metric *which, double limit, const qn_plan *plan, const qn_run *run)
{
    const bool is_cosine = strcmp(which->name, "cosine") == 0;
    qn_plan_item item;
    qn_item_errors errors;

    for (int64_t i = 0; qn_plan_item_at(plan, i, &item); i++) {
        if (!qn_run_item_errors(run, i, &errors)) {
            continue;
        }
        const double value = is_cosine ? 1.0 - errors.cosine : metric_of(which, &errors);
        if (!(value <= limit)) {
            cli_text name = {NULL, 0, 0};
            cli_text_escape(&name, item.target->name, item.target->n_name, 100);
            cli_error("tensor '%s': %s %.6g is above the limit %.6g; nothing was written",
                      name.chars, which->name, value, limit);
            cli_text_free(&name);
            return CLI_FAILED;
        }
    }
    return CLI_OK;
}

int quantize_check_limits(const cli_call *call, const qn_plan *plan, const qn_run *run)
{
    const quantize_values *values = call->values;

    for (int i = 0; i < values->fail_above.n; i++) {
        double limit = 0.0;
        const metric *which = parse_limit(call, values->fail_above.items[i], &limit);
        if (which == NULL) {
            return CLI_BAD_USAGE;
        }
        const int status = run != NULL ? check_limit(which, limit, plan, run) : CLI_OK;
        if (status != CLI_OK) {
            return status;
        }
    }
    return CLI_OK;
}
