/* export_policy.c — which tensors an export touches. Conservative on purpose: what is not surely a
 * weight matrix keeps its bytes. The rows of both policies stand in their order; the first that
 * applies decides. */
#include "model/export_internal.h"

static bool ends_with(const qn_tensor_info *tensor, const char *end)
{
    const size_t n = strlen(end);
    return (size_t)tensor->n_name >= n && memcmp(tensor->name + tensor->n_name - n, end, n) == 0;
}

/* Bytes, not text: a name may hold anything. */
static bool contains(const qn_tensor_info *tensor, const char *part)
{
    const size_t n = strlen(part);
    for (size_t i = 0; i + n <= (size_t)tensor->n_name; i++) {
        if (memcmp(tensor->name + i, part, n) == 0) {
            return true;
        }
    }
    return false;
}

static bool contains_any(const qn_tensor_info *tensor, const char *const *parts, int32_t n_parts)
{
    for (int32_t i = 0; i < n_parts; i++) {
        if (contains(tensor, parts[i])) {
            return true;
        }
    }
    return false;
}

static bool is_float(qn_dtype dtype)
{
    return dtype == QN_DTYPE_F32 || dtype == QN_DTYPE_F16 || dtype == QN_DTYPE_BF16;
}

static qni_export_choice keep(const qn_tensor_info *tensor, const char *rule)
{
    return (qni_export_choice){QNI_EXPORT_KEEP, tensor->dtype, rule};
}

/* --- transcode -------------------------------------------------------------------------------- */

static qni_export_choice choose_type(const qn_export_options *options, const qn_tensor_info *tensor)
{
    const bool is_expert =
        options->experts_dtype != QN_DTYPE_NONE && contains(tensor, "_exps.weight");
    const qn_dtype target = is_expert ? options->experts_dtype : options->dtype;
    if (target == QN_DTYPE_NONE) {
        return keep(tensor, "verbatim");
    }
    if (tensor->n_dims < 2) {
        return keep(tensor, "no matrix");
    }
    if (!ends_with(tensor, ".weight")) {
        return keep(tensor, "no weight");
    }
    if (contains(tensor, "norm")) {
        return keep(tensor, "norm");
    }
    if (tensor->dtype == target) {
        return keep(tensor, "same type");
    }
    const bool may_requantize =
        (is_expert || options->allow_requantize) && qn_dtype_is_quantized(tensor->dtype);
    if (!is_float(tensor->dtype) && !may_requantize) {
        return (qni_export_choice){QNI_EXPORT_REFUSE, target, "source type"};
    }
    if (tensor->ne[0] % qn_dtype_block_elems(target) != 0) {
        return keep(tensor, "row length");
    }
    return (qni_export_choice){QNI_EXPORT_CONVERT, target, is_expert ? "experts" : "weight"};
}

/* --- ternary planes --------------------------------------------------------------------------- */

enum { GROUP = 256 };

static bool is_plane_source(qn_dtype dtype)
{
    switch (dtype) {
    case QN_DTYPE_F32:
    case QN_DTYPE_F16:
    case QN_DTYPE_BF16:
    case QN_DTYPE_Q4_0:
    case QN_DTYPE_Q4_1:
    case QN_DTYPE_Q5_0:
    case QN_DTYPE_Q5_1:
    case QN_DTYPE_Q8_0:
    case QN_DTYPE_Q4_K:
    case QN_DTYPE_Q5_K:
    case QN_DTYPE_Q6_K:
        return true;
    default:
        return false;
    }
}

static bool is_plane_name(const qn_export_options *options, const qn_tensor_info *tensor)
{
    const bool is_included =
        options->n_include > 0
            ? contains_any(tensor, options->include, options->n_include)
            : !contains(tensor, "token_embd") && strcmp(tensor->name, "output.weight") != 0;
    return is_included && !contains_any(tensor, options->exclude, options->n_exclude);
}

static qni_export_choice choose_planes(const qn_export_options *options,
                                       const qn_tensor_info *tensor)
{
    const bool is_stack = tensor->n_dims == 3 && contains(tensor, "_exps");
    if (tensor->n_dims != 2 && !is_stack) {
        return keep(tensor, "no matrix");
    }
    if (!ends_with(tensor, ".weight")) {
        return keep(tensor, "no weight");
    }
    if (contains(tensor, "norm")) {
        return keep(tensor, "norm");
    }
    if (tensor->ne[0] % GROUP != 0) {
        return keep(tensor, "row length");
    }
    if (!is_plane_source(tensor->dtype)) {
        return keep(tensor, "source type");
    }
    if (!is_plane_name(options, tensor)) {
        return keep(tensor, "excluded");
    }
    return (qni_export_choice){QNI_EXPORT_PLANES, QN_DTYPE_TQ2_0, "planes"};
}

qni_export_choice qni_export_choose(const qn_export_options *options, const qn_tensor_info *tensor)
{
    return options->n_planes > 0 ? choose_planes(options, tensor) : choose_type(options, tensor);
}

/* --- the file type ---------------------------------------------------------------------------- */

static const struct {
    qn_dtype dtype;
    const char *preset; /* the one without a mixture */
} uniform[] = {
    {QN_DTYPE_F32, "F32"},         {QN_DTYPE_F16, "F16"},       {QN_DTYPE_BF16, "BF16"},
    {QN_DTYPE_Q4_0, "Q4_0"},       {QN_DTYPE_Q4_1, "Q4_1"},     {QN_DTYPE_Q5_0, "Q5_0"},
    {QN_DTYPE_Q5_1, "Q5_1"},       {QN_DTYPE_Q8_0, "Q8_0"},     {QN_DTYPE_Q2_K, "Q2_K_S"},
    {QN_DTYPE_Q3_K, "Q3_K_S"},     {QN_DTYPE_Q4_K, "Q4_K_S"},   {QN_DTYPE_Q5_K, "Q5_K_S"},
    {QN_DTYPE_Q6_K, "Q6_K"},       {QN_DTYPE_IQ1_S, "IQ1_S"},   {QN_DTYPE_IQ1_M, "IQ1_M"},
    {QN_DTYPE_IQ2_XXS, "IQ2_XXS"}, {QN_DTYPE_IQ2_XS, "IQ2_XS"}, {QN_DTYPE_IQ2_S, "IQ2_M"},
    {QN_DTYPE_IQ3_XXS, "IQ3_XXS"}, {QN_DTYPE_IQ3_S, "IQ3_S"},   {QN_DTYPE_IQ4_NL, "IQ4_NL"},
    {QN_DTYPE_IQ4_XS, "IQ4_XS"},   {QN_DTYPE_TQ1_0, "TQ1_0"},   {QN_DTYPE_TQ2_0, "TQ2_0"},
    {QN_DTYPE_MXFP4, "MXFP4_MOE"}, {QN_DTYPE_Q1_0, "Q1_0"},     {QN_DTYPE_Q2_0, "Q2_0"},
};

/* llama.cpp knows the number, but offers no preset for it. */
#define FILE_TYPE_NVFP4 39

int32_t qni_uniform_file_type(qn_dtype dtype)
{
    if (dtype == QN_DTYPE_NVFP4) {
        return FILE_TYPE_NVFP4;
    }
    for (size_t i = 0; i < sizeof uniform / sizeof uniform[0]; i++) {
        const qn_preset *preset;
        if (uniform[i].dtype == dtype) {
            return qn_preset_from_name(uniform[i].preset, &preset, NULL) == QN_OK ? preset->id : -1;
        }
    }
    return -1;
}
