/* Groups of channels: each is read, solved and written while in cache. */
#include "schedule.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "platform/parallel.h"
#include "range.h"

#define LARGEST_GROUP 4194304 /* bytes of one whose rows then end with a line */
#define STRIPS 4              /* tasks per thread: runs of groups, written while the next is read */
#define LEAST_GROUPS 16       /* that threads share, if there are as many channels */

typedef struct {
    const job *j;
    size_t width, strip; /* channels of a group, of a strip of groups */
    atomic_int failed;   /* memory ran out */
} groups;

/* Even groups of rows are summed forwards, odd ones backwards, and combined the other way: what was
 * read last is first in cache. Which is which depends on shapes alone, as the sums do. */
static int backwards(const job *j, size_t first, size_t width) {
    return !j->walk.cols && first / width % 2;
}

static void walk_all(const job *j, const lucid_pass *p, const range *r, int back) {
    size_t pieces = j->walk.pieces;
    lucid_walk_run(&j->walk, p, r->first, r->n, back ? pieces : 0, back ? 0 : pieces, SIZE_MAX);
}

static void group_reduce(const job *j, const range *r, const scratch *s, int only_flagged,
                         int back) {
    lucid_pass p = lucid_range_sums(j, r, 0, r->n, only_flagged, s);
    walk_all(j, &p, r, back);
    lucid_range_fold(j, r, 0, r->n, only_flagged, s, r->totals, r->n);
}

static void group_solve(const job *j, const range *r, const scratch *s, int back) {
    if (!lucid_range_solve(j, r, 0)) return;
    group_reduce(j, r, s, 1, back);
    lucid_range_solve(j, r, 1);
}

static void group_combine(const job *j, const range *r, const scratch *s, int back) {
    lucid_pass p = lucid_range_affine(j, r, 0, r->n, s);
    if (p.output[0] >= 0 || p.output[1] >= 0) walk_all(j, &p, r, back);
}

/* The outputs of a group and, meanwhile, the sums of the next; returns whether these were taken. */
static int combine_fused(const job *j, const range *r, const range *next, const scratch *s,
                         int back) {
    lucid_pass p = lucid_range_affine(j, r, 0, r->n, s);
    if (p.flags || !j->reduces || !lucid_walk_fuses(&j->walk, &p, &j->sum)) return 0;
    lucid_pass sums = lucid_range_sums(j, next, 0, next->n, 0, s);
    p.next = &sums;
    p.next_channels = next->n;
    p.ahead = r->n;
    walk_all(j, &p, r, back);
    lucid_range_fold(j, next, 0, next->n, 0, s, next->totals, next->n);
    return 1;
}

/* The groups from `first` to `end`; `memory` holds two of them, if there are, and a scratch. */
static void run_strip(const job *j, size_t first, size_t end, size_t width, char *memory) {
    const size_t widest = least(width, end - first);
    const scratch s = lucid_scratch_at(j, widest, memory);
    char *place = memory + lucid_scratch_bytes(j, widest);
    char *other = place + lucid_range_bytes(j, widest);
    range r = lucid_range_at(j, first, widest, place);
    int reduced = 0;
    if (j->reduces) lucid_range_shift(j, &r, &s);
    for (;; first += width) {
        int back = backwards(j, first, width);
        if (j->reduces && !reduced) group_reduce(j, &r, &s, 0, back);
        group_solve(j, &r, &s, back);
        if (first + width >= end) {
            group_combine(j, &r, &s, !back);
            return;
        }
        range next = lucid_range_at(j, first + width, least(width, end - first - width), other);
        if (j->reduces) lucid_range_shift(j, &next, &s);
        reduced = combine_fused(j, &r, &next, &s, !back);
        if (!reduced) group_combine(j, &r, &s, !back);
        other = (char *)r.shift;
        r = next;
    }
}

static void strip(void *context, size_t index) {
    groups *g = context;
    const job *j = g->j;
    _Alignas(64) char small[SMALL_TASK];
    char *memory = small, *heap = NULL;
    size_t first = index * g->strip, end = least(j->walk.channels, first + g->strip);
    size_t widest = least(g->width, end - first), ranges = end - first > widest ? 2 : 1;
    size_t bytes = lucid_scratch_bytes(j, widest) + ranges * lucid_range_bytes(j, widest);
    if (bytes > sizeof small) {
        memory = heap = malloc(bytes);
        if (!heap) {
            atomic_store(&g->failed, 1);
            return;
        }
    }
    run_strip(j, first, end, g->width, memory);
    free(heap);
}

/* Channels whose rows end where a line does: outputs of neighbouring groups share no line, which
 * would be read and written twice. */
static size_t whole_lines(const lucid_walk *w) {
    size_t bytes = w->length * w->size, n = 1;
    while (n * bytes % 64)
        n *= 2;
    return n;
}

/* Channels of a group. In rows it depends on shapes alone, since it decides what is summed
 * backwards; in columns each is summed alike, and narrow groups walk memory badly. */
static size_t group_width(const job *j, size_t threads) {
    const lucid_walk *w = &j->walk;
    size_t bytes = w->count * w->size * (size_t)w->inputs, width = GROUP_BYTES / bytes;
    if (w->cols) {
        size_t share = (w->channels + threads - 1) / threads;
        width = least(width & ~(size_t)15, (share + 15) & ~(size_t)15);
        if (width < NARROW) width = NARROW;
    } else {
        size_t lines = whole_lines(w);
        if (width >= lines) width -= width % lines;
        else if (lines * bytes <= LARGEST_GROUP) width = lines;
        if (w->count * w->channels >= LUCID_PARALLEL_ELEMENTS)
            width = least(width, w->channels / LEAST_GROUPS);
    }
    return least(width < 1 ? 1 : width, lucid_range_limit(j));
}

int lucid_run_groups(const job *j) {
    const lucid_walk *w = &j->walk;
    size_t elements = w->count * w->channels;
    size_t threads = elements >= LUCID_PARALLEL_ELEMENTS ? (size_t)lucid_num_threads() : 1;
    size_t strips = threads == 1 ? 1 : STRIPS * threads;
    groups g = {.j = j, .width = group_width(j, threads)};
    g.strip = (w->channels + strips - 1) / strips;
    g.strip = (g.strip + g.width - 1) / g.width * g.width;
    lucid_parallel((w->channels + g.strip - 1) / g.strip, elements, strip, &g);
    return atomic_load(&g.failed) ? -1 : 0;
}
