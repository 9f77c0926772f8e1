"""Elementwise rules of two arguments beyond arithmetic, and those of `scipy.special`.

Where a derivative does not exist: ``hypot`` and ``arctan2`` have slope 0 at the origin;
``logaddexp`` of equal infinities sends half the gradient to each; ``xlogy`` has slope 0 where both
are 0.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .._tensor import Tensor, as_tensor, as_tensors
from ..autograd import AmpPolicy, Function, OpSchema
from ..backends import namespace
from .elementwise import fit
from .reductions import is_half_type

_FORCE_FP32 = AmpPolicy.FORCE_FP32
BINARY: dict[Any, Any] = {}


def _binary(ufunc, **schema):
    """Make of the decorated function, which returns both slopes, the rule of a ufunc.

    A slope takes the gradient of the result to that of an argument.
    """

    def rule(slopes):
        name = ufunc.__name__

        class Rule(Function):
            schema_v1 = OpSchema(name, **schema)

            @staticmethod
            def forward(ctx, x, y):
                ctx.save_for_backward(x, y)
                return getattr(namespace(x, y), name)(x, y)

            @staticmethod
            def backward(ctx, g):
                pairs = zip(slopes(*ctx.saved_tensors), ctx.needs_input_grad, strict=True)
                return tuple(
                    fit(ctx, i, slope(g)) if needed else None
                    for i, (slope, needed) in enumerate(pairs)
                )

        Rule.__name__ = Rule.__qualname__ = slopes.__name__
        Rule.node_name = slopes.__name__ + "Backward"
        BINARY[ufunc] = Rule.apply
        return Rule

    return rule


def _length(x, y):
    """Return what is 0 at the origin only, as a mask, and the length with 1 there."""
    length = np.hypot(x, y)
    zero = length == 0
    return zero, np.where(zero, 1, length)


@_binary(np.hypot)
def Hypot(x, y):
    zero, length = _length(x, y)
    return (
        lambda g: np.where(zero, 0, g * (x / length)),
        lambda g: np.where(zero, 0, g * (y / length)),
    )


@_binary(np.arctan2)
def Arctan2(y, x):
    zero, length = _length(y, x)  # whose square might overflow
    return (
        lambda g: np.where(zero, 0, g * (x / length) / length),
        lambda g: np.where(zero, 0, -g * (y / length) / length),
    )


def _difference(x, y):
    """``x - y``, but 0 for equal infinities."""
    known = x if isinstance(x, Tensor) else y
    same = np.logical_and(np.equal(x, y), np.isinf(known))
    return np.where(same, 0, x) - np.where(same, 0, y)


@_binary(np.logaddexp, amp_policy=_FORCE_FP32)
def LogAddExp(x, y):
    d = _difference(x, y)
    return lambda g: g * Expit.apply(d), lambda g: g * Expit.apply(-d)


@_binary(np.logaddexp2, amp_policy=_FORCE_FP32)
def LogAddExp2(x, y):
    d = _difference(x, y) * math.log(2)
    return lambda g: g * Expit.apply(d), lambda g: g * Expit.apply(-d)


class Expit(Function):
    schema_v1 = OpSchema("expit", amp_policy=_FORCE_FP32)

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        xp = namespace(x)
        e = xp.exp(-abs(x))  # does not overflow
        return xp.where(x >= 0, 1, e) / (1 + e)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * (Expit.apply(x) * Expit.apply(-x))


class XLogY(Function):
    schema_v1 = OpSchema("xlogy", amp_policy=_FORCE_FP32)

    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x, y)
        xp = namespace(x, y)
        with np.errstate(divide="ignore", invalid="ignore"):  # as SciPy's is silent
            return xp.where((x == 0) & (y == y), 0, x * xp.log(y))

    @staticmethod
    def backward(ctx, g):
        x, y = ctx.saved_tensors
        need_x, need_y = ctx.needs_input_grad
        flat = np.logical_and(np.equal(x, 0), np.less_equal(y, 0))
        y = np.where(flat, 1, y)
        return (
            fit(ctx, 0, np.where(flat, 0, g * np.log(y))) if need_x else None,
            fit(ctx, 1, np.where(flat, 0, g * x / y)) if need_y else None,
        )


def _wide(x):
    """Return a Tensor of a half type as SciPy takes it, in float64, or in float32 on the gpu."""
    on_cpu = isinstance(x.data, np.ndarray)
    return x.astype("float64" if on_cpu else "float32") if is_half_type(x.dtype) else x


def expit(x, /):
    return Expit.apply(_wide(as_tensor(x)))


def xlogy(x, y, /):
    return XLogY.apply(*map(_wide, as_tensors(x, y)))


# By name: importing lucid does not import SciPy.
SCIPY = {"expit": expit, "xlogy": xlogy}
