/* open_model.c — a model opened as the input of a command. */
#include "cli/cli.h"
#include "quench/edit.h"

/* Of all files: a part of a split model is edited in place by itself. */
static qn_status check_edits(const qn_model *model, qn_error *err)
{
    const char *path;
    qn_status status = QN_OK;

    for (int32_t i = 0; status == QN_OK && (path = qn_model_input_path(model, i)) != NULL; i++) {
        status = qn_edit_check(path, err);
    }
    return status;
}

static int open_model(const cli_call *call, const char *path, qn_model_options *options,
                      qn_model **out_model)
{
    qn_error err = QN_ERROR_INIT;

    options->log = cli_log;
    options->log_ctx = cli_log_ctx(call);
    cli_guard_input(path);
    qn_status status = qn_edit_check(path, &err);
    if (status == QN_OK) {
        status = qn_model_open(path, options, out_model, &err);
    }
    if (status == QN_OK) {
        status = check_edits(*out_model, &err);
    }
    if (status == QN_OK) {
        return CLI_OK;
    }
    qn_model_close(*out_model);
    *out_model = NULL;
    return cli_fail(&err);
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
