"""Batch norm is FORCE_FP32: half inputs are raised inside autocast, and only there."""

import numpy as np
import pytest

import lucid
import lucid.nn.functional as F
from lucid._tensor import dtype_name

x = np.random.default_rng(0).normal(size=(16, 3))


@pytest.mark.parametrize("kind", ["array", "tensor"])
@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_policy(name, kind, array, tensor):
    wrap = {"array": array, "tensor": tensor}[kind]
    half = pytest.importorskip("ml_dtypes").bfloat16 if name == "bfloat16" else np.float16
    given = wrap(x.astype(half))
    outside = F.batch_norm(given, None, None, training=True)
    assert dtype_name(outside.dtype) == name
    with lucid.autocast(half):
        inside = F.batch_norm(given, None, None, training=True)
        assert dtype_name(inside.dtype) == "float32"
        double = F.batch_norm(wrap(x), None, None, training=True)
        assert dtype_name(double.dtype) == "float64"
        single = F.batch_norm(wrap(x.astype("f4")), None, None, training=True)
    assert dtype_name(single.dtype) == "float32"
    # Outside, wider arithmetic is rounded once to the half type.
    wide = array(F.batch_norm(x.astype(half).astype("f8"), None, None, training=True), dtype=half)
    np.testing.assert_array_equal(*(lucid.as_tensor(y).astype("f4") for y in (outside, wide)))


def test_gradient_returns_in_the_dtype_of_its_input(leaf, array):
    half = leaf(x.astype("f2"))
    with lucid.autocast("float16"):
        y = F.batch_norm(half, None, None, training=True)
        assert dtype_name(y.dtype) == "float32"
    y.backward(array(np.ones(y.shape, "f4")))
    assert dtype_name(half.grad.dtype) == "float16"
