/* checkpoint_dir.c — checkpoint directories: a save is complete when its trainer_state.json is
 * there.
 *
 * The order of a save, after which a process that is killed anywhere leaves one complete save:
 *     begin   folder complete: prev/ loses its state, gets the payloads (links to the same bytes),
 * then the state; only then the folder loses its own state and its payloads write   payloads, each
 * under its name when it is whole commit  digests, then the state */
#include "checkpoint/checkpoint.h"
#include "safetensors/safetensors.h"
#include "json/json.h"

#define MAX_PATH_BYTES  4096
#define MAX_STATE_BYTES ((int64_t)1 << 20)
#define N_PAYLOADS      3

static const char *const payloads[N_PAYLOADS] = {QN_CHECKPOINT_MODEL, QN_CHECKPOINT_ADAPTERS,
                                                 QN_CHECKPOINT_OPTIMIZER};

typedef struct path_text {
    char text[MAX_PATH_BYTES];
} path_text;

static qn_status join(const char *folder, const char *name, path_text *out, qn_error *err)
{
    const int n = snprintf(out->text, sizeof out->text, "%s/%s", folder, name);
    QN_CHECK(n > 0 && (size_t)n < sizeof out->text, err, QN_ERR_INVALID_ARGUMENT, -1,
             "the path of a checkpoint is too long");
    return QN_OK;
}

static qn_status remove_in(const char *folder, const char *name, qn_error *err)
{
    path_text path;
    QN_TRY(join(folder, name, &path, err));
    return qni_file_remove(path.text, err);
}

static qn_status exists_in(const char *folder, const char *name, bool *out_exists, qn_error *err)
{
    path_text path;
    QN_TRY(join(folder, name, &path, err));
    return qni_file_find(path.text, out_exists, err);
}

static qn_status write_text(const char *folder, const char *name, const void *bytes, size_t n_bytes,
                            qn_error *err)
{
    path_text path;
    qni_output output = QNI_OUTPUT_CLOSED;
    QN_TRY(join(folder, name, &path, err));
    QN_TRY(qni_output_begin(path.text, NULL, &output, err));
    qn_status st = qni_file_pwrite(&output.file, bytes, n_bytes, 0, err);
    if (st == QN_OK) {
        st = qni_output_commit(&output, err);
    }
    qni_output_abort(&output);
    return st;
}

/* --- keeping the save before -------------------------------------------------------------------
 */

static qn_status keep_file(const char *from_folder, const char *to_folder, const char *name,
                           qn_error *err)
{
    path_text from;
    path_text to;
    QN_TRY(join(from_folder, name, &from, err));
    QN_TRY(join(to_folder, name, &to, err));
    QN_TRY(qni_file_remove(to.text, err));
    bool exists = false;
    QN_TRY(qni_file_find(from.text, &exists, err));
    return exists ? qni_file_clone(from.text, to.text, err) : QN_OK;
}

static qn_status keep_previous(const char *folder, qn_error *err)
{
    path_text prev;
    path_text inside;
    QN_TRY(join(folder, "prev", &prev, err));
    QN_TRY(qni_folder_make(prev.text, err));
    QN_TRY(remove_in(prev.text, QN_CHECKPOINT_STATE, err));
    QN_TRY(join(prev.text, QN_CHECKPOINT_STATE, &inside, err));
    QN_TRY(qni_folder_sync(inside.text, err)); /* gone before anything of prev/ changes */
    for (int i = 0; i < N_PAYLOADS; i++) {
        QN_TRY(keep_file(folder, prev.text, payloads[i], err));
    }
    QN_TRY(keep_file(folder, prev.text, QN_CHECKPOINT_DIGESTS, err));
    QN_TRY(qni_folder_sync(inside.text, err));
    QN_TRY(keep_file(folder, prev.text, QN_CHECKPOINT_STATE, err));
    return qni_folder_sync(inside.text, err);
}

qn_status qn_checkpoint_begin_save(const char *folder, qn_error *err)
{
    path_text state;
    QN_TRY(qni_folder_make(folder, err));
    QN_TRY(join(folder, QN_CHECKPOINT_STATE, &state, err));
    bool is_complete = false;
    QN_TRY(qni_file_find(state.text, &is_complete, err));
    if (is_complete) {
        QN_TRY(keep_previous(folder, err));
    }
    QN_TRY(qni_file_remove(state.text, err));
    QN_TRY(qni_folder_sync(state.text, err));
    for (int i = 0; i < N_PAYLOADS; i++) {
        QN_TRY(remove_in(folder, payloads[i], err));
    }
    return remove_in(folder, QN_CHECKPOINT_DIGESTS, err);
}

/* --- digests -----------------------------------------------------------------------------------
 */

/* XXH3 of 64 bits, as hexadecimal: against accidents, not against forgers. */
typedef struct digest {
    char text[20];
    int64_t n_bytes;
} digest;

static void digest_bytes(const void *bytes, int64_t n_bytes, digest *out)
{
    (void)snprintf(out->text, sizeof out->text, "%016" PRIx64,
                   qni_hash64(n_bytes > 0 ? bytes : "", (size_t)n_bytes, 0));
    out->n_bytes = n_bytes;
}

static qn_status digest_file(const char *path, digest *out, qn_error *err)
{
    qni_map map;
    QN_TRY(qni_map_open(path, &map, err));
    digest_bytes(map.bytes, map.n_bytes, out);
    qni_map_close(&map);
    return QN_OK;
}

static qn_status append(void *ctx, const void *bytes, size_t n_bytes, qn_error *err)
{
    return qni_buffer_append(ctx, bytes, n_bytes, err);
}

static void put_digest(qn_json_writer *json, const char *name, const digest *d)
{
    qn_json_begin_object(json);
    qn_json_member_string(json, "name", name);
    qn_json_member_i64(json, "bytes", d->n_bytes);
    qn_json_member_string(json, "xxh3_64", d->text);
    qn_json_end_object(json);
}

static qn_status put_digests(const char *folder, const qni_buffer *state, qn_json_writer *json,
                             qn_error *err)
{
    digest d;
    qn_json_begin_object(json);
    qn_json_member_string(json, "format", "quench.checkpoint_digests");
    qn_json_member_i64(json, "version", 1);
    qn_json_key(json, "files");
    qn_json_begin_array(json);
    for (int i = 0; i < N_PAYLOADS; i++) {
        path_text path;
        QN_TRY(join(folder, payloads[i], &path, err));
        bool exists = false;
        QN_TRY(qni_file_find(path.text, &exists, err));
        if (exists) {
            QN_TRY(digest_file(path.text, &d, err));
            put_digest(json, payloads[i], &d);
        }
    }
    digest_bytes(state->bytes, (int64_t)state->n_bytes, &d);
    put_digest(json, QN_CHECKPOINT_STATE, &d);
    qn_json_end_array(json);
    qn_json_end_object(json);
    return qn_json_finish(json, err);
}

static qn_status write_digests(const char *folder, const qni_buffer *state, qn_error *err)
{
    qn_json_writer *json = NULL;
    qni_buffer text;
    qni_buffer_init(&text, NULL, (size_t)MAX_STATE_BYTES);
    qn_status st = qn_json_writer_new(append, &text, 2, NULL, &json, err);
    if (st == QN_OK) {
        st = put_digests(folder, state, json, err);
    }
    if (st == QN_OK) {
        st = qni_buffer_append(&text, "\n", 1, err);
    }
    if (st == QN_OK) {
        st = write_text(folder, QN_CHECKPOINT_DIGESTS, text.bytes, text.n_bytes, err);
    }
    qn_json_writer_free(json);
    qni_buffer_free(&text);
    return st;
}

qn_status qn_checkpoint_commit(const char *folder, const qn_trainer_state *state, bool with_digests,
                               qn_error *err)
{
    bool has_payload = false;
    for (int i = 0; i < N_PAYLOADS && !has_payload; i++) {
        QN_TRY(exists_in(folder, payloads[i], &has_payload, err));
    }
    QN_CHECK(has_payload, err, QN_ERR_INVALID_STATE, -1,
             "a checkpoint is committed before any of its payloads was written");
    qni_buffer text;
    qni_buffer_init(&text, NULL, (size_t)MAX_STATE_BYTES);
    qn_status st = qn_trainer_state_write(state, append, &text, err);
    if (st == QN_OK && with_digests) {
        st = write_digests(folder, &text, err);
    }
    if (st == QN_OK) {
        st = write_text(folder, QN_CHECKPOINT_STATE, text.bytes, text.n_bytes, err);
    }
    qni_buffer_free(&text);
    return st;
}

qn_status qn_checkpoint_find(const char *folder, char *out_path, size_t n_out, qn_error *err)
{
    path_text state;
    for (int i = 0; i < 2; i++) {
        const int n = i == 0 ? snprintf(out_path, n_out, "%s", folder)
                             : snprintf(out_path, n_out, "%s/prev", folder);
        QN_CHECK(n >= 0 && (size_t)n < n_out, err, QN_ERR_INVALID_ARGUMENT, -1,
                 "the path of the checkpoint does not fit in %zu bytes", n_out);
        QN_TRY(join(out_path, QN_CHECKPOINT_STATE, &state, err));
        bool is_complete = false;
        QN_TRY(qni_file_find(state.text, &is_complete, err));
        if (is_complete) {
            return QN_OK;
        }
    }
    out_path[0] = '\0';
    const qn_status st =
        qni_fail(err, QN_ERR_INVALID_TRAINER_STATE, -1, "no complete save: there is no %s",
                 qni_file_exists(folder) ? QN_CHECKPOINT_STATE " in the folder or in its prev/"
                                         : "such folder");
    return qni_fail_path(err, st, folder);
}

/* --- verifying ---------------------------------------------------------------------------------
 */

/* One line of the digests. */
typedef struct listed_file {
    qni_json_text name;
    qni_json_text xxh3;
    uint64_t n_bytes;
} listed_file;

static qn_status fail_changed(const char *folder, const char *name, const char *what, qn_error *err)
{
    path_text path;
    const qn_status st = qni_fail(
        err, QN_ERR_FILE_CHANGED, -1,
        "%s %s: it belongs to another save, or was damaged; use another checkpoint", name, what);
    return join(folder, name, &path, NULL) == QN_OK ? qni_fail_path(err, st, path.text) : st;
}

static qn_status parse_listed(qni_json *json, listed_file *out, qn_error *err)
{
    *out = (listed_file){.n_bytes = 0};
    QN_TRY(qni_json_enter_object(json, QNI_JSON_UNIQUE, err));
    for (;;) {
        qni_json_text key;
        bool has_key = false;
        QN_TRY(qni_json_next_key(json, &key, &has_key, err));
        if (!has_key) {
            return QN_OK;
        }
        if (qni_json_text_is(key, "name")) {
            QN_TRY(qni_json_string(json, &out->name, err));
        } else if (qni_json_text_is(key, "xxh3_64")) {
            QN_TRY(qni_json_string(json, &out->xxh3, err));
        } else if (qni_json_text_is(key, "bytes")) {
            QN_TRY(qni_json_u64(json, &out->n_bytes, err));
        } else {
            QN_TRY(qni_json_skip(json, err));
        }
    }
}

/* The names that a digest may be of: nothing else of the folder is ever opened. */
static const char *known_name(const qni_json_text *name)
{
    for (int i = 0; i < N_PAYLOADS; i++) {
        if (qni_json_text_is(*name, payloads[i])) {
            return payloads[i];
        }
    }
    return qni_json_text_is(*name, QN_CHECKPOINT_STATE) ? QN_CHECKPOINT_STATE : NULL;
}

static qn_status check_listed(const char *folder, const listed_file *listed, uint32_t *seen,
                              qn_error *err)
{
    const char *name = known_name(&listed->name);
    path_text path;
    digest d;
    QN_CHECK(name, err, QN_ERR_INVALID_TRAINER_STATE, listed->name.offset,
             "the digests list a file that is no part of a checkpoint");
    for (int i = 0; i < N_PAYLOADS; i++) {
        *seen |= (uint32_t)(name == payloads[i]) << i;
    }
    QN_TRY(join(folder, name, &path, err));
    bool exists = false;
    QN_TRY(qni_file_find(path.text, &exists, err));
    if (!exists) {
        return fail_changed(folder, name, "is missing", err);
    }
    QN_TRY(digest_file(path.text, &d, err));
    if ((uint64_t)d.n_bytes != listed->n_bytes || !qni_json_text_is(listed->xxh3, d.text)) {
        return fail_changed(folder, name, "is not the file that was saved", err);
    }
    return QN_OK;
}

static qn_status check_files(const char *folder, qni_json *json, uint32_t *seen, qn_error *err)
{
    QN_TRY(qni_json_enter_array(json, err));
    for (;;) {
        listed_file listed;
        bool has_item = false;
        QN_TRY(qni_json_next_item(json, &has_item, err));
        if (!has_item) {
            return QN_OK;
        }
        QN_TRY(parse_listed(json, &listed, err));
        QN_TRY(check_listed(folder, &listed, seen, err));
    }
}

static qn_status check_digest_text(const char *folder, qni_json *json, qn_error *err)
{
    uint32_t seen = 0;
    QN_TRY(qni_json_enter_object(json, QNI_JSON_UNIQUE, err));
    for (;;) {
        qni_json_text key;
        bool has_key = false;
        QN_TRY(qni_json_next_key(json, &key, &has_key, err));
        if (!has_key) {
            break;
        }
        if (qni_json_text_is(key, "files")) {
            QN_TRY(check_files(folder, json, &seen, err));
        } else {
            QN_TRY(qni_json_skip(json, err));
        }
    }
    QN_TRY(qni_json_finish(json, err));
    for (int i = 0; i < N_PAYLOADS; i++) {
        bool is_there = false;
        QN_TRY(exists_in(folder, payloads[i], &is_there, err));
        if (is_there && (seen >> i & 1) == 0) {
            return fail_changed(folder, payloads[i], "is no part of this save", err);
        }
    }
    return QN_OK;
}

static qn_status check_digests(const char *folder, bool *out_has_digests, qn_error *err)
{
    const qni_json_options options = {.status = QN_ERR_INVALID_TRAINER_STATE};
    path_text path;
    uint8_t *text = NULL;
    int64_t n_text = 0;
    qni_json json;
    QN_TRY(join(folder, QN_CHECKPOINT_DIGESTS, &path, err));
    QN_TRY(qni_file_find(path.text, out_has_digests, err));
    if (!*out_has_digests) {
        return QN_OK;
    }
    QN_TRY(qni_file_read_all(path.text, NULL, MAX_STATE_BYTES, &text, &n_text, err));
    qn_status st = qni_json_begin(&json, text, n_text, &options, err);
    if (st == QN_OK) {
        st = check_digest_text(folder, &json, err);
    }
    qni_json_end(&json);
    qni_free(NULL, text, (size_t)n_text);
    return st == QN_OK ? QN_OK : qni_fail_path(err, st, path.text);
}

static qn_status read_file(void *ctx, void *out, size_t n_bytes, size_t *out_n_read, qn_error *err)
{
    return qni_file_read_some(ctx, out, n_bytes, out_n_read, err);
}

static qn_status check_optimizer(const char *path, qn_error *err)
{
    qni_file file;
    qn_optimizer *optimizer = NULL;
    uint8_t rest = 0;
    size_t n_rest = 0;
    QN_TRY(qni_file_open(path, &file, err));
    qn_status st = qn_optimizer_read(read_file, &file, NULL, &optimizer, err);
    if (st == QN_OK) {
        st = qni_file_read_some(&file, &rest, 1, &n_rest, err);
    }
    qn_optimizer_free(optimizer);
    qni_file_close(&file);
    QN_TRY(st);
    QN_CHECK(n_rest == 0, err, QN_ERR_CHECKPOINT_SHAPE_MISMATCH, -1,
             "bytes follow the optimizer frame");
    return QN_OK;
}

static qn_status check_state_dict(const char *path, qn_error *err)
{
    qn_safetensors *st = NULL;
    QN_TRY(qn_safetensors_open(path, NULL, &st, err));
    qn_safetensors_close(st);
    return QN_OK;
}

static qn_status check_payload(const char *folder, int number, bool *out_is_there, int64_t *n_bytes,
                               qn_error *err)
{
    path_text path;
    qni_file file;
    QN_TRY(join(folder, payloads[number], &path, err));
    QN_TRY(qni_file_find(path.text, out_is_there, err));
    if (!*out_is_there) {
        return QN_OK;
    }
    QN_TRY(qni_file_open(path.text, &file, err));
    const int64_t n_file = file.n_bytes;
    qni_file_close(&file);
    (void)qni_add_i64(*n_bytes, n_file, n_bytes);
    const bool is_optimizer = payloads[number] == payloads[N_PAYLOADS - 1];
    const qn_status st =
        is_optimizer ? check_optimizer(path.text, err) : check_state_dict(path.text, err);
    return st == QN_OK ? QN_OK : qni_fail_path(err, st, path.text);
}

static qn_status read_state(const char *folder, qn_trainer_state *out_state, qn_error *err)
{
    path_text path;
    uint8_t *text = NULL;
    int64_t n_text = 0;
    QN_TRY(join(folder, QN_CHECKPOINT_STATE, &path, err));
    bool exists = false;
    QN_TRY(qni_file_find(path.text, &exists, err));
    if (!exists) {
        const qn_status st = qni_fail(err, QN_ERR_INVALID_TRAINER_STATE, -1,
                                      "the save is not complete: its " QN_CHECKPOINT_STATE
                                      ", which is written last, is not there");
        return qni_fail_path(err, st, folder);
    }
    QN_TRY(qni_file_read_all(path.text, NULL, MAX_STATE_BYTES, &text, &n_text, err));
    const qn_status st = qn_trainer_state_parse(text, (size_t)n_text, out_state, err);
    qni_free(NULL, text, (size_t)n_text);
    return st == QN_OK ? QN_OK : qni_fail_path(err, st, path.text);
}

qn_status qn_checkpoint_verify(const char *folder, qn_checkpoint_report *out_report, qn_error *err)
{
    *out_report = (qn_checkpoint_report){.n_bytes = 0};
    qn_checkpoint_report *r = out_report;
    QN_TRY(read_state(folder, &r->state, err));
    QN_TRY(check_digests(folder, &r->has_digests, err));
    QN_TRY(check_payload(folder, 0, &r->has_model, &r->n_bytes, err));
    QN_TRY(check_payload(folder, 1, &r->has_adapters, &r->n_bytes, err));
    QN_TRY(check_payload(folder, 2, &r->has_optimizer, &r->n_bytes, err));
    QN_CHECK(r->has_model || r->has_adapters || r->has_optimizer, err, QN_ERR_INVALID_TRAINER_STATE,
             -1, "the save has no payload at all");
    return QN_OK;
}
