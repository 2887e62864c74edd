/* os_system_internal.h — what os_posix.c asks of the one system-specific os_*.c that is built. */
#ifndef QNI_OS_SYSTEM_INTERNAL_H
#define QNI_OS_SYSTEM_INTERNAL_H

#include <stdint.h>

/* Reserve space so that later writes cannot run out of it. 0, or an errno value; a file system that
 * cannot reserve is no error. */
int qni_system_preallocate(int fd, int64_t n_bytes);

#endif
