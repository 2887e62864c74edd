/* stream.c — the executor: runs chunks of items on threads and commits the outputs together. It
 * knows plans and recipes, no policy and no container. */
#include "model/adapter_internal.h"
#include "model/stream_internal.h"

#define MAX_PATH_BYTES 4096

/* --- one chunk -------------------------------------------------------------------------------- */

static qn_status read_chunk(qn_run *run, const qni_chunk *chunk, qn_error *err)
{
    const qni_plan_input *input = &chunk->item->inputs[0];
    const int64_t offset = chunk->first_unit * chunk->geometry->unit_in_bytes;
    qni_cache_before_read(run, input, offset);
    QN_TRY(qni_source_read(input->model, input->tensor, offset, (size_t)chunk->n_in_bytes,
                           chunk->in, err));
    qni_cache_after_read(run, input, offset, chunk->n_in_bytes);
    return QN_OK;
}

qn_status qni_run_read_back(qn_run *run, int64_t number, int worker, qni_chunk *out_chunk,
                            qn_error *err)
{
    uint8_t *rest;
    *out_chunk = qni_chunk_at(run, number, &run->workers[worker].slots[0], &rest);
    run->workers[worker].slots[0].kept_for = 0;
    for (int32_t k = 0; k < out_chunk->item->n_outputs; k++) {
        const qn_tensor_info *tensor = &run->plan->tensors[out_chunk->item->first_output + k];
        int64_t offset, n_bytes;
        (void)qni_chunk_output(out_chunk, k, &offset, &n_bytes);
        uint8_t *into = out_chunk->item->recipe->is_verbatim ? out_chunk->in : out_chunk->out[k];
        QN_TRY(qni_file_pread(&run->outputs[tensor->shard].file, into, (size_t)n_bytes,
                              tensor->file_offset + offset, err));
    }
    return QN_OK;
}

/* What must happen in order: callbacks and sums. */
static qn_status hand_in(qn_run *run, int64_t number, const qni_chunk *chunk, uint8_t *rest)
{
    if (run->turn == NULL) {
        return QN_OK;
    }
    if (!qni_turn_wait(run->turn, number)) {
        return QN_ERR_CANCELLED;
    }
    if (run->options.on_item_bytes != NULL || run->options.on_output_bytes != NULL) {
        qni_sink_digest(run, chunk);
    }
    qni_report_add(run, chunk, rest);
    qni_turn_pass(run->turn);
    return QN_OK;
}

/* A chunk of an item that an earlier run has finished: its bytes are only handed out. */
static qn_status pass_chunk(qn_run *run, int64_t number, int worker, qn_error *err)
{
    uint8_t *rest;
    qni_chunk chunk = qni_chunk_at(run, number, &run->workers[worker].slots[0], &rest);
    run->workers[worker].slots[0].kept_for = 0;
    if (run->turn != NULL) {
        QN_TRY(qni_run_read_back(run, number, worker, &chunk, err));
    }
    atomic_fetch_add(&run->done_bytes, chunk.n_in_bytes);
    return hand_in(run, number, &chunk, rest);
}

static void finish_chunk(qn_run *run, const qni_chunk *chunk)
{
    qni_task *task = &run->tasks[chunk->item - run->plan->items];
    atomic_fetch_add(&run->done_bytes, chunk->n_in_bytes);
    if (run->journal != NULL) {
        atomic_fetch_add(&task->digest, qni_journal_digest(chunk));
    }
    if (atomic_fetch_sub(&task->n_chunks_left, 1) != 1) {
        return;
    }
    task->is_done = true;
    if (run->journal != NULL) {
        qni_journal_record(run, task - run->tasks, atomic_load(&task->digest));
    }
}

/* Read a chunk and make its output bytes in the worker's current slot. */
static qn_status make_chunk(qn_run *run, int64_t number, qni_worker *worker, uint8_t **out_rest,
                            qn_error *err)
{
    qni_slot *slot = &worker->slots[worker->current];
    slot->chunk = qni_chunk_at(run, number, slot, out_rest);
    const qni_chunk *chunk = &slot->chunk;
    const double t0 = qni_clock_seconds();
    qn_status st = read_chunk(run, chunk, err);
    const double t1 = qni_clock_seconds();
    worker->stats.read_seconds += t1 - t0;
    if (st == QN_OK) {
        st = chunk->item->recipe->run(chunk, err);
    }
    if (st == QN_OK) {
        st = qni_report_measure(run, chunk, *out_rest, err);
    }
    if (st != QN_OK) {
        return qni_item_blame(chunk->item, st, err);
    }
    worker->stats.compute_seconds += qni_clock_seconds() - t1;
    worker->stats.n_bytes_read += chunk->n_in_bytes;
    worker->stats.n_chunks++;
    slot->is_waiting = true;
    return QN_OK;
}

/* Write what waits in a worker's slots, what has waited longest first. */
static qn_status write_slots(qn_run *run, qni_worker *worker, qn_error *err)
{
    for (int32_t i = 1; i <= run->n_slots; i++) {
        qni_slot *slot = &worker->slots[(worker->current + i) % run->n_slots];
        if (!slot->is_waiting) {
            continue;
        }
        int64_t n_written;
        slot->is_waiting = false;
        QN_TRY(qni_sink_write(run, &slot->chunk, &n_written, err));
        worker->stats.n_bytes_written += n_written;
        finish_chunk(run, &slot->chunk);
    }
    return QN_OK;
}

/* Write, or leave the current slot for later and go on in the next one: a system lets one thread
 * at a time write to a file and has the others wait, most of them spinning. */
static qn_status write_behind(qn_run *run, qni_worker *worker, qn_error *err)
{
    const int32_t next = (worker->current + 1) % run->n_slots;
    const bool is_ours = !atomic_flag_test_and_set(&run->is_writing);
    if (!is_ours && !worker->slots[next].is_waiting) {
        worker->current = next;
        return QN_OK;
    }
    const double start = qni_clock_seconds();
    const qn_status st = write_slots(run, worker, err);
    worker->stats.write_seconds += qni_clock_seconds() - start;
    if (is_ours) {
        atomic_flag_clear(&run->is_writing);
    }
    return st;
}

/* What still waits when all chunks are made. */
static qn_status write_rest(qn_run *run, qn_error *err)
{
    for (int i = 0; i < run->n_workers; i++) {
        const double start = qni_clock_seconds();
        QN_TRY(write_slots(run, &run->workers[i], err));
        run->workers[i].stats.write_seconds += qni_clock_seconds() - start;
    }
    return QN_OK;
}

static qn_status do_chunk(qn_run *run, int64_t number, qni_worker *worker, qn_error *err)
{
    uint8_t *rest;
    QN_TRY(make_chunk(run, number, worker, &rest, err));
    QN_TRY(write_behind(run, worker, err));
    const double start = qni_clock_seconds();
    const qn_status st = hand_in(run, number, &worker->slots[worker->current].chunk, rest);
    worker->stats.order_seconds += qni_clock_seconds() - start;
    return st;
}

static bool tell_progress(qn_run *run)
{
    const qn_run_options *options = &run->options;
    return options->progress == NULL ||
           options->progress(options->progress_ctx, atomic_load(&run->done_bytes),
                             run->total_bytes);
}

static qn_status work(void *ctx, int64_t piece, int worker_index, qn_error *err)
{
    qn_run *run = ctx;
    qni_worker *worker = &run->workers[worker_index];
    const int64_t number = run->first_chunk + piece;
    const double cpu = qni_thread_cpu_seconds();
    const qn_status st = run->tasks[qni_item_of_chunk(run, number)].was_done
                             ? pass_chunk(run, number, worker_index, err)
                             : do_chunk(run, number, worker, err);
    worker->cpu_seconds += qni_thread_cpu_seconds() - cpu;
    if (st != QN_OK) {
        if (run->turn != NULL) {
            qni_turn_stop(run->turn, number);
        }
        return st;
    }
    if (worker_index == 0 && !tell_progress(run)) { /* the caller's own thread */
        qni_pool_cancel(run->pool);
    }
    return QN_OK;
}

/* --- begin ------------------------------------------------------------------------------------ */

static qn_status refuse_same(const char *path, bool is_input, qn_error *err)
{
    const qn_status st =
        qni_fail(err, QN_ERR_SAME_FILE, -1, "the output is %s; write to another name%s",
                 is_input ? "the input" : "a file that is read",
                 is_input ? ", then replace the input if you mean to" : "");
    return qni_fail_path(err, st, path);
}

/* No file that the job is made from may be replaced by what it makes. */
static qn_status check_model(const qn_model *model, const char *path, qn_error *err)
{
    const char *input;
    for (int32_t f = 0; (input = qn_model_input_path(model, f)) != NULL; f++) {
        if (qni_file_is_same(path, input)) {
            return refuse_same(path, f < model->n_files, err);
        }
    }
    return QN_OK;
}

static qn_status check_output_path(const qn_run *run, const char *path, qn_error *err)
{
    const qn_model *last = run->plan->model;
    QN_TRY(check_model(last, path, err));
    for (int64_t i = 0; i < run->plan->n_items; i++) {
        const qn_model *model = run->plan->items[i].inputs[0].model;
        if (model != last) {
            QN_TRY(check_model(model, path, err));
        }
        last = model;
    }
    for (int32_t i = 0; i < run->options.n_inputs; i++) {
        if (qni_file_is_same(path, run->options.inputs[i])) {
            return refuse_same(path, false, err);
        }
    }
    return QN_OK;
}

static qn_status check_free_space(const qn_run *run, const char *path, qn_error *err)
{
    int64_t n_bytes = 0;
    for (int32_t i = 0; i < run->plan->n_files; i++) {
        n_bytes += run->plan->files[i].n_bytes; /* sizes of files: the writer checked their sums */
    }
    const int64_t n_free = qni_file_free_space(path);
    if (n_free >= 0 && n_free < n_bytes) {
        const qn_status st =
            qni_fail(err, QN_ERR_NO_SPACE, -1,
                     "the output takes %" PRId64 " bytes but the file system has %" PRId64
                     " free; free %" PRId64 " more or write elsewhere",
                     n_bytes, n_free, n_bytes - n_free);
        return qni_fail_path(err, st, path);
    }
    return QN_OK;
}

static qn_status open_part(qn_run *run, const char *path, qni_output *output, bool *have_parts,
                           qn_error *err)
{
    size_t n_part;
    char *part = qni_journal_part_path(run, path, &n_part);
    if (part == NULL) {
        return qni_fail_memory(err, n_part);
    }
    bool existed;
    const qn_status st = qni_output_resume(path, part, run->allocator, output, &existed, err);
    qni_free(run->allocator, part, n_part);
    *have_parts = *have_parts && existed;
    return st;
}

static qn_status open_output(qn_run *run, int32_t index, const char *path, bool *have_parts,
                             qn_error *err)
{
    qni_output *output = &run->outputs[index];
    QN_TRY(check_output_path(run, path, err));
    if (run->options.do_resume) {
        QN_TRY(open_part(run, path, output, have_parts, err));
    } else {
        QN_TRY(qni_output_begin(path, run->allocator, output, err));
    }
    output->no_sync = run->options.no_sync;
    run->n_outputs++;
    return QN_OK;
}

static qn_status write_headers(qn_run *run, qn_error *err)
{
    for (int32_t i = 0; i < run->n_outputs; i++) {
        const qni_plan_file *file = &run->plan->files[i];
        QN_TRY(qni_output_preallocate(&run->outputs[i], file->n_bytes, err));
        QN_TRY(qni_file_pwrite(&run->outputs[i].file, file->header, (size_t)file->n_header_bytes, 0,
                               err));
    }
    return QN_OK;
}

static qn_status open_outputs(qn_run *run, const char *out_path, qn_error *err)
{
    const qn_plan *plan = run->plan;
    if (plan->n_files == 0 || run->options.is_check_only) {
        return QN_OK;
    }
    QN_CHECK(out_path != NULL, err, QN_ERR_INVALID_ARGUMENT, -1, "the output's path is missing");
    const size_t n_bytes = (size_t)plan->n_files * sizeof *run->outputs;
    run->outputs = qni_alloc_zeroed(run->allocator, n_bytes);
    if (run->outputs == NULL) {
        return qni_fail_memory(err, n_bytes);
    }
    char path[MAX_PATH_BYTES];
    bool have_parts = true;
    for (int32_t i = 0; i < plan->n_files; i++) {
        QN_TRY(qn_plan_output_path(plan, i, out_path, path, sizeof path, err));
        QN_TRY(open_output(run, i, path, &have_parts, err));
    }
    run->had_parts = run->options.do_resume && have_parts;
    if (run->options.do_resume) {
        QN_TRY(qn_plan_output_path(plan, 0, out_path, path, sizeof path, err));
        QN_TRY(qni_journal_open(run, path, have_parts, err));
    }
    if (!run->had_parts) { /* a part's bytes are reserved already */
        QN_TRY(check_free_space(run, out_path, err));
    }
    return write_headers(run, err);
}

static qn_status make_workers(qn_run *run, qn_error *err)
{
    const size_t n_bytes = (size_t)run->n_workers * sizeof *run->workers;
    run->workers = qni_alloc_zeroed(run->allocator, n_bytes);
    if (run->workers == NULL) {
        return qni_fail_memory(err, n_bytes);
    }
    for (int32_t i = 0; i < run->n_workers * run->n_slots; i++) {
        qni_slot *slot = &run->workers[i / run->n_slots].slots[i % run->n_slots];
        slot->memory = qni_alloc_aligned(run->allocator, run->n_slot_bytes, QNI_BUFFER_ALIGNMENT);
        if (slot->memory == NULL) {
            return qni_fail_memory(err, run->n_slot_bytes);
        }
    }
    return qni_pool_new(run->n_workers, run->allocator, &run->pool, err);
}

static bool wants_order(const qn_run_options *options)
{
    return options->on_item_bytes != NULL || options->on_output_bytes != NULL ||
           options->want_errors;
}

static qn_status check_order(const qn_run *run, qn_error *err)
{
    const bool has_callback =
        run->options.on_item_bytes != NULL || run->options.on_output_bytes != NULL;
    for (int64_t i = 0; i < run->plan->n_items && has_callback; i++) {
        QN_CHECK(run->plan->items[i].n_outputs <= 1, err, QN_ERR_UNSUPPORTED, -1,
                 "bytes cannot be handed out in order while an item makes several tensors");
    }
    return QN_OK;
}

static qn_status begin(qn_run *run, const char *out_path, qn_error *err)
{
    const size_t n_tasks = (size_t)run->plan->n_items * sizeof *run->tasks;
    run->tasks = qni_alloc_zeroed(run->allocator, n_tasks);
    if (run->tasks == NULL) {
        return qni_fail_memory(err, n_tasks);
    }
    QN_CHECK(out_path == NULL || out_path[0] != '\0', err, QN_ERR_INVALID_ARGUMENT, -1,
             "the name of the output is empty");
    QN_TRY(check_order(run, err));
    QN_TRY(qni_report_new(run, err));
    if (wants_order(&run->options) || qni_report_has_merge(run->plan)) {
        QN_TRY(qni_turn_new(run->allocator, &run->turn, err));
    }
    QN_TRY(qni_cut(run, err));
    QN_TRY(make_workers(run, err));
    QN_TRY(open_outputs(run, out_path, err));
    return qni_cache_new(run, err);
}

static qn_status read_options(const qn_run_options *options, qn_run_options *out, qn_error *err)
{
    *out = (qn_run_options)QN_RUN_OPTIONS_INIT;
    if (options == NULL) {
        return QN_OK;
    }
    QN_CHECK(options->struct_size > 0 && options->struct_size <= sizeof *out, err,
             QN_ERR_INVALID_ARGUMENT, -1,
             "run options of %zu bytes: start from QN_RUN_OPTIONS_INIT", options->struct_size);
    memcpy(out, options, options->struct_size);
    QN_CHECK(out->n_inputs >= 0 && (out->n_inputs == 0 || out->inputs != NULL), err,
             QN_ERR_INVALID_ARGUMENT, -1, "the list of inputs is missing");
    QN_CHECK(out->n_threads >= 0 && out->memory_bytes >= 0, err, QN_ERR_INVALID_ARGUMENT, -1,
             "threads and memory cannot be negative");
    return QN_OK;
}

qn_status qn_run_begin(const qn_plan *plan, const char *out_path, const qn_run_options *options,
                       qn_run **out_run, qn_error *err)
{
    *out_run = NULL;
    qn_run_options checked;
    QN_TRY(read_options(options, &checked, err));
    qn_run *run = qni_alloc_zeroed(checked.allocator, sizeof *run);
    if (run == NULL) {
        return qni_fail_memory(err, sizeof *run);
    }
    run->plan = plan;
    run->options = checked;
    run->allocator = checked.allocator;
    run->start_seconds = qni_clock_seconds();
    atomic_init(&run->done_bytes, 0);
    atomic_flag_clear(&run->is_writing);
    const qn_status st = begin(run, out_path, err);
    if (st != QN_OK) {
        qn_run_free(run);
        return st;
    }
    run->is_begun = true;
    *out_run = run;
    return QN_OK;
}

/* --- range, commit, end ----------------------------------------------------------------------- */

static int64_t end_chunk(const qn_run *run, int64_t item)
{
    return item < run->plan->n_items ? run->tasks[item].first_chunk : run->n_chunks;
}

static qn_status check_range(const qn_run *run, int64_t first_item, int64_t n_items, qn_error *err)
{
    QN_CHECK(!run->has_failed && !run->is_committed, err, QN_ERR_INVALID_STATE, -1,
             "the run is over");
    QN_CHECK(first_item >= 0 && n_items >= 0 && n_items <= run->plan->n_items - first_item, err,
             QN_ERR_INVALID_ARGUMENT, -1, "items %" PRId64 " to %" PRId64 " of %" PRId64,
             first_item, first_item + n_items, run->plan->n_items);
    QN_CHECK(run->turn == NULL || first_item == run->next_item, err, QN_ERR_INVALID_STATE, -1,
             "with a digest or report items come in order: %" PRId64 " is next, not %" PRId64,
             run->next_item, first_item);
    for (int64_t i = first_item; i < first_item + n_items; i++) {
        QN_CHECK(!run->tasks[i].is_done, err, QN_ERR_INVALID_STATE, -1,
                 "item %" PRId64 " has been run already", i);
    }
    return QN_OK;
}

qn_status qn_run_range(qn_run *run, int64_t first_item, int64_t n_items, qn_error *err)
{
    QN_TRY(check_range(run, first_item, n_items, err));
    run->first_chunk = end_chunk(run, first_item);
    const int64_t n_chunks = end_chunk(run, first_item + n_items) - run->first_chunk;
    if (run->turn != NULL) {
        qni_turn_reset(run->turn, run->first_chunk);
    }
    const double start = qni_clock_seconds();
    qn_status st = qni_pool_run(run->pool, n_chunks, work, run, err);
    if (st == QN_OK) {
        st = write_rest(run, err);
    }
    run->work_seconds += qni_clock_seconds() - start;
    run->next_item = first_item + n_items;
    run->has_failed = st != QN_OK;
    run->failure = st;
    for (int64_t i = first_item; i < first_item + n_items && st == QN_OK; i++) {
        run->tasks[i].is_done = true; /* those without a chunk too */
    }
    if (st == QN_OK && !tell_progress(run)) {
        run->has_failed = true;
        run->failure = QN_ERR_CANCELLED;
        return qni_fail(err, QN_ERR_CANCELLED, -1, "cancelled");
    }
    return st;
}

static qn_status sync_outputs(qn_run *run, qn_error *err)
{
    for (int32_t i = 0; i < run->n_outputs; i++) {
        QN_TRY(qni_output_sync(&run->outputs[i], err));
    }
    qni_cache_after_sync(run);
    return QN_OK;
}

qn_status qn_run_commit(qn_run *run, qn_error *err)
{
    QN_CHECK(!run->has_failed && !run->is_committed, err, QN_ERR_INVALID_STATE, -1,
             "the run is over");
    for (int64_t i = 0; i < run->plan->n_items; i++) {
        QN_CHECK(run->tasks[i].is_done, err, QN_ERR_INVALID_STATE, -1,
                 "item %" PRId64 " has not been run", i);
    }
    if (run->options.on_output_bytes != NULL) {
        qni_sink_digest_up_to(run, NULL);
    }
    const double start = qni_clock_seconds();
    qn_status st = sync_outputs(run, err);
    if (st == QN_OK) {
        st = qni_outputs_commit(run->outputs, run->n_outputs, err);
    }
    run->sync_seconds = qni_clock_seconds() - start;
    run->has_failed = st != QN_OK;
    run->is_committed = st == QN_OK;
    return st;
}

void qn_run_cancel(qn_run *run)
{
    qni_pool_cancel(run->pool);
}

void qn_run_stats_of(const qn_run *run, qn_run_stats *out_stats)
{
    qn_run_stats sum = {.n_threads = run->n_workers, .sync_seconds = run->sync_seconds};
    double cpu_seconds = 0;
    for (int i = 0; i < run->n_workers; i++) {
        const qn_run_stats *one = &run->workers[i].stats;
        sum.read_seconds += one->read_seconds;
        sum.compute_seconds += one->compute_seconds;
        sum.write_seconds += one->write_seconds;
        sum.order_seconds += one->order_seconds;
        sum.n_bytes_read += one->n_bytes_read;
        sum.n_bytes_written += one->n_bytes_written;
        sum.n_chunks += one->n_chunks;
        cpu_seconds += run->workers[i].cpu_seconds;
    }
    sum.wall_seconds = qni_clock_seconds() - run->start_seconds;
    sum.cores_busy = run->work_seconds > 0 ? cpu_seconds / run->work_seconds : 0;
    *out_stats = sum;
}

static void free_workers(qn_run *run)
{
    for (int32_t i = 0; i < run->n_workers * run->n_slots && run->workers != NULL; i++) {
        qni_free_aligned(run->allocator,
                         run->workers[i / run->n_slots].slots[i % run->n_slots].memory,
                         run->n_slot_bytes, QNI_BUFFER_ALIGNMENT);
    }
    qni_free(run->allocator, run->workers, (size_t)run->n_workers * sizeof *run->workers);
}

/* Is what has been written worth keeping for the next run? Not when the data themselves are bad,
 * and never what is not ours: a journal that was refused belongs to another job. */
static bool keeps_parts(const qn_run *run)
{
    if (!run->options.do_resume || run->is_committed) {
        return false;
    }
    if (!run->is_begun) {
        return run->had_parts;
    }
    switch (run->failure) {
    case QN_OK: /* ended by the caller */
    case QN_ERR_CANCELLED:
    case QN_ERR_IO:
    case QN_ERR_NO_SPACE:
    case QN_ERR_OUT_OF_MEMORY:
        return true;
    default:
        return false;
    }
}

void qn_run_free(qn_run *run)
{
    if (run == NULL) {
        return;
    }
    qni_pool_free(run->pool);
    qni_turn_free(run->turn);
    const bool do_keep = keeps_parts(run);
    for (int32_t i = 0; i < run->n_outputs; i++) {
        if (do_keep) {
            qni_output_keep(&run->outputs[i]);
        } else {
            qni_output_abort(&run->outputs[i]);
        }
    }
    qni_journal_close(run, do_keep);
    qni_free(run->allocator, run->outputs, (size_t)run->plan->n_files * sizeof *run->outputs);
    free_workers(run);
    qni_report_free(run);
    qni_cache_free(run);
    qni_free(run->allocator, run->tasks, (size_t)run->plan->n_items * sizeof *run->tasks);
    qni_free(run->allocator, run, sizeof *run);
}

qn_status qn_plan_run(const qn_plan *plan, const char *out_path, const qn_run_options *options,
                      qn_run_stats *out_stats, qn_error *err)
{
    qn_run *run;
    QN_TRY(qn_run_begin(plan, out_path, options, &run, err));
    qn_status st = qn_run_range(run, 0, plan->n_items, err);
    if (st == QN_OK) {
        st = qn_run_commit(run, err);
    }
    if (out_stats != NULL) {
        qn_run_stats_of(run, out_stats);
    }
    qn_run_free(run);
    return st;
}
