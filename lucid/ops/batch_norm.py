"""Batch normalization with gradients of first and second order.

The public function is that of `batch_norm_front`, which calls the one here for everything but plain
arguments.

Each order is one call to the backend, whose kernels hold the per-channel algebra; this file holds
what every backend shares: the checks, the graph, and what the graph keeps. That is x itself, never
a normalized copy, and private copies of the numbers per channel, so that an optimizer may write to
weight, bias and running statistics between forward and backward without changing the gradient.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from lucid._tensor import Tensor, constant, copied, share_version
from lucid.autograd import AmpPolicy, Context, Function, OpSchema
from lucid.autograd.schema import cast_inputs
from lucid.backends import backend_of, cpu
from lucid.ops import batch_norm_checks as checks

__all__ = ["BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "BatchNormNd"]


def batch_norm(
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
    """Check and convert what the common case of the front leaves over, then do the same."""
    x = input._data if isinstance(input, Tensor) else checks.array("input", input)
    gamma = weight._data if isinstance(weight, Tensor) else checks.array("weight", weight, x)
    beta = bias._data if isinstance(bias, Tensor) else checks.array("bias", bias, x)
    mean = checks.buffer("running_mean", running_mean)
    var = checks.buffer("running_var", running_var)
    channel_axis = checks.check(x, training, momentum, eps, channel_axis)
    checks.check_running(x, mean, var, training, channel_axis)
    x, gamma, beta = checks.floating(x, gamma, beta, channel_axis)
    options = mean, var, training, momentum, eps, channel_axis
    if any(isinstance(a, Tensor) for a in (input, weight, bias)):
        y = record(
            # A Tensor that was converted had a dtype that has no gradient.
            input if isinstance(input, Tensor) and input._data is x else x,
            weight if isinstance(weight, Tensor) and weight._data is gamma else gamma,
            bias if isinstance(bias, Tensor) and bias._data is beta else beta,
            options,
        )
    else:
        y = normalized(x, gamma, beta, options)
    if training:
        for buffer in (running_mean, running_var):
            if isinstance(buffer, Tensor):
                share_version(buffer)[0] += 1
    return y


def record(input, weight, bias, options):
    """Normalize Tensors, and arrays beside them, that have been checked."""
    return _BY_RANK[input.ndim].apply(input, weight, bias, options)


def normalized(input, weight, bias, options):
    """Normalize arrays that have been checked."""
    input, weight, bias = cast_inputs(_BY_RANK[input.ndim].schema_v1, input, weight, bias)
    return _normalize(input, weight, bias, options)[0]


def _backend(x):
    return cpu if x.__class__ is np.ndarray else backend_of(x)


def _normalize(x, weight, bias, options):
    """One fused call: ``y, mean, rstd``."""
    running_mean, running_var, training, momentum, eps, channel_axis = options
    backend = _backend(x)
    if training:
        return backend.batch_norm_forward(
            x, weight, bias, running_mean, running_var, momentum, eps, channel_axis
        )
    return backend.batch_norm_inference(
        x, weight, bias, running_mean, running_var, eps, channel_axis
    )


class BatchNormContext(Context):
    """A node of batch norm, and what is known of its call."""

    __slots__ = ("mean", "options", "saved_rstd")

    @property
    def saved_mean(self):
        """The mean of each channel, without the rest that MLX keeps beside it."""
        return self.mean[0] if self.mean.__class__ is tuple else self.mean

    training = property(lambda self: self.options[2], doc="Whether the statistics are the batch's.")
    eps = property(lambda self: self.options[4], doc="What was added to the variance.")
    channel_axis = property(lambda self: self.options[5], doc="Where the channels are.")
    channels = property(lambda self: self.shape[self.channel_axis], doc="The number of channels.")

    @property
    def batch(self):
        """The number of samples."""
        return self.shape[0 if self.channel_axis else 1]

    @property
    def spatial(self):
        """The number of values that one sample has in one channel."""
        return math.prod(self.shape) // (self.batch * self.channels or 1)


class BatchNormNd(Function):
    """Batch normalization; `_of_rank` gives it its names."""

    context_class = BatchNormContext
    fresh_grads = True
    derivative: type[Function]

    @staticmethod
    def forward(ctx, x, weight, bias, options):
        """Normalize `x`; `options` are the arguments of `batch_norm` after ``bias``."""
        y, ctx.mean, ctx.saved_rstd = _normalize(x, weight, bias, options)
        ctx.options = options
        if True in ctx.needs_input_grad:
            ctx.save_for_backward(x, _private(weight), _private(bias))
        return y

    @staticmethod
    def backward(ctx, g):
        """Hand over to the derivative, a Function of ``g``, ``x`` and ``weight``."""
        x, weight, bias = ctx.saved_tensors
        if weight is not None:
            weight._edge = ctx.edges[1]  # the values it had in forward, at its place in the graph
        needs = ctx.needs_input_grad[:3]
        _, _, training, _, _, channel_axis = ctx.options
        bias = None if bias is None else bias._data
        options = bias, ctx.mean, ctx.saved_rstd, training, channel_axis, needs
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
        ctx.options = options
        ctx.save_for_backward(g, x, weight)
        found = _backend(x).batch_norm_backward(g, x, weight, *options)
        return tuple([d for d in found if d is not None]) if False in options[-1] else found

    @staticmethod
    def backward(ctx, *cotangents):
        """Hand over to the derivative, a Function of the cotangents and all that it depends on."""
        _, *options, given = ctx.options
        vwu = _where_needed(given, cotangents)
        needs = ctx.needs_input_grad[:3]
        found = ctx.function.derivative.apply(*vwu, *ctx.saved_tensors, (*options, needs))
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


def _where_needed(needs: tuple[bool, ...], values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Put the values, of which there are only the needed ones, in their places."""
    if len(values) == len(needs):
        return values
    given = iter(values)
    return tuple([next(given) if need else None for need in needs])


def _private(vector: Any) -> Tensor | None:
    """Keep the values of now, whatever is written to the parameter later."""
    if vector is None:
        return None
    return constant(vector.copy() if vector.__class__ is np.ndarray else copied(vector))


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
