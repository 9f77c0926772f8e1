"""Rules that choose elements: by index, by order, on a diagonal."""

from __future__ import annotations

import operator

import numpy as np

from .._tensor import Tensor, as_tensor, copied, dtype_name, is_mlx, on_device_of, to_numpy
from ..autograd import Function, OpSchema
from ..backends import namespace
from .reductions import Sum, axes_of, is_half, refuse


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
        a, axis = a.reshape(-1), 0
    (axis,) = axes_of(axis, a.ndim)
    indices = np.asarray(indices) if isinstance(indices, (list, tuple)) else indices
    return getitem(a, (slice(None),) * axis + (indices,))


def flip(m, axis=None):
    axes = axes_of(axis, m.ndim)
    step = [slice(None, None, -1 if i in axes else None) for i in range(m.ndim)]
    return getitem(m, tuple(step))


def take_along_axis(arr, indices, axis=-1):
    a = as_tensor(arr)
    indices = on_device_of(a, indices)
    indices = indices.data if isinstance(indices, Tensor) else indices
    indices = indices if is_mlx(indices) else np.asarray(indices)
    if "int" not in dtype_name(indices.dtype):
        raise IndexError(
            f"take_along_axis: indices must be integers, got {dtype_name(indices.dtype)}"
        )
    if axis is None:
        if indices.ndim != 1:
            raise ValueError(
                f"take_along_axis: indices must have one axis if axis is None, got {indices.ndim}"
            )
        a, axis = a.reshape(-1), 0
    (axis,) = axes_of(axis, a.ndim)
    if indices.ndim != a.ndim:
        raise ValueError(
            f"take_along_axis: indices must have the {a.ndim} axes of arr, got {indices.ndim}"
        )
    grid = np.ogrid[tuple(slice(n) for n in a.shape)]
    return getitem(a, tuple(indices if i == axis else grid[i] for i in range(a.ndim)))


class Reorder(Function):
    """Elements in another order along an axis, which is a permutation."""

    schema_v1 = OpSchema("sort")
    saves_input = False

    @staticmethod
    def forward(ctx, x, order, axis):
        ctx.order, ctx.axis = order, axis
        return namespace(x).take_along_axis(x, order, axis)

    @staticmethod
    def backward(ctx, g):
        inverse = namespace(g.data).argsort(ctx.order, axis=ctx.axis)
        return Reorder.apply(g, inverse, ctx.axis), None, None


def sort(a, axis=-1, kind=None, order=None, *, stable=None):
    refuse("sort", order=order)
    if axis is None:
        a, axis = a.reshape(-1), 0
    (axis,) = axes_of(axis, a.ndim)
    xp = namespace(a.data)
    if xp is not np:
        order = xp.argsort(a.data, axis=axis)
    elif kind is None:  # equal ones keep their order
        order = np.argsort(a.data, axis=axis, stable=True if stable is None else stable)
    else:
        order = np.argsort(a.data, axis=axis, kind=kind, stable=stable)
    return Reorder.apply(a, order, axis)


def diagonal(a, offset=0, axis1=0, axis2=1):
    a = as_tensor(a)
    if a.ndim < 2:
        raise ValueError(f"diagonal: a must have at least two axes, got {a.ndim}")
    first, second = axes_of((axis1, axis2), a.ndim)
    a = np.moveaxis(a, (first, second), (-2, -1))
    rows, columns = a.shape[-2:]
    return getitem(
        a.reshape((*a.shape[:-2], rows * columns)),
        (..., _on_diagonal(rows, columns, operator.index(offset))),
    )


def _on_diagonal(rows, columns, offset):
    """Return the slice of a raveled matrix that is its diagonal."""
    count = min(rows, columns - offset) if offset >= 0 else min(rows + offset, columns)
    first = offset if offset >= 0 else -offset * columns
    return (
        slice(first, first + (count - 1) * (columns + 1) + 1, columns + 1)
        if count > 0
        else slice(0)
    )


def diag(v, k=0):
    v = as_tensor(v)
    if v.ndim == 2:
        return diagonal(v, k)
    if v.ndim != 1:
        raise ValueError(f"diag: v must have one or two axes, got {v.ndim}")
    n = v.shape[0] + abs(k)
    return IndexAdd.apply(v, (_on_diagonal(n, n, k),), (n * n,)).reshape((n, n))


def trace(a, offset=0, axis1=0, axis2=1, dtype=None, out=None):
    refuse("trace", out=out)
    found = diagonal(a, offset, axis1, axis2)
    return Sum.apply(found if dtype is None else found.astype(dtype), -1, False)
