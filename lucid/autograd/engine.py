"""The walk through the graph: the only code that does so.

Nodes are numbered as they are created, so every node has a higher number than those it got its
inputs from. Always taking the highest number among those waiting therefore visits a node only
after everything computed from it: no counting of dependencies, and no recursion.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush
from operator import attrgetter
from typing import Any, Literal, overload

import numpy as np

from .._tensor import (
    Tensor,
    constant,
    copied,
    dtype_name,
    is_complex,
    is_floating,
    module_of,
    operands,
    schedule,
)
from .function import Context, Output, already_freed
from .mode import Mode, _mode

_by_number = attrgetter("seq")
_PLAIN = Mode(record=False)
_RECORDED = Mode(record=True)


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
    found, _ = _walk(
        [_root("grad", t) for t in outputs],
        [_seed("grad", t, g) for t, g in zip(outputs, grad_outputs, strict=True)],
        create_graph if retain_graph is None else retain_graph,
        create_graph,
        frozenset(keys),
    )
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
    found, owned = _walk((edge,), (seed,), retain_graph or create_graph, create_graph, None)
    for leaf, g in found.items():
        if leaf.grad is not None:
            total = leaf.grad + g if create_graph else constant(_sum(leaf.grad.data, g.data))
            leaf.grad = total
        elif leaf in owned:
            leaf.grad = g
        elif create_graph:
            leaf.grad = +g
        else:
            leaf.grad = constant(copied(g.data))
    if self.data.__class__ is not np.ndarray:
        schedule(*(leaf.grad.data for leaf in found))


Tensor.backward = backward


def _key(tensor: Tensor) -> Any:
    """What stands for a Tensor as target: equal for all Tensors that are the same output."""
    edge = tensor._edge
    if edge is True:
        return tensor
    return edge if edge.__class__ is Context else (edge.node, edge.index)


def _walk(edges, grads, retain_graph, create_graph, targets):
    """Send `grads` along `edges` and on to the targets, or to all leaves if these are None.

    Returns the gradients found and the set of those keys whose arrays nobody else holds.
    """
    wanted, onward = (None, None) if targets is None else _leading_to(targets, edges)
    found, owned, waiting, queue = {}, set(), {}, []
    node, fresh = None, False
    previous = _mode.get()
    _mode.set(_RECORDED if create_graph else _PLAIN)
    try:
        while True:
            for edge, g in zip(edges, grads, strict=True):
                if edge is None or g is None:
                    continue
                kind = edge.__class__
                like = edge if kind is Context or kind is Output else edge.data
                if (
                    g.__class__ is not Tensor
                    or g.data.shape != like.shape
                    or g.data.dtype != like.dtype
                ):
                    _check(node, g, like)
                if wanted is not None and _home(edge) not in wanted:
                    continue
                store, slot, key = waiting, edge, edge
                if kind is Context:
                    if edge not in waiting:
                        waiting[edge] = g
                        heappush(queue, (-edge.seq, edge))
                        continue
                elif kind is Output:
                    store, slot, key = _slots(edge.node, waiting, queue), edge.index, edge[:2]
                    if store[slot] is None:
                        store[slot] = g
                        continue
                else:
                    store = found
                    if edge not in found:
                        found[edge] = g
                        if fresh and getattr(g.data, "base", None) is None:
                            owned.add(edge)
                        continue
                _accumulate(store, slot, g, key, owned, create_graph)
            if not queue:
                return found, owned
            node = heappop(queue)[1]
            edges, grads = node.edges, waiting.pop(node)
            if targets is not None:
                _note(node, grads, targets, found)
                if node not in onward:
                    edges = grads = ()
                    continue
            if edges is None:
                raise RuntimeError(already_freed(node))
            if targets is None and grads.__class__ is not list:
                grads = node.function.backward(node, grads)
            else:
                grads = _differentiate(node, grads, onward)
            if grads.__class__ is not tuple:
                grads = tuple(grads) if grads.__class__ is list else (grads,)
            if len(grads) != len(edges):
                _miscounted(node, grads)
            fresh = node.function.fresh_grads
            if not retain_graph:
                node.edges = node._saved = None
    finally:
        _mode.set(previous)


def _slots(node, waiting, queue):
    """Return the gradients of a node with several outputs, as far as they have arrived."""
    if node not in waiting:
        waiting[node] = [None] * len(node.outputs)
        heappush(queue, (-node.seq, node))
    return waiting[node]


def _differentiate(node, grads, onward):
    """Call the backward of a node with several outputs, or one that may be narrowed."""
    function = node.function
    if grads.__class__ is not list:
        grads = (grads,)
    elif function.materialize_grads:
        zeros = module_of(next(g.data for g in grads if g is not None)).zeros
        grads = [
            constant(zeros(*meta)) if g is None and meta is not None else g
            for g, meta in zip(grads, node.outputs, strict=True)
        ]
    needs = node.needs_input_grad
    if onward is None or onward[node] == needs:
        return function.backward(node, *grads)
    node.needs_input_grad = onward[node]
    try:
        return function.backward(node, *grads)
    finally:
        node.needs_input_grad = needs


def _miscounted(node, grads):
    raise RuntimeError(
        f"{node.function.__name__}.backward: must return {len(node.edges)} gradients, one for "
        f"each argument of forward (None for constants), got {len(grads)}"
    )


def _check(node, g, like):
    name = node.function.__name__
    if not isinstance(g, Tensor):
        raise TypeError(
            f"{name}.backward: must return Tensors or None, got {type(g).__name__}; compute with "
            "the Tensors it was given, or mark it with once_differentiable"
        )
    data = g.data
    if data.shape != like.shape:
        raise RuntimeError(
            f"{name}.backward: gradient must have the shape {like.shape} of its argument, "
            f"got {data.shape}"
        )
    if data.dtype != like.dtype:
        raise RuntimeError(
            f"{name}.backward: gradient must have the dtype {dtype_name(like.dtype)} of its "
            f"argument, got {dtype_name(data.dtype)}"
        )


def _accumulate(store, slot, g, key, owned, create_graph):
    old = store[slot]
    if create_graph:
        store[slot] = old + g
    elif key in owned:
        old.data += g.data  # the sum made below, or a fresh gradient: nobody else has seen it
    else:
        store[slot] = constant(_sum(old.data, g.data))
        owned.add(key)


def _sum(a, b):
    total = a + b
    return np.asarray(total) if isinstance(total, np.generic) else total


def _home(edge):
    return edge.node if edge.__class__ is Output else edge


def _note(node, grads, targets, found):
    """Keep what has arrived at a target; nothing more will."""
    if grads.__class__ is list:
        for i, g in enumerate(grads):
            if g is not None and (node, i) in targets:
                found[node, i] = g
    elif node in targets:
        found[node] = grads


def _leading_to(targets, roots):
    """Find the way from the roots to the targets.

    Returns the nodes and leaves from which a target can be reached, targets included, and for
    each of these nodes that lies before a target which of its inputs lead there.
    """
    wanted = {t[0] if t.__class__ is tuple else t for t in targets}
    seen, nodes, freed, stack = set(), [], set(), [_home(r) for r in roots]
    while stack:
        node = stack.pop()
        if node.__class__ is not Context or node in seen:
            continue
        seen.add(node)
        if node.edges is None:
            freed.add(node)
        else:
            nodes.append(node)
            stack.extend(map(_home, node.edges))
    if freed and freed != wanted:  # where they led to is not known any more
        raise RuntimeError(already_freed(freed.pop()))
    nodes.sort(key=_by_number)
    onward = {}
    for node in nodes:
        needs = tuple([e is not None and _home(e) in wanted for e in node.edges])
        if True in needs:
            wanted.add(node)
            onward[node] = needs
    return wanted, onward


def _root(operation, tensor):
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


def _seed(operation, tensor, gradient):
    data = tensor.data
    if gradient is None:
        if data.size != 1:
            raise ValueError(
                f"{operation}: gradient must be given for an output that is not a scalar, got "
                f"shape {data.shape}"
            )
        if data.ndim == 0 and data.dtype in _ONES:
            return constant(_ONES[data.dtype].copy())  # it may become the user's
        return constant(module_of(data).ones(data.shape, data.dtype))
    _, gradient = operands(data, gradient)
    if gradient.data.shape != data.shape:
        raise ValueError(
            f"{operation}: gradient must have the shape {data.shape} of its output, "
            f"got {gradient.shape}"
        )
    if gradient.device != tensor.device:
        raise TypeError(
            f"{operation}: gradient must be on the device of its output, {tensor.device}, "
            f"got {gradient.device}; use to()"
        )
    dtype = gradient.data.dtype
    if is_complex(dtype) or not (is_floating(dtype) or getattr(dtype, "kind", "i") in "iub"):
        raise TypeError(f"{operation}: gradient must be real, got {dtype_name(dtype)}")
    return gradient if dtype == data.dtype else gradient.astype(data.dtype)
