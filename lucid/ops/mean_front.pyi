"""Types of the front of mean and variance; see `mean_front.pyx`.

A Tensor gives a Tensor. An array gives an array with ``keepdims=True``, a scalar without an axis,
else an array, or a scalar if no axis is left: ``NDArray | Any`` says so and asks for no cast.
"""

from typing import Any, Literal, SupportsIndex, TypeVar, overload

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from lucid._tensor import Tensor

_F = TypeVar("_F", bound=np.floating[Any])
_Out = TypeVar("_Out", bound=NDArray[Any])
_Whole = NDArray[np.integer[Any]] | NDArray[np.bool_]
_Axis = SupportsIndex | tuple[SupportsIndex, ...]

@overload
def mean(
    x: Tensor,
    axis: _Axis | None = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    keepdims: bool = False,
    *,
    where: Literal[True] = True,
) -> Tensor: ...
@overload
def mean(
    x: NDArray[_F],
    axis: None = None,
    dtype: None = None,
    out: None = None,
    keepdims: Literal[False] = False,
    *,
    where: ArrayLike = True,
) -> _F: ...
@overload
def mean(
    x: NDArray[_F],
    axis: _Axis | None = None,
    dtype: None = None,
    out: None = None,
    *,
    keepdims: Literal[True],
    where: ArrayLike = True,
) -> NDArray[_F]: ...
@overload
def mean(
    x: NDArray[_F],
    axis: _Axis | None = None,
    dtype: None = None,
    out: None = None,
    keepdims: bool = False,
    *,
    where: ArrayLike = True,
) -> NDArray[_F] | Any: ...
@overload
def mean(
    x: _Whole,
    axis: None = None,
    dtype: None = None,
    out: None = None,
    keepdims: Literal[False] = False,
    *,
    where: ArrayLike = True,
) -> np.float64: ...
@overload
def mean(
    x: _Whole,
    axis: _Axis | None = None,
    dtype: None = None,
    out: None = None,
    *,
    keepdims: Literal[True],
    where: ArrayLike = True,
) -> NDArray[np.float64]: ...
@overload
def mean(
    x: _Whole,
    axis: _Axis | None = None,
    dtype: None = None,
    out: None = None,
    keepdims: bool = False,
    *,
    where: ArrayLike = True,
) -> NDArray[np.float64] | Any: ...
@overload
def mean(
    x: ArrayLike,
    axis: _Axis | None = None,
    dtype: DTypeLike | None = None,
    *,
    out: _Out,
    keepdims: bool = False,
    where: ArrayLike = True,
) -> _Out: ...
@overload
def mean(
    x: Any,
    axis: _Axis | None = None,
    dtype: DTypeLike | None = None,
    out: NDArray[Any] | None = None,
    keepdims: bool = False,
    *,
    where: ArrayLike = True,
) -> Any: ...
@overload
def var(
    x: Tensor,
    axis: _Axis | None = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    ddof: float = 0,
    keepdims: bool = False,
    *,
    where: Literal[True] = True,
    mean: None = None,
    correction: float | None = None,
) -> Tensor: ...
@overload
def var(
    x: NDArray[_F],
    axis: None = None,
    dtype: None = None,
    out: None = None,
    ddof: float = 0,
    keepdims: Literal[False] = False,
    *,
    where: ArrayLike = True,
    mean: ArrayLike | None = None,
    correction: float | None = None,
) -> _F: ...
@overload
def var(
    x: NDArray[_F],
    axis: _Axis | None = None,
    dtype: None = None,
    out: None = None,
    ddof: float = 0,
    *,
    keepdims: Literal[True],
    where: ArrayLike = True,
    mean: ArrayLike | None = None,
    correction: float | None = None,
) -> NDArray[_F]: ...
@overload
def var(
    x: NDArray[_F],
    axis: _Axis | None = None,
    dtype: None = None,
    out: None = None,
    ddof: float = 0,
    keepdims: bool = False,
    *,
    where: ArrayLike = True,
    mean: ArrayLike | None = None,
    correction: float | None = None,
) -> NDArray[_F] | Any: ...
@overload
def var(
    x: _Whole,
    axis: None = None,
    dtype: None = None,
    out: None = None,
    ddof: float = 0,
    keepdims: Literal[False] = False,
    *,
    where: ArrayLike = True,
    mean: ArrayLike | None = None,
    correction: float | None = None,
) -> np.float64: ...
@overload
def var(
    x: _Whole,
    axis: _Axis | None = None,
    dtype: None = None,
    out: None = None,
    ddof: float = 0,
    *,
    keepdims: Literal[True],
    where: ArrayLike = True,
    mean: ArrayLike | None = None,
    correction: float | None = None,
) -> NDArray[np.float64]: ...
@overload
def var(
    x: _Whole,
    axis: _Axis | None = None,
    dtype: None = None,
    out: None = None,
    ddof: float = 0,
    keepdims: bool = False,
    *,
    where: ArrayLike = True,
    mean: ArrayLike | None = None,
    correction: float | None = None,
) -> NDArray[np.float64] | Any: ...
@overload
def var(
    x: ArrayLike,
    axis: _Axis | None = None,
    dtype: DTypeLike | None = None,
    *,
    out: _Out,
    ddof: float = 0,
    keepdims: bool = False,
    where: ArrayLike = True,
    mean: ArrayLike | None = None,
    correction: float | None = None,
) -> _Out: ...
@overload
def var(
    x: Any,
    axis: _Axis | None = None,
    dtype: DTypeLike | None = None,
    out: NDArray[Any] | None = None,
    ddof: float = 0,
    keepdims: bool = False,
    *,
    where: ArrayLike = True,
    mean: ArrayLike | None = None,
    correction: float | None = None,
) -> Any: ...
@overload
def std(
    x: Tensor,
    axis: _Axis | None = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    ddof: float = 0,
    keepdims: bool = False,
    *,
    where: Literal[True] = True,
    mean: None = None,
    correction: float | None = None,
) -> Tensor: ...
@overload
def std(
    x: NDArray[_F],
    axis: None = None,
    dtype: None = None,
    out: None = None,
    ddof: float = 0,
    keepdims: Literal[False] = False,
    *,
    where: ArrayLike = True,
    mean: ArrayLike | None = None,
    correction: float | None = None,
) -> _F: ...
@overload
def std(
    x: NDArray[_F],
    axis: _Axis | None = None,
    dtype: None = None,
    out: None = None,
    ddof: float = 0,
    *,
    keepdims: Literal[True],
    where: ArrayLike = True,
    mean: ArrayLike | None = None,
    correction: float | None = None,
) -> NDArray[_F]: ...
@overload
def std(
    x: NDArray[_F],
    axis: _Axis | None = None,
    dtype: None = None,
    out: None = None,
    ddof: float = 0,
    keepdims: bool = False,
    *,
    where: ArrayLike = True,
    mean: ArrayLike | None = None,
    correction: float | None = None,
) -> NDArray[_F] | Any: ...
@overload
def std(
    x: _Whole,
    axis: None = None,
    dtype: None = None,
    out: None = None,
    ddof: float = 0,
    keepdims: Literal[False] = False,
    *,
    where: ArrayLike = True,
    mean: ArrayLike | None = None,
    correction: float | None = None,
) -> np.float64: ...
@overload
def std(
    x: _Whole,
    axis: _Axis | None = None,
    dtype: None = None,
    out: None = None,
    ddof: float = 0,
    *,
    keepdims: Literal[True],
    where: ArrayLike = True,
    mean: ArrayLike | None = None,
    correction: float | None = None,
) -> NDArray[np.float64]: ...
@overload
def std(
    x: _Whole,
    axis: _Axis | None = None,
    dtype: None = None,
    out: None = None,
    ddof: float = 0,
    keepdims: bool = False,
    *,
    where: ArrayLike = True,
    mean: ArrayLike | None = None,
    correction: float | None = None,
) -> NDArray[np.float64] | Any: ...
@overload
def std(
    x: ArrayLike,
    axis: _Axis | None = None,
    dtype: DTypeLike | None = None,
    *,
    out: _Out,
    ddof: float = 0,
    keepdims: bool = False,
    where: ArrayLike = True,
    mean: ArrayLike | None = None,
    correction: float | None = None,
) -> _Out: ...
@overload
def std(
    x: Any,
    axis: _Axis | None = None,
    dtype: DTypeLike | None = None,
    out: NDArray[Any] | None = None,
    ddof: float = 0,
    keepdims: bool = False,
    *,
    where: ArrayLike = True,
    mean: ArrayLike | None = None,
    correction: float | None = None,
) -> Any: ...
@overload
def mean_var(
    x: Tensor, axis: _Axis | None = None, *, correction: float = 0, keepdims: bool = False
) -> tuple[Tensor, Tensor]: ...
@overload
def mean_var(
    x: NDArray[_F], axis: None = None, *, correction: float = 0, keepdims: Literal[False] = False
) -> tuple[_F, _F]: ...
@overload
def mean_var(
    x: NDArray[_F], axis: _Axis | None = None, *, correction: float = 0, keepdims: Literal[True]
) -> tuple[NDArray[_F], NDArray[_F]]: ...
@overload
def mean_var(
    x: NDArray[_F], axis: _Axis | None = None, *, correction: float = 0, keepdims: bool = False
) -> tuple[NDArray[_F] | Any, NDArray[_F] | Any]: ...
@overload
def mean_var(
    x: _Whole, axis: None = None, *, correction: float = 0, keepdims: Literal[False] = False
) -> tuple[np.float64, np.float64]: ...
@overload
def mean_var(
    x: _Whole, axis: _Axis | None = None, *, correction: float = 0, keepdims: Literal[True]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]: ...
@overload
def mean_var(
    x: _Whole, axis: _Axis | None = None, *, correction: float = 0, keepdims: bool = False
) -> tuple[NDArray[np.float64] | Any, NDArray[np.float64] | Any]: ...
@overload
def mean_var(
    x: Any, axis: _Axis | None = None, *, correction: float = 0, keepdims: bool = False
) -> tuple[Any, Any]: ...
