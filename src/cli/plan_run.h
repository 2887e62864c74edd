/* cli/plan_run.h — running a plan to its end, for every command that writes files by one: progress,
 * signals, limits, digests, results and reports; and the rows of the options that go with it. */
#ifndef CLI_PLAN_RUN_H
#define CLI_PLAN_RUN_H

#include "cli/plan_show.h"

/* What a command asks of a run. Threads, memory and instruction set come from the common options
 * where `options` leaves them 0. */
typedef struct plan_job {
    const qn_model *model;   /* its files may not be replaced by the report */
    plan_view view;          /* the plan, its names; filled with what came of it */
    qn_run_options options;  /* do_resume, want_errors, is_check_only, inputs */
    const char *report_path; /* NULL: none */
    bool want_sha256;
    double start_seconds; /* of the command */
    /* Looks at the finished run before anything is under its name; an exit status. NULL: nothing.
     */
    int (*check)(const cli_call *call, const qn_plan *plan, const qn_run *run);
} plan_job;

/* Run, show the result, write the report. An exit status; the error is said. */
int plan_run(const cli_call *call, plan_job *job);

/* Option rows that these commands share. The file that uses one defines FIELD(name), and its struct
 * of values has the member that is named. */
#define PLAN_OPTION_IMATRIX(in_group)                                                        \
    {                                                                                        \
        .name = "imatrix", .arg = "FILE", .group = (in_group), .kind = CLI_TEXT,             \
        FIELD(imatrix_path), .help = "weigh errors by this importance matrix (GGUF or .dat)" \
    }
#define PLAN_OPTION_KEEP_SPLIT(in_group)                                                \
    {                                                                                   \
        .name = "keep-split", .group = (in_group), .kind = CLI_FLAG, FIELD(keep_split), \
        .help = "write one file for each file of the input"                             \
    }
#define PLAN_OPTION_SPLIT_MAX_SIZE(in_group)                                                     \
    {                                                                                            \
        .name = "split-max-size", .arg = "SIZE", .group = (in_group), .kind = CLI_TEXT,          \
        FIELD(split_max_size),                                                                   \
        .help = "begin a new output file before its data pass SIZE, such as 2G (powers of 1000)" \
    }
#define PLAN_OPTION_SPLIT_MAX_TENSORS(in_group)                                                  \
    {                                                                                            \
        .name = "split-max-tensors", .arg = "N", .group = (in_group), .kind = CLI_INT, .min = 1, \
        .max = INT32_MAX, FIELD(split_max_tensors),                                              \
        .help = "begin a new output file after every N tensors"                                  \
    }
#define PLAN_OPTION_RESUME(in_group)                                                    \
    {                                                                                   \
        .name = "resume", .group = (in_group), .kind = CLI_FLAG, FIELD(do_resume),      \
        .help = "continue a run that was stopped, and keep what is done if this one is" \
    }
#define PLAN_OPTION_NO_SYNC(in_group)                                                  \
    {                                                                                  \
        .name = "no-sync", .group = (in_group), .kind = CLI_FLAG, FIELD(no_sync),      \
        .help = "do not wait until the output is on the disk: faster, but a crash of " \
                "the machine may leave it damaged"                                     \
    }
#define PLAN_OPTION_DRY_RUN(in_group)                                                            \
    {                                                                                            \
        .name = "dry-run", .group = (in_group), .kind = CLI_FLAG, FIELD(is_dry_run),             \
        .help = "show every tensor's type, the rule behind it and the exact size; write nothing" \
    }
#define PLAN_OPTION_REPORT(in_group)                                                 \
    {                                                                                \
        .name = "report", .arg = "FILE", .group = (in_group), .kind = CLI_TEXT,      \
        FIELD(report_path),                                                          \
        .help = "measure every tensor's error; show it and write it to FILE as JSON" \
    }
#define PLAN_OPTION_STATS(in_group)                                                \
    {                                                                              \
        .name = "stats", .group = (in_group), .kind = CLI_FLAG, FIELD(show_stats), \
        .help = "show where the time went"                                         \
    }

#endif
