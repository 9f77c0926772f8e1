cimport numpy as cnp
from libc.stdint cimport uint64_t

cdef enum:
    MEAN = 1
    VARIANCE = 2

# Mean and/or variance of `x` over the axes in `mask` as arrays or scalars of NumPy's type `result`;
# `kind` is the provider's type of x. None where there is nothing to divide by: no elements, or no
# degrees of freedom.
cdef object reduce_array(cnp.ndarray x, uint64_t mask, bint keepdims, int kind, int result,
                         int wanted, double ddof, bint root, bint *nonfinite)

# Mean of a small dense array of floats over axes that lie together; None if `x` is none.
cdef object mean_few(cnp.ndarray x, uint64_t mask, bint *nonfinite)
