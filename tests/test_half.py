"""Half types are added up in float32 at least and rounded once, by each function that sums."""

import ml_dtypes
import numpy as np
import pytest

import lucid
import lucid.nn.functional as F
from lucid._tensor import dtype_name, to_numpy

HALVES = {"float16": (np.float16, 10), "bfloat16": (ml_dtypes.bfloat16, 7)}
RNG = np.random.default_rng(3)
N = 3000  # ones add up to 2048 in float16, to 256 in bfloat16
x, y, near_one = RNG.random((3, N)), RNG.random((2, N)), 1 + RNG.normal(size=(2, 50)) / 8
square, few = RNG.random((300, 300)), RNG.normal(size=(4, 5))
labels = RNG.integers(0, N, 3)

FUNCTIONS = {
    "softmax": (F.softmax, x * 4),
    "softmax axis 0": (lambda t: F.softmax(t, 0), np.ascontiguousarray(x.T)),
    "softmax zeros": (F.softmax, np.zeros((2, 1000))),
    "log_softmax": (F.log_softmax, x),
    "log_softmax of many": (F.log_softmax, np.zeros(65536)),
    "cross_entropy": (lambda t: F.cross_entropy(t, labels), x),
    "cross_entropy none": (lambda t: F.cross_entropy(t, labels, "none"), x * 4),
    "cross_entropy sum": (lambda t: F.cross_entropy(t, labels, reduction="sum"), x * 0),
    "mse_loss": (F.mse_loss, x, x[::-1].copy()),
    "mse_loss sum": (lambda a, b: F.mse_loss(a, b, reduction="sum"), x, x[::-1] + 1),
    "linear": (F.linear, x, y, np.array([0.3, -200.0])),
    "linear without bias": (F.linear, x, y),
    "relu": (F.relu, few),
}
REDUCTIONS = {
    "sum": (np.sum, x),
    "sum axis": (lambda t: np.sum(t, axis=1, keepdims=True), x),
    "sum initial": (lambda t: np.sum(t, axis=1, initial=0.3), x),
    "mean": (np.mean, x),
    "var": (lambda t: np.var(t, axis=1), x),
    "std": (np.std, x),
    "prod": (lambda t: np.prod(t, axis=1), near_one),
    "cumsum": (lambda t: np.cumsum(t, axis=1), x),
    "cumprod": (lambda t: np.cumprod(t, axis=1), near_one),
    "average": (lambda t, w: np.average(t, 1, w), x, x[0]),
    "norm": (lambda t: np.linalg.norm(t, axis=1), x * 300),
    "norm 1": (lambda t: np.linalg.norm(t, 1, axis=1), x),
    "trace": (np.trace, square * 9),
    "logaddexp.reduce": (lambda t: np.logaddexp.reduce(t, axis=1), x),
    "matmul": (lambda a, b: a @ b.T, x, y),
    "dot": (np.dot, x[0], x[1]),
    "inner": (np.inner, x, y),
    "tensordot": (lambda a, b: np.tensordot(a, b, ((1,), (1,))), x, y),
    "einsum": (lambda a, b: np.einsum("ij,kj->ik", a, b), x, y),
    "einsum alone": (lambda a: np.einsum("ij->i", a), x),
    "broadcast_to": (lambda t: np.broadcast_to(t, (N, 2)), few[0, :2]),
    "repeat": (lambda t: np.repeat(t, N), few[0]),
    "repeat each": (lambda t: np.repeat(t, [N, 1, 2, N, 3]), few[0]),
    "tile": (lambda t: np.tile(t, N), few[0]),
}


def check_rounded_once(actual, expected, bits):
    """Within half a unit in the last place, and what float32 sums of thousands may add."""
    expected = np.asarray(expected, np.float64)
    smallest = -14 if bits == 10 else -126
    exponent = np.maximum(np.frexp(expected)[1] - 1, smallest)
    unit = np.ldexp(1.0, exponent - bits)
    error = np.abs(np.asarray(actual).astype(np.float64) - expected)
    cancelled = 2**-20 * np.max(np.abs(expected), initial=0)
    assert np.all(error <= 0.51 * unit + cancelled)


@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize("name", FUNCTIONS | REDUCTIONS)
def test_rounded_once(name, half, device):
    fun, *arrays = (FUNCTIONS | REDUCTIONS)[name]
    dtype, bits = HALVES[half]
    arrays = [a.astype(dtype) for a in arrays]
    exact = [lucid.tensor(a.astype(np.float64), requires_grad=True) for a in arrays]
    expected = fun(*exact)
    leaves = [lucid.tensor(a).to(device) for a in arrays]
    if name in FUNCTIONS:
        result = fun(*[t.data for t in leaves])
        assert dtype_name(result.dtype) == half
        check_rounded_once(to_numpy(result), expected.detach(), bits)
    for t in leaves:
        t.requires_grad = True
    result = fun(*leaves)
    assert dtype_name(result.dtype) == half
    check_rounded_once(to_numpy(result.data), expected.detach(), bits)
    seed = RNG.random(expected.shape).astype(dtype)
    gradients = lucid.grad(result, leaves, lucid.tensor(seed).to(device))
    expected = lucid.grad(expected, exact, lucid.tensor(seed.astype(np.float64)))
    for g, e in zip(gradients, expected, strict=True):
        assert dtype_name(g.dtype) == half
        check_rounded_once(to_numpy(g.data), e.data, bits)


@pytest.mark.parametrize("half", HALVES)
def test_other_types_decide(half, array):
    narrow, wide = array(few.astype(HALVES[half][0])), array(few, dtype="float32")
    assert dtype_name(F.linear(narrow, wide).dtype) == "float32"
    assert dtype_name(F.mse_loss(narrow, wide).dtype) == "float32"
    assert dtype_name(F.linear(narrow, narrow, wide[:, 0]).dtype) == "float32"


def test_swapped_bytes_are_half_too():
    result = F.softmax(np.zeros((4096, 2), ">f2"), 0)
    assert result.dtype == np.float16
    np.testing.assert_allclose(result.astype("f8").sum(0), 1, rtol=1e-3)


@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize("fun", [lucid.mean, lucid.var, lucid.std])
def test_statistics_of_some_elements(half, fun):
    dtype, bits = HALVES[half]
    narrow, some = x.astype(dtype), x < 0.9
    expected = fun(narrow.astype("f8"), axis=1, where=some)
    result = fun(narrow, axis=1, where=some)
    assert result.dtype == dtype
    check_rounded_once(result, expected, bits)
    out = np.empty(3, dtype)
    assert fun(narrow, axis=1, where=some, out=out) is out
    check_rounded_once(out, expected, bits)
