/* provider.h - what a library must offer to be measured by the harnesses.
 *
 * A provider is a small shared object exporting
 *     const bench_provider *bench_provider_get(const char *arg);
 * It wraps one library (ggml, ik_llama.cpp's ggml, quench) behind plain function pointers, so that
 * every harness can run two libraries in one process, alternating repetitions (A B A B ...), which
 * is the only fair way on a shared machine. Any pointer may be NULL: that measurement is skipped.
 * Types are named as in GGUF files, lower case: q4_0, q4_K, iq4_nl, mxfp4, f16, bf16, ... */
#ifndef BENCH_PROVIDER_H
#define BENCH_PROVIDER_H
#include <stddef.h>
#include <stdint.h>

typedef void (*bp_vec_dot_fn)(int n, float *s, size_t bs, const void *x, size_t bx, const void *y,
                              size_t by, int nrc);
typedef void (*bp_quant_row_fn)(const float *x, void *y, int64_t k);
typedef void (*bp_dequant_row_fn)(const void *x, float *y, int64_t k);

typedef struct bench_provider {
    const char *name;
    int (*type_id)(const char *type); /* -1: not known here */
    const char *(*type_name)(int id);
    int64_t (*block)(int id); /* elements per block */
    size_t (*row_bytes)(int id, int64_t n);
    /* encoders / decoders (file formats) */
    int (*needs_imatrix)(int id);
    size_t (*encode)(int id, const float *src, void *dst, int64_t nrows, int64_t n_per_row,
                     const float *imatrix);
    bp_dequant_row_fn (*decoder)(int id);
    /* compute kernels */
    int (*act_type)(int id); /* activation type used with weights of type id */
    bp_quant_row_fn (*act_quantizer)(int act_id);
    bp_vec_dot_fn (*vec_dot)(int id);
    /* matmul: y[M][N] = x[M][K] * w[N][K]^T; packed = 1 asks for the library's repacked layout.
     * copies: how many distinct copies of the weights to keep and cycle through (cold weights).
     * Returns NULL when this type / layout is not offered. */
    void *(*mm_new)(int id, const void *w, int64_t N, int64_t K, int64_t M, int packed, int threads,
                    int copies);
    int (*mm_run)(void *h, int which); /* one multiplication with copy number `which` */
    void (*mm_set_x)(void *h, const float *x);
    const float *(*mm_y)(void *h, int which);
    void (*mm_free)(void *h);
    /* opening files: mode 0 = metadata only, mode 1 = also the library's tensor objects */
    void *(*gguf_open)(const char *path, int mode);
    int64_t (*gguf_count)(void *h, int64_t *n_kv);
    int64_t (*gguf_find)(void *h, const char *name); /* index of a tensor, -1 */
    void (*gguf_close)(void *h);
    /* of a product: the gradient dx[M][K] = dy[M][N] * w[N][K], and packing copy `which` once more
     */
    void (*mm_set_dy)(void *h, const float *dy);
    int (*mm_grad)(void *h, int which);
    const float *(*mm_dx)(void *h);
    int (*mm_pack)(void *h, int which);
} bench_provider;

typedef const bench_provider *(*bench_provider_get_fn)(const char *arg);
#endif
