/* compiler_internal.h — the compiler builtins that the project uses, wrapped once. */
#ifndef QNI_COMPILER_INTERNAL_H
#define QNI_COMPILER_INTERNAL_H

#if defined(__GNUC__)
#define QNI_PRINTF(fmt_at, args_at) __attribute__((format(printf, fmt_at, args_at)))
#define QNI_LIKELY(x)               __builtin_expect(!!(x), 1)
#define QNI_UNLIKELY(x)             __builtin_expect(!!(x), 0)
#define QNI_INLINE                  static inline __attribute__((always_inline))
#define QNI_COLD                    __attribute__((cold))
#define QNI_ALIGNED(n)              __attribute__((aligned(n)))
#define QNI_PREFETCH_READ(ptr)      __builtin_prefetch((ptr), 0)
#define QNI_PREFETCH_WRITE(ptr)     __builtin_prefetch((ptr), 1)
#define QNI_NOINLINE                __attribute__((noinline))
#else
#define QNI_PRINTF(fmt_at, args_at)
#define QNI_LIKELY(x)   (x)
#define QNI_UNLIKELY(x) (x)
#define QNI_INLINE      static inline
#define QNI_COLD
#define QNI_ALIGNED(n)
#define QNI_PREFETCH_READ(ptr)  ((void)(ptr))
#define QNI_PREFETCH_WRITE(ptr) ((void)(ptr))
#define QNI_NOINLINE
#endif

/* In a loop that waits for another thread: leave the processor's parts to its other thread. */
#if defined(__GNUC__) && (defined(__x86_64__) || defined(__i386__))
#define QNI_RELAX() __builtin_ia32_pause()
#elif defined(__GNUC__) && defined(__aarch64__)
#define QNI_RELAX() __asm__ volatile("yield")
#else
#define QNI_RELAX() ((void)0)
#endif

/* Before a loop of a constant number of turns: unroll it, or keep it rolled. */
#if defined(__clang__)
#define QNI_UNROLL _Pragma("clang loop unroll(full)")
#define QNI_ROLLED _Pragma("clang loop unroll(disable)")
#elif defined(__GNUC__)
#define QNI_UNROLL _Pragma("GCC unroll 16")
#define QNI_ROLLED _Pragma("GCC unroll 1")
#else
#define QNI_UNROLL
#define QNI_ROLLED
#endif

#endif
