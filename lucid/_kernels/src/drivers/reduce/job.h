/* One reduction, as the files of its driver share it. */
#ifndef LUCID_REDUCE_JOB_H
#define LUCID_REDUCE_JOB_H

#include <stdatomic.h>

#include "contract/numerics.h"
#include "drivers/reduce.h"

typedef struct {
    ptrdiff_t length, x, out; /* steps in bytes */
    size_t tile;              /* step within the tile; 0 for a reduced loop */
    int reduced;
} loop;

typedef struct {
    const lucid_kernels *kernels;
    const lucid_reduction *r;
    loop outer[LUCID_MAX_NDIM]; /* those dealt to tasks; behind them, outermost first, */
    loop *loops;                /* those inside a task */
    int nouter, ndim, partner;  /* the last two to be run: `partner` and ndim - 1 */
    int cut, parted;            /* the kept loop in chunks, the reduced one in parts; -1 for none */
    ptrdiff_t chunk, part;
    size_t chunks, parts, tasks, tile, elements;
    int wide;   /* entries for double, not float */
    int few;    /* elements: float ones are summed as exactly as double ones */
    int direct; /* they take x as it lies */
    ptrdiff_t itemsize;
    size_t fields;    /* of a tile: FIELDS, or 2 where only sums are wanted */
    double *partials; /* [task][part][fields][tile] */
    atomic_int nonfinite, failed;
} job;

enum { FIELDS = 6 }; /* of the moments of an output */

static inline size_t least(size_t a, size_t b) {
    return a < b ? a : b;
}

/* The accumulators of a tile in `memory`, and those from its output k on. */
static inline lucid_moments fields(double *memory, size_t tile) {
    return (lucid_moments){{memory, memory + tile},
                           memory + 2 * tile,
                           memory + 3 * tile,
                           memory + 4 * tile,
                           memory + 5 * tile};
}

static inline lucid_moments shifted(lucid_moments a, size_t k) {
    return (lucid_moments){
        {a.sums.hi + k, a.sums.lo + k}, a.count + k, a.shift + k, a.mean + k, a.m2 + k};
}

/* Add output k of `b` to output i of `a`. */
static inline void merge(lucid_moments a, size_t i, lucid_moments b, size_t k, int variance) {
    a.sums.lo[i] += b.sums.lo[k];
    TWO_SUM(a.sums.hi[i], a.sums.lo[i], b.sums.hi[k]);
    if (!variance || b.count[k] == 0) return;
    double before = a.count[i], n = b.count[k], total = before + n;
    if (before == 0) a.shift[i] = b.shift[k];
    double delta = (b.shift[k] - a.shift[i]) + (b.mean[k] - a.mean[i]);
    a.mean[i] += delta * (n / total);
    a.m2[i] += b.m2[k] + delta * delta * (before * n / total);
    a.count[i] = total;
}

/* Sets all that follows from the plan, given `kernels`, `r` and `fields`. */
void lucid_reduce_deal(job *j);

/* Doubles of scratch memory that the task's `loops` need: buffers are too large for a small stack.
 */
size_t lucid_reduce_scratch(const job *j, const loop *loops);

/* Add to the tile `out` what the task's `loops` find at `x`; `scratch` is aligned to 64. */
void lucid_reduce_leaves(const job *j, const loop *loops, const char *x, lucid_moments out,
                         double *scratch);

/* Write the tile of a task to `at` bytes into the results; 0 if one is then infinite or NaN. */
int lucid_reduce_results(const job *j, const loop *loops, lucid_moments tile, ptrdiff_t at);

#endif
