/* base/base.h — what every room stands on: status and errors, memory, bytes, string map, files and
 * the operating system, thread pool, CPU features. Knows nothing of models. Start reading at
 * error_internal.h and bytes_internal.h; os_internal.h is the only way to the system. */
#ifndef QNI_BASE_H
#define QNI_BASE_H

#include <assert.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes_internal.h"
#include "base/compiler_internal.h"
#include "base/error_internal.h"
#include "base/memory_internal.h"
#include "base/os_internal.h"
#include "base/patch_internal.h"
#include "base/pool_internal.h"
#include "base/strmap_internal.h"
#include "base/turn_internal.h"
#include "quench/isa.h"

#include "base/banned.h"

#endif
