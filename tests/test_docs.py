"""The documentation: its examples run, its API reference is complete, what it names exists."""

import ast
import builtins
import doctest
import importlib
import inspect
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted((ROOT / "docs").glob("*.rst"))
MODULES = ("lucid", "lucid.amp", "lucid.autograd", "lucid.nn", "lucid.nn.functional", "lucid.ops")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_examples(page):
    if page.stem == "gpu":
        pytest.importorskip("mlx.core")
    options = doctest.NORMALIZE_WHITESPACE
    failures, _ = doctest.testfile(str(page), module_relative=False, optionflags=options)
    assert not failures


def documented():
    """The objects of docs/api.rst, by identity where they have a name of their own."""
    text, module, names = (ROOT / "docs" / "api.rst").read_text("utf-8"), None, set()
    for line in text.splitlines():
        if line.startswith(".. currentmodule:: "):
            module = line.split()[-1]
        elif re.fullmatch(r"   \w+", line):
            names.add((module, line.strip()))
    return names


def test_api_reference_is_complete():
    names = documented()
    objects = {id(getattr(importlib.import_module(m), name)) for m, name in names}
    assert len(objects) == len(names)  # nothing twice, and all of it exists
    text = (ROOT / "docs" / "api.rst").read_text("utf-8")
    for module in MODULES:
        for name in importlib.import_module(module).__all__:
            thing = getattr(importlib.import_module(module), name)
            if inspect.ismodule(thing):
                assert f"{module}.{name}" in text
            elif not isinstance(thing, dict):
                assert id(thing) in objects, f"{module}.{name}"
            else:
                assert f"``{module}.{name}``" in text


def test_every_public_object_says_what_it_is():
    for module, name in documented():
        assert inspect.getdoc(getattr(importlib.import_module(module), name)), f"{module}.{name}"


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CONTRIBUTING.md"], ids=lambda page: page.stem)
def test_what_pages_name_exists(page):
    text = page.read_text("utf-8")
    folders = r"(?:lucid|tests|docs|examples|asv_bench)"
    for path in re.findall(rf"(?<![\w/.]){folders}/[\w/]+\.\w+", text):
        assert "NAME" in path or (ROOT / path).exists(), path
    for name in re.findall(r"``(test_\w+)``", text):
        assert any(f"def {name}(" in f.read_text("utf-8") for f in ROOT.glob("tests/*.py")), name


# ---- links to other projects: see also the build, which refuses what docs/inventories/ lacks

INVENTORIES = sorted((ROOT / "docs" / "inventories").glob("*.txt"))


def entries(path):
    """Name, type and place of each object; the first three lines are a header."""
    for line in path.read_text("utf-8").splitlines()[3:]:
        name, kind, _, place, _ = line.split(maxsplit=4)
        yield name, kind, place.removesuffix("$") + name if place.endswith("$") else place


@pytest.mark.parametrize("path", INVENTORIES, ids=lambda path: path.stem)
def test_inventories_name_what_exists(path):
    names = [name for name, _, _ in entries(path)]
    assert len(names) == len(set(names)) > 0
    for name, kind, place in entries(path):
        folder = {"numpy": r"(reference|glossary)", "scipy": "reference", "python": ""}[path.stem]
        assert re.match(rf"{folder}[\w/.-]*\.html#[\w.-]+$", place), place
        if kind.startswith("std:"):
            continue
        assert place.endswith(f"#module-{name}" if kind == "py:module" else f"#{name}")
        # NumPy and SciPy have a page for each object, named after it.
        if "generated/" in place:
            assert place.endswith(f"/{name}.html#{name}")
        thing, rest = builtins, name.split(".")
        if not hasattr(builtins, rest[0]):
            thing = importlib.import_module(rest.pop(0))
        for i, part in enumerate(rest):
            if not hasattr(thing, part):
                importlib.import_module(".".join(name.split(".")[: i + 2]))
            thing = getattr(thing, part)
        expected = {
            "py:class": inspect.isclass,
            "py:exception": lambda t: inspect.isclass(t) and issubclass(t, BaseException),
            "py:module": inspect.ismodule,
            "py:function": callable,
            "py:method": callable,
            "py:data": lambda t: t in (None, True, False),
        }
        assert expected[kind](thing), (name, kind)


def docstrings(thing, depth=2):
    yield inspect.getdoc(thing) or ""
    if inspect.isclass(thing) and depth:
        for name, member in inspect.getmembers(thing):
            if not name.startswith("_"):
                yield from docstrings(member, depth - 1)


def test_references_to_other_projects_are_in_the_inventories():
    known = {name for path in INVENTORIES for name, _, _ in entries(path)}
    texts = [page.read_text("utf-8") for page in PAGES]
    texts += [p.read_text("utf-8").split('"""')[1] for p in ROOT.glob("examples/*.py")]
    for module, name in documented():
        texts += docstrings(getattr(importlib.import_module(module), name))
    projects = "numpy|scipy|math|fractions|os|asyncio|multiprocessing|pickle"
    found = {
        name
        for text in texts
        for name in re.findall(rf"(?<!`)`(?:[^`<]*<)?~?((?:{projects})(?:\.\w+)*)>?`(?!`)", text)
    }
    assert len(found) > 15
    assert found <= known


# ---- what the build adds to the reference


def related():
    tree = ast.parse((ROOT / "docs" / "lucid_docs.py").read_text("utf-8"))
    (table,) = (
        node.value
        for node in tree.body
        if isinstance(node, ast.Assign) and node.targets[0].id == "RELATED"
    )
    return ast.literal_eval(table)


def test_every_entry_has_relatives_that_exist():
    others = {f"lucid.backends.{name}" for name in ("Backend", "backend_of", "namespace")}
    assert related().keys() == {f"{module}.{name}" for module, name in documented()} | others
    known = {name for path in INVENTORIES for name, _, _ in entries(path)}
    for name, relatives in related().items():
        relatives = relatives.split()
        assert name not in relatives
        assert len(relatives) == len(set(relatives)) > 0
        for relative in relatives:
            methods = ("lucid.Tensor.backward", "lucid.Tensor.detach")
            assert relative in related().keys() | known | set(methods), relative


def test_pages_say_what_parameters_are():
    """Functions with arguments have a section for them; so have the methods of Function."""
    for module, name in documented():
        thing = getattr(importlib.import_module(module), name)
        functions = [thing] if not inspect.isclass(thing) else []
        if name in ("Function", "Context"):
            functions += [f for n, f in inspect.getmembers(thing, callable) if n[0] != "_"]
        for function in functions:
            arguments = [p for p in inspect.signature(function).parameters if p != "self"]
            if arguments and function.__name__ != "output":  # of the engine
                assert "Parameters\n---" in inspect.getdoc(function), function


def test_the_front_page_runs():
    text = (ROOT / "docs" / "index.rst").read_text("utf-8")
    (code,) = re.findall(r"\.\. code-block:: python\n\n((?:   .*\n|\n)+)", text)
    exec(inspect.cleandoc(code), {})


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_pictures_have_descriptions(page):
    lines = page.read_text("utf-8").splitlines()
    for i, line in enumerate(lines):
        if re.match(r"\.\. (plot|image|figure):: ", line):
            assert re.match(r"   :alt: \w.{20,}", lines[i + 1]), line
