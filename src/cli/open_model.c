/* open_model.c — a model opened as the input of a command. */
#include "cli/cli.h"
#include "quench/edit.h"

static int open_model(const cli_call *call, const char *path, qn_model_options *options,
                      qn_model **out_model)
{
    qn_error err = QN_ERROR_INIT;

    options->log = cli_log;
    options->log_ctx = cli_log_ctx(call);
    cli_guard_input(path);
    return qn_edit_check(path, &err) == QN_OK &&
                   qn_model_open(path, options, out_model, &err) == QN_OK
               ? CLI_OK
               : cli_fail(&err);
}

int cli_open_model(const cli_call *call, const char *path, const char *metadata_from,
                   qn_model **out_model)
{
    qn_model_options options = QN_MODEL_OPTIONS_INIT;

    options.metadata_from = metadata_from;
    return open_model(call, path, &options, out_model);
}

int cli_open_bytes(const cli_call *call, const char *path, qn_model **out_model)
{
    qn_model_options options = QN_MODEL_OPTIONS_INIT;

    options.takes_opaque = true;
    return open_model(call, path, &options, out_model);
}
