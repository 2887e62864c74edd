/* pool_internal.h — a fixed set of threads that run numbered pieces of work.
 *
 * The caller's thread takes part, so a pool of 1 starts no thread. Pieces are handed out in order;
 * the first failure stops handing out, the others finish, and the failure with the lowest piece
 * number is the one reported: so the outcome does not depend on the number of threads. */
#ifndef QNI_POOL_INTERNAL_H
#define QNI_POOL_INTERNAL_H

#include "base/memory_internal.h"

typedef struct qni_pool qni_pool;

/* One piece. `worker` is 0..n_threads-1, for per-thread scratch. */
typedef qn_status (*qni_work_fn)(void *ctx, int64_t piece, int worker, qn_error *err);

/* n_threads >= 1; 0 means one per processor. */
QN_NODISCARD qn_status qni_pool_new(int n_threads, const qn_allocator *allocator,
                                    qni_pool **out_pool, qn_error *err);
void qni_pool_free(qni_pool *pool);
int qni_pool_n_threads(const qni_pool *pool);
/* Run pieces 0..n_pieces-1 and wait for them. One run at a time per pool. */
QN_NODISCARD qn_status qni_pool_run(qni_pool *pool, int64_t n_pieces, qni_work_fn work, void *ctx,
                                    qn_error *err);
/* Ask a run that is under way to stop with QN_ERR_CANCELLED; any thread. */
void qni_pool_cancel(qni_pool *pool);

#endif
