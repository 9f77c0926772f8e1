"""The operators and methods of Tensor, made from the table."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._tensor import Tensor, on_device_of
from .device import to
from .elementwise import astype, real
from .indexing import getitem
from .shape import reshape, transpose

_BINARY = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "truediv": np.divide,
    "floordiv": np.floor_divide,
    "mod": np.remainder,
    "divmod": np.divmod,
    "pow": np.power,
    "matmul": np.matmul,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "lshift": np.left_shift,
    "rshift": np.right_shift,
}
_COMPARISONS = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}
_UNARY = {"neg": np.negative, "pos": np.positive, "abs": np.absolute, "invert": np.invert}
_SEQUENCES = (list, tuple)
_METHODS = (
    "sum prod mean var std max min cumsum cumprod clip round dot ravel squeeze swapaxes take copy "
    "repeat diagonal trace argmax argmin argsort nonzero all any"
)


def bound(ufuncs: dict[Any, Any], functions: dict[Any, Any]) -> dict[Any, Any]:
    """Return the methods of Tensor by name."""
    methods = {
        "__getitem__": getitem,
        "T": property(transpose, doc="The transpose."),
        "real": property(real, doc="The real part: the Tensor itself, unless it is complex."),
        "__round__": _round,
        "astype": astype,
        "reshape": _reshape,
        "transpose": _transpose,
        "to": to,
    }
    for name, ufunc in _BINARY.items():
        methods[f"__{name}__"], methods[f"__r{name}__"] = _operators(ufuncs[ufunc])
    for name, ufunc in _COMPARISONS.items():
        methods[f"__{name}__"], _ = _operators(ufuncs[ufunc])
    for name, ufunc in _UNARY.items():
        methods[f"__{name}__"] = _method(ufuncs[ufunc])
    methods |= {name: _method(functions[getattr(np, name)], name) for name in _METHODS.split()}
    return methods


def _operators(rule):
    def operator(self, other):
        return rule(self, on_device_of(self, other) if other.__class__ in _SEQUENCES else other)

    def reflected(self, other):
        return rule(on_device_of(self, other) if other.__class__ in _SEQUENCES else other, self)

    return operator, reflected


def _method(rule, name=""):
    def method(self, *args, **kwargs):
        return rule(self, *args, **kwargs)

    if name:
        method.__name__, method.__qualname__ = name, f"Tensor.{name}"
        method.__doc__ = f"As `numpy.{name}`."
    return method


def _reshape(self: Tensor, *shape, order: str = "C") -> Tensor:
    """Give the elements a new shape, as `numpy.ndarray.reshape` does."""
    return reshape(self, shape[0] if len(shape) == 1 else shape, order)


def _transpose(self: Tensor, *axes) -> Tensor:
    """Reorder the axes, as `numpy.ndarray.transpose` does."""
    return transpose(self, (axes[0] if len(axes) == 1 else axes) or None)


def _round(self: Tensor, ndigits: int | None = None) -> Tensor:
    rounded: Any = np.round(self, ndigits or 0)
    return rounded
