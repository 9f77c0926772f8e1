#include "pool.h"

#if !defined(_WIN32) && !defined(__APPLE__)

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <time.h>

enum {
    STACK = 512 << 10, /* bytes: a task's, the thread-local variables of all libraries, a margin */
    LINGER = 10000,    /* ns: less than it takes to park and to be woken again */
};

/* One call, on its caller's stack. */
typedef struct call {
    lucid_task task;
    void *context;
    size_t n;
    _Atomic size_t next; /* task to be taken */
    atomic_int helping;  /* workers that have begun */
    int wanted;          /* that may still begin */
    struct call *older;
} call;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* of all that follows */
static pthread_cond_t posted = PTHREAD_COND_INITIALIZER, finished = PTHREAD_COND_INITIALIZER;
static call *newest;
static int workers, parked, waiting;
static atomic_int posts; /* calls posted so far; read without the mutex */

static int64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static inline void relax(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Wait a little for `value` to change from `seen`; 0 if it did not. */
static int linger(atomic_int *value, int seen) {
    for (int64_t end = now() + LINGER; now() < end;)
        for (int i = 0; i < 16; i++) {
            if (atomic_load_explicit(value, memory_order_acquire) != seen) return 1;
            relax();
        }
    return 0;
}

static void drain(call *c) {
    for (size_t i; (i = atomic_fetch_add_explicit(&c->next, 1, memory_order_relaxed)) < c->n;)
        c->task(c->context, i);
}

/* ---- Workers ---- */

static call *wanting(void) {
    for (call *c = newest; c; c = c->older)
        if (c->wanted > 0 && atomic_load_explicit(&c->next, memory_order_relaxed) < c->n) return c;
    return NULL;
}

static void *work(void *unused) {
    pthread_mutex_lock(&mutex);
    for (;;) {
        call *c = wanting();
        if (!c) { /* another often follows at once */
            int seen = atomic_load(&posts);
            pthread_mutex_unlock(&mutex);
            linger(&posts, seen);
            pthread_mutex_lock(&mutex);
            while (!(c = wanting())) {
                parked++;
                pthread_cond_wait(&posted, &mutex);
                parked--;
            }
        }
        c->wanted--;
        atomic_fetch_add(&c->helping, 1);
        pthread_mutex_unlock(&mutex);
        drain(c);
        pthread_mutex_lock(&mutex);
        if (atomic_fetch_sub(&c->helping, 1) == 1 && waiting) pthread_cond_broadcast(&finished);
    }
    return unused;
}

/* Have `wanted` workers, or as many as the system gives. Signals are for the program's own threads
 * to handle, but for those that a thread raises itself. */
static void hire(int wanted) {
    static const int own[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS};
    sigset_t blocked, before;
    pthread_attr_t attributes;
    pthread_t thread;
    if (workers >= wanted || pthread_attr_init(&attributes)) return;
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, STACK);
    sigfillset(&blocked);
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        sigdelset(&blocked, own[i]);
    pthread_sigmask(SIG_SETMASK, &blocked, &before);
    while (workers < wanted && !pthread_create(&thread, &attributes, work, NULL))
        workers++;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
}

/* ---- Calls ---- */

static void post(call *c) {
    pthread_mutex_lock(&mutex);
    hire(c->wanted);
    c->older = newest;
    newest = c;
    atomic_fetch_add(&posts, 1);
    int wake = parked < c->wanted ? parked : c->wanted;
    pthread_mutex_unlock(&mutex);
    while (wake-- > 0)
        pthread_cond_signal(&posted);
}

static void withdraw(call *c) {
    pthread_mutex_lock(&mutex);
    call **at = &newest;
    while (*at != c)
        at = &(*at)->older;
    *at = c->older;
    pthread_mutex_unlock(&mutex);
}

static void await(call *c) {
    int helping;
    while ((helping = atomic_load(&c->helping)) > 0)
        if (!linger(&c->helping, helping)) break;
    if (helping == 0) return;
    pthread_mutex_lock(&mutex);
    waiting++;
    while (atomic_load(&c->helping) > 0)
        pthread_cond_wait(&finished, &mutex);
    waiting--;
    pthread_mutex_unlock(&mutex);
}

void lucid_pool_run(int helpers, size_t n, lucid_task task, void *context) {
    call c = {.task = task, .context = context, .n = n, .wanted = helpers};
    post(&c);
    drain(&c);
    withdraw(&c);
    await(&c);
}

/* ---- Forks ---- */

static void before_fork(void) {
    pthread_mutex_lock(&mutex);
}

static void in_parent(void) {
    pthread_mutex_unlock(&mutex);
}

/* Other threads' calls and all workers stay behind. */
static void in_child(void) {
    mutex = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    posted = finished = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
    newest = NULL;
    workers = parked = waiting = 0;
}

void lucid_pool_init(void) {
    pthread_atfork(before_fork, in_parent, in_child);
}

#endif
