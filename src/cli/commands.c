/* commands.c — the table of commands. */
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
