/* tables.c — the process-wide cache of search tables.
 *
 * A table is a pure function of its type, so it may be cached without anybody knowing: the pointer
 * is published once, atomically, and what it points to never changes. Two threads that come first
 * at the same time both build, and one throws its copy away; nobody ever waits. */
#include <stdatomic.h>

#include "codec/codec.h"

static _Atomic(const struct qni_lattice *) published[QN_DTYPE_LIMIT];

qn_status qni_codec_tables(qn_dtype dtype, const struct qni_lattice **out_tables, qn_error *err)
{
    *out_tables = NULL;
    const size_t n_bytes = qni_lattice_bytes(dtype);
    if (n_bytes == 0) {
        return QN_OK;
    }
    _Atomic(const struct qni_lattice *) *slot = &published[qni_lattice_owner(dtype)];
    const struct qni_lattice *tables = atomic_load_explicit(slot, memory_order_acquire);
    if (tables) {
        *out_tables = tables;
        return QN_OK;
    }
    void *memory = qni_alloc(NULL, n_bytes);
    if (!memory) {
        return qni_fail_memory(err, n_bytes);
    }
    tables = qni_lattice_build(dtype, memory);
    const struct qni_lattice *first = NULL;
    if (!atomic_compare_exchange_strong_explicit(slot, &first, tables, memory_order_acq_rel,
                                                 memory_order_acquire)) {
        qni_free(NULL, memory, n_bytes);
        tables = first;
    }
    *out_tables = tables;
    return QN_OK;
}
