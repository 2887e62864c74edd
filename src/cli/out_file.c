/* out_file.c — write beside, sync, rename: what is under the name is always whole. */
#include "cli/out_file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

bool cli_is_same_file(const char *path_a, const char *path_b)
{
    struct stat a, b;

    return stat(path_a, &a) == 0 && stat(path_b, &b) == 0 && a.st_dev == b.st_dev &&
           a.st_ino == b.st_ino;
}

int cli_out_open(const char *path, cli_out_file *out_file)
{
    cli_text temp = {NULL, 0, 0};

    *out_file = (cli_out_file){path, NULL, NULL};
    if (strcmp(path, "-") == 0) {
        out_file->stream = stdout;
        return CLI_OK;
    }
    cli_text_printf(&temp, "%s.tmp-%ld", path, (long)getpid());
    const int fd = open(temp.chars, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    out_file->stream = fd >= 0 ? fdopen(fd, "wb") : NULL;
    if (out_file->stream == NULL) {
        const int status = cli_file_error(path, "cannot be written");
        if (fd >= 0) {
            (void)close(fd);
            (void)unlink(temp.chars);
        }
        cli_text_free(&temp);
        return status;
    }
    out_file->temp_path = temp.chars;
    return CLI_OK;
}

int cli_out_commit(cli_out_file *file)
{
    FILE *stream = file->stream;

    if (file->temp_path == NULL) {
        file->stream = NULL;
        return CLI_OK; /* cli_finish_output() looks at the standard output */
    }
    const bool is_whole = fflush(stream) == 0 && ferror(stream) == 0 && fsync(fileno(stream)) == 0;
    const int reason = errno;
    const bool is_closed = fclose(stream) == 0;
    file->stream = NULL;
    errno = is_whole ? errno : reason;
    if (!is_whole || !is_closed || rename(file->temp_path, file->path) != 0) {
        const int status = cli_file_error(file->path, "cannot be written");
        cli_out_abort(file);
        return status;
    }
    free(file->temp_path);
    file->temp_path = NULL;
    return CLI_OK;
}

void cli_out_abort(cli_out_file *file)
{
    if (file->temp_path == NULL) {
        return;
    }
    if (file->stream != NULL) {
        (void)fclose(file->stream);
        file->stream = NULL;
    }
    (void)unlink(file->temp_path);
    free(file->temp_path);
    file->temp_path = NULL;
}
