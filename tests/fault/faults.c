/* faults.c — makes the n-th call of a kind fail in a program that was linked with --wrap for each
 * name below (see CMakeLists.txt). The objects of the program are those of the real one.
 *
 *     QN_FAULT=KIND:N[+]:ACTION    KIND   alloc open read write map stat rename sync size close
 * link remove copy thread, or io: any but alloc and thread N      which call of the kind, from 1;
 * with + all later ones too ACTION fail (with the errno that the kind usually has), interrupt
 * (EINTR), short (half the bytes; reads and writes), quota (EDQUOT), kill (SIGKILL before the call)
 *     QN_FAULT_MARK=FILE           is made when a call was struck
 *
 * Calls are counted from main() on: the loader and the runtime are not linked through here. */
#define _GNU_SOURCE 1
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

typedef enum kind {
    ALLOC,
    OPEN,
    READ,
    WRITE,
    MAP,
    STAT,
    RENAME,
    SYNC,
    SIZE,
    CLOSE,
    LINK,
    REMOVE,
    COPY,
    THREAD,
    N_KINDS,
    ANY_IO
} kind;
typedef enum action { FAIL, INTERRUPT, SHORT, QUOTA, KILL, N_ACTIONS } action;

static const char *const kind_names[] = {"alloc", "open",   "read", "write", "map",
                                         "stat",  "rename", "sync", "size",  "close",
                                         "link",  "remove", "copy", "thread"};
static const int kind_errno[] = {ENOMEM, EMFILE, EIO, ENOSPC, ENOMEM, EIO, EIO,
                                 EIO,    ENOSPC, EIO, EIO,    EIO,    EIO, EAGAIN};
static const char *const action_names[] = {"fail", "interrupt", "short", "quota", "kill"};

static int wanted = -1;
static long nth;
static bool is_lasting;
static action what;
static const char *mark;
static atomic_long n_calls;
static FILE *_Atomic broken; /* the stream whose error flag is up */

static _Noreturn void refuse(const char *text)
{
    (void)fprintf(stderr, "faults: cannot read '%s'\n", text);
    _exit(125);
}

static int index_of(const char *const *names, int n, const char *word)
{
    for (int i = 0; i < n; i++) {
        if (strcmp(names[i], word) == 0) {
            return i;
        }
    }
    return -1;
}

__attribute__((constructor)) static void read_environment(void)
{
    char kind_word[16];
    char action_word[16];
    char plus[2];
    const char *text = getenv("QN_FAULT");
    if (!text) {
        return;
    }
    plus[0] = '\0';
    if (sscanf(text, "%15[a-z]:%ld%1[+]:%15[a-z]", kind_word, &nth, plus, action_word) != 4 &&
        sscanf(text, "%15[a-z]:%ld:%15[a-z]", kind_word, &nth, action_word) != 3) {
        refuse(text);
    }
    is_lasting = plus[0] == '+';
    wanted = strcmp(kind_word, "io") == 0 ? ANY_IO : index_of(kind_names, N_KINDS, kind_word);
    const int number = index_of(action_names, N_ACTIONS, action_word);
    if (wanted < 0 || number < 0 || nth < 1) {
        refuse(text);
    }
    what = (action)number;
    mark = getenv("QN_FAULT_MARK");
}

int __real_open(const char *path, int flags, ...);
int __real_close(int fd);

/* True if this call is to be struck; then errno is set, and a kill has happened. */
static bool strikes(kind k)
{
    if (wanted != (int)k && !(wanted == ANY_IO && k != ALLOC && k != THREAD)) {
        return false;
    }
    const long n = atomic_fetch_add(&n_calls, 1) + 1;
    if (n != nth && !(is_lasting && n > nth)) {
        return false;
    }
    const int fd = mark ? __real_open(mark, O_WRONLY | O_CREAT, 0666) : -1;
    if (fd >= 0) {
        (void)__real_close(fd);
    }
    if (what == KILL) {
        (void)raise(SIGKILL);
    }
    errno = what == INTERRUPT ? EINTR : what == QUOTA ? EDQUOT : kind_errno[k];
    return true;
}

/* The same for streams, whose own calls the C library makes: they fail, whole, or not at all. */
static bool strikes_stream(kind k, const FILE *stream)
{
    return stream != stderr && what != INTERRUPT && what != SHORT && strikes(k);
}

/* Half of what was asked for, at least one byte. */
static size_t half(size_t n)
{
    return n > 1 ? n / 2 : n;
}

#define WRAP(type, name, ...)        \
    type __real_##name(__VA_ARGS__); \
    type __wrap_##name(__VA_ARGS__); \
    type __wrap_##name(__VA_ARGS__)

/* --- memory ----------------------------------------------------------------------------------- */

WRAP(void *, malloc, size_t n)
{
    return strikes(ALLOC) ? NULL : __real_malloc(n);
}

WRAP(void *, calloc, size_t n, size_t n_each)
{
    return strikes(ALLOC) ? NULL : __real_calloc(n, n_each);
}

WRAP(void *, realloc, void *ptr, size_t n)
{
    return strikes(ALLOC) ? NULL : __real_realloc(ptr, n);
}

WRAP(void *, aligned_alloc, size_t alignment, size_t n)
{
    return strikes(ALLOC) ? NULL : __real_aligned_alloc(alignment, n);
}

WRAP(char *, realpath, const char *path, char *out)
{
    return strikes(ALLOC) ? NULL : __real_realpath(path, out);
}

/* --- files ------------------------------------------------------------------------------------ */

#define OPEN_CALL(name)                                                  \
    int __real_##name(const char *path, int flags, ...);                 \
    int __wrap_##name(const char *path, int flags, ...);                 \
    int __wrap_##name(const char *path, int flags, ...)                  \
    {                                                                    \
        va_list args;                                                    \
        va_start(args, flags);                                           \
        const int mode = (flags & O_CREAT) != 0 ? va_arg(args, int) : 0; \
        va_end(args);                                                    \
        return strikes(OPEN) ? -1 : __real_##name(path, flags, mode);    \
    }
OPEN_CALL(open)
OPEN_CALL(open64)

#define STREAM_CALL(name)                                                     \
    WRAP(FILE *, name, const char *path, const char *mode)                    \
    {                                                                         \
        atomic_store(&broken, NULL); /* its address may come again */         \
        return strikes_stream(OPEN, NULL) ? NULL : __real_##name(path, mode); \
    }
STREAM_CALL(fopen)
STREAM_CALL(fopen64)

WRAP(FILE *, fdopen, int fd, const char *mode)
{
    atomic_store(&broken, NULL);
    return strikes_stream(OPEN, NULL) ? NULL : __real_fdopen(fd, mode);
}

WRAP(ssize_t, read, int fd, void *out, size_t n)
{
    const bool is_struck = strikes(READ);
    return is_struck && what != SHORT ? -1 : __real_read(fd, out, is_struck ? half(n) : n);
}

#define AT_CALL(name, k, bytes_type)                                            \
    WRAP(ssize_t, name, int fd, bytes_type bytes, size_t n, off_t offset)       \
    {                                                                           \
        const bool is_struck = strikes(k);                                      \
        return is_struck && what != SHORT                                       \
                   ? -1                                                         \
                   : __real_##name(fd, bytes, is_struck ? half(n) : n, offset); \
    }
AT_CALL(pread, READ, void *)
AT_CALL(pread64, READ, void *)
AT_CALL(pwrite, WRITE, const void *)
AT_CALL(pwrite64, WRITE, const void *)

WRAP(ssize_t, copy_file_range, int in, off_t *in_offset, int out, off_t *out_offset, size_t n,
     unsigned flags)
{
    const bool is_struck = strikes(COPY);
    return is_struck && what != SHORT ? -1
                                      : __real_copy_file_range(in, in_offset, out, out_offset,
                                                               is_struck ? half(n) : n, flags);
}

WRAP(int, close, int fd)
{
    const bool is_struck = strikes(CLOSE);
    const int reason = errno;
    const int result = __real_close(fd); /* as on Linux, the descriptor is gone in any case */
    errno = is_struck ? reason : errno;
    return is_struck ? -1 : result;
}

#define MAP_CALL(name)                                                                             \
    WRAP(void *, name, void *where, size_t n, int protection, int flags, int fd, off_t offset)     \
    {                                                                                              \
        return strikes(MAP) ? MAP_FAILED : __real_##name(where, n, protection, flags, fd, offset); \
    }
MAP_CALL(mmap)
MAP_CALL(mmap64)

#define STAT_CALL(name, first, type)                           \
    WRAP(int, name, first which, struct type *out)             \
    {                                                          \
        return strikes(STAT) ? -1 : __real_##name(which, out); \
    }
STAT_CALL(fstat, int, stat)
STAT_CALL(stat, const char *, stat)
STAT_CALL(lstat, const char *, stat)
STAT_CALL(fstat64, int, stat64)
STAT_CALL(stat64, const char *, stat64)
STAT_CALL(lstat64, const char *, stat64)

WRAP(int, rename, const char *from, const char *to)
{
    return strikes(RENAME) ? -1 : __real_rename(from, to);
}

WRAP(int, link, const char *from, const char *to)
{
    return strikes(LINK) ? -1 : __real_link(from, to);
}

WRAP(int, mkdir, const char *path, mode_t mode)
{
    return strikes(LINK) ? -1 : __real_mkdir(path, mode);
}

WRAP(int, unlink, const char *path)
{
    return strikes(REMOVE) ? -1 : __real_unlink(path);
}

WRAP(int, fsync, int fd)
{
    return strikes(SYNC) ? -1 : __real_fsync(fd);
}

#define LENGTH_CALL(name)                                 \
    WRAP(int, name, int fd, off_t n)                      \
    {                                                     \
        return strikes(SIZE) ? -1 : __real_##name(fd, n); \
    }
LENGTH_CALL(ftruncate)
LENGTH_CALL(ftruncate64)

#define RESERVE_CALL(name)                                              \
    WRAP(int, name, int fd, int mode, off_t offset, off_t n)            \
    {                                                                   \
        return strikes(SIZE) ? -1 : __real_##name(fd, mode, offset, n); \
    }
RESERVE_CALL(fallocate)
RESERVE_CALL(fallocate64)

/* --- streams ---------------------------------------------------------------------------------- */

WRAP(size_t, fread, void *out, size_t n_each, size_t n, FILE *stream)
{
    if (strikes_stream(READ, stream)) {
        atomic_store(&broken, stream);
        return 0;
    }
    return __real_fread(out, n_each, n, stream);
}

WRAP(size_t, fwrite, const void *bytes, size_t n_each, size_t n, FILE *stream)
{
    if (strikes_stream(WRITE, stream)) {
        atomic_store(&broken, stream);
        return 0;
    }
    return __real_fwrite(bytes, n_each, n, stream);
}

WRAP(int, fputc, int c, FILE *stream)
{
    if (strikes_stream(WRITE, stream)) {
        atomic_store(&broken, stream);
        return EOF;
    }
    return __real_fputc(c, stream);
}

WRAP(int, fflush, FILE *stream)
{
    if (strikes_stream(WRITE, stream)) {
        atomic_store(&broken, stream);
        return EOF;
    }
    return __real_fflush(stream);
}

WRAP(int, ferror, FILE *stream)
{
    return stream == atomic_load(&broken) ? 1 : __real_ferror(stream);
}

WRAP(int, fclose, FILE *stream)
{
    const bool is_struck = strikes_stream(CLOSE, stream);
    const int reason = errno;
    const int result = __real_fclose(stream);
    errno = is_struck ? reason : errno;
    return is_struck ? EOF : result;
}

/* --- threads ---------------------------------------------------------------------------------- */

WRAP(int, pthread_create, pthread_t *out, const pthread_attr_t *attributes, void *(*start)(void *),
     void *arg)
{
    return strikes(THREAD) ? kind_errno[THREAD]
                           : __real_pthread_create(out, attributes, start, arg);
}
