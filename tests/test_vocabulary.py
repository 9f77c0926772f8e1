"""The names and promises of the design, row by row."""

import dataclasses
import doctest
import gc
import weakref

import numpy as np
import pytest

import lucid
import lucid.nn.functional as F
from lucid import nn
from lucid.autograd import AmpPolicy, OpSchema
from lucid.backends import cpu
from lucid.ops.batch_norm import BatchNorm1d, BatchNorm2d, BatchNorm3d, BatchNormNd
from lucid.ops.mean import Mean

rng = np.random.default_rng(0)
BATCH_NORMS = [
    ((8, 3), "1d", "batch_norm1d", BatchNorm1d),
    ((8, 3, 4), "1d", "batch_norm1d", BatchNorm1d),
    ((2, 3, 4, 5), "2d", "batch_norm", BatchNorm2d),
    ((2, 3, 4, 5, 6), "3d", "batch_norm3d", BatchNorm3d),
]


def leaf(shape):
    return lucid.tensor(rng.normal(size=shape), requires_grad=True)


@pytest.fixture
def calls(monkeypatch):
    """The names of the backend functions called, in order."""
    names = []

    def recorded(name, function):
        def call(*args, **kwargs):
            names.append(name)
            return function(*args, **kwargs)

        return call

    for name in dir(cpu):
        if name.startswith(("batch_norm", "reduce_mean", "mean_var")):
            monkeypatch.setattr(cpu, name, recorded(name, getattr(cpu, name)))
    return names


def test_mean_node():
    y = lucid.mean(leaf((4, 5)), axis=(0, 1), keepdims=True)
    assert y.grad_fn.name == "MeanBackward"
    assert y.grad_fn.schema_v1 is Mean.schema_v1
    assert y.shape == (1, 1)


def test_mean_schema():
    assert Mean.schema_v1 == OpSchema("mean", 1, AmpPolicy.PROMOTE, produces_grad=True)
    assert dataclasses.is_dataclass(OpSchema)
    with pytest.raises(dataclasses.FrozenInstanceError):
        Mean.schema_v1.version = 2
    assert lucid.ops.schemas()["mean"] is Mean.schema_v1


def test_mean_keeps_no_input_alive():
    assert Mean.saves_input is False
    x = leaf((4, 5))
    inner = x * 2
    array = weakref.ref(inner.data)
    y = lucid.mean(inner)
    del inner
    gc.collect()
    assert array() is None
    y.backward()
    np.testing.assert_array_equal(x.grad.data, np.full((4, 5), 2 / 20))


@pytest.mark.parametrize("wrap", [np.asarray, lucid.tensor])
def test_empty_mean_is_nan_with_numpys_warning(wrap):
    with np.errstate(invalid="ignore"), pytest.warns(RuntimeWarning, match="empty slice"):
        assert np.isnan(lucid.mean(wrap(np.empty((0,)))).item())


def test_mean_goes_through_the_backend(calls):
    lucid.mean(leaf((4, 5)), axis=0)
    assert calls == ["reduce_mean"]


def test_mean_gradient_is_a_broadcast_view_of_the_scaled_one():
    x = leaf((4, 5))
    y = lucid.mean(x, axis=0)
    (g,) = lucid.grad(y, x, np.arange(5.0))
    np.testing.assert_array_equal(g.data, np.broadcast_to(np.arange(5.0) / 4, (4, 5)))
    assert g.data.strides[0] == 0


def test_second_order_flows_through_the_division():
    x = leaf((4,))
    (g,) = lucid.grad(lucid.mean(x * x * x), x, create_graph=True)
    (h,) = lucid.grad(np.sum(g), x)
    np.testing.assert_allclose(h.data, 6 * x.data / 4)


@pytest.mark.parametrize(("shape", "rank", "name", "function"), BATCH_NORMS)
def test_batch_norm_node(shape, rank, name, function):
    x, weight, bias = leaf(shape), leaf((3,)), leaf((3,))
    y = F.batch_norm(x, None, None, weight, bias, training=True, eps=1e-3)
    node = y.grad_fn
    assert node.name == f"BatchNorm{rank}Backward"
    assert node.schema_v1 is function.schema_v1 is lucid.ops.schemas()[name]
    assert function.schema_v1 == OpSchema(name, 1, AmpPolicy.FORCE_FP32)
    assert issubclass(function, BatchNormNd)
    axes = tuple(i for i in range(len(shape)) if i != 1)
    assert node.saved_mean.shape == node.saved_rstd.shape == (3,)
    np.testing.assert_allclose(node.saved_mean, x.data.mean(axis=axes))
    np.testing.assert_allclose(node.saved_rstd, 1 / np.sqrt(x.data.var(axis=axes) + 1e-3))
    assert (node.batch, node.channels) == shape[:2]
    assert node.spatial == np.prod(shape[2:], dtype=int)
    assert node.eps == 1e-3
    saved_x, gamma, beta = node.saved_tensors
    assert saved_x.data is x.data  # no copy, and no normalized one
    np.testing.assert_array_equal(gamma.data, weight.data)
    np.testing.assert_array_equal(beta.data, bias.data)
    (dx,) = lucid.grad(y, x, np.ones(shape), create_graph=True)
    assert dx.grad_fn is None or dx.grad_fn.name == f"BatchNorm{rank}GradBackward"


def test_each_order_is_a_single_fused_call(calls):
    x, weight, bias = leaf((2, 3, 4, 5)), leaf((3,)), leaf((3,))
    mean, var = np.zeros(3), np.ones(3)
    y = F.batch_norm(x, mean, var, weight, bias, training=True)
    assert calls == ["batch_norm_forward"]
    assert mean.any()
    calls.clear()
    first = lucid.grad(y, (x, weight, bias), leaf(y.shape), create_graph=True)
    assert calls == ["batch_norm_backward"]
    calls.clear()
    lucid.grad(first, (x, weight), [np.ones(t.shape) for t in first])
    assert calls == ["batch_norm_double_backward"]
    calls.clear()
    F.batch_norm(x, mean, var, weight, bias)
    assert calls == ["batch_norm_inference"]


def test_running_average():
    """Momentum weighs the new value; n / (n - 1) is on the running variance only."""
    x = rng.normal(size=(5, 2))
    mean, var = np.array([1.0, 2.0]), np.array([3.0, 4.0])
    y = F.batch_norm(x, mean, var, training=True, momentum=0.25, eps=0.0)
    np.testing.assert_allclose(mean, 0.75 * np.array([1, 2]) + 0.25 * x.mean(axis=0))
    np.testing.assert_allclose(var, 0.75 * np.array([3, 4]) + 0.25 * x.var(axis=0, ddof=1))
    np.testing.assert_allclose(y.std(axis=0), 1)


@pytest.mark.parametrize("momentum", [None, np.nan, np.inf])
def test_momentum_must_be_finite_but_the_module_averages_cumulatively(momentum):
    x = rng.normal(size=(5, 2))
    with pytest.raises(ValueError, match="batch_norm: momentum must be a finite number"):
        F.batch_norm(x, np.zeros(2), np.ones(2), training=True, momentum=momentum)
    bn = nn.BatchNorm1d(2, momentum=None)
    bn(x)
    bn(x + 2)
    np.testing.assert_allclose(bn.running_mean.data, x.mean(axis=0) + 1, rtol=1e-6)


def test_grad_mode():
    x = leaf((2,))
    with lucid.no_grad():
        assert not lucid.is_grad_enabled()
        with lucid.enable_grad():
            assert (x * 2).requires_grad
        assert not (x * 2).requires_grad
    assert lucid.is_grad_enabled()


def test_thread_safety_is_documented():
    assert "by one thread" in lucid.autograd.Function.__doc__


@pytest.mark.parametrize(
    "function",
    [lucid.mean, lucid.var, lucid.std, lucid.mean_var, F.batch_norm, lucid.set_cache_limit,
     lucid.cache_info, lucid.clear_cache],
    ids=lambda f: f.__name__,
)  # fmt: skip
def test_examples_of_compiled_functions(function):
    """Pytest collects those of Python files only."""
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    (examples,) = doctest.DocTestFinder(recurse=False).find(function, module=False, globs={})
    assert runner.run(examples).attempted > 0
    assert runner.summarize().failed == 0
