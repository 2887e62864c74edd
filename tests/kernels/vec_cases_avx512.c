/* vec_cases_avx512.c — the checks of vec_cases.h on AVX-512. */
#include "kernels/x86/vec_avx512_internal.h"

#include "check_vec.h"
#include "vec_cases.h"
