/* 01_inspect.c [MODEL.gguf] — what is in a model file, and that its sizes add up to the byte.
 *
 * Exercise 1 of the book: architecture, layers, every tensor's name, logical shape, type and bytes;
 * header + padding + tensors must be the file's size. Without an argument it writes a small model
 * first and looks at that. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "quench/quench.h"

static void must(qn_status st, const qn_error *err)
{
    if (st != QN_OK) {
        fprintf(stderr, "01_inspect: %s\n", err->message);
        exit(1);
    }
}

static void write_small_model(const char *path)
{
    static const float embedding[4 * 64] = {0.5f};
    static const float norm[64] = {1};
    const int64_t ne_embedding[] = {64, 4}; /* logical [4, 64]: 4 tokens, 64 features */
    const int64_t ne_norm[] = {64};
    qn_error err = QN_ERROR_INIT;
    qn_gguf_writer *w = NULL;
    must(qn_gguf_writer_new(NULL, &w, &err), &err);
    must(qn_gguf_writer_set_string(w, "general.architecture", "llama", 5, &err), &err);
    must(qn_gguf_writer_set_u32(w, "llama.block_count", 1, &err), &err);
    must(qn_gguf_writer_add(w, "token_embd.weight", 17, QN_DTYPE_F32, ne_embedding, 2, embedding,
                            sizeof embedding, &err),
         &err);
    must(qn_gguf_writer_add(w, "output_norm.weight", 18, QN_DTYPE_F32, ne_norm, 1, norm,
                            sizeof norm, &err),
         &err);
    must(qn_gguf_writer_finish_path(w, path, &err), &err);
    qn_gguf_writer_free(w);
}

/* Dimensions are stored fastest first; people write them the other way round. */
static void print_tensor(const qn_tensor_info *info)
{
    printf("  %-32.*s %-8s [", (int)info->n_name, info->name, qn_dtype_name(info->dtype));
    for (int32_t d = info->n_dims - 1; d >= 0; d--) {
        printf(d > 0 ? "%" PRId64 ", " : "%" PRId64, info->ne[d]);
    }
    printf("] %" PRId64 " bytes\n", info->n_bytes);
}

int main(int argc, char **argv)
{
    const char *path = argc > 1 ? argv[1] : "01_inspect.gguf";
    qn_error err = QN_ERROR_INIT;
    qn_gguf *model = NULL;
    if (argc <= 1) {
        write_small_model(path);
    }
    must(qn_gguf_open(path, NULL, &model, &err), &err);

    qn_gguf_string arch;
    int64_t n_layers = 0;
    char key[128];
    must(qn_gguf_get_string(model, "general.architecture", &arch, &err), &err);
    snprintf(key, sizeof key, "%.*s.block_count", (int)arch.n_bytes, arch.bytes);
    must(qn_gguf_get_int(model, key, &n_layers, &err), &err); /* u32 or u64 alike */
    printf("%s: %.*s, %" PRId64 " layers, %" PRId64 " tensors\n", path, (int)arch.n_bytes,
           arch.bytes, n_layers, qn_gguf_n_tensors(model));

    int64_t n_tensor_bytes = 0;
    for (int64_t i = 0; i < qn_gguf_n_tensors(model); i++) {
        print_tensor(qn_gguf_tensor(model, i));
        n_tensor_bytes += qn_gguf_tensor(model, i)->n_bytes;
    }
    const qn_gguf_shard *file = qn_gguf_shard_at(model, 0);
    const int64_t n_padding = file->n_header_padding + file->n_gap_bytes + file->n_tail_bytes;
    const int64_t sum = file->n_header_bytes + n_padding + n_tensor_bytes;
    printf("header %" PRId64 " + padding %" PRId64 " + tensors %" PRId64 " = %" PRId64
           ", file %" PRId64 "\n",
           file->n_header_bytes, n_padding, n_tensor_bytes, sum, file->n_bytes);
    const bool adds_up = sum == file->n_bytes;
    qn_gguf_close(model);
    return adds_up ? 0 : 1;
}
