"""The type stubs name what exists; what they say is checked by mypy over typing_checks.py."""

import ast
from importlib import resources

import lucid
from lucid.ops import FUNCTIONS, UFUNCS, methods


def test_the_package_says_that_it_is_typed():
    assert resources.files(lucid).joinpath("py.typed").is_file()


def test_the_stub_of_bound_methods():
    (stub,) = [
        node
        for node in ast.parse(resources.files(lucid).joinpath("_bound.pyi").read_text()).body
        if isinstance(node, ast.ClassDef)
    ]
    named = {node.name for node in stub.body if isinstance(node, ast.FunctionDef)}
    elsewhere = {"backward", "__array_ufunc__", "__array_function__"}
    assert named - elsewhere == set(methods.bound(UFUNCS, FUNCTIONS))
    assert elsewhere <= set(vars(lucid.Tensor))
