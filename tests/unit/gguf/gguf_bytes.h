/* gguf_bytes.h — spelling GGUF bytes out for tests, in either byte order, without the library's
 * writer: nothing here checks anything. */
#ifndef QN_TEST_GGUF_BYTES_H
#define QN_TEST_GGUF_BYTES_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

typedef struct spelled {
    uint8_t bytes[1 << 17];
    int64_t n;
    bool is_big_endian;
} spelled;

static inline void put_raw(spelled *s, const void *bytes, size_t n)
{
    memcpy(s->bytes + s->n, bytes, n);
    s->n += (int64_t)n;
}

static inline void put_int(spelled *s, uint64_t value, int n_bytes)
{
    for (int i = 0; i < n_bytes; i++) {
        const int shift = 8 * (s->is_big_endian ? n_bytes - 1 - i : i);
        s->bytes[s->n++] = (uint8_t)(value >> shift);
    }
}

static inline void put_str(spelled *s, const char *text, size_t n)
{
    put_int(s, n, 8);
    put_raw(s, text, n);
}

static inline void put_text(spelled *s, const char *text)
{
    put_str(s, text, strlen(text));
}

static inline void put_head(spelled *s, uint32_t version, uint64_t n_tensors, uint64_t n_entries)
{
    put_raw(s, "GGUF", 4);
    put_int(s, version, 4);
    put_int(s, n_tensors, 8);
    put_int(s, n_entries, 8);
}

/* Key and type; the value follows. */
static inline void put_key(spelled *s, const char *key, uint32_t type)
{
    put_text(s, key);
    put_int(s, type, 4);
}

static inline void put_info(spelled *s, const char *name, int n_dims, const int64_t *ne,
                            uint32_t dtype, uint64_t offset)
{
    put_text(s, name);
    put_int(s, (uint64_t)n_dims, 4);
    for (int i = 0; i < n_dims; i++) {
        put_int(s, (uint64_t)ne[i], 8);
    }
    put_int(s, dtype, 4);
    put_int(s, offset, 8);
}

static inline void put_fill(spelled *s, uint8_t byte, int64_t n)
{
    memset(s->bytes + s->n, byte, (size_t)n);
    s->n += n;
}

static inline void put_align(spelled *s, int64_t alignment, uint8_t byte)
{
    put_fill(s, byte, (alignment - s->n % alignment) % alignment);
}

#endif
