"""Batch normalization of ndarrays: from a Python call to one C call.

`forward`, `inference`, `backward` and `double_backward` trust their caller in all but dtypes.
`batch_norm` accepts the common case in one test and hands every other call to the function bound by
`bind`, which checks, explains, converts, and knows Tensors.
"""
cimport numpy as cnp
from libc.math cimport isfinite
from libc.stddef cimport ptrdiff_t

from lucid._kernels cimport _vec
from lucid._kernels import _vec as _provider

cnp.import_array()


cdef extern from "numpy/arrayobject.h":
    object PyArray_EMPTY(int nd, cnp.npy_intp *dims, int typenum, int fortran)
    bint PyArray_CheckExact(object o)
    bint PyArray_ISNOTSWAPPED(cnp.ndarray a)
    bint PyArray_ISALIGNED(cnp.ndarray a)
    bint PyArray_ISWRITEABLE(cnp.ndarray a)
    cnp.npy_intp PyArray_SIZE(cnp.ndarray a)


# Below this many elements, releasing the GIL costs more than it gives others.
cdef enum:
    GIL_ELEMENTS = 16384

cdef object _general = None


def bind(general):
    """Bind the function, of the signature of `batch_norm`, that takes every call but the common."""
    global _general
    _general = general


cdef inline int _type(cnp.ndarray x) except -1:
    cdef int kind = _vec.type_of(cnp.PyArray_TYPE(x))
    if kind < 0 and _provider.takes(x.dtype):
        kind = _vec.type_of(cnp.PyArray_TYPE(x))
    if not 0 <= kind <= _vec.LUCID_BFLOAT16:
        raise TypeError(f"batch_norm: no kernel takes {x.dtype}")
    return kind


cdef inline int _array(_vec.lucid_array *a, cnp.ndarray x) except -1:
    a.data = <char *>cnp.PyArray_DATA(x)
    a.strides = <const ptrdiff_t *>cnp.PyArray_STRIDES(x)
    a.type = <_vec.lucid_type>_type(x)
    a.swap = not PyArray_ISNOTSWAPPED(x)
    a.aligned = PyArray_ISALIGNED(x)
    return 0


cdef inline int _vector(_vec.lucid_vector *v, object values) except -1:
    """`values` is None or an ndarray of shape (C,)."""
    cdef cnp.ndarray x
    v.data = NULL
    if values is None:
        return 0
    x = <cnp.ndarray?>values
    v.data = <char *>cnp.PyArray_DATA(x)
    v.stride = cnp.PyArray_STRIDES(x)[0]
    v.type = <_vec.lucid_type>_type(x)
    v.swap = not PyArray_ISNOTSWAPPED(x)
    return 0


cdef inline cnp.ndarray _like(cnp.ndarray x):
    """An uninitialised native array of x's shape and type whose axes lie in memory as x's do."""
    cdef cnp.npy_intp[64] strides
    cdef int nd = cnp.PyArray_NDIM(x), type_num = cnp.PyArray_TYPE(x)
    if cnp.PyArray_IS_C_CONTIGUOUS(x):
        return _vec.new_array(nd, cnp.PyArray_DIMS(x), NULL, type_num)
    _vec.keep_order(nd, cnp.PyArray_DIMS(x), cnp.PyArray_STRIDES(x), _vec.item_size(type_num),
                    strides)
    return _vec.new_array(nd, cnp.PyArray_DIMS(x), strides, type_num)


cdef inline cnp.ndarray _new_vector(cnp.npy_intp n, int type_num):
    return PyArray_EMPTY(1, &n, type_num, 0)


cdef inline cnp.npy_intp _channels(_vec.lucid_channels *of, cnp.ndarray x, int axis) noexcept:
    of.ndim = cnp.PyArray_NDIM(x)
    of.axis = axis
    of.shape = <const ptrdiff_t *>cnp.PyArray_DIMS(x)
    return cnp.PyArray_DIMS(x)[axis]


cdef cnp.ndarray _forward(cnp.ndarray x, weight, bias, running_mean, running_var, bint training,
                          double momentum, double eps, int axis, double *mean, double *rstd):
    cdef _vec.lucid_channels of
    cdef _vec.lucid_array a, b
    cdef _vec.lucid_vector w, u, m, v
    cdef cnp.ndarray y
    cdef int status
    _channels(&of, x, axis)
    _array(&a, x)
    _vector(&w, weight)
    _vector(&u, bias)
    _vector(&m, running_mean)
    _vector(&v, running_var)
    y = _like(x)
    _array(&b, y)
    if PyArray_SIZE(x) < GIL_ELEMENTS:
        if training:
            status = _vec.batch_norm_forward(&of, a, w, u, m, v, momentum, eps, b, mean, rstd)
        else:
            status = _vec.batch_norm_inference(&of, a, w, u, m, v, eps, b, mean, rstd)
    else:
        with nogil:
            if training:
                status = _vec.batch_norm_forward(&of, a, w, u, m, v, momentum, eps, b, mean, rstd)
            else:
                status = _vec.batch_norm_inference(&of, a, w, u, m, v, eps, b, mean, rstd)
    if status:
        raise MemoryError("batch_norm: no memory for the statistics of the channels")
    return y


def forward(cnp.ndarray x, weight, bias, running_mean, running_var, double momentum, double eps,
            int channel_axis):
    """Training: ``y, mean, rstd``; moves the running statistics in the same call.

    Parameters
    ----------
    x : ndarray
        Of a floating type up to float64; any layout, alignment and byte order.
    weight, bias, running_mean, running_var : ndarray of shape (C,), or None
        Each of any floating type.
    momentum, eps : float
    channel_axis : int
        Not negative.

    Returns
    -------
    y : ndarray
        Of x's type, its axes in memory in the order of x's.
    mean, rstd : ndarray of float64, shape (C,)
    """
    cdef cnp.npy_intp c = cnp.PyArray_DIMS(x)[channel_axis]
    cdef cnp.ndarray mean = _new_vector(c, cnp.NPY_DOUBLE), rstd = _new_vector(c, cnp.NPY_DOUBLE)
    y = _forward(x, weight, bias, running_mean, running_var, True, momentum, eps, channel_axis,
                 <double *>cnp.PyArray_DATA(mean), <double *>cnp.PyArray_DATA(rstd))
    return y, mean, rstd


def inference(cnp.ndarray x, weight, bias, running_mean, running_var, double eps,
              int channel_axis):
    """Evaluation: ``y, mean, rstd`` from the running statistics, which are only read.

    Parameters and results as in `forward`; neither running statistic may be None.
    """
    cdef cnp.npy_intp c = cnp.PyArray_DIMS(x)[channel_axis]
    cdef cnp.ndarray mean = _new_vector(c, cnp.NPY_DOUBLE), rstd = _new_vector(c, cnp.NPY_DOUBLE)
    y = _forward(x, weight, bias, running_mean, running_var, False, 0, eps, channel_axis,
                 <double *>cnp.PyArray_DATA(mean), <double *>cnp.PyArray_DATA(rstd))
    return y, mean, rstd


cdef object _new_gradient(values, cnp.ndarray x, cnp.npy_intp c):
    """A vector of the type of the parameter `values`, of x's if there is none."""
    return _new_vector(c, cnp.PyArray_TYPE(x if values is None else <cnp.ndarray?>values))


def backward(cnp.ndarray dy, cnp.ndarray x, weight, bias, mean, rstd, bint training,
             int channel_axis, needs):
    """``dx, dweight, dbias``, None where `needs` does not ask for them.

    Parameters
    ----------
    dy, x : ndarray of one shape
        Each in a layout of its own.
    weight, bias : ndarray of shape (C,), or None
        `bias` only gives dbias its type.
    mean, rstd : ndarray of shape (C,)
        From `forward`, or from `inference` with `training` False: then they are constants.
    training : bool
    channel_axis : int
        Not negative.
    needs : sequence of three bool

    Returns
    -------
    dx : ndarray or None
        Of x's type, its axes in memory in the order of x's.
    dweight, dbias : ndarray of shape (C,), or None
        Of the types of the parameters.
    """
    cdef _vec.lucid_channels of
    cdef _vec.lucid_array g, a, d
    cdef _vec.lucid_vector w, m, r, dw, db
    cdef int status
    cdef cnp.npy_intp c = _channels(&of, x, channel_axis)
    cdef object dx = None, dweight = None, dbias = None
    need_x, need_weight, need_bias = needs
    _array(&g, dy)
    _array(&a, x)
    _vector(&w, weight)
    _vector(&m, mean)
    _vector(&r, rstd)
    d.data = NULL
    if need_x:
        dx = _like(x)
        _array(&d, <cnp.ndarray>dx)
    if need_weight:
        dweight = _new_gradient(weight, x, c)
    if need_bias:
        dbias = _new_gradient(bias, x, c)
    _vector(&dw, dweight)
    _vector(&db, dbias)
    if PyArray_SIZE(x) < GIL_ELEMENTS:
        status = _vec.batch_norm_backward(&of, g, a, w, m, r, training, d, dw, db)
    else:
        with nogil:
            status = _vec.batch_norm_backward(&of, g, a, w, m, r, training, d, dw, db)
    if status:
        raise MemoryError("batch_norm: no memory for the sums of the channels")
    return dx, dweight, dbias


def double_backward(v, w, u, cnp.ndarray dy, cnp.ndarray x, weight, mean, rstd, bint training,
                    int channel_axis, needs):
    """Gradients to ``dy, x, weight``, None where `needs` does not ask for them.

    Parameters
    ----------
    v, w, u : ndarray or None
        Cotangents of dx, dweight, dbias; None is zero.
    dy, x, weight, mean, rstd, training, channel_axis
        As in `backward`.
    needs : sequence of three bool

    Returns
    -------
    to_dy, to_x : ndarray or None
        Of the types and memory orders of dy and x.
    to_weight : ndarray of shape (C,), or None
    """
    cdef _vec.lucid_channels of
    cdef _vec.lucid_array vx, g, a, dg, da
    cdef _vec.lucid_vector vw, vb, p, m, r, dw
    cdef int status
    cdef cnp.npy_intp c = _channels(&of, x, channel_axis)
    cdef object to_dy = None, to_x = None, to_weight = None
    need_dy, need_x, need_weight = needs
    vx.data = NULL
    if v is not None:
        _array(&vx, <cnp.ndarray?>v)
    _vector(&vw, w)
    _vector(&vb, u)
    _array(&g, dy)
    _array(&a, x)
    _vector(&p, weight)
    _vector(&m, mean)
    _vector(&r, rstd)
    dg.data = da.data = NULL
    if need_dy:
        to_dy = _like(dy)
        _array(&dg, <cnp.ndarray>to_dy)
    if need_x:
        to_x = _like(x)
        _array(&da, <cnp.ndarray>to_x)
    if need_weight:
        to_weight = _new_gradient(weight, x, c)
    _vector(&dw, to_weight)
    if PyArray_SIZE(x) < GIL_ELEMENTS:
        status = _vec.batch_norm_double_backward(&of, vx, vw, vb, g, a, p, m, r, training, dg, da,
                                                 dw)
    else:
        with nogil:
            status = _vec.batch_norm_double_backward(&of, vx, vw, vb, g, a, p, m, r, training, dg,
                                                     da, dw)
    if status:
        raise MemoryError("batch_norm: no memory for the sums of the channels")
    return to_dy, to_x, to_weight


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


def is_common(input, running_mean, running_var, weight, bias, training, momentum, eps,
              channel_axis):
    """Whether these are arrays and numbers that need no conversion, and nothing is wrong.

    Parameters as those of `batch_norm`, Tensors replaced by their arrays.
    """
    return _common(input, running_mean, running_var, weight, bias, training, momentum, eps,
                   channel_axis)


def batch_norm(input, running_mean, running_var, weight=None, bias=None, training=False,
               momentum=0.1, eps=1e-5, *, channel_axis=1):
    cdef double[512] statistics
    if (
        _common(input, running_mean, running_var, weight, bias, training, momentum, eps,
                channel_axis)
        and cnp.PyArray_DIMS(<cnp.ndarray>input)[<int>channel_axis] <= 256
    ):
        return _forward(<cnp.ndarray>input, weight, bias, running_mean, running_var,
                        training is True, momentum, eps, channel_axis, statistics,
                        statistics + 256)
    return _general(input, running_mean, running_var, weight, bias, training, momentum, eps,
                    channel_axis=channel_axis)
