/* optimizer_internal.h — optimizer frames, what reader and writer share.
 *
 *     magic    4 bytes: FZ, a letter for the kind, the version
 *     config   SGD: f32 momentum, f32 dampening, u8 nesterov
 *              Muon: u8 scale mode, u8 nesterov, u32 ns_steps
 *     count    u32, then as many slots:
 *              u16 length, name, u64 rows, u64 cols, [u64 step, not of Muon]
 *              buffers, rows * cols elements each: version 3 raw f32; 4 and 5: u8 type (0 f32, 1
 * bf16) before each version 5: u8 flag, then f32 master weights if it is 1 Muon is followed by an
 * AdamW frame; a set is a magic, u32 count and whole frames. */
#ifndef QNI_OPTIMIZER_INTERNAL_H
#define QNI_OPTIMIZER_INTERNAL_H

#include "checkpoint/checkpoint.h"

#define OPTIMIZER_MAX_MEMBERS 64
#define OPTIMIZER_MAX_NAME    65535

typedef struct optimizer_row {
    const char *name;
    const char *magics[3]; /* of versions 3, 4, 5; NULL: there is none */
    int n_buffers;
    bool has_step;
} optimizer_row;

extern const optimizer_row qni_optimizer_rows[QN_OPTIMIZER_SET + 1];

#endif
