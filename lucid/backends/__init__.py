"""Where an array lives decides who computes: NumPy memory on the CPU, MLX arrays on the GPU.

A backend is a module. The functions of `Backend` are all that `lucid.ops` asks of one; arrays go in
and arrays of the same kind come out, and nothing is copied between devices.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from . import cpu

Array = Any


class Backend(Protocol):
    """What a backend module provides.

    Channel vectors (``mean``, ``rstd``) have shape (C,) and are float64 on the CPU. On MLX they are
    float32, but float64 for float64 input; there the mean is a pair, of the rounded mean and the
    rest (None for running statistics).
    `needs` is a tuple of booleans saying which of the results are wanted; the others are None.
    """

    name: str  # "cpu" or "gpu"

    def reduce_mean(self, x: Array, axes: tuple[int, ...], keepdims: bool) -> Array:
        """Mean of `x` over the non-negative `axes`; integers give float64, on MLX float32."""

    def mean_var(
        self, x: Array, axes: tuple[int, ...], correction: float, keepdims: bool
    ) -> tuple[Array, Array]:
        """Mean and variance over `axes` in one pass over memory."""

    def std(self, x: Array, axes: tuple[int, ...], correction: float, keepdims: bool) -> Array:
        """Standard deviation over `axes`."""

    def batch_norm_forward(
        self,
        x: Array,
        weight: Array | None,
        bias: Array | None,
        running_mean: Array | None,
        running_var: Array | None,
        momentum: float,
        eps: float,
        channel_axis: int,
    ) -> tuple[Array, Array, Array]:
        """Training: ``y, mean, rstd``; updates the running statistics in the same call."""

    def batch_norm_inference(
        self,
        x: Array,
        weight: Array | None,
        bias: Array | None,
        running_mean: Array,
        running_var: Array,
        eps: float,
        channel_axis: int,
    ) -> tuple[Array, Array, Array]:
        """Evaluation: ``y, mean, rstd`` from the running statistics, which are only read."""

    def batch_norm_backward(
        self,
        dy: Array,
        x: Array,
        weight: Array | None,
        bias: Array | None,
        mean: Array,
        rstd: Array,
        training: bool,
        channel_axis: int,
        needs: tuple[bool, bool, bool],
    ) -> tuple[Array | None, Array | None, Array | None]:
        """``dx, dweight, dbias``; each parameter gradient in its parameter's dtype.

        `training` False means that ``mean`` and ``rstd`` are constants.
        """

    def batch_norm_double_backward(
        self,
        v: Array | None,
        w: Array | None,
        u: Array | None,
        dy: Array,
        x: Array,
        weight: Array | None,
        mean: Array,
        rstd: Array,
        training: bool,
        channel_axis: int,
        needs: tuple[bool, bool, bool],
    ) -> tuple[Array | None, Array | None, Array | None]:
        """Gradients to ``dy, x, weight`` given those, ``v, w, u``, of ``dx, dweight, dbias``.

        Any of these may be None (zero); `weight` may be None (one).
        """


def namespace(*arrays: Any) -> Any:
    """Return the module whose functions work on the first array: `numpy`, or that for MLX arrays.

    Python numbers and None are passed over.
    """
    for array in arrays:
        if array.__class__ is np.ndarray or isinstance(array, (np.ndarray, np.generic)):
            return np
        if type(array).__module__ == "mlx.core":
            from . import mlx_numpy

            return mlx_numpy
    names = ", ".join(type(a).__name__ for a in arrays)
    raise TypeError(f"backend: array must be a NumPy or MLX array, got {names}")


def backend_of(array: Array) -> Backend:
    """Return the backend module that computes on `array`."""
    if array.__class__ is np.ndarray or namespace(array) is np:
        return cpu
    from . import mlx

    return mlx
