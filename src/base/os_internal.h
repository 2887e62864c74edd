/* os_internal.h — the portable face of the operating system: files, maps, atomic replacement,
 * time, random seed. os_*.c implement it; no other file of the tree names a system call.
 *
 * Every function that can fail names the path in the error. Offsets and sizes are int64_t. */
#ifndef QNI_OS_INTERNAL_H
#define QNI_OS_INTERNAL_H

#include "base/memory_internal.h"

/* --- files ------------------------------------------------------------------------------------ */

typedef struct qni_file {
    int fd;          /* -1: not open */
    int64_t n_bytes; /* size when it was opened for reading */
    char path[512];  /* escaped, for messages */
} qni_file;
#define QNI_FILE_CLOSED \
    {                   \
        -1, 0, ""       \
    }

/* A regular file for reading; a directory or other thing is QN_ERR_IS_DIR. */
QN_NODISCARD qn_status qni_file_open(const char *path, qni_file *out_file, qn_error *err);
/* The same for reading and writing; what is there stays. */
QN_NODISCARD qn_status qni_file_open_rw(const char *path, qni_file *out_file, qn_error *err);
void qni_file_close(qni_file *file);
/* All n_bytes at the offset, through EINTR and short counts. A file that ends before is
 * QN_ERR_FILE_CHANGED if it was long enough when opened, else QN_ERR_END_OF_STREAM.
 * Any thread. */
QN_NODISCARD qn_status qni_file_pread(const qni_file *file, void *out, size_t n_bytes,
                                      int64_t offset, qn_error *err);
/* The next bytes of a stream (pipe, stdin): up to n_bytes, 0 in *out_n_read at its end. */
QN_NODISCARD qn_status qni_file_read_some(const qni_file *file, void *out, size_t n_bytes,
                                          size_t *out_n_read, qn_error *err);
QN_NODISCARD qn_status qni_file_pwrite(const qni_file *file, const void *bytes, size_t n_bytes,
                                       int64_t offset, qn_error *err);
QN_NODISCARD qn_status qni_file_sync(const qni_file *file, qn_error *err);
/* The whole file in memory; refused above n_max bytes. Free with qni_free(allocator, , n_bytes). */
QN_NODISCARD qn_status qni_file_read_all(const char *path, const qn_allocator *allocator,
                                         int64_t n_max, uint8_t **out_bytes, int64_t *out_n_bytes,
                                         qn_error *err);
/* When the open file was last written, in nanoseconds since 1970; -1 if unknown. */
int64_t qni_file_modified(const qni_file *file);
/* True if both paths name one existing file, through any link or spelling. False if one does not
 * exist. */
bool qni_file_is_same(const char *path_a, const char *path_b);
/* The file that a symbolic link leads to; any other path as it is. Owned: free by its length and
 * one. */
QN_NODISCARD qn_status qni_path_resolve(const char *path, const qn_allocator *allocator,
                                        char **out_path, qn_error *err);
/* Does something exist under this path? Not being able to tell is an error: taking it for "no"
 * would let a save forget a payload. */
QN_NODISCARD qn_status qni_file_find(const char *path, bool *out_exists, qn_error *err);
/* The same where nothing but a message depends on it: false when it cannot be told. */
bool qni_file_exists(const char *path);
/* Free bytes for this user on the file system that holds the folder of `path`; -1 if unknown. */
int64_t qni_file_free_space(const char *path);
/* Copy verbatim inside the kernel where it can; *out_n_done may be less than n_bytes (even 0): the
 * caller goes on with pread and pwrite. */
QN_NODISCARD qn_status qni_file_copy_range(const qni_file *from, int64_t from_offset,
                                           const qni_file *to, int64_t to_offset, int64_t n_bytes,
                                           int64_t *out_n_done, qn_error *err);
/* Page-cache hints; failures are ignored. */
void qni_file_will_need(const qni_file *file, int64_t offset, int64_t n_bytes);
void qni_file_drop_cache(const qni_file *file, int64_t offset, int64_t n_bytes);
/* Which pages of a range (offset: a multiple of the page) are in the cache: one byte a page in
 * `out_resident`, bit 0. False if that cannot be known. */
bool qni_file_resident(const qni_file *file, int64_t offset, int64_t n_bytes,
                       uint8_t *out_resident);
/* Start writing dirty pages of the range out, and wait if `wait` is set. Failures are ignored. */
void qni_file_write_back(const qni_file *file, int64_t offset, int64_t n_bytes, bool wait);

/* --- maps ------------------------------------------------------------------------------------- */

typedef struct qni_map {
    const uint8_t *bytes; /* NULL for an empty file */
    int64_t n_bytes;
} qni_map;
/* Map read-only and private; the descriptor is closed before it returns. */
QN_NODISCARD qn_status qni_map_open(const char *path, qni_map *out_map, qn_error *err);
/* Map a file that is open for reading; it may be closed afterwards. */
QN_NODISCARD qn_status qni_map_of_file(const qni_file *file, qni_map *out_map, qn_error *err);
void qni_map_close(qni_map *map);
/* Advice on mapped pages that lie wholly or partly in the range; failures are ignored. */
void qni_map_prefetch(const void *bytes, int64_t n_bytes);
void qni_map_release(const void *bytes, int64_t n_bytes); /* only pages wholly inside */
/* Huge pages for the pages wholly inside, where the system has such; no more than advice. */
void qni_memory_advise_huge(void *bytes, size_t n_bytes);
int64_t qni_page_bytes(void);

/* --- atomic replacement ------------------------------------------------------------------------
 */

/* An output under a temporary name in the destination's folder. Begin, pwrite, then commit (fsync
 * the file, rename over the destination, fsync the folder) or abort (remove). A process that is
 * killed leaves the destination as it was. */
typedef struct qni_output {
    qni_file file;
    char *final_path; /* NULL: nothing open */
    char *temp_path;
    const qn_allocator *allocator;
    bool is_synced;
    bool is_renamed; /* several together: it stands under its final name */
    bool no_sync;    /* nothing of it is flushed to disk, nor its folder */
    char *old_path;  /* several together: where the file that it replaces waits; NULL: nowhere */
} qni_output;
#define QNI_OUTPUT_CLOSED                                            \
    {                                                                \
        QNI_FILE_CLOSED, NULL, NULL, NULL, false, false, false, NULL \
    }
QN_NODISCARD qn_status qni_output_begin(const char *final_path, const qn_allocator *allocator,
                                        qni_output *out_output, qn_error *err);
/* The same under a given temporary name, which is opened as it is when it exists (resume). */
QN_NODISCARD qn_status qni_output_resume(const char *final_path, const char *temp_path,
                                         const qn_allocator *allocator, qni_output *out_output,
                                         bool *out_existed, qn_error *err);
/* Reserve n_bytes on disk where the file system can, and set the length. */
QN_NODISCARD qn_status qni_output_preallocate(qni_output *output, int64_t n_bytes, qn_error *err);
/* fsync the data only: the step before the renames when several outputs are committed together. */
QN_NODISCARD qn_status qni_output_sync(qni_output *output, qn_error *err);
QN_NODISCARD qn_status qni_output_commit(qni_output *output, qn_error *err);
/* Commit the n files of one model together: the first one last, so that nothing loads half. Before
 * that the old files, the first one first, go under names of their own (NAME.old-XXXXXXXX), and are
 * removed when the new ones are durable; when anything fails, the old ones are back and the new
 * ones are under their temporary names again. A kill in between leaves no first file, or the old
 * one alone, or the new model whole. */
QN_NODISCARD qn_status qni_outputs_commit(qni_output *outputs, int64_t n, qn_error *err);
void qni_output_abort(qni_output *output);
/* Close it and leave the temporary file where it is (for a later resume). */
void qni_output_keep(qni_output *output);
/* Remove a file; one that is not there is no error. */
QN_NODISCARD qn_status qni_file_remove(const char *path, qn_error *err);
/* Make a folder and those above it; one that is there is no error. */
QN_NODISCARD qn_status qni_folder_make(const char *path, qn_error *err);
/* Another name for the same bytes: a link where the file system has them, else a copy. `to` must
 * not exist. Synced by qni_folder_sync(). */
QN_NODISCARD qn_status qni_file_clone(const char *from, const char *to, qn_error *err);
QN_NODISCARD qn_status qni_folder_sync(const char *path_inside, qn_error *err);

/* --- a file changed in place -------------------------------------------------------------------
 */

typedef enum qni_claim {
    QNI_CLAIM_HELD = 0,  /* nobody else has the file open, and who opens it waits until it is closed
                          * here, though a minute at most */
    QNI_CLAIM_IN_USE,    /* somebody has */
    QNI_CLAIM_IMPOSSIBLE /* it cannot be told on this file system, or for this user */
} qni_claim;
qni_claim qni_file_claim(const qni_file *file);
/* Push n_bytes in before the first byte: all that is there moves up, and what is new reads as
 * zeros. n_bytes: a multiple of qni_file_insert_unit(). *out_is_done false: not offered here, and
 * nothing has changed. */
QN_NODISCARD qn_status qni_file_insert_front(const qni_file *file, int64_t n_bytes,
                                             bool *out_is_done, qn_error *err);
int64_t qni_file_insert_unit(const qni_file *file);

/* --- the rest ----------------------------------------------------------------------------------
 */

uint64_t qni_random_seed(void);
double qni_clock_seconds(void);        /* monotonic */
double qni_thread_cpu_seconds(void);   /* of the calling thread */
int64_t qni_peak_resident_bytes(void); /* of the process; -1 if unknown */
int qni_cpu_count(void);               /* processors this process may run on, >= 1 */
/* The text of an errno value, thread-safe. */
void qni_errno_text(int sys_errno, char *out, size_t n_out);
#if defined(__aarch64__)
void qni_arm_features(bool *out_has_dotprod, bool *out_has_i8mm);
#endif

#endif
