"""Derivatives of functions of arrays, in the form that SciPy's optimizers take."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, overload

import numpy as np

from .._tensor import Tensor, as_tensor, constant, copied, module_of
from .engine import grad
from .mode import enable_grad


@overload
def value_and_grad(
    fun: Callable[..., Tensor], argnums: int = 0
) -> Callable[..., tuple[np.floating[Any], np.ndarray[Any, Any]]]: ...
@overload
def value_and_grad(
    fun: Callable[..., Tensor], argnums: tuple[int, ...]
) -> Callable[..., tuple[np.floating[Any], tuple[np.ndarray[Any, Any], ...]]]: ...
def value_and_grad(
    fun: Callable[..., Tensor], argnums: int | tuple[int, ...] = 0
) -> Callable[..., Any]:
    """Return a function of arrays that gives the value of `fun` and its gradient.

    Parameters
    ----------
    fun : callable
        Takes Tensors and returns a Tensor of one element. Arguments other than `argnums` are
        passed on as they are.
    argnums : int or tuple of int
        The positions of the arguments to differentiate for.

    Returns
    -------
    callable
        Called like `fun`, but with arrays; returns ``(value, gradient)``, where `gradient` is an
        array, or a tuple of arrays if `argnums` is a tuple.

    Examples
    --------
    >>> import numpy as np
    >>> import lucid
    >>> from scipy.optimize import minimize
    >>> def rosenbrock(x):
    ...     return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()
    >>> result = minimize(lucid.value_and_grad(rosenbrock), np.zeros(3), jac=True)
    >>> np.round(result.x, 3)
    array([1., 1., 1.])
    """
    several = isinstance(argnums, (tuple, list))
    listed: Any = argnums if several else (argnums,)
    positions = tuple([operator.index(i) for i in listed])

    def wrapper(*args: Any, **kwargs: Any) -> tuple[Any, Any]:
        with enable_grad():
            _check_argnums(positions, len(args))
            leaves, args = _leaves("value_and_grad", args, positions)
            value = _scalar("value_and_grad", fun(*args, **kwargs))
            gradients = _gradients(value, leaves, create_graph=False)
        arrays = tuple(copied(g.data) for g in gradients)
        return value.data.reshape(())[()], arrays if several else arrays[0]

    return wrapper


def hvp(fun: Callable[..., Tensor]) -> Callable[..., np.ndarray[Any, Any]]:
    """Return a function that multiplies the Hessian of `fun` by a vector.

    The product is the gradient of ``(gradient of fun) · v``; the Hessian itself is never formed.

    Parameters
    ----------
    fun : callable
        Takes a Tensor, and perhaps more arguments, and returns a Tensor of one element.

    Returns
    -------
    callable
        Takes arrays ``(x, v, *args)`` and returns the array ``H(x) v``, of the shape of `x`.

    Examples
    --------
    >>> import numpy as np
    >>> import lucid
    >>> lucid.hvp(lambda x: (x**3).sum())(np.array([1.0, 2.0]), np.array([1.0, 10.0]))
    array([  6., 120.])
    """

    def wrapper(x: Any, v: Any, *args: Any, **kwargs: Any) -> np.ndarray[Any, Any]:
        with enable_grad():
            (leaf,), (x, *args) = _leaves("hvp", (x, *args), (0,))
            value = _scalar("hvp", fun(x, *args, **kwargs))
            (g,) = _gradients(value, (leaf,), create_graph=True)
            if np.size(v) != leaf.size:
                raise ValueError(f"hvp: v must have the shape {leaf.shape} of x, got {np.shape(v)}")
            if not g.requires_grad:
                return _zeros(leaf)
            v = _constant("hvp", v).astype(leaf.dtype).reshape(leaf.shape)
            (product,) = grad(g, leaf, v, allow_unused=True)
        return _zeros(leaf) if product is None else copied(product.data)

    return wrapper


def _check_argnums(positions: tuple[int, ...], count: int) -> None:
    for i in positions:
        if not -count <= i < count:
            raise ValueError(
                f"value_and_grad: argnums must name some of {count} positional arguments, got {i}"
            )
    if len({i % count for i in positions}) < len(positions):
        raise ValueError(f"value_and_grad: argnums must differ, got {positions}")


def _constant(operation: str, value: Any) -> Tensor:
    if isinstance(value, Tensor) and value.requires_grad:
        raise TypeError(
            f"{operation}: arguments must not require grad, since the result is an array without "
            "gradient; use detach()"
        )
    return as_tensor(value)


def _leaves(operation: str, args: Any, argnums: tuple[int, ...]) -> tuple[Any, Any]:
    args = list(args)
    for i in argnums:
        leaf = constant(_constant(operation, args[i]).data)
        whole = getattr(leaf.dtype, "kind", "f") in "iub"
        args[i] = leaf.astype(np.float64) if whole else leaf
        args[i].requires_grad = True
    return tuple(args[i] for i in argnums), args


def _scalar(operation: str, value: Any) -> Tensor:
    if not isinstance(value, Tensor) or value.size != 1:
        got = f"shape {value.shape}" if isinstance(value, Tensor) else type(value).__name__
        raise TypeError(f"{operation}: fun must return a Tensor of one element, got {got}")
    return value


def _zeros(x: Tensor) -> Any:
    return module_of(x.data).zeros_like(x.data)


def _gradients(value: Tensor, leaves: Any, create_graph: bool) -> list[Tensor]:
    if not value.requires_grad:
        return [constant(_zeros(x)) for x in leaves]
    gradients = grad(value, leaves, create_graph=create_graph, allow_unused=True)
    return [constant(_zeros(x)) if g is None else g for g, x in zip(gradients, leaves, strict=True)]
