/* 03_round_trip.c [MODEL.gguf] — read a file, write it again, compare every byte.
 *
 * Exercise 3 of the book: all metadata copied verbatim, every tensor added again as the directory
 * has it, ne order and all. Without an argument it makes a file to try it on. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "quench/quench.h"

static void must(qn_status st, const qn_error *err)
{
    if (st != QN_OK) {
        fprintf(stderr, "03_round_trip: %s\n", err->message);
        exit(1);
    }
}

static void write_small_model(const char *path)
{
    static const int8_t codes[7] = {1, -2, 3, -4, 5, -6, 7};
    static const float values[6] = {1, 2, 3, 4, 5, 6};
    const int64_t ne_codes[] = {7};
    const int64_t ne_values[] = {3, 2};
    qn_error err = QN_ERROR_INIT;
    qn_gguf_writer *w = NULL;
    must(qn_gguf_writer_new(NULL, &w, &err), &err);
    must(qn_gguf_writer_set_string(w, "general.name", "demo", 4, &err), &err);
    must(qn_gguf_writer_set_u32(w, "demo.heads", 8, &err), &err);
    must(qn_gguf_writer_set_f64(w, "demo.theta", 1e4, &err), &err);
    must(qn_gguf_writer_add(w, "codes", 5, QN_DTYPE_I8, ne_codes, 1, codes, sizeof codes, &err),
         &err);
    must(qn_gguf_writer_add(w, "w", 1, QN_DTYPE_F32, ne_values, 2, values, sizeof values, &err),
         &err);
    must(qn_gguf_writer_finish_path(w, path, &err), &err);
    qn_gguf_writer_free(w);
}

int main(int argc, char **argv)
{
    const char *path = argc > 1 ? argv[1] : "03_round_trip.gguf";
    qn_error err = QN_ERROR_INIT;
    qn_gguf *model = NULL;
    qn_gguf_writer *w = NULL;
    if (argc <= 1) {
        write_small_model(path);
    }
    must(qn_gguf_open(path, NULL, &model, &err), &err);
    must(qn_gguf_writer_new(NULL, &w, &err), &err);
    /* byte for byte, widths kept: a widening getter would lose whether it was a u32 or a u64 */
    must(qn_gguf_writer_copy_all(w, model, NULL, 0, &err), &err);
    for (int64_t i = 0; i < qn_gguf_n_tensors(model); i++) {
        const qn_tensor_info *info = qn_gguf_tensor(model, i);
        must(qn_gguf_writer_add(w, info->name, info->n_name, info->dtype, info->ne, info->n_dims,
                                info->data, info->n_bytes, &err),
             &err);
    }
    const void *bytes = NULL;
    int64_t n_bytes = 0;
    must(qn_gguf_writer_finish(w, &bytes, &n_bytes, &err),
         &err); /* tensor data are still borrowed */
    const bool is_same = n_bytes == qn_gguf_n_bytes(model) &&
                         memcmp(bytes, qn_gguf_bytes(model, 0), (size_t)n_bytes) == 0;
    printf("%s: %" PRId64 " bytes, %s\n", path, n_bytes,
           is_same ? "byte-identical" : "not the same bytes");
    qn_gguf_writer_free(w);
    qn_gguf_close(model);
    return is_same ? 0 : 1;
}
