/* fuzz_safetensors_prefix.c — any bytes as a stream of frames, delivered in pieces of the size that
 * the first byte says: every frame takes exactly its bytes, and memory follows what has arrived. */
#include "fuzz.h"

#include "quench/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes)
{
    if (n_bytes < 1) {
        return 0;
    }
    size_t n_allowed = 4 * n_bytes + 256 * 1024;
    const qn_allocator allocator = bounded_allocator(&n_allowed);
    qn_safetensors_options options = QN_SAFETENSORS_OPTIONS_INIT;
    options.allocator = &allocator;
    stream s = {bytes + 1, n_bytes - 1, (size_t)bytes[0] + 1};
    qn_status status = QN_OK;
    while (status == QN_OK) {
        qn_safetensors *st = NULL;
        const size_t n_before = s.n_left;
        status = qn_safetensors_read_prefix(read_some, &s, &options, &st, NULL);
        if (status == QN_OK) {
            const qn_safetensors_shard *shard = qn_safetensors_shard_at(st, 0);
            require((int64_t)(n_before - s.n_left) == shard->n_bytes, "exactly one frame");
        }
        qn_safetensors_close(st);
    }
    return 0;
}
