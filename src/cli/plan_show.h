/* cli/plan_show.h — what commands that run a plan say of it and of the run, as text and as JSON. */
#ifndef CLI_PLAN_SHOW_H
#define CLI_PLAN_SHOW_H

#include "cli/cli.h"

/* A plan, and what came of it once it has run. */
typedef struct plan_view {
    const qn_plan *plan;
    const qn_run *run; /* NULL: not run */
    const char *in;
    const char *out;
    const char *what_key; /* the JSON member that `what` is: "preset", "mode" */
    const char *what;
    const char *digests; /* one SHA-256 for each output, CLI_DIGEST_HEX bytes apart; NULL: none */
    bool has_errors;     /* of tensors, measured */
    bool is_check;       /* nothing was written */
    bool show_stats;
    const qn_merge *merge; /* adapters that are merged; NULL: none */
    qn_run_stats stats;
    double seconds; /* from the start of the command */
} plan_view;

/* --dry-run: every tensor, its types and why; the exact sizes. */
void plan_show(const cli_call *call, const plan_view *view);
void plan_show_result(const cli_call *call, const plan_view *view);
/* Refuse (said) a report, NULL: none, that would replace a file of the model or of the output. */
int plan_check_report(const plan_view *view, const qn_model *model, const qn_run_options *options,
                      const char *path);
/* --report: errors of every tensor as JSON into a file; returns the exit status. */
int plan_write_report(const plan_view *view, const char *path);
/* --report: the same as a table. */
void plan_show_errors(const plan_view *view);

#endif
