# cython: cdivision=True
"""The `accelerate` provider: the table's entries through vDSP, vForce and cblas.

Scalars go to vDSP by pointer; strides are in elements. The order and the width of vDSP's sums are
not documented, hence no sum is taken in float.
"""
from cpython.pycapsule cimport PyCapsule_New
from libc.math cimport fabs, frexp, isfinite, ldexp
from libc.stddef cimport ptrdiff_t
from libc.string cimport memcpy, memset

from lucid._kernels.table cimport (
    LUCID_BLOCK,
    LUCID_LANES,
    LUCID_TERMS,
    lucid_kernels,
    lucid_moments,
    lucid_sums,
    lucid_tile,
)


cdef extern from "<Accelerate/Accelerate.h>" nogil:
    ctypedef unsigned long vDSP_Length
    void vDSP_vspdp(const float *a, long ia, double *c, long ic, vDSP_Length n)
    void vDSP_vdpsp(const double *a, long ia, float *c, long ic, vDSP_Length n)
    void vDSP_maxmgvD(const double *a, long ia, double *c, vDSP_Length n)
    void vDSP_sveD(const double *a, long ia, double *c, vDSP_Length n)
    void vDSP_svesqD(const double *a, long ia, double *c, vDSP_Length n)
    void vDSP_dotprD(const double *a, long ia, const double *b, long ib, double *c, vDSP_Length n)
    # c = a - b: the second comes first
    void vDSP_vsubD(const double *b, long ib, const double *a, long ia, double *c, long ic,
                    vDSP_Length n)
    void vDSP_vsadd(const float *a, long ia, const float *b, float *c, long ic, vDSP_Length n)
    void vDSP_vsaddD(const double *a, long ia, const double *b, double *c, long ic, vDSP_Length n)
    # d = a b + c, where b and c are scalars; where b is
    void vDSP_vsmsa(const float *a, long ia, const float *b, const float *c, float *d, long id,
                    vDSP_Length n)
    void vDSP_vsmsaD(const double *a, long ia, const double *b, const double *c, double *d, long id,
                     vDSP_Length n)
    void vDSP_vsma(const float *a, long ia, const float *b, const float *c, long ic, float *d,
                   long id, vDSP_Length n)
    void vDSP_vsmaD(const double *a, long ia, const double *b, const double *c, long ic, double *d,
                    long id, vDSP_Length n)
    void vvrsqrt(double *y, const double *x, const int *n)
    enum:
        CblasRowMajor
        CblasTrans
    void cblas_dgemv(int order, int transposed, int m, int n, double alpha, const double *a,
                     int lda, const double *x, int incx, double beta, double *y, int incy)
    void cblas_dger(int order, int m, int n, double alpha, const double *x, int incx,
                    const double *y, int incy, double *a, int lda)


ctypedef fused real:
    float
    double

ctypedef fused number:
    float
    double

cdef double[LUCID_BLOCK] _ones
cdef int _i
for _i in range(LUCID_BLOCK):
    _ones[_i] = 1


cdef inline void widen(const float *x, size_t n, double *out) noexcept nogil:
    vDSP_vspdp(x, 1, out, 1, n)


cdef inline void narrow(const double *x, size_t n, float *out) noexcept nogil:
    vDSP_vdpsp(x, 1, out, 1, n)


cdef inline double largest(const double *x, size_t n) noexcept nogil:
    cdef double result
    vDSP_maxmgvD(x, 1, &result, n)
    return result


cdef inline double total(const double *x, size_t n) noexcept nogil:
    cdef double result
    vDSP_sveD(x, 1, &result, n)
    return result


cdef inline double dot(const double *x, const double *y, size_t n) noexcept nogil:
    cdef double result
    if x == y:
        vDSP_svesqD(x, 1, &result, n)
    else:
        vDSP_dotprD(x, 1, y, 1, &result, n)
    return result


cdef inline void difference(const double *x, const double *y, double *out,
                            size_t n) noexcept nogil:
    vDSP_vsubD(y, 1, x, 1, out, 1, n)


cdef inline void shift(const real *x, real c, real *out, size_t n) noexcept nogil:
    if real is float:
        vDSP_vsadd(x, 1, &c, out, 1, n)
    else:
        vDSP_vsaddD(x, 1, &c, out, 1, n)


cdef inline void scale_shift(const real *x, real a, real c, real *out, size_t n) noexcept nogil:
    if real is float:
        vDSP_vsmsa(x, 1, &a, &c, out, 1, n)
    else:
        vDSP_vsmsaD(x, 1, &a, &c, out, 1, n)


cdef inline void add_scaled(const real *x, real a, real *out, size_t n) noexcept nogil:
    if real is float:
        vDSP_vsma(x, 1, &a, out, 1, out, 1, n)
    else:
        vDSP_vsmaD(x, 1, &a, out, 1, out, 1, n)


cdef inline void column_sums(const double *a, size_t rows, size_t n, double *out) noexcept nogil:
    cblas_dgemv(CblasRowMajor, CblasTrans, <int>rows, <int>n, 1, a, <int>n, _ones, 1, 0, out, 1)


cdef inline void add_to_rows(const double *v, double sign, double *a, size_t rows,
                             size_t n) noexcept nogil:
    cblas_dger(CblasRowMajor, <int>rows, <int>n, sign, _ones, 1, v, 1, a, <int>n)


include "blas_entries.pxi"


cdef double rsqrt(double x) noexcept nogil:
    cdef int one = 1
    vvrsqrt(&x, &x, &one)
    return x


cdef void fill_with_vforce(lucid_kernels *table) noexcept nogil:
    fill(table)
    table.rsqrt = rsqrt


# For provider.pyx, which owns the tables.
FILL = PyCapsule_New(<void *>fill_with_vforce, "lucid_provider_fill", NULL)
