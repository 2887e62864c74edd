/* safetensors/safetensors.h — the safetensors container: reader, prefix streams, shard index,
 * writer.
 *
 * Knows the format and nothing of what tensors mean. All of it is in quench/safetensors.h.
 * Start reading at st_header.c, which holds the rules; st_open.c is where bytes come from,
 * st_index.c shards, st_access.c what is handed out, st_write.c and st_stream.c the other way. */
#ifndef QNI_SAFETENSORS_H
#define QNI_SAFETENSORS_H

#include "base/base.h"
#include "quench/safetensors.h"

#endif
