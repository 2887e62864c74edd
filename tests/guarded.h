/* guarded.h — memory between two pages that may not be touched, for tests that nothing is read or
 * written outside a buffer. Needs _DEFAULT_SOURCE for MAP_ANONYMOUS, and cmocka. */
#ifndef QNT_GUARDED_H
#define QNT_GUARDED_H

#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>

enum { GUARDED_PAGE = 4096 };

typedef struct guarded {
    uint8_t *map;
    size_t n_map;
    uint8_t *first; /* first usable byte */
    uint8_t *end;   /* one past the last usable byte */
} guarded;

static inline guarded guarded_new(size_t n_bytes)
{
    guarded g;
    const size_t n_inside = (n_bytes + GUARDED_PAGE - 1) / GUARDED_PAGE * GUARDED_PAGE;
    g.n_map = n_inside + 2 * GUARDED_PAGE;
    g.map = mmap(NULL, g.n_map, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(g.map != MAP_FAILED);
    g.first = g.map + GUARDED_PAGE;
    g.end = g.first + n_inside;
    assert_int_equal(mprotect(g.first, n_inside, PROT_READ | PROT_WRITE), 0);
    return g;
}

static inline void guarded_free(guarded *g)
{
    munmap(g->map, g->n_map);
}

#endif
