"""Functions: what an operation is made of.

`Function.apply` runs `forward` on raw arrays. If a gradient may be asked for, the `Context` that
`forward` was given becomes the node of the graph: the result refers to it, and it refers, through
`edges`, to the nodes (or leaves) its inputs came from. References only ever point from results to
inputs, so that a graph is freed as soon as its last result is.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from .._tensor import Tensor, constant, to_array
from ._graph import record
from .context import Context
from .mode import _mode, no_grad
from .schema import OpSchema


def _check_takes_ctx(cls: type, name: str) -> None:
    method: Any = cls.__dict__.get(name)
    code = getattr(inspect.unwrap(getattr(method, "__func__", method)), "__code__", None)
    if code is not None:
        position = isinstance(method, classmethod)
        names = code.co_varnames[: code.co_argcount]
        if names[position : position + 1] != ("ctx",) and not code.co_flags & inspect.CO_VARARGS:
            raise TypeError(
                f"{cls.__name__}.{name}: the first parameter must be ctx, got ({', '.join(names)})"
            )


class Function:
    """A differentiable operation.

    Subclasses define two static methods. ``forward(ctx, *args)`` gets arrays where `apply` was
    given Tensors, and returns an array or a tuple of arrays. ``backward(ctx, *grads)`` gets one
    Tensor for each output and returns one Tensor, or None, for each argument of `forward`. It
    computes with Tensors (NumPy's functions work on them), so that its own derivative is known.

    A node is created once, in `apply`, and consumed once, in backward, by one thread; independent
    graphs may run in parallel.

    Attributes
    ----------
    schema_v1 : OpSchema
        Name, version and autocast policy; Functions that give none get one of version 0.
    saves_input : bool
        Documents whether the graph keeps an input alive.
    materialize_grads : bool
        Whether `backward` gets zeros, or None, for outputs that no gradient reached.
    fresh_grads : bool
        Promise that `backward` returns arrays nobody else holds: the engine need not copy them.
    context_class : type
        `Context`, or a subclass of it that knows more.

    Examples
    --------
    A convolution by FFT. Its gradients are correlations, that is convolutions again, therefore
    it can be differentiated any number of times.

    >>> import numpy as np
    >>> import lucid
    >>> from scipy.signal import fftconvolve
    >>> class Convolve(lucid.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x, w):
    ...         ctx.save_for_backward(x, w)
    ...         return fftconvolve(x, w, mode="full")
    ...
    ...     @staticmethod
    ...     def backward(ctx, g):
    ...         x, w = ctx.saved_tensors
    ...         dx = Convolve.apply(g, w[::-1])[len(w) - 1 : len(w) - 1 + len(x)]
    ...         dw = Convolve.apply(g, x[::-1])[len(x) - 1 : len(x) - 1 + len(w)]
    ...         return dx, dw
    >>> x = lucid.tensor(np.arange(4.0), requires_grad=True)
    >>> w = lucid.tensor([1.0, -2.0, 1.0], requires_grad=True)
    >>> y = Convolve.apply(x, w)
    >>> np.round(lucid.grad((y**2).sum(), w)[0], 6)
    tensor([  2., -24.,   2.])
    >>> lucid.autograd.gradgradcheck(Convolve.apply, (x, w))
    True
    """

    schema_v1: OpSchema = OpSchema("function")
    node_name: str = "FunctionBackward"
    saves_input: bool = True
    materialize_grads: bool = True
    fresh_grads: bool = False
    moves: bool = False  # to another device
    context_class: type[Context] = Context

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "node_name" not in cls.__dict__:
            cls.node_name = cls.__name__ + "Backward"
        if cls.schema_v1 is Function.schema_v1:
            cls.schema_v1 = OpSchema(cls.__name__, version=0)
        for name in ("forward", "backward"):
            _check_takes_ctx(cls, name)

    @staticmethod
    def forward(ctx: Context, *args: Any) -> Any:
        """Compute the result from arrays.

        Parameters
        ----------
        ctx : Context
            For `backward`: what is saved there, and attributes.
        *args
            The arguments of `apply`, each Tensor as its array.

        Returns
        -------
        array or tuple of arrays
        """
        raise NotImplementedError("Function.forward: must be defined by the subclass")

    @staticmethod
    def backward(ctx: Context, *grads: Any) -> Any:
        """Compute the gradients of the arguments from those of the results.

        Parameters
        ----------
        ctx : Context
            That of `forward`.
        *grads : Tensor
            One for each result.

        Returns
        -------
        Tensor, None or tuple of them
            One for each argument of `forward`; None where there is no gradient.
        """
        raise NotImplementedError(f"{ctx.name}: the Function defines no backward")

    @classmethod
    def apply(cls, *args: Any) -> Any:
        """Run `forward` and, if an input requires grad and recording is on, record it.

        Parameters
        ----------
        *args
            Tensors, and anything else that `forward` takes.

        Returns
        -------
        Tensor or tuple of Tensor
        """
        return record(cls, args)


def _behind(edge: Any) -> Any:
    """Make up a Tensor that depends on what the edge leads to."""
    if edge is None or isinstance(edge, Tensor):
        return edge
    result = constant(np.empty(0))
    result._edge = edge
    return result


class _Opaque(Function):
    """Passes a gradient on, but has none itself: the result of a once-differentiable backward."""

    @staticmethod
    def forward(ctx: Context, name: str, g: Any, *depends_on: Any) -> Any:
        ctx.differentiated = name
        return g

    @staticmethod
    def backward(ctx: Context, g: Tensor) -> Any:
        raise NotImplementedError(
            f"{ctx.differentiated}.backward is marked once_differentiable: "
            "it can't be differentiated itself"
        )


def once_differentiable(backward: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a `backward` whose own derivative is not known.

    It runs without recording and may return arrays. Differentiating its result raises
    NotImplementedError, instead of giving a wrong answer.

    Parameters
    ----------
    backward : callable
        The static method of a `Function`, below ``@staticmethod``.

    Returns
    -------
    callable

    Examples
    --------
    >>> import numpy as np
    >>> import lucid
    >>> from scipy.special import gammaln, psi
    >>> class LogGamma(lucid.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         ctx.save_for_backward(x)
    ...         return gammaln(x)
    ...
    ...     @staticmethod
    ...     @lucid.autograd.once_differentiable
    ...     def backward(ctx, g):
    ...         (x,) = ctx.saved_tensors
    ...         return g.data * psi(x.data)
    >>> x = lucid.tensor([1.0, 2.0], requires_grad=True)
    >>> LogGamma.apply(x).sum().backward()
    >>> np.round(x.grad, 4)
    tensor([-0.5772,  0.4228])
    """

    @functools.wraps(backward)
    def wrapper(ctx: Context, *grads: Tensor | None) -> Any:
        record = _mode.get().record
        with no_grad():
            result = backward(ctx, *grads)
        several = isinstance(result, (tuple, list))
        results = [
            g if g is None or isinstance(g, Tensor) else constant(to_array(g))
            for g in (result if several else (result,))
        ]
        if record:
            name, inputs = ctx.function.__name__, map(_behind, ctx.edges)
            depends_on = (*grads, *(t for t in inputs if t is not None))
            results = [g if g is None else _Opaque.apply(name, g, *depends_on) for g in results]
        return tuple(results) if several else results[0]

    return wrapper
