/* stream_internal.h — the executor's parts.
 *
 *     stream.c     a run: begin, range, commit; one chunk
 *     cut.c        cutting items into chunks within the memory budget
 *     sinks.c      what is done with a chunk's output: written, digested, measured, counted
 *     report.c     errors of new values against old ones
 *     journal.c    what a killed run left, and how it goes on
 *     cache.c      pages of the inputs: read ahead, dropped behind
 *
 * Every chunk goes the same way: read, recipe, write, and, when something wants the results in
 * order, a turn. */
#ifndef QNI_STREAM_INTERNAL_H
#define QNI_STREAM_INTERNAL_H

#include <stdatomic.h>

#include "model/recipe_internal.h"

#define QNI_BUFFER_ALIGNMENT 64
#define QNI_DEFAULT_MEMORY   (INT64_C(40) << 20)

enum { QNI_MAX_SLOTS = 2 };

/* The buffers of one chunk. */
typedef struct qni_slot {
    uint8_t *memory;
    int64_t kept_for; /* item whose kept memory is there, counted from 1; 0: none */
    qni_chunk chunk;
    bool is_waiting; /* the chunk is made but not written */
} qni_slot;

/* One thread's slots, used in turn, and its share of the statistics. */
typedef struct qni_worker {
    qni_slot slots[QNI_MAX_SLOTS];
    int32_t current;
    qn_run_stats stats;
    double cpu_seconds;
} qni_worker;

/* How one item is cut and how far it is. */
typedef struct qni_task {
    qni_geometry geometry;
    int64_t chunk_units;
    int64_t first_chunk; /* of this item, counted through the plan */
    atomic_int_fast64_t n_chunks_left;
    atomic_uint_fast64_t digest; /* sum over units, see qni_journal_unit() */
    bool is_done;
    bool was_done; /* before this run: its bytes are in the partial output */
} qni_task;

typedef struct qni_journal qni_journal;
typedef struct qni_cache qni_cache;
typedef struct qni_error_sums qni_error_sums;

struct qn_run {
    const qn_plan *plan;
    qn_run_options options;
    const qn_allocator *allocator;
    qni_pool *pool;
    qni_turn *turn; /* NULL: nothing wants order */
    qni_worker *workers;
    int n_workers;
    int32_t n_slots; /* of each worker */
    size_t n_slot_bytes;
    atomic_flag is_writing; /* some worker writes: the system would have a second one wait */
    qni_task *tasks;        /* one for each item */
    int64_t n_chunks;
    qni_output *outputs; /* one for each file; none when nothing is written */
    int32_t n_outputs;
    qni_error_sums *errors; /* one for each item, or NULL */
    qni_item_notes *notes;  /* the same */
    qni_journal *journal;   /* NULL: no resume */
    qni_cache *cache;       /* NULL: pages are left alone */
    int64_t next_item;      /* with order: the item that must come next */
    int64_t first_chunk;    /* of the range under way */
    int64_t total_bytes;    /* of sources */
    atomic_int_fast64_t done_bytes;
    int64_t digested_to; /* place in the output under way up to which bytes were handed out */
    int32_t digested_file;
    double start_seconds;
    double work_seconds; /* wall time in ranges */
    double cpu_seconds;
    double sync_seconds;
    bool has_failed;
    qn_status failure; /* of the range that failed */
    bool is_committed;
    bool is_begun;
    bool had_parts; /* of an earlier run, to be continued */
};

/* --- cut.c ------------------------------------------------------------------------------------ */

/* Decide chunk sizes, the number of threads and of their slots, after run->turn. */
QN_NODISCARD qn_status qni_cut(qn_run *run, qn_error *err);
/* The item that chunk `number` belongs to. */
int64_t qni_item_of_chunk(const qn_run *run, int64_t number);
/* Describe chunk `number` and lay its buffers out in a slot's memory, which has room for
 * qni_report_bytes() more at *out_rest. */
qni_chunk qni_chunk_at(const qn_run *run, int64_t number, qni_slot *slot, uint8_t **out_rest);

/* --- sinks.c ---------------------------------------------------------------------------------- */

/* Write the output bytes of a chunk to their files. Any order, any thread. */
QN_NODISCARD qn_status qni_sink_write(qn_run *run, const qni_chunk *chunk, int64_t *out_n_bytes,
                                      qn_error *err);
/* Hand the output bytes to the callbacks. In order only. */
void qni_sink_digest(qn_run *run, const qni_chunk *chunk);
/* Hand out headers and padding up to the first tensor of an item, or to the end of all files
 * (item NULL). */
void qni_sink_digest_up_to(qn_run *run, const qni_item *item);
/* The bytes that output number `k` of a chunk consists of. */
const uint8_t *qni_chunk_output(const qni_chunk *chunk, int32_t k, int64_t *out_offset,
                                int64_t *out_n_bytes);

/* --- report.c --------------------------------------------------------------------------------- */

QN_NODISCARD qn_status qni_report_new(qn_run *run, qn_error *err);
void qni_report_free(qn_run *run);
/* Does an item merge adapters? How much it changed is then summed, in order, in every run. */
bool qni_report_has_merge(const qn_plan *plan);
/* Bytes of working memory that measuring n units takes, after the recipe's own. */
int64_t qni_report_bytes(const qn_run *run, const qni_item *item, int64_t n_units);
/* Decode the output and sum row by row into `rest`. Any order, any thread. */
QN_NODISCARD qn_status qni_report_measure(const qn_run *run, const qni_chunk *chunk, uint8_t *rest,
                                          qn_error *err);
/* Add the rows of a chunk to its item. In order only. */
void qni_report_add(qn_run *run, const qni_chunk *chunk, const uint8_t *rest);

/* --- cache.c ---------------------------------------------------------------------------------- */

/* After the outputs are open and finished items are known; nothing with keep_page_cache. */
QN_NODISCARD qn_status qni_cache_new(qn_run *run, qn_error *err);
void qni_cache_free(qn_run *run);
/* Around each read of an input (offset in the tensor) and after each write (offset in the file). */
void qni_cache_before_read(qn_run *run, const qni_plan_input *input, int64_t offset);
void qni_cache_after_read(qn_run *run, const qni_plan_input *input, int64_t offset,
                          int64_t n_bytes);
void qni_cache_after_write(qn_run *run, int32_t output, int64_t offset, int64_t n_bytes);
void qni_cache_after_sync(qn_run *run);

/* --- journal.c -------------------------------------------------------------------------------- */

/* With resume: find out what an earlier run has finished (sets was_done), and keep on noting it.
 * `have_parts`: the partial outputs were there. */
QN_NODISCARD qn_status qni_journal_open(qn_run *run, const char *first_path, bool have_parts,
                                        qn_error *err);
/* Close it; without do_keep it is removed. */
void qni_journal_close(qn_run *run, bool do_keep);
/* The path of a partial output, *out_n bytes; NULL without memory. */
char *qni_journal_part_path(qn_run *run, const char *out_path, size_t *out_n);
/* What a chunk adds to its item's digest. */
uint64_t qni_journal_digest(const qni_chunk *chunk);
/* Note that an item is finished. Any thread. */
void qni_journal_record(qn_run *run, int64_t item, uint64_t digest);

/* --- stream.c --------------------------------------------------------------------------------- */

/* Chunk `number` with its output bytes read back from the output files into a worker's buffers. */
QN_NODISCARD qn_status qni_run_read_back(qn_run *run, int64_t number, int worker,
                                         qni_chunk *out_chunk, qn_error *err);

#endif
