"""Batch normalization of ndarrays: the array calls.

What C is told of shapes, strides and writability is checked here, whoever calls: it follows them
blindly. Values (`momentum`, `eps`, one element per channel) are the caller's to check.
"""
cimport numpy as cnp
from libc.stddef cimport ptrdiff_t

from lucid._kernels cimport memory, provider
from lucid._kernels import provider as _provider

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


# An array as C sees it, with copies of what NumPy frees when the array gets another shape, which
# another thread may give it while C computes.
cdef struct operand:
    provider.lucid_array array
    ptrdiff_t[64] strides

cdef struct extent:
    provider.lucid_channels channels
    ptrdiff_t[64] shape


cdef inline int _type(cnp.ndarray x) except -1:
    cdef int kind = provider.type_of(cnp.PyArray_TYPE(x))
    if kind < 0 and _provider.takes(x.dtype):
        kind = provider.type_of(cnp.PyArray_TYPE(x))
    if not 0 <= kind <= provider.LUCID_BFLOAT16:
        raise TypeError(f"batch_norm: no kernel takes {x.dtype}")
    return kind


cdef inline cnp.npy_intp _extent(extent *e, cnp.ndarray x, int axis) except -1:
    """Shape and channels of all operands, those of `x`; the number of channels."""
    cdef int i, nd = cnp.PyArray_NDIM(x)
    if not 0 <= axis < nd:
        raise ValueError(f"batch_norm: channel_axis must be an axis of {nd}, got {axis}")
    for i in range(nd):
        e.shape[i] = cnp.PyArray_DIMS(x)[i]
    e.channels.ndim = nd
    e.channels.axis = axis
    e.channels.shape = e.shape
    return e.shape[axis]


cdef inline int _operand(operand *o, cnp.ndarray x, const extent *e, str name) except -1:
    """An array of the common shape."""
    cdef int i, nd = cnp.PyArray_NDIM(x)
    cdef bint fits = nd == e.channels.ndim
    for i in range(nd if fits else 0):
        fits = fits and cnp.PyArray_DIMS(x)[i] == e.shape[i]
        o.strides[i] = cnp.PyArray_STRIDES(x)[i]
    if not fits:
        shape = tuple([e.shape[i] for i in range(e.channels.ndim)])
        raise ValueError(
            f"batch_norm: {name} must have the shape {shape} of the forward call, "
            f"got {(<object>x).shape}"
        )
    o.array.data = <char *>cnp.PyArray_DATA(x)
    o.array.strides = o.strides
    o.array.type = <provider.lucid_type>_type(x)
    o.array.swap = not PyArray_ISNOTSWAPPED(x)
    o.array.aligned = PyArray_ISALIGNED(x)
    return 0


cdef inline int _result(provider.lucid_array *a, cnp.ndarray x) except -1:
    """An array that `_like` made and nobody else knows yet."""
    a.data = <char *>cnp.PyArray_DATA(x)
    a.strides = <const ptrdiff_t *>cnp.PyArray_STRIDES(x)
    a.type = <provider.lucid_type>_type(x)
    a.swap = False
    a.aligned = True
    return 0


cdef inline int _vector(provider.lucid_vector *v, object values, cnp.npy_intp c, str name,
                        bint written=False) except -1:
    """An ndarray of shape (C,), or None."""
    cdef cnp.ndarray x
    v.data = NULL
    if values is None:
        return 0
    x = <cnp.ndarray?>values
    if cnp.PyArray_NDIM(x) != 1 or cnp.PyArray_DIMS(x)[0] != c:
        raise ValueError(f"batch_norm: {name} must have shape ({c},), got {values.shape}")
    if written and not (PyArray_CheckExact(x) and PyArray_ISWRITEABLE(x)):
        raise ValueError(f"batch_norm: {name} must be a plain writable array, got {values!r}")
    v.data = <char *>cnp.PyArray_DATA(x)
    v.stride = cnp.PyArray_STRIDES(x)[0]
    v.type = <provider.lucid_type>_type(x)
    v.swap = not PyArray_ISNOTSWAPPED(x)
    return 0


cdef inline cnp.ndarray _like(cnp.ndarray x, const operand *o, const extent *e):
    """An uninitialised native array of the common shape and x's type, its axes in x's order."""
    cdef cnp.npy_intp *shape = <cnp.npy_intp *>e.shape
    if cnp.PyArray_IS_C_CONTIGUOUS(x):
        return memory.new_array(e.channels.ndim, shape, cnp.PyArray_TYPE(x))
    return memory.new_ordered(e.channels.ndim, shape, <const cnp.npy_intp *>o.strides,
                              cnp.PyArray_TYPE(x))


cdef inline cnp.ndarray _new_vector(cnp.npy_intp n, int type_num):
    return PyArray_EMPTY(1, &n, type_num, 0)


cdef cnp.ndarray normalize(cnp.ndarray x, weight, bias, running_mean, running_var, bint training,
                           double momentum, double eps, int axis, double *mean, double *rstd):
    cdef extent of
    cdef operand a
    cdef provider.lucid_array b
    cdef provider.lucid_vector w, u, m, v
    cdef cnp.ndarray y
    cdef int status
    cdef cnp.npy_intp c = _extent(&of, x, axis)
    _operand(&a, x, &of, "x")
    _vector(&w, weight, c, "weight")
    _vector(&u, bias, c, "bias")
    _vector(&m, running_mean, c, "running_mean", training)
    _vector(&v, running_var, c, "running_var", training)
    y = _like(x, &a, &of)
    _result(&b, y)
    if PyArray_SIZE(y) < GIL_ELEMENTS:
        if training:
            status = provider.batch_norm_forward(&of.channels, a.array, w, u, m, v, momentum, eps,
                                                 b, mean, rstd)
        else:
            status = provider.batch_norm_inference(&of.channels, a.array, w, u, m, v, eps, b,
                                                   mean, rstd)
    else:
        with nogil:
            if training:
                status = provider.batch_norm_forward(&of.channels, a.array, w, u, m, v, momentum,
                                                     eps, b, mean, rstd)
            else:
                status = provider.batch_norm_inference(&of.channels, a.array, w, u, m, v, eps,
                                                       b, mean, rstd)
    if status:
        raise MemoryError("batch_norm: no memory for the statistics of the channels")
    return y


cdef inline cnp.npy_intp _channels(cnp.ndarray x, int axis) except -1:
    cdef extent of
    return _extent(&of, x, axis)


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
    cdef cnp.npy_intp c = _channels(x, channel_axis)
    cdef cnp.ndarray mean = _new_vector(c, cnp.NPY_DOUBLE), rstd = _new_vector(c, cnp.NPY_DOUBLE)
    y = normalize(x, weight, bias, running_mean, running_var, True, momentum, eps, channel_axis,
                  <double *>cnp.PyArray_DATA(mean), <double *>cnp.PyArray_DATA(rstd))
    return y, mean, rstd


def inference(cnp.ndarray x, weight, bias, running_mean, running_var, double eps,
              int channel_axis):
    """Evaluation: ``y, mean, rstd`` from the running statistics, which are only read.

    Parameters and results as in `forward`; neither running statistic may be None.
    """
    cdef cnp.npy_intp c = _channels(x, channel_axis)
    cdef cnp.ndarray mean = _new_vector(c, cnp.NPY_DOUBLE), rstd = _new_vector(c, cnp.NPY_DOUBLE)
    y = normalize(x, weight, bias, running_mean, running_var, False, 0, eps, channel_axis,
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
    cdef extent of
    cdef operand g, a
    cdef provider.lucid_array d
    cdef provider.lucid_vector w, m, r, dw, db
    cdef int status
    cdef cnp.npy_intp c = _extent(&of, x, channel_axis)
    cdef object dx = None, dweight = None, dbias = None
    need_x, need_weight, need_bias = needs
    _operand(&g, dy, &of, "dy")
    _operand(&a, x, &of, "x")
    _vector(&w, weight, c, "weight")
    _vector(&m, mean, c, "mean")
    _vector(&r, rstd, c, "rstd")
    d.data = NULL
    if need_x:
        dx = _like(x, &a, &of)
        _result(&d, <cnp.ndarray>dx)
    if need_weight:
        dweight = _new_gradient(weight, x, c)
    if need_bias:
        dbias = _new_gradient(bias, x, c)
    _vector(&dw, dweight, c, "dweight")
    _vector(&db, dbias, c, "dbias")
    if PyArray_SIZE(x) < GIL_ELEMENTS:
        status = provider.batch_norm_backward(&of.channels, g.array, a.array, w, m, r, training,
                                              d, dw, db)
    else:
        with nogil:
            status = provider.batch_norm_backward(&of.channels, g.array, a.array, w, m, r, training,
                                                  d, dw, db)
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
    cdef extent of
    cdef operand vx, g, a
    cdef provider.lucid_array dg, da
    cdef provider.lucid_vector vw, vb, p, m, r, dw
    cdef int status
    cdef cnp.npy_intp c = _extent(&of, x, channel_axis)
    cdef object to_dy = None, to_x = None, to_weight = None
    need_dy, need_x, need_weight = needs
    vx.array.data = NULL
    if v is not None:
        _operand(&vx, <cnp.ndarray?>v, &of, "v")
    _vector(&vw, w, c, "w")
    _vector(&vb, u, c, "u")
    _operand(&g, dy, &of, "dy")
    _operand(&a, x, &of, "x")
    _vector(&p, weight, c, "weight")
    _vector(&m, mean, c, "mean")
    _vector(&r, rstd, c, "rstd")
    dg.data = da.data = NULL
    if need_dy:
        to_dy = _like(dy, &g, &of)
        _result(&dg, <cnp.ndarray>to_dy)
    if need_x:
        to_x = _like(x, &a, &of)
        _result(&da, <cnp.ndarray>to_x)
    if need_weight:
        to_weight = _new_gradient(weight, x, c)
    _vector(&dw, to_weight, c, "to_weight")
    if PyArray_SIZE(x) < GIL_ELEMENTS:
        status = provider.batch_norm_double_backward(
            &of.channels, vx.array, vw, vb, g.array, a.array, p, m, r, training, dg, da,
            dw,
        )
    else:
        with nogil:
            status = provider.batch_norm_double_backward(
                &of.channels, vx.array, vw, vb, g.array, a.array, p, m, r, training, dg,
                da, dw,
            )
    if status:
        raise MemoryError("batch_norm: no memory for the sums of the channels")
    return to_dy, to_x, to_weight
