"""Types of the compiled loops; see `_graph.pyx`."""

from collections.abc import Sequence
from typing import Any

def gather(found: dict[Any, Any], owned: set[Any], create_graph: bool) -> None: ...
def record(cls: type[Any], args: tuple[Any, ...]) -> Any: ...
def walk(
    edges: list[Any],
    grads: Sequence[Any],
    retain_graph: bool,
    create_graph: bool,
    targets: frozenset[Any] | None = None,
    wanted: set[Any] | None = None,
    onward: dict[Any, tuple[bool, ...]] | None = None,
) -> tuple[dict[Any, Any], set[Any]]: ...
