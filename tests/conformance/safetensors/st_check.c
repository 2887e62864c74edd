/* st_check.c — one safetensors file or index, opened in every way that the library has.
 *
 *     st_check [--header] FILE        --header: only as qn_safetensors_open() does
 *
 * Exit 0 if it is sound, 1 with a message if it is refused, 70 if the ways disagree: that is a
 * failure of the library whatever the file is. Reads every tensor's bytes once. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "quench/safetensors.h"

#define EXIT_DISAGREE 70

typedef qn_status (*open_fn)(const char *path, const qn_safetensors_options *options,
                             qn_safetensors **out_st, qn_error *err);

static void log_warning(void *ctx, qn_log_level level, const char *message)
{
    (void)ctx;
    (void)level;
    printf("warning: %s\n", message);
}

/* Every byte through both doors: the pointer and the copy. */
static void touch_tensors(const qn_safetensors *st)
{
    for (int64_t i = 0; i < qn_safetensors_n_tensors(st); i++) {
        qn_safetensors_tensor t;
        unsigned char piece[256];
        if (!qn_safetensors_tensor_at(st, i, &t) ||
            qn_safetensors_find(st, t.name, t.n_name) != i) {
            exit(EXIT_DISAGREE);
        }
        const int64_t n_piece =
            t.n_bytes < (int64_t)sizeof piece ? t.n_bytes : (int64_t)sizeof piece;
        const int64_t last = t.n_bytes - n_piece;
        if (qn_safetensors_read(st, i, last, (size_t)n_piece, piece, NULL) != QN_OK ||
            (t.data && memcmp((const char *)t.data + last, piece, (size_t)n_piece) != 0)) {
            exit(EXIT_DISAGREE);
        }
    }
}

static qn_status open_by(open_fn open, const char *path, qn_safetensors **out_st, qn_error *err)
{
    qn_safetensors_options options = QN_SAFETENSORS_OPTIONS_INIT;
    options.log = log_warning;
    const qn_status st = open(path, &options, out_st, err);
    if (st == QN_OK) {
        touch_tensors(*out_st);
    }
    return st;
}

static qn_status read_file(void *ctx, void *out, size_t n_bytes, size_t *out_n_read, qn_error *err)
{
    (void)err;
    *out_n_read = fread(out, 1, n_bytes, ctx);
    return QN_OK;
}

/* As a frame of a stream: the same but for what follows it. */
static qn_status read_as_frame(const char *path, qn_safetensors **out_st, qn_error *err)
{
    FILE *file = fopen(path, "rb");
    if (!file) {
        exit(EXIT_DISAGREE);
    }
    const qn_status st = qn_safetensors_read_prefix(read_file, file, NULL, out_st, err);
    const bool has_rest = fgetc(file) != EOF;
    (void)fclose(file);
    return st == QN_OK && has_rest ? QN_ERR_METADATA_INCOMPLETE_BUFFER : st;
}

/* The bytes alone, in a block of exactly their size. */
static qn_status parse_bytes(const char *path, qn_safetensors **out_st, qn_error *err)
{
    FILE *file = fopen(path, "rb");
    if (!file || fseek(file, 0, SEEK_END) != 0) {
        exit(EXIT_DISAGREE);
    }
    const long n_bytes = ftell(file);
    rewind(file);
    void *bytes = malloc(n_bytes > 0 ? (size_t)n_bytes : 1);
    if (!bytes || fread(bytes, 1, (size_t)n_bytes, file) != (size_t)n_bytes) {
        exit(EXIT_DISAGREE);
    }
    (void)fclose(file);
    const qn_status st = qn_safetensors_parse_owned(bytes, n_bytes, NULL, out_st, err);
    if (st != QN_OK) {
        free(bytes);
    }
    return st;
}

static void compare(const char *how, qn_status first, const qn_safetensors *a, qn_status second,
                    qn_safetensors *b)
{
    const bool is_same =
        (first == QN_OK) == (second == QN_OK) &&
        (first != QN_OK || qn_safetensors_n_tensors(a) == qn_safetensors_n_tensors(b));
    if (!is_same) {
        fprintf(stderr, "%s disagrees: %s, not %s\n", how, qn_status_name(second),
                qn_status_name(first));
        exit(EXIT_DISAGREE);
    }
    if (second == QN_OK) {
        touch_tensors(b);
    }
    qn_safetensors_close(b);
}

/* Every other way to open it gives the same. */
static void compare_all(const char *path, qn_status st, const qn_safetensors *first)
{
    qn_safetensors *other = NULL;
    qn_status second = open_by(qn_safetensors_load, path, &other, NULL);
    compare("load", st, first, second, other);
    second = open_by(qn_safetensors_load_mmap, path, &other, NULL);
    compare("load_mmap", st, first, second, other);
    if (first && qn_safetensors_is_sharded(first)) {
        return;
    }
    second = parse_bytes(path, &other, NULL);
    compare("parse", st, first, second, other);
    second = read_as_frame(path, &other, NULL);
    if (second == QN_ERR_METADATA_INCOMPLETE_BUFFER) {
        qn_safetensors_close(other);
        other = NULL;
    }
    compare("read_prefix", st, first, second, other);
}

int main(int argc, char **argv)
{
    const bool is_header_only = argc == 3 && strcmp(argv[1], "--header") == 0;
    if (argc != 2 + is_header_only) {
        fprintf(stderr, "usage: st_check [--header] FILE\n");
        return 2;
    }
    const char *path = argv[argc - 1];
    qn_safetensors *first = NULL;
    qn_error err = QN_ERROR_INIT;
    const qn_status st = open_by(qn_safetensors_open, path, &first, &err);
    if (!is_header_only) {
        compare_all(path, st, first);
    }
    qn_safetensors_close(first);
    if (st != QN_OK) {
        fprintf(stderr, "%s: %s: %s (byte %lld)\n", path, qn_status_name(st), err.message,
                (long long)err.offset);
    }
    return st == QN_OK ? 0 : 1;
}
