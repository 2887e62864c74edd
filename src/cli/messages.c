/* messages.c — what is said on stderr, and whether stdout took what was written to it. */
#include <errno.h>
#include <stdarg.h>

#include "cli/cli.h"

void cli_error(const char *fmt, ...)
{
    va_list args;

    (void)fputs("quench: ", stderr);
    va_start(args, fmt);
    (void)vfprintf(stderr, fmt, args);
    va_end(args);
    (void)fputc('\n', stderr);
}

int cli_usage_error(const cli_call *call, const char *fmt, ...)
{
    va_list args;

    (void)fprintf(stderr, "quench: %s: ", call->command->name);
    va_start(args, fmt);
    (void)vfprintf(stderr, fmt, args);
    va_end(args);
    (void)fprintf(stderr, "; see 'quench %s --help'\n", call->command->name);
    return CLI_BAD_USAGE;
}

qn_status cli_set_error(qn_error *err, qn_status status, const char *fmt, ...)
{
    va_list args;

    if (err != NULL) {
        *err = (qn_error)QN_ERROR_INIT;
        err->status = status;
        va_start(args, fmt);
        (void)vsnprintf(err->message, sizeof err->message, fmt, args);
        va_end(args);
    }
    return status;
}

int cli_fail(const qn_error *err)
{
    const char *message = err->message[0] != '\0' ? err->message : qn_status_text(err->status);

    if (err->path[0] != '\0') {
        cli_error("%s: %s", err->path, message);
    } else {
        cli_error("%s", message);
    }
    const int code = qn_status_exit_code(err->status);
    return code == CLI_OK ? CLI_FAILED : code;
}

int cli_file_error(const char *path, const char *what)
{
    const int reason = errno;
    cli_text shown = {NULL, 0, 0};

    cli_text_escape(&shown, path, (int64_t)strlen(path), 0);
    cli_error("%s: %s: %s", shown.chars, what, strerror(reason));
    cli_text_free(&shown);
    return CLI_FAILED;
}

void *cli_log_ctx(const cli_call *call)
{
    void *ctx = NULL;

    memcpy(&ctx, &call, sizeof ctx); /* callbacks take no const; cli_log() only looks at it */
    return ctx;
}

#define MAX_WARNINGS 5 /* shown before the rest is only counted, unless more is asked for */
static int n_warnings;

void cli_log(void *ctx, qn_log_level level, const char *message)
{
    static const char *const words[] = {"debug", "info", "warning"};
    const cli_call *call = ctx;

    if ((int)level < call->common.log_level || (int)level >= CLI_COUNT(words)) {
        return;
    }
    if (call->common.log_level == QN_LOG_WARNING && n_warnings++ >= MAX_WARNINGS) {
        return;
    }
    cli_error("%s: %s", words[level], message);
}

void cli_count_hidden_warnings(void)
{
    if (n_warnings > MAX_WARNINGS) {
        cli_error("warning: %d more; --log-level info shows all", n_warnings - MAX_WARNINGS);
    }
}

int cli_finish_output(int status)
{
    if (fflush(stdout) != 0 || ferror(stdout) != 0) {
        cli_error("standard output: %s", strerror(errno));
        return CLI_FAILED;
    }
    return status;
}
