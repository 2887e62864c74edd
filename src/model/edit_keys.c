/* edit_keys.c — the edits of keys made in a writer, for a new file as in place; and what both ways
 * ask of a list of edits. */
#include "model/edit_internal.h"

const char *const qni_edit_split_keys[QNI_N_SPLIT_KEYS] = {"split.no", "split.count",
                                                           "split.tensors.count"};

/* ggml keeps names of tensors in 64 bytes, with a NUL. */
#define MAX_TENSOR_NAME 63

/* --- the list -----------------------------------------------------------------------------------
 */

qn_status qni_edit_blame(const qn_edit *edit, qn_status st, qn_error *err)
{
    if (err != NULL && st != QN_OK) {
        const qn_error found = *err;
        qni_name_text text;
        (void)qni_fail(
            err, st, -1, "%s %s: %.600s", edit->kind >= QN_EDIT_REMOVE_TENSOR ? "tensor" : "key",
            qni_escape_name(edit->name, (int64_t)strlen(edit->name), &text), found.message);
    }
    return st;
}

qn_status qni_edit_check_name(const char *name, qn_error *err)
{
    const size_t n_name = strlen(name);
    QN_CHECK(n_name > 0 && n_name <= MAX_TENSOR_NAME, err, QN_ERR_INVALID_ARGUMENT, -1,
             "its new name has %zu bytes; ggml takes 1 to %d", n_name, MAX_TENSOR_NAME);
    return QN_OK;
}

static qn_status check_edit(const qn_edit *edit, qn_error *err)
{
    const bool is_rename = edit->kind == QN_EDIT_RENAME || edit->kind == QN_EDIT_RENAME_TENSOR;
    QN_CHECK(edit->kind >= QN_EDIT_SET && edit->kind <= QN_EDIT_RENAME_TENSOR &&
                 edit->name != NULL && (!is_rename || edit->new_name != NULL) &&
                 (edit->kind != QN_EDIT_SET || (edit->text != NULL && edit->n_text >= 0)),
             err, QN_ERR_INVALID_ARGUMENT, -1, "an edit lacks its name or its value");
    QN_CHECK(edit->name[0] != '\0' && (!is_rename || edit->new_name[0] != '\0'), err,
             QN_ERR_INVALID_ARGUMENT, -1, "an edit's name is empty");
    return QN_OK;
}

qn_status qni_edit_read_options(const qn_edit_options *options, qn_edit_options *out, qn_error *err)
{
    *out = (qn_edit_options)QN_EDIT_OPTIONS_INIT;
    QN_CHECK(options != NULL && options->struct_size > 0 && options->struct_size <= sizeof *out,
             err, QN_ERR_INVALID_ARGUMENT, -1, "start the options from QN_EDIT_OPTIONS_INIT");
    memcpy(out, options, options->struct_size);
    QN_CHECK(out->n_edits >= 0 && (out->n_edits == 0 || out->edits != NULL), err,
             QN_ERR_INVALID_ARGUMENT, -1, "the list of edits is missing");
    for (int64_t i = 0; i < out->n_edits; i++) {
        QN_TRY(check_edit(&out->edits[i], err));
    }
    return QN_OK;
}

/* --- keys ---------------------------------------------------------------------------------------
 */

typedef struct key_job {
    const qn_gguf *gguf; /* before all edits */
    const qn_edit_options *options;
} key_job;

/* The type that a key has before edit number `before`. */
static bool find_type(const key_job *job, const char *key, int64_t before, qn_gguf_type *out_type,
                      qn_gguf_type *out_elem_type)
{
    for (int64_t i = before; i-- > 0;) {
        const qn_edit *edit = &job->options->edits[i];
        if (edit->kind == QN_EDIT_RENAME && strcmp(edit->new_name, key) == 0) {
            key = edit->name;
        } else if (edit->kind == QN_EDIT_SET && edit->type != QN_GGUF_NONE &&
                   strcmp(edit->name, key) == 0) {
            *out_type = edit->type;
            *out_elem_type = edit->elem_type;
            return true;
        }
    }
    const qn_gguf *gguf = job->gguf;
    const qn_gguf_entry *entry =
        qn_gguf_entry_at(gguf, qn_gguf_find_entry(gguf, key, (int64_t)strlen(key)));
    if (entry != NULL) {
        *out_type = entry->type;
        *out_elem_type = entry->elem_type;
    }
    return entry != NULL;
}

static qn_status set_key(const key_job *job, int64_t index, qn_gguf_writer *writer, qn_error *err)
{
    const qn_edit *edit = &job->options->edits[index];
    qn_gguf_type type = edit->type;
    qn_gguf_type elem_type = edit->elem_type;
    if (type == QN_GGUF_NONE) {
        QN_CHECK(qn_gguf_writer_has(writer, edit->name) &&
                     find_type(job, edit->name, index, &type, &elem_type),
                 err, QN_ERR_KEY_NOT_FOUND, -1,
                 "it is new; say which type it is to have, KEY=TYPE:VALUE: u8, i8, u16, i16, u32, "
                 "i32, u64, i64, f32, f64, bool, string, or one of them with []");
    }
    return qni_edit_set_value(edit, type, elem_type, job->options->allocator, writer, err);
}

static qn_status edit_key(const key_job *job, int64_t index, qn_gguf_writer *writer, qn_error *err)
{
    const qn_edit *edit = &job->options->edits[index];
    for (int i = 0; i < QNI_N_SPLIT_KEYS; i++) {
        QN_CHECK(strcmp(edit->name, qni_edit_split_keys[i]) != 0 &&
                     (edit->kind != QN_EDIT_RENAME ||
                      strcmp(edit->new_name, qni_edit_split_keys[i]) != 0),
                 err, QN_ERR_INVALID_ARGUMENT, -1,
                 "%s says which part of a split model a file is, and is written for each output",
                 qni_edit_split_keys[i]);
    }
    if (edit->kind == QN_EDIT_SET) {
        return set_key(job, index, writer, err);
    }
    QN_CHECK(qn_gguf_writer_has(writer, edit->name), err, QN_ERR_KEY_NOT_FOUND, -1,
             "there is no such key%s",
             qn_gguf_find_entry(job->gguf, edit->name, (int64_t)strlen(edit->name)) >= 0
                 ? " any more: an edit before this one removed or renamed it"
                 : "; quench inspect lists them");
    return edit->kind == QN_EDIT_REMOVE
               ? qn_gguf_writer_remove(writer, edit->name, err)
               : qn_gguf_writer_rename(writer, edit->name, edit->new_name, err);
}

static void warn(const key_job *job, const char *message)
{
    if (job->options->log != NULL) {
        job->options->log(job->options->log_ctx, QN_LOG_WARNING, message);
    }
}

/* What a look at the finished header does not tell. */
static void warn_of_edit(const key_job *job, int64_t index)
{
    const qn_edit *edit = &job->options->edits[index];
    qn_gguf_type type, elem_type;
    if (edit->kind != QN_EDIT_SET) {
        return;
    }
    if (edit->type != QN_GGUF_NONE && find_type(job, edit->name, index, &type, &elem_type) &&
        (type != edit->type || (type == QN_GGUF_ARRAY && elem_type != edit->elem_type))) {
        qni_name_text name;
        char text[QNI_NAME_MAX + 64];
        (void)snprintf(text, sizeof text, "key %s had another type: %s",
                       qni_escape_name(edit->name, (int64_t)strlen(edit->name), &name),
                       qn_gguf_type_name(type));
        warn(job, text);
    }
    if (strcmp(edit->name, "general.architecture") == 0) {
        warn(job, "general.architecture is set: loaders read the keys that begin with its value, "
                  "which are not renamed");
    } else if (strcmp(edit->name, "general.alignment") == 0) {
        warn(job, "general.alignment is set: all tensors move");
    }
}

/* --- copying ------------------------------------------------------------------------------------
 */

/* Is it one of the arrays of arrays, which ggml refuses, that the first edit which names it takes
 * away or replaces? */
static bool is_nested_and_goes(const qn_gguf *gguf, const qn_edit_options *options, int64_t index)
{
    const qn_edit *edit = &options->edits[index];
    const qn_gguf_entry *entry =
        qn_gguf_entry_at(gguf, qn_gguf_find_entry(gguf, edit->name, (int64_t)strlen(edit->name)));
    const bool takes =
        edit->kind == QN_EDIT_REMOVE || (edit->kind == QN_EDIT_SET && edit->type != QN_GGUF_NONE);
    if (!takes || entry == NULL || entry->elem_type != QN_GGUF_ARRAY) {
        return false;
    }
    for (int64_t i = 0; i < index; i++) {
        if (options->edits[i].kind < QN_EDIT_REMOVE_TENSOR &&
            strcmp(options->edits[i].name, edit->name) == 0) {
            return false;
        }
    }
    return true;
}

qn_status qni_edit_copy_keys(const qn_gguf *gguf, const qn_edit_options *options,
                             qn_gguf_writer *writer, qn_error *err)
{
    const size_t n_bytes = (size_t)(QNI_N_SPLIT_KEYS + options->n_edits) * sizeof(char *);
    const char **skip = qni_alloc(options->allocator, n_bytes);
    int64_t n_skip = QNI_N_SPLIT_KEYS;
    if (skip == NULL) {
        return qni_fail_memory(err, n_bytes);
    }
    memcpy(skip, qni_edit_split_keys, sizeof qni_edit_split_keys);
    for (int64_t i = 0; i < options->n_edits; i++) {
        if (is_nested_and_goes(gguf, options, i)) {
            skip[n_skip++] = options->edits[i].name;
        }
    }
    qn_status st = qn_gguf_writer_copy_all(writer, gguf, skip, n_skip, err);
    if (st == QN_ERR_STRICT && err != NULL) {
        const qn_error found = *err;
        (void)qni_fail(err, st, found.offset, "%.600s; remove or replace it with an edit, too",
                       found.message);
    }
    for (int64_t i = QNI_N_SPLIT_KEYS; i < n_skip && st == QN_OK; i++) {
        st = qn_gguf_writer_set_u8(writer, skip[i], 0, err); /* for the edit that takes it away */
    }
    qni_free(options->allocator, skip, n_bytes);
    return st;
}

/* --- all edits ----------------------------------------------------------------------------------
 */

qn_status qni_edit_keys(const qn_gguf *gguf, const qn_edit_options *options, qn_gguf_writer *writer,
                        qn_error *err)
{
    const key_job job = {gguf, options};
    for (int64_t i = 0; i < options->n_edits; i++) {
        const qn_edit *edit = &options->edits[i];
        if (edit->kind < QN_EDIT_REMOVE_TENSOR) {
            QN_TRY(qni_edit_blame(edit, edit_key(&job, i, writer, err), err));
            warn_of_edit(&job, i);
        }
    }
    return QN_OK;
}

/* --- bytes kept for later -----------------------------------------------------------------------
 */

qn_status qni_edit_set_reserve(qn_gguf_writer *writer, int64_t n_bytes,
                               const qn_allocator *allocator, qn_error *err)
{
    const size_t n_alloc = (size_t)qni_max_i64(n_bytes, 1);
    char *spaces = qni_alloc(allocator, n_alloc);
    if (!spaces) {
        return qni_fail_memory(err, n_alloc);
    }
    memset(spaces, ' ', n_alloc);
    const qn_status st = qn_gguf_writer_set_string(writer, QNI_RESERVE_KEY, spaces, n_bytes, err);
    qni_free(allocator, spaces, n_alloc);
    return st;
}
