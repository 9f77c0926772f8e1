"""Imports inside the package go along the arrows of its layers only, those of Cython too."""

import ast
import re
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
SOURCE = Path(__file__).parents[1] / "lucid"  # an installed package has no Cython sources
FILES = sorted(
    [p for p in PACKAGE.rglob("*.py") if p != PACKAGE / "__init__.py"]
    + [p for kind in ("*.pyx", "*.pxd", "*.pyi") for p in SOURCE.rglob(kind)]
)


def imports(path):
    """Return the import statements of a file; Cython's `cimport` is one."""
    text = path.read_text("utf-8")
    if path.suffix not in (".pyx", ".pxd"):
        return text
    found = re.findall(
        r"^(?:from [\w.]+ )?c?import (?:\([^)]*\)|.*)$", text.replace("\\\n", " "), re.MULTILINE
    )
    return "\n".join(re.sub(r"\bcimport\b", "import", line) for line in found)


def imported(path):
    """Yield the dotted names, below ``lucid``, of all that a file imports from the package."""
    root = PACKAGE if path.is_relative_to(PACKAGE) else SOURCE
    package = path.relative_to(root.parent).parent.parts
    for node in ast.walk(ast.parse(imports(path))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            module = ".".join([*base, *filter(None, [node.module])])
            names = [f"{module}.{alias.name}" for alias in node.names]
        else:
            continue
        yield from (n.split(".")[1:] for n in names if n.split(".")[0] == "lucid")


def layer_of(path):
    root = PACKAGE if path.is_relative_to(PACKAGE) else SOURCE
    return path.relative_to(root).with_suffix("").parts[0]


@pytest.mark.parametrize("path", FILES, ids=lambda p: f"{layer_of(p)}/{p.name}")
def test_imports_follow_the_arrows(path):
    layer = layer_of(path)
    if layer == "_bound":  # a stub, for type checkers only
        return
    allowed = ARROWS[layer] | {layer}
    assert {name[0] if name else "lucid" for name in imported(path)} <= allowed


def test_what_the_test_sees():
    assert {layer_of(p) for p in FILES} >= {"autograd", "backends", "nn", "ops"}
    functional = imported(PACKAGE / "nn" / "functional.py")
    assert ["ops", "batch_norm_front", "batch_norm"] in functional
    if SOURCE.is_dir():
        front = list(imported(SOURCE / "ops" / "mean_front.pyx"))
        assert ["_kernels", "reduce", "reduce_array"] in front
        assert ["ops", "mean", "Mean"] in front
        assert ["_kernels", "memory"] in imported(SOURCE / "_kernels" / "reduce.pyx")
