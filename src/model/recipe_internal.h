/* recipe_internal.h — what can be done to tensors: the executor's table of functions.
 *
 * A recipe says how its item is cut (measure) and makes the output bytes of a run of units (run).
 * It writes no file and reads none but what its item names; what it keeps between chunks only saves
 * work. So chunks may run in any order, on any thread. A new recipe is one file with one
 * qni_recipe.
 */
#ifndef QNI_RECIPE_INTERNAL_H
#define QNI_RECIPE_INTERNAL_H

#include "model/plan_internal.h"
#include "quench/export.h"

enum { QNI_MAX_OUTPUTS = 4 };

/* How an item is cut. A unit is what may not be divided: a row, or for copies a few blocks. All
 * units are equal but the last, which may be shorter. */
typedef struct qni_geometry {
    int64_t n_units;
    int64_t unit_in_bytes;
    int64_t unit_out_bytes[QNI_MAX_OUTPUTS]; /* of each output; not used by verbatim recipes */
    int64_t unit_scratch_bytes;              /* of working memory */
    int64_t n_scratch_units; /* that working memory has to hold at most; 0: all of a chunk */
    int64_t kept_bytes;      /* of memory that a worker keeps from chunk to chunk of the item */
} qni_geometry;

/* A run of units of one item. */
typedef struct qni_chunk {
    const qn_plan *plan;
    const qni_item *item;
    const qni_geometry *geometry;
    int64_t first_unit;
    int64_t n_units;
    uint8_t *in; /* may be overwritten */
    int64_t n_in_bytes;
    uint8_t *out[QNI_MAX_OUTPUTS];
    float *scratch;
    void *kept;         /* what run() left there for the same item, or anything */
    bool is_kept_fresh; /* this worker's first chunk of the item: there is nothing yet */
    qn_isa isa;
} qni_chunk;

/* Sums kept for an item, added in row order. */
typedef struct qni_item_notes {
    qn_item_planes planes;
    double delta2; /* of a merge: squares of W' - W and of W */
    double weight2;
    int64_t n_rows; /* that were added */
} qni_item_notes;

typedef struct qni_recipe {
    qn_recipe_kind kind;
    const char *name;
    bool is_verbatim; /* the output bytes are the input bytes: no `out` buffer */
    /* keeps_rows: somebody compares the decoded rows with the output, they must stay. */
    qn_status (*measure)(const qn_plan *plan, const qni_item *item, bool keeps_rows,
                         qni_geometry *out_geometry, qn_error *err);
    qn_status (*run)(const qni_chunk *chunk, qn_error *err);
    /* Add what the last run() left in the chunk's scratch, behind the decoded rows, to sums kept
     * for each item. Called in row order. NULL: nothing. */
    void (*add_notes)(const qni_chunk *chunk, qni_item_notes *sums);
} qni_recipe;

/* For recipes that work on rows: units, input and scratch bytes of one row each, the scratch being
 * the row as floats. */
QN_NODISCARD qn_status qni_measure_rows(const qni_item *item, qni_geometry *out_geometry,
                                        qn_error *err);
/* Validate a chunk's rows and decode them into its scratch. */
QN_NODISCARD qn_status qni_decode_rows(const qni_chunk *chunk, qn_error *err);

/* Encode a chunk's rows from its scratch to its first output. */
QN_NODISCARD qn_status qni_encode_rows_of(const qni_chunk *chunk, qn_error *err);

extern const qni_recipe qni_recipe_copy;
extern const qni_recipe qni_recipe_read; /* as copy, but whatever the values are */
extern const qni_recipe qni_recipe_convert;
extern const qni_recipe qni_recipe_planes;
extern const qni_recipe qni_recipe_merge;

#endif
