/* os_linux.c — the calls that only Linux has. */
#define _GNU_SOURCE \
    1 /* copy_file_range, fallocate, F_SETLEASE, sync_file_range, sched_getaffinity */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/statfs.h>
#include <time.h>
#include <unistd.h>
#if defined(__aarch64__)
#include <sys/auxv.h>
#endif

#include "base/base.h"

#include "base/os_system_internal.h"

#ifndef FALLOC_FL_INSERT_RANGE /* musl names only some */
#define FALLOC_FL_INSERT_RANGE   0x20
#define FALLOC_FL_COLLAPSE_RANGE 0x08
#endif

/* 0, or an errno value. */
static int allocate(int fd, int mode, int64_t offset, int64_t n_bytes)
{
    int failed = 0;
    do {
        failed = fallocate(fd, mode, (off_t)offset, (off_t)n_bytes) != 0 ? errno : 0;
    } while (failed == EINTR);
    return failed;
}

int qni_system_preallocate(int fd, int64_t n_bytes)
{
    const int failed = n_bytes > 0 ? allocate(fd, 0, 0, n_bytes) : 0;
    return failed == EOPNOTSUPP || failed == ENOSYS || failed == EINVAL ? 0 : failed;
}

qn_status qni_file_copy_range(const qni_file *from, int64_t from_offset, const qni_file *to,
                              int64_t to_offset, int64_t n_bytes, int64_t *out_n_done,
                              qn_error *err)
{
    *out_n_done = 0;
    while (*out_n_done < n_bytes) {
        off_t in = (off_t)(from_offset + *out_n_done);
        off_t out = (off_t)(to_offset + *out_n_done);
        const int64_t left = n_bytes - *out_n_done;
        const ssize_t n = copy_file_range(from->fd, &in, to->fd, &out,
                                          (size_t)qni_min_i64(left, (int64_t)1 << 30), 0);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0 && (errno == ENOSPC || errno == EDQUOT || errno == EIO)) {
            return qni_fail_errno(err, errno, NULL, "cannot copy %" PRId64 " bytes into %s", left,
                                  to->path);
        }
        if (n <= 0) {
            return QN_OK; /* not offered here, or the source has ended: pread will tell */
        }
        *out_n_done += n;
    }
    return QN_OK;
}

qni_claim qni_file_claim(const qni_file *file)
{
    /* Who opens the file is announced by a signal: by one that is ignored if nobody asks for it, as
     * the usual one ends the process, and soon not at all. */
    (void)fcntl(file->fd, F_SETSIG, SIGURG);
    if (fcntl(file->fd, F_SETLEASE, F_WRLCK) == 0) {
        (void)fcntl(file->fd, F_SETOWN, 0);
        return QNI_CLAIM_HELD;
    }
    return errno == EAGAIN || errno == EBUSY ? QNI_CLAIM_IN_USE : QNI_CLAIM_IMPOSSIBLE;
}

int64_t qni_file_insert_unit(const qni_file *file)
{
    struct statfs info;
    return fstatfs(file->fd, &info) == 0 && info.f_bsize > 0 ? (int64_t)info.f_bsize : 4096;
}

qn_status qni_file_insert_front(const qni_file *file, int64_t n_bytes, bool *out_is_done,
                                qn_error *err)
{
    int failed = allocate(file->fd, FALLOC_FL_INSERT_RANGE, 0, n_bytes);
    if (failed == 0) { /* what came in is a hole, which a full disk may not let anybody fill */
        failed = allocate(file->fd, 0, 0, n_bytes);
        if (failed != 0 && allocate(file->fd, FALLOC_FL_COLLAPSE_RANGE, 0, n_bytes) != 0) {
            failed = 0; /* it stays: the writing will tell */
        }
    }
    *out_is_done = failed == 0;
    if (failed == 0 || failed == EOPNOTSUPP || failed == ENOSYS || failed == EINVAL) {
        return QN_OK;
    }
    return qni_fail_errno(err, failed, NULL, "cannot insert %" PRId64 " bytes into %s", n_bytes,
                          file->path);
}

void qni_file_write_back(const qni_file *file, int64_t offset, int64_t n_bytes, bool wait)
{
    const unsigned flags =
        wait ? SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER
             : SYNC_FILE_RANGE_WRITE;
    (void)sync_file_range(file->fd, (off_t)offset, (off_t)n_bytes, flags);
}

bool qni_file_resident(const qni_file *file, int64_t offset, int64_t n_bytes, uint8_t *out_resident)
{
    if (n_bytes <= 0) {
        return true;
    }
    /* mincore() looks at the cache through a mapping, and touches no page of it */
    void *map = mmap(NULL, (size_t)n_bytes, PROT_READ, MAP_SHARED, file->fd, (off_t)offset);
    if (map == MAP_FAILED) {
        return false;
    }
    const bool is_known = mincore(map, (size_t)n_bytes, out_resident) == 0;
    (void)munmap(map, (size_t)n_bytes);
    return is_known;
}

void qni_map_release(const void *bytes, int64_t n_bytes)
{
    const uintptr_t page = (uintptr_t)qni_page_bytes();
    const uintptr_t start = ((uintptr_t)bytes + page - 1) & ~(page - 1);
    const uintptr_t end = ((uintptr_t)bytes + (uintptr_t)n_bytes) & ~(page - 1);
    if (n_bytes > 0 && end > start) {
        /* Clean, file-backed pages: they come back from the file. Only ever called on maps. The
         * system's call takes no const. */
        (void)madvise((void *)start, end - start, MADV_DONTNEED);
    }
}

void qni_memory_advise_huge(void *bytes, size_t n_bytes)
{
    const uintptr_t page = (uintptr_t)qni_page_bytes();
    const uintptr_t start = ((uintptr_t)bytes + page - 1) & ~(page - 1);
    const uintptr_t end = ((uintptr_t)bytes + (uintptr_t)n_bytes) & ~(page - 1);
    if (end > start) {
        (void)madvise((uint8_t *)bytes + (start - (uintptr_t)bytes), end - start, MADV_HUGEPAGE);
    }
}

uint64_t qni_random_seed(void)
{
    uint64_t seed = 0;
    if (getrandom(&seed, sizeof seed, GRND_NONBLOCK) != (ssize_t)sizeof seed) {
        struct timespec now = {0, 0};
        (void)clock_gettime(CLOCK_MONOTONIC, &now);
        seed = ((uint64_t)now.tv_nsec << 32 ^ (uint64_t)now.tv_sec ^ (uint64_t)(uintptr_t)&seed) *
               0x9E3779B97F4A7C15u;
    }
    return seed;
}

int64_t qni_peak_resident_bytes(void)
{
    struct rusage usage;
    int64_t n_bytes = 0;
    if (getrusage(RUSAGE_SELF, &usage) != 0 || !qni_mul_i64(usage.ru_maxrss, 1024, &n_bytes)) {
        return -1;
    }
    return n_bytes;
}

int qni_cpu_count(void)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    const int n = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
    return n > 0 ? n : 1;
}

#if defined(__aarch64__)
void qni_arm_features(bool *out_has_dotprod, bool *out_has_i8mm)
{
    const unsigned long hwcap = getauxval(AT_HWCAP);
    const unsigned long hwcap2 = getauxval(AT_HWCAP2);
    *out_has_dotprod = (hwcap >> 20 & 1) != 0; /* HWCAP_ASIMDDP */
    *out_has_i8mm = (hwcap2 >> 13 & 1) != 0;   /* HWCAP2_I8MM */
}
#endif
