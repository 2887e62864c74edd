/* lattice_internal.h — codebooks of the lattice types (iq1_*, iq2_*, iq3_*) and the tables that
 * find a point near a key.
 *
 * A point has a level in each dimension (0..2 in eight dimensions, 0..7 in four) and lies at the
 * odd positions 2 * level + 1. It is *packed* into 16 bits, dimension 0 lowest: two bits a level in
 * eight dimensions, four bits a level in four. Index order is ascending packed order.
 * A *cell* is any combination of levels, numbered in base 3 or 8, dimension 0 lowest. A cell that
 * is no point of the grid lists the grid's points near it: all at the n_shells smallest squared
 * distances of positions, ordered by (distance, index). Both are what ggml's encoders search. */
#ifndef QNI_LATTICE_INTERNAL_H
#define QNI_LATTICE_INTERNAL_H

#include "kernels/kernels.h"

/* The codebooks; iq1_s and iq1_m share one. */
typedef enum qni_lattice_kind {
    QNI_LATTICE_IQ1,
    QNI_LATTICE_IQ2_XXS,
    QNI_LATTICE_IQ2_XS,
    QNI_LATTICE_IQ2_S,
    QNI_LATTICE_IQ3_XXS,
    QNI_LATTICE_IQ3_S,
    QNI_LATTICE_COUNT
} qni_lattice_kind;

#define QNI_LATTICE_MAX_POINTS 2048
/* A list starts at a multiple of this many entries, and so many may be read past its end. */
#define QNI_LATTICE_PAD 8

typedef struct qni_codebook {
    int32_t n_dims;       /* 8 or 4 */
    int32_t n_levels;     /* 3 or 8 */
    int32_t level_bits;   /* bits of a level in a packed point: 2 or 4 */
    int32_t n_points;     /* in `points` */
    int32_t n_shells;     /* distances that a list keeps */
    int32_t n_cells;      /* n_levels to the power n_dims */
    int32_t is_pruned;    /* 1: the tables also hold lists without dominated points */
    int32_t n_list_words; /* entries of all lists, each padded to QNI_LATTICE_PAD */
    const uint16_t *points;
    float value[8]; /* what the decoder makes of a level */
} qni_codebook;

extern const qni_codebook qni_codebooks[QNI_LATTICE_COUNT];

/* The points, by index: codebooks.c, made by scripts/make_codebooks.py. */
extern const uint16_t qni_points_iq1s[2048];
extern const uint16_t qni_points_iq2xxs[256];
extern const uint16_t qni_points_iq2xs[512];
extern const uint16_t qni_points_iq2s[1024];
extern const uint16_t qni_points_iq3xxs[256];
extern const uint16_t qni_points_iq3s[512];

/* The same as bytes to multiply, dimension 0 lowest: 8, 25, 43 (iq2), 8 level + 1 (iq1), 4 .. 62
 * and 1 .. 15 (iq3). */
extern const uint64_t qni_octets_iq1s[2048];
extern const uint64_t qni_octets_iq2xxs[256];
extern const uint64_t qni_octets_iq2xs[512];
extern const uint64_t qni_octets_iq2s[1024];
extern const uint32_t qni_quads_iq3xxs[256];
extern const uint32_t qni_quads_iq3s[512];

/* The sign masks of the four 7-bit selectors in the low 28 bits, one a byte: bit 7 makes the number
 * of ones even. */
QNI_INLINE uint32_t qni_even_signs_x4(uint32_t selectors)
{
    const uint32_t s = (selectors & 0x7fu) | (selectors & 0x3f80u) << 1 |
                       (selectors & 0x1fc000u) << 2 | (selectors & 0xfe00000u) << 3;
    uint32_t parity = s ^ (s >> 4 & 0x0f0f0f0fu);
    parity ^= parity >> 2;
    parity ^= parity >> 1;
    return s | (parity & 0x01010101u) << 7;
}

/* What is known of a cell. Lists are given by their start in lists, in units of QNI_LATTICE_PAD.
 * A cell that is a point (n_full is 0) has its packed point and its index there instead. */
typedef struct qni_lattice_cell {
    uint16_t full_at;   /* n_full > 0: start of the list; else the index of the point */
    uint16_t pruned_at; /* n_full > 0: start of the list without dominated points; else the point */
    uint16_t n_full;
    uint16_t n_pruned;
} qni_lattice_cell;

struct qni_lattice {
    const qni_codebook *book;
    const qni_lattice_cell *cells; /* book->n_cells */
    const uint16_t *lists;         /* packed points */
    /* cell of a packed point = low_cell[its low byte] + high_cell[its high byte] */
    uint16_t low_cell[256];
    uint16_t high_cell[256];
};

QNI_INLINE uint32_t qni_lattice_cell_of(const struct qni_lattice *tables, uint32_t packed)
{
    return (uint32_t)tables->low_cell[packed & 255] + tables->high_cell[packed >> 8];
}

/* The index of a packed point of the grid. */
QNI_INLINE uint32_t qni_lattice_index_of(const struct qni_lattice *tables, uint32_t packed)
{
    return tables->cells[qni_lattice_cell_of(tables, packed)].full_at;
}

#endif
