/* provider_quench.c - libquench behind the provider interface.
 * argument: an upper limit of the instruction set ("avx2"); none: the best of this machine. */
#include "provider.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "quench/quench.h"

static qn_isa isa = QN_ISA_BEST;

static void must(qn_status status, const qn_error *err)
{
    if (status != QN_OK) {
        fprintf(stderr, "quench: %s\n", err->message);
        exit(1);
    }
}

static int type_id(const char *name)
{
    return (int)qn_dtype_from_name(name);
}

static const char *type_name(int id)
{
    return qn_dtype_name((qn_dtype)id);
}

static int64_t block(int id)
{
    return qn_dtype_block_elems((qn_dtype)id);
}

static size_t row_bytes(int id, int64_t n)
{
    qn_error err = QN_ERROR_INIT;
    int64_t n_bytes = 0;
    must(qn_dtype_row_bytes((qn_dtype)id, n, &n_bytes, &err), &err);
    return (size_t)n_bytes;
}

static int needs_imatrix(int id)
{
    return qn_dtype_weights_use((qn_dtype)id) == QN_WEIGHTS_REQUIRED;
}

static size_t encode(int id, const float *src, void *dst, int64_t n_rows, int64_t n_per_row,
                     const float *imatrix)
{
    qn_error err = QN_ERROR_INIT;
    qn_encode_options options = QN_ENCODE_OPTIONS_INIT;
    options.isa = isa;
    options.allow_overflow = true;
    const int64_t n_bytes = n_rows * (int64_t)row_bytes(id, n_per_row);
    must(
        qn_encode_rows((qn_dtype)id, src, n_rows, n_per_row, imatrix, &options, dst, n_bytes, &err),
        &err);
    return (size_t)n_bytes;
}

/* The interface gives a decoder and an activation quantizer no type: one function for each. */
/* clang-format off */
#define FOR_EACH_TYPE(X)                                                            \
    X(Q4_0) X(Q4_1) X(Q5_0) X(Q5_1) X(Q8_0) X(Q8_1) X(Q2_K) X(Q3_K) X(Q4_K) X(Q5_K) \
    X(Q6_K) X(Q8_K) X(IQ2_XXS) X(IQ2_XS) X(IQ3_XXS) X(IQ1_S) X(IQ4_NL) X(IQ3_S)     \
    X(IQ2_S) X(IQ4_XS) X(IQ1_M) X(TQ1_0) X(TQ2_0) X(MXFP4) X(NVFP4) X(Q1_0) X(Q2_0) \
    X(F16) X(BF16)
/* clang-format on */

static void decode_row(qn_dtype dtype, const void *x, float *y, int64_t k)
{
    qn_error err = QN_ERROR_INIT;
    must(qn_decode_isa(dtype, isa, x, k / qn_dtype_block_elems(dtype), y, &err), &err);
}

#define QUANT_ROW(name)                                             \
    static void decode_##name(const void *x, float *y, int64_t k)   \
    {                                                               \
        decode_row(QN_DTYPE_##name, x, y, k);                       \
    }                                                               \
    static void quantize_##name(const float *x, void *y, int64_t k) \
    {                                                               \
        (void)encode(QN_DTYPE_##name, x, y, 1, k, NULL);            \
    }
FOR_EACH_TYPE(QUANT_ROW)

static bp_dequant_row_fn decoder(int id)
{
    switch (id) {
#define DECODER_OF(name)  \
    case QN_DTYPE_##name: \
        return decode_##name;
        FOR_EACH_TYPE(DECODER_OF)
    default:
        return NULL;
    }
}

static bp_quant_row_fn act_quantizer(int id)
{
    switch (id) {
#define QUANTIZER_OF(name) \
    case QN_DTYPE_##name:  \
        return quantize_##name;
        FOR_EACH_TYPE(QUANTIZER_OF)
    default:
        return NULL;
    }
}

static int act_type(int id)
{
    return (int)qn_dtype_partner((qn_dtype)id);
}

/* --- products ------------------------------------------------------------------------------------
 */

typedef struct product {
    qn_compute *compute;
    int n_copies;
    qn_rhs *w; /* n_copies */
    qn_packed **packed;
    float **y;
    float *x;
    float *dy; /* NULL until a gradient is asked for */
    float *dx;
    int64_t n_rows;
} product;

static void *must_alloc(size_t n_bytes)
{
    void *p = aligned_alloc(64, (n_bytes + 63) / 64 * 64);
    if (!p) {
        fprintf(stderr, "no memory for %zu bytes\n", n_bytes);
        exit(1);
    }
    memset(p, 0, n_bytes);
    return p;
}

static void *mm_new(int id, const void *w, int64_t n_out, int64_t n_in, int64_t n_rows, int packed,
                    int n_threads, int n_copies)
{
    qn_error err = QN_ERROR_INIT;
    qn_compute_options options = QN_COMPUTE_OPTIONS_INIT;
    if (qn_activation_dtype((qn_dtype)id) == QN_DTYPE_NONE) {
        return NULL;
    }
    options.n_threads = n_threads;
    options.isa = isa;
    options.round_bf16 = true; /* as the peer */
    product *p = must_alloc(sizeof *p);
    must(qn_compute_new(&options, &p->compute, &err), &err);
    p->n_copies = n_copies;
    p->n_rows = n_rows;
    p->w = must_alloc((size_t)n_copies * sizeof *p->w);
    p->packed = must_alloc((size_t)n_copies * sizeof *p->packed);
    p->y = must_alloc((size_t)n_copies * sizeof *p->y);
    p->x = must_alloc((size_t)(n_rows * n_in) * sizeof *p->x);
    for (int i = 0; i < n_copies; i++) {
        const int64_t n_bytes = n_out * (int64_t)row_bytes(id, n_in);
        void *data = must_alloc((size_t)n_bytes);
        memcpy(data, w, (size_t)n_bytes);
        p->w[i] = (qn_rhs){(qn_dtype)id, n_out, n_in, data, n_bytes, QN_RHS_TRANSIENT};
        p->y[i] = must_alloc((size_t)(n_rows * n_out) * sizeof *p->y[i]);
        if (packed) {
            must(qn_pack(p->compute, &p->w[i], QN_LAYOUT_DEFAULT, &p->packed[i], &err), &err);
        }
    }
    return p;
}

static int mm_run(void *handle, int which)
{
    qn_error err = QN_ERROR_INIT;
    product *p = handle;
    const int i = which % p->n_copies;
    must(p->packed[i] ? qn_matmul_packed(p->compute, p->packed[i], p->x, p->n_rows, p->y[i], &err)
                      : qn_matmul(p->compute, &p->w[i], p->x, p->n_rows, p->y[i], &err),
         &err);
    return 0;
}

static void mm_set_x(void *handle, const float *x)
{
    product *p = handle;
    memcpy(p->x, x, (size_t)(p->n_rows * p->w[0].n_in) * sizeof *x);
}

static const float *mm_y(void *handle, int which)
{
    const product *p = handle;
    return p->y[which % p->n_copies];
}

static void mm_set_dy(void *handle, const float *dy)
{
    product *p = handle;
    const size_t n_dy = (size_t)(p->n_rows * p->w[0].n_out);
    if (!p->dy) {
        p->dy = must_alloc(n_dy * sizeof *dy);
        p->dx = must_alloc((size_t)(p->n_rows * p->w[0].n_in) * sizeof *p->dx);
    }
    memcpy(p->dy, dy, n_dy * sizeof *dy);
}

static int mm_grad(void *handle, int which)
{
    qn_error err = QN_ERROR_INIT;
    product *p = handle;
    must(qn_matmul_grad(p->compute, &p->w[which % p->n_copies], p->dy, p->n_rows, p->dx, &err),
         &err);
    return 0;
}

static const float *mm_dx(void *handle)
{
    const product *p = handle;
    return p->dx;
}

static int mm_pack(void *handle, int which)
{
    qn_error err = QN_ERROR_INIT;
    product *p = handle;
    const int i = which % p->n_copies;
    qn_packed_free(p->packed[i]);
    must(qn_pack(p->compute, &p->w[i], QN_LAYOUT_DEFAULT, &p->packed[i], &err), &err);
    return 0;
}

static void mm_free(void *handle)
{
    product *p = handle;
    for (int i = 0; i < p->n_copies; i++) {
        free((void *)(uintptr_t)p->w[i].data);
        free(p->y[i]);
        qn_packed_free(p->packed[i]);
    }
    qn_compute_free(p->compute);
    free(p->w);
    free(p->packed);
    free(p->y);
    free(p->x);
    free(p->dy);
    free(p->dx);
    free(p);
}

/* --- files --- */

/* Opening has no two modes: the table of contents is all there is. */
static void *open_file(const char *path, int mode)
{
    (void)mode;
    qn_error err = QN_ERROR_INIT;
    qn_gguf *gguf = NULL;
    if (qn_gguf_open(path, NULL, &gguf, &err) != QN_OK) {
        fprintf(stderr, "quench: %s: %s\n", path, err.message);
    }
    return gguf;
}

static int64_t count_tensors(void *handle, int64_t *out_n_keys)
{
    const qn_gguf *gguf = handle;
    if (out_n_keys) {
        *out_n_keys = qn_gguf_n_entries(gguf);
    }
    return qn_gguf_n_tensors(gguf);
}

static int64_t find_tensor(void *handle, const char *name)
{
    return qn_gguf_find_tensor(handle, name, (int64_t)strlen(name));
}

static void close_file(void *handle)
{
    qn_gguf_close(handle);
}

static bench_provider provider = {
    .name = "quench",
    .type_id = type_id,
    .type_name = type_name,
    .block = block,
    .row_bytes = row_bytes,
    .needs_imatrix = needs_imatrix,
    .encode = encode,
    .decoder = decoder,
    .act_type = act_type,
    .act_quantizer = act_quantizer,
    .mm_new = mm_new,
    .mm_run = mm_run,
    .mm_set_x = mm_set_x,
    .mm_y = mm_y,
    .mm_free = mm_free,
    .mm_set_dy = mm_set_dy,
    .mm_grad = mm_grad,
    .mm_dx = mm_dx,
    .mm_pack = mm_pack,
    .gguf_open = open_file,
    .gguf_count = count_tensors,
    .gguf_find = find_tensor,
    .gguf_close = close_file,
};

__attribute__((visibility("default"))) const bench_provider *bench_provider_get(const char *arg)
{
    static char name[64] = "quench";
    qn_error err = QN_ERROR_INIT;
    if (arg) {
        must(qn_isa_from_name(arg, &isa, &err), &err);
        (void)snprintf(name, sizeof name, "quench-%s", qn_isa_name(isa));
    }
    provider.name = name;
    return &provider;
}
