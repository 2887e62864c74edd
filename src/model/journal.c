/* journal.c — what a killed run has finished, and how the next one goes on from there.
 *
 * With resume, an output is written under a fixed name, OUT.quench-part, and beside the first one
 * stands OUT.quench-journal, text of lines of one length:
 *
 *     quench journal 1
 *     plan  0123456789abcdef       what is to be made: headers, recipes, types, weights
 *     input 0123456789abcdef       the inputs: sizes, times, headers
 *     done  00000000000000000007 0123456789abcdef     item 7 is written; digest of its bytes
 *
 * The digest of an item is the sum of the digests of its units, so it does not depend on chunks or
 * on their order. The next run checks each finished item against it and goes on with the others. A
 * line that was cut, or bytes that did not reach the disk, only mean that an item is made again. */
#include "model/adapter_internal.h"
#include "model/stream_internal.h"

#define PART_SUFFIX    ".quench-part"
#define JOURNAL_SUFFIX ".quench-journal"
#define HEAD_FORMAT    "quench journal 1\nplan  %016" PRIx64 "\ninput %016" PRIx64 "\n"
#define HEAD_BYTES     63
#define LINE_FORMAT    "done  %020" PRId64 " %016" PRIx64 "\n"
#define LINE_BYTES     44

struct qni_journal {
    qni_output file; /* never renamed: "final" and temporary name are the same */
    char *path;
    size_t n_path;
    uint64_t plan;
    uint64_t input;
    atomic_int_fast64_t n_lines;
};

/* --- fingerprints ----------------------------------------------------------------------------- */

static uint64_t mix(uint64_t hash, const void *bytes, size_t n_bytes)
{
    return qni_hash64(bytes, n_bytes, hash);
}

static uint64_t mix_number(uint64_t hash, int64_t number)
{
    uint8_t bytes[8];
    qni_store_u64le(bytes, (uint64_t)number);
    return mix(hash, bytes, sizeof bytes);
}

static uint64_t plan_fingerprint(const qn_plan *plan)
{
    uint64_t hash = mix(1, QN_VERSION_STRING, strlen(QN_VERSION_STRING));
    for (int32_t i = 0; i < plan->n_files; i++) {
        hash = mix(hash, plan->files[i].header, (size_t)plan->files[i].n_header_bytes);
    }
    for (int64_t i = 0; i < plan->n_items; i++) {
        const qni_item *item = &plan->items[i];
        const qn_tensor_info *source = item->inputs[0].tensor;
        hash = mix(hash, item->recipe->name, strlen(item->recipe->name));
        hash = mix(hash, source->name, (size_t)source->n_name);
        hash = mix_number(hash, source->dtype);
        hash = mix_number(hash, item->n_weights);
        hash = mix_number(hash, item->edits != NULL ? (int64_t)item->edits->digest : 0);
        if (item->weights != NULL) {
            hash = mix(hash, item->weights, (size_t)item->n_weights * sizeof *item->weights);
        }
    }
    return hash;
}

static qn_status mix_header(const qni_source_file *file, uint64_t *hash, qn_error *err)
{
    uint8_t bytes[16384];
    for (int64_t at = 0; at < qni_min_i64(file->n_header_bytes, file->file.n_bytes);) {
        const int64_t left = qni_min_i64(file->n_header_bytes, file->file.n_bytes) - at;
        const size_t n = (size_t)qni_min_i64(left, (int64_t)sizeof bytes);
        QN_TRY(qni_file_pread(&file->file, bytes, n, at, err));
        *hash = mix(*hash, bytes, n);
        at += (int64_t)n;
    }
    return QN_OK;
}

static qn_status input_fingerprint(const qn_plan *plan, uint64_t *out_hash, qn_error *err)
{
    uint64_t hash = 2;
    const qn_model *last = NULL;
    for (int64_t i = 0; i < plan->n_items; i++) {
        const qn_model *model = plan->items[i].inputs[0].model;
        for (int32_t f = 0; f < model->n_files && model != last; f++) {
            hash = mix_number(hash, model->files[f].file.n_bytes);
            hash = mix_number(hash, qni_file_modified(&model->files[f].file));
            QN_TRY(mix_header(&model->files[f], &hash, err));
        }
        last = model;
    }
    *out_hash = hash;
    return QN_OK;
}

/* --- digests of items ------------------------------------------------------------------------- */

uint64_t qni_journal_digest(const qni_chunk *chunk)
{
    uint64_t sum = 0;
    for (int32_t k = 0; k < chunk->item->n_outputs; k++) {
        int64_t offset, n_bytes;
        const uint8_t *bytes = qni_chunk_output(chunk, k, &offset, &n_bytes);
        const int64_t unit = chunk->item->recipe->is_verbatim ? chunk->geometry->unit_in_bytes
                                                              : chunk->geometry->unit_out_bytes[k];
        for (int64_t at = 0; at < n_bytes && unit > 0; at += unit) {
            const uint64_t seed = (uint64_t)((offset + at) / unit) * QNI_MAX_OUTPUTS + (uint64_t)k;
            sum += qni_hash64(bytes + at, (size_t)qni_min_i64(unit, n_bytes - at), seed);
        }
    }
    return sum;
}

void qni_journal_record(qn_run *run, int64_t item, uint64_t digest)
{
    char line[LINE_BYTES + 1];
    (void)snprintf(line, sizeof line, LINE_FORMAT, item, digest);
    const int64_t number = atomic_fetch_add(&run->journal->n_lines, 1);
    /* a line that cannot be written costs a second pass over the item, nothing else */
    const qn_status st = qni_file_pwrite(&run->journal->file.file, line, LINE_BYTES,
                                         HEAD_BYTES + number * LINE_BYTES, NULL);
    (void)st;
}

/* --- reading a journal ------------------------------------------------------------------------ */

static qn_status refuse_stale(const qni_journal *journal, const char *why, qn_error *err)
{
    const qn_status st = qni_fail(err, QN_ERR_STALE_JOURNAL, -1,
                                  "the partial output cannot be continued: %s; remove this journal "
                                  "and the .quench-part files beside it to start over",
                                  why);
    return qni_fail_path(err, st, journal->path);
}

static bool parse_hex(const char *text, uint64_t *out)
{
    *out = 0;
    for (int i = 0; i < 16; i++) {
        const char c = text[i];
        const bool is_digit = c >= '0' && c <= '9';
        if (!is_digit && (c < 'a' || c > 'f')) {
            return false;
        }
        *out = *out << 4 | (uint64_t)(is_digit ? c - '0' : c - 'a' + 10);
    }
    return true;
}

static qn_status check_head(const qni_journal *journal, const char *text, qn_error *err)
{
    char expected[HEAD_BYTES + 1];
    uint64_t plan, input;
    (void)snprintf(expected, sizeof expected, HEAD_FORMAT, UINT64_C(0), UINT64_C(0));
    if (memcmp(text, expected, 23) != 0 || !parse_hex(text + 23, &plan) ||
        memcmp(text + 39, expected + 39, 7) != 0 || !parse_hex(text + 46, &input)) {
        return refuse_stale(journal, "its journal is damaged or of another version", err);
    }
    if (input != journal->input) {
        return refuse_stale(journal, "the input has changed since", err);
    }
    if (plan != journal->plan) {
        return refuse_stale(journal, "it was made with other options", err);
    }
    return QN_OK;
}

/* Note what the lines say; later lines of an item count. */
static void read_lines(qn_run *run, const char *text, int64_t n_bytes, bool *claimed)
{
    int64_t number = 0;
    for (int64_t at = HEAD_BYTES; at + LINE_BYTES <= n_bytes; at += LINE_BYTES, number++) {
        char digits[21];
        int64_t item;
        uint64_t digest;
        memcpy(digits, text + at + 6, 20);
        digits[20] = '\0';
        if (memcmp(text + at, "done  ", 6) == 0 && qni_parse_i64(digits, &item) && item >= 0 &&
            item < run->plan->n_items && parse_hex(text + at + 27, &digest)) {
            claimed[item] = true;
            atomic_store(&run->tasks[item].digest, digest);
        }
    }
    atomic_store(&run->journal->n_lines, number);
}

/* Does the partial output hold the item that the journal says it holds? */
static qn_status check_item(qn_run *run, int64_t index, bool *out_is_there, qn_error *err)
{
    qni_task *task = &run->tasks[index];
    uint64_t sum = 0;
    for (int64_t i = 0; i < atomic_load(&task->n_chunks_left); i++) {
        qni_chunk chunk;
        const qn_status st = qni_run_read_back(run, task->first_chunk + i, 0, &chunk, err);
        if (st == QN_ERR_END_OF_STREAM || st == QN_ERR_FILE_CHANGED) {
            *out_is_there = false;
            return QN_OK;
        }
        QN_TRY(st);
        sum += qni_journal_digest(&chunk);
    }
    *out_is_there = sum == atomic_load(&task->digest);
    return QN_OK;
}

static qn_status check_claims(qn_run *run, const bool *claimed, qn_error *err)
{
    for (int64_t i = 0; i < run->plan->n_items; i++) {
        qni_task *task = &run->tasks[i];
        bool is_there = false;
        if (claimed[i] && !run->options.want_errors) { /* errors need the old values again */
            QN_TRY(check_item(run, i, &is_there, err));
        }
        task->was_done = is_there;
        if (!is_there) {
            atomic_store(&task->digest, 0);
        }
    }
    return QN_OK;
}

static qn_status take_over(qn_run *run, const uint8_t *text, int64_t n_bytes, qn_error *err)
{
    QN_TRY(check_head(run->journal, (const char *)text, err));
    const size_t n = (size_t)run->plan->n_items * sizeof(bool);
    bool *claimed = qni_alloc_zeroed(run->allocator, n);
    if (claimed == NULL) {
        return qni_fail_memory(err, n);
    }
    read_lines(run, (const char *)text, n_bytes, claimed);
    const qn_status st = check_claims(run, claimed, err);
    qni_free(run->allocator, claimed, n);
    return st;
}

static qn_status start_over(qn_run *run, qn_error *err)
{
    qni_journal *journal = run->journal;
    char head[HEAD_BYTES + 1];
    (void)snprintf(head, sizeof head, HEAD_FORMAT, journal->plan, journal->input);
    QN_TRY(qni_output_preallocate(&journal->file, 0, err));
    return qni_file_pwrite(&journal->file.file, head, HEAD_BYTES, 0, err);
}

/* --- opening and ending ----------------------------------------------------------------------- */

char *qni_journal_part_path(qn_run *run, const char *out_path, size_t *out_n)
{
    *out_n = strlen(out_path) + sizeof PART_SUFFIX;
    char *path = qni_alloc(run->allocator, *out_n);
    if (path != NULL) {
        (void)snprintf(path, *out_n, "%s%s", out_path, PART_SUFFIX);
    }
    return path;
}

/* The journal's text, when there is one and the partial outputs are there too. */
static qn_status read_journal(qn_run *run, bool have_parts, uint8_t **out_text, int64_t *out_n,
                              qn_error *err)
{
    *out_text = NULL;
    *out_n = 0;
    const int64_t n_max = HEAD_BYTES + (run->plan->n_items * 4 + 1024) * LINE_BYTES;
    bool exists = false;
    QN_TRY(qni_file_find(run->journal->path, &exists, err));
    if (!have_parts || !exists) {
        return QN_OK;
    }
    return qni_file_read_all(run->journal->path, run->allocator, n_max, out_text, out_n, err);
}

qn_status qni_journal_open(qn_run *run, const char *first_path, bool have_parts, qn_error *err)
{
    qni_journal *journal = qni_alloc_zeroed(run->allocator, sizeof *journal);
    if (journal == NULL) {
        return qni_fail_memory(err, sizeof *journal);
    }
    run->journal = journal;
    atomic_init(&journal->n_lines, 0);
    journal->file = (qni_output)QNI_OUTPUT_CLOSED;
    journal->n_path = strlen(first_path) + sizeof JOURNAL_SUFFIX;
    journal->path = qni_alloc(run->allocator, journal->n_path);
    if (journal->path == NULL) {
        return qni_fail_memory(err, journal->n_path);
    }
    (void)snprintf(journal->path, journal->n_path, "%s%s", first_path, JOURNAL_SUFFIX);
    journal->plan = plan_fingerprint(run->plan);
    QN_TRY(input_fingerprint(run->plan, &journal->input, err));
    uint8_t *text;
    int64_t n_text;
    QN_TRY(read_journal(run, have_parts, &text, &n_text, err));
    const bool is_fresh = n_text < HEAD_BYTES; /* killed before the first item: nothing is lost */
    qn_status st = is_fresh ? QN_OK : take_over(run, text, n_text, err);
    qni_free(run->allocator, text, (size_t)n_text);
    if (st == QN_OK) {
        bool existed;
        st = qni_output_resume(journal->path, journal->path, run->allocator, &journal->file,
                               &existed, err);
    }
    if (st == QN_OK && is_fresh) {
        st = start_over(run, err);
    }
    return st;
}

void qni_journal_close(qn_run *run, bool do_keep)
{
    qni_journal *journal = run->journal;
    if (journal == NULL) {
        return;
    }
    const bool is_open = journal->file.final_path != NULL;
    qni_output_keep(&journal->file);
    if (is_open && !do_keep) {
        const qn_status st = qni_file_remove(journal->path, NULL);
        (void)st; /* a journal without partial output is started over */
    }
    qni_free(run->allocator, journal->path, journal->n_path);
    qni_free(run->allocator, journal, sizeof *journal);
    run->journal = NULL;
}
