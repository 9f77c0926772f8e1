"""Types of the batch normalization kernels; see `batch_norm.pyx`."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from lucid._tensor import Tensor

_F = TypeVar("_F", bound=np.floating[Any])
_Whole = NDArray[np.integer[Any]] | NDArray[np.bool_]
_Array = NDArray[Any]
_Vector = NDArray[Any] | Sequence[float] | None
_Buffer = NDArray[Any] | Tensor | None
_Three = tuple[_Array, _Array, _Array]
_Wanted = tuple[_Array | None, _Array | None, _Array | None]

def bind(general: Callable[..., Any]) -> None: ...
def forward(
    x: _Array,
    weight: _Array | None,
    bias: _Array | None,
    running_mean: _Array | None,
    running_var: _Array | None,
    momentum: float,
    eps: float,
    channel_axis: int,
) -> _Three: ...
def inference(
    x: _Array,
    weight: _Array | None,
    bias: _Array | None,
    running_mean: _Array,
    running_var: _Array,
    eps: float,
    channel_axis: int,
) -> _Three: ...
def backward(
    dy: _Array,
    x: _Array,
    weight: _Array | None,
    bias: _Array | None,
    mean: _Array,
    rstd: _Array,
    training: bool,
    channel_axis: int,
    needs: Sequence[bool],
) -> _Wanted: ...
def double_backward(
    v: _Array | None,
    w: _Array | None,
    u: _Array | None,
    dy: _Array,
    x: _Array,
    weight: _Array | None,
    mean: _Array,
    rstd: _Array,
    training: bool,
    channel_axis: int,
    needs: Sequence[bool],
) -> _Wanted: ...
def is_common(
    input: Any,
    running_mean: Any,
    running_var: Any,
    weight: Any,
    bias: Any,
    training: Any,
    momentum: Any,
    eps: Any,
    channel_axis: Any,
) -> bool: ...
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
