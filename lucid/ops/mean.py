"""Mean and variance: what the kernels' common case leaves over, and the gradients.

The public functions are those of `lucid._kernels.mean`, which call the functions here for
everything but plain arguments. What no kernel takes goes to NumPy itself, in order that the answer,
or the error, is NumPy's.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from .._kernels import _vec
from .._kernels.mean import bind, mean, mean_var, reduce, std, var
from .._tensor import Tensor, as_tensor, dtype_name, is_mlx, refuse_tensors
from ..autograd import AmpPolicy, Function, OpSchema
from ..autograd.schema import cast_inputs
from ..backends import backend_of
from .reductions import BroadcastTo, axes_of, kept, refuse

__all__ = ["Mean", "MeanVar", "Std", "mean", "mean_var", "std", "var"]

# Bound once: lucid's functions may be put in their place.
_NUMPY: dict[str, Callable[..., Any]] = {"mean": np.mean, "var": np.var, "std": np.std}


class Mean(Function):
    """Mean over any axes; the graph keeps the shape and nothing of the input."""

    schema_v1 = OpSchema("mean", version=1, amp_policy=AmpPolicy.PROMOTE, produces_grad=True)
    saves_input = False

    @staticmethod
    def forward(ctx, x, axes, keepdims):
        """Reduce `x` over the non-negative `axes`."""
        ctx.axes = axes
        return backend_of(x).reduce_mean(x, axes, keepdims)

    @staticmethod
    def backward(ctx, g):
        """Scale the small array, then broadcast it without copying."""
        shape = ctx.edges[0].shape
        count = math.prod(shape[a] for a in ctx.axes)
        scaled = (_wide(g) / count).astype(g.dtype) if count else g
        return _broadcast(scaled, shape, ctx.axes), None, None


class MeanVar(Function):
    """Mean and variance over any axes, in one pass."""

    schema_v1 = OpSchema("mean_var", version=1, amp_policy=AmpPolicy.FORCE_FP32)
    materialize_grads = False

    @staticmethod
    def forward(ctx, x, axes, correction, keepdims):
        """Reduce `x` over the non-negative `axes`."""
        ctx.axes, ctx.correction = axes, correction
        ctx.save_for_backward(x)
        return backend_of(x).mean_var(x, axes, correction, keepdims)

    @staticmethod
    def backward(ctx, g_mean, g_var):
        """``g_mean / N + 2 g_var (x - mean) / (N - correction)``."""
        (x,) = ctx.saved_tensors
        axes, shape = ctx.axes, x.shape
        count = math.prod(shape[a] for a in axes)
        dx = None
        if g_mean is not None:
            dx = _broadcast(_wide(g_mean) / max(count, 1), shape, axes)
        if g_var is not None:
            degrees = count - ctx.correction
            scale = _wide(g_var) * (2.0 / degrees if degrees > 0 else math.nan)
            of_var = _broadcast(scale, shape, axes) * _deviation(x, axes)
            dx = of_var if dx is None else dx + of_var
        return dx if dx is None else dx.astype(x.dtype), None, None, None


class Std(Function):
    """Standard deviation over any axes; its gradient is 0 where it is 0, as PyTorch's."""

    schema_v1 = OpSchema("std", version=1, amp_policy=AmpPolicy.FORCE_FP32)

    @staticmethod
    def forward(ctx, x, axes, correction, keepdims):
        """Reduce `x` over the non-negative `axes`."""
        result = backend_of(x).std(x, axes, correction, keepdims)
        result = np.asarray(result) if isinstance(result, np.generic) else result
        ctx.axes, ctx.correction = axes, correction
        ctx.save_for_backward(x, result)
        return result

    @staticmethod
    def backward(ctx, g):
        """``g (x - mean) / ((N - correction) std)``."""
        x, spread = ctx.saved_tensors
        axes, shape = ctx.axes, x.shape
        degrees = math.prod(shape[a] for a in axes) - ctx.correction
        zero = spread.data == 0
        scale: Any = _wide(g) / (np.where(zero, 1.0, _wide(spread)) * degrees)
        scale = np.where(zero, 0.0, scale)
        scale = _broadcast(scale, shape, axes)
        return (scale * _deviation(x, axes)).astype(x.dtype), None, None, None


def _deviation(x: Tensor, axes: tuple[Any, ...]) -> Tensor:
    """``x - mean``, centred once more: the mean is rounded to the spacing of `x`."""
    d = _wide(x)
    for _ in range(2):
        d = d - mean(d, axes, keepdims=True)
    return d


def _wide(x: Tensor) -> Tensor:
    """Raise half types, whose range no count and no square may leave, to float32."""
    return x.astype("float32") if _bytes(x.dtype) == 2 else x


def _broadcast(g: Tensor, shape: tuple[Any, ...], axes: tuple[Any, ...]) -> Tensor:
    return BroadcastTo.apply(g.reshape(kept(shape, axes)), shape)


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
    return x if _vec.takes(x.dtype) else None


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
    return dtype.newbyteorder("=") if _vec.takes(dtype) and dtype.kind not in "biu" else None


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
    result, nonfinite = reduce(
        x, axes, keepdims, dtype, name == "mean", name != "mean", ddof, name == "std"
    )
    if result is None:
        return None
    if nonfinite:
        result = _nonfinite(name, x, axis, dtype, ddof, keepdims, result)
    if out is None:
        return result
    np.copyto(out, result, casting="same_kind")
    return out


def _nonfinite(name, x, axis, dtype, ddof, keepdims, result):
    """Warn as NumPy does of infinities, and leave overflow of finite values to it.

    NaN in, NaN out is no news.
    """
    if x.dtype.kind not in "biu":
        with np.errstate(invalid="ignore"):  # from comparisons with NaN, of bfloat16
            top = np.maximum.reduce(x, axis, keepdims=keepdims)
            low = np.minimum.reduce(x, axis, keepdims=keepdims)
            infinite = np.isinf(top) | np.isinf(low)
        if infinite.any():
            i = np.unravel_index(np.argmax(infinite), np.shape(top))
            _NUMPY[name](np.array([np.asarray(top)[i], np.asarray(low)[i]]))
        finite = np.isfinite(top) & np.isfinite(low)
    else:
        finite = np.ones(np.shape(result), bool)
    overflowed = finite & ~np.isfinite(result)
    if overflowed.any():
        options = {} if name == "mean" else {"ddof": ddof}
        numpys = _NUMPY[name](x, axis, dtype, keepdims=keepdims, **options)
        result = np.where(overflowed, numpys, result)[()]
    return result


def _about(name, x, axis, dtype, out, ddof, keepdims, center):
    """Return var or std about a given mean: M2 about the true mean, and the shift of it."""
    array = kernel_array(name, x)
    if array is None or out is not None or type(center) is not np.ndarray:
        return None
    axes = _axes(axis, array.ndim)
    if axes is None or center.shape != kept(array.shape, axes) or not _vec.takes(center.dtype):
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


# ---- the functions that the kernels' common case calls -------------------------------------------


def _general_mean(x, axis=None, dtype=None, out=None, keepdims=False, *, where=True):
    x, keepdims, where = _checked("mean", x, keepdims, where, Mean)
    if _has_rule("mean", x, out=out, where=where):
        return _differentiable("mean", x, axis, dtype, keepdims, Mean)
    if where is True and type(keepdims) is bool:
        result = _array_statistic("mean", x, axis, dtype, out, keepdims)
        if result is not None:
            return result
    options = {"axis": axis, "dtype": dtype, "out": out, "keepdims": keepdims, "where": where}
    return _NUMPY["mean"](x, **_given(options))


def _general_spread(name, x, axis, dtype, out, ddof, keepdims, where, mean, correction):
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
        return _differentiable(name, x, axis, dtype, keepdims, rule, _degrees(name, "ddof", ddof))
    if where is True and correction is None and type(keepdims) is bool:
        if mean is None:
            result = _array_statistic(name, x, axis, dtype, out, keepdims, ddof)
        else:
            result = _about(name, x, axis, dtype, out, ddof, keepdims, mean)
        if result is not None:
            return result
    options = {"axis": axis, "dtype": dtype, "out": out, "ddof": ddof, "keepdims": keepdims}
    options |= {"where": where, "mean": mean, "correction": correction}
    return _NUMPY[name](x, **_given(options))


def _general_var(
    x, axis=None, dtype=None, out=None, ddof=0, keepdims=False, *, where=True, mean=None,
    correction=None,
):  # fmt: skip
    return _general_spread("var", x, axis, dtype, out, ddof, keepdims, where, mean, correction)


def _general_std(
    x, axis=None, dtype=None, out=None, ddof=0, keepdims=False, *, where=True, mean=None,
    correction=None,
):  # fmt: skip
    return _general_spread("std", x, axis, dtype, out, ddof, keepdims, where, mean, correction)


def _general_mean_var(x, axis=None, *, correction=0, keepdims=False):
    x, keepdims, _ = _checked("mean_var", x, keepdims, True, MeanVar)
    correction = _degrees("mean_var", "correction", correction)
    if _has_rule("mean_var", x):
        t = as_tensor(x)
        pair = MeanVar.apply(t, _rule_axes("mean_var", axis, t.ndim), correction, bool(keepdims))
        return pair if isinstance(x, Tensor) else tuple([y.data for y in pair])
    array = kernel_array("mean_var", x)
    if array is not None and type(keepdims) is bool:
        axes, dtype = _axes(axis, array.ndim), _result_dtype(array, None, None)
        if axes is not None and dtype is not None:
            pair, nonfinite = reduce(array, axes, keepdims, dtype, True, True, correction)
            if nonfinite and pair is not None:
                pair = _nonfinite_pair(array, axis, correction, keepdims, pair)
            if pair is not None:
                return pair
    options = {"axis": axis, "keepdims": keepdims}
    return (
        _NUMPY["mean"](x, **_given(options)),
        _NUMPY["var"](x, **_given(options | {"ddof": correction})),
    )


def _nonfinite_pair(x, axis, ddof, keepdims, pair):
    dtype = pair[0].dtype
    return tuple(
        [
            _nonfinite(name, x, axis, dtype, ddof, keepdims, y) if not np.isfinite(y).all() else y
            for name, y in zip(("mean", "var"), pair, strict=True)
        ]
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


def _degrees(name: str, argument: str, value: Any) -> Any:
    if not isinstance(value, (int, float, np.number)):
        raise TypeError(f"{name}: {argument} must be a number, got {value!r}")
    return value


def _rule_axes(name: str, axis: Any, ndim: int) -> tuple[int, ...]:
    items = axis if type(axis) is tuple else (() if axis is None else (axis,))
    if not all(hasattr(a, "__index__") for a in items):
        raise TypeError(f"{name}: axis must be None, an int or a tuple of ints, got {axis!r}")
    return axes_of(axis, ndim)


def _differentiable(name, x, axis, dtype, keepdims, rule, *ddof):
    """Reduce by a rule; a wider `dtype` is cast to before, others after."""
    if type(keepdims) is not bool:
        raise TypeError(f"{name}: keepdims must be a bool, got {keepdims!r}")
    t = as_tensor(x)
    if dtype is not None and _bytes(dtype) > _bytes(t.dtype):
        t = t.astype(dtype)
    result = rule.apply(t, _rule_axes(name, axis, t.ndim), *ddof, keepdims)
    if rule is MeanVar:
        result = result[1]
    if dtype is not None:
        result = result.astype(dtype)
    return result if isinstance(x, Tensor) else result.data


def _bytes(dtype: Any) -> int:
    name = np.dtype(dtype).name if isinstance(dtype, (str, type)) else dtype_name(dtype)
    return {"float16": 2, "bfloat16": 2, "float32": 4}.get(name, 8)


def _given(options: dict[Any, Any]) -> dict[Any, Any]:
    """Return the options that differ from NumPy's defaults: other kinds may not know them."""
    defaults = {"ddof": 0, "keepdims": False, "where": True}
    return {k: v for k, v in options.items() if v is not defaults.get(k)}


bind(_general_mean, _general_var, _general_std, _general_mean_var, _nonfinite)
