/* cmd_version.c — `quench version`: what this build and this machine can do. */
#include "cli/json_out.h"
#include "cli/table.h"
#include "quench/codec.h"
#include "quench/model.h"

typedef struct version_values {
    bool show_kernels;
} version_values;

static double bits_per_weight(qn_dtype dtype)
{
    return 8.0 * (double)qn_dtype_block_bytes(dtype) / (double)qn_dtype_block_elems(dtype);
}

/* --- text ---------------------------------------------------------------------------------------
 */

static const char *weights_word(qn_dtype dtype)
{
    switch (qn_dtype_weights_use(dtype)) {
    case QN_WEIGHTS_OPTIONAL:
        return "used";
    case QN_WEIGHTS_REQUIRED:
        return "required";
    case QN_WEIGHTS_IGNORED:
    case QN_WEIGHTS_NONE:
        break;
    }
    return "-";
}

static void print_types(void)
{
    static const char *const titles[] = {"ID", "BLOCK", "BYTES", "BITS/WEIGHT"};
    cli_table *table = cli_table_new();

    (void)printf("\ntensor types\n");
    cli_table_column(table, "TYPE", CLI_LEFT);
    for (int i = 0; i < CLI_COUNT(titles); i++) {
        cli_table_column(table, titles[i], CLI_RIGHT);
    }
    cli_table_column(table, "CODEC", CLI_LEFT);
    cli_table_column(table, "IMPORTANCE", CLI_LEFT);
    for (int id = 0; id < QN_DTYPE_LIMIT; id++) {
        const qn_dtype dtype = (qn_dtype)id;
        if (!qn_dtype_is_valid(dtype)) {
            continue;
        }
        cli_table_row(table);
        cli_table_cell(table, qn_dtype_name(dtype));
        cli_table_printf(table, "%d", id);
        cli_table_printf(table, "%" PRId64, qn_dtype_block_elems(dtype));
        cli_table_printf(table, "%" PRId64, qn_dtype_block_bytes(dtype));
        cli_table_printf(table, "%.4f", bits_per_weight(dtype));
        cli_table_printf(table, "%s%s", qn_has_decoder(dtype) ? "decode " : "",
                         qn_has_encoder(dtype) ? "encode" : "");
        cli_table_cell(table, weights_word(dtype));
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

static void print_presets(void)
{
    cli_table *table = cli_table_new();

    (void)printf("\npresets, as of llama.cpp %s\n", qn_policy_reference());
    cli_table_column(table, "PRESET", CLI_LEFT);
    cli_table_column(table, "ID", CLI_RIGHT);
    cli_table_column(table, "BASE TYPE", CLI_LEFT);
    cli_table_column(table, "DESCRIPTION", CLI_LEFT);
    for (int32_t i = 0; qn_preset_at(i) != NULL; i++) {
        const qn_preset *preset = qn_preset_at(i);
        cli_table_row(table);
        cli_table_cell(table, preset->name);
        if (preset->id == QN_PRESET_COPY) {
            cli_table_cell(table, "-");
        } else {
            cli_table_printf(table, "%d", (int)preset->id);
        }
        cli_table_cell(table, preset->base == QN_DTYPE_NONE ? "-" : qn_dtype_name(preset->base));
        cli_table_cell(table, preset->description);
    }
    cli_table_print(table);
    cli_table_free(table);
}

static void print_kernels(void)
{
    cli_table *table = cli_table_new();
    qn_kernel_info kernel;

    (void)printf("\nkernels\n");
    cli_table_column(table, "OPERATION", CLI_LEFT);
    cli_table_column(table, "TYPE", CLI_LEFT);
    cli_table_column(table, "INSTRUCTION SET", CLI_LEFT);
    cli_table_column(table, "HERE", CLI_LEFT);
    cli_table_column(table, "FUNCTION", CLI_LEFT);
    for (int i = 0; qn_kernel_at(i, &kernel); i++) {
        cli_table_row(table);
        cli_table_cell(table, kernel.operation);
        cli_table_cell(table, qn_dtype_name(kernel.dtype));
        cli_table_cell(table, qn_isa_name(kernel.isa));
        cli_table_cell(table, kernel.is_chosen      ? "in use"
                              : kernel.is_available ? "available"
                                                    : "no");
        cli_table_cell(table, kernel.symbol);
    }
    cli_table_print(table);
    cli_table_free(table);
}

/* --- JSON ---------------------------------------------------------------------------------------
 */

static void types_json(qn_json_writer *json)
{
    qn_json_key(json, "types");
    qn_json_begin_array(json);
    for (int id = 0; id < QN_DTYPE_LIMIT; id++) {
        const qn_dtype dtype = (qn_dtype)id;
        if (!qn_dtype_is_valid(dtype)) {
            continue;
        }
        qn_json_begin_object(json);
        qn_json_member_string(json, "name", qn_dtype_name(dtype));
        qn_json_member_i64(json, "id", id);
        qn_json_member_i64(json, "block_elements", qn_dtype_block_elems(dtype));
        qn_json_member_i64(json, "block_bytes", qn_dtype_block_bytes(dtype));
        qn_json_member_bool(json, "has_decoder", qn_has_decoder(dtype));
        qn_json_member_bool(json, "has_encoder", qn_has_encoder(dtype));
        qn_json_member_string(json, "importance", weights_word(dtype));
        qn_json_end_object(json);
    }
    qn_json_end_array(json);
}

static void presets_json(qn_json_writer *json)
{
    qn_json_member_string(json, "policy_reference", qn_policy_reference());
    qn_json_key(json, "presets");
    qn_json_begin_array(json);
    for (int32_t i = 0; qn_preset_at(i) != NULL; i++) {
        const qn_preset *preset = qn_preset_at(i);
        qn_json_begin_object(json);
        qn_json_member_string(json, "name", preset->name);
        qn_json_member_string(json, "alias", preset->alias);
        qn_json_member_i64(json, "id", preset->id);
        qn_json_member_string(json, "base",
                              preset->base == QN_DTYPE_NONE ? NULL : qn_dtype_name(preset->base));
        qn_json_end_object(json);
    }
    qn_json_end_array(json);
}

static void isas_json(qn_json_writer *json)
{
    qn_json_key(json, "instruction_sets");
    qn_json_begin_array(json);
    for (int i = 0; qn_isa_at(i) != QN_ISA_BEST; i++) {
        qn_json_begin_object(json);
        qn_json_member_string(json, "name", qn_isa_name(qn_isa_at(i)));
        qn_json_member_bool(json, "is_available", qn_isa_is_available(qn_isa_at(i)));
        qn_json_end_object(json);
    }
    qn_json_end_array(json);
    qn_json_member_string(json, "instruction_set_in_use", qn_isa_name(qn_isa_resolve(QN_ISA_BEST)));
}

static void kernels_json(qn_json_writer *json)
{
    qn_kernel_info kernel;

    qn_json_key(json, "kernels");
    qn_json_begin_array(json);
    for (int i = 0; qn_kernel_at(i, &kernel); i++) {
        qn_json_begin_object(json);
        qn_json_member_string(json, "operation", kernel.operation);
        qn_json_member_string(json, "type", qn_dtype_name(kernel.dtype));
        qn_json_member_string(json, "instruction_set", qn_isa_name(kernel.isa));
        qn_json_member_string(json, "function", kernel.symbol);
        qn_json_member_bool(json, "is_available", kernel.is_available);
        qn_json_member_bool(json, "is_chosen", kernel.is_chosen);
        qn_json_end_object(json);
    }
    qn_json_end_array(json);
}

static int print_json(const version_values *values)
{
    qn_json_writer *json = cli_json_begin(stdout);

    qn_json_begin_object(json);
    qn_json_member_string(json, "version", qn_version());
    isas_json(json);
    types_json(json);
    presets_json(json);
    if (values->show_kernels) {
        kernels_json(json);
    }
    qn_json_end_object(json);
    return cli_json_end(json, stdout, CLI_OK);
}

/* --- the command --------------------------------------------------------------------------------
 */

static int run(const cli_call *call)
{
    const version_values *values = call->values;

    if (call->n_args != 0) {
        return cli_usage_error(call, "takes no arguments");
    }
    if (call->common.json) {
        return print_json(values);
    }
    (void)printf("quench %s\n", qn_version());
    print_isas();
    print_types();
    print_presets();
    if (values->show_kernels) {
        print_kernels();
    }
    return CLI_OK;
}

static const cli_option options[] = {
    {.name = "kernels",
     .letter = 'k',
     .help = "list which function serves which operation, type and instruction set",
     .kind = CLI_FLAG,
     .offset = offsetof(version_values, show_kernels)},
};

const cli_command cli_cmd_version = {
    .name = "version",
    .summary = "show version, instruction sets, tensor types and presets",
    .usage = "[OPTIONS]",
    .description = "Shows the version, the instruction sets that this machine can run, the tensor "
                   "types that this build knows (bytes of a block, whether it can be decoded and "
                   "encoded, what importance weights do for it) and the presets of quantize.",
    .options = CLI_OPTIONS(options),
    .takes = CLI_TAKES_JSON,
    .n_value_bytes = sizeof(version_values),
    .run = run,
};
