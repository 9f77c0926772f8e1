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
from .functional import hvp, value_and_grad
from .gradcheck import GradcheckError, gradcheck, gradgradcheck

__all__ = [
    "AmpPolicy",
    "Context",
    "Function",
    "GradcheckError",
    "OpSchema",
    "enable_grad",
    "grad",
    "gradcheck",
    "gradgradcheck",
    "hvp",
    "is_grad_enabled",
    "no_grad",
    "once_differentiable",
    "value_and_grad",
]
