"""The GPU backend: MLX arrays, on MLX's default device.

MLX's float32 reductions lose digits, so nothing is summed here but in levels of short sums, and
what has an offset is shifted first: x = shift + d, where the shift is the sum in levels over n, or
the first value if that is the same but for rounding. A constant is then shifted by itself, which
leaves nothing. The mean that batch normalization keeps is a pair of numbers, rounded mean and rest.

On a GPU each fused function is compiled, which makes few passes of many elementwise steps. On
MLX's CPU device that takes a C++ compiler seconds for each kind of call, more than thousands of
calls save. Large arrays are taken in blocks along the first axis there: what is made of a block is
used while it is in the cache.
"""

from __future__ import annotations

import functools
import math
import warnings

import mlx.core as mx

from .mlx_numpy import on_gpu, runs, sum as total

__all__ = [
    "batch_norm_backward",
    "batch_norm_double_backward",
    "batch_norm_forward",
    "batch_norm_inference",
    "mean_var",
    "name",
    "reduce_mean",
    "std",
]

name = "gpu"


@functools.cache
def _compiled(function, gpu, *static):
    bound = functools.partial(function, *static)
    return mx.compile(bound) if gpu else bound


def _fused(function, *static):
    """Return `function` with its first arguments, which hold no array, bound to `static`."""
    return _compiled(function, on_gpu(), *static)


def _at_least_float32(x: mx.array) -> mx.array:
    """Return `x` in the type it is computed in."""
    return x if x.dtype == mx.float64 else x.astype(mx.float32)


def _floating(dtype: mx.Dtype) -> mx.Dtype:
    return dtype if mx.issubdtype(dtype, mx.floating) else mx.float32


_BLOCK = 2**19  # elements


def _blocks(x: mx.array) -> list[mx.array]:
    if on_gpu() or x.size < 2 * _BLOCK:
        return [x]
    rows = max(1, _BLOCK * x.shape[0] // x.size)
    return [x[i : i + rows] for i in range(0, x.shape[0], rows)]


def _joined(blocks: list[mx.array]) -> mx.array:
    return blocks[0] if len(blocks) == 1 else mx.concatenate(blocks)


# ---------------------------------------------------------------------------- mean and variance


def reduce_mean(x, axes, keepdims):
    """Mean of `x` over `axes`; integers give float32, which every device has."""
    _warn_if_empty("Mean of empty slice.", _count(x, axes) == 0)
    return _fused(_mean, tuple(axes), keepdims)(x)


def mean_var(x, axes, correction, keepdims):
    """Mean and variance of `x` over `axes`."""
    _warn_if_empty("Degrees of freedom <= 0 for slice.", _count(x, axes) <= correction)
    return _fused(_mean_var, tuple(axes), correction, keepdims)(x)


def std(x, axes, correction, keepdims):
    """Standard deviation of `x` over `axes`."""
    _warn_if_empty("Degrees of freedom <= 0 for slice.", _count(x, axes) <= correction)
    return _fused(_std, tuple(axes), correction, keepdims)(x)


def _count(x, axes):
    return math.prod(x.shape[a] for a in axes)


def _warn_if_empty(message, empty):
    if empty:
        warnings.warn(message, RuntimeWarning, stacklevel=4)


def _mean(axes, keepdims, x):
    dtype, x = _floating(x.dtype), _at_least_float32(x)
    n = _count(x, axes)
    sums, terms, rest = _sums(x, axes)
    # From here on all is a sixteenth of x, and may be read as often as it takes.
    rough = total(sums, axes, True) / _count(sums, axes)
    excess = total(sums - rough, axes, True)
    shift = rough / terms
    if rest is not None:
        excess = excess + total(rest - shift, axes, True)
    return _without(_sound(shift, shift + excess / n), axes, keepdims).astype(dtype)


def _sums(x, axes):
    """Return sums of some terms along the longest run of `axes`, their number, and what is left.

    A power of two is divided by without rounding, and four times a number, added up in any order,
    is exactly that: the mean of a constant is that constant.
    """
    first, last = max(runs(axes), key=lambda run: math.prod(x.shape[slice(*run)]), default=(0, 0))
    before, after = x.shape[:first], x.shape[last:]
    n = math.prod(x.shape[first:last])
    outer, inner, rows = math.prod(before), math.prod(after), n // 16
    if rows < 8 or x.dtype.size > 4:
        return x, 1, None

    def shaped(a):
        return a.reshape(*before, -1, *(1,) * (last - first - 1), *after)

    flat = x.reshape(outer, n, inner)
    used, rest = (flat, None) if n == 16 * rows else (flat[:, : 16 * rows], flat[:, 16 * rows :])
    sums = used.reshape(outer, 4, 4 * rows * inner).sum(1)
    sums = sums.reshape(outer, 4, rows * inner).sum(1)
    return shaped(sums), 16, None if rest is None else shaped(rest)


def _mean_var(axes, correction, keepdims, x):
    if 0 not in axes and len(blocks := _blocks(x)) > 1:
        pairs = [_mean_var(axes, correction, True, block) for block in blocks]
        return tuple([_without(_joined(list(v)), axes, keepdims) for v in zip(*pairs, strict=True)])
    dtype, x = _floating(x.dtype), _at_least_float32(x)
    _, mean, _, variance, _ = _moments(x, axes)
    variance = _corrected(variance, x, axes, correction)
    return tuple([_without(v, axes, keepdims).astype(dtype) for v in (mean, variance)])


def _std(axes, correction, keepdims, x):
    dtype, x = _floating(x.dtype), _at_least_float32(x)
    # Scaled, since the root may be in range where its square is not.
    _, _, _, variance, _, scale = _moments(x, axes, _scale)
    spread = mx.sqrt(_corrected(variance, x, axes, correction)) / scale
    return _without(spread, axes, keepdims).astype(dtype)


def _corrected(variance, x, axes, correction):
    # Over no degrees of freedom NumPy divides by zero.
    n = _count(x, axes)
    return variance * n / mx.array(max(n - correction, 0), x.dtype)


def _without(v, axes, keepdims):
    return v if keepdims else v.squeeze(axes)


def _sound(rough, exact):
    """Keep infinite means, of which `exact` made NaN."""
    return mx.where(mx.isinf(rough), rough, exact)


def _shift(x, axes, rough):
    if x.size == 0:
        return rough
    first = x[tuple([slice(1) if i in axes else slice(None) for i in range(x.ndim)])]
    return mx.where(mx.abs(first - rough) <= mx.abs(rough) * 2**-17, first, rough)


def _scale(x, axes, shift):
    """Return what brings some of ``x - shift`` to one at most: squares may overflow."""
    if x.size == 0:
        return mx.ones_like(shift)
    some = [slice(None, None, -(-x.shape[i] // 8) if i in axes else 1) for i in range(x.ndim)]
    size = mx.max(mx.abs(x[tuple(some)] - shift), axes, keepdims=True)
    return 1 / mx.where(size > 0, mx.clip(size, 2.0**-56, 2.0**110), 1)


def _moments(x, axes, scale_of=None):
    """Return e, mean, rest, variance of e, mean of e, with x = shift + e / scale; e in blocks."""
    n = _count(x, axes)
    rough = total(x, axes, True) / n
    shift = _shift(x, axes, rough)
    scale = scale_of and scale_of(x, axes, shift)
    blocks = _blocks(x) if 0 in axes else [x]

    def centred():
        return [b - shift if scale is None else (b - shift) * scale for b in blocks]

    e = centred()
    offset = _total(e, axes) / n
    variance = mx.maximum(_total([b * b for b in e], axes) / n - offset * offset, 0)
    if len(blocks) > 1:
        e = centred()  # computed again, rather than kept
    excess = offset if scale is None else offset / scale
    mean = shift + excess
    moments = e, _sound(rough, mean), excess - (mean - shift), variance, offset
    return moments if scale is None else (*moments, scale)


def _total(blocks, axes):
    sums = [total(b, axes, True) for b in blocks]
    return sums[0] if len(sums) == 1 else mx.sum(mx.stack(sums), 0)


# ---------------------------------------------------------------------------- batch normalization


def batch_norm_forward(x, weight, bias, running_mean, running_var, momentum, eps, channel_axis):
    """``y, mean, rstd``; the running statistics are set to their new, scheduled values."""
    if x.size == 0:
        running_mean = running_var = None
    momentum, eps = (mx.array(v, _wide_type(x)) for v in (momentum, eps))
    y, mean, rest, rstd, new = _fused(_forward, channel_axis)(
        x, weight, bias, running_mean, running_var, momentum, eps
    )
    if running_mean is not None:
        # Left alone, they would be a graph that grows with every step. What is scheduled here may
        # be used from another thread, what is merely planned may not. In a transformation of MLX
        # this raises, rightly, before anything is written.
        mx.async_eval(y, mean, rest, rstd, new)
        running_mean[...], running_var[...] = new
    return y, (mean, rest), rstd


def batch_norm_inference(x, weight, bias, running_mean, running_var, eps, channel_axis):
    """``y, mean, rstd`` from the running statistics."""
    eps = mx.array(eps, _wide_type(x))
    y, mean, rstd = _fused(_inference, channel_axis)(
        x, weight, bias, running_mean, running_var, eps
    )
    return y, (mean, None), rstd


def batch_norm_backward(dy, x, weight, bias, mean, rstd, training, channel_axis, needs):
    """``dx, dweight, dbias``."""
    return _fused(_backward, channel_axis, training, needs)(dy, x, weight, bias, *mean, rstd)


def batch_norm_double_backward(v, w, u, dy, x, weight, mean, rstd, training, channel_axis, needs):
    """Gradients to ``dy, x, weight``."""
    return _fused(_double_backward, channel_axis, training, needs)(
        v, w, u, dy, x, weight, *mean, rstd
    )


def _wide_type(x):
    return mx.float64 if x.dtype == mx.float64 else mx.float32


class _Channels:
    """The axes of one call: `column` makes a vector broadcast, `row` undoes it."""

    def __init__(self, x, axis):
        self.axes = tuple([i for i in range(x.ndim) if i != axis])
        self.shape = [x.shape[axis] if i == axis else 1 for i in range(x.ndim)]
        self.count = math.prod(x.shape[i] for i in self.axes)
        self.dtype = _wide_type(x)

    def column(self, vector, default=None):
        return default if vector is None else vector.astype(self.dtype).reshape(self.shape)

    def each(self, function, *arrays):
        """Return what gives `function` of each block, if several anew: they are not kept."""
        count = 1 if 0 not in self.axes else len(_blocks(arrays[-1]))
        blocks = [[a] * count if count == 1 or a is None else _blocks(a) for a in arrays]
        if count > 1:
            return lambda: [function(*b) for b in zip(*blocks, strict=True)]
        found = [function(*arrays)]
        return lambda: found

    def wide(self, a):
        return None if a is None else a.astype(self.dtype)

    def sum(self, blocks):
        return _total(blocks, self.axes)

    def normalizer(self, mean, rest, rstd):
        mean, rstd = self.column(mean), self.column(rstd)
        off = None if rest is None else self.column(rest) * rstd
        return lambda x: (x.astype(self.dtype) - mean) * rstd, off


def row(column, dtype=None):
    return column.reshape(-1).astype(dtype or column.dtype)


def _forward(axis, x, weight, bias, running_mean, running_var, momentum, eps):
    c = _Channels(x, axis)
    e, mean, rest, variance, offset, scale = _moments(x.astype(c.dtype), c.axes, _scale)
    slope = 1 / mx.sqrt(variance + eps * (scale * scale))  # of e; that of x is `scale` times it
    rstd = slope * scale
    slope = slope * c.column(weight, 1)
    constant = c.column(bias, 0) - offset * slope
    y = _joined([(b * slope + constant).astype(x.dtype) for b in e])
    mean = row(mean)
    new = None
    if running_mean is not None:
        unbiased = row(variance / scale / scale) * (c.count / (c.count - 1))
        new = tuple(
            [
                (old.astype(c.dtype) * (1 - momentum) + batch * momentum).astype(old.dtype)
                for old, batch in ((running_mean, mean), (running_var, unbiased))
            ]
        )
    return y, mean, row(rest), row(rstd), new


def _inference(axis, x, weight, bias, mean, variance, eps):
    c = _Channels(x, axis)
    mean, rstd = mean.astype(c.dtype), 1 / mx.sqrt(variance.astype(c.dtype) + eps)
    slope = c.column(rstd) * c.column(weight, 1)
    shift, constant = c.column(mean), c.column(bias, 0)
    y = c.each(lambda x: ((c.wide(x) - shift) * slope + constant).astype(x.dtype), x)
    return _joined(y()), mean, rstd


def _backward(axis, training, needs, dy, x, weight, bias, mean, rest, rstd):
    c = _Channels(x, axis)
    normalized, off = c.normalizer(mean, rest, rstd)  # x̂ = normalized(x) - off
    gt = c.each(lambda g, x: (c.wide(g), normalized(x)), dy, x)
    blocks = gt()
    sum_g, sum_gx = c.sum([g for g, _ in blocks]), None
    if needs[1] or training:
        sum_gx = c.sum([g * t for g, t in blocks])
        sum_gx = sum_gx if off is None else sum_gx - off * sum_g
    dx = dweight = dbias = None
    if needs[0]:
        slope = c.column(rstd) * c.column(weight, 1)
        if training and c.count:
            p = slope * sum_gx / c.count
            constant = off * p - slope * sum_g / c.count
            parts = [g * slope - t * p + constant for g, t in gt()]
        else:
            parts = [g * slope for g, _ in gt()]
        dx = _joined([d.astype(x.dtype) for d in parts])
    if needs[1]:
        dweight = row(sum_gx, weight.dtype)
    if needs[2]:
        dbias = row(sum_g, bias.dtype)
    return dx, dweight, dbias


def _double_backward(axis, training, needs, v, w, u, dy, x, weight, mean, rest, rstd):
    c = _Channels(x, axis)
    normalized, off = c.normalizer(mean, rest, rstd)
    off = 0 if off is None else off
    r, gamma = c.column(rstd), c.column(weight, 1)
    i = 1 / c.count if training and c.count else 0
    w, u = c.column(w, 0), c.column(u, 0)
    vgt = c.each(lambda v, g, x: (c.wide(v), c.wide(g), normalized(x)), v, dy, x)
    blocks = vgt()
    sum_g = c.sum([g for _, g, _ in blocks])
    q = i * (c.sum([g * t for _, g, t in blocks]) - off * sum_g)
    sum_vg = sum_v = p = 0
    if v is not None:
        sum_vg, sum_v = c.sum([v * g for v, g, _ in blocks]), c.sum([v for v, *_ in blocks])
        p = i * (c.sum([v * t for v, _, t in blocks]) - off * sum_v)
    product = sum_vg - i * sum_v * sum_g - p * q * (1 / i if i else 0)
    slope = gamma * r

    def combine(dtype, constant, *columns):
        """Add array · column to it for each of g, v and t; no array or column is none."""
        found = []
        for v, g, t in vgt():
            result = constant
            for array, column in zip((g, v, t), columns, strict=True):
                if array is not None and column is not None:
                    result = array * column + result
            found.append(result.astype(dtype))
        return _joined(found)

    d_dy = d_x = d_weight = None
    if needs[0]:
        to_t = w - slope * p
        d_dy = combine(dy.dtype, u - slope * (i * sum_v) - to_t * off, None, slope, to_t)
    if needs[1]:
        to_t = -r * (w * q - 2 * (slope * p) * q + slope * (i * product))
        constant = r * (slope * (q * (i * sum_v) + p * (i * sum_g)) - w * (i * sum_g)) - to_t * off
        d_x = combine(x.dtype, constant, r * (w - slope * p), -slope * r * q, to_t)
    if needs[2]:
        d_weight = row(r * product, weight.dtype)
    return d_dy, d_x, d_weight
