/* options.c — from option tables to values: getopt_long fed from the rows, checks, suggestions. */
#include <errno.h>
#include <getopt.h>

#include "cli/cli.h"

#define MAX_OPTIONS       64
#define FIRST_LONG_VALUE  1000 /* getopt_long's return value for row 0 */
#define BARE_NUMBER_LIMIT (1 << 20)

static const cli_option common_rows[] = {
    {.name = "threads",
     .letter = 't',
     .arg = "N",
     .help = "use N threads; 0 means one per processor (default 0)",
     .kind = CLI_INT,
     .offset = offsetof(cli_common, n_threads),
     .max = 4096},
    {.name = "memory",
     .arg = "SIZE",
     .help = "bound the work buffers, such as 64M or 1G; a bare number is MiB (default 40M)",
     .kind = CLI_SIZE,
     .offset = offsetof(cli_common, n_memory_bytes)},
    {.name = "isa",
     .arg = "NAME",
     .help = "use no instruction set above NAME; 'quench version' lists them",
     .kind = CLI_ISA,
     .offset = offsetof(cli_common, isa)},
    {.name = "json",
     .help = "print one JSON document instead of text",
     .kind = CLI_FLAG,
     .offset = offsetof(cli_common, json)},
    {.name = "quiet",
     .letter = 'q',
     .help = "print errors only",
     .kind = CLI_FLAG,
     .offset = offsetof(cli_common, quiet)},
    {.name = "log-level",
     .arg = "LEVEL",
     .help = "show messages from LEVEL up: debug, info, warning or none (default warning)",
     .kind = CLI_CHOICE,
     .offset = offsetof(cli_common, log_level),
     .choices = "debug|info|warning|none"},
    {.name = "help",
     .letter = 'h',
     .help = "show this help",
     .kind = CLI_FLAG,
     .offset = offsetof(cli_common, help)},
};

/* Which bit of `takes` each common row needs; 0: every command has it. */
static const unsigned common_takes[] = {
    CLI_TAKES_THREADS, CLI_TAKES_MEMORY, CLI_TAKES_ISA, CLI_TAKES_JSON, 0, 0, 0,
};
_Static_assert(CLI_COUNT(common_rows) == CLI_COUNT(common_takes), "one entry for each row");

const cli_option *cli_option_at(const cli_command *command, int index, bool *out_is_common)
{
    if (index < command->options.n) {
        *out_is_common = false;
        return &command->options.rows[index];
    }
    *out_is_common = true;
    int n_seen = command->options.n;
    for (int i = 0; i < CLI_COUNT(common_rows); i++) {
        const bool is_taken = common_takes[i] == 0 || (common_takes[i] & command->takes) != 0;
        if (is_taken && n_seen++ == index) {
            return &common_rows[i];
        }
    }
    return NULL;
}

/* --- suggestions ------------------------------------------------------------------------------ */

#define MAX_WORD 48

static int min_int(int a, int b)
{
    return a < b ? a : b;
}

int cli_edit_distance(const char *a, const char *b, int limit)
{
    const size_t n_a = strlen(a), n_b = strlen(b);
    int row[MAX_WORD + 1];

    if (n_a > MAX_WORD || n_b > MAX_WORD) {
        return limit;
    }
    for (size_t j = 0; j <= n_b; j++) {
        row[j] = (int)j;
    }
    for (size_t i = 1; i <= n_a; i++) {
        int diagonal = row[0];
        row[0] = (int)i;
        for (size_t j = 1; j <= n_b; j++) {
            const int replaced = diagonal + (a[i - 1] != b[j - 1]);
            diagonal = row[j];
            row[j] = min_int(replaced, 1 + min_int(row[j], row[j - 1]));
        }
    }
    return min_int(row[n_b], limit);
}

/* Edits that still count as a slip of the finger, for a word of this length. */
static int near_limit(const char *word)
{
    return strlen(word) < 5 ? 2 : 3;
}

const char *cli_nearest_command(const char *name)
{
    const char *nearest = NULL;
    int best = near_limit(name);

    for (int i = 0; cli_command_at(i) != NULL; i++) {
        const int edits = cli_edit_distance(name, cli_command_at(i)->name, best);
        if (edits < best) {
            best = edits;
            nearest = cli_command_at(i)->name;
        }
    }
    return nearest;
}

static const char *nearest_option(const cli_command *command, const char *name)
{
    const char *nearest = NULL;
    int best = near_limit(name);
    bool is_common;

    for (int i = 0; cli_option_at(command, i, &is_common) != NULL; i++) {
        const char *other = cli_option_at(command, i, &is_common)->name;
        const int edits = cli_edit_distance(name, other, best);
        if (edits < best) {
            best = edits;
            nearest = other;
        }
    }
    return nearest;
}

/* --- one value -------------------------------------------------------------------------------- */

static int bad_value(const cli_call *call, const cli_option *option, const char *value,
                     const char *expected)
{
    cli_text shown = {NULL, 0, 0};

    cli_text_escape(&shown, value, (int64_t)strlen(value), 60);
    const int status =
        cli_usage_error(call, "--%s '%s': expected %s", option->name, shown.chars, expected);
    cli_text_free(&shown);
    return status;
}

bool cli_parse_int(const char *text, int64_t *out_value)
{
    char *end = NULL;

    errno = 0;
    const long long value = strtoll(text, &end, 10);
    const bool is_number = end != text && *end == '\0' && errno == 0 && text[0] != ' ';
    *out_value = is_number ? (int64_t)value : 0;
    return is_number;
}

/* The factor of a unit "", "B", "K", "KB", "KiB", "M", ...; 0 for anything else. */
static int64_t unit_factor(const char *unit)
{
    static const char letters[] = "KMGT";
    int64_t factor = 1;

    if (unit[0] == '\0' || strcmp(unit, "B") == 0 || strcmp(unit, "b") == 0) {
        return 1;
    }
    const char letter = unit[0] >= 'a' && unit[0] <= 'z' ? (char)(unit[0] - 'a' + 'A') : unit[0];
    const char *found = strchr(letters, letter);
    const char *rest = unit + 1;
    if (found == NULL || !(rest[0] == '\0' || strcmp(rest, "B") == 0 || strcmp(rest, "iB") == 0)) {
        return 0;
    }
    for (const char *p = letters; p <= found; p++) {
        factor *= 1024;
    }
    return factor;
}

bool cli_parse_size(const char *text, int64_t *out_n_bytes)
{
    char *end = NULL;

    *out_n_bytes = 0;
    if (text[0] < '0' || text[0] > '9') {
        return false;
    }
    errno = 0;
    const long long number = strtoll(text, &end, 10);
    int64_t factor = unit_factor(end);
    if (errno != 0 || factor == 0) {
        return false;
    }
    if (*end == '\0' && number < BARE_NUMBER_LIMIT) {
        factor = 1024 * 1024;
    }
    return !__builtin_mul_overflow((int64_t)number, factor, out_n_bytes);
}

/* The index of `word` in "a|b|c", or -1. */
static int find_choice(const char *choices, const char *word)
{
    const size_t n_word = strlen(word);

    for (int index = 0;; index++) {
        const size_t n = strcspn(choices, "|");
        if (n == n_word && strncmp(choices, word, n) == 0) {
            return index;
        }
        if (choices[n] == '\0') {
            return -1;
        }
        choices += n + 1;
    }
}

static void add_to_list(cli_list *list, const char *item)
{
    const char **items = cli_alloc((size_t)list->n + 1, sizeof *items);

    if (list->n > 0) {
        memcpy(items, list->items, (size_t)list->n * sizeof *items);
    }
    items[list->n] = item;
    free(list->items);
    list->items = items;
    list->n++;
}

static int store_int(const cli_call *call, const cli_option *option, const char *value,
                     int64_t *target)
{
    char expected[96];

    if (cli_parse_int(value, target) && *target >= option->min && *target <= option->max) {
        return CLI_OK;
    }
    (void)snprintf(expected, sizeof expected, "a whole number from %" PRId64 " to %" PRId64,
                   option->min, option->max);
    return bad_value(call, option, value, expected);
}

static int store_number(const cli_call *call, const cli_option *option, const char *value,
                        double *target)
{
    char *end = NULL;

    *target = strtod(value, &end);
    if (end == value || *end != '\0' || *target != *target) {
        return bad_value(call, option, value, "a number");
    }
    return CLI_OK;
}

static int store_choice(const cli_call *call, const cli_option *option, const char *value,
                        int *target)
{
    char expected[160];

    *target = find_choice(option->choices, value);
    if (*target >= 0) {
        return CLI_OK;
    }
    (void)snprintf(expected, sizeof expected, "one of %s", option->choices);
    return bad_value(call, option, value, expected);
}

static int store_isa(const cli_call *call, const char *value, qn_isa *target)
{
    qn_error err = QN_ERROR_INIT;

    if (qn_isa_from_name(value, target, &err) != QN_OK) {
        return cli_usage_error(call, "%s", err.message);
    }
    if (!qn_isa_is_available(*target)) {
        return cli_usage_error(call, "--isa %s: this machine cannot run it", value);
    }
    return CLI_OK;
}

static int store(cli_call *call, const cli_option *option, char *base, const char *value)
{
    void *target = base + option->offset;

    switch (option->kind) {
    case CLI_FLAG:
        *(bool *)target = true;
        return CLI_OK;
    case CLI_TEXT:
        *(const char **)target = value;
        return CLI_OK;
    case CLI_LIST:
        add_to_list(target, value);
        return CLI_OK;
    case CLI_INT:
        return store_int(call, option, value, target);
    case CLI_SIZE:
        return cli_parse_size(value, target)
                   ? CLI_OK
                   : bad_value(call, option, value, "a size such as 64M, 1GiB or 512K");
    case CLI_NUMBER:
        return store_number(call, option, value, target);
    case CLI_ISA:
        return store_isa(call, value, target);
    case CLI_DTYPE:
        *(qn_dtype *)target = qn_dtype_from_name(value);
        return *(qn_dtype *)target != QN_DTYPE_NONE
                   ? CLI_OK
                   : bad_value(call, option, value,
                               "a tensor type such as q8_0; 'quench version' lists them");
    case CLI_CHOICE:
        return store_choice(call, option, value, target);
    }
    return CLI_BAD_USAGE;
}

/* --- the command line --------------------------------------------------------------------------
 */

typedef struct getopt_tables {
    struct option longs[MAX_OPTIONS + 1];
    char shorts[2 + 2 * MAX_OPTIONS + 1];
} getopt_tables;

static int argument_of(const cli_option *option)
{
    if (option->arg == NULL) {
        return no_argument;
    }
    return option->without != NULL ? optional_argument : required_argument;
}

static void build_tables(const cli_command *command, getopt_tables *tables)
{
    int n_shorts = 0;
    bool is_common;

    memset(tables, 0, sizeof *tables);
    tables->shorts[n_shorts++] = ':'; /* tell a missing argument from an unknown option */
    for (int i = 0; i < MAX_OPTIONS && cli_option_at(command, i, &is_common) != NULL; i++) {
        const cli_option *option = cli_option_at(command, i, &is_common);
        tables->longs[i] =
            (struct option){option->name, argument_of(option), NULL, FIRST_LONG_VALUE + i};
        if (option->letter != 0) {
            tables->shorts[n_shorts++] = option->letter;
            if (option->arg != NULL) {
                tables->shorts[n_shorts++] = ':';
            }
        }
    }
}

static int index_of_letter(const cli_command *command, int letter)
{
    bool is_common;

    for (int i = 0; cli_option_at(command, i, &is_common) != NULL; i++) {
        if (cli_option_at(command, i, &is_common)->letter == letter) {
            return i;
        }
    }
    return -1;
}

static int unknown_option(const cli_call *call, const char *token)
{
    cli_text shown = {NULL, 0, 0};
    const size_t n = strncmp(token, "--", 2) == 0 ? strcspn(token, "=") : strlen(token);

    cli_text_escape(&shown, token, (int64_t)n, 60);
    const char *nearest = n > 2 ? nearest_option(call->command, shown.chars + 2) : NULL;
    const int status =
        nearest != NULL
            ? cli_usage_error(call, "unknown option %s; did you mean --%s?", shown.chars, nearest)
            : cli_usage_error(call, "unknown option %s", shown.chars);
    cli_text_free(&shown);
    return status;
}

/* getopt_long takes any unique beginning of a name; scripts that rely on one break when an option
 * is added, so that only whole names pass. */
static bool is_whole_name(const char *token, const char *name)
{
    const size_t n = strlen(name);

    return strncmp(token, "--", 2) == 0 && strncmp(token + 2, name, n) == 0 &&
           (token[2 + n] == '\0' || token[2 + n] == '=');
}

static int take_option(cli_call *call, int result, char **argv)
{
    const bool is_long = result >= FIRST_LONG_VALUE;
    const int index = is_long ? result - FIRST_LONG_VALUE : index_of_letter(call->command, result);
    bool is_common = false;
    const cli_option *option = cli_option_at(call->command, index, &is_common);

    if (is_long) {
        const char *token =
            optarg != NULL && optarg == argv[optind - 1] ? argv[optind - 2] : argv[optind - 1];
        if (!is_whole_name(token, option->name)) {
            return unknown_option(call, token);
        }
    }
    return store(call, option, is_common ? (char *)&call->common : (char *)call->values,
                 optarg != NULL ? optarg : option->without);
}

static int refuse(const cli_call *call, int result, char **argv)
{
    const char *token = argv[optind - 1];

    if (result == ':') {
        return cli_usage_error(call, "%s needs an argument", token);
    }
    if (optopt >= FIRST_LONG_VALUE) {
        bool is_common;
        return cli_usage_error(
            call, "--%s takes no argument",
            cli_option_at(call->command, optopt - FIRST_LONG_VALUE, &is_common)->name);
    }
    if (optopt != 0) {
        const char short_token[3] = {'-', (char)optopt, '\0'};
        return unknown_option(call, short_token);
    }
    return unknown_option(call, token);
}

/* What is not zero when it is not given. */
static void set_defaults(cli_call *call)
{
    const cli_options *options = &call->command->options;

    call->common.log_level = QN_LOG_WARNING;
    for (int i = 0; i < options->n; i++) {
        if (options->rows[i].kind == CLI_DTYPE) {
            void *target = (char *)call->values + options->rows[i].offset;
            *(qn_dtype *)target = QN_DTYPE_NONE;
        }
    }
}

int cli_parse(const cli_command *command, int argc, char **argv, cli_call *out_call)
{
    getopt_tables tables;

    *out_call = (cli_call){.command = command};
    out_call->values = cli_alloc(1, command->n_value_bytes > 0 ? command->n_value_bytes : 1);
    set_defaults(out_call);
    build_tables(command, &tables);
    opterr = 0;
    optind = 1;
    for (;;) {
        const int result = getopt_long(argc, argv, tables.shorts, tables.longs, NULL);
        if (result == -1) {
            break;
        }
        const int status = result == '?' || result == ':' ? refuse(out_call, result, argv)
                                                          : take_option(out_call, result, argv);
        if (status != CLI_OK) {
            return status;
        }
    }
    out_call->args = argv + optind;
    out_call->n_args = argc - optind;
    if (out_call->common.quiet) {
        out_call->common.log_level = CLI_LOG_NONE;
    }
    return CLI_OK;
}

void cli_call_free(cli_call *call)
{
    const cli_options *options = &call->command->options;

    for (int i = 0; i < options->n; i++) {
        if (options->rows[i].kind == CLI_LIST) {
            cli_list *list = (cli_list *)(void *)((char *)call->values + options->rows[i].offset);
            free(list->items);
        }
    }
    free(call->values);
    call->values = NULL;
}
