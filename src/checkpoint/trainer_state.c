/* trainer_state.c — trainer_state.json: two blanks of indentation, a fixed order, and only the
 * fields that are set. */
#include <math.h>

#include "checkpoint/checkpoint.h"
#include "json/json.h"

#define FORMAT_NAME "fucina.training_checkpoint"

typedef struct field_row {
    const char *name;
    bool is_whole;
} field_row;

static const field_row rows[QN_TRAINER_FIELD_LIMIT] = {
    [QN_TRAINER_LORA_RANK] = {"lora_rank", true},
    [QN_TRAINER_LORA_ALPHA] = {"lora_alpha", false},
    [QN_TRAINER_LORA_DROPOUT_P] = {"lora_dropout_p", false},
    [QN_TRAINER_LEARNING_RATE] = {"learning_rate", false},
    [QN_TRAINER_ACCUM_STEPS] = {"accum_steps", true},
    [QN_TRAINER_DATA_SEED] = {"data_seed", true},
    [QN_TRAINER_DATA_EPOCH] = {"data_epoch", true},
    [QN_TRAINER_DATA_INDEX] = {"data_index", true},
    [QN_TRAINER_ES_SIGMA] = {"es_sigma", false},
    [QN_TRAINER_ES_ALPHA] = {"es_alpha", false},
    [QN_TRAINER_ES_POPULATION] = {"es_population", true},
    [QN_TRAINER_ES_NOISE] = {"es_noise", true},
    [QN_TRAINER_ES_ANTITHETIC] = {"es_antithetic", true},
    [QN_TRAINER_ES_ANCHOR_DECAY] = {"es_anchor_decay", true},
    [QN_TRAINER_ES_ANCHOR_LAMBDA] = {"es_anchor_lambda", false},
    [QN_TRAINER_ES_TERNARY_FLIP_RATE] = {"es_ternary_flip_rate", false},
    [QN_TRAINER_ES_TERNARY_UPDATE_FRACTION] = {"es_ternary_update_fraction", false},
    [QN_TRAINER_ES_TERNARY_UPDATE_DECAY] = {"es_ternary_update_decay", false},
    [QN_TRAINER_ES_ITERATION] = {"es_iteration", true},
};

static bool is_field(qn_trainer_field field)
{
    return (int)field >= 0 && (int)field < QN_TRAINER_FIELD_LIMIT;
}

const char *qn_trainer_field_name(qn_trainer_field field)
{
    return is_field(field) ? rows[field].name : NULL;
}

bool qn_trainer_field_is_whole(qn_trainer_field field)
{
    return is_field(field) && rows[field].is_whole;
}

/* --- parsing ---------------------------------------------------------------------------------- */

typedef struct parse_state {
    qn_trainer_state *state;
    bool has_format;
    bool has_version;
    bool has_step;
    bool has_seed;
    uint64_t version;
} parse_state;

static qn_status parse_format(parse_state *p, qni_json *json, qn_error *err)
{
    qni_json_text format;
    qni_name_text text;
    QN_TRY(qni_json_string(json, &format, err));
    QN_CHECK(qni_json_text_is(format, FORMAT_NAME), err, QN_ERR_INVALID_TRAINER_STATE,
             format.offset, "the format is \"%s\", not \"" FORMAT_NAME "\"",
             qni_escape_name(format.bytes, format.n_bytes, &text));
    p->has_format = true;
    return QN_OK;
}

static qn_status parse_optional(parse_state *p, qni_json *json, const qni_json_text *key,
                                qn_error *err)
{
    for (int i = 0; i < QN_TRAINER_FIELD_LIMIT; i++) {
        if (qni_json_text_is(*key, rows[i].name)) {
            p->state->fields[i].is_set = true;
            return rows[i].is_whole ? qni_json_u64(json, &p->state->fields[i].u, err)
                                    : qni_json_f64(json, &p->state->fields[i].f, err);
        }
    }
    return qni_json_skip(json, err);
}

static qn_status parse_member(parse_state *p, qni_json *json, const qni_json_text *key,
                              qn_error *err)
{
    if (qni_json_text_is(*key, "format")) {
        return parse_format(p, json, err);
    }
    if (qni_json_text_is(*key, "version")) {
        p->has_version = true;
        return qni_json_u64(json, &p->version, err);
    }
    if (qni_json_text_is(*key, "step")) {
        p->has_step = true;
        return qni_json_u64(json, &p->state->step, err);
    }
    if (qni_json_text_is(*key, "seed")) {
        p->has_seed = true;
        return qni_json_u64(json, &p->state->seed, err);
    }
    return parse_optional(p, json, key, err);
}

static qn_status parse_members(parse_state *p, qni_json *json, qn_error *err)
{
    QN_TRY(qni_json_enter_object(json, QNI_JSON_UNIQUE, err));
    for (;;) {
        qni_json_text key;
        bool has_key = false;
        QN_TRY(qni_json_next_key(json, &key, &has_key, err));
        if (!has_key) {
            break;
        }
        QN_TRY(parse_member(p, json, &key, err));
    }
    QN_TRY(qni_json_finish(json, err));
    QN_CHECK(p->has_format && p->has_version && p->has_step && p->has_seed, err,
             QN_ERR_INVALID_TRAINER_STATE, 0, "%s is missing",
             !p->has_format    ? "format"
             : !p->has_version ? "version"
             : !p->has_step    ? "step"
                               : "seed");
    QN_CHECK(p->version == 1, err, QN_ERR_UNSUPPORTED_TRAINER_STATE_VERSION, 0,
             "version %" PRIu64 " is not known, only 1", p->version);
    return QN_OK;
}

qn_status qn_trainer_state_parse(const void *text, size_t n_bytes, qn_trainer_state *out_state,
                                 qn_error *err)
{
    const qni_json_options options = {.status = QN_ERR_INVALID_TRAINER_STATE,
                                      .status_overflow = QN_ERR_INVALID_TRAINER_STATE};
    *out_state = (qn_trainer_state){.step = 0};
    parse_state p = {.state = out_state};
    qni_json json;
    qn_status st = qni_json_begin(&json, text, (int64_t)n_bytes, &options, err);
    if (st == QN_OK) {
        st = parse_members(&p, &json, err);
    }
    qni_json_end(&json);
    if (st != QN_OK) {
        *out_state = (qn_trainer_state){.step = 0};
    }
    return st;
}

/* --- writing ---------------------------------------------------------------------------------- */

/* Lines, put together here: the reference never writes an exponent, the general writer may. */
static qn_status put_lines(const qn_trainer_state *state, qni_buffer *out, qn_error *err)
{
    char line[QNI_JSON_F64_MAX + 64];
    int n = snprintf(line, sizeof line,
                     "{\n  \"format\": \"" FORMAT_NAME
                     "\",\n  \"version\": 1,\n  \"step\": %" PRIu64 ",\n  \"seed\": %" PRIu64,
                     state->step, state->seed);
    QN_TRY(qni_buffer_append(out, line, (size_t)n, err));
    for (int i = 0; i < QN_TRAINER_FIELD_LIMIT; i++) {
        if (!state->fields[i].is_set) {
            continue;
        }
        char number[QNI_JSON_F64_MAX];
        if (rows[i].is_whole) {
            (void)snprintf(number, sizeof number, "%" PRIu64, state->fields[i].u);
        } else {
            QN_CHECK(isfinite(state->fields[i].f), err, QN_ERR_INVALID_ARGUMENT, -1,
                     "%s is not finite", rows[i].name);
            (void)qni_json_format_f64(state->fields[i].f, false, number);
        }
        n = snprintf(line, sizeof line, ",\n  \"%s\": %s", rows[i].name, number);
        QN_TRY(qni_buffer_append(out, line, (size_t)n, err));
    }
    return qni_buffer_append(out, "\n}\n", 3, err);
}

qn_status qn_trainer_state_write(const qn_trainer_state *state, qn_write_fn write, void *write_ctx,
                                 qn_error *err)
{
    qni_buffer text;
    qni_buffer_init(&text, NULL, (size_t)1 << 20);
    qn_status st = put_lines(state, &text, err);
    if (st == QN_OK) {
        st = write(write_ctx, text.bytes, text.n_bytes, err);
    }
    qni_buffer_free(&text);
    return st;
}
