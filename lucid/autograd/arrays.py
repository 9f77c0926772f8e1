"""The borders of `forward`: from Tensors to the arrays it gets, and from what it returns back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy import ndarray

from .._tensor import (
    Tensor,
    constant,
    dtype_name,
    in_native_order,
    is_complex,
    is_floating,
    is_mlx,
    share_version,
    to_array,
)

if TYPE_CHECKING:
    from .function import Function


def wrap(cls: type, array: Any, args: tuple[Any, ...], arrays: list[Any]) -> Tensor:
    """Make a result of `forward` a Tensor that shares the write counter of its memory."""
    if type(array) is not ndarray:  # not __class__, which may be made up
        if array is None or isinstance(array, (Tensor, str, dict, set)):
            raise TypeError(
                f"{cls.__name__}.forward: must return arrays, got {type(array).__name__}"
            )
        array = to_array(array)
    result = constant(array)
    owner = getattr(array, "base", None)  # MLX arrays have none
    if owner is not None or any(a is array for a in arrays):
        owner = array if owner is None else owner
        for a in args:
            if isinstance(a, Tensor) and (a._data is owner or getattr(a._data, "base", 0) is owner):
                result._version = share_version(a)
    return result


def carries_gradient(cls: type[Function], result: Tensor) -> bool:
    """Whether a result is of a type that has gradients; its data is then in native byte order."""
    dtype = result._data.dtype
    if is_complex(dtype):
        name = dtype_name(dtype)
        raise TypeError(f"{cls.schema_v1.name}: complex results have no gradient, got {name}")
    if not is_floating(dtype):
        return False
    result._data = in_native_order(result._data)
    return True


def check_devices(operation: str, arrays: Any) -> bool:
    """Raise TypeError if ndarrays and MLX arrays meet; say whether there are MLX arrays."""
    on_gpu = any(map(is_mlx, arrays))
    if on_gpu and any(isinstance(a, ndarray) for a in arrays):
        raise TypeError(f"{operation}: arguments must be on one device, got cpu and gpu; use to()")
    return on_gpu


def check_stays(cls: type, result: Any, arrays: list[Any]) -> None:
    """Raise TypeError if NumPy's functions have taken MLX arrays to the cpu, as they do unasked."""
    results = result if isinstance(result, (tuple, list)) else (result,)
    if any(isinstance(r, ndarray) for r in results) and any(map(is_mlx, arrays)):
        raise TypeError(
            f"{cls.__name__}.forward: must return arrays on the device of its arguments, gpu, got "
            "an ndarray; compute with mlx.core"
        )


def plain_numbers(items: Any) -> list[Any]:
    """Make Python numbers of NumPy scalars: on no device, they take the dtype of what they meet."""
    return [a.item() if isinstance(a, np.generic) else a for a in items]


def tell_apart(args: tuple[Any, ...], arrays: list[Any]) -> None:
    """Give distinct arguments distinct arrays: x, x.detach() and x.data share one."""
    seen: dict[int, Any] = {}
    for i, a in enumerate(args):
        if hasattr(a, "dtype") and seen.setdefault(id(arrays[i]), a) is not a:
            arrays[i] = arrays[i][...]
