"""Mean and variance of MLX arrays, against longdouble."""

import numpy as np
import pytest

import lucid

mx = pytest.importorskip("mlx.core")

from lucid.backends import mlx as backend  # noqa: E402

rng = np.random.default_rng(0)

SHAPES_AND_AXES = [
    ((1000,), None),
    ((5, 1000), 0),
    ((1003, 5), 0),
    ((3, 1003), (-1,)),
    ((7, 13, 50), (0, 2)),
    ((3, 4, 5, 6), (3, 1)),
    ((40, 40, 40), None),
    ((2, 3), ()),
    ((), None),
]


def array(shape, mean, std):
    x = rng.normal(mean, std, shape).astype("f4")
    return mx.array(x), x.astype(np.longdouble)


def ulps(y, expected):
    spacing = np.spacing(np.abs(expected).astype("f4"))
    return float(np.max(np.abs(np.array(y, np.longdouble) - expected) / spacing))


@pytest.mark.parametrize("block", [2**19, 100], ids=["whole", "in blocks"])
@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize(("shape", "axis"), SHAPES_AND_AXES)
def test_values(shape, axis, keepdims, block, monkeypatch):
    monkeypatch.setattr(backend, "_BLOCK", block)
    x, exact = array(shape, 1e4, 1)
    mean = lucid.mean(x, axis, keepdims=keepdims)
    assert isinstance(mean, mx.array)
    expected = exact.mean(axis=axis, keepdims=keepdims)
    assert mean.shape == expected.shape
    assert ulps(mean, expected) <= 1
    mean, var = lucid.mean_var(x, axis, keepdims=keepdims)
    assert ulps(mean, expected) <= 1
    expected = exact.var(axis=axis, keepdims=keepdims)
    np.testing.assert_allclose(np.array(var, float), expected.astype(float), rtol=1e-5)


@pytest.mark.parametrize("seed", range(5))
def test_a_million_values_at_1000(seed):
    x = np.random.default_rng(seed).normal(1000, 1, 1_000_000).astype("f4")
    exact = x.astype(np.longdouble)
    assert ulps(lucid.mean(mx.array(x)), exact.mean()) <= 2
    var = lucid.var(mx.array(x))
    assert abs(var.item() / float(exact.var()) - 1) <= 1e-5
    assert abs(lucid.std(mx.array(x), ddof=1).item() / float(exact.std(ddof=1)) - 1) <= 1e-5


@pytest.mark.parametrize("n", [2, 127, 128, 1000, 123_457])
def test_a_constant_is_its_own_mean(n):
    for value in rng.uniform(0.5, 2, 5).astype("f4"):
        x = mx.full((n,), float(value))
        assert lucid.mean(x).item() == value
        assert [v.item() for v in lucid.mean_var(x)] == [value, 0]


@pytest.mark.parametrize("shape", [(40, 3, 30, 30), (3000, 128), (7, 200_001), (600_000, 3)])
def test_large_arrays_at_1000(shape):
    """These are taken in blocks on MLX's CPU device."""
    x, exact = array((2, *shape), 1000, 1)
    for axis in (0, 1, -1, (0, 1), tuple(range(1, len(shape) + 1))):
        mean, var = lucid.mean_var(x, axis)
        expected = exact.var(axis=axis)
        assert ulps(lucid.mean(x, axis), exact.mean(axis=axis)) <= 2
        assert ulps(mean, exact.mean(axis=axis)) <= 2
        np.testing.assert_allclose(np.array(var, float), expected.astype(float), rtol=1e-5)


def test_long_sums():
    x = mx.ones(20_000_000)
    assert lucid.mean(x).item() == 1
    assert lucid.as_tensor(x).sum().item() == 20_000_000


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_half_types_neither_overflow_nor_lose_digits(name):
    dtype = getattr(mx, name)
    x = mx.array(rng.normal(1000, 10, 70_000)).astype(dtype)
    exact = np.array(x.astype(mx.float32), np.longdouble)
    mean, var = lucid.mean_var(x)
    assert mean.dtype == var.dtype == dtype
    half = 2.0 ** (-11 if name == "float16" else -8)
    assert abs(mean.item() / exact.mean() - 1) <= half
    assert abs(var.item() / exact.var() - 1) <= half * 1.001
    total = lucid.as_tensor(mx.ones(1000, dtype)).sum()
    assert (total.dtype, total.item()) == (dtype, 1000)


@pytest.mark.parametrize("dtype", ["int8", "int32", "uint8", "bool"])
def test_integers_are_cast_first(dtype):
    x = rng.integers(0, 2, 1000).astype(dtype) * (1 if dtype == "bool" else np.iinfo(dtype).max)
    x = x.astype(dtype)
    mean = lucid.mean(mx.array(x))
    assert mean.dtype == mx.float32
    np.testing.assert_allclose(mean.item(), x.mean(), rtol=1e-7)


def test_infinite_and_missing_values():
    x = rng.normal(size=(3, 500)).astype("f4")
    x[0, 3], x[1, 4] = np.inf, np.nan
    mean, var = (np.array(a) for a in lucid.mean_var(mx.array(x), axis=1))
    assert np.isposinf(mean[0])
    assert np.isnan(mean[1])
    assert np.isnan(var[:2]).all()
    assert np.isfinite([mean[2], var[2]]).all()
    assert np.isposinf(np.array(lucid.mean(mx.array(x), axis=1))[0])


def test_empty():
    with pytest.warns(RuntimeWarning, match="Mean of empty slice"):
        assert np.isnan(lucid.mean(mx.zeros((0,))).item())
    with pytest.warns(RuntimeWarning, match="Degrees of freedom"):
        assert np.isnan(lucid.var(mx.ones((1,)), ddof=1).item())


def test_bad_arguments():
    with pytest.raises(np.exceptions.AxisError):
        lucid.mean(mx.ones((2, 3)), axis=2)
    with pytest.raises(TypeError, match="out="):
        lucid.mean(mx.ones(3), out=np.empty(()))


def test_dtype():
    assert lucid.mean(mx.ones(3, mx.float16), dtype="float32").dtype == mx.float32
    assert lucid.mean(mx.ones(3), dtype=np.float16).dtype == mx.float16


def test_gradients():
    x = rng.normal(size=(4, 5)).astype("f4")
    found = []
    for device in ("cpu", "gpu"):
        t = lucid.tensor(x, True, device=device)
        y = np.mean(t, axis=0) ** 2 + np.var(t, axis=0, ddof=1) + np.std(t)
        (g,) = lucid.grad(y.sum(), t, create_graph=True)
        found.append([a.detach().numpy() for a in (y, g, *lucid.grad((g**2).sum(), t))])
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
