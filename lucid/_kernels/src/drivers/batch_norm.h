/* Batch normalization: forward, inference, backward, double backward, over any memory layout.
 *
 * Each is a reduction to a few sums per channel, the per-channel algebra and one elementwise
 * combination. All functions return 0, or -1 if memory ran out, before anything was written. They
 * need no GIL. Arguments are trusted. */
#ifndef LUCID_BATCH_NORM_H
#define LUCID_BATCH_NORM_H

#include "contract/kernels.h"

/* An array of the common shape. An output is aligned and native; data is NULL if not wanted. */
typedef struct {
    char *data;
    const ptrdiff_t *strides; /* bytes */
    lucid_type type;
    int swap, aligned;
} lucid_array;

/* A vector over the channels; data is NULL if absent. */
typedef struct {
    char *data;
    ptrdiff_t stride;
    lucid_type type; /* one of the floating types */
    int swap;
} lucid_vector;

typedef struct {
    const lucid_kernels *kernels;
    int ndim, axis; /* axis of the channels */
    const ptrdiff_t *shape;
} lucid_channels;

/* y, mean and 1 / sqrt(variance + eps); moves the running statistics if they are there. */
int lucid_batch_norm_forward(const lucid_channels *of, lucid_array x, lucid_vector weight,
                             lucid_vector bias, lucid_vector running_mean, lucid_vector running_var,
                             double momentum, double eps, lucid_array y, double *mean,
                             double *rstd);

int lucid_batch_norm_inference(const lucid_channels *of, lucid_array x, lucid_vector weight,
                               lucid_vector bias, lucid_vector running_mean,
                               lucid_vector running_var, double eps, lucid_array y, double *mean,
                               double *rstd);

/* With `training` 0 the statistics are constants. */
int lucid_batch_norm_backward(const lucid_channels *of, lucid_array dy, lucid_array x,
                              lucid_vector weight, lucid_vector mean, lucid_vector rstd,
                              int training, lucid_array dx, lucid_vector dweight,
                              lucid_vector dbias);

/* v, w, u are the cotangents of dx, dweight, dbias; absent means zero. */
int lucid_batch_norm_double_backward(const lucid_channels *of, lucid_array v, lucid_vector w,
                                     lucid_vector u, lucid_array dy, lucid_array x,
                                     lucid_vector weight, lucid_vector mean, lucid_vector rstd,
                                     int training, lucid_array to_dy, lucid_array to_x,
                                     lucid_vector to_weight);

#endif
