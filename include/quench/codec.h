/* codec.h — rows of f32 to blocks of any tensor type and back, to the last bit as ggml writes them.
 *
 * Encoders give the bytes of ggml's scalar reference for every finite input, on every machine and
 * instruction set. Blocks are only ever read and written bytewise: no alignment is needed.
 * All functions: any thread. Since 0.1. */
#ifndef QUENCH_CODEC_H
#define QUENCH_CODEC_H

#include "quench/dtype.h"
#include "quench/isa.h"
#include "quench/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/** True if qn_encode_rows() can write the type: all but the integers and f64. q8_1 and q8_K, which
 * ggml uses for activations only, are included. */
QN_API bool qn_has_encoder(qn_dtype dtype);

/** True if qn_decode() can read the type: every valid one. */
QN_API bool qn_has_decoder(qn_dtype dtype);

/** How to encode. */
typedef struct qn_encode_options {
    size_t struct_size;   /* sizeof(qn_encode_options) */
    qn_isa isa;           /* upper limit of the instruction set; QN_ISA_BEST: none */
    bool allow_overflow;  /* write a scale that became infinite as ggml does, instead of failing */
    bool *out_overflowed; /* set to true when that happened, else left alone; NULL allowed */
    int64_t first_row;    /* number of the first row in messages, when x is a part of a tensor */
} qn_encode_options;

#define QN_ENCODE_OPTIONS_INIT                                 \
    {                                                          \
        sizeof(qn_encode_options), QN_ISA_BEST, false, NULL, 0 \
    }

/** Encode consecutive rows.
 *
 * @param dtype       a type with an encoder; see qn_has_encoder()
 * @param x           n_rows * row_len floats, row after row; borrowed
 * @param n_rows      >= 0
 * @param row_len     >= 0, a whole number of blocks
 * @param weights     row_len finite importance weights, one a column, shared by all rows; or NULL.
 *                    Which types use or require them: qn_dtype_weights_use(); borrowed
 * @param options     NULL: QN_ENCODE_OPTIONS_INIT
 * @param out         fills n_out_bytes bytes, row after row; must not overlap the inputs; contents
 *                    undefined on failure
 * @param n_out_bytes exactly n_rows times qn_dtype_row_bytes()
 * @param err         filled on failure; may be NULL
 * @return QN_OK; QN_ERR_UNSUPPORTED_DTYPE; QN_ERR_ENCODER_UNAVAILABLE; QN_ERR_INVALID_SHAPE;
 *         QN_ERR_INVALID_DATA_LENGTH; QN_ERR_MISSING_WEIGHTS; QN_ERR_NON_FINITE_VALUE (the message
 *         names row and column); QN_ERR_SCALE_OVERFLOW (a finite value too large for the type);
 *         QN_ERR_ENCODE_FAILED (where ggml would abort the process); QN_ERR_INVALID_ARGUMENT;
 *         QN_ERR_OVERFLOW; QN_ERR_OUT_OF_MEMORY
 *
 * The first use of a type that needs search tables (iq1_*, iq2_*, iq3_*) builds them, in tens of
 * milliseconds; they stay for the life of the process. */
QN_API QN_NODISCARD qn_status qn_encode_rows(qn_dtype dtype, const float *x, int64_t n_rows,
                                             int64_t row_len, const float *weights,
                                             const qn_encode_options *options, void *out,
                                             int64_t n_out_bytes, qn_error *err);

/** Decode `n_blocks` consecutive blocks to f32.
 *
 * @param dtype     any type with a decoder; see qn_has_decoder()
 * @param blocks    n_blocks * qn_dtype_block_bytes(dtype) bytes; no alignment needed; borrowed
 * @param n_blocks  >= 0; 0 does nothing
 * @param out       fills n_blocks * qn_dtype_block_elems(dtype) floats, first element first;
 *                  must not overlap `blocks`; contents undefined on failure
 * @param err       filled on failure; may be NULL
 * @return QN_OK; QN_ERR_UNSUPPORTED_DTYPE; QN_ERR_DECODER_UNAVAILABLE; QN_ERR_INVALID_ARGUMENT
 *
 * Any bytes decode to something; qn_validate_rows() tells whether they should. Integers and f64 are
 * rounded to the nearest f32. Bit-equal to the scalar referee on every instruction set, but for the
 * payloads of NaN. */
QN_API QN_NODISCARD qn_status qn_decode(qn_dtype dtype, const void *blocks, int64_t n_blocks,
                                        float *out, qn_error *err);

/** The same with an upper limit of the instruction set. */
QN_API QN_NODISCARD qn_status qn_decode_isa(qn_dtype dtype, qn_isa isa, const void *blocks,
                                            int64_t n_blocks, float *out, qn_error *err);

/** Decode to binary16, as files store it: the f32 of qn_decode() rounded to nearest, ties to even,
 * to infinity above the range.
 *
 * @param out  fills 2 bytes an element, little-endian
 * The rest as qn_decode_isa(). */
QN_API QN_NODISCARD qn_status qn_decode_f16(qn_dtype dtype, qn_isa isa, const void *blocks,
                                            int64_t n_blocks, void *out, qn_error *err);

/** Decode to bfloat16. The rest as qn_decode_f16(). */
QN_API QN_NODISCARD qn_status qn_decode_bf16(qn_dtype dtype, qn_isa isa, const void *blocks,
                                             int64_t n_blocks, void *out, qn_error *err);

/** Rows of a matrix, picked by number and decoded: the embedding look-up.
 *
 * @param dtype      any type with a decoder
 * @param table      n_rows rows of row_len elements; n_table_bytes bytes; borrowed
 * @param row_len    >= 0, a whole number of blocks
 * @param picks      n_picks row numbers in any order, repeats allowed
 * @param out        fills n_picks * row_len floats
 * @return QN_OK; QN_ERR_UNSUPPORTED_DTYPE; QN_ERR_DECODER_UNAVAILABLE; QN_ERR_INVALID_SHAPE;
 *         QN_ERR_INVALID_DATA_LENGTH (the bytes are no whole rows); QN_ERR_INVALID_ARGUMENT (a pick
 *         that is no row of the table: nothing is read outside it); QN_ERR_OVERFLOW */
QN_API QN_NODISCARD qn_status qn_get_rows(qn_dtype dtype, const void *table, int64_t n_table_bytes,
                                          int64_t row_len, const int64_t *picks, int64_t n_picks,
                                          float *out, qn_error *err);

/** Check stored rows as ggml's row validator does: no scale may be NaN or infinite, no exponent of
 * mxfp4 255, no element of f16, bf16, f32 and f64 (as f32) NaN or infinite. Other bits may be
 * anything, and a block that passes can still decode to infinity.
 *
 * @param dtype      any valid type; q8_1 always fails, as there
 * @param bytes      n_bytes bytes; borrowed
 * @param row_len    elements a row, for the message; a whole number of blocks, or 0 for one row
 * @param first_row  number of the first row in messages
 * @return QN_OK; QN_ERR_INVALID_BLOCK or QN_ERR_NON_FINITE_VALUE (the message names row and
 * element); QN_ERR_INVALID_DATA_LENGTH; QN_ERR_INVALID_SHAPE; QN_ERR_UNSUPPORTED_DTYPE */
QN_API QN_NODISCARD qn_status qn_validate_rows(qn_dtype dtype, const void *bytes, int64_t n_bytes,
                                               int64_t row_len, int64_t first_row, qn_error *err);

/** Index of the first NaN or infinity of n floats, or -1. */
QN_API int64_t qn_find_non_finite(const float *x, int64_t n);

/** One kernel of this build. */
typedef struct qn_kernel_info {
    const char *operation; /* "encode", "decode", ...; static storage */
    qn_dtype dtype;
    qn_isa isa;
    const char *symbol; /* static storage */
    bool is_available;  /* this machine can run it */
    bool is_chosen;     /* it is what QN_ISA_BEST runs here */
} qn_kernel_info;

/** Kernel number `index` from 0 into *out_info; false past the last one. For lists. */
QN_API bool qn_kernel_at(int index, qn_kernel_info *out_info);

#ifdef __cplusplus
}
#endif

#endif
