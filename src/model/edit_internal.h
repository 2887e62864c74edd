/* edit_internal.h — what the files of the edit policy share: edit.c plans a new file,
 * edit_in_place.c changes the old one; edit_keys.c makes the edits of keys, edit_value.c reads
 * values, edit_lint.c looks at what came of them. */
#ifndef QNI_EDIT_INTERNAL_H
#define QNI_EDIT_INTERNAL_H

#include "model/model.h"
#include "quench/edit.h"

/* A string whose bytes an edit in place may take for other metadata. */
#define QNI_RESERVE_KEY "quench.reserved"
#define QNI_MAX_RESERVE (INT64_C(1) << 30)

enum { QNI_N_SPLIT_KEYS = 3 };
extern const char *const qni_edit_split_keys[QNI_N_SPLIT_KEYS];

/* Options with all fields, checked with their edits. */
QN_NODISCARD qn_status qni_edit_read_options(const qn_edit_options *options, qn_edit_options *out,
                                             qn_error *err);
/* Say which edit a failure belongs to; returns `st`. */
qn_status qni_edit_blame(const qn_edit *edit, qn_status st, qn_error *err);
/* A new name for a tensor. */
QN_NODISCARD qn_status qni_edit_check_name(const char *name, qn_error *err);
/* Copy all entries but the split keys and those that ggml refuses and an edit takes away. */
QN_NODISCARD qn_status qni_edit_copy_keys(const qn_gguf *gguf, const qn_edit_options *options,
                                          qn_gguf_writer *writer, qn_error *err);
/* Make the edits of keys; the writer holds the entries of `gguf`. */
QN_NODISCARD qn_status qni_edit_keys(const qn_gguf *gguf, const qn_edit_options *options,
                                     qn_gguf_writer *writer, qn_error *err);
/* n_bytes of room, as the last key if it is new. */
QN_NODISCARD qn_status qni_edit_set_reserve(qn_gguf_writer *writer, int64_t n_bytes,
                                            const qn_allocator *allocator, qn_error *err);

/* Set a key of the writer to the value that an edit's text says; `type` and `elem_type` are known
 * by now. */
QN_NODISCARD qn_status qni_edit_set_value(const qn_edit *edit, qn_gguf_type type,
                                          qn_gguf_type elem_type, const qn_allocator *allocator,
                                          qn_gguf_writer *writer, qn_error *err);

/* Log each kind of warning that the new header gives and the input did not. */
QN_NODISCARD qn_status qni_edit_lint(const qn_gguf *before, const void *header, int64_t n_header,
                                     const qn_edit_options *options, qn_error *err);

#endif
