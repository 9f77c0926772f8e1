"""Rules of norms; their slope at 0 is 0."""

from __future__ import annotations

import math

import numpy as np

from .._tensor import as_tensor, is_floating
from ..autograd import AmpPolicy, Function, OpSchema
from ..backends import namespace
from . import reductions
from .reductions import Sum, at_least_float32, axes_of
from .shape import squeeze


class Norm(Function):
    """Square root of the sum of squares; the axes are kept."""

    schema_v1 = OpSchema("norm", amp_policy=AmpPolicy.FORCE_FP32)

    @staticmethod
    def forward(ctx, x, axes):
        xp = namespace(x)
        y = xp.sqrt(xp.sum(x * x, axis=axes, keepdims=True))
        ctx.save_for_backward(x, y)
        return y

    @staticmethod
    def backward(ctx, g):
        x, y = ctx.saved_tensors
        zero = np.equal(y, 0)
        return np.where(zero, 0, g / np.where(zero, 1, y)) * x, None


def norm(x, ord=None, axis=None, keepdims=False):
    """`numpy.linalg.norm`, but for the orders that need singular values or powers."""
    x = as_tensor(x)
    wide = at_least_float32(x) if is_floating(x.dtype) else x * 1.0
    flat = ord is None or (x.ndim == 1 and ord == 2) or (x.ndim == 2 and ord in ("fro", "f"))
    axes = axis if isinstance(axis, (tuple, list)) or axis is None else (axis,)
    axes = axes_of(axes if axes is None else tuple(axes), x.ndim)
    if axis is None and flat:
        result = Norm.apply(wide, axes)
    elif len(axes) == 1:
        result = _of_vectors(wide, ord, axes)
    elif len(axes) == 2:
        result = _of_matrices(wide, ord, axes)
    else:
        raise ValueError(f"norm: axis must name one or two axes, got {len(axes)}")
    if not keepdims:
        result = squeeze(result, axes)
    return result.astype(x.dtype) if is_floating(x.dtype) else result


def _of_vectors(x, ord, axes):
    if ord is None or ord == 2:
        return Norm.apply(x, axes)
    if ord == 1:
        return Sum.apply(abs(x), axes, True)
    if ord in (math.inf, -math.inf):
        return _extreme(ord)(abs(x), axes, keepdims=True)
    if isinstance(ord, str):
        raise ValueError(f"norm: ord must be a number for vectors, got {ord!r}")
    raise _no_rule(ord, "vectors")


def _of_matrices(x, ord, axes):
    if ord in (None, "fro", "f"):
        return Norm.apply(x, axes)
    rows, columns = axes
    if ord in (1, -1):
        return _extreme(ord)(Sum.apply(abs(x), (rows,), True), columns, keepdims=True)
    if ord in (math.inf, -math.inf):
        return _extreme(ord)(Sum.apply(abs(x), (columns,), True), rows, keepdims=True)
    if ord in (2, -2, "nuc"):
        raise _no_rule(ord, "matrices")
    raise ValueError(f"norm: ord must be one of NumPy's orders of matrices, got {ord!r}")


def _extreme(ord):
    return reductions.max if ord > 0 else reductions.min


def _no_rule(ord, kind):
    return TypeError(
        f"numpy.linalg.norm: there is no rule for ord={ord!r} of {kind}; compute it from others, "
        "or pass arrays (t.detach().numpy()) if no gradient is needed"
    )
