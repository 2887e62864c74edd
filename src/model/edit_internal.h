/* edit_internal.h — what the files of the edit policy share: edit.c plans, edit_value.c reads
 * values, edit_lint.c looks at what came of them. */
#ifndef QNI_EDIT_INTERNAL_H
#define QNI_EDIT_INTERNAL_H

#include "model/model.h"
#include "quench/edit.h"

/* Set a key of the writer to the value that an edit's text says; `type` and `elem_type` are known
 * by now. */
QN_NODISCARD qn_status qni_edit_set_value(const qn_edit *edit, qn_gguf_type type,
                                          qn_gguf_type elem_type, const qn_allocator *allocator,
                                          qn_gguf_writer *writer, qn_error *err);

/* Log each kind of warning that the plan's first file gives and the input did not. */
QN_NODISCARD qn_status qni_edit_lint(const qn_gguf *before, const qn_plan *plan,
                                     const qn_edit_options *options, qn_error *err);

#endif
