/* The algebra of one channel: from its sums, which are about `shift`, to its results and to the
 * coefficients q of its outputs.
 *
 * A solver returns 1 to ask, unless `last`, for the sums to be taken again, wide and about a better
 * shift. They are inline since a small call solves as many channels as it has elements. */
#ifndef LUCID_BATCH_NORM_CHANNEL_H
#define LUCID_BATCH_NORM_CHANNEL_H

#include <float.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "job.h"

#define COEFFICIENTS 8 /* of order 2, the most */
#define INLINE static inline __attribute__((always_inline))

/* Of the affine entries of an order. */
static inline int coefficients_of(int order) {
    return order == 0 ? 3 : order == 1 ? 4 : COEFFICIENTS;
}

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

INLINE int solve_forward(const job *j, size_t c, const double *s, double shift, int last,
                         double *q) {
    /* Far from the shift digits cancel, fewer of them where squares of floats are exact. */
    const double far = j->walk.size == 4 ? 1e6 : 16;
    double d = s[0] * j->inverse, var = s[1] * j->inverse - d * d;
    if (!last && (!(d * d <= far * var) || !(var < DBL_MAX))) return 1;
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

/* The mean, measured from the shift: that of the very elements if it is theirs, since sums of many
 * terms show the rounding of the one that is kept. */
INLINE int solve_backward(const job *j, size_t c, const double *s, double shift, int last,
                          double *q) {
    (void)last;
    const double r = j->rstd[c], a = j->weight[c] * r, i = j->inverse;
    double off = i == 0 ? j->mean[c] - shift : s[2] * i;
    double g = s[0], gd = off == 0 ? s[1] : s[1] - off * g;
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

/* Combinations whose coefficients are known: order 0, weight rstd (x - mean) + bias; order 1, with
 * w rstd (x - mean) + weight rstd g + bias. */
INLINE int solve_constant(const job *j, size_t c, const double *s, double shift, int last,
                          double *q) {
    (void)s, (void)shift, (void)last;
    if (j->affine.order == 0) {
        forward_affine(j, c, 0, q);
        q[3] = 0;
        return 0;
    }
    q[0] = representable(j, j->mean[c]);
    q[1] = j->weight[c] * j->rstd[c];
    q[2] = j->w[c] * j->rstd[c];
    q[3] = j->bias[c] - q[2] * (j->mean[c] - q[0]);
    return 0;
}

INLINE int solve_double_backward(const job *j, size_t c, const double *s, double shift, int last,
                                 double *q) {
    (void)last;
    const double r = j->rstd[c], a = j->weight[c] * r, i = j->inverse, off = j->mean[c] - shift;
    const double w = j->w[c], u = j->u[c];
    double g = s[0], v = s[1], gd = s[2] - off * g, vd = s[3] - off * v, vg = s[4];
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
    q[6] = -r * (r * (w * qx - 2 * a * p * qx + i * a * t));
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

#endif
