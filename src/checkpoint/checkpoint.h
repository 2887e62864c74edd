/* checkpoint/checkpoint.h — training state: state dicts, optimizer frames, checkpoint directories.
 *
 * Knows the reference's files and nothing of training. All of it is in quench/checkpoint.h. Start
 * reading at state_dict.c; checkpoint_dir.c has the order of a save. */
#ifndef QNI_CHECKPOINT_H
#define QNI_CHECKPOINT_H

#include "base/base.h"
#include "quench/checkpoint.h"

#endif
