/* cmd_version.c — `quench version`: what this build and this machine can do. */
#include "cli/table.h"

static void print_types(void)
{
    cli_table *table = cli_table_new();

    cli_table_column(table, "TYPE", CLI_LEFT);
    cli_table_column(table, "ID", CLI_RIGHT);
    cli_table_column(table, "BLOCK", CLI_RIGHT);
    cli_table_column(table, "BYTES", CLI_RIGHT);
    cli_table_column(table, "BITS/WEIGHT", CLI_RIGHT);
    for (int id = 0; id < QN_DTYPE_LIMIT; id++) {
        const qn_dtype dtype = (qn_dtype)id;
        if (!qn_dtype_is_valid(dtype)) {
            continue;
        }
        const int64_t n_elems = qn_dtype_block_elems(dtype);
        const int64_t n_bytes = qn_dtype_block_bytes(dtype);
        cli_table_row(table);
        cli_table_cell(table, qn_dtype_name(dtype));
        cli_table_printf(table, "%d", id);
        cli_table_printf(table, "%" PRId64, n_elems);
        cli_table_printf(table, "%" PRId64, n_bytes);
        cli_table_printf(table, "%.4f", 8.0 * (double)n_bytes / (double)n_elems);
    }
    cli_table_print(table);
    cli_table_free(table);
}

static void print_isas(void)
{
    (void)printf("instruction sets:");
    for (int i = 0; qn_isa_at(i) != QN_ISA_BEST; i++) {
        if (qn_isa_is_available(qn_isa_at(i))) {
            (void)printf(" %s", qn_isa_name(qn_isa_at(i)));
        }
    }
    (void)printf(" (in use: %s)\n", qn_isa_name(qn_isa_resolve(QN_ISA_BEST)));
}

static int run(const cli_call *call)
{
    if (call->n_args != 0) {
        return cli_usage_error(call, "takes no arguments");
    }
    (void)printf("quench %s\n", qn_version());
    print_isas();
    (void)printf("\ntensor types:\n");
    print_types();
    return CLI_OK;
}

const cli_command cli_cmd_version = {
    .name = "version",
    .summary = "show version, tensor types and instruction sets",
    .usage = "[OPTIONS]",
    .description = "Shows the version, the instruction sets that this machine can run and the "
                   "tensor types that this build knows.",
    .run = run,
};
