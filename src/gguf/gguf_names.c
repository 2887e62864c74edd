/* gguf_names.c — names to indices; see gguf_internal.h for why not a qni_strmap. */
#include "gguf/gguf_internal.h"

#define MIN_SLOTS 16
/* Slots are at most 4/5 full. */
#define LOAD_NUM 5
#define LOAD_DEN 4

qn_status qni_names_init(qni_gguf_names *names, const qn_allocator *allocator, int64_t n,
                         qn_error *err)
{
    *names = (qni_gguf_names){.allocator = allocator, .seed = qni_random_seed()};
    QN_CHECK(n < QNI_NAMES_MAX_ITEMS, err, QN_ERR_UNSUPPORTED, -1,
             "%" PRId64 " names in one file; at most %" PRId64 " are possible", n,
             QNI_NAMES_MAX_ITEMS);
    const uint64_t need = (uint64_t)n * LOAD_NUM / LOAD_DEN + 1;
    uint64_t n_slots = MIN_SLOTS;
    while (n_slots < need) {
        n_slots *= 2;
    }
    names->slots = qni_alloc_zeroed(allocator, (size_t)n_slots * sizeof *names->slots);
    if (!names->slots) {
        return qni_fail_memory(err, (size_t)n_slots * sizeof *names->slots);
    }
    names->n_slots = n_slots;
    return QN_OK;
}

void qni_names_free(qni_gguf_names *names)
{
    qni_free(names->allocator, names->slots, (size_t)names->n_slots * sizeof *names->slots);
    *names = (qni_gguf_names){0};
}

static qni_gguf_name name_of(const qni_gguf_names *names, uint64_t index)
{
    qni_gguf_name name;
    if (names->is_file) {
        const uint8_t *p = names->items + names->positions[index];
        name.bytes = (const char *)p;
        name.n_bytes = (int64_t)qni_load_u64(p - 8, names->is_big_endian);
    } else {
        memcpy(&name, names->items + index * names->stride, sizeof name);
    }
    return name;
}

static int64_t cut_length(const qni_gguf_names *names, const char *bytes, int64_t n_bytes)
{
    if (!names->cut_at_nul || n_bytes == 0) {
        return n_bytes;
    }
    const char *nul = memchr(bytes, 0, (size_t)n_bytes);
    return nul ? nul - bytes : n_bytes;
}

static bool is_equal(const qni_gguf_names *names, uint64_t index, const char *bytes, int64_t n)
{
    const qni_gguf_name other = name_of(names, index);
    return cut_length(names, other.bytes, other.n_bytes) == n &&
           memcmp(other.bytes, bytes, (size_t)n) == 0;
}

QNI_INLINE uint64_t slot_at(const qni_gguf_names *names, uint64_t hash)
{
    return hash & (names->n_slots - 1);
}

/* Put one queued name in its slot; false if an equal name is there: its index is in *out_other. */
static bool insert(qni_gguf_names *names, uint64_t hash, uint32_t index, int64_t *out_other)
{
    const uint64_t tag = hash >> 32;
    for (uint64_t i = slot_at(names, hash);; i = slot_at(names, i + 1)) {
        const uint64_t slot = names->slots[i];
        if (slot == 0) {
            names->slots[i] = tag << 32 | ((uint64_t)index + 1);
            return true;
        }
        if (slot >> 32 == tag) {
            const qni_gguf_name name = name_of(names, index);
            const uint64_t other = (slot & UINT32_MAX) - 1;
            if (is_equal(names, other, name.bytes, cut_length(names, name.bytes, name.n_bytes))) {
                *out_other = (int64_t)other;
                return false;
            }
        }
    }
}

bool qni_names_flush(qni_gguf_names *names, int64_t out_pair[2])
{
    const int32_t n = names->n_queued;
    names->n_queued = 0;
    for (int32_t i = 0; i < n; i++) {
        if (!insert(names, names->queue[i].hash, names->queue[i].index, &out_pair[0])) {
            out_pair[1] = names->queue[i].index;
            return false;
        }
    }
    return true;
}

bool qni_names_add(qni_gguf_names *names, const char *bytes, int64_t n_bytes, int64_t index,
                   int64_t out_pair[2])
{
    const uint64_t hash = qni_hash64(bytes, (size_t)cut_length(names, bytes, n_bytes), names->seed);
    QNI_PREFETCH_WRITE(&names->slots[slot_at(names, hash)]);
    names->queue[names->n_queued].hash = hash;
    names->queue[names->n_queued].index = (uint32_t)index;
    return ++names->n_queued < QNI_NAMES_QUEUE || qni_names_flush(names, out_pair);
}

int64_t qni_names_find(const qni_gguf_names *names, const char *bytes, int64_t n_bytes)
{
    if (n_bytes < 0 || names->n_slots == 0) {
        return -1;
    }
    const int64_t n_cut = cut_length(names, bytes, n_bytes);
    const uint64_t hash = qni_hash64(bytes, (size_t)n_cut, names->seed);
    for (uint64_t i = slot_at(names, hash);; i = slot_at(names, i + 1)) {
        const uint64_t slot = names->slots[i];
        if (slot == 0) {
            return -1;
        }
        const uint64_t index = (slot & UINT32_MAX) - 1;
        if (slot >> 32 == hash >> 32 && is_equal(names, index, bytes, n_cut)) {
            /* a table that cuts at NUL holds one name per cut: it is this one or none */
            const qni_gguf_name name = name_of(names, index);
            const bool is_whole =
                name.n_bytes == n_bytes && memcmp(name.bytes, bytes, (size_t)n_bytes) == 0;
            return is_whole ? (int64_t)index : -1;
        }
    }
}

int64_t qni_gguf_part_find(const qni_gguf_part *part, const char *key)
{
    return qni_names_find(&part->keys, key, (int64_t)strlen(key));
}
