/* The thread layer: the pool of pool.h, Grand Central Dispatch on macOS, OpenMP on Windows.
 * OpenMP's settings, which threadpoolctl changes, hold for the pool too; it never runs a thread
 * there.
 *
 * A task's index alone says what it computes, so that results do not depend on how many threads
 * share the tasks. */
#ifndef LUCID_PARALLEL_H
#define LUCID_PARALLEL_H

#include <stddef.h>

/* Work below this many elements stays on the calling thread: entering the thread runtime costs
 * more than it gains. */
#define LUCID_PARALLEL_ELEMENTS 65536

typedef void (*lucid_task)(void *context, size_t index);

/* Run task(context, i) for each i in [0, n), in any order, on at most lucid_num_threads() threads;
 * on the calling thread alone unless `elements` is worth more. */
void lucid_parallel(size_t n, size_t elements, lucid_task task, void *context);

/* Threads that the next parallel call may use: the limit, OpenMP's own setting, and 1 inside an
 * OpenMP region and, on macOS, in a forked child. */
int lucid_num_threads(void);

/* Set the limit, at least 1; 0 restores the one found when the library was loaded. */
void lucid_set_num_threads(int n);

/* Call once, when the library is loaded; `cpus` is the number of processors it may use. */
void lucid_parallel_init(int cpus);

#endif
