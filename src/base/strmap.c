/* strmap.c — open addressing, linear probing, at most half full. */
#define XXH_INLINE_ALL
/* xxhash.h is a system header; its warnings are not ours */
#include <xxhash.h>

#include "base/base.h"

#define MIN_SLOTS 16

uint64_t qni_hash64(const void *bytes, size_t n_bytes, uint64_t seed)
{
    return XXH3_64bits_withSeed(bytes, n_bytes, seed);
}

static uint64_t slot_hash(const qni_strmap *map, const char *key, int64_t n_key)
{
    const uint64_t hash = qni_hash64(key, (size_t)n_key, map->seed);
    return hash ? hash : 1; /* 0 marks an empty slot */
}

void qni_strmap_init(qni_strmap *map, const qn_allocator *allocator)
{
    *map = (qni_strmap){.allocator = allocator, .seed = qni_random_seed()};
}

void qni_strmap_free(qni_strmap *map)
{
    qni_free(map->allocator, map->slots, (size_t)map->n_slots * sizeof *map->slots);
    map->slots = NULL;
    map->n_slots = map->n_used = 0;
}

/* The slot that holds the key, or the empty one where it belongs. */
static qni_strmap_slot *find_slot(const qni_strmap *map, const char *key, int64_t n_key,
                                  uint64_t hash)
{
    const uint64_t mask = (uint64_t)map->n_slots - 1;
    for (uint64_t i = hash & mask;; i = (i + 1) & mask) {
        qni_strmap_slot *slot = &map->slots[i];
        if (slot->hash == 0 || (slot->hash == hash && slot->n_key == n_key &&
                                memcmp(slot->key, key, (size_t)n_key) == 0)) {
            return slot;
        }
    }
}

static qn_status resize(qni_strmap *map, int64_t n_slots, qn_error *err)
{
    int64_t n_bytes = 0;
    QN_CHECK(qni_mul_i64(n_slots, (int64_t)sizeof *map->slots, &n_bytes) &&
                 (uint64_t)n_bytes <= SIZE_MAX,
             err, QN_ERR_OVERFLOW, -1, "too many names for one table");
    qni_strmap_slot *slots = qni_alloc_zeroed(map->allocator, (size_t)n_bytes);
    if (!slots) {
        return qni_fail_memory(err, (size_t)n_bytes);
    }
    qni_strmap old = *map;
    map->slots = slots;
    map->n_slots = n_slots;
    for (int64_t i = 0; i < old.n_slots; i++) {
        if (old.slots[i].hash != 0) {
            *find_slot(map, old.slots[i].key, old.slots[i].n_key, old.slots[i].hash) = old.slots[i];
        }
    }
    qni_free(old.allocator, old.slots, (size_t)old.n_slots * sizeof *old.slots);
    return QN_OK;
}

qn_status qni_strmap_reserve(qni_strmap *map, int64_t n, qn_error *err)
{
    int64_t n_slots = MIN_SLOTS;
    while (n_slots / 2 < n) {
        QN_CHECK(qni_mul_i64(n_slots, 2, &n_slots), err, QN_ERR_OVERFLOW, -1,
                 "too many names for one table");
    }
    return n_slots > map->n_slots ? resize(map, n_slots, err) : QN_OK;
}

qn_status qni_strmap_add(qni_strmap *map, const char *key, int64_t n_key, int64_t value,
                         int64_t *out_existing, qn_error *err)
{
    *out_existing = -1;
    QN_TRY(qni_strmap_reserve(map, map->n_used + 1, err));
    const uint64_t hash = slot_hash(map, key, n_key);
    qni_strmap_slot *slot = find_slot(map, key, n_key, hash);
    if (slot->hash != 0) {
        *out_existing = slot->value;
        return QN_OK;
    }
    *slot = (qni_strmap_slot){hash, key, n_key, value};
    map->n_used++;
    return QN_OK;
}

int64_t qni_strmap_find(const qni_strmap *map, const char *key, int64_t n_key)
{
    if (map->n_used == 0) {
        return -1;
    }
    const qni_strmap_slot *slot = find_slot(map, key, n_key, slot_hash(map, key, n_key));
    return slot->hash ? slot->value : -1;
}
