/* plan_run.c — one run of a plan: what every command that writes files does in the same way. */
#include "cli/plan_run.h"

#include "cli/digest.h"

/* SHA-256 of each output, fed by the run. */
typedef struct digest_feed {
    cli_digest *digest;
    int32_t output; /* the one being fed */
    char *hex;      /* CLI_DIGEST_HEX bytes an output */
} digest_feed;

static void feed(void *ctx, int32_t output, const void *bytes, size_t n_bytes)
{
    digest_feed *to = ctx;

    if (output != to->output) {
        cli_digest_take(to->digest, to->hex + (size_t)to->output * CLI_DIGEST_HEX);
        to->output = output;
    }
    cli_digest_add(to->digest, bytes, n_bytes);
}

static int start_digests(plan_job *job, digest_feed *digests)
{
    qn_error err = QN_ERROR_INIT;

    if (!job->want_sha256) {
        return CLI_OK;
    }
    digests->digest = cli_digest_new(&err);
    if (digests->digest == NULL) {
        return cli_fail(&err);
    }
    digests->hex = cli_alloc((size_t)qn_plan_n_outputs(job->view.plan), CLI_DIGEST_HEX);
    job->options.on_output_bytes = feed;
    job->options.bytes_ctx = digests;
    return CLI_OK;
}

static void set_options(const cli_call *call, plan_job *job, cli_progress *progress)
{
    qn_run_options *options = &job->options;

    if (options->n_threads == 0) {
        options->n_threads = (int32_t)call->common.n_threads;
    }
    if (call->common.n_memory_bytes > 0) {
        options->memory_bytes = call->common.n_memory_bytes;
    }
    options->isa = call->common.isa;
    options->progress = cli_progress_step;
    options->progress_ctx = progress;
    options->log = cli_log;
    options->log_ctx = cli_log_ctx(call);
}

static int fail_run(const plan_job *job, const qn_error *err)
{
    cli_text out = {NULL, 0, 0};

    if (err->status != QN_ERR_CANCELLED) {
        return cli_fail(err);
    }
    cli_text_escape(&out, job->view.out, (int64_t)strlen(job->view.out), 0);
    cli_error("%s: interrupted; %s", out.chars,
              job->options.do_resume ? "run the same command again to continue"
                                     : "nothing was written");
    cli_text_free(&out);
    return CLI_FAILED;
}

/* --- the run that is idle -----------------------------------------------------------------------
 */

static qn_run *held_run;

static void free_held_run(void)
{
    qn_run_free(held_run);
    held_run = NULL;
}

/* The end of the program frees this one, so that its temporary files go when memory runs out
 * between its steps; NULL: none. */
static void hold_run(qn_run *run)
{
    static bool is_registered;

    if (!is_registered) {
        is_registered = atexit(free_held_run) == 0;
    }
    held_run = run;
}

/* --- steps
 * ----------------------------------------------------------------------------------------
 */

/* begin, all items, the command's check, commit. */
static int run_steps(const cli_call *call, const plan_job *job, qn_run **out_run)
{
    const qn_plan *plan = job->view.plan;
    qn_error err = QN_ERROR_INIT;

    if (qn_run_begin(plan, job->view.out, &job->options, out_run, &err) != QN_OK) {
        return fail_run(job, &err);
    }
    const qn_status ran = qn_run_range(*out_run, 0, qn_plan_n_items(plan), &err);
    hold_run(*out_run);
    if (ran != QN_OK) {
        return fail_run(job, &err);
    }
    const int status = job->check != NULL ? job->check(call, plan, *out_run) : CLI_OK;
    if (status != CLI_OK) {
        return status;
    }
    return qn_run_commit(*out_run, &err) == QN_OK ? CLI_OK : fail_run(job, &err);
}

static int show(const cli_call *call, plan_job *job, const qn_run *run, const digest_feed *digests)
{
    plan_view *view = &job->view;

    if (digests->digest != NULL) {
        cli_digest_take(digests->digest, digests->hex + (size_t)digests->output * CLI_DIGEST_HEX);
    }
    view->run = run;
    view->seconds = cli_clock_seconds() - job->start_seconds;
    view->digests = digests->hex;
    view->has_errors = job->options.want_errors;
    qn_run_stats_of(run, &view->stats);
    plan_show_result(call, view);
    return job->report_path != NULL ? plan_write_report(view, job->report_path) : CLI_OK;
}

int plan_run(const cli_call *call, plan_job *job)
{
    digest_feed digests = {NULL, 0, NULL};
    cli_progress progress;
    qn_run *run = NULL;
    int status = plan_check_report(&job->view, job->model, &job->options, job->report_path);

    status = status == CLI_OK ? start_digests(job, &digests) : status;
    if (status == CLI_OK) {
        cli_progress_begin(&progress, call, call->command->name);
        set_options(call, job, &progress);
        status = run_steps(call, job, &run);
        cli_progress_end(&progress);
    }
    if (status == CLI_OK) {
        status = show(call, job, run, &digests);
    }
    hold_run(NULL);
    qn_run_free(run);
    cli_digest_free(digests.digest);
    free(digests.hex);
    return status;
}
