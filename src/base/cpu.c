/* cpu.c — which instruction sets this CPU and this operating system offer.
 * CPUID leaves and XCR0 bits: Intel SDM volume 2A (CPUID) and volume 1 chapter 13. */
#include <stdatomic.h>

#include "base/base.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

typedef struct isa_row {
    qn_isa isa;
    const char *name;
} isa_row;

static const isa_row isa_rows[] = {
    {QN_ISA_SCALAR, "scalar"},
    {QN_ISA_AVX2, "avx2"},
    {QN_ISA_AVX_VNNI, "avx_vnni"},
    {QN_ISA_AVX512, "avx512"},
    {QN_ISA_AVX512_VNNI, "avx512_vnni"},
    {QN_ISA_AVX512_BF16, "avx512_bf16"},
    {QN_ISA_NEON, "neon"},
    {QN_ISA_NEON_DOTPROD, "neon_dotprod"},
    {QN_ISA_NEON_I8MM, "neon_i8mm"},
};
#define N_ISAS ((int)(sizeof isa_rows / sizeof isa_rows[0]))

#if defined(__x86_64__)

static uint64_t read_xcr0(void)
{
    uint32_t lo = 0;
    uint32_t hi = 0;
    __asm__ volatile("xgetbv" : "=a"(lo), "=d"(hi) : "c"(0));
    return (uint64_t)hi << 32 | lo;
}

static bool has_bits(uint32_t reg, uint32_t bits)
{
    return (reg & bits) == bits;
}

/* Bit `isa` is set for each level that can run. */
static uint32_t detect(void)
{
    uint32_t a = 0, b = 0, c = 0, d = 0;
    uint32_t found = 1u << QN_ISA_SCALAR;
    const uint32_t fma_osxsave_avx_f16c = 1u << 12 | 1u << 27 | 1u << 28 | 1u << 29;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !has_bits(c, fma_osxsave_avx_f16c)) {
        return found;
    }
    const uint64_t xcr0 = read_xcr0();
    const bool os_avx = (xcr0 & 0x06) == 0x06;    /* XMM and YMM state */
    const bool os_avx512 = (xcr0 & 0xE6) == 0xE6; /* and opmask, ZMM */
    if (!os_avx || !__get_cpuid_count(7, 0, &a, &b, &c, &d)) {
        return found;
    }
    const uint32_t n_subleaves = a;
    const uint32_t b7 = b;
    const uint32_t c7 = c;
    const uint32_t avx2_bmi2 = 1u << 5 | 1u << 8;
    if (!has_bits(b7, avx2_bmi2)) {
        return found;
    }
    found |= 1u << QN_ISA_AVX2;
    uint32_t a71 = 0;
    if (n_subleaves >= 1 && __get_cpuid_count(7, 1, &a71, &b, &c, &d) && has_bits(a71, 1u << 4)) {
        found |= 1u << QN_ISA_AVX_VNNI;
    }
    const uint32_t f_dq_bw_vl = 1u << 16 | 1u << 17 | 1u << 30 | 1u << 31;
    if (!os_avx512 || !has_bits(b7, f_dq_bw_vl)) {
        return found;
    }
    found |= 1u << QN_ISA_AVX512;
    if (!has_bits(c7, 1u << 1 | 1u << 11)) { /* VBMI, VNNI */
        return found;
    }
    found |= 1u << QN_ISA_AVX512_VNNI;
    return has_bits(a71, 1u << 5) ? found | 1u << QN_ISA_AVX512_BF16 : found;
}

#elif defined(__aarch64__)

static uint32_t detect(void)
{
    uint32_t found = 1u << QN_ISA_SCALAR | 1u << QN_ISA_NEON;
    bool has_dotprod = false;
    bool has_i8mm = false;
    qni_arm_features(&has_dotprod, &has_i8mm);
    found |= has_dotprod ? 1u << QN_ISA_NEON_DOTPROD : 0;
    return has_dotprod && has_i8mm ? found | 1u << QN_ISA_NEON_I8MM : found;
}

#else

static uint32_t detect(void)
{
    return 1u << QN_ISA_SCALAR;
}

#endif

/* A cache of a pure function: every thread computes the same value. */
static uint32_t available(void)
{
    static _Atomic uint32_t cache = 0;
    uint32_t found = atomic_load_explicit(&cache, memory_order_relaxed);
    if (found == 0) {
        found = detect();
        atomic_store_explicit(&cache, found, memory_order_relaxed);
    }
    return found;
}

qn_status qn_isa_from_name(const char *name, qn_isa *out_isa, qn_error *err)
{
    *out_isa = QN_ISA_BEST;
    if (qni_equal_nocase(name, "best")) {
        return QN_OK;
    }
    char names[200] = "best";
    for (int i = 0; i < N_ISAS; i++) {
        if (qni_equal_nocase(name, isa_rows[i].name)) {
            *out_isa = isa_rows[i].isa;
            return QN_OK;
        }
        const size_t n = strlen(names);
        (void)snprintf(names + n, sizeof names - n, ", %s", isa_rows[i].name);
    }
    qni_name_text shown;
    return qni_fail(err, QN_ERR_UNKNOWN_ISA, -1, "unknown instruction set \"%s\"; known: %s",
                    qni_escape_name(name, (int64_t)strlen(name), &shown), names);
}

const char *qn_isa_name(qn_isa isa)
{
    if (isa == QN_ISA_BEST) {
        return "best";
    }
    for (int i = 0; i < N_ISAS; i++) {
        if (isa_rows[i].isa == isa) {
            return isa_rows[i].name;
        }
    }
    return "?";
}

bool qn_isa_is_available(qn_isa isa)
{
    return isa == QN_ISA_BEST || ((int)isa > 0 && (int)isa < 32 && (available() >> isa & 1u));
}

qn_isa qn_isa_resolve(qn_isa limit)
{
    for (int i = N_ISAS - 1; i > 0; i--) {
        const qn_isa isa = isa_rows[i].isa;
        const bool is_within = limit == QN_ISA_BEST || (isa <= limit && isa / 10 == limit / 10);
        if (is_within && qn_isa_is_available(isa)) {
            return isa;
        }
    }
    return QN_ISA_SCALAR;
}

qn_isa qn_isa_at(int index)
{
    return index >= 0 && index < N_ISAS ? isa_rows[index].isa : QN_ISA_BEST;
}
