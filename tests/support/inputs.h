/* inputs.h — seeded test data: distributions of values, importance weights, buffers between guard
 * pages. Header-only, so that programs without any library can use it. */
#ifndef TEST_SUPPORT_INPUTS_H
#define TEST_SUPPORT_INPUTS_H

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* --- a small generator (splitmix64) --------------------------------------------------------------
 */

typedef struct test_rng {
    uint64_t state;
} test_rng;

static inline uint64_t test_next(test_rng *rng)
{
    uint64_t z = rng->state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* In [0, 1). */
static inline double test_uniform(test_rng *rng)
{
    return (double)(test_next(rng) >> 11) * 0x1p-53;
}

static inline float test_gaussian(test_rng *rng)
{
    const double r = sqrt(-2.0 * log(1.0 - test_uniform(rng)));
    return (float)(r * cos(6.283185307179586 * test_uniform(rng)));
}

static inline int64_t test_below(test_rng *rng, int64_t n)
{
    return (int64_t)(test_next(rng) % (uint64_t)n);
}

static inline float test_from_bits(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

/* --- distributions of values ---------------------------------------------------------------------
 */

typedef enum test_distribution {
    TEST_GAUSSIAN,
    TEST_LAPLACE,
    TEST_SPARSE,
    TEST_OUTLIER,
    TEST_CONSTANT,
    TEST_RAMPS,
    TEST_SIXTEENTHS,
    TEST_SUBNORMAL,
    TEST_TINY_AND_HUGE,
    TEST_ZERO_BLOCKS,
    TEST_SORTED,
    TEST_POSITIVE,
    TEST_PLUS_MINUS,
    TEST_TINY_ROWS,
    TEST_N_DISTRIBUTIONS
} test_distribution;

static const char *const test_distribution_names[TEST_N_DISTRIBUTIONS] = {
    "gaussian", "laplace",      "sparse",     "one outlier", "constant",
    "ramps",    "1/16ths",      "subnormals", "tiny & huge", "zero blocks",
    "sorted",   "all positive", "plus-minus", "tiny rows",
};

static inline int test_compare_floats(const void *a, const void *b)
{
    const float x = *(const float *)a;
    const float y = *(const float *)b;
    return (x > y) - (x < y);
}

/* n values, n a multiple of 32 or small. All finite. */
static inline void test_fill(test_rng *rng, test_distribution distribution, float *x, int64_t n)
{
    const float scale = expf((float)(test_uniform(rng) * 8.0 - 6.0));
    for (int64_t i = 0; i < n; i++) {
        const float g = test_gaussian(rng);
        const int64_t group = i / 32;
        switch (distribution) {
        case TEST_LAPLACE: {
            const double u = test_uniform(rng) - 0.5;
            x[i] = scale * (float)((u < 0 ? 1.0 : -1.0) * log(1.0 - 2.0 * fabs(u) + 1e-300));
            break;
        }
        case TEST_SPARSE:
            x[i] = test_below(rng, 10) == 0 ? scale * g : 0.0f;
            break;
        case TEST_OUTLIER:
            x[i] = scale * g * (i % 256 == (i / 256 * 37) % 256 ? 1000.0f : 1.0f);
            break;
        case TEST_CONSTANT: /* another constant each 64, each sign and zero among them */
            x[i] = (i / 64) % 4 == 3 ? 0.0f : scale * ((float)(i / 64 % 3) - 0.75f);
            break;
        case TEST_RAMPS:
            x[i] = scale * ((float)(i % 256) - 128.0f + (float)(group % 5)) / 128.0f;
            break;
        case TEST_SIXTEENTHS: /* ties everywhere */
            x[i] = (float)(test_below(rng, 65) - 32) / 16.0f;
            break;
        case TEST_SUBNORMAL:
            x[i] = test_from_bits((uint32_t)(test_next(rng) & 0x800fffffu) >> (group % 3 * 4) |
                                  (uint32_t)(test_next(rng) & 0x80000000u));
            break;
        case TEST_TINY_AND_HUGE: /* magnitudes that change every 64, some at the end of the range */
            x[i] = g * ldexpf(1.0f, (int)((uint64_t)(i / 64 * 2654435761) % 231) - 140);
            break;
        case TEST_ZERO_BLOCKS:
            x[i] = group % 3 == 0 ? (i % 2 ? -0.0f : 0.0f) : scale * g;
            break;
        case TEST_POSITIVE:
            x[i] = scale * (fabsf(g) + 0.01f);
            break;
        case TEST_PLUS_MINUS: /* one magnitude, any sign: the first of equals must win */
            x[i] = test_next(rng) & 1 ? scale : -scale;
            break;
        case TEST_TINY_ROWS:
            x[i] = g * ldexpf(1.0f, -20 - (int)(i / 256) * 3 % 100);
            break;
        default:
            x[i] = scale * g;
            break;
        }
    }
    if (distribution == TEST_SORTED) {
        qsort(x, (size_t)n, sizeof *x, test_compare_floats);
    }
}

/* --- importance weights --------------------------------------------------------------------------
 */

typedef enum test_weights {
    TEST_NO_WEIGHTS,
    TEST_RANDOM_WEIGHTS,
    TEST_ZERO_HEAVY_WEIGHTS,
    TEST_N_WEIGHTS
} test_weights;

static const char *const test_weights_names[TEST_N_WEIGHTS] = {"none", "random", "zero-heavy"};

/* Returns w filled, or NULL for TEST_NO_WEIGHTS. */
static inline const float *test_fill_weights(test_rng *rng, test_weights kind, float *w, int64_t n)
{
    for (int64_t i = 0; kind != TEST_NO_WEIGHTS && i < n; i++) {
        const float u = (float)test_uniform(rng);
        w[i] = 0.01f + 10.0f * u * u * u;
        if (kind == TEST_ZERO_HEAVY_WEIGHTS && (i / 32 % 4 == 1 || test_below(rng, 2))) {
            w[i] = 0.0f;
        }
    }
    return kind == TEST_NO_WEIGHTS ? NULL : w;
}

/* --- buffers between guard pages -----------------------------------------------------------------
 */

typedef struct test_guarded {
    uint8_t *first; /* the first usable byte; the one before it cannot be touched */
    uint8_t *end;   /* one past the last usable byte: cannot be touched */
    size_t n_mapped;
    uint8_t *mapped;
} test_guarded;

static inline test_guarded test_guarded_new(size_t n_bytes)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const size_t n = (n_bytes + page - 1) / page * page;
    test_guarded guarded = {.n_mapped = n + 2 * page};
    guarded.mapped =
        mmap(NULL, guarded.n_mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (guarded.mapped == MAP_FAILED) {
        perror("mmap");
        exit(1);
    }
    guarded.first = guarded.mapped + page;
    guarded.end = guarded.first + n;
    if (mprotect(guarded.mapped, page, PROT_NONE) || mprotect(guarded.end, page, PROT_NONE)) {
        perror("mprotect");
        exit(1);
    }
    return guarded;
}

static inline void test_guarded_free(test_guarded *guarded)
{
    (void)munmap(guarded->mapped, guarded->n_mapped);
}

#endif
