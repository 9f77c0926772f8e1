"""Batch norm is FORCE_FP32: half inputs are raised inside autocast, and only there."""

import numpy as np
import pytest

import lucid
import lucid.nn.functional as F

x = np.random.default_rng(0).normal(size=(16, 3))


@pytest.mark.parametrize("wrap", [np.asarray, lucid.tensor], ids=["array", "tensor"])
@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_policy(name, wrap):
    half = pytest.importorskip("ml_dtypes").bfloat16 if name == "bfloat16" else np.float16
    given = wrap(x.astype(half))
    outside = F.batch_norm(given, None, None, training=True)
    assert outside.dtype == half
    with lucid.autocast(half):
        assert F.batch_norm(given, None, None, training=True).dtype == np.float32
        assert F.batch_norm(wrap(x), None, None, training=True).dtype == np.float64
        single = F.batch_norm(wrap(x.astype("f4")), None, None, training=True)
    assert single.dtype == np.float32
    # Outside, wider arithmetic is rounded once to the half type.
    wide = F.batch_norm(x.astype(half).astype("f8"), None, None, training=True)
    np.testing.assert_array_equal(np.asarray(outside), wide.astype(half))


def test_gradient_returns_in_the_dtype_of_its_input():
    leaf = lucid.tensor(x.astype("f2"), requires_grad=True)
    with lucid.autocast("float16"):
        y = F.batch_norm(leaf, None, None, training=True)
        assert y.dtype == np.float32
    y.backward(np.ones(y.shape, "f4"))
    assert leaf.grad.dtype == np.float16
