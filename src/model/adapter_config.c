/* adapter_config.c — adapter_config.json: what PEFT and mlx-lm say of their adapters. Unknown keys
 * are normal (a newer writer); those that say that the adapter is something else than W + s B A are
 * not. */
#include "model/adapter_internal.h"
#include "json/json.h"

#define MAX_CONFIG_BYTES (INT64_C(16) << 20)

/* Keys that must not be set. */
static const struct {
    const char *key;
    const char *why;
} refused_keys[] = {
    {"alora_invocation_tokens",
     "alora_invocation_tokens: an activated LoRA works only after those tokens"},
    {"use_qalora", "use_qalora: a QALoRA is no plain W + s B A"},
    {"use_bdlora", "use_bdlora: a block-diagonal LoRA is no plain W + s B A"},
    {"kasa_config", "kasa_config: a KaSA adapter is no plain W + s B A"},
    {"monteclora_config", "monteclora_config: a MonteCLoRA is no plain W + s B A"},
    {"arrow_config", "arrow_config: an Arrow router chooses among adapters at run time"},
    {"layer_replication", "layer_replication: the adapter is for a model with repeated layers"},
};

/* Keys of PEFT that say nothing that a merge needs. */
static const char *const idle_keys[] = {
    "task_type",       "auto_mapping",        "revision",       "inference_mode",
    "exclude_modules", "lora_dropout",        "fan_in_fan_out", "bias",
    "lora_bias",       "layers_to_transform", "layers_pattern", "trainable_token_indices",
    "megatron_config", "megatron_core",       "loftq_config",   "eva_config",
    "corda_config",    "lora_ga_config",      "velora_config",  "qalora_group_size",
    "runtime_config",  "ensure_weight_tying"};

/* Ways of initialising after which the base is not the original any more. */
static const char *const changed_bases[] = {"pissa", "olora", "corda", "lora_ga"};

typedef struct parser {
    qni_json json;
    qni_arena *arena;
    qni_adapter_config *config;
} parser;

/* --- values ----------------------------------------------------------------------------------- */

static qn_status copy_text(parser *p, const char **out, qn_error *err)
{
    qni_json_text text;
    QN_TRY(qni_json_string(&p->json, &text, err));
    *out = qni_arena_copy(p->arena, text.bytes, (size_t)text.n_bytes);
    return *out != NULL ? QN_OK : qni_fail_memory(err, (size_t)text.n_bytes);
}

static qn_status skip_null(parser *p, bool *out_is_null, qn_error *err)
{
    qni_json_kind kind;
    QN_TRY(qni_json_peek(&p->json, &kind, err));
    *out_is_null = kind == QNI_JSON_NULL;
    return *out_is_null ? qni_json_null(&p->json, err) : QN_OK;
}

static qn_status optional_text(parser *p, const char **out, qn_error *err)
{
    bool is_null;
    QN_TRY(skip_null(p, &is_null, err));
    return is_null ? QN_OK : copy_text(p, out, err);
}

static qn_status optional_number(parser *p, bool *out_has, double *out, qn_error *err)
{
    bool is_null;
    QN_TRY(skip_null(p, &is_null, err));
    *out_has = !is_null;
    return is_null ? QN_OK : qni_json_f64(&p->json, out, err);
}

static qn_status optional_bool(parser *p, bool *out, qn_error *err)
{
    bool is_null;
    QN_TRY(skip_null(p, &is_null, err));
    return is_null ? QN_OK : qni_json_bool(&p->json, out, err);
}

/* Anything but null, false, 0, "" and empty lists counts as set. */
static qn_status is_set(parser *p, bool *out, qn_error *err)
{
    qni_json_kind kind;
    const int64_t from = qni_json_offset(&p->json);
    QN_TRY(qni_json_peek(&p->json, &kind, err));
    QN_TRY(qni_json_skip(&p->json, err));
    const int64_t n = p->json.pos - p->json.begin - from;
    *out = kind != QNI_JSON_NULL && kind != QNI_JSON_FALSE;
    if (kind == QNI_JSON_NUMBER) {
        *out = !(n == 1 && p->json.begin[from] == '0');
    } else if (kind == QNI_JSON_OBJECT || kind == QNI_JSON_ARRAY || kind == QNI_JSON_STRING) {
        for (int64_t i = from + 1; i < from + n - 1; i++) {
            if (strchr(" \t\r\n", p->json.begin[i]) == NULL) {
                return QN_OK;
            }
        }
        *out = false;
    }
    return QN_OK;
}

/* --- lists ------------------------------------------------------------------------------------ */

/* Room for one more element of an array that doubles; the old ones stay in the arena. */
static void *grow(qni_arena *arena, const void *old, int64_t n, size_t elem_bytes)
{
    if (n > 0 && (n & (n - 1)) != 0) {
        return (void *)(uintptr_t)old;
    }
    const size_t n_new = n == 0 ? 1 : (size_t)n * 2;
    size_t n_bytes;
    void *made = qni_mul_size(n_new, elem_bytes, &n_bytes) ? qni_arena_alloc(arena, n_bytes) : NULL;
    if (made != NULL && n > 0) {
        memcpy(made, old, (size_t)n * elem_bytes);
    }
    return made;
}

static qn_status read_patterns(parser *p, const qni_pattern **out, int64_t *out_n, qn_error *err)
{
    bool is_null;
    QN_TRY(skip_null(p, &is_null, err));
    if (is_null) {
        return QN_OK;
    }
    QN_TRY(qni_json_enter_object(&p->json, QNI_JSON_UNIQUE, err));
    for (;;) {
        qni_json_text key;
        bool has_key = false;
        QN_TRY(qni_json_next_key(&p->json, &key, &has_key, err));
        if (!has_key) {
            return QN_OK;
        }
        qni_pattern *list = grow(p->arena, *out, *out_n, sizeof *list);
        char *text = qni_arena_copy(p->arena, key.bytes, (size_t)key.n_bytes);
        if (list == NULL || text == NULL) {
            return qni_fail_memory(err, sizeof *list);
        }
        list[*out_n].text = text;
        QN_TRY(qni_json_f64(&p->json, &list[*out_n].value, err));
        *out = list;
        *out_n += 1;
    }
}

static qn_status read_text_item(parser *p, const char *const **out, int64_t *out_n, qn_error *err)
{
    const char **list = grow(p->arena, *out, *out_n, sizeof *list);
    if (list == NULL) {
        return qni_fail_memory(err, sizeof *list);
    }
    QN_TRY(copy_text(p, &list[*out_n], err));
    *out = list;
    *out_n += 1;
    return QN_OK;
}

/* A list of texts. With passes_others, what is no text in it is passed over. */
static qn_status read_items(parser *p, bool passes_others, const char *const **out, int64_t *out_n,
                            qn_error *err)
{
    QN_TRY(qni_json_enter_array(&p->json, err));
    for (;;) {
        bool has_item = false;
        qni_json_kind kind;
        QN_TRY(qni_json_next_item(&p->json, &has_item, err));
        if (!has_item) {
            return QN_OK;
        }
        QN_TRY(qni_json_peek(&p->json, &kind, err));
        QN_TRY(passes_others && kind != QNI_JSON_STRING ? qni_json_skip(&p->json, err)
                                                        : read_text_item(p, out, out_n, err));
    }
}

static qn_status read_texts(parser *p, const char *const **out, int64_t *out_n, qn_error *err)
{
    bool is_null;
    QN_TRY(skip_null(p, &is_null, err));
    return is_null ? QN_OK : read_items(p, false, out, out_n, err);
}

/* A list of names of which nothing depends but a warning: null, a pattern, or other things in the
 * list are passed over. */
static qn_status read_names(parser *p, const char *const **out, int64_t *out_n, qn_error *err)
{
    qni_json_kind kind;
    QN_TRY(qni_json_peek(&p->json, &kind, err));
    return kind == QNI_JSON_ARRAY ? read_items(p, true, out, out_n, err)
                                  : qni_json_skip(&p->json, err);
}

/* --- members ---------------------------------------------------------------------------------- */

/* true, false, or the name of a way. */
static qn_status read_init(parser *p, qn_error *err)
{
    qni_json_kind kind;
    const char *way = NULL;
    QN_TRY(qni_json_peek(&p->json, &kind, err));
    if (kind != QNI_JSON_STRING) {
        return qni_json_skip(&p->json, err);
    }
    QN_TRY(copy_text(p, &way, err));
    for (size_t i = 0; i < sizeof changed_bases / sizeof changed_bases[0]; i++) {
        if (strncmp(way, changed_bases[i], strlen(changed_bases[i])) == 0) {
            p->config->refusal = "init_lora_weights: training changed the base weights too (pissa, "
                                 "olora, corda, lora_ga); save the adapter converted to plain LoRA";
        }
    }
    if (strcmp(way, "loftq") == 0) {
        p->config->warning =
            "init_lora_weights is loftq: the adapter fits the LoftQ-quantized base "
            "only";
    }
    return QN_OK;
}

/* lora_parameters of mlx-lm. */
static qn_status read_mlx_parameters(parser *p, qn_error *err)
{
    double rank = 0;
    bool has_rank = false;
    bool is_null;
    QN_TRY(skip_null(p, &is_null, err));
    if (is_null) {
        return QN_OK;
    }
    p->config->is_mlx = true;
    QN_TRY(qni_json_enter_object(&p->json, QNI_JSON_UNIQUE, err));
    for (;;) {
        qni_json_text key;
        bool has_key = false;
        QN_TRY(qni_json_next_key(&p->json, &key, &has_key, err));
        if (!has_key) {
            return QN_OK;
        }
        if (qni_json_text_is(key, "scale")) {
            QN_TRY(optional_number(p, &p->config->has_scale, &p->config->scale, err));
        } else if (qni_json_text_is(key, "rank")) {
            QN_TRY(optional_number(p, &has_rank, &rank, err));
        } else {
            QN_TRY(qni_json_skip(&p->json, err));
        }
    }
}

static qn_status read_rank(parser *p, qn_error *err)
{
    bool is_null;
    QN_TRY(skip_null(p, &is_null, err));
    p->config->has_rank = !is_null;
    return is_null ? QN_OK : qni_json_i64(&p->json, &p->config->rank, err);
}

static qn_status read_refused(parser *p, const char *why, qn_error *err)
{
    bool is_there;
    QN_TRY(is_set(p, &is_there, err));
    if (is_there && p->config->refusal == NULL) {
        p->config->refusal = why;
    }
    return QN_OK;
}

static bool is_idle(qni_json_text key)
{
    for (size_t i = 0; i < sizeof idle_keys / sizeof idle_keys[0]; i++) {
        if (qni_json_text_is(key, idle_keys[i])) {
            return true;
        }
    }
    return false;
}

/* Note the first key that is not known here. */
static qn_status pass_over(parser *p, qni_json_text key, qn_error *err)
{
    qni_adapter_config *c = p->config;
    if (c->unknown_key == NULL && !is_idle(key)) {
        c->unknown_key = qni_arena_copy(p->arena, key.bytes, (size_t)key.n_bytes);
        if (c->unknown_key == NULL) {
            return qni_fail_memory(err, (size_t)key.n_bytes);
        }
    }
    return qni_json_skip(&p->json, err);
}

static qn_status read_member(parser *p, qni_json_text key, qn_error *err)
{
    qni_adapter_config *c = p->config;
    for (size_t i = 0; i < sizeof refused_keys / sizeof refused_keys[0]; i++) {
        if (qni_json_text_is(key, refused_keys[i].key)) {
            return read_refused(p, refused_keys[i].why, err);
        }
    }
    if (qni_json_text_is(key, "peft_type")) {
        return optional_text(p, &c->peft_type, err);
    }
    if (qni_json_text_is(key, "r")) {
        return read_rank(p, err);
    }
    if (qni_json_text_is(key, "lora_alpha")) {
        return optional_number(p, &c->has_alpha, &c->alpha, err);
    }
    if (qni_json_text_is(key, "use_rslora")) {
        return optional_bool(p, &c->is_rslora, err);
    }
    if (qni_json_text_is(key, "use_dora")) {
        return optional_bool(p, &c->is_dora, err);
    }
    if (qni_json_text_is(key, "rank_pattern")) {
        return read_patterns(p, &c->rank_patterns, &c->n_rank_patterns, err);
    }
    if (qni_json_text_is(key, "alpha_pattern")) {
        return read_patterns(p, &c->alpha_patterns, &c->n_alpha_patterns, err);
    }
    if (qni_json_text_is(key, "target_parameters")) {
        return read_texts(p, &c->target_parameters, &c->n_target_parameters, err);
    }
    if (qni_json_text_is(key, "peft_version")) {
        return optional_text(p, &c->peft_version, err);
    }
    if (qni_json_text_is(key, "init_lora_weights")) {
        return read_init(p, err);
    }
    if (qni_json_text_is(key, "fine_tune_type")) {
        c->is_mlx = true;
        return optional_text(p, &c->fine_tune_type, err);
    }
    if (qni_json_text_is(key, "lora_parameters")) {
        return read_mlx_parameters(p, err);
    }
    if (qni_json_text_is(key, "base_model_name_or_path") || qni_json_text_is(key, "model")) {
        return optional_text(p, &c->base_name, err);
    }
    if (qni_json_text_is(key, "target_modules")) {
        return read_names(p, &c->target_modules, &c->n_target_modules, err);
    }
    if (qni_json_text_is(key, "modules_to_save")) {
        return read_names(p, &c->saved_modules, &c->n_saved_modules, err);
    }
    return pass_over(p, key, err);
}

static qn_status read_members(parser *p, qn_error *err)
{
    QN_TRY(qni_json_enter_object(&p->json, QNI_JSON_UNIQUE, err));
    for (;;) {
        qni_json_text key;
        bool has_key = false;
        QN_TRY(qni_json_next_key(&p->json, &key, &has_key, err));
        if (!has_key) {
            return qni_json_finish(&p->json, err);
        }
        QN_TRY(read_member(p, key, err));
    }
}

static qn_status parse(const uint8_t *bytes, int64_t n_bytes, qni_arena *arena,
                       qni_adapter_config *config, qn_error *err)
{
    const qni_json_options options = {.allocator = arena->allocator};
    parser p = {.arena = arena, .config = config};
    qn_status st = qni_json_begin(&p.json, bytes, n_bytes, &options, err);
    if (st == QN_OK) {
        st = read_members(&p, err);
    }
    qni_json_end(&p.json);
    return st;
}

qn_status qni_adapter_config_read(const char *path, qni_arena *arena,
                                  qni_adapter_config *out_config, qn_error *err)
{
    *out_config = (qni_adapter_config){.is_there = qni_file_exists(path)};
    if (!out_config->is_there) {
        return QN_OK;
    }
    uint8_t *bytes;
    int64_t n_bytes;
    QN_TRY(qni_file_read_all(path, arena->allocator, MAX_CONFIG_BYTES, &bytes, &n_bytes, err));
    const qn_status st = parse(bytes, n_bytes, arena, out_config, err);
    qni_free(arena->allocator, bytes, (size_t)n_bytes);
    return st == QN_OK ? QN_OK : qni_fail_path(err, st, path);
}
