/* adapter_peft.c — PEFT's adapters: keys, layouts, ranks and alphas by pattern, experts, DoRA,
 * saved modules and biases.
 *
 *     <prefix><module>.lora_A[.<name>].weight                  [r, in]
 *     <prefix><module>.lora_B[.<name>].weight | .bias          [out, r], [out]
 *     <prefix><module>.lora_embedding_A[.<name>], _B           [r, vocab], [hidden, r]
 *     <prefix><module>.lora_magnitude_vector[.<name>][.weight] [out]           DoRA
 *     <prefix><module>.weight | .bias, .base_layer.bias        whole replacements */
#include <math.h>

#include "model/adapter_internal.h"

typedef enum role {
    ROLE_A,
    ROLE_B,
    ROLE_B_BIAS,
    ROLE_EMBEDDING_A,
    ROLE_EMBEDDING_B,
    ROLE_MAGNITUDE,
    ROLE_WEIGHT,
    ROLE_BIAS,
    N_ROLES,
    ROLE_COPY = N_ROLES /* of the base's weight: only compared */
} role;

/* What the file has for one module. */
typedef struct module {
    const char *name; /* as the patterns see it */
    const qn_tensor_info *tensors[N_ROLES];
} module;

/* rank_pattern or alpha_pattern. */
typedef struct pattern_list {
    const char *key;
    const qni_pattern *patterns;
    int64_t n;
    void **compiled;
    bool *has_counted;
} pattern_list;

typedef struct reader {
    qni_adapter_job *job;
    module *modules;
    int64_t n_modules;
    qni_strmap by_name;
    const char *infix; /* the adapter's name inside the keys, NULL: none yet */
    pattern_list ranks;
    pattern_list alphas;
} reader;

/* --- keys ------------------------------------------------------------------------------------- */

static bool starts_with(const char *text, const char *start)
{
    return strncmp(text, start, strlen(start)) == 0;
}

/* Remove what wrappers put between the components: _orig_mod, module, _fsdp_wrapped_module. */
static void strip_wrappers(char *path)
{
    static const char *const wrappers[] = {"_orig_mod.", "module.", "_fsdp_wrapped_module."};
    char *to = path;
    const char *from = path;
    while (*from != '\0') {
        bool is_wrapper = false;
        for (size_t i = 0; i < sizeof wrappers / sizeof wrappers[0] && !is_wrapper; i++) {
            if (starts_with(from, wrappers[i])) {
                from += strlen(wrappers[i]);
                is_wrapper = true;
            }
        }
        if (is_wrapper) {
            continue;
        }
        const size_t n = strcspn(from, ".") + (strchr(from, '.') != NULL);
        memmove(to, from, n);
        to += n;
        from += n;
    }
    *to = '\0';
}

/* The text part of a multimodal model is the model. */
static const char *strip_multimodal(qni_arena *arena, const char *path)
{
    static const char *const starts[] = {"model.language_model.", "language_model.model."};
    for (size_t i = 0; i < sizeof starts / sizeof starts[0]; i++) {
        if (starts_with(path, starts[i])) {
            return qni_arena_printf(arena, "model.%s", path + strlen(starts[i]));
        }
    }
    if (starts_with(path, "language_model.")) {
        const char *rest = path + strlen("language_model.");
        return starts_with(rest, "lm_head") ? rest : qni_arena_printf(arena, "model.%s", rest);
    }
    return path;
}

static const char *normal_path(qni_arena *arena, const char *key)
{
    key += starts_with(key, "base_model.model.") ? strlen("base_model.model.")
           : starts_with(key, "base_model.")     ? strlen("base_model.")
                                                 : 0;
    char *path = qni_arena_copy(arena, key, strlen(key));
    if (path == NULL) {
        return NULL;
    }
    strip_wrappers(path);
    return strip_multimodal(arena, path);
}

/* What follows ".lora_A" and its kin: a name, "weight", "bias". */
typedef struct tail {
    char name[128];
    char leaf[16];
} tail;

static bool split_tail(const char *rest, bool has_leaf_always, tail *out)
{
    *out = (tail){"", ""};
    const char *dot = strchr(rest, '.');
    const char *leaf = dot != NULL ? dot + 1 : rest;
    const bool is_leaf = strcmp(leaf, "weight") == 0 || strcmp(leaf, "bias") == 0;
    const char *name_end = is_leaf ? dot : rest + strlen(rest);
    const size_t n_name = name_end != NULL ? (size_t)(name_end - rest) : 0;
    if ((has_leaf_always && !is_leaf) || n_name >= sizeof out->name || (dot != NULL && !is_leaf)) {
        return false;
    }
    memcpy(out->name, rest, n_name);
    out->name[n_name] = '\0';
    (void)snprintf(out->leaf, sizeof out->leaf, "%s", is_leaf ? leaf : "");
    return true;
}

static const struct {
    const char *marker;
    role role;
    bool has_leaf; /* .weight or .bias always follows */
} markers[] = {
    {"lora_A", ROLE_A, true},
    {"lora_B", ROLE_B, true},
    {"lora_embedding_A", ROLE_EMBEDDING_A, false},
    {"lora_embedding_B", ROLE_EMBEDDING_B, false},
    {"lora_magnitude_vector", ROLE_MAGNITUDE, false},
};

/* The last ".lora_" of a path: where the module ends. */
static const char *find_marker(const char *path)
{
    const char *found = NULL;
    for (const char *at = strstr(path, ".lora_"); at != NULL; at = strstr(at + 1, ".lora_")) {
        found = at;
    }
    return found;
}

static qn_status refuse_key(qn_error *err)
{
    return qni_fail(err, QN_ERR_UNSUPPORTED_ADAPTER, -1,
                    "no part of a LoRA adapter that can be merged is known under that name");
}

static qn_status check_infix(reader *r, const char *name, qn_error *err)
{
    if (name[0] == '\0') {
        return QN_OK;
    }
    if (r->infix == NULL) {
        r->infix = qni_arena_copy(r->job->arena, name, strlen(name));
        return r->infix != NULL ? QN_OK : qni_fail_memory(err, strlen(name));
    }
    qni_name_text one, other;
    QN_CHECK(strcmp(r->infix, name) == 0, err, QN_ERR_UNSUPPORTED_ADAPTER, -1,
             "the file holds two adapters, %s and %s; save them one by one",
             qni_escape_name(r->infix, (int64_t)strlen(r->infix), &one),
             qni_escape_name(name, (int64_t)strlen(name), &other));
    return QN_OK;
}

static qn_status parse_lora_key(reader *r, const char *marker, role *out_role, qn_error *err)
{
    const char *word = marker + 1;
    const size_t n_word = strcspn(word, ".");
    for (size_t i = 0; i < sizeof markers / sizeof markers[0]; i++) {
        tail t;
        if (strlen(markers[i].marker) != n_word || memcmp(word, markers[i].marker, n_word) != 0) {
            continue;
        }
        if (!split_tail(word + n_word + (word[n_word] == '.'), markers[i].has_leaf, &t)) {
            return refuse_key(err);
        }
        QN_TRY(check_infix(r, t.name, err));
        const bool is_bias = strcmp(t.leaf, "bias") == 0;
        if (is_bias && markers[i].role != ROLE_B) {
            return refuse_key(err);
        }
        *out_role = is_bias ? ROLE_B_BIAS : markers[i].role;
        return QN_OK;
    }
    return refuse_key(err);
}

/* A whole tensor; `path` is cut to its module. */
static qn_status parse_plain_key(char *path, role *out_role, qn_error *err)
{
    QN_CHECK(strstr(path, ".token_adapter.") == NULL, err, QN_ERR_UNSUPPORTED_ADAPTER, -1,
             "trainable_token_indices: rows of single tokens are not merged; merge with PEFT");
    char *dot = strrchr(path, '.');
    if (dot == NULL || (strcmp(dot, ".weight") != 0 && strcmp(dot, ".bias") != 0)) {
        return refuse_key(err);
    }
    *out_role = strcmp(dot, ".weight") == 0 ? ROLE_WEIGHT : ROLE_BIAS;
    *dot = '\0';
    char *saved = strstr(path, ".modules_to_save");
    if (saved != NULL) {
        *saved = '\0';
    }
    if (qni_ends_with(path, ".base_layer")) { /* an unchanged copy of the base's weight */
        path[strlen(path) - strlen(".base_layer")] = '\0';
        *out_role = *out_role == ROLE_WEIGHT ? ROLE_COPY : ROLE_BIAS;
    }
    return QN_OK;
}

static qn_status parse_key(reader *r, const char *key, char **out_module, role *out_role,
                           qn_error *err)
{
    const char *path = normal_path(r->job->arena, key);
    if (path == NULL) {
        return qni_fail_memory(err, strlen(key));
    }
    QN_CHECK(strstr(path, "vision_") == NULL && strstr(path, "audio_") == NULL, err,
             QN_ERR_UNSUPPORTED_ADAPTER, -1,
             "it belongs to the part of the model that sees or hears, which is another file");
    const char *marker = find_marker(path);
    *out_module = qni_arena_copy(r->job->arena, path,
                                 marker != NULL ? (size_t)(marker - path) : strlen(path));
    if (*out_module == NULL) {
        return qni_fail_memory(err, strlen(path));
    }
    return marker != NULL ? parse_lora_key(r, marker, out_role, err)
                          : parse_plain_key(*out_module, out_role, err);
}

/* --- collecting ------------------------------------------------------------------------------- */

static qn_status put(reader *r, const qn_tensor_info *tensor, qn_error *err)
{
    char *name = NULL;
    role what = ROLE_COPY;
    QN_TRY(parse_key(r, tensor->name, &name, &what, err));
    if (what == ROLE_COPY) {
        r->job->adapter->n_copies++;
        return qni_adapter_compare(r->job, name, tensor, err);
    }
    int64_t at;
    QN_TRY(qni_strmap_add(&r->by_name, name, (int64_t)strlen(name), r->n_modules, &at, err));
    if (at < 0) {
        at = r->n_modules++;
        r->modules[at] = (module){.name = name};
    }
    const qn_tensor_info **slot = &r->modules[at].tensors[what];
    qni_name_text text;
    QN_CHECK(*slot == NULL, err, QN_ERR_INVALID_ADAPTER, -1,
             "it means the same as %s; the adapter says one thing twice",
             qni_escape_name((*slot)->name, (*slot)->n_name, &text));
    *slot = tensor;
    return QN_OK;
}

static qn_status collect(reader *r, qn_error *err)
{
    const qn_model *file = r->job->adapter->file;
    const size_t n_bytes = (size_t)file->n_tensors * sizeof *r->modules;
    r->modules = qni_arena_alloc(r->job->arena, n_bytes);
    if (r->modules == NULL) {
        return qni_fail_memory(err, n_bytes);
    }
    for (int64_t i = 0; i < file->n_tensors; i++) {
        const qn_status st = put(r, &file->tensors[i], err);
        if (st != QN_OK) {
            return qni_adapter_blame(r->job, file->tensors[i].name, st, err);
        }
    }
    return QN_OK;
}

/* --- patterns --------------------------------------------------------------------------------- */

/* Name key and file of a pattern that does not work: it is the adapter that is wrong. */
static qn_status blame_pattern(const reader *r, const pattern_list *list, int64_t index,
                               qn_status st, qn_error *err)
{
    if (st == QN_ERR_INVALID_PATTERN && err != NULL) {
        const char *text = list->patterns[index].text;
        const qn_error found = *err;
        qni_name_text shown;
        (void)qni_fail(err, st, -1, "%s: \"%s\" cannot be used: %.400s", list->key,
                       qni_escape_name(text, (int64_t)strlen(text), &shown), found.message);
        err->status = QN_ERR_INVALID_ADAPTER;
    }
    st = st == QN_ERR_INVALID_PATTERN ? QN_ERR_INVALID_ADAPTER : st;
    return qni_fail_path(err, st, r->job->adapter->config_path);
}

/* As PEFT: re.match(r"(.*\.)?(KEY)$", module). */
static qn_status compile(const reader *r, pattern_list *list, qn_error *err)
{
    const qn_matcher *matcher = r->job->options->matcher;
    QN_CHECK(list->n == 0 || matcher != NULL, err, QN_ERR_INVALID_ARGUMENT, -1,
             "adapter_config.json has %s, but there is no matcher to read regular expressions",
             list->key);
    const size_t n = (size_t)list->n;
    list->compiled = qni_arena_alloc(r->job->arena, n * sizeof *list->compiled);
    list->has_counted = qni_arena_alloc(r->job->arena, n * sizeof *list->has_counted);
    if (list->compiled == NULL || list->has_counted == NULL) {
        list->n = 0; /* nothing to release */
        return qni_fail_memory(err, n * sizeof *list->compiled);
    }
    memset(list->compiled, 0, n * sizeof *list->compiled);
    memset(list->has_counted, 0, n * sizeof *list->has_counted);
    for (size_t i = 0; i < n; i++) {
        const char *pattern = list->patterns[i].text;
        const char *text = qni_arena_printf(r->job->arena, "^(.*\\.)?(%s)$", pattern);
        if (text == NULL) {
            return qni_fail_memory(err, strlen(pattern));
        }
        const qn_status st = matcher->compile(matcher->ctx, text, &list->compiled[i], err);
        if (st != QN_OK) {
            return blame_pattern(r, list, (int64_t)i, st, err);
        }
    }
    return QN_OK;
}

static void release(const reader *r, const pattern_list *list)
{
    const qn_matcher *matcher = r->job->options->matcher;
    for (int64_t i = 0; i < list->n && list->compiled != NULL; i++) {
        if (list->compiled[i] != NULL) {
            matcher->release(matcher->ctx, list->compiled[i]);
        }
    }
}

/* The value of the first pattern that fits. */
static qn_status find_value(const reader *r, const pattern_list *list, const char *path,
                            bool *out_found, double *out, qn_error *err)
{
    const qn_matcher *matcher = r->job->options->matcher;
    *out_found = false;
    for (int64_t i = 0; i < list->n && !*out_found; i++) {
        const qn_status st = matcher->find(matcher->ctx, list->compiled[i], path,
                                           (int64_t)strlen(path), out_found, err);
        if (st != QN_OK) {
            return blame_pattern(r, list, i, st, err);
        }
        list->has_counted[i] |= *out_found;
        *out = *out_found ? list->patterns[i].value : *out;
    }
    return QN_OK;
}

/* One of them is enough to make the user look. */
static void warn_of_idle(const reader *r, const pattern_list *list)
{
    for (int64_t i = 0; i < list->n; i++) {
        if (!list->has_counted[i]) {
            const char *text = list->patterns[i].text;
            qni_name_text shown;
            qni_adapter_warn(r->job, "%s of adapter_config.json: \"%s\" counts for no module",
                             list->key, qni_escape_name(text, (int64_t)strlen(text), &shown));
            return;
        }
    }
}

/* --- scale ------------------------------------------------------------------------------------ */

static qn_status check_rank(const reader *r, const char *path, int64_t rank, qn_error *err)
{
    const qni_adapter_config *c = &r->job->adapter->config;
    double expected = (double)c->rank;
    bool is_by_pattern;
    QN_TRY(find_value(r, &r->ranks, path, &is_by_pattern, &expected, err));
    QN_CHECK((!is_by_pattern && !c->has_rank) || expected == (double)rank, err,
             QN_ERR_INVALID_ADAPTER, -1,
             "A has rank %" PRId64
             " but adapter_config.json says %g; the two do not belong together",
             rank, expected);
    return QN_OK;
}

static qn_status find_scale(const reader *r, const char *path, int64_t rank, double *out,
                            qn_error *err)
{
    const qni_adapter_config *c = &r->job->adapter->config;
    double alpha = c->alpha;
    bool is_by_pattern;
    QN_TRY(check_rank(r, path, rank, err));
    QN_TRY(find_value(r, &r->alphas, path, &is_by_pattern, &alpha, err));
    alpha = r->job->options->has_alpha ? r->job->options->alpha : alpha;
    r->job->adapter->scale_source = r->job->options->has_alpha ? "option" : "adapter_config.json";
    QN_CHECK(r->job->options->has_alpha || is_by_pattern || c->has_alpha, err,
             QN_ERR_INVALID_ADAPTER, -1, "%s; give alpha with --alpha",
             c->is_there ? "adapter_config.json has no lora_alpha"
                         : "there is no adapter_config.json that says alpha");
    *out = c->is_rslora ? alpha / sqrt((double)rank) : alpha / (double)rank;
    return QN_OK;
}

/* --- pairs ------------------------------------------------------------------------------------ */

static qn_status check_matrix(const qn_tensor_info *tensor, qn_error *err)
{
    QN_CHECK(
        tensor->n_dims != 1 && tensor->n_bytes > 0, err, QN_ERR_INVALID_ADAPTER, -1,
        "A or B is empty or flat: it was saved without being gathered from its shards (ZeRO-3, "
        "FSDP); save the adapter again");
    QN_CHECK(tensor->n_dims == 2, err, QN_ERR_UNSUPPORTED_ADAPTER, -1,
             "it has %d dimensions: adapters of convolutions are not merged", (int)tensor->n_dims);
    return QN_OK;
}

static qn_status check_dora(const reader *r, const module *m, qn_error *err)
{
    QN_CHECK(!r->job->adapter->config.is_dora || m->tensors[ROLE_MAGNITUDE] != NULL, err,
             QN_ERR_INVALID_ADAPTER, -1,
             "use_dora is set but there is no lora_magnitude_vector for it");
    return QN_OK;
}

static qn_status add_linear(reader *r, const module *m, qn_error *err)
{
    const qn_model *file = r->job->adapter->file;
    const qn_tensor_info *magnitude = m->tensors[ROLE_MAGNITUDE];
    qni_part part = {.kind = QNI_PART_PAIR, .key = m->tensors[ROLE_A]->name, .slice = -1};
    QN_TRY(check_matrix(m->tensors[ROLE_A], err));
    QN_TRY(check_matrix(m->tensors[ROLE_B], err));
    QN_TRY(check_dora(r, m, err));
    part.a = qni_matrix_of(file, m->tensors[ROLE_A]);
    part.b = qni_matrix_of(file, m->tensors[ROLE_B]);
    if (magnitude != NULL) {
        part.magnitude = qni_matrix_of(file, magnitude);
        QN_CHECK(part.magnitude.n_rows * part.magnitude.n_cols == part.b.n_rows, err,
                 QN_ERR_INVALID_ADAPTER, -1,
                 "lora_magnitude_vector does not have one element for each of %" PRId64 " rows",
                 part.b.n_rows);
        part.magnitude.n_rows = part.b.n_rows; /* also where it is stored as [1, out] */
        part.magnitude.n_cols = part.magnitude.row_stride = 1;
    }
    QN_TRY(qni_adapter_check_pair(&part, err));
    QN_TRY(find_scale(r, m->name, part.a.n_rows, &part.scale, err));
    QN_TRY(qni_adapter_add_module(r->job, m->name, "weight", &part, err));
    if (m->tensors[ROLE_B_BIAS] == NULL) {
        return QN_OK;
    }
    qni_part bias = {.kind = QNI_PART_ADD, .key = m->tensors[ROLE_B_BIAS]->name, .slice = -1};
    QN_CHECK(m->tensors[ROLE_B_BIAS]->n_dims == 1 && magnitude == NULL, err,
             QN_ERR_UNSUPPORTED_ADAPTER, -1, "lora_B.bias is no vector, or stands beside DoRA");
    bias.b = qni_matrix_of(file, m->tensors[ROLE_B_BIAS]);
    bias.scale = part.scale;
    return qni_adapter_add_module(r->job, m->name, "bias", &bias, err);
}

/* A is [r, vocab], B is [hidden, r]; the weight, [vocab, hidden], gets their product turned round.
 */
static qn_status add_embedding(reader *r, const module *m, qn_error *err)
{
    const qn_model *file = r->job->adapter->file;
    qni_part part = {.kind = QNI_PART_PAIR, .key = m->tensors[ROLE_EMBEDDING_A]->name, .slice = -1};
    QN_CHECK(m->tensors[ROLE_MAGNITUDE] == NULL, err, QN_ERR_UNSUPPORTED_ADAPTER, -1,
             "DoRA of an embedding needs norms of columns and is not merged");
    QN_TRY(check_matrix(m->tensors[ROLE_EMBEDDING_A], err));
    QN_TRY(check_matrix(m->tensors[ROLE_EMBEDDING_B], err));
    const qni_matrix a = qni_matrix_of(file, m->tensors[ROLE_EMBEDDING_A]);
    const qni_matrix b = qni_matrix_of(file, m->tensors[ROLE_EMBEDDING_B]);
    part.a = qni_matrix_turned(&b);
    part.b = qni_matrix_turned(&a);
    QN_TRY(qni_adapter_check_pair(&part, err));
    QN_TRY(find_scale(r, m->name, part.a.n_rows, &part.scale, err));
    return qni_adapter_add_module(r->job, m->name, "weight", &part, err);
}

/* --- stacked experts (target_parameters) ------------------------------------------------------ */

/* Which parameter a pair under "....experts" or "....experts.base_layer" stands for: wrappers nest
 * in the model's order, gate_up_proj innermost. */
static qn_status find_parameter(const reader *r, const char *experts, bool is_inner,
                                const char **out_name, qn_error *err)
{
    const qni_adapter_config *c = &r->job->adapter->config;
    const char *inner = qni_arena_printf(r->job->arena, "%s.base_layer", experts);
    if (inner == NULL) {
        return qni_fail_memory(err, strlen(experts));
    }
    if (is_inner || qni_strmap_find(&r->by_name, inner, (int64_t)strlen(inner)) >= 0) {
        *out_name = is_inner ? "gate_up_proj" : "down_proj";
        return QN_OK;
    }
    bool has_gate_up = false;
    bool has_down = false;
    for (int64_t i = 0; i < c->n_target_parameters; i++) {
        has_gate_up |= qni_ends_with(c->target_parameters[i], "gate_up_proj");
        has_down |= qni_ends_with(c->target_parameters[i], "down_proj");
    }
    QN_CHECK(has_gate_up != has_down, err, QN_ERR_INVALID_ADAPTER, -1,
             "whether it is gate_up_proj or down_proj of the experts follows neither from the keys "
             "nor from target_parameters of adapter_config.json");
    *out_name = has_gate_up ? "gate_up_proj" : "down_proj";
    return QN_OK;
}

/* PEFT up to 0.19.0 took a stacked parameter [E, d1, d2] as in = d1, out = d2. */
static qn_status is_old_layout(const reader *r, const qn_tensor_info *a, const qn_tensor_info *b,
                               int64_t n_in, int64_t n_out, bool *out, qn_error *err)
{
    const bool fits_new = a->ne[0] == n_in && b->ne[1] == n_out;
    const bool fits_old = a->ne[0] == n_out && b->ne[1] == n_in;
    const char *version = r->job->adapter->config.peft_version;
    QN_CHECK(fits_new || fits_old, err, QN_ERR_INVALID_ADAPTER, -1,
             "A has %" PRId64 " columns and B %" PRId64
             " rows, but the model's experts have %" PRId64 " inputs and %" PRId64 " outputs",
             a->ne[0], b->ne[1], n_in, n_out);
    *out = !fits_new;
    if (!fits_new || !fits_old) {
        return QN_OK;
    }
    QN_CHECK(version != NULL && version[0] == '0' && version[1] == '.', err,
             QN_ERR_UNSUPPORTED_ADAPTER, -1,
             "the experts are square, and without peft_version in adapter_config.json it cannot be "
             "told which way round their pairs are");
    const long minor = strtol(version + 2, NULL, 10);
    const char *patch = strchr(version + 2, '.');
    *out = minor < 19 || (minor == 19 && (patch == NULL || strtol(patch + 1, NULL, 10) == 0));
    return QN_OK;
}

/* A is [E r, in], expert slowest; B is [out, r E], expert fastest. */
static void slice_pair(qni_part *part, int64_t e, int64_t n_experts, bool is_old)
{
    const qn_tensor_info *a = part->a.tensor;
    const qn_tensor_info *b = part->b.tensor;
    const int64_t rank = a->ne[1] / n_experts;
    qni_matrix first = qni_matrix_of(part->a.file, a);
    qni_matrix second = qni_matrix_of(part->b.file, b);
    first.n_rows = first.rows.n_rows = rank;
    first.offset = e * rank * a->ne[0];
    second.n_cols = rank;
    second.offset = e;
    second.col_stride = n_experts;
    second.n_woven = n_experts;
    part->a = is_old ? qni_matrix_turned(&second) : first;
    part->b = is_old ? qni_matrix_turned(&first) : second;
}

static qn_status check_stack(const reader *r, const qni_place *place, const qn_tensor_info *a,
                             const qn_tensor_info *b, bool *out_is_old, qn_error *err)
{
    const qn_model *base = r->job->base;
    const int64_t n_experts = r->job->facts->n_experts;
    const char *name = qni_arena_printf(r->job->arena, "%s.weight", place->target);
    const char *fused = "";
    if (name != NULL && place->is_gate_up) {
        fused =
            qni_arena_printf(r->job->arena, "%.*sffn_gate_up_exps.weight",
                             (int)(strrchr(place->target, '.') + 1 - place->target), place->target);
    }
    if (name == NULL || fused == NULL) {
        return qni_fail_memory(err, strlen(place->target));
    }
    const qn_tensor_info *tensor =
        qn_model_tensor(base, qn_model_find(base, name, (int64_t)strlen(name)));
    int64_t n_parts = place->is_gate_up ? 2 : 1;
    if (tensor == NULL) {
        tensor = qn_model_tensor(base, qn_model_find(base, fused, (int64_t)strlen(fused)));
        n_parts = 1;
    }
    QN_CHECK(tensor != NULL && tensor->n_dims == 3 && tensor->ne[2] == n_experts, err,
             QN_ERR_INVALID_ADAPTER, -1, "the model has no stack of experts %s", name);
    QN_CHECK(n_experts > 0 && a->ne[1] % n_experts == 0 && a->ne[1] > 0 && b->ne[0] == a->ne[1],
             err, QN_ERR_INVALID_ADAPTER, -1,
             "A has %" PRId64 " rows and B %" PRId64
             " columns; both must be the rank times the %" PRId64 " experts of the model",
             a->ne[1], b->ne[0], n_experts);
    return is_old_layout(r, a, b, tensor->ne[0], n_parts * tensor->ne[1], out_is_old, err);
}

static qn_status add_experts(reader *r, const module *m, const char *experts, bool is_inner,
                             qn_error *err)
{
    const qn_model *file = r->job->adapter->file;
    const qn_tensor_info *a = m->tensors[ROLE_A];
    const qn_tensor_info *b = m->tensors[ROLE_B];
    const int64_t n_experts = r->job->facts->n_experts;
    const char *parameter = NULL;
    qni_place place = {.expert = -1};
    bool is_old;
    double scale;
    QN_TRY(check_matrix(a, err));
    QN_TRY(check_matrix(b, err));
    QN_TRY(find_parameter(r, experts, is_inner, &parameter, err));
    const char *path = qni_arena_printf(r->job->arena, "%s.%s", experts, parameter);
    if (path == NULL) {
        return qni_fail_memory(err, strlen(experts));
    }
    QN_CHECK(m->tensors[ROLE_MAGNITUDE] == NULL && m->tensors[ROLE_B_BIAS] == NULL, err,
             QN_ERR_UNSUPPORTED_ADAPTER, -1, "DoRA and biases of stacked experts are not merged");
    QN_CHECK(
        qni_place_of(r->job->facts, path, &place) && place.is_stack, err, QN_ERR_INVALID_ADAPTER,
        -1, "the model has no such experts (architecture %s); the adapter belongs to another model",
        r->job->facts->architecture);
    QN_TRY(check_stack(r, &place, a, b, &is_old, err));
    QN_TRY(find_scale(r, path, a->ne[1] / n_experts, &scale, err));
    for (int64_t e = 0; e < n_experts; e++) {
        qni_part part = {.kind = QNI_PART_PAIR, .key = a->name, .scale = scale};
        part.a = qni_matrix_of(file, a);
        part.b = qni_matrix_of(file, b);
        slice_pair(&part, e, n_experts, is_old);
        place.expert = (int32_t)e;
        QN_TRY(qni_adapter_add_at(r->job, &place, "weight", &part, err));
    }
    return QN_OK;
}

/* --- one module ------------------------------------------------------------------------------- */

static qn_status add_whole(reader *r, const module *m, role what, qn_error *err)
{
    const qn_tensor_info *tensor = m->tensors[what];
    qni_part part = {.kind = QNI_PART_REPLACE, .key = tensor->name, .slice = -1, .scale = 1};
    QN_CHECK(tensor->n_dims == 1 || tensor->n_dims == 2, err, QN_ERR_UNSUPPORTED_ADAPTER, -1,
             "it has %d dimensions; whole tensors are taken over only as vectors and matrices",
             (int)tensor->n_dims);
    part.b = qni_matrix_of(r->job->adapter->file, tensor);
    return qni_adapter_add_module(r->job, m->name, what == ROLE_WEIGHT ? "weight" : "bias", &part,
                                  err);
}

static const char *first_key(const module *m)
{
    for (int i = 0; i < N_ROLES; i++) {
        if (m->tensors[i] != NULL) {
            return m->tensors[i]->name;
        }
    }
    return m->name;
}

static qn_status check_whole_pairs(const module *m, qn_error *err)
{
    const qn_tensor_info *const *t = m->tensors;
    QN_CHECK((t[ROLE_A] != NULL) == (t[ROLE_B] != NULL), err, QN_ERR_INVALID_ADAPTER, -1,
             "there is %s; the adapter is damaged, save it again",
             t[ROLE_A] != NULL ? "an A but no B" : "a B but no A");
    QN_CHECK((t[ROLE_EMBEDDING_A] != NULL) == (t[ROLE_EMBEDDING_B] != NULL), err,
             QN_ERR_INVALID_ADAPTER, -1,
             "there is only one of lora_embedding_A and lora_embedding_B; the adapter is damaged, "
             "save it again");
    QN_CHECK(t[ROLE_A] != NULL || t[ROLE_EMBEDDING_A] != NULL ||
                 (t[ROLE_B_BIAS] == NULL && t[ROLE_MAGNITUDE] == NULL),
             err, QN_ERR_INVALID_ADAPTER, -1, "there is no pair of A and B to go with it");
    QN_CHECK(t[ROLE_A] == NULL || t[ROLE_EMBEDDING_A] == NULL, err, QN_ERR_INVALID_ADAPTER, -1,
             "the module has two pairs");
    QN_CHECK(t[ROLE_WEIGHT] == NULL || (t[ROLE_A] == NULL && t[ROLE_EMBEDDING_A] == NULL), err,
             QN_ERR_INVALID_ADAPTER, -1, "the module is both replaced and adapted");
    return QN_OK;
}

static qn_status add_module(reader *r, const module *m, qn_error *err)
{
    QN_TRY(check_whole_pairs(m, err));
    if (m->tensors[ROLE_A] != NULL) {
        const bool is_inner = qni_ends_with(m->name, ".experts.base_layer");
        if (is_inner || qni_ends_with(m->name, ".experts")) {
            const size_t n = strlen(m->name) - (is_inner ? strlen(".base_layer") : 0);
            const char *experts = qni_arena_copy(r->job->arena, m->name, n);
            if (experts == NULL) {
                return qni_fail_memory(err, n);
            }
            QN_TRY(add_experts(r, m, experts, is_inner, err));
        } else {
            QN_TRY(add_linear(r, m, err));
        }
    }
    if (m->tensors[ROLE_EMBEDDING_A] != NULL) {
        QN_TRY(add_embedding(r, m, err));
    }
    if (m->tensors[ROLE_WEIGHT] != NULL) {
        QN_TRY(add_whole(r, m, ROLE_WEIGHT, err));
    }
    return m->tensors[ROLE_BIAS] != NULL ? add_whole(r, m, ROLE_BIAS, err) : QN_OK;
}

static qn_status warn(const reader *r, qn_error *err)
{
    const size_t n_bytes = (size_t)r->n_modules * sizeof(char *);
    const char **names = qni_arena_alloc(r->job->arena, n_bytes);
    if (names == NULL) {
        return qni_fail_memory(err, n_bytes);
    }
    for (int64_t i = 0; i < r->n_modules; i++) {
        names[i] = r->modules[i].name;
    }
    qni_adapter_check_names(r->job, names, r->n_modules);
    warn_of_idle(r, &r->ranks);
    if (!r->job->options->has_alpha) {
        warn_of_idle(r, &r->alphas);
    } else if (r->alphas.n > 0) {
        qni_adapter_warn(r->job, "the alpha that was given replaces alpha_pattern as well");
    }
    return QN_OK;
}

static qn_status read(reader *r, qn_error *err)
{
    QN_TRY(collect(r, err));
    QN_TRY(compile(r, &r->ranks, err));
    QN_TRY(compile(r, &r->alphas, err));
    for (int64_t i = 0; i < r->n_modules; i++) {
        const module *m = &r->modules[i];
        const qn_status st = add_module(r, m, err);
        if (st != QN_OK) {
            return qni_adapter_blame(r->job, first_key(m), st, err);
        }
    }
    return warn(r, err);
}

qn_status qni_adapter_read_peft(qni_adapter_job *job, qn_error *err)
{
    const qni_adapter_config *c = &job->adapter->config;
    reader r = {.job = job,
                .ranks = {"rank_pattern", c->rank_patterns, c->n_rank_patterns, NULL, NULL},
                .alphas = {"alpha_pattern", c->alpha_patterns, c->n_alpha_patterns, NULL, NULL}};
    qni_strmap_init(&r.by_name, job->options->allocator);
    const qn_status st = read(&r, err);
    release(&r, &r.ranks);
    release(&r, &r.alphas);
    qni_strmap_free(&r.by_name);
    return st;
}
