"""Fast, accurate, differentiable mean and batch normalization for NumPy arrays."""

from . import amp, autograd, ops
from ._tensor import Tensor, as_tensor, tensor
from .amp import autocast
from .autograd import enable_grad, grad, hvp, is_grad_enabled, no_grad, value_and_grad

__all__ = [
    "Tensor",
    "amp",
    "as_tensor",
    "autocast",
    "autograd",
    "enable_grad",
    "grad",
    "hvp",
    "is_grad_enabled",
    "no_grad",
    "ops",
    "tensor",
    "value_and_grad",
]
