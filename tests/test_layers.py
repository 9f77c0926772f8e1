"""Imports inside the package go along the arrows of its layers only."""

import ast
from pathlib import Path

import pytest

import lucid

PACKAGE = Path(lucid.__file__).parent
# layer -> the layers it may import
ARROWS = {
    "_tensor": {"_bound"},  # for type checkers only
    "autograd": {"_tensor"},
    "amp": {"_tensor", "autograd"},
    "_kernels": set(),
    "backends": {"_kernels"},
    "_config": {"_kernels"},
    "ops": {"_tensor", "autograd", "backends", "_kernels"},  # arrays go straight to the kernels
    "nn": {"_tensor", "autograd", "backends", "ops"},
    "distributed": {"_tensor", "autograd", "backends", "ops", "nn"},
}
FILES = sorted(p for p in PACKAGE.rglob("*.py") if p != PACKAGE / "__init__.py")


def imported(path):
    """Yield the dotted names, below ``lucid``, of all that a file imports from the package."""
    package = path.relative_to(PACKAGE.parent).parent.parts
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            module = ".".join([*base, *filter(None, [node.module])])
            names = [f"{module}.{alias.name}" for alias in node.names]
        else:
            continue
        yield from (n.split(".")[1:] for n in names if n.split(".")[0] == "lucid")


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.relative_to(PACKAGE).as_posix())
def test_imports_follow_the_arrows(path):
    layer = path.relative_to(PACKAGE).with_suffix("").parts[0]
    allowed = ARROWS[layer] | {layer}
    assert {name[0] if name else "lucid" for name in imported(path)} <= allowed


def test_what_the_test_sees():
    assert {p.relative_to(PACKAGE).parts[0] for p in FILES} >= {"autograd", "backends", "nn", "ops"}
    assert ["ops", "batch_norm", "batch_norm"] in imported(PACKAGE / "nn" / "functional.py")
