"""What batch norm asks of its arguments: every rule, and the error that names who broke it.

All is checked before anything is written, so that a call that raises has changed nothing.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.exceptions import AxisError

from lucid._tensor import Tensor, dtype_name, is_floating, on_device_of, to_array
from lucid.backends import namespace


def array(name: str, value: Any, like: Any = None) -> Any:
    """Return `value`, which is no Tensor, as an array of its own kind, a list as one of `like`."""
    if type(value) is np.ndarray or (value is None and name != "input"):
        return value
    if isinstance(value, np.ndarray) and not isinstance(value, np.memmap):
        raise TypeError(f"batch_norm: {name} must be a plain array, got {type(value).__name__}")
    if isinstance(value, (list, tuple)) and any(isinstance(v, Tensor) for v in value):
        raise TypeError(f"batch_norm: {name} must be an array, got a list of Tensors; use np.stack")
    return to_array(on_device_of(like, value))


def buffer(name: str, value: Any) -> Any:
    """Return the array behind running statistics, which are read or updated in place."""
    if value is None or type(value) is np.ndarray:
        return value
    if isinstance(value, Tensor):
        if value.requires_grad:
            raise TypeError(f"batch_norm: {name} must not require grad: none would reach it")
        return value.data
    # Of anything else there would be a copy, and its update lost.
    if not isinstance(value, np.ndarray) and type(value).__module__ != "mlx.core":
        raise TypeError(f"batch_norm: {name} must be an array, got {type(value).__name__}")
    return array(name, value)


def check(x: Any, training: bool, momentum: Any, eps: Any, channel_axis: Any) -> int:
    """Check all but what has one value per channel; return the channel axis, not negative."""
    shape = x.shape
    if not 2 <= len(shape) <= 5:
        raise ValueError(f"batch_norm: input must have 2 to 5 axes (N, C, S...), got shape {shape}")
    channel_axis = _normalize_axis(channel_axis, shape)
    _check_number("eps", eps, "finite and not negative", lambda value: 0 <= value < math.inf)
    _check_number("momentum", momentum, "a finite number", math.isfinite)
    if training and x.size == shape[channel_axis] > 0:
        raise ValueError(
            "batch_norm: training needs more than one value per channel, got input of shape "
            f"{shape}"
        )
    return channel_axis


def _normalize_axis(axis: Any, shape: tuple[int, ...]) -> int:
    try:
        index = operator.index(axis)
    except TypeError:
        message = f"batch_norm: channel_axis must be an integer, got {axis!r}"
        raise TypeError(message) from None
    if not -len(shape) <= index < len(shape):
        raise AxisError(
            f"batch_norm: channel_axis {index} is out of bounds for input of shape {shape}"
        )
    return index % len(shape)


def _check_number(name: str, value: Any, rule: str, holds: Callable[[Any], bool]) -> None:
    number = isinstance(value, (int, float, np.integer, np.floating))
    try:
        valid = number and holds(float(value))
    except OverflowError:  # an int beyond all floats
        valid = False
    if not valid:
        error = ValueError if number or value is None else TypeError
        raise error(f"batch_norm: {name} must be {rule}, got {value!r}")


def _check_vector(name: str, v: Any, x: Any, channel_axis: int) -> None:
    if namespace(v) is not namespace(x):
        devices = ["cpu" if namespace(a) is np else "gpu" for a in (x, v)]
        raise TypeError(
            f"batch_norm: {name} must be on the device of input, {devices[0]}, got {devices[1]}"
        )
    if v.shape != (x.shape[channel_axis],):
        raise ValueError(
            f"batch_norm: {name} must have shape {(x.shape[channel_axis],)} to match axis "
            f"{channel_axis} of input, got {v.shape}"
        )


def check_running(x: Any, mean: Any, var: Any, training: bool, channel_axis: int) -> None:
    """Check the running statistics, which training writes to."""
    if (mean is None) is not (var is None) or (mean is None and not training):
        rule = "both be given or neither" if training else "be given in evaluation"
        missing = "running_mean" if mean is None else "running_var"
        raise ValueError(
            f"batch_norm: running_mean and running_var must {rule}, got {missing}=None"
        )
    for name, v in (("running_mean", mean), ("running_var", var)):
        if v is None:
            continue
        _check_vector(name, v, x, channel_axis)
        if not _is_real_float(v.dtype):
            raise TypeError(
                f"batch_norm: {name} must have a floating dtype, got {dtype_name(v.dtype)}"
            )
        if training and isinstance(v, np.ndarray) and not v.flags.writeable:
            raise ValueError(f"batch_norm: {name} must be writable, got a read-only array")
    if training and mean is not None:
        _check_apart(mean, var)


def _check_apart(mean: Any, var: Any) -> None:
    """Check that no element is written twice."""
    shared = mean is var
    if isinstance(mean, np.ndarray):
        shared = np.shares_memory(mean, var)
        for name, v in (("running_mean", mean), ("running_var", var)):
            if v.size > 1 and abs(v.strides[0]) < v.itemsize:
                raise ValueError(
                    f"batch_norm: {name} must have an element per channel, got strides {v.strides}"
                )
    if shared:
        raise ValueError(
            "batch_norm: running_mean and running_var must be two arrays, got overlapping memory"
        )


def _is_real_float(dtype: Any) -> bool:
    return is_floating(dtype) and dtype != np.longdouble


def floating(x: Any, weight: Any, bias: Any, channel_axis: int) -> list[Any]:
    """Check input, weight and bias; integers and booleans become floating, as the schema says."""
    result = []
    for name, v in (("input", x), ("weight", weight), ("bias", bias)):
        if v is not None and name != "input":
            _check_vector(name, v, x, channel_axis)
        if v is not None and not _is_real_float(v.dtype):
            if getattr(v.dtype, "kind", dtype_name(v.dtype)[0]) not in "iub":
                kind = dtype_name(v.dtype)
                raise TypeError(
                    f"batch_norm: {name} must have a real dtype up to float64, got {kind}"
                )
            xp = namespace(v)
            v = v.astype(xp.float64 if xp is np and name != "input" else xp.float32)
        result.append(v)
    return result
