/* view_open.c — which container a file is, and its opener. */
#include "cli/view.h"

#include "quench/edit.h"
#include "quench/probe.h"

static qn_file_kind probe(const char *path)
{
    unsigned char bytes[QN_PROBE_BYTES];
    FILE *file = fopen(path, "rb");

    if (file == NULL) {
        return QN_FILE_UNKNOWN; /* the reader says why */
    }
    const size_t n = fread(bytes, 1, sizeof bytes, file);
    const bool is_failed = ferror(file) != 0;
    (void)fclose(file);
    return is_failed ? QN_FILE_UNKNOWN : qn_probe(bytes, n);
}

int view_open(const char *path, const view_options *options, model_view *out_view)
{
    qn_error err = QN_ERROR_INIT;

    return view_try_open(path, options, out_view, &err) == QN_OK ? CLI_OK : cli_fail(&err);
}

qn_status view_try_open(const char *path, const view_options *options, model_view *out_view,
                        qn_error *err)
{
    memset(out_view, 0, sizeof *out_view);
    const qn_status checked = qn_edit_check(path, err);
    if (checked != QN_OK) {
        return checked;
    }
    cli_guard_input(path);
    out_view->path = path;
    const qn_file_kind kind = probe(path);
    const bool is_safetensors = kind == QN_FILE_SAFETENSORS || kind == QN_FILE_JSON;
    qn_status status = is_safetensors ? view_open_safetensors(path, options, out_view, err)
                                      : view_open_gguf(path, options, out_view, err);
    for (int64_t i = 0; i < out_view->n_files && status == QN_OK; i++) {
        if (out_view->files[i].n_file_bytes < 0) {
            status = cli_set_error(err, QN_ERR_IO, "cannot ask for the size of a file");
        } else {
            status = qn_edit_check(out_view->files[i].path, err);
        }
    }
    if (status != QN_OK) {
        view_close(out_view);
    }
    return status;
}

void view_close(model_view *view)
{
    if (view->close != NULL) {
        view->close(view);
    }
    for (int64_t i = 0; i < view->n_warnings; i++) {
        cli_text_free(&view->warnings[i].text);
    }
    free(view->warnings);
    free(view->files);
    cli_text_free(&view->layout);
    cli_text_free(&view->title);
    cli_text_free(&view->architecture);
    cli_text_free(&view->file_type);
    memset(view, 0, sizeof *view);
    cli_guard_input(NULL);
}
