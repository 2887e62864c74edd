/* cli/table.h — tables on the standard output; the one place that knows libsmartcols. */
#ifndef CLI_TABLE_H
#define CLI_TABLE_H

#include "cli/cli.h"

typedef struct cli_table cli_table;

enum { CLI_LEFT = 0, CLI_RIGHT = 1, CLI_CUT = 2 /* give way when the terminal is narrow */ };

/* Out of memory ends the program with a message. */
cli_table *cli_table_new(void);
void cli_table_free(cli_table *table);
void cli_table_column(cli_table *table, const char *title, unsigned flags);
/* Begin a row; the cells that follow go to it, one column after the other. */
void cli_table_row(cli_table *table);
void cli_table_cell(cli_table *table, const char *text);
/* Untrusted bytes, escaped; at most n_max characters (0: no limit). */
void cli_table_name(cli_table *table, const char *bytes, int64_t n_bytes, int64_t n_max);
void cli_table_printf(cli_table *table, const char *fmt, ...) CLI_PRINTF(2, 3);
void cli_table_print(cli_table *table);

#endif
