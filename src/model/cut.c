/* cut.c — how items are cut into chunks within the memory budget, and where a chunk's buffers lie.
 */
#include "model/stream_internal.h"

/* A chunk's buffers together take about this much. Measured on F16 -> Q8_0 with two threads: below
 * 1 MiB the writes get in each other's way (256 KiB: 20 % slower), 1.5 and 3 MiB are equal, 6 MiB
 * is 50 % slower, because the bytes have left the cache before they are read again. */
#define CHUNK_BYTES (INT64_C(1536) << 10)

static bool aligned(int64_t n_bytes, int64_t *out)
{
    return qni_align_up_i64(n_bytes, QNI_BUFFER_ALIGNMENT, out);
}

/* Units of a chunk of n that its scratch has room for. */
static int64_t scratch_units(const qni_geometry *geometry, int64_t n_units)
{
    return geometry->n_scratch_units > 0 ? qni_min_i64(n_units, geometry->n_scratch_units)
                                         : n_units;
}

/* sum += n units of n_bytes each, aligned. */
static bool add_buffer(int64_t n_units, int64_t n_bytes, int64_t *sum)
{
    return qni_mul_i64(n_bytes, n_units, &n_bytes) && aligned(n_bytes, &n_bytes) &&
           qni_add_i64(*sum, n_bytes, sum);
}

/* Bytes of buffers that n units need; false if they do not fit in 63 bits. */
static bool buffer_bytes(const qn_run *run, const qni_item *item, const qni_geometry *geometry,
                         int64_t n_units, int64_t *out_n_bytes)
{
    int64_t sum = qni_report_bytes(run, item, n_units);
    bool fits = add_buffer(1, geometry->kept_bytes, &sum) &&
                add_buffer(n_units, geometry->unit_in_bytes, &sum) &&
                add_buffer(scratch_units(geometry, n_units), geometry->unit_scratch_bytes, &sum);
    for (int32_t k = 0; k < item->n_outputs && !item->recipe->is_verbatim && fits; k++) {
        fits = add_buffer(n_units, geometry->unit_out_bytes[k], &sum);
    }
    *out_n_bytes = sum;
    return fits;
}

/* How many units a chunk of this item holds, given what one thread may take for it. */
static int64_t chunk_units_within(const qn_run *run, const qni_item *item,
                                  const qni_geometry *geometry, int64_t n_budget)
{
    const int64_t n_target = qni_min_i64(n_budget, geometry->kept_bytes + CHUNK_BYTES);
    int64_t fit = 1; /* one unit fits: largest_unit() has seen to it */
    int64_t too_many = qni_max_i64(1, geometry->n_units) + 1;
    while (too_many - fit > 1) {
        const int64_t middle = fit + (too_many - fit) / 2;
        int64_t n_bytes;
        if (buffer_bytes(run, item, geometry, middle, &n_bytes) && n_bytes <= n_target) {
            fit = middle;
        } else {
            too_many = middle;
        }
    }
    return fit;
}

static qn_status refuse_row(const qni_item *item, int64_t n_bytes, int64_t n_memory, qn_error *err)
{
    const qn_tensor_info *tensor = item->inputs[0].tensor;
    qni_name_text text;
    return qni_fail(
        err, QN_ERR_MEMORY_BUDGET, -1,
        "one row of tensor %s (%" PRId64 " elements) needs %" PRId64
        " bytes of buffers, more than the memory budget of %" PRId64 "; allow more memory",
        qni_escape_name(tensor->name, tensor->n_name, &text), tensor->ne[0], n_bytes, n_memory);
}

/* The most bytes that a single unit of any item needs: it bounds the number of threads. */
static qn_status largest_unit(const qn_run *run, int64_t n_memory, int64_t *out_n_bytes,
                              qn_error *err)
{
    *out_n_bytes = 1;
    for (int64_t i = 0; i < run->plan->n_items; i++) {
        const qni_item *item = &run->plan->items[i];
        int64_t n_bytes = INT64_MAX;
        const bool fits = buffer_bytes(run, item, &run->tasks[i].geometry, 1, &n_bytes);
        if (!fits || n_bytes > n_memory) {
            return refuse_row(item, n_bytes, n_memory, err);
        }
        *out_n_bytes = qni_max_i64(*out_n_bytes, n_bytes);
    }
    return QN_OK;
}

qn_status qni_cut(qn_run *run, qn_error *err)
{
    const qn_plan *plan = run->plan;
    const int64_t n_memory =
        run->options.memory_bytes > 0 ? run->options.memory_bytes : QNI_DEFAULT_MEMORY;
    int n_threads = run->options.n_threads > 0 ? run->options.n_threads : qni_cpu_count();
    for (int64_t i = 0; i < plan->n_items; i++) {
        const qni_item *item = &plan->items[i];
        const qn_status st =
            item->recipe->measure(plan, item, run->errors != NULL, &run->tasks[i].geometry, err);
        if (st != QN_OK) {
            return qni_item_blame(item, st, err);
        }
    }
    int64_t largest;
    QN_TRY(largest_unit(run, n_memory, &largest, err));
    n_threads = (int)qni_min_i64(n_threads, n_memory / largest);
    const bool may_defer = run->turn == NULL && !run->options.is_check_only;
    run->n_slots = may_defer && n_memory / n_threads / QNI_MAX_SLOTS >= largest ? QNI_MAX_SLOTS : 1;
    const int64_t n_slot_budget = n_memory / n_threads / run->n_slots;

    int64_t n_slot_bytes = QNI_BUFFER_ALIGNMENT;
    for (int64_t i = 0; i < plan->n_items; i++) {
        const qni_item *item = &plan->items[i];
        qni_task *task = &run->tasks[i];
        task->chunk_units = chunk_units_within(run, item, &task->geometry, n_slot_budget);
        task->first_chunk = run->n_chunks;
        const int64_t n_units = task->geometry.n_units;
        const int64_t n_chunks = n_units / task->chunk_units + (n_units % task->chunk_units != 0);
        atomic_init(&task->n_chunks_left, n_chunks);
        atomic_init(&task->digest, 0);
        run->n_chunks += n_chunks;
        run->total_bytes += item->inputs[0].tensor->n_bytes;
        int64_t n_bytes;
        if (buffer_bytes(run, item, &task->geometry, task->chunk_units, &n_bytes)) {
            n_slot_bytes = qni_max_i64(n_slot_bytes, n_bytes);
        }
    }
    run->n_workers = (int)qni_max_i64(1, qni_min_i64(n_threads, run->n_chunks));
    run->n_slot_bytes = (size_t)n_slot_bytes;
    return QN_OK;
}

/* --- one chunk -------------------------------------------------------------------------------- */

int64_t qni_item_of_chunk(const qn_run *run, int64_t number)
{
    int64_t low = 0;
    int64_t high = run->plan->n_items;
    while (high - low > 1) { /* the last item that begins at or before the chunk */
        const int64_t middle = low + (high - low) / 2;
        if (run->tasks[middle].first_chunk <= number) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

static uint8_t *take_buffer(uint8_t **memory, int64_t n_bytes)
{
    uint8_t *buffer = *memory;
    *memory += (n_bytes + QNI_BUFFER_ALIGNMENT - 1) / QNI_BUFFER_ALIGNMENT * QNI_BUFFER_ALIGNMENT;
    return buffer;
}

qni_chunk qni_chunk_at(const qn_run *run, int64_t number, qni_slot *slot, uint8_t **out_rest)
{
    const int64_t index = qni_item_of_chunk(run, number);
    const qni_task *task = &run->tasks[index];
    const qni_geometry *geometry = &task->geometry;
    qni_chunk chunk = {.plan = run->plan,
                       .item = &run->plan->items[index],
                       .geometry = geometry,
                       .first_unit = (number - task->first_chunk) * task->chunk_units,
                       .isa = run->options.isa};
    chunk.n_units = qni_min_i64(task->chunk_units, geometry->n_units - chunk.first_unit);
    const int64_t in_offset = chunk.first_unit * geometry->unit_in_bytes;
    chunk.n_in_bytes = qni_min_i64(chunk.n_units * geometry->unit_in_bytes,
                                   chunk.item->inputs[0].tensor->n_bytes - in_offset);
    uint8_t *memory = slot->memory;
    chunk.kept = take_buffer(&memory, geometry->kept_bytes);
    chunk.is_kept_fresh = slot->kept_for != index + 1;
    slot->kept_for = index + 1;
    chunk.in = take_buffer(&memory, chunk.n_units * geometry->unit_in_bytes);
    for (int32_t k = 0; k < chunk.item->n_outputs && !chunk.item->recipe->is_verbatim; k++) {
        chunk.out[k] = take_buffer(&memory, chunk.n_units * geometry->unit_out_bytes[k]);
    }
    void *scratch =
        take_buffer(&memory, scratch_units(geometry, chunk.n_units) * geometry->unit_scratch_bytes);
    chunk.scratch = scratch;
    *out_rest = memory;
    return chunk;
}
