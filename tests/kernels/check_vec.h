/* check_vec.h — the checks of vector primitives, one function an instruction set. */
#ifndef QNT_CHECK_VEC_H
#define QNT_CHECK_VEC_H

/* Each returns how many comparisons failed, and prints the first of them. */
int check_vec_avx2(void);
int check_vec_avx512(void);
int check_vec_neon(void);

#endif
