"""Where rules meet infinities, zeros, ties and wrong arguments."""

import subprocess
import sys

import numpy as np
import pytest
from scipy import special

import lucid
import lucid.nn.functional as F

INF, NAN = np.inf, np.nan


def repeated_norm(x):
    return np.linalg.norm(x, axis=1)


# name: (function, arguments, gradients of the sum, second derivatives of their sum or None)
LIMITS = {
    "hypot": (np.hypot, ([0.0, 3.0], [0.0, 4.0]), ([0, 0.6], [0, 0.8]), 1),
    "hypot of large": (np.hypot, ([3e200], [4e200]), ([0.6], [0.8]), 0),
    "arctan2": (np.arctan2, ([0.0, 1.0, 0.0], [0.0, 0.0, -1.0]), ([0, 0, -1], [0, -1, 0]), 1),
    "logaddexp": (
        np.logaddexp,
        ([-INF, -INF, 1e3, 0.0, 800.0], [-INF, 1.0, 1e3, 0.0, -800.0]),
        ([0.5, 0, 0.5, 0.5, 1], [0.5, 1, 0.5, 0.5, 0]),
        0,
    ),
    "logaddexp inf": (np.logaddexp, ([INF, INF], [INF, 1.0]), ([0.5, 1], [0.5, 0]), 0),
    "logaddexp2": (np.logaddexp2, ([-INF, 1e3], [-INF, 1e3]), ([0.5, 0.5], [0.5, 0.5]), 0),
    "logaddexp.reduce": (
        lambda x: np.logaddexp.reduce(x, axis=1),
        ([[-INF, -INF], [-INF, 1.0], [INF, 1.0]],),
        ([[0.5, 0.5], [0, 1], [1, 0]],),
        0,
    ),
    "xlogy": (
        special.xlogy,
        ([0.0, 0.0, 0.0, 2.0], [0.0, 2.0, -1.0, 1.0]),
        ([0, np.log(2), 0, 0], [0, 0, 0, 2]),
        1,
    ),
    "expit": (special.expit, ([-800.0, 0.0, 800.0],), ([0, 0.25, 0],), 0),
    "expit far out": (special.expit, ([40.0],), ([4.248354255291589e-18],), 1),
    "norm": (np.linalg.norm, ([0.0, 0.0],), ([0, 0],), 0),
    "norm axis": (repeated_norm, ([[0.0, 0.0], [3.0, 4.0]],), ([[0, 0], [0.6, 0.8]],), 1),
    "norm 1": (lambda x: np.linalg.norm(x, 1), ([0.0, -2.0],), ([0, -1],), 0),
    "norm inf": (lambda x: np.linalg.norm(x, INF), ([0.0, 2.0, -2.0],), ([0, 0.5, -0.5],), 0),
    "cumprod": (np.cumprod, ([2.0, 0.0, 3.0, 0.0, 5.0],), ([1, 8, 0, 0, 0],), 1),
    "sort": (
        lambda x: np.sort(x)[[0, 1, 1, 2, 2, 2, 3]],
        ([1.0, 0.0, 1.0, NAN],),
        ([2, 1, 3, 1],),
        0,
    ),
    "nan_to_num": (np.nan_to_num, ([NAN, INF, -INF, 2.0],), ([0, 0, 0, 1],), 0),
    "arcsinh of large": (np.arcsinh, ([1e200],), ([1e-200],), 0),
    "arccosh of large": (np.arccosh, ([1e200],), ([1e-200],), 0),
    "arcsin near 1": (np.arcsin, ([1 - 2.0**-50],), ([2.0**24.5 * (1 + 2.0**-53)],), 1),
    "relu": (F.relu, ([-INF, -1.0, -0.0, 0.0, INF, NAN],), ([0, 0, 0, 0, 1, 1],), 0),
}


@pytest.mark.parametrize("name", LIMITS)
def test_limits(name, leaf):
    fun, arrays, expected, curved = LIMITS[name]
    leaves = [leaf(np.array(a)) for a in arrays]
    y = fun(*leaves)
    reference = F.relu if fun is F.relu else fun
    np.testing.assert_allclose(
        y.detach(), reference(*map(np.array, arrays)), rtol=1e-14, atol=1e-300, equal_nan=True
    )
    ones = lucid.tensor(np.ones(y.shape)).to(y.device)
    gradients = lucid.grad(y, leaves, ones, create_graph=True)
    for g, e in zip(gradients, expected, strict=True):
        np.testing.assert_allclose(g.detach(), e, rtol=1e-12, atol=0)
    if curved:
        second = lucid.grad(sum(np.sum(g) for g in gradients), leaves, allow_unused=True)
        assert all(np.isfinite(s.numpy()).all() for s in second)


def test_relu_stops_infinite_gradients(leaf, array):
    x = leaf([-1.0, 0.0, 2.0])
    F.relu(x).backward(array([INF, NAN, INF]))
    np.testing.assert_array_equal(x.grad.data, [0, 0, INF])


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "g", ">f4"])
@pytest.mark.parametrize("change", [np.copy, np.transpose, lambda a: a[::2, 1:], lambda a: a[0, 0]])
def test_relu_of_each_type_and_layout(dtype, change):
    rng = np.random.default_rng(0)
    a, g = rng.normal(size=(2, 6, 5)).astype(dtype)
    x = lucid.tensor(change(a), requires_grad=True)
    y = F.relu(x)
    g = change(g).astype(y.dtype)
    y.backward(g)
    np.testing.assert_array_equal(x.grad.data, np.where(change(a) > 0, g, 0))
    assert y.dtype == x.grad.dtype == np.dtype(dtype).newbyteorder("=")


X = np.array([[1.0, 2.0], [3.0, 4.0]])
WRONG = {
    "norm p": (lambda t: np.linalg.norm(t[0], 3), TypeError, r"norm: there is no rule for ord=3"),
    "norm 2": (lambda t: np.linalg.norm(t, 2), TypeError, r"no rule for ord=2 of matrices"),
    "norm nuc": (lambda t: np.linalg.norm(t, "nuc"), TypeError, r"no rule for ord='nuc'"),
    "norm of vectors": (lambda t: np.linalg.norm(t[0], "fro"), ValueError, "number for vectors"),
    "norm of matrices": (lambda t: np.linalg.norm(t, 7), ValueError, "NumPy's orders .* got 7"),
    "norm axes": (lambda t: np.linalg.norm(t[None], 1), ValueError, "one or two axes, got 3"),
    "average axis": (lambda t: np.average(t, weights=[1, 2]), TypeError, "average: axis must be"),
    "average shape": (lambda t: np.average(t, 0, [1, 2, 3]), ValueError, r"\(2,\) .* got \(3,\)"),
    "repeat": (lambda t: np.repeat(t, [1, 2, 3], 0), ValueError, "broadcast"),
    "repeat negative": (lambda t: np.repeat(t, -1), ValueError, "negative"),
    "tile": (lambda t: np.tile(t, -1), ValueError, "egative"),
    "diff": (lambda t: np.diff(t, -1), ValueError, "n must not be negative, got -1"),
    "diff 0-d": (lambda t: np.diff(t[0, 0]), ValueError, "at least one axis"),
    "diag": (lambda t: np.diag(t[None]), ValueError, "one or two axes, got 3"),
    "diagonal": (lambda t: np.diagonal(t[0]), ValueError, "at least two axes, got 1"),
    "trace out": (lambda t: np.trace(t, out=np.zeros(())), TypeError, "trace: out= can't"),
    "hypot out": (lambda t: np.hypot(t, 1, out=X.copy()), TypeError, "hypot: out= can't"),
    "hypot where": (lambda t: np.hypot(t, 1, where=X > 1), TypeError, "hypot: where= can't"),
    "expit out": (lambda t: special.expit(t, out=X.copy()), TypeError, "expit: out= can't"),
    "along": (lambda t: np.take_along_axis(t, np.array([0]), 1), ValueError, "2 axes .* got 1"),
    "along None": (lambda t: np.take_along_axis(t, X > 1, None), IndexError, "integers, got bool"),
    "sort order": (lambda t: np.sort(t, order="f"), TypeError, "sort: order= can't"),
    "nan_to_num": (lambda t: np.nan_to_num(t, copy=False), TypeError, "copy= can't"),
    "einsum": (lambda t: np.einsum(t, [60, 1]), ValueError, "between 0 and 51, got 60"),
    "einsum number": (lambda t: np.einsum(t, 3), TypeError, "followed by a list, got int"),
    "accumulate": (np.logaddexp.accumulate, TypeError, r"numpy\.logaddexp\.accumulate: there is"),
    "no rule": (special.gammaln, TypeError, r"^scipy\.special\.gammaln: there is no rule"),
    "relu text": (lambda t: F.relu("a"), TypeError, "relu: input must be an array of numbers"),
    "softmax text": (lambda t: F.softmax(["a"]), TypeError, "softmax: input must .* got dtype <U1"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_arguments(name, leaf):
    call, error, match = WRONG[name]
    with pytest.raises(error, match=match):
        call(leaf(X))


def test_average_needs_weights():
    with pytest.raises(ZeroDivisionError, match="average: weights must not sum to zero"):
        np.average(lucid.tensor([1.0, 2.0]), weights=[1, -1])


def test_constants_of_other_types(tensor):
    integers = tensor([[3, 1], [2, 2]])
    for fun in (np.sort, np.diff, np.trace, np.cumprod, np.diag, np.average, np.linalg.norm):
        np.testing.assert_allclose(fun(integers), fun(integers.numpy()), rtol=1e-6)
    np.testing.assert_array_equal(np.diff(tensor([True, False, False])), [True, False])
    total, weights = np.average(lucid.tensor([1, 2]), weights=[1, 3], returned=True)
    assert (total.item(), weights.item()) == (1.75, 4)
    assert np.logaddexp.reduce(tensor(np.zeros((0, 2)))).numpy().tolist() == [-INF, -INF]
    np.testing.assert_array_equal(np.real(lucid.as_tensor(np.array([1j, 2]))), [0, 2])


def test_half_types_of_scipy_come_out_as_scipys():
    x = np.array([0.5, 2], np.float16)
    for fun, args in ((special.expit, [x]), (special.xlogy, [x, x])):
        ours, theirs = fun(*map(lucid.as_tensor, args)), fun(*args)
        assert ours.dtype == theirs.dtype
        np.testing.assert_allclose(ours, theirs, rtol=1e-6)


def test_rules_for_scipy_do_not_import_it():
    code = "import sys, lucid; assert 'scipy.special' not in sys.modules"
    subprocess.run([sys.executable, "-P", "-c", code], check=True)
