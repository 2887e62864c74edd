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

#define MAX_ATTEMPTS 16 /* names of killed runs may be in the way */

/* The temporary file that is open, for the end of a program that finds no memory: a command has at
 * most one. */
static char *pending_path;

static void remove_pending(void)
{
    if (pending_path != NULL) {
        (void)unlink(pending_path);
    }
}

static int open_retrying(const char *path, int flags)
{
    int fd = -1;

    do {
        fd = open(path, flags | O_CLOEXEC, 0666);
    } while (fd < 0 && errno == EINTR);
    return fd;
}

static bool sync_retrying(int fd)
{
    int result = -1;

    do {
        result = fsync(fd);
    } while (result != 0 && errno == EINTR);
    return result == 0;
}

static int open_temp(const char *path, cli_text *out_temp)
{
    for (int i = 0; i < MAX_ATTEMPTS; i++) {
        cli_text_free(out_temp);
        cli_text_printf(out_temp, "%s.tmp-%ld-%d", path, (long)getpid(), i);
        const int fd = open_retrying(out_temp->chars, O_WRONLY | O_CREAT | O_EXCL);
        if (fd >= 0 || errno != EEXIST) {
            return fd;
        }
    }
    return -1;
}

/* A device or a pipe is written to as it is: a rename would replace it. */
static bool is_special(const char *path)
{
    struct stat info;

    return stat(path, &info) == 0 && !S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode);
}

int cli_out_open(const char *path, cli_out_file *out_file)
{
    static bool is_registered;
    cli_text temp = {NULL, 0, 0};

    *out_file = (cli_out_file){path, NULL, NULL};
    if (strcmp(path, "-") == 0) {
        out_file->stream = stdout;
        return CLI_OK;
    }
    if (is_special(path)) {
        out_file->stream = fopen(path, "wb");
        return out_file->stream != NULL ? CLI_OK : cli_file_error(path, "cannot be written");
    }
    const int fd = open_temp(path, &temp);
    out_file->stream = fd >= 0 ? fdopen(fd, "wb") : NULL;
    if (out_file->stream == NULL) {
        const int reason = errno;
        if (fd >= 0) {
            (void)close(fd);
            (void)unlink(temp.chars);
        }
        cli_text_free(&temp);
        errno = reason;
        return cli_file_error(path, "cannot be written");
    }
    out_file->temp_path = temp.chars;
    pending_path = temp.chars;
    if (!is_registered) {
        is_registered = atexit(remove_pending) == 0;
    }
    return CLI_OK;
}

/* What was renamed is there after a power cut too. Where a folder cannot be flushed, there is
 * nothing to promise. */
static bool sync_folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    cli_text folder = {NULL, 0, 0};

    cli_text_add(&folder, slash == NULL ? "." : path,
                 slash == NULL   ? 1
                 : slash == path ? 1
                                 : (size_t)(slash - path));
    const int fd = open_retrying(folder.chars, O_RDONLY | O_DIRECTORY);
    cli_text_free(&folder);
    if (fd < 0) {
        return false;
    }
    const bool is_done = sync_retrying(fd) || errno == EINVAL || errno == EROFS;
    const int reason = errno;
    (void)close(fd);
    errno = reason;
    return is_done;
}

/* True if all that was written has reached the file; else the reason is in errno. That of an
 * earlier write is gone, but the file will be too: one byte more asks again. */
static bool is_flushed(FILE *stream)
{
    if (fflush(stream) != 0) {
        return false;
    }
    if (ferror(stream) == 0) {
        return true;
    }
    clearerr(stream);
    errno = 0;
    (void)fputc(0, stream);
    (void)fflush(stream);
    errno = errno != 0 ? errno : EIO;
    return false;
}

/* Flush, sync, close: false with the reason in errno. */
static bool end_stream(FILE *stream)
{
    bool is_whole = is_flushed(stream) && sync_retrying(fileno(stream));
    int reason = errno;

    if (fclose(stream) != 0 && is_whole) {
        reason = errno;
        is_whole = false;
    }
    errno = reason;
    return is_whole;
}

int cli_out_commit(cli_out_file *file)
{
    FILE *stream = file->stream;

    file->stream = NULL;
    if (stream == stdout) {
        return CLI_OK; /* cli_finish_output() looks at it */
    }
    if (file->temp_path == NULL) {
        const bool is_lost = !is_flushed(stream);
        const int reason = errno;
        const bool is_closed = fclose(stream) == 0;
        errno = is_lost ? reason : errno;
        return is_closed && !is_lost ? CLI_OK : cli_file_error(file->path, "cannot be written");
    }
    if (!end_stream(stream) || rename(file->temp_path, file->path) != 0) {
        const int status = cli_file_error(file->path, "cannot be written");
        cli_out_abort(file);
        return status;
    }
    pending_path = NULL;
    free(file->temp_path);
    file->temp_path = NULL;
    return sync_folder_of(file->path) ? CLI_OK
                                      : cli_file_error(file->path, "its folder cannot be flushed");
}

void cli_out_abort(cli_out_file *file)
{
    if (file->stream != NULL && file->stream != stdout) {
        (void)fclose(file->stream);
    }
    file->stream = NULL;
    if (file->temp_path == NULL) {
        return;
    }
    (void)unlink(file->temp_path);
    pending_path = NULL;
    free(file->temp_path);
    file->temp_path = NULL;
}
