/* isa.h — instruction sets: what this CPU has, and limiting what is used.
 *
 * Results that are bytes (encoders, decoders) never depend on the choice; it exists so that every
 * path can be tested and measured. */
#ifndef QUENCH_ISA_H
#define QUENCH_ISA_H

#include "quench/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Instruction-set levels. Within one architecture a higher value includes the lower ones. */
typedef enum qn_isa {
    QN_ISA_BEST = 0,          /* the best that this CPU has: the default everywhere */
    QN_ISA_SCALAR = 1,        /* portable C: the referee */
    QN_ISA_AVX2 = 10,         /* AVX2, FMA, F16C, BMI2 */
    QN_ISA_AVX_VNNI = 11,     /* and AVX-VNNI */
    QN_ISA_AVX512 = 12,       /* AVX-512 F, BW, DQ, VL and AVX2 */
    QN_ISA_AVX512_VNNI = 13,  /* and AVX-512 VNNI, VBMI */
    QN_ISA_AVX512_BF16 = 14,  /* and AVX-512 BF16 */
    QN_ISA_NEON = 20,         /* AArch64 Advanced SIMD */
    QN_ISA_NEON_DOTPROD = 21, /* and the dot-product instructions */
    QN_ISA_NEON_I8MM = 22     /* and the int8 matrix instructions */
} qn_isa;

/** The level with this name ("avx2", "avx512_vnni", ...), "best" included.
 * @return QN_OK; QN_ERR_UNKNOWN_ISA (the message lists the names). */
QN_API QN_NODISCARD qn_status qn_isa_from_name(const char *name, qn_isa *out_isa, qn_error *err);

/** The name of a level; "?" if it is none. Static storage. Threads: any thread. */
QN_API const char *qn_isa_name(qn_isa isa);

/** True if this CPU and operating system can run it. Threads: any thread. */
QN_API bool qn_isa_is_available(qn_isa isa);

/** The best level that this CPU can run and that is not above `limit` (QN_ISA_BEST: no limit).
 * A limit of another architecture gives QN_ISA_SCALAR. Never QN_ISA_BEST. Threads: any thread. */
QN_API qn_isa qn_isa_resolve(qn_isa limit);

/** All levels, in ascending order, for loops: level number `index` from 0, QN_ISA_BEST past the
 * last one. Threads: any thread. */
QN_API qn_isa qn_isa_at(int index);

#ifdef __cplusplus
}
#endif

#endif
