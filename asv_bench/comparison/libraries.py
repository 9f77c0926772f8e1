"""The libraries: a method for each kind of case returns the call to time.

One that is missing is not compared.
"""

from __future__ import annotations

import os
import sys
from functools import partial

import numpy as np

from .cases import EPS, MOMENTUM


class Lucid:
    """The public calls on arrays, on Tensors where there is a gradient."""

    package = "lucid-numpy"

    def __init__(self, threads):
        import lucid
        import lucid.nn.functional as functional

        self.lucid, self.batch_norm = lucid, functional.batch_norm
        lucid.set_num_threads(threads)

    def mean(self, d):
        return partial(self.lucid.mean, d.x, d.case.axis)

    def _call(self, d, training):
        buffers = d.mean.copy(), d.var.copy()
        return partial(self.batch_norm, d.x, *buffers, d.weight, d.bias, training)

    def forward(self, d):
        return self._call(d, True)

    def eval(self, d):
        return self._call(d, False)

    def _leaves(self, d):
        return [self.lucid.tensor(a, requires_grad=True) for a in (d.x, d.weight, d.bias)]

    def _apply(self, d, x, weight, bias):
        return self.batch_norm(x, d.mean, d.var, weight, bias, True)

    def backward(self, d):
        leaves = self._leaves(d)
        y = self._apply(d, *leaves)
        return partial(self.lucid.grad, y, leaves, self.lucid.as_tensor(d.g), retain_graph=True)

    def step(self, d):
        leaves, g = self._leaves(d), self.lucid.as_tensor(d.g)
        return lambda: self.lucid.grad(self._apply(d, *leaves), leaves, g)

    def penalty(self, d):
        leaves, g = self._leaves(d), self.lucid.as_tensor(d.g)

        def run():
            y = self._apply(d, *leaves)
            (dx,) = self.lucid.grad(y, leaves[:1], g, create_graph=True)
            return self.lucid.grad((dx * dx).sum(), leaves[:2])

        return run


class NumPy:
    """NumPy's mean; the expressions a user would write for batch norm."""

    package = "numpy"

    def __init__(self, threads):
        pass

    def mean(self, d):
        return partial(np.mean, d.x, d.case.axis)

    def forward(self, d):
        weight, bias = d.weight.reshape(d.broadcast), d.bias.reshape(d.broadcast)
        count = d.x.size // d.x.shape[1]
        running_mean, running_var = d.mean.copy(), d.var.copy()

        def run():
            mean = d.x.mean(d.axes, keepdims=True)
            var = d.x.var(d.axes, keepdims=True)
            running_mean[:] += MOMENTUM * (mean.ravel() - running_mean)
            running_var[:] += MOMENTUM * (var.ravel() * (count / (count - 1)) - running_var)
            return (d.x - mean) / np.sqrt(var + EPS) * weight + bias

        return run

    def eval(self, d):
        weight, bias, mean, var = (
            a.reshape(d.broadcast) for a in (d.weight, d.bias, d.mean, d.var)
        )
        return lambda: (d.x - mean) / np.sqrt(var + EPS) * weight + bias

    def backward(self, d):
        weight = d.weight.reshape(d.broadcast)
        mean = d.x.mean(d.axes, keepdims=True)
        rstd = 1 / np.sqrt(d.x.var(d.axes, keepdims=True) + np.float32(EPS))
        count = d.x.size // d.x.shape[1]

        def run():
            normalized = (d.x - mean) * rstd
            dbias = d.g.sum(d.axes, keepdims=True)
            dweight = (d.g * normalized).sum(d.axes, keepdims=True)
            dx = weight * rstd * (d.g - dbias / count - normalized * (dweight / count))
            return dx, dweight.ravel(), dbias.ravel()

        return run


class Bottleneck:
    """`bottleneck.nanmean`, for one axis or all of them."""

    package = "bottleneck"

    def __init__(self, threads):
        import bottleneck

        self.nanmean = bottleneck.nanmean

    def mean(self, d):
        if not isinstance(d.case.axis, tuple):
            return partial(self.nanmean, d.x, d.case.axis)
        return None


class PyTorch:
    """The public calls of PyTorch on the CPU."""

    package = "torch"

    def __init__(self, threads):
        import torch

        self.torch = torch
        self.batch_norm = torch.nn.functional.batch_norm
        torch.set_num_threads(threads)

    def mean(self, d):
        return partial(self.torch.mean, self.torch.from_numpy(d.x), d.case.axis)

    def _arrays(self, d, *names):
        # Channels-last views keep their strides, which PyTorch recognises.
        return [self.torch.from_numpy(getattr(d, n)) for n in names]

    def _call(self, d, training):
        x, mean, var, w, b = self._arrays(d, "x", "mean", "var", "weight", "bias")
        return partial(self.batch_norm, x, mean.clone(), var.clone(), w, b, training)

    def forward(self, d):
        return self._call(d, True)

    def eval(self, d):
        return self._call(d, False)

    def _apply(self, d):
        mean, var, g = self._arrays(d, "mean", "var", "g")
        leaves = [a.clone().requires_grad_() for a in self._arrays(d, "x", "weight", "bias")]
        return lambda: self.batch_norm(leaves[0], mean, var, *leaves[1:], True), leaves, g

    def backward(self, d):
        apply, leaves, g = self._apply(d)
        return partial(self.torch.autograd.grad, apply(), leaves, g, retain_graph=True)

    def step(self, d):
        apply, leaves, g = self._apply(d)
        return lambda: self.torch.autograd.grad(apply(), leaves, g)

    def penalty(self, d):
        apply, leaves, g = self._apply(d)
        grad = self.torch.autograd.grad

        def run():
            (dx,) = grad(apply(), leaves[:1], g, create_graph=True)
            return grad((dx * dx).sum(), leaves[:2])

        return run


class _Compiled:
    """MLX and JAX: functional gradients of one compiled expression."""

    def _batch_norm(self, d):
        np_, axes, shape = self.module, d.axes, d.broadcast
        count = d.x.size // d.x.shape[1]
        if d.case.last:  # their arrays have no strides: the axes are reordered instead
            axes, shape = tuple(range(d.x.ndim - 1)), d.broadcast[:1] + d.broadcast[2:] + (-1,)

        def apply(x, weight, bias):
            mean = np_.mean(x, axis=axes, keepdims=True)
            var = np_.var(x, axis=axes, keepdims=True)
            y = (x - mean) / np_.sqrt(var + EPS)
            y = y * weight.reshape(shape) + bias.reshape(shape)
            return y, mean.reshape(-1), var.reshape(-1) * (count / (count - 1))

        return apply

    def _arrays(self, d, *names):
        arrays = [getattr(d, n) for n in names]
        if d.case.last:
            arrays = [np.moveaxis(a, 1, -1) if a.ndim > 1 else a for a in arrays]
        return [self.array(np.ascontiguousarray(a)) for a in arrays]

    def mean(self, d):
        if d.x.dtype == np.float64:
            return None  # not without changing global settings, or not at all
        axis, module = d.case.axis, self.module
        return self.call(lambda x: module.mean(x, axis=axis), self.array(d.x))

    def forward(self, d):
        apply = self._batch_norm(d)

        def run(x, weight, bias, running_mean, running_var):
            y, mean, var = apply(x, weight, bias)
            running_mean = running_mean + MOMENTUM * (mean - running_mean)
            return y, running_mean, running_var + MOMENTUM * (var - running_var)

        return self.call(run, *self._arrays(d, "x", "weight", "bias", "mean", "var"))

    def eval(self, d):
        np_, shape = self.module, d.broadcast

        def run(x, weight, bias, mean, var):
            weight, bias, mean, var = (a.reshape(shape) for a in (weight, bias, mean, var))
            return (x - mean) / np_.sqrt(var + EPS) * weight + bias

        return self.call(run, *self._arrays(d, "x", "weight", "bias", "mean", "var"))

    def step(self, d):
        apply, grad = self._batch_norm(d), self.grad
        x, weight, bias, g = self._arrays(d, "x", "weight", "bias", "g")
        gradient = grad(lambda x, w, b, g: (apply(x, w, b)[0] * g).sum(), (0, 1, 2))
        return self.call(gradient, x, weight, bias, g)

    def penalty(self, d):
        apply, grad = self._batch_norm(d), self.grad
        x, weight, bias, g = self._arrays(d, "x", "weight", "bias", "g")
        gradient = grad(lambda x, w, b, g: (apply(x, w, b)[0] * g).sum(), 0)
        penalty = grad(lambda x, w, b, g: (gradient(x, w, b, g) ** 2).sum(), (0, 1))
        return self.call(penalty, x, weight, bias, g)


class MLX(_Compiled):
    """MLX on its default device."""

    package = "mlx"

    def __init__(self, threads):
        import mlx.core as mx

        self.module, self.array, self.grad = mx, mx.array, mx.grad

    def call(self, function, *args):
        compiled, evaluate = self.module.compile(function), self.module.eval

        def run():
            result = compiled(*args)
            evaluate(result)
            return result

        return run


class JAX(_Compiled):
    """JAX on its default device."""

    package = "jax"

    def __init__(self, threads):
        # Read once, when JAX starts its threads.
        os.environ["NPROC"] = str(threads)
        flags = f"--xla_cpu_multi_thread_eigen={'true' if threads > 1 else 'false'}"
        os.environ["XLA_FLAGS"] = " ".join(filter(None, [os.environ.get("XLA_FLAGS"), flags]))
        import jax

        self.jax, self.module, self.array, self.grad = jax, jax.numpy, jax.numpy.asarray, jax.grad

    def call(self, function, *args):
        compiled, wait = self.jax.jit(function), self.jax.block_until_ready
        return lambda: wait(compiled(*args))

    def backward(self, d):
        apply = self._batch_norm(d)
        x, weight, bias, g = self._arrays(d, "x", "weight", "bias", "g")
        pullback = self.jax.jit(lambda *leaves: self.jax.vjp(lambda *a: apply(*a)[0], *leaves)[1])
        return self.call(lambda pull, g: pull(g), pullback(x, weight, bias), g)


LIBRARIES = [Lucid, NumPy, Bottleneck, PyTorch, MLX, JAX]


def installed(names, threads):
    """Return the libraries that can be imported, by name."""
    found = {}
    for library in LIBRARIES:
        if names is None or library.__name__.lower() in names:
            try:
                found[library.__name__.replace("Lucid", "lucid")] = library(threads)
            except ImportError as error:
                print(f"{library.__name__}: {error}", file=sys.stderr)
    return found
