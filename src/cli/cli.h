/* cli/cli.h — the `quench` command: what every command file may use.
 *
 * The command knows the library through its public headers only. A command is one file,
 * cmd_<name>.c, that defines one `cli_command`: name, usage, option table, run; its row in
 * commands.def makes it known. Everything a user sees of an option (parsing, --help, the man
 * page's OPTIONS, completions, "did you mean") is made from its one row in the option table.
 * Start reading at cli_option and cli_command. */
#ifndef CLI_CLI_H
#define CLI_CLI_H

#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "quench/quench.h"

#define CLI_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#define CLI_COUNT(array)      ((int)(sizeof(array) / sizeof((array)[0])))

enum { CLI_OK = 0, CLI_FAILED = 1, CLI_BAD_USAGE = 2 };

/* --- option tables ---------------------------------------------------------------------------- */

typedef enum cli_kind {
    CLI_FLAG,   /* bool */
    CLI_TEXT,   /* const char * */
    CLI_LIST,   /* cli_list: every occurrence, in order */
    CLI_INT,    /* int64_t within min..max */
    CLI_SIZE,   /* int64_t bytes: 64M, 1GiB; a bare number is MiB */
    CLI_NUMBER, /* double */
    CLI_ISA,    /* qn_isa */
    CLI_DTYPE,  /* qn_dtype */
    CLI_CHOICE, /* int: index of the word in `choices` ("debug|info") */
} cli_kind;

/* The values of an option that may be given more than once. */
typedef struct cli_list {
    const char **items;
    int n;
} cli_list;

/* One option. `offset` is where its value goes in the command's struct of values. */
typedef struct cli_option {
    const char *name; /* long name without the dashes */
    const char *arg;  /* what stands for its argument in help; NULL for a flag */
    const char *group;
    const char *help; /* one sentence, lower case, no full stop */
    size_t offset;
    int64_t min, max;    /* CLI_INT */
    const char *choices; /* CLI_CHOICE */
    cli_kind kind;
    char letter;         /* short name, or 0 */
    const char *without; /* the value of --name alone; the argument is then --name=ARG only */
} cli_option;

typedef struct cli_options {
    const cli_option *rows;
    int n;
} cli_options;

/* Options that several commands share; a command says which it takes. */
enum {
    CLI_TAKES_THREADS = 1,
    CLI_TAKES_MEMORY = 2,
    CLI_TAKES_ISA = 4,
    CLI_TAKES_JSON = 8,
    CLI_TAKES_WORK = CLI_TAKES_THREADS | CLI_TAKES_MEMORY | CLI_TAKES_ISA,
};

typedef struct cli_common {
    int64_t n_threads;      /* 0: one per processor */
    int64_t n_memory_bytes; /* 0: the library's default */
    qn_isa isa;
    bool json;
    bool quiet;
    int log_level; /* a qn_log_level; CLI_LOG_NONE above all */
    bool help;
} cli_common;
enum { CLI_LOG_NONE = QN_LOG_WARNING + 1 };

/* --- commands --------------------------------------------------------------------------------- */

struct cli_command;

/* One invocation: what the command line said. */
typedef struct cli_call {
    const struct cli_command *command;
    cli_common common;
    void *values; /* the command's own struct, zeroed, filled from its option table */
    char **args;  /* what is no option */
    int n_args;
} cli_call;

typedef struct cli_command {
    const char *name;
    const char *summary;     /* one line, lower case, no full stop */
    const char *usage;       /* what follows the name: "[OPTIONS] FILE..." */
    const char *description; /* paragraphs separated by \n\n; wrapped when shown */
    cli_options options;
    unsigned takes;       /* CLI_TAKES_* */
    size_t n_value_bytes; /* of the struct behind cli_call.values */
    const char *exit_1;   /* when it exits with 1; NULL: the usual sentence */
    bool is_hidden;       /* not listed in the overview */
    int (*run)(const cli_call *call);
} cli_command;

#define CLI_OPTIONS(table)        \
    {                             \
        (table), CLI_COUNT(table) \
    }

/* All commands in the order of commands.def; NULL past the last one. */
const cli_command *cli_command_at(int index);
const cli_command *cli_command_find(const char *name);

/* Every option of a command, its own first, then the shared ones that it takes, --help last:
 * NULL past the last one. Rows from *out_is_common on write into cli_call.common. */
const cli_option *cli_option_at(const cli_command *command, int index, bool *out_is_common);

/* Fill call->common, values, args from argv[1...]. Returns CLI_OK or CLI_BAD_USAGE (said). */
int cli_parse(const cli_command *command, int argc, char **argv, cli_call *out_call);
void cli_call_free(cli_call *call);

/* How many single-character edits lead from one word to the other, at most `limit`. */
int cli_edit_distance(const char *a, const char *b, int limit);
/* The command whose name is nearest to a mistyped one; NULL if none is near. */
const char *cli_nearest_command(const char *name);

/* A whole number, nothing before or after it. */
bool cli_parse_int(const char *text, int64_t *out_value);
/* A size as CLI_SIZE takes it. */
bool cli_parse_size(const char *text, int64_t *out_n_bytes);

void cli_help(const cli_command *command, FILE *out);
void cli_overview(FILE *out);
/* The OPTIONS and EXIT STATUS sections of the man page as scdoc; NULL: the command list. */
void cli_man_sections(const cli_command *command, FILE *out);
/* A completion script for "bash", "zsh" or "fish"; false for another shell. */
bool cli_completion(const char *shell, FILE *out);

/* --- messages --------------------------------------------------------------------------------- */

/* "quench: MESSAGE" on stderr, one line. The text must be escaped already. */
void cli_error(const char *fmt, ...) CLI_PRINTF(1, 2);
/* The same for bad usage, with a pointer to the command's help; returns CLI_BAD_USAGE. */
int cli_usage_error(const cli_call *call, const char *fmt, ...) CLI_PRINTF(2, 3);
/* "quench: FILE: message" for a failed library call; returns the exit status. */
int cli_fail(const qn_error *err);
/* Fill *err for callbacks that the library calls; the text must be escaped. Returns `status`. */
qn_status cli_set_error(qn_error *err, qn_status status, const char *fmt, ...) CLI_PRINTF(3, 4);
/* "quench: PATH: WHAT: reason" with the reason of errno; returns CLI_FAILED. */
int cli_file_error(const char *path, const char *what);
/* A qn_log_fn, and the ctx that goes with it. */
void cli_log(void *ctx, qn_log_level level, const char *message);
void *cli_log_ctx(const cli_call *call);
/* Say how many warnings were held back, if any were. */
void cli_count_hidden_warnings(void);
/* Flush stdout; CLI_FAILED (said) if anything written to it was lost, else `status`. */
int cli_finish_output(int status);

/* --- signals ---------------------------------------------------------------------------------- */

/* From now on SIGINT, SIGTERM and SIGHUP ask the job to stop, the second one ends the program. */
void cli_catch_signals(void);
/* True once one of them came. */
bool cli_is_interrupted(void);
/* Name the input that is mapped now, for the message if it is cut short under us; NULL: none. */
void cli_guard_input(const char *path);

/* --- models ------------------------------------------------------------------------------------
 */

/* Open a model as a command's input: warnings are logged, the file is guarded. `metadata_from`: for
 * safetensors, the GGUF with the metadata; NULL: none. CLI_OK, or an exit status: the error is
 * said. */
int cli_open_model(const cli_call *call, const char *path, const char *metadata_from,
                   qn_model **out_model);
/* The same for looking at bytes: with tensors whose type has no counterpart here. */
int cli_open_bytes(const cli_call *call, const char *path, qn_model **out_model);

/* --- text ------------------------------------------------------------------------------------- */

/* A string that grows. Out of memory ends the program with a message: it holds no output. */
typedef struct cli_text {
    char *chars; /* NUL-terminated; NULL until something was added */
    size_t n;
    size_t n_capacity;
} cli_text;
void cli_text_add(cli_text *text, const char *chars, size_t n);
void cli_text_printf(cli_text *text, const char *fmt, ...) CLI_PRINTF(2, 3);
/* Untrusted bytes: printable UTF-8 as it is, the rest as \n, \xNN, \u{N}. At most n_max columns'
 * worth of characters, then "..."; 0: no limit. */
void cli_text_escape(cli_text *text, const char *bytes, int64_t n_bytes, int64_t n_max);
void cli_text_free(cli_text *text);

/* A whole text file of at most n_max bytes, added to *out_text. Returns the exit status; the error
 * is said. */
int cli_read_text(const char *path, size_t n_max, cli_text *out_text);

/* malloc and friends that end the program with a message. */
void *cli_alloc(size_t n, size_t n_elem_bytes);

#define CLI_NUMBER_MAX 48
/* "145,278,720" into buf; returns buf. */
const char *cli_grouped(int64_t value, char *buf);
/* "138.5 MiB" into buf; returns buf. */
const char *cli_bytes(int64_t n_bytes, char *buf);
/* "134.5 M" into buf; returns buf. */
const char *cli_count(int64_t n, char *buf);

/* Paragraphs wrapped at `width` columns, each line after `indent` spaces. */
void cli_wrap(FILE *out, const char *text, int indent, int width);

/* --- progress --------------------------------------------------------------------------------- */

/* A bar on stderr: drawn on a terminal only, and only once the work has taken a while. */
typedef struct cli_progress {
    const char *what; /* the word before the bar */
    bool is_shown;
    bool is_drawn;
    double start_seconds;
    double last_seconds;
} cli_progress;
void cli_progress_begin(cli_progress *progress, const cli_call *call, const char *what);
/* A qn_progress_fn (units: bytes); its ctx is the cli_progress. False once interrupted. */
bool cli_progress_step(void *ctx, int64_t done, int64_t total);
void cli_progress_end(cli_progress *progress);
double cli_clock_seconds(void);
/* The most memory that this process has had resident; -1 if unknown. */
int64_t cli_peak_bytes(void);

#if defined(__GNUC__)
#pragma GCC poison strcpy strcat sprintf vsprintf gets strtok atoi atol atoll atof alloca
#endif

#endif
