#include "parallel.h"

#include <stdatomic.h>

#if defined(_OPENMP)
#include <omp.h>
#endif
#if defined(__APPLE__)
#include <dispatch/dispatch.h>
#include <pthread.h>
#elif !defined(_WIN32)
#include "pool.h"
#endif

static atomic_int found = 1, limit = 1;

#if defined(__APPLE__)
/* A forked child inherits none of the runtime's threads; asking for them would wait for ever. */
static atomic_int forked = 0;

static void after_fork(void) {
    atomic_store(&forked, 1);
}
#endif

void lucid_parallel_init(int cpus) {
    static atomic_int ready = 0;
    atomic_store(&found, cpus < 1 ? 1 : cpus);
    atomic_store(&limit, cpus < 1 ? 1 : cpus);
    if (atomic_exchange(&ready, 1)) return;
#if defined(__APPLE__)
    pthread_atfork(NULL, NULL, after_fork);
#elif !defined(_WIN32)
    lucid_pool_init();
#endif
}

void lucid_set_num_threads(int n) {
    atomic_store(&limit, n < 1 ? atomic_load(&found) : n);
}

int lucid_num_threads(void) {
    int n = atomic_load_explicit(&limit, memory_order_relaxed);
    if (n <= 1) return 1;
#if defined(__APPLE__)
    if (atomic_load_explicit(&forked, memory_order_relaxed)) return 1;
#endif
#if defined(_OPENMP)
    if (omp_in_parallel()) return 1;
    int runtime = omp_get_max_threads(), most = omp_get_thread_limit();
    if (runtime < n) n = runtime;
    if (most < n) n = most;
#endif
    return n;
}

#if defined(__APPLE__)
typedef struct {
    lucid_task task;
    void *context;
    size_t n;
    _Atomic size_t next;
} queue;

/* One worker of the thread limit: dispatch_apply has no limit of its own. */
static void drain(void *context, size_t worker) {
    queue *q = context;
    (void)worker;
    for (size_t i; (i = atomic_fetch_add(&q->next, 1)) < q->n;)
        q->task(q->context, i);
}
#endif

void lucid_parallel(size_t n, size_t elements, lucid_task task, void *context) {
    int threads = n > 1 && elements >= LUCID_PARALLEL_ELEMENTS ? lucid_num_threads() : 1;
    if ((size_t)threads > n) threads = (int)n;
    if (threads <= 1) {
        for (size_t i = 0; i < n; i++)
            task(context, i);
        return;
    }
#if defined(__APPLE__)
    queue q = {task, context, n, 0};
    dispatch_apply_f((size_t)threads, DISPATCH_APPLY_AUTO, &q, drain);
#elif !defined(_WIN32)
    lucid_pool_run(threads - 1, n, task, context);
#elif defined(_OPENMP)
    ptrdiff_t count = (ptrdiff_t)n; /* OpenMP 2 (MSVC's runtime) wants signed loop indices */
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads)
    for (ptrdiff_t i = 0; i < count; i++)
        task(context, (size_t)i);
#else
    for (size_t i = 0; i < n; i++)
        task(context, i);
#endif
}
