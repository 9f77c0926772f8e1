"""Automatic differentiation of first and higher order: Functions, the engine, gradient checks."""

from .context import Context
from .engine import grad
from .function import Function, once_differentiable
from .functional import hvp, value_and_grad
from .gradcheck import GradcheckError, gradcheck, gradgradcheck
from .mode import enable_grad, is_grad_enabled, no_grad
from .schema import AmpPolicy, OpSchema

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
