/* kernels/kernels.h — pure functions on blocks: encode, decode, and what later joins them.
 *
 * A kernel allocates nothing, starts nothing, reports no error and never decides whether it may
 * run. kernels.def lists all of them; its rows make the prototypes below, the dispatch table, the
 * tests in tests/kernels and the answer of qn_kernel_at(). The scalar kernel of a format is the
 * referee: every faster one gives its bytes.
 *
 * To add a kernel: write it in scalar/, x86/ or arm/ (the file's suffix names the instruction set),
 * add its row to kernels.def and its file to CMakeLists.txt. To add an operation: its function
 * type and QNI_PROTO_ macro here, its row in operations.def. Start reading at scalar/q8_0.c. */
#ifndef QNI_KERNELS_H
#define QNI_KERNELS_H

#include "base/base.h"
#include "dtype/dtype.h"
#include "kernels/float_internal.h"

/* --- kinds of kernels --------------------------------------------------------------------------
 */

/* What an encoder met; the worst of all blocks is returned. Bytes are written in every case. */
typedef enum qni_encode_result {
    QNI_ENCODE_OK = 0,
    QNI_ENCODE_OVERFLOW = 1, /* a stored scale (or f16, bf16 value) is not finite: row validation
                                would refuse the block */
    QNI_ENCODE_ABORT = 2     /* the reference would abort the process; the bytes mean nothing */
} qni_encode_result;

/* Bytes of input that a caller hands over at a time when there is much of it. Encoders that memory
 * can hold back ask for the cache lines this far ahead, so that the next piece arrives while they
 * work on this one. */
#define QNI_ENCODE_PIECE_BYTES ((size_t)1 << 16)

struct qni_lattice; /* search tables of one lattice type; see qni_lattice_build() */

/* n_rows consecutive rows of row_len floats -> consecutive rows of blocks. row_len is a whole
 * number of blocks. weights: row_len importance weights shared by all rows, or NULL. tables: of the
 * type, for lattice types; else NULL. */
typedef qni_encode_result (*qni_encode_fn)(const float *x, int64_t n_rows, int64_t row_len,
                                           const float *weights, const struct qni_lattice *tables,
                                           void *out);
#define QNI_PROTO_encode(symbol)                                              \
    qni_encode_result symbol(const float *x, int64_t n_rows, int64_t row_len, \
                             const float *weights, const struct qni_lattice *tables, void *out)

/* Elements of n_blocks blocks as f16 or bf16, little-endian -> blocks, without importance weights.
 * False if one of the blocks is not plain: it holds an infinity or a NaN, or has a scale that
 * overflows or whose inverse does. The bytes mean nothing then; decode and encode do it. They are
 * also its referee: there is no scalar one. */
typedef bool (*qni_encode_16_fn)(const void *x, int64_t n_blocks, void *out);
#define QNI_PROTO_encode_from_f16(symbol)  bool symbol(const void *x, int64_t n_blocks, void *out)
#define QNI_PROTO_encode_from_bf16(symbol) bool symbol(const void *x, int64_t n_blocks, void *out)

/* n_blocks consecutive blocks -> floats. */
typedef void (*qni_decode_fn)(const void *blocks, int64_t n_blocks, float *out);
#define QNI_PROTO_decode(symbol) void symbol(const void *blocks, int64_t n_blocks, float *out)

/* n_blocks consecutive blocks -> f16 or bf16, little-endian: each float rounded on its way out, as
 * the encoders of those types round. There is no scalar one: decode and encode are its referee. */
typedef void (*qni_decode_16_fn)(const void *blocks, int64_t n_blocks, void *out);
#define QNI_PROTO_decode_f16(symbol)  void symbol(const void *blocks, int64_t n_blocks, void *out)
#define QNI_PROTO_decode_bf16(symbol) void symbol(const void *blocks, int64_t n_blocks, void *out)

/* A tile of products: y[c * y_stride + r] = sum over k of w[r][k] * a[c][k].
 * Rows of weights are blocks of the kernel's type, rows of activations blocks of its partner
 * (qni_dot_activation()); strides of both in bytes, y_stride in floats. Every output is the same
 * whatever tile it is computed in: results depend on neither threads nor the number of columns. */
typedef struct qni_dot_tile {
    const uint8_t *w;
    int64_t w_stride;
    int64_t n_rows;
    const uint8_t *a;
    int64_t a_stride;
    int64_t n_cols;
    int64_t n_elems; /* of a row: whole blocks of both types */
    float *y;
    int64_t y_stride;
} qni_dot_tile;

typedef void (*qni_dot_fn)(const qni_dot_tile *tile);
#define QNI_PROTO_dot(symbol) void symbol(const qni_dot_tile *tile)

/* The same with weights in tiles of 16 rows (tile_internal.h): w is the tile of the first row, at a
 * cache line, and w_stride the bytes of a tile. Columns are arranged beforehand: chunk i of column
 * c is at a + i * a_stride + c * QNI_COLUMN_BYTES. */
#define QNI_PROTO_dot_tiles(symbol) void symbol(const qni_dot_tile *tile)

/* A row of quantized activations as dot_tiles of the same type and instruction set wants it: one
 * piece of QNI_COLUMN_BYTES for every 256 elements, `stride` bytes apart. */
#define QNI_COLUMN_BYTES 704
typedef void (*qni_arrange_fn)(const uint8_t *a, int64_t n_elems, uint8_t *out, int64_t stride);
#define QNI_PROTO_arrange(symbol) \
    void symbol(const uint8_t *a, int64_t n_elems, uint8_t *out, int64_t stride)

/* The same as dot with weights in the pairs of rows of QN_LAYOUT_Q4_KX2MMLA: w is the pair of the
 * first row, and w_stride the bytes of a pair. Columns are rows of q8_K. */
#define QNI_PROTO_dot_kx2mmla(symbol) void symbol(const qni_dot_tile *tile)

/* The transposed product, on widened weights: y[c][k] += sum over r of s[c][r] * w[r][k], each sum
 * in order of r. Strides in floats. */
typedef struct qni_spread_tile {
    const float *w;
    int64_t w_stride;
    int64_t n_rows;
    const float *s;
    int64_t s_stride;
    int64_t n_cols;
    int64_t n_elems;
    float *y;
    int64_t y_stride;
} qni_spread_tile;

typedef void (*qni_spread_fn)(const qni_spread_tile *tile);
#define QNI_PROTO_spread(symbol) void symbol(const qni_spread_tile *tile)

/* The product of a low-rank update: y[c][k] += sum over r of s[c][r] * w[r][k], as spread, but
 * every product and every sum is rounded to f32 on its own, in order of r: the same bits
 * everywhere. */
typedef void (*qni_lora_fn)(const qni_spread_tile *tile);
#define QNI_PROTO_lora(symbol) void symbol(const qni_spread_tile *tile)

/* What one fit of a group of 256 weights came to. */
typedef struct qni_ternary_stats {
    double sum_error2; /* of the weights as the packed planes give them back */
    double sum_weight2;
    int32_t n_iterations; /* regressions made */
    int32_t n_zeros[3];   /* zero trits, by plane */
    bool is_settled;      /* alpha stopped moving before the iterations ran out */
} qni_ternary_stats;

/* n_groups groups of 256 finite weights -> n_planes (1..3) runs of n_groups tq2_0 blocks, whose sum
 * stands for the weights. is_tied (two or three planes): scales in the ratio 3 : 1 or 9 : 3 : 1.
 * See ternary_internal.h. */
typedef void (*qni_fit_fn)(const float *x, int64_t n_groups, int n_planes, bool is_tied,
                           void *const planes[3], qni_ternary_stats *stats);
#define QNI_PROTO_fit(symbol)                                                 \
    void symbol(const float *x, int64_t n_groups, int n_planes, bool is_tied, \
                void *const planes[3], qni_ternary_stats *stats)

/* What activations become for weights of a type: f32 for f32, f16 and bf16, else q8_0, q8_1 or
 * q8_K; QN_DTYPE_NONE: no product with this type. */
qn_dtype qni_dot_activation(qn_dtype weights);

/* True if none of n values is infinite or NaN. */
typedef bool (*qni_finite_fn)(const float *x, int64_t n);
#define QNI_PROTO_finite(symbol) bool symbol(const float *x, int64_t n)

#define QN_KERNEL(operation, dtype, isa, symbol) QNI_PROTO_##operation(symbol);
#include "kernels/kernels.def"
#undef QN_KERNEL

/* --- dispatch ----------------------------------------------------------------------------------
 */

typedef enum qni_operation {
#define QN_OPERATION(name, type) QNI_OP_##name,
#include "kernels/operations.def"
#undef QN_OPERATION
    QNI_N_OPERATIONS
} qni_operation;

typedef union qni_kernel {
#define QN_OPERATION(name, type) type name;
#include "kernels/operations.def"
#undef QN_OPERATION
    void (*any)(void);
} qni_kernel;

/* qni_kernel_encode(dtype, isa), qni_kernel_decode(dtype, isa), ...: the best kernel that this
 * machine can run and that is not above `isa` (QN_ISA_BEST: no limit); NULL if there is none. */
#define QN_OPERATION(name, type) type qni_kernel_##name(qn_dtype dtype, qn_isa isa);
#include "kernels/operations.def"
#undef QN_OPERATION

/* One row of kernels.def, for lists and tests. */
typedef struct qni_kernel_row {
    qni_operation operation;
    const char *operation_name;
    qn_dtype dtype;
    qn_isa isa;
    const char *symbol;
    qni_kernel kernel;
} qni_kernel_row;

/* Row number `index` from 0; NULL past the last one. Only rows of this architecture. */
const qni_kernel_row *qni_kernel_row_at(int index);

/* True if the row is what QN_ISA_BEST gets on this machine. */
bool qni_kernel_is_chosen(const qni_kernel_row *row);

/* --- layouts of packed weights -------------------------------------------------------------------
 *
 * Groups of rows side by side; see layouts.def. A group that has fewer rows is packed as if the
 * others were zero bytes. Packing loses nothing: unpacking gives the bytes back. */

#define QNI_TILE_ROWS 16

typedef bool (*qni_layout_fits_fn)(qn_dtype dtype);
typedef int64_t (*qni_layout_bytes_fn)(qn_dtype dtype, int64_t n_elems);
typedef void (*qni_layout_pack_fn)(qn_dtype dtype, const uint8_t *rows, int64_t stride,
                                   int64_t n_rows, int64_t n_elems, uint8_t *group);
typedef void (*qni_layout_unpack_fn)(qn_dtype dtype, const uint8_t *group, int64_t n_rows,
                                     int64_t n_elems, uint8_t *rows, int64_t stride);

#define QN_LAYOUT(symbol, name, n_rows, prefix)                                                  \
    bool prefix##_fits(qn_dtype dtype);                                                          \
    int64_t prefix##_bytes(qn_dtype dtype, int64_t n_elems);                                     \
    void prefix##_pack(qn_dtype dtype, const uint8_t *rows, int64_t stride, int64_t n_group,     \
                       int64_t n_elems, uint8_t *group);                                         \
    void prefix##_unpack(qn_dtype dtype, const uint8_t *group, int64_t n_group, int64_t n_elems, \
                         uint8_t *rows, int64_t stride);
#include "kernels/layouts.def"
#undef QN_LAYOUT

/* --- search tables of the lattice types (iq1_*, iq2_*, iq3_*) -----------------------------------
 */

/* Bytes of memory that the search tables of a type take; 0: the type needs none. Types may share
 * one table: qni_lattice_owner() names the type whose table it is (iq1_m -> iq1_s). */
size_t qni_lattice_bytes(qn_dtype dtype);
qn_dtype qni_lattice_owner(qn_dtype dtype);

/* Fill `memory` (qni_lattice_bytes() bytes, aligned for any type) with the tables: a pure function,
 * tens of milliseconds. The result lies in `memory` and is only read from then on. */
const struct qni_lattice *qni_lattice_build(qn_dtype dtype, void *memory);

#endif
