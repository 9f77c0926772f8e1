"""Automatic differentiation of first and higher order: Functions, the engine, gradient checks."""

from .engine import grad
from .function import (
    AmpPolicy,
    Context,
    Function,
    OpSchema,
    enable_grad,
    is_grad_enabled,
    no_grad,
    once_differentiable,
)

__all__ = [
    "AmpPolicy",
    "Context",
    "Function",
    "OpSchema",
    "enable_grad",
    "grad",
    "is_grad_enabled",
    "no_grad",
    "once_differentiable",
]
