/* Worker threads, for systems whose runtime has none that a call may do without.
 *
 * A call lays out its tasks and takes them itself, one by one; workers that are free take some too.
 * It waits for those that have begun, never for one that the system has not run or not given: with
 * no worker at all it computes everything. */
#ifndef LUCID_POOL_H
#define LUCID_POOL_H

#include "parallel.h"

/* Run task(context, i) for each i in [0, n) on the calling thread and at most `helpers` others. Any
 * number of threads may call at once, a task too. */
void lucid_pool_run(int helpers, size_t n, lucid_task task, void *context);

/* Call once, before the first run: a forked child begins without workers. */
void lucid_pool_init(void);

#endif
