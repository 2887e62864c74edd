/* quench.h — the whole stable API of libquench. Start with the header of the part you need:
 * status.h (errors, memory, callbacks), dtype.h (tensor types), codec.h (f32 to blocks and back),
 * isa.h (instruction sets), json.h (writing JSON). */
#ifndef QUENCH_H
#define QUENCH_H

#include "quench/adapters.h"
#include "quench/checkpoint.h"
#include "quench/codec.h"
#include "quench/dtype.h"
#include "quench/edit.h"
#include "quench/export.h"
#include "quench/gguf.h"
#include "quench/isa.h"
#include "quench/json.h"
#include "quench/matmul.h"
#include "quench/model.h"
#include "quench/probe.h"
#include "quench/safetensors.h"
#include "quench/status.h"
#include "quench/tensor.h"
#include "quench/version.h"

#endif
