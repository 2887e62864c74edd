/* quantize_limits.c — --fail-above: errors that a run may not pass. */
#include "cli/quantize_args.h"

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
