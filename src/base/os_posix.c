/* os_posix.c — files, maps and atomic replacement on POSIX. What only Linux has is in os_linux.c.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "base/base.h"

#include "base/os_system_internal.h"

/* Linux moves at most 0x7ffff000 bytes a call; others take less than 2^31. */
#define MAX_IO_BYTES   ((size_t)1 << 30)
#define READ_ALL_CHUNK ((size_t)1 << 20)

void qni_errno_text(int sys_errno, char *out, size_t n_out)
{
    if (strerror_r(sys_errno, out, n_out) != 0) {
        (void)snprintf(out, n_out, "error %d", sys_errno);
    }
}

/* --- files ------------------------------------------------------------------------------------ */

static void set_path(qni_file *file, const char *path)
{
    qni_escape(path, (int64_t)strlen(path), file->path, sizeof file->path);
}

static int open_retrying(const char *path, int flags, mode_t mode)
{
    int fd = -1;
    do {
        fd = open(path, flags | O_CLOEXEC, mode);
    } while (fd < 0 && errno == EINTR);
    return fd;
}

static qn_status open_regular(const char *path, int flags, const char *what, qni_file *out_file,
                              qn_error *err)
{
    *out_file = (qni_file)QNI_FILE_CLOSED;
    /* O_NONBLOCK: a FIFO must be an error, not a wait */
    int fd = open_retrying(path, flags | O_NONBLOCK, 0);
    if (fd < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
        fd = open_retrying(path, flags, 0); /* a regular file that is being changed: wait for it */
    }
    if (fd < 0) {
        return qni_fail_errno(err, errno, path, "cannot open for %s", what);
    }
    struct stat info;
    if (fstat(fd, &info) != 0) {
        const int saved = errno;
        (void)close(fd);
        return qni_fail_errno(err, saved, path, "cannot ask for the size");
    }
    if (!S_ISREG(info.st_mode)) {
        (void)close(fd);
        const qn_status st = qni_fail(err, QN_ERR_IS_DIR, -1, "%s, not a regular file",
                                      S_ISDIR(info.st_mode) ? "a directory" : "a special file");
        return qni_fail_path(err, st, path);
    }
    out_file->fd = fd;
    out_file->n_bytes = (int64_t)info.st_size;
    set_path(out_file, path);
    return QN_OK;
}

qn_status qni_file_open(const char *path, qni_file *out_file, qn_error *err)
{
    return open_regular(path, O_RDONLY, "reading", out_file, err);
}

qn_status qni_file_open_rw(const char *path, qni_file *out_file, qn_error *err)
{
    return open_regular(path, O_RDWR, "writing", out_file, err);
}

void qni_file_close(qni_file *file)
{
    if (file->fd >= 0) {
        (void)close(file->fd); /* reading: nothing can be lost */
    }
    file->fd = -1;
}

/* file->path is escaped already: copied as it is. */
static qn_status fail_in_file(qn_error *err, qn_status status, const qni_file *file)
{
    if (err) {
        memcpy(err->path, file->path, sizeof err->path);
    }
    return status;
}

qn_status qni_file_pread(const qni_file *file, void *out, size_t n_bytes, int64_t offset,
                         qn_error *err)
{
    uint8_t *p = out;
    while (n_bytes > 0) {
        const size_t n_now = n_bytes < MAX_IO_BYTES ? n_bytes : MAX_IO_BYTES;
        const ssize_t n = pread(file->fd, p, n_now, (off_t)offset);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return fail_in_file(err,
                                qni_fail_errno(err, errno, NULL,
                                               "cannot read %zu bytes at byte %" PRId64, n_bytes,
                                               offset),
                                file);
        }
        if (n == 0) {
            const bool was_there = offset < file->n_bytes;
            const qn_status st = qni_fail(
                err, was_there ? QN_ERR_FILE_CHANGED : QN_ERR_END_OF_STREAM, offset,
                "the file ends at byte %" PRId64 ": %zu bytes are missing%s", offset, n_bytes,
                was_there ? "; it was cut short while being read: leave it alone and try again"
                          : "");
            return fail_in_file(err, st, file);
        }
        p += n;
        offset += n;
        n_bytes -= (size_t)n;
    }
    return QN_OK;
}

qn_status qni_file_read_some(const qni_file *file, void *out, size_t n_bytes, size_t *out_n_read,
                             qn_error *err)
{
    *out_n_read = 0;
    ssize_t n = -1;
    do {
        n = read(file->fd, out, n_bytes < MAX_IO_BYTES ? n_bytes : MAX_IO_BYTES);
    } while (n < 0 && errno == EINTR);
    if (n < 0) {
        return fail_in_file(err, qni_fail_errno(err, errno, NULL, "cannot read"), file);
    }
    *out_n_read = (size_t)n;
    return QN_OK;
}

qn_status qni_file_pwrite(const qni_file *file, const void *bytes, size_t n_bytes, int64_t offset,
                          qn_error *err)
{
    const uint8_t *p = bytes;
    while (n_bytes > 0) {
        const size_t n_now = n_bytes < MAX_IO_BYTES ? n_bytes : MAX_IO_BYTES;
        const ssize_t n = pwrite(file->fd, p, n_now, (off_t)offset);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return fail_in_file(err,
                                qni_fail_errno(err, errno, NULL,
                                               "cannot write %zu bytes at byte %" PRId64, n_bytes,
                                               offset),
                                file);
        }
        p += n;
        offset += n;
        n_bytes -= (size_t)n;
    }
    return QN_OK;
}

/* Fill buf from the open file until its end. Grows with what arrives, so that a file which lies
 * about its size (or grows) is harmless. */
static qn_status read_to_end(const qni_file *file, qni_buffer *buf, qn_error *err)
{
    for (;;) {
        const size_t left = buf->n_max - buf->n_bytes;
        const size_t n_ask = left < READ_ALL_CHUNK ? left + 1 : READ_ALL_CHUNK;
        QN_CHECK(left > 0 || n_ask == 1, err, QN_ERR_INVALID_STATE, -1, "no room to read");
        if (left > 0) {
            QN_TRY(qni_buffer_reserve(buf, n_ask < left ? n_ask : left, err));
        }
        size_t n_read = 0;
        uint8_t extra = 0;
        QN_TRY(qni_file_read_some(file, left > 0 ? buf->bytes + buf->n_bytes : &extra,
                                  left > 0 ? (n_ask < left ? n_ask : left) : 1, &n_read, err));
        if (n_read == 0) {
            return QN_OK;
        }
        QN_CHECK(left > 0, err, QN_ERR_OVERFLOW, -1,
                 "the file is larger than %zu bytes, the limit for reading it whole", buf->n_max);
        buf->n_bytes += n_read;
    }
}

qn_status qni_file_read_all(const char *path, const qn_allocator *allocator, int64_t n_max,
                            uint8_t **out_bytes, int64_t *out_n_bytes, qn_error *err)
{
    *out_bytes = NULL;
    *out_n_bytes = 0;
    qni_file file;
    QN_TRY(qni_file_open(path, &file, err));
    qni_buffer buf;
    qni_buffer_init(&buf, allocator, (size_t)n_max);
    qn_status st = QN_OK;
    QN_CHECK_GOTO(file.n_bytes <= n_max, err, QN_ERR_OVERFLOW, -1,
                  "the file has %" PRId64 " bytes, the limit for reading it whole is %" PRId64,
                  file.n_bytes, n_max);
    QN_TRY_GOTO(qni_buffer_reserve(&buf, (size_t)qni_max_i64(file.n_bytes, 1), err));
    QN_TRY_GOTO(read_to_end(&file, &buf, err));
    /* exact capacity, so that the caller can free by length */
    uint8_t *exact = qni_realloc(allocator, buf.bytes, buf.n_capacity, buf.n_bytes);
    if (!exact) {
        st = qni_fail_memory(err, buf.n_bytes);
        goto done;
    }
    *out_bytes = exact;
    *out_n_bytes = (int64_t)buf.n_bytes;
    buf.bytes = NULL;
done:
    if (st != QN_OK) {
        qni_buffer_free(&buf);
        qni_fail_path(err, st, path);
    }
    qni_file_close(&file);
    return st;
}

int64_t qni_file_modified(const qni_file *file)
{
    struct stat st;
    int64_t ns;
    if (fstat(file->fd, &st) != 0 || !qni_mul_i64((int64_t)st.st_mtim.tv_sec, 1000000000, &ns) ||
        !qni_add_i64(ns, (int64_t)st.st_mtim.tv_nsec, &ns)) {
        return -1;
    }
    return ns;
}

bool qni_file_is_same(const char *path_a, const char *path_b)
{
    struct stat a;
    struct stat b;
    return stat(path_a, &a) == 0 && stat(path_b, &b) == 0 && a.st_dev == b.st_dev &&
           a.st_ino == b.st_ino;
}

qn_status qni_file_find(const char *path, bool *out_exists, qn_error *err)
{
    struct stat info;
    *out_exists = lstat(path, &info) == 0;
    if (!*out_exists && errno != ENOENT && errno != ENOTDIR) {
        return qni_fail_errno(err, errno, path, "cannot tell whether it exists");
    }
    return QN_OK;
}

bool qni_file_exists(const char *path)
{
    bool exists = false;
    return qni_file_find(path, &exists, NULL) == QN_OK && exists;
}

/* The folder of a path in out[n_out], "." if it has none; false if it is too long. */
static bool folder_of(const char *path, char *out, size_t n_out)
{
    const char *slash = strrchr(path, '/');
    const size_t n = !slash ? 0 : slash == path ? 1 : (size_t)(slash - path);
    if (n + 2 > n_out) {
        return false;
    }
    memcpy(out, n > 0 ? path : ".", n > 0 ? n : 1);
    out[n > 0 ? n : 1] = '\0';
    return true;
}

int64_t qni_file_free_space(const char *path)
{
    char folder[PATH_MAX];
    struct statvfs info;
    int64_t n_bytes = 0;
    if (!folder_of(path, folder, sizeof folder) || statvfs(folder, &info) != 0 ||
        !qni_mul_i64((int64_t)info.f_bavail, (int64_t)info.f_frsize, &n_bytes)) {
        return -1;
    }
    return n_bytes;
}

void qni_file_will_need(const qni_file *file, int64_t offset, int64_t n_bytes)
{
    (void)posix_fadvise(file->fd, (off_t)offset, (off_t)n_bytes, POSIX_FADV_WILLNEED);
}

void qni_file_drop_cache(const qni_file *file, int64_t offset, int64_t n_bytes)
{
    (void)posix_fadvise(file->fd, (off_t)offset, (off_t)n_bytes, POSIX_FADV_DONTNEED);
}

/* --- maps ------------------------------------------------------------------------------------- */

int64_t qni_page_bytes(void)
{
    const long n = sysconf(_SC_PAGESIZE);
    return n > 0 ? n : 4096;
}

qn_status qni_map_of_file(const qni_file *file, qni_map *out_map, qn_error *err)
{
    *out_map = (qni_map){NULL, 0};
    if (file->n_bytes == 0) {
        return QN_OK;
    }
    void *bytes = (uint64_t)file->n_bytes > SIZE_MAX
                      ? MAP_FAILED
                      : mmap(NULL, (size_t)file->n_bytes, PROT_READ, MAP_PRIVATE, file->fd, 0);
    if (bytes == MAP_FAILED) {
        return fail_in_file(
            err, qni_fail_errno(err, errno, NULL, "cannot map %" PRId64 " bytes", file->n_bytes),
            file);
    }
    *out_map = (qni_map){bytes, file->n_bytes};
    return QN_OK;
}

qn_status qni_map_open(const char *path, qni_map *out_map, qn_error *err)
{
    *out_map = (qni_map){NULL, 0};
    qni_file file;
    QN_TRY(qni_file_open(path, &file, err));
    const qn_status st = qni_map_of_file(&file, out_map, err);
    qni_file_close(&file);
    return st;
}

void qni_map_close(qni_map *map)
{
    if (map->bytes) {
        /* the system's call takes no const */
        (void)munmap((void *)(uintptr_t)map->bytes, (size_t)map->n_bytes);
    }
    *map = (qni_map){NULL, 0};
}

void qni_map_prefetch(const void *bytes, int64_t n_bytes)
{
    const uintptr_t page = (uintptr_t)qni_page_bytes();
    const uintptr_t start = (uintptr_t)bytes & ~(page - 1);
    const uintptr_t end = (uintptr_t)bytes + (uintptr_t)n_bytes;
    if (n_bytes > 0) {
        (void)posix_madvise((void *)start, end - start, POSIX_MADV_WILLNEED);
    }
}

/* --- atomic replacement ------------------------------------------------------------------------
 */

static char *copy_text(const qn_allocator *allocator, const char *text)
{
    const size_t n = strlen(text) + 1;
    char *copy = qni_alloc(allocator, n);
    return copy ? memcpy(copy, text, n) : NULL;
}

static void free_text(const qn_allocator *allocator, char *text)
{
    if (text) {
        qni_free(allocator, text, strlen(text) + 1);
    }
}

static void forget_output(qni_output *output)
{
    free_text(output->allocator, output->final_path);
    free_text(output->allocator, output->temp_path);
    free_text(output->allocator, output->old_path);
    *output = (qni_output)QNI_OUTPUT_CLOSED;
}

/* Through a symbolic link, the file that it points to is replaced, not the link. */
static char *resolve_link(const char *path, const qn_allocator *allocator)
{
    char *real = realpath(path, NULL);
    if (!real && errno == ENOMEM) {
        return NULL; /* not knowing, the link itself would be replaced */
    }
    char *copy = copy_text(allocator, real ? real : path);
    free(real);
    return copy;
}

qn_status qni_path_resolve(const char *path, const qn_allocator *allocator, char **out_path,
                           qn_error *err)
{
    struct stat info;
    const bool is_link = lstat(path, &info) == 0 && S_ISLNK(info.st_mode);
    *out_path = is_link ? resolve_link(path, allocator) : copy_text(allocator, path);
    return *out_path ? QN_OK : qni_fail_memory(err, strlen(path));
}

/* A file that exists keeps its permissions when it is replaced; a new one follows the umask. */
static mode_t output_mode(const char *final_path)
{
    struct stat info;
    return stat(final_path, &info) == 0 ? info.st_mode & 0777 : 0666;
}

static qn_status check_destination(const char *final_path, qn_error *err)
{
    struct stat info;
    if (stat(final_path, &info) == 0 && !S_ISREG(info.st_mode)) {
        const qn_status st = qni_fail(err, QN_ERR_IS_DIR, -1, "the output is %s; name a file",
                                      S_ISDIR(info.st_mode) ? "a directory" : "not a regular file");
        return qni_fail_path(err, st, final_path);
    }
    return QN_OK;
}

static qn_status open_output(qni_output *output, int flags, qn_error *err)
{
    output->file.fd =
        open_retrying(output->temp_path, O_RDWR | O_CREAT | flags, output_mode(output->final_path));
    if (output->file.fd < 0) {
        return qni_fail_errno(err, errno, output->final_path,
                              "cannot create a file in the folder of the output");
    }
    set_path(&output->file, output->final_path);
    return QN_OK;
}

qn_status qni_output_begin(const char *final_path, const qn_allocator *allocator,
                           qni_output *out_output, qn_error *err)
{
    *out_output = (qni_output)QNI_OUTPUT_CLOSED;
    QN_TRY(check_destination(final_path, err));
    qni_output output = QNI_OUTPUT_CLOSED;
    output.allocator = allocator;
    output.final_path = resolve_link(final_path, allocator);
    const size_t n_temp = output.final_path ? strlen(output.final_path) + 32 : 0;
    char *temp = n_temp ? qni_alloc(allocator, n_temp) : NULL;
    if (!temp) {
        forget_output(&output);
        (void)qni_fail_memory(err, n_temp);
        return QN_ERR_OUT_OF_MEMORY;
    }
    qn_status st = QN_ERR_IO;
    for (int attempt = 0; attempt < 16; attempt++) {
        (void)snprintf(temp, n_temp, "%s.tmp-%08x", output.final_path,
                       (unsigned)(qni_random_seed() & 0xFFFFFFFFu));
        output.temp_path = temp;
        st = open_output(&output, O_EXCL, err);
        if (st == QN_OK || errno != EEXIST) {
            break;
        }
    }
    /* free by length: the name is as long as was asked for, minus what the number left */
    output.temp_path = copy_text(allocator, temp);
    if (st == QN_OK && !output.temp_path) {
        (void)close(output.file.fd);
        (void)unlink(temp);
        st = qni_fail_memory(err, n_temp);
    }
    qni_free(allocator, temp, n_temp);
    if (st != QN_OK) {
        forget_output(&output);
        return st;
    }
    *out_output = output;
    return QN_OK;
}

qn_status qni_output_resume(const char *final_path, const char *temp_path,
                            const qn_allocator *allocator, qni_output *out_output,
                            bool *out_existed, qn_error *err)
{
    *out_output = (qni_output)QNI_OUTPUT_CLOSED;
    *out_existed = false;
    QN_TRY(check_destination(final_path, err));
    qni_output output = QNI_OUTPUT_CLOSED;
    output.allocator = allocator;
    output.final_path = resolve_link(final_path, allocator);
    output.temp_path = copy_text(allocator, temp_path);
    if (!output.final_path || !output.temp_path) {
        forget_output(&output);
        return qni_fail_memory(err, strlen(temp_path));
    }
    bool existed = false;
    qn_status st = qni_file_find(temp_path, &existed, err);
    if (st == QN_OK) {
        /* O_NOFOLLOW: a link planted under the temporary name must not be written through */
        st = open_output(&output, O_NOFOLLOW, err);
    }
    if (st != QN_OK) {
        forget_output(&output);
        return st;
    }
    *out_existed = existed;
    *out_output = output;
    return QN_OK;
}

qn_status qni_output_preallocate(qni_output *output, int64_t n_bytes, qn_error *err)
{
    const int failed = qni_system_preallocate(output->file.fd, n_bytes);
    if (failed) {
        return qni_fail_errno(err, failed, output->final_path,
                              "cannot reserve %" PRId64 " bytes for the output", n_bytes);
    }
    int cut = -1;
    do {
        cut = ftruncate(output->file.fd, (off_t)n_bytes);
    } while (cut != 0 && errno == EINTR);
    if (cut != 0) {
        return qni_fail_errno(err, errno, output->final_path, "cannot set the output's length");
    }
    return QN_OK;
}

static int fsync_retrying(int fd)
{
    int failed = -1;
    do {
        failed = fsync(fd);
    } while (failed != 0 && errno == EINTR);
    return failed == 0 ? 0 : errno;
}

qn_status qni_file_sync(const qni_file *file, qn_error *err)
{
    const int failed = fsync_retrying(file->fd);
    return failed == 0
               ? QN_OK
               : fail_in_file(err, qni_fail_errno(err, failed, NULL, "cannot flush it to disk"),
                              file);
}

qn_status qni_output_sync(qni_output *output, qn_error *err)
{
    const int failed = output->no_sync ? 0 : fsync_retrying(output->file.fd);
    if (failed) {
        return qni_fail_errno(err, failed, output->final_path, "cannot flush the output to disk");
    }
    output->is_synced = true;
    return QN_OK;
}

qn_status qni_folder_sync(const char *path_inside, qn_error *err)
{
    char folder[PATH_MAX];
    QN_CHECK(folder_of(path_inside, folder, sizeof folder), err, QN_ERR_INVALID_ARGUMENT, -1,
             "the path is longer than %d bytes", PATH_MAX);
    const int fd = open_retrying(folder, O_RDONLY | O_DIRECTORY, 0);
    if (fd < 0) {
        return qni_fail_errno(err, errno, folder, "cannot open the folder to flush it");
    }
    const int failed = fsync_retrying(fd);
    (void)close(fd);
    /* EINVAL, EROFS: a file system that cannot flush a folder has nothing to promise here */
    if (failed && failed != EINVAL && failed != EROFS) {
        return qni_fail_errno(err, failed, folder, "cannot flush the folder to disk");
    }
    return QN_OK;
}

/* Flush and close; the temporary name stays. */
static qn_status close_output(qni_output *output, qn_error *err)
{
    if (!output->is_synced) {
        QN_TRY(qni_output_sync(output, err));
    }
    const int fd = output->file.fd;
    output->file.fd = -1;
    if (close(fd) != 0 && errno != EINTR) { /* it is closed, and was synced before */
        return qni_fail_errno(err, errno, output->final_path, "cannot close the output");
    }
    return QN_OK;
}

static qn_status rename_output(const qni_output *output, qn_error *err)
{
    if (rename(output->temp_path, output->final_path) != 0) {
        return qni_fail_errno(err, errno, output->final_path,
                              "cannot rename the finished output into place");
    }
    return QN_OK;
}

static qn_status sync_folder_of(const qni_output *output, qn_error *err)
{
    return output->no_sync ? QN_OK : qni_folder_sync(output->final_path, err);
}

qn_status qni_output_commit(qni_output *output, qn_error *err)
{
    qn_status st = close_output(output, err);
    if (st == QN_OK) {
        st = rename_output(output, err);
    }
    if (st != QN_OK) {
        qni_output_abort(output);
        return st;
    }
    st = sync_folder_of(output, err);
    forget_output(output);
    return st;
}

/* --- several outputs together ----------------------------------------------------------------- */

/* Move what stands under the final name, if anything does, out of the way. */
static qn_status set_aside(qni_output *output, qn_error *err)
{
    QN_TRY(check_destination(output->final_path, err)); /* it may have become a folder */
    const size_t n = strlen(output->final_path) + 32;
    char *name = qni_alloc(output->allocator, n);
    if (!name) {
        return qni_fail_memory(err, n);
    }
    do {
        (void)snprintf(name, n, "%s.old-%08x", output->final_path,
                       (unsigned)(qni_random_seed() & 0xFFFFFFFFu));
    } while (qni_file_exists(name));
    output->old_path = copy_text(output->allocator, name); /* freed by its length */
    qni_free(output->allocator, name, n);
    if (!output->old_path) {
        return qni_fail_memory(err, n);
    }
    if (rename(output->final_path, output->old_path) == 0) {
        return QN_OK;
    }
    const int failed = errno;
    free_text(output->allocator, output->old_path);
    output->old_path = NULL;
    return failed == ENOENT ? QN_OK
                            : qni_fail_errno(err, failed, output->final_path,
                                             "cannot move aside the file that is to be replaced");
}

static bool is_same_folder(const char *path, const char *other)
{
    const char *slash = strrchr(path, '/');
    const char *other_slash = strrchr(other, '/');
    const size_t n = slash ? (size_t)(slash - path) : 0;
    return n == (other_slash ? (size_t)(other_slash - other) : 0) && memcmp(path, other, n) == 0;
}

/* Outputs from `first` on, which mostly lie in one folder. */
static qn_status sync_folders(const qni_output *outputs, int64_t first, int64_t n, qn_error *err)
{
    for (int64_t i = first; i < n; i++) {
        if (i == first || !is_same_folder(outputs[i].final_path, outputs[i - 1].final_path)) {
            QN_TRY(sync_folder_of(&outputs[i], err));
        }
    }
    return QN_OK;
}

static qn_status publish(qni_output *outputs, int64_t n, qn_error *err)
{
    for (int64_t i = 0; i < n; i++) {
        QN_TRY(close_output(&outputs[i], err));
    }
    for (int64_t i = 0; i < n; i++) {
        QN_TRY(set_aside(&outputs[i], err));
    }
    QN_TRY(sync_folders(outputs, 0, n, err));
    for (int64_t i = n - 1; i >= 0; i--) {
        if (i == 0) {
            QN_TRY(sync_folders(outputs, 1, n, err));
        }
        QN_TRY(rename_output(&outputs[i], err));
        outputs[i].is_renamed = true;
    }
    return sync_folders(outputs, 0, 1, err);
}

/* The new files back under their temporary names, the first one first; then the old ones back in
 * their places, the first one last. */
static void take_back(qni_output *outputs, int64_t n, qn_error *err)
{
    for (int64_t i = 0; i < n; i++) {
        if (outputs[i].is_renamed) {
            (void)rename(outputs[i].final_path, outputs[i].temp_path);
        }
    }
    for (int64_t i = n - 1; i >= 0; i--) {
        if (outputs[i].old_path && rename(outputs[i].old_path, outputs[i].final_path) != 0 && err) {
            const size_t n_said = strlen(err->message);
            (void)snprintf(err->message + n_said, sizeof err->message - n_said,
                           "; what was there before is kept beside it under a name with .old-");
        }
    }
}

qn_status qni_outputs_commit(qni_output *outputs, int64_t n, qn_error *err)
{
    if (n <= 1) {
        return n == 1 ? qni_output_commit(&outputs[0], err) : QN_OK;
    }
    const qn_status st = publish(outputs, n, err);
    if (st != QN_OK) {
        take_back(outputs, n, err);
        return st;
    }
    for (int64_t i = 0; i < n; i++) {
        if (outputs[i].old_path) {
            (void)unlink(outputs[i].old_path); /* the new model is there: only space is lost */
        }
        forget_output(&outputs[i]);
    }
    return QN_OK;
}

void qni_output_abort(qni_output *output)
{
    if (!output->final_path) {
        return;
    }
    if (output->file.fd >= 0) {
        (void)close(output->file.fd);
    }
    if (output->temp_path) {
        (void)unlink(output->temp_path);
    }
    forget_output(output);
}

void qni_output_keep(qni_output *output)
{
    if (output->final_path && output->file.fd >= 0) {
        (void)close(output->file.fd);
    }
    forget_output(output);
}

qn_status qni_file_remove(const char *path, qn_error *err)
{
    if (unlink(path) != 0 && errno != ENOENT) {
        return qni_fail_errno(err, errno, path, "cannot remove");
    }
    return QN_OK;
}

/* --- the rest ----------------------------------------------------------------------------------
 */

static double seconds_of(clockid_t clock)
{
    struct timespec now = {0, 0};
    (void)clock_gettime(clock, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

double qni_clock_seconds(void)
{
    return seconds_of(CLOCK_MONOTONIC);
}

double qni_thread_cpu_seconds(void)
{
    return seconds_of(CLOCK_THREAD_CPUTIME_ID);
}

qn_status qni_folder_make(const char *path, qn_error *err)
{
    const size_t n_path = strlen(path);
    char *part = qni_alloc(NULL, n_path + 1);
    int failed = 0;
    if (!part) {
        return qni_fail_memory(err, n_path + 1);
    }
    for (size_t i = 1; i <= n_path && failed == 0; i++) {
        if (path[i] == '/' || path[i] == '\0') {
            memcpy(part, path, i);
            part[i] = '\0';
            failed = mkdir(part, 0777) != 0 && errno != EEXIST ? errno : 0;
        }
    }
    qni_free(NULL, part, n_path + 1);
    return failed ? qni_fail_errno(err, failed, path, "cannot make the folder") : QN_OK;
}

static qn_status copy_bytes(const qni_file *from, qni_output *to, qn_error *err)
{
    const size_t n_piece = READ_ALL_CHUNK;
    uint8_t *piece = qni_alloc(NULL, n_piece);
    qn_status st = piece ? QN_OK : qni_fail_memory(err, n_piece);
    for (int64_t at = 0; at < from->n_bytes && st == QN_OK; at += (int64_t)n_piece) {
        const size_t n = (size_t)qni_min_i64(from->n_bytes - at, (int64_t)n_piece);
        st = qni_file_pread(from, piece, n, at, err);
        if (st == QN_OK) {
            st = qni_file_pwrite(&to->file, piece, n, at, err);
        }
    }
    qni_free(NULL, piece, n_piece);
    return st;
}

qn_status qni_file_clone(const char *from, const char *to, qn_error *err)
{
    qni_file file;
    qni_output output = QNI_OUTPUT_CLOSED;
    if (link(from, to) == 0) {
        return QN_OK;
    }
    QN_TRY(qni_file_open(from, &file, err));
    qn_status st = qni_output_begin(to, NULL, &output, err);
    if (st == QN_OK) {
        st = copy_bytes(&file, &output, err);
    }
    if (st == QN_OK) {
        st = qni_output_commit(&output, err);
    }
    qni_output_abort(&output);
    qni_file_close(&file);
    return st;
}
