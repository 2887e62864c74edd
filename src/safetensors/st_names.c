/* st_names.c — the names of one file: a compact open-addressing table over its entries, with a
 * seeded hash so that a file cannot be made to collide on purpose. */
#include "safetensors/safetensors_internal.h"

static bool has_name(const st_entry *entry, const char *name, int64_t n_name)
{
    return (int64_t)entry->n_name == n_name && memcmp(entry->name, name, (size_t)n_name) == 0;
}

/* The slot that holds the name, or the empty one where it belongs. */
static st_name_slot *find_slot(const st_file *file, const char *name, int64_t n_name, uint64_t hash)
{
    const uint64_t mask = (uint64_t)file->names.n_slots - 1;
    const uint32_t tag = (uint32_t)(hash >> 32);
    for (uint64_t i = hash & mask;; i = (i + 1) & mask) {
        st_name_slot *slot = &file->names.slots[i];
        if (slot->entry == 0 ||
            (slot->tag == tag && has_name(&file->entries[slot->entry - 1], name, n_name))) {
            return slot;
        }
    }
}

qn_status qni_st_index_names(st_file *file, const qn_allocator *allocator, int64_t *out_repeated,
                             qn_error *err)
{
    st_names *names = &file->names;
    *out_repeated = -1;
    int64_t n_slots = 16;
    while (n_slots < file->n_entries * 2) {
        n_slots *= 2; /* entries fit in a header of 100 MB: far from overflow */
    }
    const size_t n_bytes = (size_t)n_slots * sizeof *names->slots;
    names->slots = qni_alloc_zeroed(allocator, n_bytes);
    if (!names->slots) {
        return qni_fail_memory(err, n_bytes);
    }
    names->n_slots = n_slots;
    names->seed = qni_random_seed();
    for (int64_t i = 0; i < file->n_entries; i++) {
        const st_entry *entry = &file->entries[i];
        const uint64_t hash = qni_hash64(entry->name, entry->n_name, names->seed);
        st_name_slot *slot = find_slot(file, entry->name, (int64_t)entry->n_name, hash);
        if (slot->entry != 0) {
            *out_repeated = i;
            return QN_OK;
        }
        *slot = (st_name_slot){(uint32_t)(hash >> 32), (uint32_t)i + 1};
    }
    return QN_OK;
}

int64_t qni_st_find_name(const st_file *file, const char *name, int64_t n_name)
{
    if (file->names.n_slots == 0) {
        return -1;
    }
    const uint64_t hash = qni_hash64(name, (size_t)n_name, file->names.seed);
    return (int64_t)find_slot(file, name, n_name, hash)->entry - 1;
}

void qni_st_free_names(st_file *file, const qn_allocator *allocator)
{
    qni_free(allocator, file->names.slots, (size_t)file->names.n_slots * sizeof *file->names.slots);
    file->names = (st_names){.slots = NULL};
}
