/* adapter_seed.c — the reference trainer's adapters: layers.<i>.<t>.lora_a [r, in] and .lora_b
 * [out, r], trained on the weights of the GGUF, so in its order of rows. Alpha is not in the file.
 */
#include "model/adapter_internal.h"
#include "quench/checkpoint.h"

static const struct {
    const char *name;
    const char *target;
} targets[] = {
    {"q", "attn_q"},      {"k", "attn_k"},  {"v", "attn_v"},      {"o", "attn_output"},
    {"gate", "ffn_gate"}, {"up", "ffn_up"}, {"down", "ffn_down"},
};

/* "layers.3.q.lora_a" -> "blk.3.attn_q.weight"; NULL: no such name. */
static const char *target_of(qni_arena *arena, const char *key)
{
    if (strncmp(key, "layers.", 7) != 0) {
        return NULL;
    }
    const char *number = key + 7;
    const size_t n_digits = strspn(number, "0123456789");
    if (n_digits == 0 || n_digits > 6 || (n_digits > 1 && number[0] == '0') ||
        number[n_digits] != '.') {
        return NULL;
    }
    const char *name = number + n_digits + 1;
    const size_t n_name = strlen(name) - 7; /* all keys here end in .lora_a or .lora_b */
    for (size_t i = 0; i < sizeof targets / sizeof targets[0]; i++) {
        if (strlen(targets[i].name) == n_name && memcmp(name, targets[i].name, n_name) == 0) {
            return qni_arena_printf(arena, "blk.%.*s.%s.weight", (int)n_digits, number,
                                    targets[i].target);
        }
    }
    return NULL;
}

static qn_status find_alpha(const qni_adapter_job *job, double *out, qn_error *err)
{
    *out = job->options->has_alpha ? job->options->alpha : job->adapter->trainer_alpha;
    QN_CHECK(
        job->options->has_alpha || job->adapter->has_trainer_alpha, err, QN_ERR_INVALID_ADAPTER, -1,
        "alpha is not in the adapter, and no trainer_state.json beside it has lora_alpha; give "
        "it with --alpha (the reference trainer's default is 16)");
    job->adapter->scale_source = job->options->has_alpha ? "option" : QN_CHECKPOINT_STATE;
    return QN_OK;
}

static qn_status check_tensor(const qn_tensor_info *tensor, qn_error *err)
{
    QN_CHECK(tensor->dtype == QN_DTYPE_F32 && tensor->n_dims == 2, err, QN_ERR_INVALID_ADAPTER, -1,
             "it is %s with %d dimensions; the trainer writes f32 matrices",
             qn_dtype_name(tensor->dtype), (int)tensor->n_dims);
    return QN_OK;
}

static qn_status add_pair(qni_adapter_job *job, const qn_tensor_info *a, double alpha,
                          qn_error *err)
{
    const qn_model *file = job->adapter->file;
    char *other = qni_arena_copy(job->arena, a->name, (size_t)a->n_name);
    if (other == NULL) {
        return qni_fail_memory(err, (size_t)a->n_name);
    }
    other[a->n_name - 1] = 'b';
    const qn_tensor_info *b = qn_model_tensor(file, qn_model_find(file, other, a->n_name));
    QN_CHECK(b != NULL, err, QN_ERR_INVALID_ADAPTER, -1,
             "there is an A but no B (lora_b); the adapter is damaged, save it again");
    QN_TRY(check_tensor(a, err));
    QN_TRY(check_tensor(b, err));
    qni_part part = {.kind = QNI_PART_PAIR, .key = a->name, .slice = -1};
    part.target = target_of(job->arena, a->name);
    QN_CHECK(
        part.target != NULL, err, QN_ERR_INVALID_ADAPTER, -1,
        "the name is not known: layers.<number>. and q, k, v, o, gate, up or down is expected");
    part.a = qni_matrix_of(file, a);
    part.b = qni_matrix_of(file, b);
    QN_TRY(qni_adapter_check_pair(&part, err));
    part.scale = alpha / (double)part.a.n_rows;
    return qni_adapter_add(job, &part, err);
}

static qn_status read_tensor(qni_adapter_job *job, const qn_tensor_info *tensor, double alpha,
                             qn_error *err)
{
    const qn_model *file = job->adapter->file;
    if (qni_ends_with(tensor->name, ".lora_a")) {
        return add_pair(job, tensor, alpha, err);
    }
    QN_CHECK(qni_ends_with(tensor->name, ".lora_b"), err, QN_ERR_INVALID_ADAPTER, -1,
             "it is neither lora_a nor lora_b, so it cannot be merged");
    char *other = qni_arena_copy(job->arena, tensor->name, (size_t)tensor->n_name);
    if (other == NULL) {
        return qni_fail_memory(err, (size_t)tensor->n_name);
    }
    other[tensor->n_name - 1] = 'a';
    QN_CHECK(qn_model_find(file, other, tensor->n_name) >= 0, err, QN_ERR_INVALID_ADAPTER, -1,
             "there is a B but no A (lora_a); the adapter is damaged, save it again");
    return QN_OK;
}

qn_status qni_adapter_read_seed(qni_adapter_job *job, qn_error *err)
{
    double alpha;
    QN_TRY(find_alpha(job, &alpha, err));
    for (int64_t i = 0; i < job->adapter->file->n_tensors; i++) {
        const qn_tensor_info *tensor = &job->adapter->file->tensors[i];
        const qn_status st = read_tensor(job, tensor, alpha, err);
        if (st != QN_OK) {
            return qni_adapter_blame(job, tensor->name, st, err);
        }
    }
    return QN_OK;
}
