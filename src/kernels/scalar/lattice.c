/* lattice.c — the search tables of the lattice types, made in memory that the caller provides.
 *
 * Distances are small integers, so no sorting is needed: for each cell the distances to all points
 * are added up from two precomputed halves, the smallest few values are found, and one pass in
 * index order deals the points out to them. The lists are those of ggml for every cell that an
 * encoder can ask for; a test compares them with a plain sort. */
#include "kernels/lattice_internal.h"

/* Larger distances never belong to a kept shell; they are stored as this. */
#define FAR 127

const qni_codebook qni_codebooks[QNI_LATTICE_COUNT] = {
    [QNI_LATTICE_IQ1] = {8, 3, 2, 2048, 3, 6561, 0, 343304, qni_points_iq1s, {-1, 0, 1}},
    [QNI_LATTICE_IQ2_XXS] = {8, 3, 2, 256, 2, 6561, 1, 239576, qni_points_iq2xxs, {8, 25, 43}},
    [QNI_LATTICE_IQ2_XS] = {8, 3, 2, 512, 2, 6561, 1, 323016, qni_points_iq2xs, {8, 25, 43}},
    [QNI_LATTICE_IQ2_S] = {8, 3, 2, 1024, 1, 6561, 0, 69064, qni_points_iq2s, {8, 25, 43}},
    [QNI_LATTICE_IQ3_XXS] =
        {4, 8, 4, 256, 2, 4096, 1, 66280, qni_points_iq3xxs, {4, 12, 20, 28, 36, 44, 52, 62}},
    [QNI_LATTICE_IQ3_S] =
        {4, 8, 4, 512, 3, 4096, 1, 67600, qni_points_iq3s, {1, 3, 5, 7, 9, 11, 13, 15}},
};

/* What the builder works with. A half is the table of distances from every combination of levels in
 * half of the dimensions (3^4 or 8^2 rows) to all points; both lie behind the lists. */
typedef struct workshop {
    uint8_t *half[2];
    uint8_t distance[QNI_LATTICE_MAX_POINTS];
    uint16_t shell[4][QNI_LATTICE_MAX_POINTS];
    uint32_t one_hot[QNI_LATTICE_MAX_POINTS]; /* bit n_levels * k + level of dimension k */
    uint32_t forbids[QNI_LATTICE_MAX_POINTS]; /* of the kept points of the current list */
    uint8_t uncovered[8][8];                  /* cell's level, near level -> far levels, as bits */
} workshop;

/* Where things lie in the caller's memory. */
typedef struct layout {
    size_t cells_at;
    size_t lists_at;
    size_t half_at;
    size_t half_bytes;
    size_t n_bytes;
} layout;

static const qni_codebook *book_of(qn_dtype dtype)
{
    switch (dtype) {
    case QN_DTYPE_IQ1_S:
    case QN_DTYPE_IQ1_M:
        return &qni_codebooks[QNI_LATTICE_IQ1];
    case QN_DTYPE_IQ2_XXS:
        return &qni_codebooks[QNI_LATTICE_IQ2_XXS];
    case QN_DTYPE_IQ2_XS:
        return &qni_codebooks[QNI_LATTICE_IQ2_XS];
    case QN_DTYPE_IQ2_S:
        return &qni_codebooks[QNI_LATTICE_IQ2_S];
    case QN_DTYPE_IQ3_XXS:
        return &qni_codebooks[QNI_LATTICE_IQ3_XXS];
    case QN_DTYPE_IQ3_S:
        return &qni_codebooks[QNI_LATTICE_IQ3_S];
    default:
        return NULL;
    }
}

static int32_t power(int32_t base, int32_t exponent)
{
    int32_t p = 1;
    for (int32_t i = 0; i < exponent; i++) {
        p *= base;
    }
    return p;
}

static size_t round_up(size_t n, size_t to)
{
    return (n + to - 1) / to * to;
}

static layout layout_of(const qni_codebook *book)
{
    layout l;
    l.cells_at = round_up(sizeof(struct qni_lattice), 64);
    l.lists_at = round_up(l.cells_at + sizeof(qni_lattice_cell) * (size_t)book->n_cells, 64);
    const size_t n_words = (size_t)book->n_list_words + QNI_LATTICE_PAD;
    l.half_at = round_up(l.lists_at + sizeof(uint16_t) * n_words, 64);
    l.half_bytes = (size_t)power(book->n_levels, book->n_dims / 2) * (size_t)book->n_points;
    l.n_bytes = l.half_at + 2 * l.half_bytes;
    return l;
}

qn_dtype qni_lattice_owner(qn_dtype dtype)
{
    return dtype == QN_DTYPE_IQ1_M ? QN_DTYPE_IQ1_S : dtype;
}

size_t qni_lattice_bytes(qn_dtype dtype)
{
    const qni_codebook *book = book_of(dtype);
    return book ? layout_of(book).n_bytes : 0;
}

static int32_t level_of(const qni_codebook *book, uint32_t packed, int32_t k)
{
    return (int32_t)(packed >> (book->level_bits * k)) & ((1 << book->level_bits) - 1);
}

/* Squared distances in units of (2 * level) squared over 4, in dimensions first_dim and on. */
static void fill_half(const qni_codebook *book, int32_t first_dim, uint8_t *out)
{
    int32_t n_half = book->n_dims / 2;
    int32_t n_rows = power(book->n_levels, n_half);
    for (int32_t row = 0; row < n_rows; row++) {
        for (int32_t j = 0; j < book->n_points; j++) {
            int32_t sum = 0;
            for (int32_t k = 0, rest = row; k < n_half; k++, rest /= book->n_levels) {
                int32_t d = level_of(book, book->points[j], first_dim + k) - rest % book->n_levels;
                sum += d * d;
            }
            out[row * book->n_points + j] = (uint8_t)(sum > FAR ? FAR : sum);
        }
    }
}

static void add_halves(const uint8_t *restrict a, const uint8_t *restrict b, int32_t n,
                       uint8_t *restrict out)
{
    for (int32_t j = 0; j < n; j++) {
        uint8_t sum = (uint8_t)(a[j] + b[j]); /* at most 254 */
        out[j] = sum > FAR ? FAR : sum;
    }
}

/* The smallest distance above `above`, or FAR. */
static uint8_t next_distance(const uint8_t *distance, int32_t n, int32_t above)
{
    uint8_t low = FAR;
    uint8_t from = (uint8_t)(above + 1);
    for (int32_t j = 0; j < n; j++) {
        uint8_t d = distance[j] < from ? FAR : distance[j];
        low = d < low ? d : low;
    }
    return low;
}

/* True if one of eight distances is at most `limit` (both at most FAR): no carry leaves a byte. */
static bool any_within(const uint8_t *distance, uint8_t limit)
{
    const uint64_t ones = UINT64_C(0x0101010101010101);
    uint64_t eight;
    memcpy(&eight, distance, sizeof eight);
    return (~(eight + ones * (uint64_t)(FAR - limit)) & (ones << 7)) != 0;
}

/* The list of a cell: points of the kept shells by (distance, index). Returns its length. */
static int32_t list_of(const qni_codebook *book, workshop *shop, uint16_t *out)
{
    uint8_t kept[4];
    int32_t n_kept = 0;
    for (int32_t last = -1; n_kept < book->n_shells; n_kept++) {
        kept[n_kept] = next_distance(shop->distance, book->n_points, last);
        last = kept[n_kept];
    }
    int32_t n_in[4] = {0, 0, 0, 0};
    for (int32_t j = 0; j < book->n_points; j += 8) {
        if (!any_within(shop->distance + j, kept[n_kept - 1])) {
            continue;
        }
        for (int32_t i = j; i < j + 8; i++) {
            for (int32_t s = 0; s < n_kept; s++) {
                shop->shell[s][n_in[s]] = (uint16_t)i;
                n_in[s] += shop->distance[i] == kept[s];
            }
        }
    }
    int32_t n = 0;
    for (int32_t s = 0; s < n_kept; s++) {
        memcpy(out + n, shop->shell[s], sizeof(uint16_t) * (size_t)n_in[s]);
        n += n_in[s];
    }
    return n;
}

/* Whether a point at level `near` is, in one dimension, nowhere farther than one at level `far`
 * from any position of the cell of level `cell`: at the cell's level, equal, on the same side and
 * not beyond, or on the other side and at least a level nearer. */
static bool covers(int32_t cell, int32_t near, int32_t far)
{
    int32_t q = near - cell;
    int32_t p = far - cell;
    int32_t q_abs = q < 0 ? -q : q;
    int32_t p_abs = p < 0 ? -p : p;
    return q == 0 || p == q || (p * q > 0 && q_abs <= p_abs) || q_abs + 1 <= p_abs;
}

/* One bit per dimension and level, as in one_hot: where a point would be out of `near`'s cover. */
static uint32_t forbidden_by(const qni_codebook *book, const workshop *shop, int32_t cell,
                             uint32_t near)
{
    uint32_t bits = 0;
    for (int32_t k = 0, rest = cell; k < book->n_dims; k++, rest /= book->n_levels) {
        uint32_t row = shop->uncovered[rest % book->n_levels][level_of(book, near, k)];
        bits |= row << (book->n_levels * k);
    }
    return bits;
}

/* Copies the list without its dominated points. A point is dominated if an earlier one is nowhere
 * farther in any dimension: then every term of its distance is at least as large, as rounded too,
 * and the earlier one wins a tie. docs/design/lattice-encoders.md says where this may be used. */
static int32_t prune(const qni_codebook *book, workshop *shop, int32_t cell, const uint16_t *list,
                     int32_t n_list, uint16_t *out)
{
    int32_t n = 0;
    for (int32_t i = 0; i < n_list; i++) {
        uint32_t hot = shop->one_hot[list[i]];
        int32_t j = 0;
        while (j < n && (hot & shop->forbids[j]) != 0) {
            j++;
        }
        if (j == n) {
            shop->forbids[n] = forbidden_by(book, shop, cell, book->points[list[i]]);
            out[n++] = list[i];
        }
    }
    return n;
}

/* Turns indices into packed points and pads with copies of the first, which never win against it;
 * returns the length with padding. */
static int32_t finish_list(const qni_codebook *book, uint16_t *list, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        list[i] = book->points[list[i]];
    }
    while (n % QNI_LATTICE_PAD != 0) {
        list[n++] = list[0];
    }
    return n;
}

static void fill_one_hot(const qni_codebook *book, uint32_t *out)
{
    for (int32_t j = 0; j < book->n_points; j++) {
        out[j] = 0;
        for (int32_t k = 0; k < book->n_dims; k++) {
            out[j] |= UINT32_C(1) << (book->n_levels * k + level_of(book, book->points[j], k));
        }
    }
}

static void fill_uncovered(const qni_codebook *book, uint8_t (*out)[8])
{
    for (int32_t cell = 0; cell < book->n_levels; cell++) {
        for (int32_t near = 0; near < book->n_levels; near++) {
            out[cell][near] = 0;
            for (int32_t far = 0; far < book->n_levels; far++) {
                out[cell][near] |= (uint8_t)(!covers(cell, near, far) << far);
            }
        }
    }
}

/* Cell of the part of a packed point that lies in the byte whose lowest dimension is first_dim. */
static void fill_cell_bytes(const qni_codebook *book, int32_t first_dim, uint16_t *out)
{
    int32_t n_in_byte = 8 / book->level_bits;
    int32_t weight = power(book->n_levels, first_dim);
    for (uint32_t byte = 0; byte < 256; byte++) {
        int32_t sum = 0;
        for (int32_t k = n_in_byte - 1; k >= 0; k--) {
            /* levels above the largest never occur in a packed point */
            sum = sum * book->n_levels + level_of(book, byte, k) % book->n_levels;
        }
        out[byte] = (uint16_t)(sum * weight);
    }
}

static void mark_points(const struct qni_lattice *tables, qni_lattice_cell *cells)
{
    for (int32_t j = 0; j < tables->book->n_points; j++) {
        uint16_t packed = tables->book->points[j];
        cells[qni_lattice_cell_of(tables, packed)] = (qni_lattice_cell){(uint16_t)j, packed, 0, 1};
    }
}

/* Makes both lists of one cell at list word *at and moves it on. */
static void fill_cell(const qni_codebook *book, workshop *shop, int32_t cell, uint16_t *lists,
                      int32_t *at, qni_lattice_cell *out)
{
    int32_t n_rows = power(book->n_levels, book->n_dims / 2);
    add_halves(shop->half[0] + cell % n_rows * book->n_points,
               shop->half[1] + cell / n_rows * book->n_points, book->n_points, shop->distance);
    uint16_t full[QNI_LATTICE_MAX_POINTS];
    int32_t n_full = list_of(book, shop, full);
    out->n_full = (uint16_t)n_full;
    out->n_pruned = (uint16_t)n_full;
    out->pruned_at = (uint16_t)(*at / QNI_LATTICE_PAD);
    if (book->is_pruned) {
        int32_t n = prune(book, shop, cell, full, n_full, lists + *at);
        out->n_pruned = (uint16_t)n;
        *at += finish_list(book, lists + *at, n);
    }
    out->full_at = (uint16_t)(*at / QNI_LATTICE_PAD);
    memcpy(lists + *at, full, sizeof(uint16_t) * (size_t)n_full);
    *at += finish_list(book, lists + *at, n_full);
}

/* Everything that does not depend on the cell. */
static void open_workshop(const qni_codebook *book, uint8_t *half, size_t half_bytes,
                          workshop *shop)
{
    shop->half[0] = half;
    shop->half[1] = half + half_bytes;
    fill_half(book, 0, shop->half[0]);
    fill_half(book, book->n_dims / 2, shop->half[1]);
    if (book->is_pruned) {
        fill_one_hot(book, shop->one_hot);
        fill_uncovered(book, shop->uncovered);
    }
}

const struct qni_lattice *qni_lattice_build(qn_dtype dtype, void *memory)
{
    const qni_codebook *book = book_of(dtype);
    if (!book) {
        return NULL;
    }
    const layout l = layout_of(book);
    uint8_t *base = memory;
    struct qni_lattice *tables = memory;
    qni_lattice_cell *cells = (qni_lattice_cell *)(void *)(base + l.cells_at);
    uint16_t *lists = (uint16_t *)(void *)(base + l.lists_at);

    *tables = (struct qni_lattice){.book = book, .cells = cells, .lists = lists};
    fill_cell_bytes(book, 0, tables->low_cell);
    fill_cell_bytes(book, book->n_dims / 2, tables->high_cell);
    memset(cells, 0, sizeof *cells * (size_t)book->n_cells);
    mark_points(tables, cells);

    workshop shop;
    open_workshop(book, base + l.half_at, l.half_bytes, &shop);
    int32_t at = 0;
    for (int32_t cell = 0; cell < book->n_cells; cell++) {
        if (cells[cell].n_pruned == 0) {
            fill_cell(book, &shop, cell, lists, &at, &cells[cell]);
        }
    }
    assert(at == book->n_list_words);
    memset(lists + at, 0, sizeof(uint16_t) * QNI_LATTICE_PAD);
    return tables;
}
