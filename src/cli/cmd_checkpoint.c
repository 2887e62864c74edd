/* cmd_checkpoint.c — `quench checkpoint`: training-checkpoint directories. */
#include "cli/json_out.h"
#include "quench/checkpoint.h"

#define MAX_PATH_BYTES 4096

typedef struct checkpoint_result {
    const char *folder;        /* as the user gave it */
    char save[MAX_PATH_BYTES]; /* the complete save, it or its prev/ */
    bool is_found;
    bool is_ok;
    qn_error fault;
    qn_checkpoint_report report;
} checkpoint_result;

static void look_at(const char *folder, checkpoint_result *out)
{
    memset(out, 0, sizeof *out);
    out->folder = folder;
    out->fault = (qn_error)QN_ERROR_INIT;
    out->is_found = qn_checkpoint_find(folder, out->save, sizeof out->save, &out->fault) == QN_OK;
    out->is_ok =
        out->is_found && qn_checkpoint_verify(out->save, &out->report, &out->fault) == QN_OK;
}

static bool is_previous(const checkpoint_result *result)
{
    return strcmp(result->save, result->folder) != 0;
}

/* --- text ----------------------------------------------------------------------------------------
 */

static void print_fields(const qn_trainer_state *state)
{
    (void)printf("  step            %" PRIu64 "\n  seed            %" PRIu64 "\n", state->step,
                 state->seed);
    for (int i = 0; i < QN_TRAINER_FIELD_LIMIT; i++) {
        const qn_trainer_field field = (qn_trainer_field)i;
        if (!state->fields[i].is_set) {
            continue;
        }
        if (qn_trainer_field_is_whole(field)) {
            (void)printf("  %-15s %" PRIu64 "\n", qn_trainer_field_name(field), state->fields[i].u);
        } else {
            (void)printf("  %-15s %.15g\n", qn_trainer_field_name(field), state->fields[i].f);
        }
    }
}

static void print_payloads(const qn_checkpoint_report *report)
{
    char number[CLI_NUMBER_MAX];

    (void)printf("  payloads       %s%s%s, %s bytes\n", report->has_model ? " model" : "",
                 report->has_adapters ? " adapters" : "", report->has_optimizer ? " optimizer" : "",
                 cli_grouped(report->n_bytes, number));
    (void)printf("  digests         %s\n",
                 report->has_digests ? "equal" : "none: a payload of another save is not told");
}

static void print_result(const cli_call *call, const checkpoint_result *result, bool is_inspect)
{
    cli_text path = {NULL, 0, 0};

    if (!result->is_ok) {
        (void)cli_fail(&result->fault);
    }
    if (call->common.quiet) {
        return;
    }
    cli_text_escape(&path, result->folder, (int64_t)strlen(result->folder), 0);
    if (!result->is_ok) {
        (void)printf("%s: BAD\n", path.chars);
    } else {
        (void)printf("%s: ok%s\n", path.chars,
                     is_previous(result) ? ": the save in prev/; the last one was not completed"
                                         : "");
        if (is_inspect) {
            print_fields(&result->report.state);
            print_payloads(&result->report);
        }
    }
    cli_text_free(&path);
}

/* --- JSON ----------------------------------------------------------------------------------------
 */

static void state_json(qn_json_writer *json, const qn_trainer_state *state)
{
    qn_json_key(json, "state");
    qn_json_begin_object(json);
    qn_json_member_u64(json, "step", state->step);
    qn_json_member_u64(json, "seed", state->seed);
    for (int i = 0; i < QN_TRAINER_FIELD_LIMIT; i++) {
        const qn_trainer_field field = (qn_trainer_field)i;
        if (!state->fields[i].is_set) {
            continue;
        }
        if (qn_trainer_field_is_whole(field)) {
            qn_json_member_u64(json, qn_trainer_field_name(field), state->fields[i].u);
        } else {
            qn_json_member_f64(json, qn_trainer_field_name(field), state->fields[i].f);
        }
    }
    qn_json_end_object(json);
}

static void result_json(qn_json_writer *json, const checkpoint_result *result)
{
    const qn_checkpoint_report *report = &result->report;

    qn_json_begin_object(json);
    qn_json_member_string(json, "path", result->folder);
    qn_json_member_bool(json, "is_ok", result->is_ok);
    qn_json_member_string(json, "save", result->is_found ? result->save : NULL);
    if (result->is_ok) {
        qn_json_member_bool(json, "is_previous", is_previous(result));
        state_json(json, &report->state);
        qn_json_member_bool(json, "has_model", report->has_model);
        qn_json_member_bool(json, "has_adapters", report->has_adapters);
        qn_json_member_bool(json, "has_optimizer", report->has_optimizer);
        qn_json_member_bool(json, "has_digests", report->has_digests);
        qn_json_member_i64(json, "bytes", report->n_bytes);
    } else {
        qn_json_member_string(json, "status", qn_status_name(result->fault.status));
        qn_json_member_string(json, "file", result->fault.path);
        qn_json_member_string(json, "message", result->fault.message);
    }
    qn_json_end_object(json);
}

/* --- the command ---------------------------------------------------------------------------------
 */

static int run(const cli_call *call)
{
    const bool is_inspect = call->n_args > 0 && strcmp(call->args[0], "inspect") == 0;
    qn_json_writer *json = NULL;
    int status = CLI_OK;

    if (call->n_args < 2 || (!is_inspect && strcmp(call->args[0], "verify") != 0)) {
        return cli_usage_error(call, "expected inspect or verify, then at least one DIR");
    }
    if (call->common.json) {
        json = cli_json_begin(stdout);
        qn_json_begin_array(json);
    }
    for (int i = 1; i < call->n_args; i++) {
        checkpoint_result result;
        look_at(call->args[i], &result);
        if (json != NULL) {
            result_json(json, &result);
        } else {
            print_result(call, &result, is_inspect);
        }
        status = result.is_ok ? status : CLI_FAILED;
    }
    if (json != NULL) {
        qn_json_end_array(json);
        status = cli_json_end(json, stdout, CLI_OK) == CLI_OK ? status : CLI_FAILED;
    }
    return status;
}

const cli_command cli_cmd_checkpoint = {
    .name = "checkpoint",
    .summary = "inspect and verify training-checkpoint directories",
    .usage = "[OPTIONS] inspect|verify DIR...",
    .description =
        "Finds the last complete save of each DIR, which is DIR itself or prev/ in it, and checks "
        "that its state, its payloads and its digests are whole and belong together.\n\n"
        "With inspect the state and the payloads are shown too.",
    .takes = CLI_TAKES_JSON,
    .exit_1 = "there is no complete save, or something is wrong with it; a line says what",
    .run = run,
};
