"""Rules of exponentials that are summed: softmax, its logarithm, and that of the sum."""

from __future__ import annotations

import numpy as np

from .._tensor import as_tensor, is_floating
from ..autograd import AmpPolicy, Function, OpSchema
from ..backends import namespace
from .reductions import Sum, at_least_float32, axes_of, refuse
from .shape import squeeze

_WIDE = AmpPolicy.FORCE_FP32


def _shifted(x, axis):
    """Return `x` without its largest value along `axis`."""
    return x - x.max(axis=axis, keepdims=True)


class Softmax(Function):
    schema_v1 = OpSchema("softmax", amp_policy=_WIDE)
    saves_input = False

    @staticmethod
    def forward(ctx, x, axis):
        xp = namespace(x)
        e = xp.exp(_shifted(x, axis))
        y = e / xp.sum(e, axis=axis, keepdims=True)
        ctx.axis = axis
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        gy = g * y
        return gy - y * Sum.apply(gy, ctx.axis, True), None


class LogSoftmax(Function):
    schema_v1 = OpSchema("log_softmax", amp_policy=_WIDE)

    @staticmethod
    def forward(ctx, x, axis):
        xp = namespace(x)
        shifted = _shifted(x, axis)
        ctx.axis = axis
        ctx.save_for_backward(x)
        return shifted - xp.log(xp.sum(xp.exp(shifted), axis=axis, keepdims=True))

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g - Softmax.apply(x, ctx.axis) * Sum.apply(g, ctx.axis, True), None


class LogSumExp(Function):
    schema_v1 = OpSchema("logsumexp", amp_policy=_WIDE)

    @staticmethod
    def forward(ctx, x, axis):
        xp = namespace(x)
        ctx.axis = axis
        ctx.save_for_backward(x)
        shift = x.max(axis=axis, keepdims=True)
        shift = xp.where(xp.isfinite(shift), shift, 0)
        with np.errstate(divide="ignore"):  # all may be -inf
            return shift + xp.log(xp.sum(xp.exp(x - shift), axis=axis, keepdims=True))

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        largest = np.max(x.detach(), axis=ctx.axis, keepdims=True)
        infinite = np.isinf(largest)  # then those that are largest share the gradient
        x = np.where(infinite, -np.inf, x)
        x = np.where(np.logical_and(infinite, np.equal(ctx.saved_tensors[0], largest)), 0, x)
        return g * Softmax.apply(x, ctx.axis), None


def logsumexp(a, axis=None, dtype=None, out=None, keepdims=False, initial=None, where=True):
    """`numpy.logaddexp.reduce`, which no Tensor comes through pair by pair."""
    refuse("logaddexp.reduce", dtype=dtype, out=out, initial=initial)
    refuse("logaddexp.reduce", where=None if where is True else where)
    a = as_tensor(a)
    a = a if is_floating(a.dtype) else a * 1.0
    axes = axes_of(axis, a.ndim)
    if 0 in [a.shape[i] for i in axes]:
        result = Sum.apply(a, axes, True) - np.inf
    else:
        result = LogSumExp.apply(at_least_float32(a), axes).astype(a.dtype)
    return result if keepdims else squeeze(result, axes)
