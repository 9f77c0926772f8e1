"""Fast, accurate, differentiable mean and batch normalization for NumPy arrays."""

try:
    from . import amp, autograd, nn, ops
    from ._config import __version__ as __version__, show_config
    from ._kernels.memory import cache_info, clear_cache, set_cache_limit
    from ._kernels.threads import get_num_threads, set_num_threads
    from ._tensor import Tensor, as_tensor, tensor
    from .amp import autocast
    from .autograd import enable_grad, grad, hvp, is_grad_enabled, no_grad, value_and_grad
    from .ops.mean_front import mean, mean_var, std, var
    from .ops.moments import Moments
except ImportError as error:
    if not (error.name or "").startswith("lucid.") or not (error.path or ".py").endswith(".py"):
        raise  # NumPy is missing, say, or a compiled module can't be loaded
    raise ImportError(
        f"lucid: {error}. The compiled modules are not in {__path__[0]}, or not for this Python. "
        "If that is a folder of sources, it hides the installed package: run `python -P`, or start "
        "elsewhere. If none is installed, `pip install .` beside that folder builds lucid-numpy.",
        name=error.name,
        path=__path__[0],
    ) from None

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
