/* source_internal.h — what is behind a qn_model: one uniform view of any container.
 *
 * A container (containers.c has one row for each) fills the table below when it opens; from then on
 * everybody reads tensors through it with pread and knows no format. */
#ifndef QNI_SOURCE_INTERNAL_H
#define QNI_SOURCE_INTERNAL_H

#include "model/model.h"
#include "quench/gguf.h"
#include "quench/probe.h"

struct qni_edits; /* adapter_internal.h */

/* One file of the model, open for pread. */
typedef struct qni_source_file {
    qni_file file;
    char *path; /* as opened */
    bool is_big_endian;
    int64_t n_header_bytes; /* where its tensor data begin */
} qni_source_file;

struct qn_model {
    const qn_allocator *allocator;
    qni_arena arena;
    qn_container container;
    qni_source_file *files;
    int32_t n_files;
    qn_tensor_info *tensors; /* file order; names end with a NUL; data is NULL */
    int64_t n_tensors;
    qni_strmap by_name;
    qn_gguf *metadata;   /* NULL: none */
    const char **others; /* paths of files that were read besides; in the arena of who made it */
    int32_t n_others;
    const struct qni_edits *edits; /* of a merged model: one for each tensor; NULL: none */
};

/* One format. */
typedef struct qni_container {
    const char *name;
    qn_container id;
    qn_file_kind kind; /* as the first bytes tell it */
    /* Fill files, tensors, metadata. What is filled when it fails is freed by the caller. */
    qn_status (*open)(qn_model *model, const char *path, const qn_model_options *options,
                      qn_error *err);
} qni_container;

/* Rows of the table, NULL past the last. */
const qni_container *qni_container_at(int index);

qn_status qni_source_open_gguf(qn_model *model, const char *path, const qn_model_options *options,
                               qn_error *err);
qn_status qni_source_open_safetensors(qn_model *model, const char *path,
                                      const qn_model_options *options, qn_error *err);

/* For containers: make room for n files and n tensors; add one file by path; add one tensor. */
QN_NODISCARD qn_status qni_source_reserve(qn_model *model, int64_t n_files, int64_t n_tensors,
                                          qn_error *err);
QN_NODISCARD qn_status qni_source_add_file(qn_model *model, const char *path,
                                           int64_t n_header_bytes, bool is_big_endian,
                                           qn_error *err);
QN_NODISCARD qn_status qni_source_add_tensor(qn_model *model, const qn_tensor_info *info,
                                             qn_error *err);

/* Read n_bytes of a tensor's data from byte_offset on, in little-endian order. n_bytes is a whole
 * number of blocks. Any thread. */
QN_NODISCARD qn_status qni_source_read(const qn_model *model, const qn_tensor_info *tensor,
                                       int64_t byte_offset, size_t n_bytes, void *out,
                                       qn_error *err);

#endif
