/* tensor/tensor.h — quantized tensors as constants: the facade over codec and matmul. Takes a
 * qn_tensor_info, knows no file. Start reading at constant.c. */
#ifndef QNI_TENSOR_H
#define QNI_TENSOR_H

#include "codec/codec.h"
#include "matmul/matmul.h"
#include "quench/tensor.h"

#endif
