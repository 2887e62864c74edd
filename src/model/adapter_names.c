/* adapter_names.c — modules of Hugging Face models as tensors of a GGUF: the search in
 * adapter_names.def, and what the place of a module means for the rows of a part. */
#include "model/adapter_internal.h"

enum {
    LLAMA = 1 << 0,
    QWEN2 = 1 << 1,
    QWEN2MOE = 1 << 2,
    QWEN3 = 1 << 3,
    QWEN3MOE = 1 << 4,
    GEMMA = 1 << 5,
    GEMMA2 = 1 << 6,
    GEMMA3 = 1 << 7,
    PHI3 = 1 << 8,
    STARCODER2 = 1 << 9,
    DEEPSEEK2 = 1 << 10,
    GPT2 = 1 << 11,
    GPTNEOX = 1 << 12,
    FALCON = 1 << 13,
    BERT = 1 << 14
};

typedef enum transform {
    PLAIN,
    EMBEDDING,     /* a pair is that of the transposed weight */
    NORM_PLUS_ONE, /* stored as weight + 1 */
    ROPE_Q,
    ROPE_K,
    NEOX_QKV,
    FALCON_QKV,
    CONV1D,  /* stored [in, out] there */
    KV_B,    /* newer files have it in two tensors, one of them transposed */
    STACK,   /* all experts in one */
    GATE_UP, /* all experts in one, gate rows, then up rows */
} transform;

static const struct {
    const char *architecture;
    uint32_t family;
} architectures[] = {
#define QN_ADAPTER_ARCH(architecture, family) {architecture, family},
#include "model/adapter_names.def"
#undef QN_ADAPTER_ARCH
};

typedef struct name_row {
    uint32_t families;
    const char *module;
    const char *target;
    transform transform;
} name_row;

static const name_row names[] = {
#define QN_ADAPTER_NAME(families, module, target, transform) {families, module, target, transform},
#include "model/adapter_names.def"
#undef QN_ADAPTER_NAME
};

/* --- the base --------------------------------------------------------------------------------- */

static int64_t number_of(const qn_model *base, const char *architecture, const char *suffix)
{
    char key[256];
    int64_t value;
    qn_gguf_array array;
    qn_gguf_value element;
    const int n = snprintf(key, sizeof key, "%s.%s", architecture, suffix);
    if (n < 0 || (size_t)n >= sizeof key) {
        return 0;
    }
    if (qn_gguf_get_int(base->metadata, key, &value, NULL) == QN_OK) {
        return value;
    }
    if (qn_gguf_get_array(base->metadata, key, &array, NULL) == QN_OK && array.n_elems > 0 &&
        qn_gguf_array_at(&array, 0, &element, NULL) == QN_OK && element.kind == QN_GGUF_KIND_INT) {
        return element.as_int;
    }
    return 0;
}

qn_status qni_base_facts_of(const qn_model *base, qni_arena *arena, qni_base_facts *out_facts,
                            qn_error *err)
{
    qn_gguf_string text;
    const qn_status st = qn_gguf_get_string(base->metadata, "general.architecture", &text, NULL);
    QN_CHECK(st == QN_OK, err, QN_ERR_INVALID_METADATA, -1,
             "the model does not say its architecture (general.architecture), so no adapter can be "
             "matched with it");
    *out_facts = (qni_base_facts){NULL, 0, 0, 0, 0};
    out_facts->architecture = qni_arena_copy(arena, text.bytes, (size_t)text.n_bytes);
    if (out_facts->architecture == NULL) {
        return qni_fail_memory(err, (size_t)text.n_bytes);
    }
    for (size_t i = 0; i < sizeof architectures / sizeof architectures[0]; i++) {
        if (strcmp(architectures[i].architecture, out_facts->architecture) == 0) {
            out_facts->family = architectures[i].family;
        }
    }
    const char *a = out_facts->architecture;
    out_facts->n_heads = number_of(base, a, "attention.head_count");
    out_facts->n_heads_kv = number_of(base, a, "attention.head_count_kv");
    out_facts->n_heads_kv = out_facts->n_heads_kv > 0 ? out_facts->n_heads_kv : out_facts->n_heads;
    out_facts->n_experts = number_of(base, a, "expert_count");
    return QN_OK;
}

bool qni_may_untie(const qni_base_facts *facts)
{
    return (facts->family & (GEMMA | GEMMA2 | BERT)) == 0;
}

/* --- matching --------------------------------------------------------------------------------- */

/* Digits of a block or expert: no sign, no leading zero, at most six. 0: none. */
static size_t read_number(const char *text, int32_t *out)
{
    const size_t n = strspn(text, "0123456789");
    if (n == 0 || n > 6 || (n > 1 && text[0] == '0')) {
        return 0;
    }
    *out = 0;
    for (size_t i = 0; i < n; i++) {
        *out = *out * 10 + (text[i] - '0');
    }
    return n;
}

static bool match(const char *pattern, const char *module, int32_t *out_block, int32_t *out_expert)
{
    *out_block = *out_expert = -1;
    while (*pattern != '\0') {
        if (*pattern != '{') {
            if (*pattern++ != *module++) {
                return false;
            }
            continue;
        }
        const size_t n = read_number(module, pattern[1] == 'n' ? out_block : out_expert);
        if (n == 0) {
            return false;
        }
        module += n;
        pattern += 3;
    }
    return *module == '\0';
}

static void put_target(const char *target, int32_t block, char *out, size_t n_out)
{
    const char *hole = strstr(target, "{n}");
    if (hole == NULL) {
        (void)snprintf(out, n_out, "%s", target);
    } else {
        (void)snprintf(out, n_out, "%.*s%d%s", (int)(hole - target), target, (int)block, hole + 3);
    }
}

static qni_row_order order_of(transform t)
{
    switch (t) {
    case ROPE_Q:
    case ROPE_K:
        return QNI_ROWS_ROPE;
    case NEOX_QKV:
        return QNI_ROWS_NEOX;
    case FALCON_QKV:
        return QNI_ROWS_FALCON;
    default:
        return QNI_ROWS_AS_STORED;
    }
}

static bool find(const qni_base_facts *facts, const char *module, qni_place *out_place)
{
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const name_row *row = &names[i];
        int32_t block, expert;
        if ((row->families & facts->family) == 0 || !match(row->module, module, &block, &expert)) {
            continue;
        }
        *out_place =
            (qni_place){.order = order_of(row->transform),
                        .n_heads = row->transform == ROPE_K ? facts->n_heads_kv : facts->n_heads,
                        .expert = expert,
                        .is_stack = row->transform == STACK || row->transform == GATE_UP,
                        .is_gate_up = row->transform == GATE_UP,
                        .is_norm_plus_one = row->transform == NORM_PLUS_ONE,
                        .is_embedding = row->transform == EMBEDDING,
                        .is_conv1d = row->transform == CONV1D};
        put_target(row->target, block, out_place->target, sizeof out_place->target);
        return true;
    }
    return false;
}

bool qni_place_of(const qni_base_facts *facts, const char *module, qni_place *out_place)
{
    char longer[256];
    if (find(facts, module, out_place)) {
        return true;
    }
    if (facts->family == BERT && strncmp(module, "bert.", 5) == 0) {
        return find(facts, module + 5, out_place);
    }
    const int n = snprintf(longer, sizeof longer, "transformer.%s", module);
    return facts->family == GPT2 && n > 0 && (size_t)n < sizeof longer &&
           find(facts, longer, out_place);
}

/* --- from a place to parts -------------------------------------------------------------------- */

static const qn_tensor_info *base_tensor(const qni_adapter_job *job, const char *name)
{
    return qn_model_tensor(job->base, qn_model_find(job->base, name, (int64_t)strlen(name)));
}

static void shift_rows(qni_matrix *m, int64_t first, int64_t n_rows)
{
    if (m->tensor != NULL) {
        m->rows.first = first;
        m->n_rows = n_rows;
    }
}

/* Rows first ... first + n_rows - 1 of a part. */
static qni_part window(const qni_part *part, int64_t first, int64_t n_rows)
{
    qni_part piece = *part;
    shift_rows(&piece.b, first, n_rows);
    shift_rows(&piece.magnitude, first, n_rows);
    return piece;
}

/* "blk.3.attn_q" and "attn_q": the name with another leaf, in the arena; NULL if the leaf is
 * another one or there is no memory. */
static const char *with_leaf(qni_adapter_job *job, const char *target, const char *leaf,
                             const char *new_leaf, const char *suffix)
{
    const size_t n = strlen(target);
    const size_t n_leaf = strlen(leaf);
    if (n < n_leaf + 1 || target[n - n_leaf - 1] != '.' || strcmp(target + n - n_leaf, leaf) != 0) {
        return NULL;
    }
    return qni_arena_printf(job->arena, "%.*s%s.%s", (int)(n - n_leaf), target, new_leaf, suffix);
}

/* Rows of a fused tensor that stand for a module that the base does not have on its own. */
typedef struct fused_row {
    const char *leaf;
    const char *fused;
    int which; /* 0: first, 1, 2 */
} fused_row;

static const fused_row fused_rows[] = {
    {"attn_q", "attn_qkv", 0},
    {"attn_k", "attn_qkv", 1},
    {"attn_v", "attn_qkv", 2},
    {"ffn_gate_exps", "ffn_gate_up_exps", 0},
    {"ffn_up_exps", "ffn_gate_up_exps", 1},
};

/* First row of piece `which` of a fused tensor, -1: it cannot be cut so. */
static int64_t fused_first(const qni_base_facts *facts, const qn_tensor_info *fused, int which,
                           bool is_experts)
{
    const int64_t n_rows = fused->n_dims > 1 ? fused->ne[1] : fused->ne[0];
    if (is_experts) {
        return n_rows % 2 == 0 ? which * (n_rows / 2) : -1;
    }
    const int64_t n_all = facts->n_heads + 2 * facts->n_heads_kv;
    if (facts->n_heads <= 0 || facts->n_heads > n_rows || facts->n_heads_kv > n_rows ||
        n_rows % n_all != 0) {
        return -1;
    }
    const int64_t d = n_rows / n_all;
    return which == 0 ? 0 : (facts->n_heads + (which - 1) * facts->n_heads_kv) * d;
}

static qn_status add_fused(qni_adapter_job *job, const qni_place *place, const char *suffix,
                           qni_part *part, bool *out_is_added, qn_error *err)
{
    *out_is_added = false;
    for (size_t i = 0; i < sizeof fused_rows / sizeof fused_rows[0]; i++) {
        const fused_row *row = &fused_rows[i];
        const char *name = with_leaf(job, place->target, row->leaf, row->fused, suffix);
        const qn_tensor_info *fused = name != NULL ? base_tensor(job, name) : NULL;
        if (fused == NULL) {
            continue;
        }
        const int64_t first = fused_first(job->facts, fused, row->which, place->expert >= 0);
        if (first < 0) {
            continue;
        }
        part->first_row = first;
        part->target = name;
        part->is_window = true;
        *out_is_added = true;
        return qni_adapter_add(job, part, err);
    }
    return QN_OK;
}

/* attn_qkv of the adapter on a base with three tensors. */
static qn_status add_split(qni_adapter_job *job, const qni_place *place, const char *suffix,
                           const qni_part *part, bool *out_is_added, qn_error *err)
{
    static const char *const leaves[] = {"attn_q", "attn_k", "attn_v"};
    int64_t first = 0;
    *out_is_added = false;
    for (int i = 0; i < 3; i++) {
        const char *name = with_leaf(job, place->target, "attn_qkv", leaves[i], suffix);
        const qn_tensor_info *tensor = name != NULL ? base_tensor(job, name) : NULL;
        if (tensor == NULL) {
            return QN_OK;
        }
        const int64_t n_rows = tensor->n_dims > 1 ? tensor->ne[1] : tensor->ne[0];
        QN_CHECK(n_rows <= part->b.n_rows - first, err, QN_ERR_INVALID_ADAPTER, -1,
                 "it has %" PRId64 " rows, fewer than q, k and v of the model together",
                 part->b.n_rows);
        qni_part piece = window(part, first, n_rows);
        piece.target = name;
        QN_TRY(qni_adapter_add(job, &piece, err));
        first += n_rows;
    }
    *out_is_added = true;
    return QN_OK;
}

/* Gate rows, then up rows: of one expert. */
static qn_status add_gate_up(qni_adapter_job *job, const qni_place *place, const char *suffix,
                             const qni_part *part, qn_error *err)
{
    const char *fused = with_leaf(job, place->target, "ffn_gate_exps", "ffn_gate_up_exps", suffix);
    if (fused != NULL && base_tensor(job, fused) != NULL) {
        qni_part whole = *part;
        whole.target = fused;
        return qni_adapter_add(job, &whole, err);
    }
    QN_CHECK(part->b.n_rows % 2 == 0, err, QN_ERR_INVALID_ADAPTER, -1,
             "gate and up together have %" PRId64 " rows, an odd number", part->b.n_rows);
    const int64_t n_half = part->b.n_rows / 2;
    for (int i = 0; i < 2; i++) {
        qni_part piece = window(part, i * n_half, n_half);
        piece.target = with_leaf(job, place->target, "ffn_gate_exps",
                                 i == 0 ? "ffn_gate_exps" : "ffn_up_exps", suffix);
        if (piece.target == NULL) {
            return qni_fail_memory(err, strlen(place->target));
        }
        QN_TRY(qni_adapter_add(job, &piece, err));
    }
    return QN_OK;
}

static void set_rows(const qni_adapter_job *job, const qni_place *place, qni_matrix *m)
{
    if (m->tensor != NULL) {
        m->rows = (qni_rows){place->order, place->n_heads, job->facts->n_heads_kv, m->n_rows, 0};
    }
}

qn_status qni_adapter_add_at(qni_adapter_job *job, const qni_place *place, const char *suffix,
                             const qni_part *given, qn_error *err)
{
    qni_part part = *given;
    part.slice = place->expert;
    if (part.kind == QNI_PART_REPLACE && place->is_conv1d && strcmp(suffix, "weight") == 0) {
        part.b = qni_matrix_turned(&part.b);
    }
    set_rows(job, place, &part.b);
    set_rows(job, place, &part.magnitude);
    QN_CHECK(qni_rows_fit(&part.b.rows), err, QN_ERR_INVALID_ADAPTER, -1,
             "its %" PRId64 " rows cannot be divided among the model's heads (%" PRId64 ", %" PRId64
             " of them for keys)",
             part.b.n_rows, job->facts->n_heads, job->facts->n_heads_kv);
    part.adds_one =
        place->is_norm_plus_one && part.kind == QNI_PART_REPLACE && strcmp(suffix, "weight") == 0;
    part.may_be_longer = place->is_embedding && job->facts->family == GEMMA3;
    part.target = qni_arena_printf(job->arena, "%s.%s", place->target, suffix);
    if (part.target == NULL) {
        return qni_fail_memory(err, strlen(place->target));
    }
    if (place->is_gate_up) {
        return add_gate_up(job, place, suffix, &part, err);
    }
    if (base_tensor(job, part.target) == NULL) {
        bool is_added;
        QN_TRY(add_fused(job, place, suffix, &part, &is_added, err));
        if (!is_added) {
            QN_TRY(add_split(job, place, suffix, &part, &is_added, err));
        }
        if (is_added) {
            return QN_OK;
        }
        QN_CHECK(
            !qni_ends_with(part.target, "attn_kv_b.weight"), err, QN_ERR_UNSUPPORTED_ADAPTER, -1,
            "the model holds kv_b_proj as attn_k_b and attn_v_b, one of them transposed head by "
            "head; merge this adapter into the Hugging Face model and convert that");
    }
    return qni_adapter_add(job, &part, err);
}

qn_status qni_adapter_add_module(qni_adapter_job *job, const char *module, const char *suffix,
                                 const qni_part *part, qn_error *err)
{
    qni_place place;
    qni_name_text text;
    QN_CHECK(job->facts->family != 0, err, QN_ERR_UNSUPPORTED_ADAPTER, -1,
             "where the modules of architecture \"%s\" have gone is not known here; convert the "
             "adapter to GGUF with llama.cpp's converter",
             qni_escape_name(job->facts->architecture, (int64_t)strlen(job->facts->architecture),
                             &text));
    QN_CHECK(qni_place_of(job->facts, module, &place), err, QN_ERR_INVALID_ADAPTER, -1,
             "the model has no such module (architecture %s); the adapter belongs to another model",
             job->facts->architecture);
    QN_CHECK(!place.is_stack, err, QN_ERR_UNSUPPORTED_ADAPTER, -1,
             "it stands for all experts at once, which is not expected here");
    return qni_adapter_add_at(job, &place, suffix, part, err);
}
