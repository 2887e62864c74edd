/* adapter_mlx.c — mlx-lm's adapters: MODULE.lora_a [in, r] and .lora_b [r, out], both transposed
 * against PEFT, modules and rows as in Hugging Face; one scale for all, used as it is. */
#include "model/adapter_internal.h"

static qn_status check_type(const qni_adapter_config *config, qn_error *err)
{
    const char *type = config->fine_tune_type;
    qni_name_text text;
    QN_CHECK(type == NULL || strcmp(type, "lora") == 0 || strcmp(type, "dora") == 0, err,
             QN_ERR_UNSUPPORTED_ADAPTER, -1,
             "fine_tune_type is \"%s\": only lora and dora are adapters",
             qni_escape_name(type, (int64_t)strlen(type), &text));
    return QN_OK;
}

static qn_status find_scale(const qni_adapter_job *job, int64_t rank, double *out, qn_error *err)
{
    const qni_adapter_config *config = &job->adapter->config;
    *out = job->options->has_alpha ? job->options->alpha / (double)rank : config->scale;
    QN_CHECK(job->options->has_alpha || config->has_scale, err, QN_ERR_INVALID_ADAPTER, -1,
             "neither adapter_config.json (lora_parameters.scale) nor --alpha says the scale");
    job->adapter->scale_source = job->options->has_alpha ? "option" : "adapter_config.json";
    return QN_OK;
}

/* The tensor MODULE.SUFFIX, NULL if there is none. */
static const qn_tensor_info *find(const qni_adapter_job *job, const char *module,
                                  const char *suffix)
{
    const char *name = qni_arena_printf(job->arena, "%s.%s", module, suffix);
    const qn_model *file = job->adapter->file;
    return name != NULL ? qn_model_tensor(file, qn_model_find(file, name, (int64_t)strlen(name)))
                        : NULL;
}

/* switch_mlp: a [E, r, in], b [E, out, r], as PEFT has a pair. */
static qn_status add_stack(qni_adapter_job *job, qni_place *place, const qn_tensor_info *a,
                           const qn_tensor_info *b, qni_part *part, qn_error *err)
{
    const int64_t n_experts = job->facts->n_experts;
    QN_CHECK(a->n_dims == 3 && b->n_dims == 3 && a->ne[2] == n_experts && b->ne[2] == n_experts &&
                 n_experts <= INT32_MAX,
             err, QN_ERR_INVALID_ADAPTER, -1,
             "A and B must be stacks of as many matrices as the model has experts (%" PRId64 ")",
             n_experts);
    for (int64_t e = 0; e < a->ne[2]; e++) {
        part->a = qni_matrix_slice(job->adapter->file, a, e);
        part->b = qni_matrix_slice(job->adapter->file, b, e);
        QN_TRY(qni_adapter_check_pair(part, err));
        QN_TRY(find_scale(job, part->a.n_rows, &part->scale, err));
        place->expert = (int32_t)e;
        QN_TRY(qni_adapter_add_at(job, place, "weight", part, err));
    }
    return QN_OK;
}

static void set_matrices(const qni_adapter_job *job, const qni_place *place,
                         const qn_tensor_info *a, const qn_tensor_info *b, qni_part *part)
{
    const qni_matrix first = qni_matrix_of(job->adapter->file, a);
    const qni_matrix second = qni_matrix_of(job->adapter->file, b);
    if (place->is_embedding) { /* a [vocab, r], b [r, dims] */
        part->b = first;
        part->a = second;
    } else {
        part->a = qni_matrix_turned(&first);
        part->b = qni_matrix_turned(&second);
    }
}

static qn_status add_pair(qni_adapter_job *job, const char *module, const qn_tensor_info *a,
                          qn_error *err)
{
    const qn_tensor_info *b = find(job, module, "lora_b");
    const qn_tensor_info *m = find(job, module, "m");
    qni_place place = {.expert = -1};
    QN_CHECK(b != NULL, err, QN_ERR_INVALID_ADAPTER, -1,
             "there is an A but no B (lora_b); the adapter is damaged, save it again");
    qni_part part = {.kind = QNI_PART_PAIR, .key = a->name, .slice = -1};
    if (qni_place_of(job->facts, module, &place) && place.is_stack) {
        QN_CHECK(m == NULL, err, QN_ERR_UNSUPPORTED_ADAPTER, -1,
                 "DoRA of stacked experts is not merged");
        place.is_stack = false;
        return add_stack(job, &place, a, b, &part, err);
    }
    QN_CHECK(a->n_dims == 2 && b->n_dims == 2, err, QN_ERR_INVALID_ADAPTER, -1,
             "A has %d dimensions and B has %d; matrices are expected", (int)a->n_dims,
             (int)b->n_dims);
    QN_CHECK(m == NULL || !place.is_embedding, err, QN_ERR_UNSUPPORTED_ADAPTER, -1,
             "DoRA of an embedding needs norms of columns and is not merged");
    set_matrices(job, &place, a, b, &part);
    if (m != NULL) {
        part.magnitude = qni_matrix_of(job->adapter->file, m);
    }
    QN_TRY(qni_adapter_check_pair(&part, err));
    QN_TRY(find_scale(job, part.a.n_rows, &part.scale, err));
    return qni_adapter_add_module(job, module, "weight", &part, err);
}

static qn_status read_tensor(qni_adapter_job *job, const qn_tensor_info *tensor, qn_error *err)
{
    const char *dot = strrchr(tensor->name, '.');
    const char *leaf = dot != NULL ? dot + 1 : tensor->name;
    const char *module =
        qni_arena_copy(job->arena, tensor->name, dot != NULL ? (size_t)(dot - tensor->name) : 0);
    if (module == NULL) {
        return qni_fail_memory(err, (size_t)tensor->n_name);
    }
    if (strcmp(leaf, "lora_a") == 0) {
        return add_pair(job, module, tensor, err);
    }
    QN_CHECK(strcmp(leaf, "lora_b") == 0 || strcmp(leaf, "m") == 0, err, QN_ERR_UNSUPPORTED_ADAPTER,
             -1, "it is no part of a LoRA or DoRA pair of mlx-lm");
    QN_CHECK(find(job, module, "lora_a") != NULL, err, QN_ERR_INVALID_ADAPTER, -1,
             "there is no A (lora_a) to go with it; the adapter is damaged, save it again");
    return QN_OK;
}

qn_status qni_adapter_read_mlx(qni_adapter_job *job, qn_error *err)
{
    QN_TRY(check_type(&job->adapter->config, err));
    for (int64_t i = 0; i < job->adapter->file->n_tensors; i++) {
        const qn_tensor_info *tensor = &job->adapter->file->tensors[i];
        const qn_status st = read_tensor(job, tensor, err);
        if (st != QN_OK) {
            return qni_adapter_blame(job, tensor->name, st, err);
        }
    }
    return QN_OK;
}
