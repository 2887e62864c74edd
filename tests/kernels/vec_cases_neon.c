/* vec_cases_neon.c — the checks of vec_cases.h on NEON. */
#include "kernels/arm/vec_neon_internal.h"

#include "check_vec.h"
#include "vec_cases.h"
