/* quantize.c — qn_plan_quantize(): llama-quantize as a plan. */
#include "codec/codec.h"
#include "model/imatrix_internal.h"
#include "model/quantize_internal.h"
#include "model/recipe_internal.h"
#include "model/shards_internal.h"

/* --- types ------------------------------------------------------------------------------------ */

/* Trailing dimensions of 1 do not count, and are not written. */
static int32_t dims_of(const qn_tensor_info *tensor)
{
    int32_t n_dims = tensor->n_dims;
    while (n_dims > 1 && tensor->ne[n_dims - 1] == 1) {
        n_dims--;
    }
    return n_dims > 0 ? n_dims : 1;
}

static qn_status choose_types(qni_quantize_job *job, qn_error *err)
{
    const size_t n = (size_t)job->n_tensors;
    qni_policy_tensor *tensors = qni_arena_alloc(&job->arena, n * sizeof *tensors);
    job->choices = qni_arena_alloc(&job->arena, n * sizeof *job->choices);
    if (tensors == NULL || job->choices == NULL) {
        return qni_fail_memory(err, n * sizeof *tensors);
    }
    for (size_t i = 0; i < n; i++) {
        const qn_tensor_info *source = job->tensors[i].source;
        tensors[i] = (qni_policy_tensor){
            .name = job->tensors[i].name, .source = source->dtype, .n_dims = dims_of(source)};
        for (int d = 0; d < 4; d++) {
            tensors[i].ne[d] = source->n_dims > d ? source->ne[d] : 1;
        }
    }
    return qni_policy_choose(job->options, &job->facts, tensors, job->n_tensors, job->choices, err);
}

static void log_line(const qn_quantize_options *options, const qni_outgoing *tensor,
                     const char *message)
{
    if (options->log != NULL) {
        char line[512];
        qni_name_text text;
        (void)snprintf(line, sizeof line, "tensor %s: %s",
                       qni_escape_name(tensor->name, tensor->n_name, &text), message);
        options->log(options->log_ctx, QN_LOG_WARNING, line);
    }
}

/* One line for all of them: a model can have hundreds. */
static void warn_of_fallbacks(const qni_quantize_job *job)
{
    int64_t n_fallbacks = 0;
    int64_t first = -1;
    for (int64_t i = 0; i < job->n_tensors; i++) {
        n_fallbacks += job->choices[i].is_fallback;
        first = first < 0 && job->choices[i].is_fallback ? i : first;
    }
    if (n_fallbacks == 0) {
        return;
    }
    const qni_policy_choice *choice = &job->choices[first];
    char line[256];
    (void)snprintf(line, sizeof line,
                   "rows of %" PRId64 " elements are no multiple of the %" PRId64
                   " in a block of %s: %s instead (so %" PRId64 " of %" PRId64
                   " tensors have a substitute type)",
                   job->tensors[first].source->ne[0], qn_dtype_block_elems(choice->wanted),
                   qn_dtype_name(choice->wanted), qn_dtype_name(choice->dtype), n_fallbacks,
                   job->n_tensors);
    log_line(job->options, &job->tensors[first], line);
}

/* --- checks that upstream makes only when a tensor's turn comes ------------------------------- */

static qn_status check_source(const qn_quantize_options *options, const qni_outgoing *tensor,
                              qn_error *err)
{
    const qn_dtype dtype = tensor->source->dtype;
    switch (dtype) {
    case QN_DTYPE_F32:
    case QN_DTYPE_F16:
    case QN_DTYPE_BF16:
        return QN_OK;
    case QN_DTYPE_I8:
    case QN_DTYPE_I16:
    case QN_DTYPE_I32:
    case QN_DTYPE_I64:
    case QN_DTYPE_F64:
    case QN_DTYPE_Q8_K:
        return qni_fail(err, QN_ERR_DECODER_UNAVAILABLE, -1,
                        "type %s cannot be converted; keep the tensor as it is (COPY) or store it "
                        "as f32 first",
                        qn_dtype_name(dtype));
    default:
        break;
    }
    if (options->allow_requantize) {
        return QN_OK;
    }
    QN_CHECK(options->is_dry_run, err, QN_ERR_REQUANTIZE_REFUSED, -1,
             "it is %s already, and quantizing again loses quality; start from the f16 or f32 "
             "model, or allow it with --allow-requantize",
             qn_dtype_name(dtype));
    return QN_OK; /* the dry run shows source and target of each tensor */
}

static qn_status check_target(const qni_outgoing *tensor, qn_dtype dtype, qn_error *err)
{
    const qn_tensor_info *source = tensor->source;
    QN_CHECK(qn_has_encoder(dtype) && dtype != QN_DTYPE_Q8_1 && dtype != QN_DTYPE_Q8_K, err,
             QN_ERR_ENCODER_UNAVAILABLE, -1, "type %s cannot be written to a model; choose another",
             qn_dtype_name(dtype));
    QN_CHECK(dims_of(source) <= 3, err, QN_ERR_INVALID_SHAPE, -1,
             "it has %d dimensions, and only tensors of up to 3 are converted; keep it with a "
             "pattern",
             (int)dims_of(source));
    int64_t n_bytes;
    return qn_dtype_row_bytes(dtype, source->ne[0], &n_bytes, err);
}

static qn_status check_weights(const qni_quantize_job *job, const qni_policy_choice *choice,
                               const float *weights, bool *out_lacks, qn_error *err)
{
    const bool is_needed =
        choice->needs_weights || qn_dtype_weights_use(choice->dtype) == QN_WEIGHTS_REQUIRED;
    *out_lacks = is_needed && weights == NULL;
    QN_CHECK(!*out_lacks || job->options->is_dry_run, err, QN_ERR_MISSING_WEIGHTS, -1,
             "%s needs importance weights, and %s; %s", qn_dtype_name(choice->dtype),
             job->options->imatrix == NULL ? "no importance matrix was given"
                                           : "the importance matrix has no entry for it",
             job->options->imatrix == NULL
                 ? "give one with --imatrix or choose a larger type"
                 : "make a complete matrix or choose a larger type for it");
    return QN_OK;
}

/* --- items ------------------------------------------------------------------------------------ */

static qn_status fill_conversion(const qni_quantize_job *job, const qni_outgoing *tensor,
                                 const qni_policy_choice *choice, qni_item *item, qn_error *err)
{
    QN_TRY(check_source(job->options, tensor, err));
    QN_TRY(check_target(tensor, choice->dtype, err));
    const float *weights;
    int64_t n_weights;
    QN_TRY(qni_imatrix_weights(job->options->imatrix, tensor->source, &weights, &n_weights, err));
    QN_TRY(check_weights(job, choice, weights, &item->lacks_weights, err));
    item->weights = weights; /* for a report even where the encoder has no use for them */
    item->n_weights = n_weights;
    return QN_OK;
}

static qn_status add_item(const qni_quantize_job *job, int64_t index, qn_plan *plan, qn_error *err)
{
    const qni_outgoing *tensor = &job->tensors[index];
    const qni_policy_choice *choice = &job->choices[index];
    const bool is_copy =
        choice->dtype == tensor->source->dtype && !qni_tensor_is_edited(job->model, tensor->source);
    qni_item *item;
    QN_TRY(qni_plan_add_item(plan, is_copy ? &qni_recipe_copy : &qni_recipe_convert, job->model,
                             tensor->source, 1, &item, err));
    item->rule = choice->rule;
    item->wanted = choice->wanted;
    item->is_fallback = choice->is_fallback;
    item->may_convert = choice->may_convert;
    if (is_copy) {
        QN_CHECK(choice->dtype != QN_DTYPE_Q8_1, err, QN_ERR_UNSUPPORTED_DTYPE, -1,
                 "q8_1 is an activation format and does not belong in a file");
        return QN_OK;
    }
    return fill_conversion(job, tensor, choice, item, err);
}

/* --- files ------------------------------------------------------------------------------------ */

static int64_t data_alignment(const qni_quantize_job *job)
{
    return job->model->metadata != NULL ? qn_gguf_alignment(job->model->metadata) : 32;
}

/* Name the tensor of a failure. */
static qn_status blame(const qni_quantize_job *job, int64_t index, qn_status st, qn_error *err)
{
    qni_plan_input input = {job->model, job->tensors[index].source};
    const qni_item item = {.inputs = &input, .n_inputs = 1};
    return qni_item_blame(&item, st, err);
}

static qn_status padded_bytes(const qni_quantize_job *job, int64_t index, int64_t *out_n_bytes,
                              qn_error *err)
{
    const qn_tensor_info *source = job->tensors[index].source;
    const qn_status st = qn_dtype_tensor_bytes(job->choices[index].dtype, source->ne,
                                               source->n_dims, out_n_bytes, err);
    if (st != QN_OK) {
        return blame(job, index, st, err);
    }
    QN_CHECK(qni_align_up_i64(*out_n_bytes, data_alignment(job), out_n_bytes), err, QN_ERR_OVERFLOW,
             -1, "the tensor is too large");
    return QN_OK;
}

/* Divide the tensors among output files by size and number. */
static qn_status divide(qni_quantize_job *job, qn_error *err)
{
    qni_shard_cutter cutter = {.max_bytes = job->options->split_max_bytes,
                               .max_tensors = job->options->split_max_tensors};
    for (int64_t i = 0; i < job->n_tensors; i++) {
        int64_t n_bytes;
        QN_TRY(padded_bytes(job, i, &n_bytes, err));
        QN_TRY(qni_shard_next(&cutter, n_bytes, 1, &job->tensors[i].file, err));
    }
    job->n_files = cutter.file + 1;
    return QN_OK;
}

static qn_status assign_files(qni_quantize_job *job, qn_error *err)
{
    const qn_quantize_options *o = job->options;
    if (!o->keep_split) {
        return divide(job, err);
    }
    QN_CHECK(o->split_max_bytes == 0 && o->split_max_tensors == 0, err, QN_ERR_INVALID_ARGUMENT, -1,
             "keeping the input's shards and making new ones exclude each other");
    job->n_files = 1;
    for (int64_t i = 0; i < job->n_tensors; i++) {
        job->tensors[i].file = job->tensors[i].source->shard;
        job->n_files = (int32_t)qni_max_i64(job->n_files, job->tensors[i].file + 1);
    }
    return QN_OK;
}

static qn_status lay_out(const void *ctx, int32_t file, qn_gguf_writer *writer, qn_error *err)
{
    const qni_quantize_job *job = ctx;
    QN_TRY(qni_quantize_metadata(job, file, writer, err));
    for (int64_t i = 0; i < job->n_tensors; i++) {
        const qni_outgoing *tensor = &job->tensors[i];
        if (tensor->file == file) {
            QN_TRY(qn_gguf_writer_declare(writer, tensor->name, tensor->n_name,
                                          job->choices[i].dtype, tensor->source->ne,
                                          dims_of(tensor->source), err));
        }
    }
    return QN_OK;
}

/* --- the plan --------------------------------------------------------------------------------- */

static qn_status fill_plan(qni_quantize_job *job, qn_plan *plan, qn_error *err)
{
    const qn_quantize_options *o = job->options;
    const bool is_sharded = o->keep_split || job->n_files > 1;
    warn_of_fallbacks(job);
    plan->naming = is_sharded ? QNI_NAMING_SHARDS : QNI_NAMING_SINGLE;
    QN_TRY(qni_plan_lay_out(plan, job->n_files, lay_out, job, err));
    for (int64_t i = 0; i < job->n_tensors; i++) {
        const qn_status st = add_item(job, i, plan, err);
        if (st != QN_OK) {
            return blame(job, i, st, err);
        }
    }
    return QN_OK;
}

static qn_status make_plan(qni_quantize_job *job, qn_plan **out_plan, qn_error *err)
{
    QN_TRY(qni_quantize_gather(job, err));
    QN_TRY(choose_types(job, err));
    QN_TRY(assign_files(job, err));
    QN_TRY(qni_plan_new(job->model, job->options->allocator, job->n_tensors, job->n_tensors,
                        job->n_files, out_plan, err));
    const qn_status st = fill_plan(job, *out_plan, err);
    if (st != QN_OK) {
        qn_plan_free(*out_plan);
        *out_plan = NULL;
    }
    return st;
}

static qn_status read_options(const qn_quantize_options *options, qn_quantize_options *out,
                              qn_error *err)
{
    *out = (qn_quantize_options)QN_QUANTIZE_OPTIONS_INIT;
    QN_CHECK(options != NULL && options->struct_size > 0 && options->struct_size <= sizeof *out,
             err, QN_ERR_INVALID_ARGUMENT, -1, "start the options from QN_QUANTIZE_OPTIONS_INIT");
    memcpy(out, options, options->struct_size);
    QN_CHECK(out->n_tensor_types >= 0 && out->n_recipe >= 0 && out->n_overrides >= 0 &&
                 out->n_prune_layers >= 0 && out->split_max_bytes >= 0 &&
                 out->split_max_tensors >= 0,
             err, QN_ERR_INVALID_ARGUMENT, -1, "a count or limit in the options is negative");
    for (int32_t i = 0; i < out->n_prune_layers; i++) {
        QN_CHECK(out->prune_layers[i] >= 0, err, QN_ERR_INVALID_ARGUMENT, -1,
                 "there is no block %d to prune", (int)out->prune_layers[i]);
    }
    return QN_OK;
}

qn_status qn_plan_quantize(const qn_model *model, const qn_quantize_options *options,
                           qn_plan **out_plan, qn_error *err)
{
    *out_plan = NULL;
    qn_quantize_options checked;
    QN_TRY(read_options(options, &checked, err));
    qni_quantize_job job = {.model = model, .options = &checked};
    job.arena.allocator = checked.allocator;
    const qn_status st = make_plan(&job, out_plan, err);
    qni_arena_free(&job.arena);
    return st;
}
