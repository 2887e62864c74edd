/* help.c — what the option tables say, as --help, as the generated part of a man page, as shell
 * completions. */
#include "cli/cli.h"

#define WIDTH       80
#define HELP_COLUMN 30 /* where the sentences of --help begin */

/* "-t, --threads N" */
static void add_option_name(cli_text *text, const cli_option *option)
{
    if (option->letter != 0) {
        cli_text_printf(text, "-%c, ", option->letter);
    } else {
        cli_text_add(text, "    ", 4);
    }
    cli_text_printf(text, "--%s", option->name);
    if (option->arg != NULL) {
        cli_text_printf(text, option->without != NULL ? "[=%s]" : " %s", option->arg);
    }
}

static void print_option(const cli_option *option, FILE *out)
{
    cli_text name = {NULL, 0, 0};

    add_option_name(&name, option);
    (void)fprintf(out, "  %s", name.chars);
    if (name.n + 4 > HELP_COLUMN) {
        (void)fputc('\n', out);
        cli_wrap(out, option->help, HELP_COLUMN, WIDTH);
    } else {
        cli_text wrapped = {NULL, 0, 0};
        char *buf = NULL;
        size_t n_buf = 0;
        FILE *memory = open_memstream(&buf, &n_buf);
        if (memory != NULL) {
            cli_wrap(memory, option->help, HELP_COLUMN, WIDTH);
            (void)fclose(memory);
            cli_text_add(&wrapped, buf + name.n + 2, n_buf - name.n - 2);
            (void)fputs(wrapped.chars, out);
        }
        free(buf);
        cli_text_free(&wrapped);
    }
    cli_text_free(&name);
}

static const char *group_of(const cli_option *option, bool is_common)
{
    return option->group != NULL ? option->group : is_common ? "common options" : "options";
}

void cli_help(const cli_command *command, FILE *out)
{
    const char *group = "";
    bool is_common;

    (void)fprintf(out, "quench %s - %s\n\n", command->name, command->summary);
    (void)fprintf(out, "usage: quench %s %s\n\n", command->name, command->usage);
    cli_wrap(out, command->description, 0, WIDTH);
    for (int i = 0; cli_option_at(command, i, &is_common) != NULL; i++) {
        const cli_option *option = cli_option_at(command, i, &is_common);
        if (strcmp(group, group_of(option, is_common)) != 0) {
            group = group_of(option, is_common);
            (void)fprintf(out, "\n%s:\n", group);
        }
        print_option(option, out);
    }
}

void cli_overview(FILE *out)
{
    (void)fprintf(out,
                  "quench %s - model files and quantization\n\n"
                  "usage: quench COMMAND [OPTIONS] ARGUMENTS\n\ncommands:\n",
                  qn_version());
    for (int i = 0; cli_command_at(i) != NULL; i++) {
        const cli_command *command = cli_command_at(i);
        if (!command->is_hidden) {
            (void)fprintf(out, "  %-12s  %s\n", command->name, command->summary);
        }
    }
    (void)fprintf(out, "\n'quench COMMAND --help' shows a command's options, "
                       "'man quench' the manual.\n");
}

/* --- man pages ----------------------------------------------------------------------------------
 */

/* scdoc's own characters, escaped. */
static void put_scdoc(const char *text, FILE *out)
{
    for (; *text != '\0'; text++) {
        if (strchr("*_\\#[]<>", *text) != NULL) {
            (void)fputc('\\', out);
        }
        (void)fputc(*text, out);
    }
}

static void print_man_option(const cli_option *option, FILE *out)
{
    if (option->letter != 0) {
        (void)fprintf(out, "*-%c*, ", option->letter);
    }
    (void)fputs("*--", out);
    put_scdoc(option->name, out);
    (void)fputc('*', out);
    if (option->arg != NULL) {
        (void)fputs(option->without != NULL ? "[=_" : " _", out);
        put_scdoc(option->arg, out);
        (void)fputs(option->without != NULL ? "_]" : "_", out);
    }
    (void)fputs("\n\t", out);
    put_scdoc(option->help, out);
    (void)fputs("\n\n", out);
}

static void print_man_commands(FILE *out)
{
    (void)fputs("# COMMANDS\n\n", out);
    for (int i = 0; cli_command_at(i) != NULL; i++) {
        const cli_command *command = cli_command_at(i);
        if (!command->is_hidden) {
            (void)fprintf(out, "*quench-%s*(1)\n\t", command->name);
            put_scdoc(command->summary, out);
            (void)fputs("\n\n", out);
        }
    }
}

static void print_man_options(const cli_command *command, FILE *out)
{
    const char *group = "options";
    bool is_common;

    (void)fputs("# OPTIONS\n\n", out);
    for (int i = 0; cli_option_at(command, i, &is_common) != NULL; i++) {
        const cli_option *option = cli_option_at(command, i, &is_common);
        if (strcmp(group, group_of(option, is_common)) != 0) {
            group = group_of(option, is_common);
            (void)fprintf(out, "## %c%s\n\n", group[0] - 'a' + 'A', group + 1);
        }
        print_man_option(option, out);
    }
}

void cli_man_sections(const cli_command *command, FILE *out)
{
    if (command == NULL) {
        print_man_commands(out);
    } else {
        print_man_options(command, out);
    }
    (void)fprintf(out, "# EXIT STATUS\n\n*0*\n\tdone\n\n*1*\n\t");
    put_scdoc(command != NULL && command->exit_1 != NULL
                  ? command->exit_1
                  : "it failed; one line on the standard error says why and what to do",
              out);
    (void)fprintf(out, "\n\n*2*\n\tthe command line was wrong\n\n");
}

/* --- completions --------------------------------------------------------------------------------
 */

static void print_words(const cli_command *command, FILE *out)
{
    bool is_common;

    for (int i = 0; cli_option_at(command, i, &is_common) != NULL; i++) {
        (void)fprintf(out, "%s--%s", i > 0 ? " " : "", cli_option_at(command, i, &is_common)->name);
    }
}

static void print_commands(FILE *out)
{
    for (int i = 0; cli_command_at(i) != NULL; i++) {
        if (!cli_command_at(i)->is_hidden) {
            (void)fprintf(out, "%s%s", i > 0 ? " " : "", cli_command_at(i)->name);
        }
    }
}

static void complete_bash(FILE *out)
{
    (void)fputs("# bash completion for quench, made by 'quench completion bash'\n"
                "_quench()\n{\n"
                "    local cur=${COMP_WORDS[COMP_CWORD]} words=\n"
                "    if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
                "        words='",
                out);
    print_commands(out);
    (void)fputs("'\n    elif [[ $cur == -* ]]; then\n        case ${COMP_WORDS[1]} in\n", out);
    for (int i = 0; cli_command_at(i) != NULL; i++) {
        (void)fprintf(out, "        %s) words='", cli_command_at(i)->name);
        print_words(cli_command_at(i), out);
        (void)fputs("' ;;\n", out);
    }
    (void)fputs("        esac\n    fi\n"
                "    mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$cur\")\n"
                "}\ncomplete -o default -F _quench quench\n",
                out);
}

/* A single-quoted shell word for zsh's _arguments and fish: quotes, brackets and colons escaped. */
static void put_quoted(const char *text, const char *escaped, FILE *out)
{
    for (; *text != '\0'; text++) {
        if (*text == '\'') {
            (void)fputs("'\\''", out);
        } else {
            if (strchr(escaped, *text) != NULL) {
                (void)fputc('\\', out);
            }
            (void)fputc(*text, out);
        }
    }
}

static void complete_zsh(FILE *out)
{
    bool is_common;

    (void)fputs("#compdef quench\n# zsh completion for quench, made by 'quench completion zsh'\n"
                "local -a commands\ncommands=(\n",
                out);
    for (int i = 0; cli_command_at(i) != NULL; i++) {
        if (!cli_command_at(i)->is_hidden) {
            (void)fprintf(out, "    '%s:", cli_command_at(i)->name);
            put_quoted(cli_command_at(i)->summary, ":", out);
            (void)fputs("'\n", out);
        }
    }
    (void)fputs(")\nif (( CURRENT == 2 )); then\n    _describe command commands\n    return\nfi\n"
                "local name=${words[2]}\nshift words\n(( CURRENT-- ))\ncase $name in\n",
                out);
    for (int i = 0; cli_command_at(i) != NULL; i++) {
        const cli_command *command = cli_command_at(i);
        (void)fprintf(out, "%s)\n    _arguments \\\n", command->name);
        for (int j = 0; cli_option_at(command, j, &is_common) != NULL; j++) {
            const cli_option *option = cli_option_at(command, j, &is_common);
            (void)fprintf(out, "        '%s--%s[", option->kind == CLI_LIST ? "*" : "",
                          option->name);
            put_quoted(option->help, "[]:", out);
            (void)fputc(']', out);
            if (option->arg != NULL) {
                (void)fprintf(out, ":%s:%s", option->arg,
                              strcmp(option->arg, "FILE") == 0 ? "_files" : "");
            }
            (void)fputs("' \\\n", out);
        }
        (void)fputs("        '*:file:_files'\n    ;;\n", out);
    }
    (void)fputs("esac\n", out);
}

static void complete_fish(FILE *out)
{
    bool is_common;

    (void)fputs("# fish completion for quench, made by 'quench completion fish'\n", out);
    for (int i = 0; cli_command_at(i) != NULL; i++) {
        const cli_command *command = cli_command_at(i);
        if (!command->is_hidden) {
            (void)fprintf(out, "complete -c quench -n __fish_use_subcommand -f -a %s -d '",
                          command->name);
            put_quoted(command->summary, "", out);
            (void)fputs("'\n", out);
        }
        for (int j = 0; cli_option_at(command, j, &is_common) != NULL; j++) {
            const cli_option *option = cli_option_at(command, j, &is_common);
            (void)fprintf(out, "complete -c quench -n '__fish_seen_subcommand_from %s' -l %s",
                          command->name, option->name);
            if (option->letter != 0) {
                (void)fprintf(out, " -s %c", option->letter);
            }
            (void)fprintf(out, "%s -d '",
                          option->arg != NULL && option->without == NULL ? " -r" : "");
            put_quoted(option->help, "", out);
            (void)fputs("'\n", out);
        }
    }
}

bool cli_completion(const char *shell, FILE *out)
{
    if (strcmp(shell, "bash") == 0) {
        complete_bash(out);
    } else if (strcmp(shell, "zsh") == 0) {
        complete_zsh(out);
    } else if (strcmp(shell, "fish") == 0) {
        complete_fish(out);
    } else {
        return false;
    }
    return true;
}
