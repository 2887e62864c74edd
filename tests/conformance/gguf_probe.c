/* gguf_probe.c — open a file, look at everything in it, print its warnings: the smallest program
 * that a hostile file meets. Exit 0 accepted, 1 refused (one line on stderr), 2 bad usage.
 * usage: gguf_probe [--strict|--heap|--int64|--parse|--damaged] FILE */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "quench/gguf.h"

static uint64_t sum_bytes(const void *bytes, int64_t n)
{
    const uint8_t *p = bytes;
    uint64_t sum = 0;
    for (int64_t i = 0; p && i < n; i++) {
        sum += p[i];
    }
    return sum;
}

/* Every element of an array, by iteration and a few by index. */
static uint64_t look_at_array(const qn_gguf_array *array, int depth)
{
    uint64_t sum = 0;
    qn_gguf_array_iter iter = {0, 0};
    qn_gguf_value value;
    while (qn_gguf_array_next(array, &iter, &value)) {
        if (value.kind == QN_GGUF_KIND_STRING) {
            sum += sum_bytes(value.as_string.bytes, value.as_string.n_bytes);
        } else if (value.kind == QN_GGUF_KIND_ARRAY && depth < QN_GGUF_MAX_DEPTH) {
            sum += look_at_array(&value.as_array, depth + 1);
        }
    }
    for (int64_t i = array->n_elems - 1; i >= 0 && i > array->n_elems - 4; i--) {
        sum += qn_gguf_array_at(array, i, &value, NULL) == QN_OK;
    }
    return sum;
}

static uint64_t look_at(const qn_gguf *gguf)
{
    uint64_t sum = 0;
    for (int64_t i = 0; i < qn_gguf_n_entries(gguf); i++) {
        const qn_gguf_entry *entry = qn_gguf_entry_at(gguf, i);
        qn_gguf_value value;
        sum += sum_bytes(entry->key, entry->n_key) + sum_bytes(entry->bytes, entry->n_bytes);
        if (qn_gguf_value_at(gguf, i, &value, NULL) == QN_OK && value.kind == QN_GGUF_KIND_ARRAY) {
            sum += look_at_array(&value.as_array, 1);
        }
        sum += qn_gguf_find_entry(gguf, entry->key, entry->n_key) != i;
    }
    for (int64_t i = 0; i < qn_gguf_n_tensors(gguf); i++) {
        const qn_tensor_info *info = qn_gguf_tensor(gguf, i);
        sum += sum_bytes(info->name, info->n_name);
        if (info->data && info->n_bytes > 0) {
            const uint8_t *data = info->data;
            sum += (uint64_t)data[0] + data[info->n_bytes - 1];
        }
        sum += qn_gguf_find_tensor(gguf, info->name, info->n_name) != i;
    }
    return sum;
}

static int fail(const char *path, const qn_error *err)
{
    (void)fprintf(stderr, "gguf_probe: %s: %s: %s\n", err->path[0] ? err->path : path,
                  qn_status_name(err->status), err->message);
    return 1;
}

static void *read_file(const char *path, long *out_n)
{
    FILE *file = fopen(path, "rb");
    void *bytes = NULL;
    if (file && fseek(file, 0, SEEK_END) == 0 && (*out_n = ftell(file)) >= 0 &&
        fseek(file, 0, SEEK_SET) == 0) {
        bytes = malloc(*out_n > 0 ? (size_t)*out_n : 1);
        if (bytes && fread(bytes, 1, (size_t)*out_n, file) != (size_t)*out_n) {
            free(bytes);
            bytes = NULL;
        }
    }
    if (file) {
        (void)fclose(file);
    }
    return bytes;
}

int main(int argc, char **argv)
{
    qn_gguf_options options = QN_GGUF_OPTIONS_INIT;
    bool is_parse = false;
    int at = 1;
    for (; at < argc && strncmp(argv[at], "--", 2) == 0; at++) {
        options.strict |= strcmp(argv[at], "--strict") == 0;
        options.int64_only |= strcmp(argv[at], "--int64") == 0;
        options.keep_damaged |= strcmp(argv[at], "--damaged") == 0;
        options.mode = strcmp(argv[at], "--heap") == 0 ? QN_GGUF_HEAP : options.mode;
        is_parse |= strcmp(argv[at], "--parse") == 0;
    }
    if (at + 1 != argc) {
        (void)fprintf(stderr, "usage: gguf_probe [OPTIONS] FILE\n");
        return 2;
    }
    qn_error err = QN_ERROR_INIT;
    qn_gguf *gguf = NULL;
    qn_status st = QN_OK;
    if (is_parse) {
        long n = 0;
        void *bytes = read_file(argv[at], &n);
        if (!bytes) {
            (void)fprintf(stderr, "gguf_probe: %s: cannot read\n", argv[at]);
            return 2;
        }
        st = qn_gguf_parse_owned(bytes, n, &options, &gguf, &err);
        if (st != QN_OK) {
            free(bytes);
        }
    } else {
        st = qn_gguf_open(argv[at], &options, &gguf, &err);
    }
    if (st != QN_OK) {
        return fail(argv[at], &err);
    }
    qn_gguf_report *report = NULL;
    if (qn_gguf_lint(gguf, true, &report, &err) != QN_OK) {
        qn_gguf_close(gguf);
        return fail(argv[at], &err);
    }
    for (int64_t i = 0; i < qn_gguf_report_n(report); i++) {
        const qn_gguf_warning *warning = qn_gguf_report_at(report, i);
        printf("warning %d (%" PRId64 "): %s\n", (int)warning->code, warning->n_found,
               warning->message);
    }
    printf("%" PRId64 " tensors, %" PRId64 " entries, sum %" PRIu64 "\n", qn_gguf_n_tensors(gguf),
           qn_gguf_n_entries(gguf), look_at(gguf));
    qn_gguf_report_free(report);
    qn_gguf_close(gguf);
    return 0;
}
