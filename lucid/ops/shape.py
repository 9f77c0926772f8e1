"""Rules that move elements around: shapes, order of axes, padding."""

from __future__ import annotations

import numpy as np

from .._tensor import Tensor, as_tensor, as_tensors
from ..autograd import Function, OpSchema
from ..backends import namespace
from .indexing import getitem
from .reductions import BroadcastTo, axes_of, refuse


class Reshape(Function):
    schema_v1 = OpSchema("reshape")
    saves_input = False

    @staticmethod
    def forward(ctx, x, shape):
        return x.reshape(shape)

    @staticmethod
    def backward(ctx, g):
        return Reshape.apply(g, ctx.edges[0].shape), None


def reshape(a, shape, order="C", copy=None):
    refuse("reshape", copy=copy)
    if order == "F":
        shape = (shape,) if isinstance(shape, int) else shape
        return transpose(Reshape.apply(transpose(a), tuple(shape)[::-1]))
    if order != "C":
        raise TypeError(f"reshape: order must be 'C' or 'F' for a Tensor, got {order!r}")
    return Reshape.apply(a, shape)


def ravel(a, order="C"):
    return reshape(a, (-1,), order)


def squeeze(a, axis=None):
    shape = a.data.shape
    if axis is None:
        return Reshape.apply(a, tuple([n for n in shape if n != 1]))
    return Reshape.apply(a, namespace(a.data).squeeze(a.data, axis).shape)


def expand_dims(a, axis):
    return Reshape.apply(a, namespace(a.data).expand_dims(a.data, axis).shape)


def atleast_1d(*arys):
    return _each(arys, lambda a: a if a.ndim else expand_dims(a, 0))


def atleast_2d(*arys):
    return _each(arys, lambda a: a if a.ndim > 1 else a.reshape((1, -1)))


def atleast_3d(*arys):
    return _each(arys, lambda a: atleast_2d(a)[..., None] if a.ndim < 3 else a)


def _each(arrays, change):
    changed = tuple(map(change, as_tensors(*arrays)))
    return changed if len(changed) > 1 else changed[0]


def repeat(a, repeats, axis=None):
    a = as_tensor(a)
    repeats = np.asarray(repeats.data if isinstance(repeats, Tensor) else repeats)
    if axis is None:
        a, axis = ravel(a), 0
    (axis,) = axes_of(axis, a.ndim)
    if repeats.size == 1:
        copies = np.repeat(0, repeats).size  # which has NumPy's errors
        shape = (*a.shape[: axis + 1], copies, *a.shape[axis + 1 :])
        longer = (*a.shape[:axis], a.shape[axis] * copies, *a.shape[axis + 1 :])
        return BroadcastTo.apply(expand_dims(a, axis + 1), shape).reshape(longer)
    where = np.repeat(np.arange(a.shape[axis]), repeats)
    return getitem(a, (slice(None),) * axis + (where,))


def tile(A, reps):
    a = as_tensor(A)
    reps = tuple(np.ravel(reps.data if isinstance(reps, Tensor) else reps).tolist())
    shape = (1,) * (len(reps) - a.ndim) + a.shape
    reps = (1,) * (len(shape) - len(reps)) + reps
    pairs = list(zip(reps, shape, strict=True))
    a = a.reshape(tuple([k for n in shape for k in (1, n)]))
    a = BroadcastTo.apply(a, tuple([k for pair in pairs for k in pair]))
    return a.reshape(tuple([r * n for r, n in pairs]))


class Transpose(Function):
    schema_v1 = OpSchema("transpose")
    saves_input = False

    @staticmethod
    def forward(ctx, x, axes):
        ctx.axes = axes
        return x.transpose(axes)

    @staticmethod
    def backward(ctx, g):
        inverse = [0] * len(ctx.axes)
        for i, axis in enumerate(ctx.axes):
            inverse[axis] = i
        return Transpose.apply(g, tuple(inverse)), None


def transpose(a, axes=None):
    if axes is None:
        axes = range(a.ndim - 1, -1, -1)
    axes = axes_of(tuple(axes) if np.iterable(axes) else axes, a.ndim)
    if len(axes) != a.ndim:
        raise ValueError(f"transpose: axes must name all {a.ndim} axes, got {axes}")
    return Transpose.apply(a, axes)


def swapaxes(a, axis1, axis2):
    axes = list(range(a.ndim))
    (i, j) = axes_of(axis1, a.ndim) + axes_of(axis2, a.ndim)
    axes[i], axes[j] = axes[j], axes[i]
    return Transpose.apply(a, tuple(axes))


def moveaxis(a, source, destination):
    source, destination = axes_of(source, a.ndim), axes_of(destination, a.ndim)
    if len(source) != len(destination):
        raise ValueError(
            f"moveaxis: source and destination must be of one length, got {source}, {destination}"
        )
    axes = [i for i in range(a.ndim) if i not in source]
    for d, s in sorted(zip(destination, source, strict=True)):
        axes.insert(d, s)
    return Transpose.apply(a, tuple(axes))


class Roll(Function):
    schema_v1 = OpSchema("roll")
    saves_input = False

    @staticmethod
    def forward(ctx, x, shift, axis):
        ctx.shift, ctx.axis = shift, axis
        return namespace(x).roll(x, shift, axis)

    @staticmethod
    def backward(ctx, g):
        return (
            Roll.apply(g, tuple(np.negative(ctx.shift).reshape(-1).tolist()), ctx.axis),
            None,
            None,
        )


def roll(a, shift, axis=None):
    return Roll.apply(a, shift if isinstance(shift, int) else tuple(np.ravel(shift).tolist()), axis)


class Pad(Function):
    schema_v1 = OpSchema("pad")
    saves_input = False

    @staticmethod
    def forward(ctx, x, widths, value):
        ctx.inner = tuple([slice(w, w + n) for (w, _), n in zip(widths, x.shape, strict=True)])
        return namespace(x).pad(x, widths, constant_values=value)

    @staticmethod
    def backward(ctx, g):
        return getitem(g, ctx.inner), None, None


def pad(array, pad_width, mode="constant", *, constant_values=0):
    refuse("pad", mode=None if mode == "constant" else mode)
    if isinstance(pad_width, dict):
        pad_width = [pad_width.get(i, pad_width.get(i - array.ndim, 0)) for i in range(array.ndim)]
        pad_width = [(w, w) if isinstance(w, int) else w for w in pad_width]
    widths = np.broadcast_to(np.asarray(pad_width, dtype=np.intp), (array.ndim, 2)).tolist()
    if isinstance(constant_values, Tensor):
        constant_values = constant_values.numpy()
    return Pad.apply(array, widths, constant_values)
