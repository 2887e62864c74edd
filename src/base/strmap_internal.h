/* strmap_internal.h — byte strings to int64 numbers, O(1) whatever the strings are.
 *
 * Open addressing over a seeded hash (XXH3), so that a file cannot be made to collide on purpose.
 * Keys are borrowed: they must stay where they are as long as the map. */
#ifndef QNI_STRMAP_INTERNAL_H
#define QNI_STRMAP_INTERNAL_H

#include "base/error_internal.h"

typedef struct qni_strmap_slot {
    uint64_t hash; /* 0: empty */
    const char *key;
    int64_t n_key;
    int64_t value;
} qni_strmap_slot;

typedef struct qni_strmap {
    const qn_allocator *allocator;
    qni_strmap_slot *slots;
    int64_t n_slots; /* 0 or a power of two */
    int64_t n_used;
    uint64_t seed;
} qni_strmap;

/* The seed is drawn from the operating system. */
void qni_strmap_init(qni_strmap *map, const qn_allocator *allocator);
void qni_strmap_free(qni_strmap *map);
/* Room for n entries in all without growing again. */
QN_NODISCARD qn_status qni_strmap_reserve(qni_strmap *map, int64_t n, qn_error *err);
/* Add key -> value unless the key is there. *out_existing: -1 if it was added, else the value that
 * the key has already (nothing is changed). */
QN_NODISCARD qn_status qni_strmap_add(qni_strmap *map, const char *key, int64_t n_key,
                                      int64_t value, int64_t *out_existing, qn_error *err);
/* The value of a key, -1 if it is not there (values are meant to be indices). Any thread. */
int64_t qni_strmap_find(const qni_strmap *map, const char *key, int64_t n_key);

/* The hash itself, for other tables and digests. */
uint64_t qni_hash64(const void *bytes, size_t n_bytes, uint64_t seed);

#endif
