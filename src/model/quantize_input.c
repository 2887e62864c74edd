/* quantize_input.c — what goes into a quantized model: names, order, pruning, and the facts that
 * the rules look at. */
#include "model/quantize_internal.h"

/* --- pruning ---------------------------------------------------------------------------------- */

/* The number N of the first "blk.N." anywhere in a name. */
typedef struct block_in_name {
    int64_t number;
    size_t first_digit;
    size_t n_digits;
} block_in_name;

static bool find_block(const char *name, block_in_name *out_block)
{
    for (const char *at = strstr(name, "blk."); at != NULL; at = strstr(at + 1, "blk.")) {
        const char *digits = at + 4;
        const size_t n_digits = strspn(digits, "0123456789");
        if (n_digits == 0 || digits[n_digits] != '.') {
            continue;
        }
        int64_t number = 0;
        for (size_t i = 0; i < n_digits && number < INT32_MAX; i++) {
            number = number * 10 + (digits[i] - '0');
        }
        *out_block = (block_in_name){number, (size_t)(digits - name), n_digits};
        return true;
    }
    return false;
}

static bool is_pruned(const qn_quantize_options *options, int64_t block)
{
    for (int32_t i = 0; i < options->n_prune_layers; i++) {
        if (options->prune_layers[i] == block) {
            return true;
        }
    }
    return false;
}

static int by_number(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a;
    const int64_t y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* All block numbers that stay, ascending, without duplicates. */
static int64_t kept_blocks(const qni_quantize_job *job, int64_t *blocks)
{
    int64_t n = 0;
    for (int64_t i = 0; i < job->model->n_tensors; i++) {
        block_in_name block;
        if (find_block(job->model->tensors[i].name, &block) &&
            !is_pruned(job->options, block.number)) {
            blocks[n++] = block.number;
        }
    }
    qsort(blocks, (size_t)n, sizeof *blocks, by_number);
    int64_t n_unique = 0;
    for (int64_t i = 0; i < n; i++) {
        if (n_unique == 0 || blocks[n_unique - 1] != blocks[i]) {
            blocks[n_unique++] = blocks[i];
        }
    }
    return n_unique;
}

/* New numbers: blocks before the first pruned one keep theirs, later ones close the gaps. */
static int64_t renumber(const qn_quantize_options *options, const int64_t *blocks, int64_t n,
                        int64_t *out_numbers)
{
    int64_t first_pruned = INT64_MAX;
    for (int32_t i = 0; i < options->n_prune_layers; i++) {
        first_pruned = qni_min_i64(first_pruned, options->prune_layers[i]);
    }
    int64_t next = 0;
    for (int64_t i = 0; i < n; i++) {
        out_numbers[i] = blocks[i] < first_pruned ? blocks[i] : next;
        next = out_numbers[i] + 1;
    }
    return next;
}

static const char *rename_block(qni_quantize_job *job, const qn_tensor_info *source,
                                const block_in_name *block, int64_t number, int64_t *out_n_name)
{
    char digits[24];
    const int n_digits = snprintf(digits, sizeof digits, "%" PRId64, number);
    const size_t n_name = (size_t)source->n_name - block->n_digits + (size_t)n_digits;
    char *name = qni_arena_alloc(&job->arena, n_name + 1);
    if (name == NULL) {
        return NULL;
    }
    const size_t after = block->first_digit + block->n_digits;
    memcpy(name, source->name, block->first_digit);
    memcpy(name + block->first_digit, digits, (size_t)n_digits);
    memcpy(name + block->first_digit + (size_t)n_digits, source->name + after,
           (size_t)source->n_name - after);
    name[n_name] = '\0';
    *out_n_name = (int64_t)n_name;
    return name;
}

static qn_status prune(qni_quantize_job *job, qn_error *err)
{
    const size_t n_bytes = (size_t)job->model->n_tensors * sizeof(int64_t);
    int64_t *blocks = qni_arena_alloc(&job->arena, n_bytes);
    int64_t *numbers = qni_arena_alloc(&job->arena, n_bytes);
    if (blocks == NULL || numbers == NULL) {
        return qni_fail_memory(err, n_bytes);
    }
    const int64_t n_blocks = kept_blocks(job, blocks);
    job->n_blocks_left = renumber(job->options, blocks, n_blocks, numbers);
    int64_t n_kept = 0;
    for (int64_t i = 0; i < job->n_tensors; i++) {
        qni_outgoing tensor = job->tensors[i];
        block_in_name block;
        if (find_block(tensor.name, &block)) {
            if (is_pruned(job->options, block.number)) {
                continue;
            }
            const int64_t *at =
                bsearch(&block.number, blocks, (size_t)n_blocks, sizeof *blocks, by_number);
            const int64_t number = at != NULL ? numbers[at - blocks] : block.number;
            tensor.name = rename_block(job, tensor.source, &block, number, &tensor.n_name);
            if (tensor.name == NULL) {
                return qni_fail_memory(err, (size_t)tensor.n_name);
            }
        }
        job->tensors[n_kept++] = tensor;
    }
    job->n_tensors = n_kept;
    return QN_OK;
}

/* --- order ------------------------------------------------------------------------------------ */

static int in_output_order(const void *a, const void *b)
{
    return qni_policy_compare(((const qni_outgoing *)a)->name, ((const qni_outgoing *)b)->name);
}

static int in_shard_order(const void *a, const void *b)
{
    const qn_tensor_info *x = ((const qni_outgoing *)a)->source;
    const qn_tensor_info *y = ((const qni_outgoing *)b)->source;
    if (x->shard != y->shard) {
        return x->shard < y->shard ? -1 : 1;
    }
    if (x->file_offset != y->file_offset) {
        return x->file_offset < y->file_offset ? -1 : 1;
    }
    return (x > y) - (x < y); /* tensors without data share an offset */
}

static qn_status list_tensors(qni_quantize_job *job, qn_error *err)
{
    const int64_t n = job->model->n_tensors;
    job->tensors = qni_arena_alloc(&job->arena, (size_t)n * sizeof *job->tensors);
    if (job->tensors == NULL) {
        return qni_fail_memory(err, (size_t)n * sizeof *job->tensors);
    }
    for (int64_t i = 0; i < n; i++) {
        const qn_tensor_info *source = &job->model->tensors[i];
        job->tensors[i] = (qni_outgoing){source, source->name, source->n_name, 0};
    }
    job->n_tensors = n;
    if (job->options->n_prune_layers > 0) {
        QN_TRY(prune(job, err));
    }
    qsort(job->tensors, (size_t)job->n_tensors, sizeof *job->tensors,
          job->options->keep_split ? in_shard_order : in_output_order);
    return QN_OK;
}

/* --- facts ------------------------------------------------------------------------------------ */

static const qn_kv_override *find_override(const qn_quantize_options *options, const char *key,
                                           qn_override_kind kind)
{
    for (int32_t i = options->n_overrides - 1; i >= 0; i--) {
        if (options->overrides[i].kind == kind && strcmp(options->overrides[i].key, key) == 0) {
            return &options->overrides[i];
        }
    }
    return NULL;
}

/* An integer of the metadata, or the first element of an array of integers. */
static int64_t fact(const qni_quantize_job *job, const char *suffix, int64_t if_absent)
{
    char key[256];
    const int n = snprintf(key, sizeof key, "%s.%s", job->facts.architecture, suffix);
    if (n < 0 || (size_t)n >= sizeof key) {
        return if_absent;
    }
    const qn_kv_override *override = find_override(job->options, key, QN_OVERRIDE_INT);
    if (override != NULL) {
        return override->int_value;
    }
    int64_t value;
    qn_gguf_array array;
    qn_gguf_value element;
    if (qn_gguf_get_int(job->model->metadata, key, &value, NULL) == QN_OK) {
        return value;
    }
    if (qn_gguf_get_array(job->model->metadata, key, &array, NULL) == QN_OK && array.n_elems > 0 &&
        qn_gguf_array_at(&array, 0, &element, NULL) == QN_OK && element.kind == QN_GGUF_KIND_INT) {
        return element.as_int;
    }
    return if_absent;
}

static qn_status find_architecture(qni_quantize_job *job, qn_error *err)
{
    const qn_kv_override *override =
        find_override(job->options, "general.architecture", QN_OVERRIDE_STR);
    if (override != NULL) {
        job->facts.architecture = override->str_value;
        return QN_OK;
    }
    QN_CHECK(job->model->metadata != NULL, err, QN_ERR_INVALID_METADATA, -1,
             "a safetensors file has no GGUF metadata; take it from a GGUF of the same model with "
             "--metadata-from");
    qn_gguf_string text;
    const qn_status st =
        qn_gguf_get_string(job->model->metadata, "general.architecture", &text, NULL);
    QN_CHECK(st == QN_OK, err, QN_ERR_INVALID_METADATA, -1,
             "the model does not say its architecture; set general.architecture with an override");
    job->facts.architecture = qni_arena_copy(&job->arena, text.bytes, (size_t)text.n_bytes);
    return job->facts.architecture != NULL ? QN_OK : qni_fail_memory(err, (size_t)text.n_bytes);
}

static qn_status gather_facts(qni_quantize_job *job, qn_error *err)
{
    QN_TRY(find_architecture(job, err));
    qni_policy_model *facts = &job->facts;
    facts->n_blocks = fact(job, "block_count", 0);
    facts->n_experts = fact(job, "expert_count", 0);
    facts->n_heads = fact(job, "attention.head_count", 0);
    facts->n_heads_kv = fact(job, "attention.head_count_kv", facts->n_heads);
    return QN_OK;
}

qn_status qni_quantize_gather(qni_quantize_job *job, qn_error *err)
{
    QN_TRY(gather_facts(job, err));
    return list_tensors(job, err);
}
