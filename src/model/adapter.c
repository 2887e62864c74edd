/* adapter.c — what was given as an adapter: told by its keys and its configuration, not by the
 * names of its files. One row of `forms` for each form. */
#include <stdarg.h>

#include "model/adapter_internal.h"
#include "quench/checkpoint.h"
#include "json/json.h"

#define MAX_STATE_BYTES (INT64_C(1) << 20)

/* --- helpers of the forms --------------------------------------------------------------------- */

char *qni_arena_printf(qni_arena *arena, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    const int n = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    char *text = n >= 0 ? qni_arena_alloc(arena, (size_t)n + 1) : NULL;
    if (text != NULL) {
        va_start(args, fmt);
        (void)vsnprintf(text, (size_t)n + 1, fmt, args);
        va_end(args);
    }
    return text;
}

bool qni_ends_with(const char *text, const char *end)
{
    const size_t n = strlen(text);
    const size_t n_end = strlen(end);
    return n >= n_end && strcmp(text + n - n_end, end) == 0;
}

qn_status qni_adapter_blame(const qni_adapter_job *job, const char *key, qn_status st,
                            qn_error *err)
{
    if (err == NULL || st == QN_OK) {
        return st;
    }
    const qn_error found = *err;
    qni_name_text text;
    (void)qni_fail(err, st, found.offset, "tensor %s: %.560s",
                   qni_escape_name(key, (int64_t)strlen(key), &text), found.message);
    err->sys_errno = found.sys_errno;
    memcpy(err->path, found.path, sizeof err->path);
    return qni_fail_path(err, st, job->adapter->path);
}

static void say(const qni_adapter_job *job, qn_log_level level, const char *message)
{
    char line[768];
    qni_name_text text;
    (void)snprintf(line, sizeof line, "%s: %s",
                   qni_escape_name(job->adapter->path, (int64_t)strlen(job->adapter->path), &text),
                   message);
    job->options->log(job->options->log_ctx, level, line);
}

void qni_adapter_warn(const qni_adapter_job *job, const char *fmt, ...)
{
    if (job->options->log != NULL) {
        char message[600];
        va_list args;
        va_start(args, fmt);
        (void)vsnprintf(message, sizeof message, fmt, args);
        va_end(args);
        say(job, QN_LOG_WARNING, message);
    }
}

qn_status qni_adapter_add(qni_adapter_job *job, const qni_part *part, qn_error *err)
{
    if (job->n_parts == job->n_parts_max) {
        const int64_t n_max = job->n_parts_max > 0 ? 2 * job->n_parts_max : 64;
        qni_part *parts =
            qni_realloc(job->options->allocator, job->parts,
                        (size_t)job->n_parts_max * sizeof *parts, (size_t)n_max * sizeof *parts);
        if (parts == NULL) {
            return qni_fail_memory(err, (size_t)n_max * sizeof *parts);
        }
        job->parts = parts;
        job->n_parts_max = n_max;
    }
    job->parts[job->n_parts++] = *part;
    return QN_OK;
}

qn_status qni_adapter_check_pair(const qni_part *part, qn_error *err)
{
    const int64_t r = part->a.n_rows;
    QN_CHECK(r > 0 && part->a.n_cols > 0 && part->b.n_rows > 0 && part->b.n_cols > 0, err,
             QN_ERR_INVALID_ADAPTER, -1,
             "A or B is empty: it was saved without being gathered from its shards (ZeRO-3, FSDP); "
             "save the adapter again");
    QN_CHECK(part->b.n_cols == r, err, QN_ERR_INVALID_ADAPTER, -1,
             "A has rank %" PRId64 " but B has rank %" PRId64
             "; the adapter is damaged, save it again",
             r, part->b.n_cols);
    return QN_OK;
}

/* --- keys ------------------------------------------------------------------------------------- */

static bool starts_with(const char *text, const char *start)
{
    return strncmp(text, start, strlen(start)) == 0;
}

static bool is_image_key(const char *key)
{
    static const char *const starts[] = {"lora_unet_",
                                         "lora_te",
                                         "lora_transformer_",
                                         "unet.",
                                         "text_encoder.",
                                         "transformer.transformer_blocks.",
                                         "transformer.single_transformer_blocks."};
    static const char *const parts[] = {".lora_down.", ".lora_up.",   ".lora.down.",
                                        ".lora.up.",   ".processor.", ".hada_w",
                                        ".lokr_w",     ".oft_blocks", ".dora_scale"};
    for (size_t i = 0; i < sizeof starts / sizeof starts[0]; i++) {
        if (starts_with(key, starts[i])) {
            return true;
        }
    }
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        if (strstr(key, parts[i]) != NULL) {
            return true;
        }
    }
    return false;
}

/* layers.<n>.<t>.lora_a */
static bool is_seed_key(const char *key)
{
    if (!starts_with(key, "layers.")) {
        return false;
    }
    const char *rest = key + 7 + strspn(key + 7, "0123456789");
    return rest > key + 7 && (qni_ends_with(rest, ".lora_a") || qni_ends_with(rest, ".lora_b"));
}

static bool is_peft_key(const char *key)
{
    return strstr(key, ".lora_A") != NULL || strstr(key, ".lora_B") != NULL ||
           strstr(key, ".lora_embedding_") != NULL;
}

static bool is_lower_key(const char *key)
{
    return qni_ends_with(key, ".lora_a") || qni_ends_with(key, ".lora_b");
}

/* The first tensor with such a name, or -1. */
static int64_t find_key(const qn_model *file, bool (*is_such)(const char *))
{
    for (int64_t i = 0; i < file->n_tensors; i++) {
        if (is_such(file->tensors[i].name)) {
            return i;
        }
    }
    return -1;
}

/* A name is text here: one with a NUL in it would be cut, and two names could become one. */
static qn_status check_keys(const qni_adapter_job *job, qn_error *err)
{
    const qn_model *file = job->adapter->file;
    for (int64_t i = 0; i < file->n_tensors; i++) {
        qni_name_text text;
        QN_CHECK(strlen(file->tensors[i].name) == (size_t)file->tensors[i].n_name, err,
                 QN_ERR_INVALID_ADAPTER, -1, "the name of tensor %s has a NUL in it",
                 qni_escape_name(file->tensors[i].name, file->tensors[i].n_name, &text));
    }
    QN_CHECK(file->n_tensors > 0, err, QN_ERR_INVALID_ADAPTER, -1,
             "the adapter has no tensors; nothing can be merged");
    return QN_OK;
}

static qn_status refuse_image(const char *key, qn_error *err)
{
    qni_name_text text;
    return qni_fail(err, QN_ERR_UNSUPPORTED_ADAPTER, -1,
                    "tensor %s is part of an image-model LoRA (kohya, LyCORIS or diffusers); only "
                    "adapters of language models (PEFT, GGUF, mlx-lm) are merged",
                    qni_escape_name(key, (int64_t)strlen(key), &text));
}

/* --- recognition ------------------------------------------------------------------------------ */

static const struct {
    const char *name;
    qn_status (*read)(qni_adapter_job *job, qn_error *err);
} forms[] = {
    [QN_ADAPTER_PEFT] = {"PEFT", qni_adapter_read_peft},
    [QN_ADAPTER_MLX] = {"mlx-lm", qni_adapter_read_mlx},
    [QN_ADAPTER_GGUF] = {"GGUF", qni_adapter_read_gguf},
    [QN_ADAPTER_SEED] = {"state dict", qni_adapter_read_seed},
};

const char *qn_adapter_form_name(qn_adapter_form form)
{
    return (size_t)form < sizeof forms / sizeof forms[0] ? forms[form].name : "?";
}

static qn_status recognise(qni_adapter_job *job, qn_error *err)
{
    qni_adapter *adapter = job->adapter;
    const char *peft_type = adapter->config.peft_type;
    if (adapter->file->container == QN_CONTAINER_GGUF) {
        adapter->form = QN_ADAPTER_GGUF;
        return QN_OK;
    }
    if (peft_type != NULL) {
        qni_name_text text;
        QN_CHECK(
            strcmp(peft_type, "LORA") == 0, err, QN_ERR_UNSUPPORTED_ADAPTER, -1,
            "peft_type is %s: only LORA is W + s B A and can be merged here; merge it with PEFT "
            "and convert the merged model",
            qni_escape_name(peft_type, (int64_t)strlen(peft_type), &text));
    }
    const int64_t image = find_key(adapter->file, is_image_key);
    if (image >= 0) {
        return refuse_image(adapter->file->tensors[image].name, err);
    }
    const bool is_said = peft_type != NULL; /* then the names decide nothing */
    if (!is_said && find_key(adapter->file, is_seed_key) >= 0) {
        adapter->form = QN_ADAPTER_SEED;
    } else if (!is_said && (adapter->config.is_mlx || find_key(adapter->file, is_lower_key) >= 0)) {
        adapter->form = QN_ADAPTER_MLX;
    } else if (is_said || find_key(adapter->file, is_peft_key) >= 0) {
        adapter->form = QN_ADAPTER_PEFT;
    } else {
        const char *key = adapter->file->tensors[0].name;
        qni_name_text text;
        return qni_fail(err, QN_ERR_INVALID_ADAPTER, -1,
                        "this is no adapter: it has tensors such as %s, but none named as PEFT, "
                        "mlx-lm or the trainer name them (lora_A, lora_a)",
                        qni_escape_name(key, adapter->file->tensors[0].n_name, &text));
    }
    return QN_OK;
}

/* --- files ------------------------------------------------------------------------------------ */

static char *join(qni_arena *arena, const char *folder, const char *name)
{
    const size_t n = strlen(folder);
    return qni_arena_printf(arena, "%s%s%s", folder, n > 0 && folder[n - 1] != '/' ? "/" : "",
                            name);
}

/* The folder that a file lies in, with its final slash. */
static char *folder_of(qni_arena *arena, const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash == NULL ? qni_arena_printf(arena, "./")
                         : qni_arena_printf(arena, "%.*s", (int)(slash - path) + 1, path);
}

static bool exists_in(qni_arena *arena, const char *folder, const char *name)
{
    const char *path = join(arena, folder, name);
    return path != NULL && qni_file_exists(path);
}

static qn_status is_folder(const char *path, bool *out, qn_error *err)
{
    qni_file file = QNI_FILE_CLOSED;
    const qn_status st = qni_file_open(path, &file, err);
    *out = st == QN_ERR_IS_DIR;
    if (st == QN_OK) {
        qni_file_close(&file);
    }
    return *out ? QN_OK : st;
}

static qn_status refuse_folder(qni_arena *arena, const char *folder, qn_error *err)
{
    static const char *const pickles[] = {"adapter_model.bin", "adapter_model.pt",
                                          "adapter_model.pth", "adapters.npz"};
    for (size_t i = 0; i < sizeof pickles / sizeof pickles[0]; i++) {
        QN_CHECK(!exists_in(arena, folder, pickles[i]), err, QN_ERR_UNSUPPORTED_ADAPTER, -1,
                 "the adapter is only there as %s, which is no safetensors file; save it with "
                 "safe_serialization=True",
                 pickles[i]);
    }
    QN_CHECK(!exists_in(arena, folder, QN_CHECKPOINT_MODEL), err, QN_ERR_INVALID_ADAPTER, -1,
             "the folder holds " QN_CHECKPOINT_MODEL ", a whole model, and no adapter");
    return qni_fail(
        err, QN_ERR_INVALID_ADAPTER, -1,
        "there is no adapter in this folder: looked for adapter_model.safetensors, "
        "adapters.safetensors and adapter.gguf; an adapter saved under a name of its own "
        "lies in the folder of that name");
}

/* Of a training checkpoint whose save was cut short, the one before. */
static const char *complete_save(qni_adapter_job *job, const char *folder)
{
    const char *previous = join(job->arena, folder, "prev");
    if (previous == NULL || job->adapter->config.is_there ||
        exists_in(job->arena, folder, QN_CHECKPOINT_STATE) ||
        !exists_in(job->arena, previous, QN_CHECKPOINT_STATE) ||
        !exists_in(job->arena, previous, QN_CHECKPOINT_ADAPTERS)) {
        return folder;
    }
    qni_adapter_warn(job, "the save in this folder is not complete; the one before it (prev/) is "
                          "merged");
    return previous;
}

static const char *weights_in(qni_adapter_job *job, const char *folder)
{
    static const char *const names[] = {"adapter_model.safetensors", QN_CHECKPOINT_ADAPTERS,
                                        "adapter.gguf"};
    const bool is_mlx = job->adapter->config.is_mlx && job->adapter->config.peft_type == NULL;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *name = is_mlx && i < 2 ? names[1 - i] : names[i];
        if (exists_in(job->arena, folder, name)) {
            return join(job->arena, folder, name);
        }
    }
    return NULL;
}

/* lora_alpha of trainer_state.json: only that, so that a state without the rest of it will do. */
static qn_status read_alpha(const uint8_t *bytes, int64_t n_bytes, qni_adapter *adapter,
                            qn_error *err)
{
    const qni_json_options options = {.status = QN_ERR_INVALID_TRAINER_STATE};
    qni_json json;
    qn_status st = QN_OK;
    QN_TRY_GOTO(qni_json_begin(&json, bytes, n_bytes, &options, err));
    QN_TRY_GOTO(qni_json_enter_object(&json, QNI_JSON_UNIQUE, err));
    for (;;) {
        qni_json_text key;
        bool has_key = false;
        QN_TRY_GOTO(qni_json_next_key(&json, &key, &has_key, err));
        if (!has_key) {
            break;
        }
        if (qni_json_text_is(key, "lora_alpha")) {
            QN_TRY_GOTO(qni_json_f64(&json, &adapter->trainer_alpha, err));
            adapter->has_trainer_alpha = true;
        } else {
            QN_TRY_GOTO(qni_json_skip(&json, err));
        }
    }
    QN_TRY_GOTO(qni_json_finish(&json, err));
done:
    qni_json_end(&json);
    return st;
}

static qn_status read_trainer_state(qni_adapter_job *job, const char *folder, qn_error *err)
{
    const char *path = join(job->arena, folder, QN_CHECKPOINT_STATE);
    if (path == NULL) {
        return qni_fail_memory(err, strlen(folder));
    }
    job->adapter->state_path = path;
    if (!qni_file_exists(path)) {
        return QN_OK;
    }
    uint8_t *bytes;
    int64_t n_bytes;
    QN_TRY(
        qni_file_read_all(path, job->options->allocator, MAX_STATE_BYTES, &bytes, &n_bytes, err));
    const qn_status st = read_alpha(bytes, n_bytes, job->adapter, err);
    qni_free(job->options->allocator, bytes, (size_t)n_bytes);
    return st == QN_OK ? QN_OK : qni_fail_path(err, st, path);
}

/* Open configuration, weights and state. */
static qn_status open_weights(qni_adapter_job *job, const char *path, qn_error *err)
{
    qn_model_options options = QN_MODEL_OPTIONS_INIT;
    options.allocator = job->options->allocator;
    const qn_status st = qn_model_open(path, &options, &job->adapter->file, err);
    if (st == QN_ERR_NOT_A_MODEL && err != NULL) {
        const qn_error found = *err;
        (void)qni_fail(err, st, found.offset,
                       "%.400s; an adapter is the folder that PEFT, mlx-lm or the trainer saved, "
                       "its safetensors file, or an adapter GGUF of llama.cpp",
                       found.message);
        memcpy(err->path, found.path, sizeof err->path);
    }
    return st;
}

static qn_status open_files(qni_adapter_job *job, const char *path, qn_error *err)
{
    bool is_dir;
    QN_TRY(is_folder(path, &is_dir, err));
    const char *folder = is_dir ? path : folder_of(job->arena, path);
    const char *config = folder != NULL ? join(job->arena, folder, "adapter_config.json") : NULL;
    if (config == NULL) {
        return qni_fail_memory(err, strlen(path));
    }
    job->adapter->config_path = config;
    QN_TRY(qni_adapter_config_read(config, job->arena, &job->adapter->config, err));
    const char *weights = path;
    if (is_dir) {
        folder = complete_save(job, folder);
        weights = weights_in(job, folder);
        if (weights == NULL) {
            return refuse_folder(job->arena, folder, err);
        }
    }
    QN_TRY(open_weights(job, weights, err));
    QN_TRY(check_keys(job, err));
    return read_trainer_state(job, folder, err);
}

static qn_status check_config(const qni_adapter_job *job, qn_error *err)
{
    const qni_adapter_config *config = &job->adapter->config;
    QN_CHECK(config->refusal == NULL, err, QN_ERR_UNSUPPORTED_ADAPTER, -1, "%s", config->refusal);
    if (config->warning != NULL) {
        qni_adapter_warn(job, "%s", config->warning);
    }
    if (config->unknown_key != NULL && !config->is_mlx && job->options->log != NULL) {
        char line[300];
        qni_name_text text;
        (void)snprintf(
            line, sizeof line,
            "adapter_config.json has the key %s, which is not known here; it is passed "
            "over",
            qni_escape_name(config->unknown_key, (int64_t)strlen(config->unknown_key), &text));
        say(job, QN_LOG_INFO, line);
    }
    qni_adapter_check_base(job);
    return QN_OK;
}

static qn_status read(qni_adapter_job *job, const char *path, qn_error *err)
{
    job->adapter->scale_source = "nothing";
    QN_TRY(open_files(job, path, err));
    QN_TRY(recognise(job, err));
    QN_TRY(check_config(job, err));
    return forms[job->adapter->form].read(job, err);
}

qn_status qni_adapter_read(qni_adapter_job *job, const char *path, qn_error *err)
{
    job->adapter->path = qni_arena_copy(job->arena, path, strlen(path));
    if (job->adapter->path == NULL) {
        return qni_fail_memory(err, strlen(path));
    }
    const qn_status st = read(job, path, err);
    return st == QN_OK ? QN_OK : qni_fail_path(err, st, path);
}
