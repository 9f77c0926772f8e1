"""Mean and variance of ndarrays: from a Python call to one C call.

Each public function accepts the common case (an exact ndarray of a type the kernels take, integer
axes, nothing else asked) in one test and hands every other call to the function bound by `bind`,
which checks, explains, converts, and knows Tensors.
"""
cimport numpy as cnp
from libc.stdint cimport uint64_t

from lucid._kernels cimport _vec

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
    bint PyArray_CheckExact(object o)
    bint PyArray_ISNOTSWAPPED(cnp.ndarray a)
    bint PyArray_ISCARRAY_RO(cnp.ndarray a)


# Below this many elements, releasing the GIL costs more than it gives others.
cdef enum:
    GIL_ELEMENTS = 32768
    MEAN = 1
    VARIANCE = 2

cdef object _mean = None, _var = None, _std = None, _mean_var = None, _nonfinite = None


def bind(mean, var, std, mean_var, nonfinite):
    """Bind the functions that take every call but the common one.

    The first four have the signatures of the functions here; `nonfinite(name, x, axis, dtype, ddof,
    keepdims, result)` is called when a result is infinite or NaN, to warn as NumPy does; it
    returns the result.
    """
    global _mean, _var, _std, _mean_var, _nonfinite
    _mean, _var, _std, _mean_var, _nonfinite = mean, var, std, mean_var, nonfinite


cdef int _axes(object axis, int ndim, uint64_t *mask) except? -1:
    """Bits of the axes; 0 if `axis` is anything but None, an int or a tuple of ints in range."""
    cdef Py_ssize_t a
    cdef uint64_t bits = 0
    if axis is None:
        mask[0] = (<uint64_t>1 << ndim) - 1 if ndim < 64 else ~<uint64_t>0
        return 1
    if type(axis) is int:
        a = axis
        if a < 0:
            a += ndim
        if a < 0 or a >= ndim:
            return 0
        mask[0] = <uint64_t>1 << a
        return 1
    if type(axis) is not tuple:
        return 0
    for item in <tuple>axis:
        if type(item) is not int:
            return 0
        a = item
        if a < 0:
            a += ndim
        if a < 0 or a >= ndim or bits >> a & 1:
            return 0
        bits |= <uint64_t>1 << a
    mask[0] = bits
    return 1


cdef object _new(cnp.ndarray x, int nd, cnp.npy_intp *dims, cnp.npy_intp *like, int type_num):
    """An uninitialised array whose axes lie in memory in the order of `like`, x's strides."""
    cdef cnp.npy_intp[64] strides
    if nd < 2 or cnp.PyArray_IS_C_CONTIGUOUS(x):
        return _vec.new_array(nd, dims, NULL, type_num)
    _vec.keep_order(nd, dims, like, _vec.item_size(type_num), strides)
    return _vec.new_array(nd, dims, strides, type_num)


cdef object _reduce(cnp.ndarray x, uint64_t mask, bint keepdims, int kind, int result, int wanted,
                    double ddof, bint root, bint *nonfinite):
    """Mean and/or variance of `x` over the axes in `mask` as arrays or scalars of type `result`.

    None where there is nothing to divide by: no elements, or no degrees of freedom.
    """
    cdef _vec.lucid_reduction r
    cdef int nd = cnp.PyArray_NDIM(x), i, ond = 0, status
    cdef cnp.npy_intp *shape = cnp.PyArray_DIMS(x)
    cdef cnp.npy_intp *strides = cnp.PyArray_STRIDES(x)
    cdef cnp.npy_intp[64] dims, like, steps
    cdef int[64] kept
    cdef const cnp.npy_intp *operands[2]
    cdef cnp.npy_intp elements = 1, count = 1
    cdef double[2] values
    cdef object mean = None, variance = None, any_result
    cdef cnp.npy_intp *out_strides
    for i in range(nd):
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
    r.type = <_vec.lucid_type>kind
    r.swap = not PyArray_ISNOTSWAPPED(x)
    r.result = <_vec.lucid_type>_vec.type_of(result)
    r.count = count
    r.root = root
    _vec.plan_loops(&r.plan, 2, nd, shape, operands, mask)
    if elements < GIL_ELEMENTS:
        status = _run(&r)
    else:
        with nogil:
            status = _run(&r)
    if status == _vec.LUCID_NO_MEMORY:
        raise MemoryError("lucid: no memory for the partial sums of a reduction")
    nonfinite[0] = status == _vec.LUCID_NONFINITE
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


cdef object _mean_few(cnp.ndarray x, uint64_t mask, bint *nonfinite):
    """Mean of a small dense array of floats over axes that lie together; None if it is none."""
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
    if outputs == 0 or n == 0 or outputs > _vec.LUCID_FEW // n:
        return None
    result = _vec.new_array(ond, dims, NULL, type_num) if ond else None
    nonfinite[0] = _vec.LUCID_NONFINITE == _vec.mean_few(
        cnp.PyArray_DATA(x), type_num == cnp.NPY_DOUBLE, outputs // inner, n, inner,
        cnp.PyArray_DATA(<cnp.ndarray>result) if ond else &value,
    )
    return result if ond else _scalar(&value, type_num)


cdef int _run(_vec.lucid_reduction *r) noexcept nogil:
    """One pass; a second where 64-bit integers are summed exactly, in another form than their
    deviations are taken."""
    cdef char *variance = r.variance
    cdef int status
    if r.mean == NULL or variance == NULL or r.type < _vec.LUCID_INT64:
        return _vec.reduce(r)
    r.variance = NULL
    status = _vec.reduce(r)
    if status == _vec.LUCID_NO_MEMORY:
        return status
    r.mean, r.variance = NULL, variance
    return status | _vec.reduce(r)


cdef inline object _scalar(double *value, int type_num):
    if type_num == cnp.NPY_FLOAT:
        return lucid_float32((<float *>value)[0])
    return lucid_float64(value[0])


# Half types are left to the general path: autocast may want them wider.
cdef inline bint _common(object x, object axis, object keepdims, int *kind, int *result,
                         uint64_t *mask) except -1:
    """Whether `x` is an exact ndarray for the kernels and `axis` and `keepdims` are plain."""
    cdef int number
    if not PyArray_CheckExact(x) or not (keepdims is False or keepdims is True):
        return False
    number = cnp.PyArray_TYPE(<cnp.ndarray>x)
    kind[0] = _vec.type_of(number)
    if kind[0] < 0 or kind[0] == _vec.LUCID_FLOAT16 or kind[0] == _vec.LUCID_BFLOAT16:
        return False
    result[0] = number if kind[0] <= _vec.LUCID_FLOAT64 else cnp.NPY_DOUBLE
    return _axes(axis, cnp.PyArray_NDIM(<cnp.ndarray>x), mask)


def reduce(cnp.ndarray x, axes, bint keepdims, cnp.dtype dtype, bint mean, bint variance,
           double ddof=0, bint root=False):
    """Mean and/or variance over the non-negative integer `axes`, in `dtype`; for the general path.

    Parameters
    ----------
    x : ndarray
        Of a type the kernels take; any layout and byte order.
    axes : tuple of int
    keepdims : bool
    dtype : numpy.dtype
        float16, bfloat16, float32 or float64.
    mean, variance : bool
        What to return; a pair if both.
    ddof : float
    root : bool
        The square root of the variance instead.

    Returns
    -------
    result : array, scalar, pair of either, or None
        None if there is nothing to divide by.
    nonfinite : bool
        Whether a value is infinite or NaN.
    """
    cdef uint64_t mask = 0
    cdef bint nonfinite = False
    cdef int kind = _vec.type_of(cnp.PyArray_TYPE(x))
    if kind < 0 or not 0 <= _vec.type_of(dtype.num) <= _vec.LUCID_BFLOAT16:
        raise TypeError(f"reduce: no kernel takes {x.dtype} to {dtype}")
    for axis in axes:
        mask |= <uint64_t>1 << <int>axis
    result = _reduce(x, mask, keepdims, kind, dtype.num,
                     (MEAN if mean else 0) | (VARIANCE if variance else 0), ddof, root, &nonfinite)
    return result, nonfinite


cdef object _spread(x, axis, ddof, keepdims, bint root):
    """Variance, or its square root, in the common case; None in any other."""
    cdef uint64_t mask
    cdef int kind, result
    cdef bint nonfinite = False
    if not _common(x, axis, keepdims, &kind, &result, &mask):
        return None
    value = _reduce(<cnp.ndarray>x, mask, keepdims is True, kind, result, VARIANCE, ddof, root,
                    &nonfinite)
    if value is not None and nonfinite:
        return _nonfinite("std" if root else "var", x, axis, None, ddof, keepdims, value)
    return value


def mean(x, axis=None, dtype=None, out=None, keepdims=False, *, where=True):
    """
    Arithmetic mean along any axes: `numpy.mean`, correctly rounded and at the speed of memory.

    Parameters
    ----------
    x : array_like, Tensor or mlx.core.array
        Any layout, byte order and alignment; read where it lies.
    axis : None, int or tuple of int, optional
        Axes to average over; None is all of them, ``()`` none.
    dtype : data-type, optional
        Type of the result: by default that of `x`, float64 for integers and booleans. Sums are
        carried at least in float64 whatever it is.
    out : ndarray, optional
        Where to store the result; written once, from the finished result.
    keepdims : bool, optional
        Leave reduced axes in the result with length 1.
    where : array_like of bool, optional
        Elements to include. Anything but True is computed by NumPy.

    Returns
    -------
    ndarray, scalar, Tensor or mlx.core.array
        The kind of `x`; a NumPy scalar where NumPy gives one. A Tensor's mean is differentiable.

    Raises
    ------
    numpy.exceptions.AxisError
        An axis out of range.
    ValueError
        A repeated axis, or `out` of the wrong shape.
    TypeError
        `out` together with a Tensor, or a list of Tensors.

    Warns
    -----
    RuntimeWarning
        The mean of an empty slice, which is NaN.

    Notes
    -----
    float16, bfloat16 and float32 means are within 0.51 units in the last place of the exact mean
    of the stored values. Where values cancel to a mean below 2**-15 of their mean magnitude, they
    are within 2**-46 of that magnitude (up to 1024 elements: 2**-54, 2**-85). float64 means are
    within 1 unit in the last place of the mean magnitude; integers of 64 bits are summed exactly.

    The result has the same bits for any number of threads and, with the ``simd`` provider, on any
    processor. Types that the kernels do not take (complex, longdouble, object, time) and ndarray
    subclasses are computed by NumPy.

    Examples
    --------
    >>> import numpy as np
    >>> import lucid
    >>> lucid.mean(np.array([[1.0, 2.0], [3.0, 4.0]]), axis=0)
    array([2., 3.])
    >>> x = np.ones((20_000_000, 2), np.float32)
    >>> lucid.mean(x, axis=0)
    array([1., 1.], dtype=float32)
    """
    cdef uint64_t mask
    cdef int kind, result
    cdef bint nonfinite = False
    if (
        dtype is None and out is None and where is True
        and _common(x, axis, keepdims, &kind, &result, &mask)
    ):
        value = None if keepdims is True else _mean_few(<cnp.ndarray>x, mask, &nonfinite)
        if value is None:
            value = _reduce(<cnp.ndarray>x, mask, keepdims is True, kind, result, MEAN, 0, False,
                            &nonfinite)
        if value is not None:
            if nonfinite:
                return _nonfinite("mean", x, axis, None, 0, keepdims, value)
            return value
    return _mean(x, axis, dtype, out, keepdims, where=where)


def var(x, axis=None, dtype=None, out=None, ddof=0, keepdims=False, *, where=True, mean=None,
        correction=None):
    """
    Variance along any axes: `numpy.var` without cancellation.

    Parameters
    ----------
    x : array_like, Tensor or mlx.core.array
        As in `mean`.
    axis, dtype, out, keepdims, where
        As in `mean`.
    ddof : float, optional
        Delta degrees of freedom: the divisor is N - ddof.
    mean : array_like, optional
        Deviations are taken from this instead of the mean; its reduced axes have length 1.
    correction : float, optional
        The array API's name for `ddof`; only one of the two may be given.

    Returns
    -------
    ndarray, scalar, Tensor or mlx.core.array
        The kind of `x`.

    Raises
    ------
    numpy.exceptions.AxisError, ValueError, TypeError
        As `mean` does; ValueError for both `ddof` and `correction`.

    Warns
    -----
    RuntimeWarning
        No degrees of freedom are left.

    Notes
    -----
    Two passes over cache-sized blocks, merged by the formula of Chan, Golub and LeVeque (1979):
    memory is read once. The variance of equal values is exactly 0.

    Examples
    --------
    >>> import numpy as np
    >>> import lucid
    >>> lucid.var(np.array([1e9, 1e9 + 1, 1e9 + 2]), ddof=1)
    np.float64(1.0)
    """
    if (
        dtype is None and out is None and where is True and mean is None and correction is None
        and type(ddof) is int
    ):
        value = _spread(x, axis, ddof, keepdims, False)
        if value is not None:
            return value
    return _var(x, axis, dtype, out, ddof, keepdims, where=where, mean=mean, correction=correction)


def std(x, axis=None, dtype=None, out=None, ddof=0, keepdims=False, *, where=True, mean=None,
        correction=None):
    """
    Standard deviation along any axes: `numpy.std`, the square root of `var`.

    Parameters
    ----------
    x, axis, dtype, out, ddof, keepdims, where, mean, correction
        As in `var`.

    Returns
    -------
    ndarray, scalar, Tensor or mlx.core.array
        The kind of `x`.

    Raises
    ------
    numpy.exceptions.AxisError, ValueError, TypeError
        As `var` does.

    Warns
    -----
    RuntimeWarning
        No degrees of freedom are left.

    Examples
    --------
    >>> import numpy as np
    >>> import lucid
    >>> lucid.std(np.array([[1.0, 3.0], [2.0, 6.0]]), axis=1)
    array([1., 2.])
    """
    if (
        dtype is None and out is None and where is True and mean is None and correction is None
        and type(ddof) is int
    ):
        value = _spread(x, axis, ddof, keepdims, True)
        if value is not None:
            return value
    return _std(x, axis, dtype, out, ddof, keepdims, where=where, mean=mean, correction=correction)


def mean_var(x, axis=None, *, correction=0, keepdims=False):
    """
    Mean and variance along any axes in one pass over memory.

    Parameters
    ----------
    x : array_like, Tensor or mlx.core.array
        As in `mean`.
    axis : None, int or tuple of int, optional
        As in `mean`.
    correction : float, optional
        The divisor of the variance is N - correction.
    keepdims : bool, optional
        As in `mean`.

    Returns
    -------
    mean, var : ndarray, scalar, Tensor or mlx.core.array
        What `mean` and `var` return.

    Raises
    ------
    numpy.exceptions.AxisError, ValueError, TypeError
        As `mean` does.

    Warns
    -----
    RuntimeWarning
        An empty slice, or no degrees of freedom left.

    Examples
    --------
    >>> import numpy as np
    >>> import lucid
    >>> mean, var = lucid.mean_var(np.array([[1.0, 10.0], [3.0, 30.0]]), axis=0)
    >>> mean, var
    (array([ 2., 20.]), array([  1., 100.]))
    """
    cdef uint64_t mask
    cdef int kind, result
    cdef bint nonfinite = False
    if type(correction) is int and _common(x, axis, keepdims, &kind, &result, &mask):
        value = _reduce(<cnp.ndarray>x, mask, keepdims is True, kind, result, MEAN | VARIANCE,
                        correction, False, &nonfinite)
        if value is not None and not nonfinite:
            return value
    return _mean_var(x, axis, correction=correction, keepdims=keepdims)
