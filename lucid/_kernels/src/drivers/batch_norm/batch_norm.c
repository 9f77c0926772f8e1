#include "drivers/batch_norm.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "walk.h"
#include "platform/parallel.h"

#define COEFFICIENTS 8
#define ROW_LANES 2560        /* sums of the channels of a group, in lanes */
#define GROUP_BYTES 524288    /* of a group of channels; two groups share L2 with what passes by */
#define LARGEST_GROUP 4194304 /* one whose rows then end with a line */
#define STRIPS 4              /* tasks per thread: runs of groups, written while the next is read */
#define CHANNEL_BYTES 16777216 /* no part of a larger channel is still in cache */
#define NARROW 64              /* least columns of a group */
#define FEW_CHANNELS 8         /* fewer are split for the threads */
#define LEAST_GROUPS 16        /* that threads share, if there are as many channels */
#define BLOCKS 16              /* most parts that channels are split into */
#define BLOCK_ELEMENTS 32768

/* One call. Vectors over the channels are doubles. */
typedef struct job {
    lucid_pass sum, affine;
    int reduces;      /* are there sums to take? */
    int wide_running; /* can running_var hold what is too small for a float? */
    double inverse;   /* 1 / m, or 0 if the statistics are constants */
    double unbiased;  /* m / (m - 1) */
    double momentum, eps;
    double *weight, *bias, *mean, *rstd, *running_mean, *running_var, *w, *u;
    double *dweight, *dbias;
    enum { FORWARD, INFERENCE, BACKWARD, DOUBLE_BACKWARD } call;
    lucid_walk walk; /* last, since it is too large to be cleared in a small call */
} job;

static size_t least(size_t a, size_t b) {
    return a < b ? a : b;
}

static int terms_of(int order) {
    return order == 2 ? LUCID_TERMS : 2;
}

static int coefficients_of(int order) {
    return order == 0 ? 3 : order == 1 ? 4 : COEFFICIENTS;
}

/* ---- The algebra of one channel ----
 *
 * From its sums, taken about `shift`, its results and its coefficients q. Returns 1 to ask, unless
 * `last`, for the sums to be taken again, wide and about a better shift. */

#define INLINE static inline __attribute__((always_inline))

/* What entries subtract from x: exact in the type they compute in. */
INLINE double representable(const job *j, double mean) {
    return j->walk.size == 4 ? (double)(float)mean : mean;
}

/* y = (x - m) a + b, where b makes good that m is only nearly the mean, mean + rest. */
INLINE void forward_affine(const job *j, size_t c, double rest, double *q) {
    double m = representable(j, j->mean[c]), a = j->weight[c] * j->rstd[c];
    double off = (m - j->mean[c]) - rest;
    q[0] = m;
    q[1] = a;
    q[2] = j->bias[c];
    if (isfinite(a) && off != 0) q[2] += off * a;
}

INLINE double rsqrt(const job *j, double x) {
    double (*provided)(double) = j->walk.kernels->rsqrt;
    return provided ? provided(x) : 1 / sqrt(x);
}

/* Not a step from the old value to the new, which would round away one that is much smaller. */
INLINE void move(const job *j, double *running, double value) {
    *running = (1 - j->momentum) * *running + j->momentum * value;
}

/* Does a variance below the squares of floats, 1e-45, show in the running one? */
INLINE int tells(const job *j, size_t c) {
    return j->wide_running && fabs((1 - j->momentum) * j->running_var[c]) < 1e-28;
}

INLINE int solve_forward(const job *j, size_t c, const double *s, double shift, int last,
                         double *q) {
    const double tiny = j->walk.size == 4 ? 1e-30 : 1e-290;
    double d = s[0] * j->inverse, var = s[1] * j->inverse - d * d;
    /* Far from the shift digits cancel, far from 1 squares leave the type's range. */
    if (!last) {
        if (!(d * d <= 16 * var) || !(var < DBL_MAX)) return 1;
        if (var < tiny && (s[0] != 0 || s[1] != 0 || j->eps < tiny || tells(j, c))) return 1;
    }
    if (var < 0) var = 0;
    /* The squares of finite numbers from 1e154 may overflow: then y is the bias. */
    if (!(var < DBL_MAX) && isfinite(s[0])) var = INFINITY;
    const double mean = shift + d;
    j->mean[c] = mean;
    /* 0 where there is no deviation and no eps, so that y is the bias and the gradients finite. */
    j->rstd[c] = var + j->eps == 0 ? 0 : rsqrt(j, var + j->eps);
    if (j->running_mean) move(j, &j->running_mean[c], mean);
    if (j->running_var) move(j, &j->running_var[c], var * j->unbiased);
    forward_affine(j, c, d - (mean - shift), q);
    return 0;
}

INLINE int solve_inference(const job *j, size_t c, const double *s, double shift, int last,
                           double *q) {
    (void)s, (void)shift, (void)last;
    j->mean[c] = j->running_mean[c];
    j->rstd[c] = rsqrt(j, j->running_var[c] + j->eps);
    forward_affine(j, c, 0, q);
    return 0;
}

INLINE int solve_backward(const job *j, size_t c, const double *s, double shift, int last,
                          double *q) {
    const double r = j->rstd[c], a = j->weight[c] * r, i = j->inverse;
    double g = s[0], gd = s[1] - (j->mean[c] - shift) * s[0];
    if (!last && j->reduces && !(isfinite(g) && isfinite(gd))) return 1;
    if (j->dbias) j->dbias[c] = g;
    if (j->dweight) j->dweight[c] = r * gd;
    if (i == 0) { /* dx = a dy, whatever x is */
        q[0] = q[2] = q[3] = 0;
        q[1] = a;
        return 0;
    }
    q[0] = representable(j, j->mean[c]);
    q[1] = a;
    q[2] = -i * a * r * (r * gd);
    q[3] = -i * a * g - q[2] * (j->mean[c] - q[0]);
    return 0;
}

INLINE int solve_double_backward(const job *j, size_t c, const double *s, double shift, int last,
                                 double *q) {
    const double r = j->rstd[c], a = j->weight[c] * r, i = j->inverse, off = j->mean[c] - shift;
    const double w = j->w[c], u = j->u[c];
    double g = s[0], v = s[1], gd = s[2] - off * g, vd = s[3] - off * v, vg = s[4];
    if (!last && !(isfinite(gd) && isfinite(vd) && isfinite(vg) && isfinite(g) && isfinite(v)))
        return 1;
    double gm = i * g, vm = i * v, qx = i * (r * gd), p = i * (r * vd);
    double t = vg - vm * g - p * (r * gd);
    if (j->dweight) j->dweight[c] = r * t;
    q[0] = representable(j, j->mean[c]);
    const double delta = j->mean[c] - q[0];
    q[1] = a;
    q[2] = r * (w - a * p);
    q[3] = u - a * vm - q[2] * delta;
    q[4] = r * (w - a * p);
    q[5] = -a * r * qx;
    q[6] = -r * r * (w * qx - 2 * a * p * qx + i * a * t);
    q[7] = -r * (w * gm - a * (gm * p + vm * qx)) - q[6] * delta;
    return 0;
}

/* Is a coefficient beyond 2^+-122, near the limits of float? */
INLINE int extreme(const double *q, const int n) {
    int found = 0;
    for (int k = 0; k < n; k++) {
        uint64_t bits;
        memcpy(&bits, &q[k], 8);
        int exponent = (int)(bits >> 52 & 0x7ff) - 1023;
        found |= exponent > 122 || (k > 0 && exponent < -122 && exponent != -1023);
    }
    return found;
}

/* ---- A range of channels ---- */

/* Arrays over the channels [first, first + n); planes lie `pitch` apart. */
typedef struct {
    size_t first, n, pitch;
    double *shift, *totals, *coefficients;
    float *narrow_shift, *narrow; /* the same for float entries */
    unsigned char *flags;
} range;

static const void *narrowed(const job *j, const double *values, const float *floats) {
    return j->walk.size == 4 ? (const void *)floats : values;
}

/* The mean of the first elements: near enough that few digits cancel. */
static void first_shift(const job *j, const range *r) {
    if (j->sum.order > 0) {
        for (size_t c = 0; c < r->n; c++)
            r->shift[c] = representable(j, j->mean[r->first + c]);
    } else {
        size_t limit = least(j->walk.length, j->walk.cols ? 16 : 512);
        double sums[2 * LUCID_GROUP];
        lucid_pass p = j->sum;
        p.kind = LUCID_START;
        p.sums = sums;
        for (size_t c = 0; c < r->n; c += LUCID_GROUP) {
            size_t n = least(r->n - c, LUCID_GROUP);
            p.pitch = n;
            memset(sums, 0, 2 * n * sizeof *sums);
            lucid_walk_run(&j->walk, &p, r->first + c, n, 0, 1, limit);
            for (size_t k = 0; k < n; k++) {
                double mean = representable(j, sums[k] / (double)limit);
                r->shift[c + k] = isfinite(mean) ? mean : 0;
            }
        }
    }
    if (j->walk.size == 4)
        for (size_t c = 0; c < r->n; c++)
            r->narrow_shift[c] = (float)r->shift[c];
}

static double fold(const double *lanes) {
    double a[LUCID_LANES];
    memcpy(a, lanes, sizeof a);
    for (int half = LUCID_LANES / 2; half > 0; half /= 2)
        for (int k = 0; k < half; k++)
            a[k] += a[k + half];
    return a[0];
}

static lucid_pass sum_pass(const job *j, const range *r, size_t at, size_t n, int only_flagged,
                           double *lanes) {
    lucid_pass p = j->sum;
    p.flags = only_flagged ? r->flags + at : NULL;
    p.only_flagged = only_flagged;
    p.wide = r->shift + at;
    p.narrow = narrowed(j, r->shift + at, r->narrow_shift + at);
    p.pitch = n;
    p.sums = lanes;
    size_t each = j->walk.cols ? 1 : LUCID_LANES;
    memset(lanes, 0, n * (size_t)terms_of(p.order) * each * sizeof *lanes);
    return p;
}

/* Lanes of channels [at, at + n) of the range to totals[t * pitch + c]. */
static void fold_all(const job *j, const range *r, size_t at, size_t n, int only_flagged,
                     const double *lanes, double *totals, size_t pitch) {
    const size_t terms = (size_t)terms_of(j->sum.order);
    for (size_t t = 0; t < terms; t++)
        for (size_t c = 0; c < n; c++) {
            if (only_flagged && !r->flags[at + c]) continue;
            totals[t * pitch + c] =
                j->walk.cols ? lanes[t * n + c] : fold(lanes + (c * terms + t) * LUCID_LANES);
        }
}

/* Sums of channels [at, at + n) of the range over pieces [from, to), to totals[t * pitch + c]. */
static void reduce(const job *j, const range *r, size_t at, size_t n, size_t from, size_t to,
                   int only_flagged, double *totals, size_t pitch) {
    double lanes[ROW_LANES];
    lucid_pass p = sum_pass(j, r, at, n, only_flagged, lanes);
    lucid_walk_run(&j->walk, &p, r->first + at, n, from, to, SIZE_MAX);
    fold_all(j, r, at, n, only_flagged, lanes, totals, pitch);
}

/* Channels that `reduce` takes at once. */
static size_t reduce_limit(const job *j) {
    size_t terms = (size_t)terms_of(j->sum.order);
    return j->walk.cols ? least(LUCID_GROUP, ROW_LANES / terms) : ROW_LANES / (terms * LUCID_LANES);
}

INLINE void set_coefficients(const job *j, const range *r, size_t c, const double *q, const int n) {
    r->flags[c] = (unsigned char)(j->walk.wide && extreme(q, n));
    for (int k = 0; k < n; k++) {
        size_t at = (size_t)k * r->pitch + c;
        r->coefficients[at] = q[k];
        if (j->walk.size == 4) r->narrow[at] = (float)q[k];
    }
}

static double better_shift(const job *j, const range *r, size_t c) {
    double mean = j->sum.order > 0 ? j->mean[r->first + c]
                                   : r->shift[c] + r->totals[c] / (double)j->walk.count;
    return isfinite(mean) ? mean : 0;
}

typedef int (*solver)(const job *, size_t, const double *, double, int, double *);

INLINE int solve_with(const solver one, const int terms, const int n, const job *j, const range *r,
                      int again) {
    int repeat = 0;
    for (size_t c = 0; c < r->n; c++) {
        double s[LUCID_TERMS] = {0}, q[COEFFICIENTS];
        if (again && !r->flags[c]) continue;
        if (j->reduces)
            for (int t = 0; t < terms; t++)
                s[t] = r->totals[(size_t)t * r->pitch + c];
        if (one(j, r->first + c, s, j->reduces ? r->shift[c] : 0, again, q)) {
            r->shift[c] = better_shift(j, r, c);
            r->flags[c] = 2;
            repeat = 1;
        } else {
            set_coefficients(j, r, c, q, n);
        }
    }
    return repeat;
}

/* Solve all channels, or the flagged ones for the last time; returns whether any is then flagged
 * to be reduced again. Afterwards the flags say whose coefficients are extreme. */
static int solve(const job *j, const range *r, int again) {
    switch (j->call) {
    case FORWARD:
        return solve_with(solve_forward, 2, 3, j, r, again);
    case INFERENCE:
        return solve_with(solve_inference, 0, 3, j, r, again);
    case BACKWARD:
        return j->inverse == 0 ? solve_with(solve_backward, 2, 3, j, r, again)
                               : solve_with(solve_backward, 2, 4, j, r, again);
    default:
        return solve_with(solve_double_backward, LUCID_TERMS, COEFFICIENTS, j, r, again);
    }
}

/* Keep only the flags of channels to be reduced again; `refresh_flags` then finds anew whose
 * coefficients are extreme. */
static void keep_repeats(const range *r) {
    for (size_t c = 0; c < r->n; c++)
        r->flags[c] = r->flags[c] == 2;
}

static void refresh_flags(const job *j, const range *r) {
    int n = coefficients_of(j->affine.order);
    for (size_t c = 0; c < r->n; c++) {
        double q[COEFFICIENTS];
        for (int k = 0; k < n; k++)
            q[k] = r->coefficients[(size_t)k * r->pitch + c];
        r->flags[c] = j->walk.wide && extreme(q, n);
    }
}

static int any(const unsigned char *flags, size_t n) {
    for (size_t c = 0; c < n; c++)
        if (flags[c]) return 1;
    return 0;
}

static lucid_pass affine_pass(const job *j, const range *r, size_t at, size_t n) {
    lucid_pass p = j->affine;
    p.flags = any(r->flags + at, n) ? r->flags + at : NULL;
    p.wide = r->coefficients + at;
    p.narrow = narrowed(j, r->coefficients + at, r->narrow + at);
    p.pitch = r->pitch;
    return p;
}

/* The outputs of channels [at, at + n) of the range, pieces [from, to) backwards: the last read
 * are the first in cache. */
static void combine(const job *j, const range *r, size_t at, size_t n, size_t from, size_t to) {
    lucid_pass p = affine_pass(j, r, at, n);
    if (p.output[0] < 0 && p.output[1] < 0) return;
    lucid_walk_run(&j->walk, &p, r->first + at, n, to, from, SIZE_MAX);
}

/* ---- Groups of channels: each is read, solved and written while in cache ---- */

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
    float narrow_shift[LUCID_GROUP], narrow[COEFFICIENTS * LUCID_GROUP];
    unsigned char flags[LUCID_GROUP];
} group;

static void group_begin(const job *j, group *g, size_t first, size_t n) {
    g->r = (range){first,           n,         n,       g->shift, g->totals, g->coefficients,
                   g->narrow_shift, g->narrow, g->flags};
    if (j->reduces) first_shift(j, &g->r);
}

static void group_reduce(const job *j, group *g, int only_flagged, int back) {
    double lanes[ROW_LANES];
    lucid_pass p = sum_pass(j, &g->r, 0, g->r.n, only_flagged, lanes);
    walk_all(j, &p, &g->r, back);
    fold_all(j, &g->r, 0, g->r.n, only_flagged, lanes, g->totals, g->r.n);
}

static void group_solve(const job *j, group *g, int back) {
    range *r = &g->r;
    if (!solve(j, r, 0)) return;
    keep_repeats(r);
    group_reduce(j, g, 1, back);
    solve(j, r, 1);
    refresh_flags(j, r);
}

static void group_combine(const job *j, const group *g, int back) {
    lucid_pass p = affine_pass(j, &g->r, 0, g->r.n);
    if (p.output[0] >= 0 || p.output[1] >= 0) walk_all(j, &p, &g->r, back);
}

/* The outputs of a group and, meanwhile, the sums of the next; returns whether these were taken. */
static int combine_fused(const job *j, const group *g, group *next, int back) {
    double lanes[ROW_LANES];
    const range *r = &g->r, *n = &next->r;
    lucid_pass p = affine_pass(j, r, 0, r->n);
    if (p.flags || !j->reduces || !lucid_walk_fuses(&j->walk, &p, &j->sum)) return 0;
    lucid_pass sums = sum_pass(j, n, 0, n->n, 0, lanes);
    p.next = &sums;
    p.next_channels = n->n;
    p.ahead = r->n;
    walk_all(j, &p, r, back);
    fold_all(j, n, 0, n->n, 0, lanes, next->totals, n->n);
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
    return least(width < 1 ? 1 : width, reduce_limit(j));
}

static void run_groups(const job *j) {
    const lucid_walk *w = &j->walk;
    size_t elements = w->count * w->channels;
    size_t threads = elements >= LUCID_PARALLEL_ELEMENTS ? (size_t)lucid_num_threads() : 1;
    size_t strips = threads == 1 ? 1 : STRIPS * threads;
    groups g = {j, group_width(j, threads), (w->channels + strips - 1) / strips};
    g.strip = (g.strip + g.width - 1) / g.width * g.width;
    lucid_parallel((w->channels + g.strip - 1) / g.strip, elements, strip, &g);
}

/* ---- Blocks: channels too large for the cache or too few for the threads ---- */

typedef struct {
    const job *j;
    const range *r;
    size_t blocks, width, tiles;
    double *partials; /* [block][term][channel] */
    int only_flagged;
} blocks;

static void block_range(const blocks *b, size_t index, size_t *at, size_t *n, size_t *from,
                        size_t *to) {
    size_t block = index / b->tiles, pieces = b->j->walk.pieces;
    *at = index % b->tiles * b->width;
    *n = least(b->width, b->r->n - *at);
    *from = pieces * block / b->blocks;
    *to = pieces * (block + 1) / b->blocks;
}

static void reduce_block(void *context, size_t index) {
    const blocks *b = context;
    size_t at, n, from, to, terms = (size_t)terms_of(b->j->sum.order);
    block_range(b, index, &at, &n, &from, &to);
    double *partial = b->partials + index / b->tiles * terms * b->r->n;
    reduce(b->j, b->r, at, n, from, to, b->only_flagged, partial + at, b->r->n);
}

static void combine_block(void *context, size_t index) {
    const blocks *b = context;
    size_t at, n, from, to;
    block_range(b, b->blocks * b->tiles - 1 - index, &at, &n, &from, &to);
    combine(b->j, b->r, at, n, from, to);
}

static void reduce_blocks(blocks *b, size_t elements) {
    const range *r = b->r;
    size_t planes = (size_t)terms_of(b->j->sum.order) * r->n;
    lucid_parallel(b->blocks * b->tiles, elements, reduce_block, b);
    for (size_t i = 0; i < planes; i++) {
        if (b->only_flagged && !r->flags[i % r->n]) continue;
        double total = 0;
        for (size_t k = 0; k < b->blocks; k++)
            total += b->partials[k * planes + i];
        r->totals[i] = total;
    }
}

static int run_blocks(const job *j) {
    const lucid_walk *w = &j->walk;
    size_t c = w->channels, elements = w->count * c, terms = (size_t)terms_of(j->sum.order);
    blocks b = {.j = j, .width = reduce_limit(j)};
    b.blocks = least(least(BLOCKS, w->pieces), 1 + elements / BLOCK_ELEMENTS);
    b.tiles = (c + b.width - 1) / b.width;
    size_t doubles = c * (1 + terms + COEFFICIENTS + b.blocks * terms);
    char *memory = malloc(doubles * 8 + c * (1 + COEFFICIENTS) * 4 + c);
    if (!memory) return -1;
    range r = {.n = c, .pitch = c, .shift = (double *)memory};
    r.totals = r.shift + c;
    r.coefficients = r.totals + terms * c;
    b.partials = r.coefficients + COEFFICIENTS * c;
    r.narrow_shift = (float *)(b.partials + b.blocks * terms * c);
    r.narrow = r.narrow_shift + c;
    r.flags = (unsigned char *)(r.narrow + COEFFICIENTS * c);
    b.r = &r;
    if (j->reduces) {
        first_shift(j, &r);
        reduce_blocks(&b, elements);
    }
    if (solve(j, &r, 0)) {
        keep_repeats(&r);
        b.only_flagged = 1;
        reduce_blocks(&b, elements);
        solve(j, &r, 1);
        refresh_flags(j, &r);
    }
    lucid_parallel(b.blocks * b.tiles, elements, combine_block, &b);
    free(memory);
    return 0;
}

/* The choice depends on shapes alone, and so do the bits of the results. */
static int run(const job *j) {
    const lucid_walk *w = &j->walk;
    size_t bytes = w->count * w->size * (size_t)w->inputs;
    int few = w->channels < FEW_CHANNELS && w->count * w->channels >= LUCID_PARALLEL_ELEMENTS;
    int large = w->cols ? bytes * least(w->channels, NARROW) > GROUP_BYTES : bytes > CHANNEL_BYTES;
    if (few || large) return run_blocks(j);
    run_groups(j);
    return 0;
}

/* ---- The calls ---- */

#define STACK_DOUBLES 1024

/* Vectors of doubles over the channels, on the stack if they are small. */
typedef struct {
    double stack[STACK_DOUBLES], *heap, *next;
    size_t n;
} vectors;

static int vectors_begin(vectors *v, size_t n, size_t count) {
    v->n = n;
    v->heap = NULL;
    v->next = v->stack;
    if (n * count <= STACK_DOUBLES) return 0;
    v->next = v->heap = malloc(n * count * sizeof(double));
    return v->heap ? 0 : -1;
}

static double *vectors_new(vectors *v) {
    double *p = v->next;
    v->next += v->n;
    return p;
}

static double *vectors_read(vectors *v, const lucid_channels *of, lucid_vector from,
                            double absent) {
    double *p = vectors_new(v);
    lucid_vector_read(of->kernels, from, v->n, absent, p);
    return p;
}

static size_t channel_count(const lucid_channels *of) {
    return (size_t)of->shape[of->axis];
}

static int is_empty(const lucid_channels *of) {
    for (int i = 0; i < of->ndim; i++)
        if (of->shape[i] == 0) return 1;
    return 0;
}

static void job_begin(job *j, int call) {
    memset(j, 0, offsetof(job, walk));
    j->call = call;
}

static lucid_pass pass_of(lucid_pass_kind kind, int order, int x, int g, int v, int y, int z) {
    lucid_pass p = {.kind = kind, .order = order, .input = {x, g, v}, .output = {y, z}};
    return p;
}

int lucid_batch_norm_forward(const lucid_channels *of, lucid_array x, lucid_vector weight,
                             lucid_vector bias, lucid_vector running_mean, lucid_vector running_var,
                             double momentum, double eps, lucid_array y, double *mean,
                             double *rstd) {
    job j;
    job_begin(&j, FORWARD);
    j.momentum = momentum;
    j.eps = eps;
    j.mean = mean;
    j.rstd = rstd;
    j.reduces = 1;
    size_t c = channel_count(of);
    vectors v;
    if (is_empty(of)) {
        for (size_t i = 0; i < c; i++) {
            mean[i] = 0;
            rstd[i] = 1 / sqrt(eps);
        }
        return 0;
    }
    if (vectors_begin(&v, c, 4)) return -1;
    j.weight = vectors_read(&v, of, weight, 1);
    j.bias = vectors_read(&v, of, bias, 0);
    if (running_mean.data) j.running_mean = vectors_read(&v, of, running_mean, 0);
    if (running_var.data) j.running_var = vectors_read(&v, of, running_var, 1);
    lucid_array operands[] = {x, y};
    lucid_walk_plan(&j.walk, of, operands, 1, 1);
    j.sum = pass_of(LUCID_SUM, 0, 0, -1, -1, -1, -1);
    j.affine = pass_of(LUCID_AFFINE, 0, 0, -1, -1, 1, -1);
    const double m = (double)j.walk.count;
    j.inverse = 1 / m;
    j.unbiased = m / (m - 1);
    j.wide_running = running_var.data && running_var.type == LUCID_FLOAT64 && j.walk.wide;
    int status = run(&j);
    if (status == 0) {
        if (j.running_mean) lucid_vector_write(running_mean, c, j.running_mean);
        if (j.running_var) lucid_vector_write(running_var, c, j.running_var);
    }
    free(v.heap);
    return status;
}

int lucid_batch_norm_inference(const lucid_channels *of, lucid_array x, lucid_vector weight,
                               lucid_vector bias, lucid_vector running_mean,
                               lucid_vector running_var, double eps, lucid_array y, double *mean,
                               double *rstd) {
    job j;
    job_begin(&j, INFERENCE);
    j.walk.kernels = of->kernels;
    j.eps = eps;
    j.mean = mean;
    j.rstd = rstd;
    size_t c = channel_count(of);
    vectors v;
    if (vectors_begin(&v, c, 4)) return -1;
    j.weight = vectors_read(&v, of, weight, 1);
    j.bias = vectors_read(&v, of, bias, 0);
    j.running_mean = vectors_read(&v, of, running_mean, 0);
    j.running_var = vectors_read(&v, of, running_var, 1);
    int status = 0;
    if (is_empty(of)) {
        double q[COEFFICIENTS];
        for (size_t i = 0; i < c; i++)
            solve_inference(&j, i, NULL, 0, 1, q);
    } else {
        lucid_array operands[] = {x, y};
        lucid_walk_plan(&j.walk, of, operands, 1, 1);
        j.affine = pass_of(LUCID_AFFINE, 0, 0, -1, -1, 1, -1);
        status = run(&j);
    }
    free(v.heap);
    return status;
}

static void write_zeros(const lucid_channels *of, lucid_vector v) {
    double zero = 0;
    for (size_t i = 0; v.data && i < channel_count(of); i++, v.data += v.stride)
        lucid_vector_write(v, 1, &zero);
}

int lucid_batch_norm_backward(const lucid_channels *of, lucid_array dy, lucid_array x,
                              lucid_vector weight, lucid_vector mean, lucid_vector rstd,
                              int training, lucid_array dx, lucid_vector dweight,
                              lucid_vector dbias) {
    job j;
    job_begin(&j, BACKWARD);
    vectors v;
    if (is_empty(of)) {
        write_zeros(of, dweight);
        write_zeros(of, dbias);
        return 0;
    }
    if (vectors_begin(&v, channel_count(of), 5)) return -1;
    j.weight = vectors_read(&v, of, weight, 1);
    j.mean = vectors_read(&v, of, mean, 0);
    j.rstd = vectors_read(&v, of, rstd, 0);
    if (dweight.data) j.dweight = vectors_new(&v);
    if (dbias.data) j.dbias = vectors_new(&v);
    j.reduces = dweight.data || dbias.data || (training && dx.data);
    if (!j.reduces) { /* x is not read */
        lucid_array operands[] = {dy, dx};
        lucid_walk_plan(&j.walk, of, operands, 1, 1);
        j.affine = pass_of(LUCID_AFFINE, 0, 0, -1, -1, 1, -1);
    } else {
        lucid_array operands[] = {x, dy, dx};
        lucid_walk_plan(&j.walk, of, operands, 2, dx.data ? 1 : 0);
        int out = dx.data ? 2 : -1;
        j.sum = pass_of(LUCID_SUM, 1, 0, 1, -1, -1, -1);
        j.affine = training ? pass_of(LUCID_AFFINE, 1, 0, 1, -1, out, -1)
                            : pass_of(LUCID_AFFINE, 0, 1, -1, -1, out, -1);
    }
    j.inverse = training ? 1 / (double)j.walk.count : 0;
    int status = run(&j);
    if (status == 0) {
        if (j.dweight) lucid_vector_write(dweight, channel_count(of), j.dweight);
        if (j.dbias) lucid_vector_write(dbias, channel_count(of), j.dbias);
    }
    free(v.heap);
    return status;
}

int lucid_batch_norm_double_backward(const lucid_channels *of, lucid_array v, lucid_vector w,
                                     lucid_vector u, lucid_array dy, lucid_array x,
                                     lucid_vector weight, lucid_vector mean, lucid_vector rstd,
                                     int training, lucid_array to_dy, lucid_array to_x,
                                     lucid_vector to_weight) {
    static const double zero = 0;
    static const ptrdiff_t no_strides[LUCID_MAX_NDIM] = {0};
    job j;
    job_begin(&j, DOUBLE_BACKWARD);
    j.reduces = 1;
    vectors s;
    if (is_empty(of)) {
        write_zeros(of, to_weight);
        return 0;
    }
    if (!v.data) v = (lucid_array){(char *)&zero, no_strides, LUCID_FLOAT64, 0, 1};
    if (vectors_begin(&s, channel_count(of), 6)) return -1;
    j.weight = vectors_read(&s, of, weight, 1);
    j.mean = vectors_read(&s, of, mean, 0);
    j.rstd = vectors_read(&s, of, rstd, 0);
    j.w = vectors_read(&s, of, w, 0);
    j.u = vectors_read(&s, of, u, 0);
    if (to_weight.data) j.dweight = vectors_new(&s);
    lucid_array operands[LUCID_OPERANDS] = {x, dy, v};
    int outputs = 0, y = -1, z = -1;
    if (to_dy.data) operands[3 + outputs] = to_dy, y = 3 + outputs++;
    if (to_x.data) operands[3 + outputs] = to_x, z = 3 + outputs++;
    lucid_walk_plan(&j.walk, of, operands, 3, outputs);
    j.sum = pass_of(LUCID_SUM, 2, 0, 1, 2, -1, -1);
    j.affine = pass_of(LUCID_AFFINE, 2, 0, 1, 2, y, z);
    j.inverse = training ? 1 / (double)j.walk.count : 0;
    int status = run(&j);
    if (status == 0 && j.dweight) lucid_vector_write(to_weight, channel_count(of), j.dweight);
    free(s.heap);
    return status;
}
