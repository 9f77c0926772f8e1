"""The CPU backend: NumPy arrays through the kernels."""

from __future__ import annotations

from lucid._kernels.batch_norm import (
    backward as batch_norm_backward,
    double_backward as batch_norm_double_backward,
    forward as batch_norm_forward,
    inference as batch_norm_inference,
)

__all__ = [
    "batch_norm_backward",
    "batch_norm_double_backward",
    "batch_norm_forward",
    "batch_norm_inference",
    "name",
]

name = "cpu"
