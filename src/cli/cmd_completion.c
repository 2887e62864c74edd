/* cmd_completion.c — `quench completion`: completion scripts made from the option tables. */
#include "cli/cli.h"

static int run(const cli_call *call)
{
    if (call->n_args != 1) {
        return cli_usage_error(call, "expected one shell: bash, zsh or fish");
    }
    if (!cli_completion(call->args[0], stdout)) {
        return cli_usage_error(call, "no completions for this shell; use bash, zsh or fish");
    }
    return CLI_OK;
}

const cli_command cli_cmd_completion = {
    .name = "completion",
    .summary = "print a completion script for bash, zsh or fish",
    .usage = "bash|zsh|fish",
    .description = "Prints a script that completes the commands and options of this very program. "
                   "Packages install it; to try it: source <(quench completion bash).",
    .run = run,
};
