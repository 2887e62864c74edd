/* plan_show.c — plans and results for people and for programs. */
#include "cli/plan_show.h"

#include "cli/digest.h"
#include "cli/json_out.h"
#include "cli/out_file.h"
#include "cli/table.h"

#define MAX_PATH_BYTES 4096

static double bits_per_weight(int64_t n_bytes, int64_t n_elems)
{
    return n_elems > 0 ? 8.0 * (double)n_bytes / (double)n_elems : 0.0;
}

/* All output tensors of an item: planes have the same size each. */
static int64_t target_bytes(const qn_plan_item *item)
{
    return item->n_targets * item->target->n_bytes;
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
    if (item->n_targets > 1) {
        cli_text_printf(text, ", %d of them", (int)item->n_targets);
    }
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
    cli_table_cell(table, cli_grouped(target_bytes(item), number));
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

static void print_heading(const plan_view *view, const char *note)
{
    cli_text text = {NULL, 0, 0};

    cli_text_escape(&text, view->in, (int64_t)strlen(view->in), 0);
    cli_text_printf(&text, " -> ");
    cli_text_escape(&text, view->out, (int64_t)strlen(view->out), 0);
    (void)printf("%s: %s%s\n", text.chars, view->what, note);
    cli_text_free(&text);
}

/* --- adapters --------------------------------------------------------------------------------- */

/* What adapters do to an item's tensor; false: nothing. */
static bool find_merged(const qn_merge *merge, const qn_plan_item *item, qn_merged_tensor *out)
{
    if (merge == NULL || item->recipe != QN_RECIPE_MERGE) {
        return false;
    }
    for (int64_t i = 0; qn_merge_tensor_at(merge, i, out); i++) {
        if (out->tensor == item->source) {
            return true;
        }
    }
    return false;
}

static const char *merge_word(const qn_merged_tensor *merged)
{
    return merged->is_replaced ? "replaced"
           : merged->is_dora   ? "DoRA"
           : merged->is_new    ? "new"
                               : "";
}

static void merge_row(cli_table *table, const plan_view *view, int64_t index,
                      const qn_plan_item *item, const qn_merged_tensor *merged)
{
    qn_item_merge change;

    cli_table_row(table);
    cli_table_name(table, item->target->name, item->target->n_name, 0);
    cli_table_printf(table, merged->rank > 0 ? "%" PRId64 : "-", merged->rank);
    cli_table_printf(table, merged->rank > 0 ? "%.6g" : "-", (double)merged->scale);
    if (view->run != NULL && qn_run_item_merge(view->run, index, &change)) {
        cli_table_printf(table, "%.6g",
                         change.weight_norm > 0 ? change.delta_norm / change.weight_norm : 0.0);
    } else {
        cli_table_cell(table, "-");
    }
    cli_table_cell(table, qn_dtype_name(item->target->dtype));
    cli_table_cell(table, merge_word(merged));
}

/* Each tensor that changed, and by how much of itself. */
static void print_merges(const plan_view *view)
{
    cli_table *table = cli_table_new();
    qn_merged_tensor merged;
    qn_plan_item item;

    cli_table_column(table, "MERGED TENSOR", CLI_LEFT);
    cli_table_column(table, "RANK", CLI_RIGHT);
    cli_table_column(table, "SCALE", CLI_RIGHT);
    cli_table_column(table, "CHANGE", CLI_RIGHT);
    cli_table_column(table, "TYPE", CLI_LEFT);
    cli_table_column(table, "", CLI_LEFT);
    for (int64_t i = 0; qn_plan_item_at(view->plan, i, &item); i++) {
        if (find_merged(view->merge, &item, &merged)) {
            merge_row(table, view, i, &item, &merged);
        }
    }
    cli_table_print(table);
    cli_table_free(table);
    (void)printf("\n");
}

/* Where its scale comes from, what it was made for, and what of it changed nothing. */
static void print_adapter_origin(const qn_adapter_info *info)
{
    (void)printf("            scale from %s", info->scale_source);
    if (info->trained_on != NULL) {
        cli_text text = {NULL, 0, 0};
        cli_text_escape(&text, info->trained_on, (int64_t)strlen(info->trained_on), 80);
        (void)printf(", trained on %s", text.chars);
        cli_text_free(&text);
    }
    if (info->n_zero > 0) {
        (void)printf(", %" PRId64 " pairs are zero", info->n_zero);
    }
    if (info->n_copies > 0) {
        (void)printf(", %" PRId64 " copies of the model's tensors", info->n_copies);
    }
    (void)printf("\n");
}

static void print_adapters(const qn_merge *merge)
{
    qn_adapter_info info;

    for (int64_t i = 0; merge != NULL && qn_merge_adapter_at(merge, i, &info); i++) {
        cli_text text = {NULL, 0, 0};
        cli_text_escape(&text, info.path, (int64_t)strlen(info.path), 0);
        (void)printf("  adapter   %s (%s): %" PRId64 " pairs, %" PRId64 " whole tensors, %s\n",
                     text.chars, qn_adapter_form_name(info.form), info.n_pairs, info.n_replaced,
                     info.record);
        cli_text_free(&text);
        print_adapter_origin(&info);
    }
}

static void adapters_json(qn_json_writer *json, const qn_merge *merge)
{
    qn_adapter_info info;

    if (merge == NULL) {
        return;
    }
    qn_json_key(json, "adapters");
    qn_json_begin_array(json);
    for (int64_t i = 0; qn_merge_adapter_at(merge, i, &info); i++) {
        qn_json_begin_object(json);
        qn_json_member_string(json, "path", info.path);
        qn_json_member_string(json, "form", qn_adapter_form_name(info.form));
        qn_json_member_string(json, "record", info.record);
        qn_json_member_bool(json, "was_merged", info.was_merged);
        qn_json_member_i64(json, "n_tensors", info.n_tensors);
        qn_json_member_i64(json, "n_pairs", info.n_pairs);
        qn_json_member_i64(json, "n_replaced", info.n_replaced);
        qn_json_member_i64(json, "n_zero", info.n_zero);
        qn_json_member_i64(json, "n_copies", info.n_copies);
        qn_json_member_string(json, "scale_source", info.scale_source);
        if (info.trained_on != NULL) {
            qn_json_member_string(json, "trained_on", info.trained_on);
        }
        qn_json_end_object(json);
    }
    qn_json_end_array(json);
}

static void merge_json(qn_json_writer *json, const plan_view *view, int64_t index,
                       const qn_plan_item *item)
{
    qn_merged_tensor merged;
    qn_item_merge change;

    if (!find_merged(view->merge, item, &merged)) {
        return;
    }
    qn_json_key(json, "merge");
    qn_json_begin_object(json);
    qn_json_member_i64(json, "rank", merged.rank);
    qn_json_member_f64(json, "scale", (double)merged.scale);
    qn_json_member_i64(json, "n_edits", merged.n_edits);
    qn_json_member_bool(json, "is_new", merged.is_new);
    qn_json_member_bool(json, "is_replaced", merged.is_replaced);
    qn_json_member_bool(json, "is_dora", merged.is_dora);
    if (view->run != NULL && qn_run_item_merge(view->run, index, &change)) {
        qn_json_member_f64(json, "delta_norm", change.delta_norm);
        qn_json_member_f64(json, "weight_norm", change.weight_norm);
        qn_json_member_f64(json, "relative_change",
                           change.weight_norm > 0 ? change.delta_norm / change.weight_norm : 0.0);
    }
    qn_json_end_object(json);
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
    qn_json_member_i64(json, "bytes", target_bytes(item));
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

static double share(int64_t part, int64_t whole)
{
    return whole > 0 ? (double)part / (double)whole : 0.0;
}

/* Zero trits among all of an item's planes. */
static int64_t all_zeros(const qn_item_planes *planes)
{
    int64_t n = 0;

    for (int p = 0; p < planes->n_planes; p++) {
        n += planes->n_zeros[p];
    }
    return n;
}

#define GROUP_WEIGHTS 256

static void planes_json(qn_json_writer *json, const qn_run *run, int64_t item)
{
    qn_item_planes planes;

    if (!qn_run_item_planes(run, item, &planes)) {
        return;
    }
    qn_json_key(json, "planes");
    qn_json_begin_object(json);
    qn_json_member_i64(json, "n_planes", planes.n_planes);
    qn_json_member_i64(json, "n_groups", planes.n_groups);
    qn_json_member_f64(json, "mean_iterations", share(planes.n_iterations, planes.n_groups));
    qn_json_member_i64(json, "n_unsettled", planes.n_unsettled);
    qn_json_key(json, "zero_share");
    qn_json_begin_array(json);
    for (int p = 0; p < planes.n_planes; p++) {
        qn_json_f64(json, share(planes.n_zeros[p], GROUP_WEIGHTS * planes.n_groups));
    }
    qn_json_end_array(json);
    qn_json_end_object(json);
}

/* `run`: whose errors are wanted, or NULL. */
static void items_json(qn_json_writer *json, const plan_view *view, const qn_run *run)
{
    const qn_plan *plan = view->plan;
    qn_plan_item item;
    qn_item_errors errors;

    qn_json_key(json, "tensors");
    qn_json_begin_array(json);
    for (int64_t i = 0; qn_plan_item_at(plan, i, &item); i++) {
        qn_json_begin_object(json);
        item_json(json, &item);
        merge_json(json, view, i, &item);
        if (run != NULL && qn_run_item_errors(run, i, &errors)) {
            qn_json_member_f64(json, "bits_per_weight",
                               bits_per_weight(target_bytes(&item), errors.n_elems));
            errors_json(json, &errors);
            planes_json(json, run, i);
        }
        qn_json_end_object(json);
    }
    qn_json_end_array(json);
}

static void outputs_json(qn_json_writer *json, const plan_view *view)
{
    qn_plan_output output;
    char path[4096];

    qn_json_key(json, "outputs");
    qn_json_begin_array(json);
    for (int32_t i = 0; qn_plan_output_at(view->plan, i, &output); i++) {
        qn_json_begin_object(json);
        if (qn_plan_output_path(view->plan, i, view->out, path, sizeof path, NULL) == QN_OK) {
            qn_json_member_string(json, "path", path);
        }
        qn_json_member_i64(json, "n_tensors", output.n_tensors);
        qn_json_member_i64(json, "header_bytes", output.n_header_bytes);
        qn_json_member_i64(json, "bytes", output.n_bytes);
        if (view->digests != NULL) {
            qn_json_member_string(json, "sha256", view->digests + (size_t)i * CLI_DIGEST_HEX);
        }
        qn_json_end_object(json);
    }
    qn_json_end_array(json);
}

/* The members that plans, results and reports begin with. */
static void head_json(qn_json_writer *json, const plan_view *view)
{
    const qn_plan *plan = view->plan;
    const item_counts counts = count_items(plan);
    qn_plan_totals totals;

    qn_plan_totals_of(plan, &totals);
    qn_json_member_string(json, "input", view->in);
    qn_json_member_string(json, view->what_key, view->what);
    qn_json_member_i64(json, "n_tensors", qn_plan_n_items(plan));
    qn_json_member_i64(json, "n_converted", counts.n_converted);
    qn_json_member_i64(json, "n_copied", counts.n_copied);
    qn_json_member_i64(json, "n_fallbacks", totals.n_fallbacks);
    qn_json_member_i64(json, "n_missing_weights", totals.n_missing_weights);
    qn_json_member_i64(json, "n_parameters", totals.n_elems);
    qn_json_member_i64(json, "source_bytes", totals.n_source_bytes);
    qn_json_member_i64(json, "target_bytes", totals.n_target_bytes);
    qn_json_member_i64(json, "output_bytes", totals.n_output_bytes);
    outputs_json(json, view);
    adapters_json(json, view->merge);
}

void plan_show(const cli_call *call, const plan_view *view)
{
    if (!call->common.json) {
        print_plan_table(view->plan);
        (void)printf("\n");
        if (view->merge != NULL) {
            print_merges(view);
        }
        print_heading(view, " (dry run: nothing was written)");
        print_adapters(view->merge);
        print_totals(view->plan);
        return;
    }
    qn_json_writer *json = cli_json_begin(stdout);
    qn_json_begin_object(json);
    qn_json_member_bool(json, "is_dry_run", true);
    head_json(json, view);
    items_json(json, view, NULL);
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

/* Planes of all tensors together, and how fast their fits went. */
static void print_planes(const plan_view *view)
{
    qn_item_planes sum = {0}, one;
    qn_item_errors errors;
    double error_sum = 0.0;
    int64_t n_items = 0;

    for (int64_t i = 0; view->run != NULL && i < qn_plan_n_items(view->plan); i++) {
        if (!qn_run_item_planes(view->run, i, &one) || !qn_run_item_errors(view->run, i, &errors)) {
            continue;
        }
        n_items++;
        error_sum += errors.relative_error;
        sum.n_planes = one.n_planes;
        sum.n_groups += one.n_groups;
        sum.n_iterations += one.n_iterations;
        sum.n_unsettled += one.n_unsettled;
        for (int p = 0; p < one.n_planes; p++) {
            sum.n_zeros[p] += one.n_zeros[p];
        }
    }
    if (n_items == 0) {
        return;
    }
    const int64_t n_weights = GROUP_WEIGHTS * sum.n_groups;
    const double compute = view->stats.compute_seconds;
    (void)printf("  planes    %" PRId64 " tensors, %d planes each: mean relative error %.4f, "
                 "%.1f iterations, %" PRId64 " of %" PRId64 " groups unsettled, %.1f %% zeros\n",
                 n_items, (int)sum.n_planes, error_sum / (double)n_items,
                 share(sum.n_iterations, sum.n_groups), sum.n_unsettled, sum.n_groups,
                 100.0 * share(all_zeros(&sum), n_weights * sum.n_planes));
    (void)printf("  rate      %.1f M weights/s a core (of computing, checks and errors included)\n",
                 compute > 0.0 ? (double)n_weights / compute * 1e-6 : 0.0);
}

static void print_result(const plan_view *view)
{
    const double rate = view->seconds > 0 ? (double)view->stats.n_bytes_read / view->seconds : 0.0;
    char number[CLI_NUMBER_MAX];

    if (view->merge != NULL) {
        print_merges(view);
    }
    print_heading(view, view->is_check ? " (checked: nothing was written)" : "");
    print_adapters(view->merge);
    print_totals(view->plan);
    (void)printf("  time      %.2f s (%s/s of input)\n", view->seconds,
                 cli_bytes((int64_t)rate, number));
    (void)printf("  memory    %s at most\n", cli_bytes(cli_peak_bytes(), number));
    print_planes(view);
    for (int32_t i = 0; view->digests != NULL && i < qn_plan_n_outputs(view->plan); i++) {
        (void)printf("  sha256    %s\n", view->digests + (size_t)i * CLI_DIGEST_HEX);
    }
    if (view->show_stats) {
        print_stats(&view->stats);
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

void plan_show_result(const cli_call *call, const plan_view *view)
{
    if (!call->common.json) {
        if (view->has_errors && !call->common.quiet) {
            plan_show_errors(view);
        }
        if (!call->common.quiet) {
            print_result(view);
        }
        return;
    }
    qn_json_writer *json = cli_json_begin(stdout);
    qn_json_begin_object(json);
    head_json(json, view);
    qn_json_member_f64(json, "seconds", view->seconds);
    qn_json_member_i64(json, "peak_memory_bytes", cli_peak_bytes());
    stats_json(json, &view->stats);
    items_json(json, view, view->has_errors ? view->run : NULL);
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
    cli_table_printf(table, "%.4f", bits_per_weight(target_bytes(item), errors->n_elems));
    cli_table_printf(table, "%.6g", errors->rmse);
    cli_table_printf(table, "%.6g", errors->relative_error);
    cli_table_printf(table, "%.6g", errors->weighted_error);
    cli_table_printf(table, "%.6g", errors->max_error);
    cli_table_printf(table, "%.8f", errors->cosine);
}

void plan_show_errors(const plan_view *view)
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
    for (int64_t i = 0; qn_plan_item_at(view->plan, i, &item); i++) {
        if (item.recipe != QN_RECIPE_COPY && qn_run_item_errors(view->run, i, &errors)) {
            error_row(table, &item, &errors);
        }
    }
    cli_table_print(table);
    cli_table_free(table);
    (void)printf("\n");
}

static bool is_output(const qn_plan *plan, const char *out_path, const char *path)
{
    char output[MAX_PATH_BYTES];

    for (int32_t i = 0; out_path != NULL && i < qn_plan_n_outputs(plan); i++) {
        if (qn_plan_output_path(plan, i, out_path, output, sizeof output, NULL) == QN_OK &&
            (strcmp(output, path) == 0 || cli_is_same_file(output, path))) {
            return true;
        }
    }
    return false;
}

static int refuse_report(const char *path, const char *what)
{
    cli_text shown = {NULL, 0, 0};

    cli_text_escape(&shown, path, (int64_t)strlen(path), 0);
    cli_error("%s: the report would replace %s; give another name", shown.chars, what);
    cli_text_free(&shown);
    return CLI_FAILED;
}

int plan_check_report(const plan_view *view, const qn_model *model, const qn_run_options *options,
                      const char *path)
{
    const char *input;

    if (path == NULL) {
        return CLI_OK;
    }
    for (int32_t i = 0; (input = qn_model_input_path(model, i)) != NULL; i++) {
        if (cli_is_same_file(input, path)) {
            return refuse_report(path, i < qn_model_n_shards(model) ? "the input"
                                                                    : "a file that is read");
        }
    }
    for (int32_t i = 0; i < options->n_inputs; i++) {
        if (cli_is_same_file(options->inputs[i], path)) {
            return refuse_report(path, "a file that is read");
        }
    }
    return is_output(view->plan, view->out, path) ? refuse_report(path, "the output") : CLI_OK;
}

int plan_write_report(const plan_view *view, const char *path)
{
    cli_out_file out;

    if (is_output(view->plan, view->out, path)) { /* by another spelling of its new name */
        return refuse_report(path, "the output");
    }
    int status = cli_out_open(path, &out);
    if (status != CLI_OK) {
        return status;
    }
    qn_json_writer *json = cli_json_begin(out.stream);
    qn_json_begin_object(json);
    head_json(json, view);
    items_json(json, view, view->run);
    qn_json_end_object(json);
    status = cli_json_end(json, out.stream, CLI_OK);
    status = status == CLI_OK ? cli_out_commit(&out) : status;
    cli_out_abort(&out);
    return status;
}
