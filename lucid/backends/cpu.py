"""The CPU backend: NumPy memory and the kernels."""

from __future__ import annotations

from .._kernels.mean import mean, mean_var as _mean_var

name = "cpu"


def reduce_mean(x, axes, keepdims):
    """Mean of `x` over `axes`."""
    return mean(x, axes, keepdims=keepdims)


def mean_var(x, axes, correction, keepdims):
    """Mean and variance of `x` over `axes`, in one pass."""
    return _mean_var(x, axes, correction=correction, keepdims=keepdims)
