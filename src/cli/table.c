/* table.c — tables through libsmartcols. Text reaches it escaped; see cli_text_escape(). */
#include "cli/table.h"

#include <libsmartcols.h>
#include <stdarg.h>

struct cli_table {
    struct libscols_table *table;
    struct libscols_line *line;
    size_t n_columns;
    size_t column; /* the next cell's */
};

static void check(int result)
{
    if (result != 0) {
        cli_error("out of memory for a table");
        exit(CLI_FAILED);
    }
}

cli_table *cli_table_new(void)
{
    cli_table *table = cli_alloc(1, sizeof *table);

    table->table = scols_new_table();
    check(table->table == NULL);
    check(scols_table_enable_noencoding(table->table, 1)); /* cells are escaped already */
    return table;
}

void cli_table_free(cli_table *table)
{
    if (table != NULL) {
        scols_unref_table(table->table);
        free(table);
    }
}

void cli_table_column(cli_table *table, const char *title, unsigned flags)
{
    int scols_flags = 0;

    if ((flags & CLI_RIGHT) != 0) {
        scols_flags |= SCOLS_FL_RIGHT;
    }
    if ((flags & CLI_CUT) != 0) {
        scols_flags |= SCOLS_FL_TRUNC;
    }
    check(scols_table_new_column(table->table, title, 0, scols_flags) == NULL);
    table->n_columns++;
}

void cli_table_row(cli_table *table)
{
    table->line = scols_table_new_line(table->table, NULL);
    check(table->line == NULL);
    table->column = 0;
}

void cli_table_cell(cli_table *table, const char *text)
{
    check(scols_line_set_data(table->line, table->column++, text));
}

void cli_table_name(cli_table *table, const char *bytes, int64_t n_bytes, int64_t n_max)
{
    cli_text text = {NULL, 0, 0};

    cli_text_escape(&text, bytes, n_bytes, n_max);
    check(scols_line_refer_data(table->line, table->column++, text.chars)); /* takes it */
}

void cli_table_printf(cli_table *table, const char *fmt, ...)
{
    char cell[256];
    va_list args;

    va_start(args, fmt);
    (void)vsnprintf(cell, sizeof cell, fmt, args);
    va_end(args);
    cli_table_cell(table, cell);
}

void cli_table_print(cli_table *table)
{
    (void)fflush(stdout);
    check(scols_print_table(table->table));
}
