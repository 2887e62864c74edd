/* json_out.c — the library's JSON writer into a stream. */
#include "cli/json_out.h"

static qn_status put(void *ctx, const void *bytes, size_t n_bytes, qn_error *err)
{
    (void)err;
    (void)fwrite(bytes, 1, n_bytes, ctx); /* whoever closes the stream reports what was lost */
    return QN_OK;
}

qn_json_writer *cli_json_begin(FILE *out)
{
    qn_json_writer *json = NULL;
    qn_error err = QN_ERROR_INIT;

    if (qn_json_writer_new(put, out, 2, NULL, &json, &err) != QN_OK) {
        exit(cli_fail(&err));
    }
    return json;
}

int cli_json_end(qn_json_writer *json, FILE *out, int status)
{
    qn_error err = QN_ERROR_INIT;
    const qn_status finished = qn_json_finish(json, &err);

    qn_json_writer_free(json);
    if (finished == QN_OK) {
        (void)fputc('\n', out);
        return CLI_OK;
    }
    if (status == CLI_OK) {
        (void)cli_fail(&err);
    }
    return CLI_FAILED;
}
