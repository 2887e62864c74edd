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
#define QNI_PREFETCH_WRITE(ptr)     __builtin_prefetch((ptr), 1)
#else
#define QNI_PRINTF(fmt_at, args_at)
#define QNI_LIKELY(x)   (x)
#define QNI_UNLIKELY(x) (x)
#define QNI_INLINE      static inline
#define QNI_COLD
#define QNI_ALIGNED(n)
#define QNI_PREFETCH_WRITE(ptr) ((void)(ptr))
#endif

#endif
