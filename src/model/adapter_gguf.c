/* adapter_gguf.c — llama.cpp's adapters: NAME.lora_a and NAME.lora_b beside the name in the base,
 * rows in the base's order; experts stacked; the pair of token_embd.weight transposed. */
#include "model/adapter_internal.h"

static qn_status expect_text(const qn_gguf *gguf, const char *key, const char *expected,
                             const char *meaning, qn_error *err)
{
    qn_gguf_string text;
    const qn_status st = qn_gguf_get_string(gguf, key, &text, NULL);
    const size_t n = strlen(expected);
    qni_name_text shown;
    QN_CHECK(st == QN_OK, err, QN_ERR_INVALID_ADAPTER, -1,
             "the key %s is missing, so this is no adapter", key);
    QN_CHECK((size_t)text.n_bytes == n && memcmp(text.bytes, expected, n) == 0, err,
             QN_ERR_INVALID_ADAPTER, -1, "%s is \"%s\", not \"%s\"; %s", key,
             qni_escape_name(text.bytes, text.n_bytes, &shown), expected, meaning);
    return QN_OK;
}

static qn_status check_metadata(const qni_adapter_job *job, const qn_gguf *gguf, qn_error *err)
{
    QN_TRY(expect_text(gguf, "general.type", "adapter", "this is not an adapter", err));
    QN_TRY(expect_text(gguf, "adapter.type", "lora", "only LoRA is merged", err));
    QN_TRY(expect_text(gguf, "general.architecture", job->facts->architecture,
                       "the adapter belongs to another model", err));
    QN_CHECK(!qn_gguf_has(gguf, "adapter.alora.invocation_tokens"), err, QN_ERR_UNSUPPORTED_ADAPTER,
             -1,
             "adapter.alora.invocation_tokens: an activated LoRA works only after those tokens and "
             "cannot be merged");
    return QN_OK;
}

/* alpha / rank, or 1 when alpha is not known. */
static double scale_of(const qni_adapter_job *job, double alpha, int64_t rank)
{
    alpha = job->options->has_alpha ? job->options->alpha : alpha;
    return alpha != 0 || job->options->has_alpha ? alpha / (double)rank : 1.0;
}

static qn_status add_stack(qni_adapter_job *job, const qn_tensor_info *a, const qn_tensor_info *b,
                           qni_part *part, double alpha, qn_error *err)
{
    const qn_tensor_info *target = qn_model_tensor(
        job->base, qn_model_find(job->base, part->target, (int64_t)strlen(part->target)));
    const int64_t n_experts = target != NULL && target->n_dims == 3 ? target->ne[2] : 0;
    QN_CHECK(a->ne[2] == n_experts && b->ne[2] == n_experts && n_experts <= INT32_MAX, err,
             QN_ERR_INVALID_ADAPTER, -1,
             "A has %" PRId64 " experts and B %" PRId64 ", but the model has %" PRId64
             " under that name",
             a->ne[2], b->ne[2], n_experts);
    for (int64_t e = 0; e < a->ne[2]; e++) {
        part->slice = (int32_t)e;
        part->a = qni_matrix_slice(job->adapter->file, a, e);
        part->b = qni_matrix_slice(job->adapter->file, b, e);
        QN_TRY(qni_adapter_check_pair(part, err));
        part->scale = scale_of(job, alpha, part->a.n_rows);
        QN_TRY(qni_adapter_add(job, part, err));
    }
    return QN_OK;
}

/* `a` of an embedding is [vocab, r], `b` is [hidden, r]: the weight, which is [vocab, hidden], gets
 * their product turned round. */
static void turn_embedding(qni_part *part)
{
    const qni_matrix b = part->a;
    part->a = qni_matrix_turned(&part->b);
    part->b = b;
}

static qn_status add_pair(qni_adapter_job *job, const qn_tensor_info *a, double alpha,
                          qn_error *err)
{
    const qn_model *file = job->adapter->file;
    char *other = qni_arena_copy(job->arena, a->name, (size_t)a->n_name);
    char *target = qni_arena_copy(job->arena, a->name, (size_t)a->n_name - 7);
    if (other == NULL || target == NULL) {
        return qni_fail_memory(err, (size_t)a->n_name);
    }
    other[a->n_name - 1] = 'b';
    const qn_tensor_info *b = qn_model_tensor(file, qn_model_find(file, other, a->n_name));
    QN_CHECK(b != NULL, err, QN_ERR_INVALID_ADAPTER, -1,
             "there is an A but no B (lora_b); the adapter is damaged, convert it again");
    QN_CHECK(a->n_dims == b->n_dims && (a->n_dims == 2 || a->n_dims == 3), err,
             QN_ERR_INVALID_ADAPTER, -1,
             "A has %d dimensions and B has %d; matrices or stacks of them are expected",
             (int)a->n_dims, (int)b->n_dims);
    qni_part part = {.kind = QNI_PART_PAIR, .key = a->name, .target = target, .slice = -1};
    if (a->n_dims == 3) {
        return add_stack(job, a, b, &part, alpha, err);
    }
    part.a = qni_matrix_of(file, a);
    part.b = qni_matrix_of(file, b);
    if (strcmp(target, "token_embd.weight") == 0) {
        turn_embedding(&part);
    }
    QN_TRY(qni_adapter_check_pair(&part, err));
    part.scale = scale_of(job, alpha, part.a.n_rows);
    return qni_adapter_add(job, &part, err);
}

static qn_status read_tensor(qni_adapter_job *job, const qn_tensor_info *tensor, double alpha,
                             qn_error *err)
{
    if (qni_ends_with(tensor->name, ".lora_a")) {
        return add_pair(job, tensor, alpha, err);
    }
    QN_CHECK(
        qni_ends_with(tensor->name, ".lora_b"), err, QN_ERR_UNSUPPORTED_ADAPTER, -1,
        "it is no part of a pair; a whole tensor in an adapter is passed over by llama.cpp, so "
        "what it should do is not known");
    char *other = qni_arena_copy(job->arena, tensor->name, (size_t)tensor->n_name);
    if (other == NULL) {
        return qni_fail_memory(err, (size_t)tensor->n_name);
    }
    other[tensor->n_name - 1] = 'a';
    QN_CHECK(qn_model_find(job->adapter->file, other, tensor->n_name) >= 0, err,
             QN_ERR_INVALID_ADAPTER, -1,
             "there is a B but no A (lora_a); the adapter is damaged, convert it again");
    return QN_OK;
}

qn_status qni_adapter_read_gguf(qni_adapter_job *job, qn_error *err)
{
    const qn_gguf *gguf = job->adapter->file->metadata;
    double alpha = 0;
    QN_TRY(check_metadata(job, gguf, err));
    if (qn_gguf_has(gguf, "adapter.lora.alpha")) {
        QN_TRY(qn_gguf_get_float(gguf, "adapter.lora.alpha", &alpha, err));
    }
    job->adapter->scale_source = job->options->has_alpha ? "option"
                                 : alpha != 0            ? "adapter.lora.alpha"
                                                         : "nothing";
    for (int64_t i = 0; i < job->adapter->file->n_tensors; i++) {
        const qn_tensor_info *tensor = &job->adapter->file->tensors[i];
        const qn_status st = read_tensor(job, tensor, alpha, err);
        if (st != QN_OK) {
            return qni_adapter_blame(job, tensor->name, st, err);
        }
    }
    return QN_OK;
}
