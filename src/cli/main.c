/* main.c — the `quench` command: finds the command, parses, runs; signals and messages. */
#include <errno.h>
#include <langinfo.h>
#include <locale.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <unistd.h>

#include "cli/cli.h"

#define QN_COMMAND(name) extern const cli_command cli_cmd_##name;
#include "cli/commands.def"
#undef QN_COMMAND

#define QN_COMMAND(name) &cli_cmd_##name,
static const cli_command *const commands[] = {
#include "cli/commands.def"
};
#undef QN_COMMAND

const cli_command *cli_command_at(int index)
{
    return index >= 0 && index < CLI_COUNT(commands) ? commands[index] : NULL;
}

const cli_command *cli_command_find(const char *name)
{
    for (int i = 0; i < CLI_COUNT(commands); i++) {
        if (strcmp(commands[i]->name, name) == 0) {
            return commands[i];
        }
    }
    return NULL;
}

/* --- messages -----------------------------------------------------------------------------------
 */

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

static void count_hidden_warnings(void)
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

/* --- signals ------------------------------------------------------------------------------------
 */

static atomic_int interrupted;
static const char *_Atomic guarded_path;

bool cli_is_interrupted(void)
{
    return atomic_load_explicit(&interrupted, memory_order_relaxed) != 0;
}

void cli_guard_input(const char *path)
{
    atomic_store(&guarded_path, path);
}

/* The first one asks the job to stop and clean up; the second one ends the program at once. */
static void on_interrupt(int number)
{
    atomic_store_explicit(&interrupted, number, memory_order_relaxed);
}

static void write_all(const char *text)
{
    size_t n_left = strlen(text);

    while (n_left > 0) {
        const ssize_t n = write(STDERR_FILENO, text, n_left);
        if (n <= 0) {
            return;
        }
        text += n;
        n_left -= (size_t)n;
    }
}

/* A mapped header that is cut short under us cannot be read on: say so and end. */
static void on_bus_error(int number)
{
    const char *path = atomic_load(&guarded_path);

    (void)number;
    write_all("quench: ");
    if (path != NULL) {
        write_all(path);
        write_all(": ");
    }
    write_all("the file was cut short while it was being read; try again when nothing writes to "
              "it\n");
    _exit(CLI_FAILED);
}

static void catch_signal(int number, void (*handler)(int), int flags)
{
    struct sigaction action;

    memset(&action, 0, sizeof action);
    action.sa_handler = handler;
    action.sa_flags = flags;
    (void)sigemptyset(&action.sa_mask);
    (void)sigaction(number, &action, NULL);
}

static void catch_signals(void)
{
    catch_signal(SIGINT, on_interrupt, (int)SA_RESETHAND);
    catch_signal(SIGTERM, on_interrupt, (int)SA_RESETHAND);
    catch_signal(SIGBUS, on_bus_error, 0);
    catch_signal(SIGXFSZ, SIG_IGN, 0); /* a write past the limit of file sizes fails and is told */
}

/* --- runs ---------------------------------------------------------------------------------------
 */

static qn_run *held_run;

static void free_held_run(void)
{
    qn_run_free(held_run);
    held_run = NULL;
}

void cli_hold_run(qn_run *run)
{
    static bool is_registered;

    if (!is_registered) {
        is_registered = atexit(free_held_run) == 0;
    }
    held_run = run;
}

/* --- main ---------------------------------------------------------------------------------------
 */

/* Names are UTF-8; tables need to know how wide they are. */
static void use_utf8(void)
{
    const bool is_set = setlocale(LC_CTYPE, "") != NULL;

    if (!is_set || strcmp(nl_langinfo(CODESET), "UTF-8") != 0) {
        (void)setlocale(LC_CTYPE, "C.UTF-8");
    }
}

static int unknown_command(const char *name)
{
    cli_text shown = {NULL, 0, 0};
    const char *nearest = cli_nearest_command(name);

    cli_text_escape(&shown, name, (int64_t)strlen(name), 60);
    if (nearest != NULL) {
        cli_error("unknown command '%s'; did you mean '%s'?", shown.chars, nearest);
    } else {
        cli_error("unknown command '%s'; 'quench --help' lists the commands", shown.chars);
    }
    cli_text_free(&shown);
    return CLI_BAD_USAGE;
}

static int run_command(const cli_command *command, int argc, char **argv)
{
    cli_call call;
    int status = cli_parse(command, argc, argv, &call);

    if (status == CLI_OK && call.common.help) {
        cli_help(command, stdout);
    } else if (status == CLI_OK) {
        status = command->run(&call);
        count_hidden_warnings();
    }
    cli_call_free(&call);
    return status;
}

/* `quench help [COMMAND]` */
static int show_help(int argc, char **argv)
{
    if (argc < 2) {
        cli_overview(stdout);
        return CLI_OK;
    }
    const cli_command *command = cli_command_find(argv[1]);
    if (command == NULL) {
        return unknown_command(argv[1]);
    }
    cli_help(command, stdout);
    return CLI_OK;
}

static int dispatch(int argc, char **argv)
{
    if (argc < 2) {
        cli_overview(stderr);
        return CLI_BAD_USAGE;
    }
    const char *name = argv[1];
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0) {
        return show_help(argc - 1, argv + 1);
    }
    if (strcmp(name, "--version") == 0) {
        (void)printf("quench %s\n", qn_version());
        return CLI_OK;
    }
    const cli_command *command = cli_command_find(name);
    if (command == NULL) {
        return unknown_command(name);
    }
    return run_command(command, argc - 1, argv + 1);
}

int main(int argc, char **argv)
{
    use_utf8();
    catch_signals();
    return cli_finish_output(dispatch(argc, argv));
}
