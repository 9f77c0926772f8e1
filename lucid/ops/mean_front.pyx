"""The public functions of mean and variance: signature, documentation, and the common case.

Each accepts the common case (an exact ndarray of a type the kernels take, integer axes, nothing
else asked) in one test and goes straight to the kernels; a Tensor as plain goes straight to its
rule. All other calls are those of `statistics`, which checks, explains and converts.
"""
cimport numpy as cnp
from libc.stdint cimport uint64_t

from lucid._kernels cimport provider
from lucid._kernels.reduce cimport MEAN, VARIANCE, mean_few, reduce_array

from lucid._tensor import Tensor
from lucid.backends.cpu import settle
from lucid.ops import statistics
from lucid.ops.mean import Mean

cnp.import_array()


cdef extern from "numpy/arrayobject.h":
    bint PyArray_CheckExact(object o)


cdef type tensor_type = Tensor


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


# Half types are left to the general path: autocast may want them wider.
cdef inline bint _common(object x, object axis, object keepdims, int *kind, int *result,
                         uint64_t *mask) except -1:
    """Whether `x` is an exact ndarray for the kernels and `axis` and `keepdims` are plain."""
    cdef int number
    if not PyArray_CheckExact(x) or not (keepdims is False or keepdims is True):
        return False
    number = cnp.PyArray_TYPE(<cnp.ndarray>x)
    kind[0] = provider.type_of(number)
    if kind[0] < 0 or kind[0] == provider.LUCID_FLOAT16 or kind[0] == provider.LUCID_BFLOAT16:
        return False
    result[0] = number if kind[0] <= provider.LUCID_FLOAT64 else cnp.NPY_DOUBLE
    return _axes(axis, cnp.PyArray_NDIM(<cnp.ndarray>x), mask)


cdef object _axes_of_tensor(x, axis):
    """The axes as a tuple of non-negative numbers; None if `axis` is not plain."""
    cdef uint64_t mask
    cdef int i, ndim = x._data.ndim
    if not _axes(axis, ndim, &mask):
        return None
    return tuple([i for i in range(ndim) if mask >> i & 1])


cdef object _spread(x, axis, ddof, keepdims, bint root):
    """Variance, or its square root, in the common case; None in any other."""
    cdef uint64_t mask
    cdef int kind, result
    cdef bint nonfinite = False
    if not _common(x, axis, keepdims, &kind, &result, &mask):
        return None
    value = reduce_array(<cnp.ndarray>x, mask, keepdims is True, kind, result, VARIANCE, ddof, root,
                         &nonfinite)
    if value is not None and nonfinite:
        return settle("std" if root else "var", x, axis, None, ddof, keepdims, value)
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
    if dtype is None and out is None and where is True:
        if _common(x, axis, keepdims, &kind, &result, &mask):
            value = None if keepdims is True else mean_few(<cnp.ndarray>x, mask, &nonfinite)
            if value is None:
                value = reduce_array(<cnp.ndarray>x, mask, keepdims is True, kind, result, MEAN, 0,
                                     False, &nonfinite)
            if value is not None:
                if nonfinite:
                    return settle("mean", x, axis, None, 0, keepdims, value)
                return value
        elif type(x) is tensor_type and (keepdims is False or keepdims is True):
            axes = _axes_of_tensor(x, axis)
            if axes is not None:
                return Mean.apply(x, axes, keepdims)
    return statistics.mean(x, axis, dtype, out, keepdims, where=where)


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
    return statistics.var(x, axis, dtype, out, ddof, keepdims, where=where, mean=mean,
                          correction=correction)


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
    return statistics.std(x, axis, dtype, out, ddof, keepdims, where=where, mean=mean,
                          correction=correction)


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
        value = reduce_array(<cnp.ndarray>x, mask, keepdims is True, kind, result, MEAN | VARIANCE,
                             correction, False, &nonfinite)
        if value is not None and not nonfinite:
            return value
    return statistics.mean_var(x, axis, correction=correction, keepdims=keepdims)
