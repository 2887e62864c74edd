/* limits.h - what the machine can do at most, in short pieces that a harness runs between those of
 * what it measures: reading memory as one stream, and arithmetic in registers alone. x86-64; where
 * there is no loop for an instruction set, its rate is 0. */
#ifndef BENCH_LIMITS_H
#define BENCH_LIMITS_H
#include "common.h"
#include <math.h>
#include <pthread.h>
#include <stdbool.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

typedef enum {
    LIMIT_READ,  /* bytes a second */
    LIMIT_FMA,   /* f32 multiply-adds; this and the next in operations a second, two a product */
    LIMIT_BYTES, /* products of bytes summed in 16 bits (AVX2), or vpdpbusd */
    LIMIT_WORDS, /* products of 16-bit words (AVX2), or vpdpbusd */
    LIMIT_N
} limit_kind;

typedef enum { LIMIT_NONE, LIMIT_AVX2, LIMIT_AVX512 } limit_isa;

enum {
    LIMIT_MEMORY = 256 << 20, /* more than any cache */
    LIMIT_SLICE = 24 << 20,
    LIMIT_TURNS = 60000 /* of twelve instructions or pairs: a tenth of a millisecond */
};

static limit_isa limit_level = LIMIT_NONE;
static char *limit_memory;
static volatile uint64_t limit_sink;

#define R12(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11)

/* Twelve chains of `step`, which may use a, b and its own c; all of them opaque to the compiler. */
#define LIMIT_LOOP(name, isa, vector, first, set, step)             \
    __attribute__((target(isa), noinline)) static void name(long n) \
    {                                                               \
        vector a = set, b = set;                                    \
        R12(first)                                                  \
        for (long k = 0; k < n; k++) {                              \
            __asm__ volatile("" : "+v"(a), "+v"(b));                \
            R12(step)                                               \
        }                                                           \
        R12(LIMIT_KEEP)                                             \
    }
#define LIMIT_KEEP(i) __asm__ volatile("" : : "v"(c##i));

#if defined(__x86_64__)
#define FIRST_256I(i)   __m256i c##i = _mm256_set1_epi32(i);
#define FIRST_256F(i)   __m256 c##i = _mm256_set1_ps((float)i);
#define FIRST_512I(i)   __m512i c##i = _mm512_set1_epi32(i);
#define FIRST_512F(i)   __m512 c##i = _mm512_set1_ps((float)i);
#define STEP_FMA_256(i) c##i = _mm256_fmadd_ps(c##i, a, b);
#define STEP_FMA_512(i) c##i = _mm512_fmadd_ps(c##i, a, b);
#define STEP_VNNI(i)    c##i = _mm512_dpbusd_epi32(c##i, a, b);
/* a is made opaque again, or the products would be taken out of the loop */
#define STEP_BYTES(i)               \
    __asm__ volatile("" : "+v"(a)); \
    c##i = _mm256_add_epi16(c##i, _mm256_maddubs_epi16(a, b));
#define STEP_WORDS(i)               \
    __asm__ volatile("" : "+v"(a)); \
    c##i = _mm256_add_epi32(c##i, _mm256_madd_epi16(a, b));
LIMIT_LOOP(limit_fma_256, "avx2,fma", __m256, FIRST_256F, _mm256_set1_ps(0.5f), STEP_FMA_256)
LIMIT_LOOP(limit_bytes_256, "avx2", __m256i, FIRST_256I, _mm256_set1_epi8(1), STEP_BYTES)
LIMIT_LOOP(limit_words_256, "avx2", __m256i, FIRST_256I, _mm256_set1_epi16(1), STEP_WORDS)
LIMIT_LOOP(limit_fma_512, "avx512f", __m512, FIRST_512F, _mm512_set1_ps(0.5f), STEP_FMA_512)
LIMIT_LOOP(limit_vnni_512, "avx512f,avx512vnni", __m512i, FIRST_512I, _mm512_set1_epi32(0x01010101),
           STEP_VNNI)

__attribute__((target("avx2"), noinline)) static uint64_t limit_sum(const char *p, size_t n)
{
    __m256i a[8];
    for (int i = 0; i < 8; i++)
        a[i] = _mm256_setzero_si256();
    for (size_t at = 0; at + 256 <= n; at += 256)
        for (int i = 0; i < 8; i++)
            a[i] = _mm256_add_epi64(
                a[i], _mm256_load_si256((const __m256i *)(const void *)(p + at + 32 * i)));
    for (int i = 1; i < 8; i++)
        a[0] = _mm256_add_epi64(a[0], a[i]);
    return (uint64_t)_mm256_extract_epi64(a[0], 0);
}

static double limit_work(limit_kind kind, long part)
{
    const bool wide = limit_level == LIMIT_AVX512;
    switch (kind) {
    case LIMIT_READ:
        limit_sink += limit_sum(
            limit_memory + (size_t)part % (LIMIT_MEMORY / LIMIT_SLICE) * LIMIT_SLICE, LIMIT_SLICE);
        return LIMIT_SLICE;
    case LIMIT_FMA:
        (wide ? limit_fma_512 : limit_fma_256)(LIMIT_TURNS);
        return LIMIT_TURNS * 12.0 * (wide ? 32 : 16);
    case LIMIT_BYTES:
        (wide ? limit_vnni_512 : limit_bytes_256)(LIMIT_TURNS);
        return LIMIT_TURNS * 12.0 * (wide ? 128 : 64);
    default:
        (wide ? limit_vnni_512 : limit_words_256)(LIMIT_TURNS);
        return LIMIT_TURNS * 12.0 * (wide ? 128 : 32);
    }
}
#else
static double limit_work(limit_kind kind, long part)
{
    (void)kind, (void)part;
    return 0;
}
#endif

/* isa: "avx2" holds the loops to it. */
static void limit_begin(const char *isa)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        limit_level = LIMIT_AVX2;
    if (!(isa && !strcmp(isa, "avx2")) && __builtin_cpu_supports("avx512vnni"))
        limit_level = LIMIT_AVX512;
#endif
    (void)isa;
    if (limit_level != LIMIT_NONE)
        limit_memory = big_alloc(LIMIT_MEMORY, 1);
}

typedef struct {
    limit_kind kind;
    long part;
    double work;
    double start, end; /* by the clock */
    pthread_barrier_t *all;
} limit_job;

static void *limit_thread(void *arg)
{
    limit_job *job = arg;
    pthread_barrier_wait(job->all);
    job->start = now_s();
    job->work = limit_work(job->kind, job->part);
    job->end = now_s();
    return NULL;
}

/* One measurement with n_threads (at most 8): units a second of all together. As everywhere: one
 * thread by its processor time, more by the clock, from the first one's start to the last one's
 * end. */
static double limit_rate(limit_kind kind, int n_threads)
{
    static long part;
    if (limit_level == LIMIT_NONE)
        return 0;
    if (n_threads == 1) {
        double t0 = thr_s(), work = limit_work(kind, part++);
        return work / (thr_s() - t0);
    }
    pthread_t threads[8];
    limit_job jobs[8];
    pthread_barrier_t all;
    pthread_barrier_init(&all, NULL, (unsigned)n_threads);
    for (int i = 0; i < n_threads; i++) {
        jobs[i] = (limit_job){kind, part++, 0, 0, 0, &all};
        pthread_create(&threads[i], NULL, limit_thread, &jobs[i]);
    }
    double start = INFINITY, end = 0, work = 0;
    for (int i = 0; i < n_threads; i++) {
        pthread_join(threads[i], NULL);
        work += jobs[i].work;
        start = fmin(start, jobs[i].start);
        end = fmax(end, jobs[i].end);
    }
    pthread_barrier_destroy(&all);
    return work / (end - start);
}
#endif
