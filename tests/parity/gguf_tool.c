/* gguf_tool.c — the gguf room as a filter, for comparing with other programs.
 *   describe IN             everything in it, one fact a line, in the notation of gguf_files.py
 *   canonical IN OUT        rewritten in ggml's layout
 *   lossless IN OUT         repeated to the byte
 *   typed IN OUT            built anew through the typed setters, data streamed
 *   split IN PREFIX N       shards of N tensors */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "quench/gguf.h"

static void must(qn_status status, const qn_error *err)
{
    if (status != QN_OK) {
        (void)fprintf(stderr, "gguf_tool: %s: %s\n", qn_status_name(status), err->message);
        exit(1);
    }
}

static void print_hex(const void *bytes, int64_t n)
{
    const uint8_t *p = bytes;
    for (int64_t i = 0; i < n; i++) {
        printf("%02x", p[i]);
    }
}

/* A sum that depends on places, which is one line of numpy. */
static uint64_t digest(const void *bytes, int64_t n)
{
    const uint8_t *p = bytes;
    uint64_t sum = 0;
    for (int64_t i = 0; i < n; i++) {
        sum += p[i] * ((uint64_t)i * 0x9E3779B97F4A7C15u + 1);
    }
    return sum;
}

static void print_value(const qn_gguf_value *value, int depth)
{
    uint64_t bits = 0;
    qn_gguf_array_iter iter = {0, 0};
    qn_gguf_value elem;
    switch (value->kind) {
    case QN_GGUF_KIND_INT:
        if (value->type == QN_GGUF_U64) {
            printf("%" PRIu64, (uint64_t)value->as_int);
        } else {
            printf("%" PRId64, value->as_int);
        }
        return;
    case QN_GGUF_KIND_FLOAT:
        memcpy(&bits, &value->as_float, sizeof bits);
        printf("f%016" PRIx64, bits);
        return;
    case QN_GGUF_KIND_BOOL:
        printf(value->as_bool ? "true" : "false");
        return;
    case QN_GGUF_KIND_STRING:
        printf("s");
        print_hex(value->as_string.bytes, value->as_string.n_bytes);
        return;
    case QN_GGUF_KIND_ARRAY:
        printf("[%s", qn_gguf_type_name(value->as_array.elem_type));
        while (depth < QN_GGUF_MAX_DEPTH && qn_gguf_array_next(&value->as_array, &iter, &elem)) {
            printf(" ");
            print_value(&elem, depth + 1);
        }
        printf("]");
        return;
    }
}

static void describe(const qn_gguf *gguf)
{
    qn_error err = QN_ERROR_INIT;
    for (int64_t i = 0; i < qn_gguf_n_entries(gguf); i++) {
        const qn_gguf_entry *entry = qn_gguf_entry_at(gguf, i);
        qn_gguf_value value;
        printf("kv ");
        print_hex(entry->key, entry->n_key);
        printf(" %s ", qn_gguf_type_name(entry->type));
        const qn_status st = qn_gguf_value_at(gguf, i, &value, &err);
        if (st == QN_ERR_METADATA_VALUE_OUT_OF_RANGE) { /* a u64 of 2^63 or more */
            char key[256] = "";
            memcpy(key, entry->key, (size_t)entry->n_key < 255 ? (size_t)entry->n_key : 255);
            uint64_t number = 0;
            must(qn_gguf_get_u64(gguf, key, &number, &err), &err);
            printf("%" PRIu64 "\n", number);
            continue;
        }
        must(st, &err);
        print_value(&value, 1);
        printf("\n");
    }
    for (int64_t i = 0; i < qn_gguf_n_tensors(gguf); i++) {
        const qn_tensor_info *info = qn_gguf_tensor(gguf, i);
        printf("tensor ");
        print_hex(info->name, info->n_name);
        printf(" %d [", (int)info->dtype);
        for (int32_t d = 0; d < info->n_dims; d++) {
            printf(d > 0 ? " %" PRId64 : "%" PRId64, info->ne[d]);
        }
        printf("] %016" PRIx64 "\n", digest(info->data, info->n_bytes));
    }
}

/* --- through the typed setters -----------------------------------------------------------------
 */

static void set_array(qn_gguf_writer *w, const char *key, const qn_gguf_array *array, qn_error *err)
{
    const size_t n = (size_t)array->n_elems;
    if (array->elem_type == QN_GGUF_STRING) {
        qn_gguf_string *strings = malloc((n + 1) * sizeof *strings);
        for (size_t i = 0; i < n; i++) {
            must(qn_gguf_array_string(array, (int64_t)i, &strings[i], err), err);
        }
        must(qn_gguf_writer_set_strings(w, key, strings, array->n_elems, err), err);
        free(strings);
        return;
    }
    void *elems = malloc((n + 1) * 8);
    must(qn_gguf_array_copy(array, array->elem_type, 0, array->n_elems, elems, err), err);
    must(qn_gguf_writer_set_array(w, key, array->elem_type, elems, array->n_elems, err), err);
    free(elems);
}

#define SET_TYPED(TYPE, name, c_type)                              \
    case QN_GGUF_##TYPE: {                                         \
        c_type number;                                             \
        must(qn_gguf_get_##name(gguf, key, &number, err), err);    \
        must(qn_gguf_writer_set_##name(w, key, number, err), err); \
        return;                                                    \
    }

static void set_typed(qn_gguf_writer *w, const qn_gguf *gguf, const qn_gguf_entry *entry,
                      qn_error *err)
{
    char key[256] = "";
    memcpy(key, entry->key, (size_t)entry->n_key < 255 ? (size_t)entry->n_key : 255);
    qn_gguf_string text;
    qn_gguf_array array;
    switch (entry->type) {
        SET_TYPED(U8, u8, uint8_t)
        SET_TYPED(I8, i8, int8_t)
        SET_TYPED(U16, u16, uint16_t)
        SET_TYPED(I16, i16, int16_t)
        SET_TYPED(U32, u32, uint32_t)
        SET_TYPED(I32, i32, int32_t)
        SET_TYPED(U64, u64, uint64_t)
        SET_TYPED(I64, i64, int64_t)
        SET_TYPED(F32, f32, float)
        SET_TYPED(F64, f64, double)
        SET_TYPED(BOOL, bool, bool)
    case QN_GGUF_STRING:
        must(qn_gguf_get_string(gguf, key, &text, err), err);
        must(qn_gguf_writer_set_string(w, key, text.bytes, text.n_bytes, err), err);
        return;
    default:
        must(qn_gguf_get_array(gguf, key, &array, err), err);
        set_array(w, key, &array, err);
        return;
    }
}

static qn_status to_file(void *ctx, const void *bytes, size_t n_bytes, qn_error *err)
{
    if (fwrite(bytes, 1, n_bytes, ctx) != n_bytes) {
        if (err) {
            err->status = QN_ERR_IO;
        }
        return QN_ERR_IO;
    }
    return QN_OK;
}

static void write_typed(const qn_gguf *gguf, const char *path, qn_error *err)
{
    qn_gguf_writer *w = NULL;
    qn_gguf_stream *stream = NULL;
    must(qn_gguf_writer_new(NULL, &w, err), err);
    for (int64_t i = 0; i < qn_gguf_n_entries(gguf); i++) {
        set_typed(w, gguf, qn_gguf_entry_at(gguf, i), err);
    }
    for (int64_t i = 0; i < qn_gguf_n_tensors(gguf); i++) {
        const qn_tensor_info *info = qn_gguf_tensor(gguf, i);
        must(qn_gguf_writer_declare(w, info->name, info->n_name, info->dtype, info->ne,
                                    info->n_dims, err),
             err);
    }
    FILE *out = fopen(path, "wb");
    must(out ? QN_OK : QN_ERR_IO, err);
    must(qn_gguf_stream_begin(w, to_file, out, &stream, err), err);
    for (int64_t i = 0; i < qn_gguf_n_tensors(gguf); i++) {
        const qn_tensor_info *info = qn_gguf_tensor(gguf, i);
        must(qn_gguf_stream_write(stream, info->data, info->n_bytes, err), err);
    }
    must(qn_gguf_stream_finish(stream, err), err);
    must(fclose(out) == 0 ? QN_OK : QN_ERR_IO, err);
    qn_gguf_stream_free(stream);
    qn_gguf_writer_free(w);
}

int main(int argc, char **argv)
{
    qn_error err = QN_ERROR_INIT;
    qn_gguf *gguf = NULL;
    if (argc < 3) {
        (void)fprintf(stderr, "usage: gguf_tool describe|canonical|lossless|typed|split IN ...\n");
        return 2;
    }
    must(qn_gguf_open(argv[2], NULL, &gguf, &err), &err);
    if (strcmp(argv[1], "describe") == 0) {
        describe(gguf);
    } else if (strcmp(argv[1], "typed") == 0 && argc == 4) {
        write_typed(gguf, argv[3], &err);
    } else {
        qn_gguf_writer_options options = QN_GGUF_WRITER_OPTIONS_INIT;
        qn_gguf_writer *w = NULL;
        options.layout = strcmp(argv[1], "lossless") == 0 ? QN_GGUF_LOSSLESS : QN_GGUF_CANONICAL;
        must(qn_gguf_writer_from(gguf, &options, &w, &err), &err);
        if (strcmp(argv[1], "split") == 0 && argc == 5) {
            qn_gguf_split_options how = QN_GGUF_SPLIT_OPTIONS_INIT;
            qn_gguf_split *split = NULL;
            how.max_tensors = strtol(argv[4], NULL, 10);
            must(qn_gguf_split_new(w, &how, &split, &err), &err);
            must(qn_gguf_split_finish_paths(split, argv[3], &err), &err);
            qn_gguf_split_free(split);
        } else {
            must(argc == 4 ? qn_gguf_writer_finish_path(w, argv[3], &err) : QN_ERR_INVALID_ARGUMENT,
                 &err);
        }
        qn_gguf_writer_free(w);
    }
    qn_gguf_close(gguf);
    return 0;
}
