"""Rules of reductions and of their adjoint, broadcasting.

Where several elements are the maximum or minimum, each gets an equal share of the gradient.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .._tensor import Tensor, as_tensor, constant, is_floating
from ..autograd import AmpPolicy, Function, OpSchema
from ..backends import namespace

_WIDE = AmpPolicy.FORCE_FP32
_add: Any = np.add.reduce  # called by position, which NumPy's stubs do not know


def is_half(x) -> bool:
    """Whether `x` is an ndarray of a half type: added up in float32, since ones reach only 2048."""
    return isinstance(x, np.ndarray) and x.itemsize == 2 and is_floating(x.dtype)


def is_half_type(dtype: Any) -> bool:
    """Whether a dtype, NumPy's of any byte order or MLX's, is a floating type of two bytes."""
    return (getattr(dtype, "itemsize", 0) or dtype.size) == 2 and is_floating(dtype)


def at_least_float32(x: Any) -> Any:
    """Return an array or a Tensor, raised to float32 if of a half type: for sums and for range."""
    if not is_half_type(x.dtype):
        return x
    known = isinstance(x, (Tensor, np.ndarray))
    return x.astype("float32") if known else namespace(x).astype(x, "float32")


class Sum(Function):
    schema_v1 = OpSchema("sum", amp_policy=_WIDE)
    saves_input = False

    @staticmethod
    def forward(ctx, x, axis, keepdims):
        ctx.axis, ctx.keepdims = axis, keepdims
        if isinstance(x, np.ndarray):
            if x.itemsize == 2 and is_half(x):
                return _add(x, axis, np.float32, None, keepdims).astype(x.dtype)
            return _add(x, axis, None, None, keepdims)
        return namespace(x).sum(x, axis, keepdims)

    @staticmethod
    def backward(ctx, g):
        shape = ctx.edges[0].shape
        if g.ndim and not ctx.keepdims:
            g = g.reshape(kept(shape, ctx.axis))
        return BroadcastTo.apply(g, shape), None, None


class BroadcastTo(Function):
    schema_v1 = OpSchema("broadcast_to")
    saves_input = False

    @staticmethod
    def forward(ctx, x, shape):
        if x.__class__ is np.ndarray and x.ndim == 0 and x.dtype.char in "fd":
            # The gradient of a total: np.broadcast_to takes longer than all else together.
            view = np.ndarray(shape, x.dtype, x, 0, (0,) * len(shape))
            view.flags.writeable = False
            return view
        return namespace(x).broadcast_to(x, shape)

    @staticmethod
    def backward(ctx, g):
        return sum_to(g, ctx.edges[0].shape), None


def sum_to(g: Tensor, shape: tuple[Any, ...]) -> Tensor:
    """Sum over the axes that broadcasting `shape` to the shape of `g` added or repeated."""
    if g._data.shape == shape:
        return g
    added = g._data.ndim - len(shape)
    repeated = [i + added for i, n in enumerate(shape) if n == 1 and g._data.shape[i + added] != 1]
    g = Sum.apply(g, (*range(added), *repeated), True)
    return g.reshape(shape) if added else g


def axes_of(axis, ndim: int) -> tuple[int, ...]:
    """Return `axis` as a tuple of non-negative numbers, all axes for None."""
    if axis is None:
        return tuple(range(ndim))
    return np.lib.array_utils.normalize_axis_tuple(axis, ndim)


def kept(shape: tuple[Any, ...], axis) -> tuple[Any, ...]:
    """Return the shape that reducing over `axis` with ``keepdims=True`` leaves."""
    axes = axes_of(axis, len(shape))
    return tuple([1 if i in axes else n for i, n in enumerate(shape)])


class Max(Function):
    schema_v1 = OpSchema("max")
    reduce = "max"

    @classmethod
    def forward(cls, ctx, x, axis):
        y = getattr(x, cls.reduce)(axis=axis, keepdims=True)
        ctx.save_for_backward(x, y)
        ctx.axis = axis
        return y

    @staticmethod
    def backward(ctx, g):
        x, y = (t.data for t in ctx.saved_tensors)
        chosen = (x == y) | ((x != x) & (y != y))
        share = constant(chosen / chosen.sum(axis=ctx.axis, keepdims=True))
        return g * share.astype(g.dtype), None


class Min(Max):
    schema_v1 = OpSchema("min")
    reduce = "min"


class Cumsum(Function):
    schema_v1 = OpSchema("cumsum", amp_policy=_WIDE)
    saves_input = False

    @staticmethod
    def forward(ctx, x, axis):
        ctx.axis = axis
        if is_half(x):
            return x.cumsum(axis=axis, dtype=np.float32).astype(x.dtype)
        return namespace(x).cumsum(x, axis=axis)

    @staticmethod
    def backward(ctx, g):
        return np.flip(Cumsum.apply(np.flip(g, ctx.axis), ctx.axis), ctx.axis), None


def sum(a, axis=None, dtype=None, out=None, keepdims=False, initial=None, where=True):
    if dtype is not None or out is not None or where is not True:
        a = _summand("sum", a, dtype, out, where, 0)
    if initial is None:
        return Sum.apply(a, axis, keepdims)
    result = Sum.apply(at_least_float32(a), axis, keepdims)
    result = result + _start(initial, result)
    return result.astype(a.dtype) if is_floating(a.dtype) else result


def prod(a, axis=None, dtype=None, out=None, keepdims=False, initial=None, where=True):
    a = _summand("prod", a, dtype, out, where, 1)
    wide = at_least_float32(a)
    if not a.requires_grad:
        result = namespace(a.data).prod(wide.data, axis=axis, keepdims=keepdims)
        result = as_tensor(result)
    else:
        result = _product(wide, axes_of(axis, a.ndim), keepdims)
    if initial is not None:
        result = result * _start(initial, result)
    return result.astype(a.dtype) if is_floating(a.dtype) else result


def _product(a, axes, keepdims):
    # A tree of multiplications: its gradient of any order is right for zeros too.
    shape = kept(a.shape, axes)
    count = math.prod(a.shape[i] for i in axes)
    a = np.moveaxis(a, axes, range(len(axes))).reshape(
        (count, *(n for i, n in enumerate(a.shape) if i not in axes))
    )
    if count == 0:
        a = sum(a, axis=0, keepdims=True) + 1
    while len(a) > 1:
        half = len(a) // 2
        rest = a[2 * half :]
        a = a[:half] * a[half : 2 * half]
        if len(rest):
            a = np.concatenate([a, rest])
    return a.reshape(shape) if keepdims else a[0]


def max(a, axis=None, out=None, keepdims=False, initial=None, where=True):
    return _extremum(Max, np.maximum, a, axis, out, keepdims, initial, where)


def min(a, axis=None, out=None, keepdims=False, initial=None, where=True):
    return _extremum(Min, np.minimum, a, axis, out, keepdims, initial, where)


def _extremum(rule, pair, a, axis, out, keepdims, initial, where):
    refuse(rule.schema_v1.name, out=out, where=None if where is True else where)
    axes = axes_of(axis, a.ndim)
    if initial is not None and 0 in [a.shape[i] for i in axes]:
        return sum(a, axis, keepdims=keepdims).astype(a.dtype) + _start(initial, a)
    result = rule.apply(a, axis)
    if not keepdims:
        result = np.squeeze(result, axes)
    return result if initial is None else pair(result, _start(initial, result))


def _start(initial, result):
    """Return `initial` in the dtype of the result: NumPy starts from there."""
    if isinstance(initial, Tensor):
        return initial.astype(result.dtype)
    if np.ndim(initial):
        raise ValueError(f"initial: must be a number, got shape {np.shape(initial)}")
    return namespace(result.data).array(initial, result.dtype)


def cumsum(a, axis=None, dtype=None, out=None):
    a = _summand("cumsum", a, dtype, out, True, 0)
    return Cumsum.apply(a.reshape(-1), 0) if axis is None else Cumsum.apply(a, axis)


def cumprod(a, axis=None, dtype=None, out=None):
    a = _summand("cumprod", a, dtype, out, True, 1)
    if axis is None:
        a, axis = a.reshape(-1), 0
    (axis,) = axes_of(axis, a.ndim)
    wide = at_least_float32(a)
    if not a.requires_grad:
        result = constant(namespace(a.data).cumprod(wide.data, axis=axis))
    else:
        result = np.moveaxis(_running_product(np.moveaxis(wide, axis, 0)), 0, axis)
    return result.astype(a.dtype) if is_floating(a.dtype) else result


def _running_product(a):
    # As in a product, every factor is multiplied, none divided out: right for zeros too.
    step = 1
    while step < len(a):
        a = np.concatenate([a[:step], a[step:] * a[:-step]])
        step *= 2
    return a


def _summand(operation, a, dtype, out, where, neutral):
    refuse(operation, out=out)
    if dtype is not None:
        a = a.astype(dtype)
    return a if where is True else np.where(where, a, neutral)


def refuse(operation: str, **arguments) -> None:
    """Raise TypeError for the first of the arguments that was given."""
    for name, value in arguments.items():
        if value is not None:
            raise TypeError(f"{operation}: {name}= can't be used with a Tensor, got {value!r}")


def broadcast_to(array, shape, subok=False):
    return BroadcastTo.apply(array, (shape,) if isinstance(shape, int) else tuple(shape))
