"""Elementwise rules. Conventions where a derivative does not exist:

``abs`` and ``sign`` have slope 0 at 0; ``maximum`` and ``minimum`` of equal values send half the
gradient to each, and all of it to the one that is NaN; ``clip`` has slope 1 on its limits;
``power`` with base 0 has slope 0 in its exponent, and in its base if the exponent is 0 too. Steps
(``sign``, ``floor``, ``round``, ``//`` …) have slope 0 everywhere.
"""

from __future__ import annotations

import numpy as np

from .._tensor import Tensor, as_tensor, constant, is_complex, is_floating, on_device_of, to_array
from ..autograd import AmpPolicy, Function, OpSchema
from ..backends import namespace
from .reductions import refuse, sum_to


def fit(ctx, index, g):
    """Undo broadcasting and promotion: `g` in the shape and dtype of the argument `index`."""
    like = ctx.edges[index]
    if g._data.shape != like.shape:
        g = sum_to(g, like.shape)
    return g if g._data.dtype == like.dtype else g.astype(like.dtype)


class AsType(Function):
    schema_v1 = OpSchema("astype")
    saves_input = False

    @staticmethod
    def forward(ctx, x, dtype):
        return x.astype(dtype)

    @staticmethod
    def backward(ctx, g):
        return AsType.apply(g, ctx.edges[0].dtype), None


def astype(x: Tensor, dtype, /) -> Tensor:
    """Convert to `dtype`; the gradient is converted back.

    Integers and booleans carry no gradient, so the result is a constant then.
    """
    to_dtype = np.dtype if isinstance(x.data, np.ndarray) else namespace(x.data).dtype_of
    dtype = to_dtype(dtype)
    return x if x.data.dtype == dtype else AsType.apply(x, dtype)


class Add(Function):
    schema_v1 = OpSchema("add")
    saves_input = False

    @staticmethod
    def forward(ctx, x, y):
        return x + y

    @staticmethod
    def backward(ctx, g):
        need_x, need_y = ctx.needs_input_grad
        return fit(ctx, 0, g) if need_x else None, fit(ctx, 1, g) if need_y else None


class Subtract(Function):
    schema_v1 = OpSchema("subtract")
    saves_input = False

    @staticmethod
    def forward(ctx, x, y):
        return x - y

    @staticmethod
    def backward(ctx, g):
        need_x, need_y = ctx.needs_input_grad
        return fit(ctx, 0, g) if need_x else None, fit(ctx, 1, -g) if need_y else None


class Multiply(Function):
    schema_v1 = OpSchema("multiply")
    fresh_grads = True

    @staticmethod
    def forward(ctx, x, y):
        need_x, need_y = ctx.needs_input_grad
        ctx.save_for_backward(x if need_y else None, y if need_x else None)
        return x * y

    @staticmethod
    def backward(ctx, g):
        x, y = ctx.saved_tensors
        need_x, need_y = ctx.needs_input_grad
        return fit(ctx, 0, g * y) if need_x else None, fit(ctx, 1, g * x) if need_y else None


class Divide(Function):
    schema_v1 = OpSchema("divide")
    fresh_grads = True

    @staticmethod
    def forward(ctx, x, y):
        z = x / y
        ctx.save_for_backward(y, z)
        return z

    @staticmethod
    def backward(ctx, g):
        y, z = ctx.saved_tensors
        need_x, need_y = ctx.needs_input_grad
        gx = g / y
        return fit(ctx, 0, gx) if need_x else None, fit(ctx, 1, -gx * z) if need_y else None


class FloorDivide(Function):
    schema_v1 = OpSchema("floor_divide")
    saves_input = False

    @staticmethod
    def forward(ctx, x, y):
        return x // y

    @staticmethod
    def backward(ctx, g):
        need_x, need_y = ctx.needs_input_grad
        return fit(ctx, 0, g * 0) if need_x else None, fit(ctx, 1, g * 0) if need_y else None


class Remainder(Function):
    schema_v1 = OpSchema("remainder")

    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x, y)
        return x % y

    @staticmethod
    def backward(ctx, g):
        x, y = ctx.saved_tensors
        need_x, need_y = ctx.needs_input_grad
        quotient = constant(namespace(g.data).floor_divide(_raw(x), _raw(y)))
        return (
            fit(ctx, 0, g) if need_x else None,
            fit(ctx, 1, -g * quotient) if need_y else None,
        )


class Power(Function):
    schema_v1 = OpSchema("power", amp_policy=AmpPolicy.FORCE_FP32)

    @staticmethod
    def forward(ctx, x, p):
        y = _power(x, p)
        ctx.save_for_backward(x, p, y if ctx.needs_input_grad[1] else None)
        return y

    @staticmethod
    def backward(ctx, g):
        x, p, y = ctx.saved_tensors
        need_x, need_p = ctx.needs_input_grad
        gx = gp = None
        if need_x:
            gx = fit(ctx, 0, g * _power_slope(x, p))
        if need_p:
            base = np.where(x == 0, 1, x)
            gp = fit(ctx, 1, np.where(x == 0, 0, g * y * np.log(base)))
        return gx, gp


def _power(x, p):
    # Multiplying is far faster than pow, and as accurate for these. (A numpy.float64 is a float
    # too, but no Python number: it decides the dtype of the result.)
    if p.__class__ in (int, float) and p in (2, 3, 4) and is_floating(x.dtype):
        square = x * x
        return square if p == 2 else square * x if p == 3 else square * square
    return x**p


def _power_slope(x, p):
    if isinstance(p, (int, float)):
        return 0 if p == 0 else 1 if p == 1 else p * x if p == 2 else p * x ** (p - 1)
    flat = np.logical_and(np.equal(x, 0), np.equal(p, 0))
    return p * x ** np.where(flat, 1, p - 1)


def _raw(x):
    return x.data if isinstance(x, Tensor) else x


class Maximum(Function):
    schema_v1 = OpSchema("maximum")
    beaten = "less"

    @classmethod
    def forward(cls, ctx, x, y):
        ctx.save_for_backward(x, y)
        return getattr(namespace(x, y), cls.schema_v1.name)(x, y)

    @classmethod
    def backward(cls, ctx, g):
        x, y = (_raw(t) for t in ctx.saved_tensors)
        xp = namespace(g.data)
        beaten = getattr(xp, cls.beaten)
        x_chosen, y_chosen = beaten(y, x) | (x != x), beaten(x, y) | (y != y)
        share = constant(xp.where(x_chosen == y_chosen, 0.5, x_chosen))
        need_x, need_y = ctx.needs_input_grad
        return (
            fit(ctx, 0, g * share.astype(g.dtype)) if need_x else None,
            fit(ctx, 1, g * (1 - share).astype(g.dtype)) if need_y else None,
        )


class Minimum(Maximum):
    schema_v1 = OpSchema("minimum")
    beaten = "greater"


class Where(Function):
    schema_v1 = OpSchema("where")
    saves_input = False

    @staticmethod
    def forward(ctx, condition, x, y):
        ctx.condition = condition
        return namespace(x, y, condition).where(condition, x, y)

    @staticmethod
    def backward(ctx, g):
        _, need_x, need_y = ctx.needs_input_grad
        return (
            None,
            fit(ctx, 1, Where.apply(ctx.condition, g, 0)) if need_x else None,
            fit(ctx, 2, Where.apply(ctx.condition, 0, g)) if need_y else None,
        )


class Clip(Function):
    schema_v1 = OpSchema("clip")

    @staticmethod
    def forward(ctx, x, low, high):
        ctx.save_for_backward(x, low, high)
        return namespace(x).clip(x, low, high)

    @staticmethod
    def backward(ctx, g):
        x, low, high = (_raw(t) for t in ctx.saved_tensors)
        xp = namespace(g.data)
        below = np.False_ if low is None else xp.less(x, low)
        above = np.False_ if high is None else xp.greater(x, high)
        crossed = np.False_ if low is None or high is None else xp.greater(low, high)
        parts = (~(below | above | crossed), below & ~crossed, above | crossed)
        return tuple(
            fit(ctx, i, Where.apply(part, g, 0)) if needed else None
            for i, (part, needed) in enumerate(zip(parts, ctx.needs_input_grad, strict=True))
        )


def where(condition, x=None, y=None, /):
    if x is None and y is None:
        return tuple(constant(i) for i in namespace(_raw(condition)).nonzero(_raw(condition)))
    if isinstance(condition, Tensor) and condition.requires_grad:
        raise TypeError("where: condition must be a constant, got a Tensor that requires grad")
    for like in (x, y):
        condition = on_device_of(like, _raw(condition))
    x, y = on_device_of(y, x), on_device_of(x, y)
    if not np.isscalar(condition):  # a copy, since the caller may change it before backward
        condition = to_array(condition, copy=True)
    return Where.apply(condition, x, y)


def clip(a, a_min=None, a_max=None, out=None, *, min=None, max=None):
    refuse("clip", out=out)
    low, high = a_min if min is None else min, a_max if max is None else max
    return Clip.apply(a, on_device_of(a, low), on_device_of(a, high))


def divmod(x, y, /):
    return FloorDivide.apply(x, y), Remainder.apply(x, y)


def float_power(x, p, /):
    return Power.apply(astype(as_tensor(x), np.float64), astype(as_tensor(p), np.float64))


def round(a, decimals=0, out=None):
    refuse("round", out=out)
    return Round.apply(a, decimals)


class Round(Function):
    schema_v1 = OpSchema("round")
    saves_input = False

    @staticmethod
    def forward(ctx, x, decimals):
        return namespace(x).round(x, decimals)

    @staticmethod
    def backward(ctx, g):
        return g * 0, None


def copy(a, order="K", subok=False):
    return Copy.apply(a, order)


class Copy(Function):
    schema_v1 = OpSchema("copy")
    saves_input = False

    @staticmethod
    def forward(ctx, x, order):
        return namespace(x).array(x, order=order)

    @staticmethod
    def backward(ctx, g):
        return g, None


def nan_to_num(x, copy=True, nan=0.0, posinf=None, neginf=None):
    refuse("nan_to_num", copy=None if copy else copy)
    x = as_tensor(x)
    xp = namespace(x.data)
    replaced = xp.nan_to_num(x.data, nan=nan, posinf=posinf, neginf=neginf)
    return Where.apply(xp.isfinite(x.data), x, replaced)


def real(val):
    val = as_tensor(val)
    return constant(namespace(val.data).real(val.data)) if is_complex(val.dtype) else val
