"""The documentation: its examples run, its API reference is complete, what it names exists."""

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
