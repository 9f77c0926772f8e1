/* Groups of channels: each is read, solved and written while in cache. */
#include "schedule.h"

#include "platform/parallel.h"
#include "range.h"

#define LARGEST_GROUP 4194304 /* bytes of one whose rows then end with a line */
#define STRIPS 4              /* tasks per thread: runs of groups, written while the next is read */
#define LEAST_GROUPS 16       /* that threads share, if there are as many channels */

typedef struct {
    const job *j;
    size_t width, strip; /* channels of a group, of a strip of groups */
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

/* A group and the arrays of its range. */
typedef struct {
    range r;
    double shift[LUCID_GROUP], totals[LUCID_TERMS * LUCID_GROUP];
    double coefficients[COEFFICIENTS * LUCID_GROUP];
    float narrow[COEFFICIENTS * LUCID_GROUP];
    unsigned char flags[LUCID_GROUP];
} group;

static void group_begin(const job *j, group *g, size_t first, size_t n) {
    g->r = (range){first, n, n, g->shift, g->totals, g->coefficients, g->narrow, g->flags};
    if (j->reduces) lucid_range_shift(j, &g->r);
}

static void group_reduce(const job *j, group *g, int only_flagged, int back) {
    double lanes[ROW_LANES];
    lucid_pass p = lucid_range_sums(j, &g->r, 0, g->r.n, only_flagged, lanes);
    walk_all(j, &p, &g->r, back);
    lucid_range_fold(j, &g->r, 0, g->r.n, only_flagged, lanes, g->totals, g->r.n);
}

static void group_solve(const job *j, group *g, int back) {
    if (!lucid_range_solve(j, &g->r, 0)) return;
    group_reduce(j, g, 1, back);
    lucid_range_solve(j, &g->r, 1);
}

static void group_combine(const job *j, const group *g, int back) {
    lucid_pass p = lucid_range_affine(j, &g->r, 0, g->r.n);
    if (p.output[0] >= 0 || p.output[1] >= 0) walk_all(j, &p, &g->r, back);
}

/* The outputs of a group and, meanwhile, the sums of the next; returns whether these were taken. */
static int combine_fused(const job *j, const group *g, group *next, int back) {
    double lanes[ROW_LANES];
    const range *r = &g->r, *n = &next->r;
    lucid_pass p = lucid_range_affine(j, r, 0, r->n);
    if (p.flags || !j->reduces || !lucid_walk_fuses(&j->walk, &p, &j->sum)) return 0;
    lucid_pass sums = lucid_range_sums(j, n, 0, n->n, 0, lanes);
    p.next = &sums;
    p.next_channels = n->n;
    p.ahead = r->n;
    walk_all(j, &p, r, back);
    lucid_range_fold(j, n, 0, n->n, 0, lanes, next->totals, n->n);
    return 1;
}

static void strip(void *context, size_t index) {
    const groups *s = context;
    const job *j = s->j;
    group pair[2], *g = &pair[0], *next = &pair[1];
    size_t first = index * s->strip, end = least(j->walk.channels, first + s->strip);
    int reduced = 0;
    group_begin(j, g, first, least(s->width, end - first));
    for (;; first += s->width) {
        int back = backwards(j, first, s->width);
        if (j->reduces && !reduced) group_reduce(j, g, 0, back);
        group_solve(j, g, back);
        if (first + s->width >= end) {
            group_combine(j, g, !back);
            return;
        }
        group_begin(j, next, first + s->width, least(s->width, end - first - s->width));
        reduced = combine_fused(j, g, next, !back);
        if (!reduced) group_combine(j, g, !back);
        group *swap = g;
        g = next;
        next = swap;
    }
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

void lucid_run_groups(const job *j) {
    const lucid_walk *w = &j->walk;
    size_t elements = w->count * w->channels;
    size_t threads = elements >= LUCID_PARALLEL_ELEMENTS ? (size_t)lucid_num_threads() : 1;
    size_t strips = threads == 1 ? 1 : STRIPS * threads;
    groups g = {j, group_width(j, threads), (w->channels + strips - 1) / strips};
    g.strip = (g.strip + g.width - 1) / g.width * g.width;
    lucid_parallel((w->channels + g.strip - 1) / g.strip, elements, strip, &g);
}
