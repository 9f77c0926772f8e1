/* Mean and variance over any axes of any layout. */
#ifndef LUCID_REDUCE_H
#define LUCID_REDUCE_H

#include "contract/kernels.h"
#include "layout.h"

typedef struct {
    lucid_plan plan; /* operand 0 is x, operand 1 the result(s); no length is 0 */
    const char *x;
    lucid_type type;
    int swap;              /* x has foreign byte order */
    char *mean, *variance; /* results to write, of the same strides; NULL if not wanted */
    lucid_type result;     /* FLOAT32, FLOAT64, FLOAT16 or BFLOAT16 */
    double count;          /* values per output */
    double divisor;        /* count less the degrees of freedom */
    int root;              /* write the square root of the variance */
} lucid_reduction;

enum { LUCID_OK = 0, LUCID_NONFINITE = 1, LUCID_NO_MEMORY = -1 };

/* LUCID_NONFINITE if any result is infinite or NaN. */
int lucid_reduce(const lucid_kernels *kernels, const lucid_reduction *reduction);

enum { LUCID_FEW = 1024 }; /* elements whose exact sums cost less than the call around them */

/* The mean over n of a dense (outer, n, inner) array of at most LUCID_FEW floats, or doubles if
 * `wide`, to a dense (outer, inner) array of half as many: without plan and tasks, which would cost
 * as much again. */
int lucid_mean_few(const lucid_kernels *kernels, const void *x, int wide, size_t outer, size_t n,
                   size_t inner, void *out);

#endif
