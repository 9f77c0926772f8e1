"""Batch normalization with gradients of first and second order.

The public function is that of `lucid._kernels.batch_norm`, which calls the one here for everything
but plain arguments.

Each order is one call to the backend, whose kernels hold the per-channel algebra; this file holds
what every backend shares: the checks, the graph, and what the graph keeps. That is x itself, never
a normalized copy, and private copies of the numbers per channel, so that an optimizer may write to
weight, bias and running statistics between forward and backward without changing the gradient.
"""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np
from numpy.exceptions import AxisError

from lucid._kernels.batch_norm import batch_norm, bind
from lucid._tensor import Tensor, constant, copied, dtype_name, is_floating, share_version, to_array
from lucid.autograd import AmpPolicy, Function, OpSchema
from lucid.autograd.schema import cast_inputs
from lucid.backends import backend_of, cpu, namespace

__all__ = ["BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "BatchNormNd", "batch_norm"]

_VECTORS = ("weight", "bias", "running_mean", "running_var")
_FLOATS = frozenset(map(np.dtype, (np.float16, np.float32, np.float64)))


def _general_batch_norm(
    input,
    running_mean,
    running_var,
    weight=None,
    bias=None,
    training=False,
    momentum=0.1,
    eps=1e-5,
    *,
    channel_axis=1,
):
    """Normalize each channel by its mean and variance, then scale and shift it.

    ``y = (x - mean) / sqrt(var + eps) * weight + bias`` [1]_, with the batch's mean and biased
    variance in training, and with the running ones in evaluation. Training also moves the running
    statistics, in the same call: ``running = (1 - momentum) * running + momentum * new``, with the
    unbiased variance.

    Parameters
    ----------
    input : array_like or Tensor, shape (N, C) or (N, C, S...)
        One to three spatial axes, in any memory layout. Integers and booleans become float32.
    running_mean, running_var : ndarray, Tensor or mx.array, shape (C,), or None
        Updated in place in training, where both may be None.
    weight, bias : array_like or Tensor, shape (C,), optional
        Scale and shift; one and zero if not given.
    training : bool
        Whether to use the batch's own statistics.
    momentum : float
        Weight of the new statistics; any finite number.
    eps : float
        Added to the variance; finite and not negative.
    channel_axis : int
        Where the channels are.

    Returns
    -------
    ndarray, Tensor or mx.array
        Of the shape, floating dtype and memory layout of `input`; a Tensor if `input`, `weight` or
        `bias` is one.

    Raises
    ------
    ValueError
        For a wrong rank or shape, one value per channel in training, running statistics that are
        read-only or missing, or a `momentum` or `eps` out of range. Nothing has changed then.
    TypeError
        For a dtype or a kind of array that can't be normalized, and for mixed devices.
    numpy.exceptions.AxisError
        For a `channel_axis` that `input` does not have.

    Notes
    -----
    Gradients are exact to second order; the derivative of a second derivative raises
    NotImplementedError.

    References
    ----------
    .. [1] S. Ioffe and C. Szegedy, "Batch Normalization: Accelerating Deep Network Training by
       Reducing Internal Covariate Shift", ICML 2015.

    Examples
    --------
    >>> import numpy as np
    >>> import lucid.nn.functional as F
    >>> x = np.array([[1.0, 10.0], [3.0, 30.0]])
    >>> mean, var = np.zeros(2), np.ones(2)
    >>> F.batch_norm(x, mean, var, training=True, momentum=0.5, eps=0)
    array([[-1., -1.],
           [ 1.,  1.]])
    >>> mean, var
    (array([ 1., 10.]), array([  1.5, 100.5]))
    """
    x = input.data if isinstance(input, Tensor) else _array("input", input)
    gamma = weight.data if isinstance(weight, Tensor) else _array("weight", weight)
    beta = bias.data if isinstance(bias, Tensor) else _array("bias", bias)
    mean = _buffer("running_mean", running_mean)
    var = _buffer("running_var", running_var)
    channel_axis = _check(x, training, momentum, eps, channel_axis)
    kind, expected = x.__class__, (x.shape[channel_axis],)
    vectors = [gamma, beta, mean, var]
    for i, v in enumerate(vectors):
        if v is not None and (
            v.__class__ is not kind or v.shape != expected or v.dtype not in _FLOATS
        ):
            vectors[i] = _vector(_VECTORS[i], v, x, channel_axis)
    _check_running(mean, var, training)
    operands = [x if x.dtype in _FLOATS else _floating(x), *vectors[:2]]

    function = _BY_RANK[x.ndim]
    options = mean, var, training, momentum, eps, channel_axis
    traced = False
    for i, t in enumerate((input, weight, bias)):
        if isinstance(t, Tensor):
            traced = True
            if t.data is operands[i]:  # else it was converted, from a dtype that has no gradient
                operands[i] = t
    if traced:
        y = function.apply(*operands, options)
    else:
        y = _normalize(*cast_inputs(function.schema_v1, *operands), *options)[0]
    if training:
        for buffer in (running_mean, running_var):
            if isinstance(buffer, Tensor):
                share_version(buffer)[0] += 1
    return y


# ---------------------------------------------------------------------------- checks


def _array(name: str, value: Any) -> Any:
    """Return `value`, which is no Tensor, as an array of its own kind."""
    if value is None or value.__class__ is np.ndarray:
        return value
    if isinstance(value, np.ndarray) and not isinstance(value, np.memmap):
        raise TypeError(f"batch_norm: {name} must be a plain array, got {type(value).__name__}")
    return to_array(value)


def _buffer(name: str, value: Any) -> Any:
    """Return the array behind running statistics, which are read or updated in place."""
    if value is None or value.__class__ is np.ndarray:
        return value
    if isinstance(value, Tensor):
        if value.requires_grad:
            raise TypeError(f"batch_norm: {name} must not require grad: none would reach it")
        return value.data
    if not hasattr(value, "dtype") or isinstance(value, np.generic):
        raise TypeError(f"batch_norm: {name} must be an array, got {type(value).__name__}")
    return _array(name, value)


def _check(x, training, momentum, eps, channel_axis) -> int:
    """Check all but the channel vectors; return the channel axis, not negative."""
    shape = x.shape
    ndim = len(shape)
    if not 2 <= ndim <= 5:
        raise ValueError(f"batch_norm: input must have 2 to 5 axes (N, C, S...), got shape {shape}")
    if channel_axis.__class__ is not int or not 0 <= channel_axis < ndim:
        channel_axis = _normalize_axis(channel_axis, shape)
    try:
        valid = 0 <= eps < math.inf and -math.inf < momentum < math.inf
    except (TypeError, ValueError):
        valid = False
    if not valid:
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


def _check_number(name: str, value: Any, rule: str, holds) -> None:
    number = isinstance(value, (int, float, np.number))
    if not number or not holds(value):
        error = ValueError if number or value is None else TypeError
        raise error(f"batch_norm: {name} must be {rule}, got {value!r}")


def _vector(name: str, v: Any, x: Any, channel_axis: int) -> Any:
    """Check one value per channel; integers will do for numbers that are only read."""
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
    if _is_normalizable(v.dtype):
        return v
    if name.startswith("running") or not _is_integer(v.dtype):
        raise TypeError(f"batch_norm: {name} must have a floating dtype, got {v.dtype}")
    return v.astype(np.float64 if x.__class__ is np.ndarray else namespace(v).float32)


def _is_normalizable(dtype: Any) -> bool:
    return is_floating(dtype) and dtype != np.longdouble


def _floating(x: Any) -> Any:
    """Apply the schema's policy to integers and booleans: they are computed in float32."""
    if _is_normalizable(x.dtype):
        return x
    if not _is_integer(x.dtype):
        raise TypeError(f"batch_norm: input must have a real dtype up to float64, got {x.dtype}")
    return x.astype(namespace(x).float32)


def _is_integer(dtype: Any) -> bool:
    kind = getattr(dtype, "kind", None)  # MLX's have none
    return kind in "iub" if kind else dtype_name(dtype).strip("u0123456789") in ("int", "bool")


def _check_running(mean: Any, var: Any, training: bool) -> None:
    if mean is None or var is None:
        if mean is var and training:
            return
        rule = "both be given or neither" if training else "be given in evaluation"
        missing = "running_mean" if mean is None else "running_var"
        raise ValueError(
            f"batch_norm: running_mean and running_var must {rule}, got {missing}=None"
        )
    if training:
        for name, v in (("running_mean", mean), ("running_var", var)):
            if v.__class__ is np.ndarray and not v.flags.writeable:
                raise ValueError(f"batch_norm: {name} must be writable, got a read-only array")


# ---------------------------------------------------------------------------- the graph


def _backend(x):
    return cpu if x.__class__ is np.ndarray else backend_of(x)


def _normalize(x, weight, bias, running_mean, running_var, training, momentum, eps, channel_axis):
    """One fused call: ``y, mean, rstd``."""
    backend = _backend(x)
    if training:
        return backend.batch_norm_forward(
            x, weight, bias, running_mean, running_var, momentum, eps, channel_axis
        )
    return backend.batch_norm_inference(
        x, weight, bias, running_mean, running_var, eps, channel_axis
    )


class BatchNormNd(Function):
    """Batch normalization; `_of_rank` gives it its names."""

    fresh_grads = True
    derivative: type[Function]

    @staticmethod
    def forward(ctx, x, weight, bias, options):
        """Normalize `x`; `options` are the arguments of `_normalize` after ``bias``."""
        y, ctx.mean, ctx.saved_rstd = _normalize(x, weight, bias, *options)
        ctx.saved_mean = ctx.mean[0] if ctx.mean.__class__ is tuple else ctx.mean
        *_, ctx.training, _, ctx.eps, ctx.channel_axis = options
        shape = x.shape
        ctx.channels = channels = shape[ctx.channel_axis]
        ctx.batch = batch = shape[0 if ctx.channel_axis else 1]
        ctx.spatial = x.size // (batch * channels or 1)
        if True in ctx.needs_input_grad:
            ctx.save_for_backward(x, _private(weight), _private(bias))
        return y

    @staticmethod
    def backward(ctx, g):
        """Hand over to the derivative, a Function of ``g``, ``x`` and ``weight``."""
        x, weight, bias = ctx.saved_tensors
        bias = None if bias is None else bias.data
        if weight is not None:
            # The values it had in forward, at its own place in the graph.
            weight = constant(weight.data)
            weight._edge = ctx.edges[1]
        needs = ctx.needs_input_grad[:3]
        options = bias, ctx.mean, ctx.saved_rstd, ctx.training, ctx.channel_axis, needs
        found = ctx.function.derivative.apply(g, x, weight, options)
        return (*_where_needed(needs, found), None)


class BatchNormNdGrad(Function):
    """The derivative: those of ``dx, dweight, dbias`` that are needed."""

    materialize_grads = False
    fresh_grads = True
    derivative: type[Function]

    @staticmethod
    def forward(ctx, g, x, weight, options):
        """Make one fused call."""
        bias, mean, rstd, training, channel_axis, needs = options
        found = _backend(x).batch_norm_backward(
            g, x, weight, bias, mean, rstd, training, channel_axis, needs
        )
        ctx.needs, ctx.options = needs, (mean, rstd, training, channel_axis)
        ctx.save_for_backward(g, x, weight)
        return tuple([d for d in found if d is not None])

    @staticmethod
    def backward(ctx, *cotangents):
        """Hand over to the derivative, a Function of the cotangents and all that it depends on."""
        vwu = _where_needed(ctx.needs, cotangents)
        needs = ctx.needs_input_grad[:3]
        options = *ctx.options, needs
        found = ctx.function.derivative.apply(*vwu, *ctx.saved_tensors, options)
        return (*_where_needed(needs, found), None)


class BatchNormNdGradGrad(Function):
    """The derivative of the derivative, in closed form; it has none of its own."""

    @staticmethod
    def forward(ctx, v, w, u, g, x, weight, options):
        """Make one fused call for the gradients to ``g``, ``x`` and ``weight``."""
        found = _backend(x).batch_norm_double_backward(v, w, u, g, x, weight, *options)
        return tuple([d for d in found if d is not None])

    @staticmethod
    def backward(ctx, *_):
        """Refuse, since silence would be a wrong number."""
        operation = ctx.schema_v1.name.removesuffix("_grad_grad")
        raise NotImplementedError(f"{operation}: derivatives of third order are not implemented")


def _where_needed(needs: tuple[bool, ...], values: tuple) -> tuple:
    """Put the values, of which there are only the needed ones, in their places."""
    if len(values) == len(needs):
        return values
    given = iter(values)
    return tuple([next(given) if need else None for need in needs])


def _private(vector: Any) -> Tensor | None:
    """Keep the values of now, whatever is written to the parameter later."""
    return None if vector is None else constant(copied(vector))


def _of_rank(suffix: str, name: str) -> type[BatchNormNd]:
    """Name the operation and its derivatives after the rank of their input."""

    def named(base, suffix_of_name, policy=AmpPolicy.KEEP_INPUT, **body):
        schema = OpSchema(name + suffix_of_name, version=1, amp_policy=policy)
        body |= {"schema_v1": schema, "__module__": __name__, "__doc__": base.__doc__}
        return type(base.__name__.replace("Nd", suffix), (base,), body)

    second = named(BatchNormNdGradGrad, "_grad_grad")
    first = named(BatchNormNdGrad, "_grad", derivative=second)
    return named(BatchNormNd, "", AmpPolicy.FORCE_FP32, derivative=first)


BatchNorm1d = _of_rank("1d", "batch_norm1d")
BatchNorm2d = _of_rank("2d", "batch_norm")
BatchNorm3d = _of_rank("3d", "batch_norm3d")
_BY_RANK = {2: BatchNorm1d, 3: BatchNorm1d, 4: BatchNorm2d, 5: BatchNorm3d}

batch_norm.__doc__ = _general_batch_norm.__doc__
bind(_general_batch_norm)
