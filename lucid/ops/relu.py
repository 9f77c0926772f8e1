"""The rule of the rectifier. Its slope at 0 is 0, and 1 at NaN, as PyTorch's."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..autograd import Function, OpSchema
from ..backends import namespace

# Signed integers as wide as floating types: 1 and 0 times a pattern of bits is exact and quick.
_BITS: dict[int, Any] = {2: np.int16, 4: np.int32, 8: np.int64}


class Relu(Function):
    schema_v1 = OpSchema("relu")
    saves_input = False
    fresh_grads = True

    @staticmethod
    def forward(ctx, x):
        y = namespace(x).maximum(x, 0)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        return Gate.apply(g, y.data)


class Gate(Function):
    """`g` where `y` is not 0: even an infinite gradient is 0 elsewhere."""

    schema_v1 = OpSchema("relu_backward")
    saves_input = False
    fresh_grads = True

    @staticmethod
    def forward(ctx, g, y):
        ctx.y = y
        if not isinstance(g, np.ndarray):
            return namespace(g).where(y == 0, 0, g)
        bits = _BITS.get(g.itemsize)
        if bits is None or not g.ndim or not g.flags.forc or not g.dtype.isnative:
            return np.where(y == 0, g.dtype.type(0), g)
        passed = np.not_equal(y, 0).view(np.int8)
        return (g.view(bits) * passed).view(g.dtype)

    @staticmethod
    def backward(ctx, g):
        return Gate.apply(g, ctx.y), None
