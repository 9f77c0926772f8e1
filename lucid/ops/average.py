"""The weighted average, made of products and sums."""

from __future__ import annotations

import numpy as np

from .._tensor import as_tensor, as_tensors, is_floating
from ..backends import namespace
from .mean_front import mean
from .reductions import Sum, at_least_float32, axes_of, broadcast_to
from .shape import reshape, transpose


def average(a, axis=None, weights=None, returned=False, *, keepdims=False):
    keepdims = keepdims is not np._NoValue and bool(keepdims)
    if weights is None:
        a = as_tensor(a)
        result = mean(a, axis, keepdims=keepdims)
        if not returned:
            return result
        count = np.prod([a.shape[i] for i in axes_of(axis, a.ndim)], dtype=np.intp)
        return result, result * 0 + int(count)
    a, weights = as_tensors(a, weights)
    weights = _beside(a, weights, axis)
    axes = axes_of(axis, a.ndim)
    a = a if is_floating(a.dtype) else a * 1.0
    dtype = namespace(a.data).result_type(a.data, weights.data)
    weights = at_least_float32(weights)
    total = Sum.apply(weights, axes, keepdims)
    if isinstance(total.data, np.ndarray) and np.any(total.data == 0):  # MLX's would be waited for
        raise ZeroDivisionError("average: weights must not sum to zero")
    result = Sum.apply(at_least_float32(a) * weights, axes, keepdims) / total
    result = result.astype(dtype)
    if not returned:
        return result
    return result, broadcast_to(total, result.shape).astype(dtype)


def _beside(a, weights, axis):
    """Return the weights with an axis for each of `a`."""
    if weights.shape == a.shape:
        return weights
    if axis is None:
        raise TypeError(
            f"average: axis must be given where weights, of shape {weights.shape}, do not have "
            f"the shape of a, {a.shape}"
        )
    given = axis if isinstance(axis, tuple) else (axis,)
    axes = axes_of(given, a.ndim)
    shape = tuple(a.shape[i] for i in axes)
    if weights.shape != shape:
        raise ValueError(
            f"average: weights must have shape {shape} to match axis {axis!r} of a, got "
            f"{weights.shape}"
        )
    weights = transpose(weights, tuple(np.argsort(axes).tolist()))
    return reshape(weights, tuple(n if i in axes else 1 for i, n in enumerate(a.shape)))
