/* cache.c — the page cache as the job found it: what the job brought in, it drops again.
 *
 * Each file is seen as windows. Before the job, the pages of an input that are in the cache are
 * noted; when all bytes that the job wants of a window have been read, the window's other pages are
 * dropped. An output's finished windows are sent to disk early, and dropped a while later, when
 * they are clean; the rest goes after the final sync. All of it is advice: nothing depends on it.
 */
#include "model/stream_internal.h"

#define WINDOW_BYTES (INT64_C(4) << 20)

/* An output's window is dropped when the window this many places later is finished: writing goes on
 * meanwhile, and nobody waits for the disk. */
#define DROP_LAG 16

/* How many windows ahead the system is told to read. */
#define READ_AHEAD 2

typedef struct cached_file {
    const qni_file *file;
    int64_t n_windows;
    atomic_int_fast64_t *bytes_left; /* that the job has still to read or write in each window */
    uint8_t *was_resident;           /* of an input: one bit a page; NULL: leave the file alone */
    atomic_int_fast64_t ahead;       /* windows before this one have been announced */
} cached_file;

typedef struct cached_model {
    const qn_model *model;
    cached_file *files;
} cached_model;

struct qni_cache {
    qni_arena arena;
    cached_model *models;
    int32_t n_models;
    cached_file *outputs;
    int64_t page;
};

/* --- bookkeeping ------------------------------------------------------------------------------ */

static qn_status new_file(qni_cache *cache, const qni_file *file, int64_t n_bytes, cached_file *out,
                          qn_error *err)
{
    *out = (cached_file){.file = file, .n_windows = n_bytes / WINDOW_BYTES + 1};
    const size_t n_table = (size_t)out->n_windows * sizeof *out->bytes_left;
    out->bytes_left = qni_arena_alloc(&cache->arena, n_table);
    if (out->bytes_left == NULL) {
        return qni_fail_memory(err, n_table);
    }
    for (int64_t i = 0; i < out->n_windows; i++) {
        atomic_init(&out->bytes_left[i], 0);
    }
    atomic_init(&out->ahead, 0);
    return QN_OK;
}

typedef void (*window_fn)(cached_file *file, int64_t window, int64_t n_bytes);

/* Call for each window that a range touches, with the bytes in it. */
static void each_window(cached_file *file, int64_t offset, int64_t n_bytes, window_fn call)
{
    for (int64_t at = offset; at < offset + n_bytes;) {
        const int64_t window = at / WINDOW_BYTES;
        const int64_t end = qni_min_i64((window + 1) * WINDOW_BYTES, offset + n_bytes);
        call(file, window, end - at);
        at = end;
    }
}

static void expect_bytes(cached_file *file, int64_t window, int64_t n_bytes)
{
    atomic_fetch_add(&file->bytes_left[window], n_bytes);
}

static cached_file *input_file(const qni_cache *cache, const qni_plan_input *input)
{
    for (int32_t i = 0; i < cache->n_models; i++) {
        if (cache->models[i].model == input->model) {
            return &cache->models[i].files[input->tensor->shard];
        }
    }
    return NULL;
}

/* --- what is there before the job ------------------------------------------------------------- */

static bool note_window(cached_file *file, int64_t window, int64_t page, uint8_t *flags)
{
    const int64_t offset = window * WINDOW_BYTES;
    const int64_t n_bytes = qni_min_i64(WINDOW_BYTES, file->file->n_bytes - offset);
    if (!qni_file_resident(file->file, offset, n_bytes, flags)) {
        return false;
    }
    const int64_t first_page = offset / page;
    for (int64_t i = 0; i < (n_bytes + page - 1) / page; i++) {
        const int64_t at = first_page + i;
        if ((flags[i] & 1) != 0) {
            file->was_resident[at / 8] |= (uint8_t)(1u << (at % 8));
        }
    }
    return true;
}

/* Note the pages that are there. If that cannot be known, the file is left alone. */
static qn_status note_resident(qni_cache *cache, cached_file *file, qn_error *err)
{
    const int64_t n_pages = file->n_windows * (WINDOW_BYTES / cache->page);
    const size_t n_bits = (size_t)(n_pages / 8 + 1);
    uint8_t *flags = qni_arena_alloc(&cache->arena, (size_t)(WINDOW_BYTES / cache->page));
    file->was_resident = qni_arena_alloc(&cache->arena, n_bits);
    if (flags == NULL || file->was_resident == NULL) {
        return qni_fail_memory(err, n_bits);
    }
    memset(file->was_resident, 0, n_bits);
    for (int64_t i = 0; i < file->n_windows; i++) {
        if (atomic_load(&file->bytes_left[i]) > 0 && !note_window(file, i, cache->page, flags)) {
            file->was_resident = NULL;
            return QN_OK;
        }
    }
    return QN_OK;
}

static qn_status add_model(qni_cache *cache, const qn_model *model, qn_error *err)
{
    cached_model *slot = &cache->models[cache->n_models];
    slot->model = model;
    slot->files = qni_arena_alloc(&cache->arena, (size_t)model->n_files * sizeof *slot->files);
    if (slot->files == NULL) {
        return qni_fail_memory(err, (size_t)model->n_files * sizeof *slot->files);
    }
    for (int32_t i = 0; i < model->n_files; i++) {
        const qni_file *file = &model->files[i].file;
        QN_TRY(new_file(cache, file, file->n_bytes, &slot->files[i], err));
    }
    cache->n_models++;
    return QN_OK;
}

static int32_t count_models(const qn_plan *plan)
{
    const qn_model *last = NULL;
    int32_t n = 0; /* of changes: never fewer than there are models */
    for (int64_t i = 0; i < plan->n_items; i++) {
        for (int32_t k = 0; k < plan->items[i].n_inputs; k++) {
            n += plan->items[i].inputs[k].model != last;
            last = plan->items[i].inputs[k].model;
        }
    }
    return n;
}

static qn_status gather_inputs(qn_run *run, qni_cache *cache, qn_error *err)
{
    const qn_plan *plan = run->plan;
    const size_t n_bytes = (size_t)count_models(plan) * sizeof *cache->models;
    cache->models = qni_arena_alloc(&cache->arena, n_bytes);
    if (cache->models == NULL) {
        return qni_fail_memory(err, n_bytes);
    }
    for (int64_t i = 0; i < plan->n_items; i++) {
        for (int32_t k = 0; k < plan->items[i].n_inputs; k++) {
            const qni_plan_input *input = &plan->items[i].inputs[k];
            if (input_file(cache, input) == NULL) {
                QN_TRY(add_model(cache, input->model, err));
            }
            if (!run->tasks[i].is_done) {
                each_window(input_file(cache, input), input->tensor->file_offset,
                            input->tensor->n_bytes, expect_bytes);
            }
        }
    }
    for (int32_t i = 0; i < cache->n_models; i++) {
        for (int32_t f = 0; f < cache->models[i].model->n_files; f++) {
            QN_TRY(note_resident(cache, &cache->models[i].files[f], err));
        }
    }
    return QN_OK;
}

static qn_status gather_outputs(qn_run *run, qni_cache *cache, qn_error *err)
{
    const qn_plan *plan = run->plan;
    if (run->n_outputs == 0) {
        return QN_OK;
    }
    const size_t n_bytes = (size_t)run->n_outputs * sizeof *cache->outputs;
    cache->outputs = qni_arena_alloc(&cache->arena, n_bytes);
    if (cache->outputs == NULL) {
        return qni_fail_memory(err, n_bytes);
    }
    for (int32_t i = 0; i < run->n_outputs; i++) {
        QN_TRY(new_file(cache, &run->outputs[i].file, plan->files[i].n_bytes, &cache->outputs[i],
                        err));
    }
    for (int64_t i = 0; i < plan->n_items; i++) {
        for (int32_t k = 0; k < plan->items[i].n_outputs && !run->tasks[i].is_done; k++) {
            const qn_tensor_info *tensor = &plan->tensors[plan->items[i].first_output + k];
            each_window(&cache->outputs[tensor->shard], tensor->file_offset, tensor->n_bytes,
                        expect_bytes);
        }
    }
    return QN_OK;
}

qn_status qni_cache_new(qn_run *run, qn_error *err)
{
    const int64_t page = qni_page_bytes();
    if (run->options.keep_page_cache || page <= 0 || WINDOW_BYTES % page != 0) {
        return QN_OK;
    }
    qni_cache *cache = qni_alloc_zeroed(run->allocator, sizeof *cache);
    if (cache == NULL) {
        return qni_fail_memory(err, sizeof *cache);
    }
    cache->arena.allocator = run->allocator;
    cache->page = page;
    run->cache = cache;
    QN_TRY(gather_inputs(run, cache, err));
    return gather_outputs(run, cache, err);
}

void qni_cache_free(qn_run *run)
{
    if (run->cache != NULL) {
        qni_arena_free(&run->cache->arena);
        qni_free(run->allocator, run->cache, sizeof *run->cache);
    }
}

/* --- reading ---------------------------------------------------------------------------------- */

static bool was_resident(const cached_file *file, int64_t page)
{
    return (file->was_resident[page / 8] >> (page % 8) & 1) != 0;
}

/* Drop the pages of a window that were not there before, run by run. */
static void drop_window(const qni_cache *cache, const cached_file *file, int64_t window)
{
    const int64_t n_pages = WINDOW_BYTES / cache->page;
    const int64_t first = window * n_pages;
    int64_t start = first;
    for (int64_t page = first; page <= first + n_pages; page++) {
        if (page < first + n_pages && !was_resident(file, page)) {
            continue;
        }
        if (page > start) {
            qni_file_drop_cache(file->file, start * cache->page, (page - start) * cache->page);
        }
        start = page + 1;
    }
}

void qni_cache_before_read(qn_run *run, const qni_plan_input *input, int64_t offset)
{
    cached_file *file = run->cache != NULL ? input_file(run->cache, input) : NULL;
    if (file == NULL) {
        return;
    }
    const int64_t window = (input->tensor->file_offset + offset) / WINDOW_BYTES;
    const int64_t last = (input->tensor->file_offset + input->tensor->n_bytes - 1) / WINDOW_BYTES;
    const int64_t wanted = qni_min_i64(window + READ_AHEAD, last) + 1;
    int_fast64_t ahead = atomic_load(&file->ahead);
    if (ahead == wanted || !atomic_compare_exchange_strong(&file->ahead, &ahead, wanted)) {
        return; /* announced already, or another thread is about to */
    }
    const int64_t start = ahead > window && ahead < wanted ? ahead : window;
    qni_file_will_need(file->file, start * WINDOW_BYTES, (wanted - start) * WINDOW_BYTES);
}

void qni_cache_after_read(qn_run *run, const qni_plan_input *input, int64_t offset, int64_t n_bytes)
{
    cached_file *file = run->cache != NULL ? input_file(run->cache, input) : NULL;
    if (file == NULL || file->was_resident == NULL) {
        return;
    }
    for (int64_t at = input->tensor->file_offset + offset, end = at + n_bytes; at < end;) {
        const int64_t window = at / WINDOW_BYTES;
        const int64_t stop = qni_min_i64((window + 1) * WINDOW_BYTES, end);
        if (atomic_fetch_sub(&file->bytes_left[window], stop - at) == stop - at) {
            drop_window(run->cache, file, window);
        }
        at = stop;
    }
}

/* --- writing ---------------------------------------------------------------------------------- */

void qni_cache_after_write(qn_run *run, int32_t output, int64_t offset, int64_t n_bytes)
{
    if (run->cache == NULL) {
        return;
    }
    cached_file *file = &run->cache->outputs[output];
    for (int64_t at = offset; at < offset + n_bytes;) {
        const int64_t window = at / WINDOW_BYTES;
        const int64_t stop = qni_min_i64((window + 1) * WINDOW_BYTES, offset + n_bytes);
        if (atomic_fetch_sub(&file->bytes_left[window], stop - at) == stop - at) {
            qni_file_write_back(file->file, window * WINDOW_BYTES, WINDOW_BYTES, false);
            if (window >= DROP_LAG && atomic_load(&file->bytes_left[window - DROP_LAG]) == 0) {
                qni_file_drop_cache(file->file, (window - DROP_LAG) * WINDOW_BYTES, WINDOW_BYTES);
            }
        }
        at = stop;
    }
}

void qni_cache_after_sync(qn_run *run)
{
    for (int32_t i = 0; i < run->n_outputs && run->cache != NULL; i++) {
        qni_file_drop_cache(&run->outputs[i].file, 0, run->plan->files[i].n_bytes);
    }
}
