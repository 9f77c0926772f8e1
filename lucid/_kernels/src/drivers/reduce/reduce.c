/* The driver of mean and variance: deal.c makes tasks of the loops of a plan, leaves.c sums the
 * loops of a task into a tile of outputs, results.c writes these. */
#include "job.h"

#include <stdlib.h>
#include <string.h>

#include "platform/parallel.h"

/* Stacks may be small: with its caller, a task takes at most 32 KB of one. */
enum {
    SMALL = 384, /* doubles of a tile and its scratch memory that go there */
    LINE = 8,    /* doubles of a cache line */
};

/* The loops of one task, in `loops` if they are its own, and where its x and its results begin. */
static const loop *place(const job *j, size_t task, size_t part, loop *loops, ptrdiff_t *x,
                         ptrdiff_t *out) {
    const int own = j->cut >= 0 || j->parted >= 0;
    *x = j->r->plan.offset[0];
    *out = j->r->plan.offset[1];
    if (own) memcpy(loops, j->loops, (size_t)j->ndim * sizeof *loops);
    if (j->cut >= 0) {
        loop *l = &loops[j->cut];
        ptrdiff_t first = (ptrdiff_t)(task % j->chunks) * j->chunk;
        task /= j->chunks;
        if (l->length - first < j->chunk) l->length -= first;
        else l->length = j->chunk;
        *x += first * l->x;
        *out += first * l->out;
    }
    for (int i = j->nouter - 1; i >= 0; i--) {
        ptrdiff_t at = (ptrdiff_t)(task % (size_t)j->outer[i].length);
        task /= (size_t)j->outer[i].length;
        *x += at * j->outer[i].x;
        *out += at * j->outer[i].out;
    }
    if (j->parted >= 0) {
        loop *l = &loops[j->parted];
        ptrdiff_t first = (ptrdiff_t)part * j->part;
        l->length = l->length - first < j->part ? l->length - first : j->part;
        *x += first * l->x;
    }
    return own ? loops : j->loops;
}

static void run_task(void *context, size_t index) {
    job *j = context;
    loop own_loops[LUCID_MAX_NDIM];
    ptrdiff_t x, out;
    size_t task = index / j->parts, part = index % j->parts;
    const loop *loops = place(j, task, part, own_loops, &x, &out);
    _Alignas(64) double memory[SMALL];
    double *heap = NULL, *scratch = memory;
    size_t wanted = lucid_reduce_scratch(j, loops), doubles = j->fields * j->tile;
    size_t all = wanted + (j->partials ? 0 : doubles);
    if (all > SMALL) {
        heap = malloc((all + LINE) * sizeof *heap);
        if (!heap) {
            atomic_store(&j->failed, 1);
            return;
        }
        scratch = heap + (-(uintptr_t)heap / sizeof *heap & (LINE - 1));
    }
    double *own = j->partials ? j->partials + index * doubles : scratch + wanted;
    memset(own, 0, doubles * sizeof *own);
    lucid_moments tile = fields(own, j->tile);
    lucid_reduce_leaves(j, loops, j->r->x + x, tile, scratch);
    if (!j->partials && !lucid_reduce_results(j, loops, tile, out)) atomic_store(&j->nonfinite, 1);
    free(heap);
}

/* Merge the parts of one task, in order, into the first. */
static void merge_parts(void *context, size_t task) {
    job *j = context;
    loop memory[LUCID_MAX_NDIM];
    ptrdiff_t x, out;
    const loop *loops = place(j, task, 0, memory, &x, &out);
    double *own = j->partials + task * j->parts * j->fields * j->tile;
    lucid_moments first = fields(own, j->tile);
    for (size_t p = 1; p < j->parts; p++) {
        lucid_moments next = fields(own + p * j->fields * j->tile, j->tile);
        for (size_t k = 0; k < j->tile; k++)
            merge(first, k, next, k, j->r->variance != NULL);
    }
    if (!lucid_reduce_results(j, loops, first, out)) atomic_store(&j->nonfinite, 1);
}

int lucid_reduce(const lucid_kernels *kernels, const lucid_reduction *r) {
    job j;
    j.kernels = kernels;
    j.r = r;
    j.fields = r->variance ? FIELDS : 2;
    j.partials = NULL;
    atomic_init(&j.nonfinite, 0);
    atomic_init(&j.failed, 0);
    lucid_reduce_deal(&j);
    if (j.parts > 1) {
        j.partials = malloc(j.tasks * j.parts * j.fields * j.tile * sizeof(double));
        if (!j.partials) return LUCID_NO_MEMORY;
    }
    lucid_parallel(j.tasks * j.parts, j.elements, run_task, &j);
    if (j.parts > 1) {
        if (!atomic_load(&j.failed))
            lucid_parallel(j.tasks, j.tasks * j.parts * j.tile, merge_parts, &j);
        free(j.partials);
    }
    if (atomic_load(&j.failed)) return LUCID_NO_MEMORY;
    return atomic_load(&j.nonfinite) ? LUCID_NONFINITE : LUCID_OK;
}

int lucid_mean_few(const lucid_kernels *kernels, const void *x, int wide, size_t outer, size_t n,
                   size_t inner, void *out) {
    const lucid_entries_f32 *f32 = &kernels->compensated;
    const lucid_entries_f64 *f64 = &kernels->f64;
    const float *f = x;
    const double *d = x;
    double hi[LUCID_FEW / 2], lo[LUCID_FEW / 2];
    lucid_sums sums = {hi, lo};
    size_t outputs = outer * inner;
    memset(hi, 0, outputs * sizeof *hi);
    memset(lo, 0, outputs * sizeof *lo);
    if (inner == 1) {
        if (wide) f64->sum_rows(d, (ptrdiff_t)n, outer, n, 0, sums);
        else f32->sum_rows(f, (ptrdiff_t)n, outer, n, 0, sums);
    } else {
        for (size_t i = 0; i < outer; i++, sums.hi += inner, sums.lo += inner) {
            if (wide) f64->sum_cols(d + i * n * inner, (ptrdiff_t)inner, n, inner, sums);
            else f32->sum_cols(f + i * n * inner, (ptrdiff_t)inner, n, inner, sums);
        }
    }
    int finite = wide ? f64->means(hi, lo, outputs, (double)n, out)
                      : f32->means(hi, lo, outputs, (double)n, out);
    return finite ? LUCID_OK : LUCID_NONFINITE;
}
