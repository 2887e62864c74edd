/* view.c — which container a file is, told from its first bytes, and what all views share. */
#include "cli/view.h"

#include "quench/probe.h"

int64_t view_file_size(const char *path)
{
    FILE *file = fopen(path, "rb");
    int64_t n_bytes = -1;

    if (file == NULL) {
        return -1;
    }
    if (fseeko(file, 0, SEEK_END) == 0) {
        n_bytes = (int64_t)ftello(file);
    }
    (void)fclose(file);
    return n_bytes;
}

int64_t view_dim(const view_tensor *tensor, int32_t i)
{
    return tensor->shape != NULL ? tensor->shape[tensor->n_dims - 1 - i] : tensor->ne[i];
}

view_warning *view_add_warning(model_view *view, const char *text)
{
    const int64_t n = view->n_warnings;

    if ((n & (n - 1)) == 0) { /* 0 or a power of two: full */
        view_warning *warnings = cli_alloc(n > 0 ? 2 * (size_t)n : 1, sizeof *warnings);
        if (n > 0) {
            memcpy(warnings, view->warnings, (size_t)n * sizeof *warnings);
        }
        free(view->warnings);
        view->warnings = warnings;
    }
    view_warning *added = &view->warnings[view->n_warnings++];
    added->n_found = 1;
    added->offset = -1;
    cli_text_add(&added->text, text, strlen(text));
    return added;
}

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
    cli_guard_input(path);
    out_view->path = path;
    const qn_file_kind kind = probe(path);
    const bool is_safetensors = kind == QN_FILE_SAFETENSORS || kind == QN_FILE_JSON;
    qn_status status = is_safetensors ? view_open_safetensors(path, options, out_view, err)
                                      : view_open_gguf(path, options, out_view, err);
    for (int64_t i = 0; i < out_view->n_files && status == QN_OK; i++) {
        if (out_view->files[i].n_file_bytes < 0) {
            status = cli_set_error(err, QN_ERR_IO, "cannot ask for the size of a file");
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
