/* fuzz_gguf_split.c — arbitrary bytes as the shards of a split model that lie beside one another:
 * refused with a message, or every tensor is found in its shard; a shard more or less is refused.
 * Input: a byte for the number of shards, then each shard with two bytes of length before it. */
#include "fuzz.h"

#include "quench/gguf.h"

enum { N_SHARDS_MAX = 3, N_PATH = 128 };

static char folder[FUZZ_FOLDER_BYTES];

static void shard_path(int index, int count, char out[N_PATH])
{
    (void)snprintf(out, N_PATH, "%s/m-%05d-of-%05d.gguf", folder, index + 1, count);
}

/* Deal the input out; the last shard takes what is left. */
static void write_shards(const uint8_t *bytes, size_t n_bytes, int count)
{
    char path[N_PATH];
    for (int i = 0; i < count; i++) {
        size_t n = n_bytes;
        if (i + 1 < count && n_bytes >= 2) {
            n = (size_t)bytes[0] | (size_t)bytes[1] << 8;
            bytes += 2;
            n_bytes -= 2;
            n = n < n_bytes ? n : n_bytes;
        }
        shard_path(i, count, path);
        write_file(path, bytes, n);
        bytes += n;
        n_bytes -= n;
    }
}

static void check(const qn_gguf *gguf)
{
    for (int64_t i = 0; i < qn_gguf_n_tensors(gguf); i++) {
        const qn_tensor_info *info = qn_gguf_tensor(gguf, i);
        require(qn_gguf_find_tensor(gguf, info->name, info->n_name) == i, "a tensor is found");
        const qn_gguf_shard *file = qn_gguf_shard_at(gguf, info->shard);
        require(file && info->file_offset >= 0 &&
                    info->file_offset + info->n_bytes <= file->n_bytes,
                "its bytes are in its shard");
        (void)sum_of(info->data, info->n_bytes);
    }
}

/* How many shards the model at this path has, 0 if it is refused. */
static int64_t open_model(const char *path, bool keep_damaged, bool single_shard)
{
    qn_gguf_options options = QN_GGUF_OPTIONS_INIT;
    qn_error err = QN_ERROR_INIT;
    qn_gguf *gguf = NULL;
    options.keep_damaged = keep_damaged;
    options.single_shard = single_shard;
    const qn_status st = qn_gguf_open(path, &options, &gguf, &err);
    require(st == QN_OK ? gguf != NULL : err.message[0] != '\0', "a refusal says why");
    if (st == QN_OK && !keep_damaged) {
        check(gguf);
    }
    const int64_t n_shards = st == QN_OK ? qn_gguf_n_shards(gguf) : 0;
    qn_gguf_close(gguf);
    return n_shards;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes)
{
    char first[N_PATH];
    char last[N_PATH];
    if (n_bytes < 1) {
        return 0;
    }
    if (folder[0] == '\0') {
        make_folder(folder);
    }
    const int count = 1 + bytes[0] % N_SHARDS_MAX;
    write_shards(bytes + 1, n_bytes - 1, count);
    shard_path(0, count, first);
    shard_path(count - 1, count, last);
    const bool is_whole = open_model(first, false, false) == count;
    const int64_t n_by_last = open_model(last, false, false);
    require(!is_whole || n_by_last == count, "any shard will do");
    (void)open_model(first, true, false);
    (void)open_model(last, false, true);
    for (int i = count; i > 0; i--) {
        char path[N_PATH];
        shard_path(i - 1, count, path);
        (void)unlink(path);
        require(!is_whole || open_model(first, false, false) == 0, "a missing shard is noticed");
    }
    return 0;
}
