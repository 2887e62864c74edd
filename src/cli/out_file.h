/* cli/out_file.h — small outputs of the command itself: whole under their name, or not there. */
#ifndef CLI_OUT_FILE_H
#define CLI_OUT_FILE_H

#include "cli/cli.h"

typedef struct cli_out_file {
    const char *path; /* as the user gave it; "-": the standard output */
    char *temp_path;  /* NULL for the standard output */
    FILE *stream;     /* NULL: not open */
} cli_out_file;

/* True if both paths name one existing file, through any link or spelling. */
bool cli_is_same_file(const char *path_a, const char *path_b);
/* Open a temporary file beside `path`. Returns the exit status; the error is said. */
int cli_out_open(const char *path, cli_out_file *out_file);
/* Sync it and put it under its name. Returns the exit status; the error is said. */
int cli_out_commit(cli_out_file *file);
/* Drop it; does nothing after a commit. */
void cli_out_abort(cli_out_file *file);

#endif
