/* fuzz_safetensors_index.c — any bytes as the index of a sharded model that lies beside two shards.
 */
#include "fuzz.h"

#include "quench/safetensors.h"

static char folder[FUZZ_FOLDER_BYTES];
static char index_path[96];

static void write_shard(const char *name, const char *tensor)
{
    char path[96];
    const int64_t shape[1] = {4};
    const void *bytes = NULL;
    int64_t n_bytes = 0;
    qn_safetensors_writer *w = NULL;
    require(qn_safetensors_writer_new(NULL, &w, NULL) == QN_OK &&
                qn_safetensors_writer_add(w, tensor, 1, QN_SAFETENSORS_U8, shape, 1, "data", 4,
                                          NULL) == QN_OK &&
                qn_safetensors_writer_finish(w, &bytes, &n_bytes, NULL) == QN_OK,
            "shard");
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    write_file(path, bytes, (size_t)n_bytes);
    qn_safetensors_writer_free(w);
}

static void write_shards(void)
{
    make_folder(folder);
    (void)snprintf(index_path, sizeof index_path, "%s/m.safetensors.index.json", folder);
    write_shard("1", "a");
    write_shard("2", "b");
}

static void open_it(bool keep_damaged)
{
    qn_safetensors_options options = QN_SAFETENSORS_OPTIONS_INIT;
    qn_safetensors *st = NULL;
    options.keep_damaged = keep_damaged;
    if (qn_safetensors_open(index_path, &options, &st, NULL) == QN_OK) {
        for (int64_t i = 0; i < qn_safetensors_n_tensors(st); i++) {
            qn_safetensors_tensor t;
            require(qn_safetensors_tensor_at(st, i, &t) &&
                        qn_safetensors_find(st, t.name, t.n_name) == i,
                    "every tensor is found");
        }
    }
    qn_safetensors_close(st);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes)
{
    if (folder[0] == '\0') {
        write_shards();
    }
    write_file(index_path, bytes, n_bytes);
    open_it(false);
    open_it(true);
    return 0;
}
