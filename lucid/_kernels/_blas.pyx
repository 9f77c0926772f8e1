# cython: cdivision=True
"""The `blas` provider: the table's entries through `scipy.linalg.cython_blas`.

Blocks are short, so that no BLAS starts threads of its own for them. What BLAS has no call for is
written with a vector of ones: a sum is a dot product with it, a constant a multiple of it.
"""
from cpython.pycapsule cimport PyCapsule_New
from libc.math cimport fabs, frexp, isfinite, ldexp
from libc.stddef cimport ptrdiff_t
from libc.string cimport memcpy, memset
from scipy.linalg.cython_blas cimport daxpy, ddot, dgemv, dger, idamax, saxpy

from lucid._kernels.table cimport (
    LUCID_BLOCK,
    LUCID_LANES,
    LUCID_TERMS,
    lucid_kernels,
    lucid_moments,
    lucid_sums,
    lucid_tile,
)


ctypedef fused real:
    float
    double

ctypedef fused number:
    float
    double

cdef float[LUCID_BLOCK] _ones_f32
cdef double[LUCID_BLOCK] _ones
cdef int _i
for _i in range(LUCID_BLOCK):
    _ones_f32[_i] = 1
    _ones[_i] = 1


cdef inline void widen(const float *x, size_t n, double *out) noexcept nogil:
    cdef size_t i
    for i in range(n):
        out[i] = x[i]


cdef inline void narrow(const double *x, size_t n, float *out) noexcept nogil:
    cdef size_t i
    for i in range(n):
        out[i] = <float>x[i]


cdef inline double dot(const double *x, const double *y, size_t n) noexcept nogil:
    cdef int count = <int>n, one = 1
    return ddot(&count, <double *>x, &one, <double *>y, &one)


cdef inline double total(const double *x, size_t n) noexcept nogil:
    return dot(x, _ones, n)


cdef inline double largest(const double *x, size_t n) noexcept nogil:
    cdef int count = <int>n, one = 1
    return fabs(x[idamax(&count, <double *>x, &one) - 1])


# BLAS leaves `out` alone where a is 0, whatever x is: 0 * inf is NaN here.
cdef inline void add_scaled(const real *x, real a, real *out, size_t n) noexcept nogil:
    cdef int count = <int>n, one = 1
    cdef size_t i
    if a == 0:
        for i in range(n):
            out[i] += a * x[i]
    elif real is float:
        saxpy(&count, &a, <float *>x, &one, out, &one)
    else:
        daxpy(&count, &a, <double *>x, &one, out, &one)


cdef inline void shift(const real *x, real c, real *out, size_t n) noexcept nogil:
    if x != out:
        memcpy(out, x, n * sizeof(real))
    if real is float:
        add_scaled(&_ones_f32[0], c, out, n)
    else:
        add_scaled(&_ones[0], c, out, n)


cdef inline void scale_shift(const real *x, real a, real c, real *out, size_t n) noexcept nogil:
    cdef size_t i
    for i in range(n):
        out[i] = c
    add_scaled(x, a, out, n)


cdef inline void difference(const double *x, const double *y, double *out,
                            size_t n) noexcept nogil:
    memcpy(out, x, n * sizeof(double))
    add_scaled(y, -1.0, out, n)


# Rows here are columns to BLAS.
cdef inline void column_sums(const double *a, size_t rows, size_t n, double *out) noexcept nogil:
    cdef int height = <int>n, width = <int>rows, one = 1
    cdef double alpha = 1, beta = 0
    dgemv(b"N", &height, &width, &alpha, <double *>a, &height, _ones, &one, &beta, out, &one)


cdef inline void add_to_rows(const double *v, double sign, double *a, size_t rows,
                             size_t n) noexcept nogil:
    cdef int height = <int>n, width = <int>rows, one = 1
    dger(&height, &width, &sign, <double *>v, &one, _ones, &one, a, &height)


include "blas_entries.pxi"


# For provider.pyx, which owns the tables.
FILL = PyCapsule_New(<void *>fill, "lucid_provider_fill", NULL)
