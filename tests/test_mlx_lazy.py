"""MLX is lazy: what is kept is computed, nothing is waited for, passes over memory are few."""

import functools
import shutil
import threading
from pathlib import Path

import numpy as np
import pytest

import lucid
import lucid.nn.functional as F
from lucid import nn

mx = pytest.importorskip("mlx.core")

from mlx_passes import passes  # noqa: E402
from test_rules import elementwise, others  # noqa: E402

from lucid.backends import mlx as backend  # noqa: E402

rng = np.random.default_rng(0)
STATM = Path("/proc/self/statm")


def tensor(*shape, **options):
    return lucid.tensor(rng.standard_normal(shape).astype("f4"), device="gpu", **options)


def in_thread(function):
    """Return what `function` returns, or raises, in another thread."""
    result = []

    def run():
        try:
            result.append(function())
        except RuntimeError as error:
            result.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return result[0]


def resident():
    """Bytes of memory in use by this process."""
    if not STATM.exists():
        pytest.skip("needs /proc")
    return int(STATM.read_text().split()[1]) * 4096


def steps_behind(array, path):
    """Return how many steps MLX has yet to make, or has not forgotten, for `array`."""
    mx.export_to_dot(str(path), array)
    return path.read_text().count("shape=rectangle")


@pytest.mark.parametrize(("as_tensor", "steps"), [(True, 10_000), (False, 1_000)])
def test_many_steps_without_reading_anything(as_tensor, steps, tmp_path):
    arrays = [mx.zeros(2), mx.ones(2)]
    x, running = tensor(4, 2), [lucid.as_tensor(a) if as_tensor else a for a in arrays]
    memory = []
    for step in range(steps):
        F.batch_norm(x, *running, training=True)
        if step in (100, steps - 1):
            memory.append(resident())
    assert memory[1] - memory[0] < 0.5e3 * steps  # a growing graph takes more than 2 kB a step
    mx.synchronize()
    assert all(steps_behind(a, tmp_path / "graph") == 0 for a in arrays)
    np.testing.assert_allclose(np.array(arrays[0]), x.numpy().mean(axis=0), rtol=1e-5)


def test_a_training_step_builds_no_graph_on_the_one_before(tmp_path):
    model = nn.Sequential(nn.Linear(4, 8, rng=0), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2))
    model.to("gpu")
    x = tensor(16, 4)
    sizes = []
    for _ in range(5):
        loss = np.mean(model(x) ** 2)
        loss.backward()
        sizes.append(steps_behind(loss.data, tmp_path / "graph"))
        for p in model.parameters():
            p.copy_(p.data - 0.1 * p.grad.data)  # gradients add up, without a graph of their own
    assert len(set(sizes[1:])) == 1
    mx.synchronize()
    for t in (*model.parameters(), *model.buffers()):
        assert steps_behind(t.data, tmp_path / "graph") == 0
    assert model.state_dict()["1.num_batches_tracked"] == 5


def test_what_a_step_leaves_may_be_used_from_another_thread():
    model = nn.Sequential(nn.Linear(4, 8, rng=0), nn.BatchNorm1d(8)).to("gpu")
    x = tensor(16, 4)
    y = model(x)
    (y * y).sum().backward()
    for p in model.parameters():
        p.copy_(p.data - 0.1 * p.grad.data)
    state = in_thread(model.state_dict)
    for name, value in model.state_dict().items():
        np.testing.assert_array_equal(state[name], value)
    z = F.batch_norm(x, mx.zeros(4), mx.ones(4), training=True)
    np.testing.assert_allclose(in_thread(z.numpy).mean(axis=0), 0, atol=1e-6)
    evaluated = in_thread(lambda: model.eval()(x).detach().numpy())
    np.testing.assert_allclose(evaluated, model(x).detach().numpy(), rtol=1e-5, atol=1e-6)


def test_independent_threads():
    def work(seed=0):
        x = lucid.tensor(np.random.default_rng(seed).normal(size=(50, 3)), device="gpu")
        x = x.astype("float32")
        x.requires_grad = True
        y = F.batch_norm(x, mx.zeros(3), mx.ones(3), training=True)
        (y**3).sum().backward()
        return x.grad.numpy()

    if mx.default_device().type == mx.gpu:
        pytest.skip("float64")
    np.testing.assert_allclose(in_thread(work), work(), rtol=1e-5)


def traced(function, *arrays):
    """Call `function` where MLX refuses to compute, so that whatever waits for a value raises."""
    return mx.compile(function)(*[mx.array(a) for a in arrays])


READING = {
    "repr": repr,
    "item": lambda t: t.sum().item(),
    "numpy": lambda t: t.numpy(),
    "to": lambda t: t.to("cpu"),
    "float": lambda t: float(t.sum()),
    "bool": lambda t: bool(t.sum()),
    "mask": lambda t: t[t > 0],  # has to know how many there are
}


@pytest.mark.parametrize("name", READING)
def test_reading_waits(name):
    with pytest.raises(ValueError, match="eval an array during"):
        traced(lambda x: READING[name](lucid.as_tensor(x)), np.ones(3, "f4"))


@pytest.mark.parametrize(
    ("fun", "arrays"),
    [p for p in elementwise + others if not p.id.endswith(("astype", "index tensor mask"))],
)
def test_no_rule_waits(fun, arrays):
    arrays = [a.data if isinstance(a, lucid.Tensor) else a for a in arrays]
    traced_ones = [i for i, a in enumerate(arrays) if a.dtype == float]

    def derivatives(*floating):
        inputs = [lucid.tensor(a, device="gpu") for a in arrays]
        for i, a in zip(traced_ones, floating, strict=True):
            inputs[i] = lucid.Tensor(a, requires_grad=True)
        results = fun(*inputs)
        results = [results] if isinstance(results, lucid.Tensor) else results
        wanted = [inputs[i] for i in traced_ones]
        first = lucid.grad(
            results,
            wanted,
            [np.ones_like(y) for y in results],
            create_graph=True,
            allow_unused=True,
        )
        first = [g for g in first if g is not None and g.requires_grad]
        second = lucid.grad(first, wanted, first, allow_unused=True) if first else []
        return [t.data for t in (*results, *first, *second) if t is not None]

    assert traced(derivatives, *[arrays[i].astype("f4") for i in traced_ones])


@pytest.mark.parametrize("momentum", [0.1, None])
def test_a_training_step_waits_for_nothing(momentum, monkeypatch, tmp_path):
    model = nn.Sequential(
        nn.Linear(4, 8), nn.BatchNorm1d(8, momentum=momentum), nn.ReLU(), nn.Linear(8, 3)
    ).to("gpu")
    labels, scheduled = rng.integers(0, 3, 16), []
    monkeypatch.setattr(mx, "async_eval", lambda *arrays: scheduled.extend(arrays))

    def steps(x, labels_on_gpu):
        for target in (labels, labels_on_gpu):
            loss = F.cross_entropy(model(lucid.as_tensor(x)), target)
            loss.backward()
            for p in model.parameters():
                p.copy_(p.data - 0.1 * p.grad.data)
            model.zero_grad()
            # The next step reads it.
            assert steps_behind(model[1].num_batches_tracked.data, tmp_path / "graph") == 0
        mean, var = lucid.mean_var(x, axis=0)
        return loss.data, lucid.std(x), mean, var, model.eval()(lucid.as_tensor(x)).data

    assert traced(steps, rng.standard_normal((16, 4)).astype("f4"), labels)
    assert scheduled


# What is read and written of arrays as large as x, in arrays: eagerly, and compiled.
PASSES = {
    "mean": ((1, 0), (1, 0)),
    "mean_var": ((5, 2), (5, 2)),
    "forward": ((8, 5), (6, 3)),
    "inference": ((3, 3), (1, 1)),
    "backward": ((11, 7), (7, 3)),
    "backward of inference": ((7, 4), (5, 2)),
    "double backward": ((26, 15), (17, 6)),
}


def calls():
    shape = 16, 8, 32, 32
    x, dy, v = (mx.array(rng.standard_normal(shape).astype("f4")) for _ in range(3))
    weight, bias, mean, var, rest = (mx.ones(8) for _ in range(5))
    momentum, eps, needs = mx.array(0.1), mx.array(1e-5), (True, True, True)
    axes = 0, 2, 3
    return {
        "mean": ([x], backend._mean, (axes, False), (x,)),
        "mean_var": ([x], backend._mean_var, (axes, 0, False), (x,)),
        "forward": ([x], backend._forward, (1,), (x, weight, bias, mean, var, momentum, eps)),
        "inference": ([x], backend._inference, (1,), (x, weight, bias, mean, var, eps)),
        "backward": (
            [x, dy], backend._backward, (1, True, needs), (dy, x, weight, bias, mean, rest, var)
        ),
        "backward of inference": (
            [x, dy], backend._backward, (1, False, needs), (dy, x, weight, bias, mean, None, var)
        ),
        "double backward": (
            [x, dy, v],
            backend._double_backward,
            (1, True, needs),
            (v, weight, bias, dy, x, weight, mean, rest, var),
        ),
    }  # fmt: skip


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("name", PASSES)
def test_passes_over_memory(name, compiled, tmp_path):
    large, function, static, args = calls()[name]
    mx.eval(large, [a for a in args if a is not None])
    bound = functools.partial(function, *static)
    results = flat((mx.compile(bound) if compiled else bound)(*args))
    reads, writes = passes(tmp_path / "graph", large, results)
    assert reads <= PASSES[name][compiled][0]
    assert writes <= PASSES[name][compiled][1]


def flat(tree):
    if isinstance(tree, (tuple, list)):
        return [a for branch in tree for a in flat(branch)]
    return [] if tree is None else [tree]


@pytest.mark.skipif(not shutil.which("g++"), reason="MLX compiles with g++ on its CPU device")
@pytest.mark.parametrize("name", ["forward", "backward"])
def test_compiled_functions_give_the_same(name):
    _, function, static, args = calls()[name]
    bound = functools.partial(function, *static)
    for a, b in zip(flat(bound(*args)), flat(mx.compile(bound)(*args)), strict=True):
        np.testing.assert_allclose(np.array(a), np.array(b), rtol=2e-5, atol=2e-5)


def test_compiled_on_a_gpu_only(monkeypatch):
    compiled = []
    monkeypatch.setattr(mx, "compile", lambda f: compiled.append(f) or f)
    for gpu in (False, True):
        monkeypatch.setattr(backend, "on_gpu", lambda gpu=gpu: gpu)
        backend._compiled.cache_clear()
        for _ in range(3):
            lucid.mean(mx.ones((3, 4)), axis=0)
        assert len(compiled) == gpu
    backend._compiled.cache_clear()


def test_transformations_of_mlx():
    x, weight = mx.array(rng.standard_normal((8, 3)).astype("f4")), mx.array([1.0, 2.0, -3.0])

    def loss(x, weight):
        return mx.sum(F.batch_norm(x, None, None, weight, training=True) ** 3)

    t, w = lucid.Tensor(x, True), lucid.Tensor(weight, True)
    (F.batch_norm(t, None, None, w, training=True) ** 3).sum().backward()
    for expected, found in zip(mx.grad(loss, (0, 1))(x, weight), (t, w), strict=True):
        np.testing.assert_allclose(np.array(expected), found.grad, rtol=1e-4, atol=1e-4)

    mean, var = mx.zeros(3), mx.ones(3)
    with pytest.raises(ValueError, match="inside a graph transformation"):
        mx.grad(lambda x: mx.sum(F.batch_norm(x, mean, var, training=True)))(x)
    assert (mean.tolist(), var.tolist()) == ([0, 0, 0], [1, 1, 1])
