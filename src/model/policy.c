/* policy.c — reads the tables: which type does each tensor get, and why. */
#include "model/policy_internal.h"

/* --- the tables as data ----------------------------------------------------------------------- */

/* Sets of presets are bits; a preset's bit is its place in presets.def. */
enum {
#define QN_PRESET(id, name, alias, base, description) PLACE_##name,
#include "model/presets.def"
#undef QN_PRESET
    N_PLACES
};
_Static_assert(N_PLACES <= 64, "a set of presets is a 64-bit word");

#define P(name) (UINT64_C(1) << PLACE_##name)
#define EVERY   (~UINT64_C(0))
#define LOW_SIX (P(IQ1_S) | P(IQ1_M) | P(IQ2_XXS) | P(IQ2_XS) | P(IQ2_S) | P(IQ2_M))

enum category_bits {
    OUT = 1u << 0,
    EMBD = 1u << 1,
    V = 1u << 2,
    K = 1u << 3,
    Q = 1u << 4,
    O = 1u << 5,
    UP = 1u << 6,
    GATE = 1u << 7,
    DOWN = 1u << 8,
    OTHER = 1u << 9,
    ANY = EMBD | V | K | Q | O | UP | GATE | DOWN | OTHER
};

enum condition_bits {
    GQA4 = 1u << 0,
    EXPERTS4 = 1u << 1,
    EXPERTS8 = 1u << 2,
    NOT_EXPERTS8 = 1u << 3,
    MATRIX = 1u << 4,
    NO_MATRIX = 1u << 5,
    EARLY = 1u << 6,
    FIRST16 = 1u << 7,
    MIDDLE = 1u << 8,
    MORE = 1u << 9,
    MORE_OF_V = 1u << 10,
    EARLY_COUNT = 1u << 11,
    BEFORE2 = 1u << 12,
    BEFORE4 = 1u << 13,
    FALCON = 1u << 14,
    NOT_FALCON = 1u << 15,
    BAILING3 = 1u << 16,
    BASE_UNEVEN = 1u << 17,
    STACKED = 1u << 18,
    BASE_Q8_0 = 1u << 19,
    BIG70 = 1u << 20
};

#define QN_DTYPE_KEEP QN_DTYPE_NONE

typedef struct mix_row {
    uint64_t presets;
    uint32_t categories;
    uint32_t conditions;
    qn_dtype dtype;
    const char *why;
} mix_row;

static const mix_row mixture[] = {
#define QN_MIX(categories, presets, conditions, dtype, why) \
    {presets, categories, conditions, QN_DTYPE_##dtype, "mixture: " why},
#include "model/mixture.def"
#undef QN_MIX
};

#define T(name)  (UINT64_C(1) << QN_DTYPE_##name)
#define ANY_TYPE (~UINT64_C(0))

typedef struct after_row {
    uint64_t types;
    uint32_t conditions;
    qn_dtype dtype;
    const char *why;
} after_row;

static const after_row mixture_after[] = {
#define QN_AFTER(types, conditions, dtype, why) \
    {types, conditions, QN_DTYPE_##dtype, "mixture: " why},
#include "model/mixture_after.def"
#undef QN_AFTER
};

static const struct {
    qn_dtype from;
    qn_dtype to;
} fallbacks[] = {
#define QN_FALLBACK(from, to) {QN_DTYPE_##from, QN_DTYPE_##to},
#include "model/fallback.def"
#undef QN_FALLBACK
};

#define COUNT_OF(array) ((int)(sizeof(array) / sizeof((array)[0])))

/* Parts of names: a weight whose name contains one is never quantized. */
static const char *const kept_parts[] = {
    "_norm.weight",
    "ffn_gate_inp.weight",
    "ffn_gate_tid2eid.weight",
    "altup",
    "laurel",
    "per_layer_model_proj",
    "ssm_conv1d",
    "shortconv.conv.weight",
    "indexer.k_proj.weight",
    "indexer.q_proj.weight",
    "attn_rel_b.weight",
    ".position_embd",
    "sam.pos_embd",
    "sam.neck.",
    "sam.net_",
    ".rel_pos",
    ".patch_embd",
    ".patch_merger",
    "a.rvq.codebook",
    "mm.a.code_embd",
    "time_mix_first.weight",
    "time_mix_w0.weight",
    "time_mix_w1.weight",
    "time_mix_w2.weight",
    "time_mix_v0.weight",
    "time_mix_v1.weight",
    "time_mix_v2.weight",
    "time_mix_a0.weight",
    "time_mix_a1.weight",
    "time_mix_a2.weight",
    "time_mix_g1.weight",
    "time_mix_g2.weight",
    "time_mix_decay_w1.weight",
    "time_mix_decay_w2.weight",
    "time_mix_lerp_fused.weight",
};

/* Names and the category they mean; the first that fits counts. */
typedef enum name_test { IS, CONTAINS } name_test;
static const struct {
    name_test test;
    const char *text;
    uint32_t category;
} categories[] = {
    {IS, "output.weight", OUT},
    {IS, "token_embd.weight", EMBD},
    {IS, "per_layer_token_embd.weight", EMBD},
    {CONTAINS, "attn_qkv.weight", V},
    {CONTAINS, "attn_kv_b.weight", V},
    {CONTAINS, "attn_v.weight", V},
    {CONTAINS, "attn_k.weight", K},
    {CONTAINS, "attn_q.weight", Q},
    {CONTAINS, "attn_output.weight", O},
    {CONTAINS, "ffn_up", UP},
    {CONTAINS, "ffn_gate", GATE},
    {CONTAINS, "ffn_down", DOWN},
};

/* Architectures and depth of the models whose values get more bits. */
static const struct {
    const char *architecture;
    int64_t n_blocks;
    bool is_grouped_dense; /* counts only with grouped heads and not 8 experts */
} big_models[] = {
    {"llama", 80, true}, {"llama-embed", 80, true}, {"qwen2", 80, false},
    {"olmo", 80, false}, {"deci", 80, false},       {"jais2", 68, false},
};

/* --- the state of one choice ------------------------------------------------------------------ */

typedef struct chooser {
    const qn_quantize_options *options;
    const qni_policy_model *model;
    qn_dtype base;
    uint64_t preset;     /* its bit */
    uint32_t conditions; /* those that hold for the whole model */
    bool is_tied;        /* there is no output.weight */
    int64_t n_v;         /* tensors of category V */
    int64_t v_count;     /* tensors of each category that the mixture has seen */
    int64_t down_count;
    int64_t gate_count;
    int64_t up_count;
    void **compiled; /* patterns: tensor_types, then recipe */
    int64_t *n_matched;
} chooser;

static uint32_t category_of(const char *name)
{
    for (int i = 0; i < COUNT_OF(categories); i++) {
        const char *text = categories[i].text;
        const bool fits =
            categories[i].test == IS ? strcmp(name, text) == 0 : strstr(name, text) != NULL;
        if (fits) {
            return categories[i].category;
        }
    }
    return OTHER;
}

/* Reads the number as sscanf("blk.%d.") does: blanks and a sign are taken, the last dot is not
 * needed, and what does not fit wraps round as it does there. */
static bool read_block(const char *name, int32_t *out_block)
{
    if (strncmp(name, "blk.", 4) != 0) {
        return false;
    }
    const char *text = name + 4;
    text += strspn(text, " \t\n\v\f\r");
    const bool is_negative = *text == '-';
    text += *text == '-' || *text == '+';
    if (*text < '0' || *text > '9') {
        return false;
    }
    int64_t value = 0;
    for (; *text >= '0' && *text <= '9'; text++) {
        const int64_t digit = *text - '0';
        const bool fits = value <= (INT64_MAX - digit) / 10;
        value = fits ? value * 10 + digit : INT64_MAX;
    }
    *out_block = (int32_t)(uint32_t)(uint64_t)(is_negative ? -value : value);
    return true;
}

int64_t qni_policy_block_of(const char *name)
{
    int32_t block;
    return read_block(name, &block) ? block : -1;
}

int qni_policy_compare(const char *name_a, const char *name_b)
{
    const int64_t block_a = qni_policy_block_of(name_a);
    const int64_t block_b = qni_policy_block_of(name_b);
    if (block_a != block_b) {
        return block_a < block_b ? -1 : 1;
    }
    return strcmp(name_a, name_b);
}

static bool ends_with(const char *text, const char *end)
{
    const size_t n_text = strlen(text);
    const size_t n_end = strlen(end);
    return n_text >= n_end && strcmp(text + n_text - n_end, end) == 0;
}

/* Why a tensor is not to be quantized at all; NULL if it may be. */
static const char *reason_to_keep(const chooser *c, const qni_policy_tensor *tensor)
{
    const char *name = tensor->name;
    if (c->options->preset == QN_PRESET_COPY) {
        return "copy";
    }
    if (tensor->n_dims < 2) {
        return "kept: one dimension";
    }
    if (!ends_with(name, "weight")) {
        return "kept: not a weight";
    }
    if (c->options->leave_output_tensor && strcmp(name, "output.weight") == 0) {
        return "kept: --leave-output-tensor";
    }
    if (strcmp(name, "position_embd.weight") == 0 || strcmp(name, "token_types.weight") == 0) {
        return "kept: by name";
    }
    for (int i = 0; i < COUNT_OF(kept_parts); i++) {
        if (strstr(name, kept_parts[i]) != NULL) {
            return "kept: by name";
        }
    }
    return NULL;
}

/* --- conditions ------------------------------------------------------------------------------- */

static bool gets_more_bits(int64_t i, int64_t n)
{
    return i < n / 8 || i >= 7 * n / 8 || (i - n / 8) % 3 == 2;
}

static bool is_big_model(const qni_policy_model *model)
{
    for (int i = 0; i < COUNT_OF(big_models); i++) {
        if (strcmp(model->architecture, big_models[i].architecture) == 0 &&
            model->n_blocks == big_models[i].n_blocks) {
            return !big_models[i].is_grouped_dense ||
                   (model->n_heads != model->n_heads_kv && model->n_experts != 8);
        }
    }
    return false;
}

static uint32_t model_conditions(const qn_quantize_options *options, const qni_policy_model *model,
                                 qn_dtype base)
{
    const int64_t n_grouped = model->n_heads_kv > 0 ? model->n_heads / model->n_heads_kv : 0;
    uint32_t held = 0;
    held |= n_grouped >= 4 ? GQA4 : 0;
    held |= model->n_experts >= 4 ? EXPERTS4 : 0;
    held |= model->n_experts == 8 ? EXPERTS8 : NOT_EXPERTS8;
    held |= options->imatrix != NULL ? MATRIX : NO_MATRIX;
    held |= strcmp(model->architecture, "falcon") == 0 ? FALCON : NOT_FALCON;
    held |= strcmp(model->architecture, "bailingmoe3") == 0 ? BAILING3 : 0;
    held |= base == QN_DTYPE_Q8_0 ? BASE_Q8_0 : 0;
    held |= is_big_model(model) ? BIG70 : 0;
    return held;
}

/* The counter of a category, NULL for those that are not counted. */
static int64_t *counter_of(chooser *c, uint32_t category)
{
    switch (category) {
    case V:
        return &c->v_count;
    case DOWN:
        return &c->down_count;
    case GATE:
        return &c->gate_count;
    case UP:
        return &c->up_count;
    default:
        return NULL;
    }
}

/* Which block a feed-forward tensor belongs to. */
static qn_status layer_of(const chooser *c, const char *name, int64_t count, int64_t *out_layer,
                          qn_error *err)
{
    *out_layer = count;
    if (c->model->n_experts <= 1) {
        return QN_OK;
    }
    int32_t block = 0;
    qni_name_text text;
    QN_CHECK(read_block(name, &block), err, QN_ERR_INVALID_METADATA, -1,
             "tensor %s of a mixture of %" PRId64
             " experts has no block number; rename it to blk.N. or fix its type with a pattern",
             qni_escape_name(name, (int64_t)strlen(name), &text), c->model->n_experts);
    QN_CHECK(block >= 0 && block < c->model->n_blocks, err, QN_ERR_INVALID_METADATA, -1,
             "tensor %s lies in block %d, but block_count is %" PRId64 "; correct the metadata",
             qni_escape_name(name, (int64_t)strlen(name), &text), (int)block, c->model->n_blocks);
    *out_layer = block;
    return QN_OK;
}

/* Conditions that depend on how many tensors of the category came before. */
static uint32_t count_conditions(const chooser *c, uint32_t category, int64_t layer, int64_t count)
{
    const int64_t n = c->model->n_blocks;
    uint32_t held = 0;
    held |= count < 2 ? BEFORE2 : 0;
    held |= count < 4 ? BEFORE4 : 0;
    held |= count < n / 8 ? EARLY_COUNT : 0;
    held |= category == V && gets_more_bits(count, c->n_v) ? MORE_OF_V : 0;
    held |= layer < n / 8 ? EARLY : 0;
    held |= layer < n / 16 ? FIRST16 : 0;
    held |= layer >= n / 8 && layer < 7 * n / 8 ? MIDDLE : 0;
    held |= gets_more_bits(layer, n) ? MORE : 0;
    return held;
}

/* --- the mixture ------------------------------------------------------------------------------ */

static void apply_after_rows(const chooser *c, qni_policy_choice *choice)
{
    for (int i = 0; i < COUNT_OF(mixture_after); i++) {
        const after_row *row = &mixture_after[i];
        const bool has_type = (row->types >> (unsigned)choice->dtype & 1) != 0;
        if (has_type && (row->conditions & ~c->conditions) == 0) {
            choice->dtype = row->dtype;
            choice->rule = row->why;
        }
    }
}

static qn_status choose_mixture(chooser *c, const qni_policy_tensor *tensor, uint32_t category,
                                qni_policy_choice *choice, qn_error *err)
{
    const bool is_low = (c->preset & LOW_SIX) != 0;
    const bool is_moe = (c->preset & P(MXFP4_MOE)) != 0;
    int64_t *counter = is_moe ? NULL : counter_of(c, category);
    const int64_t count = counter != NULL ? *counter : 0;
    int64_t layer = count;
    if (!is_low && !is_moe && (category & (DOWN | GATE | UP)) != 0) {
        QN_TRY(layer_of(c, tensor->name, count, &layer, err));
    }
    uint32_t held = c->conditions | count_conditions(c, category, layer, count);
    held |= tensor->ne[0] % qn_dtype_block_elems(c->base) != 0 ? BASE_UNEVEN : 0;
    held |= tensor->ne[2] > 1 ? STACKED : 0;

    choice->dtype = c->base;
    choice->rule = "base type of the preset";
    for (int i = 0; i < COUNT_OF(mixture); i++) {
        const mix_row *row = &mixture[i];
        if ((row->categories & category) != 0 && (row->presets & c->preset) != 0 &&
            (row->conditions & ~held) == 0) {
            choice->dtype = row->dtype == QN_DTYPE_KEEP ? c->base : row->dtype;
            choice->rule = row->why;
            break;
        }
    }
    if (category == V && !is_low && !is_moe) {
        apply_after_rows(c, choice);
    }
    if (counter != NULL) {
        *counter += 1;
    }
    return QN_OK;
}

/* --- fallback --------------------------------------------------------------------------------- */

static bool row_fits(qn_dtype dtype, int64_t ne0)
{
    const int64_t block = qn_dtype_block_elems(dtype);
    return block > 0 && ne0 % block == 0;
}

static qn_dtype fallback_of(qn_dtype dtype)
{
    for (int i = 0; i < COUNT_OF(fallbacks); i++) {
        if (fallbacks[i].from == dtype) {
            return fallbacks[i].to;
        }
    }
    return QN_DTYPE_NONE;
}

static qn_status apply_fallback(const chooser *c, const qni_policy_tensor *tensor,
                                qni_policy_choice *choice, qn_error *err)
{
    choice->wanted = choice->dtype;
    if (row_fits(choice->dtype, tensor->ne[0])) {
        return QN_OK;
    }
    qni_name_text text;
    const char *name = qni_escape_name(tensor->name, (int64_t)strlen(tensor->name), &text);
    QN_CHECK(!c->options->no_fallback, err, QN_ERR_NO_FALLBACK, -1,
             "tensor %s has rows of %" PRId64 " elements, no multiple of the %" PRId64
             " that a block of %s holds; allow fallbacks or choose another type for it",
             name, tensor->ne[0], qn_dtype_block_elems(choice->dtype),
             qn_dtype_name(choice->dtype));
    qn_dtype to = fallback_of(choice->dtype);
    QN_CHECK(to != QN_DTYPE_NONE, err, QN_ERR_NO_FALLBACK, -1,
             "tensor %s has rows of %" PRId64 " elements, no multiple of the %" PRId64
             " that a block of %s holds, and no other type stands in for it; choose one with a "
             "pattern",
             name, tensor->ne[0], qn_dtype_block_elems(choice->dtype),
             qn_dtype_name(choice->dtype));
    choice->dtype = row_fits(to, tensor->ne[0]) ? to : QN_DTYPE_F16;
    choice->is_fallback = true;
    return QN_OK;
}

/* --- patterns --------------------------------------------------------------------------------- */

static qn_status compile_rules(const qn_matcher *matcher, const qn_tensor_type_rule *rules,
                               int32_t n_rules, void **compiled, qn_error *err)
{
    for (int32_t i = 0; i < n_rules; i++) {
        QN_TRY(matcher->compile(matcher->ctx, rules[i].pattern, &compiled[i], err));
    }
    return QN_OK;
}

/* The first rule of a list whose pattern is found in the name, -1 if none. Later rules are asked as
 * well while they have not matched anything, so that an idle one can be reported. */
static qn_status find_rule(const chooser *c, const char *name, int32_t first, int32_t n_rules,
                           int32_t *out_rule, qn_error *err)
{
    const qn_matcher *matcher = c->options->matcher;
    *out_rule = -1;
    for (int32_t i = 0; i < n_rules; i++) {
        if (*out_rule >= 0 && c->n_matched[first + i] > 0) {
            continue;
        }
        bool is_found = false;
        QN_TRY(matcher->find(matcher->ctx, c->compiled[first + i], name, (int64_t)strlen(name),
                             &is_found, err));
        if (is_found) {
            c->n_matched[first + i] += 1;
            *out_rule = *out_rule < 0 ? i : *out_rule;
        }
    }
    return QN_OK;
}

/* --- one tensor, all tensors ------------------------------------------------------------------ */

static bool is_plain_base(qn_dtype base)
{
    return base == QN_DTYPE_F32 || base == QN_DTYPE_F16 || base == QN_DTYPE_BF16;
}

static qn_status choose_by_rules(chooser *c, const qni_policy_tensor *tensor, int32_t type_rule,
                                 int32_t recipe_rule, qni_policy_choice *choice, qn_error *err)
{
    const qn_quantize_options *o = c->options;
    const uint32_t category = category_of(tensor->name);
    if (recipe_rule >= 0) {
        choice->dtype = o->recipe[recipe_rule].dtype;
        choice->rule = "recipe";
        return apply_fallback(c, tensor, choice, err);
    }
    if (o->token_embedding_type != QN_DTYPE_NONE && category == EMBD) {
        choice->dtype = choice->wanted = o->token_embedding_type;
        choice->rule = "--token-embedding-type";
        return QN_OK;
    }
    if (o->output_tensor_type != QN_DTYPE_NONE && category == OUT) {
        choice->dtype = choice->wanted = o->output_tensor_type;
        choice->rule = "--output-tensor-type";
        return QN_OK;
    }
    if (is_plain_base(c->base)) {
        choice->dtype = choice->wanted = c->base;
        choice->rule = "base type of the preset";
        return QN_OK;
    }
    if (type_rule >= 0) {
        choice->dtype = o->tensor_types[type_rule].dtype;
        choice->rule = "--tensor-type";
        return apply_fallback(c, tensor, choice, err);
    }
    if (o->is_pure) {
        choice->dtype = c->base;
        choice->rule = "--pure";
        return apply_fallback(c, tensor, choice, err);
    }
    const bool is_head = category == OUT || (category == EMBD && c->is_tied);
    if (is_head && o->output_tensor_type != QN_DTYPE_NONE) {
        choice->dtype = o->output_tensor_type;
        choice->rule = "--output-tensor-type (tied embedding)";
        return apply_fallback(c, tensor, choice, err);
    }
    QN_TRY(choose_mixture(c, tensor, is_head ? OUT : category, choice, err));
    return apply_fallback(c, tensor, choice, err);
}

static bool needs_weights(const chooser *c, const char *name, qn_dtype dtype)
{
    if (strcmp(name, "output.weight") == 0 || strcmp(name, "token_embd.weight") == 0 ||
        strcmp(name, "per_layer_token_embd.weight") == 0) {
        return false;
    }
    switch (dtype) {
    case QN_DTYPE_IQ1_S:
    case QN_DTYPE_IQ1_M:
    case QN_DTYPE_IQ2_XXS:
    case QN_DTYPE_IQ2_XS:
    case QN_DTYPE_IQ2_S:
    case QN_DTYPE_IQ3_XXS:
        return true;
    case QN_DTYPE_Q2_K:
        return (c->preset & P(Q2_K_S)) != 0;
    default:
        return false;
    }
}

static qn_status choose_one(chooser *c, const qni_policy_tensor *tensor, qni_policy_choice *choice,
                            qn_error *err)
{
    const qn_quantize_options *o = c->options;
    *choice = (qni_policy_choice){.dtype = tensor->source, .wanted = tensor->source};
    int32_t type_rule, recipe_rule;
    QN_TRY(find_rule(c, tensor->name, 0, o->n_tensor_types, &type_rule, err));
    QN_TRY(find_rule(c, tensor->name, o->n_tensor_types, o->n_recipe, &recipe_rule, err));
    choice->rule = reason_to_keep(c, tensor);
    if (choice->rule != NULL) {
        return QN_OK;
    }
    choice->may_convert = true;
    QN_TRY(choose_by_rules(c, tensor, type_rule, recipe_rule, choice, err));
    choice->needs_weights =
        choice->dtype != tensor->source && needs_weights(c, tensor->name, choice->dtype);
    return QN_OK;
}

static qn_status check_all_matched(const chooser *c, qn_error *err)
{
    const qn_quantize_options *o = c->options;
    if (o->allow_unmatched) {
        return QN_OK;
    }
    for (int32_t i = 0; i < o->n_tensor_types + o->n_recipe; i++) {
        const bool is_recipe = i >= o->n_tensor_types;
        const qn_tensor_type_rule *rule =
            is_recipe ? &o->recipe[i - o->n_tensor_types] : &o->tensor_types[i];
        qni_name_text text;
        QN_CHECK(c->n_matched[i] > 0, err, QN_ERR_UNMATCHED_PATTERN, -1,
                 "the pattern \"%s\" matches no tensor; correct it or give "
                 "--allow-unmatched",
                 qni_escape_name(rule->pattern, (int64_t)strlen(rule->pattern), &text));
    }
    return QN_OK;
}

static void survey(chooser *c, const qni_policy_tensor *tensors, int64_t n_tensors)
{
    c->is_tied = true;
    for (int64_t i = 0; i < n_tensors; i++) {
        const uint32_t category = category_of(tensors[i].name);
        c->n_v += category == V;
        c->is_tied = c->is_tied && category != OUT;
    }
}

static uint64_t preset_bit(const qn_preset *preset)
{
    return UINT64_C(1) << (unsigned)(preset - qn_preset_at(0));
}

static qn_status compile_patterns(chooser *c, qn_error *err)
{
    const qn_quantize_options *o = c->options;
    QN_TRY(compile_rules(o->matcher, o->tensor_types, o->n_tensor_types, c->compiled, err));
    return compile_rules(o->matcher, o->recipe, o->n_recipe, c->compiled + o->n_tensor_types, err);
}

static void release_patterns(chooser *c, int32_t n_patterns)
{
    for (int32_t i = 0; i < n_patterns && c->compiled != NULL; i++) {
        if (c->compiled[i] != NULL) {
            c->options->matcher->release(c->options->matcher->ctx, c->compiled[i]);
        }
    }
}

qn_status qni_policy_choose(const qn_quantize_options *options, const qni_policy_model *model,
                            const qni_policy_tensor *tensors, int64_t n_tensors,
                            qni_policy_choice *out_choices, qn_error *err)
{
    const qn_preset *preset = qni_preset_of(options->preset);
    QN_CHECK(preset != NULL, err, QN_ERR_UNKNOWN_PRESET, -1, "%d is the number of no preset",
             (int)options->preset);
    const int32_t n_patterns = options->n_tensor_types + options->n_recipe;
    QN_CHECK(n_patterns == 0 || options->matcher != NULL, err, QN_ERR_INVALID_ARGUMENT, -1,
             "there are patterns but no matcher to read them");
    chooser c = {.options = options, .model = model, .base = preset->base};
    c.preset = preset_bit(preset);
    c.conditions = model_conditions(options, model, preset->base);
    survey(&c, tensors, n_tensors);

    qn_status st = QN_OK;
    const size_t n_table = (size_t)n_patterns * sizeof *c.compiled;
    const size_t n_counts = (size_t)n_patterns * sizeof *c.n_matched;
    c.compiled = qni_alloc_zeroed(options->allocator, n_table);
    c.n_matched = qni_alloc_zeroed(options->allocator, n_counts);
    if (c.compiled == NULL || c.n_matched == NULL) {
        st = qni_fail_memory(err, n_table + n_counts);
        goto done;
    }
    QN_TRY_GOTO(compile_patterns(&c, err));
    for (int64_t i = 0; i < n_tensors; i++) {
        QN_TRY_GOTO(choose_one(&c, &tensors[i], &out_choices[i], err));
    }
    QN_TRY_GOTO(check_all_matched(&c, err));
done:
    release_patterns(&c, n_patterns);
    qni_free(options->allocator, c.compiled, n_table);
    qni_free(options->allocator, c.n_matched, n_counts);
    return st;
}
