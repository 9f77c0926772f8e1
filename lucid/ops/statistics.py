"""NumPy's arguments of mean and variance: what the common case of `mean_front` leaves over.

What no kernel takes goes to NumPy itself, in order that the answer, or the error, is NumPy's.
"""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from .._kernels.provider import takes
from .._kernels.reduce import reduce
from .._tensor import Tensor, as_tensor, is_mlx, refuse_tensors
from ..autograd.schema import cast_inputs
from ..backends import cpu
from ..backends.cpu import NUMPY, statistic
from .mean import Mean, MeanVar, Std, check_axes, check_degrees, differentiable
from .reductions import is_half_type, kept, refuse

# ---- arrays ------------------------------------------------------------------------------------


def kernel_array(operation: str, x: Any) -> np.ndarray | None:
    """Return `x` as an ndarray that the kernels take, or None."""
    if isinstance(x, np.ndarray):
        if type(x) not in (np.ndarray, np.memmap):
            return None
        x = x.view(np.ndarray)
    elif type(x) in (list, tuple, int, float, bool) or isinstance(x, np.generic):
        refuse_tensors(x, operation)
        x = np.asarray(x)
    elif hasattr(x, "mean") or hasattr(x, "__array_function__"):
        return None  # it has an answer of its own
    else:
        x = np.asarray(x)
    return x if takes(x.dtype) else None


def _axes(axis: Any, ndim: int) -> tuple[int, ...] | None:
    """Return `axis` as sorted non-negative numbers; None where NumPy would complain."""
    if axis is None:
        return tuple(range(ndim))
    items = axis if type(axis) is tuple else (axis,)
    if any(isinstance(a, (bool, np.bool_)) for a in items):
        return None
    try:
        axes = {operator.index(a) for a in items}
    except TypeError:
        return None
    axes = {a + ndim if a < 0 else a for a in axes}
    if len(axes) < len(items) or not all(0 <= a < ndim for a in axes):
        return None
    return tuple(sorted(axes))


def _result_dtype(x: np.ndarray, dtype: Any, out: Any) -> np.dtype | None:
    """Return the dtype to compute, None if it isn't one of the kernels' floating types."""
    if dtype is not None:
        dtype = np.dtype(dtype)
        if not dtype.isnative:
            return None
    elif out is not None:
        dtype = out.dtype
    else:
        dtype = x.dtype
        if dtype.kind in "biu":
            return np.dtype(np.float64)
    return dtype.newbyteorder("=") if takes(dtype) and dtype.kind not in "biu" else None


def _takes_out(out: Any, shape: tuple[Any, ...], dtype: np.dtype) -> bool:
    return (
        type(out) in (np.ndarray, np.memmap)
        and out.shape == shape
        and out.flags.writeable
        and np.can_cast(dtype, out.dtype, "same_kind")
    )


def _array_statistic(name, x, axis, dtype, out, keepdims, ddof=0):
    """Return mean, var or std by the kernels; None where NumPy has to answer."""
    x = kernel_array(name, x)
    if x is None or not (out is None or isinstance(out, np.ndarray)):
        return None
    axes, dtype = _axes(axis, x.ndim), _result_dtype(x, dtype, out)
    if axes is None or dtype is None or not isinstance(ddof, (int, float, np.number)):
        return None
    if out is not None:
        shape = tuple(
            1 if i in axes else n for i, n in enumerate(x.shape) if keepdims or i not in axes
        )
        if not _takes_out(out, shape, dtype):
            return None
    result = statistic(name, x, axes, dtype, keepdims, ddof)
    if result is None or out is None:
        return result
    np.copyto(out, result, casting="same_kind")
    return out


def _spread_about(name, x, axis, dtype, out, ddof, keepdims, center):
    """Return var or std about a given mean: M2 about the true mean, and the shift of it."""
    array = kernel_array(name, x)
    if array is None or out is not None or type(center) is not np.ndarray:
        return None
    axes = _axes(axis, array.ndim)
    if axes is None or center.shape != kept(array.shape, axes) or not takes(center.dtype):
        return None
    if not isinstance(ddof, (int, float, np.number)):
        return None
    dtype = _result_dtype(array, dtype, None) if dtype else _promoted(array, center)
    if dtype is None:
        return None
    count = math.prod(array.shape[a] for a in axes)
    pair, nonfinite = reduce(array, axes, True, np.dtype(np.float64), True, True, ddof)
    if pair is None or nonfinite:
        return None
    true_mean, variance = pair
    true_mean -= center
    true_mean *= true_mean
    true_mean *= count / (count - ddof)
    variance += true_mean
    if name == "std":
        np.sqrt(variance, out=variance)
    variance = variance.astype(dtype)
    return variance if keepdims else np.squeeze(variance, axes)[()]


def _promoted(x: np.ndarray, center: np.ndarray) -> np.dtype | None:
    dtype = np.result_type(x.dtype, center.dtype)
    return np.dtype(np.float64) if dtype.kind in "biu" else _result_dtype(x, dtype, None)


# ---- the functions ----------------------------------------------------------------------------


def mean(x, axis=None, dtype=None, out=None, keepdims=False, *, where=True):
    x, keepdims, where = _checked("mean", x, keepdims, where, Mean)
    if _has_rule("mean", x, out=out, where=where):
        return differentiable("mean", x, axis, dtype, keepdims, Mean)
    if where is True and type(keepdims) is bool:
        result = _array_statistic("mean", x, axis, dtype, out, keepdims)
        if result is not None:
            return result
    options = {"axis": axis, "dtype": dtype, "out": out, "keepdims": keepdims, "where": where}
    return _by_numpy("mean", x, options)


def _spread(name, x, axis, dtype, out, ddof, keepdims, where, mean, correction):
    rule = MeanVar if name == "var" else Std
    x, keepdims, where = _checked(name, x, keepdims, where, rule)
    mean = None if mean is np._NoValue else mean
    correction = None if correction is np._NoValue else correction
    if correction is not None and ddof == 0:
        ddof, correction = correction, None
    if _has_rule(name, x, out=out, where=where, mean=mean):
        if correction is not None:
            raise ValueError(
                f"{name}: ddof and correction can't both be given, got {ddof}, {correction}"
            )
        return differentiable(
            name, x, axis, dtype, keepdims, rule, check_degrees(name, "ddof", ddof)
        )
    if where is True and correction is None and type(keepdims) is bool:
        if mean is None:
            result = _array_statistic(name, x, axis, dtype, out, keepdims, ddof)
        else:
            result = _spread_about(name, x, axis, dtype, out, ddof, keepdims, mean)
        if result is not None:
            return result
    options = {"axis": axis, "dtype": dtype, "out": out, "ddof": ddof, "keepdims": keepdims}
    options |= {"where": where, "mean": mean, "correction": correction}
    return _by_numpy(name, x, options)


def _by_numpy(name: str, x: Any, options: dict[Any, Any]) -> Any:
    options = _passed_on(options)
    out = options.get("out")
    half = isinstance(x, np.ndarray) and is_half_type(x.dtype) and "dtype" not in options
    if not half or (out is not None and getattr(out, "dtype", None) != x.dtype):
        return NUMPY[name](x, **options)
    # NumPy adds bfloat16 up in bfloat16, and rounds the mean of float16 before it is subtracted.
    result = NUMPY[name](x, **{**options, "dtype": np.float32, "out": None})
    if out is None:
        return result.astype(x.dtype)
    np.copyto(out, result, casting="unsafe")
    return out


def var(
    x, axis=None, dtype=None, out=None, ddof=0, keepdims=False, *, where=True, mean=None,
    correction=None,
):  # fmt: skip
    return _spread("var", x, axis, dtype, out, ddof, keepdims, where, mean, correction)


def std(
    x, axis=None, dtype=None, out=None, ddof=0, keepdims=False, *, where=True, mean=None,
    correction=None,
):  # fmt: skip
    return _spread("std", x, axis, dtype, out, ddof, keepdims, where, mean, correction)


def mean_var(x, axis=None, *, correction=0, keepdims=False):
    x, keepdims, _ = _checked("mean_var", x, keepdims, True, MeanVar)
    correction = check_degrees("mean_var", "correction", correction)
    if _has_rule("mean_var", x):
        t = as_tensor(x)
        pair = MeanVar.apply(t, check_axes("mean_var", axis, t.ndim), correction, bool(keepdims))
        return pair if isinstance(x, Tensor) else tuple([y.data for y in pair])
    array = kernel_array("mean_var", x)
    if array is not None and type(keepdims) is bool:
        axes = _axes(axis, array.ndim)
        if axes is not None:
            return cpu.mean_var(array, axes, correction, keepdims)
    options = {"axis": axis, "keepdims": keepdims}
    return (
        NUMPY["mean"](x, **_passed_on(options)),
        NUMPY["var"](x, **_passed_on(options | {"ddof": correction})),
    )


def _checked(name, x, keepdims, where, rule):
    """Resolve NumPy's marker of arguments not given, and cast as autocast says."""
    keepdims = False if keepdims is np._NoValue else keepdims
    if type(keepdims) is int:
        keepdims = bool(keepdims)
    (x,) = cast_inputs(rule.schema_v1, x)
    return x, keepdims, True if where is np._NoValue else where


def _has_rule(name: str, x: Any, **arguments: Any) -> bool:
    """Whether `x` is a Tensor or an MLX array, neither of which is for NumPy.

    With either, in `x` or in an argument, arguments that have no gradient are refused.
    """
    traced = _is_traced(x)
    if traced or any(isinstance(a, Tensor) for a in arguments.values()):
        arguments["where"] = None if arguments.get("where") is True else arguments.get("where")
        refuse(name, **arguments)
    return traced


def _is_traced(x: Any) -> bool:
    """Whether `x` is a Tensor or an MLX array: neither is for NumPy."""
    return isinstance(x, Tensor) or is_mlx(x)


def _passed_on(options: dict[Any, Any]) -> dict[Any, Any]:
    """Return the options that differ from NumPy's defaults: other kinds may not know them."""
    defaults = {"ddof": 0, "keepdims": False, "where": True}
    return {k: v for k, v in options.items() if v is not defaults.get(k)}
