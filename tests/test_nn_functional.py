"""The functions of `lucid.nn.functional` besides batch norm."""

import numpy as np
import pytest
from scipy import special

import lucid.nn.functional as F
from lucid._tensor import dtype_name
from lucid.autograd import gradcheck, gradgradcheck

rng = np.random.default_rng(0)
logits = rng.normal(size=(5, 4))
labels = np.array([0, 3, 2, 2, 1])


def test_relu(leaf, array):
    x = np.array([-np.inf, -1.0, -0.0, 0.0, 2.0, np.inf, np.nan])
    expected = [0, 0, 0, 0, 2, np.inf, np.nan]
    np.testing.assert_array_equal(F.relu(x), expected)
    t = leaf(x)
    y = F.relu(t)
    np.testing.assert_array_equal(y.data, expected)
    y.backward(array(np.ones(7)))
    np.testing.assert_array_equal(t.grad.data, [0, 0, 0, 0, 1, 1, 1])
    assert F.relu(x.astype("f4")).dtype == np.float32


def test_linear_without_bias():
    weight = rng.normal(size=(3, 4))
    np.testing.assert_array_equal(F.linear(logits, weight), logits @ weight.T)


def test_linear_takes_lists(leaf):
    weight = rng.normal(size=(3, 4))
    expected = logits @ weight.T + [1, 2, 3]
    np.testing.assert_array_equal(F.linear(logits.tolist(), weight.tolist(), [1, 2, 3]), expected)
    y = F.linear(leaf(logits), weight.tolist(), [1.0, 2, 3])
    np.testing.assert_allclose(y.data, expected, rtol=1e-15 * 8)  # of another order of sums


@pytest.mark.parametrize("shape", [(4,), (3, 5), (2, 3, 4), ()])
def test_linear_names_a_weight_that_does_not_fit(shape):
    with pytest.raises(ValueError, match=r"^linear: weight must .* input, of shape \(5, 4\), got"):
        F.linear(logits, np.ones(shape))


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("scale", [1, 1e3])
def test_softmax(axis, scale, leaf):
    x = logits * scale
    np.testing.assert_allclose(F.softmax(x, axis), special.softmax(x, axis), rtol=1e-12, atol=0)
    expected = special.log_softmax(x, axis)
    np.testing.assert_allclose(F.log_softmax(x, axis), expected, rtol=1e-12)
    np.testing.assert_allclose(F.log_softmax(leaf(x), axis).detach().numpy(), expected, rtol=1e-12)


@pytest.mark.parametrize("check", [gradcheck, gradgradcheck])
@pytest.mark.parametrize(
    "function",
    [
        F.softmax,
        F.log_softmax,
        lambda x: F.cross_entropy(x, labels),
        lambda x: F.cross_entropy(x, labels, reduction="none"),
        lambda x: F.mse_loss(x, x * x),
        lambda x: F.linear(x, x, x[:, 0]),
        F.relu,
    ],
)
def test_gradients(function, check, leaf):
    assert check(function, (leaf(logits),))


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_losses_against_torch(reduction):
    torch = pytest.importorskip("torch")
    peer, peer_labels = torch.tensor(logits), torch.tensor(labels)
    actual = F.cross_entropy(logits, labels, reduction)
    expected = torch.nn.functional.cross_entropy(peer, peer_labels, reduction=reduction)
    np.testing.assert_allclose(actual, expected.numpy(), rtol=1e-12)
    actual = F.mse_loss(logits, logits**2, reduction)
    expected = torch.nn.functional.mse_loss(peer, peer**2, reduction=reduction)
    np.testing.assert_allclose(actual, expected.numpy(), rtol=1e-12)


def test_cross_entropy_with_spatial_axes():
    x = rng.normal(size=(2, 4, 3, 5))
    target = rng.integers(0, 4, size=(2, 3, 5))
    losses = F.cross_entropy(x, target, reduction="none")
    assert losses.shape == target.shape
    expected = -special.log_softmax(x, axis=1)[1, target[1, 2, 4], 2, 4]
    np.testing.assert_allclose(losses[1, 2, 4], expected)
    assert check_mean(F.cross_entropy(x, target), losses)


def check_mean(value, losses):
    return np.isclose(value, np.mean(losses), rtol=1e-13)


def test_cross_entropy_far_apart(leaf):
    x = leaf(np.array([[1e4, 0.0], [0.0, 1e4]], "f4"))
    loss = F.cross_entropy(x, np.array([1, 1]), reduction="sum")
    assert loss.item() == 1e4
    loss.backward()
    np.testing.assert_array_equal(x.grad.data, [[1, -1], [0, 0]])
    assert dtype_name(loss.dtype) == "float32"


@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        (lambda: F.cross_entropy(logits, labels[:3]), ValueError, r"\(5, 4\) and target \(3,\)"),
        (lambda: F.cross_entropy(logits[0], labels[0]), ValueError, "without axis 1"),
        (lambda: F.cross_entropy(logits, labels + 1), ValueError, "between 0 and 3, got 1 to 4"),
        (lambda: F.cross_entropy(logits, labels - 1), ValueError, "between 0 and 3, got -1 to 2"),
        (lambda: F.cross_entropy(logits, labels * 1.0), TypeError, "class indices, got float64"),
        (lambda: F.cross_entropy(logits, labels, "max"), ValueError, "reduction .* got 'max'"),
        (lambda: F.mse_loss(logits, logits[0]), ValueError, r"mse_loss: .*\(5, 4\) and \(4,\)"),
    ],
)
def test_bad_input(call, error, match):
    with pytest.raises(error, match=match):
        call()
