"""Check gradients against finite differences along one random direction, in float64.

One direction sees any wrong entry (but for a set of directions of measure zero) and costs four
evaluations whatever the size. The five-point formula has an error of order eps**4, so that the
tolerances can be far below those that a two-point formula needs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .._tensor import Tensor, constant, dtype_name, to_numpy
from .engine import grad
from .mode import enable_grad

_STENCIL = ((-2, 1 / 12), (-1, -8 / 12), (1, 8 / 12), (2, -1 / 12))


class GradcheckError(AssertionError):
    """A gradient disagrees with finite differences."""


def gradcheck(
    fun: Callable[..., Any],
    inputs: Tensor | Sequence[Any],
    *,
    eps: float = 1e-4,
    atol: float = 1e-8,
    rtol: float = 1e-6,
    seed: int = 0,
    raise_exception: bool = True,
) -> bool:
    """Compare the gradients of `fun` with finite differences.

    Parameters
    ----------
    fun : callable
        Takes `inputs`; returns a Tensor or several.
    inputs : Tensor or sequence
        Those Tensors that require grad are checked; they must be float64.
    eps : float
        The step of the finite differences.
    atol, rtol : float
        The difference allowed is ``atol + rtol * scale``, where `scale` is what the derivative
        would be if none of its terms cancelled.
    seed : int
        Of the random directions.
    raise_exception : bool
        Raise an error that says what disagrees, or return False.

    Returns
    -------
    bool

    Raises
    ------
    GradcheckError
        Naming the input, the analytic and the numeric value.

    Examples
    --------
    >>> import numpy as np
    >>> import lucid
    >>> x = lucid.tensor([0.5, 1.0, 2.0], requires_grad=True)
    >>> lucid.autograd.gradcheck(np.exp, x)
    True
    """
    inputs = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    chosen = [i for i, t in enumerate(inputs) if isinstance(t, Tensor) and t.requires_grad]
    if not chosen:
        raise ValueError("gradcheck: at least one input must be a Tensor that requires grad")
    for i in chosen:
        if dtype_name(inputs[i].dtype) != "float64":
            raise TypeError(
                f"gradcheck: inputs[{i}] must be float64, got {dtype_name(inputs[i].dtype)}"
            )
    rng = np.random.default_rng(seed)
    problems = []
    with enable_grad():
        leaves = _leaves(inputs)
        outputs = _outputs(fun, leaves)
        weights = [rng.standard_normal(y.shape) for y in outputs]
        used = [(y, w) for y, w in zip(outputs, weights, strict=True) if y.requires_grad]
        gradients: Any = [None] * len(chosen)
        if used:
            targets = [leaves[i] for i in chosen]
            outputs = [y for y, _ in used]
            seeds = [Tensor(w).to(y.device) for y, w in used]
            gradients = grad(outputs, targets, seeds, allow_unused=True)
        for i, g in zip(chosen, gradients, strict=True):
            v = rng.standard_normal(inputs[i].shape)
            terms = 0.0 if g is None else to_numpy(g.data) * v
            analytic, scale = float(np.sum(terms)), float(np.sum(np.abs(terms)))
            numeric = sum(
                c * _weighted(fun, inputs, i, step * eps * v, weights) for step, c in _STENCIL
            )
            numeric /= eps
            allowed = atol + rtol * max(scale, abs(numeric))
            if not abs(analytic - numeric) <= allowed:
                problems.append(
                    f"inputs[{i}] of shape {inputs[i].shape}: analytic {analytic:.12g}, numeric "
                    f"{numeric:.12g}, difference {abs(analytic - numeric):.3g}, allowed "
                    f"{allowed:.3g}"
                )
    if problems and raise_exception:
        name = getattr(fun, "__qualname__", repr(fun))
        raise GradcheckError(f"gradcheck: {name}: " + "; ".join(problems))
    return not problems


def gradgradcheck(fun: Callable[..., Any], inputs: Tensor | Sequence[Any], **options: Any) -> bool:
    """Compare the second derivatives of `fun` with finite differences of its gradients.

    The gradients are functions of the inputs and of the gradients of the outputs; both are
    checked.

    Parameters
    ----------
    fun : callable
        Takes `inputs`; returns a Tensor or several.
    inputs : Tensor or sequence
        Those Tensors that require grad are checked; they must be float64.
    **options
        `eps`, `atol`, `rtol`, `seed` and `raise_exception` of `gradcheck`.

    Returns
    -------
    bool

    Raises
    ------
    GradcheckError
        Naming the input, the analytic and the numeric value.

    Examples
    --------
    >>> import numpy as np
    >>> import lucid
    >>> x = lucid.tensor([0.5, 1.0, 2.0], requires_grad=True)
    >>> lucid.autograd.gradgradcheck(np.exp, x)
    True
    """
    inputs = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    rng = np.random.default_rng(options.get("seed", 0) + 1)
    with enable_grad():
        outputs = [y for y in _outputs(fun, _leaves(inputs)) if y.requires_grad]
    weights = [Tensor(rng.standard_normal(y.shape)).to(y.device) for y in outputs]
    for w in weights:
        w.requires_grad = True

    def gradients(*args: Any) -> Any:
        leaves, seeds = args[: len(inputs)], args[len(inputs) :]
        outputs = [y for y in _outputs(fun, leaves) if y.requires_grad]
        targets = [t for t in leaves if isinstance(t, Tensor) and t.requires_grad]
        found = grad(outputs, targets, seeds, create_graph=True, allow_unused=True)
        return [constant(np.zeros(())) if g is None else g for g in found]

    gradients.__qualname__ = f"gradient of {getattr(fun, '__qualname__', repr(fun))}"
    return gradcheck(gradients, (*inputs, *weights), **options)


def _leaves(inputs: Any) -> list[Any]:
    """Copies of the Tensors, so that the caller's are left alone."""
    return [Tensor(t.data, t.requires_grad) if isinstance(t, Tensor) else t for t in inputs]


def _outputs(fun: Callable[..., Any], inputs: Any) -> list[Tensor]:
    result = fun(*inputs)
    outputs = list(result) if isinstance(result, (tuple, list)) else [result]
    for y in outputs:
        if not isinstance(y, Tensor):
            raise TypeError(
                f"gradcheck: fun must return a Tensor or several, got {type(y).__name__}"
            )
    return outputs


def _weighted(
    fun: Callable[..., Any], inputs: Any, i: int, shift: Any, weights: list[Any]
) -> float:
    """The weighted sum of all outputs with one input shifted."""
    leaves = _leaves(inputs)
    leaves[i] = Tensor(to_numpy(inputs[i].data) + shift).to(inputs[i].device)
    leaves[i].requires_grad = True
    pairs = zip(_outputs(fun, leaves), weights, strict=True)
    return float(sum(np.sum(to_numpy(y.data) * w) for y, w in pairs))
