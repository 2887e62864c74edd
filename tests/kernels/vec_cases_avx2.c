/* vec_cases_avx2.c — the checks of vec_cases.h on AVX2. */
#include "kernels/x86/vec_avx2_internal.h"

#include "check_vec.h"
#include "vec_cases.h"
