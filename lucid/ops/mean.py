"""Rules of mean, variance and standard deviation: how they are differentiated."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .._tensor import Tensor, as_tensor, dtype_name
from ..autograd import AmpPolicy, Function, OpSchema
from ..backends import backend_of
from .reductions import BroadcastTo, axes_of, kept

__all__ = ["Mean", "MeanVar", "Std"]


class Mean(Function):
    """Mean over any axes; the graph keeps the shape and nothing of the input."""

    schema_v1 = OpSchema("mean", version=1, amp_policy=AmpPolicy.PROMOTE, produces_grad=True)
    saves_input = False

    @staticmethod
    def forward(ctx, x, axes, keepdims):
        """Reduce `x` over the non-negative `axes`."""
        ctx.axes = axes
        return backend_of(x).reduce_mean(x, axes, keepdims)

    @staticmethod
    def backward(ctx, g):
        """Scale the small array, then broadcast it without copying."""
        shape = ctx.edges[0].shape
        count = math.prod(shape[a] for a in ctx.axes)
        scaled = (_at_least_float32(g) / count).astype(g.dtype) if count else g
        return _broadcast(scaled, shape, ctx.axes), None, None


class MeanVar(Function):
    """Mean and variance over any axes, in one pass."""

    schema_v1 = OpSchema("mean_var", version=1, amp_policy=AmpPolicy.FORCE_FP32)
    materialize_grads = False

    @staticmethod
    def forward(ctx, x, axes, correction, keepdims):
        """Reduce `x` over the non-negative `axes`."""
        ctx.axes, ctx.correction = axes, correction
        ctx.save_for_backward(x)
        return backend_of(x).mean_var(x, axes, correction, keepdims)

    @staticmethod
    def backward(ctx, g_mean, g_var):
        """``g_mean / N + 2 g_var (x - mean) / (N - correction)``."""
        (x,) = ctx.saved_tensors
        axes, shape = ctx.axes, x.shape
        count = math.prod(shape[a] for a in axes)
        dx = None
        if g_mean is not None:
            dx = _broadcast(_at_least_float32(g_mean) / max(count, 1), shape, axes)
        if g_var is not None:
            degrees = count - ctx.correction
            scale = _at_least_float32(g_var) * (2.0 / degrees if degrees > 0 else math.nan)
            of_var = _broadcast(scale, shape, axes) * _deviation(x, axes)
            dx = of_var if dx is None else dx + of_var
        return dx if dx is None else dx.astype(x.dtype), None, None, None


class Std(Function):
    """Standard deviation over any axes; its gradient is 0 where it is 0, as PyTorch's."""

    schema_v1 = OpSchema("std", version=1, amp_policy=AmpPolicy.FORCE_FP32)

    @staticmethod
    def forward(ctx, x, axes, correction, keepdims):
        """Reduce `x` over the non-negative `axes`."""
        result = backend_of(x).std(x, axes, correction, keepdims)
        result = np.asarray(result) if isinstance(result, np.generic) else result
        ctx.axes, ctx.correction, ctx.keepdims = axes, correction, keepdims
        ctx.save_for_backward(x, result)
        return result

    @staticmethod
    def backward(ctx, g):
        """``g (x - mean) / ((N - correction) std)``."""
        x, spread = ctx.saved_tensors
        axes, shape = ctx.axes, x.shape
        if itemsize_of(x.dtype) == 2:  # the result was rounded
            spread = Std.apply(_at_least_float32(x), axes, ctx.correction, ctx.keepdims)
        degrees = math.prod(shape[a] for a in axes) - ctx.correction
        zero = spread.data == 0
        scale: Any = _at_least_float32(g) / (
            np.where(zero, 1.0, _at_least_float32(spread)) * degrees
        )
        scale = np.where(zero, 0.0, scale)
        scale = _broadcast(scale, shape, axes)
        return (scale * _deviation(x, axes)).astype(x.dtype), None, None, None


def _deviation(x: Tensor, axes: tuple[Any, ...]) -> Tensor:
    """``x - mean``, centred once more: the mean is rounded to the spacing of `x`."""
    d = _at_least_float32(x)
    for _ in range(2):
        d = d - Mean.apply(d, axes, True)
    return d


def _at_least_float32(x: Tensor) -> Tensor:
    """Raise half types, whose range no count and no square may leave, to float32."""
    return x.astype("float32") if itemsize_of(x.dtype) == 2 else x


def _broadcast(g: Tensor, shape: tuple[Any, ...], axes: tuple[Any, ...]) -> Tensor:
    return BroadcastTo.apply(g.reshape(kept(shape, axes)), shape)


# ---- calls ---------------------------------------------------------------------------------------


def check_degrees(name: str, argument: str, value: Any) -> Any:
    """Return what is subtracted from the count, if it is a number."""
    if not isinstance(value, (int, float, np.number)):
        raise TypeError(f"{name}: {argument} must be a number, got {value!r}")
    return value


def check_axes(name: str, axis: Any, ndim: int) -> tuple[int, ...]:
    """Return `axis` as sorted non-negative numbers."""
    items = axis if type(axis) is tuple else (() if axis is None else (axis,))
    if not all(hasattr(a, "__index__") for a in items):
        raise TypeError(f"{name}: axis must be None, an int or a tuple of ints, got {axis!r}")
    return axes_of(axis, ndim)


def differentiable(name, x, axis, dtype, keepdims, rule, *ddof):
    """Reduce by a rule; a wider `dtype` is cast to before, others after."""
    if type(keepdims) is not bool:
        raise TypeError(f"{name}: keepdims must be a bool, got {keepdims!r}")
    t = as_tensor(x)
    if dtype is not None and itemsize_of(dtype) > itemsize_of(t.dtype):
        t = t.astype(dtype)
    result = rule.apply(t, check_axes(name, axis, t.ndim), *ddof, keepdims)
    if rule is MeanVar:
        result = result[1]
    if dtype is not None:
        result = result.astype(dtype)
    return result if isinstance(x, Tensor) else result.data


def itemsize_of(dtype: Any) -> int:
    """Bytes of an element of a floating dtype, NumPy's or MLX's, or of its name."""
    name = np.dtype(dtype).name if isinstance(dtype, (str, type)) else dtype_name(dtype)
    return {"float16": 2, "bfloat16": 2, "float32": 4}.get(name, 8)
