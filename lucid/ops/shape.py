"""Rules that move elements around: shapes, indexing, joining."""

from __future__ import annotations

import operator

import numpy as np

from .._tensor import Tensor, copied, dtype_name, is_mlx, operands, to_numpy
from ..autograd import Function, OpSchema
from ..backends import namespace
from .elementwise import fit
from .reductions import axes_of, is_half, refuse


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


class Index(Function):
    schema_v1 = OpSchema("index")
    saves_input = False

    @staticmethod
    def forward(ctx, x, index):
        ctx.index = index
        return x[index] if isinstance(x, np.ndarray) else namespace(x).getitem(x, index)

    @staticmethod
    def backward(ctx, g):
        return IndexAdd.apply(g, ctx.index, ctx.edges[0].shape), None


class IndexAdd(Function):
    """Zeros with `x` added at `index`, repeatedly where an index repeats: the adjoint of Index."""

    schema_v1 = OpSchema("index_add")
    saves_input = False
    fresh_grads = False

    @staticmethod
    def forward(ctx, x, index, shape):
        ctx.index = index
        if not isinstance(x, np.ndarray):
            return namespace(x).add_at(shape, index, x)
        if may_repeat(index):
            out = np.zeros(shape, np.float32 if is_half(x) else x.dtype)
            np.add.at(out, index, x)
            return out.astype(x.dtype, copy=False)
        out = np.zeros(shape, x.dtype)
        out[index] = x
        return out

    @staticmethod
    def backward(ctx, g):
        return Index.apply(g, ctx.index), None, None


def may_repeat(index) -> bool:
    """Whether an index contains integer arrays, so that it can name an element twice."""
    parts = index if isinstance(index, tuple) else (index,)
    return any(isinstance(p, np.ndarray) and p.dtype != bool and p.size > 1 for p in parts)


def getitem(a: Tensor, index) -> Tensor:
    """Index a Tensor as NumPy does."""
    if index.__class__ is tuple:
        index = tuple([_plain_index(i) for i in index])
    else:
        index = (_plain_index(index),)
    return Index.apply(a, index)


def _plain_index(index):
    if index is None or index is Ellipsis or isinstance(index, (int, slice, np.bool_)):
        return index
    if isinstance(index, Tensor):
        index = index.data
    if isinstance(index, (list, tuple, range, np.ndarray)):
        # A copy, since the caller may change the array before backward.
        index = np.array(index)
        return index.astype(np.intp) if index.size == 0 and index.dtype != bool else index
    if is_mlx(index):
        # The number of elements under a mask has to be waited for; integers stay lazy.
        return copied(index) if "int" in dtype_name(index.dtype) else _plain_index(to_numpy(index))
    try:
        return operator.index(index)
    except TypeError:
        raise IndexError(
            "index: must be integers, slices, an ellipsis, None, or integer or boolean arrays, "
            f"got {type(index).__name__}"
        ) from None


def take(a, indices, axis=None, out=None, mode="raise"):
    refuse("take", out=out, mode=None if mode == "raise" else mode)
    if axis is None:
        a, axis = ravel(a), 0
    (axis,) = axes_of(axis, a.ndim)
    indices = np.asarray(indices) if isinstance(indices, (list, tuple)) else indices
    return getitem(a, (slice(None),) * axis + (indices,))


def flip(m, axis=None):
    axes = axes_of(axis, m.ndim)
    step = [slice(None, None, -1 if i in axes else None) for i in range(m.ndim)]
    return getitem(m, tuple(step))


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


class Concatenate(Function):
    schema_v1 = OpSchema("concatenate")
    saves_input = False

    @staticmethod
    def forward(ctx, axis, *arrays):
        y = namespace(*arrays).concatenate(arrays, axis)  # this checks the shapes
        ctx.axis = axis
        ctx.lengths = [a.shape[axis] for a in arrays]
        return y

    @staticmethod
    def backward(ctx, g):
        before = (slice(None),) * (ctx.axis % g.ndim)
        grads, start = [None], 0
        for i, n in enumerate(ctx.lengths, 1):
            part = (*before, slice(start, start + n))
            grads.append(fit(ctx, i, getitem(g, part)) if ctx.needs_input_grad[i] else None)
            start += n
        return tuple(grads)


def concatenate(arrays, axis=0, out=None, dtype=None, casting="same_kind"):
    refuse("concatenate", out=out, casting=None if casting == "same_kind" else casting)
    arrays = operands(*arrays)
    if dtype is not None:
        arrays = [a.astype(dtype) for a in arrays]
    if axis is None:
        arrays, axis = [ravel(a) for a in arrays], 0
    return Concatenate.apply(axis, *arrays)


def stack(arrays, axis=0, out=None, *, dtype=None, casting="same_kind"):
    arrays = operands(*arrays)
    if len({a.shape for a in arrays}) > 1:
        raise ValueError(
            f"stack: all arrays must have one shape, got {', '.join(str(a.shape) for a in arrays)}"
        )
    return concatenate([expand_dims(a, axis) for a in arrays], axis, out, dtype, casting)


def split(ary, indices_or_sections, axis=0):
    (axis,) = axes_of(axis, ary.ndim)
    parts = np.split(np.arange(ary.shape[axis]), indices_or_sections)
    before = (slice(None),) * axis
    return [
        getitem(ary, (*before, slice(p[0], p[-1] + 1) if len(p) else slice(0, 0))) for p in parts
    ]
