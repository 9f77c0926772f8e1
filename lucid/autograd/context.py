"""The context of a call: what `forward` leaves for `backward`, and the node of the graph."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, NamedTuple

from .._tensor import Tensor, constant, is_floating, share_version, to_array
from ._bases import Node
from .mode import _mode

if TYPE_CHECKING:
    from .schema import OpSchema


class Context(Node):
    """What `forward` leaves for `backward`; also the node of the graph (``y.grad_fn``).

    Any attribute may be set on it in `forward` and read back in `backward` or on the node.
    Arrays set that way are constants to second-order gradients: inputs and outputs belong in
    `save_for_backward`.
    """

    __slots__ = (
        "__dict__",
        "__weakref__",
        "_constants",
        "_needs",
        "_saved",
        "dtype",
        "edges",
        "function",
        "outputs",
        "seq",
        "shape",
    )

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...
        def __setattr__(self, name: str, value: Any) -> None: ...

    __signature__ = inspect.Signature()  # which a compiled base does not have

    # Bound by `_graph`, which reads them fast.
    needs_input_grad: tuple[bool, ...]
    saved_tensors: tuple[Any, ...]

    @property
    def node(self) -> Context:
        """Itself: the only output of a node with one output stands for the node."""
        return self

    @property
    def name(self) -> str:
        """The name of the node, such as ``"MeanBackward"``."""
        return self.function.node_name

    @property
    def schema_v1(self) -> OpSchema:
        """The schema of the Function."""
        return self.function.schema_v1

    @property
    def next_functions(self) -> tuple[Any, ...]:
        """For each argument of `forward` a pair of node and output number.

        The node is None for constants and an `AccumulateGrad` for leaves.
        """
        return tuple(_next_function(e) for e in self.edges or ())

    def __repr__(self) -> str:
        return f"<{self.name}>"

    def save_for_backward(self, *arrays: Any) -> None:
        """Save inputs, outputs or None for `backward`, which finds them in `saved_tensors`.

        Parameters
        ----------
        *arrays
            As `forward` got them or returns them. Others may be saved too, if they are integer or
            boolean, or if no second-order gradient will be asked for (that raises).
        """
        self._saved = arrays

    def mark_non_differentiable(self, *outputs: Any) -> None:
        """Say which of the arrays that `forward` returns are constants.

        Parameters
        ----------
        *outputs
            The arrays themselves: no gradient is asked of them.
        """
        self._constants = outputs

    def _restore(self, array: Any, index: int | None, version: list[int]) -> Tensor:
        t = constant(array)
        t._version = version
        if index is not None:
            t._edge = self if self.outputs is None else self.output(index)
        elif _mode.get().record:
            raise RuntimeError(
                f"{self.name}: no second-order gradient, since forward saved an array that is "
                "neither an input nor an output; save those, or mark backward with "
                "once_differentiable"
            )
        return t

    def output(self, index: int) -> Output | None:
        """Return the place in the graph of one of several outputs; None for constants."""
        meta = self.outputs[index]
        return None if meta is None else Output(self, index, *meta)


def keep(a: Any, results: tuple[Any, ...], outputs: list[Tensor]) -> Any:
    """Return ``(array, index, version)`` of an output; the index of another array is None."""
    for i, r in enumerate(results):
        if r is a:
            return outputs[i]._data, i, share_version(outputs[i])
    if isinstance(a, (int, float, Tensor)):
        return a
    a = to_array(a)
    return (a, None, [0]) if is_floating(a.dtype) else constant(a)


class Output(NamedTuple):
    """One of several outputs of a node."""

    node: Context
    index: int  # type: ignore[assignment]
    shape: tuple[int, ...]
    dtype: Any


class AccumulateGrad(NamedTuple):
    """Stands for a leaf in `Context.next_functions`."""

    variable: Tensor
    name: str = "AccumulateGrad"


def _next_function(edge: Any) -> tuple[Any, int]:
    if edge is None:
        return (None, 0)
    if isinstance(edge, Tensor):
        return (AccumulateGrad(edge), 0)
    return (edge.node, getattr(edge, "index", 0))


def already_freed(node: Context) -> str:
    """Return what to say of a node whose graph is gone."""
    return (
        f"{node.name}: the graph has been freed by an earlier backward; "
        "pass retain_graph=True to the earlier one to go through it again"
    )


def changed(node: Context) -> str:
    """Return what to say of a node that finds its Tensors changed."""
    return (
        f"{node.name}: a Tensor saved for backward has been changed since by copy_, by assigning "
        "its data, or by reshaping that in place"
    )
