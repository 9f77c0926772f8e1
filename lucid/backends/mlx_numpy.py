"""NumPy's functions over MLX arrays: `mlx.core`, but for what has another name or form there.

`lucid.backends.namespace` gives this module for MLX arrays and `numpy` for NumPy's, so that a rule
is written once. Names that are not defined here are those of `mlx.core`.
"""

from __future__ import annotations

import builtins
import math
from typing import Any

import mlx.core as mx
import numpy as np

_NAMES = {"absolute": "abs", "rint": "round"}


def __getattr__(name: str) -> Any:
    function = globals()[name] = getattr(mx, _NAMES.get(name, name))
    return function


def on_gpu() -> bool:
    """Whether MLX computes on a GPU here; on its CPU device it serves as stand-in."""
    return mx.default_device().type == mx.gpu


# ---------------------------------------------------------------------------- types and places


def dtype_of(dtype: Any) -> mx.Dtype:
    """Return MLX's dtype for one of NumPy's, or a name."""
    if not isinstance(dtype, mx.Dtype):
        name = "bfloat16" if dtype == "bfloat16" else np.dtype(dtype).name  # NumPy has none
        name = "bool_" if name == "bool" else name
        if not isinstance(getattr(mx, name, None), mx.Dtype):
            raise TypeError(f"gpu: there is no {name} in MLX; cast to float32 first")
        dtype = getattr(mx, name)
    if dtype == mx.float64 and on_gpu():
        raise TypeError("gpu: MLX has no float64 on this device; cast to float32 first")
    return dtype


def astype(x: mx.array, dtype: Any) -> mx.array:
    return x.astype(dtype_of(dtype))


def array(x: Any, dtype: Any = None, order: Any = None) -> mx.array:
    """Copy; `order` is NumPy's, MLX has but one."""
    if isinstance(x, mx.array):  # its memory is never written, so another object will do
        return x[...] if dtype is None else x.astype(dtype)
    return mx.array(x, dtype)


def from_numpy(x: np.ndarray, dtype: Any = None) -> mx.array:
    """Copy an ndarray of any layout, cast to `dtype`."""
    wanted = dtype_of(x.dtype if dtype is None else dtype)
    if wanted == mx.bfloat16:
        if x.dtype.name == "bfloat16":
            return mx.array(np.ascontiguousarray(x).view(np.uint16)).view(wanted).reshape(x.shape)
        return mx.array(_native(x, np.float32)).astype(wanted)
    return mx.array(_native(x, wanted_by_numpy(wanted)), wanted)


def wanted_by_numpy(dtype: mx.Dtype) -> np.dtype:
    return np.dtype(str(dtype).rpartition(".")[2].rstrip("_"))


def _native(x, dtype):
    # MLX takes neither negative strides nor foreign byte order.
    return np.asarray(x, dtype, order="C")


# ---------------------------------------------------------------------------- elementwise


def invert(x):
    return mx.bitwise_invert(x)


def exp(x):
    # MLX's float64 exp, sin and cos have float32's digits.
    return mx.power(math.e, x) if x.dtype == mx.float64 else mx.exp(x)


def sin(x):
    if x.dtype != mx.float64:
        return mx.sin(x)
    t = mx.tan(x / 2)
    return 2 * t / (1 + t * t)


def cos(x):
    if x.dtype != mx.float64:
        return mx.cos(x)
    t = mx.tan(x / 2)
    return 2 / (1 + t * t) - 1


def exp2(x):
    return mx.power(2.0, x)


def hypot(x, y):
    x, y = abs(x), abs(y)
    longer, shorter = mx.maximum(x, y), mx.minimum(x, y)
    ratio = shorter / mx.where(longer == 0, 1, longer)
    return mx.where(longer == mx.inf, longer, longer * mx.sqrt(1 + ratio * ratio))


def logaddexp(x, y):
    return _logaddexp(x, y, exp, mx.log1p)


def logaddexp2(x, y):
    return _logaddexp(x, y, exp2, lambda e: mx.log1p(e) / mx.log(mx.array(2, e.dtype)))


def _logaddexp(x, y, exp, log1p):
    distance = mx.where(x == y, 0, abs(x - y))  # equal infinities
    return mx.maximum(x, y) + log1p(exp(-distance))


def nan_to_num(x, nan=0.0, posinf=None, neginf=None):
    if mx.issubdtype(x.dtype, mx.inexact):
        limits = mx.finfo(x.dtype)
        x = mx.where(x == mx.inf, limits.max if posinf is None else posinf, x)
        x = mx.where(x == -mx.inf, limits.min if neginf is None else neginf, x)
        x = mx.where(x != x, nan, x)
    return x


def clip(x, low, high):
    x = x if low is None else mx.maximum(x, low)
    return x if high is None else mx.minimum(x, high)


def round(x, decimals=0):
    if decimals == 0:
        return mx.round(x)
    scale = 10.0**decimals  # in MLX it has float32's digits
    return mx.round(x * scale) / scale


def pad(x, widths, constant_values=0):
    if np.ndim(constant_values):
        raise TypeError("pad: constant_values must be one number on the gpu")
    return mx.pad(x, [tuple(w) for w in widths], constant_values=constant_values)


def einsum(subscripts, *operands, optimize=False):
    return mx.einsum(subscripts, *operands)  # which chooses the order itself


def expand_dims(x, axis):
    axes = axis if isinstance(axis, (tuple, list)) else (axis,)
    return mx.expand_dims(x, _axes(axes, x.ndim + len(axes)))


def squeeze(x, axis):
    return mx.squeeze(x, _axes(axis, x.ndim))


def concatenate(arrays, axis=0):
    if arrays[0].ndim == 0:
        raise ValueError("concatenate: zero-dimensional arrays can't be joined; use np.stack")
    return mx.concatenate(arrays, np.lib.array_utils.normalize_axis_index(axis, arrays[0].ndim))


# ---------------------------------------------------------------------------- constants


def signbit(x):
    return (x < 0) | ((x == 0) & (1 / x < 0))


def isrealobj(x):
    return x.dtype != mx.complex64


def iscomplexobj(x):
    return x.dtype == mx.complex64


def result_type(*arrays_and_dtypes):
    return mx.result_type(
        *[a if isinstance(a, mx.array) else dtype_of(a) for a in arrays_and_dtypes]
    )


def searchsorted(a, v, side="left"):
    a, v = (x if isinstance(x, mx.array) else mx.array(np.asarray(x)) for x in (a, v))
    return mx.searchsorted(a, v, side=side)


def array_equiv(a, b):
    try:
        return mx.all(a == b)
    except ValueError:
        return mx.array(False)


# These wait, as reading does.


def argwhere(x):
    return mx.array(np.argwhere(np.array(x)))


def flatnonzero(x):
    return mx.array(np.flatnonzero(np.array(x)))


def array_repr(x, *args, **kwargs):
    return np.array_repr(np.array(x), *args, **kwargs)


def array_str(x, *args, **kwargs):
    return np.array_str(np.array(x), *args, **kwargs)


def array2string(x, *args, **kwargs):
    return np.array2string(np.array(x), *args, **kwargs)


# ---------------------------------------------------------------------------- sums

_TERMS = 32  # of one sum
_SIDE_BY_SIDE = 128  # neighbours added as vectors


def sum(x: mx.array, axis: Any = None, keepdims: bool = False) -> mx.array:
    """Sum in levels of short sums: one long float32 sum, as MLX's own, loses digits.

    Half types are summed in float32 and rounded once.
    """
    axes = _axes(axis, x.ndim)
    if not mx.issubdtype(x.dtype, mx.inexact):
        return _of_longest(mx.sum, 0, x, axes, keepdims)  # exact
    shape = x.shape
    total = x.astype(mx.float32) if x.dtype.size == 2 else x
    for first, last in _fastest_first(runs(axes), shape):
        total = _levels(
            total.reshape(
                math.prod(shape[:first]), math.prod(shape[first:last]), math.prod(shape[last:])
            )
        )
        shape = (*shape[:first], *(1,) * (last - first), *shape[last:])
    if not keepdims:
        shape = tuple([n for i, n in enumerate(shape) if i not in axes])
    return total.reshape(shape).astype(x.dtype)


def _fastest_first(runs, shape):
    """Order runs of axes: rows are added as vectors, of what that leaves the rest is soon made."""

    def has_rows(run):
        return math.prod(shape[slice(*run)]) >= 8 and math.prod(shape[run[1] :]) >= _SIDE_BY_SIDE

    return sorted(runs, key=has_rows, reverse=True)


def _longest(x):
    """Integers as NumPy adds and multiplies them, which overflow later."""
    if mx.issubdtype(x.dtype, mx.inexact):
        return x
    return x.astype(mx.uint64 if mx.issubdtype(x.dtype, mx.unsignedinteger) else mx.int64)


def _of_longest(reduce, neutral, x, axes, keepdims):
    x = _longest(x)
    if x.size:
        return reduce(x, axes, keepdims)
    # MLX does not initialize such a result for 64-bit integers.
    kept = [1 if i in axes else n for i, n in enumerate(x.shape) if keepdims or i not in axes]
    return mx.full(kept, neutral, x.dtype)


def cumprod(x, axis):
    return mx.cumprod(_longest(x), axis)


def prod(x, axis=None, keepdims=False):
    return _of_longest(mx.prod, 1, x, _axes(axis, x.ndim), keepdims)


def cumsum(x, axis):
    (axis,) = _axes(axis, x.ndim)
    if not mx.issubdtype(x.dtype, mx.inexact):
        return mx.cumsum(_longest(x), axis)
    return mx.cumsum(x.astype(mx.float32) if x.dtype.size == 2 else x, axis).astype(x.dtype)


def _levels(x: mx.array) -> mx.array:
    """Sum over the middle one of three axes, which is kept."""
    outer, n, inner = x.shape
    beside = max(1, _SIDE_BY_SIDE // max(inner, 1))
    while n > 2 * _TERMS:
        blocks = -(-n // (_TERMS * beside))
        terms = n // (blocks * beside)
        if terms < 2:  # what is left of it
            beside = max(1, n // _TERMS)
            continue
        used, rows = blocks * terms * beside, blocks * beside
        head = x[:, :used].reshape(outer, blocks, terms, beside * inner)
        head = mx.sum(head, 2).reshape(outer, rows, inner)
        x = head if used == n else mx.concatenate([head, x[:, used:]], 1)
        n = x.shape[1]
    return mx.sum(x, 1, keepdims=True)


def _axes(axis, ndim):
    if axis is None:
        return tuple(range(ndim))
    return tuple(sorted(np.lib.array_utils.normalize_axis_tuple(axis, ndim)))


def runs(axes: tuple[Any, ...]) -> Any:
    """Yield (first, last + 1) of neighbouring ones among `axes`, the last run first."""
    found: list[list[int]] = []
    for a in sorted(axes):
        if found and found[-1][1] == a:
            found[-1][1] = a + 1
        else:
            found.append([a, a + 1])
    return reversed(found)


# ---------------------------------------------------------------------------- indices


def nonzero(x: mx.array) -> tuple[Any, ...]:
    """Return the indices of what is not zero; their number has to be waited for."""
    return tuple([mx.array(i) for i in np.nonzero(np.array(x))])


def getitem(x: mx.array, index: Any) -> mx.array:
    """Index as NumPy does, and check the bounds as far as they are known on the host."""
    shape, index = _index(x.shape, index)
    return x.reshape(shape)[index]


def add_at(shape: tuple[Any, ...], index: Any, x: mx.array) -> mx.array:
    """Return zeros with `x` added at `index`, repeatedly where an index repeats."""
    longer, index = _index(shape, index)
    wide = x.astype(mx.float32) if x.dtype.size == 2 else x
    return mx.zeros(longer, wide.dtype).at[index].add(wide).reshape(shape).astype(x.dtype)


def _index(shape, index):
    """Return the shape to index, and an index that MLX takes.

    Masks become integers, of which one without axes has an axis of length one. NumPy raises its own
    error for what it would not take.
    """
    parts = index if isinstance(index, tuple) else (index,)
    host = tuple([np.zeros(p.shape, int) if isinstance(p, mx.array) else p for p in parts])
    np.broadcast_to(np.False_, shape)[host]
    shape, result, axis = list(shape), [], 0
    for i, p in enumerate(parts):
        if isinstance(p, (bool, np.bool_)):
            p = np.array(p)
        if isinstance(p, np.ndarray):
            if p.dtype == bool and p.ndim == 0:
                shape.insert(axis, 1)
                p = p.reshape(1)
            found = p.nonzero() if p.dtype == bool else (p,)
            result += [mx.array(np.asarray(j, np.int32, order="C")) for j in found]
            axis += len(found)
        else:
            result.append(p)
            axis = _after(p, axis, parts[i + 1 :], len(shape))
    return shape, tuple(result)


def _after(part, axis, rest, ndim):
    """Return the axis that the part after this one is for."""
    if part is Ellipsis:
        return ndim - builtins.sum(_axes_of_index(p) for p in rest)
    return axis + _axes_of_index(part)


def _axes_of_index(part):
    if isinstance(part, np.ndarray) and part.dtype == bool:
        return part.ndim
    return 0 if part is None or isinstance(part, (bool, np.bool_)) else 1
