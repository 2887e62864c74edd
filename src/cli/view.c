/* view.c — what the views of all containers share. */
#include "cli/view.h"

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
