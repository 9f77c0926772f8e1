"""The Tensor itself: making, writing, copying, converting."""

import copy
import importlib.util
import math
import pickle
import re

import numpy as np
import pytest

import lucid
from lucid._tensor import dtype_name


def test_tensor_copies_and_as_tensor_does_not():
    a = np.arange(3.0)
    t, s = lucid.tensor(a), lucid.as_tensor(a)
    a[0] = 9
    assert t.data[0] == 0
    assert s.data is a
    assert lucid.as_tensor(s) is s
    assert lucid.Tensor(s).data is not a
    assert lucid.tensor([1, 2]).dtype == np.int64
    assert lucid.tensor(1.5).shape == ()


@pytest.mark.parametrize("make", [lucid.tensor, lucid.Tensor])
def test_a_copy_that_would_lose_the_gradient_is_refused(make, tensor):
    x = tensor([1.0], requires_grad=True)
    for t in (x, x * 2):
        with pytest.raises(TypeError, match=r"tensor: data must not require grad.*detach\(\)"):
            make(t)
        assert make(t.detach()).item() == t.item()


@pytest.mark.parametrize("make", [lucid.tensor, lucid.Tensor])
def test_memory_order_is_kept(make):
    nchw = np.zeros((2, 4, 4, 3)).transpose(0, 3, 1, 2)
    assert make(nchw).data.strides == nchw.strides
    assert make(np.asfortranarray(np.ones((3, 2)))).data.flags.f_contiguous


def test_attributes(tensor, device):
    t = tensor(np.ones((2, 3), np.float32), requires_grad=True)
    assert (t.shape, t.ndim, t.size, t.device) == ((2, 3), 2, 6, device)
    assert dtype_name(t.dtype) == "float32"
    assert t.is_leaf
    assert t.grad is None
    assert t.grad_fn is None
    assert len(t) == 2
    assert t.T.shape == (3, 2)


@pytest.mark.parametrize("data", [[1, 2], [True]])
def test_requires_grad_needs_floating_point(data, tensor):
    with pytest.raises(TypeError, match="requires_grad: dtype must be real floating point"):
        tensor(data, requires_grad=True)
    t = tensor(data)
    with pytest.raises(TypeError, match="requires_grad"):
        t.requires_grad = True


@pytest.mark.parametrize("data", [[1j], ["a"], [None]])
def test_requires_grad_needs_real_numbers(data):
    with pytest.raises(TypeError, match="requires_grad: dtype must be real floating point"):
        lucid.tensor(data, requires_grad=True)


def test_requires_grad_of_results(tensor):
    x = tensor([1.0], requires_grad=True)
    y = x * 2
    with pytest.raises(RuntimeError, match="leaves only, this Tensor was computed by Multiply"):
        y.requires_grad = False
    d = y.detach()
    d.requires_grad = True
    assert d.data is y.data
    assert y.requires_grad
    x.requires_grad = False
    assert not (x * 2).requires_grad


def test_becoming_an_array():
    x = lucid.tensor([1.0, 2.0], requires_grad=True)
    y = x.detach()
    assert np.asarray(y) is y.data
    assert y.numpy() is y.data
    assert np.array(y, dtype=np.float32).dtype == np.float32
    assert np.array(y) is not y.data
    for convert in (np.asarray, np.array, lambda t: np.array([t, t]), lambda t: t.numpy()):
        with pytest.raises(TypeError, match=r"requires grad.*detach\(\).*np.stack"):
            convert(x)
    with lucid.no_grad(), pytest.raises(TypeError, match="requires grad"):
        np.asarray(x)


def test_numbers(tensor):
    x = tensor([[2.5]], requires_grad=True)
    assert (x.item(), bool(x)) == (2.5, True)
    c = x.detach()
    assert (float(c), int(c), complex(c)) == (2.5, 2, 2.5)
    assert [10, 20, 30][np.argmax(tensor([0.0, 3.0, 1.0]))] == 20
    with pytest.raises(ValueError, match=r"truth value|length-1"):  # NumPy's, MLX's
        bool(tensor([1.0, 2.0]))


@pytest.mark.parametrize(
    "convert",
    [
        float,
        int,
        complex,
        math.exp,
        math.floor,
        np.float64,
        lambda t: np.ones(3).__setitem__(0, t),
        lambda t: np.ones(3).fill(t),
        lambda t: np.sum(np.ones(2), initial=t),
        lambda t: np.max(np.ones(2), initial=t),
        lambda t: np.full(2, t),
        lambda t: np.linspace(0, t, 3).dtype.type(t),
    ],
)
def test_a_number_that_would_lose_the_gradient_is_refused(convert, tensor):
    x = tensor(1.5, requires_grad=True)
    for t in (x, x * 2):
        with pytest.raises((TypeError, ValueError)) as error, lucid.no_grad():
            convert(t)
        # Where NumPy raises an error of its own, ours is the cause.
        message = str(error.value.__cause__ or error.value)
        assert re.search(r"requires grad.*detach\(\)|there is no rule", message)


def test_format(tensor):
    x = tensor(1.5, requires_grad=True)
    assert f"{x:.2f} {x.detach():5.1f} {tensor(3):03d}" == "1.50   1.5 003"
    assert f"{x}" == str(x) == repr(x)
    with pytest.raises(TypeError, match="format"):
        f"{tensor([1.0]):.2f}"


@pytest.mark.parametrize("make", [lucid.tensor, lucid.as_tensor, lucid.Tensor])
@pytest.mark.parametrize("requires_grad", [False, True])
def test_lists_of_tensors_are_refused(make, requires_grad, tensor):
    t = tensor(1.0, requires_grad=requires_grad)
    for data in ([t, t], (t,), [[1.0, 2.0], [3.0, t]], [1.0, t], [lucid.nn.Parameter([1.0])]):
        with pytest.raises(TypeError, match=r"tensor: data must be an array.*np\.stack"):
            make(data)
    assert make([[1, 2], (3, 4)]).shape == (2, 2)


@pytest.mark.parametrize("make", [lucid.tensor, lucid.as_tensor, lucid.Tensor])
def test_masks_are_not_dropped(make):
    masked = np.ma.masked_array([1.0, 2.0], [True, False])
    with pytest.raises(TypeError, match="tensor: data must not be a masked array"):
        make(masked)
    with pytest.raises(TypeError, match="masked array"):
        make([1.0, 2.0]) * masked


@pytest.mark.parametrize("dtype", [">f2", ">f4", ">f8"])
def test_what_requires_grad_is_in_native_byte_order(dtype):
    array = np.arange(4, dtype=dtype)
    assert lucid.as_tensor(array).data is array
    native = array.dtype.newbyteorder("=")
    t = lucid.as_tensor(array)
    t.requires_grad = True
    for x in (t, lucid.tensor(array, requires_grad=True)):
        assert x.dtype == native
        y = x.astype(dtype)
        assert y.dtype == native
        (g,) = lucid.grad(y.sum(), x)
        assert g.dtype == native
    np.testing.assert_array_equal(t.data, array)


def test_copy_(tensor):
    x = tensor([1.0, 2.0], requires_grad=True)
    data = x.data
    assert x.copy_(3) is x
    assert x.data is data
    np.testing.assert_array_equal(data, [3.0, 3.0])
    x.copy_(tensor([1.0, 2.0]))
    with pytest.raises(RuntimeError, match="copy_: source must not require grad"):
        x.detach().copy_(x)
    with pytest.raises(RuntimeError, match="copy_: Tensor must be a leaf, got a result of Mul"):
        (x * 2).copy_([1, 2])
    with pytest.raises(ValueError, match="broadcast"):
        x.copy_([1.0, 2.0, 3.0])
    np.testing.assert_array_equal(data, [1.0, 2.0])


def test_data_is_writable():
    x = lucid.tensor([1.0, 2.0], requires_grad=True)
    x.data[...] = [3, 4]
    x.data -= 1
    np.testing.assert_array_equal(x.data, [2.0, 3.0])


def test_another_array_as_data(tensor, array, device):
    x = tensor([1.0, 2.0], requires_grad=True)
    value = array([3.0, 4.0, 5.0])
    x.data = value
    assert x.data is value
    assert x.requires_grad
    x.data = tensor([6.0])
    np.testing.assert_array_equal(x.data, [6.0])
    x.data -= array([1.0])
    np.testing.assert_array_equal(x.data, [5.0])
    (x * x).sum().backward()
    assert x.grad.item() == 10.0
    if device == "cpu":
        x.data = np.float32(2)  # what arithmetic of 0-d arrays gives
        assert (type(x.data), x.shape, x.dtype) == (np.ndarray, (), np.float32)
        x.data = np.ones(2, ">f4")
        assert x.dtype.isnative


@pytest.mark.parametrize("kind", ["memmap", "read-only memmap", "matrix", "recarray"])
def test_data_is_an_exact_array_whatever_is_assigned(kind, tmp_path):
    np.full((2, 3), 2.0).tofile(tmp_path / "m")
    value = {
        "memmap": lambda: np.memmap(tmp_path / "m", float, "r+", shape=(2, 3)),
        "read-only memmap": lambda: np.memmap(tmp_path / "m", float, "r", shape=(2, 3)),
        "matrix": lambda: np.full((2, 3), 2.0).view(np.matrix),
        "recarray": lambda: np.full((2, 3), 2.0).view(np.recarray),
    }[kind]()
    x, c = lucid.tensor(np.ones((2, 3)), requires_grad=True), lucid.tensor(np.ones((2, 3)))
    x.data = c.data = value
    copies = (copy.copy(x), copy.deepcopy(x), pickle.loads(pickle.dumps(x)))
    for t in (x, c, lucid.as_tensor(value), c.detach(), *copies):
        assert type(t.data) is np.ndarray
        np.testing.assert_array_equal(t.data, np.full((2, 3), 2.0))
    assert np.shares_memory(x.data, value)
    assert x.data.flags.writeable == value.flags.writeable
    rebuild, (cls, _, *rest), _ = x.__reduce__()
    assert type(rebuild(cls, value, *rest).data) is np.ndarray


def test_data_refuses_what_is_no_array_or_loses_something(tensor, array, device):
    x, c, t = tensor([1.0, 2.0], requires_grad=True), tensor([1.0, 2.0]), tensor([3.0, 4.0])
    t.requires_grad = True
    elsewhere = []
    if importlib.util.find_spec("mlx"):
        other = lucid.tensor([1.0], device="gpu" if device == "cpu" else "cpu").data
        elsewhere = [
            (other, TypeError, rf"on the device of the Tensor, {device}, got .*; use to\(\)")
        ]
    masked = np.ma.masked_array([1.0, 2.0], [True, False])
    for value, error, match in (
        (t, RuntimeError, r"value must not require grad; use detach\(\)"),
        (t * 2, RuntimeError, r"value must not require grad; use detach\(\)"),
        ([1.0, 2.0], TypeError, "value must be an array, got list"),
        ([t, t], TypeError, "value must be an array, got list"),
        (None, TypeError, "value must be an array, got NoneType"),
        (1.0, TypeError, "value must be an array, got float"),
        *elsewhere,
        (masked, TypeError, "must not be a masked array"),
    ):
        for tensor_ in (x, c):
            before = tensor_.data
            with pytest.raises(error, match=f"^data: .*{match}"):
                tensor_.data = value
            assert tensor_.data is before
    with pytest.raises(TypeError, match=r"^data: value must be real floating .* got int64"):
        x.data = array([1, 2])
    c.data = array([1, 2])
    with pytest.raises(NotImplementedError):
        del x.data
    y = x * 2
    for value in (array([1.0]), array([1.0, 2.0], dtype="f4")):
        with pytest.raises(RuntimeError, match=r"^data: value must have the shape \(2,\)"):
            y.data = value
    np.testing.assert_array_equal(y.data, [2.0, 4.0])
    y.data = array([5.0, 6.0])  # the gradient passes straight through
    (y * y).sum().backward()
    np.testing.assert_array_equal(x.grad.data, [20.0, 24.0])


def test_data_of_a_class_without_instance():
    assert lucid.Tensor.data is lucid.Tensor.__dict__["data"]
    assert "stored array" in lucid.Tensor.data.__doc__


@pytest.mark.parametrize(
    "duplicate", [copy.copy, copy.deepcopy, lambda t: pickle.loads(pickle.dumps(t))]
)
def test_copying_leaves(duplicate):
    x = lucid.tensor(np.arange(6.0).reshape(2, 3).T, requires_grad=True)
    (x * x).sum().backward()
    y = duplicate(x)
    assert type(y) is lucid.Tensor
    assert y.requires_grad
    assert y.data.flags.f_contiguous
    np.testing.assert_array_equal(y.data, x.data)
    np.testing.assert_array_equal(y.grad.data, x.grad.data)
    if duplicate is copy.copy:
        z = (x * x).sum()
        y.copy_(0)
        with pytest.raises(RuntimeError, match="changed since by copy_"):
            z.backward()
    else:
        assert not np.shares_memory(y.data, x.data)
        y.copy_(0)
        assert x.data[0, 1] == 3
    with pytest.raises(TypeError, match="computed by MultiplyBackward can't be pickled"):
        duplicate(x * 2)


def test_subclass_survives_copying():
    class Weight(lucid.Tensor):
        """With attributes of its own."""

    w = Weight([1.0], requires_grad=True)
    w.label = "w"
    for y in (copy.deepcopy(w), copy.copy(w)):
        assert type(y) is Weight
        assert y.label == "w"
        assert y.requires_grad
    assert type(w * 2) is lucid.Tensor


def test_tensors_are_keys_by_identity(tensor):
    x, y = tensor([1.0, 2.0]), tensor([1.0, 2.0])
    assert {x: "x", y: "y"}[x] == "x"


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: lucid.tensor([1.0, 2.5]), "tensor([1. , 2.5])"),
        (lambda: lucid.tensor([1, 2]), "tensor([1, 2])"),
        (lambda: lucid.tensor([1.0], dtype="f4"), "tensor([1.], dtype=float32)"),
        (lambda: lucid.tensor(1.0, requires_grad=True), "tensor(1., requires_grad=True)"),
        (
            lambda: lucid.tensor([[1.0], [2.0]], requires_grad=True) * 1,
            "tensor([[1.],\n        [2.]], grad_fn=<MultiplyBackward>)",
        ),
    ],
)
def test_repr(make, text):
    assert repr(make()) == text


def test_to_and_astype():
    x = lucid.tensor([1.5, 2.5], requires_grad=True)
    assert x.to("cpu") is x
    assert x.astype(float) is x
    assert x.to(np.float32).dtype == np.float32
    assert x.astype("f2").requires_grad
    y = x.astype(int)
    assert (y.dtype, y.requires_grad) == (np.dtype(int), False)
    x.astype(np.float32).sum().backward()
    assert x.grad.dtype == np.float64


@pytest.mark.parametrize("target", ["cuda", "float31", "gpu:0"])
def test_unknown_device(target):
    message = f"to: target must be a device, 'cpu' or 'gpu', or a dtype, got '{target}'"
    with pytest.raises(ValueError, match=message):
        lucid.tensor([1.0]).to(target)
    with pytest.raises(ValueError, match=message):
        lucid.tensor([1.0], device=target)


def test_memmap(tmp_path):
    m = np.memmap(tmp_path / "m", np.float32, "w+", shape=(3,))
    m[:] = [1, 2, 3]
    x = lucid.as_tensor(m)
    assert (x * 2).dtype == np.float32
    np.testing.assert_array_equal(np.sum(x * x).data, 14)
