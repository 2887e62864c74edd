/* adapter_internal.h — adapters of any form as one neutral list of parts, and what a merge makes of
 * it.
 *
 *     adapter.c          recognise what was given, open it: one row for each form
 *     adapter_config.c   adapter_config.json of PEFT and mlx-lm
 *     adapter_peft.c, adapter_mlx.c, adapter_gguf.c, adapter_seed.c
 *                        what only one form knows: keys, shapes, scales -> parts
 *     adapter_fit.c      does the adapter fit what it says of itself, and the model? warnings
 *     adapter_names.c    Hugging Face names -> GGUF names, orders of rows: tables per architecture
 *     adapter_matrix.c   a strided view of a stored tensor, read as f32
 *     merge.c            parts -> edits of the model's tensors; the merged model
 *     merge_scan.c       one look at all values: finite? zero? a digest that no form changes
 *     recipe_merge.c     the arithmetic
 *
 * One convention everywhere: A is [r, in], B is [out, r], the delta [out, in] = scale * B A, rows
 * in the order of the GGUF. */
#ifndef QNI_ADAPTER_INTERNAL_H
#define QNI_ADAPTER_INTERNAL_H

#include "model/source_internal.h"
#include "quench/adapters.h"

/* --- rows and matrices ------------------------------------------------------------------------ */

typedef enum qni_row_order {
    QNI_ROWS_AS_STORED,
    QNI_ROWS_ROPE,  /* inside each head of d rows: new 2j = old j, new 2j + 1 = old j + d/2 */
    QNI_ROWS_NEOX,  /* stored head by head (q, k, v) -> q of all heads, k of all, v of all */
    QNI_ROWS_FALCON /* stored group by group (q heads, k, v) -> all q, all k, all v */
} qni_row_order;

/* Which stored row a row of the GGUF is. */
typedef struct qni_rows {
    qni_row_order order;
    int64_t n_heads;    /* ROPE: of this tensor; else query heads */
    int64_t n_heads_kv; /* FALCON */
    int64_t n_rows;     /* of the whole tensor whose rows are in this order */
    int64_t first;      /* row number that row 0 of the matrix is, in the GGUF's order */
} qni_rows;

/* A matrix inside a stored tensor, element [i][j] at offset + row(i) * row_stride + j * col_stride,
 * counted in elements. */
typedef struct qni_matrix {
    const qn_model *file;
    const qn_tensor_info *tensor; /* NULL: there is none */
    int64_t n_rows;
    int64_t n_cols;
    int64_t offset;
    int64_t row_stride;
    int64_t col_stride;
    int64_t n_woven; /* so many matrices are woven into one another, element by element; 0: none */
    qni_rows rows;
} qni_matrix;

/* Stored row of row `row`. */
int64_t qni_row_of(const qni_rows *rows, int64_t row);

/* Can the rows be in that order at all (whole heads)? */
bool qni_rows_fit(const qni_rows *rows);

#define QNI_MATRIX_PIECE 8192

/* Room for the pieces in which a matrix is read. Of matrices that are woven into one another, as
 * many as fit are read together and kept, each by itself: one by one, every one of them would cost
 * a pass over all. Zero but for `woven` before the first use. */
typedef struct qni_matrix_room {
    float *woven; /* n_woven_max floats; NULL: no room for that */
    int64_t n_woven_max;
    const qn_tensor_info *woven_tensor; /* whose are there; NULL: none */
    int64_t woven_first;
    int64_t n_woven;
    uint8_t raw[(QNI_MATRIX_PIECE + 512) * 8];
    float values[QNI_MATRIX_PIECE + 512];
} qni_matrix_room;

/* Floats that pay for the woven matrices of a tensor; 0: they are not woven. */
int64_t qni_matrix_woven_floats(const qni_matrix *m);

/* Fill out[(i - first_row) * out_stride + j], rows first_row ... first_row + n_rows - 1, all
 * columns.
 */
QN_NODISCARD qn_status qni_matrix_read(const qni_matrix *m, int64_t first_row, int64_t n_rows,
                                       qni_matrix_room *room, float *out, int64_t out_stride,
                                       qn_error *err);

/* The whole of a stored tensor of one or two dimensions as a matrix; one dimension is a column. */
qni_matrix qni_matrix_of(const qn_model *file, const qn_tensor_info *tensor);
/* One matrix of a stack of them (three dimensions). */
qni_matrix qni_matrix_slice(const qn_model *file, const qn_tensor_info *tensor, int64_t slice);
/* Rows and columns exchanged. The order of rows is left out: set it afterwards. */
qni_matrix qni_matrix_turned(const qni_matrix *m);

/* --- parts ------------------------------------------------------------------------------------ */

typedef enum qni_part_kind {
    QNI_PART_PAIR,    /* += scale * B A */
    QNI_PART_REPLACE, /* rows of `b` instead of the base's */
    QNI_PART_ADD      /* += scale * b: a vector */
} qni_part_kind;

/* What one adapter says of (some rows of) one tensor. */
typedef struct qni_part {
    qni_part_kind kind;
    const char *target; /* name in the GGUF */
    const char *key;    /* name in the adapter, for messages; not escaped */
    int32_t slice;      /* expert of a stack, -1: it is no stack */
    int64_t first_row;  /* of the slice */
    qni_matrix a;
    qni_matrix b;
    qni_matrix magnitude; /* DoRA: [out] */
    double scale;         /* without the strength */
    bool adds_one;        /* norms of gemma are stored as weight + 1 */
    bool may_be_longer;   /* b may have more rows than the tensor: a vocabulary that was cut */
    bool is_window;       /* b has only some rows of the tensor: a part of a fused one */
} qni_part;

/* --- names ------------------------------------------------------------------------------------ */

/* What of the base's metadata adapters ask for. */
typedef struct qni_base_facts {
    const char *architecture;
    uint32_t family; /* a bit of adapter_names.def; 0: names of this architecture are not known */
    int64_t n_heads;
    int64_t n_heads_kv;
    int64_t n_experts;
} qni_base_facts;

QN_NODISCARD qn_status qni_base_facts_of(const qn_model *base, qni_arena *arena,
                                         qni_base_facts *out_facts, qn_error *err);

/* Where a module of a Hugging Face model has gone. */
typedef struct qni_place {
    char target[128]; /* without .weight or .bias */
    qni_row_order order;
    int64_t n_heads; /* for that order */
    int32_t expert;  /* -1: none */
    bool is_stack;   /* all experts in one module, as mlx-lm has them */
    bool is_gate_up; /* experts: gate rows, then up rows, in two tensors or one */
    bool is_norm_plus_one;
    bool is_embedding;
    bool is_conv1d; /* stored [in, out] there: a replacement is turned round, a pair is not */
} qni_place;

/* False: the name is not known. */
bool qni_place_of(const qni_base_facts *facts, const char *module, qni_place *out_place);
/* False for a family whose files have no output.weight of their own and cannot get one. */
bool qni_may_untie(const qni_base_facts *facts);

/* --- configuration ---------------------------------------------------------------------------- */

typedef struct qni_pattern {
    const char *text; /* a regular expression of Python */
    double value;
} qni_pattern;

typedef struct qni_adapter_config {
    bool is_there;
    bool is_mlx;
    const char *peft_type; /* NULL: not said */
    const char *refusal;   /* a key that says that it is not W + s B A, and why; NULL: none */
    bool has_rank;
    int64_t rank;
    bool has_alpha;
    double alpha;
    bool is_rslora;
    bool is_dora;
    const qni_pattern *rank_patterns;
    int64_t n_rank_patterns;
    const qni_pattern *alpha_patterns;
    int64_t n_alpha_patterns;
    const char *const *target_parameters;
    int64_t n_target_parameters;
    const char *const *target_modules; /* a list of names; none where it is a pattern */
    int64_t n_target_modules;
    const char *const *saved_modules; /* modules_to_save */
    int64_t n_saved_modules;
    const char *base_name; /* what it was trained on; NULL: not said */
    const char *peft_version;
    const char *unknown_key; /* the first one; NULL: none */
    const char *fine_tune_type;
    bool has_scale; /* mlx-lm */
    double scale;
    const char *warning; /* something to say; NULL: nothing */
} qni_adapter_config;

/* Read `path`; texts go to the arena. A file that is not there leaves is_there false. */
QN_NODISCARD qn_status qni_adapter_config_read(const char *path, qni_arena *arena,
                                               qni_adapter_config *out_config, qn_error *err);

/* --- one adapter ------------------------------------------------------------------------------ */

typedef struct qni_adapter {
    const char *path; /* as given */
    qn_adapter_form form;
    qn_model *file;
    const char *config_path; /* both: there or not */
    const char *state_path;
    qni_adapter_config config;
    bool has_trainer_alpha; /* of trainer_state.json */
    double trainer_alpha;
    const char *record;
    bool was_merged;
    uint64_t digest;
    const char *scale_source; /* static text: what said alpha, or the scale */
    int64_t n_pairs;
    int64_t n_replaced;
    int64_t n_zero;   /* pairs whose product is zero */
    int64_t n_copies; /* tensors that only repeat the base's */
} qni_adapter;

/* What the readers of the forms work with; they add parts. */
typedef struct qni_adapter_job {
    const qn_model *base;
    const qni_base_facts *facts;
    const qn_merge_options *options;
    qni_arena *arena;
    qni_adapter *adapter;
    qni_part *parts;
    int64_t n_parts;
    int64_t n_parts_max;
} qni_adapter_job;

/* Recognise and open what stands under the path, and list its parts. */
QN_NODISCARD qn_status qni_adapter_read(qni_adapter_job *job, const char *path, qn_error *err);

QN_NODISCARD qn_status qni_adapter_read_peft(qni_adapter_job *job, qn_error *err);
QN_NODISCARD qn_status qni_adapter_read_mlx(qni_adapter_job *job, qn_error *err);
QN_NODISCARD qn_status qni_adapter_read_gguf(qni_adapter_job *job, qn_error *err);
QN_NODISCARD qn_status qni_adapter_read_seed(qni_adapter_job *job, qn_error *err);

QN_NODISCARD qn_status qni_adapter_add(qni_adapter_job *job, const qni_part *part, qn_error *err);

/* Resolve a module of a Hugging Face model and add the part, whose matrices are in that model's
 * order and whose target, slice and rows are filled here: stacks and fused tensors may make several
 * parts of it. `suffix`: "weight" or "bias". */
QN_NODISCARD qn_status qni_adapter_add_module(qni_adapter_job *job, const char *module,
                                              const char *suffix, const qni_part *part,
                                              qn_error *err);

/* The same for a module whose place is known. */
QN_NODISCARD qn_status qni_adapter_add_at(qni_adapter_job *job, const qni_place *place,
                                          const char *suffix, const qni_part *part, qn_error *err);

/* Two stored tensors as a pair: ranks must agree. A is [r, in], B is [out, r] as they stand in
 * `part`.
 */
QN_NODISCARD qn_status qni_adapter_check_pair(const qni_part *part, qn_error *err);

/* "tensor KEY: message"; the file is named too. Returns st. */
qn_status qni_adapter_blame(const qni_adapter_job *job, const char *key, qn_status st,
                            qn_error *err);
/* Warn: "path: message". */
void qni_adapter_warn(const qni_adapter_job *job, const char *fmt, ...) QNI_PRINTF(2, 3);

/* --- adapter_fit.c ---------------------------------------------------------------------------- */

/* A tensor that repeats the base's weight of a module: warn if it is another one. */
QN_NODISCARD qn_status qni_adapter_compare(const qni_adapter_job *job, const char *module,
                                           const qn_tensor_info *copy, qn_error *err);
/* Warn of names in the configuration that none of the n modules of the file belongs to. */
void qni_adapter_check_names(const qni_adapter_job *job, const char *const *modules, int64_t n);
/* Warn if the base that the configuration names shares no word with what the model says of itself,
 * or was quantized. */
void qni_adapter_check_base(const qni_adapter_job *job);

/* printf into the arena; NULL without memory. */
char *qni_arena_printf(qni_arena *arena, const char *fmt, ...) QNI_PRINTF(2, 3);
bool qni_ends_with(const char *text, const char *end);

/* --- edits ------------------------------------------------------------------------------------ */

/* A part after it was matched with the base: rows are counted through all slices. */
typedef struct qni_edit {
    qni_part_kind kind;
    const char *key;
    int64_t first_row;
    int64_t n_rows;
    qni_matrix a;
    qni_matrix b;
    qni_matrix magnitude;
    int64_t rank;
    float scale;
    float own_scale; /* without the strength */
    bool adds_one;
    bool is_vector; /* of a one-dimensional tensor: b is a column, the tensor one row */
    bool is_zero;   /* found to change nothing */
    bool is_repeat; /* of a tied tensor that came apart: it counts once */
    int32_t adapter;
} qni_edit;

/* All edits of one tensor, in the order of the adapters. */
typedef struct qni_edits {
    qni_edit *list;
    int64_t n;
    int64_t n_max;
    uint64_t digest;
    bool is_new; /* the tensor is not in the base */
} qni_edits;

/* Look at all values of the adapters. Fills is_zero of edits, digests of tensors and adapters. */
QN_NODISCARD qn_status qni_merge_scan(qn_merge *merge, qn_error *err);

struct qn_merge {
    const qn_allocator *allocator;
    qn_merge_options options;
    qni_arena arena;
    const qn_model *base;
    qni_base_facts facts;
    qni_adapter *adapters;
    int32_t n_adapters;
    bool is_tied_on_purpose; /* the adapter being read changes embedding and output alike */
    qn_model model;          /* the merged one: shares the base's files */
    qni_edits *edits;        /* one for each tensor of it */
    int64_t *changed;        /* indices of those with edits that are not zero */
    int64_t n_changed;
};

#endif
