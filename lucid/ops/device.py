"""Moving between devices: the only place where an array changes its device."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._tensor import Tensor, to_numpy
from ..autograd import Context, Function, OpSchema
from .elementwise import astype


class To(Function):
    """A copy on another device; its gradient is copied back."""

    schema_v1 = OpSchema("to")
    saves_input = False
    fresh_grads = True
    moves = True

    @staticmethod
    def forward(ctx: Context, x: Any, device: str, dtype: Any) -> Any:
        ctx.source = "cpu" if isinstance(x, np.ndarray) else "gpu"
        return to_device(x, device, dtype)

    @staticmethod
    def backward(ctx: Context, g: Tensor) -> tuple[Tensor, None, None]:
        return To.apply(g, ctx.source, ctx.edges[0].dtype), None, None


def to_device(array: Any, device: str, dtype: Any = None) -> Any:
    """Copy an array to ``"cpu"`` or ``"gpu"``, cast to `dtype`."""
    if device == "cpu":
        array = to_numpy(array)
        return array if dtype is None else array.astype(dtype)
    try:
        from ..backends.mlx_numpy import from_numpy
    except ImportError as error:
        raise ImportError("gpu: MLX is not installed; pip install 'lucid-numpy[mlx]'") from error
    return from_numpy(array, dtype)


def to(self: Tensor, target: Any, dtype: Any = None) -> Tensor:
    """Move to a device, ``"cpu"`` or ``"gpu"``, or convert to a dtype.

    The gradient comes back to where this Tensor is.
    """
    if not isinstance(target, str) or target not in ("cpu", "gpu"):
        try:
            if isinstance(target, str) and target != "bfloat16":  # NumPy may not know it
                np.dtype(target)
        except TypeError:
            raise ValueError(
                f"to: target must be a device, 'cpu' or 'gpu', or a dtype, got {target!r}"
            ) from None
        return astype(self, target)
    if target == self.device:
        return self if dtype is None else astype(self, dtype)
    return To.apply(self, target, dtype)
