/* patch.c — a file's first bytes replaced, with a journal.
 *
 * The journal is 64 bytes and the new first bytes; numbers are little-endian:
 *
 *     0   "QNPATCH1"
 *     8   n_file       bytes of the file before
 *     16  n_inserted   bytes pushed in at its front
 *     24  n_head       new first bytes
 *     32  old digest   of the first n_head - n_inserted bytes before
 *     40  rest digest  of the bytes behind them, or the first and last 64 KiB of these
 *     48  head digest  of the new first bytes
 *     56  digest of the 56 bytes above
 *
 * A file of n_file + n_inserted bytes with that rest is one where nothing, a part or all of the new
 * bytes are written: writing all of them once more is right. With n_inserted > 0 a file of n_file
 * bytes is the old one. */
#include "base/base.h"

#define SUFFIX      ".quench-patch"
#define FIELDS      64
#define SAMPLE      ((int64_t)64 << 10)
#define FINISH_HINT "it is half changed: quench edit --recover finishes that"

static const uint8_t magic[8] = {'Q', 'N', 'P', 'A', 'T', 'C', 'H', '1'};

/* A file and its journal. */
typedef struct patch_job {
    const qn_allocator *allocator;
    char *path; /* where links lead */
    size_t n_path;
    char *journal;
    size_t n_journal;
    qni_file file;
    uint8_t *sample; /* SAMPLE bytes */
} patch_job;

static void end_job(patch_job *job)
{
    qni_file_close(&job->file);
    qni_free(job->allocator, job->path, job->n_path);
    qni_free(job->allocator, job->journal, job->n_journal);
    qni_free(job->allocator, job->sample, (size_t)SAMPLE);
}

/* End with end_job() also after a failure. */
static qn_status begin_job(const char *path, const qn_allocator *allocator, patch_job *job,
                           qn_error *err)
{
    *job = (patch_job){.allocator = allocator, .file = QNI_FILE_CLOSED};
    QN_TRY(qni_path_resolve(path, allocator, &job->path, err));
    job->n_path = strlen(job->path) + 1;
    const size_t n = strlen(job->path) + sizeof SUFFIX;
    job->journal = qni_alloc(allocator, n);
    job->n_journal = job->journal ? n : 0;
    job->sample = qni_alloc(allocator, (size_t)SAMPLE);
    if (!job->journal || !job->sample) {
        return qni_fail_memory(err, (size_t)SAMPLE);
    }
    (void)snprintf(job->journal, n, "%s%s", job->path, SUFFIX);
    return QN_OK;
}

/* --- digests ---------------------------------------------------------------------------------- */

static qn_status mix_range(const patch_job *job, int64_t from, int64_t to, uint64_t *hash,
                           qn_error *err)
{
    for (int64_t at = from; at < to;) {
        const int64_t n = qni_min_i64(SAMPLE, to - at);
        QN_TRY(qni_file_pread(&job->file, job->sample, (size_t)n, at, err));
        *hash = qni_hash64(job->sample, (size_t)n, *hash);
        at += n;
    }
    return QN_OK;
}

/* Of the first n bytes, as qni_hash64() gives it for them in one piece. */
static qn_status head_digest(const patch_job *job, int64_t n, uint64_t *out_hash, qn_error *err)
{
    uint8_t *bytes = qni_alloc(job->allocator, (size_t)qni_max_i64(n, 1));
    if (!bytes) {
        return qni_fail_memory(err, (size_t)n);
    }
    const qn_status st = qni_file_pread(&job->file, bytes, (size_t)n, 0, err);
    *out_hash = st == QN_OK ? qni_hash64(bytes, (size_t)n, 0) : 0;
    qni_free(job->allocator, bytes, (size_t)qni_max_i64(n, 1));
    return st;
}

/* Of what follows byte `from`: a sample of it where it is long. */
static qn_status rest_digest(const patch_job *job, int64_t from, uint64_t *out_hash, qn_error *err)
{
    const int64_t end = job->file.n_bytes;
    const int64_t first_end = qni_min_i64(end, from + SAMPLE);
    *out_hash = 1;
    QN_TRY(mix_range(job, from, first_end, out_hash, err));
    return mix_range(job, qni_max_i64(first_end, end - SAMPLE), end, out_hash, err);
}

/* --- the journal ------------------------------------------------------------------------------ */

static qn_status remove_journal(const patch_job *job, qn_error *err)
{
    QN_TRY(qni_file_remove(job->journal, err));
    return qni_folder_sync(job->journal, err);
}

static qn_status write_journal(const patch_job *job, const qni_patch *patch, uint64_t rest,
                               qn_error *err)
{
    uint8_t fields[FIELDS];
    memcpy(fields, magic, sizeof magic);
    qni_store_u64le(fields + 8, (uint64_t)patch->n_file);
    qni_store_u64le(fields + 16, (uint64_t)patch->n_inserted);
    qni_store_u64le(fields + 24, (uint64_t)patch->n_head);
    qni_store_u64le(fields + 32, patch->old_digest);
    qni_store_u64le(fields + 40, rest);
    qni_store_u64le(fields + 48, qni_hash64(patch->head, (size_t)patch->n_head, 0));
    qni_store_u64le(fields + 56, qni_hash64(fields, 56, 0));
    qni_output out;
    QN_TRY(qni_output_begin(job->journal, job->allocator, &out, err));
    qn_status st = qni_file_pwrite(&out.file, fields, FIELDS, 0, err);
    if (st == QN_OK) {
        st = qni_file_pwrite(&out.file, patch->head, (size_t)patch->n_head, FIELDS, err);
    }
    if (st != QN_OK) {
        qni_output_abort(&out);
        return st;
    }
    st = qni_output_commit(&out, err);
    if (st != QN_OK) { /* it may have its name already, and only its folder not be on the disk */
        (void)remove_journal(job, NULL);
    }
    return st;
}

static qn_status refuse_journal(const patch_job *job, const char *why, qn_error *err)
{
    const qn_status st =
        qni_fail(err, QN_ERR_STALE_JOURNAL, -1,
                 "%s; nothing was changed: remove the journal if the file is good without it", why);
    return qni_fail_path(err, st, job->journal);
}

/* Fills patch and rest; its head points into `bytes`. */
static qn_status read_fields(const patch_job *job, const uint8_t *bytes, int64_t n_bytes,
                             qni_patch *patch, uint64_t *rest, qn_error *err)
{
    if (n_bytes < FIELDS || memcmp(bytes, magic, sizeof magic) != 0 ||
        qni_hash64(bytes, 56, 0) != qni_load_u64le(bytes + 56)) {
        return refuse_journal(job, "this is no journal of an edit in place, or it is damaged", err);
    }
    *patch = (qni_patch){.head = bytes + FIELDS,
                         .n_head = (int64_t)qni_load_u64le(bytes + 24),
                         .n_inserted = (int64_t)qni_load_u64le(bytes + 16),
                         .n_file = (int64_t)qni_load_u64le(bytes + 8),
                         .old_digest = qni_load_u64le(bytes + 32)};
    *rest = qni_load_u64le(bytes + 40);
    const bool is_sound =
        patch->n_head == n_bytes - FIELDS && patch->n_inserted >= 0 &&
        patch->n_inserted <= patch->n_head && patch->n_file >= patch->n_head - patch->n_inserted &&
        patch->n_file <= INT64_MAX - patch->n_inserted &&
        qni_hash64(patch->head, (size_t)patch->n_head, 0) == qni_load_u64le(bytes + 48);
    return is_sound ? QN_OK : refuse_journal(job, "the journal is damaged", err);
}

/* --- the change ------------------------------------------------------------------------------- */

/* Once the journal is on the disk, and the room is there. The room is flushed first: a disk that
 * had the new bytes but not the room for them would hold them in the place of the old. */
static qn_status write_head(const patch_job *job, const qni_patch *patch, qn_error *err)
{
    qn_status st = patch->n_inserted > 0 ? qni_file_sync(&job->file, err) : QN_OK;
    if (st == QN_OK) {
        st = qni_file_pwrite(&job->file, patch->head, (size_t)patch->n_head, 0, err);
    }
    if (st == QN_OK) {
        st = qni_file_sync(&job->file, err);
    }
    if (st == QN_OK) {
        st = remove_journal(job, err);
    }
    if (st != QN_OK && err) {
        const qn_error found = *err;
        (void)qni_fail(err, st, -1, "%.600s; " FINISH_HINT, found.message);
        (void)qni_fail_path(err, st, job->path);
    }
    return st;
}

static qn_status make_room(const patch_job *job, const qni_patch *patch, qn_error *err)
{
    bool is_done = true;
    if (patch->n_inserted == 0) {
        return QN_OK;
    }
    qn_status st = qni_file_insert_front(&job->file, patch->n_inserted, &is_done, err);
    if (st == QN_OK && !is_done) {
        st = qni_fail(err, QN_ERR_NO_ROOM, -1,
                      "there is no room for %" PRId64 " more bytes of header, and this file system "
                      "inserts none: write to a new file",
                      patch->n_inserted);
        (void)qni_fail_path(err, st, job->path);
    }
    if (st != QN_OK) { /* the file is as it was, and the failure is what is told */
        (void)remove_journal(job, NULL);
    }
    return st;
}

/* Is it the file that the patch was made for? */
static qn_status check_file(const patch_job *job, const qni_patch *patch, qn_error *err)
{
    uint64_t digest = 0;
    if (job->file.n_bytes == patch->n_file) {
        QN_TRY(head_digest(job, patch->n_head - patch->n_inserted, &digest, err));
    }
    QN_CHECK(job->file.n_bytes == patch->n_file && digest == patch->old_digest, err,
             QN_ERR_FILE_CHANGED, -1,
             "the file was changed meanwhile; nothing was done to it: try again");
    return QN_OK;
}

static qn_status claim(const patch_job *job, bool *out_is_claimed, qn_error *err)
{
    const qni_claim claimed = qni_file_claim(&job->file);
    *out_is_claimed = claimed == QNI_CLAIM_HELD;
    QN_CHECK(claimed != QNI_CLAIM_IN_USE, err, QN_ERR_FILE_IN_USE, -1,
             "another process has the file open and may be reading it; nothing was changed: end "
             "that process, or write to a new file");
    return QN_OK;
}

/* An edit that is being made holds the file: opening it waits for the end, which removes the
 * journal. */
static qn_status check_pending(const patch_job *job, qn_error *err)
{
    bool is_there;
    qni_file file;
    QN_TRY(qni_file_find(job->journal, &is_there, err));
    if (is_there) {
        QN_TRY(qni_file_open(job->path, &file, err));
        qni_file_close(&file);
        QN_TRY(qni_file_find(job->journal, &is_there, err));
    }
    QN_CHECK(
        !is_there, err, QN_ERR_PATCH_PENDING, -1,
        "an edit of this file in place was interrupted; run quench edit --recover on it first");
    return QN_OK;
}

static qn_status apply(patch_job *job, const qni_patch *patch, bool *out_is_claimed, qn_error *err)
{
    uint64_t rest;
    QN_TRY(check_pending(job, err));
    QN_TRY(qni_file_open_rw(job->path, &job->file, err));
    QN_TRY(claim(job, out_is_claimed, err));
    QN_TRY(check_file(job, patch, err));
    QN_TRY(rest_digest(job, patch->n_head - patch->n_inserted, &rest, err));
    QN_TRY(write_journal(job, patch, rest, err));
    QN_TRY(make_room(job, patch, err));
    return write_head(job, patch, err);
}

qn_status qni_patch_apply(const char *path, const qni_patch *patch, const qn_allocator *allocator,
                          bool *out_is_claimed, qn_error *err)
{
    patch_job job;
    qn_status st = begin_job(path, allocator, &job, err);
    if (st == QN_OK) {
        st = apply(&job, patch, out_is_claimed, err);
    }
    end_job(&job);
    return st == QN_OK ? QN_OK : qni_fail_path(err, st, path);
}

/* --- after a kill ----------------------------------------------------------------------------- */

static qn_status settle(const patch_job *job, const qni_patch *patch, uint64_t rest,
                        qni_patch_outcome *out_outcome, qn_error *err)
{
    const int64_t n_old_head = patch->n_head - patch->n_inserted;
    const bool is_old = patch->n_inserted > 0 && job->file.n_bytes == patch->n_file;
    uint64_t digest = 0;
    if (!is_old && job->file.n_bytes != patch->n_file + patch->n_inserted) {
        return refuse_journal(job, "the file has not the size that its journal says", err);
    }
    QN_TRY(rest_digest(job, is_old ? n_old_head : patch->n_head, &digest, err));
    if (digest != rest) {
        return refuse_journal(job, "the file is another than the one that was being edited", err);
    }
    if (!is_old) {
        *out_outcome = QNI_PATCH_DONE;
        return write_head(job, patch, err);
    }
    QN_TRY(head_digest(job, n_old_head, &digest, err));
    if (digest != patch->old_digest) {
        return refuse_journal(job, "the file was changed after its edit was interrupted", err);
    }
    *out_outcome = QNI_PATCH_UNDONE;
    return remove_journal(job, err);
}

static qn_status recover(patch_job *job, qni_patch_outcome *out_outcome, qn_error *err)
{
    bool is_there, is_claimed;
    uint8_t *bytes;
    int64_t n_bytes;
    uint64_t rest = 0;
    qni_patch patch = {NULL, 0, 0, 0, 0};
    QN_TRY(qni_file_find(job->journal, &is_there, err));
    if (!is_there) {
        return QN_OK;
    }
    QN_TRY(qni_file_open_rw(job->path, &job->file, err));
    QN_TRY(claim(job, &is_claimed, err));
    QN_TRY(qni_file_find(job->journal, &is_there, err));
    if (!is_there) { /* its edit was being made, and is done */
        return QN_OK;
    }
    QN_TRY(qni_file_read_all(job->journal, job->allocator, INT64_MAX / 2, &bytes, &n_bytes, err));
    qn_status st = read_fields(job, bytes, n_bytes, &patch, &rest, err);
    if (st == QN_OK) {
        st = settle(job, &patch, rest, out_outcome, err);
    }
    qni_free(job->allocator, bytes, (size_t)n_bytes);
    return st;
}

qn_status qni_patch_recover(const char *path, const qn_allocator *allocator,
                            qni_patch_outcome *out_outcome, qn_error *err)
{
    patch_job job;
    *out_outcome = QNI_PATCH_NONE;
    qn_status st = begin_job(path, allocator, &job, err);
    if (st == QN_OK) {
        st = recover(&job, out_outcome, err);
    }
    end_job(&job);
    return st == QN_OK ? QN_OK : qni_fail_path(err, st, path);
}

qn_status qni_patch_check(const char *path, const qn_allocator *allocator, qn_error *err)
{
    patch_job job;
    qn_status st = begin_job(path, allocator, &job, err);
    if (st == QN_OK && qni_file_exists(job.journal)) { /* what else is wrong, the reader says */
        st = check_pending(&job, err);
    }
    end_job(&job);
    return st == QN_OK ? QN_OK : qni_fail_path(err, st, path);
}

qn_status qni_patch_unit(const char *path, int64_t *out_n_bytes, qn_error *err)
{
    qni_file file;
    QN_TRY(qni_file_open(path, &file, err));
    *out_n_bytes = qni_file_insert_unit(&file);
    qni_file_close(&file);
    return QN_OK;
}
