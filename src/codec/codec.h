/* codec/codec.h — rows of f32 to blocks and back: checks, dispatch, search tables, importance
 * weights. Knows no file, no tensor name and no thread. Start reading at encode.c. */
#ifndef QNI_CODEC_H
#define QNI_CODEC_H

#include "dtype/dtype.h"
#include "kernels/kernels.h"
#include "quench/codec.h"

/* The search tables of a lattice type; NULL in *out_tables for any other. Built on first use and
 * kept for the life of the process: see tables.c. Any thread. */
QN_NODISCARD qn_status qni_codec_tables(qn_dtype dtype, const struct qni_lattice **out_tables,
                                        qn_error *err);

/* Elements of f16 or bf16 (`from`) straight to blocks, without importance weights: the bytes that
 * decode and encode give. False, and the bytes mean nothing, where no kernel does that for the two
 * types, and where a value or a scale is one that the encoder may refuse: take the long way then.
 * n_elems: whole blocks. */
QN_NODISCARD bool qni_encode_plain(qn_dtype from, qn_dtype dtype, qn_isa isa, const void *x,
                                   int64_t n_elems, void *out);

/* A valid dtype, or an error that says what is wrong with it. */
QN_NODISCARD qn_status qni_codec_check_dtype(qn_dtype dtype, qn_error *err);

#endif
