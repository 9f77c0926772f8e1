#include "range.h"

enum { REPEAT = 2 }; /* a flag beside that of extreme coefficients, 1 */

/* ---- Memory ---- */

static size_t planes(const job *j) {
    return (size_t)coefficients_of(j->affine.order);
}

/* Whole lines, since tasks of several threads lie side by side. */
static size_t lines(size_t bytes) {
    return (bytes + 63) & ~(size_t)63;
}

size_t lucid_range_bytes(const job *j, size_t n) {
    size_t narrow = j->walk.size == 4 ? 4 * planes(j) : 0;
    return lines(n * (8 * (1 + lucid_terms(j->sum.order) + planes(j)) + narrow + 1));
}

range lucid_range_at(const job *j, size_t first, size_t n, char *memory) {
    range r = {.first = first, .n = n, .pitch = n, .shift = (double *)memory};
    r.totals = r.shift + n;
    r.coefficients = r.totals + lucid_terms(j->sum.order) * n;
    r.narrow = (float *)(r.coefficients + planes(j) * n);
    r.flags = (unsigned char *)(r.narrow + (j->walk.size == 4 ? planes(j) * n : 0));
    return r;
}

static size_t lane_bytes(const job *j, size_t n) {
    return lines(8 * n * lucid_terms(j->sum.order) * (j->walk.cols ? 1 : LUCID_LANES));
}

size_t lucid_scratch_bytes(const job *j, size_t n) {
    return lane_bytes(j, n) + lucid_walk_buffers(&j->walk);
}

scratch lucid_scratch_at(const job *j, size_t n, char *memory) {
    return (scratch){(double *)memory, memory + lane_bytes(j, n)};
}

/* ---- Passes ---- */

/* The mean of the first elements, or what the forward call found. */
void lucid_range_shift(const job *j, const range *r, const scratch *s) {
    if (j->sum.order > 0) {
        for (size_t c = 0; c < r->n; c++)
            r->shift[c] = representable(j, j->mean[r->first + c]);
    } else {
        size_t limit = least(j->walk.length, j->walk.cols ? 16 : 512);
        enum { AT_ONCE = 128 };
        double sums[2 * AT_ONCE];
        lucid_pass p = j->sum;
        p.kind = LUCID_START;
        p.sums = sums;
        p.buffers = s->buffers;
        for (size_t c = 0; c < r->n; c += AT_ONCE) {
            size_t n = least(r->n - c, AT_ONCE);
            p.pitch = n;
            memset(sums, 0, 2 * n * sizeof *sums);
            lucid_walk_run(&j->walk, &p, r->first + c, n, 0, 1, limit);
            for (size_t k = 0; k < n; k++) {
                double mean = representable(j, sums[k] / (double)limit);
                r->shift[c + k] = isfinite(mean) ? mean : 0;
            }
        }
    }
}

static double fold(const double *lanes) {
    double a[LUCID_LANES];
    memcpy(a, lanes, sizeof a);
    for (int half = LUCID_LANES / 2; half > 0; half /= 2)
        for (int k = 0; k < half; k++)
            a[k] += a[k + half];
    return a[0];
}

lucid_pass lucid_range_sums(const job *j, const range *r, size_t at, size_t n, int only_flagged,
                            const scratch *s) {
    lucid_pass p = j->sum;
    p.flags = only_flagged ? r->flags + at : NULL;
    p.only_flagged = only_flagged;
    p.wide = r->shift + at;
    p.pitch = n;
    p.sums = s->lanes;
    p.buffers = s->buffers;
    memset(p.sums, 0, lane_bytes(j, n));
    return p;
}

void lucid_range_fold(const job *j, const range *r, size_t at, size_t n, int only_flagged,
                      const scratch *s, double *totals, size_t pitch) {
    const double *lanes = s->lanes;
    const size_t terms = lucid_terms(j->sum.order);
    for (size_t t = 0; t < terms; t++)
        for (size_t c = 0; c < n; c++) {
            if (only_flagged && !r->flags[at + c]) continue;
            totals[t * pitch + c] =
                j->walk.cols ? lanes[t * n + c] : fold(lanes + (c * terms + t) * LUCID_LANES);
        }
}

size_t lucid_range_limit(const job *j) {
    size_t terms = lucid_terms(j->sum.order);
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
    double mean = representable(j, r->shift[c] + r->totals[c] / (double)j->walk.count);
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
            r->flags[c] = REPEAT;
            repeat = 1;
        } else {
            set_coefficients(j, r, c, q, n);
        }
    }
    return repeat;
}

/* Each call with its own solver in line. */
static int solve_all(const job *j, const range *r, int again) {
    switch (j->call) {
    case FORWARD:
        return solve_with(solve_forward, 2, 3, j, r, again);
    case INFERENCE:
        return solve_with(solve_inference, 0, 3, j, r, again);
    case BACKWARD:
        return j->inverse == 0 ? solve_with(solve_backward, 3, 3, j, r, again)
                               : solve_with(solve_backward, 3, 4, j, r, again);
    case CONSTANT:
        return j->affine.order == 0 ? solve_with(solve_constant, 0, 3, j, r, again)
                                    : solve_with(solve_constant, 0, 4, j, r, again);
    default:
        return solve_with(solve_double_backward, LUCID_TERMS, COEFFICIENTS, j, r, again);
    }
}

static int is_extreme(const job *j, const range *r, size_t c) {
    double q[COEFFICIENTS];
    int n = coefficients_of(j->affine.order);
    for (int k = 0; k < n; k++)
        q[k] = r->coefficients[(size_t)k * r->pitch + c];
    return j->walk.wide && extreme(q, n);
}

int lucid_range_solve(const job *j, const range *r, int again) {
    int repeat = solve_all(j, r, again);
    if (!repeat && !again) return 0;
    for (size_t c = 0; c < r->n; c++)
        r->flags[c] = (unsigned char)(repeat ? r->flags[c] == REPEAT : is_extreme(j, r, c));
    return repeat;
}

static int any(const unsigned char *flags, size_t n) {
    for (size_t c = 0; c < n; c++)
        if (flags[c]) return 1;
    return 0;
}

lucid_pass lucid_range_affine(const job *j, const range *r, size_t at, size_t n, const scratch *s) {
    lucid_pass p = j->affine;
    p.buffers = s->buffers;
    p.flags = any(r->flags + at, n) ? r->flags + at : NULL;
    p.wide = r->coefficients + at;
    p.narrow = j->walk.size == 4 ? (const void *)(r->narrow + at) : r->coefficients + at;
    p.pitch = r->pitch;
    return p;
}
