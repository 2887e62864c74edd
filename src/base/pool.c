/* pool.c — a thread pool on pthreads (ThreadSanitizer does not know C11 threads here). */
#include <pthread.h>
#include <stdatomic.h>

#include "base/base.h"

#define MAX_THREADS 1024
/* As much as glibc gives; musl gives a thread 128 KiB, and encoders keep tens of KiB there. */
#define STACK_BYTES ((size_t)8 << 20)
/* How long a thread looks for work, or for the end of it, before it sleeps. To wake it takes the
 * system 50 to 100 us in a virtual machine, a product of a matrix and one vector as many, and the
 * next product comes soon. */
#define SPIN_SECONDS 200e-6
#define SPINS        32 /* between looks at the clock */

struct qni_pool {
    const qn_allocator *allocator;
    int n_threads;
    pthread_t *threads; /* n_threads - 1 of them: the caller is worker 0 */
    pthread_mutex_t lock;
    pthread_cond_t wake;             /* a new run, or quit */
    pthread_cond_t idle;             /* the last worker has left the run */
    bool may_spin;                   /* every thread has a processor */
    int n_started;                   /* this and the next under lock */
    bool is_open;                    /* a worker that comes now may take part */
    atomic_uint_fast64_t generation; /* counts runs; these three change under lock */
    atomic_int n_active;             /* workers that take part, without the caller */
    atomic_bool is_quitting;

    /* the run under way */
    qni_work_fn work;
    void *ctx;
    int64_t n_pieces;
    atomic_int_fast64_t next_piece;
    atomic_bool is_stopped;
    atomic_bool is_cancelled;
    int64_t failed_piece; /* under lock */
    qn_error failure;     /* under lock */
};

static void record_failure(qni_pool *pool, int64_t piece, qn_status status, const qn_error *failure)
{
    pthread_mutex_lock(&pool->lock);
    if (pool->failed_piece < 0 || piece < pool->failed_piece) {
        pool->failed_piece = piece;
        pool->failure = *failure;
        pool->failure.status = status;
    }
    pthread_mutex_unlock(&pool->lock);
    atomic_store(&pool->is_stopped, true);
}

static void run_pieces(qni_pool *pool, int worker)
{
    while (!atomic_load(&pool->is_stopped)) {
        const int64_t piece = atomic_fetch_add(&pool->next_piece, 1);
        if (piece >= pool->n_pieces) {
            break;
        }
        qn_error failure = QN_ERROR_INIT;
        const qn_status status = pool->work(pool->ctx, piece, worker, &failure);
        if (status != QN_OK) {
            record_failure(pool, piece, status, &failure);
        }
    }
}

static bool is_wanted(qni_pool *pool, uint64_t seen)
{
    return atomic_load(&pool->generation) != seen || atomic_load(&pool->is_quitting);
}

static bool is_deserted(qni_pool *pool, uint64_t unused)
{
    (void)unused;
    return atomic_load(&pool->n_active) == 0;
}

/* Look for a while whether something is so. */
static void spin(qni_pool *pool, bool (*is_so)(qni_pool *pool, uint64_t arg), uint64_t arg)
{
    if (!pool->may_spin) {
        return;
    }
    const double end = qni_clock_seconds() + SPIN_SECONDS;
    do {
        for (int i = 0; i < SPINS; i++) {
            if (is_so(pool, arg)) {
                return;
            }
            QNI_RELAX();
        }
    } while (qni_clock_seconds() < end);
}

/* A worker that comes when the others have finished stays out, so that nobody waits for it. */
static void take_part(qni_pool *pool, int worker)
{
    pthread_mutex_lock(&pool->lock);
    const bool is_open = pool->is_open;
    atomic_fetch_add(&pool->n_active, is_open);
    pthread_mutex_unlock(&pool->lock);
    if (!is_open) {
        return;
    }
    run_pieces(pool, worker);
    pthread_mutex_lock(&pool->lock);
    if (atomic_fetch_sub(&pool->n_active, 1) == 1) {
        pthread_cond_signal(&pool->idle);
    }
    pthread_mutex_unlock(&pool->lock);
}

static void *worker_main(void *arg)
{
    qni_pool *pool = arg;
    uint64_t seen = 0;
    pthread_mutex_lock(&pool->lock);
    const int worker = ++pool->n_started;
    pthread_mutex_unlock(&pool->lock);
    for (;;) {
        spin(pool, is_wanted, seen);
        pthread_mutex_lock(&pool->lock);
        while (!is_wanted(pool, seen)) {
            pthread_cond_wait(&pool->wake, &pool->lock);
        }
        seen = atomic_load(&pool->generation);
        pthread_mutex_unlock(&pool->lock);
        if (atomic_load(&pool->is_quitting)) {
            return NULL;
        }
        take_part(pool, worker);
    }
}

static int start_thread(qni_pool *pool, pthread_t *out_thread)
{
    pthread_attr_t attributes;
    int failed = pthread_attr_init(&attributes);
    if (failed) {
        return failed;
    }
    failed = pthread_attr_setstacksize(&attributes, STACK_BYTES);
    if (!failed) {
        failed = pthread_create(out_thread, &attributes, worker_main, pool);
    }
    (void)pthread_attr_destroy(&attributes);
    return failed;
}

/* Stop and join the first n threads. */
static void join_threads(qni_pool *pool, int n)
{
    pthread_mutex_lock(&pool->lock);
    atomic_store(&pool->is_quitting, true);
    pthread_cond_broadcast(&pool->wake);
    pthread_mutex_unlock(&pool->lock);
    for (int i = 0; i < n; i++) {
        pthread_join(pool->threads[i], NULL);
    }
}

static void free_pool(qni_pool *pool)
{
    pthread_cond_destroy(&pool->idle);
    pthread_cond_destroy(&pool->wake);
    pthread_mutex_destroy(&pool->lock);
    qni_free(pool->allocator, pool->threads, (size_t)pool->n_threads * sizeof *pool->threads);
    qni_free(pool->allocator, pool, sizeof *pool);
}

qn_status qni_pool_new(int n_threads, const qn_allocator *allocator, qni_pool **out_pool,
                       qn_error *err)
{
    *out_pool = NULL;
    QN_CHECK(n_threads >= 0 && n_threads <= MAX_THREADS, err, QN_ERR_INVALID_ARGUMENT, -1,
             "%d threads: give 1 to %d, or 0 for one per processor", n_threads, MAX_THREADS);
    const int n = n_threads > 0 ? n_threads : qni_cpu_count();
    qni_pool *pool = qni_alloc_zeroed(allocator, sizeof *pool);
    if (!pool) {
        return qni_fail_memory(err, sizeof *pool);
    }
    pool->allocator = allocator;
    pool->n_threads = n;
    pool->may_spin = n <= qni_cpu_count();
    pool->threads = qni_alloc(allocator, (size_t)n * sizeof *pool->threads);
    if (!pool->threads) {
        qni_free(allocator, pool, sizeof *pool);
        return qni_fail_memory(err, (size_t)n * sizeof *pool->threads);
    }
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->wake, NULL);
    pthread_cond_init(&pool->idle, NULL);
    for (int i = 0; i < n - 1; i++) {
        const int failed = start_thread(pool, &pool->threads[i]);
        if (failed) {
            join_threads(pool, i);
            free_pool(pool);
            return qni_fail_errno(err, failed, NULL,
                                  "cannot start thread %d of %d; ask for fewer threads", i + 2, n);
        }
    }
    *out_pool = pool;
    return QN_OK;
}

void qni_pool_free(qni_pool *pool)
{
    if (pool) {
        join_threads(pool, pool->n_threads - 1);
        free_pool(pool);
    }
}

int qni_pool_n_threads(const qni_pool *pool)
{
    return pool->n_threads;
}

/* Let workers in; not for a single piece, which the caller has done before one is awake. */
static void open_run(qni_pool *pool)
{
    if (pool->n_threads == 1 || pool->n_pieces <= 1) {
        return;
    }
    pthread_mutex_lock(&pool->lock);
    pool->is_open = true;
    atomic_fetch_add(&pool->generation, 1);
    pthread_cond_broadcast(&pool->wake);
    pthread_mutex_unlock(&pool->lock);
}

/* Let no more workers in, and wait for those that are. */
static void close_run(qni_pool *pool)
{
    pthread_mutex_lock(&pool->lock);
    pool->is_open = false;
    pthread_mutex_unlock(&pool->lock);
    spin(pool, is_deserted, 0);
    pthread_mutex_lock(&pool->lock);
    while (!is_deserted(pool, 0)) {
        pthread_cond_wait(&pool->idle, &pool->lock);
    }
    pthread_mutex_unlock(&pool->lock);
}

qn_status qni_pool_run(qni_pool *pool, int64_t n_pieces, qni_work_fn work, void *ctx, qn_error *err)
{
    pool->work = work;
    pool->ctx = ctx;
    pool->n_pieces = n_pieces;
    pool->failed_piece = -1;
    atomic_store(&pool->next_piece, 0);
    atomic_store(&pool->is_stopped, false);
    atomic_store(&pool->is_cancelled, false);
    open_run(pool);
    run_pieces(pool, 0);
    close_run(pool);

    if (pool->failed_piece >= 0) {
        if (err) {
            *err = pool->failure;
        }
        return pool->failure.status;
    }
    QN_CHECK(!atomic_load(&pool->is_cancelled), err, QN_ERR_CANCELLED, -1, "cancelled");
    return QN_OK;
}

void qni_pool_cancel(qni_pool *pool)
{
    atomic_store(&pool->is_cancelled, true);
    atomic_store(&pool->is_stopped, true);
}
