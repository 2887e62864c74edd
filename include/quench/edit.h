/* edit.h — a GGUF model's metadata and the names of its tensors changed: by a plan that copies its
 * tensors to a new file and is run like any other (quench/model.h), or in place. */
#ifndef QUENCH_EDIT_H
#define QUENCH_EDIT_H

#include "quench/gguf.h"
#include "quench/model.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum qn_edit_kind {
    QN_EDIT_SET = 0,    /* key `name`: the value that `text` says */
    QN_EDIT_REMOVE = 1, /* key `name` */
    QN_EDIT_RENAME = 2, /* key `name` becomes `new_name`, in its place */
    QN_EDIT_REMOVE_TENSOR = 3,
    QN_EDIT_RENAME_TENSOR = 4 /* tensor `name` becomes `new_name`, in its place */
} qn_edit_kind;

/** One change. Later ones see what earlier ones made. Strings: NUL-terminated but `text`. */
typedef struct qn_edit {
    qn_edit_kind kind;
    const char *name;
    const char *new_name;   /* of the renames */
    qn_gguf_type type;      /* of a value; QN_GGUF_NONE: the type that the key has */
    qn_gguf_type elem_type; /* where `type` is QN_GGUF_ARRAY: of its elements, no arrays */
    const char *text;       /* a string as it is; true or false; a number; an array as JSON */
    int64_t n_text;
} qn_edit;

typedef struct qn_edit_options {
    size_t struct_size;
    const qn_allocator *allocator; /* NULL: malloc */
    const qn_edit *edits;          /* read during the call only */
    int64_t n_edits;
    bool keep_split; /* one output file for each input file; else one for all */
    qn_log_fn log;   /* warnings: what a loader will stumble over; may be NULL */
    void *log_ctx;
    int64_t reserve; /* bytes of metadata for later edits in place, kept in the key quench.reserved,
                      * a string that loaders pass over; in place: at least so many if the file has
                      * to grow. 0 to 2^30 */
} qn_edit_options;
#define QN_EDIT_OPTIONS_INIT                                         \
    {                                                                \
        sizeof(qn_edit_options), NULL, NULL, 0, false, NULL, NULL, 0 \
    }

/** Lay out the model with the edits made. Reads no tensor data; when the plan is run their bytes
 * are copied, whatever their values are.
 *
 * Keys and tensors keep their order, new keys come last; the output is canonical GGUF (version 3,
 * tensors one after the other). The split keys cannot be edited: the outputs have their own.
 *
 * @param model    a GGUF model; keeps until the plan is freed
 * @param out_plan owned: free with qn_plan_free(); NULL on failure
 * @return QN_OK; QN_ERR_INVALID_ARGUMENT (a value that the type cannot hold, a split key, a name of
 *         no or too many bytes); QN_ERR_KEY_NOT_FOUND; QN_ERR_TENSOR_NOT_FOUND;
 *         QN_ERR_DUPLICATE_METADATA_KEY; QN_ERR_DUPLICATE_TENSOR_NAME; what
 * qn_gguf_writer_set_raw() returns; QN_ERR_OUT_OF_MEMORY. The message names key or tensor. Threads:
 * any thread. Since 0.1. */
QN_API QN_NODISCARD qn_status qn_plan_edit(const qn_model *model, const qn_edit_options *options,
                                           qn_plan **out_plan, qn_error *err);

/* --- in place ----------------------------------------------------------------------------------
 */

/** What an edit in place comes to. */
typedef struct qn_edit_result {
    int64_t n_header_bytes; /* where the data begin after it */
    int64_t n_inserted;     /* bytes by which the file grows: its data move up */
    int64_t n_reserved;     /* bytes that later edits may take without moving anything */
    bool is_claimed;        /* nobody else had the file open; false: it could not be told */
} qn_edit_result;

/** Change the file itself: its header is written anew, its data are not touched. Takes time in
 * proportion to the header, and needs room on the disk for one more.
 *
 * The data stay where they are: what an edit frees goes to the key quench.reserved, and what it
 * needs is taken from there. Where that is not enough, bytes are inserted at the front, which some
 * file systems can without copying (ext4, XFS). Version, order and offsets stay as they are. One
 * file is edited, also if it is a part of a split model, whose split keys cannot be edited.
 *
 * The new header is put into a journal beside the file, FILE.quench-patch, and synced before the
 * file is changed; if the process is killed then, qn_edit_recover() ends the edit, and until then
 * the file may not be readable. Other processes that open the file meanwhile wait for the end, on
 * Linux; signals are not used for that.
 *
 * @param path     a GGUF file; links are followed
 * @param options  `keep_split` is not used
 * @param only_look  work out *out_result (is_claimed false) and change nothing
 * @return QN_OK; QN_ERR_NO_ROOM (nothing can be inserted here: write to a new file);
 *         QN_ERR_FILE_IN_USE (another process has it open); QN_ERR_PATCH_PENDING;
 *         QN_ERR_FILE_CHANGED; QN_ERR_UNSUPPORTED (removing a tensor, setting
 *         general.alignment, a big-endian file: that takes a new file); what qn_plan_edit() and
 *         qn_gguf_open() return; QN_ERR_IO, QN_ERR_NO_SPACE. Nothing has changed after a failure,
 *         unless the message says that the edit is to be finished. Threads: one at a time per file.
 *         Since 0.1. */
QN_API QN_NODISCARD qn_status qn_edit_in_place(const char *path, const qn_edit_options *options,
                                               bool only_look, qn_edit_result *out_result,
                                               qn_error *err);

typedef enum qn_edit_recovery {
    QN_EDIT_NOTHING_PENDING = 0,
    QN_EDIT_FINISHED = 1, /* the interrupted edit is made */
    QN_EDIT_UNDONE = 2    /* it had not begun: the file is as it was before */
} qn_edit_recovery;

/** Finish an edit in place that was interrupted; a kill during this is no harm either.
 * @return QN_OK; QN_ERR_STALE_JOURNAL (the journal is damaged or of another file: nothing is
 *         done); QN_ERR_FILE_IN_USE; QN_ERR_IO, QN_ERR_NO_SPACE, QN_ERR_OUT_OF_MEMORY. Threads: one
 *         at a time per file. Since 0.1. */
QN_API QN_NODISCARD qn_status qn_edit_recover(const char *path, qn_edit_recovery *out_recovery,
                                              qn_error *err);

/** QN_ERR_PATCH_PENDING if an edit of this file in place was interrupted: it may be half changed.
 * Threads: any thread. Since 0.1. */
QN_API QN_NODISCARD qn_status qn_edit_check(const char *path, qn_error *err);

#ifdef __cplusplus
}
#endif

#endif
