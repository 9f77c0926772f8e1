/* One call of batch normalization, as the files of its driver share it. */
#ifndef LUCID_BATCH_NORM_JOB_H
#define LUCID_BATCH_NORM_JOB_H

#include "walk.h"

/* Vectors over the channels are doubles. */
typedef struct job {
    lucid_pass sum, affine;
    int reduces;     /* are there sums to take? */
    double inverse;  /* 1 / m, or 0 if the statistics are constants */
    double unbiased; /* m / (m - 1) */
    double momentum, eps;
    double *weight, *bias, *mean, *rstd, *running_mean, *running_var, *w, *u;
    double *dweight, *dbias;
    enum { FORWARD, INFERENCE, BACKWARD, CONSTANT, DOUBLE_BACKWARD } call;
    lucid_walk walk; /* last, since it is too large to be cleared in a small call */
} job;

#endif
