/* turn_internal.h — threads that work in any order and hand in their results in order.
 *
 * Each piece of work has a number. qni_turn_wait(n) returns when all pieces before n have been
 * passed; qni_turn_pass() lets the next one go on. Works with a pool because pieces are handed out
 * in order: the lowest piece under way never waits. */
#ifndef QNI_TURN_INTERNAL_H
#define QNI_TURN_INTERNAL_H

#include "base/memory_internal.h"

typedef struct qni_turn qni_turn;

QN_NODISCARD qn_status qni_turn_new(const qn_allocator *allocator, qni_turn **out_turn,
                                    qn_error *err);
void qni_turn_free(qni_turn *turn);
/* Piece `first` is the next to come; not while threads wait. */
void qni_turn_reset(qni_turn *turn, int64_t first);
/* False if an earlier piece has failed: this one's turn will never come. */
bool qni_turn_wait(qni_turn *turn, int64_t piece);
/* Called by the piece whose turn it is. */
void qni_turn_pass(qni_turn *turn);
/* This piece has failed: later ones return false; earlier ones, which are all under way, go on. */
void qni_turn_stop(qni_turn *turn, int64_t piece);

#endif
