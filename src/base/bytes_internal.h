/* bytes_internal.h — checked arithmetic, unaligned little-endian loads and stores, a byte cursor,
 * text helpers. Values from a file meet arithmetic only through the checked helpers. */
#ifndef QNI_BYTES_INTERNAL_H
#define QNI_BYTES_INTERNAL_H

#include <string.h>

#include "base/error_internal.h"

/* Where `n_bytes` after p is, to ask for its cache line early; never to read it, as it may lie past
 * every object. So it is reckoned as a number, which loses a prefetch nothing. */
QNI_INLINE const char *qni_line_ahead(const void *p, int64_t n_bytes)
{
    return (const char *)((uintptr_t)p + (uintptr_t)n_bytes);
}

/* Each returns false when the result does not fit; *out is then undefined. */
QNI_INLINE bool qni_add_i64(int64_t a, int64_t b, int64_t *out)
{
    return !__builtin_add_overflow(a, b, out);
}
QNI_INLINE bool qni_mul_i64(int64_t a, int64_t b, int64_t *out)
{
    return !__builtin_mul_overflow(a, b, out);
}
QNI_INLINE bool qni_add_size(size_t a, size_t b, size_t *out)
{
    return !__builtin_add_overflow(a, b, out);
}
QNI_INLINE bool qni_mul_size(size_t a, size_t b, size_t *out)
{
    return !__builtin_mul_overflow(a, b, out);
}
/* x >= 0 rounded up to a multiple of the power of two `alignment`. */
QNI_INLINE bool qni_align_up_i64(int64_t x, int64_t alignment, int64_t *out)
{
    if (!qni_add_i64(x, alignment - 1, out)) {
        return false;
    }
    *out &= ~(alignment - 1);
    return true;
}
QNI_INLINE int64_t qni_min_i64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}
QNI_INLINE int64_t qni_max_i64(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Loads and stores at any address; compilers make one instruction of each. */
QNI_INLINE uint16_t qni_load_u16le(const void *p)
{
    const uint8_t *b = p;
    return (uint16_t)(b[0] | (uint32_t)b[1] << 8);
}
QNI_INLINE uint32_t qni_load_u32le(const void *p)
{
    const uint8_t *b = p;
    return b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}
QNI_INLINE uint64_t qni_load_u64le(const void *p)
{
    return qni_load_u32le(p) | (uint64_t)qni_load_u32le((const uint8_t *)p + 4) << 32;
}
QNI_INLINE void qni_store_u16le(void *p, uint16_t v)
{
    uint8_t *b = p;
    b[0] = (uint8_t)v;
    b[1] = (uint8_t)(v >> 8);
}
QNI_INLINE void qni_store_u32le(void *p, uint32_t v)
{
    qni_store_u16le(p, (uint16_t)v);
    qni_store_u16le((uint8_t *)p + 2, (uint16_t)(v >> 16));
}
QNI_INLINE void qni_store_u64le(void *p, uint64_t v)
{
    qni_store_u32le(p, (uint32_t)v);
    qni_store_u32le((uint8_t *)p + 4, (uint32_t)(v >> 32));
}
QNI_INLINE float qni_f32_from_bits(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}
QNI_INLINE uint32_t qni_f32_bits(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}
QNI_INLINE float qni_load_f32le(const void *p)
{
    return qni_f32_from_bits(qni_load_u32le(p));
}
QNI_INLINE void qni_store_f32le(void *p, float v)
{
    qni_store_u32le(p, qni_f32_bits(v));
}

/* A reading position in borrowed bytes. Never passes the end: a read that would is
 * QN_ERR_END_OF_STREAM at its offset. `is_big_endian` swaps integers. */
typedef struct qni_cursor {
    const uint8_t *bytes;
    int64_t n_bytes;
    int64_t pos;
    bool is_big_endian;
} qni_cursor;
QNI_INLINE int64_t qni_cursor_left(const qni_cursor *cur)
{
    return cur->n_bytes - cur->pos;
}
/* `what` names the value in the error ("tensor count"). */
QN_NODISCARD qn_status qni_cursor_take(qni_cursor *cur, int64_t n_bytes, const uint8_t **out_bytes,
                                       const char *what, qn_error *err);
QN_NODISCARD qn_status qni_cursor_u32(qni_cursor *cur, uint32_t *out, const char *what,
                                      qn_error *err);
QN_NODISCARD qn_status qni_cursor_u64(qni_cursor *cur, uint64_t *out, const char *what,
                                      qn_error *err);

/* ASCII only, no locale. */
bool qni_equal_nocase(const char *a, const char *b);
/* A whole decimal number and nothing else: sign, digits; false if it is not or does not fit. */
bool qni_parse_i64(const char *text, int64_t *out);
/* A whole finite decimal or hexadecimal floating-point number and nothing else, "." as point. */
bool qni_parse_f64(const char *text, double *out);
/* Bytes of a size as people write it: 64, 64K, 64KiB, 64M, 64MiB, 1G (powers of 1024). */
bool qni_parse_size(const char *text, int64_t *out_n_bytes);
/* True if all bytes form valid UTF-8 (shortest forms, no surrogates); else *out_bad_at, if not
 * NULL, is the index of the first byte of the bad sequence. */
bool qni_utf8_is_valid(const void *bytes, size_t n_bytes, size_t *out_bad_at);

#endif
