"""Mean and variance of ndarrays: the array call.

In Python it is `reduce`; `reduce_array` and `mean_few` are for callers in Cython, which have looked
at the arguments themselves.
"""
cimport numpy as cnp
from libc.stdint cimport uint64_t

from lucid._kernels cimport memory, provider

cnp.import_array()


cdef extern from *:
    """
    #include <numpy/arrayscalars.h>
    static PyObject *lucid_float32(float value) {
        PyObject *scalar = PyArrayScalar_New(Float);
        if (scalar) PyArrayScalar_ASSIGN(scalar, Float, value);
        return scalar;
    }
    static PyObject *lucid_float64(double value) {
        PyObject *scalar = PyArrayScalar_New(Double);
        if (scalar) PyArrayScalar_ASSIGN(scalar, Double, value);
        return scalar;
    }
    """
    object lucid_float32(float value)
    object lucid_float64(double value)

cdef extern from "numpy/arrayobject.h":
    bint PyArray_ISNOTSWAPPED(cnp.ndarray a)
    bint PyArray_ISCARRAY_RO(cnp.ndarray a)


# Below this many elements, releasing the GIL costs more than it gives others.
cdef enum:
    GIL_ELEMENTS = 32768


cdef object _new(cnp.ndarray x, int nd, cnp.npy_intp *dims, cnp.npy_intp *like, int type_num):
    """An uninitialised array whose axes lie in memory in the order of `like`, x's strides."""
    if nd < 2 or cnp.PyArray_IS_C_CONTIGUOUS(x):
        return memory.new_array(nd, dims, type_num)
    return memory.new_ordered(nd, dims, like, type_num)


cdef object reduce_array(cnp.ndarray x, uint64_t mask, bint keepdims, int kind, int result,
                         int wanted, double ddof, bint root, bint *nonfinite):
    cdef provider.lucid_reduction r
    cdef int nd = cnp.PyArray_NDIM(x), i, ond = 0, status
    # Copies: an allocation may run code that gives `x` another shape.
    cdef cnp.npy_intp[64] shape, strides, dims, like, steps
    cdef int[64] kept
    cdef const cnp.npy_intp *operands[2]
    cdef cnp.npy_intp elements = 1, count = 1
    cdef double[2] values
    cdef object mean = None, variance = None, any_result
    cdef cnp.npy_intp *out_strides
    for i in range(nd):
        shape[i], strides[i] = cnp.PyArray_DIMS(x)[i], cnp.PyArray_STRIDES(x)[i]
        elements *= shape[i]
        if mask >> i & 1:
            count *= shape[i]
            if keepdims:
                dims[ond] = 1
                like[ond] = 0
                ond += 1
        else:
            dims[ond] = shape[i]
            like[ond] = strides[i]
            kept[i] = ond
            ond += 1
    r.divisor = count - ddof
    if elements == 0 or (wanted & VARIANCE and not r.divisor > 0):
        return None
    cdef bint scalar = ond == 0 and (result == cnp.NPY_FLOAT or result == cnp.NPY_DOUBLE)
    r.mean = r.variance = NULL
    if scalar:
        if wanted & MEAN:
            r.mean = <char *>&values[0]
        if wanted & VARIANCE:
            r.variance = <char *>&values[1]
    else:
        if wanted & MEAN:
            mean = any_result = _new(x, ond, dims, like, result)
            r.mean = <char *>cnp.PyArray_DATA(<cnp.ndarray>mean)
        if wanted & VARIANCE:
            variance = any_result = _new(x, ond, dims, like, result)
            r.variance = <char *>cnp.PyArray_DATA(<cnp.ndarray>variance)
        out_strides = cnp.PyArray_STRIDES(<cnp.ndarray>any_result)
    for i in range(nd):
        steps[i] = 0 if scalar or mask >> i & 1 else out_strides[kept[i]]
    operands[0] = strides
    operands[1] = steps
    r.x = <const char *>cnp.PyArray_DATA(x)
    r.type = <provider.lucid_type>kind
    r.swap = not PyArray_ISNOTSWAPPED(x)
    r.result = <provider.lucid_type>provider.type_of(result)
    r.count = count
    r.root = root
    provider.plan_loops(&r.plan, 2, nd, shape, operands, mask)
    if elements < GIL_ELEMENTS:
        status = _run(&r)
    else:
        with nogil:
            status = _run(&r)
    if status == provider.LUCID_NO_MEMORY:
        raise MemoryError("lucid: no memory for the partial sums of a reduction")
    nonfinite[0] = status == provider.LUCID_NONFINITE
    if scalar:
        if wanted & MEAN:
            mean = _scalar(&values[0], result)
        if wanted & VARIANCE:
            variance = _scalar(&values[1], result)
    elif ond == 0:
        if wanted & MEAN:
            mean = mean[()]
        if wanted & VARIANCE:
            variance = variance[()]
    if wanted == MEAN:
        return mean
    if wanted == VARIANCE:
        return variance
    return mean, variance


cdef object mean_few(cnp.ndarray x, uint64_t mask, bint *nonfinite):
    cdef int type_num = cnp.PyArray_TYPE(x), nd = cnp.PyArray_NDIM(x), i, ond = 0
    cdef cnp.npy_intp[64] dims
    cdef cnp.npy_intp *shape = cnp.PyArray_DIMS(x)
    cdef cnp.npy_intp n = 1, inner = 1, outputs = 1
    cdef double value = 0
    cdef bint reduced = False
    if not PyArray_ISCARRAY_RO(x) or type_num != cnp.NPY_FLOAT and type_num != cnp.NPY_DOUBLE:
        return None
    for i in range(nd):
        if mask >> i & 1:
            if inner != 1:
                return None
            reduced = True
            n *= shape[i]
        else:
            dims[ond] = shape[i]
            ond += 1
            outputs *= shape[i]
            if reduced:
                inner *= shape[i]
    if outputs == 0 or n == 0 or outputs > provider.LUCID_FEW // max(n, 2):
        return None
    result = memory.new_array(ond, dims, type_num) if ond else None
    nonfinite[0] = provider.LUCID_NONFINITE == provider.mean_few(
        cnp.PyArray_DATA(x), type_num == cnp.NPY_DOUBLE, outputs // inner, n, inner,
        cnp.PyArray_DATA(<cnp.ndarray>result) if ond else &value,
    )
    return result if ond else _scalar(&value, type_num)


cdef int _run(provider.lucid_reduction *r) noexcept nogil:
    """One pass; a second where 64-bit integers are summed exactly, in another form than their
    deviations are taken."""
    cdef char *variance = r.variance
    cdef int status
    if r.mean == NULL or variance == NULL or r.type < provider.LUCID_INT64:
        return provider.reduce(r)
    r.variance = NULL
    status = provider.reduce(r)
    if status == provider.LUCID_NO_MEMORY:
        return status
    r.mean, r.variance = NULL, variance
    return status | provider.reduce(r)


cdef inline object _scalar(double *value, int type_num):
    if type_num == cnp.NPY_FLOAT:
        return lucid_float32((<float *>value)[0])
    return lucid_float64(value[0])


def reduce(cnp.ndarray x, axes, bint keepdims, cnp.dtype dtype=None, bint mean=True,
           bint variance=False, double ddof=0, bint root=False):
    """Mean and/or variance over `axes`.

    Parameters
    ----------
    x : ndarray
        Of a type the kernels take; any layout and byte order.
    axes : tuple of int
        Not negative, each once.
    keepdims : bool
    dtype : numpy.dtype, optional
        Of the result: float16, bfloat16, float32 or float64. By default x's own, float64 for
        integers.
    mean, variance : bool
        What to return; a pair if both.
    ddof : float
    root : bool
        The square root of the variance instead.

    Returns
    -------
    result : array, scalar, pair of either, or None
        None if there is nothing to divide by: no elements, or no degrees of freedom.
    nonfinite : bool
        Whether a value is infinite or NaN.
    """
    cdef uint64_t mask = 0
    cdef bint nonfinite = False
    cdef int kind = provider.type_of(cnp.PyArray_TYPE(x))
    cdef int result, axis
    if dtype is not None:
        result = dtype.num
    else:
        result = cnp.PyArray_TYPE(x) if kind <= provider.LUCID_BFLOAT16 else cnp.NPY_DOUBLE
    if kind < 0 or not 0 <= provider.type_of(result) <= provider.LUCID_BFLOAT16:
        raise TypeError(f"reduce: no kernel takes {x.dtype} to {dtype}")
    for axis in axes:
        if not 0 <= axis < cnp.PyArray_NDIM(x) or mask >> axis & 1:
            raise ValueError(f"reduce: axes must be different axes of {x.ndim}, got {axes}")
        mask |= <uint64_t>1 << axis
    value = reduce_array(x, mask, keepdims, kind, result,
                         (MEAN if mean else 0) | (VARIANCE if variance else 0), ddof, root,
                         &nonfinite)
    return value, nonfinite
