"""The layers' computations as functions of arrays and Tensors."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, overload

import numpy as np

from lucid._tensor import (
    Tensor,
    as_tensor,
    constant,
    dtype_name,
    is_floating,
    is_mlx,
    module_of,
    on_device_of,
)
from lucid.autograd import AmpPolicy, OpSchema
from lucid.autograd.mode import _mode
from lucid.autograd.schema import cast_inputs
from lucid.ops.batch_norm_front import batch_norm
from lucid.ops.mean_front import mean
from lucid.ops.reductions import at_least_float32, is_half_type
from lucid.ops.relu import Relu
from lucid.ops.softmax import LogSoftmax, Softmax

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    _F = TypeVar("_F", bound=np.floating[Any])

__all__ = [
    "batch_norm",
    "cross_entropy",
    "linear",
    "log_softmax",
    "mse_loss",
    "relu",
    "softmax",
]


def _function(policy: AmpPolicy, sums: bool = True) -> Callable[..., Any]:
    """Let a function written for Tensors take and return arrays of each device.

    If it sums, and all its floating arguments are of one half type, it computes in float32 and its
    result is rounded once. `policy` is what autocast makes of the arguments.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        schema = OpSchema(function.__name__, amp_policy=policy)

        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            given = [*args, *kwargs.values()]
            traced = any(isinstance(a, Tensor) for a in given)
            like = next((a for a in map(_data, given) if is_mlx(a)), None)
            given = list(cast_inputs(schema, *[_array(on_device_of(like, a)) for a in given]))
            # In autocast the policies of the operations decide.
            half = _common_half_type(given) if sums and not _mode.get().autocast else None
            if half is not None:
                given = [at_least_float32(a) if hasattr(a, "dtype") else a for a in given]
            values = dict(zip(kwargs, given[len(args) :], strict=True))
            result = function(*given[: len(args)], **values)
            result = result if half is None else result.astype(half)
            if traced:
                return result
            return result.data[()] if isinstance(result.data, np.ndarray) else result.data

        return wrapper

    return decorate


def _data(a: Any) -> Any:
    return a.data if isinstance(a, Tensor) else a


def _array(a: Any) -> Any:
    plain = a is None or isinstance(a, (Tensor, np.ndarray, str, bool, int)) or is_mlx(a)
    return a if plain or type(a) is float else as_tensor(a).data


def _common_half_type(arguments: list[Any]) -> Any:
    """Return the dtype that all floating arrays share, if it is a half type."""
    types = [a.dtype for a in arguments if hasattr(a, "dtype") and is_floating(a.dtype)]
    if not types or not is_half_type(types[0]) or any(t != types[0] for t in types):
        return None
    return types[0].newbyteorder("=") if isinstance(types[0], np.dtype) else types[0]


def _numbers(operation: str, input: Any) -> Tensor:
    """Return the input as a Tensor, if it holds numbers."""
    t = as_tensor(input)
    if not is_floating(t.dtype) and getattr(t.dtype, "kind", "f") not in "biufc":
        raise TypeError(f"{operation}: input must be an array of numbers, got dtype {t.dtype}")
    return t


@overload
def linear(input: Tensor, weight: Any, bias: Any = None) -> Tensor: ...
@overload
def linear(input: Any, weight: Tensor, bias: Any = None) -> Tensor: ...
@overload
def linear(
    input: NDArray[_F], weight: NDArray[_F], bias: NDArray[_F] | None = None
) -> NDArray[_F]: ...
@overload
def linear(input: Any, weight: Any, bias: Any = None) -> Any: ...
@_function(AmpPolicy.KEEP_INPUT)
def linear(input: Any, weight: Any, bias: Any = None) -> Any:
    """Affine map of the last axis: ``input @ weight.T + bias``.

    Parameters
    ----------
    input : array_like or Tensor, shape (..., in)
    weight : array_like or Tensor, shape (out, in)
    bias : array_like or Tensor, shape (out,), optional

    Returns
    -------
    ndarray or Tensor, shape (..., out)

    Raises
    ------
    ValueError
        If the shapes do not fit.

    Examples
    --------
    >>> import numpy as np
    >>> import lucid.nn.functional as F
    >>> F.linear(np.array([1.0, 2.0]), np.array([[1.0, 1.0], [1.0, -1.0]]), np.array([0.0, 1.0]))
    array([3., 0.])
    """
    input, weight = _numbers("linear", input), as_tensor(weight)
    if weight.ndim != 2 or input.shape[-1:] != weight.shape[1:]:
        raise ValueError(
            "linear: weight must have shape (out, in) to match the last axis of input, of shape "
            f"{input.shape}, got {weight.shape}"
        )
    y = input @ weight.T
    return y if bias is None else y + bias


@overload
def relu(input: Tensor) -> Tensor: ...
@overload
def relu(input: NDArray[_F]) -> NDArray[_F]: ...
@overload
def relu(input: Any) -> Any: ...
@_function(AmpPolicy.KEEP_INPUT, sums=False)
def relu(input: Any) -> Any:
    """Larger of input and zero, elementwise; the slope at zero is zero.

    Parameters
    ----------
    input : array_like or Tensor

    Returns
    -------
    ndarray or Tensor
        Of the shape and dtype of `input`; NaN stays NaN.

    Examples
    --------
    >>> import lucid.nn.functional as F
    >>> F.relu([-1.0, 0.0, 2.0])
    array([0., 0., 2.])
    """
    return Relu.apply(_numbers("relu", input))


@overload
def log_softmax(input: Tensor, axis: int = -1) -> Tensor: ...
@overload
def log_softmax(input: NDArray[_F], axis: int = -1) -> NDArray[_F]: ...
@overload
def log_softmax(input: Any, axis: int = -1) -> Any: ...
@_function(AmpPolicy.FORCE_FP32)
def log_softmax(input: Any, axis: int = -1) -> Any:
    """Logarithm of `softmax`, computed without overflow or cancellation.

    Parameters
    ----------
    input : array_like or Tensor
    axis : int
        Along which the exponentials sum to one.

    Returns
    -------
    ndarray or Tensor
        Of the shape of `input`.

    Examples
    --------
    >>> import numpy as np
    >>> import lucid.nn.functional as F
    >>> F.log_softmax(np.array([0.0, 1000.0]))
    array([-1000.,     0.])
    """
    return LogSoftmax.apply(_numbers("log_softmax", input), axis)


@overload
def softmax(input: Tensor, axis: int = -1) -> Tensor: ...
@overload
def softmax(input: NDArray[_F], axis: int = -1) -> NDArray[_F]: ...
@overload
def softmax(input: Any, axis: int = -1) -> Any: ...
@_function(AmpPolicy.FORCE_FP32)
def softmax(input: Any, axis: int = -1) -> Any:
    """Exponentials divided by their sum.

    Parameters
    ----------
    input : array_like or Tensor
    axis : int
        Along which the result sums to one.

    Returns
    -------
    ndarray or Tensor
        Of the shape of `input`.

    Examples
    --------
    >>> import numpy as np
    >>> import lucid.nn.functional as F
    >>> F.softmax(np.log([1.0, 1.0, 2.0]))
    array([0.25, 0.25, 0.5 ])
    """
    return Softmax.apply(_numbers("softmax", input), axis)


@overload
def cross_entropy(input: Tensor, target: ArrayLike, reduction: str = "mean") -> Tensor: ...
@overload
def cross_entropy(input: Any, target: ArrayLike, reduction: str = "mean") -> Any: ...
@_function(AmpPolicy.FORCE_FP32)
def cross_entropy(input: Any, target: ArrayLike, reduction: str = "mean") -> Any:
    """Negative log-likelihood of class indices under the softmax of logits.

    Parameters
    ----------
    input : array_like or Tensor, shape (N, C) or (N, C, S...)
        Logits.
    target : array_like of int, shape (N,) or (N, S...)
        Indices of classes, from 0 to C - 1. Those of an MLX array, whose values would have to be
        waited for, are not checked: the loss of one out of range is NaN, its gradient 0.
    reduction : {"mean", "sum", "none"}

    Returns
    -------
    scalar or Tensor of shape (), or of the shape of `target` for ``"none"``

    Raises
    ------
    ValueError
        For a shape, an index or a reduction that does not fit.
    TypeError
        If `target` is not integer.

    Examples
    --------
    >>> import numpy as np
    >>> import lucid.nn.functional as F
    >>> round(float(F.cross_entropy(np.log([[1.0, 3.0], [1.0, 1.0]]), [1, 0])), 6)
    0.490415
    """
    input = _numbers("cross_entropy", input)
    labels: Any = target.data if isinstance(target, Tensor) else target
    on_gpu = is_mlx(labels)
    labels = labels if on_gpu else np.asarray(labels)
    shape = input.shape
    if input.ndim < 2 or labels.shape != shape[:1] + shape[2:]:
        raise ValueError(
            "cross_entropy: target must have the shape of input without axis 1, got input "
            f"{shape} and target {labels.shape}"
        )
    if getattr(labels.dtype, "kind", dtype_name(labels.dtype)[0]) not in "iu":
        raise TypeError(
            f"cross_entropy: target must hold class indices, got {dtype_name(labels.dtype)}"
        )
    classes = shape[1]
    if labels.size and not on_gpu and not (labels.min() >= 0 and labels.max() < classes):
        raise ValueError(
            f"cross_entropy: target must be between 0 and {classes - 1}, got "
            f"{labels.min()} to {labels.max()}"
        )
    log_likelihood = np.moveaxis(log_softmax(input, axis=1), 1, -1).reshape(-1, classes)
    labels, shape = labels.reshape(-1), labels.shape
    if on_gpu:
        labels = labels.astype(module_of(labels).int64)
        known = (labels >= 0) & (labels < classes)
        picked = log_likelihood[np.arange(labels.size), labels * known]
        picked = np.where(constant(known), picked, np.nan)
    else:
        picked = log_likelihood[np.arange(labels.size), labels]
    return _reduce("cross_entropy", -picked.reshape(shape), reduction)


@overload
def mse_loss(input: Tensor, target: Any, reduction: str = "mean") -> Tensor: ...
@overload
def mse_loss(input: Any, target: Tensor, reduction: str = "mean") -> Tensor: ...
@overload
def mse_loss(input: Any, target: Any, reduction: str = "mean") -> Any: ...
@_function(AmpPolicy.FORCE_FP32)
def mse_loss(input: Any, target: Any, reduction: str = "mean") -> Any:
    """Squared difference.

    Parameters
    ----------
    input, target : array_like or Tensor
        Of the same shape.
    reduction : {"mean", "sum", "none"}

    Returns
    -------
    scalar or Tensor of shape (), or of the shape of `input` for ``"none"``

    Raises
    ------
    ValueError
        If the shapes differ or `reduction` is unknown.

    Examples
    --------
    >>> import numpy as np
    >>> import lucid.nn.functional as F
    >>> float(F.mse_loss(np.array([1.0, 2.0]), np.array([1.0, 4.0])))
    2.0
    """
    input = _numbers("mse_loss", input)
    shapes = np.shape(input), np.shape(target)
    if shapes[0] != shapes[1]:
        raise ValueError(
            f"mse_loss: input and target must have one shape, got {shapes[0]} and {shapes[1]}"
        )
    return _reduce("mse_loss", np.square(np.subtract(input, target)), reduction)


def _reduce(operation: str, losses: Any, reduction: str) -> Any:
    if reduction == "mean":
        return mean(losses)
    if reduction == "sum":
        return np.sum(losses)
    if reduction == "none":
        return losses
    raise ValueError(f'{operation}: reduction must be "mean", "sum" or "none", got {reduction!r}')
