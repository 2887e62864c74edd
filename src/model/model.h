/* model/model.h — sources, plans, policies and the executor, for the library's other rooms.
 *
 * A source is any input seen as a table of tensors (containers.c); a plan is plain data that says
 * what becomes of them (plan_internal.h); the stream runs plans and knows no policy
 * (stream_internal.h). Must not know: regular expressions, cryptographic digests, terminals.
 * Start reading at plan_internal.h. */
#ifndef QNI_MODEL_H
#define QNI_MODEL_H

#include "base/base.h"
#include "dtype/dtype.h"
#include "quench/model.h"

#endif
