/* Vectors over the channels, of any floating type, stride and byte order. */
#ifndef LUCID_BATCH_NORM_VECTORS_H
#define LUCID_BATCH_NORM_VECTORS_H

#include "drivers/batch_norm.h"

/* Elements [0, n) of a vector as doubles, or `absent` each; and back. */
void lucid_vector_read(const lucid_kernels *kernels, lucid_vector v, size_t n, double absent,
                       double *out);
void lucid_vector_write(lucid_vector v, size_t n, const double *values);

#endif
