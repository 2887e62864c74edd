/* quantize_metadata.c — the keys of a quantized model, in llama-quantize's order: the input's
 * without bookkeeping, then the bookkeeping, overrides, the matrix, pruning, the split keys. */
#include "model/imatrix_internal.h"
#include "model/quantize_internal.h"
#include "model/shards_internal.h"

/* llama-quantize keeps strings of overrides in 128 bytes; what it cuts there, the name of the
 * matrix and of its data set, is cut here for the same bytes. */
#define UPSTREAM_STRING_BYTES 127

static const char *const replaced_keys[] = {
    "split.no",          "split.count", "split.tensors.count", "general.quantization_version",
    "general.file_type",
};

/* --- the file type ---------------------------------------------------------------------------- */

/* Which preset stands for a file whose tensors are mostly of this type. */
static const struct {
    qn_dtype dtype;
    const char *preset; /* NULL: the number 39, which has no preset */
} guesses[] = {
    {QN_DTYPE_F32, "F32"},         {QN_DTYPE_F16, "F16"},       {QN_DTYPE_BF16, "BF16"},
    {QN_DTYPE_Q4_0, "Q4_0"},       {QN_DTYPE_Q4_1, "Q4_1"},     {QN_DTYPE_Q5_0, "Q5_0"},
    {QN_DTYPE_Q5_1, "Q5_1"},       {QN_DTYPE_Q8_0, "Q8_0"},     {QN_DTYPE_Q2_K, "Q2_K"},
    {QN_DTYPE_Q3_K, "Q3_K_M"},     {QN_DTYPE_Q4_K, "Q4_K_M"},   {QN_DTYPE_Q5_K, "Q5_K_M"},
    {QN_DTYPE_Q6_K, "Q6_K"},       {QN_DTYPE_TQ1_0, "TQ1_0"},   {QN_DTYPE_TQ2_0, "TQ2_0"},
    {QN_DTYPE_IQ2_XXS, "IQ2_XXS"}, {QN_DTYPE_IQ2_XS, "IQ2_XS"}, {QN_DTYPE_IQ2_S, "IQ2_S"},
    {QN_DTYPE_IQ3_XXS, "IQ3_XXS"}, {QN_DTYPE_IQ1_S, "IQ1_S"},   {QN_DTYPE_IQ1_M, "IQ1_M"},
    {QN_DTYPE_IQ4_NL, "IQ4_NL"},   {QN_DTYPE_IQ4_XS, "IQ4_XS"}, {QN_DTYPE_IQ3_S, "IQ3_S"},
    {QN_DTYPE_NVFP4, NULL},        {QN_DTYPE_Q1_0, "Q1_0"},     {QN_DTYPE_Q2_0, "Q2_0"},
};

#define FILE_TYPE_NVFP4   39
#define FILE_TYPE_GUESSED 1024

static uint32_t file_type_of(qn_dtype dtype)
{
    for (size_t i = 0; i < sizeof guesses / sizeof guesses[0]; i++) {
        const qn_preset *preset;
        if (guesses[i].dtype != dtype) {
            continue;
        }
        if (guesses[i].preset == NULL) {
            return FILE_TYPE_NVFP4;
        }
        return qn_preset_from_name(guesses[i].preset, &preset, NULL) == QN_OK ? (uint32_t)preset->id
                                                                              : 0;
    }
    return 0;
}

/* The type that most tensors have; the first to reach the maximum. */
static uint32_t guess_file_type(const qni_quantize_job *job)
{
    int64_t n_of[QN_DTYPE_LIMIT] = {0};
    int64_t most = 0;
    qn_dtype dtype = QN_DTYPE_F32;
    for (int64_t i = 0; i < job->n_tensors; i++) {
        const qn_dtype one = job->tensors[i].source->dtype;
        if (++n_of[one] > most) {
            most = n_of[one];
            dtype = one;
        }
    }
    return file_type_of(dtype) | FILE_TYPE_GUESSED;
}

static uint32_t file_type(const qni_quantize_job *job)
{
    int64_t own;
    if (job->options->preset != QN_PRESET_COPY) {
        return (uint32_t)job->options->preset;
    }
    if (job->model->metadata != NULL &&
        qn_gguf_get_int(job->model->metadata, "general.file_type", &own, NULL) == QN_OK &&
        own >= 0 && own <= UINT32_MAX) {
        return (uint32_t)own;
    }
    return guess_file_type(job);
}

/* --- setting ---------------------------------------------------------------------------------- */

static qn_status set_u32(qn_gguf_writer *writer, const char *key, int64_t value, qn_error *err)
{
    QN_TRY(qni_make_last(writer, key, err));
    return qn_gguf_writer_set_u32(writer, key, (uint32_t)value, err);
}

static qn_status set_text(qn_gguf_writer *writer, const char *key, const char *text, size_t n_max,
                          qn_error *err)
{
    size_t n_text = strlen(text);
    n_text = n_text > n_max ? n_max : n_text;
    QN_TRY(qni_make_last(writer, key, err));
    return qn_gguf_writer_set_string(writer, key, text, (int64_t)n_text, err);
}

static qn_status set_override(qn_gguf_writer *writer, const qn_kv_override *override, qn_error *err)
{
    QN_TRY(qni_make_last(writer, override->key, err));
    qni_name_text text;
    switch (override->kind) {
    case QN_OVERRIDE_INT:
        QN_CHECK(override->int_value >= 0 && override->int_value <= UINT32_MAX, err,
                 QN_ERR_INVALID_METADATA, -1,
                 "the override %s=int:%" PRId64 " does not fit: integers are written as u32",
                 qni_escape_name(override->key, (int64_t)strlen(override->key), &text),
                 override->int_value);
        return qn_gguf_writer_set_u32(writer, override->key, (uint32_t) override->int_value, err);
    case QN_OVERRIDE_FLOAT:
        return qn_gguf_writer_set_f32(writer, override->key, (float) override->float_value, err);
    case QN_OVERRIDE_BOOL:
        return qn_gguf_writer_set_bool(writer, override->key, override->bool_value, err);
    case QN_OVERRIDE_STR:
    default:
        return set_text(writer, override->key, override->str_value, SIZE_MAX, err);
    }
}

static qn_status set_matrix_keys(const qn_quantize_options *options, qn_gguf_writer *writer,
                                 qn_error *err)
{
    const qn_imatrix *imatrix = options->imatrix;
    if (imatrix == NULL || options->imatrix_path == NULL) {
        return QN_OK;
    }
    QN_TRY(set_text(writer, "quantize.imatrix.file", options->imatrix_path, UPSTREAM_STRING_BYTES,
                    err));
    if (qn_imatrix_dataset(imatrix) != NULL) {
        QN_TRY(set_text(writer, "quantize.imatrix.dataset", qn_imatrix_dataset(imatrix),
                        UPSTREAM_STRING_BYTES, err));
    }
    QN_TRY(set_u32(writer, "quantize.imatrix.entries_count", qn_imatrix_n_entries(imatrix), err));
    if (qn_imatrix_n_chunks(imatrix) > 0) {
        QN_TRY(set_u32(writer, "quantize.imatrix.chunks_count", qn_imatrix_n_chunks(imatrix), err));
    }
    return QN_OK;
}

static qn_status set_block_count(const qni_quantize_job *job, qn_gguf_writer *writer, qn_error *err)
{
    char key[256];
    const int n = snprintf(key, sizeof key, "%s.block_count", job->facts.architecture);
    QN_CHECK(n > 0 && (size_t)n < sizeof key, err, QN_ERR_INVALID_METADATA, -1,
             "the name of the architecture is too long: %d bytes", n);
    return set_u32(writer, key, job->n_blocks_left, err);
}

static qn_status set_all_keys(const qni_quantize_job *job, qn_gguf_writer *writer, qn_error *err)
{
    const qn_quantize_options *options = job->options;
    if (job->model->metadata != NULL) {
        QN_TRY(qn_gguf_writer_copy_all(writer, job->model->metadata, replaced_keys,
                                       (int64_t)(sizeof replaced_keys / sizeof replaced_keys[0]),
                                       err));
    }
    QN_TRY(set_u32(writer, "general.quantization_version", 2, err));
    QN_TRY(set_u32(writer, "general.file_type", file_type(job), err));
    for (int32_t i = 0; i < options->n_overrides; i++) {
        QN_TRY(set_override(writer, &options->overrides[i], err));
    }
    QN_TRY(set_matrix_keys(options, writer, err));
    return options->n_prune_layers > 0 ? set_block_count(job, writer, err) : QN_OK;
}

qn_status qni_quantize_metadata(const qni_quantize_job *job, int32_t file, qn_gguf_writer *writer,
                                qn_error *err)
{
    if (file == 0) {
        QN_TRY(set_all_keys(job, writer, err));
    }
    return job->n_files > 1 ? qni_set_split_keys(writer, file, job->n_files, job->n_tensors, err)
                            : QN_OK;
}
