"""Batch normalization of MLX arrays: accuracy, axes, types, buffers, errors, gradients."""

import batch_norm_reference as reference
import numpy as np
import pytest
from test_batch_norm_errors import BAD

import lucid
import lucid.nn.functional as F

mx = pytest.importorskip("mlx.core")

from lucid.backends import mlx as backend  # noqa: E402

rng = np.random.default_rng(0)


def error(y, expected):
    return float(np.abs(np.asarray(y, np.longdouble) - expected).max())


def numbers(*shape, mean=0.0, std=1.0):
    return rng.normal(mean, std, shape).astype("f4")


@pytest.mark.parametrize("shape", [(8, 3), (4, 3, 5), (4, 3, 5, 6), (2, 3, 4, 3, 5)], ids=len)
@pytest.mark.parametrize("axis", range(-1, 3))
def test_values_and_statistics_on_any_axis(shape, axis):
    if axis >= len(shape):
        pytest.skip("no such axis")
    x = np.moveaxis(numbers(*shape, mean=5, std=3), 1, axis)
    weight, bias, running_mean, running_var = rng.uniform(0.5, 2, (4, 3)).astype("f4")
    options = {"eps": 1e-3, "channel_axis": axis}
    m, v = mx.array(running_mean), mx.array(running_var)
    vectors = mx.array(weight), mx.array(bias)

    y = F.batch_norm(mx.array(x), m, v, *vectors, training=True, momentum=0.3, **options)
    assert isinstance(y, mx.array)
    assert y.dtype == mx.float32
    assert error(y, reference.forward(x, weight, bias, **options)) <= 4e-6
    mean, var = reference.statistics(x, axis)
    n = x.size // 3
    assert error(m, 0.7 * running_mean + 0.3 * mean) <= 1e-6
    assert error(v, 0.7 * running_var + 0.3 * var * n / (n - 1)) <= 1e-5

    y = F.batch_norm(mx.array(x), m, v, *vectors, **options)
    mean, var = np.array(m, float), np.array(v, float)
    assert error(y, reference.forward(x, weight, bias, mean=mean, var=var, **options)) <= 4e-6


@pytest.mark.parametrize(("mean", "std"), [(0, 1), (1e2, 1e-2), (1e4, 1), (-1e6, 1), (0, 1e30)])
def test_accuracy_at_an_offset(mean, std):
    x = numbers(16, 3, 20, 20, mean=mean, std=std)
    dy, weight, bias = numbers(*x.shape), np.array([1, 2, -3], "f4"), np.array([0, 0.5, 2], "f4")
    leaves = [lucid.tensor(a, True, device="gpu") for a in (x, weight, bias)]
    running = mx.zeros(3), mx.zeros(3)
    y = F.batch_norm(leaves[0], *running, *leaves[1:], training=True, momentum=1, eps=1e-12)
    assert error(y.detach(), reference.forward(x, weight, bias, eps=1e-12)) <= 4e-6 * 3
    true_mean, true_var = reference.statistics(x)
    assert error(running[0], true_mean) <= 1e-7 * abs(mean) + 1e-6 * std
    if std < 1e18:  # its square has to be a float32
        assert error(running[1], true_var * x.size / (x.size - 3)) <= 1e-5 * std**2
    y.backward(lucid.tensor(dy, device="gpu"))
    expected = reference.backward(dy, x, weight, eps=1e-12)
    for t, e in zip(leaves, expected, strict=True):
        assert error(t.grad, e) <= 1e-5 * float(np.abs(e).max())


def test_a_million_values_at_mean_1000():
    x = numbers(1_000_000, 2, mean=1000)
    y = F.batch_norm(mx.array(x), None, None, training=True)
    assert error(y, reference.forward(x)) <= 1e-5


def test_constant_channel_gives_exactly_the_bias():
    x = np.full((7, 3, 25, 5), 1 / 3, "f4") * np.array([1, 1e6, -1e30], "f4")[:, None, None]
    bias = np.array([0.1, -2.7, 1e-3], "f4")
    weight = mx.array([3.0, 5.0, 7.0])
    y = F.batch_norm(mx.array(x), None, None, weight, mx.array(bias), training=True)
    np.testing.assert_array_equal(np.array(y), np.broadcast_to(bias[:, None, None], x.shape))


def test_tiny_values_without_eps():
    x = numbers(64, 3, std=1e-15)
    y = F.batch_norm(mx.array(x), None, None, training=True, eps=0.0)
    assert error(y, reference.forward(x, eps=0)) <= 4e-6


def test_nan_and_inf_stay_in_their_channel():
    x = numbers(8, 3)
    x[2, 0], x[5, 1] = np.nan, np.inf
    m, v = mx.zeros(3), mx.ones(3)
    y = np.array(F.batch_norm(mx.array(x), m, v, training=True))
    assert np.isnan(y[:, 0]).all()
    assert np.isnan(y[5, 1])
    assert np.isfinite(y[:, 2]).all()
    assert np.isinf(np.array(m)[1])


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_half_types_in_and_out(name):
    x = mx.array(numbers(64, 3, 7, mean=100, std=5)).astype(getattr(mx, name))
    wide = np.array(x.astype(mx.float32))
    t = lucid.Tensor(x, requires_grad=True)
    m, v = mx.zeros(3, mx.float16), mx.ones(3)
    y = F.batch_norm(t, m, v, training=True, momentum=1)
    assert (y.dtype, m.dtype, v.dtype) == (x.dtype, mx.float16, mx.float32)
    rounding = 2.0 ** (-11 if name == "float16" else -8) * 1.01
    assert error(y.detach().astype("float32"), reference.forward(wide)) <= 4 * rounding
    y.backward(lucid.Tensor(x))
    dx = reference.backward(wide, wide)[0]
    assert t.grad.dtype == x.dtype
    assert error(t.grad.astype("float32"), dx) <= rounding * float(np.abs(dx).max()) + 1e-4


@pytest.mark.parametrize("dtype", ["int32", "bool"])
def test_integers_become_float32(dtype):
    x = rng.integers(0, 2, (50, 3)).astype(dtype)
    y = F.batch_norm(mx.array(x), None, None, training=True)
    assert y.dtype == mx.float32
    assert error(y, reference.forward(x)) <= 4e-6


def test_empty_batch():
    mean, var = mx.array([1.0, 2, 3]), mx.array([4.0, 5, 6])
    x = lucid.tensor(np.zeros((0, 3), "f4"), requires_grad=True, device="gpu")
    y = F.batch_norm(x, mean, var, mx.ones(3), training=True)
    assert y.shape == (0, 3)
    assert (mean.tolist(), var.tolist()) == ([1, 2, 3], [4, 5, 6])
    y.backward(lucid.tensor(np.zeros((0, 3), "f4"), device="gpu"))
    assert x.grad.shape == (0, 3)


def on_gpu(value):
    """The MLX array of an ndarray that MLX has a type for, else what was given."""
    if isinstance(value, np.ndarray) and value.dtype.kind in "iuf":
        return mx.array(value, mx.float32 if value.dtype.kind == "f" else None)
    return value


# What MLX does not have: read-only arrays, views that share memory, and these types.
NUMPY_ONLY = (
    "read-only",
    "complex",
    "text",
    "object",
    "one ",
    "overlapping",
    "elements",
    "buffers",
)


@pytest.mark.parametrize("name", [n for n in BAD if not n.startswith(NUMPY_ONLY)])
def test_errors_are_those_of_the_cpu(name):
    changes, kind, match = BAD[name]
    arguments = {
        "input": np.arange(24.0).reshape(8, 3),
        "running_mean": np.zeros(3),
        "running_var": np.ones(3),
        "training": True,
    } | changes
    arguments = {k: on_gpu(v) for k, v in arguments.items()}
    before = {k: np.array(v) for k, v in arguments.items() if isinstance(v, mx.array)}
    if np.isscalar(arguments["input"]) or np.isscalar(arguments.get("weight", ())):
        pytest.skip("a scalar is on no device")
    with pytest.raises(kind, match=f"^batch_norm: .*{match.replace('int64', '.*int64')}"):
        F.batch_norm(**arguments)
    for k, v in before.items():
        np.testing.assert_array_equal(np.array(arguments[k]), v)


@pytest.mark.parametrize("name", ["running_mean", "running_var", "weight", "bias"])
def test_devices_do_not_mix(name):
    x, vectors = mx.ones((4, 3)), {"running_mean": mx.zeros(3), "running_var": mx.ones(3)}
    with pytest.raises(TypeError, match=f"{name} must be on the device of input, gpu, got cpu"):
        F.batch_norm(x, **vectors | {name: np.ones(3, "f4")}, training=True)
    vectors = {"running_mean": np.zeros(3), "running_var": np.ones(3)}
    with pytest.raises(TypeError, match=f"{name} must be on the device of input, cpu, got gpu"):
        F.batch_norm(np.ones((4, 3)), **vectors | {name: mx.ones(3)}, training=True)


@pytest.mark.parametrize("block", [2**19, 48], ids=["whole", "in blocks"])
def test_second_order_is_that_of_the_cpu(block, monkeypatch):
    monkeypatch.setattr(backend, "_BLOCK", block)
    x, weight, dy = numbers(16, 3, 8, mean=1e4), numbers(3), numbers(16, 3, 8)
    found = {}
    for device in ("cpu", "gpu"):
        t, w, g = (lucid.tensor(a, True, device=device) for a in (x, weight, dy))
        y = F.batch_norm(t, None, None, w, training=True)
        first = lucid.grad(y, (t, w), g, create_graph=True)
        found[device] = lucid.grad(sum(np.sum(d * d) for d in first), (t, w, g))
    for a, b in zip(found["cpu"], found["gpu"], strict=True):
        np.testing.assert_allclose(b.numpy(), a.numpy(), atol=1e-5 * np.abs(a.numpy()).max())


@pytest.mark.parametrize("dtype", ["f4", "f2"])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_blocks_are_not_seen(axis, dtype, monkeypatch):
    """Large arrays are taken in blocks along the first axis; the last one is shorter."""
    shape = [7, 5, 6]
    shape[axis] = 3
    x, dy, v = (rng.normal(3, 2, shape).astype(dtype) for _ in range(3))
    found = []
    for block in (2**19, 20):
        monkeypatch.setattr(backend, "_BLOCK", block)
        leaves = [lucid.tensor(a, True, device="gpu") for a in (x, numbers(3) * 0 + 2, dy)]
        running = mx.zeros(3), mx.ones(3)
        for training in (True, False):
            y = F.batch_norm(leaves[0], *running, leaves[1], training=training, channel_axis=axis)
            first = lucid.grad(y, leaves[:2], leaves[2], create_graph=True)
            seeds = [lucid.tensor(v, device="gpu"), mx.ones(3)]
            found.append([y, *first, *lucid.grad(first, leaves, seeds)])
        found.append([lucid.as_tensor(r) for r in running])
    for one, other in zip(found[:3], found[3:], strict=True):
        for a, b in zip(one, other, strict=True):
            a, b = (t.detach().astype("f4").numpy() for t in (a, b))
            np.testing.assert_allclose(a, b, rtol=2e-3 if dtype == "f2" else 1e-5, atol=1e-4)


def test_nothing_written_later_changes_the_gradient():
    x = lucid.tensor(numbers(8, 3), True, device="gpu")
    weight, mean = mx.array([1.0, 2, 3]), mx.zeros(3)
    y = F.batch_norm(x, mean, mx.ones(3), weight)
    weight[...], mean[...] = mx.zeros(3), mx.ones(3)
    y.backward(lucid.tensor(np.ones((8, 3), "f4"), device="gpu"))
    np.testing.assert_allclose(x.grad.numpy()[0], np.array([1, 2, 3]), rtol=1e-5)
