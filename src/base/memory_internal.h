/* memory_internal.h — allocation through a qn_allocator, an arena, and a growing buffer. */
#ifndef QNI_MEMORY_INTERNAL_H
#define QNI_MEMORY_INTERNAL_H

#include "base/error_internal.h"

/* NULL `allocator` means malloc. Sizes of 0 give a valid pointer to nothing. Alignment is that of
 * max_align_t, except for the _aligned form (a power of two). */
void *qni_alloc(const qn_allocator *allocator, size_t n_bytes);
void *qni_alloc_zeroed(const qn_allocator *allocator, size_t n_bytes);
void *qni_alloc_aligned(const qn_allocator *allocator, size_t n_bytes, size_t alignment);
/* The same for what is read from end to end, such as packed weights: of malloc's memory, from 2 MiB
 * on, it starts on a huge page and asks for such. */
void *qni_alloc_large(const qn_allocator *allocator, size_t n_bytes, size_t alignment);
/* n * elem_bytes with the product checked; NULL when it overflows. */
void *qni_alloc_array(const qn_allocator *allocator, int64_t n, size_t elem_bytes);
void qni_free(const qn_allocator *allocator, void *ptr, size_t n_bytes);
void qni_free_aligned(const qn_allocator *allocator, void *ptr, size_t n_bytes, size_t alignment);
/* Grow or shrink; the first min(old, new) bytes stay. NULL: no memory, the old block still yours.
 */
void *qni_realloc(const qn_allocator *allocator, void *ptr, size_t n_old, size_t n_new);

/* Many small things that die together. Zero-initialise `allocator` and use. */
typedef struct qni_arena {
    const qn_allocator *allocator;
    struct qni_arena_chunk *chunks;
} qni_arena;
void *qni_arena_alloc(qni_arena *arena, size_t n_bytes);
/* A copy of n_bytes bytes with a NUL after them. */
char *qni_arena_copy(qni_arena *arena, const void *bytes, size_t n_bytes);
void qni_arena_free(qni_arena *arena);

/* Bytes that grow, up to a maximum told when they are made. */
typedef struct qni_buffer {
    const qn_allocator *allocator;
    uint8_t *bytes;
    size_t n_bytes;
    size_t n_capacity;
    size_t n_max;
} qni_buffer;
void qni_buffer_init(qni_buffer *buf, const qn_allocator *allocator, size_t n_max);
void qni_buffer_free(qni_buffer *buf);
QN_NODISCARD qn_status qni_buffer_reserve(qni_buffer *buf, size_t n_more, qn_error *err);
QN_NODISCARD qn_status qni_buffer_append(qni_buffer *buf, const void *bytes, size_t n_bytes,
                                         qn_error *err);
QN_NODISCARD qn_status qni_buffer_append_zeros(qni_buffer *buf, size_t n_bytes, qn_error *err);
QN_NODISCARD qn_status qni_buffer_append_u16le(qni_buffer *buf, uint16_t value, qn_error *err);
QN_NODISCARD qn_status qni_buffer_append_u32le(qni_buffer *buf, uint32_t value, qn_error *err);
QN_NODISCARD qn_status qni_buffer_append_u64le(qni_buffer *buf, uint64_t value, qn_error *err);

#endif
