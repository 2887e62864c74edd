/* matmul.h — products of f32 activations with weights that stay quantized.
 *
 * y[M][N] = x[M][K] * w[N][K] transposed: row n of the weights is output column n, as ggml stores
 * them ("[out, in]"). All matrices are row-major and dense. Activations are quantized on the fly to
 * the type that belongs to the weights (qn_activation_dtype()); inside are integer products, f32
 * comes out. An element of y depends on its row of x and its row of w only: neither on M, nor on
 * threads, nor on how the work is cut. It may differ in the last bits between instruction sets.
 *
 * Activations that meet bf16 weights stay f32 unless qn_compute_options asks to round them to bf16:
 * then they do on every instruction set, and packed weights are multiplied by the processor's bf16
 * dot product where it has one.
 *
 * A row of x that holds a NaN or an infinity gives a row of NaN if the weights are quantized; with
 * f32, f16 and bf16 weights such values propagate as in f32 arithmetic. */
#ifndef QUENCH_MATMUL_H
#define QUENCH_MATMUL_H

#include "quench/dtype.h"
#include "quench/isa.h"
#include "quench/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Threads, scratch memory and the packed copies of products. One at a time per handle; several
 * handles may use the same weights at once. */
typedef struct qn_compute qn_compute;

/** How to compute. */
typedef struct qn_compute_options {
    size_t struct_size; /* sizeof(qn_compute_options) */
    int32_t n_threads;  /* 0: one per processor; 1: the caller's only */
    qn_isa isa;         /* upper limit of the instruction set; QN_ISA_BEST: none */
    int64_t
        n_cache_bytes; /* most bytes of packed copies of QN_RHS_STABLE_PROCESS weights; 0: none */
    const qn_allocator *allocator; /* NULL: malloc; must outlive the handle */
    bool round_bf16; /* round activations of bf16 weights to bf16, as ggml does: see below */
} qn_compute_options;

#define QN_COMPUTE_OPTIONS_INIT                                    \
    {                                                              \
        sizeof(qn_compute_options), 0, QN_ISA_BEST, 0, NULL, false \
    }

/** Start the threads. The caller owns *out_compute: qn_compute_free().
 * @return QN_OK; QN_ERR_INVALID_ARGUMENT; QN_ERR_OUT_OF_MEMORY; QN_ERR_IO (no thread) */
QN_API QN_NODISCARD qn_status qn_compute_new(const qn_compute_options *options,
                                             qn_compute **out_compute, qn_error *err);

/** End the threads, free scratch and packed copies. NULL does nothing. */
QN_API void qn_compute_free(qn_compute *compute);

/** Free all packed copies: call it before the bytes of a QN_RHS_STABLE_PROCESS weight change. */
QN_API void qn_compute_drop_cache(qn_compute *compute);

/** Bytes of packed copies held now. */
QN_API int64_t qn_compute_cache_bytes(const qn_compute *compute);

/** Seconds by the clock that making packed copies has taken since the handle was made. */
QN_API double qn_compute_cache_seconds(const qn_compute *compute);

/** What the caller promises about the bytes of a weight. */
typedef enum qn_rhs_lifetime {
    QN_RHS_TRANSIENT = 0,     /* nothing beyond the call: never copied, never remembered */
    QN_RHS_STABLE_PROCESS = 1 /* address and content stay until qn_compute_drop_cache() */
} qn_rhs_lifetime;

/** Weights where they lie: n_out rows of n_in elements. Plain values; the bytes are borrowed. */
typedef struct qn_rhs {
    qn_dtype dtype;
    int64_t n_out; /* N: rows, output columns */
    int64_t n_in;  /* K: a whole number of blocks */
    const void *data;
    int64_t n_bytes; /* exactly n_out times qn_dtype_row_bytes() */
    qn_rhs_lifetime lifetime;
} qn_rhs;

/** The type that activations are quantized to for weights of a type: q8_0, q8_1 or q8_K; f32 for
 * f32, f16 and bf16 weights, which are widened (see qn_compute_options.round_bf16); QN_DTYPE_NONE:
 * no product with this type. */
QN_API qn_dtype qn_activation_dtype(qn_dtype weights);

/** Quantize rows of activations: the codec's functions, threaded.
 *
 * @param compute      threads
 * @param weights      the type of the weights they will meet; a quantized type with products
 * @param x            n_rows * row_len floats; borrowed
 * @param n_rows       >= 0
 * @param row_len      a whole number of blocks of the weights' type
 * @param out          fills n_rows rows of blocks of qn_activation_dtype(weights)
 * @param n_out_bytes  exactly their size
 * @param err          filled on failure; may be NULL
 * @return QN_OK; QN_ERR_UNSUPPORTED_DTYPE; QN_ERR_INVALID_SHAPE; QN_ERR_INVALID_DATA_LENGTH;
 *         QN_ERR_NON_FINITE_VALUE; QN_ERR_INVALID_ARGUMENT; QN_ERR_OVERFLOW */
QN_API QN_NODISCARD qn_status qn_quantize_activations(qn_compute *compute, qn_dtype weights,
                                                      const float *x, int64_t n_rows,
                                                      int64_t row_len, void *out,
                                                      int64_t n_out_bytes, qn_error *err);

/** y = x * w transposed.
 *
 * @param compute  threads and scratch
 * @param w        the weights
 * @param x        n_rows * w->n_in floats; borrowed
 * @param n_rows   M >= 0; leading axes of x are flattened into it
 * @param y        fills n_rows * w->n_out floats; must overlap neither x nor the weights; contents
 *                 undefined on failure
 * @param err      filled on failure; may be NULL
 * @return QN_OK; QN_ERR_UNSUPPORTED_DTYPE; QN_ERR_INVALID_SHAPE; QN_ERR_INVALID_DATA_LENGTH;
 *         QN_ERR_INVALID_ARGUMENT; QN_ERR_OVERFLOW; QN_ERR_OUT_OF_MEMORY */
QN_API QN_NODISCARD qn_status qn_matmul(qn_compute *compute, const qn_rhs *w, const float *x,
                                        int64_t n_rows, float *y, qn_error *err);

/** A weight stored as a sum of planes (PTQTP: NAME.ptqtp0, NAME.ptqtp1, ...): the sum of the
 * planes' products, added in their order.
 *
 * @param compute   threads and scratch
 * @param planes    n_planes >= 1 weights of one shape
 * @param n_planes  how many
 * @param scratch   n_rows * n_out floats to work in, not needed with one plane; must not overlap y
 * @param y         as in qn_matmul()
 * @return as qn_matmul(); QN_ERR_INVALID_PLANE_SET (no plane); QN_ERR_SHAPE_MISMATCH */
QN_API QN_NODISCARD qn_status qn_matmul_planes(qn_compute *compute, const qn_rhs *planes,
                                               int32_t n_planes, const float *x, int64_t n_rows,
                                               float *scratch, float *y, qn_error *err);

/** The gradient of qn_matmul() with respect to x: dx = dy * w, with the weights widened to f32 tile
 * by tile (at most 8 MiB a thread) and nothing quantized.
 *
 * @param compute  threads and scratch
 * @param w        the weights
 * @param dy       n_rows * w->n_out floats; borrowed
 * @param n_rows   M >= 0
 * @param dx       fills n_rows * w->n_in floats; must overlap neither dy nor the weights
 * @param err      filled on failure; may be NULL
 * @return as qn_matmul() */
QN_API QN_NODISCARD qn_status qn_matmul_grad(qn_compute *compute, const qn_rhs *w, const float *dy,
                                             int64_t n_rows, float *dx, qn_error *err);

/** How packed weights lie in memory. */
typedef enum qn_layout {
    QN_LAYOUT_DEFAULT = 0, /* the one that suits type and processor best */
    QN_LAYOUT_ROWS = 1,    /* the rows of the file, each at a multiple of 64 bytes */
    QN_LAYOUT_TILES = 2,   /* 16 rows side by side, in planes of bits: the size of the file */
    /* blocks of a few rows side by side, levels in bytes but for QN_LAYOUT_Q4_KX8; each for one
     * type; products unpack them on the way */
    QN_LAYOUT_Q8_0X4 = 3,
    QN_LAYOUT_Q4_KX8 = 4,
    QN_LAYOUT_Q4_KX2MMLA = 5,
    QN_LAYOUT_Q5_KX8 = 6,
    QN_LAYOUT_Q6_KX4 = 7
} qn_layout;

/** Weights packed once for many products. Any thread. */
typedef struct qn_packed qn_packed;

/** Pack weights; the bytes of `w` are not needed afterwards. What it cost: qn_packed_bytes() and
 * qn_packed_seconds().
 *
 * @param compute     threads, which share the work; not needed afterwards
 * @param w           the weights
 * @param layout      which one
 * @param out_packed  the caller owns it: qn_packed_free()
 * @param err         filled on failure; may be NULL
 * @return as qn_matmul() */
QN_API QN_NODISCARD qn_status qn_pack(qn_compute *compute, const qn_rhs *w, qn_layout layout,
                                      qn_packed **out_packed, qn_error *err);

/** NULL does nothing. */
QN_API void qn_packed_free(qn_packed *packed);

/** Bytes that it takes. */
QN_API int64_t qn_packed_bytes(const qn_packed *packed);

/** Seconds by the clock that qn_pack() took, memory for it included. */
QN_API double qn_packed_seconds(const qn_packed *packed);

/** The layout that was chosen: never QN_LAYOUT_DEFAULT. */
QN_API qn_layout qn_packed_layout(const qn_packed *packed);

/** What is packed: type, n_out and n_in; data is NULL. */
QN_API qn_rhs qn_packed_shape(const qn_packed *packed);

/** As qn_matmul(), with packed weights. */
QN_API QN_NODISCARD qn_status qn_matmul_packed(qn_compute *compute, const qn_packed *w,
                                               const float *x, int64_t n_rows, float *y,
                                               qn_error *err);

#ifdef __cplusplus
}
#endif

#endif
