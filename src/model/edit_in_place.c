/* edit_in_place.c — qn_edit_in_place(): the header of a GGUF file written anew over the old one.
 *
 * GGUF does not say where its data begin: they do where the directory ends, rounded up to the
 * alignment. So a new header must be as long as the old one to that alignment. What is missing is a
 * string, quench.reserved, of the right length; what is too much has to be inserted at the front of
 * the file. Offsets of tensors count from the beginning of the data and stay as they are. */
#include "base/base.h"
#include "model/edit_internal.h"

/* The new header, and how it comes to where the data begin. */
typedef struct new_header {
    uint8_t *bytes; /* n_bytes: all up to the data */
    int64_t n_bytes;
    int64_t n_inserted;
    int64_t n_reserved;
} new_header;

typedef struct in_place_job {
    const char *path;
    const qn_edit_options *options;
    qn_gguf *gguf;
    int64_t unit; /* insertions are multiples of it */
} in_place_job;

/* --- what this way cannot do --------------------------------------------------------------------
 */

static qn_status check_possible(const in_place_job *job, qn_error *err)
{
    QN_CHECK(!qn_gguf_is_big_endian(job->gguf), err, QN_ERR_UNSUPPORTED, -1,
             "a big-endian file is not edited in place: write to a new file");
    for (int64_t i = 0; i < job->options->n_edits; i++) {
        const qn_edit *edit = &job->options->edits[i];
        const bool is_key = edit->kind < QN_EDIT_REMOVE_TENSOR;
        const char *const fixed[] = {"general.alignment", QNI_RESERVE_KEY};
        QN_CHECK(edit->kind != QN_EDIT_REMOVE_TENSOR, err, QN_ERR_UNSUPPORTED, -1,
                 "a tensor is not removed in place, as its data would stay: write to a new file");
        for (int k = 0; is_key && k < 2; k++) {
            const bool is_named =
                strcmp(edit->name, fixed[k]) == 0 ||
                (edit->kind == QN_EDIT_RENAME && strcmp(edit->new_name, fixed[k]) == 0);
            QN_CHECK(!is_named, err, QN_ERR_UNSUPPORTED, -1,
                     "%s is not edited in place, as the place of the data depends on it: write to "
                     "a new file",
                     fixed[k]);
        }
    }
    return QN_OK;
}

/* --- the header --------------------------------------------------------------------------------
 */

static qn_status rename_tensors(const in_place_job *job, qn_gguf_writer *writer, qn_error *err)
{
    for (int64_t i = 0; i < job->options->n_edits; i++) {
        const qn_edit *edit = &job->options->edits[i];
        if (edit->kind == QN_EDIT_RENAME_TENSOR) {
            qn_status st = qni_edit_check_name(edit->new_name, err);
            if (st == QN_OK) {
                st = qn_gguf_writer_rename_tensor(writer, edit->name, (int64_t)strlen(edit->name),
                                                  edit->new_name, (int64_t)strlen(edit->new_name),
                                                  err);
            }
            QN_TRY(qni_edit_blame(edit, st, err));
        }
    }
    return QN_OK;
}

/* Where the data would begin. */
static qn_status measure(qn_gguf_writer *writer, int64_t *out_n_bytes, qn_error *err)
{
    qn_gguf_file_plan plan;
    QN_TRY(qn_gguf_writer_layout(writer, &plan, err));
    *out_n_bytes = plan.n_header_bytes;
    return QN_OK;
}

static qn_status measure_with_key(const in_place_job *job, qn_gguf_writer *writer,
                                  int64_t n_reserved, int64_t *out_n_bytes, qn_error *err)
{
    QN_TRY(qni_edit_set_reserve(writer, n_reserved, job->options->allocator, err));
    return measure(writer, out_n_bytes, err);
}

/* Give the header a length of the old one, or of the least that bytes can be inserted for. */
static qn_status fit(const in_place_job *job, qn_gguf_writer *writer, new_header *header,
                     qn_error *err)
{
    const int64_t old = qn_gguf_data_offset(job->gguf);
    int64_t bare, with_key;
    QN_TRY(measure(writer, &bare, err));
    header->n_bytes = old;
    if (bare == old) {
        return QN_OK;
    }
    QN_TRY(measure_with_key(job, writer, 0, &with_key, err));
    if (with_key > old) {
        int64_t missing = 0;
        const bool is_whole = qni_add_i64(with_key - old, job->options->reserve, &missing) &&
                              qni_align_up_i64(missing, job->unit, &header->n_inserted) &&
                              qni_add_i64(old, header->n_inserted, &header->n_bytes);
        QN_CHECK(is_whole, err, QN_ERR_OVERFLOW, -1, "the header does not fit in 63 bits of bytes");
    }
    header->n_reserved = header->n_bytes - with_key;
    int64_t n_bytes;
    QN_TRY(measure_with_key(job, writer, header->n_reserved, &n_bytes, err));
    QN_CHECK(n_bytes == header->n_bytes, err, QN_ERR_INVALID_STATE, -1,
             "a header of %" PRId64 " bytes became one of %" PRId64, header->n_bytes, n_bytes);
    return QN_OK;
}

static qn_status make_header(const in_place_job *job, qn_gguf_writer *writer, new_header *header,
                             qn_error *err)
{
    qn_gguf_file_plan plan;
    QN_TRY(qni_edit_keys(job->gguf, job->options, writer, err));
    QN_TRY(rename_tensors(job, writer, err));
    if (qn_gguf_writer_has(writer, QNI_RESERVE_KEY)) {
        QN_TRY(qn_gguf_writer_remove(writer, QNI_RESERVE_KEY, err));
    }
    QN_TRY(fit(job, writer, header, err));
    QN_TRY(qn_gguf_writer_layout(writer, &plan, err));
    QN_TRY(qni_edit_lint(job->gguf, plan.header, plan.n_header_bytes, job->options, err));
    header->bytes = qni_alloc(job->options->allocator, (size_t)header->n_bytes);
    if (!header->bytes) {
        return qni_fail_memory(err, (size_t)header->n_bytes);
    }
    memcpy(header->bytes, plan.header, (size_t)header->n_bytes);
    return QN_OK;
}

/* --- the edit ----------------------------------------------------------------------------------
 */

/* Fills header and patch from the open file. */
static qn_status plan_patch(in_place_job *job, new_header *header, qni_patch *patch, qn_error *err)
{
    qn_gguf_writer_options writing = QN_GGUF_WRITER_OPTIONS_INIT;
    qn_gguf_writer *writer;
    const int64_t old = qn_gguf_data_offset(job->gguf);
    QN_TRY(check_possible(job, err));
    QN_TRY(qni_patch_unit(job->path, &job->unit, err));
    job->unit = qni_max_i64(job->unit, qn_gguf_alignment(job->gguf));
    QN_CHECK(
        job->unit % qn_gguf_alignment(job->gguf) == 0 && old <= qn_gguf_n_bytes(job->gguf), err,
        QN_ERR_UNSUPPORTED, -1,
        "the file has no data, or an alignment that files are not cut at: write to a new file");
    writing.layout = QN_GGUF_LOSSLESS;
    writing.allocator = job->options->allocator;
    QN_TRY(qn_gguf_writer_from(job->gguf, &writing, &writer, err));
    const qn_status st = make_header(job, writer, header, err);
    qn_gguf_writer_free(writer);
    *patch =
        (qni_patch){header->bytes, header->n_bytes, header->n_inserted, qn_gguf_n_bytes(job->gguf),
                    qni_hash64(qn_gguf_bytes(job->gguf, 0), (size_t)old, 0)};
    return st;
}

/* The file is closed before it is changed: whoever has it open, ourselves included, is in the way.
 */
static qn_status edit(in_place_job *job, bool only_look, new_header *header,
                      qn_edit_result *out_result, qn_error *err)
{
    qn_gguf_options reading = QN_GGUF_OPTIONS_INIT;
    qni_patch patch;
    reading.allocator = job->options->allocator;
    reading.single_shard = true;
    QN_TRY(qni_patch_check(job->path, job->options->allocator, err));
    QN_TRY(qn_gguf_open(job->path, &reading, &job->gguf, err));
    const qn_status st = plan_patch(job, header, &patch, err);
    qn_gguf_close(job->gguf);
    QN_TRY(st);
    *out_result = (qn_edit_result){header->n_bytes, header->n_inserted, header->n_reserved, false};
    return only_look ? QN_OK
                     : qni_patch_apply(job->path, &patch, job->options->allocator,
                                       &out_result->is_claimed, err);
}

qn_status qn_edit_in_place(const char *path, const qn_edit_options *options, bool only_look,
                           qn_edit_result *out_result, qn_error *err)
{
    qn_edit_options checked;
    new_header header = {NULL, 0, 0, 0};
    *out_result = (qn_edit_result){0, 0, 0, false};
    QN_TRY(qni_edit_read_options(options, &checked, err));
    in_place_job job = {.path = path, .options = &checked};
    const qn_status st = edit(&job, only_look, &header, out_result, err);
    qni_free(checked.allocator, header.bytes, (size_t)header.n_bytes);
    return st == QN_OK ? QN_OK : qni_fail_path(err, st, path);
}

/* --- after a kill ------------------------------------------------------------------------------
 */

qn_status qn_edit_recover(const char *path, qn_edit_recovery *out_recovery, qn_error *err)
{
    qni_patch_outcome outcome;
    const qn_status st = qni_patch_recover(path, NULL, &outcome, err);
    *out_recovery = outcome == QNI_PATCH_DONE     ? QN_EDIT_FINISHED
                    : outcome == QNI_PATCH_UNDONE ? QN_EDIT_UNDONE
                                                  : QN_EDIT_NOTHING_PENDING;
    return st;
}

qn_status qn_edit_check(const char *path, qn_error *err)
{
    return qni_patch_check(path, NULL, err);
}
