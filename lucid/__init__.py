"""Fast, accurate, differentiable mean and batch normalization for NumPy arrays."""

from . import autograd, nn, ops
from ._tensor import Tensor, as_tensor, tensor
from .autograd import enable_grad, grad, is_grad_enabled, no_grad
from .ops.moments import Moments

__all__ = [
    "Moments",
    "Tensor",
    "as_tensor",
    "autograd",
    "enable_grad",
    "grad",
    "is_grad_enabled",
    "nn",
    "no_grad",
    "ops",
    "tensor",
]
