/* patch_internal.h — the first bytes of a file replaced in place, and room made for more of them.
 *
 * A journal, FILE.quench-patch, holds the new bytes. It is on the disk before the file changes, and
 * goes when the change is on the disk. Whatever is killed in between, qni_patch_recover() makes
 * the new file of what there is, or finds that it still is the old one. */
#ifndef QNI_PATCH_INTERNAL_H
#define QNI_PATCH_INTERNAL_H

#include "base/os_internal.h"

typedef struct qni_patch {
    const uint8_t *head; /* the new first bytes */
    int64_t n_head;
    int64_t n_inserted;  /* bytes that come in at the front before: the rest of the file moves up */
    int64_t n_file;      /* of the file as it is */
    uint64_t old_digest; /* qni_hash64(, , 0) of its first n_head - n_inserted bytes, which go */
} qni_patch;

typedef enum qni_patch_outcome {
    QNI_PATCH_NONE = 0,  /* there is no journal */
    QNI_PATCH_DONE = 1,  /* the file is the new one now */
    QNI_PATCH_UNDONE = 2 /* the file is the old one: it had not been changed */
} qni_patch_outcome;

/* What a patch that bytes are to be inserted for must be a multiple of; also where it cannot be. */
QN_NODISCARD qn_status qni_patch_unit(const char *path, int64_t *out_n_bytes, qn_error *err);
/* Change the file. *out_is_claimed: nobody else had it open; else that could not be told.
 * QN_ERR_FILE_IN_USE, QN_ERR_PATCH_PENDING, QN_ERR_FILE_CHANGED (it is not what n_file and
 * old_digest say), QN_ERR_NO_ROOM (this file system inserts nothing), and what writing a file
 * returns: nothing has changed, unless the message says that the patch is to be finished. */
QN_NODISCARD qn_status qni_patch_apply(const char *path, const qni_patch *patch,
                                       const qn_allocator *allocator, bool *out_is_claimed,
                                       qn_error *err);
/* Finish what was interrupted. QN_ERR_STALE_JOURNAL: the journal is not of this file, or damaged;
 * nothing has changed. */
QN_NODISCARD qn_status qni_patch_recover(const char *path, const qn_allocator *allocator,
                                         qni_patch_outcome *out_outcome, qn_error *err);
/* QN_ERR_PATCH_PENDING if there is a journal beside the file. */
QN_NODISCARD qn_status qni_patch_check(const char *path, const qn_allocator *allocator,
                                       qn_error *err);

#endif
