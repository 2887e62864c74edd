/* gguf/gguf.h — the GGUF container: reader, writer, splits. Knows bytes, names, shapes and sizes of
 * types; knows nothing of values inside tensors, of models or of quantization. Other rooms use the
 * public header; this one adds nothing to it. Start reading at gguf_parse.c (how a file becomes a
 * table) and gguf_layout.c (how a table becomes a file). */
#ifndef QNI_GGUF_H
#define QNI_GGUF_H

#include "base/base.h"
#include "dtype/dtype.h"
#include "quench/gguf.h"

#endif
