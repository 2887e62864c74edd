/* st_support.h — files built from text, and an allocator that counts and fails. */
#ifndef TEST_ST_SUPPORT_H
#define TEST_ST_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "safetensors/safetensors.h"

/* Length, header and n_data bytes 0, 1, 2, ... in one block; *out_n_bytes of them. */
static inline uint8_t *st_build(const char *header, size_t n_header, size_t n_data,
                                size_t *out_n_bytes)
{
    uint8_t *bytes = malloc(8 + n_header + n_data + 1);
    assert_non_null(bytes);
    qni_store_u64le(bytes, n_header);
    memcpy(bytes + 8, header, n_header);
    for (size_t i = 0; i < n_data; i++) {
        bytes[8 + n_header + i] = (uint8_t)i;
    }
    *out_n_bytes = 8 + n_header + n_data;
    return bytes;
}

/* Counts what is alive and the largest request; fails from the n-th allocation on if n >= 0. */
typedef struct st_memory {
    int64_t n_left; /* -1: without end */
    int64_t n_alive;
    size_t n_largest;
} st_memory;

static inline void *st_memory_alloc(void *ctx, size_t n_bytes, size_t alignment)
{
    st_memory *memory = ctx;
    (void)alignment;
    if (memory->n_left == 0) {
        return NULL;
    }
    memory->n_left -= memory->n_left > 0;
    memory->n_alive++;
    memory->n_largest = n_bytes > memory->n_largest ? n_bytes : memory->n_largest;
    return malloc(n_bytes);
}

static inline void st_memory_free(void *ctx, void *ptr, size_t n_bytes, size_t alignment)
{
    st_memory *memory = ctx;
    (void)n_bytes;
    (void)alignment;
    memory->n_alive--;
    free(ptr);
}

static inline qn_allocator st_allocator(st_memory *memory, int64_t n_left)
{
    *memory = (st_memory){.n_left = n_left};
    return (qn_allocator){memory, st_memory_alloc, st_memory_free};
}

#endif
