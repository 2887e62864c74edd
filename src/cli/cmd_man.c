/* cmd_man.c — `quench man`: the generated sections of a man page, for the build. */
#include "cli/cli.h"

static int run(const cli_call *call)
{
    if (call->n_args > 1) {
        return cli_usage_error(call, "expected one command or none");
    }
    const cli_command *command = call->n_args == 1 ? cli_command_find(call->args[0]) : NULL;
    if (call->n_args == 1 && command == NULL) {
        return cli_usage_error(call, "no such command");
    }
    cli_man_sections(command, stdout);
    return CLI_OK;
}

const cli_command cli_cmd_man = {
    .name = "man",
    .summary = "print the generated sections of a man page as scdoc",
    .usage = "[COMMAND]",
    .description = "Prints OPTIONS and EXIT STATUS of a command (without one: COMMANDS and EXIT "
                   "STATUS) in scdoc's language. The build puts them into the man pages.",
    .is_hidden = true,
    .run = run,
};
