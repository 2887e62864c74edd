/* view_gguf.c — a GGUF file or split model as `inspect` shows it. */
#include "cli/view.h"

#include <math.h>

#include "quench/model.h"

#define MAX_PLAIN         1e15 /* whole floats below it are shown without an exponent */
#define GUESSED_FILE_TYPE 1024 /* or-ed to a file type that was guessed */

static int64_t elements_of(const qn_tensor_info *info)
{
    int64_t n_elems = 1;

    for (int32_t i = 0; i < info->n_dims; i++) {
        n_elems *= info->ne[i]; /* the reader has checked that it fits */
    }
    return n_elems;
}

static void tensor_at(const model_view *view, int64_t index, view_tensor *out_tensor)
{
    const qn_tensor_info *info = qn_gguf_tensor(view->source, index);

    *out_tensor = (view_tensor){
        .name = info->name,
        .n_name = info->n_name,
        .type = qn_dtype_name(info->dtype),
        .n_dims = info->n_dims,
        .n_elems = elements_of(info),
        .n_bytes = info->n_bytes,
        .file_offset = info->file_offset,
        .file = info->shard,
    };
    memcpy(out_tensor->ne, info->ne, sizeof out_tensor->ne);
}

/* --- values -------------------------------------------------------------------------------------
 */

static void add_float(cli_text *text, double value, qn_gguf_type type)
{
    if (fabs(value) < MAX_PLAIN && value == floor(value)) {
        cli_text_printf(text, "%.0f", value);
        return;
    }
    /* The fewest digits that read back as the same number of its own width. */
    for (int n_digits = 1;; n_digits++) {
        char shown[CLI_NUMBER_MAX];
        (void)snprintf(shown, sizeof shown, "%.*g", n_digits, value);
        const double back = strtod(shown, NULL);
        const bool is_same = type == QN_GGUF_F32 ? (float)back == (float)value : back == value;
        if (is_same || n_digits == 17) {
            cli_text_printf(text, "%s", shown);
            return;
        }
    }
}

static void add_scalar(cli_text *text, const qn_gguf_value *value, int64_t n_max)
{
    switch (value->kind) {
    case QN_GGUF_KIND_INT:
        if (value->type == QN_GGUF_U64) {
            cli_text_printf(text, "%" PRIu64, (uint64_t)value->as_int);
        } else {
            cli_text_printf(text, "%" PRId64, value->as_int);
        }
        break;
    case QN_GGUF_KIND_FLOAT:
        add_float(text, value->as_float, value->type);
        break;
    case QN_GGUF_KIND_BOOL:
        cli_text_printf(text, "%s", value->as_bool ? "true" : "false");
        break;
    case QN_GGUF_KIND_STRING:
        cli_text_escape(text, value->as_string.bytes, value->as_string.n_bytes, n_max);
        break;
    case QN_GGUF_KIND_ARRAY:
        cli_text_printf(text, "[%" PRId64 " x %s]", value->as_array.n_elems,
                        qn_gguf_type_name(value->as_array.elem_type));
        break;
    }
}

/* Elements until n_max characters are there. */
static void add_array(cli_text *text, const qn_gguf_array *array, int64_t n_max)
{
    qn_gguf_array_iter iter = {0, 0};
    qn_gguf_value value;
    const size_t n_before = text->n;

    cli_text_printf(text, "[%" PRId64 "]", array->n_elems);
    for (int64_t i = 0; qn_gguf_array_next(array, &iter, &value); i++) {
        if (n_max > 0 && (int64_t)(text->n - n_before) >= n_max) {
            cli_text_printf(text, ", ...");
            return;
        }
        cli_text_printf(text, "%s", i > 0 ? ", " : " ");
        add_scalar(text, &value, n_max);
    }
}

/* The value of an entry; a u64 of 2^63 or more as its two's complement, as arrays give it. */
static qn_gguf_value value_of(const qn_gguf *gguf, int64_t index, const qn_gguf_entry *entry)
{
    qn_gguf_value value;

    if (qn_gguf_value_at(gguf, index, &value, NULL) != QN_OK) {
        const unsigned char *bytes = entry->bytes;
        const bool is_big = qn_gguf_is_big_endian(gguf);
        uint64_t number = 0;
        for (int i = 0; i < 8; i++) {
            number = number << 8 | bytes[is_big ? i : 7 - i];
        }
        value = (qn_gguf_value){.kind = QN_GGUF_KIND_INT, .type = QN_GGUF_U64};
        value.as_int = (int64_t)number;
    }
    return value;
}

/* Spaces that `quench edit` keeps room with. */
static bool is_reserve(const qn_gguf_entry *entry)
{
    static const char key[] = "quench.reserved";

    return entry->type == QN_GGUF_STRING && entry->n_key == (int64_t)strlen(key) &&
           memcmp(entry->key, key, strlen(key)) == 0;
}

static void entry_at(const model_view *view, int64_t index, int64_t n_max, cli_text *key,
                     cli_text *type, cli_text *shown)
{
    const qn_gguf_entry *entry = qn_gguf_entry_at(view->source, index);
    const qn_gguf_value value = value_of(view->source, index, entry);

    cli_text_escape(key, entry->key, entry->n_key, n_max);
    if (entry->type == QN_GGUF_ARRAY) {
        cli_text_printf(type, "%s[]", qn_gguf_type_name(entry->elem_type));
        add_array(shown, &value.as_array, n_max);
    } else if (is_reserve(entry)) {
        char number[CLI_NUMBER_MAX];
        cli_text_printf(type, "%s", qn_gguf_type_name(entry->type));
        cli_text_printf(shown, "(%s bytes kept for edits in place)",
                        cli_grouped(value.as_string.n_bytes, number));
    } else {
        cli_text_printf(type, "%s", qn_gguf_type_name(entry->type));
        add_scalar(shown, &value, n_max);
    }
}

/* --- JSON ---------------------------------------------------------------------------------------
 */

#define MAX_NESTED QN_GGUF_MAX_DEPTH

static void scalar_json(qn_json_writer *json, const qn_gguf_value *value)
{
    switch (value->kind) {
    case QN_GGUF_KIND_INT:
        if (value->type == QN_GGUF_U64) {
            qn_json_u64(json, (uint64_t)value->as_int);
        } else {
            qn_json_i64(json, value->as_int);
        }
        break;
    case QN_GGUF_KIND_FLOAT:
        qn_json_f64(json, value->as_float);
        break;
    case QN_GGUF_KIND_BOOL:
        qn_json_bool(json, value->as_bool);
        break;
    case QN_GGUF_KIND_STRING:
        qn_json_string_bytes(json, value->as_string.bytes, (size_t)value->as_string.n_bytes);
        break;
    case QN_GGUF_KIND_ARRAY:
        break; /* array_json() opens it */
    }
}

/* An array, at most n_max elements of it at each level; nested ones without recursion. */
static void array_json(qn_json_writer *json, const qn_gguf_array *array, int64_t n_max)
{
    qn_gguf_array stack[MAX_NESTED];
    qn_gguf_array_iter iters[MAX_NESTED];
    int depth = 0;

    stack[0] = *array;
    iters[0] = (qn_gguf_array_iter){0, 0};
    qn_json_begin_array(json);
    while (depth >= 0) {
        qn_gguf_value value;
        const bool is_cut = n_max > 0 && iters[depth].index >= n_max;
        if (is_cut || !qn_gguf_array_next(&stack[depth], &iters[depth], &value)) {
            qn_json_end_array(json);
            depth--;
        } else if (value.kind != QN_GGUF_KIND_ARRAY) {
            scalar_json(json, &value);
        } else if (depth + 1 < MAX_NESTED) {
            depth++;
            stack[depth] = value.as_array;
            iters[depth] = (qn_gguf_array_iter){0, 0};
            qn_json_begin_array(json);
        }
    }
}

static void entry_json(const model_view *view, int64_t index, int64_t n_max, qn_json_writer *json)
{
    const qn_gguf_entry *entry = qn_gguf_entry_at(view->source, index);
    const qn_gguf_value value = value_of(view->source, index, entry);

    qn_json_key(json, "key");
    qn_json_string_bytes(json, entry->key, (size_t)entry->n_key);
    qn_json_member_string(json, "type", qn_gguf_type_name(entry->type));
    if (value.kind == QN_GGUF_KIND_ARRAY) {
        qn_json_member_string(json, "element_type", qn_gguf_type_name(entry->elem_type));
        qn_json_member_i64(json, "n_elements", entry->n_elems);
        qn_json_member_bool(json, "is_cut", n_max > 0 && entry->n_elems > n_max);
        qn_json_key(json, "value");
        array_json(json, &value.as_array, n_max);
    } else {
        qn_json_key(json, "value");
        scalar_json(json, &value);
    }
}

/* --- the whole ----------------------------------------------------------------------------------
 */

static void close_gguf(model_view *view)
{
    qn_gguf_close(view->source);
}

static void take_text(const qn_gguf *gguf, const char *key, cli_text *text, qn_gguf_string *raw)
{
    if (qn_gguf_get_string(gguf, key, raw, NULL) == QN_OK) {
        cli_text_escape(text, raw->bytes, raw->n_bytes, 100);
    }
}

static void take_file_type(const qn_gguf *gguf, cli_text *text)
{
    int64_t id = 0;

    if (qn_gguf_get_int(gguf, "general.file_type", &id, NULL) != QN_OK) {
        return;
    }
    const bool is_guessed = (id & GUESSED_FILE_TYPE) != 0;
    const int64_t plain = is_guessed ? id - GUESSED_FILE_TYPE : id;
    for (int32_t i = 0; qn_preset_at(i) != NULL; i++) {
        if (qn_preset_at(i)->id == plain && qn_preset_at(i)->id != QN_PRESET_COPY) {
            cli_text_printf(text, "%s%s", qn_preset_at(i)->name, is_guessed ? " (guessed)" : "");
            return;
        }
    }
    cli_text_printf(text, "%" PRId64 " (unknown)", id);
}

static void take_files(model_view *view)
{
    view->n_files = qn_gguf_n_shards(view->source);
    view->files = cli_alloc((size_t)view->n_files, sizeof *view->files);
    for (int64_t i = 0; i < view->n_files; i++) {
        const qn_gguf_shard *shard = qn_gguf_shard_at(view->source, i);
        view->files[i] = (view_file){
            .path = shard->path,
            .n_header_bytes = shard->n_header_bytes,
            .n_padding_bytes = shard->n_header_padding + shard->n_gap_bytes + shard->n_tail_bytes,
            .n_tensor_bytes = shard->n_tensor_bytes,
            .n_tensors = shard->n_tensors,
            .n_file_bytes = view_file_size(shard->path),
        };
    }
}

static qn_status take_warnings(model_view *view, bool is_deep, qn_error *err)
{
    qn_gguf_report *report = NULL;
    const qn_status status = qn_gguf_lint(view->source, is_deep, &report, err);

    if (status != QN_OK) {
        return status;
    }
    for (int64_t i = 0; i < qn_gguf_report_n(report); i++) {
        const qn_gguf_warning *found = qn_gguf_report_at(report, i);
        view_warning *warning = view_add_warning(view, found->message);
        warning->code = (int)found->code;
        warning->readers = found->readers;
        warning->n_found = found->n_found;
        warning->offset = found->offset;
    }
    qn_gguf_report_free(report);
    return QN_OK;
}

qn_status view_open_gguf(const char *path, const view_options *options, model_view *out_view,
                         qn_error *err)
{
    qn_gguf_options gguf_options = QN_GGUF_OPTIONS_INIT;
    qn_gguf *gguf = NULL;

    gguf_options.strict = options->is_strict;
    const qn_status status = qn_gguf_open(path, &gguf_options, &gguf, err);
    if (status != QN_OK) {
        return status;
    }
    out_view->format = "gguf";
    out_view->source = gguf;
    out_view->close = close_gguf;
    out_view->tensor = tensor_at;
    out_view->entry = entry_at;
    out_view->entry_json = entry_json;
    out_view->n_tensors = qn_gguf_n_tensors(gguf);
    out_view->n_entries = qn_gguf_n_entries(gguf);
    cli_text_printf(&out_view->layout, "GGUF version %u, %s-endian, aligned to %" PRId64 " bytes",
                    qn_gguf_version(gguf), qn_gguf_is_big_endian(gguf) ? "big" : "little",
                    qn_gguf_alignment(gguf));
    take_text(gguf, "general.name", &out_view->title, &out_view->raw_title);
    take_text(gguf, "general.architecture", &out_view->architecture, &out_view->raw_architecture);
    take_file_type(gguf, &out_view->file_type);
    take_files(out_view);
    return take_warnings(out_view, options->is_deep, err);
}
