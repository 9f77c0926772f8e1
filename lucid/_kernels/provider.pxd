cimport numpy as cnp
from libc.stddef cimport ptrdiff_t
from libc.stdint cimport uint64_t


cdef extern from "drivers/layout.h" nogil:
    enum:
        LUCID_MAX_NDIM
        LUCID_MAX_OPERANDS
    ctypedef struct lucid_plan:
        int ndim
        ptrdiff_t *length
        ptrdiff_t *offset


cdef extern from "contract/kernels.h" nogil:
    ctypedef enum lucid_type:
        LUCID_FLOAT32
        LUCID_FLOAT64
        LUCID_FLOAT16
        LUCID_BFLOAT16
        LUCID_BOOL
        LUCID_INT8
        LUCID_UINT8
        LUCID_INT16
        LUCID_UINT16
        LUCID_INT32
        LUCID_UINT32
        LUCID_INT64
        LUCID_UINT64
    ctypedef struct lucid_kernels:
        pass


cdef extern from "drivers/reduce.h" nogil:
    enum:
        LUCID_OK
        LUCID_NONFINITE
        LUCID_NO_MEMORY
        LUCID_FEW
    ctypedef struct lucid_reduction:
        lucid_plan plan
        const char *x
        lucid_type type
        int swap
        char *mean
        char *variance
        lucid_type result
        double count
        double divisor
        int root


cdef extern from "drivers/batch_norm.h" nogil:
    ctypedef struct lucid_array:
        char *data
        const ptrdiff_t *strides
        lucid_type type
        int swap
        int aligned
    ctypedef struct lucid_vector:
        char *data
        ptrdiff_t stride
        lucid_type type
        int swap
    ctypedef struct lucid_channels:
        const lucid_kernels *kernels
        int ndim
        int axis
        const ptrdiff_t *shape


# The drivers over the active provider table. Other modules call them through these, so that the
# table and the thread layer exist once.
cdef void plan_loops(lucid_plan *plan, int nop, int ndim, const cnp.npy_intp *shape,
                     const cnp.npy_intp *const *strides, uint64_t reduced) noexcept nogil
cdef void keep_order(int ndim, const cnp.npy_intp *shape, const cnp.npy_intp *like,
                     cnp.npy_intp itemsize, cnp.npy_intp *strides) noexcept nogil
cdef int reduce(const lucid_reduction *reduction) noexcept nogil
cdef int mean_few(const void *x, bint wide, size_t outer, size_t n, size_t inner,
                  void *out) noexcept nogil

# These set of.kernels.
cdef int batch_norm_forward(lucid_channels *of, lucid_array x, lucid_vector weight,
                            lucid_vector bias, lucid_vector running_mean, lucid_vector running_var,
                            double momentum, double eps, lucid_array y, double *mean,
                            double *rstd) noexcept nogil
cdef int batch_norm_inference(lucid_channels *of, lucid_array x, lucid_vector weight,
                              lucid_vector bias, lucid_vector running_mean,
                              lucid_vector running_var, double eps, lucid_array y, double *mean,
                              double *rstd) noexcept nogil
cdef int batch_norm_backward(lucid_channels *of, lucid_array dy, lucid_array x, lucid_vector weight,
                             lucid_vector mean, lucid_vector rstd, int training, lucid_array dx,
                             lucid_vector dweight, lucid_vector dbias) noexcept nogil
cdef int batch_norm_double_backward(lucid_channels *of, lucid_array v, lucid_vector w,
                                    lucid_vector u, lucid_array dy, lucid_array x,
                                    lucid_vector weight, lucid_vector mean, lucid_vector rstd,
                                    int training, lucid_array to_dy, lucid_array to_x,
                                    lucid_vector to_weight) noexcept nogil

# The lucid_type of a NumPy type number, -1 for types that the kernels do not take.
cdef int type_of(int type_num) noexcept
