"""Elementwise rules of one argument: each is the slope of a ufunc.

Steps (``sign``, ``floor``, ``ceil`` …) have slope 0 everywhere, ``abs`` at 0.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..autograd import AmpPolicy, Function, OpSchema
from ..backends import namespace

UNARY: dict[Any, Any] = {}


def unary(ufunc, saves="x", **schema):
    """Make the decorated ``slope(g, x)``, or ``slope(g, y)``, the backward of a ufunc's rule."""

    def rule(slope):
        name, saves_input = ufunc.__name__, saves == "x"

        class Rule(Function):
            schema_v1 = OpSchema(name, **schema)

            @staticmethod
            def forward(ctx, x):
                y = ufunc(x) if x.__class__ is np.ndarray else getattr(namespace(x), name)(x)
                if saves:
                    ctx.save_for_backward(x if saves_input else y)
                return y

            @staticmethod
            def backward(ctx, g):
                return slope(g, *ctx.saved_tensors)

        Rule.saves_input = saves_input
        Rule.__name__ = Rule.__qualname__ = slope.__name__
        Rule.node_name = slope.__name__ + "Backward"
        UNARY[ufunc] = Rule
        return Rule

    return rule


_WIDE = {"amp_policy": AmpPolicy.FORCE_FP32}


@unary(np.negative, saves=None)
def Negative(g):
    return -g


@unary(np.positive, saves=None)
def Positive(g):
    return g


@unary(np.exp, saves="y", **_WIDE)
def Exp(g, y):
    return g * y


@unary(np.exp2, saves="y", **_WIDE)
def Exp2(g, y):
    return g * y * math.log(2)


@unary(np.expm1, saves="y", **_WIDE)
def Expm1(g, y):
    return g * (y + 1)


@unary(np.log, **_WIDE)
def Log(g, x):
    return g / x


@unary(np.log2, **_WIDE)
def Log2(g, x):
    return g / (x * math.log(2))


@unary(np.log10, **_WIDE)
def Log10(g, x):
    return g / (x * math.log(10))


@unary(np.log1p, **_WIDE)
def Log1p(g, x):
    return g / (x + 1)


@unary(np.sqrt, saves="y")
def Sqrt(g, y):
    return g / (y * 2)


@unary(np.square)
def Square(g, x):
    return g * (x * 2)


@unary(np.reciprocal, saves="y")
def Reciprocal(g, y):
    return -g * y * y


@unary(np.absolute)
def Absolute(g, x):
    return g * np.sign(x)


@unary(np.sin)
def Sin(g, x):
    return g * np.cos(x)


@unary(np.cos)
def Cos(g, x):
    return -g * np.sin(x)


@unary(np.tan, saves="y")
def Tan(g, y):
    return g * (y * y + 1)


@unary(np.sinh)
def Sinh(g, x):
    return g * np.cosh(x)


@unary(np.cosh)
def Cosh(g, x):
    return g * np.sinh(x)


@unary(np.tanh, saves="y")
def Tanh(g, y):
    return g * (1 - y * y)


@unary(np.arcsin)
def Arcsin(g, x):
    return g / np.sqrt((1 - x) * (1 + x))


@unary(np.arccos)
def Arccos(g, x):
    return -g / np.sqrt((1 - x) * (1 + x))


@unary(np.arctan)
def Arctan(g, x):
    return g / (x * x + 1)


@unary(np.arcsinh)
def Arcsinh(g, x):
    return g / np.hypot(x, 1)  # whose square would overflow


@unary(np.arccosh)
def Arccosh(g, x):
    return g / (np.sqrt(x - 1) * np.sqrt(x + 1))


@unary(np.arctanh)
def Arctanh(g, x):
    return g / ((1 - x) * (1 + x))


def _step(ufunc, name):
    def slope(g):
        return g * 0

    slope.__name__ = name
    return unary(ufunc, saves=None)(slope)


Sign, Floor, Ceil, Trunc, Rint = (
    _step(f, f.__name__.capitalize()) for f in (np.sign, np.floor, np.ceil, np.trunc, np.rint)
)
