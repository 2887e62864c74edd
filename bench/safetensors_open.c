/* safetensors_open.c — open safetensors files and time it: map, check everything, close.
 *
 *     safetensors_open SECONDS FILE...
 *
 * One line a file, as bench/rust-safetensors prints it: best and median microseconds of thread CPU
 * time, number of tensors, number of runs. bench/safetensors_open.py runs both in turn. */
#define _POSIX_C_SOURCE 200809L
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "quench/safetensors.h"

#define MAX_RUNS 5000

static double thread_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int compare_doubles(const void *a, const void *b)
{
    const double x = *(const double *)a;
    const double y = *(const double *)b;
    return (x > y) - (x < y);
}

static double open_once(const char *path, long long *out_n_tensors)
{
    qn_safetensors *st = NULL;
    qn_error err = QN_ERROR_INIT;
    const double begin = thread_seconds();
    if (qn_safetensors_load_mmap(path, NULL, &st, &err) != QN_OK) {
        fprintf(stderr, "%s: %s\n", path, err.message);
        exit(1);
    }
    *out_n_tensors = qn_safetensors_n_tensors(st);
    qn_safetensors_close(st);
    return thread_seconds() - begin;
}

int main(int argc, char **argv)
{
    static double times[MAX_RUNS];
    if (argc < 3) {
        fprintf(stderr, "usage: safetensors_open SECONDS FILE...\n");
        return 2;
    }
    const double seconds = strtod(argv[1], NULL);
    for (int i = 2; i < argc; i++) {
        int n = 0;
        long long n_tensors = 0;
        for (double total = 0; n < 5 || (total < seconds && n < MAX_RUNS); n++) {
            times[n] = open_once(argv[i], &n_tensors);
            total += times[n];
        }
        qsort(times, (size_t)n, sizeof *times, compare_doubles);
        printf("%.2f\t%.2f\t%lld\t%d\t%s\n", times[0] * 1e6, times[n / 2] * 1e6, n_tensors, n,
               argv[i]);
    }
    return 0;
}
