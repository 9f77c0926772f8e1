"""Fast, accurate, differentiable mean and batch normalization for NumPy arrays."""

from . import autograd, ops
from ._tensor import Tensor, as_tensor, tensor
from .autograd import enable_grad, grad, is_grad_enabled, no_grad

__all__ = [
    "Tensor",
    "as_tensor",
    "autograd",
    "enable_grad",
    "grad",
    "is_grad_enabled",
    "no_grad",
    "ops",
    "tensor",
]
