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

/* A valid dtype, or an error that says what is wrong with it. */
QN_NODISCARD qn_status qni_codec_check_dtype(qn_dtype dtype, qn_error *err);

#endif
