/* main.c — the `quench` command: finds the command, parses, runs. */
#include <langinfo.h>
#include <locale.h>

#include "cli/cli.h"

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
        cli_count_hidden_warnings();
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
    cli_catch_signals();
    return cli_finish_output(dispatch(argc, argv));
}
