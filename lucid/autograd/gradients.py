"""What the walk asks of gradients: whether they fit, their sums, and what is rare."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from .._tensor import Tensor, constant, dtype_name, module_of
from .context import Context


def check(node: Context | None, g: Any, like: Any) -> None:
    """Raise the error for a gradient that does not fit what it was sent to, from a node or none."""
    if node is None:
        raise RuntimeError(
            f"backward: output must have the shape {like.shape} and dtype {dtype_name(like.dtype)} "
            f"it was computed with, got {g.data.shape} and {dtype_name(g.data.dtype)}"
        )
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


def check_total(grad: Tensor, g: Tensor) -> None:
    """Raise the error for a `.grad` of a leaf that a gradient can't be added to."""
    if grad.shape != g.shape or grad.device != g.device:
        raise RuntimeError(
            f"backward: grad of a leaf must have its shape {g.shape} and device {g.device}, got "
            f"{grad.shape} and {grad.device}; set it to None"
        )


def accumulate(
    store: Any, slot: Any, g: Tensor, key: Any, owned: set[Any], create_graph: bool
) -> None:
    """Add `g` to what has arrived, in place only where nobody else holds that."""
    old = store[slot]
    if create_graph:
        store[slot] = old + g
    elif key in owned:
        old._data += g._data  # the sum made below, or a fresh gradient: nobody else has seen it
    else:
        store[slot] = constant(sum_of(old._data, g._data))
        owned.add(key)


def sum_of(a: Any, b: Any) -> Any:
    """Add two arrays; the sum of 0-d ones stays an array."""
    total = a + b
    return np.asarray(total) if isinstance(total, np.generic) else total


def filled(node: Context, grads: list[Any]) -> list[Any]:
    """Return zeros for those outputs of a node that no gradient has reached."""
    zeros = module_of(next(g.data for g in grads if g is not None)).zeros
    return [
        constant(zeros(*meta)) if g is None and meta is not None else g
        for g, meta in zip(grads, node.outputs, strict=True)
    ]


def miscounted(node: Context, grads: tuple[Any, ...]) -> NoReturn:
    """Raise the error for a backward that returns too few gradients, or too many."""
    raise RuntimeError(
        f"{node.function.__name__}.backward: must return {len(node.edges)} gradients, one for "
        f"each argument of forward (None for constants), got {len(grads)}"
    )


def note(node: Context, grads: Any, targets: Any, found: dict[Any, Any]) -> None:
    """Keep what has arrived at a target, or at outputs that may be some; nothing more will."""
    if grads.__class__ is list:
        for i, g in enumerate(grads):
            if g is not None and (node, i) in targets:
                found[node, i] = g
    else:
        found[node] = grads
