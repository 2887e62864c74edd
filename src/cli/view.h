/* cli/view.h — any model file as `inspect` shows it: one shape for every container. */
#ifndef CLI_VIEW_H
#define CLI_VIEW_H

#include "cli/cli.h"
#include "quench/gguf.h"
#include "quench/json.h"

typedef struct view_tensor {
    const char *name; /* n_name bytes of anything */
    int64_t n_name;
    const char *type; /* a word */
    int32_t n_dims;
    int64_t ne[QN_MAX_DIMS]; /* fastest first; unless: */
    const int64_t *shape;    /* NULL, or n_dims dimensions, outermost first */
    int64_t n_elems;
    int64_t n_bytes;
    int64_t file_offset;
    int64_t file; /* index of its file */
} view_tensor;

/* Where the bytes of one file go; the parts add up to what the file holds. */
typedef struct view_file {
    const char *path;
    int64_t n_header_bytes;
    int64_t n_padding_bytes; /* after the header, between tensors and after them */
    int64_t n_tensor_bytes;
    int64_t n_tensors;
    int64_t n_file_bytes; /* as the file system says, not as the parts add up */
} view_file;

/* Something odd that is accepted. */
typedef struct view_warning {
    cli_text text;    /* escaped */
    int code;         /* a qn_gguf_warning_code, 0: none */
    uint32_t readers; /* QN_GGUF_READER_ bits: who would refuse the file for it */
    int64_t n_found;
    int64_t offset; /* -1: none */
} view_warning;

typedef struct model_view {
    const char *path;   /* as the user gave it */
    const char *format; /* "gguf" or "safetensors" */
    cli_text layout;    /* "version 3, little-endian, aligned to 32 bytes" */
    cli_text title;     /* general.name, escaped; empty: none */
    cli_text architecture;
    qn_gguf_string raw_title; /* the same two as they are; no bytes: none */
    qn_gguf_string raw_architecture;
    cli_text file_type;
    view_file *files;
    int64_t n_files;
    int64_t n_tensors;
    int64_t n_entries; /* of metadata */

    void *source; /* what the functions below look into */
    void (*tensor)(const struct model_view *view, int64_t index, view_tensor *out_tensor);
    /* Key (escaped), type and value of a metadata entry; at most n_max characters or elements of
     * the value, 0: all. */
    void (*entry)(const struct model_view *view, int64_t index, int64_t n_max, cli_text *key,
                  cli_text *type, cli_text *value);
    /* The same as members of an open JSON object. */
    void (*entry_json)(const struct model_view *view, int64_t index, int64_t n_max,
                       qn_json_writer *json);
    void (*close)(struct model_view *view);
    view_warning *warnings;
    int64_t n_warnings;
} model_view;

typedef struct view_options {
    bool is_strict;
    bool is_deep; /* look at all padding for warnings, too */
} view_options;

/* Open any model file. The error is said on failure; returns the exit status. */
int view_open(const char *path, const view_options *options, model_view *out_view);
/* The same without a word: *out_view is empty on failure. */
qn_status view_try_open(const char *path, const view_options *options, model_view *out_view,
                        qn_error *err);
void view_close(model_view *view);

/* The containers, one opener each. */
qn_status view_open_gguf(const char *path, const view_options *options, model_view *out_view,
                         qn_error *err);

qn_status view_open_safetensors(const char *path, const view_options *options, model_view *out_view,
                                qn_error *err);

/* Dimension `i`, fastest first. */
int64_t view_dim(const view_tensor *tensor, int32_t i);
/* Size of a file as the file system says; -1 if it cannot be known. */
int64_t view_file_size(const char *path);
/* The text is copied; the returned warning may be filled further. */
view_warning *view_add_warning(model_view *view, const char *text);

#endif
