/* check_vec.c — every primitive of the vector headers against plain C, on each instruction set that
 * this machine has. No test library, so that it can be linked statically and run under an emulator.
 */
#include <stdbool.h>
#include <stdio.h>

#include "check_vec.h"
#include "quench/isa.h"

typedef struct vec_check {
    qn_isa isa;
    int (*run)(void);
} vec_check;

static const vec_check checks[] = {
#if defined(__x86_64__)
    {QN_ISA_AVX2, check_vec_avx2},
    {QN_ISA_AVX512, check_vec_avx512},
#endif
#if defined(__aarch64__)
    {QN_ISA_NEON, check_vec_neon},
#endif
    {QN_ISA_BEST, NULL},
};

int main(void)
{
    int n_failed = 0;
    for (const vec_check *check = checks; check->run; check++) {
#ifdef CHECK_PLAIN_AVX512 /* see check_kernels.c */
        const bool is_plain = check->isa == QN_ISA_AVX512;
#else
        const bool is_plain = false;
#endif
        if (!is_plain && !qn_isa_is_available(check->isa)) {
            printf("skipped: this machine has no %s\n", qn_isa_name(check->isa));
            continue;
        }
        const int n = check->run();
        printf("%s: %d failed\n", qn_isa_name(check->isa), n);
        n_failed += n;
    }
    return n_failed != 0;
}
