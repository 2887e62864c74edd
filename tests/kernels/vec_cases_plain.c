/* vec_cases_plain.c — vec_cases_avx512.c under another name, so that it gets the flags of the
 * plain-C build. */
#include "vec_cases_avx512.c"
