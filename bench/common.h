/* common.h - timing, pinning, statistics and random data for the bench harnesses.
 * Header-only, C11 + GNU. No dependency but libc. */
#ifndef BENCH_COMMON_H
#define BENCH_COMMON_H
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <math.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

static inline double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC_RAW, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* CPU time of the whole process: used to detect that another process took our CPU. */
static inline double cpu_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* CPU time of this thread: the right clock for one-thread kernels on a shared machine
 * (time lost to other processes does not count; shared-cache and bandwidth contention still does).
 */
static inline double thr_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static inline void pin_cpu(int cpu)
{
    if (cpu < 0)
        return;
    cpu_set_t s;
    CPU_ZERO(&s);
    CPU_SET((size_t)cpu, &s);
    if (sched_setaffinity(0, sizeof s, &s))
        perror("sched_setaffinity");
}

typedef struct {
    double min, med, p90;
    int n;
    double
        stolen; /* fraction of wall time in which we were not running, over all reps (1 thread) */
} stat_t;

static int cmp_d(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}
static inline stat_t stats(double *v, int n)
{
    stat_t s = {0, 0, 0, n, 0};
    qsort(v, (size_t)n, sizeof *v, cmp_d);
    s.min = v[0];
    s.med = n & 1 ? v[n / 2] : 0.5 * (v[n / 2 - 1] + v[n / 2]);
    s.p90 = v[(int)(0.9 * (n - 1) + 0.5)];
    return s;
}

/* xoshiro-like small generator + Box-Muller: deterministic gaussian data on every machine. */
static uint64_t bench_rng = 0x9E3779B97F4A7C15ull;
static inline uint64_t rnd64(void)
{
    uint64_t z = (bench_rng += 0x9E3779B97F4A7C15ull);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
}
static inline double rnd01(void)
{
    return ((double)(rnd64() >> 11) + 0.5) * (1.0 / 9007199254740992.0);
}
static inline void fill_gauss(float *p, size_t n, float sigma)
{
    for (size_t i = 0; i < n; i += 2) {
        double r = sqrt(-2.0 * log(rnd01())), a = 6.283185307179586 * rnd01();
        p[i] = sigma * (float)(r * cos(a));
        if (i + 1 < n)
            p[i + 1] = sigma * (float)(r * sin(a));
    }
}

static inline void *big_alloc(size_t n, int huge)
{
    n = (n + (2u << 20) - 1) & ~(size_t)((2u << 20) - 1);
    void *p =
        mmap(NULL, n + (2u << 20), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) {
        perror("mmap");
        exit(1);
    }
    uintptr_t a = ((uintptr_t)p + (2u << 20) - 1) & ~(uintptr_t)((2u << 20) - 1);
    madvise((void *)a, n, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
    memset((void *)a, 1, n);
    return (void *)a;
}

static inline long rss_kb(void)
{
    FILE *f = fopen("/proc/self/statm", "r");
    long a = 0, b = 0;
    if (f) {
        if (fscanf(f, "%ld %ld", &a, &b) != 2)
            b = 0;
        fclose(f);
    }
    return b * (sysconf(_SC_PAGESIZE) / 1024);
}
static inline long maxrss_kb(void)
{
    struct rusage r;
    getrusage(RUSAGE_SELF, &r);
    return r.ru_maxrss;
}
#endif
