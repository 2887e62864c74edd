/* plan_internal.h — a plan as plain data, and how policies build one.
 *
 *     items    in output order; each has input tensors, output tensors, a recipe
 *     tensors  the output tensors, with their file and the place of their bytes in it
 *     files    the outputs: header bytes, size, which tensors
 *
 * A policy calls qni_plan_new(), then qni_plan_lay_out() with a function that gives each output
 * file's writer metadata and tensors, then qni_plan_add_item() for what fills them. A plan without
 * files has items whose outputs are given to other sinks (digests, comparison). */
#ifndef QNI_PLAN_INTERNAL_H
#define QNI_PLAN_INTERNAL_H

#include "model/model.h"
#include "model/source_internal.h"

struct qni_recipe;

typedef struct qni_plan_input {
    const qn_model *model;
    const qn_tensor_info *tensor;
} qni_plan_input;

typedef struct qni_item {
    const struct qni_recipe *recipe;
    qni_plan_input *inputs;
    int32_t n_inputs;
    int32_t n_outputs;
    int64_t first_output; /* index into tensors */
    const char *rule;     /* static text */
    qn_dtype wanted;
    bool is_fallback;
    bool may_convert; /* the policy was free to choose its type: recipes list it */
    bool lacks_weights;
    bool is_tied;         /* planes: their scales */
    const float *weights; /* importance: n_weights = ne0 of each expert after the other, or NULL */
    int64_t n_weights;
    const struct qni_edits *edits; /* of adapters; NULL: none */
} qni_item;

typedef struct qni_plan_file {
    const uint8_t *header;
    int64_t n_header_bytes;
    int64_t n_bytes;
    int64_t first_tensor;
    int64_t n_tensors;
} qni_plan_file;

/* How the paths of the outputs follow from the path given to the run. */
typedef enum qni_naming {
    QNI_NAMING_SINGLE, /* the path itself */
    QNI_NAMING_SHARDS  /* PREFIX-00001-of-00003.gguf; ".gguf" at the path's end is dropped first */
} qni_naming;

struct qn_plan {
    const qn_model *model; /* no output replaces its files, also where no item reads them */
    const qn_allocator *allocator;
    qni_arena arena;
    qni_naming naming;
    qni_item *items;
    int64_t n_items;
    int64_t n_items_max;
    qn_tensor_info *tensors;
    int64_t n_tensors;
    int64_t n_tensors_max;
    qni_plan_file *files;
    int32_t n_files;
    int32_t n_files_max;
};

/* Room for so many items, output tensors and files is made here; more are refused. */
QN_NODISCARD qn_status qni_plan_new(const qn_model *model, const qn_allocator *allocator,
                                    int64_t n_items, int64_t n_tensors, int32_t n_files,
                                    qn_plan **out_plan, qn_error *err);

/* Add an output file laid out by the writer, whose header bytes are copied, and its tensors. */
QN_NODISCARD qn_status qni_plan_add_file(qn_plan *plan, qn_gguf_writer *writer, qn_error *err);

/* Set the metadata of output file number `file` and declare its tensors. */
typedef qn_status (*qni_lay_out_fn)(const void *job, int32_t file, qn_gguf_writer *writer,
                                    qn_error *err);
/* Add n_files files, each laid out by a policy. */
QN_NODISCARD qn_status qni_plan_lay_out(qn_plan *plan, int32_t n_files, qni_lay_out_fn lay_out,
                                        const void *job, qn_error *err);

/* Add an output tensor that goes to no file. */
QN_NODISCARD qn_status qni_plan_add_tensor(qn_plan *plan, const qn_tensor_info *info,
                                           qn_error *err);

/* Add an item with one input and the output tensors that follow those of the item before. The
 * returned item may be filled further. A tensor of a merged model that adapters change gets the
 * recipe that merges them instead of a copy or conversion. */
QN_NODISCARD qn_status qni_plan_add_item(qn_plan *plan, const struct qni_recipe *recipe,
                                         const qn_model *model, const qn_tensor_info *input,
                                         int32_t n_outputs, qni_item **out_item, qn_error *err);

/* Do adapters change this tensor of the model? A copy of it is then no copy. */
bool qni_tensor_is_edited(const qn_model *model, const qn_tensor_info *tensor);

/* The first output tensor of an item, NULL if it has none. */
const qn_tensor_info *qni_plan_target(const qn_plan *plan, const qni_item *item);

/* Does the item have importance weights, and has the encoder of its target a use for them? */
bool qni_item_encodes_with_weights(const qni_item *item, qn_dtype dtype);

/* Name tensor and file of a failure: "tensor T: ...". Returns st. */
qn_status qni_item_blame(const qni_item *item, qn_status st, qn_error *err);

#endif
