/* export.c — qn_plan_export(): a transcode or ternary planes as a plan. */
#include "codec/codec.h"
#include "model/export_internal.h"
#include "model/imatrix_internal.h"
#include "model/recipe_internal.h"
#include "model/shards_internal.h"

#define VERSION_KEY "fucina.ptqtp.version"
#define TIED_KEY    "fucina.ptqtp.tie_scales"

/* ".ptqtp0" and the like after a tensor's name. */
enum { N_PLANE_SUFFIX = 7 };

typedef struct export_job {
    const qn_model *model;
    const qn_export_options *options;
    qni_export_choice *choices; /* one for each tensor of the model */
    int32_t *files;             /* where each goes */
    int32_t n_files;
    int64_t n_outputs; /* tensors */
    qni_arena arena;
} export_job;

static int32_t outputs_of(const export_job *job, int64_t index)
{
    return job->choices[index].action == QNI_EXPORT_PLANES ? job->options->n_planes : 1;
}

static qn_status blame(const export_job *job, int64_t index, qn_status st, qn_error *err)
{
    qni_plan_input input = {job->model, &job->model->tensors[index]};
    const qni_item item = {.inputs = &input, .n_inputs = 1};
    return qni_item_blame(&item, st, err);
}

/* --- choices ---------------------------------------------------------------------------------- */

static qn_status refuse(const export_job *job, int64_t index, qn_error *err)
{
    const qn_dtype dtype = job->model->tensors[index].dtype;
    const qn_status st = qni_fail(
        err, QN_ERR_REQUANTIZE_REFUSED, -1,
        "it is %s, and only f32, f16 and bf16 weights are transcoded; %s", qn_dtype_name(dtype),
        qn_dtype_is_quantized(dtype)
            ? "start from the float model, or use quench quantize with --allow-requantize"
            : "export without a type keeps it");
    (void)blame(job, index, st, err);
    return st;
}

static qn_status choose(export_job *job, qn_error *err)
{
    const int64_t n = job->model->n_tensors;
    job->choices = qni_arena_alloc(&job->arena, (size_t)n * sizeof *job->choices);
    job->files = qni_arena_alloc(&job->arena, (size_t)n * sizeof *job->files);
    if (job->choices == NULL || job->files == NULL) {
        return qni_fail_memory(err, (size_t)n * sizeof *job->choices);
    }
    for (int64_t i = 0; i < n; i++) {
        job->choices[i] = qni_export_choose(job->options, &job->model->tensors[i]);
        if (qni_tensor_is_edited(job->model, &job->model->tensors[i]) &&
            job->choices[i].action == QNI_EXPORT_KEEP) {
            job->choices[i].action = QNI_EXPORT_CONVERT; /* what is merged is no copy */
            job->choices[i].rule = "adapter";
        }
        if (job->choices[i].action == QNI_EXPORT_REFUSE) {
            return refuse(job, i, err);
        }
        job->n_outputs += outputs_of(job, i);
    }
    return QN_OK;
}

static qn_status assign_files(export_job *job, qn_error *err)
{
    const qn_export_options *o = job->options;
    qni_shard_cutter cutter = {.max_bytes = o->split_max_bytes,
                               .max_tensors = o->split_max_tensors};
    const int64_t alignment = qn_gguf_alignment(job->model->metadata);
    job->n_files = 1;
    for (int64_t i = 0; i < job->model->n_tensors; i++) {
        const qn_tensor_info *source = &job->model->tensors[i];
        int64_t n_bytes;
        if (o->keep_split) {
            job->files[i] = source->shard;
        } else {
            QN_TRY(qn_dtype_tensor_bytes(job->choices[i].dtype, source->ne, source->n_dims,
                                         &n_bytes, err));
            QN_CHECK(qni_align_up_i64(n_bytes, alignment, &n_bytes) &&
                         qni_mul_i64(n_bytes, outputs_of(job, i), &n_bytes),
                     err, QN_ERR_OVERFLOW, -1, "the output is too large");
            QN_TRY(qni_shard_next(&cutter, n_bytes, outputs_of(job, i), &job->files[i], err));
        }
        job->n_files = (int32_t)qni_max_i64(job->n_files, job->files[i] + 1);
    }
    return QN_OK;
}

/* --- metadata --------------------------------------------------------------------------------- */

static bool any_choice(const export_job *job, qni_export_action action, bool only_quantized)
{
    for (int64_t i = 0; i < job->model->n_tensors; i++) {
        const bool is_new = job->choices[i].dtype != job->model->tensors[i].dtype;
        if (job->choices[i].action == action &&
            (!only_quantized || (is_new && qn_dtype_is_quantized(job->choices[i].dtype)))) {
            return true;
        }
    }
    return false;
}

static bool has_planes_already(const export_job *job)
{
    for (int64_t i = 0; i < job->model->n_tensors; i++) {
        const qn_tensor_info *tensor = &job->model->tensors[i];
        if (tensor->n_name > N_PLANE_SUFFIX &&
            memcmp(tensor->name + tensor->n_name - N_PLANE_SUFFIX, ".ptqtp", 6) == 0) {
            return true;
        }
    }
    return false;
}

/* The tie stamp speaks for all planes of the file: it stays only while every set of them is tied.
 */
static qn_status stamp_planes(const export_job *job, qn_gguf_writer *writer, qn_error *err)
{
    if (!any_choice(job, QNI_EXPORT_PLANES, false)) {
        return QN_OK;
    }
    QN_TRY(qn_gguf_writer_set_u32(writer, VERSION_KEY, 1, err));
    const bool was_tied = qn_gguf_writer_has(writer, TIED_KEY);
    if (job->options->is_tied && (was_tied || !has_planes_already(job))) {
        return qn_gguf_writer_set_u32(writer, TIED_KEY, 1, err);
    }
    return was_tied ? qn_gguf_writer_remove(writer, TIED_KEY, err) : QN_OK;
}

static qn_status set_metadata(const export_job *job, qn_gguf_writer *writer, qn_error *err)
{
    static const char *const split_keys[] = {"split.no", "split.count", "split.tensors.count"};
    QN_TRY(qn_gguf_writer_copy_all(writer, job->model->metadata, split_keys, 3, err));
    const int32_t file_type = qni_uniform_file_type(job->options->dtype);
    if (file_type >= 0 && job->options->n_planes == 0) {
        QN_TRY(qn_gguf_writer_set_u32(writer, "general.file_type", (uint32_t)file_type, err));
    }
    if (any_choice(job, QNI_EXPORT_CONVERT, true) || any_choice(job, QNI_EXPORT_PLANES, true)) {
        QN_TRY(qn_gguf_writer_set_u32(writer, "general.quantization_version", 2, err));
    }
    return stamp_planes(job, writer, err);
}

/* --- files and items -------------------------------------------------------------------------- */

static qn_status declare_planes(const export_job *job, const qn_tensor_info *source,
                                qn_gguf_writer *writer, qn_error *err)
{
    const size_t n_name = (size_t)source->n_name + N_PLANE_SUFFIX;
    char *name = qni_alloc(job->options->allocator, n_name + 1);
    if (name == NULL) {
        return qni_fail_memory(err, n_name + 1);
    }
    qn_status st = QN_OK;
    memcpy(name, source->name, (size_t)source->n_name);
    memcpy(name + source->n_name, ".ptqtp0", N_PLANE_SUFFIX + 1);
    for (int32_t p = 0; p < job->options->n_planes && st == QN_OK; p++) {
        name[n_name - 1] = (char)('0' + p);
        st = qn_gguf_writer_declare(writer, name, (int64_t)n_name, QN_DTYPE_TQ2_0, source->ne,
                                    source->n_dims, err);
    }
    qni_free(job->options->allocator, name, n_name + 1);
    return st;
}

static qn_status declare(const export_job *job, int64_t index, qn_gguf_writer *writer,
                         qn_error *err)
{
    const qn_tensor_info *source = &job->model->tensors[index];
    const qni_export_choice *choice = &job->choices[index];
    const qn_status st =
        choice->action == QNI_EXPORT_PLANES
            ? declare_planes(job, source, writer, err)
            : qn_gguf_writer_declare(writer, source->name, source->n_name, choice->dtype,
                                     source->ne, source->n_dims, err);
    return st == QN_OK ? QN_OK : blame(job, index, st, err);
}

static qn_status lay_out(const void *ctx, int32_t file, qn_gguf_writer *writer, qn_error *err)
{
    const export_job *job = ctx;
    if (file == 0) {
        QN_TRY(set_metadata(job, writer, err));
    }
    if (job->n_files > 1) {
        QN_TRY(qni_set_split_keys(writer, file, job->n_files, job->n_outputs, err));
    }
    for (int64_t i = 0; i < job->model->n_tensors; i++) {
        if (job->files[i] == file) {
            QN_TRY(declare(job, i, writer, err));
        }
    }
    return QN_OK;
}

static qn_status fill_weights(const export_job *job, const qn_tensor_info *source, qni_item *item,
                              qn_dtype dtype, qn_error *err)
{
    const qn_weights_use use = qn_dtype_weights_use(dtype);
    if (use != QN_WEIGHTS_OPTIONAL && use != QN_WEIGHTS_REQUIRED) {
        return QN_OK;
    }
    QN_TRY(
        qni_imatrix_weights(job->options->imatrix, source, &item->weights, &item->n_weights, err));
    QN_CHECK(
        item->weights != NULL || use != QN_WEIGHTS_REQUIRED, err, QN_ERR_MISSING_WEIGHTS, -1,
        "%s needs importance weights; give a complete matrix with --imatrix or choose a larger "
        "type",
        qn_dtype_name(dtype));
    return QN_OK;
}

static qn_status add_item(const export_job *job, int64_t index, qn_plan *plan, qn_error *err)
{
    static const qni_recipe *const recipes[] = {
        [QNI_EXPORT_KEEP] = &qni_recipe_copy,
        [QNI_EXPORT_CONVERT] = &qni_recipe_convert,
        [QNI_EXPORT_PLANES] = &qni_recipe_planes,
    };
    const qn_tensor_info *source = &job->model->tensors[index];
    const qni_export_choice *choice = &job->choices[index];
    qni_item *item;
    QN_TRY(qni_plan_add_item(plan, recipes[choice->action], job->model, source,
                             outputs_of(job, index), &item, err));
    item->rule = choice->rule;
    item->wanted = choice->dtype;
    item->is_tied = job->options->is_tied;
    return choice->action == QNI_EXPORT_CONVERT
               ? fill_weights(job, source, item, choice->dtype, err)
               : QN_OK;
}

/* Items follow the outputs: file by file, in each the order of the input. */
static qn_status fill_plan(const export_job *job, qn_plan *plan, qn_error *err)
{
    plan->naming =
        job->options->keep_split || job->n_files > 1 ? QNI_NAMING_SHARDS : QNI_NAMING_SINGLE;
    QN_TRY(qni_plan_lay_out(plan, job->n_files, lay_out, job, err));
    for (int64_t i = 0; i < job->model->n_tensors; i++) {
        const qn_status st = add_item(job, i, plan, err);
        if (st != QN_OK) {
            return blame(job, i, st, err);
        }
    }
    return QN_OK;
}

static qn_status make_plan(export_job *job, qn_plan **out_plan, qn_error *err)
{
    QN_TRY(choose(job, err));
    QN_TRY(assign_files(job, err));
    QN_TRY(qni_plan_new(job->model, job->options->allocator, job->model->n_tensors, job->n_outputs,
                        job->n_files, out_plan, err));
    const qn_status st = fill_plan(job, *out_plan, err);
    if (st != QN_OK) {
        qn_plan_free(*out_plan);
        *out_plan = NULL;
    }
    return st;
}

/* --- options ---------------------------------------------------------------------------------- */

static qn_status check_target(qn_dtype dtype, qn_error *err)
{
    QN_CHECK(dtype == QN_DTYPE_NONE ||
                 (qn_has_encoder(dtype) && dtype != QN_DTYPE_Q8_1 && dtype != QN_DTYPE_Q8_K),
             err, QN_ERR_ENCODER_UNAVAILABLE, -1,
             "type %s cannot be written to a model; choose another", qn_dtype_name(dtype));
    return QN_OK;
}

static qn_status check_planes(const qn_export_options *o, qn_error *err)
{
    QN_CHECK(o->n_planes >= 0 && o->n_planes <= QN_MAX_PLANES, err, QN_ERR_INVALID_PLANE_COUNT, -1,
             "%d planes; 1 to %d are possible", (int)o->n_planes, QN_MAX_PLANES);
    QN_CHECK(!o->is_tied || o->n_planes >= 2, err, QN_ERR_INVALID_PLANE_COUNT, -1,
             "tied scales need two or three planes, not %d", (int)o->n_planes);
    QN_CHECK(o->n_planes == 0 || (o->dtype == QN_DTYPE_NONE && o->experts_dtype == QN_DTYPE_NONE),
             err, QN_ERR_INVALID_ARGUMENT, -1,
             "planes and a target type exclude each other; export twice");
    QN_CHECK(o->n_planes > 0 || (o->n_include == 0 && o->n_exclude == 0), err,
             QN_ERR_INVALID_ARGUMENT, -1, "filters of names are for planes only");
    return QN_OK;
}

static qn_status read_options(const qn_export_options *options, qn_export_options *out,
                              qn_error *err)
{
    *out = (qn_export_options)QN_EXPORT_OPTIONS_INIT;
    QN_CHECK(options != NULL && options->struct_size > 0 && options->struct_size <= sizeof *out,
             err, QN_ERR_INVALID_ARGUMENT, -1, "start the options from QN_EXPORT_OPTIONS_INIT");
    memcpy(out, options, options->struct_size);
    QN_CHECK(out->n_include >= 0 && out->n_exclude >= 0 && out->split_max_bytes >= 0 &&
                 out->split_max_tensors >= 0,
             err, QN_ERR_INVALID_ARGUMENT, -1, "a count or limit in the options is negative");
    QN_CHECK(!out->keep_split || (out->split_max_bytes == 0 && out->split_max_tensors == 0), err,
             QN_ERR_INVALID_ARGUMENT, -1,
             "keeping the input's shards and making new ones exclude each other");
    QN_TRY(check_target(out->dtype, err));
    QN_TRY(check_target(out->experts_dtype, err));
    return check_planes(out, err);
}

qn_status qn_plan_export(const qn_model *model, const qn_export_options *options,
                         qn_plan **out_plan, qn_error *err)
{
    *out_plan = NULL;
    qn_export_options checked;
    QN_TRY(read_options(options, &checked, err));
    QN_CHECK(model->edits == NULL || checked.n_planes == 0, err, QN_ERR_INVALID_ARGUMENT, -1,
             "planes and adapters exclude each other; merge first, then make planes");
    QN_CHECK(model->metadata != NULL && model->container == QN_CONTAINER_GGUF, err,
             QN_ERR_INVALID_ARGUMENT, -1,
             "only GGUF models are exported; use quench quantize with --metadata-from");
    export_job job = {.model = model, .options = &checked};
    job.arena.allocator = checked.allocator;
    const qn_status st = make_plan(&job, out_plan, err);
    qni_arena_free(&job.arena);
    return st;
}
