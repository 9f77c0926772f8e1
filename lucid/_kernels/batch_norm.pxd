cimport numpy as cnp

# y, its mean and rstd at the pointers given, which have room for each channel. Training moves the
# running statistics, evaluation uses them.
cdef cnp.ndarray normalize(cnp.ndarray x, weight, bias, running_mean, running_var, bint training,
                           double momentum, double eps, int axis, double *mean, double *rstd)
