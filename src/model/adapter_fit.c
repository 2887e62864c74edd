/* adapter_fit.c — does an adapter fit what its configuration says of it, and the model that it is
 * merged into? Nothing here decides what is merged: it only warns. */
#include <math.h>

#include "model/adapter_internal.h"

/* --- copies of the base's weights ------------------------------------------------------------- */

enum { ROOM_FLOATS = 1 << 16 };

typedef struct comparer {
    qni_matrix_room room;
    float copy[ROOM_FLOATS];
    float base[ROOM_FLOATS];
} comparer;

/* What rounding to the type changes at most, as a share of the value. */
static double rounding_of(qn_dtype dtype)
{
    return dtype == QN_DTYPE_BF16 ? 0x1p-8 : dtype == QN_DTYPE_F16 ? 0x1p-11 : 0x1p-24;
}

/* The model may hold the weight as another float type. */
static bool is_same_value(float copy, float base, double rounding)
{
    const double x = (double)copy;
    const double y = (double)base;
    return fabs(x - y) <= rounding * fmax(fabs(x), fabs(y)) + 0x1p-24; /* f16 below 2^-14 */
}

static qn_status compare_rows(comparer *c, const qni_matrix *copy, const qni_matrix *base,
                              int64_t base_first, int64_t n_rows, double plus,
                              int64_t *out_first_row, qn_error *err)
{
    const double rounding = rounding_of(copy->tensor->dtype) + rounding_of(base->tensor->dtype);
    const int64_t n_block = ROOM_FLOATS / copy->n_cols;
    *out_first_row = -1;
    for (int64_t row = 0; row < n_rows; row += n_block) {
        const int64_t now = qni_min_i64(n_block, n_rows - row);
        QN_TRY(qni_matrix_read(copy, row, now, &c->room, c->copy, copy->n_cols, err));
        QN_TRY(qni_matrix_read(base, base_first + row, now, &c->room, c->base, copy->n_cols, err));
        for (int64_t i = 0; i < now * copy->n_cols; i++) {
            const float x = plus != 0 ? (float)((double)c->copy[i] + plus) : c->copy[i];
            if (!is_same_value(x, c->base[i], rounding)) {
                *out_first_row = row + i / copy->n_cols;
                return QN_OK;
            }
        }
    }
    return QN_OK;
}

static bool is_float(const qn_tensor_info *tensor)
{
    return tensor->dtype == QN_DTYPE_F32 || tensor->dtype == QN_DTYPE_F16 ||
           tensor->dtype == QN_DTYPE_BF16;
}

/* What the model has under a part's name; a tied output is the embedding. */
static const qn_tensor_info *counterpart(const qn_model *base, const char *target)
{
    static const char tied[] = "token_embd.weight";
    const int64_t at = qn_model_find(base, target, (int64_t)strlen(target));
    return qn_model_tensor(base, at >= 0 || strcmp(target, "output.weight") != 0
                                     ? at
                                     : qn_model_find(base, tied, (int64_t)strlen(tied)));
}

static qn_status compare_part(const qni_adapter_job *job, comparer *c, const qni_part *part,
                              qn_error *err)
{
    const qn_tensor_info *tensor = counterpart(job->base, part->target);
    qni_name_text text;
    const char *key = qni_escape_name(part->key, (int64_t)strlen(part->key), &text);
    if (tensor == NULL || !is_float(tensor) || !is_float(part->b.tensor) || part->slice >= 0) {
        return QN_OK; /* nothing that could be compared */
    }
    const qni_matrix base = qni_matrix_of(job->base, tensor);
    const int64_t n_rows =
        part->may_be_longer ? qni_min_i64(part->b.n_rows, base.n_rows) : part->b.n_rows;
    if (tensor->n_dims > 2 || part->b.n_cols != base.n_cols ||
        n_rows > base.n_rows - part->first_row || (!part->is_window && n_rows != base.n_rows)) {
        qni_adapter_warn(job, "tensor %s should repeat %s of the model, but has another shape", key,
                         tensor->name);
        return QN_OK;
    }
    int64_t row = -1;
    if (part->b.n_cols > 0 && part->b.n_cols <= ROOM_FLOATS) {
        QN_TRY(compare_rows(c, &part->b, &base, part->first_row, n_rows, part->adds_one ? 1 : 0,
                            &row, err));
    }
    if (row >= 0) {
        qni_adapter_warn(job,
                         "tensor %s should repeat %s of the model, but differs from row %" PRId64
                         " on: the adapter was trained on another model",
                         key, tensor->name, row);
    }
    return QN_OK;
}

/* Find its place as if it were to replace the weight, and compare instead. */
static qn_status compare(const qni_adapter_job *job, qni_adapter_job *place, comparer *c,
                         const char *module, const qn_tensor_info *copy, qn_error *err)
{
    qni_part part = {.kind = QNI_PART_REPLACE, .key = copy->name, .slice = -1, .scale = 1};
    part.b = qni_matrix_of(job->adapter->file, copy);
    qn_error found = QN_ERROR_INIT;
    const qn_status st = qni_adapter_add_module(place, module, "weight", &part, &found);
    if (st == QN_ERR_OUT_OF_MEMORY) {
        return qni_fail_memory(err, sizeof part);
    }
    if (st != QN_OK) {
        qni_name_text text;
        qni_adapter_warn(job, "tensor %s should repeat a weight of the model: %.300s",
                         qni_escape_name(copy->name, copy->n_name, &text), found.message);
        return QN_OK;
    }
    for (int64_t i = 0; i < place->n_parts; i++) {
        QN_TRY(compare_part(job, c, &place->parts[i], err));
    }
    return QN_OK;
}

qn_status qni_adapter_compare(const qni_adapter_job *job, const char *module,
                              const qn_tensor_info *copy, qn_error *err)
{
    if (job->options->log == NULL || copy->n_dims > 2) {
        return QN_OK; /* nobody would hear of it */
    }
    qni_adapter_job place = *job; /* gets parts of its own */
    place.parts = NULL;
    place.n_parts = place.n_parts_max = 0;
    comparer *c = qni_alloc_zeroed(job->options->allocator, sizeof *c);
    if (c == NULL) {
        return qni_fail_memory(err, sizeof *c);
    }
    const qn_status st = compare(job, &place, c, module, copy, err);
    qni_free(job->options->allocator, place.parts, (size_t)place.n_parts_max * sizeof *place.parts);
    qni_free(job->options->allocator, c, sizeof *c);
    return st;
}

/* --- modules that are named ------------------------------------------------------------------- */

/* Does `path` have `name` in it, as whole components? */
static bool has_components(const char *path, const char *name, size_t n_name)
{
    for (const char *at = path; n_name > 0; at++) {
        if (strncmp(at, name, n_name) == 0 && (at[n_name] == '.' || at[n_name] == '\0')) {
            return true;
        }
        at = strchr(at, '.');
        if (at == NULL) {
            return false;
        }
    }
    return true;
}

/* So many names of a list are looked at. */
enum { MAX_NAMES = 1024 };

/* The modules of one list; with `is_parameter` the last component is a parameter's name. */
static void check_list(const qni_adapter_job *job, const char *list, const char *const *names,
                       int64_t n_names, bool is_parameter, const char *const *modules, int64_t n)
{
    for (int64_t i = 0; i < n_names && i < MAX_NAMES; i++) {
        const char *dot = is_parameter ? strrchr(names[i], '.') : NULL;
        const size_t n_name = dot != NULL ? (size_t)(dot - names[i]) : strlen(names[i]);
        bool is_there = false;
        for (int64_t k = 0; k < n && !is_there; k++) {
            is_there = has_components(modules[k], names[i], n_name);
        }
        if (!is_there) {
            qni_name_text text;
            qni_adapter_warn(job,
                             "%s of adapter_config.json names %s, but no tensor of the adapter "
                             "belongs to such a module",
                             list, qni_escape_name(names[i], (int64_t)strlen(names[i]), &text));
            return; /* one of them is enough to make the user look */
        }
    }
}

void qni_adapter_check_names(const qni_adapter_job *job, const char *const *modules, int64_t n)
{
    const qni_adapter_config *c = &job->adapter->config;
    check_list(job, "target_modules", c->target_modules, c->n_target_modules, false, modules, n);
    check_list(job, "target_parameters", c->target_parameters, c->n_target_parameters, true,
               modules, n);
    check_list(job, "modules_to_save", c->saved_modules, c->n_saved_modules, false, modules, n);
}

/* --- the model that is named ------------------------------------------------------------------ */

enum { MAX_NAME = 256, MAX_BASES = 16 };

static bool is_word_char(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* The next run of letters and digits from *at on, in small letters; false: there is none. */
static bool next_word(const char **at, const char *end, char out[MAX_NAME])
{
    size_t n = 0;
    while (*at < end && !is_word_char(**at)) {
        (*at)++;
    }
    for (; *at < end && is_word_char(**at) && n + 1 < MAX_NAME; (*at)++) {
        const char c = **at;
        out[n++] = (char)(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
    }
    out[n] = '\0';
    return n > 0;
}

static bool share_a_word(const char *a, size_t n_a, const char *b, size_t n_b)
{
    char one[MAX_NAME], other[MAX_NAME];
    for (const char *at = a; next_word(&at, a + n_a, one);) {
        for (const char *to = b; next_word(&to, b + n_b, other);) {
            if (strcmp(one, other) == 0) {
                return true;
            }
        }
    }
    return false;
}

/* Look at one key of the model: *said: it is there; *shares: it has a word of the name. */
static void look_at(const qni_adapter_job *job, const char *key, const char *name, bool *said,
                    bool *shares)
{
    qn_gguf_string text;
    if (job->base->metadata != NULL &&
        qn_gguf_get_string(job->base->metadata, key, &text, NULL) == QN_OK && text.n_bytes > 0) {
        *said = true;
        *shares = *shares || share_a_word(name, strlen(name), text.bytes,
                                          (size_t)qni_min_i64(text.n_bytes, MAX_NAME));
    }
}

/* The last part of "org/name" or of a path. */
static const char *last_part(qni_arena *arena, const char *path)
{
    size_t n = strlen(path);
    while (n > 0 && (path[n - 1] == '/' || path[n - 1] == '\\')) {
        n--;
    }
    size_t first = n;
    while (first > 0 && path[first - 1] != '/' && path[first - 1] != '\\') {
        first--;
    }
    return qni_arena_copy(arena, path + first, n - first < MAX_NAME ? n - first : MAX_NAME);
}

void qni_adapter_check_base(const qni_adapter_job *job)
{
    static const char *const suffixes[] = {"name", "repo_url"};
    const qni_adapter_config *c = &job->adapter->config;
    const char *name = c->base_name != NULL ? last_part(job->arena, c->base_name) : NULL;
    bool said = false;
    bool shares = false;
    char key[64];
    qni_name_text text;
    if (name == NULL || name[0] == '\0') {
        return;
    }
    look_at(job, "general.name", name, &said, &shares);
    look_at(job, "general.basename", name, &said, &shares);
    for (int i = 0; i < MAX_BASES * 2; i++) {
        (void)snprintf(key, sizeof key, "general.base_model.%d.%s", i / 2, suffixes[i % 2]);
        look_at(job, key, name, &said, &shares);
    }
    if (said && !shares) {
        qni_adapter_warn(job, "it was trained on %s, which the model does not name as itself",
                         qni_escape_name(name, (int64_t)strlen(name), &text));
    }
    if (c->is_mlx && (strstr(name, "bit") != NULL || strstr(name, "mxfp4") != NULL)) {
        qni_adapter_warn(job,
                         "it was trained on %s, a quantized model: merged into another one it does "
                         "not do quite the same",
                         qni_escape_name(name, (int64_t)strlen(name), &text));
    }
}
