cimport numpy as cnp
from libc.stddef cimport ptrdiff_t
from libc.stdint cimport uint64_t


cdef extern from "layout.h" nogil:
    enum:
        LUCID_MAX_NDIM
        LUCID_MAX_OPERANDS
    ctypedef struct lucid_plan:
        int ndim
        ptrdiff_t *length
        ptrdiff_t *offset


cdef extern from "kernels.h" nogil:
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


cdef extern from "reduce.h" nogil:
    enum:
        LUCID_OK
        LUCID_NONFINITE
        LUCID_NO_MEMORY
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


# The drivers over the active provider table. Other modules call them through these, so that the
# table and the thread layer exist once.
cdef void plan_loops(lucid_plan *plan, int nop, int ndim, const cnp.npy_intp *shape,
                     const cnp.npy_intp *const *strides, uint64_t reduced) noexcept nogil
cdef void keep_order(int ndim, const cnp.npy_intp *shape, const cnp.npy_intp *like, cnp.npy_intp itemsize,
                     cnp.npy_intp *strides) noexcept nogil
cdef int reduce(const lucid_reduction *reduction) noexcept nogil

# The lucid_type of a NumPy type number, -1 for types that the kernels do not take.
cdef int type_of(int type_num) noexcept
