/* provider_quench.c - libquench behind the provider interface.
 * argument: an upper limit of the instruction set ("avx2"); none: the best of this machine. */
#include "provider.h"

#include <stdio.h>
#include <stdlib.h>

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
#define FOR_EACH_TYPE(X)                                                                        \
    X(Q4_0)                                                                                     \
    X(Q4_1) X(Q5_0) X(Q5_1) X(Q8_0) X(Q8_1) X(Q2_K) X(Q3_K) X(Q4_K) X(Q5_K) X(Q6_K) X(Q8_K)     \
        X(IQ2_XXS) X(IQ2_XS) X(IQ3_XXS) X(IQ1_S) X(IQ4_NL) X(IQ3_S) X(IQ2_S) X(IQ4_XS) X(IQ1_M) \
            X(TQ1_0) X(TQ2_0) X(MXFP4) X(NVFP4) X(Q1_0) X(Q2_0) X(F16) X(BF16)

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
