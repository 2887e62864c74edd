/* 07_transcode.c IN.gguf OUT.gguf — f16 to q8_0 in bounded memory, over the public API alone.
 *
 * The table of contents of the output is known before its first byte: every type and size follows
 * from the input's. So the tensors are declared, the header is written, and the data follow row by
 * row, in order; nothing larger than a row is ever held. Eligible are matrices named *.weight
 * without "norm" whose rows are whole q8_0 blocks; all else keeps its bytes. The output is that of
 *     quench export --from-gguf IN.gguf --out OUT.gguf --dtype q8_0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "quench/quench.h"

#define PEAK_LIMIT_KIB (32 * 1024)

static void must(qn_status st, const qn_error *err)
{
    if (st != QN_OK) {
        fprintf(stderr, "07_transcode: %s: %s\n", err->path, err->message);
        exit(1);
    }
}

static void *must_have(void *memory)
{
    if (!memory) {
        fprintf(stderr, "07_transcode: no memory\n");
        exit(1);
    }
    return memory;
}

static int is_eligible(const qn_tensor_info *t)
{
    const char *dot = strrchr(t->name, '.');
    return t->n_dims >= 2 && dot && strcmp(dot, ".weight") == 0 && !strstr(t->name, "norm") &&
           (t->dtype == QN_DTYPE_F32 || t->dtype == QN_DTYPE_F16 || t->dtype == QN_DTYPE_BF16) &&
           t->ne[0] % qn_dtype_block_elems(QN_DTYPE_Q8_0) == 0;
}

static qn_status put(void *ctx, const void *bytes, size_t n_bytes, qn_error *err)
{
    (void)err;
    return fwrite(bytes, 1, n_bytes, ctx) == n_bytes ? QN_OK : QN_ERR_IO;
}

/* One tensor, row by row. */
static void convert(const qn_model *model, int64_t index, qn_gguf_stream *stream)
{
    const qn_tensor_info *t = qn_model_tensor(model, index);
    qn_error err = QN_ERROR_INIT;
    int64_t n_in, n_out;
    must(qn_dtype_row_bytes(t->dtype, t->ne[0], &n_in, &err), &err);
    must(qn_dtype_row_bytes(QN_DTYPE_Q8_0, t->ne[0], &n_out, &err), &err);
    uint8_t *in = must_have(malloc((size_t)n_in));
    uint8_t *out = must_have(malloc((size_t)n_out));
    float *row = must_have(malloc((size_t)t->ne[0] * sizeof *row));
    for (int64_t at = 0; at < t->n_bytes; at += n_in) {
        must(qn_model_read(model, index, at, (size_t)n_in, in, &err), &err);
        must(qn_decode(t->dtype, in, t->ne[0], row, &err), &err);
        must(qn_encode_rows(QN_DTYPE_Q8_0, row, 1, t->ne[0], NULL, NULL, out, n_out, &err), &err);
        must(qn_gguf_stream_write_part(stream, out, n_out, &err), &err);
    }
    free(row);
    free(out);
    free(in);
}

static void copy(const qn_model *model, int64_t index, qn_gguf_stream *stream)
{
    static uint8_t piece[64 * 1024];
    const qn_tensor_info *t = qn_model_tensor(model, index);
    qn_error err = QN_ERROR_INIT;
    const int64_t n_block = qn_dtype_block_bytes(t->dtype);
    const int64_t n_piece = (int64_t)sizeof piece / n_block * n_block;
    for (int64_t at = 0; at < t->n_bytes; at += n_piece) {
        const int64_t n = t->n_bytes - at < n_piece ? t->n_bytes - at : n_piece;
        must(qn_model_read(model, index, at, (size_t)n, piece, &err), &err);
        must(qn_gguf_stream_write_part(stream, piece, n, &err), &err);
    }
}

static qn_gguf_writer *declare(const qn_model *model)
{
    qn_gguf_writer *writer = NULL;
    qn_error err = QN_ERROR_INIT;
    must(qn_gguf_writer_new(NULL, &writer, &err), &err);
    must(qn_gguf_writer_copy_all(writer, qn_model_metadata(model), NULL, 0, &err), &err);
    must(qn_gguf_writer_set_u32(writer, "general.file_type", 7, &err), &err);
    must(qn_gguf_writer_set_u32(writer, "general.quantization_version", 2, &err), &err);
    for (int64_t i = 0; i < qn_model_n_tensors(model); i++) {
        const qn_tensor_info *t = qn_model_tensor(model, i);
        must(qn_gguf_writer_declare(writer, t->name, t->n_name,
                                    is_eligible(t) ? QN_DTYPE_Q8_0 : t->dtype, t->ne, t->n_dims,
                                    &err),
             &err);
    }
    return writer;
}

int main(int argc, char **argv)
{
    qn_model *model = NULL;
    qn_gguf_stream *stream = NULL;
    qn_error err = QN_ERROR_INIT;
    struct rusage usage;
    if (argc != 3) {
        fprintf(stderr, "usage: 07_transcode IN.gguf OUT.gguf\n");
        return 2;
    }
    must(qn_model_open(argv[1], NULL, &model, &err), &err);
    FILE *out = must_have(fopen(argv[2], "wb"));
    qn_gguf_writer *writer = declare(model);
    must(qn_gguf_stream_begin(writer, put, out, &stream, &err), &err);
    for (int64_t i = 0; i < qn_model_n_tensors(model); i++) {
        if (is_eligible(qn_model_tensor(model, i))) {
            convert(model, i, stream);
        } else {
            copy(model, i, stream);
        }
    }
    must(qn_gguf_stream_finish(stream, &err), &err);
    qn_gguf_stream_free(stream);
    qn_gguf_writer_free(writer);
    qn_model_close(model);
    (void)getrusage(RUSAGE_SELF, &usage);
    printf("peak resident memory: %ld KiB\n", usage.ru_maxrss);
    return fclose(out) == 0 && usage.ru_maxrss <= PEAK_LIMIT_KIB ? 0 : 1;
}
