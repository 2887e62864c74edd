/* text_file.c — small text files that are read whole. */
#include "cli/cli.h"

int cli_read_text(const char *path, size_t n_max, cli_text *out_text)
{
    char block[4096];
    size_t n;
    FILE *file = fopen(path, "rb");

    if (file == NULL) {
        return cli_file_error(path, "cannot be opened");
    }
    cli_text_add(out_text, "", 0);
    while ((n = fread(block, 1, sizeof block, file)) > 0 && out_text->n <= n_max) {
        cli_text_add(out_text, block, n);
    }
    const int status = ferror(file) != 0 ? cli_file_error(path, "cannot be read") : CLI_OK;
    (void)fclose(file);
    if (out_text->n > n_max) {
        cli_error("%s: larger than %zu bytes; is this the right file?", path, n_max);
        return CLI_FAILED;
    }
    return status;
}
