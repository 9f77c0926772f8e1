"""The public function of batch normalization: signature, documentation, and the common case.

What needs no conversion, and has nothing wrong with it, is recognised in one test: arrays then go
straight to the kernels, Tensors to their rule. All other calls are those of `lucid.ops.batch_norm`,
which checks, explains and converts.
"""
cimport numpy as cnp
from libc.math cimport isfinite
from libc.stddef cimport ptrdiff_t

from lucid._kernels cimport batch_norm as kernels

from lucid._tensor import Tensor, share_version
from lucid.ops import batch_norm as general

cnp.import_array()


cdef extern from "numpy/arrayobject.h":
    bint PyArray_CheckExact(object o)
    bint PyArray_ISNOTSWAPPED(cnp.ndarray a)
    bint PyArray_ISWRITEABLE(cnp.ndarray a)
    cnp.npy_intp PyArray_SIZE(cnp.ndarray a)


cdef enum:
    CHANNELS = 256  # whose statistics have room on the stack

cdef type tensor_type = Tensor


cdef inline bint _plain(object values, cnp.npy_intp c, bint optional, bint written) noexcept:
    """Is this None, where that is allowed, or an ordinary vector of c floats?"""
    cdef cnp.ndarray v
    cdef int number
    if values is None:
        return optional
    if not PyArray_CheckExact(values):
        return False
    v = <cnp.ndarray>values
    number = cnp.PyArray_TYPE(v)
    return (
        (number == cnp.NPY_FLOAT or number == cnp.NPY_DOUBLE)
        and cnp.PyArray_NDIM(v) == 1 and cnp.PyArray_DIMS(v)[0] == c
        and PyArray_ISNOTSWAPPED(v) and (PyArray_ISWRITEABLE(v) or not written)
    )


cdef inline bint _apart(object mean, object var) noexcept:
    """Lie these plain vectors, if there are any, in memory one after the other?"""
    cdef ptrdiff_t a, b, from_a, from_b
    if mean is None:
        return True
    a = <ptrdiff_t>cnp.PyArray_DATA(<cnp.ndarray>mean)
    b = <ptrdiff_t>cnp.PyArray_DATA(<cnp.ndarray>var)
    from_a = _extent(<cnp.ndarray>mean)
    from_b = _extent(<cnp.ndarray>var)
    return from_a > 0 and from_b > 0 and (a + from_a <= b or b + from_b <= a)


cdef inline ptrdiff_t _extent(cnp.ndarray v) noexcept:
    """Bytes from the first element to the end of the last; 0 unless these lie apart, in order."""
    cdef ptrdiff_t stride = cnp.PyArray_STRIDES(v)[0], size = cnp.PyArray_ITEMSIZE(v)
    if cnp.PyArray_DIMS(v)[0] > 1 and stride < size:
        return 0
    return (cnp.PyArray_DIMS(v)[0] - 1) * stride + size


cdef bint _common(input, running_mean, running_var, weight, bias, training, momentum, eps,
                  channel_axis) noexcept:
    cdef cnp.ndarray x
    cdef cnp.npy_intp c
    cdef int axis, number
    if not (
        PyArray_CheckExact(input) and type(momentum) is float and type(eps) is float
        and type(channel_axis) is int and (training is True or training is False)
        and (running_mean is None) is (running_var is None)
    ):
        return False
    x = <cnp.ndarray>input
    number = cnp.PyArray_TYPE(x)
    if not (
        (number == cnp.NPY_FLOAT or number == cnp.NPY_DOUBLE)
        and 2 <= cnp.PyArray_NDIM(x) <= 5 and isfinite(<double>momentum)
        and isfinite(<double>eps) and <double>eps >= 0
        and 0 <= channel_axis < cnp.PyArray_NDIM(x)
    ):
        return False
    axis = channel_axis
    c = cnp.PyArray_DIMS(x)[axis]
    return (
        PyArray_SIZE(x) > c
        and _plain(running_mean, c, training is True, training is True)
        and _plain(running_var, c, training is True, training is True)
        and _plain(weight, c, True, False) and _plain(bias, c, True, False)
        and (training is False or _apart(running_mean, running_var))
    )

cdef inline bint _is_tensor(object value) noexcept:
    # In the order of what is likely, and cheap to find out.
    return value is not None and not PyArray_CheckExact(value) and isinstance(value, tensor_type)


cdef inline object _array(object value):
    return value._data if _is_tensor(value) else value


cdef inline object _buffer(object value):
    """The array of running statistics; a Tensor that requires grad is none."""
    return value._data if _is_tensor(value) and not value.requires_grad else value


def batch_norm(input, running_mean, running_var, weight=None, bias=None, training=False,
               momentum=0.1, eps=1e-5, *, channel_axis=1):
    """Normalize each channel by its mean and variance, then scale and shift it.

    ``y = (x - mean) / sqrt(var + eps) * weight + bias`` [1]_, with the batch's mean and biased
    variance in training, and with the running ones in evaluation. Training also moves the running
    statistics, in the same call: ``running = (1 - momentum) * running + momentum * new``, with the
    unbiased variance.

    Parameters
    ----------
    input : array_like or Tensor, shape (N, C) or (N, C, S...)
        One to three spatial axes, in any memory layout. Integers and booleans become float32.
    running_mean, running_var : ndarray, Tensor or mx.array, shape (C,), or None
        Updated in place in training, where both may be None.
    weight, bias : array_like or Tensor, shape (C,), optional
        Scale and shift; one and zero if not given.
    training : bool
        Whether to use the batch's own statistics.
    momentum : float
        Weight of the new statistics; any finite number.
    eps : float
        Added to the variance; finite and not negative.
    channel_axis : int
        Where the channels are.

    Returns
    -------
    ndarray, Tensor or mx.array
        Of the shape, floating dtype and memory layout of `input`; a Tensor if `input`, `weight` or
        `bias` is one.

    Raises
    ------
    ValueError
        For a wrong rank or shape, one value per channel in training, running statistics that are
        read-only or missing, or a `momentum` or `eps` out of range. Nothing has changed then.
    TypeError
        For a dtype or a kind of array that can't be normalized, and for mixed devices.
    numpy.exceptions.AxisError
        For a `channel_axis` that `input` does not have.

    Notes
    -----
    Gradients are exact to second order; the derivative of a second derivative raises
    NotImplementedError.

    References
    ----------
    .. [1] S. Ioffe and C. Szegedy, "Batch Normalization: Accelerating Deep Network Training by
       Reducing Internal Covariate Shift", ICML 2015.

    Examples
    --------
    >>> import numpy as np
    >>> import lucid.nn.functional as F
    >>> x = np.array([[1.0, 10.0], [3.0, 30.0]])
    >>> mean, var = np.zeros(2), np.ones(2)
    >>> F.batch_norm(x, mean, var, training=True, momentum=0.5, eps=0)
    array([[-1., -1.],
           [ 1.,  1.]])
    >>> mean, var
    (array([ 1., 10.]), array([  1.5, 100.5]))
    """
    cdef double[2 * CHANNELS] statistics
    cdef bint traced
    x, mean, var = _array(input), _buffer(running_mean), _buffer(running_var)
    if not _common(x, mean, var, _array(weight), _array(bias), training, momentum, eps,
                   channel_axis):
        return general.batch_norm(input, running_mean, running_var, weight, bias, training,
                                  momentum, eps, channel_axis=channel_axis)
    traced = _is_tensor(input) or _is_tensor(weight) or _is_tensor(bias)
    if not traced and cnp.PyArray_DIMS(<cnp.ndarray>x)[<int>channel_axis] <= CHANNELS:
        y = kernels.normalize(<cnp.ndarray>x, weight, bias, mean, var, training is True, momentum,
                              eps, channel_axis, statistics, statistics + CHANNELS)
    else:
        options = mean, var, training, momentum, eps, channel_axis
        y = (general.record if traced else general.normalized)(input, weight, bias, options)
    if training is True:
        if _is_tensor(running_mean):
            share_version(running_mean)[0] += 1
        if _is_tensor(running_var):
            share_version(running_var)[0] += 1
    return y
