"""From outputs to gradients: where a walk through the graph starts, and what becomes of its end."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Any, Literal, overload

import numpy as np

from .._tensor import (
    Tensor,
    as_tensors,
    constant,
    dtype_name,
    is_complex,
    is_floating,
    module_of,
)
from ._graph import gather, walk
from .context import Context, Output, already_freed

_by_number = attrgetter("seq")


@overload
def grad(
    outputs: Tensor | Sequence[Tensor],
    inputs: Tensor | Sequence[Tensor],
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    allow_unused: Literal[False] = False,
) -> tuple[Tensor, ...]: ...
@overload
def grad(
    outputs: Tensor | Sequence[Tensor],
    inputs: Tensor | Sequence[Tensor],
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    *,
    allow_unused: bool,
) -> tuple[Tensor | None, ...]: ...
def grad(
    outputs: Tensor | Sequence[Tensor],
    inputs: Tensor | Sequence[Tensor],
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    allow_unused: bool = False,
) -> tuple[Any, ...]:
    """Return the gradients of outputs with respect to inputs, leaving every ``.grad`` alone.

    Parameters
    ----------
    outputs : Tensor or sequence of Tensor
        What to differentiate; several outputs are summed.
    inputs : Tensor or sequence of Tensor
        What to differentiate for: leaves or results of operations.
    grad_outputs : array_like, Tensor or a sequence of them, optional
        What to multiply each output by; may be None for outputs of one element.
    retain_graph : bool, optional
        Keep the graph for another pass; by default what `create_graph` says.
    create_graph : bool
        Record the computation of the gradients, so that they can be differentiated again.
    allow_unused : bool
        Return None for inputs that the outputs don't depend on, instead of raising.

    Returns
    -------
    tuple of Tensor or None
        One gradient for each input, with its shape and dtype.

    Raises
    ------
    ValueError
        If an output is not a scalar and has no `grad_outputs`, or an input was not used.
    RuntimeError
        If the graph was freed, or something requires no grad.

    Examples
    --------
    >>> import lucid
    >>> x = lucid.tensor([1.0, 2.0], requires_grad=True)
    >>> (g,) = lucid.grad((x**3).sum(), x, create_graph=True)
    >>> g
    tensor([ 3., 12.], grad_fn=<MultiplyBackward>)
    >>> lucid.grad(g.sum(), x)
    (tensor([ 6., 12.]),)
    """
    outputs = (outputs,) if isinstance(outputs, Tensor) else tuple(outputs)
    inputs = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    if len(outputs) == 1 and not isinstance(grad_outputs, (tuple, list)):
        grad_outputs = (grad_outputs,)
    elif grad_outputs is None:
        grad_outputs = (None,) * len(outputs)
    elif len(grad_outputs) != len(outputs):
        raise ValueError(
            f"grad: grad_outputs must have one entry for each of {len(outputs)} outputs, "
            f"got {len(grad_outputs)}"
        )
    for i, t in enumerate(inputs):
        if not isinstance(t, Tensor):
            raise TypeError(f"grad: inputs[{i}] must be a Tensor, got {type(t).__name__}")
        if t._edge is None:
            raise RuntimeError(f"grad: inputs[{i}] must require grad, got a constant")
    keys = [_key(t) for t in inputs]
    roots = [_root("grad", t) for t in outputs]
    seeds = [_seed("grad", t, g) for t, g in zip(outputs, grad_outputs, strict=True)]
    retain_graph = create_graph if retain_graph is None else retain_graph
    targets = frozenset(keys)
    found, _ = walk(roots, seeds, retain_graph, create_graph, targets, *_leading_to(targets, roots))
    for i, k in enumerate(keys):
        if k not in found and not allow_unused:
            raise ValueError(
                f"grad: inputs[{i}] of shape {inputs[i].shape} was not used to compute the "
                "outputs; pass allow_unused=True to get None for it"
            )
    return tuple([found.get(k) for k in keys])


def backward(
    self: Tensor, gradient: Any = None, retain_graph: bool = False, create_graph: bool = False
) -> None:
    """Add the gradient of this Tensor to the ``.grad`` of every leaf it was computed from.

    Parameters
    ----------
    gradient : array_like or Tensor, optional
        What to multiply this Tensor by; may be left out if it has one element.
    retain_graph : bool
        Keep the graph for another pass.
    create_graph : bool
        Record the computation of the gradients, so that they can be differentiated again.

    Examples
    --------
    >>> import lucid
    >>> x = lucid.tensor([1.0, 2.0], requires_grad=True)
    >>> (x**2).sum().backward()
    >>> x.grad
    tensor([2., 4.])
    """
    edge = _root("backward", self)
    seed = _seed("backward", self, gradient)
    found, owned = walk([edge], [seed], retain_graph or create_graph, create_graph)
    gather(found, owned, create_graph)


Tensor.backward = backward  # type: ignore[method-assign, assignment]


def _key(tensor: Tensor) -> Any:
    """What stands for a Tensor as target: equal for all Tensors that are the same output."""
    edge = tensor._edge
    if edge is True:
        return tensor
    return edge if isinstance(edge, Context) else (edge.node, edge.index)


def _leading_to(targets: frozenset[Any], roots: Any) -> tuple[set[Any], dict[Context, Any]]:
    """Find the way from the roots to the targets.

    Returns the nodes and leaves from which a target can be reached, targets included, and for
    each of these nodes that lies before a target which of its inputs lead there.
    """
    wanted = {t[0] if t.__class__ is tuple else t for t in targets}
    seen, nodes, freed, edges = set(), [], set(), list(roots)
    while edges:
        edge = edges.pop()
        node = edge.node if isinstance(edge, (Context, Output)) else None
        if node is None or node in seen:
            continue
        seen.add(node)
        if node.edges is None:
            freed.add(node)
        else:
            nodes.append(node)
            edges += node.edges
    if freed and freed != wanted:  # where they led to is not known any more
        raise RuntimeError(already_freed(freed.pop()))
    nodes.sort(key=_by_number)
    onward = {}
    for node in nodes:
        needs = tuple([(e.node if e.__class__ is Output else e) in wanted for e in node.edges])
        if True in needs:
            wanted.add(node)
            onward[node] = needs
    return wanted, onward


def _root(operation: str, tensor: Any) -> Any:
    if not isinstance(tensor, Tensor):
        raise TypeError(f"{operation}: outputs must be Tensors, got {type(tensor).__name__}")
    edge = tensor._edge
    if edge is None:
        raise RuntimeError(
            f"{operation}: the output must require grad; it was computed from constants, or "
            "under no_grad"
        )
    return tensor if edge is True else edge


_ONES = {np.dtype(t): np.ones((), t) for t in (np.float32, np.float64)}


def _seed(operation: str, tensor: Tensor, gradient: Any) -> Tensor:
    data = tensor._data
    if gradient is None:
        if data.size != 1:
            raise ValueError(
                f"{operation}: gradient must be given for an output that is not a scalar, got "
                f"shape {data.shape}"
            )
        if data.ndim == 0 and data.dtype in _ONES:
            return constant(_ONES[data.dtype].copy())  # it may become the user's
        return constant(module_of(data).ones(data.shape, data.dtype))
    _, gradient = as_tensors(data, gradient)
    given = gradient._data
    if given.shape != data.shape:
        raise ValueError(
            f"{operation}: gradient must have the shape {data.shape} of its output, "
            f"got {given.shape}"
        )
    if given.__class__ is not data.__class__ and gradient.device != tensor.device:
        raise TypeError(
            f"{operation}: gradient must be on the device of its output, {tensor.device}, "
            f"got {gradient.device}; use to()"
        )
    if given.dtype == data.dtype:
        return gradient
    dtype = given.dtype
    if is_complex(dtype) or not (is_floating(dtype) or getattr(dtype, "kind", "i") in "iub"):
        raise TypeError(f"{operation}: gradient must be real, got {dtype_name(dtype)}")
    return gradient.astype(data.dtype)
