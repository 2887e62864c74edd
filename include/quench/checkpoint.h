/* checkpoint.h — training state: state dicts, optimizer frames, checkpoint directories.
 *
 * A state dict is one safetensors frame of named tensors on a stream. An optimizer frame holds the
 * moments of one optimizer. A checkpoint directory holds payload files and, written last, the
 * trainer_state.json that says that the save is complete; qn_checkpoint_begin_save() keeps the save
 * before it under prev/, so that a process killed at any moment leaves one complete save, which
 * qn_checkpoint_find() finds. */
#ifndef QUENCH_CHECKPOINT_H
#define QUENCH_CHECKPOINT_H

#include "quench/safetensors.h"

#ifdef __cplusplus
extern "C" {
#endif

/* --- state dicts ------------------------------------------------------------------------------ */

/** A named tensor in the caller's memory: what is saved, or where to load to. */
typedef struct qn_state_entry {
    const char *name; /* n_name bytes */
    int64_t n_name;
    qn_safetensors_dtype dtype; /* F32, F16, BF16 or I64 */
    int32_t rank;
    const int64_t *shape; /* outermost first */
    void *data;           /* contiguous; only written to by a load */
    int64_t n_bytes;
} qn_state_entry;

/** Write entries as one frame. Everything is checked before the first byte is written.
 * @return QN_OK; QN_ERR_CHECKPOINT_INVALID_NAME (empty, a NUL, not UTF-8, `__metadata__`);
 *         QN_ERR_CHECKPOINT_UNSUPPORTED_DTYPE; QN_ERR_CHECKPOINT_SHAPE_MISMATCH (n_bytes is not
 * what type and shape make); QN_ERR_CHECKPOINT_DUPLICATE_NAME; QN_ERR_HEADER_TOO_LARGE;
 *         QN_ERR_OUT_OF_MEMORY; what `write` returns. Threads: any thread. Since 0.1. */
QN_API QN_NODISCARD qn_status qn_state_dict_save(const qn_state_entry *entries, int64_t n_entries,
                                                 qn_write_fn write, void *write_ctx, qn_error *err);
/** The same to a file that changes only when all of it is there. Also QN_ERR_IO. Since 0.1. */
QN_API QN_NODISCARD qn_status qn_state_dict_save_path(const qn_state_entry *entries,
                                                      int64_t n_entries, const char *path,
                                                      qn_error *err);

/** A stored name that is meant by another one now. */
typedef struct qn_state_alias {
    const char *old_name; /* in the stream */
    const char *new_name; /* of the destination */
} qn_state_alias;

typedef struct qn_state_dict_options {
    size_t struct_size;
    const qn_allocator *allocator;
    bool is_lenient; /* stored names without a destination are skipped, destinations without a
                      * stored tensor stay as they are; else both are errors */
    const qn_state_alias *aliases; /* the first that matches counts, once */
    int64_t n_aliases;
} qn_state_dict_options;
#define QN_STATE_DICT_OPTIONS_INIT                   \
    {                                                \
        .struct_size = sizeof(qn_state_dict_options) \
    }

/** Read one frame off a stream into the destinations: all of it is checked, then all is copied; a
 * load that fails has changed nothing.
 * @return QN_OK; QN_ERR_CHECKPOINT_UNKNOWN_NAME, QN_ERR_CHECKPOINT_MISSING_ENTRY (not if lenient);
 *         QN_ERR_CHECKPOINT_DUPLICATE_NAME (destinations, or two stored tensors for one);
 *         QN_ERR_CHECKPOINT_DTYPE_MISMATCH; QN_ERR_CHECKPOINT_SHAPE_MISMATCH; what
 *         qn_safetensors_read_prefix() returns. Since 0.1. */
QN_API QN_NODISCARD qn_status qn_state_dict_load(const qn_state_entry *entries, int64_t n_entries,
                                                 qn_read_fn read, void *read_ctx,
                                                 const qn_state_dict_options *options,
                                                 qn_error *err);

/* --- optimizer frames ------------------------------------------------------------------------- */

typedef enum qn_optimizer_kind {
    QN_OPTIMIZER_ADAM = 0,
    QN_OPTIMIZER_ADAMW = 1,
    QN_OPTIMIZER_MUON = 2, /* with an AdamW for what is no matrix */
    QN_OPTIMIZER_SGD = 3,
    QN_OPTIMIZER_SET = 4 /* of other optimizers */
} qn_optimizer_kind;

/** One buffer of a slot: rows * cols elements, little-endian. */
typedef struct qn_optimizer_buffer {
    qn_dtype dtype;   /* QN_DTYPE_F32 or QN_DTYPE_BF16 */
    const void *data; /* borrowed; no alignment */
} qn_optimizer_buffer;

#define QN_OPTIMIZER_MAX_BUFFERS 2

/** The state of one parameter. */
typedef struct qn_optimizer_slot {
    const char *name; /* n_name bytes, at most 65535 */
    int64_t n_name;
    int64_t rows;
    int64_t cols;
    uint64_t step;                                         /* Muon has none: 0 */
    qn_optimizer_buffer buffers[QN_OPTIMIZER_MAX_BUFFERS]; /* Adam, AdamW: m, v; SGD: buf; Muon:
                                                            * momentum */
    const void *master;                                    /* the f32 weights, or NULL */
} qn_optimizer_slot;

/** One optimizer. `second`: of Muon the embedded AdamW, of a set its n_members members. */
typedef struct qn_optimizer {
    qn_optimizer_kind kind;
    int32_t version;  /* of the frame as read: 3, 4, 5; the writer takes the lowest that will do */
    float momentum;   /* SGD */
    float dampening;  /* SGD */
    bool is_nesterov; /* SGD, Muon */
    uint8_t scale_mode;  /* Muon: 0 spectral, 1 match-RMS-AdamW */
    uint32_t n_ns_steps; /* Muon */
    const qn_optimizer_slot *slots;
    int64_t n_slots;
    const struct qn_optimizer *second;
    int64_t n_members;
} qn_optimizer;

/** Write a frame. Checked before the first byte is written.
 * @return QN_OK; QN_ERR_CHECKPOINT_INVALID_NAME; QN_ERR_CHECKPOINT_DUPLICATE_NAME;
 *         QN_ERR_CHECKPOINT_SHAPE_MISMATCH; QN_ERR_CHECKPOINT_UNSUPPORTED_DTYPE;
 *         QN_ERR_CHECKPOINT_TOO_MANY_ENTRIES; QN_ERR_INVALID_ARGUMENT (a set in a set, a Muon
 *         without its AdamW); what `write` returns. Since 0.1. */
QN_API QN_NODISCARD qn_status qn_optimizer_write(const qn_optimizer *optimizer, qn_write_fn write,
                                                 void *write_ctx, qn_error *err);

/** Read one frame off a stream: AdamW, Adam, SGD, Muon and sets of them, versions 3, 4 and 5.
 *
 * Memory grows with what has arrived, never with what the frame claims.
 * @param out_optimizer  owned: free with qn_optimizer_free(); NULL on failure
 * @return QN_OK; QN_ERR_CHECKPOINT_MAGIC_MISMATCH (another kind of file, or APOLLO, whose buffers
 *         are not documented: named); QN_ERR_CHECKPOINT_INVALID_NAME;
 *         QN_ERR_CHECKPOINT_DUPLICATE_NAME; QN_ERR_CHECKPOINT_UNSUPPORTED_DTYPE;
 *         QN_ERR_CHECKPOINT_SHAPE_MISMATCH (a size that overflows);
 * QN_ERR_CHECKPOINT_CONFIG_MISMATCH (a flag that is none); QN_ERR_CHECKPOINT_TOO_MANY_ENTRIES;
 * QN_ERR_END_OF_STREAM; what `read` returns. Since 0.1. */
QN_API QN_NODISCARD qn_status qn_optimizer_read(qn_read_fn read, void *read_ctx,
                                                const qn_allocator *allocator,
                                                qn_optimizer **out_optimizer, qn_error *err);
QN_API void qn_optimizer_free(qn_optimizer *optimizer);
/** "AdamW"; "?" for a value that is none. Static storage. */
QN_API const char *qn_optimizer_name(qn_optimizer_kind kind);

/* --- trainer_state.json ----------------------------------------------------------------------- */

/** The optional fields, in the order in which they are written. */
typedef enum qn_trainer_field {
    QN_TRAINER_LORA_RANK = 0,
    QN_TRAINER_LORA_ALPHA,
    QN_TRAINER_LORA_DROPOUT_P,
    QN_TRAINER_LEARNING_RATE,
    QN_TRAINER_ACCUM_STEPS,
    QN_TRAINER_DATA_SEED,
    QN_TRAINER_DATA_EPOCH,
    QN_TRAINER_DATA_INDEX,
    QN_TRAINER_ES_SIGMA,
    QN_TRAINER_ES_ALPHA,
    QN_TRAINER_ES_POPULATION,
    QN_TRAINER_ES_NOISE,
    QN_TRAINER_ES_ANTITHETIC,
    QN_TRAINER_ES_ANCHOR_DECAY,
    QN_TRAINER_ES_ANCHOR_LAMBDA,
    QN_TRAINER_ES_TERNARY_FLIP_RATE,
    QN_TRAINER_ES_TERNARY_UPDATE_FRACTION,
    QN_TRAINER_ES_TERNARY_UPDATE_DECAY,
    QN_TRAINER_ES_ITERATION,
    QN_TRAINER_FIELD_LIMIT
} qn_trainer_field;

/** What trainer_state.json holds. */
typedef struct qn_trainer_state {
    uint64_t step;
    uint64_t seed;
    struct {
        bool is_set;
        uint64_t u; /* whole fields */
        double f;   /* the others */
    } fields[QN_TRAINER_FIELD_LIMIT];
} qn_trainer_state;

/** "lora_rank"; NULL for a value that is none. Static storage. */
QN_API const char *qn_trainer_field_name(qn_trainer_field field);
/** True if the field is a whole number (`u`). */
QN_API bool qn_trainer_field_is_whole(qn_trainer_field field);
/** Parse the text; unknown fields are passed over.
 * @return QN_OK; QN_ERR_INVALID_TRAINER_STATE; QN_ERR_UNSUPPORTED_TRAINER_STATE_VERSION. */
QN_API QN_NODISCARD qn_status qn_trainer_state_parse(const void *text, size_t n_bytes,
                                                     qn_trainer_state *out_state, qn_error *err);
/** Write the text, byte for byte as the reference does.
 * @return QN_OK; QN_ERR_INVALID_ARGUMENT (a number that is not finite); what `write` returns. */
QN_API QN_NODISCARD qn_status qn_trainer_state_write(const qn_trainer_state *state,
                                                     qn_write_fn write, void *write_ctx,
                                                     qn_error *err);

/* --- directories ------------------------------------------------------------------------------ */

/* Names of the files; all but the last two are payloads. */
#define QN_CHECKPOINT_MODEL     "model.safetensors"
#define QN_CHECKPOINT_ADAPTERS  "adapters.safetensors"
#define QN_CHECKPOINT_OPTIMIZER "optimizer.fucina"
#define QN_CHECKPOINT_DIGESTS   "quench_digests.json"
#define QN_CHECKPOINT_STATE     "trainer_state.json"

/** Begin a save into `folder`, which is made if it is not there: a complete save in it is first
 * kept under prev/, then its trainer_state.json is removed. Write the payloads next, with
 * qn_state_dict_save_path() and the like, then qn_checkpoint_commit().
 * @return QN_OK; QN_ERR_IO, QN_ERR_NO_SPACE, QN_ERR_OUT_OF_MEMORY. Threads: one at a time for a
 *         folder. Since 0.1. */
QN_API QN_NODISCARD qn_status qn_checkpoint_begin_save(const char *folder, qn_error *err);
/** End a save: with `with_digests` the sizes and digests of all files are written to a file beside
 * them; trainer_state.json comes last. Everything is synced.
 * @return QN_OK; QN_ERR_INVALID_STATE (no payload is there); what the state's writer returns;
 *         QN_ERR_IO. Since 0.1. */
QN_API QN_NODISCARD qn_status qn_checkpoint_commit(const char *folder,
                                                   const qn_trainer_state *state, bool with_digests,
                                                   qn_error *err);
/** Find the last complete save: `folder` itself, or prev/ in it.
 * @param out_path  fills n_out bytes with the folder of it and a NUL
 * @return QN_OK; QN_ERR_INVALID_TRAINER_STATE (neither is complete); QN_ERR_INVALID_ARGUMENT (the
 *         path does not fit). Since 0.1. */
QN_API QN_NODISCARD qn_status qn_checkpoint_find(const char *folder, char *out_path, size_t n_out,
                                                 qn_error *err);
/** What verifying a save came to. */
typedef struct qn_checkpoint_report {
    qn_trainer_state state;
    bool has_model;
    bool has_adapters;
    bool has_optimizer;
    bool has_digests; /* without them a payload of another save cannot be told */
    int64_t n_bytes;  /* of the payloads */
} qn_checkpoint_report;
/** Check one complete save: its state parses, its payloads parse, and sizes and digests are those
 * of the save where they were written.
 * @return QN_OK; QN_ERR_INVALID_TRAINER_STATE; QN_ERR_FILE_CHANGED (a payload is not the one that
 *         was saved: named); what the readers return. Since 0.1. */
QN_API QN_NODISCARD qn_status qn_checkpoint_verify(const char *folder,
                                                   qn_checkpoint_report *out_report, qn_error *err);

#ifdef __cplusplus
}
#endif

#endif
