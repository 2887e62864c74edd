/* turn.c — in-order hand-in for threads that work in any order. */
#include <pthread.h>

#include "base/base.h"

struct qni_turn {
    const qn_allocator *allocator;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int64_t next;
    int64_t stopped_at; /* lowest piece that failed */
};

qn_status qni_turn_new(const qn_allocator *allocator, qni_turn **out_turn, qn_error *err)
{
    *out_turn = NULL;
    qni_turn *turn = qni_alloc_zeroed(allocator, sizeof *turn);
    if (turn == NULL) {
        return qni_fail_memory(err, sizeof *turn);
    }
    turn->allocator = allocator;
    turn->stopped_at = INT64_MAX;
    if (pthread_mutex_init(&turn->lock, NULL) != 0) {
        qni_free(allocator, turn, sizeof *turn);
        return qni_fail_memory(err, sizeof *turn);
    }
    if (pthread_cond_init(&turn->changed, NULL) != 0) {
        pthread_mutex_destroy(&turn->lock);
        qni_free(allocator, turn, sizeof *turn);
        return qni_fail_memory(err, sizeof *turn);
    }
    *out_turn = turn;
    return QN_OK;
}

void qni_turn_free(qni_turn *turn)
{
    if (turn == NULL) {
        return;
    }
    pthread_cond_destroy(&turn->changed);
    pthread_mutex_destroy(&turn->lock);
    qni_free(turn->allocator, turn, sizeof *turn);
}

void qni_turn_reset(qni_turn *turn, int64_t first)
{
    pthread_mutex_lock(&turn->lock);
    turn->next = first;
    turn->stopped_at = INT64_MAX;
    pthread_mutex_unlock(&turn->lock);
}

bool qni_turn_wait(qni_turn *turn, int64_t piece)
{
    pthread_mutex_lock(&turn->lock);
    while (turn->next != piece && piece <= turn->stopped_at) {
        pthread_cond_wait(&turn->changed, &turn->lock);
    }
    const bool may_go_on = piece <= turn->stopped_at;
    pthread_mutex_unlock(&turn->lock);
    return may_go_on;
}

void qni_turn_pass(qni_turn *turn)
{
    pthread_mutex_lock(&turn->lock);
    turn->next++;
    pthread_cond_broadcast(&turn->changed);
    pthread_mutex_unlock(&turn->lock);
}

void qni_turn_stop(qni_turn *turn, int64_t piece)
{
    pthread_mutex_lock(&turn->lock);
    turn->stopped_at = qni_min_i64(turn->stopped_at, piece);
    pthread_cond_broadcast(&turn->changed);
    pthread_mutex_unlock(&turn->lock);
}
