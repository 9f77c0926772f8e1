"""Types of the front of batch normalization; see `batch_norm_front.pyx`."""

from collections.abc import Sequence
from typing import Any, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from lucid._tensor import Tensor

_F = TypeVar("_F", bound=np.floating[Any])
_Whole = NDArray[np.integer[Any]] | NDArray[np.bool_]
_Vector = NDArray[Any] | Sequence[float] | None
_Buffer = NDArray[Any] | Tensor | None

@overload
def batch_norm(
    input: Tensor,
    running_mean: _Buffer,
    running_var: _Buffer,
    weight: Any = None,
    bias: Any = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
    *,
    channel_axis: int = 1,
) -> Tensor: ...
@overload
def batch_norm(
    input: Any,
    running_mean: _Buffer,
    running_var: _Buffer,
    weight: Tensor,
    bias: Any = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
    *,
    channel_axis: int = 1,
) -> Tensor: ...
@overload
def batch_norm(
    input: Any,
    running_mean: _Buffer,
    running_var: _Buffer,
    weight: _Vector,
    bias: Tensor,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
    *,
    channel_axis: int = 1,
) -> Tensor: ...
@overload
def batch_norm(
    input: Any,
    running_mean: _Buffer,
    running_var: _Buffer,
    weight: _Vector = None,
    *,
    bias: Tensor,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
    channel_axis: int = 1,
) -> Tensor: ...
@overload
def batch_norm(
    input: NDArray[_F],
    running_mean: _Buffer,
    running_var: _Buffer,
    weight: _Vector = None,
    bias: _Vector = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
    *,
    channel_axis: int = 1,
) -> NDArray[_F]: ...
@overload
def batch_norm(
    input: _Whole,
    running_mean: _Buffer,
    running_var: _Buffer,
    weight: _Vector = None,
    bias: _Vector = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
    *,
    channel_axis: int = 1,
) -> NDArray[np.float32]: ...
@overload
def batch_norm(
    input: Any,
    running_mean: Any,
    running_var: Any,
    weight: Any = None,
    bias: Any = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
    *,
    channel_axis: int = 1,
) -> Any: ...
