/* edit.h — a plan that changes a GGUF model's metadata and the names of its tensors, and copies
 * their bytes. It is run like any other: see quench/model.h. */
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
} qn_edit_options;
#define QN_EDIT_OPTIONS_INIT                                      \
    {                                                             \
        sizeof(qn_edit_options), NULL, NULL, 0, false, NULL, NULL \
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

#ifdef __cplusplus
}
#endif

#endif
