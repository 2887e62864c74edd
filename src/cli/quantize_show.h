/* cli/quantize_show.h — what `quantize` says of a plan and of a run, as text and as JSON. */
#ifndef CLI_QUANTIZE_SHOW_H
#define CLI_QUANTIZE_SHOW_H

#include "cli/quantize_args.h"

/* A finished run. */
typedef struct quantize_result {
    const qn_plan *plan;
    const qn_run *run;
    const quantize_paths *paths;
    qn_run_stats stats;
    double seconds;      /* from the start of the command */
    const char *digests; /* one SHA-256 for each output, CLI_DIGEST_HEX bytes apart; NULL: none */
    bool has_errors;
} quantize_result;

/* --dry-run: every tensor, its types and why; the exact sizes. */
void quantize_show_plan(const cli_call *call, const qn_plan *plan, const quantize_paths *paths);
void quantize_show_result(const cli_call *call, const quantize_result *result);
/* --report: errors of every tensor as JSON into a file; returns the exit status. */
int quantize_write_report(const quantize_result *result, const char *path);
/* --report: the same as a table. */
void quantize_show_errors(const quantize_result *result);
/* --fail-above: CLI_OK, CLI_FAILED (said) or CLI_BAD_USAGE (said). */
int quantize_check_limits(const cli_call *call, const qn_plan *plan, const qn_run *run);

#endif
