/* gguf_lint.c — what is accepted but odd, and who would refuse it. One warning for each kind of
 * oddity in each file, however often it occurs, so that a report stays short for any input. */
#include "gguf/gguf_internal.h"

#define MAX_KEY_BYTES    65535 /* of the specification */
#define ALIGNMENT_FACTOR 8     /* the specification asks for a multiple of it */
#define N_CODES          24
#define MESSAGE_BYTES    512

struct qn_gguf_report {
    const qn_allocator *allocator;
    qni_arena arena;
    qn_gguf_warning *warnings;
    int64_t n;
    int64_t n_capacity;
};

typedef struct lint {
    const qn_gguf *gguf;
    const qni_gguf_part *part;
    int64_t shard;
    qn_gguf_report *report;
    int64_t index_of[N_CODES]; /* of this shard's warning of a code, -1: none yet */
    bool is_deep;
    bool is_out_of_memory;
} lint;

/* --- noting ------------------------------------------------------------------------------------
 */

static qn_gguf_warning *add_warning(qn_gguf_report *report)
{
    if (report->n == report->n_capacity) {
        const int64_t n_new = report->n_capacity > 0 ? report->n_capacity * 2 : 8;
        void *grown = qni_realloc(report->allocator, report->warnings,
                                  (size_t)report->n_capacity * sizeof *report->warnings,
                                  (size_t)n_new * sizeof *report->warnings);
        if (!grown) {
            return NULL;
        }
        report->warnings = grown;
        report->n_capacity = n_new;
    }
    return &report->warnings[report->n++];
}

/* True if a warning of this code is there already: it is only counted then. */
static bool is_counted(const lint *li, qn_gguf_warning_code code)
{
    if (li->index_of[code] < 0) {
        return false;
    }
    li->report->warnings[li->index_of[code]].n_found++;
    return true;
}

static void note(lint *li, qn_gguf_warning_code code, uint32_t readers, int64_t offset,
                 const char *fmt, ...) QNI_PRINTF(5, 6);
static void note(lint *li, qn_gguf_warning_code code, uint32_t readers, int64_t offset,
                 const char *fmt, ...)
{
    char text[MESSAGE_BYTES];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    const char *copy = qni_arena_copy(&li->report->arena, text, strlen(text));
    qn_gguf_warning *warning = copy ? add_warning(li->report) : NULL;
    if (!warning) {
        li->is_out_of_memory = true;
        return;
    }
    *warning = (qn_gguf_warning){code, readers, 1, offset, li->shard, copy};
    li->index_of[code] = li->report->n - 1;
}

/* --- metadata ----------------------------------------------------------------------------------
 */

static bool is_text(const char *bytes, int64_t n_bytes)
{
    return qni_utf8_is_valid(bytes, (size_t)n_bytes, NULL) &&
           (n_bytes == 0 || !memchr(bytes, 0, (size_t)n_bytes));
}

static void lint_key(lint *li, const qn_gguf_entry *entry)
{
    qni_name_text text;
    const int64_t offset = entry->file_offset - 4 - entry->n_key;
    if (entry->n_key > MAX_KEY_BYTES && !is_counted(li, QN_GGUF_WARN_KEY_LENGTH)) {
        note(li, QN_GGUF_WARN_KEY_LENGTH, 0, offset,
             "key \"%s\" has %" PRId64 " bytes; the specification allows %d",
             qni_escape_name(entry->key, entry->n_key, &text), entry->n_key, MAX_KEY_BYTES);
    }
    if (!is_text(entry->key, entry->n_key) && !is_counted(li, QN_GGUF_WARN_KEY_TEXT)) {
        note(
            li, QN_GGUF_WARN_KEY_TEXT, QN_GGUF_READER_GGUF_PY, offset,
            "key \"%s\" is not UTF-8 or has a NUL inside: the Python gguf package refuses the one, "
            "llama.cpp's tools cut at the other",
            qni_escape_name(entry->key, entry->n_key, &text));
    }
}

/* True if one of n bytes is neither 0 nor 1. */
static bool has_odd_bool(const uint8_t *p, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        if (p[i] > 1) {
            return true;
        }
    }
    return false;
}

static void lint_bools(lint *li, const qn_gguf_entry *entry)
{
    const bool is_array = entry->type == QN_GGUF_ARRAY && entry->elem_type == QN_GGUF_BOOL;
    if (!is_array && entry->type != QN_GGUF_BOOL) {
        return;
    }
    const uint8_t *flags = (const uint8_t *)entry->bytes + (is_array ? 12 : 0);
    if (has_odd_bool(flags, entry->n_elems) && !is_counted(li, QN_GGUF_WARN_BOOL_BYTE)) {
        qni_name_text text;
        note(li, QN_GGUF_WARN_BOOL_BYTE, 0, entry->file_offset,
             "key \"%s\" holds a bool that is neither 0 nor 1: taken as true; ggml writes it back "
             "as 1",
             qni_escape_name(entry->key, entry->n_key, &text));
    }
}

static void lint_strings(lint *li, const qn_gguf_entry *entry)
{
    qni_name_text text;
    (void)qni_escape_name(entry->key, entry->n_key, &text);
    const bool is_big_endian = li->part->shard.is_big_endian;
    const uint8_t *value = entry->bytes;
    qni_gguf_stop stop;
    const bool is_long =
        !qni_gguf_walk_value(value, value + entry->n_bytes, (uint32_t)entry->type, is_big_endian,
                             QNI_GGML_MAX_STRING, &stop) ||
        (entry->type == QN_GGUF_ARRAY && (uint64_t)entry->n_elems > QNI_GGML_MAX_ARRAY);
    if (is_long && !is_counted(li, QN_GGUF_WARN_STRING_LENGTH)) {
        note(li, QN_GGUF_WARN_STRING_LENGTH, QN_GGUF_READER_GGML, entry->file_offset,
             "key \"%s\" holds a string or array of more than 2^30 elements, which ggml refuses",
             text.text);
    }
    if (entry->type == QN_GGUF_STRING &&
        !qni_utf8_is_valid(value + 8, (size_t)entry->n_bytes - 8, NULL) &&
        !is_counted(li, QN_GGUF_WARN_VALUE_TEXT)) {
        note(li, QN_GGUF_WARN_VALUE_TEXT, 0, entry->file_offset,
             "the value of key \"%s\" is not UTF-8", text.text);
    }
}

static void lint_entries(lint *li)
{
    for (int64_t i = 0; i < li->part->shard.n_entries; i++) {
        const qn_gguf_entry *entry = &li->part->items[i].entry;
        qni_name_text text;
        lint_key(li, entry);
        lint_bools(li, entry);
        lint_strings(li, entry);
        if (entry->elem_type == QN_GGUF_ARRAY && !is_counted(li, QN_GGUF_WARN_NESTED_ARRAY)) {
            note(li, QN_GGUF_WARN_NESTED_ARRAY, QN_GGUF_READER_GGML, entry->file_offset,
                 "key \"%s\" is an array of arrays, which llama.cpp refuses",
                 qni_escape_name(entry->key, entry->n_key, &text));
        }
    }
}

/* --- well-known keys ---------------------------------------------------------------------------
 */

/* A key as llama.cpp reads it. A key that begins with "." is under the architecture's name. */
typedef struct known_key {
    const char *key;
    qn_gguf_type type;
    qn_gguf_type elem_type;
    bool may_be_array; /* one value per block instead */
    bool is_positive;  /* 0 cannot be right */
} known_key;

static const known_key known_keys[] = {
    {"general.architecture", QN_GGUF_STRING, QN_GGUF_NONE, false, false},
    {"general.type", QN_GGUF_STRING, QN_GGUF_NONE, false, false},
    {"general.name", QN_GGUF_STRING, QN_GGUF_NONE, false, false},
    {"general.file_type", QN_GGUF_U32, QN_GGUF_NONE, false, false},
    {"general.quantization_version", QN_GGUF_U32, QN_GGUF_NONE, false, false},
    {"general.tags", QN_GGUF_ARRAY, QN_GGUF_STRING, false, false},
    {"general.languages", QN_GGUF_ARRAY, QN_GGUF_STRING, false, false},
    {"tokenizer.ggml.model", QN_GGUF_STRING, QN_GGUF_NONE, false, false},
    {"tokenizer.ggml.pre", QN_GGUF_STRING, QN_GGUF_NONE, false, false},
    {"tokenizer.ggml.tokens", QN_GGUF_ARRAY, QN_GGUF_STRING, false, false},
    {"tokenizer.ggml.merges", QN_GGUF_ARRAY, QN_GGUF_STRING, false, false},
    {"tokenizer.ggml.scores", QN_GGUF_ARRAY, QN_GGUF_F32, false, false},
    {"tokenizer.ggml.token_type", QN_GGUF_ARRAY, QN_GGUF_I32, false, false},
    {"tokenizer.ggml.bos_token_id", QN_GGUF_U32, QN_GGUF_NONE, false, false},
    {"tokenizer.ggml.eos_token_id", QN_GGUF_U32, QN_GGUF_NONE, false, false},
    {"tokenizer.ggml.unknown_token_id", QN_GGUF_U32, QN_GGUF_NONE, false, false},
    {"tokenizer.ggml.padding_token_id", QN_GGUF_U32, QN_GGUF_NONE, false, false},
    {"tokenizer.ggml.add_bos_token", QN_GGUF_BOOL, QN_GGUF_NONE, false, false},
    {"tokenizer.ggml.add_eos_token", QN_GGUF_BOOL, QN_GGUF_NONE, false, false},
    {"tokenizer.chat_template", QN_GGUF_STRING, QN_GGUF_NONE, false, false},
    {".context_length", QN_GGUF_U32, QN_GGUF_NONE, false, true},
    {".embedding_length", QN_GGUF_U32, QN_GGUF_NONE, false, true},
    {".block_count", QN_GGUF_U32, QN_GGUF_NONE, false, true},
    {".feed_forward_length", QN_GGUF_U32, QN_GGUF_NONE, true, false},
    {".attention.head_count", QN_GGUF_U32, QN_GGUF_NONE, true, true},
    {".attention.head_count_kv", QN_GGUF_U32, QN_GGUF_NONE, true, false},
};

/* The entry of a known key, or NULL; `arch` stands for the leading part of some. */
static const qni_gguf_item *find_known(const lint *li, const known_key *known, qn_gguf_string arch)
{
    char key[128];
    const size_t n_known = strlen(known->key);
    size_t n = 0;
    if (known->key[0] == '.') {
        if (arch.n_bytes == 0 || (uint64_t)arch.n_bytes > sizeof key - n_known - 1) {
            return NULL;
        }
        n = (size_t)arch.n_bytes;
        memcpy(key, arch.bytes, n);
    }
    memcpy(key + n, known->key, n_known);
    const int64_t index = qni_names_find(&li->part->keys, key, (int64_t)(n + n_known));
    return index >= 0 ? &li->part->items[index] : NULL;
}

static bool is_expected_type(const known_key *known, const qn_gguf_entry *entry)
{
    if (known->may_be_array && entry->type == QN_GGUF_ARRAY) {
        return true;
    }
    return entry->type == known->type && entry->elem_type == known->elem_type;
}

static void lint_known_key(lint *li, const known_key *known, qn_gguf_string arch)
{
    const qni_gguf_item *item = find_known(li, known, arch);
    if (!item) {
        return;
    }
    const qn_gguf_entry *entry = &item->entry;
    const bool is_array = entry->type == QN_GGUF_ARRAY;
    qni_name_text text;
    (void)qni_escape_name(entry->key, entry->n_key, &text);
    if (!is_expected_type(known, entry)) {
        if (!is_counted(li, QN_GGUF_WARN_METADATA_KIND)) {
            note(li, QN_GGUF_WARN_METADATA_KIND, QN_GGUF_READER_LLAMA, entry->file_offset,
                 "key \"%s\" is %s%s; llama.cpp reads %s%s there and refuses the model", text.text,
                 is_array ? "an array of " : "of type ",
                 qn_gguf_type_name(is_array ? entry->elem_type : entry->type),
                 known->type == QN_GGUF_ARRAY ? "an array of " : "",
                 qn_gguf_type_name(known->type == QN_GGUF_ARRAY ? known->elem_type : known->type));
        }
        return;
    }
    if (known->is_positive && !is_array &&
        qni_load_u32(entry->bytes, li->part->shard.is_big_endian) == 0 &&
        !is_counted(li, QN_GGUF_WARN_METADATA_VALUE)) {
        note(li, QN_GGUF_WARN_METADATA_VALUE, QN_GGUF_READER_LLAMA, entry->file_offset,
             "key \"%s\" is 0, which cannot be right", text.text);
    }
}

/* One entry per token. */
static void lint_token_array(lint *li, const char *key, int64_t n_tokens)
{
    const int64_t index = qni_gguf_part_find(li->part, key);
    if (index < 0 || li->part->items[index].entry.type != QN_GGUF_ARRAY) {
        return;
    }
    const qn_gguf_entry *entry = &li->part->items[index].entry;
    if (entry->n_elems != n_tokens && !is_counted(li, QN_GGUF_WARN_METADATA_VALUE)) {
        note(li, QN_GGUF_WARN_METADATA_VALUE, 0, entry->file_offset,
             "key \"%s\" has %" PRId64 " elements for %" PRId64
             " tokens: a reader that trusts it reads past its end",
             key, entry->n_elems, n_tokens);
    }
}

static void lint_tokens(lint *li)
{
    const int64_t index = qni_gguf_part_find(li->part, "tokenizer.ggml.tokens");
    if (index < 0 || li->part->items[index].entry.type != QN_GGUF_ARRAY) {
        return;
    }
    const int64_t n_tokens = li->part->items[index].entry.n_elems;
    lint_token_array(li, "tokenizer.ggml.scores", n_tokens);
    lint_token_array(li, "tokenizer.ggml.token_type", n_tokens);
}

static bool has_quantized(const qn_gguf *gguf)
{
    for (int64_t i = 0; i < gguf->n_tensors; i++) {
        if (qn_dtype_is_quantized(gguf->tensors[i].dtype)) {
            return true;
        }
    }
    return false;
}

static bool is_imatrix(const qn_gguf *gguf)
{
    qn_gguf_string type = {"", 0};
    return qn_gguf_get_string(gguf, "general.type", &type, NULL) == QN_OK && type.n_bytes == 7 &&
           memcmp(type.bytes, "imatrix", 7) == 0;
}

/* The metadata of the model as a whole: in the first file. */
static void lint_model(lint *li)
{
    qn_gguf_string arch = {"", 0};
    const bool is_named =
        qn_gguf_get_string(li->gguf, "general.architecture", &arch, NULL) == QN_OK;
    if (!is_named && li->gguf->n_tensors > 0 && !is_imatrix(li->gguf) &&
        !qn_gguf_has(li->gguf, "general.architecture")) {
        note(li, QN_GGUF_WARN_NO_ARCHITECTURE, QN_GGUF_READER_LLAMA, -1,
             "there is no general.architecture: llama.cpp does not load it as a model");
    }
    for (size_t i = 0; i < sizeof known_keys / sizeof known_keys[0]; i++) {
        lint_known_key(li, &known_keys[i], arch);
    }
    lint_tokens(li);
    if (has_quantized(li->gguf) && !qn_gguf_has(li->gguf, "general.quantization_version") &&
        !is_counted(li, QN_GGUF_WARN_METADATA_VALUE)) {
        note(li, QN_GGUF_WARN_METADATA_VALUE, 0, -1,
             "tensors are quantized but there is no general.quantization_version");
    }
}

/* --- tensors -----------------------------------------------------------------------------------
 */

static void lint_name(lint *li, const qn_tensor_info *info)
{
    qni_name_text text;
    if (info->n_name > QNI_GGML_MAX_NAME && !is_counted(li, QN_GGUF_WARN_NAME_LENGTH)) {
        note(li, QN_GGUF_WARN_NAME_LENGTH, QN_GGUF_READER_GGML, -1,
             "tensor name \"%s\" has %" PRId64 " bytes; llama.cpp refuses more than %d",
             qni_escape_name(info->name, info->n_name, &text), info->n_name, QNI_GGML_MAX_NAME);
    }
    if (info->n_name == 0 && !is_counted(li, QN_GGUF_WARN_NAME_EMPTY)) {
        note(li, QN_GGUF_WARN_NAME_EMPTY, 0, -1, "a tensor has an empty name");
    }
    if (!is_text(info->name, info->n_name) && !is_counted(li, QN_GGUF_WARN_NAME_TEXT)) {
        note(li, QN_GGUF_WARN_NAME_TEXT, QN_GGUF_READER_GGUF_PY, -1,
             "tensor name \"%s\" is not UTF-8 or has a NUL inside: the Python gguf package refuses "
             "the one, llama.cpp cuts at the other",
             qni_escape_name(info->name, info->n_name, &text));
    }
}

static void lint_shape(lint *li, const qn_tensor_info *info)
{
    qni_name_text text;
    if (info->n_dims > QNI_GGML_MAX_DIMS && !is_counted(li, QN_GGUF_WARN_DIMS)) {
        note(li, QN_GGUF_WARN_DIMS, QN_GGUF_READER_GGML, -1,
             "tensor \"%s\" has %" PRId32 " dimensions; llama.cpp refuses more than %d",
             qni_escape_name(info->name, info->n_name, &text), info->n_dims, QNI_GGML_MAX_DIMS);
    }
    if (info->dtype == QN_DTYPE_Q2_0 && !is_counted(li, QN_GGUF_WARN_DTYPE)) {
        note(li, QN_GGUF_WARN_DTYPE, QN_GGUF_READER_GGUF_PY, -1,
             "tensor \"%s\" has type q2_0, which the Python gguf package does not know",
             qni_escape_name(info->name, info->n_name, &text));
    }
    if (info->dtype == QN_DTYPE_Q8_1 && !is_counted(li, QN_GGUF_WARN_DTYPE)) {
        note(li, QN_GGUF_WARN_DTYPE, QN_GGUF_READER_GGUF_PY, -1,
             "tensor \"%s\" has type q8_1, whose blocks the Python gguf package takes to be larger",
             qni_escape_name(info->name, info->n_name, &text));
    }
}

/* Two names that ggml cannot tell apart. */
static void lint_prefixes(lint *li)
{
    const int64_t first = li->part->shard.first_tensor;
    const int64_t n = li->part->shard.n_tensors;
    qni_gguf_names names;
    if (qni_names_init(&names, li->gguf->allocator, n, NULL) != QN_OK) {
        li->is_out_of_memory = true;
        return;
    }
    names.cut_at_nul = true;
    names.items = (const uint8_t *)(li->gguf->tensors + first);
    names.stride = sizeof *li->gguf->tensors;
    int64_t pair[2];
    bool is_unique = true;
    for (int64_t i = 0; is_unique && i < n; i++) {
        const qn_tensor_info *info = &li->gguf->tensors[first + i];
        is_unique = qni_names_add(&names, info->name, info->n_name, i, pair);
    }
    if (!is_unique || !qni_names_flush(&names, pair)) {
        note(li, QN_GGUF_WARN_NAME_PREFIX, QN_GGUF_READER_GGML, -1,
             "tensors %" PRId64 " and %" PRId64
             " have names that are equal up to a NUL: llama.cpp takes them for one",
             first + pair[0], first + pair[1]);
    }
    qni_names_free(&names);
}

static void lint_tensors(lint *li)
{
    const qn_gguf_shard *shard = &li->part->shard;
    for (int64_t i = 0; i < shard->n_tensors; i++) {
        const qn_tensor_info *info = &li->gguf->tensors[shard->first_tensor + i];
        lint_name(li, info);
        lint_shape(li, info);
    }
    if (li->index_of[QN_GGUF_WARN_NAME_TEXT] >= 0) {
        lint_prefixes(li);
    }
}

/* --- layout ------------------------------------------------------------------------------------
 */

static bool is_zero(const uint8_t *bytes, int64_t n_bytes)
{
    for (int64_t i = 0; i < n_bytes; i++) {
        if (bytes[i] != 0) {
            return false;
        }
    }
    return true;
}

static void lint_padding(lint *li, int64_t start, int64_t end)
{
    if (start < end && !is_zero(li->part->bytes + start, end - start) &&
        !is_counted(li, QN_GGUF_WARN_PADDING_VALUE)) {
        note(li, QN_GGUF_WARN_PADDING_VALUE, 0, start,
             "padding at byte %" PRId64 " is not zero: a rewrite by other tools loses it", start);
    }
}

/* The tensor that ends last; NULL if none has data. */
static const qn_tensor_info *last_tensor(const lint *li)
{
    const qn_gguf_shard *shard = &li->part->shard;
    const qn_tensor_info *last = NULL;
    for (int64_t i = 0; i < shard->n_tensors; i++) {
        const qn_tensor_info *info = &li->gguf->tensors[shard->first_tensor + i];
        if (info->data && info->n_bytes > 0 &&
            (!last || info->file_offset + info->n_bytes > last->file_offset + last->n_bytes)) {
            last = info;
        }
    }
    return last;
}

static void lint_tail(lint *li)
{
    const qn_gguf_shard *shard = &li->part->shard;
    const qn_tensor_info *last = last_tensor(li);
    int64_t end = qni_min_i64(shard->data_offset, shard->n_bytes);
    int64_t padded = end;
    if (last) {
        end = last->file_offset + last->n_bytes;
        /* both ends lie inside a file: no overflow */
        padded = (end - shard->data_offset + shard->alignment - 1) / shard->alignment *
                     shard->alignment +
                 shard->data_offset;
    }
    if (shard->n_bytes < padded) {
        note(li, QN_GGUF_WARN_FINAL_PADDING, QN_GGUF_READER_GGML_DATA, shard->n_bytes,
             "the padding after the last tensor is missing (%" PRId64
             " bytes): ggml refuses to load the data, llama.cpp's model loader does not mind",
             padded - shard->n_bytes);
        return;
    }
    if (last) {
        lint_padding(li, end, padded);
    }
    if (shard->n_bytes > padded) {
        const uint8_t *tail = li->part->bytes + padded;
        const int64_t n_tail = shard->n_bytes - padded;
        const bool is_gguf = n_tail >= 4 && memcmp(tail, QNI_GGUF_MAGIC, 4) == 0;
        note(li, QN_GGUF_WARN_TRAILING, 0, padded, "%" PRId64 " bytes follow the last tensor%s",
             n_tail, is_gguf ? "; they begin with \"GGUF\": were files joined byte for byte?" : "");
    }
}

/* Padding between tensors in the order of the directory; other orders have gaps anyway. */
static void lint_gaps(lint *li)
{
    const qn_gguf_shard *shard = &li->part->shard;
    for (int64_t i = 1; li->part->is_in_order && i < shard->n_tensors; i++) {
        const qn_tensor_info *before = &li->gguf->tensors[shard->first_tensor + i - 1];
        lint_padding(li, before->file_offset + before->n_bytes, before[1].file_offset);
    }
}

static void lint_layout(lint *li)
{
    const qn_gguf_shard *shard = &li->part->shard;
    if (shard->alignment % ALIGNMENT_FACTOR != 0) {
        note(li, QN_GGUF_WARN_ALIGNMENT, 0, -1,
             "general.alignment is %" PRId64 "; the specification asks for a multiple of %d",
             shard->alignment, ALIGNMENT_FACTOR);
    }
    if (!li->part->is_in_order) {
        note(
            li, QN_GGUF_WARN_LAYOUT, QN_GGUF_READER_GGML, -1,
            "tensors do not lie one after the other in the order of the directory, which llama.cpp "
            "refuses");
    }
    if (!li->part->bytes) {
        return; /* the mapping was taken away */
    }
    if (shard->n_tensors > 0) {
        lint_padding(li, shard->n_header_bytes, shard->n_header_bytes + shard->n_header_padding);
    }
    lint_tail(li);
    if (li->is_deep) {
        lint_gaps(li);
    }
}

/* --- the file ----------------------------------------------------------------------------------
 */

static bool ends_with(const char *path, const char *suffix)
{
    const size_t n_path = strlen(path);
    const size_t n_suffix = strlen(suffix);
    return n_path >= n_suffix && memcmp(path + n_path - n_suffix, suffix, n_suffix) == 0;
}

static void lint_file(lint *li)
{
    const qn_gguf_shard *shard = &li->part->shard;
    if (shard->is_big_endian) {
        note(li, QN_GGUF_WARN_BIG_ENDIAN, QN_GGUF_READER_GGML, 4,
             "the file is big-endian, which llama.cpp refuses on little-endian machines");
    }
    if (ends_with(shard->path, ".safetensors") || ends_with(shard->path, ".bin") ||
        ends_with(shard->path, ".pt")) {
        note(li, QN_GGUF_WARN_EXTENSION, 0, -1,
             "the contents are GGUF but the file name says otherwise");
    }
    if (li->gguf->n_parts > 1) {
        return;
    }
    const int64_t index = qni_gguf_part_find(li->part, QNI_GGUF_KEY_SPLIT_COUNT);
    int64_t count = -1;
    if (index >= 0) {
        if (qn_gguf_get_int(li->gguf, QNI_GGUF_KEY_SPLIT_COUNT, &count, NULL) != QN_OK) {
            count = -1; /* of a type that is no integer */
        }
        note(li, QN_GGUF_WARN_SPLIT, 0, li->part->items[index].entry.file_offset,
             count > 1 ? "one shard of %" PRId64 " by itself: tensors of the others are missing"
                       : "split keys are left over from a model that was in shards (split.count is "
                         "%" PRId64 ")",
             count);
    } else if (qn_gguf_parse_shard_path(shard->path, NULL, NULL, &count) && count > 1) {
        note(li, QN_GGUF_WARN_SPLIT, 0, -1,
             "the file name says one shard of %" PRId64
             ", the metadata do not: taken for a whole file",
             count);
    }
}

/* --- the report --------------------------------------------------------------------------------
 */

qn_status qn_gguf_lint(const qn_gguf *gguf, bool is_deep, qn_gguf_report **out_report,
                       qn_error *err)
{
    *out_report = NULL;
    qn_gguf_report *report = qni_alloc_zeroed(gguf->allocator, sizeof *report);
    if (!report) {
        return qni_fail_memory(err, sizeof *report);
    }
    report->allocator = gguf->allocator;
    report->arena.allocator = gguf->allocator;
    lint li = {.gguf = gguf, .report = report, .is_deep = is_deep};
    for (int64_t i = 0; i < gguf->n_parts; i++) {
        li.part = &gguf->parts[i];
        li.shard = i;
        for (int32_t code = 0; code < N_CODES; code++) {
            li.index_of[code] = -1;
        }
        lint_file(&li);
        lint_entries(&li);
        if (i == 0) {
            lint_model(&li);
        }
        lint_tensors(&li);
        lint_layout(&li);
    }
    if (li.is_out_of_memory) {
        qn_gguf_report_free(report);
        return qni_fail_memory(err, sizeof(qn_gguf_warning));
    }
    *out_report = report;
    return QN_OK;
}

int64_t qn_gguf_report_n(const qn_gguf_report *report)
{
    return report->n;
}

const qn_gguf_warning *qn_gguf_report_at(const qn_gguf_report *report, int64_t index)
{
    return index >= 0 && index < report->n ? &report->warnings[index] : NULL;
}

void qn_gguf_report_free(qn_gguf_report *report)
{
    if (!report) {
        return;
    }
    qni_arena_free(&report->arena);
    qni_free(report->allocator, report->warnings,
             (size_t)report->n_capacity * sizeof *report->warnings);
    qni_free(report->allocator, report, sizeof *report);
}
