/* memory.c — allocation, arena, growing buffer. */
#include "base/base.h"

#define DEFAULT_ALIGNMENT _Alignof(max_align_t)
#define ARENA_CHUNK_BYTES ((size_t)64 * 1024)
#define HUGE_PAGE_BYTES   ((size_t)2 * 1024 * 1024)

void *qni_alloc_aligned(const qn_allocator *allocator, size_t n_bytes, size_t alignment)
{
    const size_t n = n_bytes > 0 ? n_bytes : 1;
    if (allocator) {
        return allocator->alloc(allocator->ctx, n, alignment);
    }
    if (alignment <= DEFAULT_ALIGNMENT) {
        return malloc(n);
    }
    size_t rounded = 0;
    if (!qni_add_size(n, alignment - 1, &rounded)) {
        return NULL;
    }
    return aligned_alloc(alignment, rounded & ~(alignment - 1));
}

void *qni_alloc_large(const qn_allocator *allocator, size_t n_bytes, size_t alignment)
{
    if (allocator || n_bytes < HUGE_PAGE_BYTES) {
        return qni_alloc_aligned(allocator, n_bytes, alignment);
    }
    void *ptr = qni_alloc_aligned(NULL, n_bytes, HUGE_PAGE_BYTES);
    if (ptr) {
        qni_memory_advise_huge(ptr, n_bytes);
    }
    return ptr;
}

void *qni_alloc(const qn_allocator *allocator, size_t n_bytes)
{
    return qni_alloc_aligned(allocator, n_bytes, DEFAULT_ALIGNMENT);
}

void *qni_alloc_zeroed(const qn_allocator *allocator, size_t n_bytes)
{
    if (!allocator) {
        return calloc(1, n_bytes > 0 ? n_bytes : 1); /* fresh pages are zero already */
    }
    void *ptr = qni_alloc(allocator, n_bytes);
    if (ptr) {
        memset(ptr, 0, n_bytes);
    }
    return ptr;
}

void *qni_alloc_array(const qn_allocator *allocator, int64_t n, size_t elem_bytes)
{
    size_t n_bytes = 0;
    if (n < 0 || (uint64_t)n > SIZE_MAX || !qni_mul_size((size_t)n, elem_bytes, &n_bytes)) {
        return NULL;
    }
    return qni_alloc(allocator, n_bytes);
}

void qni_free_aligned(const qn_allocator *allocator, void *ptr, size_t n_bytes, size_t alignment)
{
    if (!ptr) {
        return;
    }
    if (allocator) {
        allocator->free(allocator->ctx, ptr, n_bytes > 0 ? n_bytes : 1, alignment);
    } else {
        free(ptr);
    }
}

void qni_free(const qn_allocator *allocator, void *ptr, size_t n_bytes)
{
    qni_free_aligned(allocator, ptr, n_bytes, DEFAULT_ALIGNMENT);
}

void *qni_realloc(const qn_allocator *allocator, void *ptr, size_t n_old, size_t n_new)
{
    if (!allocator) {
        return realloc(ptr, n_new > 0 ? n_new : 1);
    }
    void *fresh = qni_alloc(allocator, n_new);
    if (fresh && ptr) {
        memcpy(fresh, ptr, n_old < n_new ? n_old : n_new);
        qni_free(allocator, ptr, n_old);
    }
    return fresh;
}

struct qni_arena_chunk {
    struct qni_arena_chunk *next;
    size_t n_bytes; /* of the whole allocation */
    size_t n_used;  /* header included */
};

void *qni_arena_alloc(qni_arena *arena, size_t n_bytes)
{
    size_t need = 0;
    if (!qni_add_size(n_bytes, DEFAULT_ALIGNMENT - 1, &need)) {
        return NULL;
    }
    need &= ~(DEFAULT_ALIGNMENT - 1);
    struct qni_arena_chunk *chunk = arena->chunks;
    if (!chunk || chunk->n_bytes - chunk->n_used < need) {
        const size_t header = (sizeof *chunk + DEFAULT_ALIGNMENT - 1) & ~(DEFAULT_ALIGNMENT - 1);
        size_t total = 0;
        if (!qni_add_size(need, header, &total)) {
            return NULL;
        }
        total = total > ARENA_CHUNK_BYTES ? total : ARENA_CHUNK_BYTES;
        chunk = qni_alloc(arena->allocator, total);
        if (!chunk) {
            return NULL;
        }
        chunk->next = arena->chunks;
        chunk->n_bytes = total;
        chunk->n_used = header;
        arena->chunks = chunk;
    }
    uint8_t *ptr = (uint8_t *)chunk + chunk->n_used;
    chunk->n_used += need;
    return ptr;
}

char *qni_arena_copy(qni_arena *arena, const void *bytes, size_t n_bytes)
{
    size_t n = 0;
    char *copy = qni_add_size(n_bytes, 1, &n) ? qni_arena_alloc(arena, n) : NULL;
    if (copy) {
        if (n_bytes > 0) {
            memcpy(copy, bytes, n_bytes);
        }
        copy[n_bytes] = '\0';
    }
    return copy;
}

void qni_arena_free(qni_arena *arena)
{
    while (arena->chunks) {
        struct qni_arena_chunk *chunk = arena->chunks;
        arena->chunks = chunk->next;
        qni_free(arena->allocator, chunk, chunk->n_bytes);
    }
}

void qni_buffer_init(qni_buffer *buf, const qn_allocator *allocator, size_t n_max)
{
    *buf = (qni_buffer){.allocator = allocator, .n_max = n_max};
}

void qni_buffer_free(qni_buffer *buf)
{
    qni_free(buf->allocator, buf->bytes, buf->n_capacity);
    buf->bytes = NULL;
    buf->n_bytes = buf->n_capacity = 0;
}

qn_status qni_buffer_reserve(qni_buffer *buf, size_t n_more, qn_error *err)
{
    size_t need = 0;
    QN_CHECK(qni_add_size(buf->n_bytes, n_more, &need) && need <= buf->n_max, err, QN_ERR_OVERFLOW,
             -1, "a buffer would grow past its limit of %zu bytes", buf->n_max);
    if (need <= buf->n_capacity) {
        return QN_OK;
    }
    size_t capacity = buf->n_capacity > buf->n_max / 2 ? buf->n_max : buf->n_capacity * 2;
    capacity = capacity < need ? need : capacity;
    capacity = capacity < 256 ? 256 : capacity;
    uint8_t *bytes = qni_realloc(buf->allocator, buf->bytes, buf->n_capacity, capacity);
    if (!bytes) {
        return qni_fail_memory(err, capacity);
    }
    buf->bytes = bytes;
    buf->n_capacity = capacity;
    return QN_OK;
}

qn_status qni_buffer_append(qni_buffer *buf, const void *bytes, size_t n_bytes, qn_error *err)
{
    QN_TRY(qni_buffer_reserve(buf, n_bytes, err));
    if (n_bytes > 0) {
        memcpy(buf->bytes + buf->n_bytes, bytes, n_bytes);
    }
    buf->n_bytes += n_bytes;
    return QN_OK;
}

qn_status qni_buffer_append_zeros(qni_buffer *buf, size_t n_bytes, qn_error *err)
{
    QN_TRY(qni_buffer_reserve(buf, n_bytes, err));
    if (n_bytes > 0) {
        memset(buf->bytes + buf->n_bytes, 0, n_bytes);
    }
    buf->n_bytes += n_bytes;
    return QN_OK;
}

qn_status qni_buffer_append_u16le(qni_buffer *buf, uint16_t value, qn_error *err)
{
    uint8_t bytes[2];
    qni_store_u16le(bytes, value);
    return qni_buffer_append(buf, bytes, sizeof bytes, err);
}

qn_status qni_buffer_append_u32le(qni_buffer *buf, uint32_t value, qn_error *err)
{
    uint8_t bytes[4];
    qni_store_u32le(bytes, value);
    return qni_buffer_append(buf, bytes, sizeof bytes, err);
}

qn_status qni_buffer_append_u64le(qni_buffer *buf, uint64_t value, qn_error *err)
{
    uint8_t bytes[8];
    qni_store_u64le(bytes, value);
    return qni_buffer_append(buf, bytes, sizeof bytes, err);
}
