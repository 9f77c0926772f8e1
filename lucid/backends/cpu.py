"""The CPU backend: NumPy memory and the kernels, and NumPy itself for what no kernel takes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .._kernels.batch_norm import (
    backward as batch_norm_backward,
    double_backward as batch_norm_double_backward,
    forward as batch_norm_forward,
    inference as batch_norm_inference,
)
from .._kernels.provider import takes
from .._kernels.reduce import reduce

__all__ = [
    "NUMPY",
    "batch_norm_backward",
    "batch_norm_double_backward",
    "batch_norm_forward",
    "batch_norm_inference",
    "mean_var",
    "name",
    "reduce_mean",
    "settle",
    "statistic",
    "std",
]

name = "cpu"

# Bound once: lucid's functions may be put in their place.
NUMPY: dict[str, Callable[..., Any]] = {"mean": np.mean, "var": np.var, "std": np.std}
# Called by position, which NumPy's stubs do not know.
_maximum: Any = np.maximum.reduce
_minimum: Any = np.minimum.reduce
_OVERFLOWING = np.full(2, np.finfo(np.float32).max)  # its sum warns


def reduce_mean(x: Any, axes: tuple[int, ...], keepdims: bool) -> Any:
    """Mean of `x` over `axes`."""
    result = statistic("mean", x, axes, None, keepdims) if takes(x.dtype) else None
    return NUMPY["mean"](x, axes, keepdims=keepdims) if result is None else result


def std(x: Any, axes: tuple[int, ...], correction: float, keepdims: bool) -> Any:
    """Standard deviation of `x` over `axes`."""
    result = statistic("std", x, axes, None, keepdims, correction) if takes(x.dtype) else None
    if result is None:
        return NUMPY["std"](x, axes, ddof=correction, keepdims=keepdims)
    return result


def mean_var(x: Any, axes: tuple[int, ...], correction: float, keepdims: bool) -> tuple[Any, Any]:
    """Mean and variance of `x` over `axes`, in one pass."""
    if takes(x.dtype):
        pair, nonfinite = reduce(x, axes, keepdims, None, True, True, correction)
        if pair is not None:
            if nonfinite:
                mean, var = pair
                mean = settle("mean", x, axes, None, correction, keepdims, mean)
                return mean, settle("var", x, axes, None, correction, keepdims, var)
            return pair
    var = statistic("var", x, axes, None, keepdims, correction) if takes(x.dtype) else None
    if var is None:
        var = NUMPY["var"](x, axes, ddof=correction, keepdims=keepdims)
    return reduce_mean(x, axes, keepdims), var  # there is a mean without degrees of freedom, too


def statistic(
    name: str,
    x: Any,
    axes: tuple[int, ...],
    dtype: np.dtype[Any] | None,
    keepdims: bool,
    ddof: Any = 0,
) -> Any:
    """Mean, var or std of an array that the kernels take, with NumPy's warnings.

    None if there are no elements.
    """
    mean = name == "mean"
    result, nonfinite = reduce(x, axes, keepdims, dtype, mean, not mean, ddof, name == "std")
    if result is None and not mean:
        spread, _ = reduce(x, axes, keepdims, dtype, False, True)
        if spread is not None:
            # No degrees of freedom: what NumPy makes of two values, and says, that are one or not.
            apart = np.where(np.isnan(spread), np.nan, spread != 0)
            value = NUMPY[name](np.stack([np.zeros_like(apart), apart]), axis=0, ddof=2)
            return value.astype(spread.dtype)
    return settle(name, x, axes, dtype, ddof, keepdims, result) if nonfinite else result


def settle(name: str, x: Any, axis: Any, dtype: Any, ddof: Any, keepdims: bool, result: Any) -> Any:
    """Warn of a result with infinities or NaN in it as NumPy does, and return it.

    NaN in, NaN out is no news. Finite values that leave a type narrower than their own give an
    infinity; those that overflow in NumPy too are left to it.
    """
    if np.isfinite(result).all():  # the other one of a pair is not
        return result
    finite = np.ones(np.shape(result), bool)
    if x.dtype.kind not in "biu":
        with np.errstate(invalid="ignore"):  # from comparisons with NaN, of bfloat16
            top = _maximum(x, axis, keepdims=keepdims)
            low = _minimum(x, axis, keepdims=keepdims)
            infinite = np.isinf(top) | np.isinf(low)
            finite = np.isfinite(top) & np.isfinite(low)
        if infinite.any():
            ends = np.stack([np.asarray(top)[infinite], np.asarray(low)[infinite]])
            NUMPY[name](np.where(np.isinf(ends), ends, ends.dtype.type(0)), axis=0)
    overflowed = finite & ~np.isfinite(result)
    if not overflowed.any():
        return result
    own = x.dtype.itemsize if x.dtype.kind not in "biu" else 8
    if result.dtype.itemsize < own and not np.isnan(result[overflowed]).any():
        np.add.reduce(_OVERFLOWING)
        return result
    options = {} if name == "mean" else {"ddof": ddof}
    numpys = NUMPY[name](x, axis, dtype, keepdims=keepdims, **options)
    return np.where(overflowed, numpys, result)[()]
