"""The CPU backend: NumPy memory and the kernels."""

from __future__ import annotations

from typing import Any

from .._kernels.batch_norm import (
    backward as batch_norm_backward,
    double_backward as batch_norm_double_backward,
    forward as batch_norm_forward,
    inference as batch_norm_inference,
)
from .._kernels.mean import mean, mean_var as _mean_var, std as _std

__all__ = [
    "batch_norm_backward",
    "batch_norm_double_backward",
    "batch_norm_forward",
    "batch_norm_inference",
    "mean_var",
    "name",
    "reduce_mean",
    "std",
]

name = "cpu"


def reduce_mean(x: Any, axes: tuple[int, ...], keepdims: bool) -> Any:
    """Mean of `x` over `axes`."""
    return mean(x, axes, keepdims=keepdims)


def mean_var(x: Any, axes: tuple[int, ...], correction: float, keepdims: bool) -> tuple[Any, Any]:
    """Mean and variance of `x` over `axes`, in one pass."""
    return _mean_var(x, axes, correction=correction, keepdims=keepdims)


def std(x: Any, axes: tuple[int, ...], correction: float, keepdims: bool) -> Any:
    """Standard deviation of `x` over `axes`."""
    return _std(x, axes, ddof=correction, keepdims=keepdims)
