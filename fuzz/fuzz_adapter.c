/* fuzz_adapter.c — any bytes as an adapter of a small model: a form, a configuration, the weights.
 * What is accepted merges to the same bytes on the scalar path and on the best one; memory follows
 * the bytes that are there.
 *
 *     u8 form: 0 PEFT or mlx-lm by configuration and keys, 1 GGUF, 2 a trainer's folder
 *     u8 options: 1 alpha given, 2 untie
 *     u16 length of the configuration, its bytes, the bytes of the weights */
#include "fuzz.h"

#include "quench/adapters.h"
#include "quench/export.h"
#include "quench/gguf.h"

enum { PATH_BYTES = 128, N_EMBD = 8, N_VOCAB = 10, N_EXPERTS = 2 };

/* --- the model -------------------------------------------------------------------------------- */

typedef struct base_tensor {
    const char *name;
    int32_t n_dims;
    int64_t ne[3];
} base_tensor;

static const base_tensor tensors[] = {
    {"token_embd.weight", 2, {N_EMBD, N_VOCAB, 1}},
    {"output_norm.weight", 1, {N_EMBD, 1, 1}},
    {"blk.0.attn_q.weight", 2, {N_EMBD, 8, 1}},
    {"blk.0.attn_q.bias", 1, {8, 1, 1}},
    {"blk.0.attn_k.weight", 2, {N_EMBD, 4, 1}},
    {"blk.0.attn_v.weight", 2, {N_EMBD, 4, 1}},
    {"blk.0.ffn_gate_exps.weight", 3, {N_EMBD, 6, N_EXPERTS}},
    {"blk.0.ffn_up_exps.weight", 3, {N_EMBD, 6, N_EXPERTS}},
    {"blk.0.ffn_down_exps.weight", 3, {6, N_EMBD, N_EXPERTS}},
};
enum { N_TENSORS = sizeof tensors / sizeof tensors[0] };

static char folder[FUZZ_FOLDER_BYTES];
static qn_model *base;

static void path_of(const char *name, char *out)
{
    (void)snprintf(out, PATH_BYTES, "%s/%s", folder, name);
}

static void write_base(const char *path)
{
    static float values[N_EMBD * 16 * N_EXPERTS];
    qn_gguf_writer *writer;
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        values[i] = (float)((int)(i * 37 % 101) - 50) / 64.0f;
    }
    require(qn_gguf_writer_new(NULL, &writer, NULL) == QN_OK &&
                qn_gguf_writer_set_string(writer, "general.architecture", "llama", 5, NULL) ==
                    QN_OK &&
                qn_gguf_writer_set_u32(writer, "llama.attention.head_count", 2, NULL) == QN_OK &&
                qn_gguf_writer_set_u32(writer, "llama.attention.head_count_kv", 1, NULL) == QN_OK &&
                qn_gguf_writer_set_u32(writer, "llama.expert_count", N_EXPERTS, NULL) == QN_OK,
            "metadata");
    for (int i = 0; i < N_TENSORS; i++) {
        const base_tensor *t = &tensors[i];
        const int64_t n = t->ne[0] * t->ne[1] * t->ne[2];
        require(qn_gguf_writer_add(writer, t->name, (int64_t)strlen(t->name), QN_DTYPE_F32, t->ne,
                                   t->n_dims, values, 4 * n, NULL) == QN_OK,
                "tensor");
    }
    require(qn_gguf_writer_finish_path(writer, path, NULL) == QN_OK, "base");
    qn_gguf_writer_free(writer);
}

static void clean_up(void)
{
    static const char *const names[] = {"base.gguf",
                                        "adapter.gguf",
                                        "adapter_config.json",
                                        "adapter_model.safetensors",
                                        "adapters.safetensors",
                                        "trainer_state.json"};
    char path[PATH_BYTES];
    qn_model_close(base);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        path_of(names[i], path);
        (void)unlink(path);
    }
    (void)rmdir(folder);
}

static void set_up(void)
{
    char path[PATH_BYTES];
    make_folder(folder);
    path_of("base.gguf", path);
    write_base(path);
    require(qn_model_open(path, NULL, &base, NULL) == QN_OK, "the base opens");
    (void)atexit(clean_up);
}

/* --- one input -------------------------------------------------------------------------------- */

static void put_file(const char *name, const uint8_t *bytes, size_t n_bytes)
{
    char path[PATH_BYTES];
    path_of(name, path);
    if (bytes == NULL) {
        (void)unlink(path);
        return;
    }
    write_file(path, bytes, n_bytes);
}

typedef struct digest {
    uint64_t sum;
} digest;

static void add_bytes(void *ctx, int64_t item, const void *bytes, size_t n_bytes)
{
    digest *d = ctx;
    const uint8_t *p = bytes;
    (void)item;
    for (size_t i = 0; i < n_bytes; i++) {
        d->sum = (d->sum ^ p[i]) * UINT64_C(0x100000001b3);
    }
}

static qn_status run(const qn_model *model, qn_isa isa, uint64_t *out)
{
    qn_plan *plan;
    digest d = {UINT64_C(0xcbf29ce484222325)};
    qn_run_options options = QN_RUN_OPTIONS_INIT;
    qn_export_options export_options = QN_EXPORT_OPTIONS_INIT;
    options.n_threads = 1;
    options.isa = isa;
    options.is_check_only = true;
    options.on_item_bytes = add_bytes;
    options.bytes_ctx = &d;
    require(qn_plan_export(model, &export_options, &plan, NULL) == QN_OK, "what opens has a plan");
    const qn_status st = qn_plan_run(plan, NULL, &options, NULL, NULL);
    qn_plan_free(plan);
    *out = d.sum;
    return st;
}

static void merge(const char *path, uint8_t flags, size_t n_bytes)
{
    size_t n_allowed = 256 * n_bytes + ((size_t)4 << 20);
    const qn_allocator allocator = bounded_allocator(&n_allowed);
    qn_merge_options options = QN_MERGE_OPTIONS_INIT;
    qn_merge *merge;
    qn_error err = QN_ERROR_INIT;
    options.allocator = &allocator;
    options.has_alpha = (flags & 1) != 0;
    options.alpha = 4;
    options.do_untie = (flags & 2) != 0;
    if (qn_merge_open(base, &path, 1, &options, &merge, &err) != QN_OK) {
        require(err.status != QN_OK && err.message[0] != '\0', "an error says what is wrong");
        return;
    }
    uint64_t scalar, best;
    const qn_status st = run(qn_merge_model(merge), QN_ISA_SCALAR, &scalar);
    require(run(qn_merge_model(merge), QN_ISA_BEST, &best) == st, "the same result");
    require(st != QN_OK || scalar == best, "the same bytes");
    require(st == QN_OK || st == QN_ERR_NON_FINITE_VALUE || st == QN_ERR_SCALE_OVERFLOW ||
                st == QN_ERR_INVALID_ADAPTER,
            "values that are too large, or a row of zeros under DoRA");
    qn_merge_close(merge);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes)
{
    if (base == NULL) {
        set_up();
    }
    if (n_bytes < 4) {
        return 0;
    }
    size_t n_config = (size_t)bytes[2] | (size_t)bytes[3] << 8;
    n_config = n_config < n_bytes - 4 ? n_config : n_bytes - 4;
    const uint8_t *config = bytes + 4;
    const uint8_t *weights = config + n_config;
    const size_t n_weights = n_bytes - 4 - n_config;
    char path[PATH_BYTES];
    put_file("adapter_config.json", bytes[0] % 3 == 0 && n_config > 0 ? config : NULL, n_config);
    put_file("trainer_state.json", bytes[0] % 3 == 2 && n_config > 0 ? config : NULL, n_config);
    put_file("adapter_model.safetensors", bytes[0] % 3 == 0 ? weights : NULL, n_weights);
    put_file("adapters.safetensors", bytes[0] % 3 == 2 ? weights : NULL, n_weights);
    put_file("adapter.gguf", bytes[0] % 3 == 1 ? weights : NULL, n_weights);
    (void)snprintf(path, sizeof path, "%s", folder);
    merge(path, bytes[1], n_bytes);
    return 0;
}
