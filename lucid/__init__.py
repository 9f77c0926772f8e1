"""Fast, accurate, differentiable mean and batch normalization for NumPy arrays."""

from . import amp, autograd, nn, ops
from ._config import show_config
from ._kernels.memory import cache_info, clear_cache, set_cache_limit
from ._kernels.threads import get_num_threads, set_num_threads
from ._tensor import Tensor, as_tensor, tensor
from .amp import autocast
from .autograd import enable_grad, grad, hvp, is_grad_enabled, no_grad, value_and_grad
from .ops.mean_front import mean, mean_var, std, var
from .ops.moments import Moments

__all__ = [
    "Moments",
    "Tensor",
    "amp",
    "as_tensor",
    "autocast",
    "autograd",
    "cache_info",
    "clear_cache",
    "enable_grad",
    "get_num_threads",
    "grad",
    "hvp",
    "is_grad_enabled",
    "mean",
    "mean_var",
    "nn",
    "no_grad",
    "ops",
    "set_cache_limit",
    "set_num_threads",
    "show_config",
    "std",
    "tensor",
    "value_and_grad",
    "var",
]
