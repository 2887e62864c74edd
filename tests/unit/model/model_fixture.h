/* model_fixture.h — small models in a folder of their own, for the tests of the model room. */
#ifndef MODEL_FIXTURE_H
#define MODEL_FIXTURE_H

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "quench/codec.h"
#include "quench/gguf.h"
#include "quench/model.h"

#include "base/base.h"

#include <cmocka.h>

#define PATH_BYTES 512

typedef struct fixture_tensor {
    const char *name;
    qn_dtype dtype; /* f32 or f16 */
    int64_t ne[4];
    int32_t n_dims;
} fixture_tensor;

static inline const char *in_folder(const char *folder, const char *name, char *out)
{
    if (snprintf(out, PATH_BYTES, "%s/%s", folder, name) >= PATH_BYTES) {
        fail_msg("the path is too long");
    }
    return out;
}

static inline char *new_folder(char *folder)
{
    (void)snprintf(folder, PATH_BYTES, "model-test-XXXXXX");
    assert_non_null(mkdtemp(folder));
    return folder;
}

/* Number of files in a folder. */
static inline int count_files(const char *folder)
{
    DIR *dir = opendir(folder);
    assert_non_null(dir);
    int n = 0;
    for (const struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir)) {
        n += entry->d_name[0] != '.' || (entry->d_name[1] != '\0' && entry->d_name[1] != '.');
    }
    closedir(dir);
    return n;
}

static inline void remove_folder(const char *folder)
{
    DIR *dir = opendir(folder);
    assert_non_null(dir);
    char path[PATH_BYTES];
    for (const struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir)) {
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
            (void)unlink(in_folder(folder, entry->d_name, path));
        }
    }
    closedir(dir);
    assert_int_equal(rmdir(folder), 0);
}

static inline uint8_t *read_file(const char *path, int64_t *out_n_bytes)
{
    uint8_t *bytes;
    qn_error err = QN_ERROR_INIT;
    if (qni_file_read_all(path, NULL, INT64_MAX, &bytes, out_n_bytes, &err) != QN_OK) {
        fail_msg("%s: %s", path, err.message);
    }
    return bytes;
}

static inline void assert_same_files(const char *path_a, const char *path_b)
{
    int64_t n_a, n_b;
    uint8_t *a = read_file(path_a, &n_a);
    uint8_t *b = read_file(path_b, &n_b);
    assert_int_equal(n_a, n_b);
    assert_memory_equal(a, b, (size_t)n_a);
    qni_free(NULL, a, (size_t)n_a);
    qni_free(NULL, b, (size_t)n_b);
}

/* In place: n floats as a file has them, whatever the byte order of this machine. */
static inline void to_file_order(float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        qni_store_f32le(&x[i], x[i]);
    }
}

/* Values that are not all alike, from a small generator; element `bad_at` becomes infinite. */
static inline void *fixture_values(const fixture_tensor *t, int64_t n, uint64_t seed,
                                   int64_t bad_at)
{
    float *x = malloc((size_t)n * sizeof *x);
    uint16_t *half = malloc((size_t)n * sizeof *half);
    assert_true(x != NULL && half != NULL);
    uint64_t state = seed * 0x9E3779B97F4A7C15u + 1;
    for (int64_t i = 0; i < n; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        x[i] =
            ((float)(int32_t)(state >> 40) - 8388608.0f) / 8388608.0f * (i % 97 == 0 ? 4.0f : 0.3f);
    }
    if (t->dtype == QN_DTYPE_F32) {
        if (bad_at >= 0) {
            x[bad_at] = qni_f32_from_bits(0x7F800000u);
        }
        to_file_order(x, n);
        free(half);
        return x;
    }
    assert_int_equal(qn_encode_rows(QN_DTYPE_F16, x, 1, n, NULL, NULL, half, n * 2, NULL), QN_OK);
    if (bad_at >= 0) {
        qni_store_u16le(&half[bad_at], 0x7E00);
    }
    free(x);
    return half;
}

static inline int64_t elems_of(const fixture_tensor *t)
{
    int64_t n = 1;
    for (int32_t d = 0; d < t->n_dims; d++) {
        n *= t->ne[d];
    }
    return n;
}

/* Write a model; of tensor `bad_tensor` (-1: none) element `bad_at` is not finite. */
static inline void write_model(const char *path, const fixture_tensor *tensors, int n_tensors,
                               int bad_tensor, int64_t bad_at)
{
    qn_gguf_writer *writer;
    void *data[64];
    assert_true(n_tensors <= 64);
    assert_int_equal(qn_gguf_writer_new(NULL, &writer, NULL), QN_OK);
    assert_int_equal(qn_gguf_writer_set_string(writer, "general.architecture", "llama", 5, NULL),
                     QN_OK);
    assert_int_equal(qn_gguf_writer_set_u32(writer, "llama.block_count", 4, NULL), QN_OK);
    assert_int_equal(qn_gguf_writer_set_u32(writer, "general.file_type", 1, NULL), QN_OK);
    assert_int_equal(qn_gguf_writer_set_u32(writer, "llama.attention.head_count", 8, NULL), QN_OK);
    for (int i = 0; i < n_tensors; i++) {
        const fixture_tensor *t = &tensors[i];
        const int64_t n = elems_of(t);
        data[i] = fixture_values(t, n, (uint64_t)i + 1, i == bad_tensor ? bad_at : -1);
        qn_error err = QN_ERROR_INIT;
        if (qn_gguf_writer_add(writer, t->name, (int64_t)strlen(t->name), t->dtype, t->ne,
                               t->n_dims, data[i], n * qn_dtype_block_bytes(t->dtype),
                               &err) != QN_OK) {
            fail_msg("%s: %s", t->name, err.message);
        }
    }
    assert_int_equal(qn_gguf_writer_finish_path(writer, path, NULL), QN_OK);
    qn_gguf_writer_free(writer);
    for (int i = 0; i < n_tensors; i++) {
        free(data[i]);
    }
}

static inline qn_model *open_model(const char *path)
{
    qn_model *model;
    qn_error err = QN_ERROR_INIT;
    if (qn_model_open(path, NULL, &model, &err) != QN_OK) {
        fail_msg("%s: %s", path, err.message);
    }
    return model;
}

static inline qn_plan *plan_preset(const qn_model *model, const char *preset_name,
                                   const qn_quantize_options *base)
{
    const qn_preset *preset;
    qn_quantize_options options = QN_QUANTIZE_OPTIONS_INIT;
    options = base != NULL ? *base : options;
    assert_int_equal(qn_preset_from_name(preset_name, &preset, NULL), QN_OK);
    options.preset = preset->id;
    qn_plan *plan;
    qn_error err = QN_ERROR_INIT;
    if (qn_plan_quantize(model, &options, &plan, &err) != QN_OK) {
        fail_msg("%s: %s", preset_name, err.message);
    }
    return plan;
}

#endif
