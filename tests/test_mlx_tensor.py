"""Tensors and modules on the gpu: moving there and back, types, errors, state dicts."""

import copy
import operator
import pickle
import subprocess
import sys

import numpy as np
import pytest

import lucid
import lucid.nn.functional as F
from lucid import nn

mx = pytest.importorskip("mlx.core")

from lucid.backends import mlx_numpy  # noqa: E402

rng = np.random.default_rng(0)


def test_there_and_back():
    x = lucid.tensor([1.0, 2.0], requires_grad=True, dtype="float32")
    y = x.to("gpu")
    assert (x.device, y.device, y.dtype) == ("cpu", "gpu", mx.float32)
    assert y.to("gpu") is y
    z = (y * y).to("cpu")
    assert z.device == "cpu"
    (g,) = lucid.grad(z.sum(), x, create_graph=True)
    assert g.device == "cpu"
    np.testing.assert_array_equal(g.detach(), [2.0, 4.0])
    assert lucid.grad(g.sum(), x)[0].numpy().tolist() == [2, 2]


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6.0, dtype="f4")[::-1],
        np.arange(6, dtype=">i4"),
        np.arange(12, dtype="f2").reshape(3, 4).T,
        np.arange(24, dtype=">f4").reshape(2, 3, 4)[:, ::-2],
        np.array([True, False]),
        np.zeros((3, 0), "f4"),
        np.float32(2.5),
        np.arange(5, dtype="u8"),
    ],
    ids=str,
)
def test_any_layout_and_byte_order(array):
    t = lucid.tensor(array, device="gpu")
    assert isinstance(t.data, mx.array)
    np.testing.assert_array_equal(t.numpy(), array)
    assert t.numpy().dtype == array.dtype.newbyteorder("=")


def test_no_views_are_handed_out():
    x = lucid.tensor(np.ones(3, "f4"), device="gpu")
    for convert in (lambda t: t.numpy(), np.asarray, np.array, lambda t: t.to("cpu").data):
        convert(x)[:] = 7
        assert x.data.tolist() == [1, 1, 1]
    with pytest.raises(ValueError, match="without a copy"):
        np.asarray(x, copy=False)
    source = np.ones(3, "f4")
    t = lucid.tensor(source, device="gpu")
    source[:] = 2
    assert t.data.tolist() == [1, 1, 1]
    model = nn.Linear(2, 2, device="gpu")
    model.state_dict()["bias"][:] = 100
    assert max(model.bias.numpy() if not model.bias.requires_grad else model.bias.data.tolist()) < 2


def test_tensor_of_an_mlx_array_is_a_copy():
    a = mx.zeros(3)
    t, s = lucid.tensor(a), lucid.as_tensor(a)
    a[...] = mx.ones(3)
    assert t.data.tolist() == [0, 0, 0]
    assert s.data is a


def test_numbers_and_text():
    x = lucid.tensor(np.float32([[2.5]]), True, device="gpu")
    assert (x.item(), bool(x), len(x), x.ndim, x.size) == (2.5, True, 1, 2, 1)
    assert (float(x.detach()), int(x.detach())) == (2.5, 2)
    assert [10, 20, 30][np.argmax(lucid.tensor(np.float32([0, 3, 1]), device="gpu"))] == 20
    text = "tensor([[2.5]], dtype=float32, device='gpu', requires_grad=True)"
    assert repr(x) == text
    assert "grad_fn=<MultiplyBackward>" in repr(x * 2)
    assert repr(lucid.tensor([1, 2], device="gpu")) == "tensor([1, 2], device='gpu')"


@pytest.mark.parametrize(
    "duplicate", [copy.copy, copy.deepcopy, lambda t: pickle.loads(pickle.dumps(t))]
)
def test_copying_leaves(duplicate):
    x = lucid.tensor(np.float32([1, 2]), True, device="gpu")
    (x * x).sum().backward()
    y = duplicate(x)
    assert (y.device, y.requires_grad, y.grad.data.tolist()) == ("gpu", True, [2, 4])
    if duplicate is not copy.copy:
        y.copy_(0)
        assert x.data.tolist() == [1, 2]


def test_copy_():
    x = lucid.tensor(np.float32([1, 2]), True, device="gpu")
    array = x.data
    for source, expected in [
        (3, [3, 3]),
        (np.arange(2.0)[::-1], [1, 0]),
        (mx.array([5, 6]), [5, 6]),
        ([7.0, 8.0], [7, 8]),
        (lucid.tensor(9.0), [9, 9]),
    ]:
        assert x.copy_(source) is x
        assert x.data is array
        assert (array.dtype, array.tolist()) == (mx.float32, expected)
    y = x * x
    x.copy_(0)
    with pytest.raises(RuntimeError, match="changed since by copy_"):
        y.sum().backward()
    with pytest.raises(ValueError, match="broadcast"):
        x.copy_([1.0, 2.0, 3.0])


def test_gradients_add_up():
    x = lucid.tensor(np.float32([1, 2]), True, device="gpu")
    for _ in range(3):
        (x * x).sum().backward()
    assert x.grad.data.tolist() == [6, 12]
    y = x * 2
    ((y + y + y) * y).sum().backward()
    assert x.grad.data.tolist() == [30, 60]


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_half_types(name):
    dtype = getattr(mx, name)
    x = lucid.tensor([1.0, 2.5], True, dtype=name, device="gpu")
    assert (x.dtype, lucid.tensor([1.0], dtype=dtype, device="gpu").dtype) == (dtype, dtype)
    (x * x).sum().backward()
    assert (x.grad.dtype, x.grad.data.tolist()) == (dtype, [2, 5])
    assert x.astype("float32").astype(name).dtype == dtype
    assert "1" in repr(x)
    pytest.importorskip("ml_dtypes")
    array = x.detach().numpy()
    assert array.dtype.name == name
    assert array.astype(float).tolist() == [1, 2.5]
    assert lucid.tensor(array[::-1], device="gpu").data.tolist() == [2.5, 1]
    model = nn.BatchNorm1d(3, dtype=name, device="gpu")
    state = model.state_dict()
    assert state["running_var"].dtype.name == name
    nn.BatchNorm1d(3).load_state_dict(state)
    model.load_state_dict(nn.BatchNorm1d(3).state_dict())
    assert model.running_var.dtype == dtype
    assert nn.Linear(2, 2, device="gpu").to(name).weight.dtype == dtype


def test_bfloat16_without_ml_dtypes(monkeypatch):
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    x = lucid.tensor([1.0, 2.0], dtype="bfloat16", device="gpu")
    with pytest.raises(TypeError, match=r"pip install ml_dtypes.*astype"):
        x.numpy()


def test_autocast():
    x, w = (lucid.tensor(np.ones((3, 3), "f4"), device="gpu") for _ in range(2))
    with lucid.autocast("bfloat16"):
        assert (x @ w).dtype == mx.bfloat16
        assert lucid.mean(x.data).dtype == mx.bfloat16
        half = x.astype("float16")
        assert half.sum().dtype == mx.float32
        assert F.batch_norm(half.data, None, None, training=True).dtype == mx.float32


def test_float64_is_refused_on_a_gpu(monkeypatch):
    monkeypatch.setattr(mlx_numpy, "on_gpu", lambda: True)
    for make in (
        lambda: lucid.tensor([1.0], device="gpu"),
        lambda: lucid.tensor([1.0]).to("gpu"),
        lambda: lucid.as_tensor(mx.ones(3)).astype(np.float64),
        lambda: nn.Linear(2, 2, dtype=float, device="gpu"),
        lambda: nn.Linear(2, 2, dtype=float).to("gpu"),
    ):
        with pytest.raises(TypeError, match=r"float64.*cast to float32"):
            make()
    assert lucid.tensor([1.0], dtype="float32", device="gpu").dtype == mx.float32


@pytest.mark.parametrize("dtype", ["complex128", "longdouble", "object", "U1"])
def test_types_that_mlx_does_not_have(dtype):
    with pytest.raises(TypeError, match=r"gpu: there is no .* in MLX"):
        lucid.tensor(np.zeros(2, dtype), device="gpu")


def test_devices_do_not_mix():
    cpu, gpu = lucid.tensor(np.ones(3, "f4"), True), lucid.tensor(np.ones(3, "f4"), device="gpu")
    array, foreign = np.ones(3, "f4"), mx.ones(3)
    for mix in (
        lambda: cpu * gpu,
        lambda: gpu - cpu,
        lambda: array * gpu,
        lambda: gpu / array,
        lambda: cpu + foreign,
        lambda: cpu @ gpu,
        lambda: np.maximum(cpu, gpu),
        lambda: np.concatenate([cpu, gpu]),
        lambda: np.where(array > 0, gpu, gpu),
        lambda: gpu == array,
        lambda: np.isclose(gpu, cpu),
        lambda: F.linear(gpu, np.ones((2, 3), "f4")),
    ):
        with pytest.raises(TypeError, match="must be on one device, got cpu and gpu"):
            mix()


def test_lists_are_on_no_device():
    x = lucid.tensor([1.0, 2.0], True, dtype="float32", device="gpu")
    for y in (
        x * [1.0, 2.0],
        (1, 2) - x,
        np.maximum(x, [0, 5]),
        np.clip(x, [0.0, 0], [1.5, 1.5]),
        np.where([True, False], x, [0, 1.5]),
        np.concatenate([x, [0.5]]),
        np.stack([[0.5, 1], x]),
        x @ [1.0, 2.0],
        np.einsum("i,i->i", x, [1, 2]),
        np.dot(x, 2.0),
        np.outer(np.float64(2), x),
        F.linear(x, [[1.0, 2.0]], [0.5]),
        F.batch_norm(x[:, None], None, None, [2.0], [0.5], training=True),
    ):
        assert (y.device, y.dtype, y.requires_grad) == ("gpu", mx.float32, True)
        y.backward(np.ones(y.shape).tolist())
    assert (x == [1, 2]).data.tolist() == [True, True]
    with pytest.raises(TypeError, match=r"np\.stack"):
        x * [lucid.tensor(1.0), 2.0]


def test_an_mlx_array_first():
    array, x = mx.ones(2), lucid.tensor([1.0, 2.0], True, dtype="float32", device="gpu")
    for operation in (lambda: array * x, lambda: array - x, lambda: mx.array(x)):
        with pytest.raises(TypeError, match=r"mlx: a Tensor that requires grad.*put it first"):
            operation()
    with pytest.raises(TypeError, match=r"mlx: a Tensor on the cpu"):
        array * x.detach().to("cpu")
    y = array + x.detach()
    assert (type(y), y.tolist()) == (mx.array, [2, 3])
    assert np.multiply(array, x).requires_grad


def test_a_function_does_not_leave_the_device():
    class Hypotenuse(lucid.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return np.hypot(x, 1.0)

    with pytest.raises(TypeError, match=r"Hypotenuse.forward: must return arrays on the device"):
        Hypotenuse.apply(lucid.tensor([1.0], device="gpu"))


OPERATORS = {
    np.add: operator.add,
    np.subtract: operator.sub,
    np.multiply: operator.mul,
    np.divide: operator.truediv,
    np.floor_divide: operator.floordiv,
    np.power: operator.pow,
}


@pytest.mark.parametrize("ufunc", OPERATORS)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "int32"])
def test_promotion_is_mlxs(ufunc, dtype):
    x, half = lucid.tensor([1, 2], dtype=dtype, device="gpu"), mx.array([2.0, 4.0], mx.float16)
    for other in (2, 0.5, half, mx.array([1, 2])):
        expected = OPERATORS[ufunc](x.data, other)
        for y in (OPERATORS[ufunc](x, other), ufunc(x, other)):
            assert y.dtype == expected.dtype
            np.testing.assert_allclose(y.astype("f4"), expected.astype(mx.float32), rtol=1e-6)


def test_gradients_are_real():
    x = lucid.tensor([1.0, 2.0], True, device="gpu")
    with pytest.raises(TypeError, match="backward: gradient must be real, got complex64"):
        x.backward(mx.array([1j, 1]))


def test_gradients_are_on_the_device_of_the_output():
    x = lucid.tensor(np.ones(3, "f4"), True, device="gpu")
    with pytest.raises(TypeError, match="gradient must be on the device of its output, gpu, got"):
        (x * 2).backward(np.ones(3, "f4"))
    (x * 2).backward(mx.ones(3))
    assert x.grad.data.tolist() == [2, 2, 2]


def test_numpy_scalars_are_on_no_device():
    x = lucid.tensor(np.float32([1, 2]), True, device="gpu")
    for y in (
        np.float64(2) * x,
        x * np.float32(2),
        x / np.float64(0.5),
        np.add(x, np.int64(1)) * 1,
    ):
        assert (y.device, y.dtype) == ("gpu", mx.float32)
        y.sum().backward()
    assert x.grad.data.tolist() == [7, 7]


def test_constants():
    x = lucid.tensor(np.float32([[3, 1], [2, 2]]), True, device="gpu")
    assert (x > 1).data.tolist() == [[True, False], [True, True]]
    assert (x == x).data.dtype == mx.bool_
    assert np.argmax(x, axis=1).data.tolist() == [0, 0]
    assert np.argsort(x, axis=0).data.tolist() == [[1, 0], [0, 1]]
    assert (np.shape(x), np.ndim(x), np.size(x)) == ((2, 2), 2, 4)
    assert np.isfinite(x).all().item() is True
    assert np.allclose(x, x).item() is True
    assert np.zeros_like(x).device == "gpu"
    assert [i.data.tolist() for i in np.nonzero(x > 1)] == [[0, 1, 1], [0, 0, 1]]
    with pytest.raises(TypeError, match="there is no rule for the gpu"):
        np.digitize(x, [1.0])


def test_indices():
    x = lucid.tensor(np.arange(6, dtype="f4").reshape(2, 3), True, device="gpu")
    i = lucid.tensor([1, 0, 1], device="gpu")
    y = x[i]
    i.copy_(0)
    y.sum().backward()
    assert x.grad.data.tolist() == [[1, 1, 1], [2, 2, 2]]
    for index in (2, (0, 3), [0, 5], (slice(None), [-4]), (0, 0, 0)):
        with pytest.raises(IndexError):
            x[index]


def test_functions_of_mlx_arrays():
    x = rng.standard_normal((4, 3)).astype("f4")
    labels = np.array([0, 2, 1, 1])
    weight = rng.standard_normal((2, 3)).astype("f4")
    for function, args in [
        (F.relu, ()),
        (F.softmax, ()),
        (F.log_softmax, (0,)),
        (F.cross_entropy, (labels,)),
        (F.mse_loss, (x[::-1].copy(),)),
        (F.linear, (weight,)),
    ]:
        here = [mx.array(a) if isinstance(a, np.ndarray) and a is not labels else a for a in args]
        y = function(mx.array(x), *here)
        assert isinstance(y, mx.array)
        np.testing.assert_allclose(np.array(y), function(x, *args), rtol=1e-5, atol=1e-6)
    on_gpu = F.cross_entropy(mx.array(x), mx.array(labels))
    np.testing.assert_allclose(np.array(on_gpu), F.cross_entropy(x, labels), rtol=1e-5)

    def loss(t):
        return F.cross_entropy(t, labels)

    value, gradient = lucid.value_and_grad(loss)(mx.array(x))
    assert isinstance(gradient, mx.array)
    np.testing.assert_allclose(np.array(value), F.cross_entropy(x, labels), rtol=1e-5)
    product = lucid.hvp(loss)(mx.array(x), mx.array(x))
    expected = lucid.hvp(loss)(x.astype(float), x.astype(float))
    np.testing.assert_allclose(np.array(product), expected, atol=1e-5)


@pytest.mark.parametrize("dtype", [mx.int64, mx.int8, mx.uint32])
@pytest.mark.parametrize("wrong", [3, 100, -1])
def test_labels_out_of_range_give_nan(wrong, dtype):
    if wrong < 0 and dtype == mx.uint32:
        wrong += 2**32
    x = lucid.tensor(rng.standard_normal((3, 3)), True, dtype="float32", device="gpu")
    labels = mx.array([0, wrong, 2], dtype)
    losses = F.cross_entropy(x, labels, "none")
    assert np.isnan(losses.detach().numpy()).tolist() == [False, True, False]
    assert np.isnan(F.cross_entropy(x, labels).item())
    losses.sum().backward()
    assert x.grad.data[1].tolist() == [0, 0, 0]
    assert np.isfinite(x.grad).all()


def network(**options):
    return nn.Sequential(
        nn.Linear(4, 8, rng=0, **options), nn.BatchNorm1d(8, **options), nn.ReLU(),
        nn.Linear(8, 3, rng=1, **options),
    )  # fmt: skip


def test_modules_move():
    model = network(device="gpu")
    tensors = [*model.parameters(), *model.buffers()]
    assert {t.device for t in tensors} == {"gpu"}
    x, labels = rng.standard_normal((16, 4)).astype("f4"), rng.integers(0, 3, 16)
    other = network()
    for m, device in ((model, "gpu"), (other, "cpu")):
        for _ in range(3):
            m.zero_grad()
            F.cross_entropy(m(lucid.tensor(x, device=device)), labels).backward()
            for p in m.parameters():
                p.copy_(p.data - 0.1 * p.grad.data)
    state, expected = model.state_dict(), other.state_dict()
    for name, value in expected.items():
        assert isinstance(state[name], np.ndarray)
        assert state[name].dtype == value.dtype
        np.testing.assert_allclose(state[name], value, rtol=1e-4, atol=1e-5)
    gradients = [p.grad.numpy() for p in model.parameters()]
    assert model.to("cpu") is model
    assert [*model.parameters(), *model.buffers()] == tensors
    assert {t.device for t in tensors} == {"cpu"}
    for p, g in zip(model.parameters(), gradients, strict=True):
        np.testing.assert_array_equal(p.grad, g)
    for name, value in model.to("gpu").state_dict().items():
        np.testing.assert_array_equal(value, state[name])
    fresh = network(device="gpu")
    fresh.load_state_dict(state)
    for name, value in fresh.state_dict().items():
        np.testing.assert_array_equal(value, state[name])
    with pytest.raises(TypeError, match=r"one device|device of input"):
        model(lucid.tensor(x))


def test_cumulative_statistics():
    x = rng.standard_normal((3, 16, 2)).astype("f4")
    bn = nn.BatchNorm1d(2, momentum=None, device="gpu")
    for batch in x:
        bn(mx.array(batch))
    assert bn.num_batches_tracked.item() == 3
    np.testing.assert_allclose(bn.running_mean.numpy(), x.mean(axis=(0, 1)), atol=1e-6)


def test_without_mlx():
    program = (
        "import sys; sys.modules['mlx'] = sys.modules['mlx.core'] = None\n"
        "import lucid\n"
        "try: lucid.tensor([1.0], device='gpu')\n"
        "except ImportError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-P", "-c", program], capture_output=True, text=True)
    assert "pip install 'lucid-numpy[mlx]'" in done.stdout, done.stderr


def test_mlx_is_imported_when_it_is_used():
    program = "import sys, lucid; print('mlx.core' in sys.modules)"
    done = subprocess.run([sys.executable, "-P", "-c", program], capture_output=True, text=True)
    assert done.stdout.strip() == "False", done.stderr
