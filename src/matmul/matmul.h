/* matmul/matmul.h — products with quantized weights: activations quantized, tiles handed to
 * threads, packed copies kept. Knows no tensor object and no file. Start reading at product.c. */
#ifndef QNI_MATMUL_H
#define QNI_MATMUL_H

#include "codec/codec.h"
#include "kernels/kernels.h"
#include "quench/matmul.h"

/* Whether two stretches of memory share a byte. */
bool qni_overlaps(const void *a, int64_t n_a, const void *b, int64_t n_b);

#endif
