/* blocks_internal.h — the 27 block formats as C structs: the struct is the wire format.
 *
 * Fields are bytes only, so a block may lie at any address of a file and has the same layout on
 * every machine; multi-byte fields are little-endian and read with qni_load_u16le and its kin.
 * What the bits mean is drawn in src/kernels/scalar/<format>.c. */
#ifndef QNI_BLOCKS_INTERNAL_H
#define QNI_BLOCKS_INTERNAL_H

#include <assert.h>
#include <stdint.h>

/* Elements in a super-block. */
#define QNI_SUPER 256

typedef struct qni_block_q1_0 { /* 128 elements */
    uint8_t d[2];               /* f16 */
    uint8_t bits[16];
} qni_block_q1_0;

typedef struct qni_block_q2_0 { /* 64 elements */
    uint8_t d[2];
    uint8_t qs[16];
} qni_block_q2_0;

typedef struct qni_block_q4_0 { /* 32 elements, as all of this group up to nvfp4 */
    uint8_t d[2];
    uint8_t qs[16];
} qni_block_q4_0;

typedef struct qni_block_q4_1 {
    uint8_t d[2];
    uint8_t m[2];
    uint8_t qs[16];
} qni_block_q4_1;

typedef struct qni_block_q5_0 {
    uint8_t d[2];
    uint8_t qh[4];
    uint8_t qs[16];
} qni_block_q5_0;

typedef struct qni_block_q5_1 {
    uint8_t d[2];
    uint8_t m[2];
    uint8_t qh[4];
    uint8_t qs[16];
} qni_block_q5_1;

typedef struct qni_block_q8_0 {
    uint8_t d[2];
    int8_t qs[32];
} qni_block_q8_0;

typedef struct qni_block_q8_1 {
    uint8_t d[2];
    uint8_t s[2]; /* d times the sum of the quants */
    int8_t qs[32];
} qni_block_q8_1;

typedef struct qni_block_iq4_nl {
    uint8_t d[2];
    uint8_t qs[16];
} qni_block_iq4_nl;

typedef struct qni_block_mxfp4 {
    uint8_t e; /* E8M0 exponent */
    uint8_t qs[16];
} qni_block_mxfp4;

typedef struct qni_block_nvfp4 { /* 64 elements */
    uint8_t scales[4];           /* unsigned E4M3, one per 16 elements */
    uint8_t qs[32];
} qni_block_nvfp4;

/* From here on super-blocks of 256 elements. */

typedef struct qni_block_q2_k {
    uint8_t scales[16]; /* low nibble: scale, high nibble: minimum */
    uint8_t qs[64];
    uint8_t d[2];
    uint8_t dmin[2];
} qni_block_q2_k;

typedef struct qni_block_q3_k {
    uint8_t hmask[32];
    uint8_t qs[64];
    uint8_t scales[12];
    uint8_t d[2];
} qni_block_q3_k;

typedef struct qni_block_q4_k {
    uint8_t d[2];
    uint8_t dmin[2];
    uint8_t scales[12];
    uint8_t qs[128];
} qni_block_q4_k;

typedef struct qni_block_q5_k {
    uint8_t d[2];
    uint8_t dmin[2];
    uint8_t scales[12];
    uint8_t qh[32];
    uint8_t qs[128];
} qni_block_q5_k;

typedef struct qni_block_q6_k {
    uint8_t ql[128];
    uint8_t qh[64];
    int8_t scales[16];
    uint8_t d[2];
} qni_block_q6_k;

typedef struct qni_block_q8_k {
    uint8_t d[4]; /* f32 */
    int8_t qs[256];
    uint8_t bsums[32]; /* 16 i16: sums of 16 quants each */
} qni_block_q8_k;

typedef struct qni_block_tq1_0 {
    uint8_t qs[48];
    uint8_t qh[4];
    uint8_t d[2];
} qni_block_tq1_0;

typedef struct qni_block_tq2_0 {
    uint8_t qs[64];
    uint8_t d[2];
} qni_block_tq2_0;

typedef struct qni_block_iq1_s {
    uint8_t d[2];
    uint8_t qs[32];
    uint8_t qh[16]; /* 8 u16 */
} qni_block_iq1_s;

typedef struct qni_block_iq1_m {
    uint8_t qs[32];
    uint8_t qh[16];
    uint8_t scales[8]; /* 4 u16; the f16 scale is spread over their top nibbles */
} qni_block_iq1_m;

typedef struct qni_block_iq2_xxs {
    uint8_t d[2];
    uint8_t qs[64]; /* eight groups: 4 indices, then u32 of signs and scale */
} qni_block_iq2_xxs;

typedef struct qni_block_iq2_xs {
    uint8_t d[2];
    uint8_t qs[64]; /* 32 u16 */
    uint8_t scales[8];
} qni_block_iq2_xs;

typedef struct qni_block_iq2_s {
    uint8_t d[2];
    uint8_t qs[32];
    uint8_t signs[32];
    uint8_t qh[8];
    uint8_t scales[8];
} qni_block_iq2_s;

typedef struct qni_block_iq3_xxs {
    uint8_t d[2];
    uint8_t qs[64];
    uint8_t signs[32]; /* 8 u32 of signs and scale */
} qni_block_iq3_xxs;

typedef struct qni_block_iq3_s {
    uint8_t d[2];
    uint8_t qs[64];
    uint8_t qh[8];
    uint8_t signs[32];
    uint8_t scales[4];
} qni_block_iq3_s;

typedef struct qni_block_iq4_xs {
    uint8_t d[2];
    uint8_t scales_h[2];
    uint8_t scales_l[4];
    uint8_t qs[128];
} qni_block_iq4_xs;

static_assert(sizeof(qni_block_q1_0) == 18, "q1_0");
static_assert(sizeof(qni_block_q2_0) == 18, "q2_0");
static_assert(sizeof(qni_block_q4_0) == 18, "q4_0");
static_assert(sizeof(qni_block_q4_1) == 20, "q4_1");
static_assert(sizeof(qni_block_q5_0) == 22, "q5_0");
static_assert(sizeof(qni_block_q5_1) == 24, "q5_1");
static_assert(sizeof(qni_block_q8_0) == 34, "q8_0");
static_assert(sizeof(qni_block_q8_1) == 36, "q8_1");
static_assert(sizeof(qni_block_iq4_nl) == 18, "iq4_nl");
static_assert(sizeof(qni_block_mxfp4) == 17, "mxfp4");
static_assert(sizeof(qni_block_nvfp4) == 36, "nvfp4");
static_assert(sizeof(qni_block_q2_k) == 84, "q2_K");
static_assert(sizeof(qni_block_q3_k) == 110, "q3_K");
static_assert(sizeof(qni_block_q4_k) == 144, "q4_K");
static_assert(sizeof(qni_block_q5_k) == 176, "q5_K");
static_assert(sizeof(qni_block_q6_k) == 210, "q6_K");
static_assert(sizeof(qni_block_q8_k) == 292, "q8_K");
static_assert(sizeof(qni_block_tq1_0) == 54, "tq1_0");
static_assert(sizeof(qni_block_tq2_0) == 66, "tq2_0");
static_assert(sizeof(qni_block_iq1_s) == 50, "iq1_s");
static_assert(sizeof(qni_block_iq1_m) == 56, "iq1_m");
static_assert(sizeof(qni_block_iq2_xxs) == 66, "iq2_xxs");
static_assert(sizeof(qni_block_iq2_xs) == 74, "iq2_xs");
static_assert(sizeof(qni_block_iq2_s) == 82, "iq2_s");
static_assert(sizeof(qni_block_iq3_xxs) == 98, "iq3_xxs");
static_assert(sizeof(qni_block_iq3_s) == 110, "iq3_s");
static_assert(sizeof(qni_block_iq4_xs) == 136, "iq4_xs");

#endif
