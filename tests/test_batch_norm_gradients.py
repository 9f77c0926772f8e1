"""Gradients of `F.batch_norm`, first and second order."""

import batch_norm_reference as reference
import numpy as np
import pytest

import lucid
import lucid.nn.functional as F
from lucid._tensor import dtype_name
from lucid.autograd import gradcheck, gradgradcheck

rng = np.random.default_rng(0)
SHAPES = [(5, 3), (4, 3, 6), (3, 3, 2, 4), (2, 3, 2, 2, 3)]
MODES = [True, False]


@pytest.fixture
def operands(leaf):
    """Input, weight and bias as leaves; None for the latter two if not affine."""

    def operands(shape, affine=True, dtype="f8"):
        x = leaf(rng.normal(1, 2, size=shape).astype(dtype))
        if not affine:
            return x, None, None
        return x, leaf(rng.normal(size=3).astype(dtype)), leaf(rng.normal(size=3).astype(dtype))

    return operands


@pytest.fixture
def normalizer(array):
    """`F.batch_norm` with fresh running statistics, as gradcheck needs a pure function."""

    def normalizer(training, **options):
        mean, var = rng.normal(size=3), rng.uniform(1, 2, size=3)
        return lambda *xwb: F.batch_norm(
            xwb[0], array(mean), array(var), *xwb[1:], training=training, **options
        )

    return normalizer


@pytest.mark.parametrize("check", [gradcheck, gradgradcheck])
@pytest.mark.parametrize("affine", [True, False], ids=["affine", "plain"])
@pytest.mark.parametrize("training", MODES, ids=["training", "evaluation"])
@pytest.mark.parametrize("shape", SHAPES, ids=len)
def test_gradcheck(shape, training, affine, check, operands, normalizer):
    inputs = [t for t in operands(shape, affine) if t is not None]
    assert check(normalizer(training), tuple(inputs))


@pytest.mark.parametrize("check", [gradcheck, gradgradcheck])
@pytest.mark.parametrize("axis", [0, 2, -1])
def test_gradcheck_channel_axis(axis, check, operands, normalizer):
    shape = [4, 5, 6]
    shape[axis] = 3
    assert check(normalizer(True, channel_axis=axis), operands(tuple(shape)))


@pytest.mark.parametrize("check", [gradcheck, gradgradcheck])
@pytest.mark.parametrize("training", MODES)
def test_gradcheck_layouts(training, check, leaf, device, operands, normalizer):
    x, weight, bias = operands((4, 3, 5, 6))
    host = np.array(x.data)
    layouts = {
        "channels-last": np.moveaxis(np.ascontiguousarray(np.moveaxis(host, 1, -1)), -1, 1),
        "fortran": np.asfortranarray(host),
    }
    for values in layouts.values():
        same = leaf(values)
        assert device == "gpu" or same.data.strides == values.strides
        assert check(normalizer(training), (same, weight, bias))
    # A view inside the function: the gradient of batch norm comes in another layout than x.
    function = normalizer(training)
    assert check(lambda x, w, b: function(x.transpose(0, 1, 3, 2)[::-1], w, b), (x, weight, bias))


@pytest.mark.parametrize("check", [gradcheck, gradgradcheck])
def test_weight_zero(check, operands, normalizer):
    x, weight, bias = operands((5, 3))
    weight.data[...] = 0
    assert check(normalizer(True), (x, weight, bias))


@pytest.mark.parametrize("training", MODES)
@pytest.mark.parametrize("shape", SHAPES, ids=len)
def test_float32_against_longdouble(shape, training, array, operands):
    x, weight, bias = operands(shape, dtype="f4")
    dy = rng.normal(size=shape).astype("f4")
    statistics = {}
    mean, var = rng.normal(size=3), rng.uniform(1, 2, size=3)
    if not training:
        statistics = {"mean": mean, "var": var}
    y = F.batch_norm(x, array(mean), array(var), weight, bias, training=training)
    y.backward(array(dy))
    expected = reference.backward(dy, x.data, weight.data, **statistics)
    # The bound of y's, times the size of the sums for weight and bias.
    scale = max(1, np.abs(np.array(weight.data)).max())
    terms = x.size // 3
    for t, reference_grad, bound in zip(
        (x, weight, bias), expected, (scale, np.sqrt(terms), np.sqrt(terms)), strict=True
    ):
        assert dtype_name(t.grad.dtype) == "float32"
        assert np.abs(t.grad.numpy() - reference_grad).max() <= 4e-6 * bound


@pytest.mark.parametrize("layout", ["NCHW", "channels-last", "every other"])
@pytest.mark.parametrize(("mean", "std"), [(0, 1), (1e2, 1e-2), (1e4, 1), (1e6, 1)])
def test_accuracy_at_an_offset(mean, std, layout, isa):
    values = rng.normal(mean, std, size=(16, 3, 10, 10)).astype("f4")
    if layout == "channels-last":
        values = np.moveaxis(np.ascontiguousarray(np.moveaxis(values, 1, -1)), -1, 1)
    elif layout == "every other":
        values = np.repeat(values, 2, axis=-1)[..., ::2]
    x = lucid.as_tensor(values)  # no copy, which would not keep gaps between elements
    x.requires_grad = True
    weight, bias = (lucid.tensor(v, True, "f4") for v in ([1, -2, 0.5], [0, 0, 0]))
    dy = rng.normal(size=x.shape).astype("f4")
    y = F.batch_norm(x, None, None, weight, bias, training=True, eps=1e-12)
    y.backward(dy)
    expected = reference.backward(dy, values, weight.data, eps=1e-12)
    for t, reference_grad in zip((x, weight, bias), expected, strict=True):
        error = np.abs(t.grad.data - reference_grad).max()
        assert error <= 4e-6 * max(1, np.abs(reference_grad).max())


def test_huge_values(leaf, array):
    x = leaf((rng.normal(size=(8, 3, 4)) * 1e30).astype("f4"))
    weight = leaf(np.ones(3, "f4"))
    dy = rng.normal(size=x.shape).astype("f4")
    F.batch_norm(x, None, None, weight, training=True).backward(array(dy))
    dx, dweight, _ = reference.backward(dy, x.data, np.ones(3))
    np.testing.assert_allclose(weight.grad.data, dweight.astype(float), rtol=1e-5)
    assert np.abs(x.grad.numpy() - dx).max() <= 1e-5 * np.abs(dx).max()


def test_each_gradient_has_its_own_dtype(leaf, array):
    x, weight, bias = leaf(np.ones((4, 3), "f2")), leaf(np.ones(3, "f8")), leaf(np.zeros(3, "f4"))
    y = F.batch_norm(x, None, None, weight, bias, training=True)
    assert dtype_name(y.dtype) == "float16"
    y.backward(array(np.ones((4, 3), "f2")))
    found = [dtype_name(t.grad.dtype) for t in (x, weight, bias)]
    assert found == ["float16", "float64", "float32"]


@pytest.mark.parametrize("wanted", [(1, 0, 0), (0, 1, 0), (0, 0, 1), (0, 1, 1), (1, 0, 1)])
@pytest.mark.parametrize("training", MODES)
def test_any_subset_of_gradients(wanted, training, array, operands, normalizer):
    tensors = operands((5, 3))
    function, dy = normalizer(training), array(rng.normal(size=(5, 3)))
    expected = lucid.grad(function(*tensors), tensors, dy)
    some = [t if w else t.detach() for t, w in zip(tensors, wanted, strict=True)]
    inputs = [t for t, w in zip(some, wanted, strict=True) if w]
    chosen = [e for e, w in zip(expected, wanted, strict=True) if w]
    for found in (
        lucid.grad(function(*some), inputs, dy),  # the others are constants
        lucid.grad(function(*tensors), [t for t, w in zip(tensors, wanted, strict=True) if w], dy),
    ):
        for a, b in zip(found, chosen, strict=True):
            np.testing.assert_array_equal(a.numpy(), b.numpy())


def test_integer_input_is_a_constant(leaf, array):
    weight = leaf(np.ones(3))
    x = rng.integers(0, 9, size=(6, 3))
    y = F.batch_norm(array(x), None, None, weight, training=True)
    y.backward(array(np.ones((6, 3), "f4")))
    np.testing.assert_allclose(weight.grad.data, 0, atol=1e-6)


@pytest.mark.parametrize("training", MODES)
def test_writing_to_parameters_and_buffers_never_changes_the_gradient(
    training, leaf, tensor, array, operands
):
    x, weight, bias = operands((5, 3))
    dy = rng.normal(size=(5, 3))
    vs = [array(rng.normal(size=t.shape)) for t in (x, weight, bias)]

    def derivatives(write):
        mean, var = tensor(np.zeros(3)), tensor(np.ones(3))
        w, b, g = leaf(weight.data), leaf(bias.data), leaf(dy)
        y = F.batch_norm(x, mean, var, w, b, training=training)
        if write:
            w.copy_(np.full(3, 7.0))
            b.data[...] = 8
            mean.data[...] = 5
            var.copy_(np.full(3, 6.0))
        first = lucid.grad(y, (x, w, b), g, create_graph=True)
        if write:
            w.data[...] = -3
        return (*first, *lucid.grad(first, (x, w, g), vs))

    for a, b in zip(derivatives(False), derivatives(True), strict=True):
        np.testing.assert_array_equal(a.detach().numpy(), b.detach().numpy())


def test_writing_to_the_input_is_noticed(array, operands):
    x, weight, bias = operands((5, 3))
    y = F.batch_norm(x, None, None, weight, bias, training=True)
    x.copy_(np.zeros((5, 3)))
    with pytest.raises(RuntimeError, match=r"BatchNorm1dBackward.*changed"):
        y.backward(array(np.ones((5, 3))))


def test_writing_to_running_statistics_used_elsewhere_is_noticed(leaf, tensor, array):
    mean, var, p = tensor(np.ones(3)), tensor(np.ones(3)), leaf(np.ones(3))
    loss = np.sum(mean * p)
    F.batch_norm(array(rng.normal(size=(5, 3))), mean, var, training=True)
    with pytest.raises(RuntimeError, match="changed"):
        loss.backward()


def test_one_node_for_each_order(leaf, operands):
    x, weight, bias = operands((3, 3, 2, 4))
    y = F.batch_norm(x, None, None, weight, bias, training=True)
    assert y.grad_fn.name == "BatchNorm2dBackward"
    dx, *_ = lucid.grad(y, (x, weight, bias), leaf(np.ones(y.shape)), create_graph=True)
    assert dx.grad_fn.name == "BatchNorm2dGradBackward"
    (ddx,) = lucid.grad(np.sum(dx * dx), x, create_graph=True)
    assert ddx.shape == x.shape


def test_third_order_is_refused(operands):
    x, weight, bias = operands((3, 3))
    y = F.batch_norm(x, None, None, weight, bias, training=True)
    (dx,) = lucid.grad(np.sum(y**3), x, create_graph=True)
    (ddx,) = lucid.grad(np.sum(dx**2), x, create_graph=True)
    with pytest.raises(NotImplementedError, match="batch_norm1d: derivatives of third order"):
        lucid.grad(np.sum(ddx**2), x)


def test_shared_weight_and_input(array, operands):
    """The same Tensor as weight and bias gets both gradients."""
    x, both, _ = operands((5, 3))
    dy = rng.normal(size=(5, 3))
    F.batch_norm(x, None, None, both, both, training=True).backward(array(dy))
    _, dweight, dbias = reference.backward(dy, x.data, both.data)
    np.testing.assert_allclose(both.grad.data, (dweight + dbias).astype(float), rtol=1e-12)


def test_weight_may_be_computed(operands, normalizer):
    x, raw, _ = operands((5, 3))
    function = normalizer(True)
    assert gradgradcheck(lambda x, raw: function(x, np.exp(raw), raw * raw), (x, raw))


def test_no_graph_without_need(operands):
    x, weight, bias = operands((5, 3))
    with lucid.no_grad():
        assert F.batch_norm(x, None, None, weight, bias, training=True).grad_fn is None
    assert F.batch_norm(x.detach(), None, None, training=True).grad_fn is None


@pytest.mark.parametrize("training", MODES)
def test_against_torch(training, leaf, array, operands):
    torch = pytest.importorskip("torch")
    x, weight, bias = operands((4, 3, 5))
    g = leaf(rng.normal(size=x.shape))
    mean, var = rng.normal(size=3), rng.uniform(1, 2, size=3)
    mine = [array(mean), array(var)]
    theirs = [torch.tensor(mean), torch.tensor(var)]
    peers = [torch.tensor(t.detach().numpy(), requires_grad=True) for t in (x, weight, bias, g)]
    y = F.batch_norm(x, *mine, weight, bias, training)
    y_peer = torch.nn.functional.batch_norm(peers[0], *theirs, *peers[1:3], training)
    first = lucid.grad(y, (x, weight, bias), g, create_graph=True)
    first_peer = torch.autograd.grad(y_peer, peers[:3], peers[3], create_graph=True)
    vs = [rng.normal(size=t.shape) for t in (x, weight, bias)]
    second = lucid.grad(first, (x, weight, g), [array(v) for v in vs])
    second_peer = torch.autograd.grad(
        first_peer, (peers[0], peers[1], peers[3]), [torch.tensor(v) for v in vs]
    )
    for a, b in zip(
        (*mine, y, *first, *second), (*theirs, y_peer, *first_peer, *second_peer), strict=True
    ):
        a = a.detach().numpy() if isinstance(a, lucid.Tensor) else a
        np.testing.assert_allclose(a, b.detach().numpy(), rtol=1e-10, atol=1e-10)
